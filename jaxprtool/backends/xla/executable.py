"""Compiled programs on one device: arguments in, results that stay on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprtool.backends.numpy_eval import argument, float0, keys, words
from jaxprtool.backends.xla import client
from jaxprtool.backends.xla.client import MemoryAnalysis, Runtime
from jaxprtool.backends.xla.device_array import DeviceArray
from jaxprtool.backends.xla.failures import cannot_run
from jaxprtool.backends.xla.hlo_text import Alias, HloLoop, HloText, with_turns
from jaxprtool.backends.xla.host_types import host_type
from jaxprtool.backends.xla.placed_call import placed_call
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.interface import check_count
from jaxprtool.stablehlo.module import StableHLO

__all__ = ["Executable"]

# Host arrays from this size on are lent to XLA and not copied; the call then waits for its results,
# since the caller may change the arrays after it.
_LEND_FROM = 1 << 16


class Executable:
    """A compiled program.

    Attributes:
      program: the lowered program, with the types of arguments and results.
    """

    def __init__(self, program: StableHLO, loaded: Any, r: Runtime, machine_code: bytes = b""):
        self.program = program
        self._runtime = r
        self._loaded, self._execute = loaded, client.executor(loaded, bool(program.callbacks))
        self._machine_code = machine_code  # jaxlib cannot serialise what it has deserialised
        self._in = [host_type(a, r.is_on_host) for a in program.in_avals]
        self._out = [host_type(a, r.is_on_host) for a in program.out_avals]
        make = functools.partial
        self._handlers = [r.result_handler(t, make(DeviceArray, t)) for t in self._out]
        self._has_special = any(a.dtype.kind in "0k" for a in program.out_avals)

    @property
    def in_avals(self) -> list[Any]:
        """The types of the arguments."""
        return self.program.in_avals

    @property
    def out_avals(self) -> list[Any]:
        """The types of the results."""
        return self.program.out_avals

    @property
    def call(self) -> Callable[..., list[Any]]:
        """The quickest function for arguments on the device; it takes and returns what `__call__` does."""
        if self._has_special:
            return self.__call__
        return placed_call(self._execute, self._handlers, self._in, self.__call__, cannot_run)

    def __call__(self, *args: Any) -> list[Any]:
        """Run the program; return the results as a list of `DeviceArray`s.

        Args:
          args: arrays, those of constants without a value first; Python numbers are converted to
            the types of the arguments.

        Raises:
          UsageError: an array has another type, or there are too few or too many.
          UnsupportedError: XLA cannot run the program.
        """
        buffers, lent = self._buffers(args)
        try:
            results = client.with_handlers(self._execute(buffers), self._handlers)
            if lent:
                client.wait_for([x._buffer for x in results])
        except RuntimeError as e:
            cannot_run(e)
        return self._special(results) if self._has_special else results

    def _buffers(self, args: Sequence[Any]) -> tuple[list[Any], bool]:
        """Return arguments in the form that XLA takes, and whether the memory of some is the caller's."""
        self._check_count(args)
        buffers, lent = [], False
        for i, (x, kind) in enumerate(zip(args, self._in, strict=True)):
            if type(x) is DeviceArray and x._kind is kind:
                buffers.append(x._buffer)
                continue
            x = self._host_argument(x, i)
            big = x.nbytes >= _LEND_FROM and self._runtime.is_on_host
            lent = lent or big
            buffers.append(self._runtime.put(x, kind, lend=big))
        return buffers, lent

    def place(self, args: Sequence[Any]) -> list[DeviceArray]:
        """Return arguments as arrays on the device, for calls that take the same ones again and again."""
        self._check_count(args)
        return [
            DeviceArray(kind, self._runtime.put(self._host_argument(x, i), kind))
            for i, (x, kind) in enumerate(zip(args, self._in, strict=True))
        ]

    def _check_count(self, args: Sequence[Any]) -> None:
        check_count(len(self._in), len(args), self.program.interface)

    def host_arguments(self, args: Sequence[Any]) -> list[np.ndarray]:
        """Convert arguments to NumPy arrays of the declared types; raises UsageError."""
        self._check_count(args)
        return [self._host_argument(x, i) for i, x in enumerate(args)]

    def _host_argument(self, x: Any, i: int) -> np.ndarray:
        """Convert argument i to a NumPy array of its declared type; raises UsageError."""
        kind, aval = self._in[i], self.in_avals[i]
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype is kind.dtype:
            if x.shape == kind.shape:
                return np.asarray(x)
        elif aval.dtype.kind == "0":
            return np.zeros(kind.shape, bool)
        x = x.numpy() if type(x) is DeviceArray else x
        return np.asarray(words(argument(x, aval, i, None, self.program.interface)), kind.dtype)

    def _special(self, results: list[Any]) -> list[Any]:
        """Return the results, with zeros of float0 and keys as values of their own types."""
        special = {"0": lambda r, a: np.zeros(a.shape, float0), "k": lambda r, a: keys(r, a.dtype)}
        return [
            special[a.dtype.kind](r, a) if a.dtype.kind in special else r
            for r, a in zip(results, self.out_avals, strict=True)
        ]

    def as_text(self) -> str:
        """The HLO after XLA's optimisation."""
        return client.optimised_hlo(self._loaded)

    def loops(self) -> list[HloLoop]:
        """Return the loops that remain after optimisation."""
        return self._hlo.loops

    def aliases(self) -> list[Alias]:
        """Return which results share memory with arguments."""
        return self._hlo.aliases

    @property
    def _hlo(self) -> HloText:
        return HloText(self.as_text())

    def alias_bytes(self) -> int:
        """Return the number of bytes of results that share memory with arguments."""
        return client.alias_bytes(self._loaded)

    def cost_with_turns(self, trips: int | None = None) -> tuple[dict[str, float], bool] | None:
        """Return XLA's estimates with each loop counted for all its iterations, and whether they
        are complete; None where it has none.

        Args:
          trips: the number of iterations of loops for which XLA does not know it; None: unknown.
        """
        hlo = self._hlo
        return with_turns(
            hlo, lambda name: client.cost_of_hlo(self._runtime, hlo.alone(name)), trips
        )

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates: `flops`, `transcendentals`, `bytes accessed` and others."""
        return client.cost_analysis(self._loaded)

    def memory_analysis(self) -> MemoryAnalysis:
        """Return the sizes of XLA's buffer assignment."""
        return client.memory_analysis(self._loaded)

    @property
    def n_results(self) -> int:
        """Return the number of results of the machine code."""
        return client.n_results(self._loaded)

    def check_size(self, max_bytes: int) -> None:
        """Raise UsageError when running takes more than `max_bytes`."""
        memory = self.memory_analysis()
        total = memory.arguments + memory.results + memory.temporaries
        if total > max_bytes:
            fail(
                UsageError,
                f"the compiled program needs {total:,} bytes ({memory.arguments:,} for arguments, "
                f"{memory.results:,} for results, {memory.temporaries:,} in between), more than the "
                f"limit of {max_bytes:,}",
                "too-large",
                help="raise the limit with --max-bytes",
            )

    def serialize(self) -> bytes:
        """Return the machine code, which jaxlib's client of the same version can load.

        Raises UnsupportedError for a program that calls Python functions.
        """
        if self.program.callbacks:
            fail(
                UnsupportedError,
                "the program calls Python functions, which cannot be written to a file",
                "callback-artifact",
            )
        return self._machine_code or self._runtime.serialize(self._loaded)
