"""Verbs run a function on its example arguments where they are given no other values."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.invoke import invoke

_MODULE = """
import jax, jax.numpy as jnp, numpy as np

def loss(params, x):
    return jnp.log(params["w"] - 2).sum() + x.sum()

def draw(key, scale):
    return jax.random.normal(key, (3,)) * scale

def look(x):
    jax.debug.print("x is {}", x)
    return x * 2

seven = (np.float32(7),)
batch = ({"w": np.full(3, 3, np.float32)}, np.arange(2, dtype=np.float32))
bad = ({"w": np.ones(3, np.float32)}, np.arange(2, dtype=np.float32))
wide = (np.ones(3), 2.0)
keyed = (jax.random.key(0), 2.0)
types = ({"w": jax.ShapeDtypeStruct((3,), jnp.float32)}, jax.ShapeDtypeStruct((2,), jnp.float32))

def made():
    return batch
"""


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(_MODULE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("like", ["batch", "made", "train.py:batch"])
def test_run_takes_example_values(like):
    done = invoke(["run", "train.py:loss", "--like", like])
    assert (done.status, done.output) == (0, "f32[] 1.0\n")


def test_keys_and_numbers_are_taken():
    done = invoke(["run", "train.py:draw", "--like", "keyed"])
    assert done.status == 0, done.error
    expected = np.asarray(jax.random.normal(jax.random.key(0), (3,)) * 2.0)
    found = [float(x) for x in done.output.removeprefix("f32[3] [").rstrip("]\n").split(",")]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_given_values_go_first():
    done = invoke(["run", "train.py:loss", "--like", "bad", "--args", "[3,3,3]", "ones"])
    assert (done.status, done.output) == (0, "f32[] 2.0\n")


@pytest.mark.parametrize(
    ("verb", "said", "status"),
    [
        ("blame", "3 of 3 elements: nan", 1),
        ("precision", "1 element NaN or infinite", 0),
        ("compare train.py:loss", "A: train.py:loss", 0),
    ],
)
def test_verbs_that_find_faults_take_example_values(verb, said, status):
    done = invoke([*verb.split(), "train.py:loss", "--like", "bad"])
    assert done.status == status, done.error
    assert said in done.output


@pytest.mark.parametrize("verb", ["profile", "bench --backends numpy"])
def test_verbs_that_measure_take_example_values(verb):
    words = [*verb.split(), "train.py:look", "--seconds", "0.01"]
    done = invoke([*words, "--like", "seven"])
    assert done.status == 0, done.error
    assert "x is 7.0" in done.output + done.error
    done = invoke([*words, "--shape", "f32[]"])
    assert done.status == 0, done.error
    assert "x is 7.0" not in done.output + done.error


def test_types_have_no_values():
    done = invoke(["run", "train.py:loss", "--like", "types"])
    assert done.status == 2
    assert "none are given [argument-count]" in done.error


def test_a_file_has_no_examples_of_the_function_before():
    assert invoke(["trace", "train.py:loss", "--like", "batch", "-o", "loss.jaxpr"]).status == 0
    done = invoke(["run", "loss.jaxpr"])
    assert done.status == 2, done.output
    assert "none are given [argument-count]" in done.error
