"""What the stubs of `jaxprtool.ops` declare."""

from __future__ import annotations

import inspect

import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.primitive import PRIMITIVES

DECLARED = [op.primitive for op in vars(lax).values() if callable(op) and hasattr(op, "primitive")]


def test_each_param_is_explained():
    silent = [f"{p}.{q.name}" for p in DECLARED for q in p.params.values() if not q.doc]
    assert silent == []


def test_like_another_one():
    prod, total = lax.cumprod.primitive, lax.cumsum.primitive
    assert prod.params == total.params and prod.operands == total.operands
    assert inspect.signature(lax.cumprod) == inspect.signature(lax.cumsum)
    first, rest = lax.cumprod.__doc__.split("\n\n")
    assert "product" in first and rest.startswith("axis: the axis.")


def test_like_another_one_with_parameters_of_its_own():
    def stub(operand, *, axis):
        """A sum of some kind."""

    with pytest.raises(TypeError, match="stub is like cumsum: its stub has no parameters"):
        jt.primitive(stub, like=lax.cumsum)
    assert "stub" not in PRIMITIVES


def test_a_name_is_declared_once():
    with pytest.raises(ValueError, match="a primitive named cumsum is declared already"):
        jt.primitive(lambda operand: None, name="cumsum")
