"""Atomic operations of kernels, of which the index stands in the text of a tree, against JAX's interpret mode."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import jaxprtool as jt
from jaxprtool.interpreters.reference_trees import index_in
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.references import Indexer, Operand, RefIndex, Slice

triton = pytest.importorskip("jax.experimental.pallas.triton")
atomic_add = getattr(triton, "atomic_add", None) or getattr(pl, "atomic_add", None)
X = np.arange(32, dtype=np.float32).reshape(4, 8)


def _called(kernel, **fields):
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    aliases = {"input_output_aliases": {0: 0}, "interpret": True}
    return lambda x: pl.pallas_call(kernel, out_shape=shape, **aliases, **fields)(x)


def rows(x, o):
    o[2, :] = atomic_add(o, (1, jnp.arange(8)), x[0, :])


def part(x, o):
    atomic_add(o, (pl.ds(1, 2), pl.ds(2, 4)), x[2:4, 2:6])


def moving(x, o):
    i = pl.program_id(0)
    atomic_add(o, (i + 1, pl.ds(i, 4)), x[0, 4:])


def whole(x, o):
    atomic_add(o, (slice(None), slice(None)), x[...])


KERNELS = {rows: {}, part: {}, moving: {"grid": (3,)}, whole: {}}


@pytest.mark.skipif(atomic_add is None, reason="this JAX has no such operation")
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda f: f.__name__)
def test_as_in_jax(kernel):
    f = _called(kernel, **KERNELS[kernel])
    closed = jax.make_jaxpr(f)(X)
    want = np.asarray(f(jnp.array(X)))
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        jt.typecheck_jaxpr(program.jaxpr)
        np.testing.assert_allclose(jt.eval_jaxpr(program, [X])[0], want)
        np.testing.assert_allclose(jt.compile(program)(X)[0], want)


def _text(tree: str, operands: str, kind: str = "ADD", inner: str = "f32[4]") -> str:
    return f"""{{ lambda ; a:{inner} i:i32[3] v:f32[3] m:bool[3]. let
    r:Ref{{{inner}}} = new_ref[kind=None memory_space=None] a
    b:f32[3] = atomic_rmw[
      args_tree=PyTreeDef({tree})
      atomic_type=AtomicOpType.{kind}
    ] r {operands}
    c:{inner} = freeze r
  in (b, c) }}"""


NUMBERS = "(*, (CustomNode(NDIndexer[(PyTreeDef((*,)), (4,), (3,))], [*]),), *, None)"
MASKED = NUMBERS.replace("None)", "*)")
ARGS = [np.zeros(4, np.float32), np.array([2, 2, 0], np.int32), np.array([1, 2, 4], np.float32)]


@pytest.mark.parametrize(
    ("kind", "found"), [("ADD", [4, 0, 3, 0]), ("MAX", [4, 0, 2, 0]), ("MIN", [0, 0, 0, 0])]
)
def test_an_element_that_is_selected_twice(kind, found):
    """It is changed twice: JAX's interpret mode forgets one of the two."""
    program = jt.parse(_text(NUMBERS, "i v", kind))
    args = [*ARGS, np.ones(3, bool)]
    for outs in (jt.eval_jaxpr(program, args), jt.compile(program)(*args)):
        np.testing.assert_array_equal(outs[0], [0, 0, 0])
        np.testing.assert_array_equal(outs[1], found)


def test_a_mask():
    program = jt.parse(_text(MASKED, "i v m"))
    args = [*ARGS, np.array([True, False, True])]
    np.testing.assert_array_equal(jt.eval_jaxpr(program, args)[1], [4, 0, 1, 0])


WRONG = {
    "no tree of this": (_text("(*, *)", "i v"), "bad-param|param-value"),
    "another number of operands": (_text(NUMBERS, "i v m"), "operand-count"),
    "another shape": (
        _text(NUMBERS.replace("(*,)), (4,)", "(*, *)), (4,)"), "i i v"),
        "operand-types|param-value",
    ),
    "another operation": (_text(NUMBERS, "i v", "SUB"), "bad-param|param-value"),
    "bits of floats": (_text(NUMBERS, "i v", "XOR"), "operand-dtype"),
    "a mask of numbers": (_text(MASKED, "i v v"), "mask-type"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name):
    text, codes = WRONG[name]
    with pytest.raises(jt.JaxprTypeError) as caught:
        jt.typecheck_jaxpr(jt.parse(text))
    (found,) = caught.value.diagnostics
    assert found.code in codes.split("|") and re.match(r"<string>:[345]:", str(found.span))


def test_trees_of_indices():
    steps = "CustomNode(NDIndexer[(PyTreeDef((*, CustomNode(Slice[(None, 4, 1)], [*, None]))), (4, 8), ())], [*, *]),"
    assert index_in(Opaque(f"PyTreeDef((*, ({steps}), *, None))")) == (
        RefIndex(Indexer((Operand(0), Slice(Operand(1), 4)))),
        False,
    )
    assert index_in(Opaque("PyTreeDef((*, (), *, *))")) == (RefIndex(), True)
    for text in (
        "",
        "*",
        "PyTreeDef((*, (*,), *, None))",
        "PyTreeDef((*, (), *, *))" * 9,
        "(" * 999,
    ):
        assert index_in(Opaque(text)) is None


def test_what_a_view_gave_stays():
    """The old value of a swap in a view of a cell is not the new one."""
    text = """{ lambda ; a:f32[4,2] z:f32[2,2]. let
    r:Ref{f32[4,2]} = new_ref[kind=None memory_space=None] a
    b:f32[2,2], r{reshape([2, 2, 2])}[0,:,:] <- r{reshape([2, 2, 2])}[0,:,:], z
    c:f32[4,2] <- r[...]
  in (b, c) }"""
    old, new = jt.eval_jaxpr(
        jt.parse(text), [np.ones((4, 2), np.float32), np.zeros((2, 2), np.float32)]
    )
    assert old.sum() == 4 and new.sum() == 4


FUSED = """{ lambda ; a:f32[4]. let
    b:f32[4] c:f32[4] = fused_call[
      jaxpr={ lambda ; d:f32<any>[4] e:f32<any>[4]. let
          f:f32<any>[4] = sin d
          g:f32<any>[4] = mul f e
        in (f, g) }
      out_spaces=(MemorySpace.Device, MemorySpace.Device)
    ] a a
  in (b, c) }"""


def test_a_fused_call():
    """As `jax.experimental.fused` prints it: its values are in any memory, and its operands in one."""
    program = jt.parse(FUSED)
    jt.typecheck_jaxpr(program)
    assert str(program) == FUSED
    x = np.linspace(0, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(jt.eval_jaxpr(program, [x])[1], np.sin(x) * x, rtol=1e-6)
    tangent = jt.eval_jaxpr(jt.jvp_jaxpr(program)[0], [x, np.ones_like(x)])[3]
    np.testing.assert_allclose(tangent, np.cos(x) * x + np.sin(x), rtol=1e-6)
    (eqn,) = jt.optimize(jt.parse(FUSED.replace("in (b, c)", "in (c,)")), "dce").jaxpr.eqns
    assert len(eqn.params["out_spaces"]) == 1
    with pytest.raises(jt.JaxprTypeError, match="out_spaces"):
        jt.typecheck_jaxpr(jt.parse(FUSED.replace("(MemorySpace.Device, ", "(")))
