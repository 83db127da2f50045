"""What a comparison of programs ignores: `--ignore order|names|weak|consts|shapes|params:KEY`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxprtool.core.kinds.containers import Either, tuple_of
from jaxprtool.core.kinds.functions import neutral_names
from jaxprtool.core.kinds.numbers import (
    DIMENSION,
    INDICES,
    INTEGER,
    PADDING,
    PADDING_CONFIG,
    SHAPE,
    SIZE,
)
from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import Word

__all__ = ["NOTHING_IGNORED", "Ignored", "ignored"]

_WORDS = ("order", "names", "weak", "consts", "shapes")
_PARAMS = "params:"
_WEAK = "weak_type"  # the param that says whether a result is weak
_SIZES = (SHAPE, SIZE, DIMENSION, INDICES, PADDING, PADDING_CONFIG, tuple_of(INTEGER))
_DIMENSIONS = re.compile(r"\[[^\[\]]*\]")


def _weak(program: ClosedJaxpr) -> list[bool]:
    return [bool(getattr(v.aval, "weak_type", False)) for v in program.jaxpr.in_binders]


def _says_weak(program: ClosedJaxpr) -> bool:
    """Whether a program says which of its arguments are weakly typed: a print by JAX, which has no names of arguments either, does not."""
    return program.interface is not None or any(_weak(program))


class Ignored(NamedTuple):
    """What makes no difference.

    Attributes:
      order: the order of equations that can be exchanged: neither reads what the other computes,
        and not both have effects.
      names: the names of functions that are called.
      weak: whether arguments are weakly typed, and params that say so of a result. (The weak types
        of other variables follow from these two, and never make a difference. JAX prints neither;
        where one program is such a print, arguments make none either.)
      consts: the values of constants (not those of literals).
      shapes: shapes in types, and the sizes and indices in params.
      params: the params of these names.
    """

    order: bool = False
    names: bool = False
    weak: bool = False
    consts: bool = False
    shapes: bool = False
    params: frozenset[str] = frozenset()

    @property
    def all_params_count(self) -> bool:
        """Whether every param makes a difference."""
        return not (self.names or self.weak or self.shapes or self.params)

    def equation(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return the equation without the params that make no difference."""
        params: dict[str, Any] = {**eqn.params}
        if self.names:
            params.update(neutral_names(eqn))
        declared = eqn.primitive.params
        for key, value in eqn.params.items():
            kind = declared[key].kind if key in declared else None
            if key in self.params or (self.weak and key == _WEAK) or (self.shapes and _sizes(kind)):
                del params[key]
            elif self.shapes and isinstance(value, AbstractType):
                params[key] = Word(self.type_text(value))
        return eqn.replace(params=params)

    def weak_arguments(self, a: ClosedJaxpr, b: ClosedJaxpr) -> tuple[list[bool], list[bool]]:
        """Return which arguments of two programs are weakly typed; empty lists where that makes no difference, or one does not say so."""
        if self.weak or not (_says_weak(a) and _says_weak(b)):
            return [], []
        return _weak(a), _weak(b)

    def type_text(self, aval: Aval) -> str:
        """Return the text of a type, without its shape where that makes no difference."""
        return _DIMENSIONS.sub("", str(aval)) if self.shapes else str(aval)


NOTHING_IGNORED = Ignored()


def _sizes(kind: Kind | None) -> bool:
    """Whether the values of a kind are sizes, or indices, which follow from sizes."""
    if kind is None:
        return False
    if isinstance(kind, Either):
        return any(map(_sizes, kind.parts))
    return kind in _SIZES


def ignored(words: Iterable[str]) -> Ignored:
    """Return what words ask to ignore: each is `order`, `names`, `weak`, `consts`, `shapes` or `params:KEY`.

    Raises:
      UsageError: a word is none of these.
    """
    flags: dict[str, bool] = {}
    params: set[str] = set()
    for word in words:
        if word in _WORDS:
            flags[word] = True
        elif word.startswith(_PARAMS) and word != _PARAMS:
            params.add(word.removeprefix(_PARAMS))
        else:
            known = ", ".join([*_WORDS, f"{_PARAMS}KEY"])
            help = f"it is one of {known}"
            fail(UsageError, f"a comparison cannot ignore {word!r}", "bad-usage", help=help)
    return Ignored(**flags, params=frozenset(params))
