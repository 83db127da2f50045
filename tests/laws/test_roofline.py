"""Operations and bytes are those of JAX's roofline, for primitives for which that has a rule of its own."""

from __future__ import annotations

from importlib import import_module

import jax
import numpy as np
import pytest
from jax.experimental import roofline
from jax.extend.core import jaxpr_as_fun
from jax.sharding import PartitionSpec

import jaxprtool as jt
from jaxprtool.interpreters.cost import cost_jaxpr
from tests.laws.test_cost import GROUPS, program_of
from tests.releases import only_oracle

pytestmark = only_oracle

_rules = import_module("jax.experimental.roofline.roofline")._rooflines
OWN_RULES = {p.name for p, rule in _rules.items() if "standard_rule" not in rule.__qualname__}

# Where JAX counts something else than XLA, whose count is ours (`test_cost`). Of those in BYTES the bytes differ too.
EXPANDED = "JAX counts an operation for each element; XLA counts those that it expands to"
CONVERTED = "operands of two types: XLA counts the conversion of one, JAX does not"
SLICES = "JAX counts the bytes of slices, and no operations on indices"
ROW = "JAX counts one row of the array"
FLOPS = {
    **dict.fromkeys(
        [
            "acos",
            "asin",
            "bessel_i0e",
            "bessel_i1e",
            "cosh",
            "digamma",
            "erf_inv",
            "erfc",
            "integer_pow",
            "lgamma",
            "logistic",
            "sign",
            "sinh",
        ],
        EXPANDED,
    ),
    **dict.fromkeys(("dot_general", "mul"), CONVERTED),
    **dict.fromkeys(("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"), ROW),
    "select_n": "JAX compares each element with the number of each case",
    "gather": SLICES,
    **dict.fromkeys(f"scatter{end}" for end in ("", "-add", "-max", "-min", "-mul", "-sub")),
}
BYTES = {
    "gather": SLICES,
    "select_n": "JAX takes one case alone to be read",
    **{name: SLICES for name in FLOPS if name.startswith("scatter")},
}


def of_jax(program):
    """JAX's operations and bytes."""
    with jax.enable_x64(True):
        exported = jt.to_jax(program)
        avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in exported.in_avals]
        _, found = roofline.roofline(jaxpr_as_fun(exported))(*avals)
    return found.unfused_flops, found.unfused_hbm_bytes


def comparable(examples):
    """The programs of one equation, of real numbers, and of arrays with elements."""
    for example in examples:
        avals = [a.aval for a in example.args]
        if all(a.dtype.kind != "c" and a.size for a in avals):
            program = program_of(example)
            if [eqn.primitive for eqn in program.eqns] == [example.primitive]:
                yield example, program


BOTH = [p for p in GROUPS if p.name in OWN_RULES and any(comparable(GROUPS[p]))]


@pytest.mark.parametrize("primitive", BOTH, ids=str)
def test_figures_are_those_of_the_roofline(primitive):
    other_flops = other_bytes = 0
    for _, program in comparable(GROUPS[primitive]):
        (flops, nbytes), ours = of_jax(program), cost_jaxpr(program)
        other_flops += ours.flops + ours.transcendentals != flops
        other_bytes += ours.bytes != nbytes
    assert (other_flops > 0) == (primitive.name in FLOPS), other_flops
    assert (other_bytes > 0) == (primitive.name in BYTES), other_bytes


def test_the_tables_name_primitives_of_both():
    assert FLOPS.keys() | BYTES.keys() <= {p.name for p in BOTH}
    assert len(BOTH) > 50


def collective(function, n):
    """A collective on n devices: JAX's bytes along the axis, and ours."""
    mesh, split = jax.sharding.AbstractMesh((n,), "x"), PartitionSpec("x")
    x = jax.ShapeDtypeStruct((8 * n, 6), np.float32)
    _, theirs = roofline.roofline(function, mesh=mesh, in_specs=(split,), out_specs=split)(x)
    mapped = jax.shard_map(function, mesh=mesh, in_specs=(split,), out_specs=split, check_vma=False)
    ours = jt.cost(mapped, x)
    return theirs.ici_bytes, {axes: sent.exact for axes, sent in ours.estimate.sent.items()}


COLLECTIVES = {
    "all_gather": lambda x: jax.lax.all_gather(x, "x", tiled=True),
    "reduce_scatter": lambda x: jax.lax.psum_scatter(x, "x", tiled=True),
    "ppermute": lambda x: jax.lax.ppermute(x, "x", [(0, 1)]),
}


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_collectives_send_is_what_the_roofline_says(name, n):
    """Along one axis; several are used one after the other here, and at the same time there."""
    theirs, ours = collective(COLLECTIVES[name], n)
    assert theirs == ours and ours["x"] > 0


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_sum_for_all_is_its_two_halves(n):
    """JAX's rule for it is that of `psum_invariant`; its all_to_all has the bytes that cross the middle of a ring."""
    _, parts = collective(COLLECTIVES["reduce_scatter"], n)
    _, whole = collective(lambda x: jax.lax.psum(x, "x"), n)
    _, exchanged = collective(lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True), n)
    assert whole == {"x": 2 * parts["x"]}
    assert exchanged == parts
