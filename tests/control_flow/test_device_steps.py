"""Copies between memories, semaphores and random bits of kernels: they have types, and say what they need where they would run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import jaxprtool as jt
from tests.invoke import invoke

pltpu = pytest.importorskip("jax.experimental.pallas.tpu")
X = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
ANYWHERE = getattr(pl, "ANY", None) or pltpu.ANY


def _call(kernel, scratch, anywhere=False, **fields):
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    if anywhere:
        space = pl.BlockSpec(memory_space=ANYWHERE)
        fields |= {"in_specs": [space], "out_specs": space}
    return lambda x: pl.pallas_call(kernel, out_shape=shape, scratch_shapes=scratch, **fields)(x)


def copied(x, o, there, done):
    i = pl.program_id(0)
    copy = pltpu.make_async_copy(x.at[pl.ds(i * 2, 2), :], there.at[pl.ds(0, 2)], done)
    copy.start()
    copy.wait()
    pltpu.sync_copy(there, o)


def signalled(x, o, ready):
    module = pl if hasattr(pl, "semaphore_signal") else pltpu
    module.semaphore_signal(ready, 2)
    module.semaphore_wait(ready, 1)
    o[...] = x[...] * module.semaphore_read(ready)


def drawn(x, o):
    pltpu.prng_seed(3)
    o[...] = x[...] + pltpu.bitcast(pltpu.prng_random_bits(X.shape), jnp.float32)


KERNELS = {
    "dma_start": _call(
        copied,
        [pltpu.VMEM(X.shape, jnp.float32), pltpu.SemaphoreType.DMA],
        anywhere=True,
        grid=(2,),
    ),
    "semaphore_signal": _call(signalled, [pltpu.SemaphoreType.REGULAR]),
    "prng_seed": _call(drawn, []),
}


@pytest.mark.parametrize("first", KERNELS)
def test_they_have_types(first):
    closed = jax.make_jaxpr(KERNELS[first])(X)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        jt.typecheck_jaxpr(program.jaxpr)
        with pytest.raises(jt.JaxprToolError, match=f"{first}: ") as error:
            jt.eval_jaxpr(program, [X])
        assert error.value.diagnostics[0].code == "outside"
        with pytest.raises(jt.MissingRuleError, match=first):
            jt.lower(program)
    assert invoke("fmt", str(closed)).output == f"{closed}\n"
    for verb in ("check", "stats", "lint", "hash"):
        assert invoke([verb, "-"], str(closed)).status == 0


def test_a_semaphore_that_nobody_asks():
    """A kernel that has cells for semaphores, and uses none of them, runs as any other does."""
    f = _call(lambda x, o, s: o.__setitem__(..., x[...] * 2), [pltpu.SemaphoreType.DMA((2, 3))])
    for program in (jt.from_jax(jax.make_jaxpr(f)(X)), jt.parse(str(jax.make_jaxpr(f)(X)))):
        np.testing.assert_array_equal(jt.eval_jaxpr(program, [X])[0], X * 2)
        np.testing.assert_array_equal(jt.compile(program)(X)[0], X * 2)
        tangent = jt.eval_jaxpr(jt.jvp_jaxpr(program)[0], [X, X])[1]
        np.testing.assert_array_equal(tangent, X * 2)


WRONG = {
    "dma_wait a": "dma_wait is of references",
    "b:i32[] = semaphore_read[args_tree=None] a": "semaphore_read is of references",
    "prng_seed a": "prng_seed takes integers, and not f32",
    "b:f32[3,4] = prng_random_bits[shape=(3, 4)] ": "prng_random_bits gives i32",
    "b:bf16[7,3] = bitcast[ty=bfloat16] a": "bitcast gives bf16",
    "b:f32[3,3] = bitcast[dim=5 ty=float32] a": "has no axis 5",
    "b:i64[3,3] = bitcast[ty=int64] a": "is of no number of elements",
    "b:f32[3] = mpmd_map[jaxprs=3 meshes=() out_avals=()] a": "jaxprs",
}


@pytest.mark.parametrize("equation", WRONG)
def test_what_is_wrong(equation):
    text = f"{{ lambda ; a:f32[3,3]. let\n    {equation}\n  in (a,) }}"
    with pytest.raises(jt.JaxprTypeError, match=WRONG[equation]):
        jt.typecheck_jaxpr(jt.parse(text))
