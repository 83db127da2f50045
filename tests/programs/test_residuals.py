"""What a derivative keeps: the bytes of residuals, ours and JAX's, and what rematerialisation saves."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.linearize import residuals
from jaxprtool.ir.jaxpr import Lit
from tests.programs.catalogue import EXAMPLES, PROGRAMS, Case, case_of, draw, load

DEPTH, ROWS, WIDTH, HIDDEN = 6, 3, 4, 8
F32 = 4


def total(found):
    return sum(r.nbytes for r in found)


def computed(found):
    return sum(r.nbytes for r in found if r.is_computed)


def jax_residual_bytes(case):
    """Bytes of the values that the function which jax.vjp gives back holds."""
    xs = case.floats(case.args)
    with case.precision():
        jaxpr = jax.make_jaxpr(lambda *xs: jax.tree.leaves(jax.vjp(case.of_floats, *xs)[1]))(*xs)
    outs = jt.from_jax(jaxpr).jaxpr.outs
    return sum(v.aval.nbytes for v in {x for x in outs if type(x) is not Lit})


@pytest.mark.parametrize("name", [n for n, p in PROGRAMS.items() if p.reverse])
def test_no_more_than_jax(name):
    case = case_of(name)
    assert 0 < total(residuals(case.program)) <= jax_residual_bytes(case)


def deep(name):
    """A deep network with this loss."""
    params = {"in": draw(0, DEPTH, WIDTH, HIDDEN), "out": draw(1, DEPTH, HIDDEN, WIDTH)}
    return Case(lambda: (load("deep_scan")[name], (params, draw(2, ROWS, WIDTH))))


ENTRY, PRODUCT = DEPTH * ROWS * WIDTH * F32, DEPTH * ROWS * HIDDEN * F32
LAST = ROWS * WIDTH * F32  # what the loss itself keeps: its factor


@pytest.mark.parametrize(
    "name, bytes_kept", [("remat_loss", ENTRY + LAST), ("dots_loss", ENTRY + PRODUCT + LAST)]
)
def test_a_layer_under_checkpoint_keeps_what_its_policy_says(name, bytes_kept):
    """Every layer keeps its entry, besides the parameters; and its product with them, if asked to."""
    case = deep(name)
    found = residuals(case.program)
    assert computed(found) == bytes_kept
    assert total(found) - computed(found) == 2 * DEPTH * WIDTH * HIDDEN * F32
    assert total(found) <= jax_residual_bytes(case)


def test_rematerialisation_keeps_less_and_changes_no_gradient():
    plain, remat = deep("loss"), deep("remat_loss")
    assert computed(residuals(plain.program)) > 5 * computed(residuals(remat.program))
    grads = [jt.grad(lambda *a, c=c: c.run(*a)[0], (0, 1, 2))(*c.args) for c in (plain, remat)]
    plain.close(*grads)


def test_the_figures_in_the_docstring():
    """Those of the kept file, and of the same network without rematerialisation."""
    program = jt.parse((EXAMPLES / "deep_scan.jaxpr").read_text())
    module, (w_in, w_out, x) = load("deep_scan"), [np.zeros(a.shape, "f") for a in program.in_avals]
    plain = jt.from_jax(jax.make_jaxpr(module["loss"])({"in": w_in, "out": w_out}, x))
    for p in (plain, program):
        assert f"{computed(residuals(p)):,}" in module["__doc__"]


def test_depth_costs_its_entries():
    """Twice the depth keeps twice the bytes: nothing is kept that grows faster."""
    f = load("deep_scan")["remat_loss"]
    sizes = []
    for depth in (8, 16, 32):
        params = {"in": np.ones((depth, 4, 8), "f"), "out": np.ones((depth, 8, 4), "f")}
        program = jt.from_jax(jax.make_jaxpr(f)(params, np.ones((3, 4), "f")))
        sizes.append(computed(residuals(program)) - LAST)
    assert sizes == [sizes[0], 2 * sizes[0], 4 * sizes[0]]


def test_integers_and_constants():
    program = jt.parse(
        "{ lambda c:f32[2] ; i:i32[] x:f32[2]. let\n"
        "    y:f32[2] = mul x c\n"
        "    z:f32[2] = dynamic_slice[slice_sizes=(2,)] y i\n"
        "  in (z,) }"
    )
    assert [(r.origin, r.is_computed) for r in residuals(program)] == [
        ("constant", False),
        ("argument 0 (i)", False),
    ]


RECTIFIER = """{ lambda ; x:f32[3]. let
    p:bool[3] = gt x 0.0:f32[]
    z:f32[3] = broadcast_in_dim 0.0:f32[]
    y:f32[3] = select_n p z x
  in (RESULTS) }"""


def test_a_filled_array_is_no_residual():
    """The zeros of the tangent are made where they are read."""
    program = jt.parse(RECTIFIER.replace("RESULTS", "y,"))
    assert [r.origin for r in residuals(program)] == ["gt"]


def test_a_filled_array_that_the_value_needs_is_shared():
    text = RECTIFIER.replace("select_n p z x", "mul x z").replace("RESULTS", "y,")
    assert [r.origin for r in residuals(jt.parse(text))] == ["broadcast_in_dim"]
