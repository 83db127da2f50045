"""Functions of less travelled parts of JAX: their texts, live and read, what JAX has of both, and their values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import jaxprtool as jt

X = np.linspace(0.25, 2.0, 4, dtype=np.float32)
SPACES = getattr(getattr(jax, "memory", None), "Space", ())


def _in_space(space):
    def f(x):
        cell = jax.new_ref(x, memory_space=space)
        cell[0] = cell[1] * 2
        return jax.ref.freeze(cell)

    return f


def _checked(x):
    checkify.check(x.sum() > 0, "bad {s}", s=x.sum())
    return jnp.log(x)


PROGRAMS = {
    **{f"a reference in {space}": (_in_space(space), X) for space in SPACES},
    "a check that nothing makes functional": (_checked, X),
}
# what a text does not hold, so that JAX's object is not made of it
NO_OBJECT = {"a check that nothing makes functional"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_live_program_and_its_text_are_what_jax_prints(name):
    f, *args = PROGRAMS[name]
    theirs = jax.make_jaxpr(f)(*args)
    live, read = jt.from_jax(theirs), jt.parse(str(theirs))
    assert str(live) == str(read) == str(theirs)
    for program in (live, read):
        jt.typecheck_jaxpr(program)
    assert str(jt.to_jax(live)) == str(theirs)
    if name not in NO_OBJECT:
        assert str(jt.to_jax(read)) == str(theirs)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - NO_OBJECT))
def test_they_compute_what_jax_computes(name):
    f, *args = PROGRAMS[name]
    got = jt.eval_jaxpr(jt.from_jax(jax.make_jaxpr(f)(*args)), args)
    for x, y in zip(got, jax.tree.leaves(jax.jit(f)(*args)), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)
