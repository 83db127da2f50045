"""vjp is JAX's, and the adjoint of linearize: <ct, L t> = <L^T ct, t>."""

from __future__ import annotations

import jax
import numpy as np

import jaxprtool as jt
from tests.laws.oracle import (
    EXAMPLES,
    OneProgram,
    assert_close,
    by_structure,
    derived_as_jax,
    in_jax,
    inputs,
    is_differentiable,
    law,
    on_jax,
    ours,
    out_avals,
    tangent_like,
)

DIFFERENTIABLE = [
    e for e in by_structure(EXAMPLES, narrow=True) if is_differentiable(e) and e.reverse
]


def _cotangents(outs):
    return [tangent_like(x, 100 + i) for i, x in enumerate(outs)]


def _dot(xs, ys):
    """The real part of the pairing (no conjugation) of lists of arrays, and the sum of its terms' sizes.

    Real, because functions such as `real` and `conj` are linear over the reals only.
    """
    total = size = 0.0
    for x, y in zip(xs, ys, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.names or y.dtype.names:
            continue
        wide = np.complex128 if x.dtype.kind == "c" or y.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            terms = x.astype(wide) * y.astype(wide)
            total, size = total + terms.sum().real, size + np.abs(terms).sum()
    return total, size


def _is_float0(x):
    return x.dtype == jax.dtypes.float0


def _prepare(example):
    args = inputs(example)
    cts = _cotangents(ours(example)(*args))

    def pulled(both):
        xs, given = both
        rest = iter(given)
        full = [ct if _is_float0(ct) else next(rest) for ct in cts]
        grads = jax.vjp(in_jax(example), *xs)[1](full)
        return [None if _is_float0(g) else g for g in grads]

    return pulled, (args, [ct for ct in cts if not _is_float0(ct)])


AS_JAX = [e for e in DIFFERENTIABLE if derived_as_jax(e)]
EXPECTED = OneProgram(AS_JAX, _prepare, on_jax)


@law(AS_JAX)
def test_vjp_equals_jax(example):
    outs, pullback = jt.vjp(ours(example), *inputs(example))
    for x, y in zip(pullback(_cotangents(outs)), EXPECTED[example], strict=True):
        if y is None:
            assert _is_float0(np.asarray(x))
        else:
            assert_close(x, y, scale=2.0, what="vjp against jax")


@law([e for e in DIFFERENTIABLE if e.forward])
def test_pullback_is_the_adjoint(example):
    args = inputs(example)
    avals = [*(a.aval for a in example.args), *out_avals(example)]
    if any(a.dtype.bits < 32 for a in avals if a.dtype.is_inexact):
        return  # sums of 16-bit rounding errors say nothing; JAX's values do, above
    if example.primitive.name == "reduce_precision":
        return  # linear up to the rounding that it is for
    inexact = [i for i, a in enumerate(args) if a.dtype.kind in "fc"]
    for chosen in {tuple(inexact), *((i,) for i in inexact)}:

        def of_chosen(*xs, chosen=chosen):
            full = list(args)
            for i, x in zip(chosen, xs, strict=True):
                full[i] = x
            return ours(example)(*full)

        point = [args[i] for i in chosen]
        outs, pushforward = jt.linearize(of_chosen, *point)
        _, pullback = jt.vjp(of_chosen, *point)
        tangents, cts = [tangent_like(x, 7 * i) for i, x in enumerate(point)], _cotangents(outs)
        pushed, pulled = pushforward(*tangents), pullback(cts)
        jt.typecheck_jaxpr(pushforward.program)
        (left, size), (right, other) = _dot(cts, pushed), _dot(pulled, tangents)
        if np.isfinite(size) and np.isfinite(other):
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5 * (size + other) + 1e-12)
