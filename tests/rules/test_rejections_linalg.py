"""Wrong operands and params of linear algebra and Fourier transforms are told by name."""

from __future__ import annotations

import pytest

from jaxprtool import ops as lax
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.diagnostics import JaxprTypeError, UnsupportedError
from jaxprtool.ir.params import Word
from tests.rules.example import Example, arg, make_inputs

SOLVE = {"left_side": True, "lower": True}
MQR = {"left": True, "transpose": False}
QR = {"full_matrices": False}
EIGH = {"lower": True}
EIG = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": True}
SVD = {"full_matrices": False, "compute_uv": True}
FFT = {"fft_type": 0, "fft_lengths": (4,)}

REJECTED = [
    (lax.cholesky, "i32[2,2]", {}, "operand-dtype", "i32[2,2]"),
    (lax.cholesky, "f32[2]", {}, "operand-rank", "f32[2]"),
    (lax.cholesky, "f32[2,3]", {}, "operand-shapes", "f32[2,3]"),
    (lax.triangular_solve, "f32[2,3] f32[2,3]", SOLVE, "operand-shapes", "f32[2,3]"),
    (lax.triangular_solve, "f32[2,2] f64[2,3]", SOLVE, "operand-types", "f64[2,3]"),
    (lax.triangular_solve, "f32[2,2] f32[3,2]", SOLVE, "operand-shapes", "left_side=True"),
    (
        lax.triangular_solve,
        "f32[2,2] f32[2,3]",
        {**SOLVE, "left_side": False},
        "operand-shapes",
        "left_side=False",
    ),
    (lax.triangular_solve, "f32[4,2,2] f32[3,2,2]", SOLVE, "operand-shapes", "batch"),
    (lax.triangular_solve, "f32[2,2] f32[2]", SOLVE, "operand-rank", "f32[2]"),
    (lax.lu, "i32[2,2]", {}, "operand-dtype", "i32[2,2]"),
    (lax.lu, "f32[]", {}, "operand-rank", "f32[]"),
    (lax.lu_pivots_to_permutation, "i64[2]", {"permutation_size": 2}, "operand-dtype", "i64[2]"),
    (lax.lu_pivots_to_permutation, "i32[3]", {"permutation_size": 2}, "param-value", "=2"),
    (lax.geqrf, "bool[2,2]", {}, "operand-dtype", "bool[2,2]"),
    (lax.householder_product, "f32[2,3] f32[2]", {}, "operand-shapes", "f32[2,3]"),
    (lax.householder_product, "f32[3,2] f32[3]", {}, "operand-shapes", "f32[3]"),
    (lax.householder_product, "f32[3,2] f64[2]", {}, "operand-types", "f64[2]"),
    (lax.ormqr, "f32[3,2] f32[2] f32[2,2]", MQR, "operand-shapes", "as many rows"),
    (lax.ormqr, "f32[3,2] f32[3] f32[3,2]", MQR, "operand-shapes", "f32[3]"),
    (lax.ormqr, "f32[3,2] f64[2] f32[3,2]", MQR, "operand-types", "f64[2]"),
    (lax.qr, "i32[2,2]", QR, "operand-dtype", "i32[2,2]"),
    (lax.eigh, "f32[2,3]", EIGH, "operand-shapes", "f32[2,3]"),
    (lax.eigh, "f32[2,2]", {**EIGH, "subset_by_index": (0, 3)}, "param-value", "(0, 3)"),
    (lax.eigh, "f32[2,2]", {**EIGH, "algorithm": Word("Fast")}, "param-value", "Fast"),
    (lax.eig, "f32[2,3]", EIG, "operand-shapes", "f32[2,3]"),
    (lax.eig, "f32[2,2]", {**EIG, "implementation": Word("X.NO")}, "param-value", "X.NO"),
    (lax.svd, "i32[2,2]", SVD, "operand-dtype", "i32[2,2]"),
    (lax.svd, "f32[2,2]", {**SVD, "subset_by_index": (1, 0)}, "param-value", "(1, 0)"),
    (
        lax.svd,
        "f32[2,3]",
        {**SVD, "full_matrices": True, "subset_by_index": (0, 1)},
        "param-value",
        "(0, 1)",
    ),
    (lax.svd, "f32[2,2]", {**SVD, "algorithm": Word("X.NO")}, "param-value", "X.NO"),
    (lax.hessenberg, "f32[2,3]", {}, "operand-shapes", "f32[2,3]"),
    (lax.hessenberg, "f32[0,0]", {}, "operand-shapes", "f32[0,0]"),
    (lax.schur, "f32[2,3]", {"compute_schur_vectors": True}, "operand-shapes", "f32[2,3]"),
    (lax.tridiagonal, "f32[0,0]", {"lower": True}, "operand-shapes", "f32[0,0]"),
    (lax.tridiagonal_solve, "f32[3] f32[3] f32[2] f32[3,1]", {}, "operand-shapes", "f32[2]"),
    (lax.tridiagonal_solve, "f32[3] f32[3] f32[3] f32[2,1]", {}, "operand-shapes", "f32[2,1]"),
    (lax.tridiagonal_solve, "f32[3] f64[3] f32[3] f32[3,1]", {}, "operand-types", "f64[3]"),
    (
        lax.fft,
        "c64[4]",
        {**FFT, "fft_type": 4},
        "param-value",
        "fft_type is 4, and has to be FFT (0)",
    ),
    (lax.fft, "c64[4]", {**FFT, "fft_type": Word("FftType.DCT")}, "param-value", "DCT"),
    (lax.fft, "c64[4]", {**FFT, "fft_lengths": (4, 4)}, "param-value", "(4, 4)"),
    (lax.fft, "c64[4]", {**FFT, "fft_lengths": (5,)}, "fft-lengths", "(5,)"),
    (lax.fft, "c64[2,4]", {"fft_type": 3, "fft_lengths": (3, 6)}, "fft-lengths", "(3, 6)"),
    (lax.fft, "f32[4]", FFT, "operand-dtype", "f32[4]"),
    (lax.fft, "c64[4]", {**FFT, "fft_type": 2}, "operand-dtype", "RFFT"),
    (lax.fft, "bf16[4]", {**FFT, "fft_type": 2}, "operand-dtype", "bf16[4]"),
    (lax.fft, "f32[4]", {**FFT, "fft_type": 3}, "operand-dtype", "IRFFT"),
]


@pytest.mark.parametrize("op, types, params, code, shown", REJECTED)
def test_rejected(op, types, params, code, shown):
    avals = [arg(t).aval for t in types.split()]
    with pytest.raises(JaxprTypeError) as caught:
        abstract_eval(op.primitive, avals, {**op.primitive.defaults, **params})
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == code
    assert op.primitive.name in diagnostic.message
    assert shown in diagnostic.message


UNSUPPORTED = [
    (lax.cholesky, "bf16[2,2]", {}, "bf16"),
    (lax.eigh, "f32[3,3]", {**EIGH, "subset_by_index": (0, 2)}, "subset_by_index"),
    (lax.eigh, "f32[3,3]", {**EIGH, "algorithm": Word("EighImplementation.JACOBI")}, "JACOBI"),
    (lax.eig, "f32[3,3]", {**EIG, "implementation": Word("EigImplementation.MAGMA")}, "MAGMA"),
    (lax.svd, "f32[3,3]", {**SVD, "subset_by_index": (0, 2)}, "subset_by_index"),
    (lax.svd, "f32[3,3]", {**SVD, "algorithm": Word("SvdAlgorithm.POLAR")}, "POLAR"),
    (
        lax.schur,
        "f32[2,2]",
        {"compute_schur_vectors": True, "sort_eig_vals": True},
        "sort_eig_vals",
    ),
]


@pytest.mark.parametrize("op, text, params, shown", UNSUPPORTED)
def test_what_no_cpu_has_is_refused(op, text, params, shown):
    example = Example(op, (arg(text),), params)
    with pytest.raises(UnsupportedError, match=shown):
        op(*make_inputs(example), **params)
