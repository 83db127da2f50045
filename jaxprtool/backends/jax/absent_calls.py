"""Rewrite equations that the installed JAX lacks, or no longer has, as equations that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxprtool import ops as lax
from jaxprtool.backends.jax.private import OPEN_JAXPRS
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import hoist_consts, stage
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Lit, Primitive, Value
from jaxprtool.ir.sharding import varying_axes, with_varying
from jaxprtool.makers.axes import varied
from jaxprtool.rules.annotated_calls import moving_its_results
from jaxprtool.rules.parallel.pmap import as_shard_map
from jaxprtool.rules.parallel.shard_layout import Layout, Split, with_specs
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


def _constants_passed(eqn: JaxprEqn) -> JaxprEqn:
    """Return an equation with the constants of its jaxpr as operands, for a param in which JAX's
    jaxprs have no constants.
    """
    closed = eqn.params.get("jaxpr")
    holds_open = (eqn.primitive.name, "jaxpr") in OPEN_JAXPRS and eqn.primitive in _CALLS
    if not holds_open or not isinstance(closed, ClosedJaxpr):
        return eqn
    avals = [v.aval.strong for v in closed.jaxpr.const_binders]
    known = all(c is not None for c in closed.consts)
    if not avals or not known or any(a.dtype.kind == "k" for a in avals):
        return eqn
    plain = [with_varying(a, ()) for a in avals]
    values = [Lit(_array(c, a), a) for c, a in zip(closed.consts, plain, strict=True)]
    n, params = len(avals), {**eqn.params, "jaxpr": hoist_consts(closed)}
    if eqn.primitive is lax.shard_map.primitive:
        layout = Layout(eqn.params)

        def body(*args: Value) -> list[Value]:
            consts = [varied(x, [*varying_axes(a)]) for x, a in zip(args[:n], avals, strict=True)]
            return apply_jaxpr(params["jaxpr"], [*consts, *args[n:]])

        with layout.scope():
            passed = stage(body, [*plain, *closed.in_avals])
        params = with_specs(params, passed, [*[Split(())] * n, *layout.ins], layout.outs)
    return eqn.replace(inputs=[*values, *eqn.inputs], params=params)


def _array(value: Value, aval: Aval) -> Value:
    """Return a constant, which may be the text of a file, as an array."""
    is_text = not hasattr(value, "__array__")
    return np.asarray(value.tolist() if is_text else value, np_dtype(aval.dtype)).reshape(
        aval.shape
    )


# Calls of open jaxprs whose operands are the arguments.
_CALLS = (lax.shard_map.primitive, lax.remat_call.primitive)


def in_current_form(eqn: JaxprEqn, has_primitive: Callable[[str], bool]) -> JaxprEqn:
    """Return an equation that JAX does not have (`xla_pmap`, `xmap`) as an equivalent one; others as they are.

    A constraint by a sharding that no text of its release names is dropped: the value stays where
    it is. Values of constants inside of a `shard_map` or `remat2` become operands.

    Args:
      eqn: the equation.
      has_primitive: whether the installed JAX has a primitive of a name.
    """
    form = _FORMS.get(eqn.primitive)
    if eqn.primitive is lax.sharding_constraint.primitive and eqn.params["sharding"] is None:
        form = _Form(lax.copy.primitive, lambda _: {})
    if eqn.primitive in _WHERE_ABSENT and not has_primitive(eqn.primitive.name):
        form = _WHERE_ABSENT[eqn.primitive]
    if form is not None:
        eqn = eqn.replace(primitive=form.primitive, params=form.params_of(dict(eqn.params)))
    return _constants_passed(eqn)
