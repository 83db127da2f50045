"""The layout of the releases to 0.2.21: without types, each jaxpr's names from `a` on, hanging indents.

{ lambda  ; a b.
  let c = xla_call[ backend=None
                    call_jaxpr={ lambda  ; a.
                                 let b = sin a
                                 in (b,) }
                    name=f ] a
  in (c,) }
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxprtool.core.stack import run_nested
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.references import Fragments, RefIndex
from jaxprtool.syntax.origins import as_comment
from jaxprtool.syntax.printing.printer import Printer
from jaxprtool.syntax.sharing import printed_jaxprs

__all__ = ["ClassicPrinter"]

_WIDEST = 6  # results of more characters stand on a line of their own
_MAX_COLUMN = 1200  # deeper jaxprs start their lines at this column


class ClassicPrinter(Printer):
    """One print of one program in that layout.

    A lossless text has the types of the program's arguments and constants. It has all types where
    `untyped` is false: where some would not be found again when the text is read.
    """

    def _shown_type(self, v: Any, head: bool = False) -> str:
        """Return the name of a variable, with its type where the text has it."""
        told = self.lossless and (head or not self.untyped)
        return self.names[v] + (self.types[v.aval] if told else "")

    def _ends(self, jaxpr: Jaxpr) -> tuple[list[str], list[str], list[str]]:
        head = jaxpr is self.root
        consts = [self._shown_type(v, head) for v in jaxpr.const_binders]
        inputs = [self._shown_type(v, head) for v in jaxpr.in_binders]
        return consts, inputs, [self._atom(x) for x in jaxpr.outs]

    def _jaxpr(self, jaxpr: Jaxpr, indent: int, column: int) -> Iterator[Any]:
        out, where = self.out, self._where(jaxpr)
        pad = "\n" + " " * min(column, _MAX_COLUMN)
        consts, inputs, results = self._ends(jaxpr)
        out.append(f"{{ lambda {' '.join(consts)} ; {' '.join(inputs)}.{pad}  let ")
        newline = f"{pad}      "
        for i, eqn in enumerate(jaxpr.eqns):
            if i:
                out.append(newline)
            for line in (eqn.comments or ())[:-1]:
                out += (line, newline)
            yield from self._call(eqn, len(newline) - 1)
            if eqn.comments and eqn.comments[-1]:
                out.append("  " + as_comment(eqn.comments[-1]))
        for line in (jaxpr.comments or {}).get("tail", ()):
            out.append(f"{newline}{line}")
        comma = "," if len(results) == 1 else ""
        out.append(f"{pad}  in ({', '.join(results)}{comma}) }}")
        if where:
            out.append(f"{pad}  where " + f"{pad}        ".join(where))

    def _plain_call(self, eqn: JaxprEqn, indent: int) -> None:
        run_nested(self._call(eqn, indent))

    def _call(self, eqn: JaxprEqn, indent: int) -> Iterator[Any]:
        """Write an equation at column `indent`."""
        out = self.out
        if type(eqn.params.get("index")) in (RefIndex, Fragments):
            out.append(self._flat_equation(eqn))
            return
        bound = " ".join([self._shown_type(v) for v in eqn.out_binders])
        if len(bound) <= _WIDEST:
            column = indent + len(bound) + 3
            out.append(f"{bound} = ")
        else:
            column = indent + 2
            out.append(f"{bound} =\n{' ' * column}")
        if self.annotated:
            self._place(eqn)
        name = self._name(eqn)
        out.append(name)
        column += len(name) + 2
        pairs = self._pairs_of_call(eqn)
        for i, (key, value) in enumerate(pairs):
            out.append(f"\n{' ' * column}{key}=" if i else f"[ {key}=")
            yield from self._param(value, column + len(key) + 1)
        out.append(" ] " if pairs else " ")
        out.append(" ".join([self._atom(x) for x in eqn.inputs]))

    def _param(self, value: Any, column: int) -> Iterator[Any]:
        """Write the value of a param at a column."""
        out = self.out
        jaxprs = [value] if type(value) is ClosedJaxpr else printed_jaxprs(value)
        if type(value) is ClosedJaxpr:
            yield from self._inner(value, 0, column)
        elif jaxprs or value == ():
            pad = f"\n{' ' * (column + 2)}"
            out.append("( " if jaxprs or self.dialect.blank_tuples else "(")
            for i, closed in enumerate(jaxprs):
                if i:
                    out.append(pad)
                yield from self._inner(closed, 0, column + 2)
            out.append(" )" if jaxprs or self.dialect.blank_tuples else ")")
        else:
            text = self._value(value).removesuffix("\n")
            out.append(text.replace("\n", f"\n{' ' * column}"))
