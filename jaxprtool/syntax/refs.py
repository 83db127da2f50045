"""Equations on mutable references: `a:f32[] <- r[0]`, `r[i:i+4,:] <- v`, `r[...] += v`.

In the IR they are `get`, `swap` and `addupdate` with the inputs (ref, value, *index variables, mask, other), as in JAX.
The index is the param `index`: a tuple of pieces of text and of numbers, a number standing for that index variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any, NamedTuple

from jaxprtool.ir.jaxpr import DropVar, JaxprEqn
from jaxprtool.syntax.tokens import IDENT, LOOSE_BINDER, STORED

__all__ = [
    "RAW_EQUATION",
    "REFERENCE_PRIMITIVES",
    "Reference",
    "format_reference",
    "read_reference",
]

REFERENCE_PRIMITIVES = frozenset({"get", "swap", "addupdate"})

# Equations of Pallas that have forms of their own; they are kept as text around the variables in it.
RAW_EQUATION = (
    r"(?:dma_start\([^()\n]*+\)|dma_wait|semaphore_signal|semaphore_wait(?:\[dec\])?|barrier_(?:arrive|wait|test)"
    r"|wgmma_ref|copy_(?:smem_to_gmem|gmem_to_smem)(?:\[[^\]\n]*+\])?) [^\s=;]++[^\n;]*+"
)
_RAW = re.compile(rf"(?={RAW_EQUATION})([a-z_]+)(.*)")
_PATH = r"(?:\[(?:[^\[\],\n]++(?:,[^\[\],\n]++)*+)?+\]|\{[^{}\n]*+\})++"
_FLAGS = r"(?: mask=(?P<mask>\S++))?(?: other=(?P<other>\S++))?"
_FORMS = (
    ("get", re.compile(rf"(?P<out>{LOOSE_BINDER}) <- (?P<ref>{IDENT})(?P<path>{_PATH}){_FLAGS}")),
    (
        "swap",
        re.compile(
            rf"(?P<out>{LOOSE_BINDER}), {IDENT}{_PATH} <- "
            rf"(?P<ref>{IDENT})(?P<path>{_PATH}), (?P<value>{STORED}){_FLAGS}"
        ),
    ),
    (
        "swap",
        re.compile(rf"(?P<ref>{IDENT})(?P<path>{_PATH}) <- (?P<value>{STORED}){_FLAGS}(?P<out>)"),
    ),
    (
        "addupdate",
        re.compile(rf"(?P<ref>{IDENT})(?P<path>{_PATH}) \+= (?P<value>{STORED}){_FLAGS}(?P<out>)"),
    ),
)
_BRACKETS = re.compile(r"(\[[^\]]*\])")
_VARIABLE = re.compile(rf"(?<![\w.])({IDENT})")


class Reference(NamedTuple):
    """The parts of an equation on a reference, as text."""

    primitive: str
    out: str
    operands: list[str]
    params: dict[str, Any]


_LITERALS = frozenset({"True", "False", "inf", "nan"})  # which are no indices


def read_reference(text: str, bound: Container[str]) -> Reference | None:
    """Take an equation on a reference apart; None when it has another form.

    `bound` are the variables in scope, which tell a variable from other words.
    """
    if m := _RAW.fullmatch(text):
        pieces, variables = _split_words(m[2], bound)
        return Reference(m[1], "", variables, {"index": pieces})
    for primitive, form in _FORMS:
        if m := form.fullmatch(text):
            parts = m.groupdict()
            index, variables = _split_index(parts["path"])
            if any(v in _LITERALS and v not in bound for v in (parts["ref"], *variables)):
                return None
            operands = [parts["ref"], *([parts["value"]] if "value" in parts else []), *variables]
            params: dict[str, Any] = {"index": index}
            for flag in ("mask", "other"):
                if parts[flag]:
                    operands.append(parts[flag])
                    params[flag] = True
            return Reference(primitive, parts["out"], operands, params)
    return None


def _split_words(text: str, bound: Container[str]) -> tuple[tuple[Any, ...], list[str]]:
    """Text around the variables in it, as `_split_index` has it."""
    pieces: list[Any] = []
    variables: list[str] = []
    for piece in _VARIABLE.split(text):
        if piece in bound:
            if piece not in variables:
                variables.append(piece)
            pieces.append(variables.index(piece))
        elif piece:
            pieces.append(piece)
    return tuple(pieces), variables


def _split_index(path: str) -> tuple[tuple[Any, ...], list[str]]:
    """`[i:i+4,:]` to (("[", 0, ":", 0, "+4,:]"), ["i"])."""
    pieces: list[Any] = []
    variables: list[str] = []
    for i, section in enumerate(_BRACKETS.split(path)):
        if i % 2 == 0:
            pieces += [section] if section else []
            continue
        for j, piece in enumerate(_VARIABLE.split(section)):
            if j % 2 == 0:
                pieces += [piece] if piece else []
                continue
            if piece not in variables:
                variables.append(piece)
            pieces.append(variables.index(piece))
    return tuple(pieces), variables


def format_reference(
    eqn: JaxprEqn, atom: Callable[[Any], str], binder: Callable[[Any], str]
) -> str | None:
    """The text of an equation on a reference; None when it is not of the form that we read."""
    index = eqn.params.get("index")
    if not isinstance(index, tuple):
        return None
    names = [atom(x) for x in eqn.inputs]
    if eqn.primitive.name not in REFERENCE_PRIMITIVES:
        text = "".join(names[p] if isinstance(p, int) else p for p in index)
        return eqn.primitive.name + text
    first = 1 if eqn.primitive.name == "get" else 2
    path = "".join(names[first + p] if isinstance(p, int) else p for p in index)
    ref = names[0] + path
    flags = [f for f in ("mask", "other") if eqn.params.get(f)]
    extra = "".join(
        f" {f}={n}" for f, n in zip(flags, names[len(names) - len(flags) :], strict=True)
    )
    if eqn.primitive.name == "addupdate":
        return f"{ref} += {names[1]}{extra}"
    out = eqn.out_binders[0]
    if eqn.primitive.name == "get":
        return f"{binder(out)} <- {ref}{extra}"
    if isinstance(out, DropVar):
        return f"{ref} <- {names[1]}{extra}"
    return f"{binder(out)}, {ref} <- {ref}, {names[1]}{extra}"
