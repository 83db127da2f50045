"""Rejections of random numbers, bits, special functions and placement: each names primitive, param and value."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt

REJECTED = [
    ("a:key<fry>[] = random_seed[impl=fry] x", "x:f32[]", "random_seed takes integers"),
    ("a:key<fry>[] = random_seed[impl=mersenne] x", "x:i32[]", "impl mersenne is none of"),
    ("a:key<fry>[] = random_wrap[impl=fry] x", "x:u32[4]", "u32[..., 2]"),
    ("a:key<rbg>[] = random_wrap[impl=rbg] x", "x:i32[4]", "u32[..., 4]"),
    ("a:u32[2] = random_unwrap x", "x:u32[2]", "has to be an array of PRNG keys"),
    ("a:key<fry>[2] = random_split[shape=(2,)] x", "x:u32[2]", "random_split does not take u32[2]"),
    (
        "a:key<fry>[2] = random_split[shape=(-2,)] x",
        "x:key<fry>[]",
        "shape (-2,) has a negative size",
    ),
    ("a:key<fry>[] = random_fold_in x x", "x:key<fry>[]", "random_fold_in takes integers"),
    ("a:u32[] = random_bits[bit_width=12 shape=()] x", "x:key<fry>[]", "bit_width 12 is none of"),
    ("a:u32[] = random_bits[bit_width=32 shape=()] x", "x:u32[2]", "random_bits does not take"),
    ("a:key<fry>[] = random_clone x", "x:f32[2]", "random_clone does not take"),
    ("a:f32[] = random_gamma[log_space=True] x x", "x:key<fry>[]", "does not take key<fry>[]"),
    ("a:u32[] b:u32[] = threefry2x32 x x x x", "x:i32[]", "threefry2x32 takes u32 operands"),
    ("a:u32[] b:u32[] = iota_2x32_shape[shape=(-1,)] ", "x:i32[]", "has a negative size"),
    (
        _generator
        := "a:u32[4] b:u32[2] = rng_bit_generator[algorithm=RNG_DEFAULT dtype=uint32 out_sharding=None shape=(2,)] x",
        "x:u32[3]",
        "state u32[4] or u64[2], not u32[3]",
    ),
    (_generator.replace("uint32", "int32"), "x:u32[4]", "dtype i32 is none of"),
    (
        _generator.replace("RNG_DEFAULT", "RNG_BEST"),
        "x:u32[4]",
        "algorithm is RNG_BEST, and has to be RNG_DEFAULT (0), RNG_THREE_FRY (1) or RNG_PHILOX (2)",
    ),
    (_generator.replace("(2,)", "(-2,)"), "x:u32[4]", "shape (-2,) has a negative size"),
    ("a:f32[2] = rng_uniform[shape=(2,)] x x", "x:f32[1]", "rng_uniform takes two scalars"),
    ("a:bool[2] = rng_uniform[shape=(2,)] x x", "x:bool[]", "integer or floating"),
    ("a:f32[3] = bitcast_convert_type[new_dtype=float32] x", "x:u8[3]", "3 * 8 is not 32"),
    ("a:f32[3] = bitcast_convert_type[new_dtype=float32] x", "x:bool[3]", "booleans and complex"),
    ("a:i32[3] = population_count x", "x:f32[3]", "population_count does not take f32[3]"),
    ("a:i32[3] = clz x", "x:bool[3]", "clz does not take bool[3]"),
    ("a:i32[3] = nextafter x x", "x:i32[3]", "nextafter does not take i32[3]"),
    ("a:f32[3] = mulhi x x", "x:f32[3]", "mulhi does not take f32[3]"),
    ("a:i32[3] = lgamma x", "x:i32[3]", "lgamma does not take i32[3]"),
    ("a:i32[3] = igamma x x", "x:i32[3]", "igamma does not take i32[3]"),
    ("a:i32[3] = regularized_incomplete_beta x x x", "x:i32[3]", "does not take i32[3]"),
    ("a:bool[3] = lt_to x x", "x:c64[3]", "lt_to does not take c64[3]"),
    (
        "a:f32[3] = device_put[copy_semantics=() devices=(None, None) srcs=()] x",
        "x:f32[3]",
        "devices has 2 entries",
    ),
    ("a:f32[3] = empty[dtype=float32 out_sharding=None shape=(-3,)] ", "x:f32[3]", "negative size"),
    (
        "a:f32[] = empty2[dtype=thing memory_space=None] ",
        "x:f32[3]",
        "dtype is thing, and has to be an element type",
    ),
    ("a:Tok = after_all x", "x:f32[3]", "after_all takes tokens, not f32[3]"),
]


@pytest.mark.parametrize(
    ("equation", "binder", "message"), REJECTED, ids=[e[:60] for e, *_ in REJECTED]
)
def test_rejections(equation, binder, message):
    program = jt.parse(f"{{ lambda ; {binder}. let {equation} in () }}")
    with pytest.raises(jt.JaxprTypeError) as info:
        jt.typecheck_jaxpr(program)
    assert message in str(info.value)


def test_a_sharding_that_is_not_read_is_not_compiled_for_several_devices():
    text = (
        "{ lambda ; x:f32[2]. let a:f32[2] = sharding_constraint[context_mesh=Mesh() layout=None "
        "sharding=NamedSharding(mesh=Mesh('data': 2, axis_types=(Auto,)), spec=P('data', unreduced={'x'})) "
        "unconstrained_dims=frozenset({})] x in (a,) }"
    )
    program = jt.parse(text)
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [np.ones(2, np.float32)])[0], 1)
    with pytest.raises(jt.JaxprToolError, match="several devices"):
        jt.lower(program)


@pytest.mark.parametrize(
    ("op", "n", "operand"),
    [("polygamma", 2, 0), ("regularized_incomplete_beta", 3, 1), ("zeta", 2, 0)],
)
def test_no_derivative(op, n, operand):
    f = getattr(jt.lax, op)
    args = [np.float32(0.5)] * n
    with pytest.raises(jt.JaxprToolError, match=r"derivative|no jvp rule"):
        jt.jvp(lambda x: f(*args[:operand], x, *args[operand + 1 :]), (args[0],), (args[0],))
