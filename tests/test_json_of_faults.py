"""With --json every verb prints one document, also where it has no answer."""

from __future__ import annotations

import json

import pytest

from tests.invoke import VERBS, command, invoke

UNREADABLE = "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a (\n  in (b,) }\n"
ILL_TYPED = "{ lambda ; a:f32[3]. let\n    b:f32[4] = sin a\n  in (b,) }\n"
ANSWERING = sorted(v for v in VERBS if any("--json" in p.opts for p in command(v).params))
# What a verb needs besides a file.
BESIDE = {"diff": ["a.jaxpr"], "equiv": ["a.jaxpr"], "triage": ["a.jaxpr"], "reduce": ["--nan"]}
BESIDE |= {"assert": ["no f64"], "grep": ["sin"], "compare": ["--backends", "numpy,f64"]}
# They read no program, or (`retraces`) take any text.
NO_FILE = {"explain", "fuzz", "snapshot", "retraces"}
# They take an ill-typed program as it stands.
UNTYPED = NO_FILE | {"diff", "stats", "upgrade", "repro"}


def _words(verb: str, *more: str) -> list[str]:
    beside = BESIDE.get(verb, [])
    found = [verb, "--json", *more, *beside]
    if verb == "grep":
        found = [verb, "--json", *beside, *more]
    if verb == "repro":
        found += ["-o", "bug.zip", "--", "run"]
    return found


def _only_document(output: str) -> dict:
    found = json.loads(output)
    assert list(found) == ["error", "errors", "schema"]
    assert found["error"] == found["errors"][0]
    for key in ("code", "message", "file", "line", "column"):
        assert key in found["error"]
    return found["error"]


def test_there_are_such_verbs():
    assert {"blame", "compare", "run", "reduce", "lint", "assert", "compile"} <= set(ANSWERING)


@pytest.mark.parametrize("verb", ANSWERING)
def test_of_bad_usage(verb):
    done = invoke([verb, "--json", "--there-is-no-such-option"])
    assert done.status == 2
    assert _only_document(done.output)["code"] == "usage"
    assert "error: no such option" in done.error


@pytest.mark.parametrize("verb", [v for v in ANSWERING if v not in NO_FILE])
def test_of_an_unreadable_program(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jaxpr").write_text(UNREADABLE)
    done = invoke(_words(verb, "a.jaxpr"))
    found = _only_document(done.output)
    assert done.status == 2
    assert (found["file"], found["line"]) == ("a.jaxpr", 2)
    assert f"a.jaxpr:2:{found['column']}: error: {found['message']}" in done.error


@pytest.mark.parametrize("verb", [v for v in ANSWERING if v not in UNTYPED])
def test_of_an_ill_typed_program(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jaxpr").write_text(ILL_TYPED)
    done = invoke(_words(verb, "a.jaxpr", *(["--args", "ones"] if _takes_args(verb) else [])))
    found = _only_document(done.output)
    assert done.status == 1, done.error
    assert (found["code"], found["file"], found["line"]) == ("binder-type", "a.jaxpr", 2)


def _takes_args(verb: str) -> bool:
    return any("--args" in p.opts for p in command(verb).params)


def test_of_an_internal_error(monkeypatch):
    def broken(*_, **__):
        raise KeyError("broken")

    monkeypatch.setattr("jaxprtool.driver.stats.stats", broken)
    done = invoke(["stats", "--json", "-"], "{ lambda ; a:f32[3]. let in (a,) }")
    assert done.status == 3
    assert _only_document(done.output)["code"] == "internal"


def test_one_document_where_a_run_stops_at_a_nan():
    text = "{ lambda ; a:f32[]. let b:f32[] = log a in (b,) }"
    done = invoke(["run", "--check-nans", "--json", "-", "--args", "-1.0"], text)
    assert done.status == 1
    assert json.loads(done.output)["outs"] is None


def test_nothing_without_json_or_behind_the_words_of_another_verb():
    assert invoke(["stats", "-"], UNREADABLE).output == ""
    assert invoke(["check", "--json", "-"], UNREADABLE).output == ""  # has no --json
    done = invoke(["repro", "-", "-o", "bug.zip", "--", "run", "--json"], UNREADABLE)
    assert done.status == 2
    assert done.output == ""
