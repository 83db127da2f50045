"""Rows of `compute_on` and `xla_metadata_call`: calls that carry annotations for the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.placement import MEMORY
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.dce import call_dce_rule
from jaxprtool.interpreters.evaluation.observe import runs_as
from jaxprtool.interpreters.memory_spaces import put_in_memory
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.calls import CallRules
from jaxprtool.rules.define import define

__all__ = ["moving_its_results"]


# -- compute_on --------------------------------------------------------------------------------


def _memories(spaces: Any) -> tuple[str, ...]:
    """Return the memory that each memory space names: `host`, or "" for the device's own."""
    return tuple("host" if MEMORY.member(s) == "Host" else "" for s in spaces)


def _types(*avals: Aval, jaxpr: Any, out_memory_spaces: Any, **_: Any) -> list[Aval]:
    outs = check_call("compute_on", jaxpr, avals)
    if len(out_memory_spaces) != len(outs):
        ill_typed(
            f"compute_on: its jaxpr has {counted(len(outs), 'result')}, and out_memory_spaces has "
            f"{counted(len(out_memory_spaces), 'entry')}",
            "param-value",
        )
    for s in out_memory_spaces:
        if MEMORY.member(s) is None:
            ill_typed(f"compute_on: out_memory_spaces: {s} is no memory space", "param-value")
    return [
        a.update(memory=m) if isinstance(a, ShapedArray) else a
        for a, m in zip(outs, _memories(out_memory_spaces), strict=True)
    ]


_MOVING = MemoTable[ClosedJaxpr]("with its results in other memories")


def moving_its_results(closed: ClosedJaxpr, spaces: Any) -> ClosedJaxpr:
    """Append to a jaxpr of `compute_on` the equations that move its results to the memories that the call names.

    The types of its results then say all that `out_memory_spaces` does, and stay right when the
    jaxpr is transformed.

    Args:
      closed: the jaxpr.
      spaces: the memory space of each result.
    """
    memories = _memories(spaces)
    if all(getattr(a, "memory", m) == m for a, m in zip(closed.out_avals, memories, strict=True)):
        return closed
    return _MOVING.of(closed, memories, lambda: _move(closed, memories))


def _move(closed: ClosedJaxpr, memories: Sequence[str]) -> ClosedJaxpr:
    def body(*args: Value) -> list[Value]:
        return list(map(put_in_memory, apply_jaxpr(closed, args), memories))

    found = stage(body, closed.in_avals)
    runs_as(closed.jaxpr, found.jaxpr)
    return found


class _ComputeOnRules(CallRules):
    """The columns of `compute_on`: the rules of a call, applied to the jaxpr that itself moves its
    results (`moving_its_results`).
    """

    def fields(self, closed: ClosedJaxpr, params: dict[str, Any]) -> dict[str, Any]:
        spaces = [
            MEMORY.word("Host" if getattr(a, "memory", "") == "host" else "Device")
            for a in closed.out_avals
        ]
        return {**params, "jaxpr": closed, "out_memory_spaces": tuple(spaces)}

    def columns(self) -> dict[str, Any]:
        found = super().columns()
        moving = ("jvp", "transpose", "batch", "lower", "partial_eval")
        return {
            **found,
            **{name: _of_moving(found[name]) for name in moving},
            "linearize": _of_moving(self.linearize),
            "saving": lambda eqn, *rest: self.saving(_moving_eqn(eqn), *rest),
            "dce": self.dce,
            "abstract_eval": _types,
            "memory": "rule",
        }

    def dce(self, eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
        smaller, used_ins = _dce_call(eqn, used_outs)
        if smaller is eqn:
            return eqn, used_ins
        spaces = eqn.params["out_memory_spaces"]
        kept = tuple(s for s, used in zip(spaces, used_outs, strict=True) if used)
        return smaller.replace(params={**smaller.params, "out_memory_spaces": kept}), used_ins


_dce_call = call_dce_rule("jaxpr")


def _moving(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "jaxpr": moving_its_results(params["jaxpr"], params["out_memory_spaces"])}


def _moving_eqn(eqn: JaxprEqn) -> JaxprEqn:
    return eqn.replace(params=_moving(dict(eqn.params)))


def _of_moving(rule: Any) -> Any:
    """Wrap a rule of calls so that it is applied to the jaxpr that itself moves its results."""
    return lambda *args, **params: rule(*args, **_moving(params))


define(lax.compute_on, **_ComputeOnRules(lax.compute_on).columns())


# -- xla_metadata_call -------------------------------------------------------------------------

_rules = CallRules(lax.xla_metadata_call)
define(lax.xla_metadata_call, **_rules.columns(), linearize=_rules.linearize)
