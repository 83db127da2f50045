"""Write a profile as a file that other tools open: Perfetto, speedscope, pprof, and those that draw flame graphs.

trace.json                  the Trace Event Format of Chrome, which Perfetto opens: what ran when
profile.speedscope.json     speedscope.app's format
profile.pb.gz               pprof's profile.proto, compressed: `calls` and `time`
profile.folded              a line for each way: its equations from the outside in, and nanoseconds
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.places import position
from jaxprtool.analyses.profiling.profile import Profile
from jaxprtool.analyses.profiling.timing import Slice
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.origin import stack_of
from jaxprtool.ir.printable import one_line

__all__ = ["ENDINGS", "check_ending", "is_timeline", "profile_file"]


class _Frame(NamedTuple):
    """An equation in a file: its name, and its place."""

    name: str
    file: str
    line: int
    column: int


class _Sample(NamedTuple):
    """A way from the outermost equation to one, how often that one was executed in all runs, and the time in it."""

    frames: tuple[_Frame, ...]
    calls: int
    nanoseconds: int


def is_timeline(path: str) -> bool:
    """Whether a file of this name shows what ran when."""
    return _ending(path) == ".json"


def check_ending(path: str) -> None:
    """Raise UsageError if the name of a file has an unknown ending."""
    if not _ending(path):
        message = (
            f"-o {path}: a profile is written to a file whose name ends in {', '.join(ENDINGS)}"
        )
        help = "-o trace.json is for Perfetto, the others for speedscope, pprof and flame graphs"
        fail(UsageError, message, "output-kind", help=help)


def profile_file(profile: Profile, path: str) -> bytes:
    """Return the bytes of a profile in the format that the name of the file asks for. Raises UsageError for an unknown ending."""
    check_ending(path)
    return _WRITERS[_ending(path)](profile)


def _ending(path: str) -> str:
    return next((ending for ending in ENDINGS if path.endswith(ending)), "")


def _frame(eqn: JaxprEqn) -> _Frame:
    line, column = position(eqn)
    file = "" if eqn.span is None else eqn.span.source.name
    at = "" if line is None else f" {file}:{line}:{column}"
    return _Frame(one_line(eqn.primitive.name + at), one_line(file), line or 0, column or 0)


def _samples(profile: Profile) -> Iterator[_Sample]:
    """Yield what was measured, in all runs; time that belongs to no equation comes last."""
    frames: dict[JaxprEqn, _Frame] = {}
    for node in profile.root.walk():
        if node.eqn is None or not (node.calls or node.own):
            continue
        way = node.way()
        for eqn in way:
            if eqn not in frames:
                frames[eqn] = _frame(eqn)
        named = tuple([frames[eqn] for eqn in way])
        yield _Sample(named, round(node.calls), round(node.own))
    for what, seconds in profile.others:
        frame = _Frame(f"({what})", "", 0, 0)
        yield _Sample((frame,), 0, max(round(seconds * 1e9 * profile.runs), 0))


def _folded(profile: Profile) -> bytes:
    lines = [
        f"{';'.join(f.name.replace(';', ',') for f in s.frames)} {s.nanoseconds}\n"
        for s in _samples(profile)
    ]
    return "".join(lines).encode(errors="replace")


def _speedscope(profile: Profile) -> bytes:
    samples = [*_samples(profile)]
    index = {f: i for i, f in enumerate(dict.fromkeys(f for s in samples for f in s.frames))}
    weights = [s.nanoseconds for s in samples]
    frames = [
        {"name": f.name, **({"file": f.file, "line": f.line, "col": f.column} if f.line else {})}
        for f in index
    ]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "jaxprtool",
        "name": f"{profile.backend}, {profile.runs} runs",
        "shared": {"frames": frames},
        "profiles": [
            {
                "type": "sampled",
                "name": profile.backend,
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": [[index[f] for f in s.frames] for s in samples],
                "weights": weights,
            }
        ],
    }
    return json.dumps(document).encode()


def _chrome(profile: Profile) -> bytes:
    first = min((s.start for s in profile.slices), default=0)
    threads = sorted({s.thread for s in profile.slices})
    events: list[dict[str, Any]] = [
        _metadata("process_name", 0, f"jaxprtool profile, {profile.backend}"),
        *(_metadata("thread_name", t, f"{profile.backend} {t}") for t in threads),
    ]
    events += [_event(s, first, profile.backend) for s in profile.slices]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode()


def _metadata(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": 1, "tid": thread, "args": {"name": name}}


def _event(piece: Slice, first: float, category: str) -> dict[str, Any]:
    args: dict[str, Any] = {}
    if piece.eqn is not None:
        origin = piece.eqn.origin
        frame = None if origin is None else origin.frame
        names = None if origin is None or not origin.names else stack_of(origin.names)
        source = None if frame is None else f"{frame.file}:{frame.line}"
        found = {"place": _frame(piece.eqn).name, "source": source, "scope": names}
        args = {k: v for k, v in found.items() if v is not None}
    return {
        "ph": "X",
        "name": piece.name,
        "cat": category,
        "pid": 1,
        "tid": piece.thread,
        "ts": (piece.start - first) / 1e3,
        "dur": piece.duration / 1e3,
        "args": args,
    }


# -- pprof --------------------------------------------------------------------------------------------
#
# The messages of profile.proto (github.com/google/pprof), field by field, in the wire format of protocol buffers: a number is
# a varint after the key `field << 3`, and bytes stand after the key `field << 3 | 2` and their length.


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n) if n else b""


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _packed(field: int, numbers: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, numbers)))


class _Strings:
    """The table of strings of a profile; the first one is empty."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {"": 0}

    def of(self, text: str) -> int:
        return self.index.setdefault(text, len(self.index))


def _pprof(profile: Profile) -> bytes:
    strings = _Strings()
    samples = [*_samples(profile)]
    ids = {f: i for i, f in enumerate(dict.fromkeys(f for s in samples for f in s.frames), start=1)}
    kinds = [("calls", "count"), ("time", "nanoseconds")]
    types = [_number(1, strings.of(what)) + _number(2, strings.of(unit)) for what, unit in kinds]
    body = [_bytes(1, t) for t in types]
    for s in samples:
        inner_first = [ids[f] for f in reversed(s.frames)]
        body.append(_bytes(2, _packed(1, inner_first) + _packed(2, [s.calls, s.nanoseconds])))
    body += [_bytes(4, _location(ids[f], f)) for f in ids]
    body += [_bytes(5, _function(ids[f], f, strings)) for f in ids]
    body += [_bytes(6, text.encode(errors="replace")) for text in strings.index]
    body += [_number(10, sum(s.nanoseconds for s in samples)), _bytes(11, types[1])]
    return gzip.compress(b"".join(body), mtime=0)


def _location(number: int, frame: _Frame) -> bytes:
    line = _number(1, number) + _number(2, frame.line)
    return _number(1, number) + _bytes(4, line)


def _function(number: int, frame: _Frame, strings: _Strings) -> bytes:
    name = strings.of(frame.name)
    found = _number(1, number) + _number(2, name) + _number(3, name)
    return found + _number(4, strings.of(frame.file)) + _number(5, frame.line)


# A name that ends in `.speedscope.json` also ends in `.json`: the longer ending comes first.
_WRITERS = {".speedscope.json": _speedscope, ".json": _chrome, ".pb.gz": _pprof, ".folded": _folded}
ENDINGS: Sequence[str] = (*_WRITERS,)
