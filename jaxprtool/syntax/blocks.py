"""Params in brackets whose text comes again: after the same primitive the same text has the same tokens."""

from __future__ import annotations

from functools import lru_cache

from jaxprtool.core.primitive import PRIMITIVES, find_primitive
from jaxprtool.syntax.earlier_releases import OLDER, is_older
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tokens import IDENT, LAMBDA, Token

__all__ = ["Block", "Blocks"]

_WORDS = pattern(IDENT)
_LAMBDA = pattern(LAMBDA)
_MOST = 8  # blocks that are looked for after each primitive
_LONGEST = 500  # characters


class Block:
    """Params in brackets.

    Attributes:
      text: from `[` to `]`.
      start: where it was read first.
      params: the keys and the values between the brackets there.
    """

    __slots__ = ("params", "start", "text")

    def __init__(self, text: str, start: int, params: list[tuple[Token, Token]]):
        self.text, self.start, self.params = text, start, params


@lru_cache
def _says_its_end(primitive: str) -> bool:
    """Whether the text of a primitive's params says by itself where it ends."""
    found = find_primitive(primitive)
    older = OLDER.get(primitive)
    if not found.known or (older is not None and not older.foreign):
        return False
    return all(p.kind.spelling == "value" for p in found.params.values())


class Blocks:
    """The params that were read last after each primitive, if they say by themselves where they end, and refer to nothing else."""

    def __init__(self, text: str):
        self.text = text
        self._found: dict[str, list[Block]] = {}

    def at(self, primitive: str, pos: int) -> Block | None:
        """The block whose text stands at an offset; None where none does."""
        for block in self._found.get(primitive, ()):
            if self.text.startswith(block.text, pos):
                return block
        return None

    def keep(
        self,
        primitive: str,
        start: int,
        end: int,
        tokens: list[Token],
        first: int,
        names: set[str],
    ) -> None:
        """Remember params that were read, where the same text means the same again.

        Args:
          primitive: that the params belong to.
          start, end: the offsets of `[` and after `]`.
          tokens: of the text so far; those of the params begin with number `first`, and `]` is the last one.
          names: of definitions, to which a value may refer.
        """
        if end - start > _LONGEST or not _says_its_end(primitive):
            return
        text = self.text[start:end]
        if names and not names.isdisjoint(_WORDS.findall(text)):
            return
        if "lambda" in text and _LAMBDA.search(text):
            return
        inside = tokens[first:-1]
        if primitive in OLDER and is_older(PRIMITIVES[primitive], [t[1] for t in inside[::2]]):
            return
        block = Block(text, start, list(zip(inside[::2], inside[1::2], strict=True)))
        self._found[primitive] = [block, *self._found.get(primitive, ())][:_MOST]
