"""What JAX lowers, compiles and runs of our programs has the values of NumPy: the examples, the zoo, and the programs of the cases."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax import private, run
from jaxprtool.backends.xla import precautions
from jaxprtool.driver.run import run_words
from jaxprtool.ir.diagnostics import JaxprToolError
from tests.programs.catalogue import EXAMPLES
from tests.test_cases import CASES, MARK

# What a text of a case makes the tool warn of is looked at by the cases.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprtool.ir.diagnostics.JaxprToolWarning")

# One has a primitive of a plug-in, one runs on more devices than JAX has in this process.
ELSEWHERE = {"multiply_add", "data_parallel"}
FILES = sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
FILES = [path for path in FILES if path.stem not in ELSEWHERE]
LIMITS = {"step_limit": 10_000, "max_bytes": 10**8}
# What JAX cannot be given, and why.
REFUSED = {
    "run/through_jax_masked_add": "JAX has none with a mask",
}
if private.key_impl("phx4") is None:
    REFUSED["run/keys_of_hashes"] = "has no keys of the kind phx4"


def programs_of_cases():
    """The programs of the case files that are well typed, each once."""
    found = {}
    for path in CASES:
        text = path.read_text().partition("\n")[2]
        given = text[: m.start()] if (m := MARK.search(text)) else text
        found.setdefault(given, f"{path.parent.name}/{path.stem}")
    return {name: text for text, name in found.items() if "lambda" in text}


TEXTS = programs_of_cases()


def plain(x):
    """A value as NumPy compares it."""
    x = np.asarray(x.data if isinstance(x, jt.KeyArray) else x)
    return x.astype(np.complex64) if x.dtype.kind == "V" and x.dtype != jt.float0 else x


def agree(got, want, tolerance=1e-4):
    for a, b in zip(got, want, strict=True):
        assert plain(a).dtype == plain(b).dtype
        if plain(a).dtype != jt.float0:
            np.testing.assert_allclose(plain(a), plain(b), rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def quiet(capfd):
    """What the programs print is not looked at."""
    yield
    capfd.readouterr()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_files(path):
    program = jt.parse(path.read_text())
    want = run_words(program, ["ramp"])
    agree(run_words(program, ["ramp"], through="jax"), want)
    agree(run_words(program, ["ramp"], jit=True, platform="cpu"), want)


@pytest.mark.parametrize("name", TEXTS)
def test_cases(name):
    try:
        program = jt.parse(TEXTS[name])
        want = run_words(program, ["random:0"], **LIMITS)
    except JaxprToolError:
        return  # a case of an error
    if name in REFUSED:
        with pytest.raises(jt.UnsupportedError, match=REFUSED[name]):
            run_words(program, ["random:0"], through="jax")
        return
    agree(run_words(program, ["random:0"], through="jax"), want)


@pytest.mark.parametrize("name", TEXTS)
def test_cases_in_pieces(name, monkeypatch):
    """A long program is compiled piece by piece: here each program is, whose pieces have one equation or three."""
    try:
        program = jt.parse(TEXTS[name])
        want = run_words(program, ["random:0"], **LIMITS)
        given = run_words(program, ["random:0"], through="jax")
    except JaxprToolError:
        return
    assert len(given) == len(want)
    for size in (1, 3):
        monkeypatch.setattr(run, "PIECE", size)
        agree(run_words(program, ["random:0"], through="jax"), want)


def test_of_a_long_chain_no_other_process_compiles_the_whole(monkeypatch):
    """XLA does not survive every long chain; what is compiled here is not that long."""

    def refuse(*_):
        raise AssertionError("another process compiles it")

    monkeypatch.setattr(precautions, "_LONG_CHAIN", 60)
    monkeypatch.setattr(precautions, "try_in_child", refuse)
    lines = [f"    v{i + 1}:f32[] = sin v{i}" for i in range(100)]
    text = "\n".join(["{ lambda ; v0:f32[]. let", *lines, "  in (v100,) }"])
    program, x = jt.parse(text), np.float32(0.5)
    with pytest.raises(jt.UnsupportedError, match="another process compiles it"):
        jt.run(program, x, through="jax")
    monkeypatch.setattr(run, "PIECE", 50)
    agree(jt.run(program, x, through="jax"), jt.eval_jaxpr(program, [x]))


@pytest.mark.parametrize("size", [5_000, 50])
def test_nothing_runs_of_what_xla_does_not_survive(size, monkeypatch, capfd):
    """The last equation is a loop without steps that calls the host, which XLA ends the process on."""

    def f(x):
        jax.debug.print("begins {}", x)
        for _ in range(60):
            x = jax.numpy.sin(x)

        def body(x):
            jax.debug.callback(lambda: None)
            return x

        return jax.lax.while_loop(lambda x: False, body, x)

    monkeypatch.setattr(run, "PIECE", size)
    with pytest.raises(jt.UnsupportedError, match="XLA does not survive"):
        jt.run(jt.trace(f, np.float32(1)), np.float32(1), through="jax")
    assert "begins" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("mesh", ["Mesh", "AbstractMesh"])
@pytest.mark.parametrize("how", [["--through", "jax"], ["--jit", "--platform", "cpu"]])
def test_a_mesh_has_as_many_devices_of_jax(how, mesh, tmp_path):
    file = tmp_path / "data_parallel.jaxpr"
    file.write_text((EXAMPLES / file.name).read_text().replace("mesh=Mesh", f"mesh={mesh}"))

    def run(*words):
        out = tmp_path / "out.npz"
        command = [sys.executable, "-m", "jaxprtool", "run", str(file)]
        subprocess.run([*command, "--args", "random:0", "-o", str(out), *words], check=True)
        with np.load(out) as found:
            return [found[name] for name in found.files]

    agree(run(*how), run())


def test_results_stay_on_the_device():
    program = jt.parse("{ lambda ; a:f64[3]. let b:f64[3] = sin a in (b,) }")
    (got,) = jt.run(program, np.ones(3), through="jax")
    assert isinstance(got, jax.Array) and got.dtype == np.float64
    (got,) = jt.run(program, np.ones(3), jit=True, platform="cpu")
    assert type(got).__name__ == "DeviceArray"


def test_functions_are_run_too():
    f = lambda params, x: {"y": params["w"] * x}
    given = {"w": np.float32(2)}, np.arange(3, dtype=np.float32)
    for how in ({}, {"jit": True}, {"through": "jax"}, {"jit": True, "platform": "cpu"}):
        agree(jt.run(f, *given, **how), [2 * given[1]])
