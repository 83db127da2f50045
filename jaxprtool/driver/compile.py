"""compile: a program as an XLA executable, in memory or as an artifact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.driver.storage.artifact import Artifact, decode_artifact, encode_artifact
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.driver.verify import check_arrays
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.walk import all_eqns
from jaxprtool.stablehlo.module import StableHLO

__all__ = [
    "NO_EXCESS",
    "Compiled",
    "compile",
    "compile_located",
    "compile_without_excess",
    "from_bytes",
    "is_enough",
]


class Compiled:
    """A compiled program.

    Called with arrays (values of constants that the program does not hold first), it returns a list
    of arrays that stay on the device until NumPy reads them. Python numbers and lists are converted
    to the types of the arguments.
    """

    __slots__ = ("__call__", "_executable")
    __call__: Callable[..., list[Value]]

    def __init__(self, executable: Any):
        self._executable = executable
        # Not a method, since one more call of Python would cost a tenth of the call of a small program.
        self.__call__ = executable.call

    def place(self, args: Sequence[Value]) -> list[Value]:
        """Return arguments as arrays on the device, for calls that take the same ones again and again."""
        return self._executable.place(args)

    @property
    def stablehlo(self) -> StableHLO:
        """The lowered program."""
        return self._executable.program

    @property
    def in_avals(self) -> list[Aval]:
        """The types of the arguments."""
        return self._executable.in_avals

    @property
    def out_avals(self) -> list[Aval]:
        """The types of the results."""
        return self._executable.out_avals

    @property
    def interface(self) -> Interface | None:
        """The names and trees of the arguments (constants without a value first) and results, where they are known."""
        return self.stablehlo.interface

    def as_text(self) -> str:
        """The HLO after XLA's optimisation."""
        return self._executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates: `flops`, `transcendentals`, `bytes accessed` and others."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes for `arguments`, `results` and `temporaries`, and the `peak`, as XLA lays them out."""
        return self._executable.memory_analysis()

    def cost_with_turns(self, trips: int | None = None) -> tuple[dict[str, float], bool] | None:
        """Return `cost_analysis` with each loop counted for all its iterations, and whether these
        are known; None without an analysis.

        Args:
          trips: the number of iterations of loops for which XLA does not know it; None: unknown.
        """
        return self._executable.cost_with_turns(trips)

    def loops(self) -> list[Any]:
        """Return the loops of the HLO: `name`, `trips` (None: not known) and `op_name`, the origin of each."""
        return self._executable.loops()

    def aliases(self) -> list[Any]:
        """Return which results share memory with arguments: `output` and `input`, their positions, and `kind`."""
        return self._executable.aliases()

    def alias_bytes(self) -> int:
        """Return the number of bytes of results that share memory with arguments."""
        return self._executable.alias_bytes()

    def check_size(self, max_bytes: int) -> None:
        """Raise UsageError when running the program takes more than `max_bytes`."""
        self._executable.check_size(max_bytes)

    def to_bytes(self) -> bytes:
        """The program as an artifact; `from_bytes` reads it."""
        code = self._executable.serialize()
        xla = _xla()
        return encode_artifact(
            Artifact(self.stablehlo, code, xla.jaxlib_version(), xla.machine_name())
        )

    def __reduce__(self) -> tuple[Callable[..., Compiled], tuple[bytes, str, int]]:
        """Pickle and copy the program as its artifact."""
        return from_bytes, (self.to_bytes(), "the pickled artifact", self.stablehlo.devices)

    def save(self, path: str) -> None:
        """Write the artifact to a file, whole or not at all. Raises UsageError when it cannot be."""
        write_output(path, self.to_bytes())


def compile(
    program: ClosedJaxpr, devices: int | None = None, platform: str | None = None
) -> Compiled:
    """Compile a program with XLA; once for each `ClosedJaxpr` object and platform.

    Args:
      program: the program.
      devices: how many of the host's devices may be made for it: 64 by default.
      platform: cpu, gpu, tpu or the name of a plug-in's, for the devices of the installed JAX; None
        for the CPU without JAX.

    Raises:
      UsageError: the program's mesh has more devices than may be made, or than the platform has;
        the platform is not available.
      MissingRuleError: a primitive has no `lower` rule.
      UnsupportedError: XLA cannot compile it; an argument or a result is no array.
    """
    check_arrays(program, "compile")
    most = max(_MAX_DEVICES, devices or 0)
    if platform is None:
        return Compiled(_xla().compile_jaxpr(program, most))
    return Compiled(_xla().compile_jaxpr(program, most, platform, _devices_on()))


def compile_located(
    program: ClosedJaxpr, devices: int | None = None, *, donate: bool = False
) -> Compiled:
    """Compile a program such that the metadata of its HLO refer to its text and to Python.

    The name of an operation is `[loss.jaxpr:12:5]/attn/dot_general`, with those of calls before it;
    its file and line are Python's, where they are known, else those of the text.

    Args, Raises: as `compile`; donate: on one device results take the memory of arguments that the
    program's call donates, as in JAX. This is for inspection, since the caller loses these
    arguments.
    """
    check_arrays(program, "compile")
    most = max(_MAX_DEVICES, devices or 0)
    return Compiled(_xla().compile_located(program, most, donate=donate))


NO_EXCESS = {"xla_allow_excess_precision": False}  # flags of XLA


def compile_without_excess(program: ClosedJaxpr) -> Compiled:
    """Compile a program such that XLA rounds each result to its own type.

    Otherwise it may keep a chain of operations on bf16 or f16 in f32, and remove conversions to a
    narrow type and back.
    """
    lowered = lower_jaxpr(program)
    xla = _xla()
    xla.check_devices(lowered, _MAX_DEVICES)
    return Compiled(xla.compile_stablehlo(lowered, flags=NO_EXCESS))


def is_enough(program: ClosedJaxpr, platform: str) -> bool:
    """Whether our own lowering of a program runs on a platform; else JAX's has to be used.

    Our lowering is for the host: it takes the branches of `platform_index` that are for the CPU,
    and calls LAPACK and Python functions.
    """
    if platform == "cpu":
        return True
    if any("platforms" in eqn.params for eqn in all_eqns(program.jaxpr)):
        return False
    return not _xla().is_only_for_host(lower_jaxpr(program))


# A file does not decide how many devices, and so threads, are made on its reader's machine.
_MAX_DEVICES = 64


def from_bytes(data: bytes, name: str = "the artifact", devices: int | None = None) -> Compiled:
    """Load the program in an artifact; it is compiled again where it was made by another jaxlib or machine.

    Machine code in it runs as it is: load only artifacts that you trust.

    Args:
      devices: as in `compile`.

    Raises:
      UsageError: the data is no artifact, or damaged; its program's mesh has more devices than may
        be made.
    """
    artifact = decode_artifact(data, name)
    xla = _xla()
    xla.check_devices(artifact.program, max(_MAX_DEVICES, devices or 0))
    executable = None
    if (artifact.jaxlib, artifact.machine) == (xla.jaxlib_version(), xla.machine_name()):
        executable = xla.load_executable(artifact.program, artifact.code)
    return Compiled(executable or xla.compile_text(artifact.program))


def _devices_on() -> Any:
    from jaxprtool.backends.jax.devices import devices_on  # noqa: PLC0415 (gateway: JAX)

    return devices_on


def _xla() -> Any:
    from jaxprtool.backends.xla import compile as xla  # noqa: PLC0415 (gateway: NumPy and jaxlib)

    return xla
