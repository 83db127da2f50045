"""Programs with one fault in them, at a place that is known."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import jaxprtool as jt
from jaxprtool.core.tree import tree_leaves
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.interpreters.linearize import vjp_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.ir.walk import all_eqns
from tests.programs.catalogue import EXAMPLES, PROGRAMS

__all__ = ["REAL", "count", "has_rule", "real_program", "replaced", "wrong_jvp", "wrong_vjp"]

ZOO = [
    "convnet",
    "flow",
    "gaussian_process",
    "long_convolution",
    "molecular_dynamics",
    "transformer",
]
REAL = [*sorted(PROGRAMS), *ZOO, "data_parallel"]


def real_program(name: str) -> tuple[ClosedJaxpr, list[Any]]:
    """A program of the catalogue, the examples or the zoo, with arguments for it."""
    if name in PROGRAMS:
        f, args = PROGRAMS[name].make()
        leaves = tree_leaves(args)
        with jax.enable_x64(any(x.dtype == np.float64 for x in leaves)):
            return jt.trace(f, *args), leaves
    folder = EXAMPLES / "zoo" if name in ZOO else EXAMPLES
    program = jt.load(folder / f"{name}.jaxpr")
    assert isinstance(program, ClosedJaxpr)
    program = load_constants(program)
    return program, arguments(open_binders(program), ["random:0"])


def replaced(
    program: ClosedJaxpr,
    wanted: Callable[[JaxprEqn], bool],
    n: int,
    make: Callable[[JaxprEqn], Callable[..., Any]],
) -> ClosedJaxpr | None:
    """The program with something else in the place of the n-th equation that is wanted, at any depth; None: it has fewer."""
    left = [n]

    def rule(eqn: JaxprEqn) -> Callable[..., Any] | None:
        if not wanted(eqn):
            return None
        left[0] -= 1
        return make(eqn) if left[0] == -1 else None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = jt.rewrite(program, rule)
    return made if left[0] < 0 else None


def has_rule(eqn: JaxprEqn) -> bool:
    """Whether an equation has one real result that depends on real operands, and does nothing else."""
    avals = [x.aval for x in (*eqn.inputs, *eqn.out_binders)]
    if not all(isinstance(a, ShapedArray) and not a.vary for a in avals):
        return False
    if len(eqn.out_binders) != 1 or eqn.primitive.holds_jaxprs or has_effects(eqn):
        return False
    active = any(type(x) is not Lit and x.aval.dtype.kind == "f" for x in eqn.inputs)
    return active and eqn.out_binders[0].aval.dtype.kind == "f"


def _alone(eqn: JaxprEqn) -> ClosedJaxpr:
    """An equation as a program of its operands."""
    one = jt.make_jaxpr(lambda *xs: _bound(eqn, xs))(*[x.aval.strong for x in eqn.inputs])
    assert not one.consts
    return one


def _bound(eqn: JaxprEqn, xs: Sequence[Any]) -> Any:
    return jt.bind(eqn.primitive, *xs, **eqn.params)


def wrong_jvp(eqn: JaxprEqn) -> Callable[..., Any]:
    """The operation with a jvp rule that gives one and a half times the tangent."""
    one = _alone(eqn)
    f = jt.jaxpr_as_fun(jt.jvp_jaxpr(one)[0])

    def half_more(*xs: Any) -> Any:
        y, t = f(*xs)
        return [y, jt.lax.mul(t, jt.lax.convert_element_type(1.5, new_dtype=t.dtype))]

    floats = [a for a in one.in_avals if a.dtype.kind == "f"]
    rule = jt.make_jaxpr(half_more)(*one.in_avals, *floats)

    def call(*xs: Any) -> Any:
        return jt.lax.custom_jvp_call(
            *xs, call_jaxpr=one, jvp_jaxpr=rule, jvp="planted", name="planted", symbolic_zeros=False
        )

    return call


def wrong_vjp(eqn: JaxprEqn) -> Callable[..., Any]:
    """The operation with a vjp rule that gives the cotangents with the other sign."""
    one = _alone(eqn)
    back = jt.jaxpr_as_fun(vjp_jaxpr(one, keep_outs=False))
    fwd = jt.make_jaxpr(lambda *xs: [*xs, _bound(eqn, xs)])(*one.in_avals)
    bwd = jt.make_jaxpr(lambda *xs: [jt.lax.neg(ct) for ct in back(*xs)])(
        *one.in_avals, *one.out_avals
    )

    def call(*xs: Any) -> Any:
        return jt.lax.custom_vjp_call(
            *xs,
            call_jaxpr=one,
            fwd_jaxpr=fwd,
            bwd_jaxpr=bwd,
            fwd="planted",
            bwd="planted",
            name="planted",
            symbolic_zeros=False,
        )

    return call


def count(program: ClosedJaxpr, wanted: Callable[[JaxprEqn], bool]) -> int:
    """How many equations are wanted, at any depth."""
    return sum(map(wanted, all_eqns(program.jaxpr)))
