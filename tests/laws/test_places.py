"""The law of places: whichever interpreter fails at an equation, however deep it is nested, the error says where it stands.

Each column of the table has a primitive here whose rule in that column fails.
"""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.primitive import primitive
from jaxprtool.interpreters.batch import elementwise_batch
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.interpreters.transpose import is_linear
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.origin import Frame, Origin
from jaxprtool.ir.walk import all_eqns, map_programs, with_eqns
from jaxprtool.makers.decomposed import decomposed

COLUMNS = ("impl", "jvp", "transpose", "batch", "partial_eval", "lower")


def fails(*_args, **_params):
    fail(UsageError, "this rule fails", "fails")


def declared(name, **columns):
    """An operation that is the identity of one number, but for the columns that are given."""

    def stub(x):
        """x."""

    op = primitive(name=name)(stub)
    rules = {
        "abstract_eval": lambda x: x,
        "impl": lambda xp, x: x,
        "jvp": linear,
        "transpose": lambda ct, x: [op(ct) if is_linear(x) else None],
        "batch": elementwise_batch,
        "lower": lambda ctx, x: x,
    }
    jt.define(op, **(rules | columns))
    return op


for _column in COLUMNS:
    declared(f"without_{_column}", **{_column: fails})


def line_of(eqn_or_diagnostic):
    """The line of a text that an equation, or what is said of it, stands in."""
    span = eqn_or_diagnostic.span
    assert span is not None
    return span.source.position(span.start)[0]


NESTED = {
    "nowhere": "b:f32[] = OP a",
    "jit": "b:f32[] = jit[\n name=f\n jaxpr={ lambda ; c:f32[]. let\n d:f32[] = OP c\n in (d,) }\n] a",
    "scan": "b:f32[] = scan[\n jaxpr={ lambda ; c:f32[]. let\n e:f32[] = sin c\n d:f32[] = OP e\n in (d,) }\n"
    " length=2\n num_carry=1\n num_consts=0\n reverse=False\n unroll=1\n] a",
    "cond": "i:i32[] = convert_element_type[new_dtype=int32 weak_type=False] a\nb:f32[] = cond[\n branches=(\n"
    " { lambda ; c:f32[]. let\n d:f32[] = OP c\n in (d,) }\n { lambda ; c:f32[]. let\n d:f32[] = OP c\n in (d,) }\n )\n] i a",
    "while": "b:f32[] = while[\n body_jaxpr={ lambda ; c:f32[]. let\n d:f32[] = OP c\n in (d,) }\n body_nconsts=0\n"
    " cond_jaxpr={ lambda ; c:f32[]. let d:bool[] = lt c 3.0:f32[] in (d,) }\n cond_nconsts=0\n] a",
    "remat": "b:f32[] = remat2[\n differentiated=False\n jaxpr={ lambda ; c:f32[]. let\n d:f32[] = OP c\n in (d,) }\n"
    " policy=None\n prevent_cse=True\n] a",
    "jit in scan": "b:f32[] = scan[\n jaxpr={ lambda ; c:f32[]. let\n e:f32[] = jit[\n name=f\n"
    " jaxpr={ lambda ; c:f32[]. let\n d:f32[] = OP c\n in (d,) }\n] c\n in (e,) }\n"
    " length=2\n num_carry=1\n num_consts=0\n reverse=False\n unroll=1\n] a",
}

ONE = np.float32(1.0)
TWO = np.ones(2, np.float32)


def of_function(transform):
    """A verb on a program, from a transformation of Python functions."""

    def verb(program):
        run = jt.jaxpr_as_fun(program)
        return transform(lambda x: run(x)[0])

    return verb


# Each verb, by the column whose rules it applies.
VERBS = {
    "eval": ("impl", lambda p: jt.eval_jaxpr(p, [ONE])),
    "jvp_jaxpr": ("jvp", jt.jvp_jaxpr),
    "linearize_jaxpr": ("jvp", linearize_jaxpr),
    "vmap_jaxpr": ("batch", lambda p: jt.vmap_jaxpr(p, 2, [0])),
    "partial_eval_jaxpr": ("partial_eval", lambda p: jt.partial_eval_jaxpr(p, [True])),
    "transpose_jaxpr": ("transpose", lambda p: jt.transpose_jaxpr(p, [True])),
    "vjp_jaxpr": ("transpose", vjp_jaxpr),
    "grad_jaxpr": ("transpose", grad_jaxpr),
    "lower": ("lower", jt.lower),
    "jvp": ("jvp", of_function(lambda f: jt.jvp(f, (ONE,), (ONE,)))),
    "linearize": ("jvp", of_function(lambda f: jt.linearize(f, ONE))),
    "vmap": ("batch", of_function(lambda f: jt.vmap(f)(TWO))),
    "grad": ("transpose", of_function(lambda f: jt.grad(f)(ONE))),
    "jacfwd": ("jvp", of_function(lambda f: jt.jacfwd(f)(ONE))),
    "hessian": ("jvp", of_function(lambda f: jt.hessian(f)(ONE))),
    "make_jaxpr of jvp": (
        "jvp",
        of_function(lambda f: jt.make_jaxpr(lambda x: jt.jvp(f, (x,), (x,)))(ONE)),
    ),
}
NOT_REACHED = {
    ("while", "transpose"),  # a while loop has no transpose rule
    ("while", "partial_eval"),  # all of the body is unknown
    ("scan", "transpose_jaxpr"),  # sin is not linear
    ("jit in scan", "transpose_jaxpr"),
    ("cond", "transpose_jaxpr"),  # the index depends on the argument
    ("cond", "partial_eval"),
}
CASES = [
    (verb, nested)
    for verb, (column, _) in VERBS.items()
    for nested in NESTED
    if not NOT_REACHED & {(nested, column), (nested, verb)}
]


def failing(verb, nested):
    """A program with an equation at which a verb fails."""
    column = VERBS[verb][0]
    text = NESTED[nested].replace("OP", f"without_{column}")
    return jt.parse(f"{{ lambda ; a:f32[]. let\n{text}\nin (b,) }}")


def error_of(verb, program):
    with pytest.raises(jt.JaxprToolError, match="this rule fails") as error:
        VERBS[verb][1](program)
    (d,) = error.value.diagnostics
    return d


def traced(program):
    """The program as if it came from Python: each equation has a line of a file, and no place in a text."""

    def from_python(closed: ClosedJaxpr) -> ClosedJaxpr:
        lines = [*map(line_of, closed.eqns)]
        origins = [Origin(Frame("model.py", n, 4, "f"), ()) for n in lines]
        pairs = zip(closed.eqns, origins, strict=True)
        return with_eqns(closed, [e.replace(span=None, origin=o) for e, o in pairs])

    return map_programs(program, from_python)


@pytest.mark.parametrize(("verb", "nested"), CASES)
def test_in_a_text(verb, nested):
    d = error_of(verb, failing(verb, nested))
    assert f"without_{VERBS[verb][0]} " in d.span.source.line(line_of(d))


@pytest.mark.parametrize(("verb", "nested"), CASES)
def test_in_python(verb, nested):
    program = failing(verb, nested)
    eqns = [e for e in all_eqns(program.jaxpr) if e.primitive.name.startswith("without_")]
    lines = [*map(line_of, eqns)]
    d = error_of(verb, traced(program))
    assert d.span is None
    assert d.where in [f"model.py:{n}:5" for n in lines]


def test_an_equation_of_a_transformed_program_has_the_place_of_what_it_was_made_from():
    program = jt.parse("{ lambda ; a:f32[]. let\n b:f32[] = sin a\n c:f32[] = mul b b in (c,) }")
    made = jt.jvp_jaxpr(jt.vmap_jaxpr(program, 2, [0])[0])[0]
    lines = {e.primitive.name: line_of(e) for e in made.eqns}
    assert lines == {"sin": 2, "cos": 2, "mul": 3, "add_any": 3}


def test_discharge_and_cost():
    text = """{ lambda ; a:Ref{f32[]}. let
    jit[
      name=f
      jaxpr={ lambda ; b:Ref{f32[]}. let
          frobnicate b
        in () }
    ] a
  in () }"""
    with pytest.raises(jt.MissingRuleError) as error:
        jt.discharge(jt.parse(text))
    (d,) = error.value.diagnostics
    assert line_of(d) == 5
    with pytest.raises(jt.MissingRuleError) as error:
        cost_jaxpr(jt.parse("{ lambda ; a:f32[]. let\n b:f32[] = frobnicate a in (b,) }").jaxpr)
    (d,) = error.value.diagnostics
    assert line_of(d) == 2


def test_a_place_that_an_error_has_stays():
    """The error of evaluating a transformed program names the line of the original program."""
    program = failing("eval", "jit in scan")
    made = jt.jvp_jaxpr(program)[0]
    with pytest.raises(UsageError) as error:
        jt.eval_jaxpr(made, [ONE, ONE])
    (d,) = error.value.diagnostics
    assert "without_impl" in d.span.source.line(line_of(d))


def test_operations_that_are_applied_outside_of_programs_have_no_place():
    with pytest.raises(jt.JaxprTypeError) as error:
        jt.jvp(
            lambda x: lax.add(x, lax.iota(dtype="int32", shape=(2,), dimension=0)), (TWO,), (TWO,)
        )
    (d,) = error.value.diagnostics
    assert d.span is None and not d.where


def test_a_staged_rule_that_many_equations_share_has_the_place_of_none():
    """The second equation that uses it fails: the error must not name the first."""
    fails_now = []

    def sometimes(x):
        return fails() if fails_now else x

    inner = declared("sometimes", lower=lambda ctx, x: sometimes(x))
    outer = declared("staged", **decomposed(lambda _avals, x: inner(x)))
    text = "{{ lambda ; a:f32[]. let\n{}b:f32[] = {} a\nin (b,) }}"
    jt.lower(jt.parse(text.format("", outer.primitive.name)))
    fails_now.append(True)
    with pytest.raises(UsageError, match="this rule fails") as error:
        jt.lower(jt.parse(text.format("\n\n", outer.primitive.name)))
    (d,) = error.value.diagnostics
    assert line_of(d) == 4
