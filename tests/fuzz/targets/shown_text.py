"""What a file holds is shown, never done: no message and no result on a terminal has a control character in it."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.mutated_text import texts
from tests.invoke import invoke

UNSAFE = "\x1b\x07\x00\x08\r\x7f\x9b\x85\u202e\u2066\u200b\u2028\ufeff"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_MESSAGE = re.compile(r"(?:\S+:\d+:\d+: )?(?:error|warning|note|help): ")
OTHER = Path(__file__).parents[3] / "examples" / "square.jaxpr"
LINES = (
    "check",
    "check --allow-unknown",
    "run --step-limit 50 --max-bytes 1M --args ones",
    f"diff - {OTHER}",
    "grad",
)


def draw(rng: random.Random) -> tuple[str, str]:
    """A command line, and a text with control characters in it."""
    text = choose(rng, texts())[:3000]
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        inserted = rng.choice(UNSAFE) + rng.choice(("", "[31m", "]0;title\x07", "\n::error::x"))
        text = text[:at] + inserted + text[at:]
    line = rng.choice(LINES)
    return f"{line} --error-format {rng.choice(('text', 'json', 'github'))}", text


def check(case: tuple[str, str]) -> None:
    """Run it, and look at all that is shown."""
    line, text = case
    words = line.split()
    done = invoke(words, text)
    if done.status == 3:
        raise Failure(done.error)
    for shown in (done.error, done.output if words[0] in ("check", "run", "diff") else ""):
        found = _CONTROL.search(shown)
        if found:
            raise Failure(f"{found[0]!r} in {shown!r}")
    if "github" in words:
        for shown in done.error.splitlines():
            # what a program prints goes where messages go: that is no annotation, and no message either
            printed = words[0] == "run" and "print" in text and not _MESSAGE.match(shown)
            if not shown.startswith("::") and not printed:
                raise Failure(f"a line that is no annotation: {done.error!r}")


TARGET = Target("shown-text", draw, check, lambda case: f"{case[0]}\n{case[1]!r}")
