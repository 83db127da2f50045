"""Sample inputs of convolution."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Record, Word
from tests.rules.example import Example, arg


def _jax_conv(
    x: Any, y: Any, *, dimension_numbers: Any, precision: Any = None, **params: Any
) -> Any:
    import jax

    n = dimension_numbers
    numbers = jax.lax.ConvDimensionNumbers(n.lhs_spec, n.rhs_spec, n.out_spec)
    level = precision and tuple(jax.lax.Precision[p.member] for p in precision)
    return jax.lax.conv_general_dilated(x, y, dimension_numbers=numbers, precision=level, **params)


def _conv(
    x: str,
    y: str,
    *,
    strides: tuple | None = None,
    padding: tuple | None = None,
    lhs_dilation: tuple | None = None,
    rhs_dilation: tuple | None = None,
    specs: tuple | None = None,
    groups: tuple[int, int] = (1, 1),
    preferred: str | None = None,
    precision: Any = None,
) -> Example:
    domain = "small" if x.startswith("i") else ""
    operands = (arg(x, domain), arg(y, domain))
    rank = operands[0].aval.ndim
    ones = (1,) * (rank - 2)
    lhs, rhs, out = specs or (tuple(range(rank)),) * 3
    params: dict[str, Any] = {
        "window_strides": strides or ones,
        "padding": padding or ((0, 0),) * (rank - 2),
        "lhs_dilation": lhs_dilation or ones,
        "rhs_dilation": rhs_dilation or ones,
        "dimension_numbers": Record(
            "ConvDimensionNumbers", lhs_spec=lhs, rhs_spec=rhs, out_spec=out
        ),
        "feature_group_count": groups[0],
        "batch_group_count": groups[1],
    }
    if preferred:
        params["preferred_element_type"] = find_dtype(preferred)
    if precision:
        params["precision"] = precision
    return Example(lax.conv_general_dilated, operands, params, jax=_jax_conv)


CHANNELS_LAST = (0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)
HIGHEST = (Word("Precision.HIGHEST"), Word("Precision.HIGHEST"))

EXAMPLES = [
    _conv("f32[1,2,5]", "f32[3,2,2]"),
    _conv("f32[2,3]", "f32[4,3]"),
    _conv("f64[1,5,4,2]", "f64[3,2,2,3]", specs=CHANNELS_LAST, padding=((1, 1), (0, 1))),
    _conv("f64[2,2,7]", "f64[2,2,3]", strides=(2,), padding=((2, -1),), rhs_dilation=(2,)),
    _conv("f64[1,2,3]", "f64[2,2,2]", lhs_dilation=(2,), padding=((1, 2),)),
    _conv("f64[2,4,5]", "f64[6,2,2]", groups=(2, 1), padding=((1, 0),)),
    _conv("f64[4,2,5]", "f64[6,2,2]", groups=(1, 2), strides=(2,)),
    _conv("f32[1,4,4,3]", "f32[2,2,1,3]", groups=(3, 1), specs=CHANNELS_LAST),
    _conv("f32[1,1,3,3,3]", "f32[2,1,2,2,2]", strides=(1, 2, 1)),
    _conv("f32[0,2,5]", "f32[3,2,2]"),
    _conv("bf16[1,2,5]", "bf16[3,2,2]"),
    _conv("f16[1,2,5]", "f16[3,2,2]"),
    _conv("bf16[1,2,5]", "bf16[3,2,2]", preferred="f32"),
    _conv("c64[1,2,5]", "c64[3,2,2]"),
    _conv("i32[1,2,5]", "i32[3,2,2]"),
    _conv("i8[1,2,5]", "i8[3,2,2]", preferred="i32"),
    _conv("i16[1,2,5]", "i16[3,2,2]", preferred="f16"),
    _conv("f32[1,2,5]", "f32[3,2,2]", precision=HIGHEST),
]
