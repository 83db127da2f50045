"""Sample inputs of linear algebra."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jaxprtool import ops as lax
from tests.rules.example import Example, arg


def _draw(shape: tuple[int, ...], kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if kind == "c" else x


def _square(text: str, change: Any, seed: int = 11) -> Any:
    """An operand whose matrices change(x) makes from random ones."""
    plain = arg(text)
    return arg(text, values=change(_draw(plain.aval.shape, plain.aval.dtype.kind, seed)))


def _hermitian(x: np.ndarray) -> np.ndarray:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def _positive(x: np.ndarray) -> np.ndarray:
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])


def _dominant(x: np.ndarray) -> np.ndarray:
    return x + 3 * np.eye(x.shape[-1])


def _in_jax(name: str, **kept: Any) -> Any:
    """A primitive of JAX's linear algebra that is not public."""

    def bind(*operands: Any, **params: Any) -> Any:
        from jax._src.lax import linalg

        return getattr(linalg, f"{name}_p").bind(*operands, **kept, **params)

    return functools.update_wrapper(bind, _in_jax)


def _cholesky() -> list[Example]:
    types = ["f32[3,3]", "f64[2,3,3]", "c64[2,2]", "c128[3,3]", "f64[0,0]", "f32[2,0,0]"]
    negative = _square("f64[2,2]", lambda x: -_positive(x))
    operands = [*(_square(t, _positive) for t in types), negative]
    before = (0, 11, 2)  # since then only the lower triangle of a tangent counts
    return [Example(lax.cholesky, (a,), smooth=False, rule_before=before) for a in operands]


def _products() -> list[Example]:
    upper = lambda x: np.triu(_dominant(x))
    updates = [
        Example(
            lax.cholesky_update,
            (_square(m, upper), arg(v)),
            jax=_in_jax("cholesky_update"),
            differentiable=False,
            mapped=False,
        )
        for m, v in (("f64[3,3]", "f64[3]"), ("f32[4,4]", "f32[4]"), ("f32[0,0]", "f32[0]"))
    ]
    zero = arg("f64[2]", values=np.zeros(2))
    updates.append(
        Example(
            lax.cholesky_update,
            (_square("f64[2,2]", upper), zero),
            jax=_in_jax("cholesky_update"),
            differentiable=False,
            mapped=False,
        )
    )
    return updates + [
        Example(
            lax.symmetric_product,
            (arg(a), _square(c, _hermitian)),
            {"alpha": alpha, "beta": beta},
            jax=_in_jax("symmetric_product"),
            differentiable=False,
        )
        for a, c, alpha, beta in (
            ("f64[3,2]", "f64[3,3]", 0.5, 2.0),
            ("f32[2,2,3]", "f32[2,2,2]", 1.0, 0.0),
            ("f32[2,0]", "f32[2,2]", 0.5, 2.0),
        )
    ]


def _triangular(a: str, b: str, *flags: int) -> Example:
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    params = {n: bool(f) for n, f in zip(names, flags, strict=True)}
    return Example(lax.triangular_solve, (_square(a, _dominant), arg(b)), params)


def _lu() -> list[Example]:
    types = ["f32[3,3]", "f64[2,3,3]", "f64[4,2]", "f64[2,4]", "c64[3,3]", "c128[2,3]", "f64[0,2]"]
    swaps = arg("i32[2,3]", values=[[2, 1, 2], [1, 2, 2]])
    jax_permutation = _in_jax("lu_pivots_to_permutation")
    return [
        *[Example(lax.lu, (_square(t, lambda x: x),)) for t in types],
        Example(
            lax.lu_pivots_to_permutation, (swaps,), {"permutation_size": 3}, jax=jax_permutation
        ),
        Example(
            lax.lu_pivots_to_permutation,
            (arg("i32[2]", values=[3, 1]),),
            {"permutation_size": 4},
            jax=jax_permutation,
        ),
        Example(
            lax.lu_pivots_to_permutation,
            (arg("i32[0]"),),
            {"permutation_size": 2},
            jax=jax_permutation,
        ),
    ]


def _qr(text: str, full: bool, pivoting: bool = False) -> Example:
    params = {"full_matrices": full, "pivoting": pivoting}
    return Example(lax.qr, (_square(text, lambda x: x),), params)


def _reflectors() -> list[Example]:
    product = lax.householder_product
    return [
        *[
            Example(lax.geqrf, (arg(t),), jax=_in_jax("geqrf"))
            for t in ("f32[3,2]", "f64[2,2,3]", "c128[3,3]", "f64[0,2]")
        ],
        *[
            Example(
                lax.ormqr,
                (arg(a), arg(t), arg(c)),
                {"left": left, "transpose": transpose},
                jax=_in_jax("ormqr"),
            )
            for a, t, c, left, transpose in (
                ("f32[4,3]", "f32[3]", "f32[4,2]", True, False),
                ("f64[2,4,3]", "f64[2,2]", "f64[2,5,4]", False, True),
                ("c128[3,3]", "c128[3]", "c128[3,2]", True, True),
                ("c64[3,2]", "c64[2]", "c64[1,3]", False, False),
                ("f32[3,2]", "f32[0]", "f32[3,2]", True, False),
            )
        ],
        Example(product, (arg("f32[3,2]"), arg("f32[2]"))),
        Example(product, (arg("f64[2,3,3]"), arg("f64[2,1]"))),
        Example(product, (arg("c128[3,2]"), arg("c128[2]"))),
        Example(product, (arg("f64[2,0]"), arg("f64[0]"))),
    ]


def _eigh(text: str, lower: bool = True) -> Example:
    params = {
        "lower": lower,
        "sort_eigenvalues": True,
        "subset_by_index": None,
        "algorithm": None,
    }
    return Example(lax.eigh, (_square(text, _hermitian),), params, smooth=False)


def _eig(text: str, left: bool, right: bool, derivatives: bool = True) -> Example:
    params = {
        "compute_left_eigenvectors": left,
        "compute_right_eigenvectors": right,
        "enable_eigvec_derivs": derivatives,
        "implementation": None,
    }
    smooth = not text.startswith("f32")
    operand = _square(text, lambda x: x)
    return Example(lax.eig, (operand,), params, smooth=smooth, differentiable=derivatives)


def _svd(text: str, full: bool, vectors: bool, smooth: bool = True) -> Example:
    params = {
        "full_matrices": full,
        "compute_uv": vectors,
        "subset_by_index": None,
        "algorithm": None,
    }
    return Example(lax.svd, (_square(text, lambda x: x),), params, smooth=smooth)


def _forms() -> list[Example]:
    schur = {"sort_eig_vals": False, "select_callable": None}
    return [
        Example(lax.hessenberg, (arg("f32[3,3]"),)),
        Example(lax.hessenberg, (arg("c128[2,4,4]"),)),
        Example(lax.hessenberg, (arg("f64[1,1]"),)),
        Example(lax.schur, (arg("f32[3,3]"),), {"compute_schur_vectors": True, **schur}),
        Example(lax.schur, (arg("f64[2,4,4]"),), {"compute_schur_vectors": False, **schur}),
        Example(lax.schur, (arg("c128[3,3]"),), {"compute_schur_vectors": True, **schur}),
        Example(lax.schur, (arg("c64[0,0]"),), {"compute_schur_vectors": True, **schur}),
        Example(lax.tridiagonal, (_square("f32[3,3]", _hermitian),), {"lower": True}),
        Example(lax.tridiagonal, (_square("c128[2,4,4]", _hermitian),), {"lower": False}),
        Example(lax.tridiagonal, (_square("f64[1,1]", _hermitian),), {"lower": True}),
    ]


def _tridiagonal_solve(dtype: str, batch: str, n: int, k: int, perturb: bool = False) -> Example:
    diagonal = f"{dtype}[{batch}{n}]"
    args = (arg(diagonal), arg(diagonal, "above1"), arg(diagonal), arg(f"{dtype}[{batch}{n},{k}]"))
    return Example(lax.tridiagonal_solve, args, {"perturb_singular": perturb})


EXAMPLES = [
    *_cholesky(),
    *_products(),
    _triangular("f32[3,3]", "f32[3,2]", 1, 1, 0, 0, 0),
    _triangular("f64[3,3]", "f64[2,3]", 0, 0, 0, 0, 0),
    _triangular("f64[2,3,3]", "f64[2,3,4]", 1, 0, 1, 0, 1),
    _triangular("c64[3,3]", "c64[4,3]", 0, 1, 1, 1, 0),
    _triangular("c128[3,3]", "c128[3,2]", 1, 0, 0, 1, 1),
    _triangular("c128[2,2,2]", "c128[2,2,2]", 0, 0, 1, 0, 0),
    _triangular("f64[0,0]", "f64[0,2]", 1, 1, 0, 0, 0),
    *_lu(),
    _qr("f32[3,3]", False),
    _qr("f64[4,2]", False),
    _qr("f64[4,2]", True),
    _qr("f64[2,2,4]", True),
    _qr("c128[3,2]", True),
    _qr("c64[2,3]", False),
    _qr("f64[3,3]", True, pivoting=True),
    _qr("f64[4,2]", False, pivoting=True),
    _qr("f64[0,2]", False),
    *_reflectors(),
    _eigh("f32[3,3]"),
    _eigh("f64[2,3,3]", lower=False),
    _eigh("c64[2,2]"),
    _eigh("c128[3,3]", lower=False),
    _eigh("f64[0,0]"),
    _eig("f32[3,3]", False, False),
    _eig("f64[2,3,3]", False, False),
    _eig("f64[3,3]", True, True),
    _eig("c128[3,3]", False, True),
    _eig("c64[2,2]", True, False),
    _eig("f64[3,3]", False, True, derivatives=False),
    _svd("f32[3,3]", False, True),
    _svd("f64[4,2]", False, True),
    _svd("f64[2,2,3]", False, True),
    _svd("f64[3,3]", True, True),
    _svd("f64[2,3]", True, False),
    _svd("c128[3,2]", False, True, smooth=False),
    _svd("c64[2,2]", False, False),
    _svd("f64[0,2]", False, True),
    *_forms(),
    _tridiagonal_solve("f32", "", 4, 2),
    _tridiagonal_solve("f64", "2,", 3, 1),
    _tridiagonal_solve("c128", "", 3, 2),
    _tridiagonal_solve("f64", "", 1, 2),
    _tridiagonal_solve("f64", "", 4, 2, perturb=True),
    Example(lax.tridiagonal, (arg("c64[1,1]"),), {"lower": True}),
]
