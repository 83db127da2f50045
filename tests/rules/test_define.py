"""`define`: what it takes, what it refuses, and what each primitive of ours has to have."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator

import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.primitive import vocabulary
from jaxprtool.ir.frozen import set_field
from jaxprtool.rules import load_rows
from jaxprtool.rules.define import COLUMNS, PLACES, REQUIRED, define, is_ours


@pytest.fixture
def op() -> Iterator[object]:
    """An operation that nobody gave a rule."""

    def with_no_row(x):
        """x."""

    yield jt.primitive(with_no_row)
    declared = vocabulary().pop("with_no_row")
    for table in COLUMNS.values():
        table.rules.pop(declared, None)


@pytest.fixture
def ours(op, monkeypatch):
    """The same, as if it were declared in `jaxprtool.ops`."""
    assert lax.neg.primitive in COLUMNS["impl"]  # the rows of its module are loaded
    monkeypatch.setattr(op.primitive.stub, "__module__", "jaxprtool.ops.unary")
    set_field(op.primitive, "pending", "jaxprtool.ops.unary")
    return op


def test_each_column_is_a_keyword():
    keywords = inspect.signature(define).parameters
    assert [*COLUMNS] == [name for name in keywords if name in COLUMNS]
    assert set(REQUIRED) < set(COLUMNS)
    assert all(keywords[name].default is None for name in COLUMNS)


def test_a_users_primitive_may_leave_columns_out(op):
    define(op, abstract_eval=lambda x: x)
    define(op, cost=lambda ins, outs: 1)
    assert [*COLUMNS["abstract_eval"].rules][-1] is op.primitive


def test_one_of_ours_may_not(ours):
    with pytest.raises(TypeError, match=r"define\(with_no_row\): the row has no jvp, transpose, "):
        define(ours, abstract_eval=lambda x: x, impl=lambda xp, x: x)
    assert ours.primitive not in COLUMNS["abstract_eval"].rules


def test_a_column_that_one_of_ours_lacks_can_be_added(monkeypatch):
    sin = lax.sin.primitive
    monkeypatch.setattr(COLUMNS["discharge"], "rules", dict(COLUMNS["discharge"].rules))
    define(sin, discharge=lambda x: x)
    assert sin in COLUMNS["discharge"]


def test_a_primitive_of_ours_without_a_row(ours):
    with pytest.raises(TypeError, match="these primitives have no row: with_no_row"):
        load_rows("jaxprtool.ops.unary")


def test_all_of_ours_have_rows():
    for p in filter(is_ours, vocabulary().values()):
        assert p in COLUMNS["impl"] and p in PLACES


LAZY = """
import sys
import jaxprtool as jt
program = jt.parse({text!r})
{use}
loaded = sorted(m for m in sys.modules if m.startswith("jaxprtool.rules."))
print(*(m for m in {families!r} if "jaxprtool.rules." + m in loaded))
"""


@pytest.mark.parametrize(
    "use, loaded",
    [
        ("str(program)", ""),
        ("jt.typecheck_jaxpr(program)", "trigonometric"),
        ("jt.jvp_jaxpr(program)", "trigonometric binary"),
    ],
)
def test_a_program_loads_the_families_that_it_uses(use, loaded):
    """And transformations those of the primitives that their rules add."""
    text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    families = ("trigonometric", "binary", "linalg.svd", "convolution", "special", "scatter")
    script = LAZY.format(text=text, use=use, families=families)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == loaded.split()


def test_unknown_column(op):
    with pytest.raises(TypeError, match="colour"):
        define(op, colour=lambda x: x)  # type: ignore[call-arg]


def test_a_rule_is_a_function(op):
    with pytest.raises(TypeError, match="the jvp rule is not a function: 3"):
        define(op, jvp=3)  # type: ignore[arg-type]


def test_a_column_has_one_rule(op):
    define(op, abstract_eval=lambda x: x)
    with pytest.raises(ValueError, match="with_no_row already has"):
        define(op, abstract_eval=lambda x: x)
