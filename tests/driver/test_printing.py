"""What a program prints goes to standard error: standard output has the one JSON document and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.invoke import invoke

PRINTS = """import jax
import jax.numpy as jnp

def f(x):
    jax.debug.print("noise {}", x[0])
    return jnp.log(x - x) / 2 + jax.jit(jnp.sin)(x)

def g(x):
    jax.debug.print("noise {}", x[0])
    return jnp.sin(x) * 2

def h(x):
    jax.debug.print("noise {}", x[0])
    return jnp.round(x) * x * 2
"""
RUNS = [
    "blame @f",
    "blame @f --jit",
    "compare @f @g --first",
    "compare @g --backends jax,xla --first",
    "compare @g --backends numpy,f64 --arbiter f64 --first",
    "precision @g",
    "gradcheck @g",
    "gradcheck @h --order 2",
    "equiv @g @h",
    "equiv @f @f",
    "reduce @f --inf -o {out}",
    "reduce @g --nan",
    "profile @g",
    "bench @g",
]


@pytest.mark.parametrize("line", RUNS)
def test_standard_output_is_one_document(line, tmp_path):
    (tmp_path / "prints.py").write_text(PRINTS)
    made = line.replace("@", f"{tmp_path}/prints.py:").format(out=tmp_path / "small.jaxpr")
    done = invoke([*made.split(), "--shape", "f32[2]", "--args", "random:0", "--json"])
    assert done.status in (0, 1), done.error
    json.loads(done.output)
