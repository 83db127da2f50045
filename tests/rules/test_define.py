"""`define`: what it takes, what it refuses, and what each primitive of ours has to have."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.primitive import PRIMITIVES
from jaxprtool.rules.define import COLUMNS, REQUIRED, check_complete, define


@pytest.fixture
def op() -> Iterator[object]:
    """An operation that nobody gave a rule."""

    def with_no_row(x):
        """x."""

    yield jt.primitive(with_no_row)
    declared = PRIMITIVES.pop("with_no_row")
    for table in COLUMNS.values():
        table.rules.pop(declared, None)


@pytest.fixture
def ours(op, monkeypatch):
    """The same, as if it were declared in `jaxprtool.ops`."""
    monkeypatch.setattr(op.primitive.stub, "__module__", "jaxprtool.ops.unary")
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
    assert ours.primitive not in COLUMNS["abstract_eval"]


def test_a_column_that_one_of_ours_lacks_can_be_added(monkeypatch):
    sin = lax.sin.primitive
    monkeypatch.setattr(COLUMNS["discharge"], "rules", dict(COLUMNS["discharge"].rules))
    define(sin, discharge=lambda x: x)
    assert sin in COLUMNS["discharge"]


def test_a_primitive_of_ours_without_a_row(ours):
    with pytest.raises(TypeError, match="these primitives have no row: with_no_row"):
        check_complete()


def test_all_of_ours_have_rows():
    check_complete()


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
