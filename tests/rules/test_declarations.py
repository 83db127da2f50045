"""What the stubs of `jaxprtool.ops` declare."""

from __future__ import annotations

import inspect

import jax
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.declared import check_declared
from jaxprtool.core.kinds.objects import FUNCTION
from jaxprtool.core.primitive import vocabulary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import JaxprEqn, Var
from jaxprtool.ir.params import Record
from jaxprtool.ir.source import NAMES, python_source
from jaxprtool.syntax.print import format_standalone
from tests.laws.oracle import EXAMPLES

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
    assert "stub" not in vocabulary()


def test_a_name_is_declared_once():
    with pytest.raises(ValueError, match="a primitive named cumsum is declared already"):
        jt.primitive(lambda operand: None, name="cumsum")


def _of_jaxprtool(primitive):
    return primitive.stub is not None and primitive.stub.__module__.startswith("jaxprtool.ops.")


def test_each_param_has_a_kind_that_says_something():
    declared = [
        (p, q) for p in vocabulary().values() if _of_jaxprtool(p) for q in p.params.values()
    ]
    silent = [
        f"{p}.{q.name}: {q.kind}"
        for p, q in declared
        if q.kind.unchecked and not q.kind.is_bookkeeping
    ]
    assert silent == [] and len(declared) > 400


def test_a_stub_spells_the_names_of_kinds():
    """What a message says of a declaration is what stands in the stub."""
    for p in DECLARED:
        source = inspect.getsource(p.stub)
        for q in p.params.values():
            assert "def " not in source or q.name not in source or f"{q.name}: {q.kind}" in source


def _equation(example):
    """An equation of the example's primitive, in a program; None where it makes none."""
    f = getattr(example.op, "plain", example.op)
    program = jt.make_jaxpr(lambda *xs: f(*xs, **example.params))(*[a.aval for a in example.args])
    return program, next((e for e in program.jaxpr.eqns if e.primitive is example.primitive), None)


def _shown(value):
    """A value as Python source, in which jaxprs are texts with names of our own."""
    if isinstance(value, jt.ClosedJaxpr):
        return format_standalone(value)
    if isinstance(value, (tuple, list)):
        return [_shown(x) for x in value]
    if isinstance(value, Record):
        return value.name, _shown(value.args), {k: _shown(x) for k, x in value.fields.items()}
    return str(value) if isinstance(value, str) else python_source(value)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
def test_values_of_params(example):
    """They fit their kinds, read back from text, and evaluate from their Python source."""
    with jax.enable_x64(True):
        program, eqn = _equation(example)
    if eqn is None:
        return
    again = jt.parse(jt.format_jaxpr(program, lossless=True))
    read = next(e for e in again.jaxpr.eqns if e.primitive is example.primitive)
    for name, value in eqn.params.items():
        if example.primitive.open and name not in example.primitive.params:
            assert str(read.params[name]) == str(value), name
            continue
        kind = example.primitive.params[name].kind
        assert kind.fits(value) or value is example.primitive.params[name].default, name
        if FUNCTION in kind.parts or kind.is_bookkeeping:
            continue  # functions of the running process, which no file holds
        evaluated = eval(kind.source(value), {**NAMES, "parse": jt.parse})
        assert _shown(evaluated) == _shown(value), name
        assert _shown(read.params[name]) == _shown(value), name


EACH = [
    (p, q.name)
    for p in DECLARED
    for q in p.params.values()
    if q.kind.each_operand or q.kind.each_result
]


@pytest.mark.parametrize("declared, name", EACH, ids=[f"{p}-{n}" for p, n in EACH])
def test_params_have_an_item_for_each_operand_or_result(declared, name):
    """JAX breaks off where there are more or fewer items, or takes those of other operands."""
    x, kind = Var(ShapedArray((), FLOAT32)), declared.params[name].kind
    ins, outs = (2, 3) if kind.each_operand else (3, 2)
    item = next(v for v in (True, None) if kind.fits((v,)))

    def refused(items):
        params = {name: (item,) * items}
        eqn = JaxprEqn(declared, [x] * ins, params, [Var(x.aval) for _ in range(outs)])
        with pytest.raises(jt.JaxprTypeError) as e:  # of the other params, which are not there
            check_declared(eqn)
        return [d.code for d in e.value.diagnostics if d.param == name]

    assert [refused(k) for k in (1, 2, 3)] == [["param-value"], [], ["param-value"]]


def test_the_params_with_an_item_for_each_operand_or_result_are_known():
    names = {f"{p}.{name}" for p, name in EACH}
    assert names >= {"run_state.which_linear", "run_state.is_initialized", "scan.linear"}
    assert names >= {"jit.donated_invars", "jit.in_shardings", "jit.out_shardings"}
    assert names >= {"jit.in_layouts", "jit.out_layouts"}
