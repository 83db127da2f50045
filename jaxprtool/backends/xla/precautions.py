"""Checks before XLA gets a program: on what it would take for ever, and on what it would end the process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from jaxprtool.backends.child import calls_host_in_while, has_fragile_types, signal_of
from jaxprtool.backends.xla.client import jaxlib_version
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns, count_eqns, nesting
from jaxprtool.stablehlo.module import StableHLO

__all__ = [
    "check_devices",
    "check_survives",
    "check_text_survives",
    "is_long_chain",
    "try_in_child",
]

# With more loops than this, or calls and branches inside each other deeper than that, XLA may end the process. That of
# jaxlib 0.9 does where 43 calls are inside each other, others at some hundreds.
_MANY_LOOPS, _DEEP = 100, 32 if jaxlib_version().startswith("0.9.") else 100
_MAX_WRITTEN_OUT = 1_000_000


def check_survives(closed: ClosedJaxpr, program: StableHLO) -> bytes:
    """Refuse programs that XLA would not survive, or not finish; try doubtful ones in another process first.

    Args:
      closed: the program.
      program: the same, lowered.

    Returns:
      The machine code that the other process has made; empty where there was none, or it could not
        be passed on.

    Raises:
      UsageError: the program is too large.
      UnsupportedError: a signal ended the other process.
    """
    _check_addresses(closed)
    _check_written_out(closed)
    many = program.text.count("stablehlo.while") > _MANY_LOOPS
    deep = many or nesting(closed.jaxpr) > _DEEP
    odd = has_fragile_types(closed.jaxpr)
    odd = odd or (bool(program.callbacks) and calls_host_in_while(closed.jaxpr))
    return try_in_child(program) if deep or odd or is_long_chain(program.text) else b""


def check_text_survives(program: StableHLO) -> bytes:
    """Compile in another process first what XLA may not survive, judging by its text; for an
    artifact, which has no jaxpr.

    Returns:
      See `check_survives`.

    Raises:
      UnsupportedError: a signal ended the other process.
    """
    inside = sum(program.text.count(f"stablehlo.{n}") for n in ("while", "case", "if"))
    fragile = _FRAGILE_TEXT.search(program.text)
    risky = inside > _MANY_LOOPS or fragile or is_long_chain(program.text)
    return try_in_child(program) if risky else b""


# The types of `has_fragile_types` in StableHLO, and divisions of integers.
_FRAGILE_TEXT = re.compile(r"[x<](?:u?i2|f6E\w+)>|stablehlo\.(?:divide|remainder) .*[x<]u?i\d+>")


def _check_written_out(closed: ClosedJaxpr) -> None:
    """Raise UsageError for a program with too many operations once its calls are inlined, as XLA does."""
    n = count_eqns(closed.jaxpr)
    if n > _MAX_WRITTEN_OUT:
        fail(
            UsageError,
            f"XLA writes out every call, and the program has {n:,} equations then; at most "
            f"{_MAX_WRITTEN_OUT:,} are compiled",
            "too-large",
            span=closed.jaxpr.span,
            help="run it on NumPy, which calls what is shared",
        )


# A CPU client takes devices with higher numbers for those of another process.
_MOST_HOST_DEVICES = 2048


def check_devices(program: StableHLO, limit: int) -> None:
    """Raise UsageError for a program that runs on more devices than may be made, or than a CPU client has."""
    if program.devices > _MOST_HOST_DEVICES:
        fail(
            UsageError,
            f"the program's mesh has {program.devices:,} devices, and XLA makes at most {_MOST_HOST_DEVICES:,} of a host",
            "devices",
            help="run it on NumPy (without --jit), or on several processes (--coordinator)",
        )
    if program.devices > limit:
        fail(
            UsageError,
            f"the program's mesh has {program.devices:,} devices, and at most {limit} are made unasked",
            "devices",
            help=f"--devices {program.devices} of `jaxprtool run` and `jaxprtool compile` makes as many",
        )


# Bytes that a process of 64 bits has addresses for; XLA's loops over more elements than that end it.
_ADDRESSES = 1 << 47


def _check_addresses(closed: ClosedJaxpr) -> None:
    """Raise UsageError for a program in which an array has more bytes than there are addresses."""
    for eqn in all_eqns(closed.jaxpr):
        for v in eqn.out_binders:
            if getattr(v.aval, "nbytes", 0) > _ADDRESSES:
                message = f"there is not enough memory for {eqn.primitive}, which gives {v.aval}"
                fail(UsageError, message, "out-of-memory", span=eqn.span)


# XLA follows an operation's operands on its stack, and 10,000 one after the other are about as many as it has room for.
_LONG_CHAIN = 6_000
_OPERATION = re.compile(r"^ *(%\w+)(?::\d+)? = (.*)", re.MULTILINE)
_OPERAND, _CALLED = re.compile(r"%\w+"), re.compile(r"call @(\w+)")


def is_long_chain(text: str) -> bool:
    """Whether thousands of operations of a StableHLO module each depend on the one before, with calls inlined."""
    chains: dict[str, int] = {}
    for function in reversed(text.split("func.func ")[1:]):  # callers stand before what they call
        name = function[function.find("@") + 1 : function.find("(")]
        ends: dict[str, int] = {}
        for m in _OPERATION.finditer(function):
            called = _CALLED.search(m[2])
            own = chains.get(called[1], 1) if called else 1
            ends[m[1]] = own + max((ends.get(x, 0) for x in _OPERAND.findall(m[2])), default=0)
        chains[name] = max(ends.values(), default=1)
    return max(chains.values(), default=0) > _LONG_CHAIN


_CHILD = """
import json, sys
from jaxprtool.backends.xla.compile import compile_stablehlo
from jaxprtool.stablehlo.module import StableHLO
fields = json.load(sys.stdin)
callbacks = [lambda *xs: xs] * fields["callbacks"]
made = compile_stablehlo(StableHLO(fields["text"], [], [], callbacks, fields["devices"]))
if not callbacks and fields["devices"] == 1:
    with open(sys.argv[1], "wb") as f:
        f.write(made.serialize())
"""


def try_in_child(program: StableHLO) -> bytes:
    """Compile a program in a process of its own, where XLA may end the process.

    Returns:
      The machine code, so that it is not compiled twice; empty where the program calls the host, is
        for several devices, or jaxlib cannot serialise it.

    Raises:
      UnsupportedError: a signal ended the process.
    """
    fields = {
        "text": program.text,
        "callbacks": len(program.callbacks),
        "devices": program.devices,
    }
    with TemporaryDirectory(prefix="jaxprtool-") as folder:
        path = Path(folder) / "code"
        ended = signal_of(_CHILD, json.dumps(fields), str(path))
        code = path.read_bytes() if ended is None and path.exists() else b""
    if ended is not None:
        fail(
            UnsupportedError,
            f"XLA does not survive the lowered program: it ends with {ended}",
            "xla-compile",
            help="loops and branches inside each other, hundreds deep, or thousands of operations one after the other use up its "
            "stack, and it fails at calls of the host in loops that take no step, at constants of six bits, and where an integer "
            "constant is divided by one that is zero; run the program on NumPy",
        )
    return code
