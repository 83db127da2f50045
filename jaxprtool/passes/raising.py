"""raised: a program in double precision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import COMPLEX128, FLOAT64, DType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import map_jaxprs

__all__ = ["Raised", "raise_some", "raised"]


class Raised:
    """A program in double precision, and what its equations were.

    Attributes:
      program: takes and gives f64 for floating types, c128 for complex ones, and other types as they are.
      before: by an equation of `program` the one that it stands for, at any depth of jaxprs.
      after: by an equation the one in double precision; those that are computed in their own types (their bits are looked
        at, say) are not among them.
    """

    def __init__(self) -> None:
        self.program: Any = None
        self.before: dict[JaxprEqn, JaxprEqn] = {}
        self.after: dict[JaxprEqn, JaxprEqn] = {}


def raised(program: ClosedJaxpr) -> Raised:
    """A program that computes in double precision what the given one computes in its types.

    An equation that cannot be computed in double precision is computed in its own types, between conversions.
    """
    found = Raised()
    found.program = _Raising(found).closed(program)
    return found


def _dtype(dtype: DType) -> DType:
    return {"f": FLOAT64, "c": COMPLEX128}.get(dtype.kind, dtype)


def _aval(aval: Any) -> Any:
    return aval.update(dtype=_dtype(aval.dtype)) if isinstance(aval, ShapedArray) else aval


def _param(value: Any) -> Any:
    """A param with the types in it raised."""
    if isinstance(value, DType):
        return _dtype(value)
    if isinstance(value, ShapedArray):
        return _aval(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_param(x) for x in value]) if type(value) in (tuple, list) else value
    return value


class _Raising:
    """One pass; a jaxpr that occurs twice is raised once."""

    def __init__(self, found: Raised):
        self.found = found
        self.done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    @deep
    def closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        known = self.done.get(program)
        if known is None:
            known = self.done[program] = self.made(program)
        return known

    def made(self, program: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        env: dict[Any, Any] = {v: Var(_aval(v.aval), v.name, v.span) for v in jaxpr.all_binders}
        binders = [env[v] for v in jaxpr.const_binders], [env[v] for v in jaxpr.in_binders]
        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            ins = [_atom(x, env) for x in eqn.inputs]
            env.update({v: Var(_aval(v.aval), v.name, v.span) for v in eqn.out_binders})
            eqns += self.equation(eqn, ins, [env[v] for v in eqn.out_binders])
        outs = [_atom(x, env) for x in jaxpr.outs]
        consts = [_value(c, v) for c, v in zip(program.consts, binders[0], strict=True)]
        return program.replace(
            jaxpr=Jaxpr(binders[1], eqns, outs, binders[0], jaxpr.span), consts=consts
        )

    def equation(self, eqn: JaxprEqn, ins: list[Any], outs: list[Var]) -> list[JaxprEqn]:
        """The equation in double precision, or in its own types between conversions."""
        own = all(_aval(x.aval) is x.aval for x in (*eqn.inputs, *eqn.out_binders))
        params = {k: _param(map_jaxprs(v, self.closed)) for k, v in eqn.params.items()}
        same = own and all(params[k] is v for k, v in eqn.params.items())
        if not same and not _fits(eqn, ins, params, outs):
            return self.between(eqn, ins, outs)
        made = eqn.replace(inputs=ins, params=params, out_binders=outs)
        self.found.before[made], self.found.after[eqn] = eqn, made
        return [made]

    def between(self, eqn: JaxprEqn, ins: list[Any], outs: list[Var]) -> list[JaxprEqn]:
        before, given = converted(ins, [x.aval for x in eqn.inputs])
        results = [Var(v.aval) for v in eqn.out_binders]
        made = eqn.replace(inputs=given, out_binders=results)
        self.found.before[made] = eqn
        after = [_conversion(x, v) for x, v in zip(results, outs, strict=True)]
        return [*before, made, *after]


def _fits(eqn: JaxprEqn, ins: Sequence[Any], params: dict[str, Any], outs: Sequence[Var]) -> bool:
    """Whether an operation on raised operands gives raised results."""
    try:
        avals = abstract_eval(eqn.primitive, [x.aval for x in ins], params)
    except JaxprToolError:
        return False
    return [a.strong for a in avals] == [v.aval.strong for v in outs]


def _atom(x: Any, env: dict[Any, Any]) -> Any:
    return Lit(_value(x.val, x), _aval(x.aval), x.span) if type(x) is Lit else env[x]


def _value(value: Any, x: Any) -> Any:
    """A constant in double precision."""
    if getattr(value, "dtype", None) is None or not getattr(value, "shape", ()):
        return value
    value = numpy_namespace().value(value)
    return value.astype(numpy_namespace().dtype_of_aval(_dtype(get_aval(value).dtype)))


def _conversion(x: Any, v: Any) -> JaxprEqn:
    """v = x, in the type of v."""
    primitive = lax.convert_element_type.primitive
    params = {**primitive.defaults, "new_dtype": v.aval.dtype}
    return JaxprEqn(primitive, [x], params, [v])


def converted(xs: Sequence[Any], avals: Sequence[Any]) -> tuple[list[JaxprEqn], list[Any]]:
    """Conversions of atoms to types, where they have others; and the atoms that come out."""
    eqns: list[JaxprEqn] = []
    outs: list[Any] = []
    for x, aval in zip(xs, avals, strict=True):
        if x.aval.strong == aval.strong:
            outs.append(x)
            continue
        v = Var(aval)
        eqns.append(_conversion(x, v))
        outs.append(v)
    return eqns, outs


def raise_some(program: ClosedJaxpr, found: Raised, chosen: Collection[JaxprEqn]) -> ClosedJaxpr:
    """A program with some of its equations in double precision; what one of them hands to another stays so.

    Args:
      program: the program.
      found: what `raised` gives for it.
      chosen: equations of it, at any depth, without jaxprs in their params.
    """
    return _RaisingSome(found, chosen).closed(program)


class _RaisingSome:
    """One pass; results of the equations that are chosen have conversions where others read them."""

    def __init__(self, found: Raised, chosen: Collection[JaxprEqn]):
        self.found, self.chosen = found, chosen
        self.done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    @deep
    def closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        known = self.done.get(program)
        if known is None:
            known = self.done[program] = self.made(program)
        return known

    def made(self, program: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr, eqns = program.jaxpr, list[JaxprEqn]()
        wide: dict[Any, Var] = {}
        for eqn in jaxpr.eqns:
            if eqn in self.chosen and eqn in self.found.after:
                eqns += self.equation(eqn, wide)
                continue
            eqns += [_conversion(wide.pop(x), x) for x in dict.fromkeys(eqn.inputs) if x in wide]
            params = {k: map_jaxprs(v, self.closed) for k, v in eqn.params.items()}
            same = all(params[k] is v for k, v in eqn.params.items())
            eqns.append(eqn if same else eqn.replace(params=params))
        eqns += [_conversion(wide.pop(x), x) for x in dict.fromkeys(jaxpr.outs) if x in wide]
        return program.replace(jaxpr=jaxpr.replace(eqns=eqns))

    def equation(self, eqn: JaxprEqn, wide: dict[Any, Var]) -> list[JaxprEqn]:
        """The equation in double precision; its results are added to those that are so."""
        made = self.found.after[eqn]
        given = [wide.get(x, x) if type(x) is not Lit else x for x in eqn.inputs]
        before, ins = converted(given, [x.aval for x in made.inputs])
        outs = [Var(v.aval) for v in made.out_binders]
        done = made.replace(inputs=ins, out_binders=outs)
        pairs = zip(eqn.out_binders, outs, strict=True)
        same = [(v, x) for v, x in pairs if v.aval.strong == x.aval.strong]
        wide.update(zip(eqn.out_binders, outs, strict=True))
        return [*before, done, *(_conversion(wide.pop(v), v) for v, _ in same)]
