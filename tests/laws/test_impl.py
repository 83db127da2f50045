"""NumPy computes what JAX computes."""

from __future__ import annotations

from tests.laws.oracle import (
    EXAMPLES,
    OneProgram,
    assert_close,
    called,
    in_jax,
    inputs,
    law,
    on_jax,
    ours,
)

EXPECTED = OneProgram(EXAMPLES, called(in_jax), on_jax)


@law(EXAMPLES)
def test_numpy_equals_jax(example):
    for x, y in zip(ours(example)(*inputs(example)), EXPECTED[example], strict=True):
        assert_close(x, y, what="numpy against jax")
