"""Primitives that only the process knows, and derivative rules as libraries of JAX write them, under our transformations."""

from __future__ import annotations

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxlib.mlir.dialects import stablehlo as hlo

import jaxprtool as jt
from jaxprtool.driver.trace import trace
from jaxprtool.ir.walk import all_eqns

X = np.linspace(0.1, 1.2, 6, dtype=np.float32).reshape(2, 3)


def declared(
    name, f, abstract_eval, *, several=False, jvp=None, transpose=None, batch=None, impl=True
):
    """A primitive of JAX's with the rules that are given."""
    p = Primitive(name)
    p.multiple_results = several
    p.def_abstract_eval(abstract_eval)
    if impl:
        p.def_impl(f)
    mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=several))
    for table, rule in (
        (ad.primitive_jvps, jvp),
        (ad.primitive_transposes, transpose),
        (batching.primitive_batchers, batch),
    ):
        if rule is not None:
            table[p] = rule
    return p


same = lambda x, **_: x

# 3 sin x, whose derivative is said to be 5 t: nobody can guess it from the implementation
odd_p = declared(
    "odd_sine",
    lambda x, *, k: k * jnp.sin(x),
    same,
    jvp=lambda ps, ts, *, k: (odd_p.bind(*ps, k=k), 5.0 * ts[0]),
    batch=lambda xs, ds, *, k: (odd_p.bind(*xs, k=k), ds[0]),
)
# whether any element is true, in the whole batch
any_p = declared(
    "any_of_batch",
    jnp.any,
    lambda x: jax.core.ShapedArray((), np.bool_),
    batch=lambda xs, ds: (any_p.bind(*xs), None),
)


# what is lowered by hand, as libraries do that call other languages, and another one that calls Python
def by_hand(name, lowering, **rules):
    p = declared(name, lambda x: [x, x], lambda x: [x, x], several=True, impl=False, **rules)
    mlir.register_lowering(p, lowering)
    p.def_impl(lambda x: jax.jit(p.bind)(x))
    return p


lowered_p = by_hand(
    "lowered_sine",
    lambda ctx, x: [hlo.SineOp(x).result, x],
    jvp=lambda ps, ts: (lowered_p.bind(*ps), [ts[0] * jnp.cos(ps[0]), None]),
)
called_back = mlir.lower_fun(
    lambda x: [jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x), x],
    multiple_results=True,
)
host_p = by_hand("host_sine", lambda ctx, x: called_back(ctx, x))
# linear, with two results and a transpose of its own
both_p = declared(
    "both",
    lambda x, *, scale: [2 * x, scale * x],
    lambda x, *, scale: [x, x],
    several=True,
    jvp=lambda ps, ts, *, scale: (
        both_p.bind(*ps, scale=scale),
        both_p.bind(ad.instantiate_zeros(ts[0]), scale=scale),
    ),
    transpose=lambda cts, x, *, scale: [
        2 * ad.instantiate_zeros(cts[0]) + scale * ad.instantiate_zeros(cts[1])
    ],
    batch=lambda xs, ds, *, scale: (both_p.bind(*xs, scale=scale), [ds[0], ds[0]]),
)
# a solver, whose implementation has no derivative, with a count of steps beside its result
solve_p = declared(
    "solve_and_count",
    lambda a, b: [lax.stop_gradient(jnp.linalg.solve(a, b)), jnp.int32(3)],
    lambda a, b: [b, jax.core.ShapedArray((), np.int32)],
    several=True,
)


def solve_jvp(primals, tangents):
    (a, b), (da, db) = primals, map(ad.instantiate_zeros, tangents)
    x, n = solve_p.bind(a, b)
    dx, _ = solve_p.bind(a, db - da @ x)
    return [x, n], [dx, np.zeros((), jax.dtypes.float0)]


def solve_transpose(cts, a, b):
    return [None, solve_p.bind(a.T, ad.instantiate_zeros(cts[0]))[0]]


ad.primitive_jvps[solve_p], ad.primitive_transposes[solve_p] = solve_jvp, solve_transpose
batching.primitive_batchers[solve_p] = lambda xs, ds: (
    jax.vmap(lambda a, b: [jnp.linalg.solve(a, b), jnp.int32(3)], ds)(*xs),
    [0, 0],
)
# an implementation that JAX cannot trace
opaque_p = Primitive("opaque_sine")
opaque_p.def_abstract_eval(same)
opaque_p.def_impl(lambda x: jnp.asarray(np.sin(np.asarray(x))))


def odd(x):
    return odd_p.bind(x, k=3.0) * 2


def halved(x):
    return lax.while_loop(lambda x: any_p.bind(x > 0.3), lambda x: jnp.where(x > 0.3, x / 2, x), x)


def both(x):
    a, b = both_p.bind(jnp.sin(x), scale=3.0)
    return a * b


def in_a_scan(x):
    return lax.scan(jax.jit(lambda c, row: (c + odd(row), both(row))), x[0], x)[1]


def solved(x):
    return solve_p.bind(x @ x.T + jnp.eye(2), x[:, 0])[0]


checked_solve = jax.jit(lambda a, b: solve_p.bind(a, b))  # the count leaves the call, read or not


@jax.custom_jvp
def root(a, b):
    return lax.stop_gradient(jnp.linalg.solve(a, b))


@root.defjvp
def root_jvp(primals, tangents):
    (a, b), (da, db) = primals, tangents
    x = root(a, b)
    return x, checked_solve(a, db - da @ x)[0]


def implicit(x):
    """A custom rule whose tangents come from a call that returns an integer, too."""
    return root(x @ x.T + jnp.eye(2), x[:, 0])


FUNCTIONS = {
    "implicit": implicit,
    "solved": solved,
    "odd": odd,
    "halved": halved,
    "both": both,
    "in a scan": in_a_scan,
}


def live(f, *args):
    return jt.jaxpr_as_fun(jt.from_jax(jax.make_jaxpr(f)(*args)))


@pytest.mark.parametrize("name", FUNCTIONS)
class TestTransformations:
    def test_values(self, name):
        f = FUNCTIONS[name]
        np.testing.assert_allclose(
            live(f, X)(X)[0], f(X) if name != "odd" else jax.jit(f)(X), rtol=1e-5
        )

    def test_compiled(self, name):
        f = FUNCTIONS[name]
        program = jt.from_jax(jax.make_jaxpr(f)(X))
        np.testing.assert_allclose(jt.compile(program)(X)[0], jax.jit(f)(X), rtol=1e-5)

    def test_vmap(self, name):
        f = FUNCTIONS[name]
        batch = np.stack([X, 3 * X])
        ours = jt.vmap(lambda x: live(f, X)(x)[0])(batch)
        np.testing.assert_allclose(ours, jax.jit(jax.vmap(f))(batch), rtol=1e-5)

    def test_derivatives(self, name):
        if name == "halved":
            pytest.skip("JAX has no reverse mode of while")
        f = FUNCTIONS[name]
        ours = jt.grad(lambda x: live(f, X)(x)[0].sum())(X)
        np.testing.assert_allclose(ours, jax.jit(jax.grad(lambda x: f(x).sum()))(X), rtol=1e-5)

    def test_trace_writes_no_foreign_primitive(self, name):
        program = trace(FUNCTIONS[name], ["f32[2,3]"], frontend="jax")
        read = jt.parse(jt.format_jaxpr(program, lossless=True))
        jt.typecheck_jaxpr(read.jaxpr)
        f = FUNCTIONS[name]
        np.testing.assert_allclose(
            jt.eval_jaxpr(read.jaxpr, [*read.consts, X])[0], jax.jit(f)(X), rtol=1e-5
        )


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "halved"])
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_what_trace_writes_follow_the_rules(name, order):
    f = FUNCTIONS[name]
    program = trace(f, ["f32[2,3]"], frontend="jax")
    read = jt.jaxpr_as_fun(jt.parse(jt.format_jaxpr(program, lossless=True)))
    ours, theirs = lambda x: read(x)[0].sum(), lambda x: f(x).sum()
    for _ in range(order):
        ours, theirs = (
            jt.grad(lambda x, g=ours: g(x).sum()),
            jax.grad(lambda x, g=theirs: g(x).sum()),
        )
    np.testing.assert_allclose(ours(X), jax.jit(theirs)(X), rtol=1e-5)


def test_one_without_a_traceable_implementation_is_kept_and_runs():
    program = trace(lambda x: opaque_p.bind(x) + 1, ["f32[3]"], frontend="jax")
    assert program.eqns[0].primitive.name == "opaque_sine"
    assert str(program.eqns[0].out_binders[0].aval) == "f32[3]"


def test_params_print_in_jaxs_order():
    zed_p = declared("zed", lambda x, **_: x, same)
    closed = jax.make_jaxpr(lambda x: zed_p.bind(x, z=1, name="q", b=2.5, a=(1, "r")))(X)
    assert str(jt.from_jax(closed)) == str(closed) == str(jt.to_jax(jt.from_jax(closed)))


@pytest.mark.parametrize("n", [1, 2])
def test_one_that_is_only_lowered_runs_compiled(n):
    program = jt.from_jax(
        jax.make_jaxpr(lambda *xs: [2 * lowered_p.bind(x)[0] for x in xs])(*[X] * n)
    )
    text = str(jt.lower(program))
    assert text.count("stablehlo.sine") == 1  # one function, called n times
    assert text.count("call @lowered_sine_main(") == n
    for ours in (jt.compile(program)(*[X] * n), jt.eval_jaxpr(program, [X] * n)):
        np.testing.assert_allclose(ours, [2 * np.sin(X)] * n, rtol=1e-6)


def test_a_rule_may_say_none_for_the_tangent_of_a_result_that_nothing_reads():
    f = live(lambda x: lowered_p.bind(x)[0].sum(), X)
    np.testing.assert_allclose(jt.grad(lambda x: f(x)[0])(X), np.cos(X), rtol=1e-6)


def test_what_belongs_to_the_process_that_lowers_it_is_not_taken_from_it():
    program = jt.from_jax(jax.make_jaxpr(host_p.bind)(X))
    np.testing.assert_allclose(jt.eval_jaxpr(program, [X])[0], np.sin(X), rtol=1e-6)
    with pytest.raises(jt.MissingRuleError, match="no lower rule for the primitive host_sine"):
        jt.lower(program)


def test_what_jax_has_no_rule_for_is_said_so():
    f = live(lambda x: opaque_p.bind(x).sum(), X[0])
    with pytest.raises(
        jt.MissingRuleError, match="JAX gives no jvp rule for the primitive opaque_sine"
    ):
        jt.grad(lambda x: f(x)[0])(X[0])


def test_a_namesake_of_one_of_jaxs_is_not_taken_for_it():
    sine = declared("sin", lambda x: x + 100, same)
    closed = jax.make_jaxpr(sine.bind)(X)
    np.testing.assert_allclose(jt.jaxpr_as_fun(jt.from_jax(closed))(X)[0], X + 100)
    assert str(jt.to_jax(jt.from_jax(closed))) == str(closed)


# -- rules of custom functions as libraries write them ------------------------------------------------


def loop(step, x, n):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1])), (0, x))[1]


@jax.custom_vjp
def grow(x, rate):
    return loop(lambda x: x * jnp.cos(rate), x, 3)


grow.defvjp(
    lambda x, rate: (grow(x, rate), (x, rate)),
    lambda res, ct: (
        loop(lambda ct: ct * jnp.cos(res[1]), ct, 3),
        (-3 * jnp.sin(res[1]) * jnp.cos(res[1]) ** 2 * ct * res[0]).sum(),
    ),
)


def python_residuals(x, rate):
    """The backward rule looks at a residual in Python, which the forward rule knows."""

    @jax.custom_vjp
    def f(x, rate):
        return loop(lambda x: x * rate, x, 2)

    def fwd(x, rate):
        return f(x, rate), (rate, True, 2)

    def bwd(res, ct):
        rate, twice, power = res
        return (ct * rate**2 if twice else ct, jnp.zeros(()) + int(power))

    f.defvjp(fwd, bwd)
    return f(x, rate)


def refuses_tangents(x, rate):
    """The rule does not take a tangent of its second argument."""

    @jax.custom_vjp
    def f(x, rate, other):
        return loop(lambda x: x * other, x, 2) * rate

    def fwd(x, rate, other):
        if rate.perturbed:
            raise RuntimeError("no tangents here")
        return f(x.value, rate.value, other.value), (rate.value, other.value)

    f.defvjp(fwd, lambda res, ct: (ct * res[0] * res[1] ** 2, None, None), symbolic_zeros=True)
    return f(x, lax.stop_gradient(rate), 2.0)


def refuses_jvp(x, rate):
    """A custom jvp rule that does not take a tangent of its second argument."""

    @jax.custom_jvp
    def f(x, rate):
        return loop(lambda x: x * rate, x, 2)

    def rule(primals, tangents):
        if type(tangents[1]) is not jax.custom_derivatives.SymbolicZero:
            raise RuntimeError("no tangents here")
        return f(*primals), tangents[0] * primals[1] ** 2

    f.defjvp(rule, symbolic_zeros=True)
    return f(x, lax.stop_gradient(rate))


def nested(x, rate):
    def body(c, row):
        return jax.jit(lambda c: lax.cond(c.sum() > 0, grow, lambda c, r: c * r, c + row, rate))(
            c
        ), ()

    return jax.checkpoint(lambda x: lax.scan(body, x[0], x)[0])(x)


RULED = {f.__name__: f for f in (grow, python_residuals, refuses_tangents, refuses_jvp, nested)}


@pytest.mark.parametrize("how", ["live", "file"])
@pytest.mark.parametrize("name", RULED)
def test_reverse_mode_follows_the_rules(name, how):
    f, rate = RULED[name], np.float32(0.7)
    program = jt.from_jax(jax.make_jaxpr(f)(X, rate))
    if how == "file":
        program = jt.parse(jt.format_jaxpr(program, lossless=True))
    g = jt.jaxpr_as_fun(program)
    ours = jt.grad(lambda x: g(x, rate)[0].sum())(X)
    np.testing.assert_allclose(ours, jax.grad(lambda x: f(x, rate).sum())(X), rtol=1e-5)


WAYS = {
    "save": lambda program, path: (jt.save(program, path), jt.load(path))[1],
    "pickle": lambda program, _: pickle.loads(pickle.dumps(program)),
    "copy": lambda program, _: copy.deepcopy(program),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_kept_runs_without_the_process_that_declared_it(way, tmp_path):
    """With its derivative; a root of JAX 0.11 and later is such an object too."""

    def root(x):
        solve = lambda f, y: jax.lax.fori_loop(0, 20, lambda i, y: y - f(y) / (2 * y), y)
        return jax.lax.custom_root(lambda y: y * y - x, 1.0, solve, lambda g, y: y / g(1.0))

    for f, x in ((lambda x: odd_p.bind(x, k=3.0).sum(), X), (root, np.float32(4.0))):
        program = WAYS[way](jt.from_jax(jax.make_jaxpr(f)(x)), tmp_path / "kept.jaxpr")
        jt.typecheck_jaxpr(program)
        assert all(e.primitive.known for e in all_eqns(program.jaxpr))
        kept = lambda x, program=program: jt.jaxpr_as_fun(program)(x)[0]
        np.testing.assert_allclose(kept(x), f(x), rtol=1e-5)
        np.testing.assert_allclose(jt.grad(kept)(x), jax.grad(f)(x), rtol=1e-5)


# -- implementations that are more than what the primitive computes ------------------------------------

# its impl, which runs eagerly alone, does something else than what is compiled
eager_p = declared("eager_otherwise", lambda x: 2 * jnp.sin(x), same, impl=False)
eager_p.def_impl(lambda x: 3 * jnp.sin(x))

# which function of a table it is, is an operand that the rules look at in Python
TABLE = [jnp.sin, jnp.exp, lambda x: x * x]
table_p = declared(
    "of_a_table",
    lambda i, x, *, order: _derivative(TABLE[i.item()], order)(x),
    lambda i, x, *, order: x,
    jvp=lambda ps, ts, *, order: (
        table_p.bind(*ps, order=order),
        ts[1] * table_p.bind(*ps, order=order + 1),
    ),
    batch=lambda xs, ds, *, order: (table_p.bind(*xs, order=order), ds[1]),
)


def _derivative(f, order):
    for _ in range(order):
        f = lambda x, f=f: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
    return f


def test_what_is_compiled_is_what_a_primitive_means():
    program = trace(lambda x: eager_p.bind(x), ["f32[3]"], frontend="jax")
    np.testing.assert_allclose(jt.eval_jaxpr(program, [X[0]])[0], 2 * np.sin(X[0]), rtol=1e-5)


@pytest.mark.parametrize("i", range(3))
def test_an_operand_that_is_looked_at_in_python_is_a_literal(i):
    program = trace(lambda x: table_p.bind(np.int32(i), x, order=0), ["f32[3]"], frontend="jax")
    read = jt.parse(jt.format_jaxpr(program, lossless=True))
    jt.typecheck_jaxpr(read)
    f = lambda x: jt.jaxpr_as_fun(read)(x)[0].sum()
    wanted = lambda x: TABLE[i](x).sum()
    np.testing.assert_allclose(f(X[0]), wanted(X[0]), rtol=1e-5)
    np.testing.assert_allclose(jt.grad(f)(X[0]), jax.grad(wanted)(X[0]), rtol=1e-5)
    np.testing.assert_allclose(jt.vmap(jt.grad(f))(X), jax.vmap(jax.grad(wanted))(X), rtol=1e-5)


def _through_jaxpr(x, *consts, jaxpr):
    """The implementation of a primitive that takes the constants of its open jaxpr as operands, as equinox's closures do."""
    assert type(jaxpr) is type(_OPEN)  # an open jaxpr, and not a closed one
    return jax.core.eval_jaxpr(jaxpr, consts, x)[0]


_CLOSED = jax.make_jaxpr(lambda x: (X * 2.0 * x, jnp.cos(x) * 0.0)[0])(X)
_OPEN = _CLOSED.jaxpr
through_p = declared("through_jaxpr", _through_jaxpr, lambda x, *_, jaxpr: x)


@pytest.mark.parametrize("passes", ["dce", "cse", "simplify", "fold", "inline", "roll", "outline"])
def test_passes_leave_the_jaxprs_of_a_librarys_primitive(passes):
    f = lambda x: jnp.tanh(through_p.bind(jnp.sin(x), *_CLOSED.consts, jaxpr=_OPEN))
    made = jt.optimize(jt.from_jax(jax.make_jaxpr(f)(X)), passes=passes)
    jt.typecheck_jaxpr(made)
    want = np.asarray(f(X))
    np.testing.assert_allclose(np.asarray(jt.eval_jaxpr(made, [X])[0]), want, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jt.to_jax_function(made))(X)[0], want, rtol=1e-6)
