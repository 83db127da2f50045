"""custom_linear_solve: the same results and derivatives as JAX's, and as those of the solution itself."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.backends.xla.compile import compile_jaxpr
from jaxprtool.ir.diagnostics import JaxprTypeError, UnsupportedError
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Params
from jaxprtool.ir.params import Record
from tests.laws.oracle import assert_close

RNG = np.random.default_rng(5)
A = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
B = RNG.normal(size=3)
DA, DB = RNG.normal(size=(3, 3)), RNG.normal(size=3)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def _explicit(matvec, b):
    return jax.numpy.linalg.inv(jax.jacobian(matvec)(b)) @ b


def _solve(a, b, transpose=True, has_aux=False):
    def solver(matvec, y):
        x = _explicit(matvec, y)
        return (x, (y * 2).sum()) if has_aux else x

    return jax.lax.custom_linear_solve(
        lambda x: a @ x,
        b,
        solve=solver,
        transpose_solve=solver if transpose else None,
        has_aux=has_aux,
    )


def _program(f=_solve):
    """The jaxpr of a solver of JAX's, from its objects."""
    return jt.from_jax(jax.make_jaxpr(f)(A, B))


def _ours(f=_solve):
    return jt.jaxpr_as_fun(_program(f))


def _with_aux(a, b):
    return _solve(a, b, has_aux=True)


@pytest.mark.parametrize("f", [_solve, _with_aux])
def test_values(f):
    program = _program(f)
    expected = jax.tree.leaves(jax.jit(f)(A, B))
    again = jt.parse(str(program))
    for outs in (
        jt.eval_jaxpr(program, [A, B]),
        compile_jaxpr(program)(A, B),
        jt.eval_jaxpr(again.jaxpr, [*program.consts, A, B]),
    ):
        for x, y in zip(outs, expected, strict=True):
            assert_close(x, y)
    jt.typecheck_jaxpr(program)


@pytest.mark.parametrize("f", [_solve, _with_aux])
@pytest.mark.parametrize("moved", [(True, True), (True, False), (False, True)])
def test_jvp(f, moved):
    tangents = [t if m else 0 * t for t, m in zip((DA, DB), moved, strict=True)]
    _, ts = jt.jvp(_ours(f), (A, B), tuple(tangents))
    expected = jax.jit(lambda *xs: jax.jvp(f, xs, tuple(map(jax.numpy.asarray, tangents))))(A, B)
    assert_close(ts[0], jax.tree.leaves(expected[1])[0])


def test_vjp():
    outs, pullback = jt.vjp(_ours(), A, B)
    ct = np.arange(3.0)
    expected = jax.jit(lambda a, b: jax.vjp(_solve, a, b)[1](ct))(A, B)
    for x, y in zip(pullback([ct]), expected, strict=True):
        assert_close(x, y)
    x = np.linalg.solve(A, B)
    assert_close(outs[0], x)
    assert_close(pullback([ct])[1], np.linalg.solve(A.T, ct))


def test_vjp_of_a_vjp_transposes_twice():
    f = _ours()

    def gradient(a, b):
        return jt.grad(lambda b: lax.reduce_sum(lax.sin(f(a, b)[0]), axes=(0,)))(b)

    def in_jax(a, b):
        return jax.grad(lambda b: jax.numpy.sin(_solve(a, b)).sum())(b)

    mine = jt.vjp(gradient, A, B)[1](np.ones(3))
    theirs = jax.jit(lambda a, b: jax.vjp(in_jax, a, b)[1](np.ones(3)))(A, B)
    for x, y in zip(mine, theirs, strict=True):
        assert_close(x, y, scale=10)


@pytest.mark.parametrize("f", [_solve, _with_aux])
@pytest.mark.parametrize("in_axes", [(0, 0), (1, None), (None, 1), (None, 0)])
def test_vmap(f, in_axes):
    rows = [(A + i * np.eye(3), B - i) for i in range(2)]
    args = [
        (A, B)[k] if d is None else np.stack([r[k] for r in rows], axis=d)
        for k, d in enumerate(in_axes)
    ]
    mine = jt.vmap(_ours(f), in_axes=in_axes)(*args)
    theirs = jax.tree.leaves(jax.jit(jax.vmap(f, in_axes=in_axes))(*args))
    for x, y in zip(mine, theirs, strict=True):
        assert_close(x, y)
    if f is _solve:
        cts = np.arange(6.0).reshape(2, 3)
        mine = jt.vmap(lambda a, b, ct: jt.vjp(_ours(f), a, b)[1]([ct]), in_axes=(*in_axes, 0))
        theirs = jax.vmap(lambda a, b, ct: jax.vjp(f, a, b)[1](ct), in_axes=(*in_axes, 0))
        for x, y in zip(mine(*args, cts), jax.jit(theirs)(*args, cts), strict=True):
            assert_close(x, y)


def test_partial_evaluation():
    program = _program()
    known, unknown, unks_out, n_res = jt.partial_eval_jaxpr(program, [False, True])
    assert unks_out == [True]
    residuals = jt.eval_jaxpr(known, [A])
    assert len(residuals) == n_res
    assert_close(jt.eval_jaxpr(unknown, [*residuals, B])[0], np.linalg.solve(A, B))


def test_reverse_mode_without_a_transposed_solver():
    f = _ours(lambda a, b: _solve(a, b, transpose=False))
    assert_close(jt.jvp(f, (A, B), (0 * A, DB))[1][0], np.linalg.solve(A, DB))
    with pytest.raises(UnsupportedError, match="transpose_solve"):
        jt.vjp(f, A, B)[1]([B])


def _eqn(program):
    return next(e for e in program.eqns if e.primitive.name == "custom_linear_solve")


@pytest.mark.parametrize(
    "change, shown",
    [
        ({"const_lengths": (1, 1, 1, 1)}, "const_lengths"),
        ({"const_lengths": ("matvec", 9)}, "const_lengths"),
        ({"const_lengths": ("matvec", 0)}, "solve: its jaxpr"),
        ({"jaxprs": ("solve", None)}, "solve"),
        ({"jaxprs": ("vecmat", "matvec")}, "vecmat"),
    ],
)
def test_rejections(change, shown):
    program = _program()
    eqn = _eqn(program)
    ((param, new),) = change.items()
    if new[0] in eqn.params[param].fields:
        fields = dict(eqn.params[param].fields)
        fields[new[0]] = jt.make_jaxpr(lambda x: x)(1.0) if new[1] == "matvec" else new[1]
        new = Record("_LinearSolveTuple", (), **fields)
    amend(eqn, params=Params({**eqn.params, param: new}))
    with pytest.raises(JaxprTypeError, match=shown):
        jt.typecheck_jaxpr(program)
