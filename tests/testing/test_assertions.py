"""`jaxprtool.testing`: what holds passes, what does not says where."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.generation.programs import draw_typed
from jaxprtool.ir.walk import all_eqns
from jaxprtool.testing import assert_jaxpr, assert_jaxpr_equal

ROOT = Path(__file__).parents[2]
X = np.ones(3, np.float32)
REAL = sorted([*(ROOT / "examples").glob("*.jaxpr"), *(ROOT / "examples/zoo").glob("*.jaxpr")])


def step(x):
    y = jax.jit(jnp.sin)(x) * 2.0
    return jax.lax.fori_loop(0, 3, lambda i, c: c * 2.0, y)


def noisy(x):
    jax.debug.callback(lambda _: None, x)
    return jnp.sum(x.astype(jnp.bfloat16))


def test_what_holds():
    said = assert_jaxpr(step, X).has("sin", "f32[3]", "i32").has_no("f64", "callback", "f32[4]")
    said.count("mul", 2).count("sin", at_least=1, at_most=1).within("flops=1e6,peak=1KiB")
    said.equals(step, X)
    assert_jaxpr(noisy, X).has("callback", "debug_callback", "bf16", "bf16[3]")
    assert_jaxpr(jax.make_jaxpr(step)(X)).has("sin")


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (lambda c: c.has("cos"), "of step:\nFALSE  some cos\n       nothing matches cos"),
        (lambda c: c.has_no("i32", "f64"), "of step:\nFALSE  no i32\n"),
        (lambda c: c.has_no("f32[3]"), "argument x:f32[3]"),
        (lambda c: c.count("mul", 3), "count(mul) is 2"),
        (lambda c: c.count("mul", at_least=3), "FALSE  count(mul) >= 3"),
        (lambda c: c.count("mul", at_most=1), "in scan at "),
        (lambda c: c.holds("count(mul) == 2", "top.count(mul) == 2"), "top.count(mul) is 1"),
        (lambda c: c.holds("count(mul, A) < count(mul, B)", vs=jt.trace(step, X)), "is 2"),
        (lambda c: c.within("flops=1"), "step is over its budget\nflops "),
        (lambda c: c.equals(noisy, X), "programs differ: "),
    ],
)
def test_what_does_not_hold(claim, message):
    with pytest.raises(AssertionError) as e:
        claim(assert_jaxpr(step, X))
    assert message in str(e.value)


def test_a_place_has_its_line_of_python():
    with pytest.raises(AssertionError) as e:
        assert_jaxpr(step, X).has_no("mul")
    first = step.__code__.co_firstlineno
    told = str(e.value)
    assert re.search(
        rf"\n +step:\d+:\d+: .* = mul .*  \(.*{Path(__file__).name}:{first + 1}:", told
    )
    assert re.search(rf" = mul .*  \(in scan at \d+; .*{Path(__file__).name}:{first + 2}:", told)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: assert_jaxpr(step, X).has_no("dot_genral"), "did you mean dot_general"),
        (lambda: assert_jaxpr(step, X).has_no("pjit"), "there is no primitive pjit"),
        (lambda: assert_jaxpr(step, X).holds("count(pjit) == 0"), "there is no primitive pjit"),
        (lambda: assert_jaxpr(step, X).holds("pjit ="), "expression"),
        (lambda: assert_jaxpr(step, X).holds("count(mul, B) == 1"), "B"),
        (lambda: assert_jaxpr(step, X).holds(), "nothing to assert"),
        (lambda: assert_jaxpr(step, X).has_no("f99[3]"), "f99"),
        (lambda: assert_jaxpr(step, X).has_no(""), "expected"),
        (lambda: assert_jaxpr(step, X).count("mul"), "says no number"),
        (lambda: assert_jaxpr(step, X).within("flop=1"), "no figure 'flop'"),
        (lambda: assert_jaxpr(step), "cannot take 0 arguments"),
        (lambda: assert_jaxpr("no.jaxpr"), "no.jaxpr"),
        (lambda: assert_jaxpr("no.jaxpr", X), "arguments are for functions"),
        (lambda: assert_jaxpr(3), "neither a program nor a function"),
    ],
)
def test_wrong_usage(call, message):
    with pytest.raises(jt.UsageError, match=message):
        call()


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_words_of_real_programs(path):
    """What a program consists of occurs in it, as often as `stats` counts, and nothing else does."""
    check_words(str(path), jt.load(path))


@pytest.mark.parametrize("seed", range(20))
def test_words_of_random_programs(seed):
    program = draw_typed(random.Random(seed))
    check_words(program, program)


def check_words(given, program):
    said = assert_jaxpr(given)
    groups = jt.stats(program).figures.groups
    for name, (n, _) in groups.items():
        said.has(name).count(name, n)
    for name in ("sin", "scan", "psum", "custom_linear_solve"):
        if name not in {e.primitive.name for e in all_eqns(program.jaxpr)}:
            said.has_no(name)
    types = Counter(str(v.aval.strong) for v in program.jaxpr.in_binders)
    for name, n in types.items():
        if name.endswith("]") and "<" not in name:
            said.has(name).count(name, at_least=n)


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_equal_programs(path, tmp_path):
    program = jt.load(path)
    jt.save(program, tmp_path / "again.jaxpr")
    assert_jaxpr_equal(str(path), tmp_path / "again.jaxpr")
    assert_jaxpr_equal(program, str(path))


def test_equal_functions():
    assert_jaxpr_equal(step, step, X)
    assert_jaxpr_equal(lambda x: x + jnp.sin(x), jt.trace(lambda x: x + jnp.sin(x), X), X)

    def moved(x):
        return jnp.sin(x) + x

    with pytest.raises(AssertionError, match="programs differ"):
        assert_jaxpr_equal(lambda x: x + jnp.sin(x), moved, X)
    assert_jaxpr_equal(lambda x: x + jnp.sin(x), moved, X, equivalent=True)
    with pytest.raises(AssertionError, match="programs differ"):
        assert_jaxpr_equal(jnp.sin, jnp.cos, X, equivalent=True)


def test_the_package_needs_no_pytest():
    code = (
        "import sys\nsys.modules['pytest'] = None\nimport jaxprtool.testing as t\n"
        "t.assert_jaxpr(sys.argv[1]).has('f32')\n"
        "assert not {'jax', 'numpy', '_pytest'} & {*sys.modules}, 'imported'"
    )
    command = [sys.executable, "-c", code, str(ROOT / "examples" / "square.jaxpr")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_test_shows_its_own_line_of_an_expression_that_cannot_be_read():
    """And not the lines in which the expression was read."""
    with pytest.raises(jt.UsageError) as found:
        assert_jaxpr(step, X).holds("count(mul")
    assert [entry.name for entry in found.traceback][1:] == ["holds"]
    assert found.value.__suppress_context__
