"""Record values of a run as they are computed: print them, save them to a folder, or write digests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jaxprtool.analyses.answer import json_number
from jaxprtool.analyses.levels import MOST, all_levels
from jaxprtool.analyses.places import Place
from jaxprtool.analyses.recording import (
    ALL,
    HOW_TO_SELECT,
    Record,
    Recorder,
    Selection,
    selection_of,
)
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.interpreters.evaluation.observe import Observer
from jaxprtool.interpreters.evaluation.state_values import Cell, Token
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.synonyms import close_names
from jaxprtool.ir.walk import all_eqns

__all__ = ["INDEX", "Recording", "digest_lines", "digests", "literals_of", "recorded", "recording"]

INDEX = "index.json"


class Recording(NamedTuple):
    """What is recorded of a run.

    Attributes:
      variables: the variables whose values are printed, by their names in the text.
      folder: where every intermediate is saved, or "".
      digests: whether a line of JSON is written for each equation.
      selection: the equations to record.
      every: save every n-th step of a loop, besides the first and the last; 0: no others.
      max_bytes: how much is saved at most.
    """

    variables: tuple[str, ...] = ()
    folder: str = ""
    digests: bool = False
    selection: Selection = ALL
    every: int = 0
    max_bytes: int | None = None


def recording(
    variables: str | None,
    save_values: str | None,
    digest: bool,
    select: str | None,
    every: int | None,
    max_bytes: int | None,
) -> Recording:
    """Return the recording that the options of `run` describe, as words.

    Raises:
      UsageError: one of them has no meaning.
    """
    names = tuple(filter(None, (name.strip() for name in (variables or "").split(","))))
    selection = selection_of(select or "")
    _check_words("--print", variables, names, "names of variables: --print a,b")
    _check_words("--save-values", save_values, save_values, "a folder: --save-values values")
    _check_words("--select", select, selection != ALL, HOW_TO_SELECT)
    return Recording(names, save_values or "", digest, selection, every or 0, max_bytes)


def _check_words(option: str, given: str | None, said: object, help: str) -> None:
    if given is not None and not said:
        fail(UsageError, f"{option} {given!r} says nothing", "bad-value", help=help)


@contextmanager
def recorded(
    what: Recording,
    program: ClosedJaxpr,
    write: Callable[[str], None],
    echo: Callable[[str], None],
    warn: Callable[[str], None],
    name: str = "",
) -> Generator[Observer]:
    """Record a run that takes place in the block, with the observer that is yielded.

    Args:
      what: what is recorded.
      program: the program, whose equations have places.
      write: takes a line of JSON.
      echo: prints a line for people.
      warn: prints a warning: that not everything was saved.
      name: the name of the program.

    Raises:
      UsageError: there is no variable of a name, or no equation that is selected; the folder cannot
        be written, or holds other things.
    """
    names = variable_names(program) if what.variables or what.folder else {}
    _check_selection(what.selection, program)
    takers: list[Callable[[Record], None]] = []
    only: frozenset[JaxprEqn] | None = None
    if what.variables:
        binding = _BINDING.of(program, lambda: _binding(names, program))
        _check_variables(what.variables, binding)
        only = frozenset([eqn for name in what.variables for eqn in binding[name]])
        takers.append(lambda r: _print(r, what.variables, names, echo))
    if what.digests:
        digested = digest_lines()
        takers.append(lambda r: write(json.dumps(digested(r))))
    saved = _Folder(what, names) if what.folder else None
    if saved is not None:
        takers.append(saved.take)

    taken, unseen = False, dict.fromkeys(what.variables)

    def take(record: Record) -> None:
        nonlocal taken
        taken = True
        for v in record.place.eqn.out_binders if unseen else ():
            unseen.pop(names.get(v, ""), None)
        for taker in takers:
            taker(record)

    try:
        everything = bool(what.folder) or what.digests
        yield Recorder(take, what.selection, what.every, None if everything else only)
        if program.eqns and (unseen or not taken):
            warn(_not_recorded([*unseen] if taken else []))
    finally:
        if saved is not None:
            saved.close(name, warn)


def digests() -> Any:
    """Return the module with the functions that compute hashes and digests of arrays."""
    from jaxprtool.backends import digests as found  # noqa: PLC0415 (gateway: NumPy)

    return found


def literals_of(record: Record) -> list[int]:
    """The positions of the operands of an equation that are literals."""
    return [i for i, x in enumerate(record.place.eqn.inputs) if isinstance(x, Lit)]


def digest_lines() -> Callable[[Record], dict[str, Any]]:
    """Return a function that converts records to lines without their values.

    They have the keys key, place, ins (hashes), literals (which of these), and outs (type, hash,
    norm, min, max, nans, infs).
    """
    hashes, digest = digests().Hashes(), digests().digest

    def line(record: Record) -> dict[str, Any]:
        ins = [hashes.of(x) for x in record.ins]
        outs = [digest(x) for x in record.outs]
        for x, out in zip(record.outs, outs, strict=True):
            hashes.keep(x, out["hash"])
        return {
            "key": record.key,
            "place": record.place.json(),
            "ins": ins,
            "literals": literals_of(record),
            "outs": [{k: json_number(x) for k, x in out.items()} for out in outs],
        }

    return line


def _not_recorded(names: Sequence[str]) -> str:
    """The message that nothing is recorded of variables with these names; without names, of the program."""
    what = f"{', '.join(names)}: not recorded" if names else "nothing is recorded"
    return (
        f"{what}: no such equation ran, or only in steps of loops that are not kept "
        "(the first and the last are; --every N keeps more)"
    )


# -- names of variables ------------------------------------------------------------------------------


def variable_names(program: ClosedJaxpr) -> dict[Var, str]:
    """Return the name of each variable that an equation binds, at any depth; a traced program gets
    them from `with_places`.
    """
    bound = (v for eqn in all_eqns(program.jaxpr) for v in eqn.out_binders)
    return {v: v.name for v in bound if v.name}


def _check_variables(wanted: Sequence[str], known: Mapping[str, Any]) -> None:
    for name in wanted:
        if name not in known:
            near = close_names(name, sorted(known))
            help = f"did you mean {near[0]}?" if near else ""
            message = f"--print {name}: no equation of the program binds a variable of this name"
            fail(UsageError, message, "no-variable", help=help)


def _check_selection(selection: Selection, program: ClosedJaxpr) -> None:
    """Refuse an empty selection: recording nothing would still delete an earlier run's values."""
    if selection == ALL:
        return
    names, looked_at = set[str](), 0
    for eqn, level in all_levels(program):
        if selection.takes(Place(eqn, level.path())):
            return
        looked_at += 1
        names.add(eqn.primitive.name)
    if looked_at >= MOST:  # the other equations were not examined
        return
    held, wanted = sorted(names), [x for x in selection.primitives if x not in names]
    near = [found for x in wanted for found in close_names(x, held)]
    message = f"--select {str(selection)!r}: the program has no such equation"
    fail(UsageError, message, "bad-value", help=f"did you mean {near[0]}?" if near else "")


def _binding(names: Mapping[Var, str], program: ClosedJaxpr) -> dict[str, list[JaxprEqn]]:
    """The equations that bind a variable of each name."""
    found: dict[str, list[JaxprEqn]] = {}
    for eqn in all_eqns(program.jaxpr):
        for v in eqn.out_binders:
            if v in names:
                found.setdefault(names[v], []).append(eqn)
    return found


_BINDING = Memo[dict[str, list[JaxprEqn]]]("equations by the names of their variables")


def _print(
    record: Record, wanted: Sequence[str], names: dict[Var, str], echo: Callable[[str], None]
) -> None:
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    for v, x in zip(record.place.eqn.out_binders, record.outs, strict=True):
        name = names.get(v)
        if name in wanted and not isinstance(x, Token):
            value = arrays.result_text(x.value if isinstance(x, Cell) else x)
            echo(f"{name}:{value}  # {record.place}")


# -- folders -----------------------------------------------------------------------------------------


class _Folder:
    """A folder of values.

    Attributes:
      left_out: the number of values that were not saved for lack of room.
    """

    def __init__(self, what: Recording, names: dict[Var, str]):
        self.folder, self.names = what.folder, names
        self.max_bytes = self.room = what.max_bytes
        self.left_out = 0
        self.values: list[dict[str, Any]] = []
        self._ins = digests().Hashes()
        _make_folder(what.folder)

    def take(self, record: Record) -> None:
        """Save the results of an equation."""
        from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

        ins, literals = [self._ins.of(x) for x in record.ins], literals_of(record)
        for k, (v, x) in enumerate(zip(record.place.eqn.out_binders, record.outs, strict=True)):
            value = x.value if isinstance(x, Cell) else x
            if isinstance(value, Token):
                continue
            file = f"{len(self.values):06d}.npy"
            data = arrays.pack([value], file, [])
            if self.room is not None:
                if len(data) > self.room:
                    self.left_out += 1
                    continue
                self.room -= len(data)
            write_output(os.path.join(self.folder, file), data)
            path = record.place.path
            steps = [step.step for step in path if step.step is not None and not step.device]
            self.values.append(
                {
                    "key": record.key,
                    "result": k,
                    "name": self.names.get(v),
                    "type": arrays.type_name(value),
                    "step": steps,
                    "file": file,
                    "place": record.place.json(),
                    "ins": ins,
                    "literals": literals,
                }
            )

    def close(self, name: str, warn: Callable[[str], None]) -> None:
        """Write the index; warn where values were left out."""
        head = {"schema": 1, "program": name, "left_out": self.left_out}
        values = ",\n".join(map(json.dumps, self.values))
        text = f'{json.dumps(head)[:-1]}, "values": [\n{values}\n]}}\n'
        write_output(os.path.join(self.folder, INDEX), text)
        if self.left_out:
            limit = f"--max-bytes {self.max_bytes:,}"
            warn(f"{self.folder}: {self.left_out} values are left out, more than {limit} holds")


def _make_folder(path: str) -> None:
    """Make an empty folder; values that an earlier run has saved there are removed."""
    try:
        os.makedirs(path, exist_ok=True)
        entries = os.listdir(path)
        ours = {INDEX, *(e for e in entries if e.endswith(".npy") and e[:-4].isdigit())}
        others = sorted({*entries} - ours)
        if others or (entries and INDEX not in entries):
            message = f"--save-values {path}: the folder holds other files ({entries[0]})"
            fail(UsageError, message, "folder", help="name a new folder, or one of an earlier run")
        for entry in entries:
            os.remove(os.path.join(path, entry))
    except OSError as e:
        fail(
            UsageError, f"--save-values {path}: {(e.strerror or str(e)).lower()}", "unwritable-file"
        )
