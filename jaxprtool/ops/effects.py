"""Effects: output, calls of Python, tokens, checks at run time."""

from jaxprtool.core.kinds.enums import DebugEffect
from jaxprtool.core.kinds.functions import Text, VmapMethod
from jaxprtool.core.kinds.numbers import Types
from jaxprtool.core.kinds.objects import Function, LogRecord, Options, TreeDef
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import param, primitive, shown

__all__ = [
    "after_all",
    "check",
    "create_token",
    "dce_sink",
    "debug_callback",
    "debug_print",
    "inspect_sharding",
    "io_callback",
    "pure_callback",
    "shape_assertion",
]


@primitive(multiple_results=True)
def debug_print(
    *operands,
    fmt: Text,
    has_placeholders: bool = shown(True),
    in_tree: TreeDef | None = shown(None),
    logging_record: LogRecord | None = shown(None),
    np_printoptions: Options = shown(()),
    ordered: bool = shown(False),
    partitioned: bool = shown(False),
    static_args: Options = shown(()),
):
    """Prints the operands; no results.

    fmt: a format string of Python's.
    has_placeholders: whether the operands go into `fmt`, or after it.
    in_tree: JAX's structure of the positional and named values of the format.
    logging_record: where JAX logs the line, instead of printing it.
    np_printoptions: how NumPy prints arrays, as pairs.
    ordered: whether the order of lines is kept where the compiler could change it.
    partitioned: whether each device prints its own shard.
    static_args: values that are no arrays, with their positions.
    """


@primitive(multiple_results=True)
def debug_callback(
    *operands,
    callback: Function,
    effect: DebugEffect | None = shown(None),
    partitioned: bool = shown(False),
):
    """Calls a Python function for its effect; no results.

    callback: the function, known while the process lives that traced it.
    effect: `Debug`, or `OrderedDebug` where the order of calls is kept.
    partitioned: whether each device calls it with its own shard.
    """


@primitive(multiple_results=True)
def inspect_sharding(value, *, callback: Function):
    """Tells a Python function, when the program is compiled, how a value is spread over devices; no results.

    callback: the function, known while the process lives that traced it.
    """


@primitive(multiple_results=True)
def dce_sink(operand, *, prevent_mlir_dce: bool = shown(False)):
    """Reads its operand, so that what computes it is not eliminated; no results.

    prevent_mlir_dce: whether the compiler has to keep it, too.
    """


@primitive(multiple_results=True)
def pure_callback(
    *operands,
    callback: Function,
    result_avals: Types,
    sharding: Sharding | None = shown(None),
    vmap_method: VmapMethod | None = shown(None),
):
    """The results of a Python function without effects.

    callback: the function, known while the process lives that traced it.
    result_avals: the types of its results.
    sharding: the device that calls it.
    vmap_method: what it does with a batch axis: `sequential`, `expand_dims`, `broadcast_all`, ...; None
        when it does nothing with it.
    """


@primitive(multiple_results=True)
def io_callback(
    *operands,
    callback: Function,
    result_avals: Types,
    sharding: Sharding | None = shown(None),
    ordered: bool = shown(False),
):
    """The results of a Python function with effects, which is called exactly once.

    callback: the function, known while the process lives that traced it.
    result_avals: the types of its results.
    sharding: the device that calls it.
    ordered: whether the order of calls is kept.
    """


@primitive
def create_token():
    """A new token."""


@primitive
def after_all(*operands):
    """A token that comes after all the operands, which are tokens."""


@primitive(multiple_results=True)
def shape_assertion(flag, *operands, error_message: Text):
    """Stops the program where flag is false; no results. JAX makes it where it exports a program with symbolic sizes.

    error_message: why it stops, with `{0}` for the first of the operands.
    """


@primitive(multiple_results=True)
def check(
    *operands, debug: bool = shown(False), err_tree: TreeDef | None = param(None, hidden="always")
):
    """Stops the program where a boolean operand is true; no results.

    debug: whether it does nothing unless the program is rewritten by checkify.
    err_tree: JAX's structure of the operands: flags, codes and payloads of the errors.
    """
