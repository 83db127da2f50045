"""Options that are numbers: one that means nothing, NaN or below 0, is refused by every verb that has it."""

from __future__ import annotations

import click
import numpy as np
import pytest

import jaxprtool as jt
from tests.invoke import VERBS, command, invoke

PROGRAM = "{ lambda ; a:f32[3]. let b:f32[3] = mul a a; c:f32[] = reduce_sum[axes=(0,)] b in (c,) }"
OTHER = PROGRAM.replace("mul a a", "mul a 2.0:f32[]")
# What a verb is called with besides, so that the option acts.
BESIDE = {
    "cost": ["--peak-flops", "1e12", "--bandwidth", "1e12"],
    "fuzz": ["--check", "numpy"],
    "reduce": ["--differs", "numpy,xla"],
}
TWO_PROGRAMS = ("compare", "equiv", "diff")
ELSEWHERE = {
    "--process-id",
    "--num-processes",
    "--connect-timeout",
}  # they wait for other processes


def _numeric(*kinds: str) -> list[tuple[str, str]]:
    """The options with values of these kinds, with their verbs."""
    found: list[tuple[str, str]] = []
    for verb in sorted(VERBS):
        for param in command(verb).params:
            if isinstance(param, click.Option) and param.type.name in kinds:
                found += [
                    (verb, o) for o in param.opts if o not in ELSEWHERE and o.startswith("--")
                ]
    return found


def _call(tmp_path, verb: str, option: str, value: str):
    files = [tmp_path / "a.jaxpr", tmp_path / "b.jaxpr"]
    files[0].write_text(PROGRAM)
    files[1].write_text(OTHER)
    takes = {o for p in command(verb).params for o in p.opts}
    args = ["--args", "ramp"] if "--args" in takes else []
    given = [] if verb == "fuzz" else files if verb in TWO_PROGRAMS else files[:1]
    beside = [] if option == "--slow" else BESIDE.get(verb, [])
    after = ["-o", str(tmp_path / "bug.zip"), "--", "run"] if verb == "repro" else []
    return invoke([verb, *map(str, given), *beside, option, value, *args, *after])


@pytest.mark.parametrize(("verb", "option"), _numeric("float", "float range"))
def test_a_nan_is_refused(verb, option, tmp_path):
    done = _call(tmp_path, verb, option, "nan")
    assert done.status == 2 and "nan" in done.error and "Traceback" not in done.error
    assert option.strip("-") in done.error


@pytest.mark.parametrize(
    ("verb", "option"), _numeric("float", "float range", "integer", "integer range")
)
def test_a_number_below_0_is_refused(verb, option, tmp_path):
    done = _call(tmp_path, verb, option, "-1")
    assert done.status == 2 and "-1" in done.error, (done.output, done.error)
    assert option.strip("-") in done.error


@pytest.mark.parametrize("name", ["rtol", "atol", "ulp"])
def test_in_python_a_tolerance_of_nan_is_refused(name):
    a, b, x = jt.parse(PROGRAM), jt.parse(OTHER), np.ones(3, np.float32)
    with pytest.raises(jt.UsageError, match=f"{name} is a number from 0 on, and not nan"):
        jt.compare(a, b, x, **{name: float("nan")})
    if name != "ulp":
        with pytest.raises(jt.UsageError, match=f"{name} is a number from 0 on"):
            jt.equiv(a, b, x, **{name: float("nan")})
        with pytest.raises(jt.UsageError, match=f"{name} is a number from 0 on"):
            jt.gradcheck(a, x, **{name: -1.0})


def test_in_python_a_seed_below_0_is_refused():
    a, b, x = jt.parse(PROGRAM), jt.parse(OTHER), np.ones(3, np.float32)
    for ask in (lambda: jt.equiv(a, b, seed=-1), lambda: jt.gradcheck(a, x, seed=-1)):
        with pytest.raises(jt.UsageError, match="seed is a number from 0 on, and not -1"):
            ask()
