"""What a file may take of its reader's machine: bytes on the way to a result, calls, devices, XLA's patience."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.backends import precautions
from jaxprtool.driver.compile import compile as compile_program
from jaxprtool.driver.run import run
from jaxprtool.interpreters.lower import StableHLO, lower_jaxpr
from jaxprtool.interpreters.steps import check_room, limited_bytes
from tests.laws.sharing import program

WINDOW = (
    "{ lambda ; a:f32[10]. let b:f32[1] = reduce_window_sum[base_dilation=(10000000000,) padding=((0, 0),) "
    "window_dilation=(1,) window_dimensions=(90000000001,) window_strides=(1,)] a in (b,) }"
)
CONVOLUTION = (
    "{ lambda ; a:f32[1,1,10] b:f32[1,1,2]. let c:f32[1,1,1] = conv_general_dilated[batch_group_count=1 "
    "dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), out_spec=(0, 1, 2)) "
    "feature_group_count=1 lhs_dilation=(10000000000,) padding=((0, 0),) precision=None "
    "preferred_element_type=None rhs_dilation=(90000000000,) window_strides=(1,)] a b in (c,) }"
)
UNROLLED = (
    "{ lambda ; a:f32[]. let b:f32[] = scan[jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) } "
    "length=1000000 linear=(False,) num_carry=1 num_consts=0 reverse=False unroll=1000000] a in (b,) }"
)


@pytest.mark.parametrize("text", [WINDOW, CONVOLUTION])
def test_what_is_made_on_the_way_counts(text):
    import numpy as np

    p = jt.parse(text)
    args = [np.ones(a.shape, np.float32) for a in p.in_avals]
    with pytest.raises(jt.UsageError, match="on the way to its result"):
        run(p, args, max_bytes=1 << 24)


def test_room_is_asked_for_inside_the_block_only():
    with limited_bytes(10):
        check_room(10, "x")
        with pytest.raises(jt.UsageError, match="x needs 11 bytes"):
            check_room(11, "x")
    check_room(11, "x")


def test_calls_are_counted():
    p = program("jit", 12)
    import numpy as np

    with pytest.raises(jt.UsageError, match="1,000 calls"):
        run(p, [np.ones(3, np.float32)], step_limit=1000)
    assert len(run(program("jit", 3), [np.ones(3, np.float32)], step_limit=1000)) == 1


def test_unrolling_is_bounded():
    assert len(str(jt.lower(jt.parse(UNROLLED)))) < 4_000_000


def test_a_file_does_not_say_how_many_devices_are_made():
    text = (
        "{ lambda ; a:f32[100]. let b:f32[100] = shard_map[check_vma=False in_specs=(P('x',),) "
        "jaxpr={ lambda ; c:f32[1]. let d:f32[1] = sin c in (d,) } manual_axes=frozenset({'x'}) "
        "mesh=AbstractMesh('x': 100, axis_types=(Auto,)) out_specs=(P('x',),)] a in (b,) }"
    )
    with pytest.raises(jt.UsageError, match="100 devices, and at most 64 are made unasked"):
        compile_program(jt.parse(text))


def test_what_xla_would_write_out_is_counted():
    with pytest.raises(jt.UsageError, match="XLA writes out every call"):
        compile_program(program("jit", 24))


def nested_loops(n: int) -> jt.ClosedJaxpr:
    head = "{ lambda ; a:f32[]. let b:f32[] = scan[jaxpr="
    tail = " length=1 linear=(False,) num_carry=1 num_consts=0 reverse=False unroll=1] a in (b,) }"
    return jt.parse(head * n + "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }" + tail * n)


def test_what_xla_does_not_survive_is_reported():
    with pytest.raises(jt.UnsupportedError, match="XLA does not survive"):
        compile_program(nested_loops(600))


def test_a_child_that_ends_well_says_nothing():
    precautions.try_in_child(lower_jaxpr(nested_loops(2)))
    precautions.try_in_child(StableHLO("no module", [], []))
