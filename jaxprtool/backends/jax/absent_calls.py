"""Equations that the installed JAX has not, or has no more, as equations that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.ir.jaxpr import JaxprEqn, Primitive
from jaxprtool.rules.annotated_calls import moving_its_results
from jaxprtool.rules.parallel.pmap import as_shard_map
from jaxprtool.rules.parallel.xmap import as_jit

__all__ = ["in_current_form"]


class _Form(NamedTuple):
    primitive: Primitive
    params_of: Callable[[dict[str, Any]], dict[str, Any]]


def _without_place(params: dict[str, Any]) -> dict[str, Any]:
    body = moving_its_results(params["jaxpr"], params["out_memory_spaces"])
    return {**lax.jit_call.primitive.defaults, "jaxpr": body, "name": "compute_on"}


def _without_attributes(params: dict[str, Any]) -> dict[str, Any]:
    defaults = lax.jit_call.primitive.defaults
    return {**defaults, "jaxpr": params["jaxpr"], "name": "xla_metadata_call"}


# Calls of which some releases have none.
_WHERE_ABSENT = {
    lax.compute_on.primitive: _Form(lax.jit_call.primitive, _without_place),
    lax.xla_metadata_call.primitive: _Form(lax.jit_call.primitive, _without_attributes),
}
_FORMS = {
    lax.xla_pmap.primitive: _Form(lax.shard_map.primitive, as_shard_map),
    lax.xmap.primitive: _Form(lax.jit_call.primitive, as_jit),
}


def in_current_form(eqn: JaxprEqn, has_primitive: Callable[[str], bool]) -> JaxprEqn:
    """An equation that JAX does not have (`xla_pmap`, `xmap`) as one that does the same; others as they are.

    One is the constraint of a sharding that no text of its release names: the value stays where it is.

    Args:
      eqn: the equation.
      has_primitive: whether the installed JAX has a primitive of a name.
    """
    form = _FORMS.get(eqn.primitive)
    if eqn.primitive is lax.sharding_constraint.primitive and eqn.params["sharding"] is None:
        form = _Form(lax.copy.primitive, lambda _: {})
    if eqn.primitive in _WHERE_ABSENT and not has_primitive(eqn.primitive.name):
        form = _WHERE_ABSENT[eqn.primitive]
    if form is None:
        return eqn
    return eqn.replace(primitive=form.primitive, params=form.params_of(dict(eqn.params)))
