"""NumPy computes what JAX computes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jaxprtool.interpreters.dce import effect_facts
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


def sharing(args):
    """The operands with some of them in the memory of others, pair by pair."""
    for i, j in itertools.permutations(range(len(args)), 2):
        of, x = args[i], args[j]
        if of.dtype == x.dtype and 0 < x.size <= of.size:
            changed = list(args)
            changed[j] = of.reshape(-1)[: x.size].reshape(x.shape)
            yield changed


@law(EXAMPLES)
def test_operands_may_share_memory(example):
    """A slice is a view on NumPy, and routines of LAPACK write into operands while they run."""
    args = [np.asarray(x) for x in inputs(example)]
    found = [*sharing(args)]
    if not found or effect_facts[example.primitive] == "state":
        pytest.skip("its operands are of other types, or its results are drawn")
    for shared in found:
        want = ours(example)(*[x.copy() for x in shared])
        for x, y in zip(ours(example)(*shared), want, strict=True):
            assert_close(x, y, what="shared memory against copies")
