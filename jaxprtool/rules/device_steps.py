"""Rows of primitives of kernels that use parts of a TPU or GPU: semaphores, barriers, ...

They have type rules. They cannot be evaluated, since a CPU does not have these parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.dtypes import BOOL, INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.outside import array_types, out_of_reach
from jaxprtool.rules.define import define

__all__: list[str] = []


def _on_references(name: str, out: Value) -> Callable[..., Value]:
    """Return the type rule of a primitive that needs a reference among its operands."""

    def rule(*avals: Aval, **_: ParamValue) -> Value:
        if not any(isinstance(a, RefType) for a in avals):
            given = ", ".join(map(str, avals)) or "nothing"
            ill_typed(f"{name} is of references, and it is given {given}")
        return out

    return rule


_TPU, _GPU = "only a TPU does it", "only GPUs of NVIDIA do it"
_STEPS: dict[str, list[tuple[Any, Any]]] = {
    _TPU: [
        (lax.dma_start, []),
        (lax.dma_wait, []),
        (lax.semaphore_signal, []),
        (lax.semaphore_wait, []),
        (lax.semaphore_read, ShapedArray((), INT32)),
    ],
    _GPU: [
        (lax.barrier_arrive, []),
        (lax.barrier_wait, []),
        (lax.barrier_test, [ShapedArray((), BOOL)]),
        (lax.copy_gmem_to_smem, []),
        (lax.copy_smem_to_gmem, []),
        (lax.wgmma_ref, []),
    ],
}
for _why, _ops in _STEPS.items():
    for _op, _out in _ops:
        _name = _op.primitive.name
        define(
            _op,
            abstract_eval=_on_references(_name, _out),
            effects=True,
            varying="rule",
            discharge=unsupported(_why),
            **out_of_reach(_name, _why),
        )


def _number(name: str) -> Callable[..., list[Aval]]:
    def rule(*avals: Aval) -> list[Aval]:
        for a in avals:
            if not isinstance(a, ShapedArray) or not a.dtype.is_integer:
                ill_typed(f"{name} takes integers, and not {a}")
        return []

    return rule


def _bitcast_type(x: Aval, *, ty: Any, dim: int | None = None) -> ShapedArray:
    dim = -2 if dim is None else dim
    if not isinstance(x, ShapedArray) or not -x.ndim <= dim < x.ndim:
        ill_typed(f"bitcast: {x} has no axis {dim}", "axis-range")
    i = dim % x.ndim
    bits = x.shape[i] * x.dtype.bits
    if bits % ty.bits:
        ill_typed(f"bitcast: axis {dim} of {x} is of no number of elements of {ty}", "param-value")
    return x.update(shape=(*x.shape[:i], bits // ty.bits, *x.shape[i + 1 :]), dtype=ty)


_PLAIN: list[tuple[Any, Callable[..., Any], str]] = [
    (lax.commit_group, list, _GPU),
    (lax.commit_smem, list, _GPU),
    (lax.wait_smem_to_gmem, lambda *n, **_: [], _GPU),
    (lax.bitcast, _bitcast_type, "it is of registers of a TPU"),
    (lax.delay, _number("delay"), _TPU),
    (lax.device_id, lambda: ShapedArray((), INT32), _TPU),
    (lax.prng_seed, _number("prng_seed"), "its generator is that of a TPU"),
    (
        lax.prng_random_bits,
        lambda *, shape: ShapedArray(tuple(shape), INT32),
        "its generator is that of a TPU",
    ),
]
for _op, _rule, _why in _PLAIN:
    define(_op, abstract_eval=_rule, effects=True, **out_of_reach(_op.primitive.name, _why))


def _core_types(*avals: Aval, jaxpr: ParamValue, **_: ParamValue) -> list[Aval]:
    if not isinstance(jaxpr, ClosedJaxpr):
        ill_typed(f"core_map: the param jaxpr is not a jaxpr: {jaxpr}", "bad-param")
    if jaxpr.jaxpr.outs:
        ill_typed("core_map: its jaxpr has results, and needs none")
    return []


def _mpmd_types(*avals: Aval, jaxprs: ParamValue, out_avals: Any, **_: ParamValue) -> list[Aval]:
    members = jaxprs if isinstance(jaxprs, (tuple, list)) else (None,)
    if not all(isinstance(c, ClosedJaxpr) for c in members):
        ill_typed(f"mpmd_map: the param jaxprs is not a tuple of jaxprs: {jaxprs}", "bad-param")
    return array_types("mpmd_map", out_avals)


_CORES = "it runs on the cores of a device"
define(
    lax.core_map,
    abstract_eval=_core_types,
    effects=True,
    discharge=unsupported(_CORES),
    **out_of_reach("core_map", _CORES),
)
define(
    lax.mpmd_map, abstract_eval=_mpmd_types, effects="inside", **out_of_reach("mpmd_map", _CORES)
)
