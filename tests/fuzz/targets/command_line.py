"""Any words after `jaxprtool` end with a status of the table: a mistake is a message, never a fault of ours."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import click

from tests.fuzz.target import Failure, Target
from tests.invoke import VERBS, command, invoke

PROGRAMS = (
    "{ lambda ; w1:f32[3] b1:f32[]. let\n    c:f32[3] = mul w1 b1\n"
    "    e:f32[] = reduce_sum[axes=(0,) out_sharding=None] c\n  in (e,) }\n",
    "{ lambda w:f32[2] v:f32[]; a:f32[2] n:i32[]. let b:f32[2] = mul w a in (b, n) }\nwhere w = [1, 2]\n",
    "known = { lambda ; a:f32[3]. let in (a,) }\nunknown = { lambda ; . let in (1.0:f32[],) }\n",
    "{ lambda ; . let in () }\n",
    "",
)
# Options that write files, run commands or modules, or wait for other processes.
_ACTING = frozenset((
    "-o", "--output", "--consts", "--residuals-to", "--save-values", "--keep-good", "--test", "--crash", "--plugin",
    "--from-dump", "--coordinator", "--num-processes", "--process-id", "--devices", "-j", "--jobs", "--in-place", "--fix", "--html",
))  # fmt: skip

_CHANGING = frozenset(("git-setup",))  # verbs that change the folder which the tests run in


def _options() -> dict[str, list[str]]:
    """The options of each verb, and those of them all under ""."""
    found = {verb: [*_spelled(command(verb))] for verb in VERBS if verb not in _CHANGING}
    return {"": sorted({o for options in found.values() for o in options}), **found}


def _spelled(verb: click.Command) -> Iterator[str]:
    for param in verb.params:
        if isinstance(param, click.Option):
            yield from (o for o in (*param.opts, *param.secondary_opts) if o not in _ACTING)


OPTIONS = _options()
WORDS = (
    "0", "-1", "0-3", "3-0", "0-99999999999", "w1", "w1,b1", "w1.x", "9" * 30, "9" * 5000, "", ",", "x=0", "w1=0,b1=-",
    '{"w1": 0}', "{", "[1,", "[1, 2]", "1,2", "-", "--", "é", "\x1b", "a=1", "b1=[1", "w1=[1,2,3]", "nan", "1e999",
    "random:", "random:5", "random:" + "9" * 40, "zeros", "ones", "ramp", ".npy", "x.npz", "f32[3]", "float[3]", "f32[",
    "f32[99999999999]", "State(f32[3])", "{'a': f32[2]}", "name=3", "=", "math:sin", "math:", ":", "math:sin.x", "a:b:c",
    "jaxpr.py:f", "no/such.py:f", "-#known", "-#", "#", ".", "/", "/dev/null", "json", "lax", "numpy", "1+2j", "true",
    "\udcff", "x" * 5000, "((((((((((", "1K", "-5", "0.5",
)  # fmt: skip


def draw(rng: random.Random) -> tuple[list[str], str]:
    """The words after `jaxprtool`, and standard input."""
    verb = rng.choice([v for v in VERBS if v not in _CHANGING])
    words = [verb]
    for _ in range(rng.randrange(4)):
        words.append(rng.choice(OPTIONS[verb if rng.random() < 0.8 else ""]))
        words += rng.sample(WORDS, rng.choice((0, 1, 1, 1, 2, 3)))
    if rng.random() < 0.3:
        words.insert(1, rng.choice(WORDS))
    return words, rng.choice(PROGRAMS)


def check(case: tuple[list[str], str]) -> None:
    """Run it; something is said where the status is not 0, and no file is written."""
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        done = invoke(*case)
        written = os.listdir(folder)
    if written and case[0][0] != "fuzz":  # which keeps what it finds
        raise Failure(f"it writes {written}")
    if done.status not in (0, 1, 2) or "Traceback" in done.error:
        raise Failure(f"status {done.status}: {done.error}")
    if done.status == 2 and not done.error:
        raise Failure("nothing is said")


TARGET = Target("command-line", draw, check)
