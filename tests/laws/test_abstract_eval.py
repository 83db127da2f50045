"""The type rule says what evaluation gives, directly and as a prepared step of a program."""

from __future__ import annotations

import numpy as np

import jaxprtool as jt
from jaxprtool.core.primitive import vocabulary
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.ops import device_steps
from tests.laws.oracle import (
    EXAMPLES,
    as_list,
    assert_close,
    aval_of,
    inputs,
    law,
    ours,
    out_avals,
)

_OF_TESTS = ("_for_lowering", "_without_rule")  # primitives that tests of lowering declare
DECLARED = frozenset(vocabulary())  # before a test loads a plugin
# The linear map of a custom_vjp_call has no value, only a transpose: the examples of that one reach it.
NO_VALUE = {"custom_lin"}
# What is outside of a program has types alone: tests/rules/test_outside. What only kernels hold: tests/control_flow/test_kernels.
NO_VALUE |= {"ffi_call", "call_exported", "infeed", "outfeed", "buffer_callback", "call_tf"}
NO_VALUE |= {"rnn_fwd", "rnn_bwd"}
NO_VALUE |= {f"dot_product_attention_{k}" for k in ("fwd", "bwd", "fp8_fwd", "fp8_bwd")}
NO_VALUE |= {f"dot_product_attention_{k}_wrapper" for k in ("fwd", "bwd", "fp8_fwd", "fp8_bwd")}
# What no CPU has: tests/control_flow/test_device_steps.
NO_VALUE |= set(device_steps.__all__)
# JAX evaluates it in programs of symbolic sizes alone: tests/laws/test_symbolic_sizes.
NO_VALUE |= {"dim_as_value"}
# What few programs hold, with tests of its own: tests/rules/test_rare_rows.
NO_VALUE |= {"dimension_size", "shape_assertion", "consume", "assert_consumed_value", "eigh_jacobi"}
NO_VALUE |= {
    "new_box",
    "box_set",
    "box_get",
    "create_linear",
    "pin",
    "unpin",
    "to_edtype",
    "from_edtype",
}
NO_VALUE |= {"multiple_of", "program_id", "num_programs", "run_scoped"}


def test_every_primitive_has_an_example():
    """Except primitives that need named axes or a mesh; tests/parallel has programs for them."""
    shown = {e.primitive.name for e in EXAMPLES} | NO_VALUE
    with_axes = {p.name for p in vocabulary().values() if p.acts_along} | {
        "shard_map",
        "xla_pmap",
        "xmap",
        "reshard",
    }
    own = {p for p in DECLARED if not p.endswith(_OF_TESTS)}
    with_axes |= {p for p in own if p.endswith("_done")}
    assert own - shown == with_axes - shown


@law(EXAMPLES)
def test_result_types(example):
    args, expected = inputs(example), out_avals(example)
    out = ours(example)(*args)
    assert [aval_of(x) for x in out] == expected
    if example.of is not None:
        return
    params = {**example.primitive.defaults, **example.params}
    xp, avals = numpy_namespace(), [a.aval for a in example.args]
    step = prepare_impl(xp, example.primitive, avals, expected, params)
    with np.errstate(all="ignore"):
        again = as_list(step(*args))
    for x, y in zip(again, out, strict=True):
        assert_close(x, y)


@law(EXAMPLES)
def test_staged_program_has_the_type_and_value(example):
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    assert jt.typecheck_jaxpr(program).out_types == out_avals(example)
    for x, y in zip(jt.eval_jaxpr(program, args), ours(example)(*args), strict=True):
        assert_close(x, y)


@law(EXAMPLES)
def test_operands_are_left_alone(example):
    args = inputs(example)
    copies = [x.copy() for x in args]
    out = ours(example)(*args)
    for x in out:
        if isinstance(x, np.ndarray) and x.flags.writeable and example.primitive.name == "copy":
            x[...] = 0
    for x, y in zip(args, copies, strict=True):
        assert_close(x, y)
