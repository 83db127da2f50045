"""Check an equation's operands and params against the declaration of its primitive.

Type rules rely on it: a rule gets the declared number of operands, and each param with a value of
its kind.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.declaration import REQUIRED, Param
from jaxprtool.ir.diagnostics import Diagnostic, JaxprTypeError, counted
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.synonyms import close_names

__all__ = [
    "check_declared",
    "fail_params",
    "failed_rule",
    "holds_integers",
    "no_type",
    "shown",
    "refuse_misfits",
    "refuse_param",
    "signature",
    "FAULTS",
]

# Python's exceptions in a rule that gets values of other types than it expects.
FAULTS = (
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    NameError,
    StopIteration,
)

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def check_declared(eqn: JaxprEqn) -> None:
    """Raise JaxprTypeError, with a diagnostic for each fault, unless operands and params are as declared."""
    primitive, params = eqn.primitive, eqn.params
    least, most = _arity(primitive)
    fits = least <= len(eqn.inputs) <= most
    found = [] if fits else [_wrong_count(primitive, len(eqn.inputs))]
    if params is not primitive.defaults or len(params) < len(primitive.params):
        if primitive.known and params.keys() != primitive.params.keys():
            found += _wrong_names(primitive, params)
        found += _misfits(primitive, params) or _wrong_lengths(eqn)
    if found:
        raise JaxprTypeError(found)


def _misfits(primitive: Primitive, params: dict[str, Any]) -> list[Diagnostic]:
    """Return a diagnostic for each param whose value is not of its kind."""
    found: list[Diagnostic] = []
    for name, fits, default in primitive.checked:
        value = params.get(name, default)
        if value is not default and not fits(value):
            found.append(_misfit(primitive, primitive.params[name], value))
    return found


def _wrong_lengths(eqn: JaxprEqn) -> list[Diagnostic]:
    """Return a diagnostic for each param with an item per operand or result that has another number of items."""
    primitive = eqn.primitive
    numbers = {"operand": len(eqn.inputs), "result": len(eqn.out_binders)}
    found: list[Diagnostic] = []
    for name, what in _for_each(primitive) if primitive.known else ():
        default, n = primitive.params[name].default, numbers[what]
        value = eqn.params.get(name, default)
        if value is not None and value != default and len(value) != n:
            has = counted(len(value), "item")
            message = f"{primitive}: {name} has {has}, and the equation {counted(n, what)}"
            found.append(Diagnostic(message, "param-value", param=name))
    return found


@functools.cache
def _for_each(primitive: Primitive) -> list[tuple[str, str]]:
    """Return the params with an item per operand or result: (name, "operand" or "result")."""
    kinds = [(name, p.kind) for name, p in primitive.params.items()]
    operands = [(name, "operand") for name, kind in kinds if kind.each_operand]
    return operands + [(name, "result") for name, kind in kinds if kind.each_result]


def refuse_misfits(primitive: Primitive, params: dict[str, Any]) -> None:
    """Raise JaxprTypeError where a param has a value that is not of its kind."""
    if found := _misfits(primitive, params):
        raise JaxprTypeError(found)


def fail_params(primitive: Primitive, params: dict[str, Any]) -> NoReturn:
    """Raise JaxprTypeError for params whose names are not those declared."""
    raise JaxprTypeError(_wrong_names(primitive, params))


def refuse_param(primitive: Primitive, name: str, value: ParamValue) -> NoReturn:
    """Raise JaxprTypeError for a param whose value is of its kind, but not allowed here."""
    raise JaxprTypeError(_misfit(primitive, primitive.params[name], value))


def _misfit(primitive: Primitive, param: Param, value: ParamValue) -> Diagnostic:
    kind = param.kind.one
    found = f"is {text}" if (text := shown(value)) else "has no value"
    message = f"{primitive}: {param.name} {found}, and has to be {kind}{_limit(value)}"
    return Diagnostic(message, param.kind.code, help=_help(primitive), param=param.name)


@functools.cache
def _arity(primitive: Primitive) -> tuple[int, float]:
    """Return the least and the largest number of operands."""
    fixed = [o for o in primitive.operands if not o.startswith("*")]
    several = len(fixed) < len(primitive.operands) or not primitive.known
    return len(fixed), math.inf if several else len(fixed)


def _limit(value: ParamValue) -> str:
    """Return the end of a message about integers that do not fit in 64 bits; "" for other values."""
    items = value if isinstance(value, (tuple, list)) else [value]
    large = any(type(x) is int and not -1 << 63 <= x < 1 << 63 for x in items)
    return " of 64 bits" if large else ""


def signature(primitive: Primitive) -> str:
    """Return the declaration of a primitive as text: `rev(operand, *, dimensions: tuple[int, ...])`."""
    parts = list(primitive.operands)
    if primitive.params:
        if not any(o.startswith("*") for o in parts):
            parts.append("*")
        parts += map(_declaration, primitive.params.values())
    if primitive.open:
        parts.append("**attributes")
    return f"{primitive}({', '.join(parts)})"


def _declaration(param: Param) -> str:
    typed = f"{param.name}: {param.kind}" if param.kind.name else param.name
    return typed if param.default is REQUIRED else f"{typed} = {param.default!r}"


def _help(primitive: Primitive) -> str:
    return f"it is declared as {signature(primitive)}"


def _wrong_count(primitive: Primitive, n: int) -> Diagnostic:
    least, most = _arity(primitive)
    wanted = f"{least} operand{'' if least == 1 else 's'}{' or more' if least < most else ''}"
    message = f"{primitive} takes {wanted}, and has {n}"
    return Diagnostic(message, "operand-count", help=_help(primitive))


def _wrong_names(primitive: Primitive, params: dict[str, Any]) -> list[Diagnostic]:
    """Return diagnostics for unknown and for missing params."""
    declared = primitive.params
    found: list[Diagnostic] = []
    for name in () if primitive.open else sorted(params.keys() - declared.keys()):
        near = close_names(name, [*declared])
        help = f"did you mean {near[0]}? {_help(primitive)}" if near else _help(primitive)
        message = f"{primitive} has no param {name}"
        found.append(Diagnostic(message, "unknown-param", help=help, param=name))
    missing = [n for n in declared if n not in params and n not in primitive.optional]
    needed = sorted([n for n in missing if declared[n].default is REQUIRED] or missing)
    if needed:
        *first, last = needed
        names = f"{', '.join(first)} and {last}" if first else last
        message = f"{primitive} needs the param{'s' if first else ''} {names}"
        found.append(Diagnostic(message, "missing-param", help=_help(primitive)))
    return found


def failed_rule(
    primitive: Primitive, avals: Sequence[AbstractType], error: Exception
) -> Diagnostic:
    """Return the diagnostic for an exception inside a type rule.

    It blames the equation, or the rule where that is defined outside of this package, in a plug-in.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    file = place.tb_frame.f_code.co_filename if place is not None else _PACKAGE
    if place is not None and not file.startswith(_PACKAGE):
        at = f"{os.path.basename(file)}:{place.tb_lineno}"
        message = (
            f"the abstract_eval rule of {primitive} failed: {type(error).__name__}: {error} ({at})"
        )
        return Diagnostic(message, "type-rule", help=_help(primitive))
    types = ", ".join(map(str, avals)) or "no operands"
    message = f"{primitive} of {types}: operands and params do not fit together"
    return Diagnostic(message, "misfit", help=_help(primitive))


def no_type(primitive: Primitive, out: AbstractType | Sequence[Any] | None) -> Diagnostic | None:
    """Return the diagnostic for a type rule that returned no type; None where it returned types."""
    if primitive.multiple_results:
        right = isinstance(out, (list, tuple)) and all(isinstance(a, AbstractType) for a in out)
        wanted = "a list of types"
    else:
        right, wanted = isinstance(out, AbstractType), "a type"
    if right:
        return None
    message = f"the abstract_eval rule of {primitive} gives {shown(out)}, and has to give {wanted}"
    return Diagnostic(message, "type-rule")


def holds_integers(value: ParamValue) -> bool:
    """Whether a value is an integer, or a tuple or list of integers."""
    items = value if isinstance(value, (tuple, list)) else [value]
    return all(isinstance(x, int) and not isinstance(x, bool) for x in items)


def shown(value: Any) -> str:
    """Return the text of a value for a message."""
    if isinstance(value, ClosedJaxpr):
        return "a jaxpr"
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
