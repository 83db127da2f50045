"""Each target for a few seconds; `python -m tests.fuzz --seconds 600` goes on for longer."""

from __future__ import annotations

import pytest

from tests.fuzz.target import Target, all_targets, run_target

TARGETS = all_targets()
SECONDS = 30 / max(len(TARGETS), 1)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_target(target: Target) -> None:
    run_target(target, SECONDS, seed=0)
