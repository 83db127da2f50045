"""jaxlib: XLA's client, its devices, buffers and executables. The one module to change for another release of jaxlib.

It is written for jaxlib 0.8 to 0.12 and drives the client directly: its own on the CPU, or one that
JAX has made. JAX itself is not imported: that would cost more than a second, and would tie 64-bit
types to a flag. Compile options are those of `jax.jit`.

Its objects are opaque, except that

buffer    an array on one device or spread over several; `buffer.block_until_ready()` waits until it is computed, and one of
          NumPy's own types is read by `np.asarray` where `IS_READ_BY_NUMPY`
loaded    a compiled program; `executor(loaded)` is a function that starts it on a list of buffers
results   the results of such a call; `with_handlers` or `by_device` takes them apart
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxlib import (
    _jax,  # pyright: ignore[reportAttributeAccessIssue] (a module without type stubs)
    version,
    xla_client,
)

__all__ = [
    "IS_READ_BY_NUMPY",
    "ArrayType",
    "MemoryAnalysis",
    "Runtime",
    "Tiling",
    "TraceEvent",
    "Tracing",
    "alias_bytes",
    "by_device",
    "copy_buffer",
    "cost_analysis",
    "cost_of_hlo",
    "distributed_client",
    "distributed_runtime",
    "distributed_service",
    "executor",
    "jaxlib_version",
    "memory_analysis",
    "n_results",
    "optimised_hlo",
    "read_buffer",
    "register_lapack",
    "runtime",
    "runtime_on",
    "tilings",
    "wait_for",
    "with_handlers",
]


class ArrayType(Protocol):
    """The type of an array in the form that jaxlib requires."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def weak_type(self) -> bool: ...


def jaxlib_version() -> str:
    """The version of jaxlib, on which machine code depends."""
    return version.__version__


def _release() -> tuple[int, ...]:
    """The numbers of the release: (0, 10, 2)."""
    return tuple(map(int, version.__version__.split(".")[:3]))


# Clients and devices.


class Runtime:
    """A client, the devices that programs run on, and other arguments of calls to it.

    With several devices, the host's own processors count as several devices of XLA, with its
    collectives.

    Attributes:
      devices: the devices, in the order in which meshes number them: of all processes, where there
        are several.
      local: the positions in `devices` of those of this process.
    """

    def __init__(self, client: Any, devices: Sequence[Any]) -> None:
        self._client, self.devices = client, list(devices)
        here = client.process_index()
        self.local = [i for i, d in enumerate(devices) if d.process_index == here]
        self._device_list = _jax.DeviceList(tuple(self.devices))
        self._replicated = self._laid_out(xla_client.HloSharding.replicate())
        self._options = _compile_options(self.devices)

    def _laid_out(self, sharding: Any) -> Any:
        """A layout over the devices."""
        return _jax.GSPMDSharding(self._device_list, sharding)

    def _stacked(self, rank: int) -> Any:
        """Return the layout of an array whose first axis counts the devices.

        An executable only looks at the devices' parts. jaxlib accepts this layout from Python
        without JAX, unlike that of arrays that are split over only some axes of a mesh.
        """
        tiling = xla_client.OpSharding()
        tiling.type = xla_client.OpSharding.Type.OTHER
        tiling.tile_assignment_dimensions = [len(self.devices), *[1] * (rank - 1)]
        tiling.tile_assignment_devices = range(len(self.devices))
        return self._laid_out(xla_client.HloSharding.from_proto(tiling))

    @property
    def is_on_host(self) -> bool:
        """Whether the devices are the host's processors, whose memory NumPy can read."""
        return self._client.platform == "cpu"

    @property
    def is_shared(self) -> bool:
        """Whether other processes have some of the devices."""
        return len(self.local) < len(self.devices)

    def compile(
        self,
        text: str,
        callbacks: Sequence[Callable[..., Any]] = (),
        flags: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compile StableHLO text; returns it loaded.

        Args:
          text: the module.
          callbacks: the Python functions that it calls, by position.
          flags: flags of XLA by their names, for this program alone.

        Raises:
          RuntimeError: XLA does not take it, with its reason.
        """
        options = self._options
        if flags:
            options = _compile_options(self.devices)
            options.env_option_overrides = [*flags.items()]
        if not callbacks:
            return self._client.compile_and_load(text, self._device_list, options)
        module = _parsed(text)  # callbacks are taken with a parsed module only, not with its text
        return self._client.compile_and_load(module, self._device_list, options, list(callbacks))

    def serialize(self, loaded: Any) -> bytes:
        """Return the machine code of a program that was compiled here (and not deserialised)."""
        return self._client.serialize_executable(loaded)

    def deserialize(self, machine_code: bytes) -> Any | None:
        """Load the result of `serialize`; None when this jaxlib does not accept it."""
        try:
            return self._client.deserialize_executable(
                machine_code, self._device_list, self._options
            )
        except RuntimeError:
            return None

    def put(self, x: np.ndarray, kind: ArrayType, lend: bool = False) -> Any:
        """Return an array as a buffer of the first device; 64-bit types stay as they are.

        Args:
          x: the array.
          kind: its type.
          lend: whether the buffer may use the array's own memory, which then must not change.
        """
        semantics = _LEND if lend else _COPY
        return _jax.batched_device_put(
            kind, self._replicated, [x], self.devices, True, False, semantics, True
        )

    def put_parts(self, parts: Sequence[np.ndarray], stacked: ArrayType) -> Any:
        """Return a buffer of which each device of this process holds one part.

        Args:
          parts: a part for each of `local`, with an axis of size 1 before its own.
          stacked: the type of all parts together: the devices are its first axis.
        """
        layout = self._stacked(len(stacked.shape))
        devices = [self.devices[d] for d in self.local]
        return _jax.batched_device_put(
            stacked, layout, list(parts), devices, True, False, _COPY, True
        )

    def result_handler(self, kind: ArrayType, make: Callable[[Any], Any]) -> Any:
        """Return a handler that makes `make(buffer)` of a result of this type; jaxlib calls it
        itself, which saves time.
        """
        if not _WRAPS:
            return lambda buffers: make(buffers[0])
        return _result_handler(kind, self._replicated).wrap(make)

    def parts_handler(self, stacked: ArrayType) -> Any:
        """Return a handler that returns the buffer of a result of which each device holds a part,
        as in `put_parts`.
        """
        return _result_handler(stacked, self._stacked(len(stacked.shape)))


# (type, layout) -> a handler of results; up to jaxlib 0.10 it is told besides to check nothing.
_result_handler: Callable[[ArrayType, Any], Any] = functools.partial(
    _jax.array_result_handler,
    committed=True,
    **({"_skip_checks": True} if "_skip_checks" in _jax.array_result_handler.__doc__ else {}),
)

_WRAPS = hasattr(_jax.ResultHandler, "wrap")  # from 0.8.2 on

_COPY = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_LEND = _jax.HostBufferSemantics.ZERO_COPY


def _compile_options(devices: Sequence[Any]) -> Any:
    """Return the options with which JAX compiles for these devices: a partition of the program for each."""
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, len(devices)
    numbers = np.array([[d.id for d in devices]])
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    options.profile_version = -1
    build = options.executable_build_options
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    return options


def _parsed(text: str) -> Any:
    """Return a parsed MLIR module. Costs 150 ms of imports, and few programs call Python."""
    from jaxlib.mlir import ir  # noqa: PLC0415
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext  # noqa: PLC0415
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo  # noqa: PLC0415

    dialects = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(dialects)
    context = ir.Context()
    context.append_dialect_registry(dialects)
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    with context:
        return ir.Module.parse(text)


def _let_jax_register() -> None:
    """Import JAX with jaxlib 0.8, which looks up JAX's types of arrays at the first call, and never again.

    Without that, JAX could not call anything in this process any more. JAX registers its types with
    later releases of jaxlib.
    """
    if _release() < (0, 9):
        with contextlib.suppress(ImportError):
            importlib.import_module("jax")


@functools.cache
def runtime(devices: int = 1) -> Runtime:
    """Return the runtime of this process for programs on so many devices, made when it is first needed."""
    _let_jax_register()
    client = xla_client.make_cpu_client(num_devices=None if devices == 1 else devices)
    return Runtime(client, client.local_devices()[:devices])


@functools.cache
def register_lapack() -> None:
    """Register LAPACK's routines with XLA. Costs an import of SciPy, whose LAPACK it is."""
    from jaxlib import lapack  # noqa: PLC0415

    for name, address, version_ in lapack.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, address, "cpu", version_)
    lapack.prepare_lapack_call("getrf_ffi", np.float32)  # loads the library


# XLA's profiler.


class TraceEvent(NamedTuple):
    """An event on a thread while XLA's profiler ran.

    Attributes:
      name: XLA's name for it.
      operation: the instruction of the optimised HLO that ran; "" for anything else.
      start, end: nanoseconds since the profiler began.
    """

    name: str
    operation: str
    start: float
    end: float


class Tracing:
    """A session of XLA's profiler, from the moment it is made; a process has one at a time.

    Raises RuntimeError where there is one already, ImportError where this jaxlib has none.
    """

    def __init__(self) -> None:
        from jaxlib import _profiler  # noqa: PLC0415  # pyright: ignore[reportAttributeAccessIssue]

        options = _profiler.ProfileOptions()
        options.python_tracer_level = 0
        self._profiler = _profiler
        self._session: Any = _profiler.ProfilerSession(options)

    def marked(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Return a block that is an event of its own."""
        return self._profiler.TraceMe(name)

    def stop(self) -> list[list[TraceEvent]]:
        """End the session; return the events of each thread, in the order in which they began."""
        from jaxlib import _profile_data  # noqa: PLC0415  # pyright: ignore[reportAttributeAccessIssue]

        data, self._session = self._session.stop(), None
        with warnings.catch_warnings():  # jaxlib 0.11 makes classes of which Python 3.13 warns
            warnings.simplefilter("ignore", DeprecationWarning)
            found = _profile_data.ProfileData.from_serialized_xspace(data)
            threads = [[*map(_event, x.events)] for plane in found.planes for x in plane.lines]
        return [sorted(events, key=lambda e: (e.start, -e.end)) for events in threads]


def _event(event: Any) -> TraceEvent:
    operation = next((str(value) for key, value in event.stats if key == "hlo_op"), "")
    return TraceEvent(event.name, operation, event.start_ns, event.start_ns + event.duration_ns)


# Buffers and results.

# Whether buffers have Python's buffer protocol; before 0.10 only those whose layout is a class of JAX's had it.
IS_READ_BY_NUMPY = _release() >= (0, 10)

_PACKED = frozenset({"int2", "int4", "uint2", "uint4", "float4_e2m1fn"})


class _Memory:
    """The memory of a buffer for NumPy; it keeps the buffer alive as long as NumPy uses the memory."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Any, shape: tuple[int, ...], itemsize: int):
        self.buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": f"|V{itemsize}",
            "data": (buffer.unsafe_buffer_pointer(), True),
        }


def read_buffer(buffer: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    """Return the value of a buffer of one device, without copying it, once it is computed.

    Python's buffer protocol has no codes for ml_dtypes' types, so NumPy gets the address. Values of
    types narrower than a byte are copied by jaxlib, which imports JAX for it; before 0.10 it does
    so for an address too.

    Returns:
      The array; None where the buffer is smaller than one of this shape.
    """
    buffer.block_until_ready()
    if 0 in shape:
        return np.zeros(shape, dtype)
    if dtype.name in _PACKED:
        return buffer._single_device_array_to_np_array_did_copy()[0]
    if not IS_READ_BY_NUMPY:
        found = buffer._single_device_array_to_np_array_did_copy()[0]
        return found if (found.shape, found.dtype) == (shape, dtype) else None
    if buffer.on_device_size_in_bytes() < math.prod(shape) * dtype.itemsize:
        return None
    return np.asarray(_Memory(buffer, shape, dtype.itemsize)).view(dtype)


def copy_buffer(buffer: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    """Return a copy of a buffer of a device other than the host; None where it has another type."""
    found = np.asarray(buffer._single_device_array_to_np_array_did_copy()[0])
    return found if (found.shape, found.dtype) == (shape, dtype) else None


def runtime_on(devices: Sequence[Any]) -> Runtime:
    """Return the runtime of a program on some devices of an existing client, such as JAX's."""
    return Runtime(devices[0].client, devices)


def wait_for(buffers: Sequence[Any]) -> None:
    """Wait until buffers are computed; raises RuntimeError where that fails."""
    _jax.batched_block_until_ready(list(buffers))


def by_device(results: Any) -> list[list[Any]]:
    """Return for each result of a call the buffers of this process's devices."""
    return results.disassemble_into_single_device_arrays()


# (results, handlers) -> for each result of a call what its handler makes of it. Not a function of Python, which would take
# a twentieth of the call of a small program.
with_handlers: Callable[[Any, Sequence[Any]], list[Any]] = _jax.ExecuteResults.consume_with_handlers


# Executables.


class MemoryAnalysis(NamedTuple):
    """Bytes that an executable takes: arguments, results, scratch space, and the most at one time."""

    arguments: int
    results: int
    temporaries: int
    peak: int


def executor(loaded: Any, waits: bool = False) -> Callable[[Sequence[Any]], Any]:
    """Return the function that starts a program on buffers and returns its results.

    Calling it raises RuntimeError.

    Args:
      loaded: the program.
      waits: whether it returns only when the program has ended on all devices: its results may not
        depend on its callbacks.
    """
    if not waits:
        return loaded.execute_sharded

    def execute(buffers: Sequence[Any]) -> Any:
        results = loaded.execute_sharded(buffers, with_tokens=True)
        results.consume_token().block_until_ready()
        return results

    return execute


def memory_analysis(loaded: Any) -> MemoryAnalysis:
    """Return the sizes of XLA's buffer assignment."""
    m = loaded.get_compiled_memory_stats()
    return MemoryAnalysis(
        m.argument_size_in_bytes,
        m.output_size_in_bytes,
        m.temp_size_in_bytes,
        m.peak_memory_in_bytes,
    )


def cost_analysis(loaded: Any) -> dict[str, float]:
    """XLA's estimates: `flops`, `transcendentals`, `bytes accessed` and others."""
    return dict(loaded.cost_analysis())


def cost_of_hlo(r: Runtime, text: str) -> dict[str, float] | None:
    """XLA's estimates for an HLO module, given as text; None where this jaxlib does not read it."""
    try:
        from jaxlib import _hlo  # noqa: PLC0415  # pyright: ignore[reportAttributeAccessIssue]

        module = _hlo.hlo_module_from_text(text)
    except (ImportError, RuntimeError):
        return None
    return dict(_jax.hlo_module_cost_analysis(r._client, module))


def alias_bytes(loaded: Any) -> int:
    """Return the number of bytes of results that share memory with arguments."""
    return loaded.get_compiled_memory_stats().alias_size_in_bytes


def optimised_hlo(loaded: Any) -> str:
    """The HLO after XLA's optimisation, as text."""
    return "\n".join(m.to_string() for m in loaded.hlo_modules())


def n_results(loaded: Any) -> int:
    """How many results the machine code has."""
    return len(loaded.get_output_layouts())


class Tiling(NamedTuple):
    """How XLA splits an array over devices.

    Attributes:
      sizes: the number of tiles in each dimension; a further last number is the number of devices
        that hold each tile.
      devices: the numbers of the devices that hold the tiles, which are in row-major order.
    """

    sizes: tuple[int, ...]
    devices: tuple[int, ...]


def tilings(loaded: Any, n_args: int, n_outs: int) -> tuple[list[Any], list[Any]]:
    """Return how XLA splits the arguments and the results.

    Returns:
      For each a `Tiling`, None where every device holds everything, or XLA's text for anything
        else.
    """
    ins, outs = loaded.get_parameter_shardings(), loaded.get_output_shardings()
    return _tilings(ins, n_args), _tilings(outs, n_outs)


def _tilings(protos: Any, n: int) -> list[Any]:
    if protos is None:
        return [None] * n
    # XLA gives one sharding even for no values
    return [_tiling(xla_client.HloSharding.from_proto(p)) for p in protos[:n]]


def _tiling(sharding: Any) -> Tiling | str | None:
    if sharding.is_replicated():
        return None
    if not sharding.is_tiled():
        return str(sharding)
    sizes = tuple(sharding.tile_assignment_dimensions())
    return Tiling(sizes, tuple(sharding.tile_assignment_devices()))


# Several processes.


def distributed_service(port: int, count: int, heartbeat: int) -> Any:
    """Start the service through which `count` processes find one another; it ends the process when the port is taken.

    `shutdown()` ends it. heartbeat: seconds without a sign of life after which a process counts as
    dead.
    """
    return _jax.get_distributed_runtime_service(f"[::]:{port}", count, heartbeat_timeout=heartbeat)


def distributed_client(coordinator: str, index: int, timeout: int, heartbeat: int) -> Any:
    """Return the client of such a service; `connect()` connects it, and raises RuntimeError where it is refused.

    Connected, it has `key_value_set`, `key_value_try_get`, `blocking_key_value_get`,
    `wait_at_barrier` and `shutdown`.

    Args:
      coordinator: HOST:PORT of the service.
      index: the number of this process.
      timeout: seconds, after which jaxlib ends the process where the others have not connected.
      heartbeat: as for `distributed_service`.
    """
    # With a callback a refused connection is an exception; without one it ends the process.
    return _jax.get_distributed_runtime_client(
        coordinator,
        index,
        init_timeout=timeout,
        shutdown_on_destruction=False,
        missed_heartbeat_callback=lambda status: None,
        heartbeat_timeout=heartbeat,
    )


def distributed_runtime(client: Any, index: int, count: int, devices: int) -> Runtime:
    """Return a runtime with so many devices for each of the processes, whose collectives are Gloo's."""
    _let_jax_register()
    collectives = _jax.make_gloo_tcp_collectives(distributed_client=client)
    cpu = xla_client.make_cpu_client(
        distributed_client=client,
        node_id=index,
        num_nodes=count,
        collectives=collectives,
        num_devices=devices,
    )
    return Runtime(cpu, sorted(cpu.devices(), key=lambda d: (d.process_index, d.id)))
