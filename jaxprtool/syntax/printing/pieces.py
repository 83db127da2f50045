"""The texts of the parts of one program: names, types, values, params, equations, and jaxprs on one line."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.params import Opaque, ParamValue, Record, Word
from jaxprtool.ir.primitive import NO_PARAMS
from jaxprtool.syntax.elided_params import has_open_results, params_in_form, printed_params
from jaxprtool.syntax.origins import HARD_BREAK, size_of
from jaxprtool.syntax.params import format_value
from jaxprtool.syntax.printing.naming import (
    Nested,
    has_definitions,
    name_variables,
    same_variables,
    shared_jaxprs,
    written_out,
)
from jaxprtool.syntax.printing.where import where_lines
from jaxprtool.syntax.refs import format_reference
from jaxprtool.syntax.releases.dialects import Dialect, dialect_of, knows_inner_drops
from jaxprtool.syntax.releases.earlier_types import (
    has_named_axes,
    named_axes,
    number_of_numpy,
)
from jaxprtool.syntax.releases.old_operands import is_kernel
from jaxprtool.syntax.releases.units import UNIT
from jaxprtool.syntax.scanning.values import is_balanced
from jaxprtool.syntax.sharing import (
    named_inside,
    names_around,
    printed_jaxprs,
    unique_name,
    words_read_as_names,
)
from jaxprtool.syntax.tokens import WEAK
from jaxprtool.syntax.types import UNTYPED, scalar_text

__all__ = ["Pieces", "end_of"]

_FLAT_DEPTH = 60  # jaxprs nested deeper than this are never written on one line
_SHORTEST_EQUATION = 6
_MOST_WRITTEN_OUT = 200_000  # bound on equations when definitions are written out
# types that print as in Python, except for NaNs with odd bits
_NOT_SHOWN = "[...]"
_NUMBERS = frozenset({int, bool, float})
_INEXACT = frozenset({float, complex})


def _types_with_axes(nested: Nested, types: Mapping[Any, str]) -> dict[Var, str]:
    """Return the types of the variables whose text names axes, by the variables."""
    root = next(iter(nested.closed)).span
    if root is None or not has_named_axes(root.source.text):
        return {}
    binders = (
        v
        for j in nested.closed
        for vs in (j.all_binders, *[e.out_binders for e in j.eqns])
        for v in vs
    )
    return {v: f"{types[v.aval][:-1]}{axes}]" for v in binders if (axes := named_axes(v))}


def end_of(jaxpr: Jaxpr) -> str:
    """Return the end of a jaxpr's text, after its results: with the effects that it was read with."""
    written = jaxpr.written
    return " }" if written is None else f"{written.effects} }}"


class _Types(dict[Any, str]):
    """The texts of types in a dialect, with the colon before them."""

    __slots__ = ("dialect", "in_memory")

    def __init__(self, dialect: Dialect, in_memory: bool = False):
        super().__init__({UNTYPED: ""})
        self.dialect, self.in_memory = dialect, in_memory

    def __missing__(self, aval: Any) -> str:
        text = self.dialect.type_text(aval)
        if self.in_memory and isinstance(aval, RefType):
            text = f"Mem{text}" if aval.space else f"MemRef<None>{text.removeprefix('Ref')}"
        text = self[aval] = f":{text}"
        return text


def _kernels(nested: Nested) -> set[Jaxpr]:
    """Return the jaxprs of kernels, and all inside of them."""
    found = set[Jaxpr]()
    todo = [
        j for eqns in nested.calls.values() for e, js in eqns if is_kernel(e.primitive) for j in js
    ]
    while todo:
        jaxpr = todo.pop().jaxpr
        if jaxpr not in found:
            found.add(jaxpr)
            todo += [c for _, inner in nested.calls.get(jaxpr, ()) for c in inner]
    return found


class Pieces(ABC):
    """The texts of the parts of a program in one print of it.

    Args:
      program, lossless, width: as for `print.format_jaxpr`.
      renamed: whether variables get new names, as JAX gives them.
      placed: returns what to write for the value of a constant; None to write the value.
      outer: the names of jaxprs that are defined around the program.
      dialect: the dialect; None for that of the program.
      relaid: whether the program is laid out as if it were made anew.
      as_dropped: whether exactly the results that the program drops are `_`, read or not.
      untyped: whether literals are written without types, in a dialect that has none.

    Attributes:
      annotated: whether the text has annotations.
      out: the pieces of the text so far.
      places: annotated equations, each with the index in `out` of the piece with its name.
      tried: the one-line texts of equations, by their ids, where the jaxpr around them did not fit
        on the line.
      spread: the ids of params that stand on lines of their own, since a value in them has brackets
        that do not balance: only the layout says where it ends.
    """

    def __init__(
        self,
        program: ClosedJaxpr,
        lossless: bool,
        width: int,
        renamed: bool = False,
        placed: Callable[[Any], Any] | None = None,
        outer: dict[Jaxpr, str] | None = None,
        dialect: Dialect | None = None,
        relaid: bool = False,
        as_dropped: bool = False,
        untyped: bool = False,
    ):
        self.lossless, self.width, self.placed, self.outer = lossless, width, placed, outer
        self.renamed = renamed or relaid
        self.dialect = dialect = dialect or dialect_of(program)
        self.forms, self.numpys, self.untyped = dialect.forms, dialect.printed_by_numpy, untyped
        colons = dialect_of(program).writes_colons
        self.whole = ":" if dialect.writes_colons else "..." if colons else ""
        self.called = dialect.called
        self.interface = program.interface if lossless and not renamed else None
        self.root, outer = program.jaxpr, outer or {}
        self.nested, self.definitions, self.later = self._shared(program, outer, relaid)
        nested, later = self.nested, self.later
        self.closed, self.shared = nested.closed, {**outer, **({} if later else self.definitions)}
        self.defined = {*outer.values(), *self.definitions.values()}
        self.knows_drops = not dialect.names_inner_drops and (
            as_dropped or knows_inner_drops(program)
        )
        self.names, unnamed = name_variables(
            nested,
            program.jaxpr,
            self.definitions,
            self.renamed,
            lossless,
            self.outer,
            not dialect.names_inner_drops and not self.knows_drops,
            relaid and dialect.names_inner_drops,
            later,
            as_dropped,
            lossless and dialect.names_inner_drops and knows_inner_drops(program),
            dialect.follows_calls,
            dialect.is_classic,
        )
        # From 0.10 on JAX writes `_:f32[], a[...] <- a[...], b` where a result of an inner jaxpr has no name.
        self.written_long = unnamed if dialect.names_inner_drops and not lossless else set[Var]()
        self.holds = {id(eqn) for calls in nested.calls.values() for eqn, _ in calls}
        self.types, self.kernel_types = _Types(dialect), _Types(dialect, dialect.in_memory)
        self.axes = _types_with_axes(nested, self.types) if dialect.names_axes else {}
        self.kernels = _kernels(nested) if dialect.in_memory else set[Jaxpr]()
        self.params: dict[int | str, tuple[str, list[str]]] = {}
        self.pairs: dict[int, list[tuple[str, Any]]] = {}  # params of equations that hold jaxprs
        self.wheres: dict[Jaxpr, list[str]] = {}
        self.tried, self.spread = dict[int, str](), set[int]()
        self.records: dict[int, tuple[Any, str]] = {}
        self.ends: dict[Jaxpr, tuple[list[str], list[str], list[str]]] = {}
        origins = (e.origin for jaxpr in nested.closed for e in jaxpr.eqns)
        self.annotated = self.outer is None and any(o.shown for o in origins if o is not None)
        self.out: list[str] = []
        self.places: list[tuple[int, JaxprEqn]] = []

    @abstractmethod
    def text(self) -> str:
        """The whole text, with its annotations."""

    def _shared(
        self, program: ClosedJaxpr, outer: dict[Jaxpr, str], relaid: bool
    ) -> tuple[Nested, dict[Jaxpr, str], bool]:
        """Return the jaxprs of the program, the definitions among them with their names, and
        whether later definitions are written out.
        """
        written = None if relaid else program.jaxpr.written
        definitions: Mapping[str, ClosedJaxpr] = {} if written is None else written.definitions
        given = {c.jaxpr: name for name, c in definitions.items() if c.jaxpr not in outer}
        around = names_around(program.jaxpr, outer)
        if self.lossless:
            around |= words_read_as_names(program.jaxpr, given)
        taken = {*around, *given.values()}
        if len(taken) < len(around) + len(given):
            given, taken = {}, around
        named: dict[Jaxpr, tuple[ClosedJaxpr, str]] = {}
        if self.lossless and self.outer is None:
            named = named_inside([program.jaxpr, *given])
        found = {c.jaxpr: c for c in definitions.values() if c.jaxpr in given}
        found |= {j: closed for j, (closed, _) in named.items()}
        nested = Nested(program, self.lossless, found.values(), outer)
        if not given:
            free = taken if self.lossless else None
            names = {j: name for j, (_, name) in named.items()}
            longest = None if self.dialect.long_jaxprs_above else sys.maxsize
            shared = shared_jaxprs(nested, program.jaxpr, names, free, longest)
            if not (self.lossless or self.dialect.has_definitions):
                shared = shared if written_out(nested, shared) > _MOST_WRITTEN_OUT else {}
            later = self.dialect.writes_out_later and not self.lossless
            return nested, shared, later and written_out(nested, shared) <= _MOST_WRITTEN_OUT
        more = {j: unique_name(n, taken) for j, (_, n) in named.items() if j not in given}
        later = written is not None and written.later_written_out and not named
        later = later and self.dialect.writes_out_later
        return nested, given | more, later and written_out(nested, given) <= _MOST_WRITTEN_OUT

    def same_variables(self) -> dict[Var, Var]:
        """Return which variables of the program that was read are one in the program whose print the text is.

        Each is returned with the first of them.
        """
        dialect = self.dialect
        drops, follows = not dialect.names_inner_drops, dialect.follows_calls
        return same_variables(self.nested, self.root, self.definitions, drops, self.later, follows)

    # ---- names, types, values and params

    def _where(self, jaxpr: Jaxpr) -> list[str]:
        found = self.wheres.get(jaxpr)
        if found is None:
            closed = self.closed[jaxpr]
            if not self.lossless and not closed.consts:
                return []
            found = where_lines(closed, self.names, self.lossless, self.placed)
            self.wheres[jaxpr] = found
        return found

    def _binder(self, v: Var) -> str:
        return self.names[v] + (self.axes.get(v) or self.types[v.aval])

    def _atom(self, x: Any) -> str:
        if type(x) is not Lit:
            return self.names[x]
        aval = x.aval
        text = "" if self.untyped else self.types[aval]
        if text and self.lossless and getattr(aval, "weak_type", False):
            text += WEAK
        val = x.val
        is_numpys = self.numpys
        if is_numpys and type(val) in _INEXACT and is_numpys(aval) and val == val:
            return number_of_numpy(val, aval) + text
        if type(val) in _NUMBERS and (val == val or not self.lossless):
            return f"{val}{text}" if aval is UNTYPED or aval.dtype.kind != "0" else f"(b'',){text}"
        if val is not None:
            value = scalar_text(val, getattr(aval, "dtype", None), self.lossless)
            if value != _NOT_SHOWN:
                return value + text
        if aval == UNIT.aval:
            return "*"
        # It is read with its type alone, in the texts of any release.
        return _NOT_SHOWN + (text or self.types[aval])

    def _ends(self, jaxpr: Jaxpr) -> tuple[list[str], list[str], list[str]]:
        """Return the texts of the constants, arguments and results of a jaxpr; cached, since the
        jaxpr is tried on one line first.
        """
        found = self.ends.get(jaxpr)
        if found is None:
            names, atom, axes = self.names, self._atom, self.axes
            types = self.kernel_types if jaxpr in self.kernels else self.types
            found = self.ends[jaxpr] = (
                [names[v] + (axes.get(v) or types[v.aval]) for v in jaxpr.const_binders],
                [names[v] + (axes.get(v) or types[v.aval]) for v in jaxpr.in_binders],
                [atom(x) for x in jaxpr.outs],
            )
        return found

    def _value(self, value: ParamValue) -> str:
        if type(value) is str or type(value) is Word:
            return self._in_one(str(value))
        inside = self._inside if self.lossless else self._standalone
        if not isinstance(value, (Record, tuple, list, dict)):
            text = self._in_one(format_value(value, inside))
            return text if isinstance(value, (str, int)) else self.dialect.respell(text)
        # such a value may hold jaxprs, and is printed several times
        found = self.records.get(id(value))
        if found is None:  # the value is kept alive, so that its id stays its own
            text = self.dialect.respell(self._in_one(format_value(value, inside)))
            found = self.records[id(value)] = value, text
        return found[1]

    def _in_one(self, text: str) -> str:
        return text.replace("\n", HARD_BREAK) if self.annotated else text

    def _inside(self, closed: ClosedJaxpr) -> str:
        """Return the text of a jaxpr inside a value: its name where the whole text defines it, else
        a text of its own.
        """
        outer = self.shared if self.outer is None else self.outer
        name = outer.get(closed.jaxpr)
        if name is not None:
            return name
        return type(self)(
            closed, True, 80, True, self.placed, outer, self.dialect, untyped=self.untyped
        ).text()

    def _standalone(self, closed: ClosedJaxpr) -> str:
        """Return JAX's text of a jaxpr inside a value that is printed by `str`: names start again at `a`."""
        renamed, knows = self.renamed or not has_definitions(closed), self.knows_drops
        printer = type(self)(
            closed, False, 80, renamed, dialect=self.dialect, as_dropped=knows, untyped=self.untyped
        )
        printer.annotated = False  # neither `str` nor JAX prints lines of Python there
        return printer.text()

    def _name(self, eqn: JaxprEqn) -> str:
        form = self.forms.get(eqn.primitive.name)
        return eqn.primitive.name if form is None else form.name_of(eqn)

    def _pairs_of_call(self, eqn: JaxprEqn) -> list[tuple[str, Any]]:
        """Return `_pairs` of an equation that holds jaxprs; cached, since it is tried on one line
        with each jaxpr around it.
        """
        found = self.pairs.get(id(eqn))
        if found is None:
            found = self.pairs[id(eqn)] = self._pairs(eqn)
        return found

    def _pairs(self, eqn: JaxprEqn) -> list[tuple[str, Any]]:
        """Return the params that are printed, in order, in this dialect."""
        form = self.forms.get(eqn.primitive.name)
        if form is None or not eqn.primitive.known:
            untold = has_open_results(eqn)
            return printed_params(eqn.primitive, eqn.params, self.lossless, self.defined, untold)
        return params_in_form(eqn, form, self.lossless, self.defined)

    def _plain_params(self, eqn: JaxprEqn) -> tuple[str, list[str]]:
        """Return all params on one line, with brackets, and the text of each; for equations that hold no jaxpr."""
        params = eqn.params
        if not params and eqn.primitive.name not in self.called:
            return "", []
        # Equations without params share one object.
        key = eqn.primitive.name if params is NO_PARAMS else id(params)
        found = self.params.get(key)
        if found is None:
            pairs = self._pairs(eqn)
            texts = [f"{k}={self._value(v)}" for k, v in pairs]
            if not eqn.primitive.known and any(
                type(v) is Opaque and not is_balanced(str(v)) for _, v in pairs
            ):
                self.spread.add(id(params))
            found = self.params[key] = f"[{' '.join(texts)}]" if texts else "", texts
        return found

    # ---- on one line: None as soon as the text is longer than what is left of it

    def _flat_equation(self, eqn: JaxprEqn) -> str:
        """Return an equation without jaxprs, on one line."""
        params = ""
        name, given = eqn.primitive.name, eqn.params
        if given and (found := self.params.get(id(given))) is not None:
            params = found[0]
        elif given or name in self.called:
            if "index" in given:
                text = format_reference(
                    eqn, self._atom, self._binder, self.written_long, self.whole
                )
                if text is not None:
                    return text
            params = self._plain_params(eqn)[0]
        atom, names, types = self._atom, self.names, self.types
        inputs = " ".join([names[x] if type(x) is Var else atom(x) for x in eqn.inputs])
        if name in self.called:
            name = self._name(eqn)
        rest = f"{name}{params} {inputs}"
        outs = eqn.out_binders
        if self.axes and outs:
            return f"{' '.join(map(self._binder, outs))} = {rest}"
        if len(outs) == 1:
            v = outs[0]
            return f"{names[v]}{types[v.aval]} = {rest}"
        bound = " ".join([names[v] + types[v.aval] for v in outs])
        return f"{bound} = {rest}" if outs or self.dialect.binds_nothing else rest

    def _flat_jaxpr(self, jaxpr: Jaxpr, room: int, depth: int) -> str | None:
        if room < _SHORTEST_EQUATION * len(jaxpr.eqns) or depth > _FLAT_DEPTH:
            return None
        if jaxpr.comments and jaxpr.comments.get("tail"):
            return None
        if depth and self._where(jaxpr):
            return None
        consts, inputs, results = self._ends(jaxpr)
        head = f"{{ lambda {' '.join(consts)}; {' '.join(inputs)}. let "
        tail = f" in ({', '.join(results)}{',' * (len(results) == 1)}){end_of(jaxpr)}"
        room -= size_of(head) + size_of(tail)
        if room < _SHORTEST_EQUATION * len(jaxpr.eqns) - 2:
            return None
        parts: list[str] = []
        for eqn in jaxpr.eqns:
            if room < 0 or eqn.comments:
                return None
            text = self._flat_call(eqn, room, depth)
            if text is None:
                return None
            parts.append(text)
            room -= size_of(text) + 2
        return f"{head}{'; '.join(parts)}{tail}" if room + 2 * bool(parts) >= 0 else None

    def _flat_call(self, eqn: JaxprEqn, room: int, depth: int) -> str | None:
        if id(eqn) not in self.holds:
            text = self.tried[id(eqn)] = self._flat_equation(eqn)
            return None if id(eqn.params) in self.spread else text
        params = self._flat_params(self._pairs_of_call(eqn), room, depth + 1)
        if params is None:
            return None
        outs = " ".join([self._binder(v) for v in eqn.out_binders])
        inputs = " ".join([self._atom(x) for x in eqn.inputs])
        return f"{outs}{' = ' if outs else ''}{self._name(eqn)}{params} {inputs}"

    def _flat_params(self, pairs: list[tuple[str, Any]], room: int, depth: int) -> str | None:
        parts: list[str] = []
        room -= 2
        for key, value in pairs:
            room -= size_of(key) + 1
            text = self._flat_value(value, room, depth)
            if text is None:
                return None
            parts.append(f"{key}={text}")
            room -= size_of(text) + (len(parts) > 1)
            if room < 0:
                return None
        return f"[{' '.join(parts)}]" if parts else ""

    def _flat_value(self, value: ParamValue, room: int, depth: int) -> str | None:
        if type(value) is ClosedJaxpr:
            name = self.shared.get(value.jaxpr)
            return name if name is not None else self._flat_jaxpr(value.jaxpr, room, depth + 1)
        if jaxprs := printed_jaxprs(value):
            return self._flat_jaxprs(jaxprs, room, depth)
        return self._value(value)

    def _flat_jaxprs(self, jaxprs: Sequence[ClosedJaxpr], room: int, depth: int) -> str | None:
        parts: list[str] = []
        room -= 2
        for closed in jaxprs:
            text = self._flat_value(closed, room, depth)
            if text is None:
                return None
            parts.append(text)
            room -= size_of(text) + (len(parts) > 1)
        return f"({' '.join(parts)})" if room >= 0 else None
