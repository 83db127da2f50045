"""Calls that JAX has no more, as calls that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.ir.jaxpr import JaxprEqn, Primitive
from jaxprtool.rules.parallel.pmap import as_shard_map
from jaxprtool.rules.parallel.xmap import as_jit

__all__ = ["in_current_form"]


class _Form(NamedTuple):
    primitive: Primitive
    params_of: Callable[[dict[str, Any]], dict[str, Any]]


_FORMS = {
    lax.xla_pmap.primitive: _Form(lax.shard_map.primitive, as_shard_map),
    lax.xmap.primitive: _Form(lax.jit_call.primitive, as_jit),
}


def in_current_form(eqn: JaxprEqn) -> JaxprEqn:
    """An equation of a call that JAX has no more (`xla_pmap`, `xmap`) as one that does the same; others as they are."""
    form = _FORMS.get(eqn.primitive)
    if form is None:
        return eqn
    return eqn.replace(primitive=form.primitive, params=form.params_of(dict(eqn.params)))
