"""Equations on mutable references: `a:f32[] <- r[0]`, `r[i:i+4,:] <- v`, `r[...] += v`.

In the IR they are those of the primitives with a `notation` (`get`, `swap`, `addupdate`), with the inputs (ref, value, *index variables, mask, other), as in JAX.
The index is the param `index`: a tuple of pieces of text and of numbers, a number standing for that index variable.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container
from typing import Any, NamedTuple

from jaxprtool.core.primitive import PRIMITIVES, find_primitive
from jaxprtool.ir.jaxpr import DropVar, JaxprEqn, Primitive
from jaxprtool.syntax.tokens import IDENT, LOOSE_BINDER, NUMBER_WORDS, STORED

__all__ = [
    "RAW_EQUATION",
    "Reference",
    "format_reference",
    "read_reference",
]

# Equations of Pallas that have forms of their own; they are kept as text around the variables in it.
RAW_EQUATION = (
    r"(?:dma_start\([^()\n]*+\)|dma_wait|semaphore_signal|semaphore_wait(?:\[dec\])?|barrier_(?:arrive|wait|test)"
    r"|wgmma_ref|copy_(?:smem_to_gmem|gmem_to_smem)(?:\[[^\]\n]*+\])?) [^\s=;]++[^\n;]*+"
)
_RAW = re.compile(rf"(?={RAW_EQUATION})([a-z_]+)(.*)")
_PATH = r"(?:\[(?:[^\[\],\n]++(?:,[^\[\],\n]++)*+)?+\]|\{[^{}\n]*+\})++"
_FLAGS = r"(?: mask=(?P<mask>\S++))?(?: other=(?P<other>\S++))?"
_FORMS = (
    ("read", re.compile(rf"(?P<out>{LOOSE_BINDER}) <- (?P<ref>{IDENT})(?P<path>{_PATH}){_FLAGS}")),
    (
        "write",
        re.compile(
            rf"(?P<out>{LOOSE_BINDER}), {IDENT}{_PATH} <- "
            rf"(?P<ref>{IDENT})(?P<path>{_PATH}), (?P<value>{STORED}){_FLAGS}"
        ),
    ),
    (
        "write",
        re.compile(rf"(?P<ref>{IDENT})(?P<path>{_PATH}) <- (?P<value>{STORED}){_FLAGS}(?P<out>)"),
    ),
    (
        "accumulate",
        re.compile(rf"(?P<ref>{IDENT})(?P<path>{_PATH}) \+= (?P<value>{STORED}){_FLAGS}(?P<out>)"),
    ),
)
_BRACKETS = re.compile(r"(\[[^\]]*\])")
_VARIABLE = re.compile(rf"(?<![\w.])({IDENT})")


class Reference(NamedTuple):
    """The parts of an equation on a reference; the result and the operands as text."""

    primitive: Primitive
    out: str
    operands: list[str]
    params: dict[str, Any]


@functools.cache
def _noted() -> dict[str, Primitive]:
    """The primitives that have a notation, by that."""
    return {p.notation: p for p in PRIMITIVES.values() if p.notation}


def read_reference(text: str, bound: Container[str]) -> Reference | None:
    """Take an equation on a reference apart; None when it has another form.

    `bound` are the variables in scope, which tell a variable from other words.
    """
    if m := _RAW.fullmatch(text):
        pieces, variables = _split_words(m[2], bound)
        return Reference(find_primitive(m[1]), "", variables, {"index": pieces})
    for notation, form in _FORMS:
        if m := form.fullmatch(text):
            parts = m.groupdict()
            index, variables = _split_index(parts["path"])
            if any(v in NUMBER_WORDS and v not in bound for v in (parts["ref"], *variables)):
                return None
            operands = [parts["ref"], *([parts["value"]] if "value" in parts else []), *variables]
            params: dict[str, Any] = {"index": index}
            for flag in ("mask", "other"):
                if parts[flag]:
                    operands.append(parts[flag])
                    params[flag] = True
            return Reference(_noted()[notation], parts["out"], operands, params)
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
    notation = eqn.primitive.notation
    if not notation:
        text = "".join(names[p] if isinstance(p, int) else p for p in index)
        return eqn.primitive.name + text
    first = 1 if notation == "read" else 2
    path = "".join(names[first + p] if isinstance(p, int) else p for p in index)
    ref = names[0] + path
    flags = [f for f in ("mask", "other") if eqn.params.get(f)]
    extra = "".join(
        f" {f}={n}" for f, n in zip(flags, names[len(names) - len(flags) :], strict=True)
    )
    if notation == "accumulate":
        return f"{ref} += {names[1]}{extra}"
    out = eqn.out_binders[0]
    if notation == "read":
        return f"{binder(out)} <- {ref}{extra}"
    if isinstance(out, DropVar):
        return f"{ref} <- {names[1]}{extra}"
    return f"{binder(out)}, {ref} <- {ref}, {names[1]}{extra}"
