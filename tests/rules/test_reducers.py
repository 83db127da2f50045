"""Reductions by jaxprs against JAX: values on NumPy and XLA, derivatives, batches, sizes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.ir.walk import count_eqns
from tests.releases import jaxprs_in_params

RNG = np.random.default_rng(0)


def _first_largest(a, b):
    keep = a[0] >= b[0]
    return tuple(lax.select(keep, x, y) for x, y in zip(a, b, strict=True))


def _hypot(a, b):
    return jnp.sqrt(a * a + b * b)


def _normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def _zero(x: Any, value: Any = 0) -> Any:
    return np.asarray(value, x.dtype)[()]


def _reduce(f, init, axes):
    return lambda x: lax.reduce(x, _zero(x, init), f, axes)


def _pairs(x, i):
    return lax.reduce((x, i), (_zero(x, -np.inf), _zero(i)), _first_largest, (0,))


def _windows(f: Any, init: Any, dimensions: Any, padding: Any = "SAME", **params: Any) -> Any:
    ones = (1,) * len(dimensions)
    return lambda x: lax.reduce_window(
        x, _zero(x, init), f, dimensions, params.pop("strides", ones), padding, **params
    )


def _window_pairs(x, y):
    inits = (_zero(x, -np.inf), _zero(y))
    return lax.reduce_window((x, y), inits, _first_largest, (2, 2), (1, 2), "SAME")


CASES = {
    "sum from 3": (_reduce(lambda a, b: a + b, 3, (0,)), _normal(4, 3)),
    "product of halves": (_reduce(lambda a, b: a * b, 1, (1, 0)), _normal(3, 5, dtype=np.float16)),
    "hypot": (_reduce(_hypot, 0, (1,)), _normal(2, 5)),
    "hypot of many": (_reduce(_hypot, 0, (0,)), _normal(1000, 2)),
    "axis of size 1": (_reduce(lambda a, b: a + b, 3, (1,)), _normal(4, 1)),
    "of nothing": (_reduce(_hypot, 2, (0,)), _normal(0, 2)),
    "argmax": (_pairs, _normal(5, 3), _normal(5, 3)),
    "argmax with places": (_pairs, _normal(6), np.arange(6)),
    "integers": (_reduce(lambda a, b: a | b, 0, (0,)), np.arange(6).reshape(2, 3)),
    "windows: product": (_windows(lax.mul, 1, (2, 2)), _normal(3, 4)),
    "windows: sum from 1": (_windows(lax.add, 1, (3,)), _normal(6, dtype=np.float32)),
    "windows: hypot": (_windows(_hypot, 0, (2, 3), ((1, 0), (2, 1))), _normal(3, 5)),
    "windows: hypot, dilated": (
        _windows(_hypot, 0, (2,), ((1, 1),), base_dilation=(2,), window_dilation=(3,)),
        _normal(5),
    ),
    "windows: a scalar": (_windows(_hypot, 0, ()), _normal()),
    "windows: argmax": (_window_pairs, _normal(4, 5), _normal(4, 5)),
    "windows: complex": (_windows(lax.add, 1, (2,)), _normal(5) + 1j * _normal(5)),
}


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=CASES)
def case(request):
    """(the function in JAX, ours, the arguments); both return lists."""
    f, *args = CASES[request.param]

    def in_jax(*xs):
        out = f(*xs)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    program = jt.from_jax(jax.make_jaxpr(in_jax)(*args))
    assert jt.format_jaxpr(jt.parse(jt.format_jaxpr(program))) == jt.format_jaxpr(program)
    jt.typecheck_jaxpr(program.jaxpr)
    return in_jax, jt.jaxpr_as_fun(program), args


def _close(xs, ys):
    for x, y in zip(xs, ys, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if x.dtype != jt.float0:
            tol = 1e-2 if x.dtype == np.float16 else 1e-6
            np.testing.assert_allclose(x, y, rtol=tol, atol=tol)


def _count(jaxpr):
    return sum(1 + sum(map(_count, jaxprs_in_params(e.params))) for e in jaxpr.eqns)


def _tangents(args):
    return [
        RNG.normal(size=x.shape).astype(x.dtype)
        if x.dtype.kind in "fc"
        else np.zeros(x.shape, jax.dtypes.float0)
        for x in args
    ]


def test_values(case):
    in_jax, ours, args = case
    expected = in_jax(*args)
    _close(ours(*args), expected)
    _close(jt.compile(ours.program)(*args), expected)


def test_jvp(case):
    in_jax, ours, args = case
    tangents = _tangents(args)
    if any(x.dtype.kind == "i" for x in args) or not args[0].size:
        return  # JAX's rule takes float operands only
    _close(
        jt.jvp(ours, tuple(args), tuple(tangents))[1],
        jax.jvp(in_jax, tuple(args), tuple(tangents))[1],
    )


def test_jvp_with_integers():
    f, *args = CASES["argmax with places"]
    ours = jt.jaxpr_as_fun(jt.from_jax(jax.make_jaxpr(f)(*args)))
    tangent = RNG.normal(size=6)
    zeros = np.zeros(6, jax.dtypes.float0)
    out, out_tangents = jt.jvp(ours, tuple(args), (tangent, zeros))
    assert out_tangents[0] == tangent[out[1]]
    assert np.asarray(out_tangents[1]).dtype == jt.float0


def test_vjp_of_reduce(case, request):
    in_jax, ours, args = case
    integers = any(x.dtype.kind == "i" for x in args)
    if "windows" in request.node.name or integers or not args[0].size:
        return
    expected = in_jax(*args)
    cts = _tangents(expected)
    pulled = jax.vjp(in_jax, *args)[1](cts)
    _close(jt.vjp(ours, *args)[1](cts), pulled)


def test_vjp_of_windows_is_refused():
    """JAX refuses it too: the rule computes value and tangent in one pass over pairs."""
    f, x = CASES["windows: hypot"]
    ours = jt.jaxpr_as_fun(jt.from_jax(jax.make_jaxpr(f)(x)))
    with pytest.raises(jt.UnsupportedError, match="the jvp rule of reduce_window computes both"):
        jt.vjp(ours, x)


@pytest.mark.parametrize("axis", [0, -1])
def test_vmap(case, axis):
    in_jax, ours, args = case
    for batched in range(len(args) + 1):  # one of them, or all
        axes = tuple(axis if batched in (i, len(args)) else None for i in range(len(args)))
        stacked = [
            x if d is None else np.stack([x, x[::-1] if x.ndim else 2 * x], d)
            for x, d in zip(args, axes, strict=True)
        ]
        mine = jt.vmap(ours, in_axes=axes)
        theirs = jax.vmap(in_jax, in_axes=axes)
        _close(mine(*stacked), theirs(*stacked))
        size = count_eqns(jt.make_jaxpr(mine)(*stacked).jaxpr)
        assert size <= _count(jax.make_jaxpr(theirs)(*stacked).jaxpr)


def test_batched_initial_values_are_refused():
    def f(x, init):
        return lax.reduce(x, init, lambda a, b: a * b + a, (0,))

    x, inits = _normal(3), _normal(2)
    ours = jt.jaxpr_as_fun(jt.from_jax(jax.make_jaxpr(f)(x, inits[0])))
    with pytest.raises(jt.JaxprToolError, match="initial values that are batched"):
        jt.vmap(ours, in_axes=(None, 0))(x, inits)


@pytest.mark.parametrize("window", [2, 3])
def test_select_and_scatter(window):
    from jax._src.lax.windowed_reductions import _select_and_scatter

    x, init = _normal(6, 4), np.float64(2)
    source = _normal(7 - window, 5 - window)

    def f(x, source, init):
        return _select_and_scatter(
            x, lax.ge, (window, window), (1, 1), ((0, 0),) * 2, source, init, _hypot
        )

    program = jt.from_jax(jax.make_jaxpr(f)(x, source, init))
    assert jt.format_jaxpr(jt.parse(str(program))) == str(program)
    expected = [f(x, source, init)]
    _close(jt.eval_jaxpr(program, [x, source, init]), expected)
    _close(jt.compile(program)(x, source, init), expected)


def test_select_and_scatter_of_a_scalar():
    """XLA's own compiler fails on it."""
    ge = jt.parse("{ lambda ; a:f64[] b:f64[]. let c:bool[] = ge a b in (c,) }")
    add = jt.parse("{ lambda ; a:f64[] b:f64[]. let c:f64[] = add a b in (c,) }")
    params = {"select_jaxpr": ge, "scatter_jaxpr": add}
    params |= {"window_dimensions": (), "window_strides": (), "padding": ()}
    x, source, init = (np.float64(v) for v in (1, 2, 3))
    program = jt.make_jaxpr(lambda *xs: jt.lax.select_and_scatter(*xs, **params))(x, source, init)
    _close(jt.eval_jaxpr(program, [x, source, init]), [np.float64(5)])
    _close(jt.compile(program)(x, source, init), [np.float64(5)])


SCALED = """{{ lambda ; a:f32[6]. let
    b:f32[4] = reduce_window[
      base_dilation=(1,)
      consts=({value},)
      jaxpr={{ lambda k:f32[] ; c:f32[] d:f32[]. let
          e:f32[] = mul d k
          f:f32[] = add c e
        in (f,) }}
      padding=((0, 0),)
      window_dilation=(1,)
      window_dimensions=(3,)
      window_strides=(1,)
    ] a 0.0:f32[]
  in (b,) }}"""


@pytest.mark.parametrize("value", ["2.0", "2"])
def test_constants_of_a_reducer_in_a_text(value):
    """They are scalars without a type, and have the types of the reducer's constants."""
    program = jt.parse(SCALED.format(value=value))
    jt.typecheck_jaxpr(program)
    x, t = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    expected = [np.convolve(x, 2 * np.ones(3, np.float32), "valid")]
    slopes = [np.full(4, 6, np.float32)]
    _close(jt.eval_jaxpr(program, [x]), expected)
    _close(jt.compile(program)(x), expected)
    derivative, _ = jt.jvp_jaxpr(program, [True])
    _close(jt.eval_jaxpr(derivative, [x, t]), expected + slopes)
    _close(jt.compile(jt.parse(str(derivative)))(x, t), expected + slopes)
    batched, _ = jt.vmap_jaxpr(program, 1, [0], 0)
    _close(jt.eval_jaxpr(batched, [x[None]]), [expected[0][None]])


@pytest.mark.parametrize("value", ["True", "(2+1j)", "'a'", "[1.0, 2.0]", "1.0, 2.0"])
def test_constants_of_a_reducer_have_their_types(value):
    with pytest.raises(jt.JaxprTypeError, match="reducer-constants"):
        jt.typecheck_jaxpr(jt.parse(SCALED.format(value=value)))
