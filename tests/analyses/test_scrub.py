"""`reduce --scrub` and `repro --scrub`: nothing of the values and the names of the original is left."""

from __future__ import annotations

import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import jaxprtool as jt
from tests.analyses.test_reduce import script
from tests.invoke import invoke


def test_scrubbed_results_hold_no_data_and_no_names():
    def secret_model(secret_weights):
        return jax.jit(lambda secret_x: jnp.log(secret_x))(secret_weights)

    x = np.array([0.123456, -4.56789, 3.3], np.float32)
    small = jt.reduce(secret_model, x, nan=True, scrub=True)
    text = jt.format_jaxpr(small.program, lossless=True)
    assert "secret" not in text and "test_reduce" not in text
    assert not small.kept and not {*np.ravel(small.args[0])} & {*x}


SECRET = np.random.default_rng(3).standard_normal((3, 3)).astype(np.float32)


def _secret_inside(x):
    """Weights and names in nested jaxprs: constants, literals, labels that a policy mentions."""
    names = jax.checkpoint_policies.save_only_these_names("secret_a", "secret_b")

    def body(c, t):
        c = jax.jit(lambda v: v @ SECRET)(c) * 1.2345678 + t
        return checkpoint_name(c, "secret_a"), jnp.log(c) - 9.87654e-3

    layer = jax.checkpoint(lambda x: jax.lax.scan(body, x, jnp.arange(3.0))[1], policy=names)
    return layer(x).sum()


@pytest.mark.parametrize("how", ["reduce", "repro"])
def test_scrubbed_results_hold_no_data_and_no_names_inside(tmp_path, how):
    x = np.float32([0.123456, -4.56789, 3.3])
    if how == "reduce":  # a test that keeps all of it
        test = script(tmp_path, 'grep -q "dot_general" "$1" && grep -q "log" "$1"')
        program = jt.trace(_secret_inside, x)
        outs = jt.reduce(program, x, test=test, scrub=True)
        text, kept = jt.format_jaxpr(outs.program, lossless=True), outs.kept
    else:
        jt.save(jt.trace(_secret_inside, x), tmp_path / "p.jaxpr")
        out = tmp_path / "b.zip"
        done = invoke(f"repro --scrub {tmp_path / 'p.jaxpr'} -o {out} -- check")
        assert done.status == 0 and "original's" not in done.output, done
        with zipfile.ZipFile(out) as held:
            text = "".join(held.read(n).decode() for n in held.namelist() if n != "args.npz")
        kept = []
    weights = [str(w) for w in SECRET.astype(float).ravel()]
    assert not [w for w in ("secret", "1.23456", "9.8765", *weights) if w in text], text
    assert not kept


def _secret_prints(x, calls):
    jax.debug.print("{{secret}} loss {} at {x:.2f}", x.sum(), x=x[0])
    jax.debug.callback(lambda secret_value: None, x)

    def secret_host(v):
        return np.asarray(v)

    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jnp.log(x), jax.pure_callback(secret_host, kind, x) if calls else x


@pytest.mark.parametrize("how", ["reduce", "repro"])
def test_scrubbed_results_print_nothing_and_name_no_functions(tmp_path, how):
    path, out = tmp_path / "p.jaxpr", tmp_path / "b.zip"
    x = np.ones(3, np.float32)
    path.write_text(str(jax.make_jaxpr(lambda x: _secret_prints(x, how == "repro"))(x)))
    if how == "reduce":  # it runs the program, for which a text has no functions
        words = ("debug_print", "debug_callback", "log")
        test = script(tmp_path, " && ".join(f'grep -q "{w}" "$1"' for w in words))
        done = invoke(["reduce", "--scrub", "--test", test, str(path), "--args", "ones"])
        assert done.status == 0, done.error
        text = done.output
    else:
        assert invoke(f"repro --scrub {path} -o {out} -- check").status == 0
        with zipfile.ZipFile(out) as held:
            text = "".join(held.read(n).decode() for n in held.namelist())
    assert "debug_print" in text and "{x:.2f}" in text
    assert "secret" not in text and "loss" not in text, text


@pytest.mark.parametrize(
    ("f", "how", "x"),
    [
        (lambda x: jnp.exp(x), "inf", 123.456),
        (lambda x: jnp.exp(-x), "inf", -123.456),
        (lambda x: jnp.arccos(x), "nan", 1.7654321),
        (lambda x: x * x, "inf", 3.4567e25),
        (lambda x: jnp.exp(x) - jnp.exp(x * 2), "nan", 123.456),
        (lambda x: jnp.exp(jnp.sign(x) * 123.456), "inf", 0.5),
        (lambda x: jnp.log(jnp.float32(1.2345) - x), "nan", 1.7654321),
    ],
)
def test_large_values_that_a_fault_needs_become_neutral_too(f, how, x):
    """A fault that 0, 1, a ramp and random numbers do not show: one power of ten, or an infinity, holds no data either."""
    small = jt.reduce(f, np.full(3, x, np.float32), nan=how == "nan", inf=how == "inf", scrub=True)
    assert not small.kept, small
    bad = np.isnan if how == "nan" else np.isinf
    assert any(bad(out).any() for out in jt.run(small.program, *small.args)), small
