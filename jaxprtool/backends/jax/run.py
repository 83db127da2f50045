"""Lower, compile and run programs with JAX itself."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any

import jax
import numpy as np

from jaxprtool import ops as lax
from jaxprtool.backends.arrays import generate
from jaxprtool.backends.child import calls_host_in_while, has_fragile_types, signal_of
from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.devices import devices_on
from jaxprtool.backends.jax.from_jax import const_value
from jaxprtool.backends.jax.function import FlatFunction
from jaxprtool.backends.jax.objects import object_of_text
from jaxprtool.backends.jax.pieces import goes_in_pieces, run_in_pieces
from jaxprtool.backends.jax.wide_types import with_wide_types
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.ir.sharding import Mesh
from jaxprtool.ir.walk import all_eqns, map_programs, nesting, with_eqns
from jaxprtool.rules.effects import calls_absent, refuse_absent
from jaxprtool.syntax.print import format_jaxpr

__all__ = ["compile_with_jax", "run_with_jax"]

PIECE = 5_000  # equations of a program on one device that are compiled at once


def run_with_jax(
    program: ClosedJaxpr,
    args: Sequence[Any],
    platform: str | None = None,
    devices: int = 1,
    check: Callable[[ClosedJaxpr], object] = lambda part: None,
    flags: dict[str, Any] | None = None,
) -> list[Any]:
    """Return the results of `jax.jit` of a program, or of consecutive parts of a long one.

    Args:
      program: the program.
      args: values of the constants that it does not hold, then of its arguments.
      platform: the platform to run on; None for JAX's own choice.
      devices: the number of devices of its meshes.
      check: called before JAX gets the program, or each part of a long one; it may raise.
      flags: flags of XLA, by name.

    Returns:
      Arrays of JAX's, which are on the device; typed keys as ours.

    Raises:
      UsageError: the platform is not available, an argument does not fit, or a function is called
        that is not in the text.
      UnsupportedError: JAX does not accept the program, or fails while it runs, or ends the
        process.
    """
    program = map_programs(program, _with_devices)

    def check_first(part: ClosedJaxpr) -> None:
        check(part)
        _check_survives(part, platform, devices)

    with _settings(program, platform, devices), _unlogged(program):
        try:
            results = _results(program, args, devices, check_first, flags)
            jax.block_until_ready(results)
            jax.effects_barrier()
        except JaxprToolError:
            raise
        except Exception as e:  # JAX's rules and its compiler are run here: any error is possible
            refuse_absent(program, str(e))
            first = next(iter(str(e).strip().splitlines()), "")
            message = f"JAX does not run the program: {type(e).__name__}: {first}"
            fail(UnsupportedError, message, "jax-run")
        return [_held(x) for x in results]


def _results(
    program: ClosedJaxpr,
    args: Sequence[Any],
    devices: int,
    check: Callable[[ClosedJaxpr], object],
    flags: dict[str, Any] | None,
) -> list[Any]:
    """Return the results as JAX's arrays, which may not be computed yet."""
    if devices == 1 and goes_in_pieces(program, PIECE):
        return run_in_pieces(program, args, PIECE, check, flags)
    check(program)
    flat = FlatFunction(program)
    return jax.jit(flat, compiler_options=flags)(*flat.arguments(args))


def _with_devices(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program in which maps over an abstract mesh are over devices.

    JAX takes the devices from the arguments, which are all on one device here. A mesh with manual
    axes is that of a map inside of another one, which has its devices.
    """
    eqns = [
        eqn.replace(params={**eqn.params, "mesh": concrete})
        if (concrete := _concrete_mesh(eqn))
        else eqn
        for eqn in program.eqns
    ]
    same = all(a is b for a, b in zip(eqns, program.eqns, strict=True))
    return program if same else with_eqns(program, eqns)


def _concrete_mesh(eqn: JaxprEqn) -> Mesh | None:
    """Return the mesh of devices for the abstract one of an equation; None where it has none."""
    mesh = eqn.params.get("mesh")
    if eqn.primitive is not lax.shard_map.primitive or not isinstance(mesh, Mesh):
        return None
    if mesh.constructor == "Mesh" or "Manual" in mesh.axis_types:
        return None
    return Mesh(mesh.sizes, mesh.axis_types)


@contextlib.contextmanager
def _unlogged(program: ClosedJaxpr) -> Generator[None]:
    """Keep JAX from logging failures of callbacks inside the block, where the program calls
    functions that are not in the text.
    """
    absent = any(map(calls_absent, all_eqns(program.jaxpr)))
    loggers = [*map(logging.getLogger, private.CALLBACK_LOGGERS)]
    before = [x.disabled for x in loggers]
    for x in loggers:
        x.disabled |= absent
    try:
        yield
    finally:
        for x, disabled in zip(loggers, before, strict=True):
            x.disabled = disabled


@contextlib.contextmanager
def _settings(program: ClosedJaxpr, platform: str | None, devices: int) -> Generator[None]:
    """Set JAX's settings for a program: its devices, and 64-bit types where it has any."""
    on = devices_on(platform or "cpu", devices) if platform or devices > 1 else None
    with contextlib.ExitStack() as stack:
        if on:
            stack.enter_context(jax.default_device(on[0]))
        stack.enter_context(with_wide_types(program))
        mesh = _mesh_of_process(program)
        if mesh is not None and jax.sharding.get_abstract_mesh().empty:
            stack.enter_context(jax.set_mesh(object_of_text("ctx_mesh", str(mesh))))
        yield


def _mesh_of_process(program: ClosedJaxpr) -> Mesh | None:
    """Return the mesh that was set (`jax.set_mesh`) when a program was traced, as far as its
    equations show it; else None.

    It is the first mesh with explicit and without manual axes that a param or a sharding in a param
    names.
    """
    values = (x for eqn in all_eqns(program.jaxpr) for x in eqn.params.values())
    for mesh in (getattr(x, "mesh", x) for x in values):
        types = mesh.axis_types if isinstance(mesh, Mesh) else ()
        if "Explicit" in types and "Manual" not in types:
            return Mesh(mesh.sizes, types)
    return None


def compile_with_jax(program: ClosedJaxpr, platform: str | None = None, devices: int = 1) -> None:
    """Lower and compile a program as `run_with_jax` does, and run nothing."""
    with _settings(program, platform, devices):
        flat = FlatFunction(program)
        zeros = [generate("zeros", 0, i, aval) for i, aval in enumerate(flat.avals)]
        jax.jit(flat).lower(*flat.arguments(zeros)).compile()


_DEEP = 100  # JAX 0.10 ends the process at calls that are 200 deep
_CHILD = """
import sys
from jaxprtool.backends.jax.run import compile_with_jax
from jaxprtool.core.stack import run_deep
from jaxprtool.syntax.parse import parse
program = parse(sys.stdin.read())
run_deep(lambda: compile_with_jax(program, sys.argv[1] or None, int(sys.argv[2])))
"""


def _check_survives(program: ClosedJaxpr, platform: str | None, devices: int) -> None:
    """Compile in another process first what may end the process.

    Raises UnsupportedError where a signal ends that.
    """
    jaxpr = program.jaxpr
    odd = has_fragile_types(jaxpr) or calls_host_in_while(jaxpr)
    odd = odd or any(map(_may_divide_by_zero, all_eqns(jaxpr)))
    if nesting(jaxpr) <= _DEEP and not odd:
        return
    text = format_jaxpr(program, lossless=True)
    ended = signal_of(_CHILD, text, platform or "", str(devices))
    if ended is not None:
        message = f"JAX does not survive the program: it ends with {ended}"
        help = (
            "calls, loops and branches inside each other, hundreds deep, use up its stack (--jit takes deeper calls), and it "
            "fails at constants of six bits, where arrays of two bits are joined, where an integer constant is divided by one that "
            "is zero, and at calls of the host in loops that take no step; run the program on NumPy"
        )
        fail(UnsupportedError, message, "jax-run", help=help)


def _may_divide_by_zero(eqn: JaxprEqn) -> bool:
    """Whether an equation divides integers by anything but a literal other than zero.

    XLA computes the quotient itself where both operands turn out to be constants.
    """
    if eqn.primitive not in (lax.div.primitive, lax.rem.primitive):
        return False
    divisor = eqn.inputs[1]
    is_number = isinstance(divisor, Lit) and bool(np.all(divisor.val))
    return divisor.aval.dtype.is_integer and not is_number


def _held(x: Any) -> Any:
    """Return a result in the form that the rest of the package uses: JAX's array, or keys of ours."""
    is_key = isinstance(x, jax.Array) and jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)
    return const_value(x) if is_key else x
