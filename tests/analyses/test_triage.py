"""triage: which stage is the first that differs, of programs and of what installations have written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.analyses.stages import (
    Buffers,
    buffers_of,
    operations_that_differ,
    same_hlo,
    same_stablehlo,
)
from jaxprtool.driver.triage import triage
from jaxprtool.ir.jaxpr import ClosedJaxpr
from tests.analyses.exchanged import exchanges
from tests.invoke import invoke

ROOT = Path(__file__).parents[2]
ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
REAL = sorted([*(ROOT / "examples").glob("*.jaxpr"), *(ROOT / "examples/zoo").glob("*.jaxpr")])
SOME = REAL if ALL else [p for p in REAL if p.stem in ("mlp", "kmeans", "quantised")]

LOWERED = [p for p in REAL if p.stem != "multiply_add"]  # whose primitive a plug-in declares


def read(path: Path) -> ClosedJaxpr:
    found = jt.load(path)
    assert isinstance(found, ClosedJaxpr)
    return found


def statuses(found) -> list[str]:
    return [s.status for s in found.programs[0].stages]


@pytest.mark.parametrize("path", SOME, ids=lambda p: p.stem)
def test_a_program_and_its_text_are_the_same_at_all_stages(path):
    found = triage(read(path), jt.parse(jt.format_jaxpr(read(path), lossless=True)))
    assert statuses(found) == ["equal"] * 4 and found.is_same
    assert found.programs[0].verdict == "nothing changed"


@pytest.mark.parametrize("path", SOME, ids=lambda p: p.stem)
def test_an_exchanged_equation_is_a_change_of_the_program(path):
    program = read(path)
    for made, _, how in exchanges(program, 1):
        found = triage(program, made)
        assert not found.is_same and found.programs[0].first.name == "jaxpr", how
        assert found.json()["programs"][0]["stages"][0]["lines"]


@pytest.mark.parametrize("path", LOWERED, ids=lambda p: p.stem)
def test_names_and_locations_make_no_difference_to_stablehlo(path):
    text = str(jt.lower(read(path)))
    numbered = re.sub(r"%([\w$.-]+)", r"%other_\1", text)
    lines = [f"{x} loc(#loc{i})" if " = " in x else x for i, x in enumerate(numbered.splitlines())]
    other = "\n".join(['#loc1 = loc("a(b")', *lines, "#loc2 = loc(#loc1)"])
    assert same_stablehlo(text, other.replace("module @", "module @another_"))
    rows = [i for i, x in enumerate(text.splitlines()) if " = stablehlo.constant" in x]
    if rows:
        lines = text.splitlines()
        del lines[rows[-1]]
        assert not same_stablehlo(text, "\n".join(lines))
        told = operations_that_differ(text, "\n".join(lines), is_hlo=False)
        assert told == "1 stablehlo.constant fewer"


@pytest.mark.parametrize("path", SOME, ids=lambda p: p.stem)
def test_names_and_metadata_make_no_difference_to_hlo(path):
    text = jt.compile(read(path)).as_text()
    renamed = re.sub(r"%([\w$.-]+)", r"%other_\1", text)
    mark = r'\1, metadata={op_name="a{b" stack_frame_id=1}'
    marked = re.sub(r"^( .* = .*)$", mark, renamed, flags=re.MULTILINE)
    first, *lines = marked.splitlines()
    lines = [re.sub(r"^HloModule [^,]+", "HloModule other", first), "", "FileNames", '1 "a"', "", *lines]  # fmt: skip
    assert same_hlo(text, "\n".join(lines))
    row = next(i for i, x in enumerate(lines) if " constant(" in x or " parameter(" in x)
    assert not same_hlo(text, "\n".join([*lines[:row], *lines[row + 1 :]]))


DUMPED = """
import functools, jax, jax.numpy as jnp
@functools.partial(jax.jit, donate_argnums=0)
def step(w, x):
    h = jnp.tanh(x @ w)
    return w - 0.1 * (x.T @ h), jax.nn.softmax(h).sum()
@jax.jit
def twice(x): return FUNCTION(x) * 2.0
w, x = jnp.ones((64, 64)), jnp.ones((32, 64))
jax.block_until_ready((step(w, x), twice(x), jax.jit(lambda x: x + 1)(x)))
"""


def dump(folder: Path, function: str = "jnp.sin", flags: str = "") -> Path:
    """What an installation writes."""
    folder.mkdir()
    env = {
        **os.environ,
        "JAX_DUMP_IR_TO": str(folder),
        "JAX_DUMP_IR_MODES": "jaxpr,stablehlo",
        "XLA_FLAGS": f"--xla_dump_to={folder} {flags}",
    }
    code = DUMPED.replace("FUNCTION", function)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dumps")
    return {
        "plain": dump(folder / "plain"),
        "again": dump(folder / "again"),
        "compiler": dump(folder / "compiler", flags="--xla_disable_hlo_passes=fusion,cpu-instruction-fusion"),
        "program": dump(folder / "program", function="jnp.cos"),
    }  # fmt: skip


def told(a: Path, b: Path) -> tuple[int, dict]:
    done = invoke(["triage", "--json", str(a), str(b)])
    assert not done.error
    return done.status, json.loads(done.output)


def test_what_one_installation_writes_twice(dumps):
    status, found = told(dumps["plain"], dumps["again"])
    assert status == 0 and found["same"] and not found["only_a"] + found["only_b"]
    names = [p["name"] for p in found["programs"]]
    assert {"step", "twice", "_lambda_"} <= {*names}
    (step,) = (p for p in found["programs"] if p["name"] == "step")
    assert [s["status"] for s in step["stages"]] == ["equal"] * 4


def test_only_the_compiler_changed(dumps):
    status, found = told(dumps["plain"], dumps["compiler"])
    assert status == 1
    (step,) = (p for p in found["programs"] if p["name"] == "step")
    assert step["first"] == "optimised HLO" and step["verdict"].startswith("only the compiler")
    assert all(p["first"] in (None, "optimised HLO", "buffers") for p in found["programs"])


def test_only_a_program_changed(dumps):
    status, found = told(dumps["plain"], dumps["program"])
    assert status == 1
    first = {p["name"]: p["first"] for p in found["programs"]}
    assert first["twice"] == "jaxpr" and first["step"] is first["_lambda_"] is None


def test_aliased_bytes_count_once(dumps):
    (path,) = dumps["plain"].glob("*jit_step*buffer-assignment.txt")
    found = buffers_of(path.read_text())
    assert found.arguments == 4 * (64 * 64 + 32 * 64) and found.aliased == 4 * 64 * 64
    assert found.total == found.arguments + found.results - found.aliased + found.temporaries + found.constants  # fmt: skip
    assert Buffers(10, 8, 8, 3).total == 13


def test_files_by_their_names(tmp_path):
    for side, op in (("a", "sine"), ("b", "cosine")):
        folder = tmp_path / side
        folder.mkdir()
        (folder / "f.jaxpr").write_text("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }\n")
        (folder / "f.mlir").write_text(
            f"module @m {{\n  %0 = stablehlo.{op} %arg0 : tensor<f32>\n}}\n"
        )
        (folder / f"only_{side}.hlo").write_text("HloModule m\n")
    status, found = told(tmp_path / "a", tmp_path / "b")
    assert status == 1 and found["only_a"] == ["only_a"] and found["only_b"] == ["only_b"]
    (f,) = found["programs"]
    assert f["verdict"] == "the program is the same, and JAX lowers it to another StableHLO"
    assert f["stages"][1]["note"] == "1 stablehlo.cosine more; 1 stablehlo.sine fewer"


def test_in_python(dumps):
    program = read(SOME[0])
    assert jt.triage(program, program).is_same
    x = jt.ShapedArray((3,), "float32")
    found = jt.triage(lambda x: jt.lax.sin(x), lambda x: jt.lax.cos(x), x)
    assert found.programs[0].first.name == "jaxpr"
    assert jt.triage(str(dumps["plain"]), str(dumps["again"])).is_same


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("- -", "can be read only once"),
        ("{0} {0}/p.jaxpr", "a folder is compared with a folder"),
        ("{0} {0}", "holds no jaxpr"),
        ("{0}/p.jaxpr {0}/none.jaxpr", "none.jaxpr"),
    ],
)
def test_wrong_usage(words, message, tmp_path):
    (tmp_path / "empty").mkdir()
    folder = tmp_path / "empty"
    if "p.jaxpr" in words:
        (folder / "p.jaxpr").write_text("{ lambda ; . let in () }")
    done = invoke(f"triage {words.format(folder)}", "{ lambda ; . let in () }")
    assert done.status == 2 and message in done.error, done.error


def test_what_cannot_be_compiled_is_unknown_from_there(tmp_path):
    program = jt.parse("{ lambda ; a:f32[3]. let b:f32[3] = mul a [...]:f32[3] in (b,) }")
    assert statuses(triage(program, program)) == ["equal", "unknown", "unknown", "unknown"]


def test_a_donation_that_is_lost_shows_at_all_stages():
    text = (
        "{ lambda ; a:f32[256] b:f32[256]. let c:f32[256] = jit[donated_invars=(True, False) name=step "
        "jaxpr={ lambda ; d:f32[256] e:f32[256]. let f:f32[256] = add d e in (f,) }] a b in (c,) }"
    )
    donates = jt.parse(text)
    keeps = jt.parse(text.replace("True", "False"))
    (found,) = triage(donates, keeps).json()["programs"]
    assert [s["status"] for s in found["stages"]] == ["different"] * 4
    assert found["stages"][2]["note"] == "results lie where other arguments did"
    assert (found["stages"][3]["a"]["total"], found["stages"][3]["b"]["total"]) == (2048, 3072)
    (same,) = triage(donates, jt.parse(text)).json()["programs"]
    assert [s["status"] for s in same["stages"]] == ["equal"] * 4
