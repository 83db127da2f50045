"""run: evaluate a program, on NumPy or compiled by XLA."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.core.stack import heap_set_aside
from jaxprtool.driver.compile import Compiled, is_enough
from jaxprtool.driver.compile import compile as compile_program
from jaxprtool.driver.progress import evaluating, working
from jaxprtool.driver.running.distributed import Processes, run_together
from jaxprtool.driver.running.ends import check_end
from jaxprtool.driver.running.prints import printing_aside
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.typing import typed_by_words, with_types
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.evaluation.limits import limited_bytes, limited_steps
from jaxprtool.interpreters.evaluation.observe import Observer, observed_by
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.diagnostics import MissingRuleError, UnsupportedError, UsageError, fail
from jaxprtool.ir.interface import check_count
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value, Var
from jaxprtool.ir.sharding import Mesh
from jaxprtool.ir.walk import all_eqns
from jaxprtool.rules.effects import refuse_absent
from jaxprtool.stablehlo.module import StableHLO
from jaxprtool.syntax.inference.open_programs import is_open

__all__ = [
    "checked_arguments",
    "evaluated",
    "ready",
    "run",
    "run_through_jax",
    "run_words",
]


def run(
    program: ClosedJaxpr,
    args: Sequence[Value],
    *,
    jit: bool = False,
    platform: str | None = None,
    through: str | None = None,
    devices: int | None = None,
    processes: Processes | None = None,
    max_bytes: int | None = None,
    step_limit: int | None = None,
    observer: Observer | None = None,
) -> list[Value]:
    """Return the results of a program.

    Args:
      program: the program.
      args: values of the constants that the program does not hold, then of its arguments.
      jit: compile it with XLA; otherwise it is evaluated on NumPy, equation by equation.
      platform: with `jit` or `through`, where it runs: cpu, gpu, tpu or the name of a plug-in's, on the
        devices of the installed JAX. A program whose lowering is only for the CPU (LAPACK, Python
        functions) runs there through JAX.
      through: "jax": compile JAX's own lowering of the program, not ours.
      devices: the number of XLA's host devices; by default as many as the program's meshes have.
      processes: with `jit`, run on the devices of several processes, each of which has `devices`.
      max_bytes: refuse to start when intermediate results may take more than this at one time.
      step_limit: stop a loop that would take more steps than this, and a program that makes more calls.
        A compiled program first runs on NumPy, unless the iterations of all its loops are known.
      observer: on NumPy, called with each equation and its values (`interpreters.evaluation.observe`).

    Returns:
      Arrays; a compiled program's stay on the device until read. Its prints go to standard error.

    Raises:
      JaxprTypeError: the program is ill-typed.
      UsageError: wrong arguments, too large, too few devices, or a platform that is not available.
      UnsupportedError: XLA or JAX does not accept the program.
    """
    _check_options(jit, platform, through, devices, processes)
    program = ready(program, args, max_bytes)
    if step_limit is not None and (jit or through is not None):
        check_end(program, args, max_bytes, step_limit)
    if processes is not None:
        with printing_aside():
            return run_together(lower_jaxpr(program), args, processes, devices)
    if through is None and platform is not None and not is_enough(program, platform):
        through = "jax"
    if through is not None:
        with working("compiling with JAX"), printing_aside():
            return run_through_jax(program, args, platform, devices)
    if jit:
        with working("compiling with XLA"):
            compiled = compile_program(program, devices, platform)
        _check_devices(compiled, devices)
        if max_bytes is not None:
            compiled.check_size(max_bytes)
        with printing_aside(), _placed(program):
            return compiled(*args)
    with printing_aside(), evaluating():
        return evaluated(program, args, max_bytes, step_limit, observer)


@contextmanager
def _placed(program: ClosedJaxpr) -> Generator[None]:
    """Give errors about calls of functions that are not in the text the place of the equation, inside the block."""
    try:
        yield
    except UnsupportedError as e:
        refuse_absent(program, str(e))
        raise


def checked_arguments(program: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    """Arguments as NumPy arrays or keys of the types of `open_binders(program)`. Raises UsageError for wrong ones."""
    binders, interface = open_binders(program), of_open(program)
    check_count(len(binders), len(args), interface)
    xp = numpy_namespace()
    pairs = enumerate(zip(args, binders, strict=True))
    return [xp.result(xp.argument(x, v.aval, i, v.name, interface)) for i, (x, v) in pairs]


def ready(program: ClosedJaxpr, args: Sequence[Value], max_bytes: int | None) -> ClosedJaxpr:
    """Return the program with all its types and with its constants loaded, after checking that it fits in memory."""
    if is_open(program.jaxpr):
        program = with_types(program, args)
    check_arrays(check_input(program), "run", sized=True)
    if max_bytes is not None:
        check_memory(program, max_bytes)
    check_count(len(open_binders(program)), len(args), of_open(program))
    return load_constants(program)


def evaluated(
    program: ClosedJaxpr,
    args: Sequence[Value],
    max_bytes: int | None,
    step_limit: int | None,
    observer: Observer | None,
) -> list[Value]:
    """The results on NumPy of a program that is `ready` for its arguments; what it prints goes to standard output."""
    given = iter(args)
    consts = [next(given) if c is None else c for c in program.consts]
    limits = limited_steps(step_limit), limited_bytes(max_bytes)
    aside = nullcontext() if observer is None else heap_set_aside()
    with limits[0], limits[1], aside, observed_by(observer):
        return eval_jaxpr(ClosedJaxpr(program.jaxpr, consts), list(given))


def _check_options(
    jit: bool,
    platform: str | None,
    through: str | None,
    devices: int | None,
    processes: Processes | None,
) -> None:
    """Raise UsageError for options that do not go together."""
    if through not in (None, "jax"):
        fail(UsageError, f"there is no way through {through!r}, but through jax", "option")
    if devices is not None and not jit and through is None:
        fail(UsageError, "devices are XLA's: --devices goes with --jit", "option")
    if platform is not None and not jit and through is None:
        message = "platforms are XLA's: --platform goes with --jit, or with --through jax"
        fail(UsageError, message, "option")
    if processes is not None and not jit:
        fail(UsageError, "several processes are XLA's: --coordinator goes with --jit", "option")
    if processes is not None and (platform or through):
        word = "--through" if through else "--platform"
        message = f"several processes are run on CPUs: --coordinator goes without {word}"
        fail(UsageError, message, "option")


def run_through_jax(
    program: ClosedJaxpr,
    args: Sequence[Value],
    platform: str | None = None,
    devices: int | None = None,
    flags: dict[str, Any] | None = None,
) -> list[Value]:
    """Return the results of a program as JAX lowers it; flags: those of XLA, by name."""
    from jaxprtool.backends.jax.run import run_with_jax  # noqa: PLC0415 (gateway: JAX)
    from jaxprtool.backends.xla.precautions import check_survives  # noqa: PLC0415 (gateway: XLA)

    def lower(part: ClosedJaxpr) -> StableHLO | None:
        # JAX may still lower and run the program
        with suppress(UnsupportedError, MissingRuleError):
            return lower_jaxpr(part)
        return None

    whole = lower(program)

    def check(part: ClosedJaxpr) -> None:
        made = whole if part is program else lower(part)
        if made is not None:
            check_survives(part, made)

    needed = max(
        _devices_of(program), 1 if whole is None else whole.devices
    )  # `xla_pmap` has no mesh
    return run_with_jax(program, args, platform, devices or needed, check, flags)


def _devices_of(program: ClosedJaxpr) -> int:
    """Return the number of devices of the largest mesh that a program names; 1 where there is none."""
    params = (x for eqn in all_eqns(program.jaxpr) for x in eqn.params.values())
    meshes = [getattr(x, "mesh", x) for x in params]
    return max([1, *(mesh.size for mesh in meshes if isinstance(mesh, Mesh))])


def _check_devices(compiled: Compiled, devices: int | None) -> None:
    needed = compiled.stablehlo.devices
    if devices is not None and devices < needed:
        fail(
            UsageError,
            f"the program's mesh has {needed} devices, and there are {devices}",
            "devices",
            help=f"--devices {needed} makes as many",
        )


def run_words(
    source: ClosedJaxpr | Compiled,
    words: Sequence[str],
    *,
    jit: bool = False,
    platform: str | None = None,
    through: str | None = None,
    devices: int | None = None,
    processes: Processes | None = None,
    max_bytes: int | None = None,
    step_limit: int | None = None,
    observer: Observer | None = None,
) -> list[Value]:
    """Run a program, or a compiled one, on values that are given as words (see `driver.words.values`)."""
    if isinstance(source, Compiled):
        if platform or through:
            message = (
                "an artifact is compiled for the CPU: --platform and --through need the program"
            )
            fail(UsageError, message, "option")
        if max_bytes is not None:
            source.check_size(max_bytes)
        binders = [Var(a) for a in source.in_avals]
        args = arguments(binders, words, interface=source.interface, max_bytes=max_bytes)
        if processes is not None:
            return run_together(source.stablehlo, args, processes, devices)
        _check_devices(source, devices)
        return source(*args)
    source = typed_by_words(source, words)
    check_arrays(check_input(source), "run", sized=True)
    interface = of_open(source)
    args = arguments(open_binders(source), words, interface=interface, max_bytes=max_bytes)
    return run(
        source,
        args,
        jit=jit,
        platform=platform,
        through=through,
        devices=devices,
        processes=processes,
        max_bytes=max_bytes,
        step_limit=step_limit,
        observer=observer,
    )
