"""XLA computes what NumPy computes."""

from __future__ import annotations

import jaxprtool as jt
from tests.laws.oracle import EXAMPLES, OneProgram, assert_close, called, inputs, law, on_xla, ours

COMPILED = OneProgram(EXAMPLES, called(ours), on_xla)


@law(EXAMPLES)
def test_xla_equals_numpy(example):
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    for x, y in zip(COMPILED[example], jt.eval_jaxpr(program, args), strict=True):
        assert_close(x, y, what="XLA against NumPy")
