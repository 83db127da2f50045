"""`--plugin MODULE` of a library that declares its primitives to JAX alone: texts may hold them, and their rules are JAX's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LIBRARY = """
import jax, jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

def bump(x, *, power, shift, mode, axes, flag):
    total = jnp.sum(x, axes, keepdims=True)
    return shift * jnp.sin(x) ** power + total if mode == "sum" and flag is True else x

bump_p = Primitive("my_bump")
bump_p.def_abstract_eval(lambda x, **_: x)
mlir.register_lowering(bump_p, mlir.lower_fun(bump, multiple_results=False))
ad.primitive_jvps[bump_p] = lambda ps, ts, **kw: (bump_p.bind(*ps, **kw), 5.0 * ts[0])
batching.primitive_batchers[bump_p] = lambda xs, ds, **kw: (
    jax.vmap(lambda x: bump(x, **kw), *ds)(*xs), 0)
"""
PROGRAM = """{ lambda ; a:f32[3]. let
    b:f32[3] = my_bump[axes=(0,) flag=True mode=sum power=2 shift=0.5] a
    c:f32[3] = mul b 2.0:f32[]
  in (c,) }
"""
X = np.asarray([1.0, 2.0, 3.0], np.float32)
WANT = np.sin(X) ** 2 + 2 * X.sum()


def process(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: the library is in none of the others."""
    root = str(Path(__file__).parent.parent.parent)
    return subprocess.run(
        [sys.executable, "-m", "jaxprtool", *words],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "lib.py").write_text(LIBRARY)
    (tmp_path / "p.jaxpr").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("how", ["", "--jit", "--through=jax"])
def test_it_runs(folder, how):
    words = ["run", "p.jaxpr", "--plugin", "lib", "--json", "--args", "[1,2,3]"]
    done = process(folder, *words, *filter(None, [how]))
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout)["outs"][0]["data"], WANT, rtol=1e-6)


@pytest.mark.parametrize(
    ("verb", "args", "result"),
    [
        ("vjp", ["[1,2,3]", "ones"], [10.0] * 3),  # as its author says
        ("vmap --axis-size 2", ["[[1,2,3],[1,2,3]]"], [WANT, WANT]),
    ],
)
def test_it_is_transformed_by_its_rules(folder, verb, args, result):
    made = process(folder, *verb.split(), "p.jaxpr", "--plugin", "lib.py")
    assert made.returncode == 0, made.stderr
    words = [word for x in args for word in ("--args", x)]
    done = process(folder, "run", "-", "--plugin", "lib.py", "--json", *words, stdin=made.stdout)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout)["outs"][-1]["data"], result, rtol=1e-6)


def test_what_nobody_declares_is_unknown(folder):
    assert "unknown primitive my_bump" in process(folder, "check", "p.jaxpr").stderr
    (folder / "q.jaxpr").write_text(PROGRAM.replace("my_bump", "my_bmp"))
    done = process(folder, "check", "q.jaxpr", "--plugin", "lib.py")
    assert done.returncode == 1
    assert "q.jaxpr:2:16: error: unknown primitive my_bmp [unknown-primitive]" in done.stderr


def test_a_declaration_to_us_comes_first(folder):
    (folder / "both.py").write_text(
        LIBRARY + "import jaxprtool as jt\n@jt.primitive\ndef my_bump(x, *, power):\n    'Ours.'\n"
    )
    done = process(folder, "check", "p.jaxpr", "--plugin", "both.py")
    assert "error: my_bump has no abstract_eval rule [no-rule]" in done.stderr
