"""Sample operands of reductions by jaxprs: reduce, reduce_window and select_and_scatter."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.jaxpr import ClosedJaxpr
from tests.rules.example import Example, arg, make_inputs
from tests.rules.examples_control_flow import body
from tests.rules.examples_window import window_params


def _reducer(f: Any, *types: str) -> ClosedJaxpr:
    """f of accumulated scalars and new ones."""
    return body(f, *types, *types)


def _hypot(a: Any, b: Any) -> Any:
    return lax.sqrt(a * a + b * b)


def _larger(a: Any, i: Any, b: Any, j: Any) -> Any:
    keep = lax.ge(a, b)
    return lax.select_n(keep, b, a), lax.select_n(keep, j, i)


def _scalars(types: tuple[str, ...]) -> list[str]:
    return [t.partition("[")[0] + "[]" for t in types]


def _from(op: Any, types: tuple[str, ...], inits: tuple[Any, ...]) -> Any:
    """op from fixed initial values, by which it has neither derivatives nor a batching rule."""
    starts = make_inputs(
        Example(op, tuple(arg(t, values=v) for t, v in zip(_scalars(types), inits, strict=True)))
    )
    return lambda *xs, **params: op(*xs, *starts, **params)


def _reduce(label: str, f: Any, types: tuple, inits: tuple, *dimensions: int) -> Example:
    params = {"dimensions": dimensions, "jaxpr": _reducer(f, *_scalars(types))}
    return Example(
        _from(lax.reduce, types, inits),
        tuple(map(arg, types)),
        params,
        label=f"{label}-{dimensions}-{types}".replace(" ", ""),
        smooth="f32" not in types[0],  # bodies of one type
        differentiable=len(types) == 1,  # JAX fails where a result has no tangent
        of=lax.reduce,
    )


def _windows(label: str, f: Any, types: tuple, inits: tuple, params: Any) -> Example:
    params = {"jaxpr": _reducer(f, *_scalars(types)), **params}
    return Example(
        _from(lax.reduce_window, types, inits),
        tuple(map(arg, types)),
        params,
        label=f"{label}-{types}".replace(" ", ""),
        smooth="f32" not in types[0],
        reverse=False,
        of=lax.reduce_window,
    )


def _scattered(label: str, select: Any, scatter: Any, x: str, source: str, params: Any) -> Example:
    scalar = x.partition("[")[0] + "[]"
    params = {
        "select_jaxpr": _reducer(select, scalar),
        "scatter_jaxpr": _reducer(scatter, scalar),
        **{k: v for k, v in params.items() if "dilation" not in k},
    }
    operands = (arg(x), arg(source), arg(scalar, values=0))
    return Example(
        lax.select_and_scatter,
        operands,
        params,
        label=f"{label}-{x}",
        differentiable=False,
        mapped=False,
    )


EXAMPLES = [
    _reduce("sum", lax.add, ("f32[4,3]",), (0,), 0),
    _reduce("sum", lax.add, ("f64[4,3]",), (0,), 1, 0),
    _reduce("hypot", _hypot, ("f64[2,5]",), (0,), 1),
    _reduce("nothing", lax.add, ("i32[2,0]",), (2,), 1),
    _reduce("bits", lax.or_, ("i32[2,3]",), (0,), 0),
    _reduce("argmax", _larger, ("f64[5,3]", "i32[5,3]"), (float("-inf"), -1), 0),
    _reduce("largest", lax.max, ("f32[4,3]",), (float("-inf"),), 0),
    _reduce("none", lax.add, ("i32[2]",), (1,)),
    _windows("product", lax.mul, ("f64[3,4]",), (1,), window_params((2, 2))),
    _windows("hypot", _hypot, ("f64[5]",), (0,), window_params((2,), (2,), ((1, 1),))),
    _windows(
        "dilated", _hypot, ("f64[5]",), (0,), window_params((2,), None, ((1, 1),), (2,), (3,))
    ),
    _windows("bits", lax.or_, ("i32[5]",), (0,), window_params((3,), (2,))),
    _windows(
        "argmax",
        _larger,
        ("f32[4,5]", "f32[4,5]"),
        (float("-inf"), -1),
        window_params((2, 2), (1, 2), ((0, 1), (0, 1))),
    ),
    _scattered("largest", lax.ge, lax.add, "f64[6]", "f64[3]", window_params((2,), (2,))),
    _scattered(
        "smallest",
        lax.le,
        lax.max,
        "f32[4,5]",
        "f32[4,6]",
        window_params((2, 2), (1, 1), ((1, 0), (1, 1))),
    ),
    _scattered("integers", lax.ge, lax.mul, "i32[4]", "i32[3]", window_params((2,))),
]
