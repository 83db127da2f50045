"""Inside a `shard_map` that tracks varying axes: our types are JAX's, and JAX accepts the
transformed programs.

Each example runs on operands that all vary along the axis of the mesh. JAX refuses an equation of an operand that varies
and one that does not, which a derivative's literals are.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh, PartitionSpec

import jaxprtool as jt
from jaxprtool.core.rule_table import Unsupported
from jaxprtool.interpreters.batch import batch_rules
from jaxprtool.interpreters.linearize import vjp_jaxpr
from jaxprtool.interpreters.transpose import transpose_rules
from tests.laws.oracle import (
    EXAMPLES,
    by_primitive,
    by_structure,
    holds_jaxprs,
    in_jax,
    inputs,
    is_differentiable,
    is_in_jax,
    law,
)
from tests.releases import IS_ORACLE

pytestmark = pytest.mark.skipif(
    not (IS_ORACLE or jax.__version_info__ >= (0, 12)), reason="types that JAX tracked in part"
)
N_EACH = 3  # examples of a primitive


def _in_shard_map(example, which):
    """The example's program in JAX, on operands of which some vary."""
    f = in_jax(example)

    def varying(*xs):
        given = [jax.lax.pcast(x, "i", to="varying") if which(i) else x for i, x in enumerate(xs)]
        outs = [y if "i" in _axes(y) else jax.lax.pcast(y, "i", to="varying") for y in f(*given)]
        return [y[None] for y in outs]

    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    sharded = jax.shard_map(
        varying, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec("i")
    )
    return jax.make_jaxpr(sharded)(*inputs(example))


def _axes(x):
    """The axes along which an array of JAX's varies, from its type as it is printed."""
    return jax.typeof(x).str_short(short_dtypes=True).partition("{V:")[2].rstrip("}").split(",")


EVERY, FIRST, REST = lambda i: True, lambda i: i == 0, lambda i: i > 0


@functools.cache
def _program(index, which=EVERY):
    """Ours of it; None where JAX does not know how the results vary."""
    try:
        closed = _in_shard_map(SOME[index], which)
    except Exception:  # a rule of JAX's fails: any error is possible
        return None
    return jt.from_jax(closed)


SOME = [
    e
    for of_one in by_primitive(by_structure(EXAMPLES)).values()
    for e in [e for e in of_one if is_in_jax(e) and not holds_jaxprs(e)][:N_EACH]
]
PLACES = {id(e): i for i, e in enumerate(SOME)}


def _retraced(program):
    """The jaxprs in the `shard_map`s of a program, as we type them and as JAX does."""
    jt.check(program)
    closed = jt.to_jax(program)
    again = jax.make_jaxpr(jaxpr_as_fun(closed))(*[v.aval for v in closed.jaxpr.invars])
    assert [str(a) for a in closed.out_avals] == [str(a) for a in again.out_avals]
    return zip(_sharded(closed), _sharded(again), strict=True)


def _sharded(closed):
    """The jaxprs in a program's `shard_map`s."""
    return [e.params["jaxpr"] for e in closed.jaxpr.eqns if e.primitive.name == "shard_map"]


def _types(eqn):
    return eqn.primitive.name, [str(v.aval.strip_weak_type()) for v in eqn.outvars]


@law(SOME)
def test_types_are_those_of_jax(example):
    for which in (EVERY, FIRST, REST):
        program = _program(PLACES[id(example)], which)
        for ours, theirs in [] if program is None else _retraced(program):
            found, expected = [*map(_types, ours.eqns)], [*map(_types, theirs.eqns)]
            if [name for name, _ in found] == [
                name for name, _ in expected
            ]:  # no call of a function
                assert found == expected


@law([e for e in SOME if is_differentiable(e)])
def test_jax_takes_derivatives(example):
    program = _program(PLACES[id(example)])
    if program is None:
        return
    inexact = [a.dtype.is_inexact for a in program.in_avals]
    _retraced(jt.jvp_jaxpr(program, inexact)[0])
    if not isinstance(transpose_rules.find(example.primitive), Unsupported):
        _retraced(vjp_jaxpr(program, inexact))


@law(
    [
        e
        for e in SOME
        if e.args and e.mapped and not isinstance(batch_rules.find(e.primitive), Unsupported)
    ]
)
def test_jax_takes_batches(example):
    program = _program(PLACES[id(example)])
    if program is not None:
        rest = [None] * (len(program.in_avals) - 1)
        _retraced(jt.vmap_jaxpr(program, 2, [0, *rest])[0])
