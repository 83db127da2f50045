"""Small programs, and primitives that exist for these tests only."""

from __future__ import annotations

from jaxprtool.core.primitive import primitive
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.rules.define import define
from jaxprtool.stablehlo.module import StableHLO
from jaxprtool.syntax.parse import parse

__all__ = ["case_op", "lowered", "parse", "probe", "scale_op", "with_consts"]

_PROBES = {}


@primitive(name="probe_for_lowering")
def probe(*operands, key):
    """Whatever the test that binds it says.

    key: names the rule, see `register`.
    """


@primitive(name="scale_without_rule")
def scale_op(x):
    """A primitive that cannot be lowered."""


@primitive(name="case_for_lowering", multiple_results=True)
def case_op(index, *operands, branches):
    """branches[index](*operands).

    branches: the jaxprs.
    """


define(probe, lower=lambda ctx, *xs, key: _PROBES[key](ctx, *xs))
define(case_op, lower=lambda ctx, i, *xs, branches: ctx.case(i, branches, xs))


def register(key, rule):
    """Let `probe[key=...]` be lowered by a rule."""
    _PROBES[key] = rule
    return key


def lowered(text) -> StableHLO:
    """The StableHLO of a program's text."""
    return lower_jaxpr(parse(text))


def with_consts(text, *consts) -> ClosedJaxpr:
    """The program of a text with values for its constants."""
    return ClosedJaxpr(parse(text).jaxpr, consts)
