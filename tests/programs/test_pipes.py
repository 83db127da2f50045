"""Whatever one verb writes, to a file or into a pipe, every other verb takes; and the values stay.

Pairs of verbs are drawn by chance, the same ones in each run; with JAXPRTOOL_ALL all of them are tried.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

import jaxprtool as jt
from tests.invoke import Done, invoke
from tests.programs import piped
from tests.programs.catalogue import EXAMPLES

ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
FUNCTIONS = {f.__name__: args for f, args in piped.SOURCES.items()}
FILES = ["attention", "deep_scan", "gru", "kalman", "kmeans", "mlp", "newton", "ode"]
ZOO = ["long_convolution", "quantised"]
SLOW = ["flow", "gaussian_process", "hmc", "convnet", "lbfgs", "transformer"]
SOURCES = [*FUNCTIONS, *FILES, *[f"zoo/{name}" for name in (ZOO + SLOW if ALL else ZOO)]]

WRITERS = {
    "fmt": "fmt",
    "jvp": "jvp",
    "vmap": "vmap --axis-size 2",
    "linearize": "linearize",
    "linearize at a point": "linearize --args random:0",
    "transpose": "transpose --linear 0",
    "partial-eval": "partial-eval --known 0",
    "vjp": "vjp",
    "grad": "grad",
    "discharge": "discharge",
}
READERS = [
    *["check", "fmt", "run --args random:0", "run --jit --args random:0", "lower"],
    *["compile", "jvp", "vmap --axis-size 2", "linearize", "linearize --args random:0"],
    *["partial-eval --known 0", "transpose --linear 0", "vjp", "grad", "discharge"],
]
PARTS = {"linearize": ["primal", "linear"], "partial-eval": ["known", "unknown"]}

# What a verb may answer, besides yes: that a program is none of those that it is for.
ANSWERS = {
    "grad": {"grad-output", "grad-input", "argument-index"},
    "partial-eval": {"argument-index"},
    "transpose": {"argument-index", "not-linear", "not-differentiable"},
}
LIMITS = {  # of a source, in whatever is made of it
    "called_back": {"no-rule", "no-callback", "xla-run"},
    "custom_backward": {"no-forward-derivative", "no-rule"},
    "in_loop": {"no-rule"},
    **{name: {"no-rule"} for name in ("kmeans", "newton", "ode", "zoo/hmc", "zoo/lbfgs")},
}


class Output(NamedTuple):
    """What a verb wrote: to a file, or the text that it printed (the path is then `-`)."""

    path: str
    text: str
    names: list[str]


def answered(done: Done, source: str, verb: str) -> bool:
    """Whether a verb did what it is for; fails where it gives another answer than it may."""
    if done.status == 0:
        return True
    codes = set(re.findall(r"(?:error|limitation): .*\[([a-z-]+)\]$", done.error, re.MULTILINE))
    allowed = ANSWERS.get(verb.split()[0], set()) | LIMITS.get(source, set())
    assert done.status in (1, 2) and codes and codes <= allowed, f"{source}, {verb}: {done.error}"
    return False


def traced(source: str, folder: Path) -> str:
    """The path of the file that a source is written to."""
    path = str(folder / "source.jaxpr")
    if source not in FUNCTIONS:
        done = invoke(["fmt", str(EXAMPLES / f"{source}.jaxpr"), "-o", path])
    else:
        done = invoke(
            ["trace", f"{piped.__file__}:{source}", "--like", f"{source}_args", "-o", path]
        )
    assert done.status == 0, done.error
    return path


def written(path: str, name: str, form: str, source: str) -> Output | None:
    """What a verb makes of a file; None where it is not for it."""
    folder = os.path.dirname(path)
    if form == "file":
        output = os.path.join(folder, "elsewhere", f"{name}.jaxpr".replace(" ", "-"))
        done = invoke([*WRITERS[name].split(), path, "-o", output])
    else:
        output = "-"
        done = invoke([*WRITERS[name].split(), path])
    names = [f"#{part}" for part in PARTS.get(name, [])] or [""]
    return Output(output, done.output, names) if answered(done, source, WRITERS[name]) else None


def read(output: Output, reader: str, part: str = "") -> Done:
    verb, *options = reader.split()
    return invoke([verb, output.path + part, *options], output.text)


def check_text(output: Output, source: str) -> None:
    """The text is in its standard layout, equal to itself, and well-typed."""
    for reader in ("check", "fmt --check"):
        assert read(output, reader).status == 0, f"{source}: {output}"
    if output.path != "-":
        assert invoke(["diff", output.path, output.path]).status == 0


@pytest.mark.parametrize("source", SOURCES)
def test_what_one_verb_writes_the_others_read(source, tmp_path, monkeypatch):
    rng = random.Random(source)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    path = traced(source, tmp_path)
    pairs = [(w, form) for w in WRITERS for form in ("file", "pipe")]
    outputs = [Output(path, "", [""])]
    for name, form in pairs if ALL else rng.sample(pairs, 5):
        made = written(path, name, form, source)
        outputs += [made] if made else []
    for output in outputs:
        check_text(output, source)
        uses = [(part, reader) for part in output.names for reader in READERS]
        for part, reader in uses if ALL else rng.sample(uses, 3):
            answered(read(output, reader, part), source, reader)


@pytest.mark.parametrize("source", [s for s in SOURCES if s != "called_back"])
def test_values_stay(source, tmp_path, monkeypatch):
    """Through a file, a pipe, another layout and another folder, on NumPy and with XLA."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    path = traced(source, tmp_path)
    ways = [Output(path, "", [""]), written(path, "fmt", "file", source)]
    ways += [written(path, "fmt", "pipe", source), written(path, "discharge", "pipe", source)]
    outs = [read(way, "run --args random:0") for way in ways if way]
    assert all(done.status == 0 for done in outs)
    assert len({done.output for done in outs}) == 1
    if source in FUNCTIONS:
        f = getattr(piped, source)
        args = jax.tree.leaves(FUNCTIONS[source])
        want = jax.tree.leaves(jax.jit(f)(*args))
        for program in (jt.load(path), jt.trace(f, *args)):
            for a, b in zip(jt.jaxpr_as_fun(program)(*args), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_a_callback_is_refused_in_a_sentence(tmp_path):
    done = invoke(["run", traced("called_back", tmp_path), "--args", "ones"])
    assert done.status == 2 and "[no-callback]" in done.error
