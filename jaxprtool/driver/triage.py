"""triage: find the stage at which two programs begin to differ, or the outputs of two installations
for the same programs.

The outputs of an installation are a folder that JAX and XLA have written to:

    JAX_DUMP_IR_TO=DIR JAX_DUMP_IR_MODES=jaxpr,stablehlo XLA_FLAGS=--xla_dump_to=DIR python train.py

or one with files named `NAME.jaxpr`, `NAME.mlir` and `NAME.hlo`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.stages import (
    Buffers,
    buffers_of,
    operations_that_differ,
    same_hlo,
    same_stablehlo,
)
from jaxprtool.analyses.triage_answer import STAGES, Stage, Triage, Triaged
from jaxprtool.driver.compile import compile_located
from jaxprtool.driver.diff import diff
from jaxprtool.driver.projects.changed import DIFFERENT, PRINTER, kind_of_change
from jaxprtool.driver.storage.files import decode, load, read_bytes
from jaxprtool.driver.verify import prepared
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["triage", "triage_folders"]

Programs = dict[str, ClosedJaxpr]


def triage(a: ClosedJaxpr, b: ClosedJaxpr, name: str = "") -> Triage:
    """Compare two programs stage by stage, as this installation lowers and compiles them.

    A stage that a program does not reach (there is no rule, it is too large, it has too many
    devices) is unknown.

    Raises:
      JaxprTypeError: a program is ill-typed.
      UsageError: a file with constants of a program cannot be read; jaxlib is not installed.
    """
    from jaxprtool.backends import installed  # noqa: PLC0415 (gateway: jaxlib)

    installed.need("jaxlib")
    a, b = (prepared(p) for p in (a, b))
    stages = [_jaxprs({"": a}, {"": b})]
    texts = [_tried(lambda p=p: _lowered(p)) for p in (a, b)]
    stages.append(_texts(STAGES[1], texts, same_stablehlo, is_hlo=False))
    del texts
    compiled = [_tried(lambda p=p: _compiled(p)) for p in (a, b)]
    optimised = [c if isinstance(c, JaxprToolError) else c[0] for c in compiled]
    stages.append(_texts(STAGES[2], optimised, same_hlo, is_hlo=True))
    both = [c if isinstance(c, JaxprToolError) else c[1] for c in compiled]
    stages.append(_sizes(both))
    return Triage([Triaged(name, stages)])


def _lowered(program: ClosedJaxpr) -> str:
    """Return StableHLO that says which results share memory with arguments, as JAX's does."""
    lowered = lower_jaxpr(program)
    return str(lower_jaxpr(program, donate=True) if lowered.devices == 1 else lowered)


def _compiled(program: ClosedJaxpr) -> tuple[str, Buffers]:
    """Return the optimised HLO, and the buffers; the executable is freed, since a large one has
    more than a gigabyte.
    """
    compiled = compile_located(program, donate=True)
    return compiled.as_text(), _buffers(compiled)


def _tried(f: Callable[[], Any]) -> Any:
    """Return the result of a function, or the error that it raises, which says why a stage is not known."""
    try:
        return f()
    except JaxprToolError as e:
        return e


def _buffers(compiled: Any) -> Buffers:
    m = compiled.memory_analysis()
    return Buffers(m.arguments, m.results, compiled.alias_bytes(), m.temporaries)


# -- stages -------------------------------------------------------------------------------------------


def _jaxprs(a: Programs, b: Programs) -> Stage:
    kind = kind_of_change(a, b)
    if kind.word == PRINTER:
        return Stage(STAGES[0], "equal")
    found = diff(a, b, "A", "B")
    note = kind.note or (found.summary if kind.word == DIFFERENT else "")
    note = note if kind.word == DIFFERENT else "; ".join(filter(None, [kind.word, note]))
    return Stage(STAGES[0], "different", note, lines=found.lines)


def _texts(
    name: str, both: Sequence[Any], same: Callable[[str, str], bool], *, is_hlo: bool
) -> Stage:
    for side, found in zip("AB", both, strict=True):
        if isinstance(found, JaxprToolError):
            return Stage(name, "unknown", f"{side}: {found.diagnostics[0].message}")
    a, b = both
    if same(a, b):
        return Stage(name, "equal")
    return Stage(name, "different", operations_that_differ(a, b, is_hlo=is_hlo))


def _sizes(both: Sequence[Any]) -> Stage:
    for side, found in zip("AB", both, strict=True):
        if isinstance(found, JaxprToolError):
            return Stage(STAGES[3], "unknown", f"{side}: {found.diagnostics[0].message}")
    a, b = both
    if a == b:
        return Stage(STAGES[3], "equal", f"{a.total:,} bytes", (a, b))
    change = b.total - a.total
    note = f"{a.total:,} bytes -> {b.total:,} bytes ({change:+,})"
    return Stage(STAGES[3], "different", note, (a, b))


# -- folders ------------------------------------------------------------------------------------------

# The files of each stage, whose name has a group for that of the program; the first kind is numbered in the order of compilation.
_FILES = (
    (STAGES[0], re.compile(r"jax_(?P<n>\d+)_(?P<name>.*)\.jaxpr\.txt")),
    (STAGES[0], re.compile(r"(?P<name>.*)\.jaxpr(?:\.txt)?")),
    (STAGES[1], re.compile(r"jax_ir(?P<n>\d+)_(?P<name>.*)_compile\.mlir")),
    (STAGES[1], re.compile(r"(?!module_\d)(?P<name>.*)\.mlir")),
    (STAGES[2], re.compile(r"module_(?P<n>\d+)\.(?P<name>.*?)\.[\w.]*after_optimizations\.txt")),
    (STAGES[2], re.compile(r"(?P<name>.*)\.hlo(?:\.txt)?")),
    (
        STAGES[3],
        re.compile(
            r"module_(?P<n>\d+)\.(?P<name>.*?)\.[\w.]*after_optimizations-buffer-assignment\.txt"
        ),
    ),
)
_PREFIX = re.compile(r"^(?:jit|pjit|pmap)_(?=.)")
_UNUSUAL = re.compile(r"\W")


class Output(NamedTuple):
    """A file of a folder: its stage, the number and the name of the program, and its path."""

    stage: str
    number: int
    name: str
    path: str


def triage_folders(a: str, b: str) -> Triage:
    """Compare the outputs of two installations, program by program and stage by stage.

    Of several programs with one name the first of one folder is compared with the first of the
    other.

    Raises:
      UsageError: a folder cannot be read, or holds no outputs.
    """
    sides = [_outputs(folder) for folder in (a, b)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    found = [_folders(name, *(side[name] for side in sides)) for name in names if all(name in s for s in sides)]  # fmt: skip
    only_a, only_b = ([n for n in names if n not in side] for side in sides[::-1])
    return Triage(found, only_a, only_b)


def _outputs(folder: str) -> dict[str, dict[str, str]]:
    """Return the files of a folder: for each program its stages, and the file of each."""
    try:
        files = sorted(os.listdir(folder))
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        fail(UsageError, f"cannot read {folder}: {reason}", "unreadable-file")
    every = sorted(filter(None, (_output(folder, file) for file in files)))
    if not every:
        help = "JAX_DUMP_IR_TO=DIR JAX_DUMP_IR_MODES=jaxpr,stablehlo XLA_FLAGS=--xla_dump_to=DIR makes one"
        message = f"{folder} holds no jaxpr, no StableHLO and no HLO"
        fail(UsageError, message, "no-outputs", help=help)
    count: Counter[tuple[str, str]] = Counter()
    found: dict[str, dict[str, str]] = {}
    for output in every:
        count[output[:1] + output[2:3]] += 1
        k = count[output[:1] + output[2:3]]
        name = output.name if k == 1 else f"{output.name} {k}"
        found.setdefault(name, {})[output.stage] = output.path
    return found


def _output(folder: str, file: str) -> Output | None:
    for stage, pattern in _FILES:
        m = pattern.fullmatch(file)
        if m is not None:
            number = int(m.groupdict().get("n") or 0)
            name = _UNUSUAL.sub("_", _PREFIX.sub("", m["name"]))
            return Output(stage, number, name, os.path.join(folder, file))
    return None


def _folders(name: str, a: Mapping[str, str], b: Mapping[str, str]) -> Triaged:
    """Return the stages of one program in both folders."""
    stages: list[Stage] = []
    for stage in STAGES:
        if stage not in a or stage not in b:
            missing = [side for side, files in (("A", a), ("B", b)) if stage not in files]
            if len(missing) == 1:
                stages.append(Stage(stage, "unknown", f"{missing[0]} has none"))
            continue
        texts = [decode(*read_bytes(files[stage])) for files in (a, b)]
        stages.append(_compared(stage, texts, (a[stage], b[stage])))
    return Triaged(name, stages)


def _compared(stage: str, texts: Sequence[str], paths: Sequence[str]) -> Stage:
    if stage == STAGES[0]:
        both = [_tried(lambda t=t, p=p: load(t, p)) for t, p in zip(texts, paths, strict=True)]
        for side, found in zip("AB", both, strict=True):
            if isinstance(found, JaxprToolError):
                return Stage(stage, "unknown", f"{side}: {found.diagnostics[0].message}")
        return _jaxprs(*both)
    if stage != STAGES[3]:
        is_hlo = stage == STAGES[2]
        return _texts(stage, texts, same_hlo if is_hlo else same_stablehlo, is_hlo=is_hlo)
    try:
        return _sizes([buffers_of(text) for text in texts])
    except ValueError as e:
        return Stage(stage, "unknown", str(e))
