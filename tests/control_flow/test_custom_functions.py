"""JAX's functions with rules of their own, traced: equal to JAX under every transformation, also from a file."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.custom_derivatives import SymbolicZero
from jax.experimental import checkify

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr
from jaxprtool.interpreters.lost_rules import CustomRuleWarning
from jaxprtool.syntax.print import format_jaxpr
from tests.control_flow.oracle import close, compare, traced

X = np.arange(3, dtype=np.float32) + 0.5
A = np.eye(3, dtype=np.float32) * 2 + 0.1

# Rules that give something else than the derivative, so that it shows whether they are used.


@jax.custom_vjp
def _product(x, y):
    return x * y


def _product_fwd(x, y):
    return x.value * y.value, (x.value if y.perturbed else None, y.value)


def _product_bwd(res, ct):
    x, y = res
    return 2 * ct * y, None if x is None else ct * x


_product.defvjp(_product_fwd, _product_bwd, symbolic_zeros=True)


@jax.custom_vjp
def _pair(x):
    return x * 2, jnp.sin(x)


def _pair_bwd(_, cts):
    given = [k * ct for k, ct in zip((3.0, 5.0), cts, strict=True) if type(ct) is not SymbolicZero]
    return (sum(given, jnp.zeros(3)),)


_pair.defvjp(lambda x: (_pair(x.value), x.value), _pair_bwd, symbolic_zeros=True)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _scaled(n, x, y):
    return n * x * y


@_scaled.defjvp
def _scaled_jvp(n, primals, tangents):
    return _scaled(n, *primals), 3 * tangents[0] * primals[1] + tangents[1]


@jax.custom_jvp
def _with_zeros(x, y):
    return x * y


def _with_zeros_jvp(primals, tangents):
    dx, dy = (0.0 if type(t) is SymbolicZero else t for t in tangents)
    return _with_zeros(*primals), 7 * dx * primals[1] + dy * primals[0]


_with_zeros.defjvp(_with_zeros_jvp, symbolic_zeros=True)


@jax.custom_gradient
def _gradient(x):
    return jnp.sin(x), lambda ct: ct * 5 * x


@jax.custom_vjp
def _optimized(x):
    return jnp.sin(x)


_optimized.defvjp(lambda x: (jnp.sin(x), x), lambda res, ct: (ct * 2 * res,), optimize_remat=True)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _applied(f, x, *consts):
    return f(x, *consts)


_applied.defvjp(
    lambda f, *args: (f(*args), args),
    lambda f, args, ct: jax.vjp(lambda *args: 2 * f(*args), *args)[1](ct),
)


def _converted(x):
    f, consts = jax.closure_convert(lambda y: jnp.sin(y * x[0]), x)
    return _applied(f, x, *consts)


def _scoped(x):
    with jax.named_scope("scope"):
        return jax.named_call(lambda x: jnp.sin(x) * x, name="f")(x)


def _root(x):
    def solve(f, z):
        return jax.lax.fori_loop(0, 30, lambda _, z: z - f(z) / (3 * z**2), z)

    def linear(g, y):
        return y / g(jnp.ones_like(y))

    return jax.lax.custom_root(lambda z: z**3 - x, jnp.ones_like(x), solve, linear)


def _solve(symmetric):
    def f(x):
        def solve(_, b):
            return jnp.linalg.solve(A * (1 + x[0]), b)

        def matvec(v):
            return (A * (1 + x[0])) @ v

        return jax.lax.custom_linear_solve(matvec, x, solve, solve, symmetric=symmetric)

    return f


def _checked(x):
    checkify.check(jnp.all(x > 0), "negative: {x}", x=jnp.asarray(x)[0])
    return jnp.log(x)


def _without_errors(x):
    """checkify's error codes are counted through the process, so only the rest can be compared."""
    error, out = checkify.checkify(_checked, errors=checkify.all_checks)(x)
    return out, [*error._pred.values()]


REVERSE_ONLY = {
    "custom_vjp with symbolic zeros": lambda x: _product(x, 2 * x),
    "custom_vjp with an unperturbed argument": lambda x: _product(x, jnp.ones(3)),
    "custom_vjp with two results": _pair,
    "custom_vjp with an unread result": lambda x: _pair(x)[0],
    "custom_vjp in scan": lambda x: jax.lax.scan(
        lambda c, v: (_product(c, v), c), x, jnp.stack([x, x])
    ),
    "custom_vjp with optimize_remat": lambda x: _optimized(x) * x,
    "custom_gradient": lambda x: _gradient(x) * x,
    "closure_convert": _converted,
}
BOTH = {
    "custom_jvp with nondiff_argnums": lambda x: _scaled(2.0, x, x),
    "custom_jvp with a constant": lambda x: _scaled(2.0, x, jnp.ones(3)),
    "custom_jvp with symbolic zeros": lambda x: _with_zeros(x, x) + _with_zeros(x, jnp.ones(3)),
    "named scope and call": _scoped,
    "checkify": _without_errors,
    "custom_root": _root,
    "custom_linear_solve": _solve(symmetric=False),
    "symmetric custom_linear_solve": _solve(symmetric=True),
}
CASES = {
    **{k: (f, False) for k, f in REVERSE_ONLY.items()},
    **{k: (f, True) for k, f in BOTH.items()},
}


def _floats(tree):
    return [x for x in jax.tree.leaves(tree) if x.dtype.kind == "f"]


def _ones(x):
    return np.ones_like(x) if x.dtype.kind == "f" else np.zeros(x.shape, jax.dtypes.float0)


@pytest.mark.parametrize("f, forward", CASES.values(), ids=CASES)
def test_traced_and_from_a_file(f, forward):
    program = compare(f, X, forward=forward)
    text = format_jaxpr(program, lossless=True)
    again = jt.parse(text)
    assert format_jaxpr(again, lossless=True) == text
    ours = jt.jaxpr_as_fun(again)
    outs, pull = jax.vjp(f, X)
    theirs = pull(jax.tree.map(_ones, outs))
    close(jt.vjp(ours, X)[1](*map(_ones, jax.tree.leaves(outs))), theirs)
    stacked = np.stack([X, X + 1])
    close(jt.vmap(ours)(stacked), jax.tree.leaves(jax.vmap(f)(stacked)))
    if forward:
        close(_floats(jt.jvp(ours, (X,), (X,))[1]), _floats(jax.jvp(f, (X,), (X,))[1]))


@jax.custom_vjp
def _weighted(n, x, y):
    return n * jnp.sin(x) * y


_weighted.defvjp(
    lambda n, x, y: (_weighted(n, x, y), (n, x, y)),
    lambda res, ct: (None, 2 * res[0] * ct * res[2], ct * res[1]),
)


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_custom_vjp_in_some_operands(wanted):
    n, xs = np.arange(3, dtype=np.int32), (X, X + 1)
    chosen = [x for x, w in zip(xs, wanted, strict=True) if w]

    def of_chosen(f, xs):
        def g(*chosen):
            rest = iter(chosen)
            return f(n, *[next(rest) if w else x for x, w in zip(xs, wanted, strict=True)])

        return g

    def in_jax(n, x, y, *tangents):
        given = tuple(v for v, w in zip((x, y), wanted, strict=True) if w)
        return jax.jvp(of_chosen(lambda _, *xs: _weighted(n, *xs), (x, y)), given, tangents)

    program = jt.from_jax(jax.make_jaxpr(_weighted)(n, *xs))
    differentiated, _ = jt.jvp_jaxpr(program, [False, *wanted])
    assert str(differentiated) == str(jax.make_jaxpr(in_jax)(n, *xs, *chosen))
    text = format_jaxpr(differentiated, lossless=True)
    assert format_jaxpr(jt.parse(text), lossless=True) == text
    ours = jt.vjp(of_chosen(jt.jaxpr_as_fun(program), xs), *chosen)[1]([X])
    close(ours, jax.vjp(of_chosen(jax.jit(_weighted), xs), *chosen)[1](X))


def test_a_linear_map_from_text_has_no_transpose_in_jax():
    program = jt.parse(
        "{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = custom_lin[in_zeros=[False] num_res=1] a b in (c,) }"
    )
    linear = jax.extend.core.jaxpr_as_fun(jt.to_jax(program))
    with pytest.raises(
        jt.UnsupportedError, match="the backward rule of this custom_lin is not in the text"
    ):
        jax.linear_transpose(lambda t: linear(X, t), X)([X])


def test_a_custom_vjp_in_a_while_has_no_derivative_in_either_mode():
    program = traced(
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: 2 * _product(c, c), x), X
    )
    called = jt.jaxpr_as_fun(program)
    with pytest.raises(jt.UnsupportedError, match="no forward derivative") as error:
        jt.jvp(called, (X,), (X,))
    assert "except in a while" in error.value.diagnostics[0].help
    with pytest.raises(jt.UnsupportedError, match=r"the while around it none in reverse mode"):
        jt.gradcheck(program, X)


# -- rules that a text does not hold ---------------------------------------------------------------


def _doubled_until_large(x):
    return jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: 2 * c, x)


def _called_back(x):
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(np.sin, like, x, vmap_method="sequential")


def _in_turns(x):
    return jax.lax.scan(lambda c, _: (_doubled_until_large(c), None), x, None, length=2)[0]


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_doubled_until_large, "no transpose rule for while"),
        (_called_back, "no jvp rule for pure_callback"),
        (_in_turns, "no transpose rule for while"),
    ],
)
def test_a_body_without_derivative_whose_rule_is_lost(kind, body, why):
    if kind == "jvp":
        f = jax.custom_jvp(body)
        f.defjvp(lambda xs, ts: (body(*xs), 3 * ts[0]))
    else:
        f = jax.custom_vjp(body)
        f.defvjp(lambda x: (body(x), None), lambda _, ct: (3 * ct,))
    program = jt.parse(str(jax.make_jaxpr(lambda x: jax.jit(f)(x).sum())(X)))
    called = jt.jaxpr_as_fun(program)
    for derivative in [
        lambda: jt.driver.vjp.vjp(program),
        lambda: jt.grad(lambda x: called(x)[0])(X),
        lambda: jt.vjp(jt.vmap(called), np.stack([X, X]))[1](np.ones(2, np.float32)),
    ]:
        with (
            pytest.warns(CustomRuleWarning),
            pytest.raises(jt.UnsupportedError, match="is not in the text") as error,
        ):
            derivative()
        (found,) = error.value.diagnostics
        assert found.message.startswith(f"the custom {kind} rule ")
        assert (
            f"is not in the text, and its body has no derivative to take in its place: {why}"
            in found.message
        )
        assert "trace the function anew" in found.help


def test_a_loop_beside_a_lost_rule_is_refused_for_itself():
    f = jax.make_jaxpr(lambda x: _doubled_until_large(jax.nn.relu(x)).sum())
    with (
        pytest.warns(CustomRuleWarning),
        pytest.raises(jt.MissingRuleError, match=r"error: no transpose rule for while"),
    ):
        jt.driver.vjp.vjp(jt.parse(str(f(X))))


@jax.custom_vjp
def _layer(w, x, n):
    return jnp.tanh(w @ x) * n


def _layer_fwd(w, x, n):
    return _layer(w, x, n), (w, x, n > 1)


def _layer_bwd(res, ct):
    w, x, doubled = res
    ct = jnp.where(doubled, 2 * ct, ct)
    return jnp.outer(ct, x), ct @ w, None


_layer.defvjp(_layer_fwd, _layer_bwd)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "in_axes", [(None, 0, None), (0, None, None), (0, None, 0), (0, 0, 0), (1, 0, None)]
)
def test_what_all_examples_share_has_no_batch_axis_under_a_custom_vjp(in_axes, dtype):
    each = [jnp.asarray(A, dtype), jnp.asarray(X, dtype), jnp.int32(2)]
    args = [
        x if d is None else jnp.stack([x, 2 * x], d) for x, d in zip(each, in_axes, strict=True)
    ]
    theirs = jax.vmap(_layer, in_axes)
    ours, _ = jt.vmap_jaxpr(jt.from_jax(jax.make_jaxpr(_layer)(*each)), 2, in_axes)
    said = (
        str(jax.make_jaxpr(theirs)(*args)).replace("np.int64(1)", "1").replace("np.int64(0)", "0")
    )
    assert format_jaxpr(ours) == said

    (call,) = [e for e in ours.eqns if e.primitive.name == "custom_vjp_call"]
    fwd = call.params["fwd_jaxpr"]
    ranks = [len(a.shape) for a in fwd.out_avals[:3]]
    assert ranks == [x.ndim for x in args]  # of the residuals

    total = lambda f: lambda w, x, n: f(w, x, n).astype("float32").sum()
    mine = jt.grad(total(lambda *xs: jt.jaxpr_as_fun(ours)(*xs)[0]), (0, 1))(*map(np.asarray, args))
    grads = jax.grad(total(theirs), (0, 1))(*args)
    close(mine, grads, 2e-2 if dtype == "bfloat16" else 1e-5)


# -- custom_vmap -----------------------------------------------------------------------------------


@custom_vmap
def _times(x, y):
    return x * y, y


@_times.def_vmap
def _times_rule(axis_size, in_batched, x, y):
    """Ten times the product where x is batched, and n times where it is not."""
    x_batched, y_batched = in_batched
    return (x * y * (10.0 if x_batched else axis_size), y), (True, y_batched)


PLACES = [(0, 0), (1, 0), (None, 0), (None, 1)]


@pytest.mark.parametrize("in_axes", PLACES)
def test_custom_vmap_uses_its_rule(in_axes):
    program = compare(_times, X, X, reverse=False, batch=False)
    ours = jt.jaxpr_as_fun(program)
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    args = [X if d is None else square for d in in_axes]
    close(jt.vmap(ours, in_axes)(*args), jax.vmap(_times, in_axes)(*args))


def test_the_derivative_of_custom_vmap_is_batched_by_the_rule_too():
    ours = jt.jaxpr_as_fun(traced(_times, X, X))
    square = np.arange(9, dtype=np.float32).reshape(3, 3)

    def pushed(jvp, f):
        return lambda *args: jvp(f, args, args)

    mine = jt.vmap(pushed(jt.jvp, ours))(square, square)
    close(mine, jax.vmap(pushed(jax.jvp, _times))(square, square))
    tangents = (np.ones_like(square), square)
    mixed = jt.vmap(lambda *ts: jt.jvp(ours, (X, X), ts))(*tangents)
    close(mixed[1][0], 10 * (X + X * square))


def test_sequential_vmap():
    f = sequential_vmap(lambda x: jnp.sin(x) * x)
    compare(f, X, reverse=False)


def test_custom_vmap_in_reverse_mode_differentiates_its_body():
    """JAX has no derivative here."""
    ours = jt.jaxpr_as_fun(traced(_times, X, X))
    close(jt.vjp(ours, X, X)[1](X, X), [X * X, X * X + X])


def test_custom_vmap_from_text_is_batched_as_its_body():
    program = jt.parse(str(jax.make_jaxpr(_times)(X, X)))
    square = np.stack([X, X])
    with pytest.warns(CustomRuleWarning, match="batching rule .*_times_rule.* is not in the text"):
        close(jt.vmap(jt.jaxpr_as_fun(program))(square, square), [square * square, square])


def test_a_batching_rule_that_fails():
    @custom_vmap
    def f(x):
        return x

    f.def_vmap(lambda axis_size, in_batched, x: ([x, x], [True, True]))
    ours = jt.jaxpr_as_fun(traced(f, X))
    with pytest.raises(jt.UsageError, match=r"the batching rule .* fails: structure of output"):
        jt.vmap(ours)(np.stack([X, X]))


def test_a_call_that_does_not_fit():
    program = jt.parse("""{ lambda ; a:f32[2]. let
    b:f32[3] = custom_vmap_call[call={ lambda ; c:f32[3]. let  in (c,) }] a
  in (b,) }""")
    with pytest.raises(jt.JaxprTypeError, match=r"custom_vmap_call: operand 0 is f32\[2\]"):
        jt.typecheck_jaxpr(program)


def test_second_derivatives_through_a_loop_are_those_of_its_steps():
    """A gradient keeps the rule in the loop that runs forward, as it does without a loop. JAX inlines the function there, so that
    its second derivative through a loop is none of the rule's, and another than that of the same steps one by one."""

    @jax.custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, ts: (square(*primals), -2 * square(*primals) * ts[0]))

    def looped(x):
        return jax.lax.fori_loop(0, 2, lambda _, c: square(c) + x, x)

    def unrolled(x):
        return square(square(x) + x) + x

    x, one = np.float32(0.7), np.float32(1)
    expected = jax.jvp(jax.grad(unrolled), (x,), (one,))
    for f in (looped, unrolled):
        gradient = grad_jaxpr(jt.from_jax(jax.make_jaxpr(f)(x)), (0,))
        close(jt.eval_jaxpr(jt.jvp_jaxpr(gradient, [True])[0], [x, one]), expected)
    first, second = jax.jvp(jax.grad(looped), (x,), (one,))
    close([first], expected[:1])
    assert abs(second - expected[1]) > 0.1
