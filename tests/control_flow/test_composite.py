"""Composites: the named operation in StableHLO, with JAX's attributes; what it is made of everywhere else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir

import jaxprtool as jt
from tests.control_flow.oracle import close, compare

X = np.arange(3, dtype=np.float32) + 0.5


def test_composite():
    f = jax.lax.composite(lambda x: jnp.sin(x) * 2, name="my.sin")
    program = compare(f, X, forward=False, reverse=False, batch=False)
    ours = jt.jaxpr_as_fun(program)
    close(jt.jvp(ours, (X,), (X,))[1], [2 * np.cos(X) * X])
    close(jt.vjp(ours, X)[1](X), [2 * np.cos(X) * X])
    close(jt.vmap(ours)(np.stack([X, X])), [np.stack([2 * np.sin(X)] * 2)])


ATTRIBUTES = {
    "none": {},
    "Python scalars": {"axis": 1, "big": 2**40, "scale": 2.5, "small": 1e-7, "flag": True},
    "special floats": {"a": float("inf"), "b": float("-inf"), "c": float("nan"), "d": -0.0},
    "strings": {"plain": "abc", "quoted": 's"\n\\\u00e9', "star": "*"},
    "sequences": {"pair": (1, 2.0, "x"), "nested": [1, [2, ()]], "tuple_of_one": (3,)},
    "dictionaries": {"d": {"u": 1, "v": (2, 3), "*": False}},
    "nothing": {"left_out": None, "kept": 1},
    "names": {"odd key": 1, "dotted.key": 2},
    "NumPy scalars": {
        "f": np.float32(2),
        "h": np.float16(0.1),
        "i": np.int8(-3),
        "u": np.uint8(200),
    },
    "NumPy booleans": {"t": np.True_, "f": np.False_},
    "NumPy's special floats": {"n": np.float32(np.nan), "i": np.float64(-np.inf)},
    "dtypes": {"d": np.dtype("float32"), "b": np.dtype("bool"), "i": np.dtype("uint8")},
    "arrays": {
        "i": np.arange(3, dtype=np.int32),
        "f": np.float64([[1.5, 2]]),
        "b": np.array([True, False]),
    },
    "empty arrays": {"z": np.zeros((0, 2), np.float32)},
}


def _composite(attributes, name="my.op", version=0):
    def parts(v, **_):
        return jnp.sin(v) * 2

    f = jax.lax.composite(parts, name=name, version=version)
    return lambda x: f(x, **attributes) + 1


def _operations(text):
    """The attributes of a module's composites, as MLIR reads them."""
    found = []

    def look(op):
        if op.name == "stablehlo.composite":
            found.append({name: str(op.attributes[name]) for name in op.attributes})
        return ir.WalkResult.ADVANCE

    with make_ir_context():
        ir.Module.parse(text).operation.walk(look)
    return found


@pytest.mark.parametrize("version", [0, 3])
@pytest.mark.parametrize("attributes", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_the_operation_in_stablehlo(attributes, version):
    f = _composite(attributes, version=version)
    closed = jax.make_jaxpr(f)(X)
    theirs = _operations(jax.jit(f).lower(X).as_text())
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        assert _operations(str(jt.lower(program))) == theirs
        close([np.asarray(y) for y in jt.compile(program)(X)], [f(X)])


def test_a_long_array_is_known_in_the_process_that_traced_it():
    f = _composite({"long": np.arange(2000.0)})
    closed = jax.make_jaxpr(f)(X)
    theirs = _operations(jax.jit(f).lower(X).as_text())
    assert _operations(str(jt.lower(jt.from_jax(closed)))) == theirs
    text = str(jt.lower(jt.parse(str(closed))))  # the print leaves most of it out
    assert "stablehlo.composite" not in text and "call @my.op" in text


@pytest.mark.parametrize(
    "name, attributes",
    [
        ("plain", {}),
        ("a..b", {}),
        ("a.b-c", {}),
        ("_a.b", {}),
        ("my.op", {"z": 2j}),
        ("my.op", {"f": jnp.float32}),
    ],
)
def test_a_call_where_stablehlo_has_no_room_for_the_name_or_the_attributes(name, attributes):
    f = _composite(attributes, name)
    with pytest.raises((TypeError, ValueError)):
        jax.jit(f).lower(X)  # JAX cannot lower it
    program = jt.from_jax(jax.make_jaxpr(f)(X))
    assert "stablehlo.composite" not in str(jt.lower(program))
    close([np.asarray(y) for y in jt.compile(program)(X)], [np.sin(X) * 2 + 1])


def test_composites_in_one_another_and_twice():
    inner = jax.lax.composite(lambda x: jnp.sin(x), name="my.inner")
    outer = jax.lax.composite(lambda x: inner(x) * inner(x + 1), name="my.outer")
    f = lambda x: outer(x) + inner(x) + outer(x * 2)
    program = compare(f, X, forward=False, reverse=False, batch=False)
    text = str(jt.lower(program))
    assert text.count('"stablehlo.composite"') >= 5
