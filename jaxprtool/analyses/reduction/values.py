"""Edits of values and of what does not matter: arguments become 0, 1, ramps or short decimals, params their defaults.

`neutral` also replaces the data and the names of the original wherever the test allows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from jaxprtool.analyses.reduction.candidate import Candidate, Edit
from jaxprtool.analyses.reduction.generated import (
    GENERATED,
    drawn,
    generated,
    holds_data,
    is_generated,
    same_value,
    uniform,
)
from jaxprtool.analyses.reduction.inner_data import data_inside, without_data_inside
from jaxprtool.analyses.reduction.record import Values
from jaxprtool.analyses.reduction.rounds import Rounds, State
from jaxprtool.core.kinds.functions import TEXT, labels_of, neutral_names
from jaxprtool.core.kinds.objects import POLICY
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Value, Var
from jaxprtool.ir.params import ParamValue, PrintedFunction, Record
from jaxprtool.ir.walk import all_eqns, map_jaxprs, with_jaxprs

__all__ = [
    "neutral",
    "not_generated",
    "plain_args",
    "plain_params",
    "rank_of",
    "with_neutral_names",
]

_DECIMALS = (0, 1, 2, 3)


def _forms(v: Var, x: Value) -> list[Value]:
    """Return simpler values for an argument, the simplest first: 0, 1, a ramp, -1, then the value rounded to few decimals."""
    forms = generated(v)
    if v.aval.dtype.kind in "fc":
        xp = numpy_namespace()
        with xp.errstate(all="ignore"):
            wide = xp.asarray(x, "complex128" if v.aval.dtype.kind == "c" else "float64")
            forms += [xp.round(wide, d).astype(x.dtype) for d in _DECIMALS]
    return forms


def not_generated(c: Candidate, jaxpr: Jaxpr) -> list[str]:
    """Return what still holds values of the original: names of arguments and of inner constants, and literals.

    Args:
      c: the candidate.
      jaxpr: the candidate's jaxpr as a text has it, whose names are returned.
    """
    pairs = zip(jaxpr.in_binders, c.args or (), strict=False)
    arguments = [v.name or "_" for v, x in pairs if holds_data(v, x)]
    return [*arguments, *data_inside(jaxpr)]


def neutral(c: Candidate, keeps: Callable[[Candidate], bool]) -> Candidate:
    """Return the candidate with neutral names and with values that hold no data, each where `keeps` allows it."""
    renamed = Candidate(with_neutral_names(c.jaxpr), c.args)
    if keeps(renamed):
        c = renamed
    c = without_data_inside(c, keeps)
    for i in range(len(c.args or ())):
        c = next(filter(keeps, _without_data(c, i)), c)
    return c


def _without_data(c: Candidate, i: int) -> Iterator[Candidate]:
    """Yield the candidate with other values for argument i, if that holds data."""
    v, args = c.jaxpr.in_binders[i], [*(c.args or ())]
    if not is_generated(v, args[i]):
        for x in (drawn(v), *generated(v), *uniform(v, args[i])):
            yield c.with_args([*args[:i], x, *args[i + 1 :]])


def rank_of(v: Var, x: Value) -> int:
    """Return how simple a value is: the position of the first of `_forms` that it equals, 0 for zeros."""
    forms = _forms(v, x)
    return next((i for i, form in enumerate(forms) if same_value(form, x)), len(forms))


def plain_args(state: State, values: Values) -> Rounds:
    """Give simpler values to all arguments at once, then to each."""
    c = state.current
    if c.args is None:
        return
    yield [_all_args(k) for k in range(len(GENERATED))]
    for i, v in enumerate(state.current.jaxpr.in_binders):
        if isinstance(v.aval, ShapedArray) and state.current.args:
            x = state.current.args[i]
            for form in _forms(v, x)[: rank_of(v, x)]:
                before = state.current
                yield [lambda c, i=i, form=form: _with_arg(c, i, form)]
                if state.current is not before:
                    break


def _all_args(k: int) -> Edit:
    def edit(c: Candidate) -> Candidate | None:
        pairs = [*zip(c.jaxpr.in_binders, c.args or (), strict=True)]
        if all(rank_of(v, x) <= k for v, x in pairs):
            return None
        return c.with_args([x if rank_of(v, x) <= k else _forms(v, x)[k] for v, x in pairs])

    return edit


def _with_arg(c: Candidate, i: int, x: Value) -> Candidate | None:
    if c.args is None or i >= len(c.args):
        return None
    return c.with_args([*c.args[:i], x, *c.args[i + 1 :]])


def plain_params(state: State, values: Values) -> Rounds:
    """Give params their defaults, in nested equations too."""
    edits: list[Edit] = []
    for eqn in all_eqns(state.current.jaxpr):
        for name, default in eqn.primitive.defaults.items():
            if name in eqn.params and eqn.params[name] != default:
                edits.append(_with_param(eqn, name, default))
    yield edits


def _with_param(eqn: JaxprEqn, name: str, value: ParamValue) -> Edit:
    def edit(c: Candidate) -> Candidate | None:
        def changed(e: JaxprEqn) -> JaxprEqn:
            return e.replace(params={**e.params, name: value}) if e is eqn else e

        jaxpr = _map_eqns(c.jaxpr, changed)
        return None if jaxpr is c.jaxpr else Candidate(jaxpr, c.args)

    return edit


def _map_eqns(jaxpr: Jaxpr, f: Any) -> Jaxpr:
    """Return a jaxpr with a function applied to its equations, and to those of the jaxprs inside it."""
    done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    def closed(c: ClosedJaxpr) -> ClosedJaxpr:
        found = done.get(c)
        if found is None:
            new = within(c.jaxpr)
            found = done[c] = c if new is c.jaxpr else c.replace(jaxpr=new)
        return found

    def within(j: Jaxpr) -> Jaxpr:
        eqns: list[JaxprEqn] = []
        for e in j.eqns:
            eqns.append(with_jaxprs(f(e), closed))
        same = all(a is b for a, b in zip(eqns, j.eqns, strict=True))
        return j if same else j.replace(eqns=eqns)

    return within(jaxpr)


def with_neutral_names(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr without names of variables, origins and comments; functions in params are called `f`.

    What is printed beside values goes, and so do the names of functions that only a text has. Names
    of values, which policies mention, are numbered. Equations keep their places in the text of the
    original, by which tests know them and which are not printed.
    """
    eqns = [*all_eqns(jaxpr)]
    found = dict.fromkeys(name for e in eqns for name in (*labels_of(e).values(), *_mentioned(e)))
    labels = {name: f"n{i}" for i, name in enumerate(found)}

    def neutral(eqn: JaxprEqn) -> JaxprEqn:
        params = {**eqn.params, **neutral_names(eqn), **_without_texts(eqn)}
        params.update((k, labels[name]) for k, name in labels_of(eqn).items())
        if labels:
            params = {k: _relabelled(v, labels) for k, v in params.items()}
        return JaxprEqn(eqn.primitive, eqn.inputs, params, eqn.out_binders, eqn.span)

    return _unnamed(_map_eqns(jaxpr, neutral), {})


def _without_texts(eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params that hold free text, reduced to the fields for values, and those that name Python functions, as `f`."""
    declared, found = eqn.primitive.params, dict[str, Any]()
    for key, value in eqn.params.items():
        if key in declared and declared[key].kind is TEXT and isinstance(value, str):
            found[key] = " ".join(_FIELD.findall(re.sub(r"\{\{|\}\}", "", value))) or "f"
        elif not eqn.primitive.holds_jaxprs and isinstance(value, (PrintedFunction, Record)):
            found[key] = _nameless(value)
    return found


_FIELD = re.compile(r"\{[^{}]*\}")


def _nameless(value: Any) -> Any:
    """Return a value of a param whose functions are called `f`, unless they are objects of this process."""
    if hasattr(value, "value"):
        return value
    if isinstance(value, PrintedFunction):
        return PrintedFunction("<function f at 0xXXXXXXXXXXXX>", ("f",))
    if not isinstance(value, Record):
        return value
    fields = {k: _nameless(v) for k, v in value.fields.items()}
    return Record(value.name, tuple(map(_nameless, value.args)), **fields)


def _mentioned(eqn: JaxprEqn) -> Iterator[str]:
    """Yield the names of values that policies mention in the lists and sets of their fields."""
    for key, declared in eqn.primitive.params.items():
        value = eqn.params.get(key)
        if POLICY in (declared.kind, *declared.kind.parts) and isinstance(value, Record):
            for field in (*value.args, *value.fields.values()):
                if isinstance(field, (tuple, list, frozenset)):
                    yield from sorted(x for x in field if isinstance(x, str))


def _relabelled(value: Any, labels: dict[str, str]) -> Any:
    """Return a value of a param with other names of values in its records."""
    if not isinstance(value, Record):
        return value

    def renamed(x: Any) -> Any:
        if isinstance(x, (tuple, list, frozenset)):
            return type(x)(map(renamed, x))
        return labels.get(x, x) if isinstance(x, str) else _relabelled(x, labels)

    fields = {k: renamed(v) for k, v in value.fields.items()}
    return Record(value.name, tuple(map(renamed, value.args)), **fields)


def _unnamed(jaxpr: Jaxpr, done: dict[ClosedJaxpr, ClosedJaxpr]) -> Jaxpr:
    new: dict[Any, Any] = {}

    def binder(v: Var) -> Var:
        made = new[v] = type(v)(v.aval, None if v.name != "_" else "_")
        return made

    def closed(c: ClosedJaxpr) -> ClosedJaxpr:
        found = done.get(c)
        if found is None:
            found = done[c] = ClosedJaxpr(_unnamed(c.jaxpr, done), c.consts)
        return found

    consts, ins = [*map(binder, jaxpr.const_binders)], [*map(binder, jaxpr.in_binders)]
    eqns: list[JaxprEqn] = []
    for e in jaxpr.eqns:
        inputs = [new.get(x, x) for x in e.inputs]
        params = {k: map_jaxprs(v, closed) for k, v in e.params.items()}
        eqns.append(
            e.replace(inputs=inputs, params=params, out_binders=[*map(binder, e.out_binders)])
        )
    return Jaxpr(ins, eqns, [new.get(x, x) for x in jaxpr.outs], consts)
