"""Rows of what few programs hold: sizes as numbers, marks of used keys, boxes, pinned buffers, a library's own elements."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.ir.diagnostics import JaxprToolError, JaxprTypeError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _both(program, *args):
    """What NumPy and XLA compute."""
    run, compiled = jt.eval_jaxpr(program, args), jt.compile(program)(*args)
    for a, b in zip(run, compiled, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    return [np.asarray(a) for a in run]


# -- what JAX makes where it exports programs ------------------------------------------------------


def _sizes():
    from jax._src.export import shape_poly

    return shape_poly


def test_the_size_of_an_axis_is_a_number():
    def f(x):
        return _sizes().dimension_size_p.bind(x, dimension=1) * 2, x

    theirs = jax.make_jaxpr(f)(X)
    program = jt.from_jax(theirs)
    assert str(program) == str(jt.parse(str(theirs))) == str(theirs) == str(jt.to_jax(program))
    assert _both(program, X)[0] == 6
    of_rows = jt.vmap(lambda x: lax.dimension_size(x, dimension=0), in_axes=0)(X)
    of_columns = jt.vmap(lambda x: lax.dimension_size(x, dimension=0), in_axes=1)(X)
    assert (*of_rows, *of_columns) == (3, 3, 2, 2, 2)
    out, tangent = jt.jvp(lambda x: lax.dimension_size(x, dimension=0), (X,), (X,))
    assert out == 2 and np.asarray(tangent).dtype.names
    with pytest.raises(JaxprTypeError, match="dimension_size dimension"):
        jt.typecheck_jaxpr(
            jt.parse("{ lambda ; a:f32[2]. let b:i32[] = dimension_size[dimension=1] a in (b,) }")
        )


def test_an_assertion_of_sizes_stops_the_program_with_its_message():
    def f(x):
        _sizes().shape_assertion(x.sum() > 0, x.size, error_message="not for {0} elements")
        return x

    theirs = jax.make_jaxpr(f)(X)
    program = jt.from_jax(theirs)
    assert str(program) == str(jt.parse(str(theirs))) == str(theirs) == str(jt.to_jax(program))
    assert _both(program, X)[0].tolist() == X.tolist()
    for run in (lambda x: jt.eval_jaxpr(program, [x]), lambda x: jt.compile(program)(x)):
        with pytest.raises(JaxprToolError, match="not for 6 elements"):
            run(-X)
    with pytest.raises(JaxprToolError, match="not for 6 elements"):
        jt.vmap(jt.jaxpr_as_fun(program))(np.stack([X, -X]))
    with pytest.raises(JaxprTypeError, match="no bool"):
        jt.typecheck_jaxpr(
            jt.parse("{ lambda ; a:i32[]. let shape_assertion[error_message=no] a in () }")
        )


# -- marks -----------------------------------------------------------------------------------------


def test_marks_of_used_keys_change_nothing():
    from jax.experimental.key_reuse import _core as marks

    def f(seed):
        key = jax.random.key(seed)
        used = marks.consume(key)
        marks.assert_consumed(used)
        marks.assert_unconsumed(key)
        return jax.random.key_data(used)

    theirs = jax.make_jaxpr(f)(np.uint32(3))
    program = jt.from_jax(theirs)
    assert str(program) == str(jt.parse(str(theirs))) == str(theirs) == str(jt.to_jax(program))
    assert _both(program, np.uint32(3))[0].tolist() == f(3).tolist()
    seeds = np.arange(4, dtype=np.uint32)
    (mapped,) = jt.vmap(jt.jaxpr_as_fun(program))(seeds)
    assert np.asarray(mapped).tolist() == jax.vmap(f)(seeds).tolist()


# -- eigh_jacobi -------------------------------------------------------------------------------------


def test_eigenvalues_by_rotations_come_first():
    program = jt.parse(
        "{ lambda ; a:c64[2,3,3]. let\n    b:f32[2,3] c:c64[2,3,3] = eigh_jacobi[lower=True sort_eigenvalues=True] a\n  in (b, c) }"
    )
    jt.typecheck_jaxpr(program)
    root = np.random.default_rng(0).normal(size=(2, 2, 3, 3))
    root = (root[0] + 1j * root[1]).astype(np.complex64)
    a = root + root.conj().swapaxes(1, 2)
    w, v = _both(program, a)
    np.testing.assert_allclose(a @ v, v * w[:, None], atol=1e-5)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), atol=1e-5)
    mapped = jt.vmap(jt.jaxpr_as_fun(program))(np.stack([a, 2 * a]))
    np.testing.assert_allclose(np.asarray(mapped[0])[1], 2 * w, atol=1e-4)


# -- boxes -------------------------------------------------------------------------------------------

BOXES = """{ lambda ; a:f32[3]. let
    b:BoxTy = new_box[treedef=PyTreeDef(None)]\x20
    box_set[treedef=PyTreeDef(*)] b a
    jit[
      name=twice
      jaxpr={ lambda ; b:BoxTy. let
          c:f32[3] = box_get[avals=(ShapedArray(float32[3]),)] b
          d:f32[3] = mul c 2.0:f32[]
          box_set[treedef=PyTreeDef((*, *))] b d 1:i32[]
        in () }
    ] b
    e:f32[3] f:i32[] = box_get[
      avals=(ShapedArray(float32[3]), ShapedArray(int32[]))
    ] b
  in (e, f) }"""


def test_what_is_in_a_box_is_what_was_put_into_it_last():
    program = jt.parse(BOXES)
    assert str(program) == BOXES
    jt.typecheck_jaxpr(program)
    held, one = jt.eval_jaxpr(program, [np.ones(3, np.float32)])
    assert held.tolist() == [2.0] * 3 and one == 1
    with pytest.raises(JaxprToolError, match="does not say what is in a box"):
        jt.vmap_jaxpr(program, 2, [0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("box_set[treedef=PyTreeDef(*)] b a", "box_set[treedef=PyTreeDef(*)] a a", "box_set needs a box"),
        ("box_set[treedef=PyTreeDef(*)] b a", "box_set[treedef=PyTreeDef((*, *))] b a", "treedef"),
    ],
)  # fmt: skip
def test_what_is_no_box_is_ill_typed(old, new, message):
    with pytest.raises(JaxprTypeError, match=message):
        jt.typecheck_jaxpr(jt.parse(BOXES.replace(old, new)))


def test_a_box_with_something_else_in_it_is_not_read():
    program = jt.parse(
        BOXES.replace("ShapedArray(int32[])", "ShapedArray(float32[])").replace(
            "f:i32[]", "f:f32[]"
        )
    )
    with pytest.raises(JaxprToolError, match=r"f32\[3\], i32\[\] is in the box"):
        jt.eval_jaxpr(program, [np.ones(3, np.float32)])


@pytest.mark.skipif(
    not hasattr(getattr(jax._src, "hijax", None), "Box"), reason="a JAX without boxes"
)
def test_boxes_of_jax_print_so():
    box = jax._src.hijax.Box

    def f(x):
        held = box(x)
        jax.jit(lambda: held.set(held.get() * 2))()
        return held.get()

    x = jnp.ones(3)
    theirs = jax.make_jaxpr(f)(x)
    program = jt.from_jax(theirs)
    assert str(program) == str(jt.parse(str(theirs))) == str(theirs)
    (held,) = jt.eval_jaxpr(program, [np.ones(3, np.float32)])
    assert np.asarray(held).tolist() == [2.0] * 3


# -- what has types alone ----------------------------------------------------------------------------

BUFFERS = """{ lambda ; a:f32[4]. let
    b:AbstractLinVal(inner_aval=ShapedArray(float32[4]), memory_space='vmem') = pin[
      to=vmem
    ] a
    c:f32[4] = unpin b
  in (c,) }"""
ELEMENTS = """{ lambda ; a:f32[3,2]. let
    b:pair[3] = to_edtype[edtype=pair] a
    c:f32[3,2] = from_edtype[dtype=float32] b
  in (c,) }"""


@pytest.mark.parametrize(
    ("text", "message"), [(BUFFERS, "memory of a TPU"), (ELEMENTS, "no text says what they hold")]
)
def test_they_have_types_and_say_why_they_do_not_run(text, message):
    program = jt.parse(text)
    assert str(program) == text
    jt.typecheck_jaxpr(program)
    x = np.zeros(
        [int(n) for n in str(program.jaxpr.in_binders[0].aval)[4:-1].split(",")], np.float32
    )
    for run in (lambda: jt.eval_jaxpr(program, [x]), lambda: jt.compile(program)):
        with pytest.raises(JaxprToolError, match=message):
            run()


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (BUFFERS, "unpin b", "unpin a"),
        (BUFFERS, "c:f32[4]", "c:f32[5]"),
        (BUFFERS, "to=vmem", "to=hbm"),
        (ELEMENTS, "b:pair[3]", "b:f32[3]"),
        (ELEMENTS, "from_edtype[dtype=float32] b", "from_edtype[dtype=float32] a"),
    ],
)
def test_other_types_are_refused(text, old, new):
    with pytest.raises(JaxprTypeError):
        jt.typecheck_jaxpr(jt.parse(text.replace(old, new)))


@pytest.mark.parametrize(
    "type_", ["Quantised(bits=8)", "Pair(f32[], (2,))", "Own<fast>(n=3)", "Own[3](x)"]
)
def test_types_of_a_library_with_brackets_are_kept(type_):
    text = f"{{ lambda ; a:{type_}. let b:{type_} = Prim a in (b,) }}"
    assert str(jt.parse(text)) == text
