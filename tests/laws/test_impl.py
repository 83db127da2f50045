"""NumPy computes what JAX computes."""

from __future__ import annotations

import itertools

import numpy as np

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


def pairs(example):
    """The places of two operands of one element type, of which the second fits into the memory of the first."""
    avals = [arg.aval for arg in example.args]
    return [
        (i, j)
        for i, j in itertools.permutations(range(len(avals)), 2)
        if avals[i].dtype is avals[j].dtype and 0 < avals[j].size <= avals[i].size
    ]


@law([e for e in EXAMPLES if pairs(e) and effect_facts[e.primitive] != "state"])
def test_operands_may_share_memory(example):
    """A slice is a view on NumPy, and routines of LAPACK write into operands while they run."""
    args = [np.asarray(x) for x in inputs(example)]
    for i, j in pairs(example):
        shared = list(args)
        shared[j] = args[i].reshape(-1)[: args[j].size].reshape(args[j].shape)
        want = ours(example)(*[x.copy() for x in shared])
        for x, y in zip(ours(example)(*shared), want, strict=True):
            assert_close(x, y, what="shared memory against copies")
