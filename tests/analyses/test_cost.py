"""What programs cost: sums over loops and branches, rooflines, collectives, budgets."""

from __future__ import annotations

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax.sharding import AbstractMesh, PartitionSpec

import jaxprtool as jt
from jaxprtool.analyses.counting.devices import DEVICES
from jaxprtool.driver.projects.changed import figures
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.ir.diagnostics import UsageError
from tests.analyses.planting import REAL, real_program
from tests.invoke import invoke
from tests.random_programs.programs import programs


def agrees(program, trips=3):
    """The total is what the `cost` column says of the whole program, and rows and groups add up to it."""
    report = jt.cost(program, by="primitive", trips=trips)
    whole = cost_jaxpr(program).at(trips)
    total, order = report.total, report.estimate.order
    ran = [r for s in report.estimate.sites for _, runs in order[s.jaxpr] for r in runs]
    loops, branches = any(r.turns for r in ran), any(r.branch is not None for r in ran)
    figures = ("flops", "transcendentals", "bytes")
    ours = [total[figure] for figure in figures]
    assert all(a <= b for a, b in zip(ours, whole, strict=False))
    if not (loops and branches):  # else `Cost` adds the loops of all branches to the maximum_cost
        assert ours == [*whole[:3]]
    rows, groups = report.estimate.rows, report.estimate.groups.values()
    for figure, most in zip(("flops", "transcendentals", "nbytes"), ours, strict=True):
        found = sum(getattr(r.sums, figure).high for r in rows)
        assert found >= most
        if not branches:
            assert found == most == sum(getattr(g.sums, figure).high for g in groups)
    assert total["equations"] == jt.stats(program).figures.written


@pytest.mark.parametrize("name", REAL)
def test_totals_of_real_programs(name):
    agrees(real_program(name)[0])


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(programs())
def test_totals_of_random_programs(program):
    agrees(program)


@settings(max_examples=30, derandomize=True, database=None, deadline=None)
@given(programs())
def test_what_is_unknown_is_so_and_never_a_number(program):
    total = jt.cost(program).json()["total"]
    known = cost_jaxpr(program)
    if known.is_known:
        assert total["flops"] == known.flops
    else:
        two, three = (known.at(n) for n in (2, 3))
        for figure, a, b in zip(("flops", "transcendentals", "bytes"), two, three, strict=False):
            assert (total[figure] is None) == (a != b)


def test_a_matrix_product_by_hand():
    f = lambda a, b: jnp.tanh(a @ b)
    report = jt.cost(f, np.ones((3, 4), np.float32), np.ones((4, 5), np.float32))
    assert report.total == {
        "flops": 2 * 3 * 4 * 5,
        "transcendentals": 15,
        "bytes": 4 * (12 + 20 + 15 + 15 + 15),
        "peak_bytes": 4 * (12 + 20 + 15 + 15),
        "equations": 2,
    }


def test_turns_of_loops():
    def f(x):
        y = jax.lax.fori_loop(0, 7, lambda i, c: jnp.sin(c), x)
        return jax.lax.while_loop(lambda c: c.sum() < 10, lambda c: c * 2, y)

    x = np.ones(3, np.float32)
    assert jt.cost(f, x).total["transcendentals"] == 21
    assert jt.cost(f, x).total["flops"] is None
    four, five = (jt.cost(f, x, trips=n).total["flops"] for n in (4, 5))
    assert five - four == 3 + 2 + 1  # mul, the sum of three, lt
    assert [p.eqn.primitive.name for p in jt.cost(f, x).estimate.unknown] == ["while"]


def test_of_branches_the_dearest_counts():
    f = lambda i, x: jax.lax.switch(i, [jnp.sin, lambda y: y * 2, lambda y: jnp.cos(jnp.sin(y))], x)
    report = jt.cost(f, 0, np.ones(3, np.float32))
    assert report.estimate.total.transcendentals == (0, 6)
    assert report.total["transcendentals"] == 6
    assert "of branches" in str(report)


def test_a_roofline():
    """A large product is bound by arithmetic, an addition by memory; both to the digit."""
    x = np.ones((1024, 1024), np.float32)
    report = jt.cost(lambda a: a @ a + a, x, device="h100")
    product, addition = report.estimate.rows
    n, device = 1024, DEVICES["h100"]
    assert (product.bound, addition.bound) == ("compute", "memory")
    assert product.seconds == pytest.approx(2 * n**3 / 67e12)
    assert addition.seconds == pytest.approx(3 * 4 * n**2 / device.bandwidth)
    assert report.estimate.seconds == pytest.approx(product.seconds + addition.seconds)
    given = jt.cost(lambda a: a @ a + a, x, device="h100", peak_flops=1e9).estimate.rows[0]
    assert given.seconds == pytest.approx(2 * n**3 / 1e9)


def test_the_peak_is_that_of_the_type():
    kinds = {
        "bfloat16": 989e12,
        "float32": 67e12,
        "float64": 34e12,
        "float8_e4m3fn": 1979e12,
        "complex64": 67e12,
    }
    for dtype, peak in kinds.items():
        text = f"{{ lambda ; a:{jt.ShapedArray((2,), dtype)}. let b:{jt.ShapedArray((2,), dtype)} = mul a a in (b,) }}"
        (row,) = jt.cost(
            jt.parse(text), peak_flops=None, device="h100", bandwidth=1e30
        ).estimate.rows
        assert row.seconds == pytest.approx(row.each.flops / peak), dtype


def mapped(f, shape=(4, 2)):
    mesh = AbstractMesh(shape, ("x", "y"))
    spec = PartitionSpec(("x", "y"))
    return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)


def test_collectives_by_axis():
    """Each member of a group of n holds 4 numbers: 2 (n-1)/n of them go round for a sum."""

    def f(v):
        return jax.lax.psum(v, "x") + jax.lax.psum(v, "y") + jax.lax.psum(v, ("x", "y"))

    sent = jt.cost(mapped(f), np.ones(32, np.float32)).estimate.sent
    assert {k: c.exact for k, c in sent.items()} == {"x": 24, "y": 16, "x,y": 28}


def test_collectives_in_loops_and_groups():
    def f(v):
        v = jax.lax.fori_loop(0, 5, lambda i, c: jax.lax.psum(c, "x"), v)
        return jax.lax.psum(v, "x", axis_index_groups=[[0, 1], [2, 3]])

    sent = jt.cost(mapped(f), np.ones(32, np.float32)).estimate.sent
    assert {k: c.exact for k, c in sent.items()} == {"x": 5 * 24 + 16}


def test_all_devices_work_and_times_are_those_of_one():
    x = np.ones(32, np.float32)
    whole, mapped_ = jt.cost(jnp.sin, x, device="a100"), jt.cost(mapped(jnp.sin), x, device="a100")
    assert mapped_.total["transcendentals"] == whole.total["transcendentals"] == 32
    assert mapped_.estimate.seconds == pytest.approx(whole.estimate.seconds / 8)


def test_budget():
    x = np.ones(8, np.float32)
    report = jt.cost(jnp.sin, x, budget="transcendentals=7,peak=64,bytes=1KiB")
    assert [limit.figure for limit in report.over] == ["transcendentals"]
    assert [b["over"] for b in report.json()["budget"]] == [True, False, False]
    with pytest.raises(UsageError, match="turns as often as it likes"):
        loop = lambda c: jax.lax.while_loop(lambda c: c[0] < 1, lambda c: c * 2, c)
        jt.cost(loop, x, budget="flops=1e30")
    for text, value in {
        "2GiB": 2 << 30,
        "2GB": 2e9,
        "2 G": 2e9,
        "1.5e3": 1500,
        "3KiB": 3072,
        "7b": 7,
    }.items():
        assert jt.cost(jnp.sin, x, budget=f"peak={text}").budget[0].limit == value


def test_the_document_has_the_keys_that_are_said():
    done = invoke("cost --json examples/attention.jaxpr")
    found = json.loads(done.output)
    assert {"flops", "transcendentals", "bytes", "peak_bytes", "equations"} <= found["total"].keys()
    place = {"file", "line", "column", "primitive", "path", "source", "names"}
    for row in found["equations"]:
        assert place == row["place"].keys()
        assert row["bytes"] == row["bytes_read"] + row["bytes_written"]
    assert found["schema"] == 1


def test_places_lead_through_nested_jaxprs():
    report = jt.cost(jt.load("examples/deep_scan.jaxpr"))
    places = [row.place for row in report.estimate.rows]
    assert any(len(p.path) > 1 and p.eqn.span for p in places)
    for p in [p for p in places if p.path]:
        for step, inner in zip(p.path, [*[s.eqn for s in p.path[1:]], p.eqn], strict=True):
            value = step.eqn.params[step.param]
            held = value if step.branch is None else value[step.branch]
            assert inner in held.jaxpr.eqns


SYMBOLIC = {
    "an argument": "{ lambda ; a:f32[b,3]. let c:f32[b,3] = sin a in (c,) }",
    "a product": "{ lambda ; a:f32[2*b]. let c:f32[2*b] = reshape[dimensions=None new_sizes=(2*b,) sharding=None] a in (c,) }",
    "a reference": "{ lambda ; a:Ref{f32[b]}. let c:f32[b] <- a[...] in (c,) }",
    "nothing but a result": "{ lambda ; a:f32[]. let c:f32[b] = broadcast_in_dim[broadcast_dimensions=() shape=(b,) sharding=None] a in (c,) }",
}


@pytest.mark.parametrize("what", SYMBOLIC)
def test_symbolic_sizes_are_no_zeros(what):
    """A size that is no number makes no number of operations or bytes: every verb that counts them says so."""
    program = jt.parse(SYMBOLIC[what])
    for ask in (
        jt.cost,
        lambda p: jt.holds(p, "peak < 10"),
        lambda p: jt.holds(p, "flops < 10"),
        lambda p: jt.holds(p, "bytes(_) < 10"),
        lambda p: jt.holds(p, "arguments < 10"),
    ):
        with pytest.raises(jt.UnsupportedError, match="has a symbolic size") as e:
            ask(program)
        assert e.value.diagnostics[0].span is not None
    if what != "a reference":
        with pytest.raises(jt.UnsupportedError, match="has no fixed shape"):
            jt.residuals(program)
    assert figures({"": program})["bytes"] is None
    assert jt.holds(program, "equations == 1")


@pytest.mark.parametrize("by", [None, "primitive"])
def test_a_report_can_be_pickled(by):
    program, _ = real_program(REAL[0])
    report = jt.cost(jt.parse(jt.format_jaxpr(program, lossless=True)), by=by)
    again = pickle.loads(pickle.dumps(report))
    assert again.total == report.total and again.live and len(str(again)) > 100
