"""compare --first of a program and what a pass has made of it, where one equation was exchanged before: that one is named."""

import warnings
from contextlib import redirect_stderr
from io import StringIO

import pytest

import jaxprtool as jt
from jaxprtool.driver.compare import compare
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.words.values import arguments, open_binders
from tests.analyses.exchanged import exchanges
from tests.analyses.planting import real_program
from tests.programs.catalogue import EXAMPLES

REAL = [
    ("attention", "simplify"),
    ("newton", "simplify"),
    ("kmeans", "hoist"),
    ("kmeans", "hoist,cse,inline"),
    ("hmc", "simplify,fold,cse,dce"),
    ("kalman", "hoist"),
    ("kalman", "hoist,cse,inline"),
]
# Random programs with calls of one equation, unused operands of calls, and effects beside loops.
RANDOM = [
    (16, 25, "hoist"),
    (16, 25, "hoist,cse,inline"),
    (36, 10, "inline"),
    (40, 25, "inline"),
    (41, 60, "dce"),
    (48, 10, "unroll"),
    (52, 25, "inline"),
    (97, 25, "unroll"),
]


def program_of(name, size=None):
    if name == "hmc":
        program = load_constants(jt.load(EXAMPLES / "zoo" / "hmc.jaxpr"))
        return program, arguments(open_binders(program), ["random:0"])
    if isinstance(name, str):
        return real_program(name)
    return jt.random_program(name, size=size)


@pytest.mark.parametrize(
    ("name", "size", "passes", "n"),
    [(name, None, passes, 2 if name == "hmc" else 8) for name, passes in REAL]
    + [(*r, 3) for r in RANDOM],
)
def test_an_equation_that_was_exchanged_before_a_pass_is_named(name, size, passes, n):
    program, args = program_of(name, size)
    program = jt.parse(jt.format_jaxpr(program, lossless=True), str(name))
    looked = 0
    for fault in exchanges(program, n, seed=7):
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            try:
                if compare(program, fault.program, args).equal:
                    continue
            except jt.JaxprToolError:  # what it does is not implemented, in JAX neither
                continue
            made = jt.parse(jt.format_jaxpr(jt.opt(fault.program, passes), lossless=True), "made")
            for side, pair in enumerate(((program, made), (made, program))):
                found = compare(*pair, args, first=True)
                if found.equal:
                    continue
                looked += 1
                first = found.first
                named = [(first.a, first.b)[side], *first.among[side]]
                starts = [place.eqn.span.start for place in named if place is not None]
                assert fault.eqn.span.start in starts, (fault.how, str(found))
    assert looked


MOVED = """{ lambda ; a:f32[2] b:f32[2]. let
    c:f32[2] = sin a
    d:f32[2] = exp b
    e:f32[2] = scan[length=3 num_carry=1 num_consts=1 reverse=False unroll=1
      jaxpr={ lambda ; f:f32[2] g:f32[2]. let h:f32[2] = mul f g in (h,) }
    ] c d
  in (e,) }
"""


def test_an_equation_that_was_moved_past_a_loop_is_left_out_and_not_the_loop():
    a = jt.parse(
        MOVED.replace("(e,)", "(e, i)").replace("  in (e", "    i:f32[2] = cos b\n  in (e"), "a"
    )
    b = MOVED.replace("(e,)", "(e, i)").replace("    e:", "    i:f32[2] = cos b\n    e:", 1)
    other = jt.parse(b.replace("mul f g", "sub f g"), "b")
    for pair in ((a, other), (other, a)):
        first = jt.compare(*pair, [1.0, 2.0], [0.5, 0.25], first=True).first
        assert {p.eqn.primitive.name for p in (first.a, first.b)} == {"mul", "sub"}
