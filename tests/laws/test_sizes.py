"""Programs made by the transformations have at most as many equations as JAX's."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.ir.walk import sub_jaxprs
from tests.laws.oracle import (
    EXAMPLES,
    by_structure,
    derived_as_jax,
    in_jax,
    inputs,
    is_differentiable,
    law,
    ours,
    tangent_like,
)
from tests.releases import jaxprs_in_params

DIFFERENTIABLE = [e for e in by_structure(EXAMPLES) if is_differentiable(e) and derived_as_jax(e)]


RULES = ("jvp_jaxpr", "fwd_jaxpr", "bwd_jaxpr", "transpose_jaxpr")  # which JAX keeps as functions


def _count(jaxpr):
    """Equations of a jaxpr, those of nested ones included, those of rules not."""
    total = 0
    for eqn in jaxpr.eqns:
        params = {k: v for k, v in eqn.params.items() if k not in RULES}
        total += 1 + sum(_count(c.jaxpr) for c in sub_jaxprs(eqn.replace(params=params)))
    return total


def _jax_count(jaxpr):
    """Equations of a JAX jaxpr, those of nested ones included, calls of a nested one not counted twice."""
    total = 0
    for eqn in jaxpr.eqns:
        total += 1 + sum(_jax_count(sub) for sub in jaxprs_in_params(eqn.params))
    return total


def _inexact(args):
    return [i for i, a in enumerate(args) if a.dtype.kind in "fc" or a.dtype.name == "bfloat16"]


def _on_inexact(f, args):
    """f as a function of its inexact operands."""
    chosen = _inexact(args)

    def of_inexact(*xs):
        full = list(args)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        return f(*full)

    return of_inexact, [args[i] for i in chosen]


def _check(mine, theirs, what):
    assert mine <= theirs, f"{what}: {mine} equations, JAX has {theirs}"


# JAX's jvp takes the result from the tree that gives the tangent, which is wrong unless the initial
# values are neutral; ours keeps the reduction beside the tree.
KEPT = {"reduce"}


@law([e for e in DIFFERENTIABLE if e.primitive.name not in KEPT])
def test_jvp_is_no_larger_than_jax(example):
    args = inputs(example)
    f, point = _on_inexact(ours(example), args)
    g, _ = _on_inexact(in_jax(example), args)
    ts = [tangent_like(x, i) for i, x in enumerate(point)]
    mine = jt.make_jaxpr(lambda xs, ts: jt.jvp(f, tuple(xs), tuple(ts)))(point, ts)
    theirs = jax.make_jaxpr(lambda xs, ts: jax.jvp(g, tuple(xs), tuple(ts)))(point, ts)
    _check(_count(mine.jaxpr), _jax_count(theirs.jaxpr), "jvp")


# The rule of `custom_vmap_call` batches tangents of all operands, in JAX as well, where the sample is a jit.
IN_ONE = [e for e in DIFFERENTIABLE if e.primitive.name not in KEPT | {"custom_vmap_call"}]


@law([e for e in IN_ONE if len(e.args) > 1])
def test_jvp_in_one_operand_is_no_larger_than_jax(example):
    args = inputs(example)
    for i in _inexact(args):
        _check_jvp_in_one(example, args, i)


def _check_jvp_in_one(example, args, i):
    def alone(f):
        return lambda x: f(*args[:i], x, *args[i + 1 :])

    f, g = alone(ours(example)), alone(in_jax(example))
    given = args[i], tangent_like(args[i], i)
    mine = jt.make_jaxpr(lambda x, t: jt.jvp(f, (x,), (t,)))(*given)
    try:
        theirs = jax.make_jaxpr(lambda x, t: jax.jvp(g, (x,), (t,)))(*given)
    except (TypeError, ValueError) as e:
        assert "Zero" in str(e), (
            e
        )  # two of JAX's rules give a primitive the zero that stands for no tangent
        return
    _check(_count(mine.jaxpr), _jax_count(theirs.jaxpr), f"jvp in operand {i}")


@law(DIFFERENTIABLE)
def test_linear_part_is_no_larger_than_jax(example):
    args = inputs(example)
    f, point = _on_inexact(ours(example), args)
    g, _ = _on_inexact(in_jax(example), args)
    ts = [tangent_like(x, i) for i, x in enumerate(point)]
    theirs = []

    def linear_part(*xs):
        theirs.append(jax.make_jaxpr(jax.linearize(g, *xs)[1])(*ts))

    try:
        jax.eval_shape(linear_part, *point)  # staged, so that JAX compiles nothing
    except ValueError as e:
        assert not example.reverse, e  # neither linearizes what has no reverse mode
        with pytest.raises(jt.UnsupportedError):
            jt.linearize(f, *point)
        return
    mine = jt.linearize(f, *point)[1].program
    _check(_count(mine.jaxpr), _jax_count(theirs[0].jaxpr), "linearize")


@law([e for e in DIFFERENTIABLE if e.reverse])
def test_vjp_is_no_larger_than_jax(example):
    args = inputs(example)
    f, point = _on_inexact(ours(example), args)
    g, _ = _on_inexact(in_jax(example), args)
    cts = [tangent_like(x, i) for i, x in enumerate(ours(example)(*args))]
    floats = [ct for ct in cts if not ct.dtype.names]

    def merged(given):
        rest = iter(given)
        return [ct if ct.dtype.names else next(rest) for ct in cts]

    mine = jt.make_jaxpr(lambda xs, given: jt.vjp(f, *xs)[1](merged(given)))(point, floats)
    theirs = jax.make_jaxpr(lambda xs, given: jax.vjp(g, *xs)[1](merged(given)))(point, floats)
    _check(_count(dce_jaxpr(mine.jaxpr)[0]), _jax_count(_jax_dce(theirs.jaxpr)), "vjp")


def _jax_dce(jaxpr):
    from jax.interpreters import partial_eval as pe

    return pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


# Ours are discharged before they are mapped; JAX maps references, and discharges them later.
REFERENCES = {"get", "swap", "addupdate", "atomic_rmw", "empty_ref"}
MAPPED = [e for e in EXAMPLES if e.args and e.mapped and e.primitive.name not in REFERENCES]


@law(by_structure(MAPPED))
def test_vmap_is_no_larger_than_jax(example):
    for axis in (0, -1) if any(a.aval.ndim for a in example.args) else (0,):
        _check_vmap(example, axis)


def _check_vmap(example, axis):
    rows = [inputs(example, seed) for seed in range(2)]
    n = len(example.args)
    for batched in {n, *range(min(n, 3))}:
        axes = tuple(
            (axis if a.aval.ndim else 0) if batched in (i, n) else None
            for i, a in enumerate(example.args)
        )
        args = [
            rows[0][i] if d is None else np.stack([r[i] for r in rows], axis=d)
            for i, d in enumerate(axes)
        ]
        mine = jt.make_jaxpr(jt.vmap(ours(example), in_axes=axes))(*args)
        try:
            theirs = jax.make_jaxpr(jax.vmap(in_jax(example), in_axes=axes))(*args)
        except NotImplementedError:
            continue  # JAX has no rule
        _check(_count(mine.jaxpr), _jax_count(theirs.jaxpr), f"vmap in_axes={axes}")
