"""What JAX makes of the zoo's functions goes through our jaxprs and comes back as it was, beside each release of JAX."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from tests.zoo.oracle import NAMES, Program, close


@pytest.fixture(scope="module", params=NAMES)
def program(request):
    return Program(request.param)


def inner_constants(jaxpr):
    """The values of the constants of a jaxpr of JAX's and of those in its equations."""
    found = list(getattr(jaxpr, "consts", ()))
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            for x in value if isinstance(value, (tuple, list)) else [value]:
                if hasattr(x, "eqns"):
                    found += inner_constants(x)
    return found


def test_what_comes_back_is_what_went(program):
    closed = jax.make_jaxpr(program.f)(*program.args)
    back = jt.to_jax(jt.from_jax(closed))
    assert str(back) == str(closed)
    pairs = zip(inner_constants(back), inner_constants(closed), strict=True)
    assert all(np.array_equal(x, y) for x, y in pairs)
    close([np.asarray(x) for x in jaxpr_as_fun(back)(*program.args)], program.f(*program.args))
