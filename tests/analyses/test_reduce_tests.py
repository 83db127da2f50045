"""reduce: what its tests say, at times or with the names of variables in a message, and the largest program that is good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import types
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.cli.report import report
from jaxprtool.cli.session import Session
from jaxprtool.driver import reduce as driver
from jaxprtool.driver.reducing import external_interest
from jaxprtool.driver.running.prints import silent
from tests.analyses.test_reduce import chain, script
from tests.invoke import invoke


def test_the_words_of_a_message_keep_no_variables(tmp_path):
    """JAX calls variables of large programs `a`, `no`, `of`, `is` and `or`."""
    adds = [f"{v}:f32[] = add {u} {u}" for u, v in pairwise(["a", "no", "of", "is", "or", "by"])]
    loop = """z:f32[] = while[
      body_jaxpr={ lambda ; x:f32[]. let y:f32[] = mul x 2.0:f32[] in (y,) }
      body_nconsts=0
      cond_jaxpr={ lambda ; x:f32[]. let y:bool[] = lt x 9.0:f32[] in (y,) }
      cond_nconsts=0
    ] by"""
    whole = tmp_path / "whole.jaxpr"
    body = "\n    ".join([*adds, loop])
    whole.write_text(f"{{ lambda ; a:f32[]. let\n    {body}\n  in (z,) }}")
    done = invoke(["reduce", "--crash", "vjp", str(whole), "--json", "-o", str(tmp_path / "small")])
    assert done.status == 0, done
    found = json.loads(done.output)
    assert found["after"]["eqns"] == 1
    assert "of a while loop" in found["failure"]["message"]


def test_the_largest_good_program_is_looked_for(tmp_path):
    program, args = chain(200, 30)
    good = tmp_path / "good.jaxpr"
    jt.reduce(program, *args, nan=True, keep_good=str(good))
    assert 100 < len(jt.load(good).eqns) < len(program.eqns)


def test_a_command_that_fails_at_times_is_noticed(tmp_path):
    count = tmp_path / "count"
    test = script(tmp_path, f"echo >> {count}; test $(($(wc -l < {count}) % 5)) -ne 0")
    small = jt.reduce(lambda x: jnp.sin(x), np.float32(1), test=f"{test} {{}}")
    assert small.flaky and "flaky" in str(small)


def test_numbers_whose_squares_overflow_give_no_warning():
    """They are finite, and stand beside the NaN; looking for it happens outside of the run as well."""
    x = np.array([80] * 31 + [200], np.float32)
    small = jt.reduce(lambda x: jnp.exp(x) * 2 - jnp.exp(x), x, nan=True)
    assert [e.primitive.name for e in small.program.eqns] == ["sub"]

    def endless(x):
        big = jnp.exp(x)
        return jax.lax.while_loop(lambda c: (c * 0).sum() != 1, lambda c: c * 2 - big, big)

    found = jt.blame(endless, x, nan=True, step_limit=20)
    assert found.stopped and found.found


ILL_TYPED = """{ lambda ; a:f32[3] b:f32[]. let
    c:f32[3] = jit[name=f jaxpr={ lambda ; a:f32[3]. let d:f32[3] = sin a in (d,) }] a
    e:f32[3] = cond[
      branches=(
        { lambda ; f:f32[3]. let g:f32[3] = exp f in (g,) }
        { lambda ; f:f32[3]. let g:f32[3] = cos f in (g,) }
      )
    ] 1:i32[] c
    h:f32[] = reduce_sum[axes=(7,)] e
    i:f32[] = cos b
  in (h, b) }
"""


def test_an_ill_typed_program_is_made_small_where_all_that_is_made_is_verified(tmp_path):
    out = tmp_path / "small.jaxpr"
    found = invoke(f"reduce --verify --check-error axis-range - -o {out}", ILL_TYPED)
    assert found.status == 0, found.error
    assert len(jt.load(out).eqns) == 1


def test_folders_that_a_killed_process_has_left_are_removed(tmp_path, monkeypatch):
    """Those of processes that run, of others that ended a moment ago, and files stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    gone, runs = process.pid, os.getpid()
    names = [f"jaxprtool-reduce-{n}-{x}" for n, x in ((gone, "old"), (gone, "new"), (runs, "old"))]
    for name in names:
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "a" / "small.jaxpr").write_text("")
        for path in (tmp_path / name / "a", tmp_path / name) if name.endswith("old") else ():
            os.utime(path, (1e9, 1e9))
    external_interest._remove_stale()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names[1:])


def test_program_and_arguments_of_an_interrupted_run_are_of_one_candidate(monkeypatch):
    """What writes now and then has written a candidate, or has not begun: two files of two candidates do not fit."""
    wrote = []
    begun, go_on = threading.Event(), threading.Event()

    def write_small(candidate, path):
        wrote.append((candidate, "begun"))
        begun.set()
        assert go_on.wait(10)
        wrote.append((candidate, "done"))

    monkeypatch.setattr(driver, "write_small", write_small)
    rescue = driver.Rescue("small.jaxpr", interest=None)
    rescue.search = types.SimpleNamespace(current="smaller")
    writer = threading.Thread(target=rescue.write, args=("small",))
    writer.start()
    assert begun.wait(10)
    rescuer = threading.Thread(target=rescue)
    rescuer.start()
    time.sleep(0.05)
    go_on.set()
    for thread in (writer, rescuer):
        thread.join()
    rescue.write("of a run that has ended")
    assert [x for x, _ in wrote] == ["small", "small", "smaller", "smaller"]


def test_what_was_written_is_not_written_again(monkeypatch):
    wrote = []
    monkeypatch.setattr(driver, "write_small", lambda candidate, path: wrote.append(candidate))
    rescue = driver.Rescue("small.jaxpr", interest=None)
    candidate = object()
    rescue.search = types.SimpleNamespace(current=candidate)
    rescue.write(candidate)
    assert rescue() == "the smallest program so far is in small.jaxpr"
    assert wrote == [candidate]
    assert driver.Rescue("-", interest=None)() == ""


def test_an_interrupt_is_told_while_standard_error_is_put_aside(capsys):
    """A thread that tests a candidate in the process goes on while the command ends."""
    session = Session(stderr=sys.stderr)
    with silent():
        assert report(KeyboardInterrupt(), session, ["reduce"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_command_that_finds_the_program_interesting_the_second_time_alone(tmp_path):
    calls = tmp_path / "calls"
    command = script(tmp_path, f'echo >> "{calls}"; test $(wc -l < "{calls}") -gt 1')
    done = invoke(
        ["reduce", "--test", f"{command} {{}}", "-"], "{ lambda ; . let  in (1.0:f32[],) }"
    )
    assert done.status == 1
    assert "at times only: run it again" in done.error


def test_values_that_are_read_are_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("small.args.npz", a=np.float32(-1))
    before = (tmp_path / "small.args.npz").read_bytes()
    program = "{ lambda ; a:f32[]. let b:f32[] = log a; c:f32[] = sin b in (c,) }"
    for values in ("small.args.npz", "a=./small.args.npz", '{"a": small.args.npz}'):
        for outputs in (["-o", "small"], ["-o", "x", "--keep-good", "small"]):
            done = invoke(["reduce", "--nan", "--args", values, *outputs, "-"], program)
            assert done.status == 2
            assert "cannot write small.args.npz: it is read here" in done.error
    assert (tmp_path / "small.args.npz").read_bytes() == before


def test_codes_are_those_of_plug_ins_too(tmp_path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import jaxprtool as jt\n\n"
        "@jt.primitive\ndef never_typed(x):\n    'x.'\n\n"
        "def rule(x):\n    jt.ill_typed('never_typed has no type', 'never')\n\n"
        "jt.define(never_typed, abstract_eval=rule, impl=lambda xp, x: x)\n"
    )
    program = "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = never_typed b in (b, c) }"

    def reduced(code):  # in a process of its own: a plug-in stays where it is loaded
        words = ["reduce", "--plugin", str(plugin), "-", "--check-error", code]
        command = [sys.executable, "-m", "jaxprtool", *words]
        return subprocess.run(command, input=program, capture_output=True, text=True, check=False)

    done = reduced("never")
    assert done.returncode == 0, done.stderr
    assert "sin" not in done.stdout
    done = reduced("operand-shape")
    assert done.returncode == 2
    assert "did you mean operand-shapes?" in done.stderr


@pytest.mark.parametrize("crash", ["jvp", ["jvp"], ["jvp", "{}"]])
def test_in_python_a_verb_needs_no_word_for_the_file(crash):
    double = jax.custom_vjp(lambda x: x * 2)
    double.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 2,))
    found = jt.reduce(
        lambda x: jnp.sin(double(jnp.cos(x))).sum(), np.ones(3, np.float32), crash=crash
    )
    assert [eqn.primitive.name for eqn in found.program.eqns] == ["custom_vjp_call"]


def test_in_python_a_verb_that_evaluates_is_given_the_arguments():
    def f(x):
        return jax.lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] + 0, c[1] * 2), (x, x))[1] + 1

    found = jt.reduce(f, np.float32(1), crash="run --step-limit 10")
    assert [eqn.primitive.name for eqn in found.program.eqns] == ["while"]


@pytest.mark.parametrize("crash", ["", [], "jvp 'x"])
def test_in_python_a_crash_without_a_verb_is_refused(crash):
    with pytest.raises(jt.UsageError, match="--crash"):
        jt.reduce(lambda x: x + 1, np.float32(1), crash=crash)


def test_the_small_program_calls_the_functions_of_the_process():
    """Its text holds none; in a scan and outside."""

    def host(x):
        return np.log(np.asarray(x))

    def called(x):
        return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    def f(x, n=3):
        return jax.lax.scan(lambda c, _: (called(c) * 2, None), x, None, length=n)[0]

    for g in (called, f):
        found = jt.reduce(g, np.float32([-2, 3, 0.5]), nan=True)
        (result,) = jt.run(found.program, *found.args)
        assert np.isnan(result).all()
        assert jt.blame(found.program, *found.args, nan=True).first.eqn.primitive.name == (
            "pure_callback"
        )
