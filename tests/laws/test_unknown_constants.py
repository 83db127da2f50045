"""Constants without values inside a program, as a printed jaxpr has them: transformations that need
no value work.

Each argument of each example is a constant of a call, a loop or a branch. A transformed program
keeps the constant, or has a literal without a value in its place; running it is an error that names
the constant.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jaxprtool as jt
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.linearize import linearize
from jaxprtool.driver.partial_eval import partial_eval
from jaxprtool.driver.vjp import vjp
from jaxprtool.driver.vmap import vmap
from jaxprtool.generation.wrapping import WRAPS
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.parse import parse
from tests.laws.oracle import EXAMPLES, by_structure, law, ours
from tests.rules.example import Example

AROUND = [WRAPS[name] for name in ("jit", "remat2", "cond", "scan", "custom_vjp_call")]
VERBS: dict[str, Callable[[ClosedJaxpr], Any]] = {
    "jvp": jvp,
    "vmap": lambda p: vmap(p, axis_size=2),
    "linearize": linearize,
    "vjp": vjp,
    "partial-eval": lambda p: partial_eval(p, [0]),
    "residuals": lambda p: jt.residuals(p, vs="nothing"),
    "cost": jt.cost,
    "opt": lambda p: jt.opt(p, "inline,cse,fold,simplify,hoist,dce"),
    "roll": lambda p: jt.opt(p, "roll,outline"),
    "lower": jt.lower,
    "fmt": lambda p: parse(jt.format_jaxpr(p, lossless=True)),
}


def _programs(example: Example) -> Iterator[ClosedJaxpr]:
    program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
    jaxpr = program.jaxpr
    for i, v in enumerate(jaxpr.in_binders):
        ins = [w for w in jaxpr.in_binders if w is not v]
        consts = [*jaxpr.const_binders, v]
        closed = ClosedJaxpr(
            jaxpr.replace(in_binders=ins, const_binders=consts), [*program.consts, None]
        )
        yield AROUND[i % len(AROUND)](random.Random(i), closed)
        yield AROUND[(i + 1) % len(AROUND)](random.Random(i), closed)


@pytest.mark.filterwarnings("ignore::jaxprtool.passes.own_rules.LostRuleWarning")
@pytest.mark.filterwarnings("ignore:the custom|the batching rule|what the policy|debug_callback")
@law(by_structure(EXAMPLES))
def test_a_verb_answers_or_says_why_not(example: Example) -> None:
    for program in _programs(example):
        try:
            jt.check(program)
        except JaxprToolError:
            continue
        for name, verb in VERBS.items():
            try:
                str(verb(program))
            except JaxprToolError as e:
                text = jt.format_jaxpr(program)
                assert e.exit_code != 3, (name, text)
                assert name != "fmt", (e, text)
            except Exception as e:
                raise AssertionError(f"{name}: {e!r} of\n{jt.format_jaxpr(program)}") from e
