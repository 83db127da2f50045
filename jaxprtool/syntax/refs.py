"""Equations on mutable references: `a:f32[] <- r[0]`, `r[i:i+4,:] <- v`, `r[...] += v`.

In the IR their primitives are those with a `notation` (`get`, `swap`, `addupdate`), with the inputs
(ref, value, *index variables, mask, other), as in JAX. The index is the param `index`, a
`RefIndex`. Equations of Pallas in forms of their own are kept as text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.primitive import find_primitive, vocabulary
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.jaxpr import DropVar, JaxprEqn, Primitive, Var
from jaxprtool.ir.params import Opaque, spelled
from jaxprtool.ir.references import (
    Bitcast,
    Fragments,
    Indexer,
    Item,
    Operand,
    RefIndex,
    Reshape,
    Slice,
    Step,
    Transpose,
)
from jaxprtool.ir.settled import settled
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tokens import IDENT, LOOSE_BINDER, NUMBER_WORDS, STORED

__all__ = [
    "PATH",
    "RAW_EQUATION",
    "Reference",
    "format_reference",
    "read_reference",
]

# Equations of Pallas that have forms of their own; they are kept as text around the variables in it.
RAW_EQUATION = (
    r"(?:dma_start(?:\([^()\n]*+\))?+|dma_wait|semaphore_signal|semaphore_wait(?:\[dec\])?|barrier_(?:arrive|wait|test)"
    r"|wgmma_ref|copy_(?:smem_to_gmem|gmem_to_smem)(?:\[[^\]\n]*+\])?) [^\s=;]++(?:(?! in ++\()[^\n;])*+"
)
_RAW = pattern(rf"(?={RAW_EQUATION})([a-z_]+)(.*)")
# A view as 0.4.34 to 0.5.3 print it: `[reshape(float32[4,2,128])]`.
_VIEW = r"\[(?:bitcast|reshape|transpose)\([^()\[\]\n]*+(?:\[[^()\[\]\n]*+\])?+\)\]"
# The indices and views after the name of a reference.
PATH = rf"(?:{_VIEW}|\[(?:[^\[\],\n]++(?:,[^\[\],\n]++)*+)?+\]|\{{[^{{}}\n]*+\}})++"
_FLAGS = r"(?: mask=(?P<mask>\S++))?(?: other=(?P<other>\S++))?"
_FORMS = (
    ("read", pattern(rf"(?P<out>{LOOSE_BINDER}) <- (?P<ref>{IDENT})(?P<path>{PATH}){_FLAGS}")),
    (
        "write",
        pattern(
            rf"(?P<out>{LOOSE_BINDER}), {IDENT}{PATH} <- "
            rf"(?P<ref>{IDENT})(?P<path>{PATH}), (?P<value>{STORED}){_FLAGS}"
        ),
    ),
    (
        "write",
        pattern(rf"(?P<ref>{IDENT})(?P<path>{PATH}) <- (?P<value>{STORED}){_FLAGS}(?P<out>)"),
    ),
    (
        "accumulate",
        pattern(rf"(?P<ref>{IDENT})(?P<path>{PATH}) \+= (?P<value>{STORED}){_FLAGS}(?P<out>)"),
    ),
)
_VARIABLE = pattern(rf"(?<![\w.])({IDENT})")
_STEP = pattern(rf"{_VIEW}|\[[^\]]*+\]|\{{[^}}]*+\}}")
_IS_VIEW = pattern(_VIEW)
_WORD, _NUMBER = pattern(IDENT), pattern(r"-?\d{1,18}")
_SLICE = pattern(
    rf"(?P<start>\d{{1,18}}|{IDENT})?+:"
    rf"(?:(?P<stop>\d{{1,18}})(?!\+)|(?P=start)\+(?P<length>\d{{1,18}}|{IDENT})|(?P<size>{IDENT}))?"
    r"(?::(?P<stride>[1-9]\d{0,17}))?"
)
_TRANSFORM = pattern(
    rf"\{{(?P<name>reshape|transpose|bitcast)\((?P<dtype>(?:{IDENT})?)"
    r"\[?(?P<dims>(?:-?\d{1,18}(?:, ?-?\d{1,18})*+,?)?)\]*\)\}"
)
_MARK = pattern(r"\$(\d+)")


class Reference(NamedTuple):
    """The parts of an equation on a reference; the result and the operands as text."""

    primitive: Primitive
    out: str
    operands: list[str]
    params: dict[str, Any]


@functools.cache
def _noted() -> dict[str, Primitive]:
    """Return the primitives that have a notation: notation -> primitive."""
    return {p.notation: p for p in vocabulary().values() if p.notation}


def read_reference(text: str, bound: Container[str]) -> Reference | None:
    """Split an equation on a reference into its parts; None when it has another form.

    `bound` are the variables in scope, which distinguish a variable from other words.
    """
    if m := _RAW.fullmatch(text):
        index, variables = _split_words(m[2], bound)
        return Reference(find_primitive(m[1]), "", variables, {"index": index})
    for notation, form in _FORMS:
        if m := form.fullmatch(text):
            parts = m.groupdict()
            index, variables = _read_index(parts["path"])
            if any(v in NUMBER_WORDS and v not in bound for v in variables):
                return None
            operands = [parts["ref"], *([parts["value"]] if "value" in parts else []), *variables]
            params: dict[str, Any] = {"index": index}
            for flag in ("mask", "other"):
                if parts[flag]:
                    operands.append(parts[flag])
                    params[flag] = True
            return Reference(_noted()[notation], parts["out"], operands, params)
    return None


def _split_words(text: str, bound: Container[str]) -> tuple[Fragments, list[str]]:
    """Return the text around the variables in it, and the variables; each occurrence of one is the same operand."""
    pieces: list[str | Operand] = []
    variables: list[str] = []
    for piece in _VARIABLE.split(text):
        if piece in bound:
            if piece not in variables:
                variables.append(piece)
            pieces.append(Operand(variables.index(piece)))
        elif piece:
            pieces.append(piece)
    return Fragments(*pieces), variables


# -- indices -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _read_index(path: str) -> tuple[RefIndex, tuple[str, ...]]:
    """Return the index that a text spells, and the words in it that are its operands: for `[i:i+4,j]` ("i", "j")."""
    words: list[str] = []
    steps: list[Step] = []
    marked, readable = "", "$" not in path
    for text in _STEP.findall(path):
        if _IS_VIEW.fullmatch(text):
            text = f"{{{text[1:-1]}}}"
        if text[0] == "{":
            steps.append(_read_transform(text) if readable else Opaque(text))
        elif text != "[...]" or not readable:
            parts = text[1:-1].split(",") if text != "[]" else []
            read = _read_item if readable else _read_fragments
            items = [read(part, words) for part in parts]
            steps.append(Indexer(tuple([item for item, _ in items])))
            text = f"[{','.join([mark for _, mark in items])}]"
        marked += text
    index = RefIndex(*steps)
    return (spelled(index, marked) if readable else index), tuple(words)


def _read_item(text: str, words: list[str]) -> tuple[Item, str]:
    """Return the index of one dimension, and its text with `$0` for operand 0; append its operands to `words`."""
    stripped, first = text.strip(), len(words)
    if _NUMBER.fullmatch(stripped):
        return int(stripped), text
    item = _read_slice(m, words) if (m := _SLICE.fullmatch(stripped)) else None
    if _WORD.fullmatch(stripped):
        item = _operand(stripped, words)
    if item is None:
        return _read_fragments(text, words)
    marks = {word: f"${k}" for k, word in enumerate(words[first:], first)}
    return item, _VARIABLE.sub(lambda word: marks[word[0]], text) if marks else text


def _read_fragments(text: str, words: list[str]) -> tuple[Fragments, str]:
    """Return the index of one dimension in an unknown form, as `_read_item` does."""
    split = enumerate(_VARIABLE.split(text))
    found = Fragments(*[_operand(p, words) if i % 2 else p for i, p in split if p])
    return found, str(found)


def _operand(word: str, words: list[str]) -> Operand:
    words.append(word)
    return Operand(len(words) - 1)


def _read_slice(m: re.Match[str], words: list[str]) -> Slice | None:
    """Return a slice; None for one that begins or ends in a way that JAX does not print."""
    start, stop, length, size, stride = m.group("start", "stop", "length", "size", "stride")
    dynamic = bool(start) and not start.isdecimal()
    if (dynamic and length is None) or (start and size):
        return None
    first = _operand(start, words) if dynamic else int(start or 0)
    size, step = length or size, int(stride or 1)
    if size is not None and not size.isdecimal():
        return Slice(first, _operand(size, words), step)
    if size is None and stop is None:
        return Slice(first, None, step)
    span = int(stop) - int(start or 0) if size is None else int(size)
    return Slice(first, -(-span // step), step)


def _read_transform(text: str) -> Step:
    """Return the step in braces: `{reshape([4, 2])}`, in earlier releases `{reshape(float32[4, 2])}`."""
    if m := _TRANSFORM.fullmatch(text):
        dims = tuple([int(d) for d in m["dims"].split(",") if d.strip()]) if m["dims"] else ()
        dtype = find_dtype(m["dtype"])
        if m["name"] == "bitcast" and dtype is not None:
            return Bitcast(dtype)
        if m["name"] == "reshape" and (dtype is not None or not m["dtype"]):
            return Reshape(dims)
        if m["name"] == "transpose" and not m["dtype"]:
            return Transpose(dims)
    return Opaque(text)


def _index_text(index: RefIndex, names: Sequence[str]) -> str:
    """Return the text of an index with these names for its operands, as it was spelled where it was read."""
    if index.spelled:
        return _MARK.sub(lambda m: names[int(m[1])], index.spelled)
    return index.text(names)


def format_reference(
    eqn: JaxprEqn,
    atom: Callable[[Any], str],
    binder: Callable[[Any], str],
    written_long: Container[Var] = (),
    whole: str = "",
) -> str | None:
    """Return the text of an equation on a reference; None when its form could not be read back.

    The value that a write replaces is bound in the text unless it is dropped; `written_long` are
    dropped ones that are bound nevertheless. The index of a whole cell is written as it was read,
    or as `whole`: `:` for each dimension, or `...`.
    """
    index = eqn.params.get("index")
    if not isinstance(index, (RefIndex, Fragments)):
        return None
    if isinstance(index, Fragments):
        return eqn.primitive.name + index.text([atom(x) for x in eqn.inputs])
    eqn = settled(eqn)
    index, names = eqn.params["index"], [atom(x) for x in eqn.inputs]
    notation = eqn.primitive.notation
    first = 1 if notation == "read" else 2
    if whole and index.is_whole:
        cell = eqn.inputs[0].aval
        ndim = getattr(getattr(cell, "inner", cell), "ndim", None)
        ref = f"{names[0]}[{'...' if whole != ':' or ndim is None else ','.join(whole * ndim)}]"
    else:
        ref = names[0] + _index_text(index, names[first:])
    flags = [f for f in ("mask", "other") if eqn.params.get(f)]
    extra = "".join(
        f" {f}={n}" for f, n in zip(flags, names[len(names) - len(flags) :], strict=True)
    )
    if notation == "accumulate":
        return f"{ref} += {names[1]}{extra}"
    out = eqn.out_binders[0]
    if notation == "read":
        return f"{binder(out)} <- {ref}{extra}"
    if isinstance(out, DropVar) and out not in written_long:
        return f"{ref} <- {names[1]}{extra}"
    return f"{binder(out)}, {ref} <- {ref}, {names[1]}{extra}"
