"""The folders that JAX writes programs to: `JAX_DUMP_IR_TO`, with `jaxpr` among `JAX_DUMP_IR_MODES`.

JAX writes a file for each function that it compiles, `jax_000003_loss.jaxpr.txt`, and by default StableHLO alone,
`jax_ir0003_jit_loss_compile.mlir`. The numbers are those of one process, in the order of compilation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from jaxprtool.driver.storage.files import decode, read_bytes, read_programs
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["programs_of_dump"]

_JAXPR = re.compile(r"jax_(\d+)_(.*)\.jaxpr\.txt", re.DOTALL)
_OTHER = (
    (re.compile(r".*\.mlir", re.DOTALL), "StableHLO"),
    (re.compile(r"jax_\d+_.*\.jaxpr\.html", re.DOTALL), "jaxprs as web pages"),
    (re.compile(r"jax_\d+_.*\.eqn_count_pprof", re.DOTALL), "counts of equations"),
)
_NO_NAME = re.compile(r"[^\w.\-]+")  # characters that are not in names of programs
_SETTING = (
    "set JAX_DUMP_IR_MODES=jaxpr beside JAX_DUMP_IR_TO (jaxpr,stablehlo for both), and run the program again; "
    "a release of JAX that does not know this writes only StableHLO: print(jax.make_jaxpr(f)(*args)) there"
)


def programs_of_dump(folder: str) -> tuple[dict[str, ClosedJaxpr], list[Diagnostic]]:
    """Return the programs in a folder that JAX has written to.

    Args:
      folder: its name.

    Returns:
      The programs by the names of the functions, in the order of compilation; of several with one
        name, the second is `name_2`. Their constants have no values. Also a warning for each that
        cannot be read.

    Raises:
      UsageError: no such folder; it holds no jaxprs.
      JaxprParseError: none of them can be read.
    """
    found: dict[str, ClosedJaxpr] = {}
    errors: list[JaxprToolError] = []
    for _, function, file in sorted(_jaxprs(folder)):
        try:
            data, name = read_bytes(os.path.join(folder, file))
            programs = read_programs(decode(data, name), name)
        except JaxprToolError as e:
            errors.append(e)
            continue
        for program in programs.values():
            found[_free_name(function, found)] = program
    if not found:
        raise errors[0]
    warnings = [
        replace(d, message=f"this jaxpr is left out: {d.message}", severity="warning")
        for d in (e.diagnostics[0] for e in errors)
    ]
    return found, warnings


def _jaxprs(folder: str) -> list[tuple[int, str, str]]:
    """The files of jaxprs in a folder: number, function and name of each.

    Raises:
      UsageError: there is no such folder, or no such file in it.
    """
    try:
        files = sorted(os.listdir(folder))
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        help = "name the folder that JAX_DUMP_IR_TO named"
        fail(UsageError, f"cannot read {folder}: {reason}", "unreadable-file", help=help)
    found = [(int(m[1]), m[2], file) for file in files if (m := _JAXPR.fullmatch(file))]
    if not found:
        what = _what_else(files)
        message = f"{folder} holds {what}, and no jaxpr" if what else f"{folder} holds no jaxpr"
        fail(UsageError, message, "no-jaxpr", help=_SETTING)
    return found


def _what_else(files: Sequence[str]) -> str:
    """Return what else of JAX's output a folder holds; "" for nothing."""
    counts = [(sum(bool(p.fullmatch(f)) for f in files), what) for p, what in _OTHER]
    return " and ".join(f"{what} ({counted(n, 'file')})" for n, what in counts if n)


def _free_name(function: str, taken: dict[str, ClosedJaxpr]) -> str:
    """Return a name for the program of a function that no other has."""
    name = function
    if _NO_NAME.search(name):  # `<lambda>`
        name = _NO_NAME.sub("_", name).strip("_") or "jaxpr"
    if name not in taken:
        return name
    count = 2
    while f"{name}_{count}" in taken:
        count += 1
    return f"{name}_{count}"
