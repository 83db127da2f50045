"""Sample operands of the control-flow primitives, with the jaxprs that they choose and repeat."""

from __future__ import annotations

from typing import Any

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.ir.jaxpr import ClosedJaxpr
from tests.rules.example import Example, arg


def body(f: Any, *types: str) -> ClosedJaxpr:
    """A function of operands of these types, as a jaxpr."""
    return jt.make_jaxpr(f)(*[arg(t).aval for t in types])


def _cond(label: str, index: Any, types: list[str], *branches: Any, **options: Any) -> Example:
    """index: the type and value of the index."""
    jaxprs = tuple(body(f, *types) for f in branches)
    operands = (arg(index[0], values=index[1]), *map(arg, types))
    return Example(lax.cond_call, operands, {"branches": jaxprs}, label=label, **options)


def _while(label: str, holds: Any, step: Any, consts: list[str], carry: Any) -> Example:
    """The constants are those of the body; carry: (type, values or None) each."""
    types = [t for t, _ in carry]
    params = {
        "cond_jaxpr": body(holds, *types),
        "body_jaxpr": body(step, *consts, *types),
        "cond_nconsts": 0,
        "body_nconsts": len(consts),
    }
    operands = (*map(arg, consts), *[arg(t, values=v) for t, v in carry])
    return Example(lax.while_call, operands, params, reverse=False, label=label)


def _scan(
    label: str, f: Any, consts: list[str], carry: list[str], xs: list[str], length: int, **more: Any
) -> Example:
    """xs: the types of the slices."""
    stacked = [x.replace("[", f"[{length},").replace(",]", "]") for x in xs]
    params = {
        "jaxpr": body(f, *consts, *carry, *xs),
        "length": length,
        "num_carry": len(carry),
        "num_consts": len(consts),
        **more,
    }
    operands = tuple(map(arg, [*consts, *carry, *stacked]))
    return Example(lax.scan_call, operands, params, label=label)


def _rnn(w: Any, h: Any, x: Any) -> Any:
    z = lax.dot_general(h, w, dimension_numbers=(((0,), (0,)), ((), ())))
    h = lax.tanh(lax.add(z, x))
    return h, lax.reduce_sum(h, axes=(0,))


def _count(n: int) -> Any:
    return lambda i, *_: lax.lt(i, n)


I32 = "i32[]"

EXAMPLES = [
    # cond: two branches, an index out of range, a boolean index, different residuals, integers
    _cond("second", (I32, 1), ["f64[3]", "f64[3]"], lambda x, y: x, lambda x, y: x * lax.sin(y)),
    _cond("first", (I32, 0), ["f64[3]", "f64[3]"], lambda x, y: x * y, lambda x, y: lax.exp(x)),
    _cond("past-the-end", (I32, 7), ["f64[2]"], lax.sin, lax.cos, lax.neg),
    _cond("one-branch", (I32, 0), ["f64[]"], lambda x: (lax.sin(x), x)),
    _cond("integers", (I32, 1), ["i32[2]", "bool[2]"], lambda x, y: x, lambda x, y: x + x),
    _cond("one-is-constant", (I32, 1), ["f64[]"], lambda x: 2.0, lambda x: x * x),
    # while: forward mode, with constants, with a carry that no tangent reaches
    _while(
        "powers",
        _count(3),
        lambda c, i, x: (i + 1, x * c),
        ["f64[2]"],
        [(I32, 0), ("f64[2]", None)],
    ),
    _while(
        "no-step", _count(0), lambda i, x: (i + 1, lax.sin(x)), [], [(I32, 0), ("f64[2]", None)]
    ),
    _while(
        "exchange",
        _count(5),
        lambda i, x, y: (i + 1, y, lax.sin(x)),
        [],
        [(I32, 0), ("f64[]", None), ("f64[]", None)],
    ),
    _while("integers", _count(9), lambda i, n: (i + 1, n + i), [], [(I32, 0), (I32, 1)]),
    Example(  # with a constant of the condition
        lax.while_call,
        (arg("i32[]", values=3), arg("i32[]", values=0), arg("f64[2]")),
        {
            "cond_jaxpr": body(lambda n, i, x: lax.lt(i, n), "i32[]", "i32[]", "f64[2]"),
            "body_jaxpr": body(lambda i, x: (i + 1, lax.sin(x)), "i32[]", "f64[2]"),
            "cond_nconsts": 1,
            "body_nconsts": 0,
        },
        reverse=False,
        label="bound",
    ),
    # scan: constants, carry and slices of each kind, both directions, no steps, no carry
    _scan("rnn", _rnn, ["f64[2,2]"], ["f64[2]"], ["f64[2]"], 3),
    _scan("reversed", _rnn, ["f64[2,2]"], ["f64[2]"], ["f64[2]"], 3, reverse=True),
    _scan("no-steps", lambda c, x: (c * x, c), [], ["f64[2]"], ["f64[2]"], 0),
    _scan("unrolled", _rnn, ["f64[2,2]"], ["f64[2]"], ["f64[2]"], 3, unroll=2),
    _scan("map", lambda x: lax.sin(x), [], [], ["f64[2]"], 4),
    _scan("repeat", lambda c: lax.sin(c), [], ["f64[2]"], [], 3),
    _scan("f32", lambda c, x: (c * x, c + x), [], ["f32[]"], ["f32[]"], 3),
    _scan("integers", lambda i, c, x: (i + 1, c * x, i), [], [I32, "f64[]"], ["f64[]"], 3),
    _scan("residuals", lambda k, c, x: (lax.sin(k) * c, x), ["f64[]"], ["f64[]"], ["f64[]"], 2),
]
EXAMPLES = [
    Example(e.op, e.args, e.params, smooth=False, reverse=e.reverse, label=e.label)
    if e.label in ("f32", "integers")
    else e
    for e in EXAMPLES
]
