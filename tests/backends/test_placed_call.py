"""Calls with arrays on the device: the same results and the same errors as calls with the host's arrays."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt

X = np.arange(3, dtype=np.float32)


def _sum(n):
    """A program of n arguments, f32[3] and f32[] in turn, and arguments for it."""
    types = ["f32[3]" if i % 2 == 0 else "f32[]" for i in range(n)]
    binders = " ".join(f"a{i}:{t}" for i, t in enumerate(types))
    lines = [f"    b{i}:f32[3] = add b{i - 1} a{i}" for i in range(1, n)]
    text = f"{{ lambda ; {binders}. let\n    b0:f32[3] = add a0 1.0:f32[]\n"
    text += "\n".join(lines) + f"\n  in (b{n - 1}, a0) }}"
    args = [X + i if i % 2 == 0 else np.float32(i) for i in range(n)]
    return jt.compile(jt.parse(text)), args


@pytest.mark.parametrize("n", [1, 2, 7, 64, 65])
def test_any_number_of_arguments(n):
    compiled, args = _sum(n)
    placed = compiled.place(args)
    wanted = sum(args[1:], args[0] + 1)
    for given in (args, placed, [*placed[:-1], args[-1]], [args[0], *placed[1:]]):
        total, first = compiled(*given)
        np.testing.assert_allclose(np.asarray(total), wanted)
        np.testing.assert_array_equal(np.asarray(first), args[0])
    again, _ = compiled(first, *placed[1:])  # a result is on the device
    np.testing.assert_allclose(np.asarray(again), wanted)


def test_a_program_without_arguments():
    compiled = jt.compile(jt.parse("{ lambda ; . let  in (1.5:f32[],) }"))
    assert [float(x) for x in compiled()] == [1.5]
    with pytest.raises(jt.UsageError, match="takes 0 arguments, and 1 is given"):
        compiled(X)


@pytest.mark.parametrize("n, given", [(2, 0), (2, 1), (2, 3), (65, 64)])
def test_another_number_of_arguments(n, given):
    compiled, args = _sum(n)
    for values in (args, compiled.place(args)):
        values = [*values, values[0]][:given]
        with pytest.raises(jt.UsageError, match=f"takes {n} arguments, and {given} (is|are) given"):
            compiled(*values)


def test_an_array_on_the_device_of_another_type():
    compiled, args = _sum(2)
    a, b = compiled.place(args)
    with pytest.raises(jt.UsageError, match=r"argument 0 has type f32\[\], and f32\[3\] is needed"):
        compiled(b, a)


def test_a_python_function_that_fails():
    def fail(x):
        raise AttributeError("nothing here")

    def f(x):
        return jax.pure_callback(fail, jax.ShapeDtypeStruct((3,), np.float32), x)

    jax = pytest.importorskip("jax")
    compiled = jt.compile(jt.from_jax(jax.make_jaxpr(f)(X)))
    for args in ([X], compiled.place([X])):
        with pytest.raises(jt.UnsupportedError, match="AttributeError: nothing here"):
            np.asarray(compiled(*args)[0])
