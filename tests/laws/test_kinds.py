"""A param takes values of its kind alone: what `check` takes of another kind, JAX takes as well, and a refusal has a reason."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.backends.jax.primitives import has_primitive
from jaxprtool.core.kinds.numbers import BOOLEAN
from jaxprtool.ir.params import Opaque
from tests.laws.oracle import EXAMPLES, assert_close, by_primitive, inputs, is_in_jax, law, ours
from tests.releases import IS_ORACLE

# A value of each kind. A function may print as anything, so what only looks like an object is of no other kind.
VALUES = (
    *("None", "True", "1", "3", "-1", "1.5", "1j", "nan", "()", "(0,)", "(True, False)", "((0, 1), (1, 0))"),
    *("foo", "'foo'", "Foo.BAR", "float32", "f32[3]", "Ref{float32[3]}", "(f32[3],)", "[0:2]"),
    *("{'i': 0}", "frozenset({'i'})", "{ lambda ; a:f32[]. let  in (a,) }", "PyTreeDef((*, *, *, *, *))"),
    *("GatherScatterMode.CLIP", "P('i',)", "AbstractMesh('i': 2)", "slice(None, None, None)", "array([1, 2])"),
    f"({', '.join(9 * ['True'])})",  # an item for each operand, and more
    *("CpuDevice(id=0)", "Debug", "(('x', 1),)", "('i',)", "10000000000000000000000000000000000000000"),
)  # fmt: skip
# What this text does not hold is not rebuilt, and a release does not have every param.
REASONS = ("opaque-type", "jax-release", "no-index-map")
IN_PROCESS = ("check",)  # the errors of a check are objects of the process that traced it
PRESENT = [
    examples[0]
    for primitive, examples in by_primitive([e for e in EXAMPLES if is_in_jax(e)]).items()
    if has_primitive(primitive.name)
]


def texts(example):
    """For each param of the equation that a text shows, its name and the program with `@@@` for the value."""
    program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
    eqns = program.jaxpr.eqns
    places = [i for i, e in enumerate(eqns) if e.primitive is example.primitive]
    for name in example.primitive.params if places else ():
        eqn = eqns[places[0]]
        changed = eqn.replace(params={**eqn.params, name: Opaque("@@@")})
        body = [*eqns[: places[0]], changed, *eqns[places[0] + 1 :]]
        other = jt.ClosedJaxpr(program.jaxpr.replace(eqns=body), program.consts)
        text = jt.format_jaxpr(other, lossless=True)
        if "@@@" in text and example.primitive.name not in IN_PROCESS:
            yield name, text


def accepted(text):
    """The program of a text that `check` takes; None where it refuses it, with a reason."""
    try:
        program = jt.parse(text)
        jt.typecheck_jaxpr(program.jaxpr)
    except jt.JaxprToolError as e:
        assert all(reasoned(d) for d in e.diagnostics), text
        return None
    return program


def reasoned(diagnostic):
    return not diagnostic.message.rstrip().endswith(":")


@pytest.mark.skipif(not IS_ORACLE, reason="which params a release has differs")
@law(PRESENT)
def test_what_check_takes_jax_takes(example):
    for name, text in texts(example):
        for value in VALUES:
            program = accepted(text.replace("@@@", value))
            if program is None:
                continue
            try:
                jt.to_jax(program)
            except jt.JaxprToolError as e:
                assert all(reasoned(d) for d in e.diagnostics), (name, value)
                assert {d.code for d in e.diagnostics} <= {*REASONS}, (name, value, str(e))


def flags_of(primitive):
    return {name for name, param in primitive.params.items() if param.kind is BOOLEAN}


def lowered(program):
    """The StableHLO text; None where there is none."""
    try:
        return str(jt.lower(program))
    except jt.JaxprToolError:
        return None


@law([e for e in EXAMPLES if flags_of(e.primitive)])
def test_one_and_zero_are_true_and_false(example):
    """JAX takes `reverse=1`, and prints it: the text stays, and computes the same."""
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    flags = flags_of(example.primitive)

    def with_numbers(eqn):
        if eqn.primitive is not example.primitive:
            return eqn
        numbers = {n: int(v) for n, v in eqn.params.items() if n in flags and type(v) is bool}
        return eqn.replace(params={**eqn.params, **numbers})

    changed = program.replace(jaxpr=program.jaxpr.replace(eqns=[*map(with_numbers, program.eqns)]))
    text = jt.format_jaxpr(changed, lossless=True)
    read = jt.parse(text)
    jt.typecheck_jaxpr(read.jaxpr)
    assert jt.format_jaxpr(read, lossless=True) == text
    for x, y in zip(jt.eval_jaxpr(changed, args), jt.eval_jaxpr(program, args), strict=True):
        assert_close(x, y)
    assert lowered(changed) == lowered(program)
    assert same_program(changed, program)
