"""Typed PRNG keys: what JAX prints runs on NumPy and with XLA, and agrees with JAX bit for bit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from tests.rules.examples_random import is_known

IMPLS = ["threefry2x32", "rbg", "unsafe_rbg"]
HASHED = ["threefry4x32", "philox2x32", "philox4x32"]  # since 0.10.2
IMPLS += [name for name in HASHED if is_known(name)]


def _value(x):
    """A value of JAX's as ours."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jt.KeyArray(x.dtype.name[4:-1], np.asarray(jax.random.key_data(x)))
    return np.asarray(x)


def _same(ours, theirs):
    if isinstance(theirs, jt.KeyArray):
        assert isinstance(ours, jt.KeyArray) and ours.impl == theirs.impl
        ours, theirs = ours.data, theirs.data
    ours = np.asarray(ours)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def _agree(f, *args):
    """The printed program gives JAX's values on NumPy and with XLA."""
    expected = [_value(x) for x in jax.tree.leaves(jax.jit(f)(*args))]
    traced = jax.make_jaxpr(f)(*args)
    text = str(traced)
    program = jt.parse(text)
    assert jt.format_jaxpr(program).strip() == text.strip()
    jt.typecheck_jaxpr(program)
    program = jt.ClosedJaxpr(program.jaxpr, [_value(c) for c in traced.consts])
    given = [_value(x) for x in args]
    for ours, theirs in zip(jt.jaxpr_as_fun(program)(*given), expected, strict=True):
        _same(ours, theirs)
    for ours, theirs in zip(jt.compile(program)(*given), expected, strict=True):
        _same(ours, theirs)


@pytest.fixture(params=IMPLS)
def keys(request):
    """Six keys, key<..>[2,3]."""
    return jax.random.split(jax.random.key(42, impl=request.param), (2, 3))


@pytest.mark.parametrize("impl", IMPLS)
def test_seeds(impl):
    def seeds(a, b, c):
        return [jax.random.key(x, impl=impl) for x in (a, b)] + [
            jax.vmap(lambda s: jax.random.key(s, impl=impl))(c)
        ]

    _agree(seeds, np.int32(-5), np.uint8(200), np.arange(3, dtype=np.int32))


def test_split_fold_in_and_bits(keys):
    def draw(keys):
        key = keys[0, 0]
        return [
            jax.random.split(key, (3, 2)),
            jax.random.split(key, ()),
            jax.random.fold_in(key, 7),
            *(jax.random.bits(key, (3, 5), d) for d in ("uint8", "uint16", "uint32")),
            jax.random.bits(key, (), "uint32"),
            jax.random.bits(key, (0, 2), "uint32"),
        ]

    _agree(draw, keys)


def test_arrays_of_keys(keys):
    """A batch of `rbg` keys draws from the first of them, as in JAX."""

    def draw(keys):
        return [
            jax.vmap(jax.vmap(lambda k: jax.random.bits(k, (2,))))(keys),
            jax.vmap(jax.vmap(lambda k: jax.random.split(k, 2)))(keys),
            jax.vmap(jax.random.fold_in)(keys[:, 0], jnp.arange(2)),
            jax.vmap(jax.random.fold_in, (None, 0))(keys[0, 0], jnp.arange(2)),
        ]

    _agree(draw, keys)


def test_words_and_clones(keys):
    impl = jax.random.key_impl(keys)

    def again(keys):
        words = jax.random.key_data(keys)
        return words, jax.random.wrap_key_data(words ^ words[0], impl=impl), jax.random.clone(keys)

    _agree(again, keys)


def test_moving_keys_about(keys):
    def move(keys, i, mask):
        return [
            keys.reshape(3, 2),
            keys.T,
            keys[::-1],
            keys[0],
            jnp.concatenate([keys, keys]),
            jnp.stack([keys, keys], 1),
            jnp.broadcast_to(keys, (4, 2, 3)),
            jnp.where(mask, keys, keys[::-1]),
            keys == keys[0],
            keys != keys[::-1],
            keys[i],
            jnp.take(keys, jnp.array([1, 0, 1]), axis=1, mode="clip"),
            keys.at[i].set(keys[0]),
            jax.lax.dynamic_update_slice(keys, keys[:1], (i, jnp.int32(0))),
        ]

    _agree(move, keys, np.int32(1), np.array([True, False, True]))


def test_keys_in_control_flow(keys):
    def flow(keys, p):
        def step(carry, key):
            return jax.random.split(carry)[0], (jax.random.bits(key, (2,)), carry)

        return [
            jax.lax.scan(step, keys[0, 0], keys[0]),
            jax.lax.fori_loop(0, 3, lambda i, k: jax.random.fold_in(k, i), keys[0, 0]),
            jax.lax.cond(p, lambda k: k[0], lambda k: k[1], keys),
            jax.jit(lambda k: jax.random.split(k)[1])(keys[0, 0]),
        ]

    _agree(flow, keys, np.bool_(True))


STATES = [np.arange(4, dtype=np.uint32), np.full(4, 2**32 - 1, np.uint32)]


@pytest.mark.parametrize("algorithm", jax.lax.RandomAlgorithm)
@pytest.mark.parametrize("state", STATES, ids=["low", "wraps"])
def test_rng_bit_generator(algorithm, state):
    def draw(state):
        return [
            jax.lax.rng_bit_generator(state, shape, dtype=dtype, algorithm=algorithm)
            for dtype in (np.uint8, np.uint16, np.uint32)
            for shape in ((), (5,), (3, 4), (3, 5))
        ]

    _agree(draw, state)


def test_rng_bit_generator_on_64_bits():
    with jax.enable_x64(True):
        state = np.array([5, 2**64 - 2], np.uint64)
        _agree(lambda s: jax.lax.rng_bit_generator(s, (3, 5), dtype=np.uint64), state)
        key = jax.random.key(3)
        _agree(lambda k: jax.random.bits(k, (4,), "uint64"), key)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("log_space", [False, True])
def test_gamma_samples(impl, log_space):
    key = jax.random.key(1, impl=impl)
    sample = jax.random.loggamma if log_space else jax.random.gamma

    def f(key, a):
        return sample(key, a)

    a = np.array([[0.3, 1.0], [2.5, 30.0]], np.float32)
    program = jt.parse(str(jax.make_jaxpr(f)(key, a)))
    expected = np.asarray(jax.jit(f)(key, a))
    given = _value(key), a
    np.testing.assert_allclose(jt.eval_jaxpr(program, given)[0], expected, rtol=2e-5)
    np.testing.assert_allclose(jt.compile(program)(*given)[0], expected, rtol=2e-5)


def test_gamma_derivative_and_batch():
    key, a = jax.random.key(1), np.array([0.3, 1.0, 2.5], np.float32)

    def f(a):
        return jax.random.gamma(key, a)

    traced = jax.make_jaxpr(f)(a)
    program = jt.ClosedJaxpr(jt.parse(str(traced)).jaxpr, [_value(c) for c in traced.consts])
    ours = jt.jvp(jt.jaxpr_as_fun(program), (a,), (np.ones_like(a),))[1][0]
    np.testing.assert_allclose(ours, jax.jvp(f, (a,), (np.ones_like(a),))[1], rtol=1e-4)
    keys = _value(jax.random.split(key, 3))
    g = jt.vmap(lambda k, x: jt.lax.random_gamma(k, x, log_space=False))
    rows = [jt.lax.random_gamma(keys[i], a[i], log_space=False) for i in range(3)]
    np.testing.assert_array_equal(g(keys, a), np.stack(rows))


def test_rng_uniform_is_in_range():
    program = jt.parse(
        "{ lambda ; a:f32[] b:f32[]. let c:f32[100] = rng_uniform[shape=(100,)] a b in (c,) }"
    )
    for out in (
        jt.eval_jaxpr(program, [2.0, 3.0]),
        jt.compile(program)(np.float32(2), np.float32(3)),
    ):
        x = np.asarray(out[0])
        assert x.shape == (100,) and x.dtype == np.float32
        assert (x >= 2).all() and (x < 3).all() and len(set(x.tolist())) > 50


def test_all_integers_are_drawn_where_none_is_between_the_bounds():
    program = jt.make_jaxpr(lambda a, b: [jt.lax.rng_uniform(a, b, shape=(1000,))])(3, 3)
    for f in (jt.jaxpr_as_fun(program), jt.compile(program)):
        x = np.asarray(f(3, 3)[0])
        assert (x < -(2**61)).any() and (x > 2**61).any()


def test_no_keys_at_all_are_split():
    """JAX fails here, for want of a first key."""
    keys = jt.KeyArray("urbg", np.zeros((0, 4), np.uint32))
    split = jt.lax.random_split(keys, shape=(2,))
    assert split.shape == (0, 2) and split.impl == "urbg"


def _keys(how, program, x):
    """The results of a program that takes keys, from Python."""
    ways = {
        "numpy": lambda: jt.run(program, x),
        "eval": lambda: jt.eval_jaxpr(program, [x]),
        "jit": lambda: jt.run(program, x, jit=True),
        "compiled": lambda: jt.compile(program)(x),
        "jax": lambda: jt.run(program, x, through="jax"),
        "function": lambda: [jt.to_jax_function(program)(x)],
    }
    return np.asarray(ways[how]()[0])


HOW = pytest.mark.parametrize("how", ["numpy", "eval", "jit", "compiled", "jax", "function"])


@HOW
def test_keys_are_given_by_their_words(how):
    """As on the command line: without JAX there is no other way to make one."""
    one = jt.trace(lambda k: jax.random.bits(k, (2,)), jax.random.key(0))
    several = jt.trace(
        lambda k: jax.vmap(jax.random.bits)(k), jax.random.split(jax.random.key(0), 3)
    )
    key, keys = jax.random.key(7), jax.random.split(jax.random.key(7), 3)
    for x in (key, jax.random.PRNGKey(7), np.array([0, 7], np.uint32)):
        np.testing.assert_array_equal(_keys(how, one, x), jax.random.bits(key, (2,)))
    for x in (keys, np.asarray(jax.random.key_data(keys))):
        np.testing.assert_array_equal(_keys(how, several, x), jax.vmap(jax.random.bits)(keys))


@HOW
@pytest.mark.parametrize(
    "x", [7, 7.5, np.zeros(2, np.int32), np.zeros((1, 2), np.uint32), np.uint32(7)]
)
def test_what_is_no_key_is_refused(how, x):
    program = jt.trace(lambda k: jax.random.bits(k, (2,)), jax.random.key(0))
    with pytest.raises(jt.UsageError) as e:
        _keys(how, program, x)
    assert "their words, u32[2]" in e.value.diagnostics[0].help
