"""Constants in an `.npz` file beside the text of a program, and constants that are given separately
from the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from jaxprtool.core.trace import words_of_key
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import map_programs, sub_jaxprs
from jaxprtool.syntax.consts import ArrayBytes, ArrayRef, is_large
from jaxprtool.syntax.patterns import pattern

__all__ = [
    "Beside",
    "anchor",
    "beside",
    "has_references",
    "inline",
    "load_constants",
    "references",
    "with_consts",
]


_UNUSUAL = pattern(r"[^\w.+=@,-]")  # in the name of a file that a program refers to


def _all_programs(program: ClosedJaxpr) -> Iterator[ClosedJaxpr]:
    """A program and those nested in it, each object once, in the order of the text."""
    seen: set[int] = set()
    pending = [program]
    while pending:
        current = pending.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            inner = [closed for eqn in current.eqns for closed in sub_jaxprs(eqn)]
            pending.extend(reversed(inner))


def _map_constants(program: ClosedJaxpr, f: Callable[[Var, Value], Value]) -> ClosedJaxpr:
    """The program with `f(binder, value)` as the value of each constant, those of inner jaxprs too."""

    def changed(closed: ClosedJaxpr) -> ClosedJaxpr:
        consts = [*map(f, closed.jaxpr.const_binders, closed.consts)]
        same = all(a is b for a, b in zip(consts, closed.consts, strict=True))
        return closed if same else closed.replace(consts=consts)

    return map_programs(program, changed)


def anchor(program: ClosedJaxpr, folder: str, allowed: Sequence[str] = ()) -> ClosedJaxpr:
    """Return the program with absolute names of `.npz` files, which stay valid wherever it is written next.

    Args:
      program: a program just read.
      folder: the folder of its text, to which the names are relative.
      allowed: other folders that files may be in.

    Raises:
      UsageError: a file is in none of the folders.
    """

    def absolute(_: Var, c: Value) -> Value:
        if not isinstance(c, ArrayRef):
            return c
        if "\0" in c.file:
            fail(UsageError, f"no file can have the name in {c}", "npz-path")
        path = os.path.realpath(os.path.join(folder, c.file))
        if not any(_is_below(path, f) for f in (folder, *allowed)):
            _outside(c, path)
        return c.at(path)

    return _map_constants(program, absolute) if has_references(program) else program


def _is_below(path: str, folder: str) -> bool:
    root = os.path.realpath(folder or ".")
    return os.path.commonpath([path, root]) == root


def _outside(ref: ArrayRef, path: str) -> None:
    fail(
        UsageError,
        f"{ref} is not below the folder of the program",
        "npz-path",
        help=f"--allow-path {os.path.dirname(path)} lets the program read there",
    )


def has_references(program: ClosedJaxpr) -> bool:
    """Whether a constant of the program, or of a jaxpr in it, is in an `.npz` file."""
    return any(
        isinstance(c, ArrayRef) for current in _all_programs(program) for c in current.consts
    )


def references(program: ClosedJaxpr) -> set[str]:
    """The `.npz` files that hold constants of the program."""
    values = (c for current in _all_programs(program) for c in current.consts)
    return {c.file for c in values if isinstance(c, ArrayRef)}


def load_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program, with arrays in place of references to `.npz` files and of bytes.

    Raises:
      UsageError: a file is missing or is no `.npz` file, has no such array, or one of another type.
    """

    def loaded(v: Var, c: Value) -> Value:
        return _loaded(c, v) if isinstance(c, (ArrayRef, ArrayBytes)) else c

    kinds = (ArrayRef, ArrayBytes)
    if not any(isinstance(c, kinds) for p in _all_programs(program) for c in p.consts):
        return program
    return _LOADED.of(program, lambda: _map_constants(program, loaded))


_LOADED = Memo[ClosedJaxpr]("constants loaded")


def _loaded(value: ArrayRef | ArrayBytes, v: Var) -> Value:
    if isinstance(value, ArrayRef):
        if not os.path.lexists(value.file):
            help = "npz(...) names a file from the folder of the text; that of standard input is the current one"
            fail(
                UsageError,
                f"cannot read {value.file}: there is no such file",
                "unreadable-file",
                help=help,
            )
        from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

        return arrays.load_member(value.file, value.key, v)
    from jaxprtool.backends import numpy_eval  # noqa: PLC0415 (gateway: NumPy)

    return numpy_eval.value(value)


# ---- writing


class Beside(NamedTuple):
    """How the constants of programs are written: their form in the text, and a file beside it.

    Attributes:
      placed: returns what is written for the value of a constant, as for `format_file`.
      path: the path of the `.npz` file; "" where none is needed.
      data: its bytes.
    """

    placed: Callable[[Value], Value]
    path: str = ""
    data: bytes = b""


def inline(programs: Mapping[str, ClosedJaxpr]) -> Beside:
    """Write all constants in the text; constants in `.npz` files are loaded for it."""
    binders = {id(c): v for v, c in _constants(programs) if isinstance(c, ArrayRef)}

    def placed(c: Value) -> Value:
        return _loaded(c, binders[id(c)]) if isinstance(c, ArrayRef) else c

    return Beside(placed)


def beside(
    programs: Mapping[str, ClosedJaxpr],
    output: str,
    path: str = "",
    moved: Callable[[Value], bool] = is_large,
) -> Beside:
    """Put large constants in an `.npz` file beside the text, the others in the text.

    Args:
      programs: the programs to write.
      output: the file of the text. References to files below its folder stay references.
      path: the `.npz` file; "" for a name made of the text's name and of the contents.
      moved: whether a constant is moved from the text into the file.

    Raises:
      UsageError: a file that a program refers to cannot be read.
    """
    folder = os.path.dirname(os.path.realpath(output))
    from hashlib import sha256  # noqa: PLC0415 (5 ms, and only what writes files needs it)

    keys: dict[int, str] = {}
    binders: dict[int, Var] = {}
    arrays: dict[str, Any] = {}
    same: dict[tuple[str, bytes], str] = {}
    refs: dict[int, ArrayRef] = {}
    for v, c in _constants(programs):
        if id(c) in keys or id(c) in refs:
            continue
        if isinstance(c, ArrayRef) and _is_below(c.file, folder):
            refs[id(c)] = c.at(_written(os.path.relpath(c.file, folder)))
        elif isinstance(c, ArrayRef) or moved(c):
            value = words_of_key(_loaded(c, v) if isinstance(c, (ArrayRef, ArrayBytes)) else c)
            digest = sha256(value.tobytes()).digest()
            key = same.setdefault((str(v.aval.strong), digest), f"c{len(arrays)}")
            keys[id(c)], binders[id(c)], arrays[key] = key, v, value

    def placed(c: Value) -> Value:
        return refs.get(id(c), c)

    if not arrays:
        return Beside(placed)
    from jaxprtool.backends.npz import npz_bytes  # noqa: PLC0415 (gateway: NumPy)

    data = npz_bytes(arrays)
    if not path:
        stem = _UNUSUAL.sub("_", os.path.basename(output).removesuffix(".jaxpr"))
        path = os.path.join(folder, f"{stem}-{sha256(data).hexdigest()[:12]}.npz")
    name = os.path.relpath(os.path.realpath(path), folder)
    refs.update(
        {
            i: ArrayRef(_written(name), keys[i], v.aval.shape, v.aval.dtype)
            for i, v in binders.items()
        }
    )
    return Beside(placed, path, data)


def _written(name: str) -> str:
    """Return the name of a file as it is spelled in a text.

    Raises UsageError for one that cannot be.
    """
    if not name.isprintable() or '"' in name:
        fail(UsageError, f"a program cannot refer to a file of the name {name!r}", "npz-path")
    return name


def _constants(programs: Mapping[str, ClosedJaxpr]) -> Iterator[tuple[Var, Value]]:
    """Return the constants with a value of programs and of all jaxprs in them, with their binders."""
    for program in programs.values():
        for current in _all_programs(program):
            for v, c in zip(current.jaxpr.const_binders, current.consts, strict=False):
                if c is not None:
                    yield v, c


# ---- values that are given


def with_consts(
    program: ClosedJaxpr, values: Mapping[str, Value] | Sequence[Value] | str
) -> ClosedJaxpr:
    """Give values to constants that a program's text lacks, also in inner jaxprs; logs drop such values.

    Args:
      program: the program as it was read. Constants have the names in its text.
      values: arrays of the constants' types by name, or the path of an `.npz` file that has some of
        them. A name that the constants of several inner jaxprs share gives its value to each of
        them. A sequence, as JAX's `consts`, has the values of the program's own constants, in their
        order.

    Returns:
      The program with these values.

    Raises:
      UsageError: no constant without a value has a name that is given, or none has one of those in
        the file; a sequence has another length; a type is another; the file cannot be read.
    """
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    if not isinstance(values, (str, Mapping)):
        return _with_own_consts(program, values)
    path = values if isinstance(values, str) else ""
    given: Mapping[str, Value] = {} if isinstance(values, str) else values
    names = arrays.member_names(path) if path else set(given)
    missing = [
        v.name or "_"
        for p in _all_programs(program)
        for v, c in zip(p.jaxpr.const_binders, p.consts, strict=True)
        if c is None
    ]

    def value(v: Var, c: Value) -> Value:
        name = v.name or "_"
        if c is not None or name not in names:
            return c
        return arrays.load_member(path, name, v) if path else arrays.constant(given[name], v)

    changed = _map_constants(program, value)
    unknown = names.difference(missing)
    if unknown and (len(unknown) == len(names) or not path):
        _no_such_constant(sorted(unknown), missing)
    return changed


def _with_own_consts(program: ClosedJaxpr, values: Any) -> ClosedJaxpr:
    """The program with values of its own constants, in their order."""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    binders = program.jaxpr.const_binders
    help = "values by name, or one for each constant"
    if not isinstance(values, Sequence):
        message = f"values of constants: a mapping, a sequence or the path of a file is needed, not {type(values).__name__}"
        fail(UsageError, message, "constant-count", help=help)
    given = cast("Sequence[Value]", values)
    if len(given) != len(binders):
        message = f"{counted(len(given), 'value')} for {counted(len(binders), 'constant')}"
        fail(UsageError, message, "constant-count", help=help)
    consts = [arrays.constant(c, v) for c, v in zip(given, binders, strict=True)]
    return program.replace(consts=consts)


def _no_such_constant(names: Sequence[str], missing: Sequence[str]) -> None:
    needed = ", ".join(dict.fromkeys(missing))
    help = f"those without a value are {needed}" if missing else "each of its constants has a value"
    message = f"no constant without a value is called {', '.join(names)}"
    fail(UsageError, message, "no-such-constant", help=help)
