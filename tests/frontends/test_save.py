"""jt.save and jt.load: nothing is lost, of programs and of compiled ones; values of JAX's wherever values are taken."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt

X = np.linspace(-1, 1, 3, dtype=np.float32)


@jax.custom_jvp
def odd(x):
    return jnp.sin(x)


odd.defjvps(lambda t, ans, x: 5 * t)


def normal(key, x):
    return jax.random.normal(key, (3,)) * odd(x) * 2.0


KEY = jax.random.key(3)
PROGRAM = jt.from_jax(jax.make_jaxpr(normal)(KEY, X))
WANT = np.asarray(normal(KEY, X))


def closed_over(key):
    """The program with its first argument as a constant."""
    jaxpr = PROGRAM.jaxpr
    return jt.ClosedJaxpr(
        jt.Jaxpr(jaxpr.in_binders[1:], jaxpr.eqns, jaxpr.outs, jaxpr.in_binders[:1]), [key]
    )


def test_a_program_comes_back_with_its_rules_and_constants(tmp_path):
    path = tmp_path / "p.jaxpr"
    jt.save(closed_over(KEY), path)
    program = jt.load(path)
    f = jt.jaxpr_as_fun(program)
    np.testing.assert_allclose(f(X)[0], WANT, rtol=1e-6)
    ours = jt.grad(lambda x: f(x)[0].sum())(X)
    np.testing.assert_allclose(ours, jax.grad(lambda x: normal(KEY, x).sum())(X), rtol=1e-6)
    assert jt.diff(program, closed_over(KEY)).equal


def test_large_constants_come_back(tmp_path):
    table = np.arange(3000, dtype=np.float32)
    program = jt.from_jax(jax.make_jaxpr(lambda i: jnp.asarray(table)[i])(2))
    jt.save(program, tmp_path / "p.jaxpr")
    assert (tmp_path / "p.jaxpr").stat().st_size < 2000
    assert jt.jaxpr_as_fun(jt.load(tmp_path / "p.jaxpr"))(np.int32(2))[0] == 2


def test_several_programs_by_name(tmp_path):
    path = tmp_path / "p.jaxpr"
    jt.save({"a": PROGRAM, "b": closed_over(KEY)}, str(path))
    assert list(jt.load(path)) == ["a", "b"]
    assert len(jt.load(f"{path}#b").jaxpr.in_binders) == 1


def test_a_compiled_program(tmp_path):
    path = tmp_path / "p.bin"
    jt.save(jt.compile(closed_over(KEY)), path)
    np.testing.assert_allclose(jt.load(path)(X)[0], WANT, rtol=1e-6)


def test_what_is_no_program(tmp_path):
    with pytest.raises(jt.UsageError, match="cannot save a int"):
        jt.save(3, tmp_path / "p")
    with pytest.raises(jt.UsageError, match="cannot read"):
        jt.load(tmp_path / "missing.jaxpr")
    (tmp_path / "bad.jaxpr").write_text("{ lambda ; a:f32[. let in (a,) }")
    with pytest.raises(jt.JaxprParseError):
        jt.load(tmp_path / "bad.jaxpr")


KEYS = {
    "JAX's": KEY,
    "fry": jt.KeyArray("fry", [0, 3]),
    "threefry2x32": jt.KeyArray("threefry2x32", np.array([0, 3], np.uint32)),
}
TAKERS = {
    "eval_jaxpr": lambda key, x: jt.eval_jaxpr(PROGRAM.jaxpr, [key, x])[0],
    "jaxpr_as_fun": lambda key, x: jt.jaxpr_as_fun(PROGRAM)(key, x)[0],
    "compile": lambda key, x: jt.compile(PROGRAM)(key, x)[0],
    "jit": lambda key, x: jt.jit(jt.jaxpr_as_fun(PROGRAM))(key, x)[0],
    "jvp": lambda key, x: jt.jvp(lambda x: jt.jaxpr_as_fun(PROGRAM)(key, x)[0], (x,), (x,))[0],
    "vjp": lambda key, x: jt.vjp(lambda x: jt.jaxpr_as_fun(PROGRAM)(key, x)[0], x)[0],
    "linearize": lambda key, x: jt.linearize(lambda x: jt.jaxpr_as_fun(PROGRAM)(key, x)[0], x)[0],
    "vmap": lambda key, x: jt.vmap(lambda x: jt.jaxpr_as_fun(PROGRAM)(key, x)[0])(x[None])[0],
    "make_jaxpr": lambda key, x: jt.jaxpr_as_fun(
        jt.make_jaxpr(lambda x: jt.jaxpr_as_fun(PROGRAM)(key, x)[0])(x)
    )(x)[0],
    "constant": lambda key, x: jt.jaxpr_as_fun(closed_over(key))(x)[0],
    "compiled constant": lambda key, x: jt.compile(closed_over(key))(x)[0],
    "written constant": lambda key, x: jt.jaxpr_as_fun(
        jt.parse(jt.format_jaxpr(closed_over(key), lossless=True))
    )(x)[0],
    "to_jax": lambda key, x: jax.extend.core.jaxpr_as_fun(jt.to_jax(closed_over(key)))(x)[0],
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("key", KEYS)
def test_keys_and_arrays_of_jax_are_values(taker, key):
    np.testing.assert_allclose(TAKERS[taker](KEYS[key], jnp.asarray(X)), WANT, rtol=1e-5)
