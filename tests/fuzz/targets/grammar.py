"""Texts mutated and cut: Lark's reader of `grammar/jaxpr.lark` and the fast reader agree."""

from __future__ import annotations

import random

from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets import mutated_text
from tests.syntax.two_readers import difference


def draw(rng: random.Random) -> str:
    """A text with a few pieces changed, or cut somewhere."""
    if rng.random() < 0.2:
        text = choose(rng, mutated_text.all_texts())
        return text[: rng.randrange(len(text))]
    return mutated_text.draw(rng)


def check(text: str) -> None:
    if found := difference(text):
        raise Failure(found)


TARGET = Target("grammar", draw, check)
