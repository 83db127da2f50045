"""Standard input can be read once: every verb of several programs says so, instead of taking the second one for empty."""

from __future__ import annotations

import click
import pytest

from tests.invoke import VERBS, command, invoke

PROGRAM = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
OTHER = {
    "assert",
    "explain",
    "git-setup",
    "grep",
    "repro",
    "snapshot",
}  # their words are no programs, or one is


def _of_several() -> list[str]:
    found: list[str] = []
    for verb in VERBS:
        given = [p for p in command(verb).params if isinstance(p, click.Argument)]
        if verb not in OTHER and (len(given) > 1 or any(p.nargs == -1 for p in given)):
            found.append(verb)
    return found


@pytest.mark.parametrize("verb", _of_several())
def test_standard_input_for_two_programs(verb):
    takes = {o for p in command(verb).params for o in p.opts}
    args = ["--args", "1"] if "--args" in takes else []
    done = invoke([verb, "-", "-", *args], PROGRAM)
    assert done.status == 2 and "standard input" in done.error and "once" in done.error, done
    assert "empty" not in done.error


def test_another_run_reads_its_own():
    for _ in range(2):
        assert invoke(["check", "-"], PROGRAM).status == 0
