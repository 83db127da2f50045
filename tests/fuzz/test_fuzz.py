"""Each target for a few seconds; `python -m tests.fuzz --seconds 600` goes on for longer."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.choice import choose
from tests.fuzz.target import Target, all_targets, run_target

TARGETS = all_targets()
SECONDS = 30 / max(len(TARGETS), 1)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_target(target: Target) -> None:
    run_target(target, SECONDS, seed=0)


def test_another_text_leaves_the_draws_of_the_others() -> None:
    few = [f"text {i}" for i in range(20)]
    before = [choose(random.Random(seed), few) for seed in range(500)]
    after = [choose(random.Random(seed), [*few, "another"]) for seed in range(500)]
    changed = [b for a, b in zip(before, after, strict=True) if a != b]
    assert set(changed) == {"another"}
    assert set(before) == set(few)
    assert len(changed) < 100
