"""The derivative of a batch is the batch of the derivatives, to the second order.

A batch rule that writes a primitive out with others would break this where the derivative of the primitive is a rule of
its own, and not that of the others.
"""

from __future__ import annotations

import numpy as np

import jaxprtool as jt
from tests.laws.oracle import (
    EXAMPLES,
    assert_close,
    by_structure,
    inputs,
    is_differentiable,
    law,
    ours,
    tangent_like,
)

SIZE = 2
MAPPED = [e for e in by_structure(EXAMPLES) if e.mapped and e.forward and e.args]


def derivative(f, floats):
    """Return the function of the operands of f, and the tangents of its floats, that gives the tangents of its results."""

    def moved(*values):
        xs, tangents = values[: len(floats)], values[len(floats) :]

        def of_floats(*given):
            rest = iter(given)
            return f(*[next(rest) if flies else x for x, flies in zip(xs, floats, strict=True)])

        primals = tuple(x for x, flies in zip(xs, floats, strict=True) if flies)
        return jt.jvp(of_floats, primals, tuple(tangents))[1]

    return moved


def second_derivative(f, floats):
    """Return the derivative of the derivative; it takes the same values."""

    def moved(*values):
        tangents = values[len(floats) :]
        return derivative(lambda *x: derivative(f, floats)(*x, *tangents), floats)(*values)

    return moved


def check_batch(f, rows, what=""):
    """Check that the derivatives of vmap(f) are those of f for each row of operands."""
    floats = [np.asarray(x).dtype.kind not in "biu" for x in rows[0]]
    values = [
        [*row, *[tangent_like(x, i + n) for i, x in enumerate(row) if floats[i]]]
        for n, row in enumerate(rows)
    ]
    for order, derived in enumerate((derivative, second_derivative), 1):
        try:
            each = [derived(f, floats)(*v) for v in values]
        except jt.MissingRuleError:  # of the derivative itself: that of `igamma` has none
            assert order == 2
            continue
        together = derived(jt.vmap(f), floats)(*[np.stack(xs) for xs in zip(*values, strict=True)])
        for found, *wanted in zip(together, *each, strict=True):
            if np.asarray(wanted[0]).dtype.names is None:
                assert_close(found, np.stack(wanted), scale=8.0, what=f"{what} order {order}")


@law([e for e in MAPPED if is_differentiable(e)])
def test_the_derivative_of_a_batch_is_the_batch_of_derivatives(example):
    check_batch(ours(example), [inputs(example, seed) for seed in range(SIZE)])
