"""What NumPy's functions take besides arrays: options, element types, axes of every form; and random calls of them.

Each call gives NumPy's own result when it is traced, or is refused by name.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt

X = np.array([[0.5, -1.5, 2.5], [3.0, -0.25, 1.0]])
I = np.array([[100, -120, 7], [3, 0, 50]], np.int8)
M = np.array([[True, False, True], [False, False, True]])
C = np.array([0j, 1 - 2j, complex(-np.inf, 0), complex(np.nan, np.inf), 2 + 0.125j, 1 + 3j])
D = np.array([1j, 1 - 1j, 0, 0, 2 + 0.125j, 1 + 3.5j])
T = np.arange(24.0).reshape(2, 3, 4)


def same(f: Callable[..., Any], *args: Any) -> None:
    """f gives the values and element types that NumPy gives when it is traced."""
    wanted = f(*args)
    found = jt.eval_jaxpr(jt.make_jaxpr(f)(*args), args)
    wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    assert len(found) == len(wanted)
    for a, b in zip(found, map(np.asarray, wanted), strict=True):
        a = np.asarray(a)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-3 if a.dtype.itemsize == 2 else 1e-6, atol=1e-12)


CASES: dict[str, tuple[Any, ...]] = {
    "a ufunc computes in its dtype": (lambda a: np.add(a, a, dtype=np.int32), I),
    "a product in its dtype": (lambda a: np.multiply(a, a, dtype="int64"), I),
    "a root in its dtype": (lambda a: np.sqrt(a, dtype=np.float64), np.float32([2, 3])),
    "a quotient in its dtype": (lambda a: np.divide(a, 3, dtype=np.float32), I),
    "a predicate in its dtype": (lambda a: np.isnan(a, dtype=bool), X),
    "a reduction in its dtype": (
        lambda a: np.add.reduce(a, dtype=np.float64),
        np.float16([2049, 1, 1]),
    ),
    "the largest in its dtype": (lambda a: np.maximum.reduce(a, axis=None, dtype=np.int64), I),
    "sum where": (lambda a, m: np.sum(a, axis=0, where=m), X, M),
    "prod where, initial": (lambda a, m: np.prod(a, where=m, initial=3.0), X, M),
    "max where, initial": (lambda a, m: np.max(a, axis=1, where=m, initial=1.0), X, M),
    "min initial": (lambda a: a.min(initial=-3.0), X),
    "min of nothing": (lambda a: a[:0].min(initial=7), I),
    "any where": (lambda a, m: np.any(a > 2, where=m, axis=0), X, M),
    "all where": (lambda a, m: np.all(a > 0, where=m, axis=0, keepdims=True), X, M),
    "reduce where": (lambda a, m: np.add.reduce(a, where=m, initial=2), I.astype(np.int64), M),
    "ptp keepdims": (lambda a: np.ptp(a, axis=1, keepdims=True), X),
    "var of few": (lambda a: np.var(a[:, :2], axis=1, ddof=1), X),
    "split before the end": (lambda a: np.split(a, [-1], axis=1), X),
    "split at an array": (lambda a: np.split(a, np.array([1, 2]), axis=1), X),
    "split past the end": (lambda a: np.split(a, [1, 5], axis=1), X),
    "roll of two axes": (lambda a: np.roll(a, (1, -2), axis=(0, 1)), X),
    "one roll of two axes": (lambda a: np.roll(a, 1, axis=(0, 1)), X),
    "two rolls of one axis": (lambda a: np.roll(a, (1, 1), axis=1), X),
    "flat roll of a list": (lambda a: np.roll(a, [2]), X),
    "tile of nothing": (lambda a: np.tile(a, (0, 2)), X),
    "tile of an array": (lambda a: np.tile(a, np.array([2, 1])), X),
    "pad of an array": (lambda a: np.pad(a, np.array([[1, 0], [0, 2]])), X),
    "full_like of one size": (lambda a: np.full_like(a, 2, shape=4), X),
    "broadcast to one size": (lambda a: np.broadcast_to(a[0, :1], 4), X),
    "diff past the end": (lambda a: np.diff(a, 3, axis=0), X),
    "meshgrid of scalars": (lambda a: np.meshgrid(a[0, 0], a), X),
    "size along an axis": (lambda a: a * np.size(a, 1) * np.size(a, (0, 1)), X),
    "transpose of a vector": (lambda a: np.transpose(a, axes=0), X[0]),
    "trace": (lambda a: np.trace(a, 1) + np.trace(a, offset=-1), X),
    "trace of many": (lambda a: np.trace(a, axis1=2, axis2=0), T),
    "trace of small integers": (lambda a: a.trace(), I),
    "diagonal of many": (lambda a: np.diagonal(a, 1, -1, 0), T),
    "diagonal past the end": (lambda a: np.diagonal(a, 5), X),
    "diagonal below": (lambda a: a.diagonal(-1), X.T),
    "kron of ranks": (lambda a: np.kron(a[0], a), X),
    "kron of a scalar": (lambda a: np.kron(a[0, 0], a), X),
    "round of complex numbers": (lambda a: np.round(a, 1), C),
    "logarithms of complex numbers": (lambda a: [np.log2(a[1:3]), np.log10(a[:2])], C),
    "finite complex numbers": (lambda a: [np.isfinite(a), np.isinf(a), np.isnan(a)], C),
    "order of complex numbers": (lambda a, b: [a < b, a <= b, a > b, a >= b], C[:2], D[:2]),
    "order of equal parts": (lambda a, b: [a < b, a <= b, a > b, a >= b], C[4:], D[4:]),
}


@pytest.mark.parametrize("name", CASES)
def test_options(name):
    f, *args = CASES[name]
    with np.errstate(all="ignore"):
        same(f, *args)


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "a list of numbers": (lambda x: np.dot(x, [1, 2, 3]), "no array and no number but a list"),
    "positions in a list": (lambda x: np.take(x, [0, 1]), "no array and no number but a list"),
    "positions that are floats": (lambda x: np.take(x, np.float64(1.5)), "positions are integers"),
    "an axis": (lambda x: np.sum(x, axis="rows"), "the axis is 'rows', and an integer is needed"),
    "a float axis": (lambda x: x.sum(0.5), "the axis is 0.5"),
    "axes": (lambda x: np.expand_dims(x, (0, 1j)), "the axis is 1j"),
    "a shape": (lambda x: x.reshape(1.5, 2), "a size of the shape is 1.5"),
    "no shape": (lambda x: x.reshape(), "reshape needs a shape"),
    "decimals": (lambda x: np.round(x, 1.5), "the number of decimals is 1.5"),
    "integers to tens": (lambda x: np.round(x.astype(int), -1), "round of integers to -1 decimals"),
    "a triangle": (lambda x: np.triu(np.outer(x, x), 0.5), "the diagonal is 0.5"),
    "repeats": (lambda x: np.repeat(x, np.array([1, 2, 0])), "a number for each element"),
    "a width": (lambda x: np.pad(x, -1), "a width of -1 is negative"),
    "nothing": (lambda x: np.max(x[:0]), "the maximum of no element needs initial="),
    "nothing of some": (lambda x: np.max(x, where=x > 0), "elements that where= chooses"),
    "a mask of numbers": (lambda x: np.sum(x, where=x), "has to be of booleans"),
    "a mask of a mean": (lambda x: np.mean(x, where=x > 0), "mean: the option where= is not"),
    "a mask of a method": (lambda x: x.mean(where=x > 0), "method mean: the option where="),
    "a where of one": (lambda x: np.where(x), "numpy.where of 1 argument is not possible"),
    "integers of floats": (lambda x: np.add(x, 1, dtype=int), "numpy.add with dtype=i64"),
    "integers of a root": (lambda x: np.sqrt(x > 0, dtype=int), "has no integer results"),
    "numbers of a predicate": (lambda x: np.less(x, 1, dtype=float), "are booleans"),
    "grids": (lambda x: np.meshgrid(x, x, indexing="yx"), "it is 'xy' or 'ij'"),
    "rolls": (lambda x: np.roll(x, (1, 2), axis=(0, 0, 0)), "2 shifts along 3 axes"),
    "one axis twice": (lambda x: np.trace(np.outer(x, x), 0, 1, 1), "which are one"),
    "an axis of one": (lambda x: np.concatenate([x], axis=1), "axis 1 is out of range"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, message = REFUSED[name]
    with pytest.raises(jt.JaxprToolError, match=message):
        jt.make_jaxpr(f)(np.arange(3.0))


# -- random calls --------------------------------------------------------------------------------------

UNARY = [
    "negative",
    "absolute",
    "sign",
    "square",
    "sqrt",
    "exp",
    "log1p",
    "sin",
    "tanh",
    "floor",
    "rint",
    "isfinite",
    "log2",
    "real",
    "imag",
    "isinf",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "power",
    "arctan2",
    "hypot",
    "equal",
    "less",
    "greater_equal",
    "logical_and",
    "logaddexp",
    "fmax",
]
REDUCTIONS = [
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "argmax",
    "cumsum",
    "ptp",
]
TYPES = ["f8", "f4", "f2", "i8", "i4", "i1", "u1", "u4", "c16", "c8", "?"]
SHAPES = [(), (3,), (1, 3), (2, 1), (2, 3), (4, 2, 3)]


def _array(draw: random.Random) -> np.ndarray:
    shape, values = draw.choice(SHAPES), [0.0, 1.0, -1.0, 2.0, 3.0, 0.5]
    x = np.array([draw.choice(values) for _ in range(int(np.prod(shape)))]).reshape(shape)
    kind = draw.choice(TYPES)
    return np.abs(x).astype(kind) if kind[0] == "u" else x.astype(kind)


def _call(draw: random.Random) -> tuple[Callable[..., Any], list[np.ndarray], str]:
    """A function, its arguments, and the call in words."""
    family = draw.randrange(3)
    names = (UNARY, BINARY, REDUCTIONS)[family]
    name, options = draw.choice(names), {}
    args = [_array(draw) for _ in range(2 if family == 1 else 1)]
    function = getattr(np, name)
    if isinstance(function, np.ufunc) and draw.random() < 0.4:
        options["dtype"] = np.dtype(draw.choice(TYPES)).type
    if family == 2:
        ndim = args[0].ndim
        options["axis"] = draw.choice([None, *range(-ndim, ndim)])
        if name not in ("cumsum",) and draw.random() < 0.5:
            options["keepdims"] = True
        if name in ("sum", "prod", "mean", "cumsum") and draw.random() < 0.4:
            options["dtype"] = np.dtype(draw.choice(TYPES)).type
        if name in ("var", "std") and draw.random() < 0.5:
            options["ddof"] = draw.choice([1, 0.5])
        if name in ("sum", "max", "min") and draw.random() < 0.3:
            options["initial"] = 1
    words = f"{name}({', '.join(f'{x.dtype}{list(x.shape)}' for x in args)}, {options})"
    return lambda *xs: function(*xs, **options), args, words


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore")
def test_random_calls(seed):
    draw, compared = random.Random(seed), 0
    for _ in range(25):
        f, args, words = _call(draw)
        try:
            wanted = f(*args)
        except (TypeError, ValueError):
            wanted = None
        try:
            found = jt.eval_jaxpr(jt.make_jaxpr(f)(*args), args)[0]
        except jt.JaxprToolError:
            continue
        if wanted is None:
            continue
        a, b = np.asarray(found), np.asarray(wanted)
        assert a.shape == b.shape, words
        assert a.dtype == b.dtype, words
        rtol = 1e-2 if a.dtype.itemsize == 2 else 1e-4
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6, err_msg=words)
        compared += 1
    assert compared >= 8
