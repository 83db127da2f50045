"""Every param of every primitive that can be wrong is rejected when it is, by a message that names it.

The equation of an example gets wrong values for one param at a time. None of them may end in an error of Python's.
"""

from __future__ import annotations

import jax
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Jaxpr, Lit
from jaxprtool.ir.params import Opaque, Record, Word
from tests.laws.oracle import EXAMPLES

WRONG = [
    *(None, -1, 99, 1.5, True, "word", Word("word"), Word("Some.MEMBER"), Opaque("<object>")),
    *((), (-1,), (99,), (0, 0), ((1, 2),), (None,), ["a"], {"a": 1}, Record("Other", a=1)),
]

# Where the message is about what the param leads to.
BY_CONSEQUENCE = {("linear_call", "num_callee_consts"), ("psum", "axes")}


def _programs():
    """For each primitive a program with one equation of it, and the place of that equation."""
    found = {}
    for e in EXAMPLES:
        if e.primitive.name in found:
            continue
        f = getattr(e.op, "plain", e.op)
        jaxpr = jt.make_jaxpr(lambda *xs, f=f, e=e: f(*xs, **e.params))(
            *[a.aval for a in e.args]
        ).jaxpr
        places = [i for i, q in enumerate(jaxpr.eqns) if q.primitive is e.primitive]
        if places:
            found[e.primitive.name] = jaxpr, places[0]
    return found


with jax.enable_x64(True):
    PROGRAMS = _programs()
WITH_PARAMS = [n for n, (jaxpr, i) in PROGRAMS.items() if jaxpr.eqns[i].primitive.params]


def _diagnostic(jaxpr, place, **changes):
    """The complaint about a program with one equation changed, or None."""
    eqns = list(jaxpr.eqns)
    eqns[place] = eqns[place].replace(**changes)
    try:
        typecheck_jaxpr(Jaxpr(jaxpr.in_binders, eqns, jaxpr.outs, jaxpr.const_binders))
    except jt.JaxprToolError as e:
        return e.diagnostics[0]
    return None


def _rejections(name, param):
    jaxpr, place = PROGRAMS[name]
    params = jaxpr.eqns[place].params
    found = []
    for value in WRONG:
        complaint = _diagnostic(jaxpr, place, params={**params, param: value})
        if complaint is not None and complaint.code not in ("binder-type", "result-count"):
            found.append((value, complaint.message))
    return found


@pytest.mark.parametrize("name", WITH_PARAMS)
def test_wrong_params_are_rejected_by_name(name):
    jaxpr, place = PROGRAMS[name]
    for param, declared in jaxpr.eqns[place].primitive.params.items():
        found = _rejections(name, param)
        assert bool(found) == (not declared.kind.unchecked), param
        for value, message in found:
            assert "do not fit (" not in message, f"{param}={value}: {message}"
            if (name, param) not in BY_CONSEQUENCE:
                assert name in message and param in message, f"{param}={value}: {message}"


def test_every_primitive_with_an_equation_is_tried():
    missing = {e.primitive.name for e in EXAMPLES} - PROGRAMS.keys()
    assert missing == set()


def _is_variadic(primitive):
    return any(operand.startswith("*") for operand in primitive.operands)


# Where another number of operands is as good, and why.
_OF_PYTHON = "the Python function may take any number of them"
_OF_DERIVATIVE = "constants of what only its derivative needs, any number of them"
_CHECKED = "a flag, and then the arguments of messages, any number of them"
ANY_NUMBER = {
    ("pure_callback", "one fewer"): _OF_PYTHON,
    ("pure_callback", "one more"): _OF_PYTHON,
    ("pure_callback", "none"): _OF_PYTHON,
    ("io_callback", "one more"): _OF_PYTHON,
    ("io_callback", "one fewer"): _OF_PYTHON,
    ("debug_callback", "one more"): _OF_PYTHON,
    ("debug_callback", "one fewer"): _OF_PYTHON,
    ("debug_print", "one fewer"): _OF_PYTHON,
    ("debug_print", "one more"): _OF_PYTHON,
    ("debug_print", "none"): _OF_PYTHON,
    ("check", "one fewer"): _CHECKED,
    ("check", "one more"): _CHECKED,
    ("after_all", "one fewer"): "it joins any number of tokens",
    ("after_all", "one more"): "it joins any number of tokens",
    ("after_all", "none"): "it joins any number of tokens",
    ("CustomRoot", "one fewer"): _OF_DERIVATIVE,
    ("CustomRoot", "one more"): _OF_DERIVATIVE,
    ("Nonzero", "one fewer"): "what fills is 0 where it is not said",
    ("polynomial", "one fewer"): "it has any number of terms",
    ("polynomial", "one more"): "it has any number of terms",
    ("select_n", "one fewer"): "of one case there is nothing to choose",
}
# Where any number is accepted, and the types of the results, or their number, say that this one is wrong.
BY_RESULTS = {
    *(("concatenate", "one fewer"), ("concatenate", "one more")),
    *(("stack", "one fewer"), ("stack", "one more"), ("sort", "one more")),
    *(("optimization_barrier", n) for n in ("one fewer", "one more", "none")),
}


def _other_numbers(eqn):
    """The operands with one fewer, one more, and none of them."""
    one = eqn.inputs[-1:] or [Lit(1, ShapedArray((), INT32))]
    return {
        case: list(inputs)
        for case, inputs in (
            ("one fewer", eqn.inputs[:-1]),
            ("one more", [*eqn.inputs, *one]),
            ("none", [] if len(eqn.inputs) > 1 else eqn.inputs),
        )
        if len(inputs) != len(eqn.inputs)
    }


NUMBERS = {
    (name, case): inputs
    for name, (jaxpr, place) in PROGRAMS.items()
    for case, inputs in _other_numbers(jaxpr.eqns[place]).items()
}


def _complaint_about_number(name, case):
    jaxpr, place = PROGRAMS[name]
    return _diagnostic(jaxpr, place, inputs=NUMBERS[name, case])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_number_of_operands_is_rejected(name):
    jaxpr, place = PROGRAMS[name]
    primitive = jaxpr.eqns[place].primitive
    cases = [case for primitive_name, case in NUMBERS if primitive_name == name]
    assert cases
    for case in cases:
        complaint = _complaint_about_number(name, case)
        assert (complaint is None) == ((name, case) in ANY_NUMBER), case
        if complaint is None:
            continue
        by_results = complaint.code in ("binder-type", "result-count")
        assert by_results == ((name, case) in BY_RESULTS), complaint.message
        assert name in complaint.message
        if not _is_variadic(primitive):
            assert f"takes {len(primitive.operands)} operand" in complaint.message


def test_the_tables_of_numbers_name_cases_that_are_tried():
    assert ANY_NUMBER.keys() | BY_RESULTS <= NUMBERS.keys()
