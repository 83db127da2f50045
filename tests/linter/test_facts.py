"""What rules of lint ask of a primitive's row: a user's own primitive that states a fact is treated as one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import jaxprtool as jt
from jaxprtool.core.kinds.objects import Function
from jaxprtool.core.primitive import vocabulary
from jaxprtool.driver.lint import lint
from jaxprtool.interpreters.columns.ranges import within
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import linear, zero_derivative
from jaxprtool.interpreters.transpose import transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.linter.registry import all_rules
from jaxprtool.rules.define import COLUMNS, FACTS, FEW, define


@pytest.fixture
def own() -> Iterator[Any]:
    """Declares operations that give what their first operand is, or another type of it, and takes them away again."""
    made = []

    def declare(name: str, dtype: str = "", **row: Any) -> Any:
        def stub(*operands: Any) -> Any:
            """An operation of a user's own."""

        def of_type(x: ShapedArray, *_: Any) -> ShapedArray:
            return x.update(dtype=dtype) if dtype else x

        stub.__name__ = name
        op = jt.primitive(stub)
        made.append(op.primitive)
        define(op, abstract_eval=of_type, **row)
        return op

    yield declare
    for primitive in made:
        vocabulary().pop(primitive.name)
        for table in (COLUMNS | FEW).values():
            table.rules.pop(primitive, None)
        for facts in FACTS.values():
            facts.stated.pop(primitive, None)


def codes(text: str, *select: str) -> set[str]:
    return {f.code for f in lint({"": jt.parse(text)}, select=select).findings}


MOVES = ("kept", "permuted", "chosen", "converted")
LOG_OF = "{ lambda ; a:f32[8]. let b:f32[8] = logistic a; c:f32[8] = own_step b; d:f32[8] = log c in (d,) }"


@pytest.mark.parametrize("elements", [*MOVES, "computed"])
def test_a_pattern_is_seen_through_what_moves_elements(own, elements):
    own("own_step", elements=elements)
    assert codes(LOG_OF) == ({"log-of-sigmoid"} if elements in MOVES else set())


REPEATED = "{ lambda ; a:f32[8]. let b:f32[8] = own_step a; c:f32[8] = own_step a; d:f32[8] = mul b c in (d,) }"


@pytest.mark.parametrize("elements", [*MOVES, "computed"])
def test_to_move_elements_twice_is_no_computation(own, elements):
    own("own_step", elements=elements)
    expected = set() if elements in MOVES else {"repeated-computation"}
    assert codes(REPEATED) == expected


def test_each_result_is_the_operand_in_its_place():
    """Two values behind a barrier: the second is a sigmoid, the first is not."""
    text = """{{ lambda ; a:f32[8]. let
        b:f32[8] = logistic a
        c:f32[8] d:f32[8] = optimization_barrier a b
        e:f32[8] = log {}
      in (e, c, d) }}"""
    assert codes(text.format("d")) == {"log-of-sigmoid"}
    assert codes(text.format("c")) == set()


KEYS = """{ lambda ; a:key<fry>[2]. let
    b:key<fry>[2] = own_step a
    c:key<fry>[2] = own_draw b
    d:key<fry>[2] = own_draw a
  in (c, d) }"""


@pytest.mark.parametrize("elements", ["kept", "permuted", "computed"])
@pytest.mark.parametrize("on_keys", ["uses", "nothing"])
def test_a_key_is_used_twice(own, elements, on_keys):
    own("own_step", elements=elements)
    own("own_draw", on_keys=on_keys)
    expected = {"key-reuse"} if elements != "computed" and on_keys == "uses" else set()
    assert codes(KEYS, "key-reuse") == expected


DERIVED = """{ lambda ; a:key<fry>[] i:i32[] j:i32[]. let
    b:key<fry>[] = own_fold a i
    c:key<fry>[] = own_fold a %s
    d:u32[3] = random_bits[bit_width=32 shape=(3,)] b
    e:u32[3] = random_bits[bit_width=32 shape=(3,)] c
  in (d, e) }"""


@pytest.mark.parametrize(("on_keys", "other", "found"), [
    ("derives", "i", True), ("derives", "j", False), ("nothing", "i", False),
])  # fmt: skip
def test_what_is_derived_of_a_key_is_the_same_for_the_same_number(own, on_keys, other, found):
    own("own_fold", on_keys=on_keys)
    assert codes(DERIVED % other, "key-reuse") == ({"key-reuse"} if found else set())


ROOT = """{ lambda ; a:f32[3]. let
    b:f32[3] = mul a a
    c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b
    d:f32[] = sqrt c
    e:f32[] = own_step d
  in (e,) }"""


@pytest.mark.parametrize(
    "row", [{"jvp": zero_derivative}, {"derivative": "zero"}, {}], ids=["jvp", "fact", "neither"]
)
def test_no_derivative_goes_through_what_is_constant_between_jumps(own, row):
    own("own_step", **row)
    assert codes(ROOT) == (set() if row else {"infinite-derivative"})


SUM = "{ lambda ; a:f32[8]. let b:f32[8] = own_step a; c:f32[8] = exp b; d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c; e:f32[] = log d in (e,) }"


@pytest.mark.parametrize(("row", "found"), [
    ({"range": within(-1, 1)}, False), ({"range": within(0)}, True), ({}, True),
])  # fmt: skip
def test_exponentials_of_bounded_numbers_do_not_overflow(own, row, found):
    own("own_step", **row)
    assert codes(SUM) == ({"exp-without-max"} if found else set())


@pytest.mark.parametrize(("row", "found"), [
    ({"range": within(0, zero=False)}, False), ({"range": within(1)}, False), ({"range": within(0)}, True), ({}, True),
])  # fmt: skip
def test_numbers_that_are_not_zero_have_roots_with_derivatives(own, row, found):
    own("own_step", **row)
    text = ROOT.replace("mul a a", "own_step a").replace("own_step d", "sin d")
    text = text.replace("c:f32[] =", "f:f32[3] = mul b b; c:f32[] =").replace("}] b", "}] f")
    text = text.replace("out_sharding=None] b", "out_sharding=None] f")
    assert codes(text) == ({"infinite-derivative"} if found else set())


def test_integers_end_a_derivative(own):
    own("own_step", dtype="int32")
    assert codes(ROOT.replace("e:f32[]", "e:i32[]")) == set()


@pytest.mark.parametrize("memory", ["rule", "operands"])
def test_what_moves_to_another_memory_is_an_offload(own, memory):
    own("own_step", memory=memory)
    text = """{ lambda ; a:f32[4,8] b:f32[8]. let
        c:f32[8] = scan[
          jaxpr={ lambda ; d:f32[8] e:f32[8]. let
              f:f32<host>[8] = device_put[copy_semantics=(ArrayCopySemantics.ALWAYS_COPY,) devices=(MemorySpace.Host,) srcs=(None,)] e
              g:f32<host>[8] = own_step f
            in (d,) }
          length=4 num_carry=1 num_consts=0 reverse=False unroll=1
        ] b a
      in (c,) }"""
    program = jt.parse(text)
    rule = next(r for r in all_rules() if r.code == "offload-in-loop")
    assert rule.is_of(vocabulary()["own_step"]) is (memory == "rule")
    found = lint({"": program}, select=("offload-in-loop",)).findings
    assert [f.found.message for f in found] == [
        "f32[8] is moved to the host in each turn of a loop"
    ]


def test_a_function_of_python_is_a_callback(own):
    def own_call(x: Any, *, function: Function) -> Any:
        """What a function of Python says."""

    op = jt.primitive(own_call)
    try:
        define(op, abstract_eval=lambda x, function: x)
        text = "{ lambda ; a:f32[3]. let b:f32[3] = own_call[function=<f>] a in (b,) }"
        assert codes(text) == {"callback"}
    finally:
        vocabulary().pop("own_call")
        COLUMNS["abstract_eval"].rules.pop(op.primitive)


_NARROWED = transpose_unary(lambda ct, aval: jt.lax.convert_element_type(ct, new_dtype=aval.dtype))


def test_a_conversion_of_16_bits_is_one(own):
    """wide-residual: what was widened by a conversion of a user's own."""
    own(
        "own_step",
        dtype="float32",
        elements="converted",
        jvp=linear,
        transpose=_NARROWED,
        cost=FREE,
    )
    text = """{ lambda ; a:bf16[1024]. let
        b:f32[1024] = own_step a
        c:f32[1024] = tanh b
        d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
      in (d,) }"""
    assert codes(text, "wide-residual") == {"wide-residual"}
