"""The column `runs` of rows: which nested jaxprs an equation runs and how often, compared with
evaluation and cost.
"""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from hypothesis import given, settings

import jaxprtool as jt
from jaxprtool.analyses.counting.tally import in_order, sites
from jaxprtool.analyses.places import Watch
from jaxprtool.core.primitive import vocabulary
from jaxprtool.driver.run import run
from jaxprtool.interpreters.columns.runs import runs_of, runs_rules
from jaxprtool.interpreters.cost import Cost, cost_eqn, cost_jaxpr, maximum_cost
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from tests.analyses.planting import REAL, real_program
from tests.laws.oracle import EXAMPLES, ours
from tests.random_programs.programs import programs
from tests.random_programs.test_random import arguments

EXAMPLE_EQNS = [
    (example.id, eqn)
    for example in EXAMPLES
    if example.primitive.holds_jaxprs
    for eqn in jt.make_jaxpr(ours(example))(*[a.aval for a in example.args]).jaxpr.eqns
    if eqn.primitive is example.primitive
]
RUNNING = [(id, eqn) for id, eqn in EXAMPLE_EQNS if runs_of(eqn)]

# Primitives whose jaxprs are a part of the operation, or are not evaluated at all, or that may hold some in JAX's bookkeeping.
WITHOUT = {
    "addupdate", "assert_consumed_value", "buffer_callback", "call_tf", "custom_lin", "dot_product_attention_bwd", "dot_product_attention_bwd_wrapper",
    "dot_product_attention_fp8_bwd", "dot_product_attention_fp8_bwd_wrapper", "dot_product_attention_fp8_fwd",
    "dot_product_attention_fp8_fwd_wrapper", "dot_product_attention_fwd", "dot_product_attention_fwd_wrapper", "ffi_call", "get", "infeed", "outfeed", "reduce", "reduce_window", "scatter", "scatter-add", "scatter-max",
    "barrier_arrive", "barrier_test", "barrier_wait", "copy_gmem_to_smem", "copy_smem_to_gmem", "core_map",
    "dma_start", "dma_wait", "mpmd_map", "semaphore_read", "semaphore_signal", "semaphore_wait", "wgmma_ref",
    "scatter-min", "scatter-mul", "scatter-sub", "select_and_scatter", "swap", "to_edtype",
}  # fmt: skip


def test_all_others_that_hold_jaxprs_say_what_they_run():
    holding = {name for name, p in vocabulary().items() if p.holds_jaxprs and _is_ours(p)}
    assert {n for n in holding if runs_rules.find(vocabulary()[n]) is None} == WITHOUT


def _is_ours(primitive) -> bool:
    return primitive.stub.__module__.startswith("jaxprtool.ops.")


@pytest.mark.parametrize(("id", "eqn"), RUNNING, ids=str)
def test_the_cost_is_that_of_what_runs(id, eqn):
    total, branches, trips = Cost(0, 0, 0), [], 3
    for one in runs_of(eqn):
        cost = cost_jaxpr(one.jaxpr).at(trips)
        if one.branch is None:
            total += cost * (one.times + trips * one.turns)
        else:
            branches.append(cost)
    if branches:
        total += maximum_cost(branches)
    assert cost_eqn(eqn).at(trips) == total


@pytest.mark.parametrize(("id", "eqn"), RUNNING, ids=str)
def test_the_jaxprs_are_those_of_the_param(id, eqn):
    held = sub_jaxprs(eqn)
    assert all(any(r.jaxpr is c for c in held) for r in runs_of(eqn))
    assert all(r.times % r.devices == 0 for r in runs_of(eqn))


class Counting(Watch):
    """Counts how often each equation is executed."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def see(self, eqn, ins, outs):
        self.seen[eqn] += 1


def check_executions(program, args):
    """How often each equation is executed lies between the two ends of what its site says."""
    counting = Counting()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(program, args, observer=counting)
    where = sites(in_order(program.jaxpr), None)
    for site in where:
        low, high = site.times
        for eqn in site.jaxpr.eqns:
            n = counting.seen.pop(eqn, 0)
            assert low <= n and (high is None or n <= high), (site.place(eqn), site.times, n)
    assert not counting.seen, "an equation runs of which nobody says so"
    return where


@pytest.mark.parametrize(
    "name", [n for n in REAL if n != "data_parallel"]
)  # batched, not run as written
def test_equations_are_executed_as_often_as_is_said(name):
    program, args = real_program(name)
    where = check_executions(program, args)
    assert {id(e) for s in where for e in s.jaxpr.eqns} <= {id(e) for e in all_eqns(program.jaxpr)}
    for site in where:
        for eqn in site.jaxpr.eqns[:1]:
            assert all(a.eqn in b for a, b in zip(site.path, _holders(site), strict=True)), eqn


def _holders(site):
    """The equations of each jaxpr on the way to a site, the outermost first."""
    found = []
    while site.above is not None:
        site = site.above
        found.append(set(site.jaxpr.eqns))
    return found[::-1]


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(programs())
def test_equations_of_random_programs_are_executed_as_often_as_is_said(program):
    check_executions(program, arguments(program))
