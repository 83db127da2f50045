"""Sample operands of scaled_dot."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from tests.rules.example import Example, arg

PLAIN = (((1,), (0,)), ((), ()))
BATCHED = (((2,), (1,)), ((0,), (0,)))


def _contraction(lhs, rhs, lhs_scale, rhs_scale, numbers, preferred):
    """Of small integers, whose products have the same bits in bf16 and wider."""
    operands = tuple(arg(t, "small") for t in (lhs, rhs, lhs_scale, rhs_scale))
    wanted = None if preferred is None else find_dtype(preferred)
    params = {"dimension_numbers": numbers, "preferred_element_type": wanted}
    return Example(
        lax.scaled_dot, operands, params, smooth=False, differentiable=False, jax=_in_jax
    )


def _in_jax(lhs, rhs, lhs_scale, rhs_scale, *, preferred_element_type, **params):
    import jax

    wanted = None if preferred_element_type is None else preferred_element_type.name
    scales = {"lhs_scale": lhs_scale, "rhs_scale": rhs_scale}
    return jax.lax.scaled_dot(lhs, rhs, **scales, **params, preferred_element_type=wanted)


def _rows(lhs, rhs, lhs_scale, rhs_scale, preferred):
    operands = tuple(arg(t, "small") for t in (lhs, rhs, lhs_scale, rhs_scale))
    params = {"preferred_element_type": find_dtype(preferred)}
    return Example(
        lax.scaled_matmul_wrapper,
        operands,
        params,
        smooth=False,
        differentiable=False,
        jax=_rows_in_jax,
    )


def _rows_in_jax(lhs, rhs, lhs_scale, rhs_scale, *, preferred_element_type):
    """JAX 0.10 lowers the primitive for GPUs alone."""
    import jax.numpy as jnp

    wanted = preferred_element_type.name

    def scaled(x, scale):
        wide = jnp.repeat(scale.astype(wanted), x.shape[2] // scale.shape[2], axis=2)
        return x.astype(wanted) * wide

    return [jnp.einsum("bmk,bnk->bmn", scaled(lhs, lhs_scale), scaled(rhs, rhs_scale))]


EXAMPLES = [
    _contraction("f32[2,4]", "f32[4,3]", "f32[2,2]", "f32[1,3]", PLAIN, "f32"),
    _contraction("bf16[2,4]", "bf16[4,3]", "bf16[2,1]", "bf16[2,3]", PLAIN, "bf16"),
    _contraction(
        "f8_e4m3fn[2,3,4]", "f8_e4m3fn[2,4,2]", "bf16[2,3,2]", "bf16[2,2,2]", BATCHED, "bf16"
    ),
    _contraction("f32[4,2]", "f32[3,4]", "f32[2,2]", "f32[3,2]", (((0,), (1,)), ((), ())), None),
    _contraction("i8[2,4]", "f32[4,3]", "f32[2,2]", "bf16[2,3]", PLAIN, "f32"),
    _rows("f32[2,3,4]", "f32[2,2,4]", "f32[2,3,2]", "f32[2,2,1]", "f32"),
    _rows("f8_e4m3fn[1,3,4]", "f8_e4m3fn[1,2,4]", "f8_e8m0fnu[1,3,4]", "f8_e8m0fnu[1,2,2]", "bf16"),
]
