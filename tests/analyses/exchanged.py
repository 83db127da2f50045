"""Programs with one equation exchanged, at any depth: another primitive, literal, param, or order of operands."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from jaxprtool.core.primitive import vocabulary
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import all_eqns, map_jaxprs, sub_jaxprs, with_eqns

__all__ = ["STEP_LIMIT", "Exchange", "exchanges", "other_variables"]

STEP_LIMIT = 2_000  # a loop that an exchange makes endless shows its difference long before

# Primitives of which one can stand for another: operands, params and results are of the same types.
LIKE = (
    ("sin", "cos", "tanh", "neg", "floor", "sign", "abs"),
    ("exp", "log", "sqrt", "logistic", "exp2", "rsqrt"),
    ("add", "sub", "mul", "max", "min", "div", "pow", "rem", "atan2"),
    ("add_any", "mul"),
    ("lt", "gt", "le", "ge", "eq", "ne"),
    ("and", "or", "xor"),
    ("reduce_max", "reduce_min", "reduce_sum", "reduce_prod"),
    ("cumsum", "cumprod", "cummax", "cummin"),
    ("argmax", "argmin"),
)


class Exchange(NamedTuple):
    """A program with a fault, and the equation that has it."""

    program: ClosedJaxpr
    eqn: JaxprEqn
    how: str


def exchanges(
    program: ClosedJaxpr, n: int, seed: int = 0, *, subtle: bool = True
) -> list[Exchange]:
    """Up to n well-typed programs, each with one fault, drawn from all that there are.

    `subtle` is for operands in another order and for params of near values too, which change nothing more often than the rest.
    """
    rng = random.Random(seed)
    eqns = [*all_eqns(program.jaxpr)]
    rng.shuffle(eqns)
    found: list[Exchange] = []
    for eqn in eqns:
        others = _others(eqn) + (_subtle(eqn) if subtle else _of_flags(eqn))
        rng.shuffle(others)
        for other, how in others:
            made = _with(program, eqn, other)
            try:
                typecheck_jaxpr(made)
            except JaxprToolError:
                continue
            found.append(Exchange(made, eqn, how))
            break
        if len(found) == n:
            break
    return found


def _others(eqn: JaxprEqn) -> list[tuple[JaxprEqn, str]]:
    name, others = eqn.primitive.name, []
    for group in LIKE:
        if name in group:
            for other in group:
                p = vocabulary().get(other)
                if (
                    p is not None
                    and other != name
                    and p.defaults.keys() >= eqn.params.keys() - {"axes"}
                ):
                    others.append((eqn.replace(primitive=p), f"{name} -> {other}"))
    for i, x in enumerate(eqn.inputs):
        if type(x) is Lit and isinstance(x.val, (int, float)) and not isinstance(x.val, bool):
            value = x.val * 1.5 + 0.25 if isinstance(x.val, float) else x.val + 1
            inputs = [*eqn.inputs]
            inputs[i] = Lit(value, x.aval)
            others.append((eqn.replace(inputs=inputs), f"{name}: {x.val} -> {value}"))
    return others


def _subtle(eqn: JaxprEqn) -> list[tuple[JaxprEqn, str]]:
    others = _in_other_order(eqn)
    for key, value in eqn.params.items():
        others += [_with_param(eqn, key, other) for other in _other_values(value)]
    return others


def _of_flags(eqn: JaxprEqn) -> list[tuple[JaxprEqn, str]]:
    flags = (
        k for k in ("reverse", "is_stable", "exclusive") if isinstance(eqn.params.get(k), bool)
    )
    return [_with_param(eqn, k, not eqn.params[k]) for k in flags]


def _with_param(eqn: JaxprEqn, key: str, value: Any) -> tuple[JaxprEqn, str]:
    how = f"{eqn.primitive}: {key} {eqn.params[key]} -> {value}"
    return eqn.replace(params={**eqn.params, key: value}), how


def _in_other_order(eqn: JaxprEqn) -> list[tuple[JaxprEqn, str]]:
    """The equation with two operands of one type in each other's place; a loop or a call is left alone."""
    found, inputs = [], eqn.inputs
    if eqn.primitive.holds_jaxprs or eqn.primitive.name in COMMUTATIVE:
        return []
    for j, y in enumerate(inputs):
        for i, x in enumerate(inputs[:j]):
            if x is not y and x.aval is y.aval and not (type(x) is Lit and type(y) is Lit):
                other = [*inputs]
                other[i], other[j] = y, x
                found.append((eqn.replace(inputs=other), f"{eqn.primitive}: operands {i}, {j}"))
    return found


COMMUTATIVE = ("add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne")


def _other_values(value: Any) -> list[Any]:
    """Values of a param that are near one: another truth, the next numbers, two members in each other's place."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    found: list[Any] = []
    if (
        type(value) is tuple
        and len(value) <= 8
        and all(type(x) in (bool, int, tuple) for x in value)
    ):
        for i, x in enumerate(value):
            found += [(*value[:i], y, *value[i + 1 :]) for y in _other_values(x)]
            for j in range(i):
                if x != value[j]:
                    swapped = [*value]
                    swapped[i], swapped[j] = value[j], x
                    found.append(tuple(swapped))
    return found


def other_variables(program: ClosedJaxpr, n: int, seed: int = 0) -> list[Exchange]:
    """Up to n well-typed programs in each of which one equation reads another variable of the same type."""
    rng = random.Random(seed)
    known: dict[JaxprEqn, list[Any]] = {}
    todo, seen = [program], set[Any]()
    while todo:
        closed = todo.pop()
        scope = [*closed.jaxpr.all_binders]
        for eqn in closed.eqns if closed.jaxpr not in seen else ():
            known[eqn] = [*scope]
            scope += [v for v in eqn.out_binders if type(v) is Var]
            todo += sub_jaxprs(eqn)
        seen.add(closed.jaxpr)
    eqns = [e for e in known if not e.primitive.holds_jaxprs]
    rng.shuffle(eqns)
    found: list[Exchange] = []
    for eqn in eqns:
        for i in rng.sample(range(len(eqn.inputs)), len(eqn.inputs)):
            x = eqn.inputs[i]
            like = [v for v in known[eqn] if v.aval.strong == x.aval.strong and v not in eqn.inputs]
            if type(x) is Lit or not like:
                continue
            inputs = [*eqn.inputs]
            inputs[i] = rng.choice(like)
            made = _with(program, eqn, eqn.replace(inputs=inputs))
            found.append(Exchange(made, eqn, f"{eqn.primitive}: another operand {i}"))
            break
        if len(found) == n:
            break
    return found


def _with(program: ClosedJaxpr, old: JaxprEqn, new: JaxprEqn) -> ClosedJaxpr:
    """The program with an equation in the place of another, at any depth."""
    done: dict[int, Any] = {}

    def closed(p: ClosedJaxpr) -> ClosedJaxpr:
        if id(p) not in done:
            eqns = [new if e is old else _inside(e) for e in p.eqns]
            same = all(a is b for a, b in zip(eqns, p.eqns, strict=True))
            done[id(p)] = p if same else with_eqns(p, eqns)
        return done[id(p)]

    def _inside(e: JaxprEqn) -> JaxprEqn:
        params = {k: map_jaxprs(v, closed) for k, v in e.params.items()}
        same = all(params[k] is v for k, v in e.params.items())
        return e if same else e.replace(params=params)

    return closed(program)
