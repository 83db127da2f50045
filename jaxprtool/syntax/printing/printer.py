"""How the text of one program is laid out, as JAX's printer does it.

JAX's printer is a Wadler-Lindig one whose groups are flat when they themselves fit in the rest of the line. A jaxpr uses
only a few shapes of document, so this writes them directly: an equation that fits on its line is one string, and only
one that does not is taken apart. Nested jaxprs are generators on a stack of our own, so depth costs no recursion.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from jaxprtool.core.stack import run_nested
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.references import Fragments, RefIndex
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.syntax.origins import annotate, as_comment, size_of
from jaxprtool.syntax.printing.pieces import Pieces, end_of
from jaxprtool.syntax.scanning.interface import format_interface
from jaxprtool.syntax.sharing import printed_jaxprs

__all__ = ["Printer"]

# Some 200 levels of nesting are indented; to indent them all would take the square of the text. Deeper ones start
# their lines at a column so small that nothing is written before them.
_MAX_INDENT, _NO_INDENT = 1200, -(1 << 40)


class Printer(Pieces):
    """One print of one program."""

    def text(self) -> str:
        """The whole text, with its annotations."""
        self.write()
        return annotate(
            self.out,
            self.places,
            how=self.dialect.annotating,
            has_additions=bool(self.places) and self.has_additions(),
        )

    def has_additions(self) -> bool:
        """Whether the text has lines that JAX does not write: an interface, values of constants, or comments."""
        if self.interface is not None or any(self.wheres.values()):
            return True
        jaxprs = self.nested.closed
        return any(j.comments or any(e.comments for e in j.eqns) for j in jaxprs)

    def write(self, head: bool = True) -> None:
        """Write the text: definitions, then the program (with the comments above it if `head`)."""
        for jaxpr, name in self.definitions.items():
            if jaxpr is self.root:
                continue
            self.write_definition(jaxpr, name)
            self.shared[jaxpr] = name
        written = self.root.written
        # an equation that packs values in a tuple is not counted as lone
        if written is not None and written.lone_equation and len(self.root.eqns) == 1:
            eqn = self.root.eqns[0]
            if id(eqn) in self.holds:
                run_nested(self._call(eqn, 0))
            else:
                self._plain_call(eqn, 0)
        else:
            if head:
                self._comments(self.root, "head")
            run_nested(self._jaxpr(self.root, 0, 0))
        comments = self.root.comments or {}
        below = [*comments.get("interface", ())]
        if self.interface is not None:
            below.append(format_interface(self.interface, self.width))
        self.out += [f"\n{line}" for line in (*below, *comments.get("end", ()))]

    def write_definition(self, jaxpr: Jaxpr, name: str) -> None:
        """Write a definition, with the comments above it."""
        self._comments(jaxpr, "head")
        prefix = f"let {name} = "
        self.out.append(prefix)
        run_nested(self._jaxpr(jaxpr, 0, size_of(prefix)))
        self.out.append("\nin\n" if self._where(jaxpr) else " in\n")

    def _place(self, eqn: JaxprEqn) -> None:
        """Record that the next piece has the name of an equation's primitive."""
        self.places.append((len(self.out), eqn))

    def _place_all(self, jaxpr: Jaxpr) -> None:
        """Record the same for the equations of a jaxpr on one line, and of those inside it."""
        for eqn in jaxpr.eqns:
            self._place(eqn)
            if id(eqn) in self.holds:
                self._place_flat(sub_jaxprs(eqn))

    def _place_flat(self, jaxprs: Iterable[ClosedJaxpr]) -> None:
        for closed in jaxprs:
            if closed.jaxpr not in self.shared:
                self._place_all(closed.jaxpr)

    def _comments(self, jaxpr: Jaxpr, place: str) -> None:
        for line in (jaxpr.comments or {}).get(place, ()):
            self.out.append(f"{line}\n")

    # ---- on several lines

    def _jaxpr(self, jaxpr: Jaxpr, indent: int, column: int) -> Iterator[Any]:
        """Write a jaxpr that starts at `column`, with the nesting level `indent`."""
        where = self._where(jaxpr)
        flat = None if indent < 0 else self._flat_jaxpr(jaxpr, self.width - column, 0)
        if flat is not None:
            if self.annotated:
                self._place_all(jaxpr)
            self.out.append(flat)
        else:
            yield from self._block(jaxpr, indent, column)
        if where:
            pad = "\n" + " " * (indent + 2 if indent else 0)
            self.out.append(pad + "where " + (pad + " " * 6).join(where))

    def _block(self, jaxpr: Jaxpr, indent: int, column: int) -> Iterator[Any]:
        out = self.out
        out.append("{ lambda ")
        consts, inputs, results = self._ends(jaxpr)
        column += 9
        if consts:
            column = self._fill(consts, "", column, indent + 4)
        out.append("; ")
        self._fill(inputs, "", column + 2, indent + 4)
        out.append(". let")
        newline = "\n" + " " * (indent + 4)
        if not jaxpr.eqns:
            out.append(newline)
        width, holds, tried = self.width - indent - 4, self.holds, self.tried
        for eqn in jaxpr.eqns:
            out.append(newline)
            if eqn.comments:
                for line in eqn.comments[:-1]:
                    out += (line, newline)
            if id(eqn) in holds:
                yield from self._call(eqn, indent + 4)
            else:
                text = tried.pop(id(eqn), None) or self._flat_equation(eqn)
                if len(text) <= width and text.isascii() and id(eqn.params) not in self.spread:
                    if self.annotated:
                        self._place(eqn)
                    out.append(text)
                else:
                    self._plain_call(eqn, indent + 4)
            if eqn.comments and eqn.comments[-1]:
                out.append("  " + as_comment(eqn.comments[-1]))
        newline = "\n" + " " * (indent + 2)
        for line in (jaxpr.comments or {}).get("tail", ()):
            out.append(f"{newline}  {line}")
        out.append(f"{newline}in (")
        self._fill(results, ",", indent + 6, indent + 4)
        out.append(f",){end_of(jaxpr)}" if len(results) == 1 else f"){end_of(jaxpr)}")

    def _plain_call(self, eqn: JaxprEqn, indent: int) -> None:
        """Write an equation that does not fit, and holds no jaxprs, at column `indent`."""
        if type(eqn.params.get("index")) in (RefIndex, Fragments):
            if self.annotated:
                self._place(eqn)
            self.out.append(self._flat_equation(eqn))
            return
        column = self._begin(eqn, indent)
        flat, texts = self._plain_params(eqn)
        if flat and (column + size_of(flat) > self.width or id(eqn.params) in self.spread):
            newline = "\n" + " " * (indent + 2)
            lines = [self._of_line(text, indent + 2) for text in texts]
            flat = f"[{newline}{newline.join(lines)}\n{' ' * indent}]"
            column = indent + 1
        else:
            column += size_of(flat)
        self.out.append(f"{flat} ")
        self._fill([self._atom(x) for x in eqn.inputs], "", column + 1, indent + 2)

    def _of_line(self, text: str, indent: int) -> str:
        """Return a param on a line of its own; JAX breaks a `()` that does not fit like a tuple of jaxprs."""
        if not text.endswith("=()") or indent + size_of(text) <= self.width or indent < 0:
            return text
        return f"{text[:-1]}\n{' ' * indent}  \n{' ' * indent})"

    def _begin(self, eqn: JaxprEqn, indent: int) -> int:
        """Write the results and the name of an equation; return the column after."""
        out, column = self.out, indent
        if eqn.out_binders:
            bound = [*map(self._binder, eqn.out_binders)]
            column = self._fill(bound, "", column, indent + 2)
        if eqn.out_binders or self.dialect.binds_nothing:
            out.append(" = ")
            column += 3
        if self.annotated:
            self._place(eqn)
        name = self._name(eqn)
        out.append(name)
        return column + size_of(name)

    def _call(self, eqn: JaxprEqn, indent: int) -> Iterator[Any]:
        """Write an equation that holds jaxprs at column `indent`."""
        out, column = self.out, self._begin(eqn, indent)
        pairs = self._pairs_of_call(eqn)
        if pairs:
            flat = None if indent < 0 else self._flat_params(pairs, self.width - column, 0)
            if flat is not None:
                if self.annotated:
                    self._place_flat(sub_jaxprs(eqn))
                out.append(flat)
                column += size_of(flat)
            else:
                out.append("[")
                yield from self._params(pairs, indent + 2)
                out.append("\n" + " " * indent + "]")
                column = indent + 1
        out.append(" ")
        self._fill([self._atom(x) for x in eqn.inputs], "", column + 1, indent + 2)

    def _params(self, pairs: list[tuple[str, Any]], indent: int) -> Iterator[Any]:
        """Write params, each on its own line."""
        newline = "\n" + " " * indent
        for key, value in pairs:
            if type(value) is bool or type(value) is int:
                self.out.append(f"{newline}{key}={value}")
                continue
            self.out.append(f"{newline}{key}=")
            column = indent + size_of(key) + 1
            if type(value) is ClosedJaxpr:
                yield from self._inner(value, indent, column)
            elif jaxprs := printed_jaxprs(value):
                flat = None if indent < 0 else self._flat_jaxprs(jaxprs, self.width - column, 0)
                if flat is not None:
                    if self.annotated:
                        self._place_flat(jaxprs)
                    self.out.append(flat)
                    continue
                self.out.append("(")
                for closed in jaxprs:
                    self.out.append(newline + "  ")
                    yield from self._inner(closed, indent + 2, indent + 2)
                self.out.append(newline + ")")
            elif value == () and column + 2 > self.width and indent >= 0:
                # JAX prints an empty tuple of jaxprs like this
                self.out.append(f"({newline}  {newline})")
            else:
                self.out.append(self._value(value))

    def _inner(self, closed: ClosedJaxpr, indent: int, column: int) -> Iterator[Any]:
        name = self.shared.get(closed.jaxpr)
        if name is not None:
            self.out.append(name)
        else:
            yield self._jaxpr(closed.jaxpr, indent if indent < _MAX_INDENT else _NO_INDENT, column)

    def _fill(self, texts: list[str], separator: str, column: int, indent: int) -> int:
        """Write texts one after the other, on more lines if they do not fit; return the column after."""
        out = self.out
        if len(texts) < 2:
            out += texts
            return column + size_of(texts[0]) if texts else column
        before, line, width = f"{separator} ", f"{separator}\n{' ' * indent}", self.width
        if column >= width <= indent:  # each text stands on a line of its own
            out.append(line.join(texts))
            return indent + size_of(texts[-1])
        flat = before.join(texts)
        size = size_of(flat)
        if column + size <= width:
            out.append(flat)
            return column + size
        measure = len if size == len(flat) else size_of
        # JAX breaks the line after a text where the blank after it does not fit.
        apart = len(before)
        ends = [*accumulate([measure(text) + apart for text in texts])]
        lines, start, done, last = list[str](), 0, 0, len(texts) - 1
        while (stop := bisect_left(ends, width - column + 1 + done, start)) < last:
            lines.append(before.join(texts[start : stop + 1]))
            start, done, column = stop + 1, ends[stop], indent
        lines.append(before.join(texts[start:]))
        out.append(line.join(lines))
        return column + ends[-1] - done - apart
