"""Logs: record what the jaxprs of a program compute, and hand it on in large parts.

An observer that looks at each equation as it runs costs more than small equations do. `Logging`
only notes the results, and hands them on (`look`) when enough has accumulated: then many equations,
or many iterations of a loop, are analysed at once. How much is kept is bounded, so that memory
grows neither with the number of iterations nor with the length of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jaxprtool.analyses.places import Held, Step, jaxprs_of
from jaxprtool.core.stack import run_deep
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.limits import innermost_loop
from jaxprtool.interpreters.evaluation.observe import (
    branch_taken,
    devices_of,
    standing_in,
    written_as,
)
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import all_eqns, nesting

__all__ = ["Layout", "Log", "Logging", "layout_of"]

_BYTES = 4 << 20  # bytes that are kept, besides one equation's results
_LOGS = 2_000  # jaxprs that have run and are kept
_DEEP = 40  # levels of nesting that fit on any stack


class Layout:
    """Where the values of a jaxpr are in its log.

    Attributes:
      jaxpr: the jaxpr.
      args: the position of each binder.
      made: for each variable that an equation binds the index of the equation, and the position of
        the result.
      dies: for each equation the index of the last equation that reads its results; the number of
        equations for results of the jaxpr.
      sizes: the bytes of each equation's results.
      nbytes: the bytes of all results.
    """

    __slots__ = ("_held", "args", "dies", "jaxpr", "made", "nbytes", "sizes")

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.args: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.all_binders)}
        self.made: dict[Any, tuple[int, int]] = {}
        self.dies = [0] * len(jaxpr.eqns)
        self.sizes = [0] * len(jaxpr.eqns)
        for i, eqn in enumerate(jaxpr.eqns):
            for k, v in enumerate(eqn.out_binders):
                self.made[v] = i, k
            self.sizes[i] = sum(getattr(v.aval, "nbytes", 0) for v in eqn.out_binders)
            self._read(eqn.inputs, i)
        self._read(jaxpr.outs, len(jaxpr.eqns))
        self.nbytes = sum(self.sizes)
        self._held: dict[JaxprEqn, Held] = {}

    def held(self, eqn: JaxprEqn) -> Held:
        """Return the jaxprs that an equation holds, as `places.jaxprs_of` does."""
        found = self._held.get(eqn)
        if found is None:
            found = self._held[eqn] = jaxprs_of(eqn)
        return found

    def _read(self, atoms: Sequence[Any], i: int) -> None:
        for x in atoms:
            if type(x) is not Lit and x in self.made:
                self.dies[self.made[x][0]] = i


def _has_references(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr has references, at any depth, so that values may change later."""
    # references of a kernel are arguments of its jaxpr, and not results of equations
    atoms = (x for e in all_eqns(jaxpr) for x in (*e.inputs, *e.out_binders))
    return any(type(x.aval) is RefType for x in (*jaxpr.all_binders, *atoms))


def layout_of(jaxpr: Jaxpr) -> Layout:
    """Return the layout of the logs of a jaxpr."""
    return _LAYOUTS.find(jaxpr) or _LAYOUTS.keep(jaxpr, Layout(jaxpr))


_LAYOUTS = Memo[Layout]("layout of logs")
_CHANGING = Memo[bool]("whether there are references")


class Log:
    """A jaxpr that runs, or has run.

    Attributes:
      layout: where its values are.
      args: the values of its binders.
      above: the log of the jaxpr whose equation holds it; None for the program.
      loops: how many loops ran when it began.
      eqn, param, branch, number: that equation, and which of its jaxprs this is, in which
        iteration; see `Step`.
      now: the equation that runs jaxprs now.
      results: the results of each equation, as evaluation has them; None where nobody reads them
        any more.
      inside: the logs inside since this one was looked at, by the index of the equation that holds
        them.
      outs: its results, when it has run; else None.
      seen: how many equations have been looked at.
      waiting: the indices of the equations whose results are kept.
      found: free for whoever looks at the log.
    """

    __slots__ = (
        "above",
        "args",
        "branch",
        "eqn",
        "found",
        "inside",
        "layout",
        "loops",
        "now",
        "number",
        "outs",
        "param",
        "results",
        "seen",
        "waiting",
    )

    def __init__(
        self,
        layout: Layout,
        args: Sequence[Any],
        above: Log | None,
        loops: int,
        eqn: JaxprEqn | None = None,
        param: str = "",
        number: int | None = None,
    ):
        self.layout, self.args, self.above, self.loops = layout, args, above, loops
        self.eqn, self.param, self.number = eqn, param, number
        self.now: JaxprEqn | None = None
        self.branch: int | None = None
        self.results: list[Any] = []
        # Most logs need neither list, and a list takes time to make.
        self.inside: Any = ()
        self.outs: Sequence[Any] | None = None
        self.seen = 0
        self.waiting: Any = ()
        self.found: Any = None

    @property
    def jaxpr(self) -> Jaxpr:
        """The jaxpr."""
        return self.layout.jaxpr

    def step(self) -> Step | None:
        """Return the equation that holds it, with the iteration; None for the program."""
        return _step(self.jaxpr, self.eqn, self.param, self.branch, self.number)

    def held_by(self) -> Callable[[], Step | None]:
        """Return a function that returns `step`, and keeps no values."""
        return partial(_step, self.jaxpr, self.eqn, self.param, self.branch, self.number)

    def value(self, x: Any) -> Any:
        """Return the value of an atom of the jaxpr."""
        if type(x) is Lit:
            return numpy_namespace().value(x)
        made = self.layout.made.get(x)
        if made is None:
            return self.args[self.layout.args[x]]
        i, k = made
        result = self.results[i]
        return result[k] if self.layout.jaxpr.eqns[i].primitive.multiple_results else result

    def ins(self, i: int) -> list[Any]:
        """Return the values of the operands of an equation."""
        return [*map(self.value, self.layout.jaxpr.eqns[i].inputs)]

    def given(self, i: int) -> Sequence[Any]:
        """Return the results of an equation."""
        result = self.results[i]
        return result if self.layout.jaxpr.eqns[i].primitive.multiple_results else (result,)

    def forget(self) -> None:
        """Drop what no later equation reads, and what has run inside of equations, after these were looked at.

        What has run inside of a jaxpr that has run itself is dropped with it.
        """
        self.seen = n = len(self.results)
        if self.outs is None or self.above is None:
            done = [x for _, logs in self.inside for x in logs if x.inside and x.outs is not None]
            self.inside = [(i, logs[-1:]) for i, logs in self.inside[-1:] if logs[-1].outs is None]
            for log in done:  # logs refer to each other
                done += [x for _, logs in log.inside for x in logs if x.inside]
                log.inside = []
        if self.outs is not None or not self.waiting:
            return
        dies = self.layout.dies
        kept: list[int] = []
        for i in self.waiting:
            if dies[i] >= n:
                kept.append(i)
            else:
                self.results[i] = None
        self.waiting = kept


def _step(
    jaxpr: Jaxpr, eqn: JaxprEqn | None, param: str, branch: int | None, number: int | None
) -> Step | None:
    if eqn is None:
        return None
    return Step(eqn, param, branch, number, devices_of(jaxpr), standing_in(jaxpr))


class Logging:
    """An observer (see `interpreters.evaluation.observe`) that keeps logs, and hands them on with `look`.

    Attributes:
      open: the logs of the jaxprs that run now, the outermost first.
      kept: how many bytes are kept now.
      count: how many logs of jaxprs that have run are kept now.
      at_once: whether each equation is looked at as soon as it has run.
      each: whether a jaxpr reports its equations one by one, and not all at its end.
    """

    def __init__(self, *, each: bool = False) -> None:
        self.each, self._chooses = each, type(self).takes is not Logging.takes
        self.open: list[Log] = []
        self.kept = self.count = 0
        self.at_once = False
        self._inside: dict[tuple[JaxprEqn, Jaxpr], tuple[Layout, str, list[int]]] = {}

    def look(self, root: Log) -> None:
        """Look at what is new in the log of the program and in those inside. Closed logs inside are dropped afterwards."""
        raise NotImplementedError

    def takes(self, step: int | None) -> bool:
        """Whether an iteration of a loop is looked at (None: an inner jaxpr that is no loop's)."""
        return True

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool | list[Any]:
        """Begin the log of a jaxpr of the program; any other jaxpr that a rule runs is a part of its equation."""
        depth, loop = innermost_loop()
        if self.open:
            above = self.open[-1]
            step = loop.position if loop is not None and depth > above.loops else None
            now = above.now
            if now is None or (self._chooses and not self.takes(step)):
                return False
            found = self._inside.get((now, jaxpr))
            if found is None:
                held = above.layout.held(now).get(written_as(jaxpr))
                if held is None:
                    return False
                found = self._inside[now, jaxpr] = layout_of(jaxpr), *held
            layout, param, positions = found
            log = Log(layout, args, above, depth, now, param, step)
            if positions:
                taken = branch_taken()
                log.branch = taken if taken in positions else positions[0]
            n = len(above.results)
            inside = above.inside
            if inside and inside[-1][0] == n:
                inside[-1][1].append(log)
            elif inside:
                inside.append((n, [log]))
            else:
                above.inside = [(n, [log])]
        else:
            layout = layout_of(jaxpr)
            log = Log(layout, args, None, depth)
            self.at_once = self.at_once or _CHANGING.of(jaxpr, lambda: _has_references(jaxpr))
        self.open.append(log)
        if self.at_once or self.each or layout.nbytes > _BYTES:
            return True
        return log.results

    def begin(self, eqn: JaxprEqn, ins: Sequence[Any]) -> None:
        """Remember which equation runs the jaxprs that are entered next."""
        self.open[-1].now = eqn

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Note the results of an equation that is reported by itself."""
        log = self.open[-1]
        i = len(log.results)
        log.waiting = waiting = log.waiting or []
        waiting.append(i)
        log.results.append(outs if eqn.primitive.multiple_results else outs[0])
        self.kept += log.layout.sizes[i]
        if self.at_once or self.kept > _BYTES:
            self.flush()

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        """Note that the jaxpr has run."""
        log = self.open[-1]
        log.outs = outs
        if log.above is None:
            self.flush()
            self.open.pop()
            return
        self.open.pop()
        self.kept += log.layout.nbytes
        self.count += 1
        if self.kept > _BYTES or self.count > _LOGS or self.at_once:
            self.flush()

    def flush(self) -> None:
        """Look at what has accumulated."""
        self.kept = self.count = 0
        if not self.open:
            return
        root = self.open[0]
        if nesting(root.jaxpr) > _DEEP:
            run_deep(self.look, root)
        else:
            self.look(root)
