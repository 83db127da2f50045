"""Observation of an evaluation on NumPy: an observer is called with each equation and its values.

Contract of an observer: while `observed_by(observer)` holds, the evaluation of a jaxpr calls

    observer.enter(jaxpr, args)             before its first equation; its result says how the jaxpr is observed:
        False       it is not observed
        True        the observer's `see` is called for each equation
        a list      the result of each equation (a list, where its primitive has multiple results) is appended to that
                    list instead, which costs little; the observer reads the list whenever it is called
    observer.begin(eqn, ins)                before an equation that holds jaxprs, which run before its `see`
    observer.see(eqn, ins, outs)            after each equation (but see above), with the values of its operands and its results
    observer.leave(jaxpr, outs)             after its last equation

for the jaxpr itself and for those that its equations hold, in the order in which they run. Values
belong to the evaluation: an observer must not change them, and copies what it keeps where a cell of
a reference may change later. It may raise an exception to end the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Protocol

from jaxprtool.ir.contexts import holding
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
    "standing_in",
    "take_branch",
    "written_as",
]


class Observer(Protocol):
    """The protocol of observers; see the contract of the module."""

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool | list[Any]: ...
    def begin(self, eqn: JaxprEqn, ins: Sequence[Any]) -> None: ...
    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None: ...
    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None: ...


_current: ContextVar[Observer | None] = ContextVar("observer", default=None)


def observer() -> Observer | None:
    """Return the observer of the running evaluation; None for none."""
    return _current.get()


def observe(watching: Observer | None) -> Observer | None:
    """Make `watching` the observer from now on (None: nobody observes); returns the previous one."""
    before = _current.get()
    _current.set(watching)
    return before


def observed_by(watching: Observer | None) -> AbstractContextManager[None]:
    """Make `watching` the observer inside the block (None: nobody observes)."""
    return holding(_current, watching)


class Functions(Protocol):
    """Provides the functions that compute equations in the place of impl rules.

    Attributes:
      programs: a cache of jaxprs that were prepared with these functions.
    """

    programs: dict[Any, Any]

    def of(self, eqn: JaxprEqn) -> Callable[..., Any]: ...


_functions: ContextVar[Functions | None] = ContextVar("functions", default=None)


def functions() -> Functions | None:
    """Return the provider of the functions of equations; None: impl rules are used."""
    return _functions.get()


def computed_by(given: Functions | None) -> AbstractContextManager[None]:
    """Compute equations inside the block by the functions of `given` (None: by impl rules)."""
    return holding(_functions, given)


_branch: ContextVar[int] = ContextVar("branch", default=0)


def take_branch(i: int) -> int:
    """Record which of several jaxprs of a param runs next, since two of them may be one object;
    returns its position.
    """
    _branch.set(i)
    return i


def branch_taken() -> int:
    """Return the position last given to `take_branch`."""
    return _branch.get()


def runs_as(jaxpr: Jaxpr, made: Jaxpr) -> Jaxpr:
    """Record that evaluation runs `made` in the place of a jaxpr of a param; returns `made`.

    An example is a shard_map, whose jaxpr is batched over the devices.
    """
    if made is not jaxpr:
        _WRITTEN.keep(made, written_as(jaxpr))
    return made


def runs_unseen(jaxpr: Jaxpr) -> None:
    """Record that a jaxpr in the params of an equation is a part of what a rule computes: observers
    do not look into it.
    """
    _WRITTEN.keep(jaxpr, _UNSEEN)


_UNSEEN = Jaxpr((), (), ())


def written_as(jaxpr: Jaxpr) -> Jaxpr:
    """Return the jaxpr of a param that evaluation replaces by this one; mostly this one itself."""
    return _WRITTEN.find(jaxpr) or jaxpr


Axes = tuple[tuple[str, int], ...]
DeviceAxes = tuple[tuple[int, Axes], ...]


def device_at(number: int, mesh: Axes) -> dict[str, int]:
    """Return the position of a device along each axis of its mesh; numbers are row-major."""
    found: dict[str, int] = {}
    for axis, size in reversed(mesh):
        number, found[axis] = divmod(number, size)
    return dict(reversed(found.items()))


def runs_for_devices(jaxpr: Jaxpr, axes: Axes | None) -> None:
    """Record that evaluation runs a jaxpr for the devices of a mesh (None: for none).

    It runs for all of them at once, or once for each, in their order.
    """
    if axes is not None:
        _DEVICES.keep(jaxpr, axes)


def devices_of(jaxpr: Jaxpr) -> Axes | None:
    """Return the axes, with sizes, of the mesh for whose devices evaluation runs a jaxpr; None for none."""
    return _DEVICES.find(jaxpr)


class Standing:
    """Which axes of the values of a jaxpr are device axes, where it runs for all devices at once.

    Attributes:
      axes: for each variable of the program as written, its device axes, each with the axes of the
        mesh, outermost mesh first; () where all devices have the same value. Variables of
        intermediate values that a batch rule computes are missing.
    """

    __slots__ = ("axes",)

    def __init__(self, axes: Mapping[Atom, DeviceAxes]):
        self.axes = axes


def devices_stand(jaxpr: Jaxpr, axes: Mapping[Atom, DeviceAxes]) -> None:
    """Record the device axes of the values of a jaxpr; see `Standing`."""
    _STANDING.keep(jaxpr, Standing(axes))


def devices_added(
    jaxpr: Jaxpr,
    made: Jaxpr,
    mesh: Axes,
    variables: Iterable[tuple[Atom, Atom, int | None]],
) -> None:
    """Record the device axes of a jaxpr that was made by batching another one over the devices of a mesh.

    Args:
      jaxpr: the other jaxpr, which may run for the devices of outer meshes already.
      made: the batched jaxpr.
      mesh: the axes of the mesh.
      variables: variables of `jaxpr`, each with the variable of `made` and its new device axis, or
        None.
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
    """Return the device axes of the values of a jaxpr; None for one that was not made to run for
    all devices at once.
    """
    return _STANDING.find(jaxpr)


_DEVICES = Memo[Axes]("devices for which it runs")
_STANDING = Memo[Standing]("where devices stand")
_WRITTEN = Memo[Jaxpr]("what is written in the program")
