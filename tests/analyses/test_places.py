"""An observer sees every equation with its values and its place, and changes nothing."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.analyses.places import Place, Watch
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.walk import all_eqns
from tests.invoke import invoke
from tests.programs.catalogue import EXAMPLES, PROGRAMS

FILES = sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
PLUGINS = {"multiply_add"}


class Recorder(Watch):
    """Keeps the place of each equation, and checks its values against its types."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Place] = []

    def see(self, eqn, ins, outs):
        self.seen.append(self.place(eqn))
        batched = any(step.eqn.primitive.name == "shard_map" for step in self.levels_steps())
        for v, value in zip((*eqn.inputs, *eqn.out_binders), (*ins, *outs), strict=True):
            if not batched and isinstance(value, (np.ndarray, np.generic)):
                inner = v.aval.inner if isinstance(v.aval, RefType) else v.aval
                assert value.shape == inner.shape, (eqn, value.shape)

    def levels_steps(self):
        return [level.step for level in self.levels if level.step is not None]


def observed(program, args):
    """The results of a program, with and without an observer, and what the observer has seen."""
    recorder = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(program, args), run(program, args, observer=recorder), recorder


def bits(values):
    return [(x.dtype, x.shape, np.asarray(x).tobytes()) for x in map(np.asarray, values)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_observing_changes_no_result(path):
    if path.stem in PLUGINS:
        pytest.skip("needs a plug-in")
    program = jt.load(path)
    args = arguments(open_binders(program), ["random:0"])
    plain, seen, recorder = observed(program, args)
    assert bits(plain) == bits(seen)
    assert not recorder.levels
    top = [p.eqn for p in recorder.seen if not p.path]
    assert top == list(program.eqns)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_traced_programs_have_the_places_of_their_text(name):
    f, args = PROGRAMS[name].make()
    traced = jt.trace(f, *args)
    program = with_places(traced, name)
    assert same_program(traced, program)
    assert with_places(program) is program
    text = jt.format_jaxpr(traced, lossless=True).split("\n")
    for eqn in all_eqns(program.jaxpr):
        line, _ = eqn.span.source.position(eqn.span.start)
        assert eqn.primitive.name in "\n".join(text[line - 1 : line + 1]), (line, eqn)


def branches_of_one_object(x):
    double = jax.jit(lambda v: jnp.log(v) * 2)
    return jax.lax.switch(x.astype(int), [double, double, jnp.sin, double], x)


def path_of(f, x, primitive):
    """The place of each equation of a primitive, as text."""
    program = with_places(jt.trace(f, x), "f")
    recorder = Recorder()
    run(program, [x], observer=recorder)
    return [str(p) for p in recorder.seen if p.eqn.primitive.name == primitive]


def test_the_way_through_loops_and_branches():
    def f(x):
        def body(c, x):
            return jax.lax.cond(x > 2, jnp.log, lambda c: c * 2, c), c

        return jax.lax.scan(body, x[0], x, reverse=True)

    ways = path_of(f, np.arange(6, dtype=np.float32), "log")
    assert ways == [f"scan at 4 > step {i} > cond at 8, branch 1 > log at 11" for i in (5, 4, 3)]


def test_a_while_loop_has_the_steps_of_its_condition_too():
    def f(x):
        return jax.lax.while_loop(lambda c: jnp.sin(c) > -2.0 * (c < 3), lambda c: c + 1.0, x)

    ways = path_of(f, np.float32(0), "sin")
    assert [w.split(" > ")[1] for w in ways] == ["step 0", "step 1", "step 2", "step 3", "step 4"]


@pytest.mark.parametrize("index", [0, 1, 3])
def test_a_branch_is_the_one_that_was_taken(index):
    ways = path_of(branches_of_one_object, np.float32(index), "log")
    assert [w for w in ways if f"branch {index}" in w], ways


def test_devices_run_at_once_and_have_the_places_of_the_text():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    f = jax.shard_map(jnp.log, mesh=mesh, in_specs=spec, out_specs=spec)
    (way,) = path_of(f, np.ones(4, np.float32), "log")
    assert way.startswith("shard_map at 2 > log at")
    (way,) = path_of(jax.pmap(jnp.log), np.ones((1, 4), np.float32), "log")
    assert "shard_map at" in way


def test_rules_are_no_part_of_the_program():
    """An equation whose rule is written with other primitives is one equation."""
    x = np.ones(3, np.float32)
    program = jt.trace(lambda x: jax.random.split(jax.random.key(0))[0], x)
    recorder = Recorder()
    run(program, [x], observer=recorder)
    assert {p.eqn for p in recorder.seen} <= {*all_eqns(program.jaxpr)}


def test_the_document_of_a_place():
    x = np.arange(3, dtype=np.float32)
    program = with_places(jt.trace(lambda x: jax.lax.map(lambda y: jnp.log(y), x), x), "f.py:f")
    recorder = Recorder()
    run(program, [x], observer=recorder)
    (place,) = [p for p in recorder.seen if p.eqn.primitive.name == "log" and p.path[0].step == 2]
    document = place.json()
    assert document["file"] == "f.py:f" and document["primitive"] == "log"
    assert place.located() == f"f.py:f:{document['line']}:{document['column']}"
    (step,) = document["path"]
    assert step == {"line": 2, "primitive": "scan", "param": "jaxpr", "step": 2, "branch": None}
    source = document["source"]
    assert source["file"].endswith("test_places.py") and "lambda" in source["function"]
    assert place.source == f"{source['file']}:{source['line']}:{source['column'] + 1}"


def test_an_observer_may_end_the_evaluation():
    class Stop(Exception):
        pass

    class Stopper(Watch):
        def see(self, eqn, ins, outs):
            raise Stop

    program = jt.trace(lambda x: jnp.sin(x), 1.0)
    with pytest.raises(Stop):
        run(program, [np.float32(1)], observer=Stopper())
    assert run(program, [np.float32(0)])[0] == 0


@pytest.mark.parametrize(
    ("verb", "after"),
    [
        ("cost", []),
        ("stats", []),
        ("residuals", []),
        ("profile", ["--args", "random:0"]),
        ("precision", ["--args", "random:0"]),
        ("assert", ["no exp"]),
    ],
)
def test_tables_of_equations_show_python_and_scopes(verb, after, tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(
        "import jax\nimport jax.numpy as jnp\n\n\ndef loss(x):\n"
        "    with jax.named_scope('head'):\n        return jnp.exp(x).sum()\n"
    )
    monkeypatch.chdir(tmp_path)
    done = invoke(["trace", "model.py:loss", "--shape", "f32[512]", "-o", "loss.jaxpr"])
    assert done.status == 0
    for program in (["loss.jaxpr"], ["model.py:loss", "--shape", "f32[512]"]):
        shown = [x for x in invoke([verb, *program, *after]).output.splitlines() if "exp" in x]
        assert any("model.py:7:" in x and "in head" in x for x in shown), shown


def _own_transpose(x):
    return jax.custom_derivatives.linear_call(lambda _, v: v / 0, lambda _, ct: ct / 0, (), x)


def _own_solver(x):
    divide = lambda v: v / 0
    return jax.lax.custom_linear_solve(
        divide, x, lambda _, b: divide(b), lambda _, b: divide(b), symmetric=True
    )


@pytest.mark.parametrize(
    ("f", "where"),
    [(_own_transpose, ("callee", None)), (_own_solver, ("jaxprs", 2))],
    ids=["linear_call", "custom_linear_solve"],
)
def test_a_jaxpr_that_is_there_several_times_is_where_it_runs(f, where):
    """One jaxpr may be the function and its transpose, or the solver too."""
    program = jt.trace(f, np.float32([1, 2]))
    recorder = Recorder()
    run(program, [np.float32([1, 2])], observer=recorder)
    (divided,) = [p for p in recorder.seen if p.eqn.primitive.name == "div"]
    for place in (divided, jt.blame(program, np.float32([1, 2])).first):
        (step,) = place.path
        assert (step.param, step.branch) == where


def test_compare_goes_into_a_jaxpr_that_is_there_several_times_on_one_side():
    x = np.float32([1, 2])

    def program(back):
        linear = jax.custom_derivatives.linear_call
        return jt.trace(lambda x: linear(lambda _, v: -v, lambda _, ct: back(ct), (), x), x)

    shared, other = program(jnp.negative), program(lambda ct: ct * 2)
    made = jt.rewrite(other, lambda e: jt.lax.abs if e.primitive.name == "neg" else None)
    first = jt.compare(shared, made, x, first=True).first
    assert [p.eqn.primitive.name for p in (first.a, first.b)] == ["neg", "abs"]


def test_a_place_has_a_line_of_python_where_an_enclosing_equation_has_one():
    def f(x, i):
        def step(c, t):
            y = jnp.where(t > 0, jnp.log(t), c)
            return jnp.take_along_axis(y, i, 0), y.sum()

        return jax.lax.scan(step, x[0], x)

    program = jt.trace(f, jnp.ones((3, 4)), jnp.zeros(4, int))
    _, _, recorder = observed(program, [np.ones((3, 4), "f"), np.zeros(4, "i")])
    inner = [p for p in recorder.seen if p.eqn.primitive.name in ("gather", "select_n")]
    lines = {p.frame.line - f.__code__.co_firstlineno for p in inner}
    assert {p.eqn.primitive.name for p in inner} == {"gather", "select_n"} and lines == {2, 3}
    assert all(p.json()["source"] and p.located() for p in recorder.seen)
    assert "(no source)" not in str(jt.stats(program, by="source"))
