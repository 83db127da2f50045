"""Rewrite a program in double precision: every float as f64, every complex number as c128."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.primitive import primitive_of
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import AbstractType, FutureType, RefType, ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.dtypes import COMPLEX128, FLOAT64, DType, dtype_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.ir.params import Record
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.passes.scoped import Scoped

__all__ = [
    "Raised",
    "Raising",
    "conversion",
    "doubled",
    "in_complex",
    "in_double",
    "in_double_from",
    "parts_between_conversions",
    "raised",
    "wide_dtype",
]


_BITS = {"exponent_bits": 11, "mantissa_bits": 52}  # of f64


class Raised:
    """A program in double precision, and how its equations correspond to the original.

    Attributes:
      program: takes and gives f64 for floating types, c128 for complex ones, and other types as
        they are.
      before: for each equation of `program`, at any depth, the one that it was made from.
      after: for each equation the one in double precision; equations that stay as they are, between
        conversions, are not included.
    """

    def __init__(self) -> None:
        self.program: Any = None
        self.before: dict[JaxprEqn, JaxprEqn] = {}
        self.after: dict[JaxprEqn, JaxprEqn] = {}


def in_double(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with f64 for every floating type, and c128 for every complex type, in nested jaxprs too.

    Types in params follow, and so do the bits to which an equation rounds. An equation that cannot
    be raised stays as it is, between conversions: one that looks at the bits of floats
    (`bitcast_convert_type`), calls what takes only the types that it has (a Python function), or
    draws random numbers. Equations keep their places.

    Args:
      program: a well-typed program whose constants' values are known, or None for those that the
        caller gives.

    Returns:
      A well-typed program. Literals and constants have the values that they have in their own
      types.

    Raises:
      UnsupportedError: an equation that cannot be raised reads or writes a reference of the program
        itself.
    """
    return raised(program).program


@deep
def raised(program: ClosedJaxpr) -> Raised:
    """As `in_double`, with the original of each equation."""
    found = Raised()
    try:
        found.program = Raising(found, wide_dtype).scoped.closed(program)
    except _Unraised:
        message = "an equation looks at the bits of what a reference of the program holds, and has no f64 in its place"
        fail(UnsupportedError, message, "no-wider-type", span=program.jaxpr.span)
    return found


@deep
def in_double_from(program: ClosedJaxpr, bits: int) -> ClosedJaxpr | None:
    """As `in_double`, but only of types of at least so many bits; None where it cannot be done.

    What rounds to fewer bits than these stays too: a conversion to bf16, `reduce_precision`.
    """

    def wide(dtype: DType | None) -> DType | None:
        found = wide_dtype(dtype)
        return None if dtype is None or found is None or dtype.real.bits < bits else found

    try:
        return Raising(Raised(), wide, rounds=True).scoped.closed(program)
    except _Unraised:
        return None


@deep
def in_complex(program: ClosedJaxpr) -> ClosedJaxpr | None:
    """Return the program with c128 for every floating type; None where an operation takes no complex operands.

    Args:
      program: a well-typed program without complex numbers, whose constants' values are known.
    """
    try:
        return Raising(Raised(), _complex_dtype, convert=False).scoped.closed(program)
    except _Unraised:
        return None


class _Unraised(Exception):
    """An equation cannot be raised."""


def doubled(x: Value) -> Value:
    """Return a value in double precision, if it is a float or complex number."""
    return _value(x, wide_dtype)


def _value(x: Value, to: _Wide) -> Value:
    xp = numpy_namespace()
    x = xp.value(x)
    wide = to(dtype_of(getattr(x, "dtype", None)))
    return x if wide is None else x.astype(xp.dtype_of_aval(wide))


def wide_dtype(dtype: DType | None) -> DType | None:
    """Return f64 for a floating type, c128 for a complex one, None for any other."""
    if dtype is None or dtype.kind not in "fc":
        return None
    return FLOAT64 if dtype.kind == "f" else COMPLEX128


def _complex_dtype(dtype: DType | None) -> DType | None:
    """Return c128 for a floating or complex type, None for any other."""
    return None if wide_dtype(dtype) is None else COMPLEX128


def _staying(dtype: DType | None) -> DType | None:
    """Return None: the type stays."""
    return None


_Wide = Callable[[DType | None], DType | None]


def _wide(aval: Any, to: _Wide) -> Any:
    """Return a type with its floats raised; the same object where it has none."""
    if isinstance(aval, ShapedArray):
        dtype = to(aval.dtype)
        return aval if dtype is None or dtype is aval.dtype else aval.update(dtype=dtype)
    if isinstance(aval, RefType):
        return RefType(_wide(aval.inner, to), aval.space)
    return FutureType(_wide(aval.inner, to)) if isinstance(aval, FutureType) else aval


def _lit(x: Lit, to: _Wide) -> Lit:
    aval = _wide(x.aval, to)
    if aval is x.aval or x.val is None:
        return x
    held = numpy_namespace().value(x)  # the value that its own type has
    return Lit(complex(held) if aval.dtype is COMPLEX128 else float(held), aval, x.span)


class Raising:
    """One run over a program.

    Attributes:
      found: gets the correspondence of equations.
      to: returns the type that replaces an element type; None for one that stays.
      convert: whether an equation that cannot be raised stays as it is, between conversions; else
        raising fails.
      rounds: whether an equation that rounds to a number of bits keeps that number.
      scoped: rewrites nested jaxprs.
    """

    def __init__(
        self, found: Raised, to: _Wide, *, convert: bool = True, rounds: bool = False
    ) -> None:
        self.found, self.to, self.convert, self.rounds = found, to, convert, rounds
        self.scoped = Scoped(self._closed)

    def _closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        consts = [c if c is None else _value(c, self.to) for c in program.consts]
        return program.replace(jaxpr=self.jaxpr(program.jaxpr), consts=consts)

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        names: dict[Var, Var] = {}

        def binder(v: Var) -> Var:
            kind = DropVar if isinstance(v, DropVar) else Var
            names[v] = kind(_wide(v.aval, self.to), v.name, v.span)
            return names[v]

        def atom(x: Any) -> Any:
            return _lit(x, self.to) if type(x) is Lit else names[x]

        consts, ins = [[*map(binder, vs)] for vs in (jaxpr.const_binders, jaxpr.in_binders)]
        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            inputs = [*map(atom, eqn.inputs)]
            eqns += self.equation(eqn, inputs, [*map(binder, eqn.out_binders)])
        outs = [*map(atom, jaxpr.outs)]
        return jaxpr.replace(const_binders=consts, in_binders=ins, eqns=eqns, outs=outs)

    def equation(
        self, eqn: JaxprEqn, inputs: Sequence[Any], outs: Sequence[Var]
    ) -> Sequence[JaxprEqn]:
        """Return the equations that compute an equation on raised operands, with raised results."""
        same = all(x.aval is y.aval for x, y in _pairs(eqn, inputs, outs))
        if same and not eqn.primitive.holds_jaxprs:
            return [self.kept(eqn, eqn.replace(inputs=inputs, out_binders=outs))]
        if _draws(eqn):
            return self.between_conversions(eqn, inputs, outs)
        try:
            made = eqn.replace(inputs=inputs, params=self.params(eqn), out_binders=outs)
        except _Unraised:
            made = None
        if made is None or not _is_typed(made):
            return self.between_conversions(eqn, inputs, outs)
        return [self.kept(eqn, made)]

    def params(self, eqn: JaxprEqn) -> dict[str, Any]:
        """Return the params of an equation with their element types and jaxprs raised."""
        # types beside jaxprs are those of the jaxprs (`out_avals` of a kernel); others, of a called function, stay
        types = self.to if eqn.primitive.holds_jaxprs else _staying

        def change(value: Any) -> Any:
            if isinstance(value, (tuple, list)) and any(isinstance(v, ShapedArray) for v in value):
                return type(value)([_wide(v, types) for v in value])
            return _raised(value, self.scoped.closed, self.to)

        # rounding to fewer bits than a type has is a type of its own: JAX rounds what remat saves to its own type
        bits = _BITS if _BITS.keys() <= eqn.params.keys() and not self.rounds else {}
        with self.scoped.inside(eqn):
            return {k: change(v) for k, v in eqn.params.items()} | bits

    def kept(self, eqn: JaxprEqn, made: JaxprEqn) -> JaxprEqn:
        """Record what an equation was made from; return it."""
        self.found.before[made], self.found.after[eqn] = eqn, made
        return made

    def between_conversions(
        self, eqn: JaxprEqn, inputs: Sequence[Any], outs: Sequence[Var]
    ) -> list[JaxprEqn]:
        """Return the equation as it was, with conversions of its raised operands before it, and of its results after it."""
        atoms = (*eqn.inputs, *eqn.out_binders)
        if not self.convert or any(isinstance(x.aval, RefType) for x in atoms):
            raise _Unraised  # the content of a reference is not converted: its maker stays as it is
        for closed in sub_jaxprs(eqn):
            for inner in all_eqns(closed.jaxpr):
                self.found.after.pop(inner, None)
        before, made, after = parts_between_conversions(eqn, inputs, outs)
        self.found.before[made] = eqn
        return [*before, made, *after]


def parts_between_conversions(
    eqn: JaxprEqn, inputs: Sequence[Any], outs: Sequence[Var]
) -> tuple[list[JaxprEqn], JaxprEqn, list[JaxprEqn]]:
    """Return the conversions before an equation in its own types, the equation, and the conversions after it."""
    before, operands = _converted_before(eqn, inputs)
    after, results = _converted_after(eqn, outs)
    return before, eqn.replace(inputs=operands, out_binders=results), after


def _draws(eqn: JaxprEqn) -> bool:
    """Whether an equation draws random numbers with keys, which would differ in another type."""
    dtypes = [getattr(x.aval, "dtype", None) for x in eqn.inputs]
    is_keyed = any(dtype is not None and dtype.kind == "k" for dtype in dtypes)
    return is_keyed and not eqn.primitive.holds_jaxprs


def _pairs(eqn: JaxprEqn, inputs: Sequence[Any], outs: Sequence[Var]) -> Any:
    old = (*eqn.inputs, *eqn.out_binders)
    return zip(old, (*inputs, *outs), strict=True)


def _raised(value: Any, closed: Callable[[ClosedJaxpr], ClosedJaxpr], to: _Wide) -> Any:
    """Return a param with its element types and its jaxprs raised."""
    if isinstance(value, DType):
        return to(value) or value
    if isinstance(value, ClosedJaxpr):
        return closed(value)
    if isinstance(value, (tuple, list)):
        new = [_raised(v, closed, to) for v in value]
        same = all(x is y for x, y in zip(new, value, strict=True))
        return value if same else type(value)(new)
    if isinstance(value, dict):
        mapped = {k: _raised(v, closed, to) for k, v in value.items()}
        return value if all(mapped[k] is v for k, v in value.items()) else type(value)(mapped)
    if isinstance(value, Record):
        args, fields = _raised(value.args, closed, to), _raised(value.fields, closed, to)
        same = args is value.args and fields is value.fields
        return value if same else Record(value.name, args, **fields)
    return value


def _is_typed(eqn: JaxprEqn) -> bool:
    """Whether the types of an equation's results follow from those of its operands."""
    try:
        found = abstract_eval(eqn.primitive, [x.aval.strong for x in eqn.inputs], eqn.params)
    except JaxprToolError:
        return False
    wanted = [v.aval.strong for v in eqn.out_binders]
    return [x.strong for x in found] == wanted


def _converted_before(eqn: JaxprEqn, inputs: Sequence[Any]) -> tuple[list[JaxprEqn], list[Any]]:
    """Return conversions of raised operands to the types of an equation's own operands, and the converted atoms."""
    eqns: list[JaxprEqn] = []
    operands: list[Any] = []
    for old, new in zip(eqn.inputs, inputs, strict=True):
        if type(old) is Lit or old.aval is new.aval:
            operands.append(old if type(old) is Lit else new)
        else:
            operands.append(Var(old.aval))
            eqns.append(conversion(new, operands[-1]))
    return eqns, operands


def _converted_after(eqn: JaxprEqn, outs: Sequence[Var]) -> tuple[list[JaxprEqn], list[Var]]:
    """Return conversions of an equation's own results to raised ones, and the variables of its own results."""
    eqns: list[JaxprEqn] = []
    results: list[Var] = []
    for old, new in zip(eqn.out_binders, outs, strict=True):
        if old.aval is new.aval:
            results.append(new)
        else:
            results.append(Var(old.aval))
            eqns.append(conversion(results[-1], new))
    return eqns, results


def conversion(x: Any, v: Any) -> JaxprEqn:
    """Return the equation v = x, converted to the type of v."""
    primitive = primitive_of(lax.convert_element_type)
    aval: AbstractType = v.aval
    params = {**primitive.defaults, "new_dtype": aval.dtype, "weak_type": False}  # type: ignore[attr-defined]
    return JaxprEqn(primitive, [x], params, [v])
