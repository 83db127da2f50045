"""The params that the print of an equation leaves out, by its primitive's stub, and how reading restores them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from jaxprtool.ir.declaration import REQUIRED, Param
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive, Var
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import ParamValue, Word
from jaxprtool.ir.placement import Placement
from jaxprtool.syntax.releases.spellings import Form
from jaxprtool.syntax.types import UNTYPED

__all__ = ["has_open_results", "params_in_form", "params_order", "printed_params", "recover_params"]


def recover_params(
    primitive: Primitive, params: dict[str, Any], binders: list[Var]
) -> dict[str, Any]:
    """Return all params of an equation, given those in its text and the types of its binders."""
    if primitive.known and primitive.defaults:
        absent = primitive.optional and primitive.optional - params.keys()
        params = {**primitive.defaults, **params} if params else primitive.defaults
        if absent:
            params = {k: v for k, v in params.items() if k not in absent}
    if primitive.recovered and not any(v.aval is UNTYPED for v in binders):
        params, out_avals = dict(params), [v.aval for v in binders]
        for name, recover in primitive.recovered:
            value = recover(params.get(name, REQUIRED), out_avals)
            if value is not REQUIRED:
                params[name] = value
    return params


def params_order(primitive: Primitive, params: Iterable[str]) -> Sequence[str]:
    """Return the order in which params are printed: sorted, but for those that come first.

    Params of an unknown primitive keep their order.
    """
    if not primitive.known:
        return list(params)
    first = primitive.first
    return _sorted(first, tuple(params)) if first else sorted(params)


@lru_cache(maxsize=1024)
def _sorted(first: tuple[str, ...], names: tuple[str, ...]) -> Sequence[str]:
    """Return the names, sorted, but for those that come first."""
    found = [name for name in first if name in names]
    return (*found, *sorted(name for name in names if name not in found))


def printed_params(
    primitive: Primitive,
    params: dict[str, Any],
    lossless: bool,
    defined: Collection[str] = frozenset(),
    untold: bool = False,
) -> list[tuple[str, Any]]:
    """Return the params that are printed, in order; those that JAX hides only when `lossless` needs them.

    A name in `defined`, the names of definitions, is printed without quotes, since the reader finds
    it in any case. With `untold` the types of the results are not printed: then a param that they
    would imply is printed.
    """
    if not primitive.known:
        return [*params.items()]
    found: list[tuple[str, Any]] = []
    for key, declaration, by_default in _declared_in_order(primitive, (*params,)):
        value = params[key]
        if by_default is value:
            continue
        if declaration is not None and _is_left_out(declaration, value, lossless, untold):
            continue
        if type(value) is Placement:  # the binder's type says it
            continue
        if declaration is not None and not declaration.kind.prints_itself:
            value = _shown(declaration.kind, value, lossless, defined)
        found.append((key, value))
    return found


@lru_cache(maxsize=1024)
def _declared_in_order(
    primitive: Primitive, names: tuple[str, ...]
) -> Sequence[tuple[str, Param | None, Any]]:
    """Return the names of params in the order in which they are printed.

    Each has its declaration (None for a param that the primitive does not declare), and the value
    with which it is never printed (REQUIRED if it always is).
    """
    declared = [(name, primitive.params.get(name)) for name in params_order(primitive, names)]
    return [
        (name, d, REQUIRED if d is None or d.hidden == "never" else d.default)
        for name, d in declared
    ]


def without_defaults(primitive: Primitive, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a known primitive without those that even the lossless print leaves out:
    they equal their defaults.
    """
    declared = primitive.params
    return {
        k: v
        for k, v in params.items()
        if k not in declared or not _is_left_out(declared[k], v, lossless=True, untold=True)
    }


def _shown(kind: Kind, value: ParamValue, lossless: bool, defined: Collection[str]) -> Any:
    """Return the value that is printed for a value."""
    if kind.prints_itself or (
        isinstance(value, str) and not isinstance(value, Word) and value in defined
    ):
        return value
    return kind.printed(value, "lossless" if lossless else "jax")


def params_in_form(
    eqn: JaxprEqn, form: Form, lossless: bool, defined: Collection[str] = frozenset()
) -> list[tuple[str, Any]]:
    """Return `printed_params` in a release that prints the primitive in a form of its own.

    A param that the release lacks is printed nevertheless unless it says nothing, so that the text
    loses no information.
    """
    was = form.was(eqn)
    first = () if form.sorted else eqn.primitive.first
    # These are not among the jaxprs that have names and places in the text.
    unprinted = frozenset[str]() if lossless else eqn.primitive.unprinted
    if was is not None:
        given = {k: v for k, v in was.params.items() if not _is_jaxpr_of(k, v, unprinted)}
        held = {k: _mutable(v) if k in form.mutable else v for k, v in given.items()}
        return [(k, held[k]) for k in _sorted(first, (*held,))]
    declared, found = eqn.primitive.params, dict[str, Any]()
    lacks, untold = form.lacks, has_open_results(eqn)
    names, printed = form.names, form.printed
    if lossless:
        printed = printed | form.stated
    for key, value in eqn.params.items():
        declaration = declared.get(key)
        if declaration is None:
            found[key] = value
            continue
        if _is_jaxpr_of(key, value, unprinted):
            continue
        if key in lacks:
            if value == form.nothing(key, eqn) or _says_nothing(declaration.kind, value, eqn):
                continue
        elif key in form.unless_none:
            if value is None:
                continue
        elif key not in printed and _is_left_out(declaration, value, lossless, untold):
            continue
        if isinstance(value, Placement):  # the binder's type says it
            continue
        if not declaration.kind.prints_itself:
            value = _shown(declaration.kind, value, lossless, defined)
        found[names.get(key, key) if names else key] = value
    for key, value in form.more.items():
        if found.get(key) is None:
            made = value(eqn) if callable(value) else value
            if made is not None or not callable(value):
                found[key] = made
    for key in form.shown:
        default = declared[key].default if key in declared else None
        if names.get(key, key) not in found and default is not REQUIRED:
            found[names.get(key, key)] = default
    for rewrite in form.rewrite:
        found = rewrite(found, eqn)
    for key in form.mutable & found.keys():
        found[key] = _mutable(found[key])
    return [(k, found[k]) for k in _sorted(first, (*found,))]


def _is_jaxpr_of(key: str, value: Any, keys: Collection[str]) -> bool:
    return key in keys and isinstance(value, ClosedJaxpr)


def _mutable(value: Any) -> Any:
    """Return a list for a tuple, and a set for a frozen one."""
    return [*value] if type(value) is tuple else {*value} if type(value) is frozenset else value


def has_open_results(eqn: JaxprEqn) -> bool:
    """Whether the types of the results do not imply params: a result has no type (nor has it in
    JAX's print), or there is none.
    """
    if not eqn.primitive.recovered:
        return False
    return not eqn.out_binders or any(v.aval is UNTYPED for v in eqn.out_binders)


def _says_nothing(kind: Kind, value: ParamValue, eqn: JaxprEqn) -> bool:
    """Whether a param may be left out for a release that lacks it, without loss.

    A value that `check` refuses has to be printed, or the text would be another program.
    """
    if not kind.is_bookkeeping or not kind.fits(value):
        return False
    sized = isinstance(value, (tuple, list))
    return not (sized and kind.each_operand and len(value) != len(eqn.inputs))


def _is_left_out(declaration: Param, value: ParamValue, lossless: bool, untold: bool) -> bool:
    """Whether the printer leaves out a param with this value."""
    hidden, default = declaration.hidden, declaration.default
    if hidden == "never":
        return False
    if value is default or (hidden == "implied" and not untold):
        return True
    if _same_kind(value, default) and value == default:
        return True
    if hidden == "always":
        return not lossless
    return hidden == "blank" and isinstance(value, (tuple, list)) and not any(value)


def _same_kind(value: Any, default: Any) -> bool:
    """Whether both are of one type; all subclasses of tuple count as one."""
    return type(value) is type(default) or (isinstance(value, tuple) and isinstance(default, tuple))
