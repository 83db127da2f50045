"""Observation of an evaluation on NumPy: an observer sees each equation with its values, and where it stands.

Contract of an observer: while `observed_by(observer)` holds, the evaluation of a jaxpr calls

    observer.enter(jaxpr, args)             before its first equation; what it returns says how the jaxpr is observed:
        False       nobody looks into it
        True        the observer sees each equation
        a list      what each equation gives (a list, where its primitive has multiple results) is added to that list, which
                    costs little, in the place of `see`; the observer looks at it whenever it is called
    observer.begin(eqn, ins)                before an equation that holds jaxprs, which run before its `see`
    observer.see(eqn, ins, outs)            after each equation (but see above), with the values of its operands and its results
    observer.leave(jaxpr, outs)             after its last equation

for the jaxpr itself and for those that its equations hold, in the order in which they run. Values belong to the evaluation:
an observer does not change them, and what it keeps it copies where a cell of a reference may change later. It may raise
an exception to end the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from jaxprtool.ir.cells import holding
from jaxprtool.ir.jaxpr import Atom, Jaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo

__all__ = [
    "Functions",
    "Observer",
    "branch_taken",
    "computed_by",
    "Axes",
    "DeviceAxes",
    "Standing",
    "device_at",
    "devices_added",
    "devices_of",
    "devices_stand",
    "functions",
    "observe",
    "observed_by",
    "observer",
    "runs_as",
    "runs_for_devices",
    "runs_unseen",
    "set_aside",
    "standing_in",
    "take_branch",
    "take_up",
    "written_as",
]


class Observer(Protocol):
    """What sees an evaluation; see the contract of the module."""

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool | list[Any]: ...
    def begin(self, eqn: JaxprEqn, ins: Sequence[Any]) -> None: ...
    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None: ...
    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None: ...


_current: list[Observer | None] = [None]


def observer() -> Observer | None:
    """The observer of the evaluation that runs now."""
    return _current[0]


def observe(watching: Observer | None) -> Observer | None:
    """From now on `watching` sees what is evaluated (None: nobody does); gives who has seen it."""
    _current[0], before = watching, _current[0]
    return before


def observed_by(watching: Observer | None) -> AbstractContextManager[None]:
    """Inside the block `watching` sees what is evaluated (None: nobody does)."""
    return holding(_current, watching)


class Functions(Protocol):
    """What gives equations their functions in the place of impl rules; `programs` keeps what was prepared with them."""

    programs: dict[Any, Any]

    def of(self, eqn: JaxprEqn) -> Callable[..., Any]: ...


_functions: list[Functions | None] = [None]


def functions() -> Functions | None:
    """What gives equations their functions now; None: impl rules."""
    return _functions[0]


def computed_by(given: Functions | None) -> AbstractContextManager[None]:
    """Inside the block equations are computed by these functions (None: by impl rules)."""
    return holding(_functions, given)


_branch = [0]


def take_branch(i: int) -> int:
    """Say which of several jaxprs of a param runs next, since two of them may be one object; returns it."""
    _branch[0] = i
    return i


def branch_taken() -> int:
    """What was said last."""
    return _branch[0]


def set_aside() -> tuple[Any, ...]:
    """The observer, the functions and the branch, for `take_up`: of an evaluation that waits while another one runs."""
    return _current[0], _functions[0], _branch[0]


def take_up(held: tuple[Any, ...]) -> None:
    """Go on with what was set aside."""
    _current[0], _functions[0], _branch[0] = held


def runs_as(jaxpr: Jaxpr, made: Jaxpr) -> Jaxpr:
    """Say that evaluation runs `made` in the place of a jaxpr of a param (shard_map: batched over the devices); returns it."""
    if made is not jaxpr:
        _WRITTEN.keep(made, written_as(jaxpr))
    return made


def runs_unseen(jaxpr: Jaxpr) -> None:
    """Say that a jaxpr in the params of an equation is a part of what a rule computes: observers do not look into it."""
    _WRITTEN.keep(jaxpr, _UNSEEN)


_UNSEEN = Jaxpr((), (), ())


def written_as(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr of a param in whose place evaluation runs this one; mostly itself."""
    return _WRITTEN.find(jaxpr) or jaxpr


Axes = tuple[tuple[str, int], ...]
DeviceAxes = tuple[tuple[int, Axes], ...]


def device_at(number: int, mesh: Axes) -> dict[str, int]:
    """Where a device of a mesh is along each of the axes; numbers are row-major."""
    found: dict[str, int] = {}
    for axis, size in reversed(mesh):
        number, found[axis] = divmod(number, size)
    return dict(reversed(found.items()))


def runs_for_devices(jaxpr: Jaxpr, axes: Axes | None) -> None:
    """Say that evaluation runs a jaxpr for the devices of a mesh (None: for none): at once, or each in a step, in their order."""
    if axes is not None:
        _DEVICES.keep(jaxpr, axes)


def devices_of(jaxpr: Jaxpr) -> Axes | None:
    """The axes of the mesh for whose devices evaluation runs a jaxpr, with their sizes; None where it is for none."""
    return _DEVICES.find(jaxpr)


class Standing:
    """Where the values of a jaxpr that runs for all devices at once have the devices.

    Attributes:
      axes: for each variable that is one of the program as written the axes along which devices stand, each with the axes of
        their mesh, the outermost mesh first; () where all have the same value. The variables of what a batch rule computes in
        between are not among them.
    """

    __slots__ = ("axes",)

    def __init__(self, axes: Mapping[Atom, DeviceAxes]):
        self.axes = axes


def devices_stand(jaxpr: Jaxpr, axes: Mapping[Atom, DeviceAxes]) -> None:
    """Say where the devices stand in the values of a jaxpr; see `Standing`."""
    _STANDING.keep(jaxpr, Standing(axes))


def devices_added(
    jaxpr: Jaxpr,
    made: Jaxpr,
    mesh: Axes,
    variables: Iterable[tuple[Atom, Atom, int | None]],
) -> None:
    """Say where a jaxpr has devices that was made of another one, by batching over the devices of a mesh.

    Args:
      jaxpr: the other one, which may have run for the devices of meshes around.
      made: the one that was made.
      mesh: the axes of the mesh.
      variables: variables of `jaxpr`, each with that of `made` and the axis along which the devices stand there, or None.
    """
    around = standing_in(jaxpr)
    axes: dict[Atom, DeviceAxes] = {}
    for v, new, d in variables:
        if around is not None and v not in around.axes:
            continue
        before = () if around is None else around.axes[v]
        if d is not None:
            before = (*[(axis + (axis >= d), m) for axis, m in before], (d, mesh))
        axes[new] = before
    devices_stand(made, axes)
    runs_for_devices(made, devices_of(jaxpr))
    if written_as(jaxpr) is _UNSEEN:
        runs_unseen(made)


def standing_in(jaxpr: Jaxpr) -> Standing | None:
    """Where the devices stand in the values of a jaxpr; None for one that was not made to run for all of them at once."""
    return _STANDING.find(jaxpr)


_DEVICES = Memo[Axes]("devices for which it runs")
_STANDING = Memo[Standing]("where devices stand")
_WRITTEN = Memo[Jaxpr]("what is written in the program")
