"""Blocks of params in brackets that are read at once: those of plain values, and those whose text was read before.

After the same primitive the same text has the same tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from jaxprtool.core.primitive import find_primitive, known_primitive
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.earlier import OLDER, is_older
from jaxprtool.syntax.scanning.values import free_params
from jaxprtool.syntax.tokens import IDENT, LAMBDA, PLAIN_VALUE, Token

__all__ = ["Block", "Blocks"]

_PARAM = rf"{IDENT}={PLAIN_VALUE}"
_PLAIN = pattern(  # on one line, or one below the other as JAX writes them
    rf"\[(?:{_PARAM}(?: {_PARAM})*+|\n  ( *+){_PARAM}(?:\n  \1{_PARAM})*+\n\1)\]"
)
_PAIR = pattern(rf"({IDENT})=({PLAIN_VALUE})")
_WORDS = pattern(IDENT)
_LAMBDA = pattern(LAMBDA)
_MOST = 8  # remembered blocks to try after each primitive
_LONGEST = 500  # characters


class Block:
    """Params in brackets.

    Attributes:
      text: from `[` to `]`.
      start: its offset where it was read first.
      repeatable: whether it means the same wherever it stands after the same primitive.
    """

    __slots__ = ("_params", "repeatable", "start", "text")

    def __init__(self, text: str, start: int, params: list[tuple[Token, Token]] | None = None):
        self.text, self.start, self.repeatable = text, start, False
        self._params = params

    @property
    def params(self) -> list[tuple[Token, Token]]:
        """The keys and the values, with their offsets where the block was read first."""
        if self._params is None:
            by = self.start
            self._params = [
                (
                    ("KEY", m[1], by + m.start(), by + m.start(2)),
                    ("VALUE", m[2], by + m.start(2), by + m.end()),
                )
                for m in _PAIR.finditer(self.text)
            ]
        return self._params


@lru_cache
def _says_its_end(primitive: str) -> bool:
    """Whether the end of a primitive's params follows from their text alone."""
    found = find_primitive(primitive)
    older = OLDER.get(primitive)
    if not found.known or (older is not None and not (older.foreign or older.told_by)):
        return False
    return all(p.kind.spelling == "value" for p in found.params.values())


@lru_cache
def _takes_plain(primitive: str) -> bool:
    """Whether values of a primitive's params that look plain are: it is declared, and has no free text."""
    return known_primitive(primitive) is not None and not free_params(primitive)


def _pairs(tokens: Iterable[Token]) -> Iterator[tuple[Token, Token]]:
    """Yield keys and values, given the tokens between brackets that hold no jaxprs."""
    rest = iter(tokens)
    for token in rest:
        if token[0] == "PAIRS":
            yield from token[1]
        else:
            yield token, next(rest)


class Blocks:
    """The blocks of params of one text.

    `names` are those of the definitions in the text, to which a value may refer; with `odd`, some
    contain blanks or brackets.
    """

    def __init__(self, text: str, names: set[str], odd: bool):
        self.text, self.names, self.odd = text, names, odd
        self._plain: dict[tuple[str, str], Block] = {}
        # blocks that are not plain, by the primitive before them
        self._last: dict[str, list[Block]] = {}

    def at(self, primitive: str, pos: int) -> Block | None:
        """Return the block whose text stands at an offset; None where the params have to be read one by one."""
        for block in self._last.get(primitive, ()):
            if self.text.startswith(block.text, pos):
                return block
        if self.odd or not _takes_plain(primitive):
            return None
        m = _PLAIN.match(self.text, pos)
        if m is None:
            return None
        text = m[0]
        block = self._plain.get((primitive, text))
        if block is None:
            block = Block(text, pos)
            if self._is_repeatable(primitive, block):
                self._plain[primitive, text] = block
        return block

    def _is_repeatable(self, primitive: str, block: Block) -> bool:
        """Whether params mean the same wherever they stand: they name no definition, and are in the
        current spelling.
        """
        if not _says_its_end(primitive):
            return False
        if self.names and not self.names.isdisjoint(_WORDS.findall(block.text)):
            return False
        older = primitive in OLDER
        keys = [key[1] for key, _ in block.params] if older else ()
        block.repeatable = not (older and is_older(find_primitive(primitive), keys))
        return block.repeatable

    def keep(self, primitive: str, start: int, end: int, inside: list[Token]) -> None:
        """Remember params that were read one by one, if the same text would mean the same again.

        Args:
          primitive: the primitive of the params.
          start, end: the offsets of `[` and after `]`.
          inside: the tokens between the two.
        """
        if end - start > _LONGEST:
            return
        text = self.text[start:end]
        if "lambda" in text and _LAMBDA.search(text):
            return
        block = Block(text, start, [*_pairs(inside)])
        if self._is_repeatable(primitive, block):
            self._last[primitive] = [block, *self._last.get(primitive, ())][:_MOST]
