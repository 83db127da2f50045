"""Help for files that hold no jaxpr: what they contain, and how to get a jaxpr."""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxprtool.syntax.patterns import pattern

__all__ = ["data_help", "text_help"]


class _Language(NamedTuple):
    """A language: a pattern for the beginning of a line that identifies it, its name, and what to do with it."""

    pattern: re.Pattern[str]
    name: str
    help: str


_FROM_JAX = (
    "a jaxpr comes before it: print(jax.make_jaxpr(f)(*args)), or "
    "`jaxprtool trace file.py:f --shape f32[3]`; there is no way back from "
)


def _language(source: str, name: str, help: str) -> _Language:
    return _Language(pattern(source, re.MULTILINE), name, help)


_HEAD = 20_000  # characters that are looked at
_LANGUAGES = (
    _language(
        r"^[ \t]*(?:module\b.*\{|func\.func\b|#loc\w* *=|(?:%\S+ *= *)?\"?(?:stablehlo|mhlo|chlo)\.)",
        "StableHLO",
        f"{_FROM_JAX}StableHLO",
    ),
    _language(r"^HloModule\b|^[ \t]*ENTRY +%?\S+.*\{[ \t]*$", "HLO", f"{_FROM_JAX}HLO"),
    _language(
        r"^[ \t]*(?:define .*@\S+\(|target triple *=|source_filename *=)",
        "LLVM IR",
        f"{_FROM_JAX}LLVM IR",
    ),
    _language(
        r"^(?:async )?def \w+\(|^class \w+.*:|^import [\w., ]+(?:#.*)?$|^from [\w.]+ import\b",
        "Python source",
        "",
    ),
    _language(r"\A\s*[\[{]\s*\"", "JSON", "a jaxpr begins with `{ lambda`"),
    _language(r"\A\s*<(?:!DOCTYPE|html|\?xml)\b", "HTML or XML", "a jaxpr begins with `{ lambda`"),
    _language(r"^<<<<<<< |^>>>>>>> ", "a file with conflicts of a merge", "resolve them first"),
)
_JAXPR = pattern(r"\{\s*lambda\b")

_MAGIC = (
    (b"ML\xefR", "MLIR bytecode", f"{_FROM_JAX}StableHLO"),
    (b"\x93NUMPY", "a NumPy array", "arrays are values of arguments: --args x.npy"),
    (
        b"PK\x03\x04",
        "a zip archive, or arrays of NumPy's",
        "arrays are values of arguments: --args inputs.npz",
    ),
    (b"\x80\x04\x95", "a pickle of Python's", "pickles are not read; print(jaxpr) writes a text"),
    (b"\x80\x05\x95", "a pickle of Python's", "pickles are not read; print(jaxpr) writes a text"),
    (b"\x89HDF", "an HDF5 file", "a jaxpr is a text"),
    (b"\x7fELF", "machine code", "a jaxpr is a text"),
    (b"\xff\xfe", "a text in UTF-16", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "a text in UTF-16", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
)


def text_help(text: str, name: str) -> tuple[str, str]:
    """Return the language of a text that is no jaxpr, and how to get a jaxpr; empty for an unknown language.

    A text that contains the beginning of a jaxpr is taken for a malformed jaxpr, whatever else it
    looks like.
    """
    head = text[:_HEAD]
    if _JAXPR.search(head) and not head.lstrip().startswith(("import ", "from ", '"""')):
        return "", ""
    found = next((x for x in _LANGUAGES if x.pattern.search(head)), None)
    if found is None:
        return "", ""
    return found.name, found.help or _python_help(head, name)


def _python_help(head: str, name: str) -> str:
    names = re.findall(r"^def\s+(\w+)", head, re.MULTILINE)
    function = names[0] if names else "FUNCTION"
    file = name if name.endswith(".py") else "FILE.py"
    return f"a function of it is traced: jaxprtool trace {file}:{function} --shape f32[3]"


def data_help(data: bytes) -> tuple[str, str]:
    """The format of data that is no text, and how to get a jaxpr; empty for an unknown format."""
    return next(((what, help) for magic, what, help in _MAGIC if data.startswith(magic)), ("", ""))
