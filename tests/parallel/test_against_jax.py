"""Programs on a mesh of eight devices, on NumPy and XLA and through every transformation, against JAX."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt

CHECKED = [
    "sums",
    "extremes",
    "weighted",
    "permuted",
    "gathered",
    "exchanged",
    "exchanged_untiled",
    "scattered",
    "indexed",
    "scanned",
    "on_grid",
    "matmul",
    "residuals",
    "in_two_steps",
    "rematerialised",
]
UNCHECKED = [
    "in_groups",
    "in_groups_of_every_kind",
    "along_a_batch_and_the_mesh",
    "looped",
    "branched",
    "both_axes",
    "partly_manual",
    "pmap",
    "pmap_axes",
    "constrained",
    "constrained_in_part",
    "constrained_in_a_scan",
    "constrained_beside_shards",
]
# What is to be summed, or was, between one shard_map and another; not every JAX has it.
SUMS = [
    f"sums_{n}" for n in ("handed_over", "handed_out", "the_same_on_all", "weights", "of_numbers")
]
NAMES = [*CHECKED, *(f"{n}_checked" for n in CHECKED), *UNCHECKED, *SUMS]


@pytest.fixture(params=NAMES)
def case(request, on_8_devices):
    if request.param in SUMS and request.param not in on_8_devices:
        pytest.skip("this JAX has no such values")
    return Case(on_8_devices[request.param])


class Case:
    """A program, and JAX's results."""

    def __init__(self, recorded):
        self.jax, self.program = recorded, jt.parse(recorded["text"])
        self.run = jt.jaxpr_as_fun(self.program)
        self.args = recorded["args"]

    def expected(self, what):
        if self.jax[what] is None:
            pytest.skip(f"JAX has no {what} of it")
        return self.jax[what]

    def pull_back(self, *args):
        """The cotangents of the arguments."""
        primals, cts = args[: len(self.args)], list(args[len(self.args) :])
        pullback = jt.vjp(self.run, *primals)[1]
        return pullback(*cts) if len(cts) > 1 else pullback(cts)


def close(got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-4, atol=2e-4, strict=True)


def sound(program):
    """Check a program that a transformation made, and read back what it prints."""
    jt.typecheck_jaxpr(program)
    text = jt.format_jaxpr(program)
    assert jt.format_jaxpr(jt.parse(text)) == text


@pytest.mark.slow
def test_all_programs_are_tested(on_8_devices):
    assert set(NAMES).symmetric_difference(on_8_devices) <= set(SUMS)
    if hasattr(jax, "reshard"):
        assert set(on_8_devices) == set(NAMES)


def test_text_and_types(case):
    assert jt.format_jaxpr(case.program) == case.jax["text"]
    jt.typecheck_jaxpr(case.program)


def test_values(case):
    close(jt.eval_jaxpr(case.program, case.args), case.expected("outs"))


def test_values_on_devices(case):
    compiled = jt.compile(case.program)
    assert compiled.stablehlo.devices == 8
    close(compiled(*case.args), case.expected("outs"))


def test_jvp(case):
    want = case.expected("jvp")
    close(jt.jvp(case.run, tuple(case.args), tuple(case.jax["tangents"]))[1], want)
    program, _ = jt.jvp_jaxpr(case.program)
    sound(program)
    outs = jt.compile(program)(*case.args, *case.jax["tangents"])
    close(outs[len(case.jax["outs"]) :], want)


def test_vjp(case):
    want = case.expected("vjp")
    close(case.pull_back(*case.args, *case.jax["cts"]), want)
    program = jt.make_jaxpr(case.pull_back)(*case.args, *case.jax["cts"])
    sound(program)
    close(jt.compile(program)(*case.args, *case.jax["cts"]), want)


def test_vmap(case):
    want = case.expected("vmap")
    close(jt.vmap(case.run)(*case.jax["batch"]), want)
    program, _ = jt.vmap_jaxpr(case.program, 3, [0] * len(case.args))
    sound(program)
    close(jt.compile(program)(*case.jax["batch"]), want)
