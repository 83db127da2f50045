"""How reduce searches: its modes, limits of time, interrupts, and what it keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.reduce import How, reduce
from jaxprtool.driver.reducing import interest as interests
from jaxprtool.driver.words.values import arguments, open_binders
from tests.analyses.test_reduce import (
    Holds,
    chain,
    places_for_a_nan,
    planted,
    script,
)
from tests.invoke import invoke
from tests.programs.catalogue import EXAMPLES

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("mode", ["bisect", "linear", "both"])
def test_every_mode_finds_one_equation_in_a_chain(mode, monkeypatch):
    monkeypatch.setattr(interests.Appears, "shortcuts", lambda self: ())
    program, args = chain(120, 13)
    small = jt.reduce(program, *args, nan=True, mode=mode)
    assert small.after.eqns <= 2, small


def test_time_is_limited(tmp_path):
    program, args = chain(400, 50)
    test = script(tmp_path, 'sleep 0.3; grep -q "log" "$1"')
    small = jt.reduce(program, *args, test=test, seconds=4)
    assert small.ended == "time" and "the time is up" in str(small)
    assert small.after < small.before


@pytest.mark.parametrize("jobs", [1, 2])
def test_time_is_limited_where_a_test_hangs(tmp_path, jobs):
    program, args = chain(400, 50)
    # the whole program is tested twice, at once; a candidate starts something that holds its output open
    test = script(tmp_path, 'test $(wc -l < "$1") -gt 300 || sleep 60 & wait; grep -q "log" "$1"')
    begin = time.monotonic()
    good = str(tmp_path / "good.jaxpr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was found to be good
        small = jt.reduce(program, *args, test=test, seconds=3, jobs=jobs, keep_good=good)
    assert time.monotonic() - begin < 10
    assert small.ended == "time" and not small.flaky
    assert not os.path.exists(good)
    left = subprocess.run(["pgrep", "-f", test], capture_output=True, check=False, text=True)
    assert not left.stdout


ENDING = ("SIGINT", "SIGTERM")


@pytest.mark.parametrize(
    ("name", "more"),
    [("SIGINT", ()), ("SIGTERM", ()), ("SIGKILL", ()), *[(s, ("--scrub",)) for s in ENDING]],
)
def test_an_interrupt_leaves_the_smallest_so_far(name, more, tmp_path):
    """What is written now and then is there after SIGKILL, too, which nobody can catch.

    What is to be scrubbed is so at the end, and is not written before.
    """
    program, args = chain(400, 50)
    jt.save(program, tmp_path / "whole.jaxpr")
    out = tmp_path / "small.jaxpr"
    accepted = tmp_path / "accepted"
    test = script(tmp_path, f'sleep 0.1; grep -q "log" "$1" && echo >> {accepted}')
    words = [
        "reduce",
        "--test",
        test,
        str(tmp_path / "whole.jaxpr"),
        "--args",
        "ones",
        "-o",
        str(out),
        *more,
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "jaxprtool", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    for _ in range(600):  # the whole program is tested twice, and what is accepted then is smaller
        if accepted.exists() and len(accepted.read_bytes()) > 5:
            break
        time.sleep(0.1)
    killed = name == "SIGKILL"
    for _ in range(600 if killed else 0):
        if out.exists():
            break
        time.sleep(0.1)
    for _ in range(1 if killed else 3):  # of an impatient user
        os.killpg(process.pid, getattr(signal, name))
        time.sleep(0.02)
    _, messages = process.communicate(timeout=30)
    assert process.returncode == (130 if name == "SIGINT" else -getattr(signal, name))
    said = messages.decode().splitlines()
    assert said[-1].startswith("interrupted") if name == "SIGINT" else not said, said
    assert b"error" not in messages
    assert killed or not [p for p in tmp_path.iterdir() if p.is_dir()]
    if more:
        assert not list(tmp_path.glob("small*"))
        return
    small = jt.load(out)
    assert "log" in {e.primitive.name for e in small.eqns}
    assert len(small.eqns) < len(program.eqns)
    assert invoke(["check", "-q", str(out)]).status == 0
    time.sleep(0.2)
    left = subprocess.run(["pgrep", "-f", test], capture_output=True, check=False, text=True)
    assert not left.stdout
    del args


def within_calls(program, n):
    """A program of one argument and result, within n calls inside each other."""
    call = jt.trace(jax.jit(lambda x: x), np.float32(1)).eqns[0]
    (aval,) = program.in_avals
    for _ in range(n):
        x, y = jt.Var(aval), jt.Var(aval)
        eqn = call.replace(inputs=[x], out_binders=[y], params={**call.params, "jaxpr": program})
        program = jt.ClosedJaxpr(jt.Jaxpr([x], [eqn], [y]))
    return program


def test_calls_inside_each_other():
    inner = jt.trace(lambda x: jnp.log(x - 10), np.float32(1))
    small = jt.reduce(within_calls(inner, 1000), np.float32(1), nan=True)
    assert [e.primitive.name for e in small.program.eqns] == ["log"]
    small = reduce(within_calls(inner, 100), None, Holds("log", False), How())
    assert [e.primitive.name for e in small.program.eqns] == ["log"]


def test_the_same_each_time():
    program = planted(found := jt.load(EXAMPLES / "attention.jaxpr"), places_for_a_nan(found)[20])
    args = arguments(open_binders(program), ["random:0"])
    first, second = (jt.reduce(program, *args, nan=True) for _ in range(2))
    assert str(first.program) == str(second.program) and first.tests == second.tests
    assert [x.tobytes() for x in first.args] == [x.tobytes() for x in second.args]


def test_keys_and_small_types_are_arguments_too(tmp_path):
    def f(key, x):
        y = jax.random.normal(key, x.shape, jnp.bfloat16)
        return jnp.log(-1.0 - jnp.abs(y * x).astype(jnp.bfloat16))

    out = tmp_path / "small.jaxpr"
    small = jt.reduce(f, jax.random.key(3), np.ones(4, jnp.bfloat16), nan=True, output=out)
    assert [e.primitive.name for e in small.program.eqns] == ["log"]
    assert "bf16[1] [nan]" in invoke(["run", str(out), "--args", f"{out}.args.npz"]).output
    test = script(tmp_path, 'grep -q "random_bits" "$1"')
    jt.reduce(f, jax.random.key(3), np.ones(4, jnp.bfloat16), test=test, output=out)
    assert invoke(["run", str(out), "--args", f"{out}.args.npz"]).status == 0


def test_the_document():
    small = jt.reduce(lambda x: jnp.log(jnp.sin(x) - 2), np.float32(1), nan=True)
    document = small.json()
    assert document["failure"]["code"] == "nan" and document["first"]["primitive"] == "log"
    assert document["after"]["eqns"] == 1 and document["ended"] == "done"
    assert "after:   1 equation" in str(small) and "<pre>" in small._repr_html_()


class _HasResults(interests.Interest):
    """A program with so many results, one equation of a primitive among its equations."""

    def __init__(self, results, primitive):
        self.results, self.primitive = results, primitive

    def failure(self, c):
        return interests.Failure("test", "it has them") if self(c) else None

    def __call__(self, c):
        names = {e.primitive.name for e in c.jaxpr.eqns} | {""}
        return len(c.jaxpr.outs) == self.results and self.primitive in names


@pytest.mark.parametrize("mode", ["linear", "both"])
@pytest.mark.parametrize(("results", "primitive"), [(2, ""), (3, ""), (3, "log"), (2, "exp")])
@pytest.mark.parametrize("valued", [True, False])
def test_as_many_results_as_the_fault_needs_are_kept_without_their_equations(
    mode, results, primitive, valued
):
    lines = ["log a", "sin c", "mul d a", "exp e", "add f d", "cos g"]
    body = "; ".join(f"{v}:f32[3] = {x}" for v, x in zip("cdefgh", lines, strict=True))
    outs = {2: "(f, h)", 3: "(f, h, g)"}[results]
    program = jt.parse(f"{{ lambda ; a:f32[3]. let {body} in {outs} }}")
    args = [np.ones(3, np.float32)] if valued else None
    found = reduce(program, args, _HasResults(results, primitive), How(mode=mode))
    assert found.after.outs == results
    assert found.after.eqns == (1 if primitive else 0), str(found.program)


def test_what_is_kept_beside_a_scrubbed_result_would_not_be_scrubbed(tmp_path):
    program, args = chain(5, 3)
    good = tmp_path / "good.jaxpr"
    with pytest.raises(jt.UsageError, match="--keep-good goes without --scrub"):
        jt.reduce(program, *args, nan=True, scrub=True, keep_good=str(good))
    assert not good.exists()


class FailsSeldom(interests.Interest):
    """A test that says no at the eighth time that it sees the same program."""

    def __init__(self):
        self.last, self.seen = None, 0

    def failure(self, c):
        return interests.Failure("seldom", "it is interesting") if self(c) else None

    def __call__(self, c):
        self.last, self.seen = c, 1 if c is not self.last else self.seen + 1
        return self.seen != 8


def test_a_test_that_fails_seldom_is_noticed(monkeypatch):
    program, args = chain(60, 20)
    assert reduce(program, args, FailsSeldom(), How()).flaky
    # where repeating takes too much of the time, the few that there always are have to do
    monkeypatch.setattr("jaxprtool.driver.reduce._SHARE", 0.0)
    assert not reduce(program, args, FailsSeldom(), How()).flaky
