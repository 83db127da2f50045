"""The search for a small candidate: families of edits are tried in turn until none of them finds a smaller one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from jaxprtool.analyses.reduction import equations, nesting, shapes, values
from jaxprtool.analyses.reduction.candidate import Candidate, Edit, is_well_typed
from jaxprtool.analyses.reduction.record import Values
from jaxprtool.analyses.reduction.rounds import Family
from jaxprtool.core.stack import deep, run_until, wanted
from jaxprtool.interpreters.evaluation.limits import limited_seconds
from jaxprtool.interpreters.evaluation.separate import separate
from jaxprtool.ir.diagnostics import JaxprToolError

__all__ = ["MODES", "Search"]

Test = Callable[[Candidate], bool]

_BISECT: dict[str, Family] = {"ends": equations.ends, "slices": equations.slices}
_LINEAR: dict[str, Family] = {
    "equations": equations.singles,
    "operands": equations.forwarded,
    "nested": nesting.inside,
}
_NESTED: dict[str, Family] = {"entered": nesting.entered, "opened": nesting.opened}
_STRUCTURE: dict[str, Family] = {
    "unused": equations.unused,
    "results": equations.results,
    "held": equations.held,
}
# The families that remove equations, by mode. All of one mode are tried again until nothing changes.
MODES: dict[str, dict[str, Family]] = {
    "bisect": {**_STRUCTURE, **_BISECT, **_NESTED},
    "linear": {**_STRUCTURE, **_LINEAR, **_NESTED},
    "both": {**_STRUCTURE, **_BISECT, **_NESTED, **_LINEAR},
}
_PLAIN: dict[str, Family] = {
    "shapes": shapes.shrunk,
    "params": values.plain_params,
    "values": values.plain_args,
}


@deep
def _applied(edit: Edit, candidate: Candidate) -> Candidate | None:
    """Apply an edit to a candidate; edits follow nested jaxprs to any depth."""
    return edit(candidate)


_FAULTS = (TypeError, ValueError, LookupError, AttributeError)


_LAST = 0.2  # seconds past the deadline for the step that is running


class _TimeIsUp(Exception):
    pass


@dataclass
class Search:
    """A search, and what it has found so far.

    Attributes:
      current: the smallest candidate so far that passes the test.
      test: whether a candidate is interesting.
      mode: how equations are removed, a key of `MODES`.
      deadline: when it ends, as `time.monotonic` gives it; None for no limit.
      jobs: how many candidates are tested at once; the result does not depend on it.
      max_bytes: how many bytes of values of a run may be kept.
      well_typed: whether candidates have to be well-typed.
      patience: how many seconds a test in this process may spend in loops, as other values may make
        one endless; None for any time.
      stop: ends the tests that run, where they are other processes.
      within: returns the context manager in which a run that records values happens.
      on_smaller: called with each candidate that becomes the smallest, and the family of edits that
        made it.
      tests: how many candidates were tested.
      rejected: the largest well-typed candidate that did not pass.
      ended: why it ended: "done", "time" or "interrupted".
    """

    current: Candidate
    test: Test
    mode: str = "both"
    deadline: float | None = None
    jobs: int = 1
    max_bytes: int = 1 << 32
    well_typed: bool = True
    patience: float | None = None
    stop: Callable[[], None] = lambda: None
    within: Callable[[], AbstractContextManager[None]] = nullcontext
    on_smaller: Callable[[Candidate, str], None] = lambda c, family: None
    tests: int = 0
    rejected: Candidate | None = None
    ended: str = "done"
    _pool: ThreadPoolExecutor | None = field(default=None, repr=False)

    def run(self, shortcuts: Iterable[Candidate] = ()) -> Candidate:
        """Search until no edit makes the candidate smaller, the time is up, or it is interrupted.

        A step that is running when the time is up is left alone, and what it finds does not count.

        Args:
          shortcuts: candidates that are tried first, the smallest first.
        """
        late = None if self.deadline is None else self.deadline + _LAST
        try:
            with limited_seconds(None if late is None else late - time.monotonic()):
                if not run_until(late, self._run, shortcuts):
                    raise _TimeIsUp
        except _TimeIsUp:
            self.ended = "time"
        except KeyboardInterrupt:
            self.ended = "interrupted"
        if self.ended != "done":
            self.stop()
        return self.current

    def _run(self, shortcuts: Iterable[Candidate]) -> bool:
        known = Values(self.max_bytes, self.patience, self.within)
        with ThreadPoolExecutor(self.jobs) as self._pool:
            self._try("shortcut", [lambda c, s=s: s for s in shortcuts], first_only=True)
            self._fixpoint({**MODES[self.mode], **_PLAIN}, known)
        return True

    def _fixpoint(self, families: dict[str, Family], known: Values) -> None:
        """Try all families again until none of them has found a smaller candidate."""
        before = None
        while before is not self.current:
            before = self.current
            for name, family in families.items():
                for edits in family(self, known):
                    self._try(name, edits)

    def _try(self, family: str, edits: Sequence[Edit], first_only: bool = False) -> None:
        """Try edits in order, each on the smallest candidate so far."""
        i = 0
        while i < len(edits):
            made, i = self._next(edits, i)
            passed = self._tested([c for _, c in made])
            for (position, candidate), good in zip(made, passed, strict=True):
                if good:
                    with wanted():
                        self.current = candidate
                        self.on_smaller(candidate, family)
                    i = position + 1
                    break
                self._check_time()  # a test that was stopped says nothing
                self._reject(candidate)
            if first_only and self.current is (made[-1][1] if made else None):
                return

    def _next(self, edits: Sequence[Edit], i: int) -> tuple[list[tuple[int, Candidate]], int]:
        """Return the next candidates to test at once, with the positions of their edits, and the position after those."""
        made: list[tuple[int, Candidate]] = []
        while i < len(edits) and len(made) < self.jobs:
            self._check_time()
            candidate = self._made(edits[i])
            if candidate is not None:
                made.append((i, candidate))
            i += 1
        return made, i

    def _made(self, edit: Edit) -> Candidate | None:
        """Apply an edit to the smallest candidate so far; None where the result is larger or ill-typed."""
        try:
            candidate = _applied(edit, self.current)
        except JaxprToolError:
            return None
        except _FAULTS:
            if self.well_typed:
                raise
            return None  # passes rely on types
        if candidate is None or not self._is_smaller(candidate):
            return None
        return candidate if not self.well_typed or is_well_typed(candidate) else None

    def _is_smaller(self, candidate: Candidate) -> bool:
        """Whether a candidate is no larger; families whose edits keep the size have to end by themselves."""
        return candidate is not self.current and candidate.size <= self.current.size

    def _tested(self, candidates: Sequence[Candidate]) -> Iterator[bool]:
        self.tests += len(candidates)
        with limited_seconds(self.patience):
            if self.jobs == 1:
                return iter([*map(self.test, candidates)])
            tests = [separate(partial(self.test, c)) for c in candidates]
        assert self._pool is not None
        try:
            return iter([*self._pool.map(lambda test: test(), tests)])
        except BaseException:
            self.stop()  # the pool waits for the running tests
            raise

    def _reject(self, candidate: Candidate) -> None:
        if self.rejected is None or candidate.size > self.rejected.size:
            self.rejected = candidate

    def _check_time(self) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise _TimeIsUp
