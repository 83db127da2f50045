"""Effects: printing, calls of Python functions, tokens, and checks at run time."""

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
    """Prints `fmt.format(*operands)`; no results.

    fmt: a format string of Python.
    has_placeholders: whether `fmt` has placeholders; if not, the operands are printed after it.
    in_tree: the pytree structure of the positional and keyword arguments of `format`.
    logging_record: the log record with which JAX logs the line instead of printing it, or None.
    np_printoptions: NumPy's options for printing arrays, as pairs (name, value).
    ordered: whether the compiler must keep the order of prints.
    partitioned: whether each device prints its own shard.
    static_args: arguments of `format` that are not arrays, with their positions.
    """


@primitive(multiple_results=True)
def debug_callback(
    *operands,
    callback: Function,
    effect: DebugEffect | None = shown(None),
    partitioned: bool = shown(False),
):
    """Calls callback(*operands), a Python function, for its effect; no results.

    callback: the function; only the process that traced the program has it.
    effect: `OrderedDebug` if the compiler must keep the order of calls, else `Debug`.
    partitioned: whether each device calls the function with its own shard.
    """


@primitive(multiple_results=True)
def inspect_sharding(value, *, callback: Function):
    """Calls callback(sharding of value), a Python function, when the program is compiled; no
    results.

    callback: the function; only the process that traced the program has it.
    """


@primitive(multiple_results=True)
def dce_sink(operand, *, prevent_mlir_dce: bool = shown(False)):
    """Uses its operand, so that dead code elimination keeps the equations that compute it; no
    results.

    prevent_mlir_dce: whether the compiler has to keep them, too.
    """


@primitive(multiple_results=True)
def pure_callback(
    *operands,
    callback: Function,
    result_avals: Types,
    sharding: Sharding | None = shown(None),
    vmap_method: VmapMethod | None = shown(None),
):
    """callback(*operands), for a Python function without effects.

    callback: the function; only the process that traced the program has it.
    result_avals: the types of its results.
    sharding: the device that calls the function.
    vmap_method: how `vmap` calls it: `sequential`, `expand_dims`, ...; None: it cannot be batched.
    """


@primitive(multiple_results=True)
def io_callback(
    *operands,
    callback: Function,
    result_avals: Types,
    sharding: Sharding | None = shown(None),
    ordered: bool = shown(False),
):
    """callback(*operands), for a Python function with effects, which is called exactly once.

    callback: the function; only the process that traced the program has it.
    result_avals: the types of its results.
    sharding: the device that calls the function.
    ordered: whether the compiler must keep the order of calls.
    """


@primitive
def create_token():
    """A new token."""


@primitive
def after_all(*operands):
    """A token that depends on all operands, which are tokens."""


@primitive(multiple_results=True)
def shape_assertion(flag, *operands, error_message: Text):
    """Stops the program with an error if flag is false; no results.

    JAX writes it when it exports a program with symbolic sizes, to check the sizes at run time.

    error_message: the message of the error; `{0}` stands for the first of the operands.
    """


@primitive(multiple_results=True)
def check(
    *operands, debug: bool = shown(False), err_tree: TreeDef | None = param(None, hidden="always")
):
    """Stops the program with an error if a boolean operand is true; no results.

    debug: whether the check is skipped unless the program is transformed by checkify.
    err_tree: the pytree structure of the operands: flags, codes and payloads of the errors.
    """
