"""jvp is JAX's, and, where the function is smooth, the limit of difference quotients."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.ir.dtypes import DType
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
    tangent_like,
)

DIFFERENTIABLE = [
    e for e in by_structure(EXAMPLES, narrow=True) if is_differentiable(e) and e.forward
]
WIDE = {"float32": np.float64, "complex64": np.complex128}
SMOOTH = [
    e
    for e in DIFFERENTIABLE
    if e.smooth
    and not any(isinstance(v, DType) for v in e.params.values())
    and all(a.aval.dtype.bits >= 32 for a in e.args if a.aval.dtype.is_inexact)
]


def _tangents(example):
    return [tangent_like(x, i) for i, x in enumerate(inputs(example))]


def _prepare(example):
    f, tangents = in_jax(example), _tangents(example)

    def pushed(args):
        ts = [t if t.dtype.names else jax.numpy.asarray(t) for t in tangents]
        return jax.jvp(f, tuple(args), tuple(ts))

    return pushed, inputs(example)


AS_JAX = [e for e in DIFFERENTIABLE if derived_as_jax(e)]
EXPECTED = OneProgram(AS_JAX, _prepare, on_jax)


@law(AS_JAX)
def test_jvp_equals_jax(example):
    args, tangents = inputs(example), _tangents(example)
    out, out_tangents = jt.jvp(ours(example), tuple(args), tuple(tangents))
    expected = EXPECTED[example]
    for x, y in zip([*out, *out_tangents], [*expected[0], *expected[1]], strict=True):
        assert_close(x, y, scale=2.0, what="jvp against jax")


@law(DIFFERENTIABLE)
def test_jvp_of_one_operand(example):
    """With a tangent for one operand only, the other tangents are absent rather than zero."""
    args = inputs(example)
    for i, a in enumerate(example.args):
        if not a.aval.dtype.is_inexact:
            continue

        def of_one(x, i=i):
            return ours(example)(*args[:i], x, *args[i + 1 :])

        t = tangent_like(args[i], i)
        others = [t if j == i else np.zeros_like(tangent_like(x, j)) for j, x in enumerate(args)]
        _, alone = jt.jvp(of_one, (args[i],), (t,))
        _, together = jt.jvp(ours(example), tuple(args), tuple(others))
        for x, y in zip(alone, together, strict=True):
            is_float0 = np.asarray(y).dtype.names is not None
            if is_float0 or np.all(np.isfinite(np.asarray(y).astype(np.complex128))):
                assert_close(x, y, what=f"operand {i}")
        program = jt.make_jaxpr(lambda x, t, f=of_one: jt.jvp(f, (x,), (t,)))(args[i], t)
        jt.typecheck_jaxpr(program)


@law(SMOOTH)
def test_jvp_is_the_limit_of_quotients(example):
    args = [x.astype(WIDE.get(str(x.dtype), x.dtype)) for x in inputs(example)]
    tangents = [tangent_like(x, i) for i, x in enumerate(args)]
    moves = [t if t.dtype.kind in "fc" else 0 for t in tangents]
    eps = 1e-6

    def at(step):
        moved = [
            x if isinstance(t, int) else np.asarray(x + step * t)
            for x, t in zip(args, moves, strict=True)
        ]
        return ours(example)(*moved)

    _, out_tangents = jt.jvp(ours(example), tuple(args), tuple(tangents))
    for t, high, low in zip(out_tangents, at(eps), at(-eps), strict=True):
        if np.asarray(t).dtype.kind in "fc":
            quotient = (np.asarray(high) - np.asarray(low)) / (2 * eps)
            np.testing.assert_allclose(t, quotient, rtol=2e-5, atol=2e-6)


WHOLE = {
    "dot_general": "dot_general[dimension_numbers=(([1], [0]), ([], [])) preferred_element_type=int32] a b",
    "ragged_dot_general": (
        "ragged_dot_general[group_offset=None out_sharding=None precision=None preferred_element_type=int32 "
        "ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(dot_dimension_numbers=(((1,), (1,)), ((), ())), "
        "lhs_ragged_dimensions=(0,), rhs_group_dimensions=(0,))] a c d"
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_integers_that_are_made_of_floats_have_no_tangents(name):
    head = "{ lambda ; a:f64[5,3] b:f64[3,2] c:f64[2,3,2] d:i32[2]. let"
    program = jt.parse(f"{head} e:i32[5,2] = {WHOLE[name]} in (e,) }}")
    jt.typecheck_jaxpr(program)
    derivative, _ = jt.jvp_jaxpr(program, [True, True, True, False], instantiate_outs=[True])
    jt.typecheck_jaxpr(derivative)
    assert [a.dtype.kind for a in derivative.out_avals] == ["i", "0"]
