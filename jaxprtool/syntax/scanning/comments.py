"""Comments: they are found between tokens, kept apart from them, and given to the equation they belong to."""

from __future__ import annotations

from typing import Protocol

from jaxprtool.ir.frozen import FrozenDict, FrozenList, amend
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.patterns import BLANK, GAP, Everywhere, pattern
from jaxprtool.syntax.tokens import COMMENT, Token
from jaxprtool.syntax.version import version_line

__all__ = ["CommentScanner"]

_INSIDE = pattern(rf"\s*+[,;]?+\s*+({COMMENT})")
_COMMENT = pattern(COMMENT)
# Around a program, as it stands in documents: what was typed at a prompt, and the marks of a block of code.
_PASTED = pattern(r"(>>>[^\n]*+|\.\.\.(?=[ \n])[^\n]*+)|(?:```|~~~)[^\n]*+")


class Scan(Protocol):
    """The state of a scan that skipping comments reads and advances: its position, its tokens, the
    start of the last equation.
    """

    text: str
    pos: int
    tokens: list[Token]
    equation_start: int


class CommentScanner:
    """Skips comments between equations, records them, and gives them to the equation or jaxpr they belong to.

    Attributes:
      present: whether the text has a `#` at all; without one no time is spent.
      above: lines of comment by the offset of what follows them.
      after: the comment at the end of an equation, by the offset where the equation starts.
    """

    def __init__(self, text: str):
        self.present = "#" in text
        self.above: dict[int, list[str]] = {}
        self.after: dict[int, str] = {}

    def skip(self, scanner: Scan, between: Everywhere = GAP) -> None:
        """Move the scanner past comments, to the line break before what follows; `between` matches
        what separates comments.
        """
        if not self.present:
            return
        text, pos = scanner.text, scanner.pos
        lines: list[str] = []
        while True:
            gap = between.match(text, pos)
            m = _COMMENT.match(text, gap.end())
            if m is None:
                break
            if version_line(m[0]):  # the version line of a text inside; ours is written anew
                pos = m.end()
                continue
            comment = m[0].rstrip()
            if "\n" in gap[0] or not self._trails(scanner, comment):
                lines.append(comment)
            pos = m.end()
        scanner.pos = pos
        if lines:
            self.above[gap.end()] = lines

    def skip_pasted(self, scanner: Scan) -> None:
        """Move the scanner past comments and the marks around a program that is pasted from a document.

        Input at a prompt becomes comments.
        """
        text = scanner.text
        lines: list[str] = []
        while True:
            self.skip(scanner, BLANK)
            gap = BLANK.match(text, scanner.pos).end()
            lines += self.above.pop(gap, [])
            m = _PASTED.match(text, gap)
            if m is None:
                break
            lines += [f"# {m[1].rstrip()}"] if m[1] else []
            scanner.pos = m.end()
        if lines:
            self.above[gap] = lines
            self.present = True

    def _trails(self, scanner: Scan, comment: str) -> bool:
        """Give the comment to the equation before it on the line; return False when there is none."""
        kind = scanner.tokens[-1][0] if scanner.tokens else ""
        if kind not in ("OPERANDS", "REFERENCE"):
            return False
        self._give_equation(scanner.equation_start, comment)
        return True

    def skip_inside(self, scanner: Scan) -> None:
        """Move past comments among params: they belong to the last equation."""
        while m := _INSIDE.match(scanner.text, scanner.pos):
            self._give_equation(scanner.equation_start, m[1].rstrip())
            scanner.pos = m.end()

    def _give_equation(self, start: int, comment: str) -> None:
        before = self.after.get(start)
        self.after[start] = f"{before} {comment}" if before else comment

    def of_equation(self, start: int) -> tuple[str, ...] | None:
        """Return the comments of the equation that begins at an offset, in the form of `JaxprEqn.comments`."""
        above, after = self.above.get(start, []), self.after.get(start, "")
        return (*above, after) if above or after else None

    def of_jaxpr(self, start: int, outs: int) -> dict[str, list[str]] | None:
        """Return the comments above a jaxpr and above its results, by the offsets of both, in the
        form of `Jaxpr.comments`.
        """
        if not self.present:
            return None
        found = {"head": self.above.get(start, []), "tail": self.above.get(outs, [])}
        return found if found["head"] or found["tail"] else None

    def give(self, closed: ClosedJaxpr, start: int, place: str = "head") -> None:
        """Give the comments before `start`, where a name stands, to the jaxpr of that name."""
        lines = self.above.get(start)
        if lines:
            comments = closed.jaxpr.comments or {}
            joined = FrozenList([*lines, *comments.get(place, ())])
            amend(closed.jaxpr, comments=FrozenDict({**comments, place: joined}))
