"""Keep the run of a program in a wider precision, against which the program itself is measured."""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from jaxprtool.analyses.logs import Log, Logging
from jaxprtool.interpreters.evaluate import numpy_namespace

__all__ = ["Kept", "Shadow", "in_f64", "is_looked_at", "is_rounded"]

_STEPS = 50  # iterations of a loop that are all looked at
_MEMORY = 64 << 20  # bytes of results that are kept in memory; the others wait in a file
_LOGS = 100_000  # how many jaxprs that have run are kept


def is_looked_at(step: int | None) -> bool:
    """Whether an iteration of a loop is looked at: the first ones, and ever fewer later ones, so that a long loop costs little."""
    if step is None or step < _STEPS:
        return True
    every = _STEPS
    while step >= 200 * every:
        every *= 10
    return step % every == 0


def is_rounded(aval: Any) -> bool:
    """Whether a type is one of floats or complex numbers."""
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and dtype.kind in "fc"


def in_f64(x: Any) -> Any:
    """Return a value of a floating or complex type in double precision."""
    xp = numpy_namespace()
    return x.astype(xp.complex128 if x.dtype.kind == "c" else xp.float64)


class Kept(NamedTuple):
    """A value in the file: the offset of its bytes, its type and its shape."""

    at: int
    dtype: Any
    shape: tuple[int, ...]


class Shadow(Logging):
    """Observes the wider run, and keeps its logs while its `with` block lasts.

    Attributes:
      left: how many bytes of results may still be kept; None for no limit.
      widened: a function that converts a value of a floating or complex type to the wider
        precision.
      root: the log of the program.
      full: whether the limit is reached: later logs are not kept.
      logs: how many jaxprs that have run are kept.
      held: how many bytes of results are in memory.
    """

    def __init__(self, max_bytes: int | None, widened: Callable[[Any], Any] | None = None):
        super().__init__()
        self.left = max_bytes
        self.widened = widened or in_f64
        self.root: Log | None = None
        self.full = False
        self.logs = self.held = 0
        self._file: IO[bytes] | None = None
        self._waiting: list[tuple[Log, int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def in_file(self) -> bool:
        """Whether some results are in a file."""
        return self._file is not None

    def takes(self, step: int | None) -> bool:
        return not self.full and is_looked_at(step)

    def look(self, root: Log) -> None:
        self.root = root
        self._keep(root)
        if self.held > _MEMORY:
            self._write()

    def _keep(self, log: Log) -> None:
        n = len(log.results)
        if n > log.seen:
            sizes = log.layout.sizes[log.seen : n]
            self.held += sum(sizes)
            if self.left is not None:
                self.left -= sum(sizes)
            self.logs += not log.seen
            self.full = self.full or self.logs > _LOGS or (self.left is not None and self.left < 0)
            if self.at_once:
                log.results[log.seen :] = [_copied(x) for x in log.results[log.seen :]]
            self._waiting.append((log, log.seen, n))
            log.seen = n
        looked: int = log.found or 0
        log.found = max(len(log.inside) - 1, 0)  # the last equation may still run more jaxprs
        for _, logs in log.inside[looked:]:
            for inner in logs:
                if inner.outs != ():
                    self._keep(inner)
        if log.outs is not None:
            log.args = log.outs = ()

    def _write(self) -> None:
        """Move results from memory to the file."""
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115 (closed with this)
        file = self._file
        at = file.seek(0, 2)
        for log, start, end in self._waiting:
            for i in range(start, end):
                result = log.results[i]
                several = isinstance(result, (list, tuple))
                parts: list[Any] = []
                for x in result if several else (result,):
                    if getattr(x, "nbytes", 0) and hasattr(x, "tobytes"):
                        data = x.tobytes()
                        file.write(data)
                        parts.append(Kept(at, x.dtype, x.shape))
                        at += len(data)
                    else:
                        parts.append(x)
                log.results[i] = parts if several else parts[0]
        self._waiting.clear()
        self.held = 0

    def value(self, x: Any) -> Any:
        """Return a value that is kept, from memory or from the file."""
        if type(x) is not Kept:
            return x
        assert self._file is not None
        xp = numpy_namespace()
        self._file.seek(x.at)
        size = x.dtype.itemsize
        for n in x.shape:
            size *= n
        return xp.frombuffer(self._file.read(size), x.dtype).reshape(x.shape)[()]


def _copied(x: Any) -> Any:
    """Return a result that stays as it is, as the content of references may change."""
    if isinstance(x, (list, tuple)):
        return [*map(_copied, x)]
    return x.copy() if isinstance(x, numpy_namespace().ndarray) else x
