"""reduce: planted faults come out small, fail in the same way, and are read back from their files."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.analyses.reduction.appearance import appearances
from jaxprtool.analyses.reduction.candidate import first_candidate
from jaxprtool.core.bind import bind
from jaxprtool.driver.places import with_places
from jaxprtool.driver.reduce import How, reduce
from jaxprtool.driver.reducing import interest as interests
from jaxprtool.driver.run import run
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.generation.seeds import seeds
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.walk import all_eqns
from tests.invoke import invoke
from tests.programs.catalogue import EXAMPLES
from tests.random_programs.programs import programs

ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
FILES = sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
# One needs a plug-in, one does not end on NumPy where a NaN is in it.
LEFT_OUT = {"multiply_add", "ode"}
PROGRAMS = [p for p in FILES if p.stem not in LEFT_OUT]
SMALL = 8  # equations


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def places_for_a_nan(program):
    """The equations whose result may get a NaN: floats of operations without jaxprs."""
    return [
        e
        for e in all_eqns(program.jaxpr)
        if len(e.out_binders) == 1
        and not e.primitive.holds_jaxprs
        and not e.primitive.multiple_results
        and getattr(getattr(e.out_binders[0].aval, "dtype", None), "kind", "") == "f"
    ]


def planted(program, target):
    """The program with the logarithm of a negative number behind an equation, at any depth."""

    def rule(eqn):
        if eqn.span is None or eqn.span.start != target.span.start:
            return None
        if eqn.primitive is not target.primitive:
            return None
        return lambda *xs: lax.log(
            lax.sub(lax.neg(lax.abs(bind(eqn.primitive, *xs, **eqn.params))), 1.0)
        )

    return jt.rewrite(program, rule)


def reaching(program, args, kind="nan"):
    """The primitives where values of a kind begin that reach a result, with the starts of their places."""
    found = appearances(first_candidate(program, args), kind)[1]
    return [(o.place.eqn.primitive.name, o.place.eqn.span.start) for o in found]


def shows(small, origin):
    """Assert that a reduction still fails in the way of the program that it was made of."""
    typecheck_jaxpr(small.program)
    assert any(np.isnan(np.asarray(x, np.complex128)).any() for x in run(small.program, small.args))
    assert not any(np.isnan(np.asarray(x).astype(complex)).any() for x in small.args)
    assert small.failure.place.eqn.primitive.name == origin
    assert any(e.primitive.name == origin for e in all_eqns(small.program.jaxpr))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_a_nan_in_any_equation_comes_out_alone(path, tmp_path):
    program = jt.load(path)
    args = arguments(open_binders(program), ["random:0"])
    targets = places_for_a_nan(program)
    chosen = targets if ALL else random.Random(path.stem).sample(targets, min(3, len(targets)))
    reduced = 0
    for target in chosen:
        changed = planted(program, target)
        origins = reaching(changed, args)
        out = tmp_path / "small.jaxpr"
        if not origins:
            with pytest.raises(jt.UsageError, match="nothing to reduce"):
                jt.reduce(changed, *args, nan=True)
            continue
        small = jt.reduce(changed, *args, nan=True, output=out)
        origin = origins[0][0]
        shows(small, origin)
        assert small.after.eqns <= SMALL, small
        assert small.after.eqns == len([*all_eqns(small.program.jaxpr)])
        again = invoke(["run", str(out), "--args", f"{out}.args.npz"])
        assert again.status == 0 and "nan" in again.output, again
        reduced += 1
    assert reduced or path.stem in ("hmc",)  # its results are the samples that were accepted


@pytest.mark.parametrize(
    "name", ["attention", "deep_scan", "newton", "mlp", "data_parallel", "gru"]
)
def test_without_a_shortcut_the_edits_find_it(name, monkeypatch):
    """The general search comes to the same, through loops, calls and branches (in a shard_map values are of all devices)."""
    monkeypatch.setattr(interests.Appears, "shortcuts", lambda self: ())
    program = jt.load(EXAMPLES / f"{name}.jaxpr")
    args = arguments(open_binders(program), ["random:0"])
    target = random.Random(0).choice(places_for_a_nan(program))
    changed = planted(program, target)
    small = jt.reduce(changed, *args, nan=True)
    shows(small, reaching(changed, args)[0][0])
    assert small.after.eqns <= (1 if name != "data_parallel" else 12), small


@given(programs(max_eqns=20), st.integers(0, 1 << 30), st.integers(0, 2))
@settings(
    max_examples=200 if ALL else 25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_random_programs_come_out_small(program, seed, shortcut):
    program = with_places(program)
    args = arguments(open_binders(program), [f"random:{seed}"])
    targets = places_for_a_nan(program)
    if not targets:
        return
    changed = planted(program, random.Random(seed).choice(targets))
    origins = reaching(changed, args)
    with pytest.MonkeyPatch.context() as patch:
        if not shortcut:
            patch.setattr(interests.Appears, "shortcuts", lambda self: ())
        if not origins:
            with pytest.raises(jt.UsageError, match="nothing to reduce"):
                jt.reduce(changed, *args, nan=True)
            return
        small = jt.reduce(changed, *args, nan=True)
    shows(small, origins[0][0])
    assert small.after.eqns == 1, small


def chain(n, at):
    """A program of n equations, one of which gives a NaN."""

    def f(x, w):
        y = x
        for i in range(n // 4):
            y = lax.tanh(lax.add(lax.mul(y, w), lax.sin(x)))
            if i == at:
                y = lax.log(lax.sub(lax.neg(lax.abs(y)), 1.0))
        return y

    x = np.linspace(0, 1, 64).astype(np.float32).reshape(8, 8)
    return jt.trace(f, x, x), [x, x]


@pytest.mark.parametrize("shortcut", [True, False])
def test_five_thousand_equations_within_a_minute(shortcut, monkeypatch):
    """One equation of them is left; it takes some seconds, and the budget is for a slower machine."""
    if not shortcut:
        monkeypatch.setattr(interests.Appears, "shortcuts", lambda self: ())
    program, args = chain(5000, 900)
    begin = time.process_time()
    small = jt.reduce(program, *args, nan=True)
    assert time.process_time() - begin < 60
    assert small.before.eqns >= 5000 and small.after.eqns <= SMALL
    assert small.after.elements == 2  # a number, and its logarithm


def test_the_nan_that_counts_is_one_that_reaches_a_result():
    """A masked NaN, an argument's and a literal's are not what is looked for."""

    def f(x):
        safe = jnp.where(x > 0, jnp.log(x), 0.0)
        return jnp.sqrt(safe - 10.0)

    x = np.array([-1.0, 2.0], np.float32)
    small = jt.reduce(f, x, nan=True)
    assert [e.primitive.name for e in small.program.eqns] == ["sqrt"]
    with pytest.raises(jt.UsageError, match="a value of the program has a NaN, but no result"):
        jt.reduce(lambda x: jnp.where(x > 0, jnp.log(x), 0.0), x, nan=True)
    with pytest.raises(jt.UsageError, match="argument x has one already"):
        jt.reduce(lambda x: jnp.sin(x), np.float32(np.nan), nan=True)
    tree = {"w": [np.float32(1), np.float32(np.nan)]}
    with pytest.raises(jt.UsageError, match=r'argument params\["w"\]\[1\] has one already'):
        jt.reduce(lambda params: params["w"][0] + params["w"][1], tree, nan=True)
    bare = jt.parse("{ lambda k:f32[] ; a:f32[] b:f32[]. let c:f32[] = add b k in (c,) }")
    held = jt.ClosedJaxpr(bare.jaxpr, [np.float32(np.nan)])
    with pytest.raises(jt.UsageError, match=r"constant 0 \(k\) has one already"):
        jt.reduce(held, np.float32(1), np.float32(1), nan=True)
    with pytest.raises(jt.UsageError, match=r"argument 1 \(b\) has one already"):
        jt.reduce(bare, np.float32(1), np.float32(1), np.float32(np.nan), nan=True)
    with pytest.raises(jt.UsageError, match="no result has a NaN"):
        jt.reduce(lambda x: jnp.sin(x), np.float32(1), nan=True)


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("a:f32[]. let b:bool[] = gt a 0.0:f32[]; c:f32[] = select_n b nan:f32[] a in (c,)", [0], r"literal 1 \(nan:f32\[\]\) of .*select_n at 1 has one already"),
        ("a:f32[] b:f32[]. let c:f32[] = log a; d:bool[] = gt c 0.0:f32[]; e:f32[] = select_n d nan:f32[] b in (e,)", [-1, 0], "literal 1 .* has one already"),
        ("a:f32[] b:f32[]. let c:bool[] = gt b 0.0:f32[]; d:f32[] = select_n c b a in (d,)", [np.nan, -1], "a value of the program has a NaN, but no result"),
        ("a:f32[] b:f32[]. let c:f32[] = sub a b in (c,)", [1, np.nan], r"argument 1 \(b\) has one already"),
    ],
)  # fmt: skip
def test_the_reason_names_what_has_a_nan_that_reaches_a_result(text, args, message):
    program = jt.parse("{ lambda ; " + text + " }")
    with pytest.raises(jt.UsageError, match=message):
        jt.reduce(program, *map(np.float32, args), nan=True)


def test_an_infinity():
    def f(x):
        return jax.lax.scan(lambda c, y: (jnp.exp(c * y), c), x[0], x)

    x = np.array([1, 3, 4, 5], np.float32)
    small = jt.reduce(f, x, inf=True)
    assert [e.primitive.name for e in small.program.eqns] == ["exp"]
    assert np.isinf(run(small.program, small.args)[0]).all()


def test_a_reference_stays_with_what_uses_it():
    def f(x):
        ref = jax.new_ref(x)
        ref[...] = jnp.sin(ref[...])
        y = jnp.log(ref[...] - 2.0)
        return y * ref[...]

    small = jt.reduce(f, np.ones(3, np.float32), nan=True)
    assert [e.primitive.name for e in small.program.eqns] == ["log"]


class Holds(interests.Interest):
    """An equation of a primitive is in the program, at any depth."""

    def __init__(self, name, needs_values):
        self.name, self.needs_values = name, needs_values

    def failure(self, c):
        return interests.Failure("holds", self.name) if self(c) else None

    def __call__(self, c):
        return any(e.primitive.name == self.name for e in all_eqns(c.jaxpr))


SLOW = {"flow", "hmc", "beam_search", "kalman", "lbfgs", "gaussian_process"}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
@pytest.mark.parametrize("valued", [True, False], ids=["values", "types"])
def test_any_equation_is_found_at_any_depth(path, valued):
    """Whatever operation is looked for, it comes out with what it cannot be without: a mesh, a loop over devices."""
    if path.stem in SLOW and not ALL:
        pytest.skip("takes seconds")
    program = jt.load(path)
    args = arguments(open_binders(program), ["random:0"]) if valued else None
    for name in sorted({e.primitive.name for e in all_eqns(program.jaxpr)}):
        small = reduce(program, args, Holds(name, valued), How(seconds=60))
        typecheck_jaxpr(small.program)
        assert small.ended == "done" and not small.flaky
        assert small.after.eqns <= 3, (name, small.program)
        if valued:
            run(small.program, small.args)


def can_run(program, args):
    """Whether a program runs from its text: one that calls a function of Python, say, does not."""
    try:
        run(program, args)
    except jt.UsageError:
        return False
    return True


@pytest.mark.parametrize("part", range(4) if ALL else [1])
def test_programs_of_every_primitive(part):
    """What comes out is well-typed and runs, whatever shapes and params were changed on the way."""
    for name, examples in [*seeds().items()][part::4]:
        for program in examples:
            if not all(
                isinstance(x.aval, jt.ShapedArray)
                for x in (*program.jaxpr.in_binders, *program.jaxpr.outs)
            ):
                continue
            args = arguments(open_binders(program), ["random:0"])
            if not any(e.primitive.name == name for e in program.eqns):
                continue
            # of a kernel the text has no index maps, which other shapes need
            if name == "pallas_call" or not can_run(program, args):
                continue
            small = reduce(program, args, Holds(name, True), How(seconds=60))
            assert small.ended == "done" and small.after <= small.before
            run(small.program, small.args)


# -- other tests -----------------------------------------------------------------------------------


def script(tmp_path: Path, text: str) -> str:
    """An executable file."""
    path = tmp_path / "test.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_command_decides_and_its_status_0_means_interesting(tmp_path):
    test = script(tmp_path, 'test -f "$2" && grep -q "tanh" "$1"')
    program = str(EXAMPLES / "gru.jaxpr")
    outs = [tmp_path / f"small{i}.jaxpr" for i in range(2)]
    good = tmp_path / "good.jaxpr"
    for jobs, out in zip((1, 3), outs, strict=True):
        words = ["reduce", "--test", f"{test} {{}} {{args}}", "-j", str(jobs), program]
        words += ["--args", "random:0", "-o", str(out), "--keep-good", str(good), "--no-source"]
        done = invoke(words)
        assert done.status == 0, done
    assert outs[0].read_text() == outs[1].read_text()  # whatever the number of jobs
    (eqn,) = jt.load(outs[0]).eqns
    assert eqn.primitive.name == "tanh" and eqn.out_binders[0].aval.size == 1
    assert "tanh" not in good.read_text() and jt.check(jt.load(good))


def test_a_flaky_command_is_noticed(tmp_path):
    flag = tmp_path / "flag"
    test = script(tmp_path, f"if test -e {flag}; then rm {flag}; exit 1; fi; touch {flag}; exit 0")
    small = jt.reduce(lambda x: jnp.sin(x), np.float32(1), test=f"{test} {{}}")
    assert small.flaky and "flaky" in str(small)


def test_a_program_in_which_a_loop_has_to_stay(tmp_path):
    """The body of a loop is made small where the loop is what fails."""
    test = script(tmp_path, 'grep -q "scan\\[" "$1" && grep -q "cos" "$1"')

    def f(x):
        def body(c, y):
            c = jnp.sin(c) + y
            c = jnp.tanh(c) * jnp.cos(c)
            return c, c * 2

        return jax.lax.scan(body, jnp.zeros(4), x)

    small = jt.reduce(f, np.ones((64, 4), np.float32), test=test)
    (scan,) = small.program.eqns
    assert scan.primitive.name == "scan" and scan.params["length"] <= 2
    assert [e.primitive.name for e in scan.params["jaxpr"].eqns] == ["cos"]


def test_results_of_two_backends_that_differ():
    def f(x):
        y = jnp.sin(x) + 1
        return (y.astype(jnp.float32).sum(), jnp.tanh(y) @ jnp.cos(y))

    x = np.linspace(0, 3, 400).astype(np.float32).reshape(20, 20)
    small = jt.reduce(f, x, differs="numpy,xla", rtol=0.0)
    assert len(small.program.eqns) == 1
    a = run(small.program, small.args)
    b = run(small.program, small.args, jit=True)
    assert not np.array_equal(a[0], np.asarray(b[0]))
    with pytest.raises(jt.UsageError, match="nothing to reduce"):
        jt.reduce(f, x, differs="numpy,xla", rtol=1e-2)


def test_results_that_differ_by_more_than_so_many_steps():
    x = np.float32(1e-3)

    def f(x):
        return (jnp.cos(x) - 1) * 1e3 + x  # cancels

    small = jt.reduce(f, x, differs="numpy,f64", ulp=8)
    assert "sub" in [e.primitive.name for e in small.program.eqns]
    with pytest.raises(jt.UsageError, match="nothing to reduce"):
        jt.reduce(f, x, differs="numpy,f64", ulp=1e9)
    with pytest.raises(jt.UsageError, match="tolerance of its own"):
        jt.reduce(f, x, differs="numpy,f64", ulp=8, rtol=0.0)


def test_what_other_roundings_change_as_well_does_not_differ():
    x = np.linspace(0, 9, 999, dtype=np.float32)
    with pytest.raises(jt.UsageError, match="nothing to reduce"):
        jt.reduce(lambda x: (jnp.cos(x) ** 2 + jnp.sin(x) ** 2 - 1).sum(), x, differs="numpy,xla")


TWO_ERRORS = """{ lambda ; a:f32[64] b:f32[4]. let
    c:f32[64] = sin a
    d:f32[4] = cos b
    e:f32[64] = jit[name=f jaxpr={ lambda ; x:f32[64] y:f32[4]. let
        z:f32[64] = add x y
        t:f32[64] = sin z
      in (t,) }] c d
    g:f32[64] = mul e e
    h:f32[4] = exp g
  in (g, d, h) }
"""


def test_an_error_of_check():
    small = jt.reduce(jt.parse(TWO_ERRORS), check_error="operand-shapes")
    (eqn,) = all_eqns(small.program.jaxpr)
    assert eqn.primitive.name == "add" and small.after.elements <= 8
    small = jt.reduce(jt.parse(TWO_ERRORS), check_error="binder-type")
    assert [e.primitive.name for e in small.program.eqns] == ["exp"]
    with pytest.raises(jt.UsageError, match="2 errors, none of the code"):
        jt.reduce(jt.parse(TWO_ERRORS), check_error="bad-param")


def test_a_verb_that_fails(tmp_path):
    out = tmp_path / "small.jaxpr"
    words = ["reduce", "--crash", "grad --wrt 0", "-j", "2", "-o", str(out)]
    done = invoke([*words, str(EXAMPLES / "newton.jaxpr")])
    assert done.status == 0, done
    (eqn,) = jt.load(out).eqns
    assert eqn.primitive.name == "while"
    assert "no transpose rule for while" in invoke(["grad", "--wrt", "0", str(out)]).error


PLUGIN = """
from jaxprtool.core.primitive import primitive
from jaxprtool.core.rule_table import unsupported
from jaxprtool.rules.define import define

@primitive
def planted_twice(x):
    \"\"\"Twice x, without a derivative.\"\"\"

define(planted_twice, abstract_eval=lambda x: x, impl=lambda xp, x: x * 2, jvp=unsupported("planted"))
"""


def test_a_verb_that_fails_has_the_plugins(tmp_path):
    """The verb that runs in another process knows the primitives that are declared here."""
    plugin, file, out = tmp_path / "mine.py", tmp_path / "f.jaxpr", tmp_path / "small.jaxpr"
    plugin.write_text(PLUGIN)
    file.write_text(
        "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = planted_twice b;"
        " d:f32[] = mul c b in (d,) }"
    )
    words = ["reduce", "--plugin", str(plugin), "--crash", "grad --wrt 0", "-o", str(out)]
    python = [sys.executable, "-m", "jaxprtool"]  # the primitive is not declared in this process
    done = subprocess.run([*python, *words, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "planted_twice" in out.read_text() and "sin" not in out.read_text()


def test_backends_that_differ_in_double_precision():
    """An equation that loses what double precision keeps."""
    f = lambda x: (jnp.sin(x) + 1e8) - 1e8 + jnp.cos(x)
    small = jt.reduce(f, np.float32(0.7), differs="numpy,f64")
    names = {e.primitive.name for e in small.program.eqns}
    assert "sub" in names and "cos" not in names


def test_the_body_of_a_shard_map_is_opened():
    """What is inside comes out with the values of all devices, also where no value says which equation it is."""
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec

    def body(x):
        y = (jnp.sin(x) + 1e8) - 1e8
        return jax.lax.psum(y + jnp.cos(x), "i")

    f = jax.shard_map(body, mesh=mesh, in_specs=spec("i"), out_specs=spec())
    small = jt.reduce(f, np.linspace(0.1, 1, 4).astype(np.float32), differs="numpy,f64")
    assert [e.primitive.name for e in small.program.eqns] == ["add", "sub"]


def test_what_is_slow():
    def f(x):
        y = jnp.cos(x)
        z = jax.lax.fori_loop(0, 30_000, lambda i, c: c * 0.5 + 1.0, y)
        return z + jnp.sin(x)

    x = np.float32(1)
    program = jt.trace(f, x)
    begin = time.perf_counter()
    jt.run(program, x)
    slow = (
        time.perf_counter() - begin
    ) / 4  # however busy the machine is, the loop takes nearly all of it
    small = jt.reduce(f, x, slow=slow, seconds=20)
    assert small.after.eqns < small.before.eqns
    assert any(e.primitive.holds_jaxprs for e in small.program.eqns)


def test_what_is_slow_among_much_that_is_not():
    """What takes the time is tried first; preparing a long program for a run takes as long as the loop, and is none of it."""

    def f(x):
        y = x
        for i in range(800):
            y = jnp.sin(y) * i
        y = jax.lax.fori_loop(0, 8_000, lambda i, c: c * 0.5 + 1.0, y)
        for _ in range(300):
            y = jnp.cos(y)
        return y

    x = np.float32(1)
    program = jt.trace(f, x)
    jt.run(program, x)
    begin = time.perf_counter()
    jt.run(program, x)
    small = jt.reduce(program, x, slow=(time.perf_counter() - begin) / 4, seconds=30)
    assert small.ended == "done" and small.after.eqns < 8
    assert small.program.eqns[-1].primitive.name == "scan"


def test_an_effect_needs_no_result(tmp_path, capfd):
    """What a program prints is not printed again for each candidate."""

    def f(x):
        y = jnp.sin(x)
        jax.debug.print("hello {y}", y=y)
        return jnp.log(y - 2)

    test = script(tmp_path, 'grep -q debug_print "$1"')
    small = jt.reduce(f, np.float32(1), test=test)
    assert [e.primitive.name for e in small.program.eqns] == ["debug_print"]
    assert not small.program.jaxpr.outs
    jt.reduce(f, np.float32(1), nan=True)
    assert capfd.readouterr() == ("", "")
