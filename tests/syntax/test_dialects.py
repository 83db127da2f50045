"""Texts of eight releases of JAX, in their own dialects and in those of the others; `dialects/programs.py` made them.

`format_jaxpr` is the printer's here: `jt.format_jaxpr` writes other equations for a release that lacks a primitive.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.fmt import fmt
from jaxprtool.driver.projects.settings import dialect_of_project
from jaxprtool.generation.seeds import seeds
from jaxprtool.ir.diagnostics import UnsupportedError
from jaxprtool.syntax.print import format_jaxpr
from jaxprtool.syntax.releases import dialects
from jaxprtool.syntax.releases.dialects import (
    NEWEST,
    RECOGNISED,
    RELEASES,
    find_dialect,
    installed,
)
from jaxprtool.syntax.releases.earlier_spellings import EARLIER_SPELLINGS
from jaxprtool.syntax.releases.spellings import SPELLINGS
from tests.invoke import invoke
from tests.releases import only_oracle
from tests.syntax.dialects.programs import PROGRAMS

FOLDER = Path(__file__).parent / "dialects"
KEPT = (
    "jax-0.6.2",
    "jax-0.7.2",
    "jax-0.8.0",
    "jax-0.8.3",
    "jax-0.9.2",
    "jax-0.10.2",
    "jax-0.11.2",
    "jax-0.12.0.1",
)
NAMES = [f.__name__ for f in PROGRAMS]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("**/*.jaxpr"))
OTHER_PROGRAMS = {
    # NumPy's numbers instead of Python's, which no later release makes here.
    *[
        (release, "convolved")
        for release in KEPT
        if release < "jax-0.9" and "jax-0.1" not in release
    ],
    ("jax-0.6.2", "printed"),  # by a callback, which is no `debug_print`
}
# Nothing in these texts but a `_` says that they are not of the newest release, which would print a name.
UNTOLD = {(f"jax-0.{release}", "sorted_pairs") for release in ("7.2", "8.0", "8.3", "9.2")}
# Nor that the releases after 0.7.2 would print `[...]`.
UNTOLD.add(("jax-0.7.2", "cells"))


def text_of(release: str, name: str) -> str:
    return (FOLDER / release / f"{name}.jaxpr").read_text()


# Releases whose literals have no types.
EARLIER = ("jax-0.4.20", "jax-0.4.30", "jax-0.4.36", "jax-0.5.3")
# Texts of a collection that other people's Pythons printed.
CLASSIC = ("jax-0.2.5", "jax-0.2.20")  # without any types
OLDEST = (*CLASSIC, "jax-0.2.26", "jax-0.3.7", "jax-0.3.25", "jax-0.4.1", "jax-0.4.13")
OLDEST_TEXTS = [(r, path.stem) for r in OLDEST for path in sorted((FOLDER / r).iterdir())]
EARLIER_TEXTS = [
    (release, path.stem)
    for release in EARLIER
    for path in sorted((FOLDER / release).iterdir())
    if (release, path.stem) != ("jax-0.4.30", "sorted_pairs")  # it has no literal
]


@pytest.mark.parametrize(("release", "name"), [*itertools.product(KEPT, NAMES), *EARLIER_TEXTS])
def test_a_text_is_printed_in_its_own_dialect(release: str, name: str):
    text = text_of(release, name)
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    assert f"{program}\n" == text
    assert fmt(text).text == text


@pytest.mark.parametrize(("release", "name"), OLDEST_TEXTS)
def test_a_text_of_an_old_release_is_printed_in_its_own_dialect(release: str, name: str):
    text = text_of(release, name)
    program = jt.parse(text)
    assert f"{program}\n" == fmt(text).text == text
    if release not in CLASSIC:
        jt.typecheck_jaxpr(program)
    # What is written in the dialect of that release, which this text may not tell, is the program.
    written = format_jaxpr(program, lossless=True, dialect=release)
    assert jt.diff(jt.parse(written), program).equal
    assert not re.search(r"\bjit\b", written)
    newest = jt.parse(format_jaxpr(program, lossless=True, dialect=NEWEST))
    assert jt.diff(newest, program).equal


@pytest.mark.parametrize("release", KEPT)
@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_printed_in_the_other_dialects(release: str, name: str):
    program = jt.parse(text_of(release, name))
    for other in KEPT:
        if {(release, name), (other, name)} & OTHER_PROGRAMS or (release, name) in UNTOLD:
            continue
        assert f"{format_jaxpr(program, dialect=other)}\n" == text_of(other, name), other


@pytest.mark.parametrize("name", [n for release, n in EARLIER_TEXTS if release == "jax-0.5.3"])
def test_a_program_is_printed_without_types_of_literals(name: str):
    if name in ("custom_rules", "printed"):
        pytest.skip("it holds addresses of functions")
    program = jt.parse(text_of("jax-0.6.2", name))
    assert f"{format_jaxpr(program, dialect='jax-0.5.3')}\n" == text_of("jax-0.5.3", name)


def test_literals_have_types_where_one_is_not_told():
    """JAX's print leaves them out all the same; a lossless text is read as the same program."""
    typed = "{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b, OUT) }"
    for out, told in (("nan:f32[]", True), ("1.0:f64[]", False), ("2:i8[]", False)):
        program = jt.parse(typed.replace("OUT", out))
        untyped = typed.replace("OUT", out.partition(":")[0]).replace(":f32[] in", " in")
        assert format_jaxpr(program, dialect="jax-0.5") == untyped
        lossless = format_jaxpr(program, dialect="jax-0.5", lossless=True)
        assert lossless == (untyped if told else typed.replace("OUT", out))
        assert jt.diff(jt.parse(lossless), program).equal
        assert fmt(lossless).text == f"{lossless}\n"


@pytest.mark.parametrize("release", KEPT)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_file_stays_as_it_is_written(path: Path, release: str):
    """What is written in a dialect, with nothing left out or in the tutorial's notation, is written so when it is read again."""
    held = jt.load(path)
    for program in held.values() if isinstance(held, dict) else [held]:
        try:
            text = format_jaxpr(program, lossless=True, dialect=release)
        except jt.UnsupportedError:  # with a primitive that the release does not have
            continue
        read = jt.parse(text)
        assert format_jaxpr(read, lossless=True) == text
        text = format_jaxpr(read, style="autodidax")
        assert format_jaxpr(jt.parse(text), style="autodidax") == text


@pytest.mark.parametrize("name", NAMES)
def test_what_is_traced_is_printed_in_every_dialect(name: str):
    f = next(f for f in PROGRAMS if f.__name__ == name)
    program = jt.from_jax(jax.make_jaxpr(f)(*PROGRAMS[f]))
    mine = f"jax-{jax.__version__}"
    if mine in KEPT:
        assert f"{program}\n" == text_of(mine, name)
    for release in KEPT:
        if not {(release, name), (mine, name)} & OTHER_PROGRAMS:
            assert f"{format_jaxpr(program, dialect=release)}\n" == text_of(release, name)


@pytest.mark.parametrize("depth", [3, 40])
def test_definitions_are_written_out_as_far_as_they_fit(depth: int):
    """Releases before 0.10 write out what a definition calls below it, which multiplies with each level; what would be too long has names."""

    def function(n):
        below = function(n - 1) if n else jnp.sin
        return jax.jit(lambda v: below(v) + below(below(v)))

    program = jt.from_jax(jax.make_jaxpr(function(depth))(np.float32(1)))
    text = format_jaxpr(program, dialect="jax-0.9.2")
    named = format_jaxpr(program, dialect="jax-0.10.2")
    assert len(text) < 100 * len(named)
    assert (text == named) == (depth == 40)
    assert format_jaxpr(program, lossless=True, dialect="jax-0.9.2").count("jaxpr={") <= 1


# The first release that has what is in some of the programs.
BORN = {
    "cells": (0, 4, 27),
    "composed": (0, 5, 0),
    "converted": (0, 2, 8),
    "looked_up": (0, 2, 22),
    "matrices": (0, 2, 5),
    "printed": (0, 7, 2),
    "products": (0, 2, 9),
    "reduced": (0, 1, 75),
    "remembered": (0, 2, 17),
    "sorted_pairs": (0, 2, 5),
}


@pytest.mark.parametrize("name", NAMES)
def test_dialects_between_them_read_back_as_the_same_program(name: str):
    program = jt.parse(text_of("jax-0.12.0.1", name))
    for release in RELEASES:
        dialect = "jax-" + ".".join(map(str, release))
        if release < BORN.get(name, release):
            with pytest.raises(jt.UnsupportedError):
                format_jaxpr(program, lossless=True, dialect=dialect)
            continue
        text = format_jaxpr(program, lossless=True, dialect=dialect)
        again = jt.parse(text)
        assert jt.diff(program, again).equal
        shown = "" if release >= RECOGNISED else dialect
        assert format_jaxpr(again, lossless=True, dialect=shown) == text


# The last release before each that prints something in another way.
CHANGES = {s.since[:3] for row in (*SPELLINGS.values(), *EARLIER_SPELLINGS.values()) for s in row}
DIFFERENT = [r for r, after in itertools.pairwise(RELEASES) if {after, after[:2]} & CHANGES]
DIFFERENT.append(RELEASES[-1])
PARTS = 8
ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
SHARE = (
    1 if ALL else 3
)  # of the releases, one in so many is tried with each program; other ones with the next


@pytest.mark.parametrize("part", range(PARTS))
def test_each_primitive_is_said_in_each_dialect(part: int):
    """Or refused, where the release has none: what is written is the program, and is written so again."""
    wrong, turn = [], itertools.count(part)
    for name, programs in itertools.islice(seeds().items(), part, None, PARTS):
        for program in programs:
            readings: dict[str, Reading] = {}  # dialects share most texts
            for release in DIFFERENT[next(turn) % SHARE :: SHARE]:
                dialect = "jax-" + ".".join(map(str, release))
                try:
                    text = format_jaxpr(program, lossless=True, dialect=dialect)
                except jt.UnsupportedError as e:
                    assert e.diagnostics[0].code == "not-in-dialect"
                    continue
                read = readings.get(text)
                if read is None:
                    read = readings[text] = Reading.of(text, program, dialect)
                # an earlier release is told by literals alone
                told = release < RECOGNISED or read.kept
                if not (told and read.same and read.again):
                    wrong.append((name, release, text))
    assert wrong == []


class Reading(NamedTuple):
    """Whether a text reads as the program that was written, is kept without a dialect, and is written again in the first that has it."""

    same: bool
    kept: bool
    again: bool

    @classmethod
    def of(cls, text: str, written: jt.ClosedJaxpr, dialect: str) -> Reading:
        read = jt.parse(text)
        kept = format_jaxpr(read, lossless=True) == text
        again = format_jaxpr(read, lossless=True, dialect=dialect) == text
        return cls(jt.diff(written, read).equal, kept, again)


def equation(line: str, binders: str = "a:f32[3]", out: str = "b:f32[3]") -> str:
    return f"{{ lambda ; {binders}. let {out} = {line} in (b,) }}"


def branches(length: int) -> str:
    """A choice between two jaxprs, of no and of so many equations."""
    eqns = "; ".join(f"d{i}:f32[3] = sin c" for i in range(length))
    long = f"{{ lambda ; c:f32[3]. let {eqns} in (d0,) }}"
    return f"cond[branches=({{ lambda ; c:f32[3]. let  in (c,) }} {long})] 0:i32[] a"


SOLVED = """{{ lambda ; a:f32[3] b:f32[3,1]. let
    c:f32[3,1] = tridiagonal_solve{} a a a b
  in (c,) }}"""


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (equation("sin a"), NEWEST),
        (equation("broadcast_in_dim a", "a:f32[]"), NEWEST),
        (equation("reduce_max[axes=(0,)] a", out="b:f32[]"), "jax-0.11.0"),
        (equation("reduce_max[axes=(0,) out_sharding=None] a", out="b:f32[]"), NEWEST),
        (equation("top_k[axis=0 k=2] a", out="b:f32[2] c:i32[2]"), "jax-0.10.2"),
        (equation("tile[reps=(1,)] a"), NEWEST),
        (SOLVED.format(""), "jax-0.9.2"),
        (SOLVED.format("[perturb_singular=False]"), NEWEST),
        (
            equation(
                "broadcast_in_dim[broadcast_dimensions=() shape=(3,) sharding=None] 1.0:f32[]"
            ),
            "jax-0.9.0",
        ),
        (
            equation("broadcast_in_dim[broadcast_dimensions=() shape=(3,) sharding=None] 1.0"),
            "jax-0.6.0",
        ),
        (equation("broadcast_in_dim[broadcast_dimensions=() shape=(3,)] 1.0"), "jax-0.4.35"),
        (equation(branches(1).replace("] 0:i32[]", " linear=(False,)] 0")), "jax-0.4.30"),
        (equation(branches(1).replace("0:i32[]", "0")), "jax-0.6.0"),
        (equation("xla_call[call_jaxpr={ lambda ; c:f32[3]. let in (c,) } name=f] a"), "jax-0.4.3"),
        (
            equation(
                "dot_general[dimension_numbers=(((0,), (0,)), ((), ())) precision=None preferred_element_type=None] a a",
                out="b:f32[]",
            ),
            "jax-0.4.2",
        ),
        (
            equation("random_split[count=2] a", "a:key<fry>[]", "b:key<fry>[2]").replace(
                "in (b,)", "in (b, 1.0)"
            ),
            "jax-0.4.13",
        ),
        ("{ lambda  ; a.\n  let b = sin a\n  in (b,) }", "jax-0.2.21"),
        ("{ lambda  ; a.\n  let b = select a 1.0 2.0\n  in (b,) }", "jax-0.2.21"),
        (
            "{ lambda  ; a.\n  let b = convert_element_type[ new_dtype=int32\n"
            "                                old_dtype=float32 ] a\n  in (b,) }",
            "jax-0.2.5",
        ),
        # No release prints this.
        (equation("log2 a").replace("in (b,)", "in (b, 1.0)"), NEWEST),
        (equation("pvary[axes=() axis_index_groups=None] a"), "jax-0.8.0"),
        (equation("sin a", "a:f32[3]{i}", "b:f32[3]{i}"), "jax-0.8.0"),
        (equation("sin a", "a:f32[3]{V:i}", "b:f32[3]{V:i}"), NEWEST),
        (equation("reduce_sum[axes=(0,)] a", out="b:f32[]"), "jax-0.7.2"),
        (equation("pjit[name=f jaxpr={ lambda ; c:f32[3]. let in (c,) }] a"), "jax-0.6.2"),
        (equation("mutable_array a", out="b:Ref{float32[3]}"), "jax-0.6.2"),
        (equation("array_ref[memory_space=None] a", out="b:Ref{f32[3]}"), "jax-0.7.1"),
        (equation("freeze a", "a:Ref{float32[3]}"), "jax-0.7.0"),
        (equation("array_ref[memory_space=None] a", "a:bool[3]", "b:Ref{bool[3]}"), "jax-0.7.1"),
        (equation("mutable_array a", "a:bool[3]", "b:Ref{bool[3]}"), "jax-0.6.2"),
        (equation(branches(10)), NEWEST),
        (equation(branches(11)), "jax-0.10.1"),
        (equation("log2 a") + "\n# PartitionSpec( says nothing after all", NEWEST),
    ],
)
def test_a_dialect_is_recognised(text: str, dialect: str):
    program = jt.parse(text)
    assert program.jaxpr.written is not None
    assert program.jaxpr.written.dialect == find_dialect(dialect).name


def test_what_contradicts_itself_is_in_a_dialect_that_has_the_later_thing():
    text = """\
{ lambda ; a:f32[3]. let
    b:f32[3] = log2 a
    c:f32[3] d:i32[3] = top_k[k=3] b
  in (c, d) }"""
    assert fmt(text).text.count("top_k[axis=0 is_stable=True k=3]") == 1


def test_a_new_program_is_in_the_dialect_of_the_installed_release():
    program = jt.parse(text_of("jax-0.8.3", "loop_of_sums"))
    doubled, _ = jt.vmap_jaxpr(program, 2, [0, None])
    mine = installed()
    assert format_jaxpr(doubled) == jt.format_jaxpr(doubled, dialect=mine.name)
    assert mine.release[:2] == tuple(map(int, jax.__version__.split(".")[:2]))


def test_the_installed_release_is_found_without_an_import():
    code = (
        "import sys\nfrom jaxprtool.syntax.releases.dialects import installed\n"
        "print(installed().release)\n"
        "assert not {'jax', 'importlib.metadata', 'tomllib'} & {*sys.modules}"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == f"{installed().release}\n", run.stderr


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("", RELEASES[-1]),
        ("0.10.2", (0, 10, 2)),
        ("0.10.3.dev20260101", (0, 10, 2)),
        ("0.12.0.1", (0, 12, 0)),
        ("0.13.0", RELEASES[-1]),
        ("0.7.2", (0, 7, 2)),
        ("0.4.13", (0, 4, 13)),
        ("0.1.40", RECOGNISED),
    ],
)
def test_the_dialect_of_an_installed_release(monkeypatch, version: str, release: tuple[int, ...]):
    monkeypatch.setattr(dialects, "_installed_version", lambda: version)
    assert installed.__wrapped__().release == release


@pytest.mark.parametrize(
    "name", ["jax-0.13", "jax-0.1.69", "jax-0.0", "jax", "0.12", "jax-0.12.9", "JAX-0.12"]
)
def test_names_of_no_dialect(name: str):
    with pytest.raises(jt.UsageError, match="no dialect") as e:
        format_jaxpr(jt.parse(equation("sin a")), dialect=name)
    assert e.value.diagnostics[0].code == "no-dialect" and "jax-0.8" in e.value.diagnostics[0].help


@pytest.mark.parametrize(
    ("text", "dialect", "message", "column"),
    [
        (equation("log2 a"), "jax-0.10", "log2 is no primitive there; it came with JAX 0.11.2", 26),
        (
            equation("mulhi a a", "a:i32[3]", "b:i32[3]"),
            "jax-0.10.1",
            "mulhi is no primitive there; it came with JAX 0.10.2",
            26,
        ),
        (
            equation("ormqr a a", out="b:f32[3]"),
            "jax-0.9.2",
            "ormqr is no primitive there; it came with JAX 0.10",
            26,
        ),
        (
            equation("unstack[axis=0] a", out="b:f32[] c:f32[] d:f32[]"),
            "jax-0.10.0",
            "unstack is no primitive there; it came with JAX 0.10.1",
            26,
        ),
        (
            equation("tile[reps=(1,)] a"),
            "jax-0.8",
            "tile is no primitive there; it came with JAX 0.9",
            26,
        ),
        (
            equation("top_k[axis=0 is_stable=False k=3] a", out="b:f32[3] c:i32[3]"),
            "jax-0.10.2",
            "top_k has no param is_stable there, which is False",
            26,
        ),
        (
            equation("reshard a", "a:f32[8@x]", "b:f32[8]"),
            "jax-0.9.2",
            "reshard has the param dst_sharding there, of which only the type is known",
            28,
        ),
    ],
)
def test_what_a_dialect_cannot_say(text: str, dialect: str, message: str, column: int):
    with pytest.raises(jt.UnsupportedError) as e:
        format_jaxpr(jt.parse(text), dialect=dialect)
    (found,) = e.value.diagnostics
    assert found.message == f"{find_dialect(dialect).name} cannot say this: {message}"
    assert (found.code, str(found.span).rpartition(":")[2]) == ("not-in-dialect", str(column))
    assert NEWEST in found.help


def test_all_that_cannot_be_said_is_named():
    program = jt.parse("{ lambda ; a:f32[]. let b:f32[] = log2 a; c:f32[] = log2 b in (c,) }")
    with pytest.raises(jt.UnsupportedError) as e:
        format_jaxpr(program, dialect="jax-0.9")
    assert len(e.value.diagnostics) == 2


# ---- files


def test_a_project_says_what_its_files_are_in(tmp_path: Path, monkeypatch):
    old, new = (text_of(r, "loop_of_sums") for r in ("jax-0.8.3", "jax-0.12.0.1"))
    (tmp_path / "pyproject.toml").write_text('[tool.jaxprtool]\ndialect = "jax-0.12"\n')
    folder = tmp_path / "programs"
    folder.mkdir()
    file = folder / "loop.jaxpr"
    file.write_text(old)
    assert invoke(["fmt", str(file)]).output == new
    assert invoke(["fmt", "--dialect", "jax-0.8.3", str(file)]).output == old
    assert invoke(["fmt", "--check", str(file)]).status == 1
    monkeypatch.chdir(folder)
    assert invoke("fmt", stdin=old).output == new
    (folder / "pyproject.toml").write_text("[project]\n")  # the nearest one counts
    assert invoke(["fmt", str(file)]).output == old


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[tool.jaxprtool]\ndialect = 12\n", "has to be a name in quotes"),
        ('[tool.jaxprtool]\ndialect = "jax-0.99"\n', "no dialect 'jax-0.99'"),
        ("[tool.jaxprtool\n", "cannot read"),
    ],
)
def test_settings_that_say_nothing(tmp_path: Path, settings: str, message: str):
    (tmp_path / "pyproject.toml").write_text(settings)
    with pytest.raises(jt.UsageError, match=message):
        dialect_of_project(str(tmp_path / "a.jaxpr"))


@pytest.mark.parametrize("settings", ["[tool.other]\n# jaxprtool\n", "tool = 3 # jaxprtool\n", ""])
def test_settings_of_others(tmp_path: Path, settings: str):
    (tmp_path / "pyproject.toml").write_text(settings)
    assert dialect_of_project(str(tmp_path / "a.jaxpr")) == ""


# ---- the table


def test_rows_are_in_order():
    for name, spellings in SPELLINGS.items():
        assert [s.since for s in spellings] == sorted(s.since for s in spellings), name
    assert list(RELEASES) == sorted(RELEASES)
    since = {s.since[:3] for row in SPELLINGS.values() for s in row}
    padded = {(*r, 0) if len(r) == 2 else r for r in since}
    assert padded <= {*RELEASES}


def test_the_newest_dialect_says_all_that_is_declared():
    """Nothing of our vocabulary is missing in it, but for what JAX no longer has."""
    forms = find_dialect(NEWEST).forms
    lacking = {name: {*f.lacks} for name, f in forms.items() if f.lacks}
    assert lacking.pop("scan") >= {"linear", "_split_transpose"}
    for name in lacking:
        assert name in {"eig", "pallas_call", "psum_invariant", "pvary", "scatter-add"}, name
    gone = [name for name, f in forms.items() if not f.has]
    assert gone == ["custom_dce_call", "custom_transpose_call", "shard_alike"]


CUSTOM_TRANSPOSE = """{ lambda ; a:f32[3]. let
    b:f32[] c:f32[3] = custom_transpose_call[
      call_jaxpr={ lambda ; d:f32[] e:f32[3]. let f:f32[3] = div e d in (d, f) }
      lin_tree=PyTreeDef(*)
      out_tree=PyTreeDef([*, {'x': *}])
      out_types=(JitTracer(float32[3]),)
      res_tree=PyTreeDef(*)
      transpose_jaxpr_thunk=<function _memoize.<locals>.memoized at 0x7f6621361260>
    ] 2.0:f32[] a
  in (b, c) }"""


def test_a_call_that_later_releases_replaced_keeps_its_dialect():
    program = jt.parse(CUSTOM_TRANSPOSE)
    for dialect in ("", "jax-0.8.3", "jax-0.9.2"):
        assert format_jaxpr(program, dialect=dialect) == CUSTOM_TRANSPOSE
        assert format_jaxpr(program, dialect=dialect, lossless=True) == CUSTOM_TRANSPOSE
    assert "linear_call[" in format_jaxpr(program, dialect="jax-0.10")
    assert np.array_equal(jt.eval_jaxpr(program.jaxpr, [np.float32([2, 4, 6])])[1], [1, 2, 3])
    batched, _ = jt.vmap_jaxpr(program, 2, [0])  # which calls something else
    assert "linear_call[" in format_jaxpr(batched, dialect="jax-0.9.2")


CUSTOM_DCE = """{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] _:f32[3] = custom_dce_call[
      dce_jaxpr_thunk=<function _memoize.<locals>.memoized at 0x7f966ab51620>
      fun_jaxpr={ lambda ; d:f32[3] e:f32[3]. let
          f:f32[3] = sub d e
          g:f32[3] = mul d e
        in (f, g) }
      num_consts=0
    ] a b
  in (c,) }"""


def test_a_call_with_a_rule_for_results_that_nobody_reads():
    program = jt.parse(CUSTOM_DCE)
    for dialect in ("", "jax-0.8.3", "jax-0.9.2"):
        assert format_jaxpr(program, dialect=dialect) == CUSTOM_DCE
    assert " closed_call[" in format_jaxpr(program, dialect="jax-0.10")
    jt.typecheck_jaxpr(program.jaxpr)
    args = np.float32([[2, 4, 6], [1, 1, 2]])
    assert np.array_equal(jt.eval_jaxpr(program.jaxpr, [*args])[0], [1, 3, 4])
    primals, vjp = jt.vjp(jt.jaxpr_as_fun(program), *args)
    assert np.array_equal(vjp(primals[0])[1], -primals[0])


@pytest.mark.parametrize("name", [n for n, row in SPELLINGS.items() if row[0].born])
def test_what_the_installed_jax_has_is_in_its_dialect(name: str):
    if hasattr(jax.lax, f"{name}_p"):
        assert name not in installed().forms or installed().forms[name].has


@only_oracle
def test_the_transpose_of_a_stack_is_in_the_dialect_of_the_installed_jax():
    def f(x: Any) -> Any:
        stacked = jnp.stack([x[0], x[1] * x[0]])
        return jnp.sum(jax.lax.scan(lambda c, y: (c + y * stacked, c), stacked, x)[0] ** 2)

    program = jt.trace(jax.grad(f), np.ones(2, np.float32))
    assert {"unstack", "scan"} <= {eqn.primitive.name for eqn in program.eqns}
    text = format_jaxpr(program, lossless=True)
    assert format_jaxpr(jt.parse(text), lossless=True) == text


def test_each_row_is_told_apart():
    for before, after in itertools.pairwise(RELEASES):
        forms = [dialects.dialect_in(r).forms for r in (before, after)]
        rows = [*SPELLINGS.values(), *EARLIER_SPELLINGS.values()]
        changed = any(s.since[:3] == after for row in rows for s in row)
        same = {k: vars_of(f) for k, f in forms[0].items()} == {
            k: vars_of(f) for k, f in forms[1].items()
        }
        assert same <= (not changed) or after[2:] == (0,), after


def vars_of(form: dialects.Form) -> dict[str, str]:
    return {name: repr(getattr(form, name)) for name in form.__slots__}


@pytest.mark.parametrize("release", KEPT)
def test_a_scan_that_lacks_params_is_printed_as_it_is(release: str):
    """The printer invents no counts and no trees for it."""
    body = "jaxpr={ lambda ; c:f32[]. let in (c,) } length=x reverse=False unroll=1"
    for more in ("", " num_carry=0", " ft_in=None ft_out=None"):
        program = jt.parse(equation(f"scan[{body}{more}] a", "a:f32[]", "b:f32[]"))
        again = jt.parse(format_jaxpr(program, lossless=True, dialect=release))
        assert jt.diff(program, again).equal


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_stays_in_each_dialect(path):
    """A lossless text is the same program; `fmt` keeps it where the text tells its dialect. Else the dialect is refused."""
    (program,) = jt.parse_file(path.read_text()).values()
    for release in RELEASES[EXAMPLES.index(path) % 5 :: 5]:  # all take minutes
        name = dialects.dialect_in(release).name
        try:
            text = format_jaxpr(program, lossless=True, dialect=name)
        except UnsupportedError:
            continue
        again = jt.parse(text)
        assert jt.hash(again) == jt.hash(program), release
        if again.jaxpr.written.dialect == name:
            assert format_jaxpr(again, lossless=True) == text, release
