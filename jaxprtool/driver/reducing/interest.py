"""Tests, in this process, of the failure that a program has to keep while it is made smaller.

Each test is established on the original program, where it records the failure: a code, a normalised
message, the equation in which it begins. A candidate is interesting only if it fails in the same
way.
"""

from __future__ import annotations

import functools
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from jaxprtool.analyses.places import Place
from jaxprtool.analyses.reduction.appearance import (
    Origin,
    appearances,
    has_some,
    origin_key,
    sources,
)
from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.analyses.reduction.expense import expensive_parts
from jaxprtool.core.primitive import known_primitive
from jaxprtool.driver.comparing.in_step import Limits, Side, of_both, side
from jaxprtool.driver.comparing.roundings import rooms_of_rounding
from jaxprtool.driver.run import ready, run
from jaxprtool.driver.running.ends import check_end
from jaxprtool.driver.running.prints import silent
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.interpreters.evaluation.limits import limited_bytes
from jaxprtool.ir.diagnostics import (
    Diagnostic,
    JaxprToolError,
    JaxprTypeError,
    UsageError,
    counted,
    fail,
)
from jaxprtool.ir.jaxpr import Jaxpr, Value
from jaxprtool.linter.pages import find_page
from jaxprtool.syntax.cutting import without_places

__all__ = [
    "BACKENDS",
    "FAULTS",
    "Appears",
    "CheckError",
    "Differs",
    "Failure",
    "Interest",
    "Slow",
    "names_in",
    "none_of_code",
    "normalised",
]


@dataclass(frozen=True)
class Failure:
    """The failure of a program, in a form for comparison.

    Attributes:
      code: the kind: `nan`, `differs`, the code of a diagnostic, ...
      message: in words, without what changes as the program gets smaller.
      place: the equation in which it begins, where that is known.
    """

    code: str
    message: str
    place: Place | None = None

    def __str__(self) -> str:
        at = f" at {self.place}" if self.place else ""
        return f"{self.message}{at} [{self.code}]"


class Interest(ABC):
    """A test of candidates.

    Attributes:
      needs_values: whether candidates need values for their arguments.
      well_typed: whether candidates have to be well-typed.
      external: whether it runs another process, so that several tests can run at once.
      deadline: when all tests end, by `time.monotonic`; None for no limit. Those in other processes
        see to it themselves.
      labels: the names of the arguments of the first candidate in messages.
    """

    needs_values = True
    well_typed = True
    external = False
    deadline: float | None = None
    labels: Sequence[str] = ()

    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def stop(self) -> None:  # noqa: B027 (most tests run in this process)
        """End the tests that are running in other processes."""

    @abstractmethod
    def failure(self, c: Candidate) -> Failure | None:
        """Return and record the failure of the original program; None where there is none."""

    @abstractmethod
    def __call__(self, c: Candidate) -> bool:
        """Whether a candidate fails in the recorded way."""

    def confirmed(self, c: Candidate) -> bool:
        """Do as `__call__` for a candidate that is the result, under the conditions of `failure`."""
        return self(c)

    def shortcuts(self) -> Iterable[Candidate]:
        """Return candidates that are worth trying first; they are known once the failure is."""
        return ()

    def why_not(self, c: Candidate) -> str:
        """Explain why a program does not show the failure, in words."""
        del c
        return "the program does not show it"


# What evaluating a candidate may raise: what our rules say, what NumPy says of sizes and dtypes, a lack of memory.
FAULTS = (
    *(JaxprToolError, TypeError, ValueError, ArithmeticError, LookupError),
    *(AttributeError, NotImplementedError, RuntimeError, MemoryError),
)


class Appears(Interest):
    """A result has a NaN (or an infinity) which begins in the same equation as in the program, and
    no argument has one.

    Args:
      kind: `nan` or `inf`.
      max_bytes: the limit for the arrays of a run.
    """

    def __init__(self, kind: str, max_bytes: int | None):
        self.kind, self.max_bytes = kind, max_bytes
        self.has = functools.partial(has_some, kind)
        self.origin: Origin | None = None
        self.given = False  # whether an argument of the program has such a value

    def failure(self, c: Candidate) -> Failure | None:
        reached = self._reached(c)
        if not reached:
            return None
        self.origin, self.given = reached[0], any(map(self.has, c.args or ()))
        noun = {"nan": "a NaN", "inf": "an infinity"}[self.kind]
        message = f"{noun} begins in {self.origin.place.eqn.primitive} and reaches a result"
        return Failure(self.kind, message, self.origin.place)

    def __call__(self, c: Candidate) -> bool:
        assert self.origin is not None
        if not self.given and any(map(self.has, c.args or ())):
            return False
        key = origin_key(self.origin.place.eqn)
        try:
            return any(origin_key(o.place.eqn) == key for o in self._reached(c))
        except FAULTS:
            return False

    def _reached(self, c: Candidate) -> list[Origin]:
        with silent(), limited_bytes(self.max_bytes):
            return appearances(c, self.kind)[1]

    def shortcuts(self) -> Iterable[Candidate]:
        alone = None if self.origin is None else self.origin.alone(self.has)
        return () if alone is None else (alone,)

    def why_not(self, c: Candidate) -> str:
        noun = {"nan": "NaN", "inf": "infinity"}[self.kind]
        with silent():
            anywhere, taken = sources(c, self.kind)
        if taken:
            label = taken[0].label(self.labels)
            return f"no {noun} that reaches a result begins in the program: {label} has one already"
        if anywhere:
            return f"a value of the program has an {noun}, but no result".replace("an NaN", "a NaN")
        return f"no result has an {noun}".replace("an NaN", "a NaN")


BACKENDS = ("numpy", "xla", "jax", "f64")  # as `compare` has them


class Differs(Interest):
    """The results of two backends differ by more than a tolerance.

    Args:
      backends: two of `BACKENDS`.
      tolerance: `rtol` and `atol`: results a and b differ where |a - b| > atol + rtol max(|a|,
        |b|); or `ulp`: where more than so many steps from float to float lie between. Integers and
        booleans differ where they are not equal. Empty, they differ where they do in `compare`.
    """

    def __init__(
        self, backends: Sequence[str], tolerance: Mapping[str, float], max_bytes: int | None
    ):
        unknown = [b for b in backends if b not in BACKENDS]
        if unknown or len(backends) != 2:
            given = ",".join(backends)
            message = f"what differs are two backends of {', '.join(BACKENDS)}: {given}"
            fail(UsageError, message, "option", help="--differs numpy,xla")
        self.backends, self.tolerance, self.max_bytes = tuple(backends), dict(tolerance), max_bytes

    def failure(self, c: Candidate) -> Failure | None:
        if not self._differs(c):
            return None
        return Failure("differs", f"the results of {' and '.join(self.backends)} differ")

    def __call__(self, c: Candidate) -> bool:
        try:
            return self._differs(c)
        except FAULTS:
            return False

    def _differs(self, c: Candidate) -> bool:
        with silent():
            limits = Limits(self.max_bytes)
            one, other = (side(c.program, c.args or (), b, limits) for b in self.backends)
            if not one.steps and not other.steps:
                _check_end(c, self.max_bytes)
            results = of_both((one, other), Side.results)
            if self.tolerance:
                return bool(_apart(results, self.tolerance))
            found = _apart(results, {"rounding": True})
            if not found or any(x.exact for x in found):
                return bool(found)
            rooms = rooms_of_rounding((one, other), results, one=True)
            return bool(_apart(results, {"rounding": True}, rooms))


def _apart(
    results: tuple[Sequence[Value], Sequence[Value]],
    tolerance: dict[str, Any],
    rooms: Sequence[Any] = (),
) -> list[Any]:
    """Return the differences of the results that differ beyond a tolerance, and by more than their
    rooms, elementwise.
    """
    from jaxprtool.backends.differences import difference  # noqa: PLC0415 (gateway: NumPy)

    pairs = zip(zip(*results, strict=True), chain(rooms, repeat(0.0)), strict=False)
    found = [difference(*values, **tolerance, extra=room) for values, room in pairs]
    return [x for x in found if x.n_different]


def _check_end(c: Candidate, max_bytes: int | None) -> None:
    """Raise UsageError where a loop of a candidate takes more steps, or more time, than a run on NumPy may."""
    try:
        check_end(ready(c.program, c.args or (), max_bytes), c.args or (), max_bytes)
    except UsageError as e:
        if e.diagnostics[0].code in ("step-limit", "time-limit"):
            raise
    except FAULTS:
        pass  # NumPy need not support what the two backends do


class Slow(Interest):
    """Evaluation on NumPy takes at least so many seconds, not counting the preparation of the program."""

    def __init__(self, seconds: float, max_bytes: int | None):
        self.seconds, self.max_bytes = seconds, max_bytes
        self._parts: Sequence[Candidate] = ()
        self._took = 0.0

    def failure(self, c: Candidate) -> Failure | None:
        self._took = self._taken(c)
        if self._took < self.seconds:
            return None
        with silent():
            self._parts = expensive_parts(c)
        return Failure("slow", f"a run takes {self.seconds:g} seconds or more")

    def __call__(self, c: Candidate) -> bool:
        try:
            return self._taken(c) >= self.seconds
        except FAULTS:
            return False

    def shortcuts(self) -> Iterable[Candidate]:
        return self._parts

    def why_not(self, c: Candidate) -> str:
        del c
        return f"a run takes {self._took:.3g} seconds"

    def _taken(self, c: Candidate) -> float:
        """Return the time of a run.

        The first run of a program includes its preparation, so a slow one is repeated.
        """
        first = self._run(c)
        return first if first < self.seconds else min(first, self._run(c))

    def _run(self, c: Candidate) -> float:
        begin = time.monotonic()
        with silent():
            run(c.program, c.args or (), max_bytes=self.max_bytes)
        return time.monotonic() - begin


class CheckError(Interest):
    """`check` reports an error with a code, and the same message up to names and numbers."""

    needs_values = False
    well_typed = False

    def __init__(self, code: str):
        self.code = code
        self.messages: set[str] = set()

    def failure(self, c: Candidate) -> Failure | None:
        found = self._found(c)
        if not found:
            return None
        self.messages = {next(iter(found))}
        return Failure(self.code, next(iter(found.values())))

    def __call__(self, c: Candidate) -> bool:
        return not self.messages.isdisjoint(self._found(c))

    def _found(self, c: Candidate) -> dict[str, str]:
        """Return the messages of the errors with the code, by their normalised forms."""
        try:
            typecheck_jaxpr(c.jaxpr)
        except JaxprTypeError as e:
            names = names_in(c.jaxpr)
            found: dict[str, str] = {}
            for d in e.diagnostics:
                if d.code == self.code:
                    found.setdefault(normalised(d.message, names), d.message)
            return found
        except FAULTS:
            return {}
        return {}

    def why_not(self, c: Candidate) -> str:
        """Do as `Interest.why_not`. Raises UsageError for a code that does not exist."""
        find_page(self.code)  # programs may load plug-ins with codes of their own
        try:
            typecheck_jaxpr(c.jaxpr)
        except JaxprTypeError as e:
            return none_of_code(self.code, e.diagnostics)
        return "the program is well-typed"


def none_of_code(code: str, found: Sequence[Diagnostic]) -> str:
    """Return the message where `check` reports errors, but none with a code."""
    codes = ", ".join(dict.fromkeys(d.code for d in found))
    return f"check reports {counted(len(found), 'error')}, none of the code {code}: {codes}"


_TYPE = re.compile(r"\b[a-z]+\d*(?:_\w+)?(?:<\w+>)?\[[\d,]*\](?:\{[^}]*\})?")
_NUMBER = re.compile(r"-?\b\d[\d_,.]*(?:e[+-]?\d+)?\b")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_SHORT_NAME = re.compile(r"[a-z]{1,3}")  # as JAX names variables


def normalised(message: str, names: Iterable[str] = ()) -> str:
    """Return a message without positions, types, numbers and names of variables, which change as a
    program gets smaller.

    The variables of a large program may be called `a`, `is`, `no` and `of`. A short word is taken
    for a variable whether or not a program has one of this name, so that the message stays the same
    when the variable is removed.
    """
    message = _TYPE.sub("TYPE", without_places(message))
    message = _NUMBER.sub("N", message)
    known = {*names}

    def replaced(m: re.Match[str]) -> str:
        word = m[0]
        if known_primitive(word) is not None:
            return word
        return "VAR" if word in known or _SHORT_NAME.fullmatch(word) else word

    return _WORD.sub(replaced, message)


def names_in(jaxpr: Jaxpr) -> set[str]:
    """Return the names of the variables of a jaxpr."""
    binders = [*jaxpr.all_binders, *(v for e in jaxpr.eqns for v in e.out_binders)]
    used = [x for e in jaxpr.eqns for x in e.inputs]
    return {name for v in (*binders, *used) if (name := getattr(v, "name", None))}
