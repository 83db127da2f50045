"""compare between two backends: what other roundings of a program change as well is no difference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.compare import compare

X = np.linspace(0.1, 2.0, 5).astype(np.float32)


def _logdet_of_one(x):
    """Two parts whose sum is 0 but for rounding: a change of variables and back."""
    return jnp.log(jnp.linalg.det(x)) + jnp.log(jnp.linalg.det(jnp.linalg.inv(x)))


_NEAR_ONE = np.outer(X[:3], X[2:]).astype(np.float32)
CANCELLING = {
    "log det": (_logdet_of_one, np.eye(3, dtype=np.float32) * 3 + _NEAR_ONE / 8),
    "inverse": (lambda x: x @ jnp.linalg.inv(x) - jnp.eye(3), np.float32(np.eye(3)) + _NEAR_ONE),
    "sum of squares": (
        lambda x: (jnp.cos(x) ** 2 + jnp.sin(x) ** 2 - 1).sum(),
        np.linspace(0, 9, 999, dtype="f"),
    ),
    "shares": (
        lambda x: jnp.exp(x - jax.nn.logsumexp(x)).sum() - 1,
        np.linspace(-3, 3, 999, dtype="f"),
    ),
    "wide result": (lambda x: jnp.fft.ifft(jnp.fft.fft(x)).astype("complex128") - x, X),
}


@pytest.mark.parametrize("name", CANCELLING)
def test_what_other_roundings_change_as_well_is_no_difference(name):
    f, x = CANCELLING[name]
    with jax.enable_x64(True):
        program = jt.from_jax(jax.make_jaxpr(f)(x))
    on_numpy = jt.eval_jaxpr(program, [x])
    found = compare(program, None, [x], backends=("numpy", "xla"))
    assert found.equal, found
    assert compare(program, None, [x], backends=("numpy", "xla"), first=True).first is None
    # a mistake of a thousandth is none of rounding
    wrong = jt.rewrite(program, _wrong_by_a_thousandth)
    other = compare(program, wrong, [x], backends=("numpy", "xla"))
    assert not other.equal, other
    assert len(on_numpy) == len(other.outputs)


def test_double_precision_shows_what_rounding_loses():
    program = jt.parse(
        "{ lambda ; a:f32[]. let b:f32[] = add a 1e8:f32[]; c:f32[] = sub b 1e8:f32[] in (c,) }"
    )
    args = [np.float32(0.7)]
    assert compare(program, None, args, backends=("numpy", "xla")).equal
    for backends in (("numpy", "f64"), ("f64", "numpy")):  # XLA takes the sum apart
        assert not compare(program, None, args, backends=backends).equal, backends


def test_programs_with_results_of_other_shapes_on_two_backends():
    one, *others = [
        jt.parse(f"{{ lambda ; a:f32[4]. let b:f32[4] = sin a; {rest} }}")
        for rest in (
            "c:f32[3] = slice[limit_indices=(3,) start_indices=(0,) strides=None] b in (c,)",
            "c:f32[] = reduce_sum[axes=(0,)] b in (c,)",
            "c:i32[4] = convert_element_type[new_dtype=int32 weak_type=False] b in (c, b)",
            "in ()",
        )
    ]
    for other in others:
        for pair in ((one, other), (other, one)):
            found = compare(*pair, [np.arange(4, dtype=np.float32)], backends=("numpy", "xla"))
            assert not found.equal
            assert all(x.found.n_different for x in found.outputs), found


def _wrong_by_a_thousandth(eqn):
    if eqn.primitive.name not in ("cos", "log", "exp", "fft", "dot_general"):
        return None

    def moved(*ins):
        found = jt.bind(eqn.primitive, *ins, **eqn.params)
        return jt.lax.add(
            found, jt.lax.convert_element_type(0.001, new_dtype=eqn.out_binders[0].aval.dtype)
        )

    return moved
