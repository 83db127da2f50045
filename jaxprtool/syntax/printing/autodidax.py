"""Programs to text in the layout of the Autodidax tutorial."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jaxprtool.core.stack import run_nested
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.syntax.autodidax import SpelledList, predicates, to_autodidax
from jaxprtool.syntax.params import format_value
from jaxprtool.syntax.printing.printer import Printer
from jaxprtool.syntax.types import scalar_text

__all__ = ["format_autodidax"]


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class _Out(list[str]):
    """The pieces of the text so far.

    Attributes:
      lossless: whether nothing may be lost.
      inside: the jaxprs that are written in JAX's notation.
    """

    def __init__(self, program: ClosedJaxpr, lossless: bool):
        super().__init__()
        self.lossless, self.inside = lossless, list[ClosedJaxpr]()
        self._program, self._printer = program, None

    @property
    def printer(self) -> Printer:
        """The printer of the program in JAX's notation, with nothing left out."""
        if self._printer is None:
            self._printer = Printer(self._program, True, 80, renamed=True)
        return self._printer

    def jaxpr_text(self, closed: ClosedJaxpr) -> str:
        """Return a jaxpr inside a value, in JAX's notation, with names of its own; the name of a defined one."""
        self.inside.append(closed)
        name = self.printer.shared.get(closed.jaxpr)
        return name if name is not None else self._alone(closed).text()

    def definitions(self) -> str:
        """Return the definitions to which the jaxprs inside values refer, each with names of its own."""
        if not self.inside:
            return ""
        seen, todo = set[Jaxpr](), [closed.jaxpr for closed in self.inside]
        while todo:
            jaxpr = todo.pop()
            if jaxpr not in seen:
                seen.add(jaxpr)
                todo += [closed.jaxpr for closed in _held(jaxpr)]
        pieces: list[str] = []
        for jaxpr, name in self.printer.definitions.items():
            if jaxpr in seen:
                alone = self._alone(self.printer.closed[jaxpr])
                alone.write_definition(jaxpr, name)
                pieces += alone.out
        return "".join(pieces)

    def _alone(self, closed: ClosedJaxpr) -> Printer:
        """Return the printer of a jaxpr by itself.

        It knows only the definitions to which the jaxpr refers, since there may be many others.
        """
        whole = self.printer
        used, todo = dict[Jaxpr, str](), [closed.jaxpr]
        while todo:
            for c in _held(todo.pop()):
                name = whole.shared.get(c.jaxpr)
                if name is None:
                    todo.append(c.jaxpr)
                else:
                    used[c.jaxpr] = name
        found = Printer(closed, True, 80, True, outer=used, dialect=whole.dialect)
        found.defined = whole.defined
        return found


def _held(jaxpr: Jaxpr) -> list[ClosedJaxpr]:
    """Return the jaxprs that the equations of a jaxpr hold, also inside of records, which the
    printer does not search.
    """
    return [closed for eqn in jaxpr.eqns for closed in sub_jaxprs(eqn)]


def format_autodidax(program: ClosedJaxpr, lossless: bool) -> str:
    """Return the tutorial's print of a program; constants become leading arguments.

    Jaxprs that the tutorial's notation has no place for, those in params of primitives it does not
    know, are printed in JAX's notation; such jaxprs that occur more than once are defined above the
    program. Names of calls, which the tutorial does not have either, are printed with `lossless`.
    """
    out = _Out(program, lossless)
    run_nested(_jaxpr(program.jaxpr, 0, out))
    return out.definitions() + "".join(out)


def _fresh_names() -> Iterator[str]:
    """a .. z, then permutations of two letters, of three, ..."""
    for length in itertools.count(1):
        for letters in itertools.permutations(_LETTERS, length):
            yield "".join(letters)


def _names(jaxpr: Jaxpr, skipped: Mapping[Atom, Atom]) -> dict[Var, str]:
    """Return the source's names where each variable has a name of its own, else the tutorial's."""
    results = (v for eqn in jaxpr.eqns for v in eqn.out_binders)
    bound = [*jaxpr.all_binders, *(v for v in results if v not in skipped)]
    given = [v.name for v in bound if v.name not in (None, "_")]
    if len({*given}) == len(bound):
        return dict(zip(bound, given, strict=True))
    return dict(zip(bound, _fresh_names(), strict=False))


def _jaxpr(jaxpr: Jaxpr, column: int, out: _Out) -> Iterator[Iterator[Any]]:
    """Write a jaxpr that starts at `column`; yield the writers of jaxprs under equations."""
    skipped = predicates(jaxpr)
    names = _names(jaxpr, skipped)

    def atom(x: Atom) -> str:
        if isinstance(x, Lit):
            return scalar_text(x.val, getattr(x.aval, "dtype", None))
        return names[x] if x in names else atom(skipped[x])

    binders = ", ".join([f"{names[v]}:{_type(v.aval)}" for v in jaxpr.all_binders])
    newline = "\n" + " " * (column + 2)
    out.append(f"{{ lambda {binders} .{newline}let ")
    first = True
    for eqn in jaxpr.eqns:
        if len(eqn.out_binders) == 1 and eqn.out_binders[0] in skipped:
            continue
        if not first:
            out.append(newline + "    ")
        first = False
        inner = _equation(eqn, column + 6, names, atom, out)
        for closed in inner:
            out.append("\n" + " " * (column + 8))
            yield _jaxpr(closed.jaxpr, column + 8, out)
    out.append(f"{newline}in ( {', '.join([atom(x) for x in jaxpr.outs])} ) }}")


def _equation(
    eqn: JaxprEqn, column: int, names: dict[Var, str], atom: Callable[[Atom], str], out: _Out
) -> list[ClosedJaxpr]:
    """Write one equation; return the jaxprs that go under it."""
    name, params, inputs, inner = to_autodidax(eqn, out.lossless)
    head = " ".join([f"{names[v]}:{_type(v.aval)}" for v in eqn.out_binders])
    text = f"{head} = {name} "
    if params:
        pad = "\n" + " " * (column + len(text) + 2)
        text += f"[ {pad.join([f'{k}={_value(v, out)}' for k, v in params])} ] "
    out.append(text + " ".join(map(atom, inputs)))
    return inner


def _type(aval: Any) -> str:
    """`float64[2,3]`."""
    if not isinstance(aval, ShapedArray):
        return str(aval)
    return aval.str_short()


def _value(value: Any, out: _Out) -> str:
    return format_value(list(value) if isinstance(value, SpelledList) else value, out.jaxpr_text)
