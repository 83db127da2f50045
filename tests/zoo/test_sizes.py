"""What the transformations make of the zoo's programs has at most as many equations as what JAX makes.

Equations of nested jaxprs are counted; those of the rules of custom functions, which JAX keeps as Python, are not.
"""

from __future__ import annotations

import jax
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from tests.control_flow.oracle import count_jax
from tests.releases import only_oracle
from tests.zoo.oracle import NAMES, Program

pytestmark = only_oracle


@pytest.fixture(scope="module", params=NAMES)
def program(request):
    return Program(request.param)


def check(ours, theirs):
    """Both are lists of programs that are one result together."""
    mine = sum(count_jax(jt.to_jax(program)) for program in ours)
    other = sum(map(count_jax, theirs))
    assert mine <= other, f"{mine} equations, JAX has {other}"


def test_jvp(program):
    theirs = jax.make_jaxpr(program.jvp)(program.args, program.tangents)
    check([jt.jvp_jaxpr(program.ours)[0]], [theirs])


def test_vmap(program):
    ours = jt.vmap_jaxpr(program.ours, 2, [0] * len(program.args))[0]
    check([ours], [jax.make_jaxpr(jax.vmap(program.f))(*program.batch)])


def test_linearize(program):
    primal, linear = linearize_jaxpr(program.ours)[:2]
    linear_maps = []

    def value(args):
        out, linear_map = jax.linearize(program.on(args), *program.inexact_of(args))
        linear_maps.append(jax.make_jaxpr(linear_map)(*program.tangents))
        return out, jax.tree.leaves(linear_map)

    theirs = jax.make_jaxpr(value)(program.args)
    check([primal, linear], [theirs, *linear_maps])


def test_vjp(program):
    if program.only_forward:
        with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
            jax.make_jaxpr(program.vjp)(program.args, program.cotangents)
        with pytest.raises(jt.MissingRuleError, match="reverse mode of a while loop"):
            vjp_jaxpr(program.ours)
        return
    theirs = jax.make_jaxpr(program.vjp)(program.args, program.cotangents)
    check([vjp_jaxpr(program.ours)], [theirs])


def test_grad(program):
    if len(jax.eval_shape(program.f, *program.args)) != 1:
        with pytest.raises(jt.UsageError, match="grad needs"):
            grad_jaxpr(program.ours, program.inexact)
        return

    theirs = jax.make_jaxpr(jax.grad(lambda *args: program.f(*args)[0], program.inexact))
    check([grad_jaxpr(program.ours, program.inexact)], [theirs(*program.args)])
