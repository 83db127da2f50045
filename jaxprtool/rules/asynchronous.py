"""Rows of the collectives in two steps, start and done.

Discharged, they become the ordinary collectives, which have all rules.

JAX neither differentiates nor batches them; its CPU backend exchanges in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.primitive import primitive_of
from jaxprtool.core.rule_table import Maker, unsupported
from jaxprtool.interpreters.check import (
    abstract_eval_rules,
    ill_typed,
)
from jaxprtool.interpreters.columns.communication import sends_rules
from jaxprtool.interpreters.cost import FREE, cost_rules
from jaxprtool.ir.avals import FutureType
from jaxprtool.ir.jaxpr import Aval
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.reductions import unbound_impl

__all__: list[str] = []

_DISCHARGED = dict.fromkeys(
    ("jvp", "transpose", "batch", "lower"),
    unsupported("futures are discharged first: give it the whole program"),
)


def _start_type(rule: Callable[..., Aval]) -> Callable[..., FutureType]:
    return lambda x, **params: FutureType(rule(x, **params))


@Maker
def _done_type(op: Any) -> Callable[..., Aval]:
    def rule(future: Aval) -> Aval:
        if not isinstance(future, FutureType):
            ill_typed(
                f"{op.primitive} takes a future, and its operand is {future}", "operand-types"
            )
        return future.inner

    return rule


for _start, _whole in (
    (lax.psum_start, lax.psum),
    (lax.psum_invariant_start, lax.psum_invariant),
    (lax.ppermute_start, lax.ppermute),
    (lax.pbroadcast_start, lax.pbroadcast),
    (lax.all_gather_start, lax.all_gather),
    (lax.all_to_all_start, lax.all_to_all),
    (lax.reduce_scatter_start, lax.reduce_scatter),
    (lax.unreduced_psum_start, lax.unreduced_psum),
    (lax.unreduced_reduce_scatter_start, lax.unreduced_reduce_scatter),
    (lax.all_gather_reduced_start, lax.all_gather_reduced),
):
    define(
        _start,
        abstract_eval=_start_type(abstract_eval_rules[primitive_of(_whole)]),
        impl=unbound_impl,
        **_DISCHARGED,
        cost=cost_rules[primitive_of(_whole)],
        sends=sends_rules[primitive_of(_whole)],
        discharge=_whole,
        varying="rule",
    )

for _done in (
    lax.psum_done,
    lax.ppermute_done,
    lax.pbroadcast_done,
    lax.all_gather_done,
    lax.all_to_all_done,
    lax.reduce_scatter_done,
):
    define(
        _done,
        abstract_eval=_done_type,
        impl=lambda xp, x: x,
        **_DISCHARGED,
        cost=FREE,
        discharge=lambda x: x,
    )
