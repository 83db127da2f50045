"""The known and the unknown part of a program are together the whole program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given

import jaxprtool as jt
from jaxprtool.interpreters.partial_eval import residual_facts
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import all_eqns, count_eqns, sub_jaxprs
from tests.laws.oracle import (
    EXAMPLES,
    assert_close,
    by_structure,
    inputs,
    law,
    ours,
    product,
    sample,
)
from tests.programs.catalogue import EXAMPLES as FILES
from tests.programs.catalogue import GRADIENTS, PROGRAMS, case_of
from tests.random_programs.programs import programs
from tests.random_programs.test_random import arguments, bounded


def splits(n: int, limit: int) -> list[Any]:
    """Which of n arguments are unknown: all splits, or an evenly spread sample."""
    return sample(product((False, True), repeat=n), limit)


def check_split(
    program: ClosedJaxpr,
    args: Sequence[Any],
    whole: Sequence[Any],
    unks_in: Sequence[bool],
    scale: float = 1.0,
    **options: Any,
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """Known part, then unknown part, are the whole; returns the parts and the number of residuals."""
    known, unknown, unks_out, n_res = jt.partial_eval_jaxpr(
        program, unks_in, verify=True, **options
    )
    first = jt.eval_jaxpr(known, [x for x, u in zip(args, unks_in, strict=True) if not u])
    residuals = first[len(first) - n_res :]
    rest = [x for x, u in zip(args, unks_in, strict=True) if u]
    second = jt.eval_jaxpr(unknown, [*residuals, *rest])
    outs, knowns = iter(second), iter(first)
    joined = [next(outs) if u else next(knowns) for u in unks_out]
    for x, y in zip(joined, whole, strict=True):
        assert_close(x, y, scale=scale, what=f"unknown: {unks_in}")
    return known, unknown, n_res


@law(by_structure(EXAMPLES))
def test_known_and_unknown_are_the_whole(example):
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    whole = jt.eval_jaxpr(program, args)
    for unks_in in splits(len(args), 6):
        check_split(program, args, whole, unks_in)


# -- whole programs ----------------------------------------------------------------------------------


def computed_again(unknown: ClosedJaxpr, n_res: int) -> list[JaxprEqn]:
    """Equations of the unknown part, and of what it calls, that no unknown argument goes into."""
    return _without(unknown.jaxpr, [i >= n_res for i in range(len(unknown.in_avals))])


def _without(jaxpr: Jaxpr, unknown: Sequence[bool]) -> list[JaxprEqn]:
    depends = {v for v, u in zip(jaxpr.in_binders, unknown, strict=True) if u}
    found = []
    for eqn in jaxpr.eqns:
        flags = [type(x) is Var and x in depends for x in eqn.inputs]
        if not any(flags):
            found.append(eqn)
            continue
        depends.update(eqn.out_binders)
        inner = list(sub_jaxprs(eqn))
        if eqn.primitive.name == "jit":
            found += _without(inner[0].jaxpr, flags)
    return found


def may_be_made_again(eqn: JaxprEqn) -> bool:
    """Whether the row says that results are made again rather than saved, where all operands are literals."""
    made = residual_facts[eqn.primitive] == "made again"
    return made and all(type(x) is Lit for x in eqn.inputs)


def check_parts(program: ClosedJaxpr, parts: tuple[ClosedJaxpr, ClosedJaxpr, int]) -> None:
    """What a split may cost: nothing is computed twice, and few equations come to those of the whole.

    An equation that runs jaxprs stands in both parts where some of its results are known, and what is cheap to make of
    literals is made where it is read.
    """
    known, unknown, n_res = parts
    outs = known.jaxpr.outs
    residuals = outs[len(outs) - n_res :]
    assert all(type(x) is Var for x in residuals)
    assert len(set(residuals)) == n_res
    again = computed_again(unknown, n_res)
    assert all(map(may_be_made_again, again)), [str(e) for e in again]
    made = sum(map(may_be_made_again, all_eqns(unknown.jaxpr)))
    nested = sum(any(True for _ in sub_jaxprs(e)) for e in all_eqns(program.jaxpr))
    parts_size = count_eqns(known.jaxpr) + count_eqns(unknown.jaxpr)
    assert parts_size <= count_eqns(program.jaxpr) + made + nested


def check_all_splits(program: ClosedJaxpr, args: Sequence[Any], limit: int) -> None:
    """Every split of the arguments, or a sample of so many."""
    whole = jt.eval_jaxpr(program, args)
    for unks_in in splits(len(args), limit):
        check_parts(program, check_split(program, args, whole, unks_in, scale=4, keep=True))


@pytest.mark.parametrize("name", [*PROGRAMS, *GRADIENTS])
def test_every_split_of_a_program(name):
    case = case_of(name)
    check_all_splits(case.program, case.args, 32)


# The other files; multiply_add has a primitive of a plugin's.
OTHERS = {p.stem for p in FILES.glob("*.jaxpr")} - PROGRAMS.keys() - {"multiply_add"}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_every_split_of_a_file(name):
    program = jt.load(FILES / f"{name}.jaxpr")
    assert isinstance(program, ClosedJaxpr)
    check_all_splits(program, arguments(program), 32)


@bounded(40)
@given(programs(max_eqns=12))
def test_every_split_of_a_random_program(program):
    check_all_splits(program, arguments(program), 32)


def test_the_checks_can_fail():
    whole = jt.parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a; d:f32[] = mul c b in (d,) }")
    known = jt.parse("{ lambda ; a:f32[]. let c:f32[] = sin a in (c,) }")
    unknown = jt.parse("{ lambda ; c:f32[] b:f32[]. let d:f32[] = mul c b in (d,) }")
    check_parts(whole, (known, unknown, 1))
    passed_on = jt.parse("{ lambda ; a:f32[]. let  in (a,) }")
    with pytest.raises(AssertionError, match="sin"):
        check_parts(whole, (passed_on, whole, 1))
    in_a_call = """{ lambda ; a:f32[] b:f32[]. let
        d:f32[] = jit[name=f jaxpr={ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a; d:f32[] = mul c b in (d,) }] a b
      in (d,) }"""
    with pytest.raises(AssertionError, match="sin"):
        check_parts(whole, (passed_on, jt.parse(in_a_call), 1))
    twice = jt.parse("{ lambda ; a:f32[]. let c:f32[] = sin a in (c, c) }")
    with pytest.raises(AssertionError):
        check_parts(whole, (twice, unknown, 2))
    longer = jt.parse(
        "{ lambda ; c:f32[] b:f32[]. let e:f32[] = mul c b; d:f32[] = neg e in (d,) }"
    )
    with pytest.raises(AssertionError):
        check_parts(whole, (known, longer, 1))
