"""Calls without further effect, calls with a name or a transpose, barriers, the platform's
index.
"""

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
    """call_jaxpr(*args); the name helps a reader only.

    call_jaxpr: the function.
    name: its name.
    """


@primitive(multiple_results=True)
def fused_call(*args, jaxpr: ClosedJaxpr, out_spaces: MemorySpaces | None = shown(None)):
    """jaxpr(*args), compiled to one kernel (`jax.experimental.fused`).

    jaxpr: the function; its values may be in any memory.
    out_spaces: for each result, the memory that holds it.
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
    """callee(*args), linear in the last operands, with a transpose that the user has defined.

    callee: (constants, residuals, linear operands) -> results.
    num_callee_consts: the number of operands that are constants.
    num_res: the number of operands that are residuals.
    transpose_thunk: JAX's function that returns the transpose.
    transpose_jaxpr: the transpose: (residuals, cotangents) -> cotangents of the linear operands.
        It is None if the program was read from a text without it; then callee itself is transposed.
    """


@primitive(multiple_results=True)
def optimization_barrier(*operands):
    """The operands; the compiler computes all of them before anything that uses one of the
    results.
    """


@primitive(multiple_results=True)
def shard_alike(x, y):
    """x and y, two arrays of one shape; a program for several devices gives both the same
    sharding.
    """


@primitive
def platform_index(*, platforms: Platforms):
    """The index of the first entry of `platforms` that contains the platform of the program, i32[].

    platforms: tuples of names of platforms; a last entry None stands for any platform.
    """


@primitive(multiple_results=True)
def remat_opt(
    *args,
    fwd_jaxpr: ClosedJaxpr,
    fun_jaxpr_thunk: Function | None = shown(None),
    num_consts: int,
    num_res: int,
):
    """fwd_jaxpr(*args) -> (residuals, results): the forward rule of a `custom_vjp` with
    `optimize_remat`.

    fwd_jaxpr: the rule.
    fun_jaxpr_thunk: JAX's function that returns the function without residuals.
    num_consts: the number of leading operands that are constants.
    num_res: the number of leading results that are residuals.
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
    """call(*args); functions of the user say how it is split over several devices.

    call: the function.
    decode_shardings: whether those functions get shardings with names of mesh axes.
    in_tree: the pytree structure of the arguments.
    infer_sharding_from_operands: the user's function: shardings of the arguments -> of the results.
    out_tree: the pytree structure of the results.
    partition: the user's function that returns what each device computes.
    propagate_user_sharding: the user's function: a wanted sharding of a result -> of the arguments.
    sharding_rule: which axes of arguments and results are split together.
    static_args: arguments that are not arrays.
    """
