"""What `compile` prints: figures with the turns of loops, what is an alias of what, and HLO that leads back."""

from __future__ import annotations

import json
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.backends.xla.hlo_text import HloText
from jaxprtool.driver.compile import compile_located
from jaxprtool.driver.places import with_places
from jaxprtool.driver.running.figures import figures
from jaxprtool.interpreters.located import LocatedContext
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.types import read_type
from tests.invoke import invoke
from tests.programs.catalogue import EXAMPLES

FILES = sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
FILES = [f for f in FILES if f.stem != "multiply_add"]  # of a plug-in
QUICK = [f for f in FILES if f.stem in ("attention", "deep_scan", "kmeans", "convnet", "quantised")]
LOCATION = re.compile(r' loc\("(?:[^"\\]|\\.)*"(?:\("[^"]*":\d+:\d+\))?\)')


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_locations_are_all_that_is_added_to_the_lowered_text(path):
    program = jt.load(path)
    located = lower_jaxpr(program, context=LocatedContext).text
    assert LOCATION.sub("", located) == lower_jaxpr(program).text
    operations = re.findall(r"^ +%.* : .*", located, re.MULTILINE)
    with_location = [line for line in operations if "loc(" in line]
    assert len(with_location) > 0.9 * len([line for line in operations if "({" not in line])


@pytest.mark.parametrize("path", QUICK, ids=lambda p: p.stem)
def test_metadata_lead_back_to_the_text(path):
    """Each name ends in the place of an equation and its primitive, and begins with those around it."""
    program = jt.load(path)
    places = {f"[{e.span}]": e for e in all_eqns(program.jaxpr)}
    names = re.findall(r'op_name="([^"]*/[^"]*)"', compile_located(program).as_text())
    assert len(names) > 5
    for name in names:
        at = re.findall(r"\[[^\]]*:\d+:\d+\]", name)
        assert at and all(place in places for place in at), name
        end = name.rpartition("]/")[2].split("/")
        assert places[at[-1]].primitive.name in end, name


def test_metadata_lead_back_to_python():
    def f(x):
        with jax.named_scope("attn"):
            y = jax.jit(lambda z: jnp.tanh(z @ z))(x)
        return y * 2

    line = f.__code__.co_firstlineno + 2
    text = compile_located(
        with_places(jt.trace(f, np.ones((4, 4), np.float32)), "f.jaxpr")
    ).as_text()
    assert re.search(rf"test_compile_figures\.py[\s\S]*line={line} ", text)
    assert re.search(
        r'op_name="\[f\.jaxpr:\d+:\d+\]/attn/jit/\[f\.jaxpr:\d+:\d+\]/dot_general"', text
    )


def nested(x):
    def inner(i, c):
        return jax.lax.fori_loop(0, 4, lambda j, d: jnp.sin(d @ d), c)

    y = jax.lax.fori_loop(0, 5, inner, x)
    return jax.lax.while_loop(lambda c: c.sum() < 10, lambda c: c * 2, y)


@pytest.fixture(scope="module")
def loops():
    program = jt.trace(nested, np.ones((16, 16), np.float32))
    return jt.compile(program), program


def test_loops_count_their_turns(loops):
    """To a few per cent of what the program says before XLA folds and fuses."""
    compiled, program = loops
    found = figures(compiled, program, trips=7)
    assert found.known and sorted(x.trips or 0 for x in found.loops) == [0, 4, 5]
    assert found.turns["transcendentals"] == 20 * 256 == found.before["transcendentals"]
    assert found.turns["flops"] == pytest.approx(found.before["flops"], rel=0.01)
    assert found.once["transcendentals"] == 256
    zero, one, two = (compiled.cost_with_turns(n)[0]["flops"] for n in (0, 1, 2))
    assert two - one == one - zero > 256


def test_counting_turns_writes_nothing_to_standard_error(capfd):
    """XLA warns of frames of a stack that a part of a module does not have."""
    program = with_places(jt.trace(nested, np.ones((4, 4), np.float32)), "f.jaxpr")
    compiled = compile_located(program)
    assert "stack_frame_id" in compiled.as_text()
    assert figures(compiled, program, trips=7).known
    assert "stack_frame_id" not in capfd.readouterr().err


def test_what_is_unknown_is_said_to_be(loops):
    compiled, program = loops
    found = figures(compiled, program)
    assert not found.known and set(found.json()["total"].values()) == {None}
    assert "unknown" in str(found) and found.before["flops"] is None


def test_a_loop_in_a_branch_counts_where_it_is_the_dearest():
    def f(i, x):
        loop = lambda y: jax.lax.fori_loop(0, 10, lambda j, c: jnp.sin(c), y)
        return jax.lax.switch(i, [jnp.cos, loop], x)

    program = jt.trace(f, np.int32(0), np.ones((64, 64), np.float32))
    found = figures(jt.compile(program), program)
    assert found.turns["transcendentals"] == 10 * 64 * 64


def test_results_that_are_arguments_or_each_other():
    program = jt.parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = add a b in (c, b, c) }")
    found = figures(jt.compile(program), program).json()["aliases"]
    assert [(a["result"], a["argument"], a["other_result"]) for a in found] == [
        (1, 1, None),
        (2, None, 0),
    ]


DONATING = {
    "update": (lambda p, g: p - 0.1 * g, (0,), ["f32[64]", "f32[64]"]),
    "several": (lambda a, b, c: (b * 2, a + c, a.sum()), (0, 1), ["f32[64]"] * 3),
    "exchanged": (lambda a, b: (b, a), (0, 1), ["f32[8]", "f32[8]"]),
    "no result of its type": (lambda a, b: (a + b, b.sum()), (0, 1), ["f32[8]", "f32[8]"]),
    "returned": (lambda a, b: (a, a + b), (0,), ["f32[8]", "f32[8]"]),
    "bf16": (lambda a, b: (a + 1, b + 1), (1,), ["f32[8]", "bf16[8]"]),
    "none": (lambda a, b: a + b, (), ["f32[8]", "f32[8]"]),
}


@pytest.mark.parametrize("name", DONATING)
def test_results_lie_where_donated_arguments_did_as_in_jax(name):
    f, donated, types = DONATING[name]
    g = jax.jit(f, donate_argnums=donated)
    args = [jax.ShapeDtypeStruct(t.shape, np_dtype(t.dtype)) for t in map(read_type, types)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = g.lower(*args).compile()
    program = jt.trace(g, *args)
    ours = compile_located(program, donate=True)
    assert ours.aliases() == HloText(theirs.as_text()).aliases
    assert ours.alias_bytes() == theirs.memory_analysis().alias_size_in_bytes
    kept = jt.compile(program)  # what is called leaves its arguments to who calls it
    assert kept.alias_bytes() == 0 and compile_located(program).alias_bytes() == 0


def test_a_donation_inside_of_a_program_has_no_effect():
    g = jax.jit(lambda a: a + 1, donate_argnums=0)
    program = jt.trace(lambda a: g(a) * 2, np.ones(8, np.float32))
    assert compile_located(program, donate=True).alias_bytes() == 0


def test_compile_shows_what_is_donated(tmp_path):
    path = tmp_path / "step.jaxpr"
    path.write_text(
        "{ lambda ; a:f32[8] b:f32[8]. let c:f32[8] = jit[donated_invars=(False, True) name=step "
        "jaxpr={ lambda ; d:f32[8] e:f32[8]. let f:f32[8] = add d e in (f,) }] a b in (c,) }"
    )
    assert "result 0 lies where argument 1" in invoke(f"compile {path}").error
    artifact = invoke(f"compile {path} -o {tmp_path / 'step.bin'}")
    assert "aliased: 0 bytes" in artifact.error
    assert invoke(["assert", str(path), "--stage", "compiled", "peak <= 64"]).status == 0


def test_aliases_of_memory_are_read_in_the_header():
    head = "HloModule f, input_output_alias={ {0}: (1, {}, may-alias), {2}: (0, {}, must-alias) }, entry_computation_layout={()->()}"
    found = HloText(f"{head}\n\nENTRY %main () -> () {{\n}}\n").aliases
    assert [tuple(a) for a in found] == [(0, 1, "may"), (2, 0, "must")]


def test_the_document(tmp_path):
    done = invoke("compile --json examples/gru.jaxpr")
    found = json.loads(done.output)
    assert done.status == 0 and not done.error
    assert found["schema"] == 1 and found["total"]["flops"] > found["bodies_once"]["flops"]
    assert [x["trips"] for x in found["loops"]] == [6]
    assert "[examples/gru.jaxpr:38:5]" in found["loops"][0]["op_name"]
    assert {"arguments", "results", "temporaries", "peak", "aliased"} == found["memory"].keys()
    both = invoke(f"compile --json examples/gru.jaxpr -o {tmp_path / 'gru.bin'}")
    assert json.loads(both.output)["total"] == found["total"] and (tmp_path / "gru.bin").exists()
