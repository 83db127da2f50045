"""Places in a running program: the equation, and the way to it through nested jaxprs with the iteration of each loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.sites import Sites
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.interpreters.evaluation.limits import running_loops
from jaxprtool.interpreters.evaluation.observe import (
    Axes,
    Standing,
    branch_taken,
    device_at,
    devices_of,
    standing_in,
    written_as,
)
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn
from jaxprtool.ir.origin import Frame, stack_of
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Held", "Level", "Place", "Step", "Watch", "device_text", "jaxprs_of"]

_MOST_STEPS = 200  # steps of a way that are reported: of a deeper one, half of these from each end


class Step(NamedTuple):
    """An enclosing equation on the way to a place.

    Attributes:
      eqn: the equation.
      param: the param that holds the jaxpr which runs.
      branch: the position of the jaxpr in the param, where that holds several; else None.
      step: in a loop the iteration, from 0 (in a scan, the position along the scanned axis); else
        None.
      mesh: the axes of a mesh, with their sizes, whose devices run what is inside: all at once, or,
        where there is a step, one at a time.
      standing: along which axes devices are stacked in the values inside, where all run at once.
    """

    eqn: JaxprEqn
    param: str
    branch: int | None = None
    step: int | None = None
    mesh: Axes | None = None
    standing: Standing | None = None

    @property
    def device(self) -> dict[str, int]:
        """The device that the step is for; {} where it is for none."""
        return {} if self.mesh is None or self.step is None else device_at(self.step, self.mesh)

    def __str__(self) -> str:
        if self.device:
            return device_text(self.device)
        line, _ = position(self.eqn)
        branch = "" if self.branch is None else f", branch {self.branch}"
        step = "" if self.step is None else f" > step {self.step}"
        return f"{self.eqn.primitive.name}{_at(line)}{branch}{step}"

    def json(self) -> dict[str, Any]:
        """The step with the keys line, primitive, param, step and branch."""
        line, _ = position(self.eqn)
        name = self.eqn.primitive.name
        return {
            "line": line,
            "primitive": name,
            "param": self.param,
            "step": self.step,
            "branch": self.branch,
        }


def device_text(device: Mapping[str, int]) -> str:
    """Return a device for people: `device a=1, b=0`."""
    return f"device {', '.join(f'{axis}={i}' for axis, i in device.items())}"


class Place(NamedTuple):
    """An equation of a program and the way to it, the outermost enclosing equation first."""

    eqn: JaxprEqn
    path: tuple[Step, ...] = ()

    @property
    def file(self) -> str | None:
        """The name of the text that holds the equation; None for a program without a text."""
        return None if self.eqn.span is None else self.eqn.span.source.name

    @property
    def frame(self) -> Frame | None:
        """The line of Python that made the equation; for one without a line inside a library's function, that of the call."""
        eqns = (self.eqn, *(step.eqn for step in reversed(self.path)))
        return next((e.origin.frame for e in eqns if e.origin and e.origin.frame), None)

    @property
    def source(self) -> str | None:
        """The line of Python, `file:line:column` (see `frame`)."""
        return None if self.frame is None else self.frame.located()

    @property
    def names(self) -> str | None:
        """The scopes around the operation, those of enclosing equations first: `jvp(layer1)/attn`."""
        eqns = [*(step.eqn for step in self.path), self.eqn]
        names = [n for e in eqns if e.origin is not None for n in e.origin.names or ()]
        return stack_of(tuple(names)) or None

    def __str__(self) -> str:
        line, _ = position(self.eqn)
        first, left_out, last = _told(self.path)
        between = [f"({left_out} more)"] if left_out else []
        way = [*map(str, first), *between, *map(str, last)]
        return " > ".join([*way, f"{self.eqn.primitive.name}{_at(line)}"])

    def located(self) -> str:
        """Return `file:line:column`, or the line of Python for a program without a text; "" where neither is known."""
        return str(self.eqn.span or self.source or "")

    def in_full(self) -> str:
        """Return `file:line:column  (line of Python in names)`, with as much of it as is known."""
        where, source, names = self.located(), self.source, self.names
        inside = [source] if source and source != where else []
        inside += [f"in {names}"] if names else []
        return "  ".join([where] * bool(where) + [f"({' '.join(inside)})"] * bool(inside))

    def json(self) -> dict[str, Any]:
        """The place with the keys file, line, column, primitive, path, source (its line of Python, see `Frame`) and names.

        Of a path of more than 200 steps the first and the last 100 are there, and `path_left_out` says how many are not.
        `device` is there where it is known on which device of a mesh alone the equation has run.
        """
        line, column = position(self.eqn)
        first, left_out, last = _told(tuple([step for step in self.path if not step.device]))
        device = {axis: i for step in self.path for axis, i in step.device.items()}
        frame = self.frame
        return {
            "file": self.file,
            "line": line,
            "column": column,
            "primitive": self.eqn.primitive.name,
            "path": [step.json() for step in (*first, *last)],
            **({"path_left_out": left_out} if left_out else {}),
            **({"device": device} if device else {}),
            "source": None if frame is None else frame.json(),
            "names": self.names,
        }


def _told(path: tuple[Step, ...]) -> tuple[tuple[Step, ...], int, tuple[Step, ...]]:
    """Return the first steps of a way, how many are left out, and the last ones."""
    if len(path) <= _MOST_STEPS:
        return path, 0, ()
    half = _MOST_STEPS // 2
    return path[:half], len(path) - _MOST_STEPS, path[-half:]


def position(eqn: JaxprEqn) -> tuple[int | None, int | None]:
    """Return line and column of an equation in its text, from 1; None, None where it has no text."""
    if eqn.span is None:
        return None, None
    return eqn.span.source.position(eqn.span.start)


def _at(line: int | None) -> str:
    return "" if line is None else f" at {line}"


# The jaxprs that an equation holds: for each the param and, in a param that holds several, its positions there.
Held = dict[Jaxpr, tuple[str, list[int]]]


class Level:
    """A jaxpr that runs.

    Attributes:
      jaxpr: the jaxpr.
      step: the equation that holds it, with the iteration; None for the program itself.
      loops: how many loops ran when it was entered.
      eqn: the equation that runs the jaxprs inside it now.
    """

    __slots__ = ("eqn", "jaxpr", "loops", "step")

    def __init__(self, jaxpr: Jaxpr, step: Step | None, loops: int):
        self.jaxpr, self.step, self.loops = jaxpr, step, loops
        self.eqn: JaxprEqn | None = None


class Watch:
    """An observer that knows where the evaluation is (see `interpreters.evaluation.observe`); a base class for others.

    Attributes:
      levels: the jaxprs that run now, the outermost first.
    """

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self._meshes = 0  # how many of the levels run for the devices of a mesh
        self._jaxprs: dict[JaxprEqn, Held] = {}

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        """Follow a jaxpr of the program; any other jaxpr that a rule runs is a part of its equation."""
        loops = running_loops()
        if not self.levels:
            self.levels.append(Level(jaxpr, None, len(loops)))
            return True
        above = self.levels[-1]
        if above.eqn is None:
            return False
        found = self._held(above.eqn).get(written_as(jaxpr))
        if found is None:
            return False
        param, positions = found
        branch = None
        if positions:
            branch = branch_taken() if branch_taken() in positions else positions[0]
        step = loops[-1].position if len(loops) > above.loops else None
        made = Step(above.eqn, param, branch, step, devices_of(jaxpr), standing_in(jaxpr))
        self.levels.append(Level(jaxpr, made, len(loops)))
        self._meshes += made.mesh is not None
        return True

    def _held(self, eqn: JaxprEqn) -> Held:
        found = self._jaxprs.get(eqn)
        if found is None:
            found = self._jaxprs[eqn] = jaxprs_of(eqn)
        return found

    def begin(self, eqn: JaxprEqn, ins: Sequence[Any]) -> None:
        """Remember which equation runs the jaxprs that are entered next."""
        self.levels[-1].eqn = eqn

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Do nothing; subclasses look at the values here."""

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        """Go back to the enclosing jaxpr."""
        step = self.levels.pop().step
        self._meshes -= step is not None and step.mesh is not None

    def place(self, eqn: JaxprEqn) -> Place:
        """Return the place of an equation of the innermost running jaxpr, as it is written."""
        place = Place(eqn, tuple([x.step for x in self.levels if x.step is not None]))
        return Sites(self.levels[0].jaxpr).of(place) if self._meshes else place

    def written(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return the written equation in whose place one of the innermost jaxpr runs; mostly itself."""
        return Sites(self.levels[0].jaxpr).written(eqn) if self._meshes else eqn


def jaxprs_of(eqn: JaxprEqn) -> Held:
    """Return the jaxprs that an equation holds, with their places in its params; one that is there several times, where it is run."""
    found: Held = {}
    for run in runs_of(eqn):
        _, positions = found.setdefault(run.jaxpr.jaxpr, (run.param, []))
        at = run.position if run.branch is None else run.branch
        if at is not None:
            positions.append(at)
    ran = {*found}
    for key, value in eqn.params.items():
        inner = [closed.jaxpr for closed in jaxprs_in(value)]
        for i, jaxpr in enumerate(inner):
            if jaxpr not in ran:
                _, positions = found.setdefault(jaxpr, (key, []))
                if len(inner) > 1:
                    positions.append(i)
    return found
