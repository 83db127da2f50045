"""vmap computes what a loop over the batch computes, for every way to batch the operands."""

from __future__ import annotations

import numpy as np

import jaxprtool as jt
from tests.laws.oracle import (
    EXAMPLES,
    assert_close,
    by_structure,
    inputs,
    law,
    ours,
    product,
    sample,
)

SIZE = 3


def _combinations(example):
    """in_axes to try: each operand at the front, at the back or not at all; at least one batched."""
    ways = [(0, -1, None) if a.aval.ndim else (0, None) for a in example.args]
    return sample(c for c in product(*ways) if any(d is not None for d in c))


@law([e for e in by_structure(EXAMPLES) if e.mapped])
def test_vmap_is_a_loop(example):
    f = ours(example)
    rows = [inputs(example, seed) for seed in range(SIZE)]
    for axes in _combinations(example):
        args = [
            rows[0][i] if d is None else np.stack([r[i] for r in rows], axis=d)
            for i, d in enumerate(axes)
        ]
        program = jt.make_jaxpr(jt.vmap(f, in_axes=axes))(*args)
        jt.typecheck_jaxpr(program)
        out = jt.eval_jaxpr(program, args)
        loop = [
            f(*[rows[0][i] if d is None else row[i] for i, d in enumerate(axes)]) for row in rows
        ]
        for k, x in enumerate(out):
            assert_close(x, np.stack([np.asarray(o[k]) for o in loop]), what=f"in_axes={axes}")
