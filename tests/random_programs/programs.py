"""Random well-typed programs: a Hypothesis strategy that records operations on random operands.

Only operations whose results are stable under rounding are drawn (no float to integer, nothing that grows
fast), so that different implementations can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["programs"]

Draw = Callable[[Any], Any]
SHAPES = [(), (2,), (3,), (2, 3), (3, 1), (1, 2, 2)]
DTYPES = ["float64"] * 5 + ["float32", "int32", "bool"]
UNARY = [lax.sin, lax.cos, lax.tanh, lax.neg, lax.abs, lax.logistic, lax.sign, lax.copy]
BINARY = [lax.add, lax.sub, lax.mul, lax.max, lax.min]
COMPARISONS = [lax.gt, lax.lt, lax.ge, lax.eq, lax.ne]


@st.composite
def programs(draw: Draw, max_eqns: int = 25, nested: bool = True, loops: bool = True) -> Any:
    """A ClosedJaxpr of 1 to `max_eqns` operations on 1 to 4 arguments (nested ones besides).

    nested: whether it may apply jaxprs; loops: whether `while` is among them.
    """
    avals = [draw(_avals()) for _ in range(draw(st.integers(1, 4)))]
    n = draw(st.integers(1, max_eqns))
    return _body(draw, avals, n, 2 if nested else 0, loops)


@st.composite
def _avals(draw: Draw) -> ShapedArray:
    return ShapedArray(draw(st.sampled_from(SHAPES)), draw(st.sampled_from(DTYPES)))


def _body(
    draw: Draw,
    avals: Sequence[Any],
    n: int,
    depth: int,
    loops: bool,
    wanted: Sequence[Any] | None = None,
) -> ClosedJaxpr:
    """A random jaxpr of arguments of these types, with results of the types `wanted` if they are given.

    Of each wanted type there has to be an argument.
    """

    def record(*args: Any) -> list[Any]:
        values = list(args)
        for _ in range(n):
            values += _operation(draw, values, depth, loops)
        if wanted is None:
            last = draw(st.integers(1, 3))
            return [*values[-1:], *[_pick(draw, values) for _ in range(last - 1)]]
        return [_pick(draw, values, lambda v, a=a: get_aval(v).strong is a.strong) for a in wanted]

    return jt.make_jaxpr(record)(*avals)


def _pick(draw: Draw, values: Sequence[Any], fits: Callable[[Any], bool] = lambda _: True) -> Any:
    """One of the values that fit, later ones more likely; None without any."""
    able = [v for v in values if fits(v)]
    if not able:
        return None
    recent = able[-4:] if draw(st.booleans()) else able
    return recent[draw(st.integers(0, len(recent) - 1))]


def _operation(draw: Draw, values: Sequence[Any], depth: int, loops: bool) -> list[Any]:
    """The results of a random operation on some of the values (none where it does not fit)."""
    kinds: list[Any] = [_elementwise, _elementwise, _binary, _binary, _structural, _structural]
    kinds += [_reduction, _dot, _choice, _conversion, _joining]
    if depth:
        kinds += [_jit, _cond, _scan, _custom_jvp] + [_while] * loops
    kind = kinds[draw(st.integers(0, len(kinds) - 1))]
    if kind in (_jit, _cond, _scan, _custom_jvp, _while):
        return kind(draw, values, depth - 1, loops)
    out = kind(draw, values)
    return [] if out is None else [out]


def _elementwise(draw: Draw, values: Sequence[Any]) -> Any:
    x = _pick(draw, values)
    kind = get_aval(x).dtype.kind
    if kind == "b":
        return lax.not_(x)
    if kind != "f":
        return draw(st.sampled_from([lax.neg, lax.abs, lax.sign]))(x)
    if draw(st.integers(0, 5)) == 0:
        return lax.integer_pow(lax.tanh(x), y=draw(st.sampled_from([2, 3])))
    return draw(st.sampled_from(UNARY))(x)


def _same_type(draw: Draw, values: Sequence[Any], x: Any) -> Any:
    return _pick(draw, values, lambda v: get_aval(v).strong is get_aval(x).strong)


def _binary(draw: Draw, values: Sequence[Any]) -> Any:
    x = _pick(draw, values)
    y = _same_type(draw, values, x)
    kind = get_aval(x).dtype.kind
    if kind == "b":
        return draw(st.sampled_from([lax.and_, lax.or_, lax.xor]))(x, y)
    if draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(COMPARISONS))(x, y)
    if draw(st.integers(0, 3)) == 0:
        y = draw(st.sampled_from([2, 3] if kind == "i" else [0.5, -2.0]))
    return draw(st.sampled_from(BINARY))(x, y)


def _structural(draw: Draw, values: Sequence[Any]) -> Any:
    x = _pick(draw, values)
    shape = get_aval(x).shape
    if not shape:
        return lax.broadcast_in_dim(x, shape=draw(st.sampled_from(SHAPES[1:])))
    axis = draw(st.integers(0, len(shape) - 1))
    options = [
        lambda: lax.transpose(x, permutation=tuple(draw(st.permutations(range(len(shape)))))),
        lambda: lax.reshape(x, new_sizes=(get_aval(x).size,)),
        lambda: lax.reshape(x, new_sizes=(1, *shape)),
        lambda: lax.rev(x, dimensions=(axis,)),
        lambda: lax.broadcast_in_dim(
            x, shape=(2, *shape), broadcast_dimensions=tuple(range(1, len(shape) + 1))
        ),
        lambda: lax.slice(
            x, start_indices=(0,) * len(shape), limit_indices=(1, *shape[1:]), strides=None
        ),
    ]
    if get_aval(x).dtype.kind == "f":
        options.append(lambda: lax.cumsum(x, axis=axis))
    if shape[axis] == 1:
        options.append(lambda: lax.squeeze(x, dimensions=(axis,)))
    out = options[draw(st.integers(0, len(options) - 1))]()
    return out if get_aval(out).size <= 24 else None


def _reduction(draw: Draw, values: Sequence[Any]) -> Any:
    x = _pick(draw, values, lambda v: get_aval(v).ndim > 0)
    if x is None:
        return None
    axes = tuple(sorted(draw(st.sets(st.integers(0, get_aval(x).ndim - 1), min_size=1))))
    if get_aval(x).dtype.kind == "b":
        return draw(st.sampled_from([lax.reduce_or, lax.reduce_and]))(x, axes=axes)
    return draw(st.sampled_from([lax.reduce_sum, lax.reduce_sum, lax.reduce_max]))(x, axes=axes)


def _dot(draw: Draw, values: Sequence[Any]) -> Any:
    x = _pick(draw, values, lambda v: get_aval(v).ndim > 0 and get_aval(v).dtype.kind == "f")
    if x is None:
        return None
    a, axis = get_aval(x), draw(st.integers(0, get_aval(x).ndim - 1))
    size = a.shape[axis]
    y = _pick(draw, values, lambda v: get_aval(v).dtype is a.dtype and size in get_aval(v).shape)
    if a.size * get_aval(y).size > 200:
        return None
    numbers = (((axis,), (get_aval(y).shape.index(size),)), ((), ()))
    return lax.dot_general(x, y, dimension_numbers=numbers)


def _choice(draw: Draw, values: Sequence[Any]) -> Any:
    which = _pick(draw, values, lambda v: get_aval(v).dtype.kind == "b")
    if which is None:
        return None
    shapes = (get_aval(which).shape,)
    x = _pick(draw, values, lambda v: not which.shape or get_aval(v).shape in shapes)
    return lax.select_n(which, x, _same_type(draw, values, x))


def _conversion(draw: Draw, values: Sequence[Any]) -> Any:
    """To f64 (of f32 not, whose rounding would be in values that are compared as f64), or of bool to anything."""
    x = _pick(draw, values, lambda v: get_aval(v).dtype.name != "float32")
    if x is None:
        return None
    to = "float64" if get_aval(x).dtype.kind != "b" else draw(st.sampled_from(DTYPES[-4:]))
    return lax.convert_element_type(x, new_dtype=ShapedArray((), to).dtype)


def _joining(draw: Draw, values: Sequence[Any]) -> Any:
    x = _pick(draw, values, lambda v: get_aval(v).ndim > 0)
    if x is None or get_aval(x).size > 12:
        return None
    axis = draw(st.integers(0, get_aval(x).ndim - 1))
    return lax.concatenate(x, _same_type(draw, values, x), dimension=axis)


# -- operations that apply jaxprs --------------------------------------------------------------


def _some(draw: Draw, values: Sequence[Any], limit: int = 3) -> list[Any]:
    return [_pick(draw, values) for _ in range(draw(st.integers(1, limit)))]


def _types(values: Sequence[Any]) -> list[Any]:
    return [get_aval(v).strong for v in values]


def _inner(draw: Draw, args: Sequence[Any], depth: int, loops: bool, wanted: Any = None) -> Any:
    return _body(draw, _types(args), draw(st.integers(0, 4)), depth, loops, wanted)


def _jit(draw: Draw, values: Sequence[Any], depth: int, loops: bool) -> list[Any]:
    args = _some(draw, values)
    return lax.jit_call(*args, jaxpr=_inner(draw, args, depth, loops), name="inner")


def _cond(draw: Draw, values: Sequence[Any], depth: int, loops: bool) -> list[Any]:
    args = _some(draw, values)
    wanted = _types(_some(draw, args, 2))
    branches = tuple(
        _inner(draw, args, depth, loops, wanted) for _ in range(draw(st.integers(2, 3)))
    )
    flag = _pick(draw, values, lambda v: get_aval(v).shape == () and get_aval(v).dtype.kind == "b")
    if flag is None:  # JAX computes at once what depends on nothing; a literal is the same to both
        index = np.int32(draw(st.integers(0, 1)))
    else:
        index = lax.convert_element_type(flag, new_dtype=ShapedArray((), "int32").dtype)
    return lax.cond_call(index, *args, branches=branches)


def _scan(draw: Draw, values: Sequence[Any], depth: int, loops: bool) -> list[Any]:
    consts, carry = _some(draw, values, 2), _some(draw, values, 2)
    length = draw(st.sampled_from([2, 3]))
    xs = [v for v in _some(draw, values, 2) if get_aval(v).ndim and get_aval(v).shape[0] == length]
    slices = [a.update(shape=a.shape[1:]) for a in _types(xs)]
    given = [*_types(consts), *_types(carry), *slices]
    wanted = [*_types(carry), *[given[draw(st.integers(0, len(given) - 1))]]]
    return lax.scan_call(
        *consts,
        *carry,
        *xs,
        jaxpr=_body(draw, given, draw(st.integers(0, 4)), depth, loops, wanted),
        length=length,
        num_carry=len(carry),
        num_consts=len(consts),
        reverse=draw(st.booleans()),
    )


def _while(draw: Draw, values: Sequence[Any], depth: int, loops: bool) -> list[Any]:
    consts, carry = _some(draw, values, 2), _some(draw, values, 2)
    types = _types(carry)
    inner = _inner(draw, [*consts, *carry], depth, loops, types)
    limit = draw(st.integers(0, 3))
    counter = ShapedArray((), "int32")

    def step(*args: Any) -> list[Any]:
        now, i = args[: len(consts)], args[len(consts)]
        return [lax.add(i, 1), *jt.jaxpr_as_fun(inner)(*now, *args[len(consts) + 1 :])]

    outs = lax.while_call(
        *consts,
        np.int32(0),
        *carry,
        cond_jaxpr=jt.make_jaxpr(lambda i, *_: lax.lt(i, limit))(counter, *types),
        body_jaxpr=jt.make_jaxpr(step)(*_types(consts), counter, *types),
        cond_nconsts=0,
        body_nconsts=len(consts),
    )
    return outs[1:]


def _custom_jvp(draw: Draw, values: Sequence[Any], depth: int, loops: bool) -> list[Any]:
    """A function whose own rule is what its derivative is anyway."""
    args = _some(draw, values)
    call = _inner(draw, args, 0, False)
    rule, _ = jt.jvp_jaxpr(call)
    return lax.custom_jvp_call(*args, call_jaxpr=call, jvp_jaxpr=rule, name="inner")
