"""Sample operands of the calls, with the jaxprs that they call and their derivative rules."""

from __future__ import annotations

from typing import Any

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.kinds.placement import MEMORY
from jaxprtool.ir.jaxpr import ClosedJaxpr
from tests.rules.example import Example, arg
from tests.rules.examples_control_flow import body


def _jit(label: str, f: Any, *types: str, smooth: bool = True) -> Example:
    params = {"jaxpr": body(f, *types), "name": label}
    return Example(lax.jit_call, tuple(map(arg, types)), params, smooth, label=label)


def _custom_jvp(label: str, f: Any, rule: Any, types: list[str], tangents: list[str]) -> Example:
    params = {
        "call_jaxpr": body(f, *types),
        "jvp_jaxpr": body(rule, *types, *tangents),
        "name": label,
    }
    return Example(lax.custom_jvp_call, tuple(map(arg, types)), params, label=label)


def _custom_vjp(label: str, f: Any, fwd: Any, bwd: Any, types: Any, residuals: Any) -> Example:
    """types: of the operands; residuals: of the residuals and the cotangents."""
    params = {
        "call_jaxpr": body(f, *types),
        "fwd_jaxpr": body(fwd, *types),
        "bwd_jaxpr": body(bwd, *residuals),
        "name": label,
    }
    return Example(
        lax.custom_vjp_call,
        tuple(map(arg, types)),
        params,
        smooth=False,
        forward=False,
        label=label,
    )


def _twice(f: Any) -> Any:
    """f inside a jit of its own."""
    return lambda *xs: lax.jit_call(*xs, jaxpr=body(f, *["f64[2]"] * len(xs)), name="inner")


def _call_in_jax(*xs: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Any:
    """A call of today, for those of older programs."""
    import jax
    from jax.extend.core import jaxpr_as_fun

    return jax.jit(jaxpr_as_fun(jt.to_jax(call_jaxpr)))(*xs)


_DEVICE = MEMORY.word("Device")


def _barrier_in_jax(*xs: Any) -> Any:
    import jax

    return jax.lax.optimization_barrier(xs)


EXAMPLES = [
    _jit("product", lambda x, y: lax.sin(x) * y, "f64[3]", "f64[3]"),
    _jit("forwarding", lambda x, y: (y, x, lax.cos(x)), "f64[2]", "f64[]"),
    _jit("nested", _twice(lambda x, y: (x * y, lax.exp(y))), "f64[2]", "f64[2]"),
    _jit("literal", lambda x: (x, 2.0), "f64[2]"),
    _jit("integers", lambda x, n: (n + n, x), "f64[2]", "i32[]"),
    _jit("bf16", lambda x: x * x, "bf16[4]", smooth=False),
    _custom_jvp(
        "sine",
        lax.sin,
        lambda x, t: (lax.sin(x), t * lax.cos(x)),
        ["f64[3]"],
        ["f64[3]"],
    ),
    _custom_jvp(
        "of-two",
        lambda x, y: (x * y, lax.neg(y)),
        lambda x, y, s, t: (x * y, lax.neg(y), s * y + x * t, lax.neg(t)),
        ["f64[2]", "f64[2]"],
        ["f64[2]", "f64[2]"],
    ),
    _custom_jvp(
        "with-integers",
        lambda x, n: (lax.integer_pow(x, y=2), n),
        lambda x, n, t: (lax.integer_pow(x, y=2), n, t * x * 2.0),
        ["f64[2]", "i32[2]"],
        ["f64[2]"],
    ),
    _custom_vjp(
        "doubled-gradient",
        lax.sin,
        lambda x: (x, lax.sin(x)),
        lambda x, ct: ct * lax.cos(x) * 2.0,
        ["f64[3]"],
        ["f64[3]", "f64[3]"],
    ),
    _custom_vjp(
        "of-two",
        lambda x, y: x * y,
        lambda x, y: (x, y, x * y),
        lambda x, y, ct: (ct * y, ct * x),
        ["f64[2]", "f64[2]"],
        ["f64[2]", "f64[2]", "f64[2]"],
    ),
    *[
        Example(
            op, (arg("f64[2]"),), {param: body(lambda x: x * lax.cos(x), "f64[2]")}, label="one"
        )
        for op, param in ((lax.closed_call, "call_jaxpr"), (lax.remat_call, "jaxpr"))
    ],
    *[
        Example(
            op,
            (arg("f64[3]"), arg("f64[3]")),
            {param: body(lambda x, y: (lax.sin(x) * y, x), "f64[3]", "f64[3]")},
            label="product",
        )
        for op, param in (
            (lax.closed_call, "call_jaxpr"),
            (lax.remat_call, "jaxpr"),
        )
    ],
    *[
        Example(
            op,
            (arg("f64[3]"), arg("f64[3]")),
            {"call_jaxpr": body(lambda x, y: (lax.sin(x) * y, x), "f64[3]", "f64[3]"), **more},
            label="product",
            jax=_call_in_jax,
        )
        for op, more in ((lax.core_call, {}), (lax.call, {}), (lax.named_call, {"name": "f"}))
    ],
    *[
        Example(
            op,
            (arg("f64[3]"), arg("f64[3]")),
            {"jaxpr": body(lambda x, y: (lax.sin(x) * y, x), "f64[3]", "f64[3]"), **more},
            label="product",
        )
        for op, more in (
            (lax.compute_on, {"compute_type": "device_host", "out_memory_spaces": (_DEVICE,) * 2}),
            (lax.xla_metadata_call, {"scheduling_group": "g"}),
        )
    ],
    Example(lax.checkpoint_name, (arg("f64[3]"),), {"name": "kept"}),
    Example(lax.optimization_barrier, (arg("f64[3]"), arg("i32[2]")), jax=_barrier_in_jax),
]
