"""Sample operands of Ldexp and Frexp."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from tests.rules.example import Example, arg

_INF, _NAN = float("inf"), float("nan")


def _ldexp(x: Any, n: Any, **fields: Any) -> Example:
    params = {"x1_aval": x.aval, "x2_aval": n.aval}
    return Example(lax.ldexp, (x, n), params, jax=_ldexp_in_jax, **fields)


def _ldexp_in_jax(x: Any, n: Any, **_: Any) -> Any:
    import jax.numpy as jnp

    return jnp.ldexp(x, n)


def _frexp(x: Any, **fields: Any) -> Example:
    return Example(lax.frexp, (x,), {"x_aval": x.aval}, jax=_frexp_in_jax, **fields)


def _frexp_in_jax(x: Any, **_: Any) -> Any:
    import jax.numpy as jnp

    return jnp.frexp(x)


EXAMPLES = [
    _ldexp(arg("f32[5]"), arg("i32[5]", values=[0, 3, -4, 20, -20])),
    _ldexp(arg("f64[2,2]"), arg("i64[2,2]", values=[[1, -1], [60, -60]])),
    _ldexp(arg("f32[6]", values=[1, 0, -0.0, _INF, -_INF, _NAN]), arg("i32[6]"), smooth=False),
    _ldexp(
        arg("f64[4]", values=[1.5, -1.5, 2, 3]),
        arg("i32[4]", values=[5000, 5000, -5000, 0]),
        smooth=False,
    ),
    _ldexp(arg("f16[3]"), arg("i8[3]", values=[1, -2, 3])),
    _ldexp(arg("bf16[3]"), arg("i16[3]", values=[1, -2, 3])),
    _ldexp(arg("f32[3]"), arg("u32[3]", values=[1, 0, 7])),
    _frexp(arg("f32[5]")),
    _frexp(arg("f64[2,3]")),
    _frexp(arg("f32[6]", values=[1, 0, -0.0, _INF, -_INF, _NAN]), smooth=False),
    _frexp(arg("f16[3]")),
]
