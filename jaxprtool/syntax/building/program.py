"""The callbacks of the grammar: tokens to `Jaxpr`s, with names resolved and positions kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import cache
from typing import Any

from jaxprtool.ir.frozen import FrozenDict, amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Written
from jaxprtool.syntax.building.atoms import Atoms, Missing, Scope
from jaxprtool.syntax.building.definitions import Definitions
from jaxprtool.syntax.building.drops import Drops
from jaxprtool.syntax.building.equations import EquationCallbacks
from jaxprtool.syntax.building.jaxprs import JaxprCallbacks
from jaxprtool.syntax.building.params import ParamCallbacks, ReadInner
from jaxprtool.syntax.building.spelled import earlier_dialect, may_be_earlier
from jaxprtool.syntax.building.tuples import take_tuples_apart
from jaxprtool.syntax.building.units import take_units_out
from jaxprtool.syntax.building.unread import stand_in_for_unread
from jaxprtool.syntax.building.written_out import WrittenOut
from jaxprtool.syntax.errors import Errors
from jaxprtool.syntax.infer import infer_literals
from jaxprtool.syntax.inference.open_programs import infer_types
from jaxprtool.syntax.releases.dialects import Dialect, recognised
from jaxprtool.syntax.releases.earlier_types import NUMPYS
from jaxprtool.syntax.releases.source_release import source_release
from jaxprtool.syntax.releases.spellings import DEFINITIONS
from jaxprtool.syntax.scanning.interface import InterfaceCallbacks
from jaxprtool.syntax.scanning.reading import Reading
from jaxprtool.syntax.tokens import Token

__all__ = ["Builder"]


class Builder:
    """Builds the IR from reductions: programs itself, their parts with callbacks of other classes.

    One builder reads one text.

    Attributes:
      errors: the errors found so far.
      places: equations by the offsets of their primitives' names, where the text has annotations.
      left_out: what the programs read so far leave out.
    """

    def __init__(
        self,
        reading: Reading,
        read_inner: ReadInner,
        depth: int = 0,
        outer: Definitions | None = None,
        annotated: bool = False,
        words: Set[str] = frozenset(),
    ):
        self.reading = reading
        source = self.source = reading.source
        comments = self.comments = reading.comments
        errors = self.errors = Errors(source)
        own: set[str] = set()
        if reading.names:
            own.update(t[1] for t in reading.tokens if t[0] == "LET")
        self.depth, self.definitions = depth, Definitions(source, own, outer, words)
        lone = bool(reading.tokens) and reading.tokens[0][0] in ("EQUATION", "REFERENCE")
        atoms = self.atoms = Atoms(errors, reading.autodidax, lone)
        self.left_out = Missing()
        drops = self.drops = Drops()
        params = ParamCallbacks(reading, read_inner, depth, self.definitions, errors, atoms)
        equations = EquationCallbacks(errors, atoms, drops, comments, params, annotated)
        jaxprs = JaxprCallbacks(errors, atoms, drops, comments)
        self.places = equations.places
        self._parts = (self, jaxprs, equations, params, InterfaceCallbacks(errors, comments))
        if lone:
            atoms.scopes.append(Scope(0))

    def callbacks(self) -> dict[str, Callable[..., Any]]:
        """Return the methods that build, by the name that the grammar has for each rule."""
        return {
            name[3:]: getattr(part, name) for part in self._parts for name in _methods(type(part))
        }

    def finish(self, programs: dict[str, ClosedJaxpr]) -> None:
        """Give comments at the end to the last program, record the dialect, and raise all errors found."""
        for closed in list(programs.values())[-1:]:
            self.comments.give(closed, len(self.source.text), "end")
        shared = self._share_definitions(programs.values())
        dialect = self._dialect(programs.values()).name
        for closed in programs.values():
            written = closed.jaxpr.written or Written(FrozenDict())
            later = closed in shared
            amend(closed.jaxpr, written=written._replace(dialect=dialect, later_written_out=later))
        self.errors.forgive(self.reading.names)
        self.errors.raise_all(programs)
        self.drops.finish(programs.values())

    def _dialect(self, programs: Iterable[ClosedJaxpr]) -> Dialect:
        """Return the dialect of the text."""
        found, left_out = None, self.left_out
        # JAX had two blanks there, `{ lambda  ; a.`; who writes by hand may break a line after the dot.
        text = self.reading.dedented
        printed = not text.startswith("{ lambda ;", text.find("{ lambda"))
        classic = printed and self.reading.classic and not self.reading.below
        told = classic or left_out.literals or left_out.earlier or may_be_earlier(self.reading)
        if told and (classic or not left_out.binders) and not self.reading.autodidax:
            given = source_release()
            if not given:
                found = earlier_dialect(self.reading, left_out.literals, programs)
        if found is not None:
            return found
        if left_out.digits:
            self.reading.told.update((("since", NUMPYS[0]), ("before", NUMPYS[1])))
        return recognised(self.reading.dedented, self.reading.told)

    def _share_definitions(self, programs: Iterable[ClosedJaxpr]) -> set[ClosedJaxpr]:
        """Replace jaxprs that are copies of later definitions by these; return the programs with such copies."""
        found: set[ClosedJaxpr] = set()
        for closed in programs:
            written = closed.jaxpr.written
            if written is None or len(written.definitions) < 2 or self.errors:
                continue
            copies = WrittenOut(self.source.text, written.definitions)
            # Our lossless texts name what stands below in each dialect, and their equations tell which it is.
            if copies.any_by_name and not self._is_of_earlier_release():
                self.reading.told.add(("since", DEFINITIONS))
            if not copies.found or copies.any_by_name:
                continue
            if copies.are_told_apart():
                self.reading.told.add(("before", DEFINITIONS))
            if self._is_of_earlier_release():
                copies.share()
                found.add(closed)
        return found

    def _is_of_earlier_release(self) -> bool:
        """Whether the text so far is of a release that writes out a definition that stands further below."""
        return recognised(self.reading.dedented, self.reading.told).writes_out_later

    def on_one_program(self, program: ClosedJaxpr) -> dict[str, ClosedJaxpr]:
        return {"": program}

    def on_named_programs(self, programs: dict[str, ClosedJaxpr]) -> dict[str, ClosedJaxpr]:
        return programs

    def on_first_named(self, token: Token, program: ClosedJaxpr) -> dict[str, ClosedJaxpr]:
        return self.on_more_named({}, token, program)

    def on_more_named(
        self, programs: dict[str, ClosedJaxpr], token: Token, program: ClosedJaxpr
    ) -> dict[str, ClosedJaxpr]:
        _, name, start, end = token
        if name in programs:
            self.errors.add(f"{name} is defined twice", "duplicate-name", start, end)
        self.comments.give(program, start)
        programs[name] = program
        return programs

    def on_lone_equation(self, eqn: JaxprEqn) -> dict[str, ClosedJaxpr]:
        scope = self.atoms.scopes.pop()
        outs = [v for v in eqn.out_binders if not isinstance(v, DropVar)]
        written = Written(FrozenDict(), lone_equation=True)
        jaxpr = Jaxpr(scope.inputs, [eqn], outs, span=eqn.span, written=written)
        self._infer_types(program := ClosedJaxpr(jaxpr))
        return {"": program}

    def on_program(self, _: Any, program: ClosedJaxpr) -> ClosedJaxpr:
        written = program.jaxpr.written or Written(FrozenDict())
        amend(
            program.jaxpr,
            written=written._replace(definitions=FrozenDict(self.definitions.listed())),
        )
        return self.on_program_alone(program)

    def on_program_alone(self, program: ClosedJaxpr) -> ClosedJaxpr:
        self._infer_types(program)
        self.errors.syntax += self.definitions.finish()
        return program

    def _infer_types(self, program: ClosedJaxpr) -> None:
        missing = self.atoms.missing
        if self.depth:  # what is around a jaxpr inside a value tells its types
            missing.inside += self.definitions.listed().values()
            return
        wide = self.atoms.wide
        definitions = [*self.definitions.shells.values(), *missing.inside]
        if missing.tuples and not self.errors:
            self.errors.syntax += take_tuples_apart([program, *definitions])
        if missing.units and not self.errors:
            found = take_units_out([program, *definitions], missing.named)
            missing.binders |= found.opened
            for x in found.read:
                self.atoms.not_an_atom(missing.named[x], x.span.start if x.span else 0)
        if missing.binders and not self.errors:
            stand_in_for_unread(program)
            infer_types(program, definitions, wide)
        elif missing.literals:
            infer_literals([program, *definitions], wide)
        self.left_out.include(missing)
        self.atoms.missing = Missing()

    def on_nothing(self, *_: Any) -> None:
        pass

    def on_definition(self, token: Token, closed: ClosedJaxpr, end: Token) -> None:
        del end
        self.comments.give(closed, token[2])
        self.errors.syntax += self.definitions.define(token, closed)


@cache
def _methods(cls: type) -> list[str]:
    return [name for name in dir(cls) if name.startswith("on_")]
