"""The table of rules, as `python -m jaxprtool.rules` prints it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from jaxprtool.core.primitive import vocabulary
from jaxprtool.core.rule_table import Unsupported
from jaxprtool.rules.__main__ import row_text
from jaxprtool.rules.define import COLUMNS, FACTS, FEW
from jaxprtool.syntax.releases.history import history
from jaxprtool.syntax.releases.spellings import SPELLINGS

GOLDEN = Path(__file__).parent.parent / "golden" / "rule_table.txt"
EVERY_PRIMITIVE_HAS = ("abstract_eval", "impl", "jvp", "transpose", "batch", "lower", "cost")


def _printed(*args):
    return subprocess.run(
        [sys.executable, "-m", "jaxprtool.rules", *args],
        capture_output=True,
        text=True,
        cwd=GOLDEN.parent.parent.parent,
    )


def test_table_is_the_golden_one(request):
    out = _printed()
    assert out.returncode == 0, out.stderr
    if request.config.getoption("--update-golden"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(out.stdout)
    assert out.stdout == GOLDEN.read_text(), "run pytest --update-golden and review the difference"


def test_no_rule_is_silently_absent():
    """Every primitive has a rule, or `-`, in each column but those for primitives with jaxprs."""
    header, *rows = _printed().stdout.splitlines()
    for column in EVERY_PRIMITIVE_HAS:
        start = header.index(column)
        blank = [row.split()[0] for row in rows if not row[start : start + 1].strip()]
        assert blank == [], column


@pytest.mark.parametrize("column", EVERY_PRIMITIVE_HAS)
def test_a_column_names_rules_and_where_they_are(column):
    lines = _printed(column).stdout.splitlines()
    sin = next(line.split() for line in lines if line.split()[0] == "sin")
    assert len(sin) >= 3
    if column != "transpose":
        path, _, line = sin[-1].partition(":")
        assert (GOLDEN.parent.parent.parent / path).is_file() and int(line) > 0


def test_a_row_has_all_there_is_about_a_primitive():
    out = _printed("--primitive", "broadcast_in_dim")
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith(
        "broadcast_in_dim(operand, *, shape: Shape, broadcast_dimensions: Axes = ()"
    )
    lines = [line.split() for line in out.stdout.splitlines()]
    found = {words[0]: words[1:] for words in lines if words}
    assert "out[i] = operand[i[broadcast_dimensions]]" in out.stdout
    assert " ".join(found["shape"]).endswith(
        "required not printed, recover=_shape_of_result the shape of the result."
    )
    assert " ".join(found["Axes"]) == "a tuple of integers: axes, the first is 0"
    assert found["abstract_eval"][0] == "jaxprtool.rules.shape:_broadcast_type"
    assert found["layout"][0] == "jaxprtool.rules.shape:_broadcast_layout"
    assert found["residual"] == ["made", "again"] and found["effects"] == ["False"]
    assert found["order"] == ["none"]
    for where, words in ((found["stub"], "@primitive"), (found["define"], "define(")):
        path, _, line = where[0].partition(":")
        source = (GOLDEN.parent.parent.parent / path).read_text().splitlines()
        assert source[int(line) - 1] == words


def test_primitive_of_a_plugin_has_a_row():
    out = _printed("bcoo_todense")
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith("bcoo_todense(data, indices, *, spinfo")
    assert "jaxprtool/plugins/bcoo" in out.stdout


@pytest.mark.parametrize("name", sorted(vocabulary()))
def test_every_primitive_has_a_row(name):
    primitive = vocabulary()[name]
    if not primitive.stub.__module__.startswith("jaxprtool."):
        return  # of another test
    text = row_text(primitive)
    assert all(f"\n  {column} " in text for column in (*COLUMNS, *FEW, *FACTS))
    assert all(f"\n  {param} " in text for param in primitive.params)
    assert text.index("\n  stub ") < text.index("\n  define ")


def test_a_row_says_why_a_rule_is_absent():
    assert "transpose      unsupported: it is not linear in its operands\n" in row_text(
        vocabulary()["sin"]
    )


@pytest.mark.parametrize(
    "name, near", [("sinn", "sin"), ("greater", "gt"), ("broadcast_in_dims", "broadcast_in_dim")]
)
def test_unknown_primitive_is_a_usage_error(name, near):
    out = _printed("--primitive", name)
    assert (out.returncode, out.stdout) == (2, "")
    assert f"there is no primitive {name}; did you mean {near}" in out.stderr


def test_columns_of_facts():
    lines = dict(line.split(None, 1) for line in _printed("liveness").stdout.splitlines())
    assert [name for name, fact in lines.items() if fact == "consumes"] == ["free_ref", "freeze"]
    order = _printed("order").stdout.splitlines()
    assert [line.split()[0] for line in order if len(line.split()) > 1] == [
        "debug_callback",
        "debug_print",
        "io_callback",
    ]


def test_unknown_column_is_a_usage_error():
    out = _printed("colour")
    assert out.returncode == 2
    assert "columns: abstract_eval" in out.stderr


def test_a_primitive_is_named_alone_where_no_column_is_called_so():
    assert _printed("scan").stdout == _printed("--primitive", "scan").stdout
    assert _printed("transpose").stdout != _printed("--primitive", "transpose").stdout
    out = _printed("scna")
    assert out.returncode == 2
    assert "did you mean scan?" in out.stderr


def test_the_history_of_a_primitive():
    assert history("scan") == [
        ("to 0.1.65", "other values of params"),
        ("since 0.1.75", "with unroll"),
        ("since 0.4.26", "with _split_transpose"),
        ("since 0.10", "without _split_transpose, linear"),
        ("since 0.11", "with ft_in, ft_out; without num_carry, num_consts"),
    ]
    assert history("reshard")[:2] == [
        ("to 0.5.0", "called sharding_cast; with src_sharding"),
        ("to 0.7.1", "called mesh_cast"),
    ]
    assert ("since 0.11.2", "new") in history("log2")
    assert "  since 0.11.2  new" in row_text(vocabulary()["log2"])


@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_every_change_of_spelling_has_words(name):
    found = history(name)
    assert len(found) >= len(SPELLINGS[name])
    assert all(words for _, words in found), found


GIVEN_BY_POSITION = {"jvp": 2, "batch": 3, "cost": 2}  # in other columns one, or operands


@pytest.mark.parametrize("column", COLUMNS)
def test_no_param_takes_the_place_of_an_argument(column):
    """Params are given by name: an argument of a rule that has the name of one would be given twice."""
    clashes = []
    for primitive in vocabulary().values():
        rule = COLUMNS[column].find(primitive)
        if rule is None or isinstance(rule, Unsupported):
            continue
        parameters = [*inspect.signature(rule).parameters.values()]
        named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        first = named[: GIVEN_BY_POSITION.get(column, 1)]
        clashes += [(primitive.name, name) for name in first if name in primitive.params]
    assert clashes == []
