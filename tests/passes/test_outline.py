"""outline: the same equations in several places become calls of one function, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.ir.walk import all_eqns, count_eqns
from tests.passes.test_laws import STEP_LIMIT, ZOO, programs
from tests.passes.test_roll import same_values, through
from tests.passes.written_out import copied_parts
from tests.programs.catalogue import PROGRAMS


def calls(program: jt.ClosedJaxpr):
    return [e for e in program.eqns if e.primitive.name == "jit"]


def written_size(program: jt.ClosedJaxpr) -> int:
    """The number of equations, those of a jaxpr that is used several times once."""
    return sum(1 for _ in all_eqns(program.jaxpr))


@pytest.mark.parametrize("seed", range(60))
def test_a_part_that_stands_in_several_places_becomes_a_function(seed):
    written = copied_parts(seed)
    program = jt.parse(written.text)
    made = through(program, "outline saved=1")
    part = written.equations // written.turns
    most = len(program.eqns) - part * (written.turns - 1) + 2 * written.turns
    assert calls(made) and written_size(made) <= most, made
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=2), rng.normal(size=2), rng.normal(size=(1, 2))]
    assert same_values(program, made, args), made
    back = through(made, "inline")
    assert len(back.eqns) == len(program.eqns)
    assert same_values(program, back, args), back


@pytest.mark.filterwarnings("ignore::jaxprtool.passes.own_rules.LostRuleWarning")
@pytest.mark.parametrize("name", [*PROGRAMS, *ZOO])
def test_real_programs(name):
    """Written out by `inline`, then outlined: the same values, and no more equations where a jaxpr counts once."""
    for program, args in programs(name):
        flat = through(program, "inline")
        made = through(flat, "outline")
        assert written_size(made) <= written_size(flat)
        back = through(made, "inline")
        try:
            jt.run(program, *args, step_limit=STEP_LIMIT)
        except jt.JaxprToolError:  # it takes too many steps on these numbers
            continue
        assert same_values(flat, made, args)
        assert same_values(flat, back, args)


LAYER = (
    "    m{i}:f32[3] = mul {x} w{at}",
    "    t{i}:f32[3] = tanh m{i}{at}",
    "    s{i}:f32[3] = mul t{i} {i}.5:f32[]{at}",
    "    h{i}:f32[3] = sub s{i} {x}{at}",
)


def layers(n: int, scope: str) -> jt.ClosedJaxpr:
    lines, x = [], "a"
    for i in range(n):
        for line in LAYER:
            text = line.format(i=i, x=x, at="")
            lines.append(f"{text:60} # net.py:{len(lines) + 1}:4 (net)")
            lines.append(f"{'':60} # [{scope.format(i=i)}]")
        x = f"h{i}"
    body = "\n".join(lines)
    return jt.parse(f"{{ lambda ; a:f32[3] w:f32[3]. let\n{body}\n  in ({x},) }}")


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("attn", "attn"),
        ("layer_{i}", "layer"),
        ("net/layer_{i}", "layer"),
        ("transpose(jvp(attn))", "attn"),
        ("", "net"),
    ],
)
def test_functions_are_named_by_scopes(scope, name):
    """By the scope that holds the equations, but for a number; else by the function of Python."""
    made = through(layers(4, scope), "outline")
    assert [e.params["name"] for e in calls(made)] == [name] * 4
    scopes = [("/".join(e.origin.names or ()) if e.origin else "") for e in calls(made)]
    assert scopes == [scope.format(i=i) for i in range(4)]
    (inner,) = {e.params["jaxpr"] for e in calls(made)}
    assert not any(e.origin.names for e in inner.eqns if e.origin)


def test_numbers_that_differ_are_arguments():
    made = through(layers(4, ""), "outline")
    assert [str(e.inputs[-1]) for e in calls(made)] == [f"{i}.5:f32[]" for i in range(4)]


def test_small_parts_and_little_gain_stay():
    program = layers(3, "")
    assert through(program, "outline size=5") is program
    assert through(program, "outline saved=6") is program
    assert len(calls(through(program, "outline saved=5"))) == 3


def test_bodies_of_loops_share_functions():
    """The same equations in two bodies, and outside, are one function."""
    part = "\n".join(
        f"    {v}:f32[] = {op} {x}"
        for v, op, x in [*zip("defgh", ("sin", "cos", "tanh", "exp2", "neg"), "cdefg", strict=True)]
    )
    scan = f"scan[jaxpr={{ lambda ; c:f32[]. let\n{part}\n in (h,) }} length=3 num_carry=1 num_consts=0 reverse=False unroll=1]"
    other = scan.replace("in (h,)", "\n    i:f32[] = mul h c in (i,)")
    program = jt.parse(
        f"{{ lambda ; c:f32[]. let\n{part}\n    p:f32[] = {scan} h\n    q:f32[] = {other} p in (q,) }}"
    )
    made = through(program, "outline")
    (function,) = {e.params["jaxpr"] for e in calls(made)}
    bodies = [e.params["jaxpr"] for e in made.eqns if e.primitive.name == "scan"]
    assert [calls(body)[0].params["jaxpr"] for body in bodies] == [function, function]
    assert same_values(program, made, [np.float32(0.3)])


def test_equal_bodies_become_one():
    body = "{ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }"
    scan = f"scan[jaxpr={body} length=3 num_carry=1 num_consts=0 reverse=False unroll=1]"
    program = jt.parse(
        f"{{ lambda ; a:f32[]. let b:f32[] = {scan} a; c:f32[] = {scan} b in (c,) }}"
    )
    first, second = (e.params["jaxpr"] for e in through(program, "outline").eqns)
    assert first is second


def test_a_hundred_thousand_equations():
    """A part of a hundred equations, a thousand times."""
    ops = ("sin {x}", "mul {x} a", "cos {x}", "add {x} a", "tanh {x}")
    lines, x = [], "a"
    for i in range(100_000):
        # the places are not next to each other: between them stands what is there once
        op = ops[(i % 101) * 7 % 5] if i % 101 != 100 else f"integer_pow[y={i}] {{x}}"
        lines.append(f"    v{i}:f32[2] = {op.format(x=x)}")
        x = f"v{i}"
    body = "\n".join(lines)
    program = jt.parse(f"{{ lambda ; a:f32[2]. let\n{body}\n  in ({x},) }}")
    made = through(program, "outline")
    assert written_size(made) < 3000
    assert count_eqns(through(made, "inline").jaxpr) == 100_000
