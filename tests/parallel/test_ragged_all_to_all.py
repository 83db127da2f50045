"""`ragged_all_to_all` against its definition: neither JAX's vmap nor XLA on the CPU can run it."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt

N = 4  # members
ROWS, OUT_ROWS = 7, 9
RNG = np.random.default_rng(0)


def text(groups="None", slices=N, rows="f32[28,2]", shard="f32[7,2]{V:i}"):
    places = " ".join(f"{v}:i32[{N * slices}]" for v in "cdef")
    inner = " ".join(f"{v}:i32[{slices}]{{V:i}}" for v in "jklm")
    return f"""{{ lambda ; a:{rows} b:f32[36,2] {places}. let
    g:f32[36,2] = shard_map[
      check_vma=True
      in_specs=(P('i',), P('i',), P('i',), P('i',), P('i',), P('i',))
      jaxpr={{ lambda ; h:{shard} i:f32[9,2]{{V:i}} {inner}. let
          n:f32[9,2]{{V:i}} = ragged_all_to_all[axis_index_groups={groups} axis_name=('i',)] h i j k l m
        in (n,) }}
      mesh=Mesh('i': {N}, axis_types=(Auto,))
      newly_manual_axes=frozenset({{'i'}})
      out_specs=(P('i',),)
    ] a b c d e f
  in (g,) }}
"""


def ragged_data(groups, per_member=1):
    """(operand, output, the four arrays of places), each with a leading axis of members."""
    n = len(groups[0])
    slices = n * per_member
    sizes = RNG.integers(0, 2, (N, slices)).astype(np.int32)
    first = np.cumsum(sizes, 1, dtype=np.int32) - sizes + RNG.integers(0, 2, (N, 1)).astype("i4")
    target, received = np.zeros_like(sizes), np.zeros_like(sizes)
    for group in groups:
        for d, receiver in enumerate(group):
            row = 1
            for s, sender in enumerate(group):
                for j in range(per_member):
                    target[sender, d * per_member + j] = row
                    row += sizes[sender, d * per_member + j]
                    received[receiver, s * per_member + j] = sizes[sender, d * per_member + j]
    x = RNG.normal(size=(N, ROWS, 2)).astype(np.float32)
    y = RNG.normal(size=(N, OUT_ROWS, 2)).astype(np.float32)
    return [x, y, first, sizes, target, received]


def reference(groups, x, y, first, sizes, target, _):
    out = y.copy()
    for group in groups:
        for s in group:
            per_member = sizes.shape[1] // len(group)
            for j, n in enumerate(sizes[s]):
                receiver = group[j // per_member]
                out[receiver, target[s, j] :][:n] = x[s, first[s, j] :][:n]
    return out


def joined(arrays):
    return [a.reshape(-1, *a.shape[2:]) for a in arrays]


CASES = [
    ("None", [[0, 1, 2, 3]], 1),
    ("None", [[0, 1, 2, 3]], 2),
    ("((0, 2), (3, 1))", [[0, 2], [3, 1]], 1),
]


@pytest.fixture(params=CASES, ids=["one", "two_slices", "groups"])
def case(request):
    spelt, groups, per_member = request.param
    program = jt.parse(text(spelt, slices=len(groups[0]) * per_member))
    jt.typecheck_jaxpr(program.jaxpr)
    return groups, jt.jaxpr_as_fun(program), ragged_data(groups, per_member)


def test_values(case):
    groups, f, data = case
    (out,) = f(*joined(data))
    np.testing.assert_array_equal(out.reshape(N, OUT_ROWS, 2), reference(groups, *data))


def test_the_example_of_the_definition():
    """Two members, as in the documentation of `jax.lax.ragged_all_to_all`."""
    program = jt.parse(
        "{ lambda ; a:f32[3] b:f32[4] c:i32[2] d:i32[2] e:i32[2] f:i32[2]. let"
        " g:f32[4] = ragged_all_to_all[axis_index_groups=None axis_name=('i',)] a b c d e f in (g,) }"
    )
    f = jt.vmap(jt.jaxpr_as_fun(program), axis_name="i")
    arrays = [[[1, 2, 2], [3, 4, 0]], np.zeros((2, 4))]
    places = [[[0, 1], [0, 1]], [[1, 2], [1, 1]], [[0, 0], [1, 2]], [[1, 1], [2, 1]]]
    args = [*(np.float32(a) for a in arrays), *(np.int32(p) for p in places)]
    np.testing.assert_array_equal(f(*args)[0], [[1, 3, 0, 0], [2, 2, 4, 0]])


def test_derivatives(case):
    """It is linear in the rows, and its transpose is the adjoint."""
    _, f, data = case
    args = joined(data)
    linear = lambda x, y: f(x, y, *args[2:])
    tangents = [RNG.normal(size=a.shape).astype(np.float32) for a in args[:2]]
    _, (out,) = jt.jvp(linear, args[:2], tangents)
    np.testing.assert_array_equal(out, linear(*tangents)[0])
    ct = RNG.normal(size=out.shape).astype(np.float32)
    cts = jt.vjp(linear, *args[:2])[1]([ct])
    adjoint = sum(np.vdot(a, b) for a, b in zip(cts, tangents, strict=True))
    np.testing.assert_allclose(np.vdot(ct, out), adjoint, rtol=1e-4)


@pytest.mark.parametrize("batched", [[0], [1], [0, 2, 3, 4, 5], range(6)], ids=str)
def test_vmap_is_a_loop(batched):
    _, groups, per_member = CASES[0]
    f = jt.jaxpr_as_fun(jt.parse(text()))
    examples = [joined(ragged_data(groups, per_member)) for _ in range(3)]
    args = [
        np.stack([e[i] for e in examples]) if i in batched else examples[0][i] for i in range(6)
    ]
    axes = [0 if i in batched else None for i in range(6)]
    pick = lambda k: [a[k] if i in batched else a for i, a in enumerate(args)]
    (out,) = jt.vmap(f, in_axes=axes)(*args)
    np.testing.assert_array_equal(out, [f(*pick(k))[0] for k in range(3)])


def test_lowered_to_the_call_that_jax_emits():
    lowered = str(jt.lower(jt.parse(text())))
    assert 'call_target_name = "ragged_all_to_all"' in lowered
    config = "{channel_id = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}"
    assert f"backend_config = {config}" in lowered


@pytest.mark.parametrize(
    "wrong, message",
    [
        (text(slices=3), "does not hold as many slices for each of 4 members"),
        (text(rows="f64[28,2]", shard="f64[7,2]{V:i}"), "cannot be written to"),
        (text(groups="((0, 1), (2, 2))"), "axis_index_groups"),
        (text().replace("axis_name=('i',)", "axis_name=('k',)"), "no axis is called k"),
        (
            text().replace("i32[16]", "f32[16]").replace("i32[4]", "f32[4]"),
            "input_offsets must be integers along one axis, not f32[4]",
        ),
    ],
)
def test_rejections(wrong, message):
    with pytest.raises(jt.JaxprTypeError) as e:
        jt.typecheck_jaxpr(jt.parse(wrong).jaxpr)
    assert message in str(e.value)
