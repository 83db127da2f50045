"""What programs wrap around calls: plain calls, named ones, barriers, a choice by platform."""

from jaxprtool.core.kinds.objects import Function, ShardingRule, StaticArgs, TreeDef
from jaxprtool.core.kinds.placement import MemorySpaces, Platforms
from jaxprtool.core.primitive import param, primitive, shown
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = [
    "call",
    "closed_call",
    "core_call",
    "custom_partitioning",
    "fused_call",
    "linear_call",
    "named_call",
    "optimization_barrier",
    "platform_index",
    "remat_opt",
    "shard_alike",
]


@primitive(multiple_results=True)
def closed_call(*args, call_jaxpr: ClosedJaxpr):
    """call_jaxpr(*args).

    call_jaxpr: the function.
    """


@primitive(multiple_results=True)
def core_call(*args, call_jaxpr: ClosedJaxpr):
    """call_jaxpr(*args).

    call_jaxpr: the function.
    """


@primitive(multiple_results=True)
def call(*args, call_jaxpr: ClosedJaxpr):
    """call_jaxpr(*args).

    call_jaxpr: the function.
    """


@primitive(multiple_results=True)
def named_call(*args, call_jaxpr: ClosedJaxpr, name: str = shown("f")):
    """call_jaxpr(*args), under a name.

    call_jaxpr: the function.
    name: its name.
    """


@primitive(multiple_results=True)
def fused_call(*args, jaxpr: ClosedJaxpr, out_spaces: MemorySpaces | None = shown(None)):
    """jaxpr(*args), as one kernel (`jax.experimental.fused`).

    jaxpr: the function; its values are in any memory.
    out_spaces: in which memory the results are.
    """


@primitive(multiple_results=True)
def linear_call(
    *args,
    callee: ClosedJaxpr,
    num_callee_consts: int,
    num_res: int,
    transpose_thunk: Function | None = shown(None),
    transpose_jaxpr: ClosedJaxpr | None = param(None, hidden="always"),
):
    """callee(*args), linear in the operands after the constants and residuals, with a transpose of its own.

    callee: (constants, residuals, linear operands) -> results.
    num_callee_consts: how many of the first operands are constants.
    num_res: how many of the operands after those are residuals.
    transpose_thunk: JAX's function that gives the transpose.
    transpose_jaxpr: the transpose: (residuals, cotangents) -> cotangents of the linear operands; None when
        the text did not hold it, and then callee is transposed.
    """


@primitive(multiple_results=True)
def optimization_barrier(*operands):
    """The operands; the compiler moves nothing across."""


@primitive(multiple_results=True)
def shard_alike(x, y):
    """x and y, two arrays of one shape; the partitioner of a program for several devices places both alike."""


@primitive
def platform_index(*, platforms: Platforms):
    """The position of the first entry of `platforms` that names the platform: i32[].

    platforms: tuples of names of platforms; None, at the end, for any.
    """


@primitive(multiple_results=True)
def remat_opt(
    *args,
    fwd_jaxpr: ClosedJaxpr,
    fun_jaxpr_thunk: Function | None = shown(None),
    num_consts: int,
    num_res: int,
):
    """fwd_jaxpr(*args), the forward rule of a `custom_vjp` with `optimize_remat`: (residuals, results).

    fwd_jaxpr: the rule.
    fun_jaxpr_thunk: JAX's function that gives the function without residuals.
    num_consts: how many of the first operands are constants.
    num_res: how many of the results are residuals.
    """


@primitive(multiple_results=True)
def custom_partitioning(
    *args,
    call: ClosedJaxpr,
    decode_shardings: bool = shown(True),
    in_tree: TreeDef | None = shown(None),
    infer_sharding_from_operands: Function | None = shown(None),
    out_tree: TreeDef | None = shown(None),
    partition: Function | None = shown(None),
    propagate_user_sharding: Function | None = shown(None),
    sharding_rule: ShardingRule = shown(None),
    static_args: StaticArgs = shown(()),
):
    """call(*args), which functions of the user's spread over several devices.

    call: the function.
    decode_shardings: whether those functions are given shardings with names of axes.
    in_tree: JAX's structure of the arguments.
    infer_sharding_from_operands: says how the results are spread.
    out_tree: JAX's structure of the results.
    partition: makes what each device computes.
    propagate_user_sharding: says what a wish for a result means for the arguments.
    sharding_rule: which dimensions of arguments and results belong together.
    static_args: arguments that are no arrays.
    """
