"""blame: which equation masks a bad value, of references and in loops; and what is bad only when compiled, inside of them; originals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl

import jaxprtool as jt
from jaxprtool.driver.grad import grad as differentiated


def overwritten(x: Any) -> Any:
    cell = jax.new_ref(jnp.log(x))
    cell[...] = x
    return cell[...] * 2


def overwritten_in_part(x: Any) -> Any:
    cell = jax.new_ref(jnp.log(x))
    part = cell[2:]
    cell[0] = 3.0
    return part, cell[...]


def written(x: Any) -> Any:
    cell = jax.new_ref(x)
    cell[...] = jnp.log(x)
    return cell[1:], cell[...]


def swapped(x: Any) -> Any:
    cell = jax.new_ref(x)
    before = jax.ref.swap(cell, slice(None), jnp.log(x))
    return before, cell[...]


def added(x: Any) -> Any:
    cell = jax.new_ref(x)

    def body(c: Any, t: Any) -> Any:
        cell[...] += jnp.log(t - 1) * 0.1
        return c, None

    lax.scan(body, 0.0, jnp.arange(4.0))
    return cell[...]


@pytest.mark.parametrize(
    ("f", "masked_by", "reached"),
    [
        (overwritten, ["swap"], ["masked"]),
        (overwritten_in_part, ["get", "swap"], ["masked", "masked"]),
        (written, ["get"], ["masked", "reaching"]),
        (swapped, [], [None, "reaching"]),
        (added, [], ["reaching"]),
    ],
)
def test_what_is_written_to_a_reference_is_masked_where_it_is_overwritten(
    f: Callable[..., Any], masked_by: list[str], reached: list[str | None]
) -> None:
    found = jt.blame(f, np.arange(4, dtype=np.float32))
    assert [p.eqn.primitive.name for p in found.masked_by] == masked_by, str(found)
    assert [o.reached for o in found.outputs] == reached, str(found)


@pytest.mark.parametrize("every", [1, 10])
def test_a_call_in_a_loop_masks_nothing_besides_the_equation_inside(every: int) -> None:
    def guarded(c: Any) -> Any:
        return jnp.where(c < 0, jnp.log(-c), c)

    def body(i: Any, c: Any) -> Any:
        return guarded(c) if every == 1 else lax.cond(i % every == 7, guarded, jnp.sin, c)

    found = jt.blame(lambda x: lax.fori_loop(0, 60, body, x), np.float32(2))
    assert [p.eqn.primitive.name for p in found.masked_by] == ["select_n"], str(found)


def in_scan(x: Any) -> Any:
    def body(c: Any, t: Any) -> Any:
        small = c * 1e-39
        return c, lax.cond(t == 30, lambda s: s * 1e36 / jnp.sin(s), lambda s: s + 1, small)

    return lax.scan(body, x, jnp.arange(40))


def in_while(x: Any) -> Any:
    def body(s: Any) -> Any:
        i, c = s
        small = c * 1e-39
        return i + 1, jnp.where(i == 37, small / (small * 2), c)

    return lax.while_loop(lambda s: s[0] < 50, body, (0, x))


def on_devices(x: Any) -> Any:
    def shard(x: Any) -> Any:
        y = x * 1e-39
        return y / lax.psum(y, "i")

    mesh = jax.sharding.AbstractMesh((2,), ("i",))
    p = jax.sharding.PartitionSpec("i")
    return jax.shard_map(shard, mesh=mesh, in_specs=p, out_specs=p)(x)


@pytest.mark.parametrize(
    ("f", "x", "way", "reached"),
    [
        (in_scan, np.float32(1), "scan step 30 > cond branch 1 > div", [None, "reaching"]),
        (in_while, np.float32(1), "while step 37 > div", [None, "reaching"]),
        (on_devices, np.ones(2, np.float32), "shard_map > div", ["reaching"]),
    ],
)
def test_what_is_bad_only_when_compiled_is_found_inside(
    f: Callable[..., Any], x: Any, way: str, reached: list[str | None]
) -> None:
    """XLA takes a denormal number for zero."""
    assert not jt.blame(f, x).found
    found = jt.blame(f, x, jit=True)
    place = found.json()["first"]
    words = [p["primitive"] + _of(p, "step") + _of(p, "branch") for p in place["path"]]
    assert " > ".join([*words, place["primitive"]]) == way
    assert [o.reached for o in found.outputs] == reached


def _of(step: dict[str, Any], key: str) -> str:
    return "" if step[key] is None else f" {key} {step[key]}"


def test_an_equation_of_the_original_is_derived_from_no_other_of_its_place_in_python() -> None:
    """In `sin(x) / x` both operations have the same line and column."""

    def sinc(x: Any) -> Any:
        return jnp.where(x == 0, 1.0, jnp.sin(x) / x)

    found = jt.blame(jax.vmap(jax.grad(sinc)), np.arange(3, dtype=np.float32))
    assert found.first is not None and found.first.eqn.primitive.name == "div"
    assert found.original is None and found.unguarded is not None
    found = jt.blame(jax.grad(lambda x: jnp.sqrt(x) / 2), np.float32(0))
    assert found.original is not None and found.original.eqn.primitive.name == "sqrt"


def test_the_where_to_guard_is_found_in_a_loop() -> None:
    """The derivative reads the condition of each step from what the loop has stacked up."""

    def loss(x: Any) -> Any:
        def body(c: Any, t: Any) -> Any:
            r = jnp.where(t > 0, jnp.sqrt(t), 0.0)
            return c + r, r

        return lax.scan(body, 0.0, x)[0]

    found = jt.blame(jax.grad(loss), np.arange(3, dtype=np.float32))
    assert found.unguarded is not None and found.unguarded.kept, str(found)
    way = [step.eqn.primitive.name for step in found.unguarded.place.path]
    assert way == ["scan", "jit"]
    assert found.unguarded.place.path[0].eqn is found.appearances[0].place.path[0].eqn


def _scanned(c: Any, ts: Any) -> Any:
    def body(c: Any, t: Any) -> Any:
        y = jnp.where(c > t, jnp.sqrt(c - t), 0.0)
        return c * 0.9 + 0.1 * y, y

    c, ys = lax.scan(body, c, ts)
    return c + ys.sum()


def _counted(c: Any, ts: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        return jnp.where(c > ts[i], jnp.sqrt(c - ts[i]), 0.0) + 0.5

    return lax.fori_loop(0, 3, body, c)


def _inner(c: Any, ts: Any) -> Any:
    def row(c: Any, t: Any) -> Any:
        return lax.cond(
            t > 5, lambda c: c, lambda c: jnp.where(c > t, jnp.log(c - t), 0.1), c
        ), None

    return lax.scan(row, c, ts)[0]


@pytest.mark.parametrize("loss", [_scanned, _counted, _inner])
@pytest.mark.parametrize("argument", [0, 1])
@pytest.mark.parametrize("ts", [[0.5, 2.0, 0.3], [1.0, 0.3, 0.2], [0.2, 0.3, 4.0]])
@pytest.mark.parametrize("named", [True, False])
def test_the_where_to_guard_is_found_where_the_condition_is_on_the_carry(
    loss: Any, argument: int, ts: Any, named: bool
) -> None:
    args = np.float32(1.0), np.array(ts, np.float32)
    if named:
        program: Any = jt.trace(jax.grad(loss, argnums=argument), *args)
    else:
        plain = jt.opt(jt.trace(loss, *args), passes="strip source|names")
        program = differentiated(plain, (argument,))
    found = jt.blame(program, *args, nan=True)
    if not any(np.isnan(np.asarray(x)).any() for x in jt.run(program, *args)):
        pytest.skip("the gradient has no NaN there")
    assert found.unguarded is not None, str(found)
    assert found.unguarded.place.eqn.primitive.name == "select_n"
    assert found.unguarded.certain or not named
    assert found.unguarded.place.path[0].eqn.primitive.name == "scan"


def test_a_choice_beside_a_bad_result_is_no_derivative() -> None:
    def f(x: Any) -> Any:
        y = jnp.sqrt(x)
        return jnp.where(x > 0, y, 0.0) * y

    found = jt.blame(f, np.array([-1.0, 1.0], np.float32))
    assert found.unguarded is None and found.masked_by


# -- kernels -----------------------------------------------------------------------------------


def _kernel(body: Any, n: int = 8, out: int | None = None) -> Any:
    blocks = pl.BlockSpec((2,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct((n if out is None else out,), jnp.float32)
    one = blocks if out is None else pl.BlockSpec((2,), lambda i: (0,))
    return lambda x: pl.pallas_call(
        body, out_shape=shape, grid=(n // 2,), in_specs=[blocks], out_specs=one, interpret=True
    )(x)


def _root(x: Any, o: Any) -> None:
    o[...] = jnp.sqrt(x[...])


def _halves(x: Any, o: Any) -> None:
    o[0] = jnp.log(x[0])
    o[1] = x[1] * 2.0


def _summed(x: Any, o: Any) -> None:
    o[...] += x[...]


@pytest.mark.parametrize("body", [_root, _halves])
def test_a_kernel_whose_values_are_good_is_clean(body: Any) -> None:
    """The memory of its results holds NaN until something is written there, which is nobody's fault."""
    x = np.arange(1, 9, dtype=np.float32)
    assert not jt.blame(_kernel(body), x).found
    jt.run(_kernel(body), x, check_nans=True)


@pytest.mark.parametrize(("body", "primitive"), [(_root, "sqrt"), (_halves, "log")])
@pytest.mark.parametrize("at", [0, 2, 6])
def test_what_makes_a_nan_in_a_kernel_is_named(body: Any, primitive: str, at: int) -> None:
    x = np.arange(1, 9, dtype=np.float32)
    x[at] = -1
    found = jt.blame(_kernel(body), x)
    assert found.first is not None and found.first.eqn.primitive.name == primitive
    assert [o.reached for o in found.outputs] == ["reaching"] and not found.masked_by
    assert len(found.appearances) == 1, str(found)


def test_memory_that_nothing_has_written_to_is_bad_where_it_is_read() -> None:
    found = jt.blame(_kernel(_summed, out=2), np.ones(8, np.float32))
    assert found.first is not None and found.first.eqn.primitive.name == "get"
    assert [o.reached for o in found.outputs] == ["reaching"]


def test_a_place_in_a_kernel_has_the_step_of_the_grid():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.log(x_ref[...])

    def f(x):
        block = pl.BlockSpec((1, 4), lambda i, j: (i, j))
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid=(2, 3),
            in_specs=[block],
            out_specs=block,
            interpret=True,
        )(x)

    x = np.ones((2, 12), np.float32)
    x[1, 5] = -1
    first = jt.blame(f, x).json()["first"]
    assert first["primitive"] == "log"
    assert [(p["primitive"], p["step"]) for p in first["path"]] == [("pallas_call", 4)]


def _turn(x):
    return jax.lax.ppermute(x, "d", [(i, (i + 1) % 4) for i in range(4)])


COLLECTIVES = {
    "turned": (_turn, ["log", "ppermute"], []),
    "dropped": (lambda x: jax.lax.ppermute(x, "d", [(0, 1), (1, 2), (3, 0)]), [], ["ppermute"]),
    "kept by one": (lambda x: jax.lax.ppermute(x, "d", [(2, 1)]), ["log", "ppermute"], []),
    "from there": (lambda x: jax.lax.pbroadcast(x, "d", 2), ["log", "pbroadcast"], []),
    "from elsewhere": (lambda x: jax.lax.pbroadcast(x, "d", 1), [], ["pbroadcast"]),
    "exchanged": (
        lambda x: jax.lax.all_to_all(x.repeat(2), "d", 0, 0, tiled=True),
        ["log", "all_to_all"],
        [],
    ),
    "the largest": (lambda x: jax.lax.pmax(x, "d"), [], ["pmax"]),
    "the smallest": (lambda x: jax.lax.pmin(x, "d"), ["log", "pmin"], []),
    "turned back": (lambda x: _turn(_turn(x)), ["log", "ppermute", "ppermute"], []),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_is_one_equation_and_masks_what_none_of_its_parts_passes_on(name):
    """On NumPy several equations over all devices run in the place of one."""
    f, chain, masks = COLLECTIVES[name]
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.sharding.AbstractMesh((4,), ("d",), axis_types=auto)
    p = jax.sharding.PartitionSpec("d")

    def on_devices(x):
        shard = lambda x: f(jnp.log(x)) * 1.0
        return jax.shard_map(shard, mesh=mesh, in_specs=p, out_specs=p, check_vma=False)(x)

    found = jt.blame(on_devices, np.float32([1, 1, 2, 2, 0, 0, 3, 3]))
    told = [[x.eqn.primitive.name for x in places] for places in (found.chain, found.masked_by)]
    moved = [x for x in told[0] if x in ("log", "ppermute", "pbroadcast", "all_to_all", "pmin")]
    assert (moved, told[1]) == (chain or ["log"], masks)


def _gathered(x):
    return jax.lax.all_gather(x, "d")


def _in_loop(x):
    return jax.lax.scan(lambda c, _: (_gathered(c).min(0), None), x, None, length=2)[0]


# What nothing but its operand is left of when all devices are one batch.
IDENTITIES = {
    "gathered": (_gathered, ["all_gather"]),
    "gathered last": (lambda x: jax.lax.all_gather(x, "d", axis=1), ["all_gather"]),
    "over both axes": (lambda x: jax.lax.all_gather(x, ("d", "e")), ["all_gather"]),
    "over the other axis": (lambda x: jax.lax.all_gather(x, "e"), ["all_gather"]),
    "twice": (lambda x: _gathered(_gathered(x)), ["all_gather", "all_gather"]),
    "in a loop": (_in_loop, ["all_gather", "reduce_min"]),
    "varying": (lambda x: jax.lax.pcast(x, ("e",), to="varying"), ["pvary"]),
    "one device": (lambda x: jax.lax.pmin(x, "one"), ["pmin"]),
}


@pytest.mark.parametrize("end", [True, False], ids=["last", "inside"])
@pytest.mark.parametrize("name", IDENTITIES)
def test_a_collective_that_is_an_identity_on_all_devices_is_in_the_chain(name, end):
    f, chain = IDENTITIES[name]
    auto = (jax.sharding.AxisType.Auto,) * 3
    mesh = jax.sharding.AbstractMesh((4, 2, 1), ("d", "e", "one"), axis_types=auto)
    p = jax.sharding.PartitionSpec

    def shard(x):
        y = f(jnp.log(x))
        return y if end else y * 2.0

    def on_devices(x):
        return jax.shard_map(
            shard, mesh=mesh, in_specs=p("d"), out_specs=p(("d", "e")), check_vma=name == "varying"
        )(x)

    x = np.float32([1, 1, 2, 2, 0, 0, 3, 3])
    found = jt.blame(on_devices, x)
    told = [x.eqn.primitive.name for x in found.chain]
    assert told == ["log", *chain, *["mul"] * (not end)]
    for a, b in zip(found.chain, found.chain[1:], strict=False):
        if a.path == b.path:
            assert not {*a.eqn.out_binders}.isdisjoint(b.eqn.inputs)


def test_an_equation_of_a_backward_rule_is_derived_from_no_other_at_the_place_of_the_call():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    def backward(x, ct):
        return (ct * jnp.sqrt(-jnp.abs(x)),)

    f.defvjp(lambda x: (jnp.sin(x), x), backward)
    x = np.ones(3, np.float32)
    found = jt.blame(jax.grad(lambda x: f(x * 2).sum()), x)
    assert found.first is not None and found.first.eqn.primitive.name == "sqrt"
    assert found.original is None
    guarded = jt.blame(
        jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sqrt(jnp.sin(x)))(x)), x[0] * 0
    )
    assert guarded.original is not None and guarded.original.eqn.primitive.name == "sqrt"


def halved_and_counted(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] > 0.1, lambda c: (jnp.log(c[0]), c[1] + 1), (x, 0))


@pytest.mark.parametrize(
    "f", [halved_and_counted, lambda x: lax.while_loop(lambda c: c > 0.1, jnp.log, x)]
)
def test_a_loop_of_several_examples_masks_what_one_that_is_done_would_make(f: Any) -> None:
    """The loop keeps the number below 0.1 of the last example, and the body takes its logarithm."""
    found = jt.blame(jax.vmap(f), jnp.array([3.0, 2.0, 0.5]))
    assert found.first is not None and found.first.eqn.primitive.name == "log"
    assert found.outputs[0].reached == "masked"
    assert [p.eqn.primitive.name for p in found.masked_by] == ["while"]
