"""No verb writes something else over the file that it reads its program from."""

from __future__ import annotations

import numpy as np
import pytest

from tests.invoke import VERBS, command, invoke

TEXT = "{ lambda ; a:f32[3]. let b:f32[3] = log a; c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b in (c,) }\n"
OTHER = TEXT.replace("log", "sin")
ARGS = ["--args", "[-1.0, 1.0, 2.0]"]
# What a verb needs besides a file, so that it has something to write.
BESIDE = {
    "diff": ["OTHER"],
    "equiv": ["OTHER", "--samples", "4", *ARGS],
    "reduce": ["--nan", *ARGS],
    "run": ARGS,
}
AFTER = {"repro": [*ARGS, "--", "run"]}
# They read functions, or write folders or files that the command does not name.
NO_PROGRAM = {"trace", "fuzz", "snapshot"}
WRITING = {"--output", "--html", "--keep-good"}
PROGRAMS = {"fmt", "lint", "upgrade", "opt", "residuals"} | {
    "jvp", "vmap", "partial-eval", "linearize", "transpose", "vjp", "grad", "discharge"
}  # fmt: skip


def _cases() -> list[tuple[str, str]]:
    found = [
        (v, o) for v in sorted(VERBS) for p in command(v).params for o in p.opts if o in WRITING
    ]
    return [(v, o) for v, o in found if v not in NO_PROGRAM]


def _words(verb: str, option: str, file: str, other: str) -> list[str]:
    beside = [other if w == "OTHER" else w for w in BESIDE.get(verb, [])]
    return [verb, file, *beside, option, file, *AFTER.get(verb, [])]


@pytest.mark.parametrize(("verb", "option"), _cases())
@pytest.mark.parametrize("link", [False, True])
def test_the_program_is_still_there(verb, option, link, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, other, same = (tmp_path / x for x in ("a.jaxpr", "b.jaxpr", "same.jaxpr"))
    file.write_text(TEXT)
    other.write_text(OTHER)
    same.symlink_to(file)
    words = _words(verb, option, "a.jaxpr", "b.jaxpr")
    if link:
        words[words.index(option) + 1] = "same.jaxpr"
    done = invoke(words)
    if verb in PROGRAMS:  # the result of a transformation may take the place of what it was made of
        assert invoke(["check", "a.jaxpr"]).status == 0, done.error
        return
    assert file.read_text() == TEXT
    assert done.status == 2, (done.output, done.error)
    assert "would be lost" in done.error or "output-kind" in done.error, done.error


def test_both_inputs_are_spared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jaxpr").write_text(TEXT)
    (tmp_path / "b.jaxpr").write_text(OTHER)
    assert "would be lost" in invoke(["diff", "a.jaxpr", "b.jaxpr", "--html", "b.jaxpr"]).error
    assert (tmp_path / "b.jaxpr").read_text() == OTHER
    (tmp_path / "page.html").write_text("old")
    assert invoke(["diff", "a.jaxpr", "b.jaxpr", "--html", "page.html"]).status == 1
    assert "<html" in (tmp_path / "page.html").read_text()


def _takes_values(verb: str) -> bool:
    return any("--args" in p.opts for p in command(verb).params)


@pytest.mark.parametrize(("verb", "option"), [c for c in _cases() if _takes_values(c[0])])
def test_the_values_are_still_there(verb, option, tmp_path, monkeypatch):
    """But for `run`, whose results are values as well: they may take the place of what they were made of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jaxpr").write_text(TEXT)
    (tmp_path / "b.jaxpr").write_text(OTHER)
    np.savez("v.npz", a=np.array([-1.0, 1.0, 2.0], np.float32))
    before = (tmp_path / "v.npz").read_bytes()
    words = _words(verb, option, "a.jaxpr", "b.jaxpr")
    words[words.index(option) + 1] = "v.npz"
    words = ["a=./v.npz" if w == ARGS[1] else w for w in words]
    at = words.index("--") if "--" in words else len(words)
    given = [] if "a=./v.npz" in words else ["--args", "a=./v.npz"]
    done = invoke([*words[:at], *given, *words[at:]])
    if verb == "run":
        assert done.status == 0, done.error
        return
    assert (tmp_path / "v.npz").read_bytes() == before
    assert done.status == 2, (done.output, done.error)
    assert "would be lost" in done.error or "output-kind" in done.error, done.error
