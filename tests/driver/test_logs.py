"""Jaxprs among the lines of logs, and in the folders that JAX writes to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.driver.storage.dumps import programs_of_dump
from jaxprtool.driver.storage.logs import excerpts, jaxprs_of_log
from jaxprtool.ir.diagnostics import JaxprParseError
from jaxprtool.syntax.parse import parse_file
from tests.invoke import invoke

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.jaxpr"))


def _each(prefix: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: "".join(f"{prefix(i)}{x}\n" for i, x in enumerate(text.splitlines()))


# Ways in which a text comes into a log: those of one call of a logger, and those that mark each line.
WAYS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "one message": lambda text: f"INFO:root:{text}",
    "after words": lambda text: f"2026-01-02 03:04:05,678 I 12] the {{loss}} is: {text} (3 s)",
    "each line": _each(lambda i: "DEBUG:train:"),
    "each line with numbers": _each(lambda i: f"[{i * 0.7:8.3f}s] model.py:{i:4}: "),
    "numbers of any width": _each(lambda i: f"{i * 37} "),
    "colours": _each(lambda i: f"\x1b[3{i % 8}mINFO\x1b[0m "),
    "indented": _each(lambda i: "        "),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_a_program_is_found_in_any_log(path: Path, way: str) -> None:
    programs = [*parse_file(path.read_text(), str(path)).values()]
    bare = [str(p) for p in programs]
    log = "\n".join(["warming up", *map(WAYS[way], bare), "bye {"])
    text, unread = jaxprs_of_log(log)
    assert not unread
    found = parse_file(text)
    expected = {f"jaxpr{i}": p for i, p in enumerate(bare, 1)} if len(bare) > 1 else {"": bare[0]}
    assert same_programs(found, {k: parse_file(p)[""] for k, p in expected.items()})


@pytest.mark.parametrize("way", WAYS)
def test_places_are_those_of_the_log(way: str) -> None:
    wrong = "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n    c:f32[3] = cos zz\n  in (c,) }"
    right = "{ lambda ; a:f32[]. let  in (a,) }"
    log = f"one\ntwo\n{WAYS[way](right)}\nmore\n{WAYS[way](wrong)}\n"
    text, unread = jaxprs_of_log(log, "x.log")
    assert text.strip() == right
    (d,) = unread
    assert d.span is not None and d.severity == "warning" and d.help
    line, column = d.span.source.position(d.span.start)
    assert "zz" in log.split("\n")[line - 1]
    if way != "numbers of any width":
        shown = d.span.source.line(line)
        assert shown[column - 1 :].startswith("zz")


def test_a_log_that_was_cut_hides_nothing_after_it() -> None:
    cut = "INFO: { lambda ; a:f32[3]. let\n    b:f32[3] = jit[\n      jaxpr={ lambda ; "
    whole = "INFO: { lambda ; a:f32[]. let  in (a,) }"
    pieces = [*excerpts(f"{cut}\n{whole}\n{cut}\nover\n{whole}")]
    assert [p.line for p in pieces] == [1, 4, 5, 9]
    text, unread = jaxprs_of_log(f"{cut}\n{whole}\n{cut}\nover\n{whole}")
    assert len(parse_file(text)) == 2 and len(unread) == 2


def test_nothing_readable_is_an_error() -> None:
    with pytest.raises(JaxprParseError) as e:
        jaxprs_of_log("a\n{ lambda ; a. let b = ")
    assert e.value.diagnostics[0].severity == "error"
    assert invoke("fmt --from-log", "{ lambda ; a:f32[]. let  in (b,) }").status == 2


def test_a_warning_leaves_the_status_at_0_and_can_be_read_by_machines() -> None:
    log = "{ lambda ; a:f32[]. let  in (b,) }\n{ lambda ; a:f32[]. let  in (a,) }\n"
    done = invoke("fmt --from-log --error-format json", log)
    assert done.status == 0 and done.output == "{ lambda ; a:f32[]. let  in (a,) }\n"
    found = json.loads(done.error)
    assert (found["severity"], found["line"], found["code"]) == ("warning", 1, "unbound-variable")


def test_a_folder_whose_files_are_partly_unreadable(tmp_path: Path) -> None:
    (tmp_path / "jax_000001_f.jaxpr.txt").write_text("{ lambda ; a:f32[]. let  in (a,) }")
    (tmp_path / "jax_000000_f.jaxpr.txt").write_text("{ lambda ; a:f32[]. let")
    (tmp_path / "jax_1000000_f.jaxpr.txt").write_text("{ lambda ; a:i32[]. let  in (a,) }")
    found, unread = programs_of_dump(str(tmp_path))
    assert list(found) == ["f", "f_2"] and str(found["f_2"].jaxpr.in_binders[0].aval) == "i32[]"
    assert [d.severity for d in unread] == ["warning"]
    done = invoke(["trace", "--from-dump", str(tmp_path)])
    assert done.status == 0 and "jax_000000_f.jaxpr.txt:1:" in done.error


def test_what_jax_writes_is_read(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    settings = {"jax_dump_ir_to": str(tmp_path), "jax_dump_ir_modes": "jaxpr"}
    defaults = {"jax_dump_ir_to": "", "jax_dump_ir_modes": "stablehlo"}

    def loss(x: Any) -> Any:
        return jax.numpy.sin(x).sum()

    x = jax.numpy.ones(5)
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        jax.jit(loss)(x)
    finally:
        for name, value in defaults.items():
            jax.config.update(name, value)
    found, unread = programs_of_dump(str(tmp_path))
    assert not unread
    assert str(found["loss"]) == str(jax.make_jaxpr(loss)(x))
