"""Laws of diff over real and random programs: what is planted is what it names, and its options agree with each other."""

from __future__ import annotations

import itertools
import os
import random

import pytest

import jaxprtool as jt
from jaxprtool.core.primitive import vocabulary
from jaxprtool.driver.diff import Difference, diff
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import all_eqns, map_jaxprs, with_eqns
from tests.analyses.exchanged import exchanges
from tests.programs.catalogue import EXAMPLES

ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
FILES = sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
PLANTED = 20 if ALL else 3  # faults in each program
DRAWN = 600 if ALL else 60  # random programs
OPTIONS = ("order", "names", "weak", "consts", "shapes", "params:dtype")


def program_of(path) -> ClosedJaxpr:
    program = jt.load(path)
    assert isinstance(program, ClosedJaxpr)
    return program


def drawn(seed: int) -> list[ClosedJaxpr]:
    """A random program, as it is read from its text; nothing where the text cannot be read."""
    rng = random.Random(seed)
    program = draw_program(rng)
    for _ in range(rng.choice((0, 1, 1, 2))):
        program = wrapped(rng, program)
    try:
        return [jt.parse(jt.format_jaxpr(program, lossless=True), "drawn")]
    except jt.JaxprParseError:
        return []


@pytest.fixture(params=[*FILES, *range(0, DRAWN, 10)], ids=lambda p: getattr(p, "stem", p))
def programs(request) -> list[ClosedJaxpr]:
    """A file's program, or ten random ones."""
    if isinstance(request.param, int):
        return [p for seed in range(request.param, request.param + 10) for p in drawn(seed)]
    return [program_of(request.param)]


def compared(a: ClosedJaxpr, b: ClosedJaxpr, **counted) -> Difference:
    found = diff({"": a}, {"": b}, **counted)
    assert found.equal is not bool(found.lines), found.summary
    assert found.equal is (found.summary == "equal") is found.json()["equal"]
    assert not (found.equal and found.changes)
    return found


def marked(found: Difference) -> list[str]:
    return [x for x in found.lines[2:] if x[0] in "+-"]


def read_again(program: ClosedJaxpr) -> ClosedJaxpr:
    return jt.parse(jt.format_jaxpr(program, lossless=True), "again")


def mirrored(found: Difference) -> list[tuple[str, JaxprEqn | None, JaxprEqn | None]]:
    """The changes as they are seen from the other side."""
    kinds = {"added": "removed", "removed": "added"}
    return [(kinds.get(c.kind, c.kind), c.b, c.a) for c in found.changes]


def agrees_with_its_mirror(a: ClosedJaxpr, b: ClosedJaxpr, **counted) -> Difference:
    there, back = compared(a, b, **counted), compared(b, a, **counted)
    assert there.equal is back.equal
    seen = {(c.kind, c.a, c.b) for c in back.changes}
    assert {*mirrored(there)} == seen
    return there


# ---- what is planted


def test_another_operation_literal_or_param_is_the_only_change(programs) -> None:
    for seed, program in enumerate(programs):
        for other in exchanges(program, PLANTED, seed):
            found = agrees_with_its_mirror(program, read_again(other.program))
            spans = [(c.kind, c.a and c.a.span) for c in found.changes]
            assert spans == [("changed", other.eqn.span)], (other.how, str(found))


def swapped(program: ClosedJaxpr, rng: random.Random) -> tuple[ClosedJaxpr, list[JaxprEqn]] | None:
    """The program with two neighbours in some jaxpr of it exchanged, neither of which reads what the other gives."""
    holders = [program, *(c for e in all_eqns(program.jaxpr) for c in _jaxprs(e))]
    pairs = [
        (closed, i)
        for closed in holders
        for i, (p, q) in enumerate(itertools.pairwise(closed.eqns))
        if _independent(p, q)
    ]
    if not pairs:
        return None
    closed, i = rng.choice(pairs)
    p, q = closed.eqns[i : i + 2]
    eqns = [*closed.eqns[:i], q, p, *closed.eqns[i + 2 :]]
    return _with(program, closed, with_eqns(closed, eqns)), [p, q]


def _jaxprs(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    found: list[ClosedJaxpr] = []
    for value in eqn.params.values():
        map_jaxprs(value, lambda c: found.append(c) or c)
    return found


def _bound(closed: ClosedJaxpr) -> list[Var]:
    return [*closed.jaxpr.all_binders, *(v for e in closed.eqns for v in e.out_binders)]


def _is_float(v: Var) -> bool:
    return type(v) is Var and str(getattr(v.aval, "dtype", "")) in ("f32", "f64")


def _independent(p: JaxprEqn, q: JaxprEqn) -> bool:
    if any(x in p.out_binders for x in q.inputs) or has_effects(p) or has_effects(q):
        return False
    refs = [x for e in (p, q) for x in (*e.inputs, *e.out_binders) if "Ref" in str(x.aval)]
    return not refs


def _with(program: ClosedJaxpr, closed: ClosedJaxpr, new: ClosedJaxpr) -> ClosedJaxpr:
    """The program with another jaxpr in the place of one."""
    if program is closed:
        return new
    eqns = [
        e.replace(
            params={k: map_jaxprs(v, lambda c: _with(c, closed, new)) for k, v in e.params.items()}
        )
        for e in program.eqns
    ]
    return with_eqns(program, eqns)


def test_a_new_equation_and_one_that_is_missing_are_named(programs) -> None:
    for seed, program in enumerate(programs):
        rng = random.Random(seed)
        holders = [program, *(c for e in all_eqns(program.jaxpr) for c in _jaxprs(e))]
        holders = [c for c in holders if any(_is_float(v) for v in _bound(c))]
        for closed in rng.sample(holders, min(len(holders), PLANTED)):
            i = rng.randint(0, len(closed.eqns))
            x = rng.choice(
                [
                    v
                    for v in _bound(
                        closed.replace(jaxpr=closed.jaxpr.replace(eqns=closed.eqns[:i]))
                    )
                    if _is_float(v)
                ]
                or [None]
            )
            if x is None:
                continue
            new = JaxprEqn(vocabulary()["tan"], [x], {"accuracy": None}, [Var(x.aval)])
            other = with_eqns(closed, [*closed.eqns[:i], new, *closed.eqns[i:]])
            found = agrees_with_its_mirror(program, read_again(_with(program, closed, other)))
            told = [(c.kind, c.b and c.b.primitive.name) for c in found.changes]
            assert told == [("added", "tan")], str(found)


def test_two_equations_exchanged_are_one_that_has_moved(programs) -> None:
    for seed, program in enumerate(programs):
        for k in range(PLANTED):
            made = swapped(program, random.Random(seed + 100 * k))
            if made is None:
                continue
            other, eqns = made
            found = agrees_with_its_mirror(program, read_again(other))
            assert agrees_with_its_mirror(program, read_again(other), ignore=["order"]).equal
            p, q = eqns
            if p.primitive is q.primitive and [*map(_operand, p.inputs)] == [
                *map(_operand, q.inputs)
            ]:
                continue  # what reads them is another
            assert [c.kind for c in found.changes] == ["moved"], str(found)
            (change,) = found.changes
            assert change.a is not None and change.a.span in [e.span for e in eqns]


def _operand(x: Var | Lit) -> object:
    return (x.val, x.aval) if isinstance(x, Lit) else x


# ---- options


def test_a_program_differs_from_itself_under_no_option(programs) -> None:
    for program in programs:
        again = read_again(program)
        for n in (0, 1, len(OPTIONS)):
            for words in itertools.combinations(OPTIONS, n):
                for near in ({}, {"rtol": 0.0}, {"atol": 1e-3}):
                    assert compared(program, again, ignore=words, **near).equal, (words, near)


def test_what_is_equal_stays_so_where_more_is_ignored(programs) -> None:
    for seed, program in enumerate(programs):
        rng = random.Random(seed)
        others = [x.program for x in exchanges(program, 2, seed)]
        made = swapped(program, rng)
        others += [made[0]] if made else []
        for other in map(read_again, others):
            less = rng.sample(OPTIONS, rng.randint(0, 2))
            more = [*less, rng.choice(OPTIONS)]
            rtol = rng.choice((None, 0.0, 0.1))
            few = agrees_with_its_mirror(program, other, ignore=less, rtol=rtol)
            many = agrees_with_its_mirror(program, other, ignore=more, rtol=rtol)
            wide = compared(program, other, ignore=more, rtol=1e30, atol=1e30)
            assert few.equal <= many.equal <= wide.equal, (less, more, rtol)


def literals(program: ClosedJaxpr) -> list[tuple[JaxprEqn, int]]:
    return [
        (e, k)
        for e in all_eqns(program.jaxpr)
        for k, x in enumerate(e.inputs)
        if isinstance(x, Lit) and str(x.aval) in ("f32[]", "f64[]") and abs(x.val) not in (0, 1e999)
    ]


def test_a_literal_that_is_a_little_different_is_equal_within_the_tolerance(programs) -> None:
    for seed, program in enumerate(programs):
        found = literals(program)
        for eqn, k in random.Random(seed).sample(found, min(len(found), 2)):
            old = eqn.inputs[k]
            assert isinstance(old, Lit)
            new = Lit(old.val * 1.001, old.aval)
            eqns = [*eqn.inputs[:k], new, *eqn.inputs[k + 1 :]]
            other = read_again(_exchanged(program, eqn, eqn.replace(inputs=eqns)))
            assert [c.kind for c in compared(program, other).changes] == ["changed"]
            assert not agrees_with_its_mirror(program, other, rtol=1e-4).equal
            assert agrees_with_its_mirror(program, other, rtol=1e-2).equal


def _exchanged(program: ClosedJaxpr, old: JaxprEqn, new: JaxprEqn) -> ClosedJaxpr:
    eqns = [
        new
        if e is old
        else e.replace(
            params={
                k: map_jaxprs(v, lambda c: _exchanged(c, old, new)) for k, v in e.params.items()
            }
        )
        for e in program.eqns
    ]
    return with_eqns(program, eqns)
