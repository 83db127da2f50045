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
    "constants of a program without types": (
        "{ lambda a ; b.\n  let c = mul b a\n  in (c,) }",
        [X],
        [X],
        [X * X],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    text, consts, args, want = CASES[name]
    got = jt.eval_jaxpr(jt.ClosedJaxpr(jt.parse(text).jaxpr, consts), args)
    assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_types(name):
    """With the types of its values the program is well-typed, and its print is read as the same program."""
    text, consts, args, _ = CASES[name]
    program = jt.with_types(jt.ClosedJaxpr(jt.parse(text).jaxpr, consts), *args)
    jt.typecheck_jaxpr(program)
    assert same_program(jt.parse(jt.format_jaxpr(program, lossless=True)), program)


@pytest.mark.parametrize("name", CASES)
def test_both_readers_agree(name):
    text = CASES[name][0]
    assert difference(text) is None
    for at in range(0, len(text), 7):
        assert difference(text[:at]) is None
