"""Programs that are kept as files: how each kind of change is told from the others."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.driver.projects.changed import (
    CONSTANTS,
    DIFFERENT,
    EQUIVALENT,
    PRINTER,
    figures,
    kind_of_change,
)
from jaxprtool.generation.programs import draw_typed
from jaxprtool.interpreters.columns.monoids import algebra_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit
from jaxprtool.ir.walk import map_programs, with_eqns
from tests.analyses.exchanged import exchanges
from tests.invoke import invoke

ROOT = Path(__file__).parents[2]
ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
REAL = sorted([*(ROOT / "examples").glob("*.jaxpr"), *(ROOT / "examples/zoo").glob("*.jaxpr")])
RANDOM = range(200 if ALL else 12)
SOME = REAL if ALL else REAL[::2]


def read(path: Path) -> ClosedJaxpr:
    found = jt.load(path)
    return found if isinstance(found, ClosedJaxpr) else next(iter(found.values()))  # type: ignore[union-attr]


def programs() -> list:
    real = [pytest.param(path, id=path.stem) for path in REAL]
    return [*real, *(pytest.param(seed, id=f"random-{seed}") for seed in RANDOM)]


def program_of(drawn: Path | int) -> ClosedJaxpr:
    return read(drawn) if isinstance(drawn, Path) else draw_typed(random.Random(drawn))


def kind(a: ClosedJaxpr, b: ClosedJaxpr) -> str:
    return kind_of_change({"": a}, {"": b}).word


def commuted(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with the operands of each commutative operation exchanged."""

    def body(p: ClosedJaxpr) -> ClosedJaxpr:
        eqns = []
        for e in p.eqns:
            laws = algebra_of(e) if len(e.inputs) == 2 else None
            swapped = laws is not None and laws.commutative and e.inputs[0] is not e.inputs[1]
            eqns.append(e.replace(inputs=e.inputs[::-1]) if swapped else e)
        return (
            with_eqns(p, eqns) if any(a is not b for a, b in zip(eqns, p.eqns, strict=True)) else p
        )

    return map_programs(program, body)


def nudged(program: ClosedJaxpr, by: float) -> ClosedJaxpr:
    """The program whose literals of type f32 are a little larger."""

    def other(x):
        of_f32 = type(x) is Lit and str(x.aval.strong) == "f32[]" and isinstance(x.val, float)
        return Lit(x.val * (1 + by), x.aval) if of_f32 else x

    def body(p: ClosedJaxpr) -> ClosedJaxpr:
        eqns = [e.replace(inputs=[*map(other, e.inputs)]) for e in p.eqns]
        return with_eqns(p, eqns)

    return map_programs(program, body)


@pytest.mark.parametrize("drawn", programs())
def test_each_kind_of_change_is_told_from_the_others(drawn):
    program = program_of(drawn)
    text = jt.format_jaxpr(program, lossless=True)
    assert kind(program, jt.parse(text)) == PRINTER
    swapped = commuted(program)
    if not jt.diff(program, swapped).equal:
        assert kind(program, swapped) == EQUIVALENT
    moved, far = nudged(program, 3e-7), nudged(program, 0.1)
    if not jt.diff(program, moved).equal:
        assert kind(program, moved) == CONSTANTS
    if not jt.diff(program, far).equal:
        assert kind(program, far) != CONSTANTS
    for made, _, how in exchanges(program, 3):
        if not jt.diff(program, made).equal:
            assert kind(program, made) in (DIFFERENT, EQUIVALENT), how


def test_most_exchanged_equations_are_differences():
    kinds = [kind(p, made) for p in map(read, SOME) for made, _, _ in exchanges(p, 2, subtle=False)]
    assert len(kinds) > 15 and kinds.count(DIFFERENT) >= 0.9 * len(kinds)


@pytest.mark.parametrize("path", SOME, ids=lambda p: p.stem)
def test_what_another_release_printed_is_the_same_program(path):
    """Any release's print of a program, with the params that it does not know, is taken as the program."""
    program, text = read(path), jt.format_jaxpr(read(path), lossless=True)
    for dialect in ("jax-0.8.3", "jax-0.9.2", "jax-0.12"):
        done = invoke(["fmt", "--dialect", dialect, "-"], text)
        if done.status == 0 and "[earlier-words]" not in done.error:  # these are other operations
            assert kind(jt.parse(done.output), program) == PRINTER, dialect


def test_types_are_part_of_a_program():
    strong = jt.parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    found = [
        strong,
        jt.parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b, a) }"),
        jt.parse("{ lambda ; a:f64[]. let b:f64[] = sin a in (b,) }"),
        jt.trace(lambda x: jt.lax.sin(x), 1.0),
    ]
    assert [kind(strong, p) for p in found] == [PRINTER, *[DIFFERENT] * 3]
    note = kind_of_change({"": strong}, {"": found[1]}).note
    assert note == "it gives (f32[], f32[]), and gave (f32[])"


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_figures_are_those_of_the_verbs(path):
    program = read(path)
    found = figures({"": program})
    if path.stem == "multiply_add":  # a plug-in declares its primitive
        assert found.pop("equations") == len(program.eqns) and {*found.values()} == {None}
        return
    cost = jt.cost(program)
    keys = {"flops": "flops", "bytes": "bytes", "peak": "peak_bytes", "equations": "equations"}
    assert {k: found[k] for k in keys} == {k: cost.total[v] for k, v in keys.items()}
    sent = cost.json()["total"]["communication"]
    assert (found["collectives"] > 0) == bool(sent) == (path.stem == "data_parallel")
    assert found["sent"] == sum(sent.values())
    if found["residuals"] is not None:
        assert found["residuals"] == jt.residuals(program).kept.computed


def test_figures_of_several_programs_add_up():
    program = read(ROOT / "examples/mlp.jaxpr")
    one, two = figures({"": program}), figures({"a": program, "b": program})
    assert two == {k: v if k == "peak" else 2 * v for k, v in one.items()}


MODEL = """
import numpy as np
from jaxprtool import lax

W = np.linspace(0, 1, 400, dtype=np.float32)

def loss(x):
    return lax.reduce_sum(lax.mul(lax.sin(x), W), axes=(0,))

def step(x, n=1):
    return lax.add(lax.mul(x, 0.5), float(n))

args = (np.ones(400, np.float32),)
"""
SETTINGS = """
[tool.jaxprtool.snapshot]
directory = "kept/jaxprs"
rtol = 1e-3

[tool.jaxprtool.snapshot.programs]
loss = { function = "model.py:loss", like = "args", verbs = ["grad", "linearize"] }
step = { function = "model:step", shapes = ["f32[8]"], static = {n = 3}, passes = "dce", verbs = ["vmap"], axis_size = 2 }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "model", raising=False)
    return tmp_path


def snapshot(words: str) -> tuple[int, dict]:
    """A command in a process of its own, which loads the functions anew: its status and its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "jaxprtool", "snapshot", *words.split(), "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def kinds(found: dict) -> dict[str, str]:
    return {p["name"]: p["kind"] for p in found["programs"]}


NAMES = ["loss", "loss.grad", "loss.linearize", "step", "step.vmap"]


def test_from_the_first_record_to_an_update(folder):
    status, found = snapshot("check")
    assert status == 1 and found["missing"] == [f"kept/jaxprs/{n}.jaxpr" for n in NAMES]
    status, found = snapshot("record")
    assert status == 0 and kinds(found) == dict.fromkeys(NAMES, "recorded")
    status, found = snapshot("check")
    assert status == 0 and found["clean"] and kinds(found) == dict.fromkeys(NAMES, "unchanged")
    jaxprs = folder / "kept" / "jaxprs"
    assert all("model.py" not in (jaxprs / f"{n}.jaxpr").read_text() for n in NAMES), "no origins"
    before = {p.name for p in jaxprs.glob("*.npz")}
    assert len(before) >= 2

    (folder / "model.py").write_text(MODEL.replace("(0, 1,", "(0, 1.0001,"))
    status, found = snapshot("check loss")
    assert status == 1 and kinds(found) == dict.fromkeys(NAMES[:3], CONSTANTS)
    (folder / "model.py").write_text(MODEL.replace("(0, 1,", "(0, 2,").replace("sin", "tanh"))
    status, found = snapshot("check")
    assert status == 1 and {*kinds(found).values()} == {DIFFERENT, "unchanged"}
    figures = found["programs"][1]["figures"]
    assert figures["equations"]["before"] < figures["equations"]["after"]
    shutil.copy(jaxprs / "step.jaxpr", jaxprs / "lost.jaxpr")
    assert snapshot("record")[0] == 1, "what has a file is left as it is"
    status, found = snapshot("check")
    assert status == 1 and found["extra"] == ["kept/jaxprs/lost.jaxpr"]
    status, found = snapshot("update")
    assert status == 0 and found["removed"] == ["kept/jaxprs/lost.jaxpr"]
    assert [k for k, v in kinds(found).items() if v == "updated"] == NAMES[:3]
    assert snapshot("check")[0] == 0
    after = {p.name for p in jaxprs.glob("*.npz")}
    assert len(after) == len(before) and not after & before, "arrays of no program are removed"


@pytest.mark.parametrize("axes", ["0", "[0]", "{x = 0}", '{"x" = [0]}'])
def test_one_axis_may_stand_alone(folder, axes):
    (folder / "pyproject.toml").write_text(
        SETTINGS.replace("axis_size = 2", f"axis_size = 5, in_axes = {axes}")
    )
    done = invoke("snapshot record step")
    made = folder / "kept/jaxprs/step.vmap.jaxpr"
    if axes.endswith("[0]}"):
        assert done.status == 2 and "x is one array, and has one axis" in done.error, done.error
    else:
        assert done.status == 0 and "a:f32[5,8]" in made.read_text(), done.error


def test_in_python(folder):
    assert jt.snapshot("record").is_clean and jt.snapshot("check", str(folder), ["step"]).is_clean
    path = Path("kept/jaxprs/step.jaxpr")
    path.write_text(path.read_text().replace("mul", "sub"))
    assert [r.name for r in jt.snapshot("check").changed] == ["step"]
    with pytest.raises(jt.UsageError, match="none of record, check, update"):
        jt.snapshot("compare")


def test_annotations_are_at_the_place_in_the_file(folder):
    assert invoke("snapshot record").status == 0
    path = Path("kept/jaxprs/step.jaxpr")
    path.write_text(path.read_text().replace("mul", "sub"))
    done = invoke("snapshot check --error-format github -q")
    assert done.status == 1 and not done.output
    line = 1 + path.read_text().splitlines().index("    b:f32[8] = sub a 0.5:f32[]")
    assert done.error.startswith(
        f"::error file={path},line={line},col=5,title=snapshot::step: diff"
    )
    assert invoke("snapshot update step").status == 0
    assert invoke("snapshot check").output == "5 unchanged\n"


def test_a_file_that_is_no_jaxpr_is_an_error(folder):
    assert invoke("snapshot record").status == 0
    Path("kept/jaxprs/step.jaxpr").write_text("{ lambda ;")
    done = invoke("snapshot check")
    assert done.status == 2 and done.error.startswith("kept/jaxprs/step.jaxpr:1:")
    done = invoke("snapshot update")
    assert done.status == 0 and "its file was no jaxpr" in done.output
    assert invoke("snapshot check").output == "5 unchanged\n"


def test_the_others_are_looked_at_where_one_fails(folder):
    assert invoke("snapshot record").status == 0
    Path("kept/jaxprs/step.jaxpr").write_text("{ lambda ;")
    text = (folder / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(text + 'other = { function = "model:nothing" }\n')
    done = invoke("snapshot check")
    assert done.status == 2 and done.output.startswith("4 unchanged; 2 failed\n"), done.output
    assert "step.jaxpr:1:" in done.error and "model has no function nothing" in done.error
    found = jt.snapshot("check")
    assert [f.name for f in found.failures] == ["step", "other"] and not found.is_clean
    done = invoke("snapshot update")
    assert done.status == 2 and "4 unchanged" in done.output and "1 updated" in done.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[tool.jaxprtool.snapshot]", "[tool.other]", "has no table [tool.jaxprtool.snapshot]"),
        ("rtol = 1e-3", "rtol = -1", "rtol has to be a number"),
        ("rtol = 1e-3", "rtol = nan", "rtol has to be a number"),
        ("rtol = 1e-3", "rol = 1", "has a key 'rol'"),
        ('"kept/jaxprs"', "3", "directory has to be a text"),
        (
            '["f32[8]"]',
            "[8]",
            "the program 'step': shapes has to be a list of texts, and has 8 in it",
        ),
        ('["f32[8]"]', '["f32[8"]', "f32[8"),
        ("{n = 3}", "{m = 3}", "pyproject.toml: error: step: static m: step(x, n=1) has no"),
        ("{n = 3}", "3", "static has to be a table"),
        ('"model:step"', '"model"', "names no function"),
        ('"model:step"', '"model:nothing"', "has no function nothing"),
        ('"dce"', '"dcee"', "dce"),
        ("axis_size = 2", "axis_size = true", "axis_size has to be a number"),
        ("axis_size = 2", 'frontend = "torch"', "frontend is one of"),
        ("axis_size = 2", "wrt = [true]", "wrt has names or positions"),
        ("axis_size = 2", "wrt = [1.5]", "wrt has names or positions"),
        ("axis_size = 2", 'wrt = "0-x"', "wrt has names or positions"),
        ("axis_size = 2", 'wrt = ""', "wrt has names or positions"),
        ("axis_size = 2", "axis_size = 0", "'step': axis_size is at least 1, and not 0"),
        ("axis_size = 2", "wrt = [0]", "'step': wrt is for jvp, linearize, vjp, grad, and verbs"),
        ('["vmap"]', "[]", "'step': axis_size is for vmap, and verbs has none of them"),
        ('["vmap"]', '["vmap", "vmap"]', "'step': verbs has 'vmap' twice"),
        ('["vmap"]', '"vmap,jvp"', "'step': verbs cannot have 'vmap,jvp'"),
        ('["f32[8]"]', "[]", "pyproject.toml: error: step: step(x, n=1) cannot take 0 arguments"),
        ("axis_size = 2", 'in_axes = "0"', "in_axes has to be axes, numbers or"),
        ("axis_size = 2", 'in_axes = {x = ["a"]}', "in_axes has to be axes, numbers or"),
        ("axis_size = 2", "in_axes = 0.5", "in_axes has to be axes, numbers or"),
        ("axis_size = 2", "in_axes = 9", "batch axis 9 is out of range"),
        ("axis_size = 2", 'in_axes = "-"', "no argument is mapped"),
        ("step = {", '"a/b" = {', "files cannot be called so"),
        ("step = {", "step = 3 #", "has to be a table"),
        ("SETTINGS", "", ""),
    ],
)
def test_wrong_settings(folder, old, new, message):
    if not message:
        (folder / "pyproject.toml").write_text("[tool.jaxprtool.snapshot\n")
        message = "cannot read"
    else:
        text = SETTINGS.replace(old, new)
        assert text != SETTINGS
        if old == "[tool.jaxprtool.snapshot]":
            text = "[tool.jaxprtool]\n"
        (folder / "pyproject.toml").write_text(text)
    done = invoke("snapshot check")
    assert done.status == 2 and message in done.error, done.error
    assert "Traceback" not in done.error and "internal" not in done.error


def test_files_are_in_the_dialect_of_the_project_and_survive_another_one(folder):
    text = (folder / "pyproject.toml").read_text()

    def in_dialect(name):
        (folder / "pyproject.toml").write_text(f'[tool.jaxprtool]\ndialect = "{name}"\n{text}')

    in_dialect("jax-0.8.1")
    assert invoke("snapshot record").status == 0
    files = sorted(map(str, Path("kept/jaxprs").glob("*.jaxpr")))
    assert invoke(["fmt", "--check", *files]).status == 0
    in_dialect("jax-0.12")
    assert invoke(["fmt", "--check", *files]).status == 1
    done = invoke("snapshot check")
    assert done.status == 0 and "printer only" in done.output and "different" not in done.output
    assert invoke("snapshot update").status == 0
    assert invoke("snapshot check").output == "5 unchanged\n"
    assert invoke(["fmt", "--check", *files]).status == 0
    invoke(["fmt", "-i", "--dialect", "jax-0.9", *files])
    assert invoke("snapshot check").status == 0
