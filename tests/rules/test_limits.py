"""What a file may take of its reader's machine: bytes on the way to a result, calls, devices, XLA's patience."""

from __future__ import annotations

import contextlib

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.backends.xla import compile as compiling
from jaxprtool.backends.xla import precautions
from jaxprtool.core.stack import run_deep
from jaxprtool.driver.compile import compile as compile_program
from jaxprtool.driver.run import run
from jaxprtool.interpreters.evaluation.limits import check_room, limited_bytes
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.stablehlo.module import StableHLO
from tests.laws.sharing import program

X3 = np.array([0.5, 1, 2], np.float32)
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
    with pytest.raises(jt.UsageError, match="1,000 calls"):
        run(p, [np.ones(3, np.float32)], step_limit=1000)
    assert len(run(program("jit", 3), [np.ones(3, np.float32)], step_limit=1000)) == 1


def test_unrolling_is_bounded():
    assert len(str(jt.lower(jt.parse(UNROLLED)))) < 4_000_000


def over_devices(count: int) -> jt.ClosedJaxpr:
    return jt.parse(
        f"{{ lambda ; a:f32[{count}]. let b:f32[{count}] = shard_map[check_vma=False in_specs=(P('x',),) "
        "jaxpr={ lambda ; c:f32[1]. let d:f32[1] = sin c in (d,) } manual_axes=frozenset({'x'}) "
        f"mesh=AbstractMesh('x': {count}, axis_types=(Auto,)) out_specs=(P('x',),)] a in (b,) }}"
    )


def test_a_file_does_not_say_how_many_devices_are_made():
    with pytest.raises(jt.UsageError, match="100 devices, and at most 64 are made unasked"):
        compile_program(over_devices(100))


def test_more_devices_than_xla_has_on_a_host_are_refused():
    with pytest.raises(jt.UsageError, match="2,049 devices, and XLA makes at most 2,048 of a host"):
        compile_program(over_devices(2049), 2049)


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


@pytest.mark.parametrize("n", [60, 400])
def test_what_jax_does_not_survive_is_reported(n):
    head = "{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr="
    inner = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    program = jt.parse(head * n + inner + "] a in (b,) }" * n)
    if n == 60:
        (found,) = run(program, [np.float32(1)], through="jax")
        assert np.isclose(found, np.sin(1.0))
    else:
        with pytest.raises(jt.UnsupportedError, match=r"JAX does not survive|too deep"):
            run_deep(run, program, [np.float32(1)], through="jax")


CALLS = (lambda: jax.debug.callback(lambda: None), lambda: jax.debug.print("x {}", 1.5))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", [{"jit": True}, {"through": "jax"}])
def test_a_loop_without_steps_that_calls_the_host(call, how):
    """XLA ends the process on it (also where JAX gives it to XLA); what it does not end on runs."""

    def loop(x, times):
        def body(c):
            call()
            return c[0] * 2, c[1] + 1

        return jax.lax.while_loop(lambda c: c[1] < times, body, (x, 0))[0]

    x = np.ones(3, np.float32)
    never = jt.trace(lambda x: jax.lax.while_loop(lambda c: False, lambda c: (call(), c)[1], x), x)
    with pytest.raises(jt.UnsupportedError, match="XLA does not survive"):
        run(never, [x], **how)
    assert run(never, [x])[0] is not None
    (twice,) = run(jt.trace(lambda x: loop(x, 2), x), [x], **how)
    assert np.asarray(twice)[0] == 4


@pytest.mark.parametrize("shape", ["", "3", "0"])
@pytest.mark.parametrize("how", [{}, {"jit": True}, {"through": "jax"}])
def test_a_loop_without_steps_that_prints(shape, how):
    """Read from a text; XLA ends the process on some of them, and only as JAX lowers them on others."""
    program = jt.parse(f"""{{ lambda ; a:i32[{shape}]. let
        while[body_jaxpr={{ lambda ; b:i32[{shape}]. let
            debug_print[fmt=x = {{}} has_placeholders=False in_tree=PyTreeDef(((*,), {{}})) logging_record=None np_printoptions=()
              ordered=False partitioned=False static_args=()] b in () }}
          body_nconsts=1 cond_jaxpr={{ lambda ; . let  in (False:bool[],) }} cond_nconsts=0] a
      in (a,) }}""")
    value = np.zeros([int(n) for n in shape], np.int32)
    try:
        (out,) = run(program, [value], **how)
    except jt.UnsupportedError as e:
        assert how and "does not survive" in str(e)
    else:
        np.testing.assert_array_equal(out, value)


NARROW = ("i2", "u2", "i4", "u4", "f4_e2m1fn", "f6_e2m3fn", "f6_e3m2fn", "f8_e8m0fnu", "f8_e3m4")


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("how", [{"jit": True}, {"through": "jax"}])
def test_no_narrow_type_ends_the_process(name, how):
    """Constants, a division of constants by zero and joined arrays; what XLA does not survive is an error."""
    text = f"""{{ lambda a:{name}[2]; b:{name}[2]. let
        c:{name}[] = div 1:{name}[] 0:{name}[]
        d:{name}[2] = broadcast_in_dim[shape=(2,) broadcast_dimensions=() sharding=None] c
        e:{name}[6] = concatenate[dimension=0] a b d
      in (e, a) }} where a = [1, 0]"""
    program = jt.parse(text)
    value = np.ones(2, np_dtype(program.in_avals[0].dtype))
    assert len(run(program, [value])) == 2
    for part in (text, text.replace("div", "add"), text.replace("0:", "1:")):
        with contextlib.suppress(jt.UnsupportedError):
            assert len(run(jt.parse(part), [value], **how)) == 2


DIVISIONS = (
    "c:i32[] = div 1:i32[] 0:i32[]",
    "b:i32[] = sub 1:i32[] 1:i32[]; c:i32[] = rem 7:i32[] b",
    "b:i32[] = mul a 0:i32[]; c:i32[] = div 7:i32[] b",
    "b:i32[] = sub a a; c:i32[] = rem 7:i32[] b",
    "b:i32[] = integer_pow[y=3] 0:i32[]; c:i32[] = rem 5:i32[] b",
    "c:i32[] = cond[branches=({ lambda ; d:i32[]. let e:i32[] = div 1:i32[] d in (e,) } "
    "{ lambda ; d:i32[]. let  in (d,) })] 0:i32[] 0:i32[]",
    "c:i32[] = div a 0:i32[]",
    "b:i32[] = neg a; c:i32[] = div -2147483648:i32[] b",
)


@pytest.mark.parametrize("equations", DIVISIONS)
def test_xla_divides_no_constant_by_zero(equations):
    """It would end the process, JAX's too. The results are NumPy's, and XLA's for values that it does not know before."""
    program = jt.parse(f"{{ lambda ; a:i32[]. let {equations} in (c,) }}")
    args = [np.int32(1)]
    expected = run(program, args)
    assert run(program, args, jit=True) == expected
    try:
        found = run(program, args, through="jax")
    except jt.UnsupportedError as e:
        assert "SIGFPE" in str(e)
    else:
        assert found == expected


def test_a_child_hands_over_what_it_has_compiled():
    """Programs that XLA may not survive were compiled twice, and took twice as long as under `jax.jit`."""
    assert precautions.try_in_child(lower_jaxpr(nested_loops(2)))
    assert precautions.try_in_child(StableHLO("no module", [], [])) == b""


@pytest.mark.parametrize(
    "text, arguments",
    [
        ("{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b a in (c, b) }", [X3]),
        (
            "{ lambda ; a:f32[2,2]. let b:f32[2,2] = cholesky a in (b,) }",
            [np.array([[2, 1], [1, 2]], np.float32)],
        ),
    ],
)
def test_what_a_child_has_compiled_runs(monkeypatch, text, arguments):
    program = jt.parse(text)
    wanted = run(program, arguments)
    monkeypatch.setattr(precautions, "is_long_chain", lambda text: True)
    monkeypatch.setattr(compiling, "compile_stablehlo", None)
    for a, b in zip(run(jt.parse(text), arguments, jit=True), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)


HUGE_WINDOW = (
    "{ lambda ; a:f32[0] b:f32[0]. let c:f32[0] = select_and_gather_add[base_dilation=(1,) padding=((0, 0),) "
    "select_prim=ge window_dilation=(1,) window_dimensions=(2147483646,) window_strides=(1,)] a b in (c,) }"
)


def test_a_window_larger_than_the_array_takes_no_room():
    p = jt.parse(HUGE_WINDOW)
    assert run(p, [np.ones(0, np.float32)] * 2)[0].shape == (0,)


def convolution(strides: int, rank: int = 1) -> jt.ClosedJaxpr:
    ones, spec = (1,) * rank, tuple(range(rank + 2))
    sizes = ",".join(["1"] * (rank + 2))
    return jt.parse(
        f"{{ lambda ; a:f32[{sizes}] b:f32[{sizes}]. let c:f32[{sizes}] = conv_general_dilated[batch_group_count=1 "
        f"dimension_numbers=ConvDimensionNumbers(lhs_spec={spec}, rhs_spec={spec}, out_spec={spec}) "
        f"feature_group_count=1 lhs_dilation={ones} padding={((0, 0),) * rank} precision=None "
        f"preferred_element_type=None rhs_dilation={ones} window_strides={(strides,) * rank}] a b in (c,) }}"
    )


def test_steps_beyond_any_address_are_taken_where_there_is_one_window():
    p = convolution(1 << 62)
    one = np.full((1, 1, 1), 3, np.float32)
    assert run(p, [one, one])[0].item() == 9


def test_convolutions_over_more_axes_than_numpy_has_are_refused():
    p = convolution(1, 40)
    one = np.ones((1,) * 42, np.float32)
    with pytest.raises(jt.UnsupportedError, match="convolutions of arrays of rank 42; at most 32"):
        run(p, [one, one])
    assert run(convolution(1, 30), [np.ones((1,) * 32, np.float32)] * 2)[0].size == 1


@pytest.mark.parametrize("verb", [jt.lower, lambda p: run(p, [np.ones(1, np.float32)])])
def test_a_collective_does_not_list_all_devices_that_a_file_names(verb):
    p = jt.parse(
        "{ lambda ; a:f32[1]. let b:f32[1] = shard_map[check_vma=True in_specs=(P(),) "
        "jaxpr={ lambda ; c:f32[1]. let d:f32[1] = psum[axes=('x',) axis_index_groups=None] c in (d,) } "
        "manual_axes=frozenset({'x'}) mesh=Mesh('x': 4611686018427387904, axis_types=(Auto,)) "
        "out_specs=(P(),)] a in (b,) }"
    )
    with pytest.raises(jt.UsageError, match="at most 65,536 are listed"):
        verb(p)


IOTA = (
    "{ lambda ; . let a:f32[1099511627776,1048576] = iota[dimension=0 dtype=float32 "
    "shape=(1099511627776, 1048576) sharding=None]; b:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] a "
    "in (b,) }"
)


@pytest.mark.parametrize(
    "call", [lambda p: jt.eval_jaxpr(p, []), lambda p: jt.jit(jt.jaxpr_as_fun(p))()]
)
def test_memory_that_there_is_not_names_the_equation(call):
    with pytest.raises(
        jt.UsageError, match=r"not enough memory for iota, which gives f32\[1099511627776,"
    ):
        call(jt.parse(IOTA))


def test_room_beyond_any_address_is_refused_without_a_limit():
    p = jt.parse(
        CONVOLUTION.replace("90000000000,", "9000000000000000000,").replace(
            "10000000000,", "1000000000000000000,"
        )
    )
    with pytest.raises(jt.UsageError, match="more than there are addresses for"):
        jt.eval_jaxpr(p, [np.ones(a.shape, np.float32) for a in p.in_avals])


def test_constants_count():
    p = jt.parse("{ lambda a:f32[4]; . let in (a,) } where a = [1.0, 2.0, 3.0, 4.0]")
    check_memory(p, 16)
    with pytest.raises(jt.UsageError, match="constants take 16 bytes, more than the limit of 15"):
        check_memory(p, 15)


def test_what_xla_needs_in_between_counts():
    p = jt.parse(
        "{ lambda ; a:f32[1000]. let b:f32[1000] = sort[dimension=0 is_stable=True num_keys=1] a in (b,) }"
    )
    with pytest.raises(jt.UsageError, match="the compiled program needs"):
        run(p, [np.ones(1000, np.float32)], jit=True, max_bytes=5000)


def test_long_chains_and_deep_branches_are_tried_in_a_process_of_their_own(monkeypatch):
    tried = []
    monkeypatch.setattr(precautions, "try_in_child", tried.append)
    monkeypatch.setattr(precautions, "_LONG_CHAIN", 50)
    chain = "\n".join(f"b{i + 1}:f32[] = sin b{i}" for i in range(60))
    compile_program(jt.parse(f"{{ lambda ; b0:f32[]. let {chain} in (b60,) }}"))
    wide = "\n".join(f"b{i + 1}:f32[] = sin b0" for i in range(60))
    compile_program(jt.parse(f"{{ lambda ; b0:f32[]. let {wide} in (b60,) }}"))
    assert len(tried) == 1


def test_calls_are_written_out_in_a_chain():
    text = (
        "module { func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {\n"
        "  %0 = func.call @f(%arg0) : (tensor<f32>) -> tensor<f32>\n"
        "  %1 = func.call @f(%0) : (tensor<f32>) -> tensor<f32>\n  return %1 : tensor<f32>\n}\n"
        "func.func private @f(%arg0: tensor<f32>) -> tensor<f32> {\n"
        + "".join(
            f"  %{i} = stablehlo.sine %{i - 1 if i else 'arg0'} : tensor<f32>\n"
            for i in range(4000)
        )
        + "  return %3999 : tensor<f32>\n}\n}"
    )
    assert precautions.is_long_chain(text)
    assert not precautions.is_long_chain(text.replace("@f(%0)", "@f(%arg0)"))
