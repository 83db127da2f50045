"""Execution by XLA: arguments, results that stay on the device, figures, and `jit`."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys

import jax
import ml_dtypes
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.backends.numpy_eval import float0, np_dtype
from jaxprtool.backends.xla.client import IS_READ_BY_NUMPY
from jaxprtool.backends.xla.compile import compile_jaxpr
from jaxprtool.backends.xla.device_array import DeviceArray
from jaxprtool.driver.compile import compile as compile_program
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.syntax.parse import parse

DTYPES = "bool i4 u4 i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"


@pytest.fixture
def double():
    """(a, b: f32[3]) -> (a + b, a)."""
    return compile_jaxpr(parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = add a b in (c, a) }"))


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize("name", DTYPES.split())
def test_every_dtype_goes_in_and_out(name):
    dtype = np_dtype(find_dtype(name))
    program = compile_jaxpr(
        parse(f"{{ lambda ; a:{name}[2,2] b:{name}[] c:{name}[0]. let in (a, b, c, a) }}")
    )
    a = np.array([[0, 1], [1, 0]]).astype(dtype)
    outs = program(a, a[0, 1], np.zeros(0, dtype))
    for got, want in zip(outs, (a, a[0, 1], np.zeros(0), a), strict=True):
        host = np.asarray(got)
        assert host.dtype == dtype == got.dtype and host.shape == np.shape(want) == got.shape
        assert (host.astype(complex) == np.asarray(want).astype(complex)).all()


@pytest.mark.parametrize("name", ["f32", "bf16", "f8_e4m3fn"])
def test_a_result_is_read_without_a_copy_and_outlives_the_program(name):
    dtype = np_dtype(find_dtype(name))
    compiled = compile_jaxpr(
        parse(f"{{ lambda ; a:{name}[1000]. let b:{name}[1000] = neg a in (b,) }}")
    )
    x = (np.arange(1000) % 8).astype(dtype)
    (out,) = compiled(x)
    host = np.asarray(out)
    assert host.ctypes.data == out._buffer.unsafe_buffer_pointer() and not host.flags.writeable
    del out
    others = [np.asarray(compiled(x * dtype.type(k))[0]) for k in range(5)]
    del compiled
    gc.collect()
    np.testing.assert_array_equal(host, -x)
    np.testing.assert_array_equal(others[1], -x)


def test_results_are_arguments_of_the_next_call(double):
    c, a = double(ONES, ONES)
    again, _ = double(c, a)
    assert type(c) is DeviceArray and np.asarray(again).tolist() == [3, 3, 3]


def test_python_numbers_lists_and_scalars_take_the_type(double):
    c, _ = double([1, 2, 3], (0.5, 0.5, 0.5))
    assert c.dtype == np.float32 and c.tolist() == [1.5, 2.5, 3.5]
    scalar = compile_jaxpr(parse("{ lambda ; a:bf16[]. let b:bf16[] = add a a in (b,) }"))
    for x in (2, 2.0, np.asarray(2, ml_dtypes.bfloat16), ml_dtypes.bfloat16(2)):
        assert scalar(x)[0].dtype == ml_dtypes.bfloat16 and float(scalar(x)[0]) == 4


def test_other_layouts_and_byte_orders(double):
    grid = np.arange(9, dtype=np.float32).reshape(3, 3)
    c, a = double(grid[:, 1], grid[::-1, 0])
    assert c.tolist() == [7, 7, 7] and a.tolist() == [1, 4, 7]
    assert double(ONES.astype(">f4"), ONES)[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ((ONES,), "argument-count", "takes 2 arguments, and 1 is given"),
        ((ONES, ONES, ONES), "argument-count", "3 are given"),
        ((ONES, np.ones(4, np.float32)), "argument-type", "argument 1 has type f32[4]"),
        ((np.ones(3), ONES), "argument-type", "argument 0 has type f64[3]"),
        ((ONES, np.float32(1)), "argument-type", "argument 1 has type f32[]"),
        ((ONES, np.ones(3, np.int32)), "argument-type", "f32[3] is needed"),
    ],
)
def test_wrong_arguments(double, args, code, words):
    with pytest.raises(UsageError) as error:
        double(*args)
    assert error.value.diagnostics[0].code == code and words in str(error.value)


def test_a_result_of_another_type_is_a_wrong_argument(double):
    other = compile_jaxpr(parse("{ lambda ; a:f32[]. let in (a,) }"))(1.0)[0]
    with pytest.raises(UsageError, match="argument 0 has type f32"):
        double(other, ONES)


def test_arguments_can_be_placed_once(double):
    placed = double.place([[1, 2, 3], ONES])
    assert [type(x) for x in placed] == [DeviceArray, DeviceArray]
    assert double(*placed)[0].tolist() == [2, 3, 4]
    with pytest.raises(UsageError, match="takes 2 arguments, and 1 is given"):
        double.place([ONES])


@pytest.mark.parametrize("n", [10, 1 << 20])
def test_arguments_may_change_after_the_call(n):
    program = compile_jaxpr(
        parse(f"{{ lambda ; a:f32[{n}]. let b:f32[{n}] = exp a; c:f32[{n}] = sin b in (c, a) }}")
    )
    x = np.linspace(0, 1, n, dtype=np.float32)
    before = x.copy()
    sine, same = program(x)
    x[:] = 7
    np.testing.assert_allclose(sine, np.sin(np.exp(before)), atol=1e-5)
    np.testing.assert_array_equal(same, before)


def test_float0_goes_in_and_out():
    program = compile_jaxpr(parse("{ lambda ; a:float0[2] b:f32[]. let in (a, b) }"))
    zeros, b = program(np.zeros(2, float0), 1.0)
    assert zeros.dtype == float0 and zeros.shape == (2,) and float(b) == 1


# -- device arrays ------------------------------------------------------------------------------


def test_a_device_array_answers_as_numpy_does(double):
    c, _ = double(ONES, ONES)
    assert (c + 1).tolist() == [3, 3, 3] and (1 - c).tolist() == [-1, -1, -1]
    assert (c == 2).all() and np.sin(c).dtype == np.float32 and (-c).sum() == -6
    assert len(c) == 3 and c[1] == 2 and list(c) == [2, 2, 2] and c.ndim == 1 and c.size == 3
    assert c.block_until_ready() is c and repr(c) == "DeviceArray([2., 2., 2.], dtype=float32)"
    assert np.asarray(c) is np.asarray(c) and np.array(c) is not np.asarray(c)
    assert c.__array__(np.float64).dtype == np.float64
    assert pickle.loads(pickle.dumps(c)).tolist() == [2, 2, 2]


def test_scalars_convert_to_python():
    i, x = compile_jaxpr(parse("{ lambda ; a:i32[] b:f32[]. let in (a, b) }"))(2, 0.5)
    assert int(i) == 2 and [10, 20, 30][i] == 30 and float(x) == 0.5 and bool(x)
    assert complex(x) == 0.5 and f"{x:.2f}" == "0.50" and str(i) == "2"


def test_a_device_array_is_read_only_and_has_no_other_attributes(double):
    c, _ = double(ONES, ONES)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(c)[0] = 1
    with pytest.raises(AttributeError):
        c.no_such_attribute
    with pytest.raises(AttributeError):
        c.__no_such_protocol__


def test_jax_takes_device_arrays_and_we_take_jax_arrays(double):
    import jax.numpy as jnp

    c, _ = double(jnp.ones(3, jnp.float32), ONES)
    assert jnp.sum(jnp.asarray(c)) == 6


# -- figures -------------------------------------------------------------------------------------


def test_figures():
    program = compile_jaxpr(
        parse("{ lambda ; a:f32[64]. let b:f32[64] = sin a; c:f32[64] = mul b 2.0:f32[] in (c,) }")
    )
    memory = program.memory_analysis()
    assert memory.arguments == memory.results == 256
    assert program.cost_analysis()["transcendentals"] == 64
    assert program.as_text().startswith("HloModule jit_main") and "sine" in program.as_text()


def test_a_program_over_the_limit_is_refused():
    program = compile_program(
        parse(
            "{ lambda ; a:f32[]. let b:f32[1000,1000] = broadcast_in_dim[shape=(1000,1000)] a in (b,) }"
        )
    )
    program.check_size(5_000_000)
    with pytest.raises(UsageError, match="4,000,0"):
        program.check_size(1_000_000)


def test_a_result_that_no_memory_holds_is_refused():
    n = 10**13
    program = compile_jaxpr(
        parse(f"{{ lambda ; a:f32[]. let b:f32[{n}] = broadcast_in_dim[shape=({n},)] a in (b,) }}")
    )
    with pytest.raises(UsageError) as error:
        program(1.0)
    assert error.value.diagnostics[0].code == "too-large"


def test_compiling_twice_compiles_once():
    program = parse("{ lambda ; a:f32[]. let in (a,) }")
    assert compile_jaxpr(program) is compile_jaxpr(program)


@pytest.mark.skipif(not IS_READ_BY_NUMPY, reason="earlier releases of jaxlib import JAX themselves")
def test_neither_compiling_nor_running_imports_jax():
    code = (
        "import sys, numpy as np, jaxprtool as jt\n"
        "from jaxprtool.driver.compile import compile\n"
        "f = compile(jt.parse('{ lambda ; a:f64[3] b:bf16[]. let c:f64[3] = sin a in (c, b) }'))\n"
        "sine, two = f(np.zeros(3), 2)\n"
        "print(sine.tolist(), two.item(), 'jax' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[0.0, 0.0, 0.0] 2.0 False" and run.stderr == ""


# -- jit -----------------------------------------------------------------------------------------


def test_jit_runs_compiled_and_its_results_stay_on_the_device():
    calls = []

    @jt.jit
    def f(x, y):
        calls.append(1)
        return {"sum": lax.add(x, y), "pair": (lax.sin(x), y)}

    x = np.ones(3)
    for _ in range(2):
        out = f(x, x)
    assert len(calls) == 1 and type(out["sum"]) is DeviceArray
    assert f(out["sum"], out["pair"][1])["sum"].tolist() == [3, 3, 3] and len(calls) == 1
    f(np.ones(2), np.ones(2))
    assert len(calls) == 2


def test_values_on_the_device_work_under_transformations():
    f = jt.jit(lambda x: lax.mul(lax.sin(x), x))
    x = f(np.float64(1.0))
    value, tangent = jt.jvp(f, (x,), (np.float64(1.0),))
    s = np.asarray(x)
    np.testing.assert_allclose(value, np.sin(s) * s)
    np.testing.assert_allclose(tangent, np.cos(s) * s + np.sin(s))


def one_device():
    """A mesh of one device."""
    return jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.mark.parametrize("make", ["shard_map", "pmap"])
def test_one_device_alone(make):
    """Releases before 0.10 have no partitioner for one device: its body is written in place."""
    split, whole = jax.sharding.PartitionSpec("i"), jax.sharding.PartitionSpec()
    summed = lambda x: jax.lax.psum(x * 2, "i") + jax.lax.axis_index("i")
    f = jax.shard_map(summed, mesh=one_device(), in_specs=split, out_specs=whole, check_vma=False)
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    program = jt.trace(f if make == "shard_map" else jax.pmap(summed, axis_name="i"), x)
    (got,) = jt.compile(program)(x)
    np.testing.assert_array_equal(np.asarray(got), 2 * x)
