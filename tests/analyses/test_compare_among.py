"""compare --first where a pass has left out the equation with the fault: it is named, or among those that may be meant."""

import warnings

import pytest

import jaxprtool as jt
from jaxprtool.driver.compare import compare
from tests.analyses.exchanged import exchanges
from tests.analyses.planting import real_program


def places(found):
    """Where the equations begin in A's text that an answer names, and those that may be meant."""
    named = [found.first.a, *found.first.among[0]]
    return [place.eqn.span.start for place in named if place is not None]


@pytest.mark.parametrize("passes", ["fold", "cse,dce", "simplify,fold,cse,dce"])
@pytest.mark.parametrize("name", ["attention", "data_parallel", "gaussian_process", "kmeans"])
def test_what_a_pass_has_left_out_is_named_or_among_what_may_be_meant(name, passes):
    program, args = real_program(name)
    program = jt.parse(jt.format_jaxpr(program, lossless=True), name)
    looked = 0
    for fault in exchanges(program, 12, seed=1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = jt.opt(fault.program, passes)
        other = jt.parse(jt.format_jaxpr(made, lossless=True), "other")
        found = compare(program, other, args, first=True)
        if found.equal or compare(program, fault.program, args).equal:
            continue
        looked += 1
        assert fault.eqn.span.start in places(found), (fault.how, str(found))
    assert looked


LITERALS = """{ lambda ; a:f32[2]. let
    b:f32[] = sqrt 4.0:f32[]
    c:f32[] = mul b 3.0:f32[]
    d:f32[2] = sin a
    e:f32[2] = div d c
  in (e,) }
"""


def test_equations_that_compute_a_constant_are_named_where_the_other_program_has_it():
    a, x = jt.parse(LITERALS, "a"), [1.0, 2.0]
    folded = LITERALS.replace("    b:f32[] = sqrt 4.0:f32[]\n    c:f32[] = mul b 3.0:f32[]\n", "")
    same = jt.parse(folded.replace("d c", "d 6.0:f32[]"), "b")
    other = jt.parse(folded.replace("d c", "d 7.0:f32[]"), "b")
    assert jt.compare(a, same, x, first=True).equal
    for pair, side in ((a, other), 0), ((other, a), 1):
        found = jt.compare(*pair, x, first=True)
        ours, theirs = (found.first.a, found.first.b)[:: 1 - 2 * side]
        assert ours.eqn.primitive.name == "mul"
        assert theirs.eqn.primitive.name == "div"
        assert [place.eqn.primitive.name for place in found.first.among[side]] == ["sqrt"]
        assert not found.first.among[1 - side]
        key = ("among", "among_b")[side]
        assert [place["primitive"] for place in found.json()[key]] == ["sqrt"]
        assert "or a:2:5: sqrt at 2" in str(found)


def test_a_literal_that_differs_is_a_part_of_the_operation():
    a = jt.parse(LITERALS, "a")
    b = jt.parse(LITERALS.replace("mul b 3.0", "mul b 5.0"), "b")
    found = jt.compare(a, b, [1.0, 2.0], first=True)
    assert found.first.a.eqn.primitive.name == "mul"
    assert lines(found, 0) == lines(found, 1) == [3]


def test_copies_of_what_the_other_program_computes_once_may_be_meant():
    twice = """{ lambda ; a:f32[2]. let
    b:f32[2] = sin a
    c:f32[2] = exp b
    d:f32[2] = sin a
    e:f32[2] = tanh d
  in (c, e) }
"""
    wrong = jt.opt(jt.parse(twice.replace("d:f32[2] = sin", "d:f32[2] = cos"), "b"), "cse")
    found = jt.compare(jt.parse(twice, "a"), wrong, [1.0, 2.0], first=True)
    assert 4 in lines(found, 0)


def lines(found, side):
    """The lines of the equations that an answer names on a side, and of those that may be meant."""
    key = ("", "_b")[side]
    named = [found.json()[f"first{key}"], *found.json()[f"among{key}"]]
    return [place["line"] for place in named if place is not None]
