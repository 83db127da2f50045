"""What releases 0.1.40 to 0.2.26 printed for small programs, each a way of spelling that no other test has, run on values."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from tests.syntax.two_readers import difference

A = np.array([[4, 1, 2], [1, 5, 0.5], [2, 0.5, 6]], np.float32)
X = np.array([0.25, 0.5, 2], np.float32)

# text, values of the constants, arguments, results
CASES = {
    "a function that jit made, under custom_transforms (0.1.60)": (
        "{ lambda  ; a.\n  let b = jit(arcsinh, static_argnums=())[ in_tree=PyTreeDef((*,))\n"
        "                                           jaxpr={ lambda  ; a.\n"
        "                                                   let b = sin a\n"
        "                                                   in b }\n"
        "                                           num_consts=0\n"
        "                                           out_tree=PyTreeDef(*) ] a\n      c = neg b\n  in c }",
        [],
        [X],
        [-np.sin(X)],
    ),
    "a function without a name, under custom_transforms (0.1.60)": (
        "{ lambda  ; a.\n  let b = <unnamed custom_transforms primitive>[ in_tree=PyTreeDef((*,))\n"
        "                                                jaxpr={ lambda  ; a.\n"
        "                                                        let b = cos a\n"
        "                                                        in b }\n"
        "                                                num_consts=0\n"
        "                                                out_tree=PyTreeDef(*) ] a\n  in b }",
        [],
        [X],
        [np.cos(X)],
    ),
    "factors without the permutation (0.1.60)": (
        "{ lambda  ; a.\n  let b c = lu a\n  in (b, c) }",
        [],
        [A],
        [np.array([[4, 1, 2], [0.25, 4.75, 0], [0.5, 0, 5]], np.float32), np.arange(3, dtype=np.int32)],
    ),
    "singular values with two results that have no meaning (0.1.60)": (
        "{ lambda  ; a.\n  let b c d = svd[ compute_uv=False\n                   full_matrices=True ] a\n  in b }",
        [],
        [A],
        [np.linalg.svd(A, compute_uv=False)],
    ),
    "a window of no named operation, padded by name (0.1.60)": (
        "{ lambda  ; a.\n  let b = reduce_window[ consts=()\n                         jaxpr={ lambda  ; a b.\n"
        "                                 let c = mul a b\n                                 in c }\n"
        "                         padding=SAME\n                         window_dimensions=(2,)\n"
        "                         window_strides=(2,) ] a 1.0\n  in b }",
        [],
        [X],
        [np.array([0.125, 2], np.float32)],
    ),
    "a map over devices whose jaxpr stands below it (0.1.50)": (
        "{ lambda c ;  ; a b.\n  let d = xla_pmap[ axis_name=<axis 0x7fd7e85bc670>\n                    axis_size=1\n"
        "                    devices=None\n                    backend=None ] a b\n"
        "        { lambda c ;  ; a b.\n          let d = mul a b\n              e = add c d\n          in [e] } [ c ;  ]\n"
        "  in [d] }\n",
        [X],
        [X[None], A[:1]],
        [X[None] * A[:1] + X],
    ),
    "a transposed sparse matrix (0.2.17)": (
        "{ lambda  ; a b c.\n  let d e = bcoo_transpose[ permutation=[1 0]\n                            shape=(3, 3) ] a b\n"
        "      f = bcoo_dot_general[ dimension_numbers=(((1,), (0,)), ((), ()))\n"
        "                            lhs_shape=(3, 3) ] d e c\n  in (f,) }",
        [],
        [X[:2], np.array([[0, 1], [2, 2]], np.int32), X],
        [np.array([0, 0.0625, 1], np.float32)],
    ),
    "a unit among the constants (0.1.60)": (
        "{ lambda b c ; a.\n  let d e = xla_call[ backend=None\n                      call_jaxpr={ lambda  ; a b.\n"
        "                                   let c = sin a\n                                   in (c, *) }\n"
        "                      device=None\n                      name=pe(jvp(f)) ] a b\n      f = mul d c\n  in f }",
        [None, X],
        [X],
        [np.sin(X) * X],
    ),
    "a conditional whose constants are empty tuples (0.1.40)": (
        "{ lambda d f ;  ; a b.\n  let c = pack b\n      e = pack b\n      g = cond[ aval_out=(ShapedArray(float32[3]))\n"
        "                true_jaxpr={ lambda  ;  ; a.\n                             let (b) = id a\n"
        "                                 c = sin b\n                                 d = pack c\n"
        "                             in d }\n                false_jaxpr={ lambda  ;  ; a.\n"
        "                              let (b) = id a\n                                  c = mul b 2.0\n"
        "                                  d = pack c\n                              in d } ] a c d e f\n"
        "      (h) = id g\n  in h }\n",
        [None, None],
        [np.bool_(False), X],
        [2 * X],
    ),
    "a mean over devices, which sums two values at once (0.1.60)": (
        "{ lambda  ; a.\n  let b = xla_pmap[ axis_name=i\n                    axis_size=2\n                    backend=None\n"
        "                    call_jaxpr={ lambda  ; a.\n                                 let b c = psum[ axis_name=i ] a 1\n"
        "                                     d = convert_element_type[ new_dtype=float32\n"
        "                                                               old_dtype=int32 ] c\n"
        "                                     e = div b d\n                                 in e }\n"
        "                    devices=None\n                    global_axis_size=None\n                    mapped_invars=(True,)\n"
        "                    name=<lambda> ] a\n  in b }",
        [],
        [np.stack([X, 3 * X])],
        [np.stack([2 * X, 2 * X])],
    ),
    "constants of a program without types": (
        "{ lambda a ; b.\n  let c = mul b a\n  in (c,) }",
        [X],
        [X],
        [X * X],
    ),
}  # fmt: skip


def _with_constants(text, consts):
    """The program with values for the constants that need one."""
    program = jt.parse(text)
    values = [c if x is None else x for x, c in zip(consts, program.consts, strict=True)]
    return jt.ClosedJaxpr(program.jaxpr, values)


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    text, consts, args, want = CASES[name]
    got = jt.eval_jaxpr(_with_constants(text, consts), args)
    assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_types(name):
    """With the types of its values the program is well-typed, and its print is read as the same program."""
    text, consts, args, _ = CASES[name]
    program = jt.with_types(_with_constants(text, consts), *args)
    jt.typecheck_jaxpr(program)
    assert same_program(jt.parse(jt.format_jaxpr(program, lossless=True)), program)


@pytest.mark.parametrize("name", CASES)
def test_both_readers_agree(name):
    text = CASES[name][0]
    assert difference(text) is None
    for at in range(0, len(text), 7):
        assert difference(text[:at]) is None


def test_a_constant_that_nothing_reads_is_not_asked_for():
    """It has no place in the text that is printed, and its value in that of the program with types."""
    text = CASES["a unit among the constants (0.1.60)"][0]
    program = jt.parse(text)
    assert "where" not in str(program)
    typed = jt.with_types(program, "f32[3]", "f32[3]")
    assert typed.jaxpr.const_binders[0].aval.dtype.name == "bool"
    assert "where\n  b = False" in str(typed) or "where b = False" in str(typed)


BRANCHES = """\
{ lambda  ; a b.
  let c d = cond[ branches=( { lambda a b ; c.
                               let d = mul c b
                               in (a, d) }
                             { lambda  ; a.
                               let b = sin a
                                   c = cos a
                               in (b, c) } )
                  linear=(False,) ] a b
  in (c, d) }
"""


def test_constants_inside_have_the_types_of_their_uses():
    """The value of such a constant is in no text: where it is needed it is asked for by name."""
    program = jt.with_types(jt.parse(BRANCHES), "i32[]", "f32[3]")
    jt.typecheck_jaxpr(program)
    first = program.jaxpr.eqns[0].params["branches"][0].jaxpr
    assert [str(v.aval) for v in first.const_binders] == ["f32[3]", "f32[3]"]
    with pytest.raises(jt.JaxprToolError, match=r"2:39: error: the value of the constant a is not"):
        jt.eval_jaxpr(program, [np.int32(0), X])


COLLECTIVES = ["psum", "pmax", "pmin", "psum_invariant", "pvary"]


@pytest.mark.parametrize("primitive", COLLECTIVES)
def test_collectives_of_several_operands(primitive):
    """To 0.8.1 a reduction of a tree is one equation, which has the leaves as operands; now each has its own."""
    begin, end = "{ lambda ; a:f32[2] b:f32[3]. let\n    ", "\n  in (c, d) }"
    params = "[axes=('i',) axis_index_groups=None]"
    together = f"{begin}c:f32[2] d:f32[3] = {primitive}{params} a b{end}"
    alone = f"{begin}c:f32[2] = {primitive}{params} a\n    d:f32[3] = {primitive}{params} b{end}"
    assert same_program(jt.parse(together), jt.parse(alone))
    assert difference(together) is None


SCATTERS = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_with_the_shape_of_their_updates(name):
    text = f"""\
{{ lambda  ;  ; a i b.
  let c = scatter-{name}[ dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
                       update_consts=()
                       update_jaxpr={{ lambda  ;  ; a b.
                                      let c = {name} a b
                                      in [c] }}
                       updates_shape=(2,) ] a i b
  in [c] }}
"""
    args = [X, np.array([[2], [0]], np.int32), np.array([1, 3], np.float32)]
    want = X.copy()
    SCATTERS[name].at(want, [2, 0], args[2])
    np.testing.assert_allclose(jt.eval_jaxpr(jt.parse(text), args)[0], want)


def test_functions_with_inverses_are_called():
    text = """\
{ lambda  ; a.
  let b = custom_ivjp[ fun_jaxpr={ lambda  ; a.
                                   let b = exp a
                                   in (b,) }
                       ivjp_jaxpr={ lambda  ; a b c.
                                    let d = mul c b
                                    in (a, d) } ] a
  in (b,) }
"""
    np.testing.assert_allclose(jt.eval_jaxpr(jt.parse(text), [X])[0], np.exp(X), rtol=1e-6)


def test_axis_index_of_the_first_releases():
    text = """\
{ lambda  ; a.
  let b = xla_pmap[ axis_name=i
                    axis_size=3
                    backend=None
                    call_jaxpr={ lambda  ; a.
                                 let b = axis_index[ axis_name=i
                                                     nreps=3
                                                     sizes=(3,)
                                                     soft_size=None ]
                                     c = convert_element_type[ new_dtype=float32
                                                               old_dtype=int32 ] b
                                     d = mul a c
                                 in (d,) }
                    devices=None
                    global_axis_size=None
                    mapped_invars=(True,)
                    name=f ] a
  in (b,) }
"""
    np.testing.assert_allclose(jt.eval_jaxpr(jt.parse(text), [X])[0], X * [0, 1, 2])


TREES = """{ lambda ; a:f32[3] b:f32[2]. let
    c:f32[3] d:f32[2] = psum[axes=('i',) axis_index_groups=None] a b
    e:f32[3] f:f32[2] = psum[axes=('i',) axis_index_groups=None] a b
    g:f32[3] = psum[axes=('i',) axis_index_groups=None] c
    h:f32[2] = psum[axes=('i',) axis_index_groups=None] d
  in (e, f, g, h) }"""
LEAVES = """{ lambda ; a:f32[3] b:f32[2]. let
    c:f32[3] = psum[axes=('i',) axis_index_groups=None] a
    d:f32[2] = psum[axes=('i',) axis_index_groups=None] b
    e:f32[3] = psum[axes=('i',) axis_index_groups=None] a
    f:f32[2] = psum[axes=('i',) axis_index_groups=None] b
    g:f32[3] = psum[axes=('i',) axis_index_groups=None] c
    h:f32[2] = psum[axes=('i',) axis_index_groups=None] d
  in (e, f, g, h) }"""


def test_a_reduction_of_a_tree_is_printed_as_it_was():
    """Two equations that JAX traced for two arrays are no tree."""
    program = jt.parse(TREES)
    assert [len(e.inputs) for e in program.eqns] == [1] * 6
    assert str(program) == TREES
    assert jt.format_jaxpr(program, dialect="jax-0.8.3") == LEAVES
    assert str(jt.parse(LEAVES)) == jt.format_jaxpr(jt.parse(LEAVES), dialect="jax-0.8.1") == LEAVES
    lossless = jt.format_jaxpr(program, lossless=True)
    assert jt.format_jaxpr(jt.parse(lossless), lossless=True) == lossless
