"""Caches that outlive the programs they were asked about: what was computed for one is never returned for another.

CPython gives the `id` of an object that has died to another one. So a key made of ids is only unique
where the cache keeps the objects alive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import Primitive

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.analyses.identity.share import _Sharing
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.backends.jax.expansion import _Expansion
from jaxprtool.backends.jax.to_jax import _Writer
from jaxprtool.core.primitive import loading_plugin
from jaxprtool.ir.jaxpr import ClosedJaxpr

N = 200


def of_arguments(n: int) -> ClosedJaxpr:
    """Return a program of n arguments, which it returns."""
    names = [f"v{i}" for i in range(n)]
    binders = " ".join(f"{v}:f32[]" for v in names)
    return jt.parse(f"{{ lambda ; {binders}. let  in ({''.join(v + ',' for v in names)}) }}")


def _signature_of() -> Callable[[ClosedJaxpr], Any]:
    signatures, known = Signatures(), dict[int, int]()
    return lambda program: known.setdefault(signatures.of(program), len(program.in_avals))


CACHES: dict[str, Callable[[], Callable[[ClosedJaxpr], Any]]] = {
    "conversion to JAX": lambda: (w := _Writer()) and (lambda p: len(w.closed(p).in_avals)),
    "jaxprs of a conversion": lambda: (w := _Writer()) and (lambda p: len(w.jaxpr(p.jaxpr).invars)),
    "signatures": _signature_of,
    "sharing": lambda: (s := _Sharing()) and (lambda p: len(s.closed(p).in_avals)),
    "expansion": lambda: (e := _Expansion(True)) and (lambda p: len(e.closed(p).in_avals)),
}


@pytest.mark.parametrize("cache", CACHES)
def test_a_result_is_that_of_its_own_program(cache: str) -> None:
    result = CACHES[cache]()
    for n in range(1, N):
        assert result(of_arguments(n)) == n  # the program dies here


def test_ids_of_programs_recur() -> None:
    """What the test above is about."""
    assert len({id(of_arguments(1).jaxpr) for _ in range(N)}) < N


with loading_plugin():

    @jt.primitive
    def scaled(x, *, factors: Any):
        """x times the product of the factors, in other primitives."""


jt.define(
    scaled,
    **jt.decomposed(lambda in_avals, x, *, factors: lax.mul(x, _product(factors))),
    abstract_eval=lambda x, **_: x,
)


def _product(factors: Any) -> float:
    return math.prod(factors) if isinstance(factors, tuple) else float(factors)


@pytest.mark.parametrize("pair", [(0.0, -0.0), ((2.0, 0.0), (2.0, -0.0)), (False, -0.0)], ids=str)
def test_params_that_are_equal_to_python_are_told_apart(pair: tuple[Any, Any]) -> None:
    """What a primitive that is defined by others stands for is computed once for each value of its params."""
    one = np.float32(1)
    for factors in (*pair, *pair):
        program = jt.trace(lambda x, f=factors: scaled(x, factors=f), one)
        want = np.copysign(1, _product(factors))
        assert np.copysign(1, jt.eval_jaxpr(program, [one])[0]) == want
        assert np.copysign(1, jt.compile(program)(one)[0]) == want


def test_params_of_a_primitive_of_this_process_are_told_apart() -> None:
    theirs = Primitive("jaxprtool_test_scaled")
    theirs.def_abstract_eval(lambda x, *, factor: x)
    theirs.def_impl(lambda x, *, factor: x * factor)
    one = np.float32(1)
    for factor in (0.0, -0.0, 0.0):
        program = jt.from_jax(jax.make_jaxpr(lambda x, f=factor: theirs.bind(x, factor=f))(one))
        assert np.copysign(1, jt.eval_jaxpr(program, [one])[0]) == np.copysign(1, factor)


def test_static_arguments_are_told_apart() -> None:
    scale = jt.jit(lambda x, factors: lax.mul(x, factors[0]), static_argnums=1)
    one = np.float32(1)
    for factor in (0.0, -0.0, 0.0):
        program = jt.trace(lambda x, f=factor: scale(x, (f,)), one)
        assert np.copysign(1, jt.eval_jaxpr(program, [one])[0]) == np.copysign(1, factor)
