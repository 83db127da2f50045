"""retraces: the messages of each release of JAX, added up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.analyses.cache_misses import HELP, misses
from jaxprtool.driver.retraces import retraces
from tests.invoke import invoke

FOLDER = Path(__file__).parent / "cache_misses"
LOGS = sorted(FOLDER.glob("*.log"))
SCRIPT = (FOLDER / "train.py").read_text()


def line_of(text: str, after: int = 0) -> int:
    """The line of the script that has a text."""
    return next(i for i, x in enumerate(SCRIPT.splitlines(), 1) if text in x and i > after)


# What each call of the script is traced again for; a release that names another of several differences is right too.
EXPECTED = {
    line_of("return f(x)"): [{"first trace"}, {"shape"}, {"dtype"}],
    line_of("f(1.0)"): [{"shape", "weak type"}],
    line_of("f(np.float32(1.0))"): [{"shape", "weak type"}],
    line_of("f(ones, y=2.0)"): [{"pytree"}],
    line_of("f(ones, ones)"): [{"pytree"}],
    line_of("g(ones, n)"): [{"first trace"}, *[{"static argument", "not explained"}] * 2],
    line_of('mode="b"'): [{"static argument", "pytree"}],
    line_of("g(x=ones"): [{"static argument", "pytree"}],
    line_of('model.step({"w": ones}, 1.0)'): [{"first trace"}],
    line_of('"b": 1.0'): [{"pytree"}],
    line_of("Model().step"): [{"static argument", "pytree"}],
    line_of("jax.jit(lambda"): [{"first trace"}, {"made anew"}, {"made anew"}],
    line_of("jax.jit(functools"): [{"first trace"}, {"made anew"}, {"made anew"}],
    line_of("    f(ones)"): [{"configuration"}],
    line_of("f(jnp.reshape"): [{"configuration", "pytree", "shape"}] * 3,
}


def check_script(text: str) -> None:
    """The misses of the script are what they are expected to be, call by call and in order."""
    found: dict[int, list[str]] = {}
    for m in misses(text):
        line = re.search(r"train\.py:(\d+)", m.site)
        if line is not None:  # else JAX's own code
            found.setdefault(int(line[1]), []).append(m.reason)
            assert m.function in ("f", "g", "step", "<lambda>") and "train.py:" in m.defined
    assert found.keys() == EXPECTED.keys()
    for line, reasons in EXPECTED.items():
        assert len(found[line]) == len(reasons), line
        assert all(a in b for a, b in zip(found[line], reasons, strict=True)), (line, found[line])


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_the_log_of_each_release(path):
    check_script(path.read_text())


def test_the_log_of_the_installed_release():
    env = {**os.environ, "JAX_EXPLAIN_CACHE_MISSES": "1"}
    command = [sys.executable, str(FOLDER / "train.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_script(done.stderr)


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_sums(path):
    """Groups by any key add up to all messages, and those are as many as the log has."""
    text = path.read_text()
    count = text.count("TRACING CACHE MISS")
    for by in ("site", "function", "reason"):
        found = retraces([text, text], by=by)
        document = found.json()
        assert document["misses"] == sum(g["count"] for g in document["groups"]) == 2 * count
        assert sum(r["count"] for r in document["reasons"]) == 2 * count
        assert document["retraces"] == 2 * count - 2 * 5
        assert {r["reason"] for r in document["reasons"]} <= {*HELP}
        spent = [g["milliseconds"] for g in document["groups"]]
        assert (None not in spent) == ("costing" in text)


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
@pytest.mark.parametrize("prefix", ["[rank 3] ", "2026-11-23T08:%02d:00.123Z stderr F "])
def test_what_a_logger_puts_before_each_line(path, prefix):
    text = path.read_text()
    lines = [
        (prefix % (i % 60) if "%" in prefix else prefix) + x
        for i, x in enumerate(text.splitlines())
    ]
    check_script("\n".join(lines))


def test_other_lines_in_between_are_no_part_of_a_message():
    text = LOGS[0].read_text()
    noisy = re.sub(r"^(?=.*TRACING)", "step 3: loss 0.5\nNaN\n", text, flags=re.MULTILINE)
    assert [*misses(noisy)] == [*misses(text)]


NOW = """TRACING CACHE MISS at a.py:1:2 (f):
  for f defined at a.py:1
  all previously seen cache keys differ. For the closest previous key:
  different input types:
  * at x, now {} and before {}
"""


@pytest.mark.parametrize(
    ("now", "before", "reason"),
    [
        ("f32[3]", "f32[4]", "shape"),
        ("f32[3]", "bf16[3]", "dtype"),
        ("key<fry>[]", "u32[2]", "dtype"),
        ("f32[]({}){weak_type=True}", "f32[]({}){weak_type=False}", "weak type"),
        ("f32[8@x]({})", "f32[8]({})", "shape"),
        ("f32[8](P(x))", "f32[8]({})", "sharding"),
        ("something", "else", "types"),
    ],
)
def test_kinds_of_types(now, before, reason):
    (found,) = misses(NOW.format(now, before))
    assert found.reason == reason and found.details == [f"x, now {now} and before {before}"]


def test_the_persistent_cache():
    line = "PERSISTENT COMPILATION CACHE MISS for 'jit_f' with key 'jit_f-12ab'\n"
    found = retraces(line * 3)
    (group,) = found.groups
    assert group.n == 3 and group.function == "jit_f" and group.reason == "persistent cache"


def test_sets_and_addresses_do_not_depend_on_the_run():
    text = (FOLDER / "jax-0.10.2.log").read_text()
    other = text.replace("{'n' 'x'}", "{'x' 'n'}").replace("{'x' 'n'}", "{'x' 'n'}")
    other = re.sub(r"0x[0-9a-f]+", "0x7f0000000000", other)
    assert str(retraces(text)) == str(retraces(other))


def test_in_python():
    text = LOGS[0].read_text()
    assert str(jt.retraces(text, by="reason")) == invoke(["retraces", "--by", "reason", str(LOGS[0])]).output[:-1]  # fmt: skip
    with pytest.raises(jt.UsageError, match="it is one of site"):
        jt.retraces(text, by="line")


def test_a_limit():
    path = str(LOGS[0])
    n = json.loads(invoke(["retraces", "--json", path]).output)["retraces"]
    assert invoke(["retraces", "--max", str(n), path]).status == 0
    assert invoke(["retraces", "--max", str(n - 1), path]).status == 1


def test_a_long_log_takes_time_that_grows_with_it():
    text = LOGS[0].read_text() * 200
    found = retraces(text + "  \n" * 100_000)
    assert len(found.misses) == 200 * LOGS[0].read_text().count("TRACING")
    assert Counter(m.reason for m in found.misses)["first trace"] == 200 * 5
