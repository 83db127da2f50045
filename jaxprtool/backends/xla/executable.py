"""XLA: compilation of StableHLO text and execution. The only module that touches jaxlib.

It drives jaxlib's client directly, on the CPU. JAX itself is not imported: that would cost more than a
second, and would tie 64-bit types to a flag. Compile options are those of `jax.jit`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import platform
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jaxlib import (
    _jax,  # pyright: ignore[reportAttributeAccessIssue] (a module without type stubs)
    version,
    xla_client,
)

from jaxprtool.backends.numpy_eval import argument, float0, keys, np_dtype, words
from jaxprtool.backends.xla.device_array import DeviceArray, HostType
from jaxprtool.backends.xla.placed_call import placed_call
from jaxprtool.backends.xla.precautions import (
    check_addresses,
    check_devices,
    check_written_out,
    is_long_chain,
    try_in_child,
)
from jaxprtool.backends.xla.spmd import Shards, gathering, joined_type, shard_slices
from jaxprtool.interpreters.lower import StableHLO, lower_jaxpr
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, are, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import nesting

__all__ = [
    "Executable",
    "MemoryAnalysis",
    "Runtime",
    "check_devices",
    "compile_jaxpr",
    "compile_stablehlo",
    "compile_text",
    "load_executable",
    "runtime",
]

# With more loops than this, or calls and branches inside each other deeper than that, XLA may end the process.
_MANY_LOOPS, _DEEP = 100, 100

# Host arrays from this size on are lent to XLA and not copied; the call then waits for its results,
# since the caller may change the arrays after it.
_LEND_FROM = 1 << 16


class MemoryAnalysis(NamedTuple):
    """Bytes that an executable takes: arguments, results, scratch space, and the most at one time."""

    arguments: int
    results: int
    temporaries: int
    peak: int


@functools.cache
def _host_type(aval: Any) -> HostType:
    """How the host holds an argument or a result: float0 as booleans, PRNG keys as words."""
    aval = aval.physical
    dtype = np.dtype(bool) if aval.dtype.kind == "0" else np_dtype(aval.dtype)
    return _shared_type(aval.shape, dtype)


@functools.cache
def _shared_type(shape: tuple[int, ...], dtype: np.dtype) -> HostType:
    return HostType(shape, dtype, _reader(shape, dtype))


def _reader(shape: tuple[int, ...], dtype: np.dtype) -> Callable[..., np.ndarray]:
    """What reads a buffer; of one of NumPy's own types, the same memory."""
    if dtype.isbuiltin == 1:
        return np.asarray
    return functools.partial(_read_extended, shape, dtype)


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_PACKED = frozenset({"int2", "int4", "uint2", "uint4", "float4_e2m1fn"})
_OFFSET = 40  # of `byte_offset` in DLTensor, whose first field is the address


def _read_extended(shape: tuple[int, ...], dtype: np.dtype, buffer: Any) -> np.ndarray:
    """A value of one of ml_dtypes' types, copied.

    Python's buffer protocol has no codes for them, so the address comes from a DLPack capsule. Types
    narrower than a byte are packed there, or missing; jaxlib unpacks them, and imports JAX.
    """
    buffer.block_until_ready()
    if 0 in shape:
        return np.zeros(shape, dtype)
    if dtype.name in _PACKED:
        return buffer._single_device_array_to_np_array_did_copy()[0]
    capsule = _jax.buffer_to_dlpack_managed_tensor(buffer)
    tensor = _capsule_pointer(capsule, b"dltensor")
    start = ctypes.c_void_p.from_address(tensor).value or 0
    start += ctypes.c_uint64.from_address(tensor + _OFFSET).value
    size = math.prod(shape) * dtype.itemsize
    if buffer.on_device_size_in_bytes() < size:  # the types of an artifact are what its file says
        fail(
            UsageError, f"the compiled program gives no {dtype.name}{list(shape)}", "artifact-types"
        )
    return np.frombuffer(ctypes.string_at(start, size), dtype).reshape(shape)


class Runtime:
    """A client, the devices that programs run on, and what calls to it take besides.

    Several devices are the host's own processors under as many names: XLA's, with its collectives.

    Attributes:
      client: XLA's client.
      devices: the devices, in the order in which meshes number them: of all processes, where there are several.
      local: the positions in `devices` of those of this process.
    """

    def __init__(self, client: Any, devices: Sequence[Any]) -> None:
        self.client, self.devices = client, list(devices)
        here = client.process_index()
        self.local = [i for i, d in enumerate(devices) if d.process_index == here]
        self.device_list = _jax.DeviceList(tuple(self.devices))
        self.sharding = self.laid_out(xla_client.HloSharding.replicate())
        self.options = _compile_options(self.devices)

    def laid_out(self, sharding: Any) -> Any:
        """A layout over the devices."""
        return _jax.GSPMDSharding(self.device_list, sharding)

    def stacked(self, rank: int) -> Any:
        """The layout of an array whose first axis counts the devices.

        An executable looks at the devices' parts alone, and jaxlib takes this layout from Python without
        JAX, which it does not do for arrays that are split over some axes of a mesh only.
        """
        tiling = xla_client.OpSharding()
        tiling.type = xla_client.OpSharding.Type.OTHER
        tiling.tile_assignment_dimensions = [len(self.devices), *[1] * (rank - 1)]
        tiling.tile_assignment_devices = range(len(self.devices))
        return self.laid_out(xla_client.HloSharding.from_proto(tiling))

    @property
    def shared(self) -> bool:
        """Whether other processes have some of the devices."""
        return len(self.local) < len(self.devices)

    def result_handler(self, kind: HostType) -> Any:
        """What makes a result an array: called from within jaxlib, which is quicker than after it."""
        handler = _jax.array_result_handler(kind, self.sharding, True, True)
        return handler.wrap(functools.partial(DeviceArray, kind))

    def split(self, kind: HostType) -> tuple[HostType, Any]:
        """The type and the layout under which the devices' parts of an array go to jaxlib."""
        rank = len(kind.shape) + 1
        return _shared_type((len(self.devices), *kind.shape), kind.dtype), self.stacked(rank)


def _compile_options(devices: Sequence[Any]) -> Any:
    """The options with which JAX compiles for these devices: a partition of the program for each."""
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, len(devices)
    numbers = np.array([[d.id for d in devices]])
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    options.profile_version = -1
    build = options.executable_build_options
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    return options


@functools.cache
def _runtime(devices: int) -> Runtime:
    client = xla_client.make_cpu_client(num_devices=None if devices == 1 else devices)
    return Runtime(client, client.local_devices()[:devices])


def runtime(devices: int = 1) -> Runtime:
    """The runtime of this process for programs on so many devices, made when it is first needed."""
    return _runtime(devices)


_COPY = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_LEND = _jax.HostBufferSemantics.ZERO_COPY


class Executable:
    """A compiled program.

    Attributes:
      program: the lowered program, with the types of arguments and results.
    """

    def __init__(self, program: StableHLO, loaded: Any, r: Runtime, machine_code: bytes = b""):
        self.program = program
        self._runtime = r
        self._loaded, self._execute = loaded, loaded.execute_sharded
        self._machine_code = machine_code  # jaxlib cannot serialise what it has deserialised
        self._in = [_host_type(a) for a in program.in_avals]
        self._out = [_host_type(a) for a in program.out_avals]
        self._handlers = [r.result_handler(t) for t in self._out]
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
        """What does the same as the executable, called; the quickest where arguments are on the device."""
        if self._has_special:
            return self.__call__
        return placed_call(self._execute, self._handlers, self._in, self.__call__, _cannot_run)

    def __call__(self, *args: Any) -> list[Any]:
        """The results, as a list of `DeviceArray`s.

        Args:
          args: arrays, those of constants without a value first; Python numbers take the type asked for.

        Raises:
          UsageError: an array has another type, or there are too few or too many.
          UnsupportedError: XLA cannot run the program.
        """
        buffers, lent = self._buffers(args)
        try:
            results = self._execute(buffers).consume_with_handlers(self._handlers)
            if lent:
                _jax.batched_block_until_ready([x._buffer for x in results])
        except RuntimeError as e:
            _cannot_run(e)
        return self._special(results) if self._has_special else results

    def _buffers(self, args: Sequence[Any]) -> tuple[list[Any], bool]:
        """Arguments as XLA takes them, and whether the memory of some is the caller's."""
        if len(args) != len(self._in):
            self._wrong_count(len(args))
        buffers, lent = [], False
        for i, (x, kind) in enumerate(zip(args, self._in, strict=True)):
            if type(x) is DeviceArray and x._kind is kind:
                buffers.append(x._buffer)
                continue
            x = self._host_argument(x, i)
            big = x.nbytes >= _LEND_FROM
            lent = lent or big
            buffers.append(_put(x, kind, _LEND if big else _COPY))
        return buffers, lent

    def place(self, args: Sequence[Any]) -> list[DeviceArray]:
        """Arguments as arrays on the device, for calls that take the same ones again and again."""
        if len(args) != len(self._in):
            self._wrong_count(len(args))
        return [
            DeviceArray(kind, _put(self._host_argument(x, i), kind, _COPY))
            for i, (x, kind) in enumerate(zip(args, self._in, strict=True))
        ]

    def _wrong_count(self, n: int) -> NoReturn:
        message = f"the program takes {counted(len(self._in), 'argument')}, and {are(n)} given"
        fail(UsageError, message, "argument-count")

    def host_arguments(self, args: Sequence[Any]) -> list[np.ndarray]:
        """Arguments as NumPy arrays of the types asked for; raises UsageError."""
        if len(args) != len(self._in):
            self._wrong_count(len(args))
        return [self._host_argument(x, i) for i, x in enumerate(args)]

    def _host_argument(self, x: Any, i: int) -> np.ndarray:
        """Argument i as a NumPy array of the type asked for; raises UsageError."""
        kind = self._in[i]
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype is kind.dtype:
            if x.shape == kind.shape:
                return np.asarray(x)
        elif self.in_avals[i].dtype.kind == "0":
            return np.zeros(kind.shape, bool)
        x = x.numpy() if type(x) is DeviceArray else x
        return np.asarray(words(argument(x, self.in_avals[i], i)), kind.dtype)

    def _special(self, results: list[Any]) -> list[Any]:
        """The results, with zeros of float0 and keys as values of their own types."""
        special = {"0": lambda r, a: np.zeros(a.shape, float0), "k": lambda r, a: keys(r, a.dtype)}
        return [
            special[a.dtype.kind](r, a) if a.dtype.kind in special else r
            for r, a in zip(results, self.out_avals, strict=True)
        ]

    def as_text(self) -> str:
        """The HLO after XLA's optimisation."""
        return "\n".join(m.to_string() for m in self._loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates: `flops`, `transcendentals`, `bytes accessed` and others."""
        return dict(self._loaded.cost_analysis())

    def memory_analysis(self) -> MemoryAnalysis:
        """What XLA's buffer assignment comes to."""
        m = self._loaded.get_compiled_memory_stats()
        return MemoryAnalysis(
            m.argument_size_in_bytes,
            m.output_size_in_bytes,
            m.temp_size_in_bytes,
            m.peak_memory_in_bytes,
        )

    @property
    def n_results(self) -> int:
        """How many results the machine code has."""
        return len(self._loaded.get_output_memory_kinds()[0])

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
        """The machine code, as jaxlib's client of the same version reads it back.

        Raises UnsupportedError for a program that calls Python functions.
        """
        if self.program.callbacks:
            fail(
                UnsupportedError,
                "the program calls Python functions, which cannot be written to a file",
                "callback-artifact",
            )
        return self._machine_code or self._runtime.client.serialize_executable(self._loaded)


class SpmdExecutable(Executable):
    """A program compiled for several devices: XLA says which part of each array a device holds."""

    def __init__(self, program: StableHLO, loaded: Any, r: Runtime, machine_code: bytes = b""):
        super().__init__(program, loaded, r, machine_code)
        n = program.devices
        ins = _shardings(loaded.get_parameter_shardings(), len(self._in))
        self._layouts = _shardings(loaded.get_output_shardings(), len(self._out))
        self._parts = [shard_slices(s, k.shape, n) for s, k in zip(ins, self._in, strict=True)]
        self._out_parts = [
            shard_slices(s, k.shape, n) for s, k in zip(self._layouts, self._out, strict=True)
        ]
        self._joined = [
            joined_type(k, _reader, parts)
            for k, parts in zip(self._out, self._out_parts, strict=True)
        ]

    @property
    def call(self) -> Callable[..., list[Any]]:
        return self.__call__

    def __call__(self, *args: Any) -> list[Any]:
        try:
            buffers = [x._buffer for x in self.place(args)]
            results = self._results(self._execute(buffers))
        except RuntimeError as e:
            _cannot_run(e)
        return self._special(results) if self._has_special else results

    def _results(self, outs: Any) -> list[Any]:
        buffers = outs.disassemble_into_single_device_arrays()
        return [DeviceArray(t, Shards(b)) for b, t in zip(buffers, self._joined, strict=True)]

    def place(self, args: Sequence[Any]) -> list[DeviceArray]:
        """Arguments as arrays on the devices, each device holding its part."""
        if len(args) != len(self._in):
            self._wrong_count(len(args))
        return [self._spread(x, i) for i, x in enumerate(args)]

    def _spread(self, x: Any, i: int) -> DeviceArray:
        kind, r = self._in[i], self._runtime
        if type(x) is DeviceArray and x._kind is kind:
            return x
        whole, slices = self._host_argument(x, i), self._parts[i]
        parts = [whole[slices[d]].copy()[None] for d in r.local]  # jaxlib wants them apart
        stacked, layout = r.split(_shared_type(parts[0].shape[1:], kind.dtype))
        devices = [r.devices[d] for d in r.local]
        put = _jax.batched_device_put(stacked, layout, parts, devices, True, False, _COPY, True)
        return DeviceArray(kind, put)


class SharedExecutable(SpmdExecutable):
    """A program on the devices of several processes, each of which gives and gets whole arrays.

    All processes have to make the same calls in the same order.
    """

    def _results(self, outs: Any) -> list[Any]:
        """The results, whole: those that are split are gathered on every process."""
        handlers = []
        for kind, parts in zip(self._out, self._out_parts, strict=True):
            shape = np.empty(kind.shape, np.bool_)[parts[0]].shape
            stacked, layout = self._runtime.split(_shared_type(shape, kind.dtype))
            handlers.append(_jax.array_result_handler(stacked, layout, True, True))
        values = self._gather.execute_sharded(outs.consume_with_handlers(handlers))
        wholes = [w[0] for w in values.disassemble_into_single_device_arrays()]
        _jax.batched_block_until_ready(wholes)
        return [DeviceArray(k, w) for w, k in zip(wholes, self._out, strict=True)]

    @functools.cached_property
    def _gather(self) -> Any:
        """The executable that hands the results to all devices."""
        text, r = gathering(self.out_avals, self._layouts, self.program.devices), self._runtime
        return r.client.compile_and_load(text, r.device_list, r.options)


def _shardings(protos: Any, n: int) -> list[Any]:
    """XLA's layouts of the arguments or results; without any, each device holds everything."""
    if protos is None:
        return [xla_client.HloSharding.replicate()] * n
    return [xla_client.HloSharding.from_proto(p) for p in protos]


def _put(x: np.ndarray, kind: HostType, semantics: Any) -> Any:
    """An array as a buffer of XLA; 64-bit types stay as they are."""
    r = runtime()
    return _jax.batched_device_put(kind, r.sharding, [x], r.devices, True, False, semantics, True)


def _cannot_run(error: RuntimeError) -> NoReturn:
    if "RESOURCE_EXHAUSTED" in str(error):
        fail(UsageError, f"the program is too large to run: {_reason(error)}", "too-large")
    fail(UnsupportedError, f"XLA could not run the program: {_reason(error)}", "xla-run")


_RAISED = re.compile(
    r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt)): (?:error: )?(.*)", re.MULTILINE
)


def _reason(error: Exception) -> str:
    """The first line of what XLA says; of a Python function that failed, what it raised."""
    if "error calling callback" in str(error) and (found := _RAISED.findall(str(error))):
        return f"a Python function raised {': '.join(found[-1])}"
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@functools.cache
def _register_lapack() -> None:
    """Tell XLA where LAPACK's routines are. Costs an import of SciPy, whose LAPACK it is."""
    from jaxlib import lapack  # noqa: PLC0415

    for name, address, version_ in lapack.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, address, "cpu", version_)
    lapack.prepare_lapack_call("getrf_ffi", np.float32)  # loads the library


def _prepare_custom_calls(program: StableHLO) -> None:
    """Make what a program calls outside of XLA known to it."""
    if "stablehlo.custom_call" in program.text:
        _register_lapack()


def compile_stablehlo(program: StableHLO, r: Runtime | None = None) -> Executable:
    """Compile a lowered program, for the devices of this process unless `r` has others.

    Raises:
      UnsupportedError: XLA does not take it, with its reason.
    """
    _prepare_custom_calls(program)
    r = r or runtime(program.devices)
    try:
        loaded = _load(program, r)
    except RuntimeError as e:
        fail(
            UnsupportedError,
            f"XLA does not compile the lowered program: {_reason(e)}",
            "xla-compile",
            help="the text is what `jaxprtool lower` prints",
        )
    return _executable(program, loaded, r)


def _executable(
    program: StableHLO, loaded: Any, r: Runtime, machine_code: bytes = b""
) -> Executable:
    if program.devices == 1:
        return Executable(program, loaded, r, machine_code)
    return (SharedExecutable if r.shared else SpmdExecutable)(program, loaded, r, machine_code)


def _load(program: StableHLO, r: Runtime) -> Any:
    if not program.callbacks:
        return r.client.compile_and_load(program.text, r.device_list, r.options)
    # 150 ms, and few programs call Python
    from jaxlib.mlir import ir  # noqa: PLC0415
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext  # noqa: PLC0415
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo  # noqa: PLC0415

    dialects = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(dialects)
    context = ir.Context()
    context.append_dialect_registry(dialects)
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    with context:  # callbacks are taken with a parsed module only, not with its text
        module = ir.Module.parse(program.text)
    return r.client.compile_and_load(module, r.device_list, r.options, program.callbacks)


def load_executable(program: StableHLO, machine_code: bytes) -> Executable | None:
    """An executable from what `Executable.serialize` gave; None when this jaxlib does not take it.

    It becomes native code in this process: give it only what you trust.
    """
    r = runtime(program.devices)
    _prepare_custom_calls(program)
    try:
        loaded = r.client.deserialize_executable(machine_code, r.device_list, r.options)
    except RuntimeError:
        return None
    return check_count(_executable(program, loaded, r, machine_code))


def check_count(executable: Executable) -> Executable:
    """An executable of an artifact; raises UsageError where it does not have as many results as the file says."""
    n, said = executable.n_results, len(executable.out_avals)
    if n != said:
        message = f"the artifact's program has {counted(n, 'result')}, and its header says {said}"
        fail(UsageError, message, "artifact-types")
    return executable


def compile_jaxpr(closed: ClosedJaxpr, max_devices: int | None = None) -> Executable:
    """Lower and compile a program; compiled once for each `ClosedJaxpr` object.

    max_devices: how many devices may be made for it (None: any number). Raises UsageError where it needs more.
    """
    found = closed.cache.get("xla")
    if found is None:
        program = lower_jaxpr(closed)
        if max_devices is not None:
            check_devices(program, max_devices)
        check_addresses(closed)
        check_written_out(closed)
        deep = nesting(closed.jaxpr) > _DEEP or _has_many(program, "while")
        if deep or is_long_chain(program.text):
            try_in_child(program)
        found = closed.cache["xla"] = compile_stablehlo(program)
    return found


def compile_text(program: StableHLO) -> Executable:
    """Compile a lowered program of which only the text is known; see `compile_stablehlo`.

    One with many loops and branches is tried in a process of its own before, since they may be inside each other.
    """
    if _has_many(program, "while", "case", "if") or is_long_chain(program.text):
        try_in_child(program)
    return check_count(compile_stablehlo(program))


def _has_many(program: StableHLO, *names: str) -> bool:
    return sum(program.text.count(f"stablehlo.{n}") for n in names) > _MANY_LOOPS


def jaxlib_version() -> str:
    """The version of jaxlib, on which machine code depends."""
    return version.__version__


@functools.cache
def machine_name() -> str:
    """What machine code is for: the architecture, and a digest of the processor's features."""
    features = ""
    try:
        with open("/proc/cpuinfo") as f:
            features = next((line for line in f if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = platform.processor()
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:16]}"
