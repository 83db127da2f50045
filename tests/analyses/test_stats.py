"""What programs consist of: counts by every key, ranges, dead equations, effects, comparison and growth."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import jaxprtool as jt
from jaxprtool.analyses.counting.stats import KEYS
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.ir.walk import all_eqns, count_eqns, nesting
from tests.analyses.planting import REAL, real_program
from tests.random_programs.programs import programs


@pytest.mark.parametrize("name", REAL)
def test_figures_of_real_programs(name):
    program, _ = real_program(name)
    found = jt.stats(program).figures
    assert found.written + found.aside == count_eqns(program.jaxpr)
    assert found.depth == nesting(program.jaxpr)
    assert found.executed.low <= (found.executed.high or found.executed.low)
    sizes = sorted(
        (v.aval.nbytes for e in all_eqns(program.jaxpr) for v in e.out_binders), reverse=True
    )
    assert [v.nbytes for v in found.largest] <= sizes[: len(found.largest)]
    assert [v.nbytes for v in found.largest] == sorted(
        (v.nbytes for v in found.largest), reverse=True
    )


@pytest.mark.parametrize("by", KEYS)
@settings(max_examples=25, derandomize=True, database=None, deadline=None)
@given(program=programs())
def test_groups_add_up(by, program):
    """Written equations exactly; executed ones where no branch leaves a choice."""
    found = jt.stats(program, by=by, trips=3).figures
    groups = found.groups.values()
    assert sum(n for n, _ in groups) == found.written
    low, high = (sum(x[i] for _, x in groups) for i in (0, 1))
    assert low <= found.executed.low <= found.executed.high <= high
    if low == high:
        assert found.executed == (low, high)


def counts(text, **how):
    found = jt.stats(jt.parse(text), **how).figures
    return {key: (n, str(x)) for key, (n, x) in found.groups.items()}


INNER = "{ lambda ; x:f32[2]. let y:f32[2] = sin x; z:f32[2] = mul y y in (z,) }"


def scan(jaxpr, length, operand="a"):
    return (
        f"scan[_split_transpose=False jaxpr={jaxpr} length={length} linear=(False,) num_carry=1 num_consts=0 "
        f"reverse=False unroll=1] {operand}"
    )


def test_loops_multiply():
    twice = f"{{ lambda ; x:f32[2]. let y:f32[2] = {scan(INNER, 3, 'x')} in (y,) }}"
    text = f"{{ lambda ; a:f32[2]. let b:f32[2] = {scan(twice, 5)} in (b,) }}"
    assert counts(text) == {"sin": (1, "15"), "mul": (1, "15"), "scan": (2, "6")}
    assert counts(text, by="depth") == {3: (2, "30"), 2: (1, "5"), 1: (1, "1")}


def test_a_loop_that_never_turns_executes_nothing():
    text = f"{{ lambda ; a:f32[2]. let b:f32[2] = {scan(INNER, 0)} in (b,) }}"
    assert counts(text) == {"scan": (1, "1"), "mul": (1, "0"), "sin": (1, "0")}


def test_branches_are_ranges():
    other = "{ lambda ; x:f32[2]. let y:f32[2] = sin x; z:f32[2] = sin y in (z,) }"
    text = f"{{ lambda ; i:i32[] a:f32[2]. let b:f32[2] = cond[branches=({INNER} {other})] i a in (b,) }}"
    assert counts(text) == {"sin": (3, "1 to 2"), "cond": (1, "1"), "mul": (1, "0 to 1")}
    assert jt.stats(jt.parse(text)).figures.executed == (3, 3)


def test_a_jaxpr_that_is_used_often_counts_often_and_is_looked_at_once():
    """2^60 executions of one equation, and of its scopes."""
    text = "{ lambda ; x:f32[2]. let y:f32[2] = sin x in (y,) }"
    program = jt.parse(text)
    for _ in range(60):
        jaxpr = program
        program = jt.make_jaxpr(
            lambda x, j=jaxpr: jt.lax.jit_call(
                *jt.lax.jit_call(x, jaxpr=j, name="f"), jaxpr=j, name="f"
            )
        )(jaxpr.in_avals[0])
    for by in KEYS:
        found = jt.stats(program, by=by).figures
        assert found.executed.exact == 2**60 + sum(2**k for k in range(1, 61))
    assert jt.cost(program, top=1).total["transcendentals"] == 2 * 2**60


def test_scopes_are_those_around_calls():
    @jax.jit
    def layer(x):
        with jax.named_scope("inner"):
            return jnp.sin(x)

    def f(x):
        with jax.named_scope("a"):
            x = layer(x)
        with jax.named_scope("b"):
            return layer(layer(x))

    found = jt.stats(f, np.ones(3, np.float32), by="scope").figures
    keys = {k: n for k, (n, _) in found.groups.items()}
    assert keys == {"a": 1, "b": 2, "a/inner": 1, "b/inner": 2}


def test_lines_are_those_of_python():
    def f(x):
        return jnp.sin(x) + jnp.cos(x)

    found = jt.stats(f, np.ones(3, np.float32), by="source").figures
    line = f.__code__.co_firstlineno + 1
    assert [(n, key.endswith(f"test_stats.py:{line}")) for key, (n, _) in found.groups.items()] == [
        (3, True)
    ]


@settings(max_examples=40, derandomize=True, database=None, deadline=None)
@given(programs(nested=False))
def test_dead_equations_are_those_that_dce_takes(program):
    dead = jt.stats(program).figures.dead
    kept, _ = dce_jaxpr(program.jaxpr)
    assert len(dead) == len(program.eqns) - len(kept.eqns)
    assert not {id(p.eqn) for p in dead} & {id(e) for e in kept.eqns}


def test_effects():
    def f(x):
        jax.debug.print("x {}", x, ordered=True)
        cell = jax.new_ref(x)
        cell[...] = x * 2
        return jax.freeze(cell) + jax.jit(lambda y: (jax.debug.callback(print, y), y)[1])(x)

    found = jt.stats(f, np.ones(3, np.float32)).figures.effects
    names = {e.place.eqn.primitive.name: e.ordered for e in found}
    assert names["swap"] is False and True in names.values()
    assert any(e.place.path for e in found)


def test_constants_count_once():
    table = np.arange(100.0, dtype=np.float32)
    less = jax.jit(lambda y: y - table)
    program = jt.trace(lambda x: less(x) * less(x + 1), table)
    found = jt.stats(program).figures
    assert (found.constants, found.constant_bytes) == (1, 400)


def test_what_changed():
    old = jt.parse("{ lambda ; a:f32[2]. let b:f32[2] = sin a; c:f32[2] = sin b in (c,) }")
    new = jt.parse("{ lambda ; a:f32[2]. let b:f32[2] = sin a; c:f32[2] = cos b in (c,) }")
    answer = jt.stats(new, vs=old)
    changes = {c["key"]: c["equations"] for c in answer.json()["vs"]["changes"]}
    assert changes == {"sin": {"before": 2, "after": 1}, "cos": {"before": 0, "after": 1}}
    assert "nothing changed" in str(jt.stats(new, vs=new))


def scores(n):
    """Attention over n positions, which an unrolled loop over the positions follows."""

    def f(x):
        with jax.named_scope("attn"):
            y = jax.nn.softmax(x @ x.T) @ x
        with jax.named_scope("unrolled"):
            for i in range(n):
                y = y.at[i].add(1.0)
        with jax.named_scope("mlp"):
            return jnp.tanh(y)

    return jt.trace(f, np.ones((n, 4), np.float32))


def test_growth_names_what_grows_faster_than_linearly():
    found = jt.growth([scores(n) for n in (8, 16, 32)], sizes=[8, 16, 32])
    steep = {(t.key.split("/")[0], t.figure) for t in found.steep}
    assert ("attn", "bytes") in steep and ("mlp", "bytes") not in steep
    assert ("unrolled", "bytes") in steep and ("unrolled", "equations") not in steep
    by_key = {(t.key, t.figure): t for t in found.trends}
    assert by_key["mlp", "bytes"].exponent == pytest.approx(1)
    assert by_key["mlp", "equations"].exponent == pytest.approx(0)


def test_sizes_are_read_in_the_names_of_files(tmp_path):
    from tests.invoke import invoke

    for n in (8, 16):
        jt.save(scores(n), tmp_path / f"s4_{n}.jaxpr")
    done = invoke(f"stats --json {tmp_path / 's4_16.jaxpr'} {tmp_path / 's4_8.jaxpr'}")
    assert '"size": 8}' in done.output and '"size": 16}' in done.output, done
    assert done.output.index("s4_8.") < done.output.index("s4_16.")
