"""What JAX prints is read, and printed back with the same bytes."""

from __future__ import annotations

import jax
import pytest

from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar
from jaxprtool.ir.walk import all_eqns, count_eqns, sub_jaxprs
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr
from tests.releases import SERIES
from tests.syntax.programs import CASES, traced

NAMES = sorted(CASES)
# Jaxprs inside named tuples are printed twice; without the names of the text nothing tells that they are one.
TWICE_PRINTED = {"solve", "solved"}
# What the form with all params does not say: the names of functions under rules, and the indices of references.
UNSAID = {"custom_jvp", "custom_vjp", "mutated"}


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes(name):
    text = str(traced(name))
    assert format_jaxpr(parse(text)) == text


@pytest.mark.parametrize("name", [n for n in NAMES if n not in UNSAID])
def test_the_form_with_all_params_says_the_same(name):
    """`custom_pp_eqn_rules=False`: params that the other form leaves out have their defaults."""
    full = parse(traced(name).pretty_print(custom_pp_eqn_rules=False))
    assert same_program(parse(str(traced(name))), full)


def forget_names(program: ClosedJaxpr) -> None:
    """Take away what the text said about names and definitions."""
    amend(program.jaxpr, written=None)
    todo = [program]
    for closed in todo:
        bound = [
            *closed.jaxpr.all_binders,
            *(v for e in closed.jaxpr.eqns for v in e.out_binders),
        ]
        for v in bound:
            amend(v, name="_" if isinstance(v, DropVar) else None)
        todo += [c for e in closed.jaxpr.eqns for c in sub_jaxprs(e)]


# Before 0.10 JAX writes out what is defined further below, which takes 2^n places where n definitions call each other
# twice; ours refer to it. A text that has it written out is printed back so.
WRITTEN_OUT = {"twice"} if SERIES < (0, 10) else set()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in TWICE_PRINTED | WRITTEN_OUT])
def test_names_and_definitions_are_jax_s(name):
    text = str(traced(name))
    program = parse(text)
    forget_names(program)
    assert format_jaxpr(program) == text


def test_an_empty_tuple_that_does_not_fit():
    """JAX prints it as it prints a tuple of no jaxprs, on more lines."""
    jaxpr = jax.make_jaxpr(lambda: jax.random.bits(jax.random.key(0)))()
    program = parse(str(jaxpr))
    for width in range(1, 24):
        text = jaxpr.pretty_print(width=width, use_color=False)
        assert format_jaxpr(program, width=width) == text
        assert format_jaxpr(parse(text)) == str(jaxpr)


@pytest.mark.parametrize("width", [20, 40, 79, 81, 200, 10_000])
@pytest.mark.parametrize("name", ["twice", "gradient", "branches", "wide", "scanned", "dropped"])
def test_other_widths(name, width):
    jaxpr = traced(name)
    program = parse(str(jaxpr))
    assert format_jaxpr(program, width=width) == jaxpr.pretty_print(width=width, use_color=False)


@pytest.mark.parametrize("name", ["twice", "gradient", "mutated"])
def test_colour_codes_are_ignored(name):
    jaxpr = traced(name)
    assert format_jaxpr(parse(jaxpr.pretty_print(use_color=True))) == str(jaxpr)


@pytest.mark.parametrize("name", ["twice", "gradient", "branches", "debug"])
def test_effects_are_kept(name):
    text = traced(name).pretty_print(print_effects=True, use_color=False)
    assert " : {" in text
    assert format_jaxpr(parse(text)) == text


@pytest.mark.parametrize("name", ["twice", "gradient", "branches", "mutated"])
def test_source_annotations_become_comments(name):
    jaxpr = traced(name)
    program = parse(jaxpr.pretty_print(source_info=True, name_stack=True, use_color=False))
    assert count_eqns(program.jaxpr) == count_eqns(parse(str(jaxpr)).jaxpr)
    text = format_jaxpr(program)
    assert "# " in text
    assert format_jaxpr(parse(text)) == text


def test_a_shared_definition_is_one_object():
    program = parse(str(traced("twice")))
    first, second = (e.params["jaxpr"] for e in program.eqns if e.primitive.name == "jit")
    assert first is second


def test_return_shape_form():
    import jax

    text = str(jax.make_jaxpr(lambda x: x * 2.0, return_shape=True)(1.0))
    assert format_jaxpr(parse(text)) == text[1 : text.rindex(", ShapeDtypeStruct")]


def test_a_single_equation():
    eqn = traced("scanned").eqns[0]
    assert format_jaxpr(parse(str(eqn))) == str(eqn)


ILL_TYPED = {
    "a scan without its params": """\
{ lambda ; a:f32[4,3] z:f32[3]. let
    scan
    b:f32[3] = scan[
      _split_transpose=False
      jaxpr={ lambda ; c:f32[3] d:f32[3]. let e:f32[3] = add c d in (e,) }
      length=4
      linear=(False, False)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] z a
  in (b,) }
""",
    "a binder without a type, of a function whose rule does not fit": """\
{ lambda ; a:f64[3]. let
    b = custom_jvp_call[
      name=f
      call_jaxpr={ lambda ; c:f64[3]. let d:f64[3] = sin c in (d,) }
      jvp=jvp
      jvp_jaxpr={ lambda ; e:f64[3]. let f:f64[3] = cos e in (f,) }
      symbolic_zeros=False
    ] a
  in (b,) }
""",
    "a number without a type beside a literal without a value": """{ lambda ; a:f32[]. let b:f32[2] = mul 2.0 a in (b, [...]:f32[3]) }
""",
}


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("name", ILL_TYPED)
def test_an_ill_typed_program_is_printed_to_a_fixed_point(name, lossless):
    """Neither the dialect nor a type may depend on what lacks, or on what the form of JAX drops."""
    printed = format_jaxpr(parse(ILL_TYPED[name]), lossless=lossless)
    assert format_jaxpr(parse(printed), lossless=lossless) == printed


@pytest.mark.parametrize("name", NAMES)
def test_positions(name):
    text = str(traced(name))
    for eqn in all_eqns(parse(text).jaxpr):
        for v in eqn.out_binders:
            if v.span is not None and v.span.source.text == text:
                assert text[v.span.start : v.span.end] == f"{v.name}:{v.aval}"
