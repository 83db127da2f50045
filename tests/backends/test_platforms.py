"""Where programs run: on the devices of the installed JAX, by our lowering or by JAX's."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.xla import client
from jaxprtool.driver.compile import is_enough
from jaxprtool.driver.run import run, run_words
from tests.invoke import invoke

TEXT = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
SIN = jt.parse(TEXT)
VERSION = jax.__version__


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        ("--jit --platform abacus", f"the platform abacus is not there: jax {VERSION} has ", "platform"),
        ("--through jax --platform abacus", f"the platform abacus is not there: jax {VERSION} has ", "platform"),
        ("--platform cpu", "--platform goes with --jit, or with --through jax", "option"),
        ("--through torch", "invalid value for '--through': 'torch' is not", "usage"),
        ("--jit --platform cpu --coordinator localhost:99 --num-processes 2 --process-id 0", "--coordinator goes without --platform", "option"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(words, message, code):
    done = invoke(f"run {words} --args [1,2,3]", TEXT)
    assert done.status == 2 and not done.output
    assert message in done.error and f"[{code}]" in done.error


def test_the_platforms_that_are_there_are_listed():
    with pytest.raises(jt.UsageError) as e:
        run(SIN, [np.ones(3, np.float32)], jit=True, platform="abacus")
    assert str(jax.devices()[0].client.platform) in str(e.value)


@pytest.mark.parametrize(
    "words", ["--jit --platform cpu", "--through jax", "--through jax --platform cpu"]
)
def test_the_shell_prints_the_same(words):
    plain = invoke("run --args [0,0,0]", TEXT)
    done = invoke(f"run {words} --args [0,0,0]", TEXT)
    assert (done.status, done.output) == (0, plain.output)


def test_there_is_no_other_way_through():
    with pytest.raises(jt.UsageError, match="no way through 'torch'"):
        run(SIN, [np.ones(3, np.float32)], through="torch")


def test_an_artifact_stays_where_it_was_compiled():
    with pytest.raises(jt.UsageError, match="an artifact is compiled for the CPU"):
        run_words(jt.compile(SIN), ["ones"], platform="cpu")


def test_a_program_is_compiled_once_for_each_platform():
    one, two = (jt.compile(SIN, platform="cpu") for _ in range(2))
    assert one._executable is two._executable
    assert jt.compile(SIN)._executable is not one._executable


def test_what_jax_does_not_run_is_an_error_with_its_reason():
    program = jt.parse("{ lambda ; a:f32[3]. let b:f32[3] = frobnicate a in (b,) }")
    with pytest.raises(jt.JaxprToolError, match="frobnicate"):
        run(program, [np.ones(3, np.float32)], through="jax")


def test_devices_of_xla_pmap_are_made_for_jax_too():
    """It says no mesh. In a process of its own, since JAX counts its devices once."""
    text = """{ lambda ; a:f32[2,3]. let b:f32[2] = xla_pmap[axis_name=rows axis_size=2 backend=None call_jaxpr={ lambda ; c:f32[3]. let
        d:f32[] = reduce_sum[axes=(0,)] c; e:f32[] = psum[axes=('rows',) axis_index_groups=None] d; f:f32[] = div d e in (f,) }
        devices=None donated_invars=(False,) global_axis_size=2 in_axes=(0,) is_explicit_global_axis_size=False name=norm
        out_axes=(0,)] a in (b,) }"""
    words = [sys.executable, "-m", "jaxprtool", "run", "-", "--args", "[[1,2,3],[4,5,6]]"]
    outs = [
        subprocess.run(
            [*words, *how], input=text, capture_output=True, text=True, check=True
        ).stdout
        for how in ([], ["--jit"], ["--through", "jax"])
    ]
    assert outs[0].startswith("f32[2] [0.2857") and len({*outs}) == 1


ENOUGH = {
    TEXT: True,
    "{ lambda ; a:f32[3,3]. let b:f32[3,3] = cholesky a in (b,) }": False,
    "{ lambda ; a:f32[3]. let i:i32[] = platform_index[platforms=(('cpu',), None)]; b:f32[3] = sin a in (b,) }": False,
}


@pytest.mark.parametrize("text", ENOUGH)
def test_what_only_the_cpu_has_is_lowered_by_jax_elsewhere(text):
    program = jt.parse(text)
    assert is_enough(program, "gpu") is ENOUGH[text]
    assert is_enough(program, "cpu")


DTYPES = ["f32", "f64", "bf16", "f8_e4m3fn", "i4", "i64", "u8", "bool", "c64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ["", "3", "2,0"])
def test_results_of_a_device_that_is_not_the_host_are_copied(monkeypatch, dtype, shape):
    """As if the CPU's memory were another device's."""
    monkeypatch.setattr(client.Runtime, "is_on_host", False)
    kind = f"{dtype}[{shape}]"
    program = jt.parse(f"{{ lambda ; a:{kind}. let b:{kind} = copy a in (b,) }}")
    (want,) = run_words(program, ["ones"])
    (got,) = run_words(program, ["ones"], jit=True, platform="cpu")
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(np.asarray(got), want)
