"""Calls that map: by another call that does the same, and of one example at a time over a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.axes import are_devices
from jaxprtool.core.rule_table import Maker, RuleTable
from jaxprtool.interpreters.batch import batch_rules, one_by_one, vmap_jaxpr
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.cost import cost_rules
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.flow import elements_facts
from jaxprtool.interpreters.jvp import jvp_rules
from jaxprtool.interpreters.lower import lowering_rules
from jaxprtool.interpreters.partial_eval import partial_eval_rules
from jaxprtool.interpreters.transpose import transpose_rules
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.walk import all_eqns
from jaxprtool.ops.parallel import collective_names

__all__ = ["alone_on_devices", "of_another", "without_devices"]


def of_another(op: Any, params_of: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The columns of a call that does what another one does: evaluation, transformations, lowering and cost are those of that one.

    Args:
      op: the binding function of the other one.
      params_of: the params of the call -> those of the other one.
    """

    def by(table: RuleTable) -> Callable[..., Any]:
        return lambda *args, **params: table[op.primitive](*args, **params_of(params))

    return {
        "impl": by(impl_rules),
        "jvp": by(jvp_rules),
        "transpose": by(transpose_rules),
        "batch": by(batch_rules),
        "lower": by(lowering_rules),
        "cost": by(cost_rules),
        "partial_eval": by(partial_eval_rules),
    }


def alone_on_devices(
    batch: Any, is_loop: Callable[[Sequence[Value], dict[str, ParamValue]], bool] | None = None
) -> Maker:
    """A batch rule that is no loop, but where the examples are devices.

    Args:
      batch: the rule, or its maker.
      is_loop: (operands, params) -> whether it is a loop there; None for never.
    """

    def make(op: Any) -> Callable[..., OutAndDim]:
        together = batch(op) if isinstance(batch, Maker) else batch

        def rule(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
            if not are_devices(axis_size) or (is_loop is not None and is_loop(vals, params)):
                return together(axis_size, vals, dims, **params)
            return one_by_one(op.primitive, vals, dims, axis_size, params)

        return rule

    return Maker(make)


def without_devices(
    axis_size: int, jaxprs: Sequence[ClosedJaxpr]
) -> tuple[ClosedJaxpr, ...] | None:
    """Jaxprs as one device runs them, for `one_by_one`; None where the examples are no devices, or one needs the others.

    So a device does nothing of a branch that others take, nor of a step that others still have to do.
    """
    if not are_devices(axis_size):
        return None
    for eqn in (eqn for closed in jaxprs for eqn in all_eqns(closed.jaxpr)):
        acts_along = not axis_size.axes.keys().isdisjoint(collective_names(eqn))
        if acts_along and elements_facts[eqn.primitive] != "kept":
            return None
    return tuple(vmap_jaxpr(c, axis_size, [None] * len(c.in_avals), None)[0] for c in jaxprs)
