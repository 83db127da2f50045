"""Programs as functions of JAX's: the values of NumPy, and the derivatives that JAX has of the functions that were traced."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.driver.storage.output import program_text
from tests.invoke import invoke
from tests.programs.catalogue import GRADIENTS, PROGRAMS, case_of, quick_jit
from tests.programs.catalogue import close as close_to
from tests.zoo.oracle import NAMES, Program, close

X = np.linspace(0.5, 1.5, 4, dtype=np.float32)


def function_of(f, *args):
    """The function of the text of a traced function: what a file keeps of it."""
    return jt.to_jax_function(jt.parse(jt.format_jaxpr(jt.trace(f, *args), lossless=True)))


# -- the examples and the zoo ------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[*PROGRAMS, *GRADIENTS])
def example(request):
    case = case_of(request.param)
    with case.precision():
        return case, jt.to_jax_function(case.program)


def test_examples_have_the_values_of_numpy(example):
    case, f = example
    with case.precision():
        case.close(jax.jit(f)(*case.args), case.run(*case.args))


def test_examples_have_the_derivatives_of_jax(example):
    case, f = example
    with case.precision():
        of_floats = lambda *xs: f(*case.with_floats(xs))
        primals, tangents = case.floats(case.args), case.floats(case.tangents)
        pushed = quick_jit(lambda xs, ts: jax.jvp(of_floats, tuple(xs), tuple(ts))[1])
        case.close(case.only_floats(pushed(primals, tangents)), case.want_tangents, 10)
        if case.reverse:
            pulled = case.jax(
                lambda xs, cts: _pullback(case, of_floats, xs, cts), primals, case.cotangents
            )
            case.close(pulled, case.want_cotangents, 10)


def _pullback(case, f, primals, cotangents):
    """Cotangents of the inexact arguments."""
    outs, pull = jax.vjp(f, *primals)
    given = iter(cotangents)
    zeros = lambda o: np.zeros(o.shape, jax.dtypes.float0)
    return pull([next(given) if o.dtype.kind == "f" else zeros(o) for o in outs])


def test_examples_are_batched(example):
    case, f = example
    with case.precision():
        case.close(quick_jit(jax.vmap(f))(*case.batch), case.want_batch, 10)


@pytest.mark.parametrize("name", NAMES)
def test_the_zoo(name):
    program = Program(name)
    f = jt.to_jax_function(program.ours.replace(interface=None))
    close(quick_jit(f)(*program.args), jt.eval_jaxpr(program.ours, program.args))
    of_inexact = lambda *xs: f(*_replaced(program, xs))
    primals = program.inexact_of(program.args)
    if not program.only_forward:
        total = lambda g: lambda *xs: sum(jnp.sum(y) for y in g(*xs) if y.dtype.kind == "f")
        wrt = tuple(range(len(primals)))
        got, want = (
            quick_jit(jax.grad(total(g), wrt))(*primals)
            for g in (of_inexact, program.on(program.args))
        )
        close(got, want)


def _replaced(program, xs):
    full = list(program.args)
    for i, x in zip(program.inexact, xs, strict=True):
        full[i] = x
    return full


# -- every transformation of JAX ---------------------------------------------------------------------


@jax.custom_jvp
def soft_sign(x):
    return x / (1 + jnp.abs(x))


soft_sign.defjvps(lambda t, ans, x: 7 * t * (1 - jnp.abs(ans)) ** 2)


def body(x):
    table = np.arange(4, dtype=np.float32)
    y, _ = lax.scan(lambda c, t: (soft_sign(c) + t, c), x, table)
    return jnp.where(x > 1, y, jnp.sin(x) * table)


F = jt.to_jax_function(jt.parse(jt.format_jaxpr(jt.trace(body, X), lossless=True)))
TANGENT = X[::-1].copy()

TRANSFORMED = {
    "call": lambda f: f(X),
    "jit": lambda f: jax.jit(f)(X),
    "grad": lambda f: jax.grad(lambda x: f(x).sum())(X),
    "grad of jit": lambda f: jax.grad(lambda x: jax.jit(f)(x).sum())(X),
    "hessian": lambda f: jax.hessian(lambda x: f(x).sum())(X),
    "jacfwd": lambda f: jax.jacfwd(f)(X),
    "jvp": lambda f: jax.jvp(f, (X,), (TANGENT,)),
    "linearize": lambda f: jax.linearize(f, X)[1](TANGENT),
    "vjp": lambda f: jax.vjp(f, X)[1](TANGENT),
    "vmap": lambda f: jax.vmap(f)(jnp.stack([X, X + 1])),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda x: f(x).sum()))(jnp.stack([X, X + 1])),
    "checkpoint": lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(X),
    "scan": lambda f: lax.scan(lambda c, _: (f(c), c), X, None, length=3),
    "while": lambda f: lax.fori_loop(0, 3, lambda i, x: f(x), X),
    "cond": lambda f: lax.cond(X[0] > 0, f, lambda x: x, X),
    "eval_shape": lambda f: jax.tree.map(
        lambda s: np.zeros(s.shape, s.dtype), jax.eval_shape(f, X)
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations(name):
    transform = TRANSFORMED[name]
    got, want = jax.tree.leaves(transform(F)), jax.tree.leaves(transform(body))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, strict=True)


def test_what_jax_makes_of_it_is_what_was_traced():
    closed = jax.make_jaxpr(body)(X)
    assert str(jax.make_jaxpr(jt.to_jax_function(jt.from_jax(closed)))(X)) == str(closed)


# -- arguments, results, constants, effects, keys ----------------------------------------------------


class State(NamedTuple):
    pos: Any
    vel: Any


def step(params, state):
    force = jnp.sin(state.pos) * params["k"]
    moved = State(state.pos + state.vel, state.vel - params["dt"] * force)
    return moved, [{"energy": jnp.sum(state.vel**2)}, None]


PARAMS = {"dt": np.float32(0.1), "k": np.float32(2)}
STATE = State(X, X / 3)
STEP = function_of(step, PARAMS, STATE)


def same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)


@pytest.mark.parametrize(
    "call",
    [
        lambda: STEP(PARAMS, STATE),
        lambda: STEP(PARAMS, state=STATE),
        lambda: STEP({"k": 2, "dt": 0.1}, STATE),
        lambda: jax.jit(STEP)(PARAMS, STATE),
    ],
)
def test_pytrees_are_those_of_the_traced_function(call):
    same(call(), step(PARAMS, STATE))


def test_an_object_may_be_given_as_a_dict_of_its_fields():
    moved, _ = STEP(PARAMS, {"vel": STATE.vel, "pos": STATE.pos})
    assert type(moved).__name__ == "State" and type(moved) is not State
    same(State(*moved), step(PARAMS, STATE)[0])


def test_a_carry_of_a_scan_keeps_its_class():
    run = lambda f: lax.scan(lambda s, _: f(PARAMS, s), STATE, None, length=3)
    same(run(STEP), run(step))


def test_gradients_have_the_tree_of_the_argument():
    loss = lambda f: lambda p, s: jnp.sum(f(p, s)[0].vel)
    args = jax.tree.map(jnp.asarray, (PARAMS, STATE))
    same(jax.grad(loss(STEP))(*args), jax.grad(loss(step))(*args))


def test_it_says_what_it_takes():
    assert list(inspect.signature(STEP).parameters) == ["params", "state"]
    assert STEP.__doc__.startswith('(params={"dt": f32[], "k": f32[]}, state=State(pos=f32[4]')
    flat = jt.to_jax_function(jt.parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"))
    assert flat.__doc__ == "(f32[3]) -> [f32[3]]"


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (lambda: STEP(PARAMS), "argument-count", "the argument state is missing"),
        (lambda: STEP(PARAMS, STATE, 3), "argument-count", "takes 2 arguments .params, state., and 3 are given"),
        (lambda: STEP(PARAMS, STATE, params=3), "argument-name", "params is given twice"),
        (lambda: STEP(PARAMS, STATE, rate=3), "argument-name", "rate is none of the program's"),
        (lambda: STEP({"dt": 1.0}, STATE), "argument-tree", "argument params is .'dt'., and"),
        (lambda: STEP(PARAMS, (X,)), "argument-tree", "argument state is tuple of 1, and State"),
        (lambda: STEP({"dt": [1.0], "k": 1.0}, STATE), "argument-tree", r'params\["dt"\] is list, and one array'),
        (lambda: STEP(PARAMS, State(X[:2], X)), "argument-type", r"state.pos has type float32\[2\], and f32\[4\]|state.pos has type f32\[2\], and f32\[4\]"),
        (lambda: STEP(PARAMS, State(X.astype(int), X)), "argument-type", r"state.pos has type"),
        (lambda: STEP({"dt": "fast", "k": 1.0}, STATE), "argument-type", r'params\["dt"\] is of the type str'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call, code, message):
    with pytest.raises(jt.UsageError, match=message) as e:
        call()
    assert e.value.diagnostics[0].code == code


def test_arguments_that_were_fixed_may_be_left_out():
    f = function_of(lambda x, g, n: g(x) * n, X, jnp.sin, np.float32(3))
    assert str(inspect.signature(f)) == "(x, g=None, n=None)"
    np.testing.assert_allclose(f(X, n=3), np.sin(X) * 3, rtol=1e-6)
    with pytest.raises(jt.UsageError, match="argument g has values, and is None"):
        f(X, jnp.sin, 3)
    with pytest.raises(jt.UsageError, match="argument n is missing"):
        f(X)


@pytest.mark.parametrize(
    "rest",
    [(X,), (X, X), ((X,),), ((X, X),), (((X,),),), ({"w": X},), ({"w": X}, X), ((X,), (X, X))],
    ids=["one", "two", "tuple of one", "tuple of two", "nested", "dict", "mixed", "tuples"],
)
def test_further_arguments_are_given_one_by_one_or_as_a_tuple(rest):
    def f(scale, *rest):
        return jax.tree.map(lambda x: scale * x, rest)

    ours, want = function_of(f, 2.0, *rest), f(2.0, *rest)
    for got in (ours(2.0, *rest), ours(2.0, rest), ours(2.0, rest=rest), jax.jit(ours)(2.0, *rest)):
        assert jax.tree.structure(got) == jax.tree.structure(want)
        assert all(map(np.array_equal, jax.tree.leaves(got), jax.tree.leaves(want)))


def test_constants_without_a_value_come_first():
    program = jt.parse("{ lambda a:f32[2]; b:f32[2]. let c:f32[2] = sub a b in (c,) }")
    (got,) = jt.to_jax_function(program)(np.float32([3, 4]), [1, 2])
    np.testing.assert_array_equal(got, np.float32([2, 2]))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys(impl):
    key = jax.random.key(3, impl=impl)
    draw = lambda k, x: (jax.random.normal(k, (3,)) + x, jax.random.split(k))
    f = function_of(draw, key, np.float32(1))
    for given in (key, jt.from_jax(jax.make_jaxpr(lambda: key)()).consts[0]):
        got, want = f(given, 1.0), draw(key, 1.0)
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(*map(jax.random.key_data, (got[1], want[1])))


def test_effects(capfd):
    f = function_of(lambda x: (jax.debug.print("x is {x}", x=x[0]), x * 2)[1], X)
    np.testing.assert_array_equal(jax.jit(f)(X), X * 2)
    jax.effects_barrier()
    assert "x is 0.5" in "".join(capfd.readouterr())


def test_references():
    def write(ref, x):
        ref[0] = x[1]
        return ref[...] + x

    ref = jax.new_ref(jnp.asarray(X))
    f = jt.to_jax_function(jax.make_jaxpr(write)(ref, X))
    (got,) = f(ref, X)
    assert ref[...][0] == X[1]
    np.testing.assert_array_equal(got, ref[...] + X)


def test_wide_types_have_to_be_on():
    program = jt.parse("{ lambda ; a:f64[3]. let b:f64[3] = sin a in (b,) }")
    with pytest.raises(jt.UsageError, match="64-bit types") as e:
        jt.to_jax_function(program)
    assert e.value.diagnostics[0].code == "x64"
    with jax.enable_x64(True):
        f = jt.to_jax_function(program)
        (got,) = f([1.0, 2.0, 3.0])
        assert got.dtype == np.float64
    with pytest.raises(jt.UsageError, match="64-bit types"):
        f([1.0, 2.0, 3.0])


def test_types_that_are_open_are_asked_for():
    with pytest.raises(jt.JaxprTypeError):
        jt.to_jax_function(jt.parse("{ lambda ; a. let b = sin a in (b,) }"))


def test_made_under_a_transformation():
    program = jt.trace(body, X)
    got = jax.jit(lambda x: jt.to_jax_function(program)(x))(X)
    close_to(got, body(X))


# -- constants of custom rules ----------------------------------------------------------------------

_CALL = "call_jaxpr={ lambda ; j:f32[] k:f32[]. let m:f32[] = mul j k; n:f32[] = sin m in (n,) }"
_JVP = (
    "jvp_jaxpr={ lambda ; j:f32[] k:f32[] s:f32[] t:f32[]. let m:f32[] = mul j k; n:f32[] = sin m; "
    "u:f32[] = mul j t; v:f32[] = add u s; w:f32[] = mul v 10.0:f32[] in (n, w) }"
)
_VJP = (
    "fwd_jaxpr={ lambda ; j:f32[] k:f32[]. let m:f32[] = mul j k; n:f32[] = sin m in (j, k, n) } "
    "bwd_jaxpr={ lambda ; j:f32[] k:f32[] ct:f32[]. let u:f32[] = mul j ct; v:f32[] = mul u 10.0:f32[] in (k, v) }"
)
CONSTANTS = {
    "jvp without a rule": f"custom_jvp_call[name=f {_CALL} jvp=jvp num_consts=1 symbolic_zeros=False]",
    "jvp": f"custom_jvp_call[name=f {_CALL} jvp=jvp num_consts=1 symbolic_zeros=False {_JVP}]",
    "vjp without a rule": f"custom_vjp_call[name=f {_CALL} fwd=fwd bwd=bwd num_consts=1 symbolic_zeros=False]",
    "vjp": f"custom_vjp_call[name=f {_CALL} fwd=fwd bwd=bwd num_consts=1 symbolic_zeros=False {_VJP}]",
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_rules_that_read_constants_get_their_values(name):
    """JAX gives rules no constants; a derivative that needs them is that of `jaxprtool grad` all the same."""
    text = f"{{ lambda ; a:f32[] b:f32[]. let h:f32[] = {CONSTANTS[name]} a b in (h,) }}"
    program = jt.parse(text)
    ours = jt.parse(invoke("grad --wrt 0,1", text).output)
    want = jt.eval_jaxpr(ours, [np.float32(2), np.float32(3)])
    f = jt.to_jax_function(program)
    derivative = jax.grad(lambda a, b: f(a, b)[0], (0, 1))
    close([*derivative(2.0, 3.0)], want)
    close([*jax.jit(derivative)(2.0, 3.0)], want)
    batched = jax.vmap(derivative)(jnp.full(4, 2.0), jnp.full(4, 3.0))
    close([*batched], [np.full(4, w) for w in want])
    again = jt.to_jax(program)
    assert "num_consts=1" in str(again)
    back = jt.from_jax(again)
    assert type(back.eqns[0].params["num_consts"]) is int
    assert back.eqns[0].params["num_consts"] == 1
    derived = jt.parse(invoke("grad --wrt 0,1", jt.format_jaxpr(back, lossless=True)).output)
    close(jt.eval_jaxpr(derived, [np.float32(2), np.float32(3)]), want)


def test_a_cell_that_a_call_reads_is_batched():
    """The rule of JAX for reads reads the shapes of indices, which are literals in a call."""

    @jax.jit
    def add(cell, x):
        cell[...] += x
        return cell[0] * x[1]

    def f(x):
        cell = jax.new_ref(x)
        return add(cell, x), add(cell, 2 * x), cell[...]

    batch = jnp.arange(6.0).reshape(2, 3)
    g = jt.to_jax_function(jt.parse(program_text({"": jt.from_jax(jax.make_jaxpr(f)(batch[0]))})))
    for got, want in zip(jax.vmap(g)(batch), jax.vmap(f)(batch), strict=True):
        np.testing.assert_array_equal(got, want)


def test_it_can_be_pickled_and_copied():
    program = jt.trace(lambda x, y: {"sum": x + y["b"]}, np.float32(1), {"b": np.float32(2)})
    f = jt.to_jax_function(program)
    for g in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        assert g(np.float32(3), {"b": np.float32(4)}) == {"sum": 7}
        assert inspect.signature(g) == inspect.signature(f)
        assert g.__doc__ == f.__doc__


def test_it_is_traced_as_a_function_of_jax(tmp_path, monkeypatch):
    """By the verb, which chooses the front end by what a function uses."""
    text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    (tmp_path / "of_text.py").write_text(
        f"import jaxprtool as jt\nf = jt.to_jax_function(jt.parse({text!r}))\n"
        "def twice(x):\n    return 2 * f(x)[0]\n"
    )
    monkeypatch.chdir(tmp_path)
    for name in ("f", "twice"):
        done = invoke(["trace", f"of_text:{name}", "--shape", "f32[3]"])
        assert done.status == 0, done.error
        assert "sin" in done.output
