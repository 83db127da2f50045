"""Programs on several devices that have effects: XLA runs them to their end, whatever they return."""

from __future__ import annotations

import time

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

import jaxprtool as jt

X = np.arange(4, dtype=np.float32)
MESH = AbstractMesh((2,), ("i",), axis_types=(AxisType.Auto,))


def _called(f, outs):
    """A program whose two devices call a slow function, and what it was called with."""
    seen = []

    def slow(x):
        time.sleep(0.1)
        seen.append(np.asarray(x).tolist())

    def local(x):
        jax.debug.callback(slow, x)
        return f(x)

    sharded = jax.shard_map(
        local, mesh=MESH, in_specs=PartitionSpec("i"), out_specs=outs, check_vma=False
    )
    return jt.from_jax(jax.make_jaxpr(sharded)(X)), seen


@pytest.mark.parametrize(
    ("f", "outs", "expected"),
    [
        (lambda x: (), PartitionSpec(), []),
        (lambda x: x * 2, PartitionSpec("i"), [X * 2]),
        (lambda x: x.size, PartitionSpec(), [2]),
    ],
    ids=["no result", "a result of each", "a result of none"],
)
@pytest.mark.parametrize("jit", [False, True], ids=["numpy", "xla"])
def test_every_device_has_called_it_when_a_run_ends(f, outs, expected, jit):
    program, seen = _called(f, outs)
    found = jt.run(program, X, jit=jit)
    assert sorted(seen) == [[0, 1], [2, 3]]
    assert [np.asarray(x).tolist() for x in found] == [np.asarray(x).tolist() for x in expected]


def test_an_exception_in_a_callback_whose_result_nobody_waits_for():
    def bad(_):
        raise ValueError("boom")

    def f(x):
        jax.debug.callback(bad, x)

    program = jt.from_jax(jax.make_jaxpr(f)(X))
    with pytest.raises(jt.UnsupportedError, match="boom"):
        jt.run(program, X, jit=True)
