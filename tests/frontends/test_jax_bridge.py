"""JAX's jaxprs to ours and back: the same text, the same values, the same derivatives."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.from_jax import from_jax
from jaxprtool.backends.jax.to_jax import to_jax
from jaxprtool.driver.storage.output import program_text
from jaxprtool.interpreters.lost_rules import CustomRuleWarning
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr
from tests.releases import only_oracle

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
V, W = X[0], np.eye(4, dtype=np.float32)


@jax.custom_jvp
def soft_sign(x):
    return x / (1 + jnp.abs(x))


soft_sign.defjvps(lambda t, ans, x: 7 * t * (1 - jnp.abs(ans)) ** 2)


@jax.custom_vjp
def clip_gradient(x, limit):
    return x * 1


clip_gradient.defvjp(
    lambda x, limit: (x, limit),
    lambda limit, g: (jnp.clip(g, -limit, limit), jnp.zeros_like(limit)),
)


def attention(x, q, k, v):
    return jax.nn.softmax(x @ q @ (x @ k).T / 2) @ (x @ v)


def rnn(h, xs):
    return lax.scan(lambda h, x: (jnp.tanh(h + x), h.sum()), h, xs)


def references(x):
    ref = jax.new_ref(x)
    ref[0] = V
    ref[1:] += 1.0
    return ref[...]


PROGRAMS = {
    "sin": (lambda x: jnp.sin(x) * 2, X),
    "attention": (attention, X, W, W, W),
    "attention-grad": (jax.grad(lambda *a: attention(*a).sum(), (1, 2)), X, W, W, W),
    "logsumexp-grad": (jax.grad(jax.scipy.special.logsumexp), X),
    "where": (lambda x: jnp.where(x > 0.5, x, -x), X),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), X),
    "cond-grad": (jax.grad(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x).sum()), X),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(1), X),
    "scan": (rnn, V, X),
    "scan-grad": (jax.grad(lambda h, xs: rnn(h, xs)[0].sum()), V, X),
    "while": (
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        X,
    ),
    "vmap-grad": (jax.vmap(jax.grad(lambda a: jnp.sin(a).prod())), X),
    "custom-jvp": (soft_sign, X),
    "custom-jvp-hessian": (jax.hessian(lambda x: soft_sign(x).sum()), V),
    "custom-vjp": (lambda x: clip_gradient(x, 2.0) * 3, X),
    "custom-vjp-vmap": (jax.vmap(lambda x: clip_gradient(x, 2.0)), X),
    "gelu-grad": (jax.grad(lambda x: jax.nn.gelu(x).sum()), X),
    "einsum": (lambda a, b: jnp.einsum("ij,kj->ik", a, b), X, X),
    "random": (lambda x: x + random.normal(random.key(0), (3, 4)), X),
    "gather": (lambda x: x[jnp.array([0, 2])], X),
    "scatter": (lambda x: x.at[0].set(1.0).at[1:, 2].add(V[1:3]), X),
    "sort": (lambda x: jnp.argsort(x, 1), X),
    "solve": (lambda a: jnp.linalg.solve(a @ a.T + jnp.eye(3), a), X),
    "convolution": (lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME"), X),
    "pooling-grad": (
        jax.grad(
            lambda x: (
                lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "SAME") * jnp.cos(x)
            ).sum()
        ),
        X,
    ),
    "reduce": (lambda x: lax.reduce(x, 0.0, lambda a, b: a * b + 1, (0,)), X),
    "remat": (jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum()), X),
    "constants": (lambda x: x + np.arange(4.0, dtype=np.float32), X),
    "nested-constants": (jax.jit(lambda x: x * np.arange(4.0, dtype=np.float32)), X),
    "bfloat16": (lambda x: x.astype(jnp.bfloat16) * 3 + 1, X),
    "complex": (lambda x: (x * 1j).conj() * (2 + 1j), X),
    "precision": (lambda x: lax.dot(x, x.T, precision="highest"), X),
    "references": (references, X),
    "dropped": (lambda x: (jnp.sort(x), lax.top_k(x, 2)[0])[1], X),
    "donated": (jax.jit(lambda x: x + 1, donate_argnums=0), X),
}
traced = pytest.fixture(params=PROGRAMS, scope="module", name="traced")(
    lambda request: (
        jax.make_jaxpr(PROGRAMS[request.param][0])(*PROGRAMS[request.param][1:]),
        PROGRAMS[request.param][1:],
    )
)


def without_constants(text):
    """Our text without the `where` sections, which JAX does not print."""
    lines, inside = [], False
    for line in text.splitlines():
        inside = line.lstrip().startswith("where ") or (
            inside and " = [" in line and ":" not in line
        )
        if not inside:
            lines.append(line)
    return "\n".join(lines)


@only_oracle
def test_text_is_jaxs(traced):
    closed, _ = traced
    assert without_constants(format_jaxpr(from_jax(closed))) == str(closed)


def test_round_trip(traced):
    closed, args = traced
    back = to_jax(from_jax(closed))
    assert str(back) == str(closed)
    leaves = jax.tree.leaves(args)
    for want, got in zip(jaxpr_as_fun(closed)(*leaves), jaxpr_as_fun(back)(*leaves), strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_array_equal(want, got)


def make(f, *args):
    return from_jax(jax.make_jaxpr(f)(*args))


def test_weak_types_are_kept():
    program = make(lambda x, y: x * y, 2.0, X)
    assert [v.aval.weak_type for v in program.jaxpr.in_binders] == [True, False]


def test_constants_of_nested_jaxprs_are_kept():
    table = np.arange(4.0, dtype=np.float32)
    program = make(jax.jit(lambda x: x * table), X)
    inner = program.eqns[0].params["jaxpr"]
    np.testing.assert_array_equal(inner.consts[0], table)


def test_a_shared_jaxpr_is_one_object():
    inner = jax.jit(lambda x: jnp.sin(x) * 2)
    program = make(lambda x: inner(inner(x)), X)
    first, second = (e.params["jaxpr"] for e in program.eqns)
    assert first is second


def test_typed_keys_are_constants():
    key = random.key(3)
    program = make(lambda x: x + random.uniform(key), 1.0)
    (const,) = program.consts
    assert (const.impl, const.data.tolist()) == ("fry", [0, 3])
    assert str(program.jaxpr.const_binders[0].aval) == "key<fry>[]"


def test_params_are_values_of_ours():
    program = make(lambda x: x[jnp.array([0, 2])].astype(jnp.int32), X)
    gather = next(e for e in all_eqns(program.jaxpr) if e.primitive.name == "gather")
    assert gather.params["dimension_numbers"].offset_dims == (1,)
    assert gather.params["mode"].member == "PROMISE_IN_BOUNDS" or "." in gather.params["mode"]
    convert = program.eqns[-1]
    assert convert.params["new_dtype"].name == "int32"


def derivatives(order):
    """soft_sign's derivative of some order at 0.5, by us and by JAX; its rule is not its derivative."""
    f = theirs = lambda x: soft_sign(x) * 2
    ours = lambda x: jt.jaxpr_as_fun(make(f, np.float32(0.5)))(x)[0]
    for _ in range(order):
        theirs, ours = jax.grad(theirs), jt.grad(ours)
    return ours(np.float32(0.5)), theirs(np.float32(0.5))


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_follow_custom_jvp(order):
    ours, theirs = derivatives(order)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_deeper_derivatives_say_that_they_differentiate_the_body():
    with pytest.warns(CustomRuleWarning, match="soft_sign"):
        ours, _ = derivatives(3)
    assert np.isfinite(ours)


def test_gradients_follow_custom_vjp():
    f = lambda x: clip_gradient(x * 3, jnp.float32(0.5))
    ours = jt.grad(lambda x: jt.jaxpr_as_fun(make(f, np.float32(2)))(x)[0])(np.float32(2))
    assert ours == jax.grad(f)(np.float32(2)) == 1.5


def test_a_rule_that_closes_over_tracers_is_left_out():
    def outer(x):
        @jax.custom_jvp
        def f(y):
            return y * x

        f.defjvps(lambda t, ans, y: t * x)
        return f(x)

    program = make(outer, 1.0)
    assert program.eqns[0].primitive.name == "custom_jvp_call"
    jt.typecheck_jaxpr(program.jaxpr)
    failed = r"rule '.*' of f could not be traced \(ValueError: the rule closes over"
    with pytest.warns(CustomRuleWarning, match=failed):
        jt.jvp_jaxpr(program)
    with pytest.warns(CustomRuleWarning, match=f"{failed}.*: the program is without it"):
        jt.trace(outer, "f32[]")


def constant_jvp():
    f = jax.custom_jvp(lambda x: jnp.full_like(x, 2.0))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * primals[0]))
    return f


def constant_vjp():
    f = jax.custom_vjp(lambda x: jnp.full_like(x, 2.0))
    f.defvjp(lambda x: (f(x) + 0 * x, x), lambda x, ct: (ct * x,))
    return f


@pytest.mark.parametrize("function", [constant_jvp, constant_vjp])
def test_a_rule_that_vmap_gives_other_types_than_its_function_is_left_out(function):
    x = np.ones((2, 4), np.float32)
    program = make(jax.vmap(function()), x)
    jt.typecheck_jaxpr(program)
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [x])[0], 2 * x)


def test_64_bit_rules_are_traced_with_64_bits():
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(lambda x: clip_gradient(x, jnp.float64(1)))(np.float64(2))
    call = next(e for e in from_jax(closed).eqns if e.primitive.name == "custom_vjp_call")
    assert str(call.params["bwd_jaxpr"].out_avals) == "[f64[], f64[]]"


@jax.custom_vjp
def noisy(key, x):
    return 2 * x


def _noisy_bwd(kept, ct):
    key, x = kept
    noise = random.uniform(key, x.shape) + jnp.arange(x.size).reshape(x.shape) / x.size
    return None, (ct * noise).astype(x.dtype)


noisy.defvjp(lambda key, x: (2 * x, (key, x)), _noisy_bwd)


@jax.custom_jvp
def turned(key, x):
    return 1j * x


@turned.defjvp
def _turned_jvp(primals, tangents):
    key, x = primals
    return turned(key, x), tangents[1] * (
        random.uniform(key, x.shape) + jnp.arange(x.size) / x.size
    )


@pytest.mark.parametrize("f", [noisy, turned])
@pytest.mark.parametrize("key", [random.key(0), random.PRNGKey(0)], ids=["key", "words"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_rules_of_keys_and_of_complex_numbers_are_traced_with_32_bits(f, key, dtype):
    if f is turned and dtype != "complex64":
        pytest.skip("a function of complex numbers")
    x = jnp.ones(3, dtype)
    program = parse(format_jaxpr(from_jax(jax.make_jaxpr(f)(key, x)), lossless=True))
    text = format_jaxpr(program, lossless=True)
    assert not [wide for wide in ("f64", "i64", "u64", "c128") if wide in text]
    _, want = jax.vjp(lambda x: f(key, x), x)
    ours = jt.jaxpr_as_fun(program)
    given = key if key.ndim else jt.KeyArray("fry", random.key_data(key))
    _, got = jt.vjp(lambda x: ours(given, x)[0], np.asarray(x))
    close = {"rtol": 1e-2 if dtype == "bfloat16" else 1e-5}
    ct = np.ones(3, x.dtype)
    np.testing.assert_allclose(*(np.asarray(p(ct)[0], complex) for p in (got, want)), **close)


@pytest.mark.parametrize("name", ["attention", "custom-jvp", "custom-vjp", "gelu-grad", "random"])
def test_jax_differentiates_what_comes_back(name):
    f, *args = PROGRAMS[name]
    program = to_jax(from_jax(jax.make_jaxpr(f)(*args)))
    ours = jax.grad(lambda *a: jaxpr_as_fun(program)(*a)[0].sum())(*args)
    theirs = jax.grad(lambda *a: f(*a).sum())(*args)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("name", ["custom-jvp", "custom-vjp"])
def test_jax_differentiates_custom_functions_without_rules(name):
    """Text does not hold the rules: the function itself is differentiated."""
    f, *args = PROGRAMS[name]
    program = to_jax(parse(str(jax.make_jaxpr(f)(*args))))
    got = jax.grad(lambda x: jaxpr_as_fun(program)(x)[0].sum())(*args)
    body = {"custom-jvp": lambda x: x / (1 + jnp.abs(x)), "custom-vjp": lambda x: x * 3}[name]
    np.testing.assert_allclose(got, jax.grad(lambda x: body(x).sum())(*args), rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        *["attention", "scan-grad", "cond", "gather", "solve", "convolution", "nested-constants"],
        "pooling-grad",
    ],
)
def test_text_goes_to_jax(name):
    f, *args = PROGRAMS[name]
    closed = jax.make_jaxpr(f)(*args)
    back = to_jax(parse(format_jaxpr(from_jax(closed))))
    leaves = jax.tree.leaves(args)
    for want, got in zip(jaxpr_as_fun(closed)(*leaves), jaxpr_as_fun(back)(*leaves), strict=True):
        np.testing.assert_array_equal(want, got, strict=True)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{ lambda ; a:f32[3]. let b:f32[3] = frobnicate a in (b,) }", "unknown-primitive"),
        (
            "{ lambda ; a:f32[3]. let b:f32[3] = sort[dimension=<x at 0x7f>] a in (b,) }",
            "opaque-param",
        ),
        ("{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = add a b in (c,) }", "no-constant"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = add a [...]:f32[3] in (b,) }", "no-constant"),
        ("{ lambda ; a:f32[8@x]. let b:f32[8@x] = sin a in (b,) }", "opaque-type"),
    ],
)
def test_what_jax_cannot_be_given(text, code):
    with pytest.raises(jt.UnsupportedError) as e:
        to_jax(parse(text))
    assert e.value.diagnostics[0].code == code
    assert str(e.value).startswith("<string>:1:")


def test_an_equation_that_jax_refuses_is_named(monkeypatch):
    def refuse(*parts, **options):
        raise ValueError("no such thing")

    monkeypatch.setattr(private, "new_equation", refuse)
    with pytest.raises(
        jt.UnsupportedError, match="sin: JAX does not take the equation: no such"
    ) as e:
        to_jax(parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"))
    assert e.value.diagnostics[0].code == "jax-refuses"


def test_an_object_that_jax_does_not_make_is_named(monkeypatch):
    """JAX evaluates the types of its function, and may raise anything: an OverflowError of 2^31 indices in i32, say."""

    def refuse(*parts):
        raise OverflowError("out of bounds")

    monkeypatch.setattr("jaxprtool.backends.jax.to_jax.hi_primitive", refuse)
    text = (
        "{ lambda ; d:f32[3]. let e:i32[9] = Nonzero[size=9 axes=(0,) out_dtype=int32] d in (e,) }"
    )
    with pytest.raises(
        jt.UnsupportedError, match="Nonzero: JAX does not take the equation: out of bounds"
    ) as e:
        to_jax(parse(text))
    assert e.value.diagnostics[0].code == "jax-refuses"


def test_not_a_jaxpr():
    with pytest.raises(jt.UsageError, match="not a jaxpr of JAX"):
        from_jax("{ lambda ; a:f32[]. let  in (a,) }")


AUTO = jax.make_mesh((1,), ("S",), axis_types=(jax.sharding.AxisType.Auto,))
# Programs whose params are objects of JAX's, which a text names.
OBJECTS = {
    "a preset of precision": (
        lambda x: lax.dot(x, x, precision=lax.DotAlgorithmPreset.BF16_BF16_F32),
        W,
    ),
    "two precisions": (lambda x: lax.dot(x, x, precision=("highest", "default")), W),
    "an accuracy": (lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST), X),
    "a device": (lambda x: jax.device_put(x, jax.devices()[0]), X),
    "a sharding": (
        jax.jit(lambda x: x + 1, in_shardings=jax.NamedSharding(AUTO, jax.P("S"))),
        X,
    ),
    "a memory": (lambda x: jax.device_put(x, jax.memory.Space.Host), X),
    "a generator": (lambda x: random.uniform(random.key(0, impl="rbg"), (3, 4)) + x, X),
    "seeds": (lambda s: random.key_data(random.split(random.key(s))), np.int32(3)),
    "an algorithm": (
        lambda k: lax.rng_bit_generator(k, (4,), algorithm=lax.RandomAlgorithm.RNG_PHILOX),
        np.zeros(4, np.uint32),
    ),
    "a structure": (lambda x: (jax.debug.print("{a} {b}", a=x[0], b=x[1]), x)[1], X),
    "an effect": (
        lambda x: (jax.debug.print("{a}", a=x[0, 0], ordered=True), x)[1],
        X,
    ),
    "weak literals": (lambda x: jax.nn.leaky_relu(jnp.where(x > 0, x, 0.9), 0.3), X),
}


@pytest.mark.parametrize("how", ["live", "text", "lossless text"])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_found_by_what_they_print(name, how, capfd):
    f, arg = OBJECTS[name]
    closed = jax.make_jaxpr(f)(arg)
    live = from_jax(closed)
    if how != "live":
        live = parse(str(closed) if how == "text" else format_jaxpr(live, lossless=True))
    back = to_jax(live)
    assert str(back) == str(closed)
    for want, got in zip(jaxpr_as_fun(closed)(arg), jaxpr_as_fun(back)(arg), strict=True):
        np.testing.assert_array_equal(want, got)


def test_a_mesh_of_more_devices_than_there_are():
    text = (
        "{ lambda ; a:f32[3]. let b:f32[3] = jit[name=f ctx_mesh=Mesh('S': 4096, axis_types=(Auto,)) "
        "jaxpr={ lambda ; a:f32[3]. let  in (a,) }] a in (b,) }"
    )
    with pytest.raises(jt.UnsupportedError, match="known only as text"):
        to_jax(parse(text))
    small = to_jax(parse(text.replace("4096", "1")))
    assert small.eqns[0].params["ctx_mesh"] == AUTO


def test_an_abstract_mesh_of_a_release_before_0_8():
    text = (
        "{ lambda ; a:f32[3]. let b:f32[1,3] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(1, 3) "
        "sharding=NamedSharding(mesh=AbstractMesh('i': 1, axis_types=(Auto,), device_kind=cpu, num_tpu_cores=0), "
        "spec=PartitionSpec(None, None))] a in (b,) }"
    )
    (eqn,) = to_jax(parse(text)).eqns
    assert eqn.params["sharding"].mesh.abstract_device.device_kind == "cpu"


def held_in_a_function():
    p = jax.extend.core.Primitive("held_in_a_function")
    p.def_abstract_eval(lambda x, *, mode, sizes: x)
    p.def_impl(lambda x, *, mode, sizes: x * sizes[0])
    return lambda x: p.bind(x, mode="fast", sizes=(3, None))


HELD = held_in_a_function()


@pytest.mark.parametrize("how", ["live", "text"])
def test_primitives_of_this_process(how):
    closed = jax.make_jaxpr(jax.jit(HELD))(X)
    program = from_jax(closed) if how == "live" else parse(str(closed))
    back = to_jax(program)
    assert str(back) == str(closed)
    inner = back.eqns[0].params["jaxpr"]
    assert inner.eqns[0].params == {"mode": "fast", "sizes": (3, None)}
    np.testing.assert_array_equal(jax.core.eval_jaxpr(inner.jaxpr, (), X)[0], 3 * X)


SQUARE = jax.make_jaxpr(lambda x: jnp.sin(x) * x)(X)
VALUES_WITH_JAXPRS = {
    "jaxpr": SQUARE,
    "jaxprs": (SQUARE, jax.make_jaxpr(jnp.cos)(X)),
    "mixed": (SQUARE, 3),
    "mixed, last": (3, SQUARE),
    "nested": ((SQUARE,), 3),
    "named tuple": collections.namedtuple("Two", "f g")(SQUARE, 3),
}


@pytest.mark.parametrize("value", VALUES_WITH_JAXPRS.values(), ids=VALUES_WITH_JAXPRS)
def test_names_after_a_value_that_holds_a_jaxpr(value):
    """JAX names the variables of a jaxpr in such a value by themselves, but for a jaxpr and a tuple of jaxprs."""
    p = jax.extend.core.Primitive("holds_a_jaxpr")
    p.def_abstract_eval(lambda x, *, held: x)
    closed = jax.make_jaxpr(lambda x: jnp.cos(p.bind(jnp.tan(x), held=value)) * x)(X)
    assert str(from_jax(closed)) == str(closed)
    assert format_jaxpr(parse(str(closed))) == str(closed)


def test_what_a_write_replaces_is_dropped_in_the_body_of_a_loop():
    """There JAX 0.10 writes `_:f32[], d[...] <- d[...], h`, and in the outermost jaxpr `d[...] <- h`, as before."""

    def products(x):
        ref = jax.new_ref(jnp.float32(0))

        def body(carry, n):
            ref[...] = ref[...] * n
            return carry, ref[...]

        return jax.lax.scan(body, 0.0, x)[1]

    backward = jax.make_jaxpr(lambda x: jax.vjp(products, x)[1](jnp.ones(3)))(jnp.arange(3.0))
    assert str(from_jax(backward)) == str(backward)
    assert format_jaxpr(parse(str(backward))) == str(backward)

    def last(x):
        ref = jax.new_ref(x)
        ref[...] = x * 2
        return ref[...]

    outermost = jax.make_jaxpr(last)(X)
    assert "] <- b" in str(outermost) and str(from_jax(outermost)) == str(outermost)


@pytest.mark.parametrize("at", [0, 2, -1, 7, -9])
@pytest.mark.parametrize("size", [0, 2])
def test_a_number_that_was_an_operand_of_an_index_selects_what_is_nearest(at, size):
    """JAX has one form for a number and an operand whose value is known, and refuses only the former outside."""

    from jax.experimental.pallas import ds

    def look(ref, i):
        return ref[ds(i, size)] if size else ref[i]

    def f(x):
        return jax.jit(look, inline=True)(jax.new_ref(x), np.int32(at))

    x = np.arange(4, dtype=np.float32)
    program = from_jax(jax.make_jaxpr(f)(x))
    np.testing.assert_array_equal(jt.run(program, x)[0], jax.jit(f)(x))
    assert jt.diff(program, parse(jt.format_jaxpr(program, lossless=True))).equal


@pytest.mark.parametrize("result", [1.0, 2, 1j, True, np.float32(1), np.int8(3)])
def test_a_literal_result_is_weakly_typed_where_jax_says_so(result):
    """No equation tells the type of such a result, and the next call of a step has it."""

    def f(x):
        return x, jnp.asarray(result) if type(result) is bool else result

    made = jax.make_jaxpr(f)(X)
    program = from_jax(made)
    weak = [a.weak_type for a in made.out_avals]
    assert [x.aval.weak_type for x in program.jaxpr.outs] == weak
    read = parse(format_jaxpr(program, lossless=True))
    assert [x.aval.weak_type for x in read.jaxpr.outs] == weak
    assert [a.weak_type for a in to_jax(program).out_avals] == weak
    assert str(program) == str(made)


def test_a_custom_vjp_rule_with_constants_of_its_own_is_kept():
    """`odeint` has one: arrays that the forward rule and the function close over."""
    weights = jnp.arange(3.0)

    @jax.custom_vjp
    def f(x, y):
        return (jnp.sin(x) * weights * y).sum()

    f.defvjp(
        lambda x, y: ((jnp.sin(x) * weights * y).sum(), (jnp.cos(x) * weights, y)),
        lambda res, ct: (3 * ct * res[0] * res[1], ct * (res[0] * 2).sum()),
    )
    x = jnp.ones(3)
    program = jt.parse(program_text({"": from_jax(jax.make_jaxpr(f)(x, 2.0))}))
    for got, want in zip(
        jt.grad(jt.jaxpr_as_fun(program), (0, 1))(np.ones(3, np.float32), np.float32(2)),
        jax.grad(f, (0, 1))(x, 2.0),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_reduction_of_a_tree_has_an_equation_for_each_leaf():
    """As releases after 0.8.1 trace it; those to 0.8.1 trace one with all leaves as operands."""
    made = jax.make_jaxpr(lambda x, y: lax.psum((x, y), "i"), axis_env=[("i", 2)])(V, W)
    program = from_jax(made)
    assert [(e.primitive.name, len(e.inputs)) for e in program.eqns] == [("psum", 1)] * 2
    assert str(parse(str(made))) == str(program)
