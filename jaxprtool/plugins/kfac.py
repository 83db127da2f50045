"""The tags of kfac_jax: identities that mark layers and losses for its estimators of curvature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jaxprtool as jt


@jt.primitive(library="kfac_jax")
def layer_tag(*operands, meta: Any, **options: Any):
    """The operand that is the output of a layer; the other operands are its inputs and parameters.

    meta: a record of kfac_jax; its field `outputs_index` has the index of the operand that is
    returned.
    options: options of the layer for the curvature estimator (`has_scale`, strides of a
    convolution, ...).
    """


@jt.primitive(multiple_results=True, library="kfac_jax")
def loss_tag(*operands, meta: Any):
    """The operands of a loss that depend on parameters.

    meta: a record of kfac_jax; `argument_names` names the operands, `parameter_dependants` those that are returned.
    """


def _field(primitive: str, meta: Any, name: str) -> tuple[Any, ...]:
    """Return a field of the record, a tuple. Raises JaxprTypeError where `meta` has no such
    field.
    """
    found = getattr(meta, name, None)
    if not isinstance(found, tuple):
        jt.ill_typed(f"{primitive}: meta has no tuple {name}: {meta}", "param-value")
    return found


def _output(operands: Sequence[Any], meta: Any) -> int:
    """Return the index of the operand that a layer_tag returns."""
    found = _field("layer_tag", meta, "outputs_index")
    if len(found) != 1 or type(found[0]) is not int or not 0 <= found[0] < len(operands):
        jt.ill_typed(
            f"layer_tag: outputs_index={found} has to be one of {len(operands)} operands",
            "param-value",
        )
    return found[0]


def _dependants(operands: Sequence[Any], meta: Any) -> list[int]:
    """Return the indices of the operands that a loss_tag returns."""
    names = _field("loss_tag", meta, "argument_names")
    wanted = _field("loss_tag", meta, "parameter_dependants")
    if len(names) != len(operands) or not set(wanted) <= set(names):
        jt.ill_typed(
            f"loss_tag: argument_names={names} and parameter_dependants={wanted} do not fit {len(operands)} operands",
            "param-value",
        )
    return [names.index(name) for name in wanted]


def _layer(operands: Sequence[Any], meta: Any) -> Any:
    return operands[_output(operands, meta)]


def _loss(operands: Sequence[Any], meta: Any) -> list[Any]:
    return [operands[i] for i in _dependants(operands, meta)]


def _layer_transpose(ct: Any, *operands: Any, meta: Any, **_: Any) -> list[Any]:
    found: list[Any] = [None] * len(operands)
    found[_output(operands, meta)] = ct
    return found


def _loss_transpose(cts: Any, *operands: Any, meta: Any) -> list[Any]:
    found: list[Any] = [None] * len(operands)
    for i, ct in zip(_dependants(operands, meta), cts, strict=True):
        found[i] = ct
    return found


def _tag(op: Any, chosen: Any, transpose: Any) -> None:
    """Define the row of a tag: transformations bind it again for the primals; tangents do not pass
    through it.
    """

    def batch(axis_size: int, values: Any, dims: Any, *, meta: Any, **options: Any) -> Any:
        return op(*values, meta=meta, **options), chosen(dims, meta)

    def jvp(primals: Any, tangents: Any, *, meta: Any, **options: Any) -> Any:
        return op(*primals, meta=meta, **options), chosen(tangents, meta)

    jt.define(
        op,
        abstract_eval=lambda *avals, meta, **options: chosen(avals, meta),
        impl=lambda xp, *values, meta, **options: chosen(values, meta),
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        lower=lambda ctx, *operands, meta, **options: chosen(operands, meta),
        cost=lambda in_avals, out_avals, **_: 0,
    )


_tag(layer_tag, _layer, _layer_transpose)
_tag(loss_tag, _loss, _loss_transpose)
