"""Read expressions of `assert` and patterns of `grep`: text to the nodes of `syntax.assertions.nodes`.

Lark parses them with `grammar/assert.lark`. For every text the result is nodes, or a UsageError
with its position in the expression.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NoReturn

from jaxprtool.core.stack import deep
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.spans import Source, Span
from jaxprtool.ir.synonyms import close_names
from jaxprtool.syntax.assertions.filters import FilterFault, comparison, param, regex
from jaxprtool.syntax.assertions.nodes import (
    AllWhere,
    Arithmetic,
    At,
    Before,
    Chain,
    Claim,
    Count,
    Exists,
    Feeds,
    Figure,
    Growth,
    Head,
    Logic,
    Number,
    Operand,
    Pattern,
    Residuals,
    TypePattern,
)
from jaxprtool.syntax.assertions.types import find_type, type_of
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tables import grammar_folder

__all__ = ["CODE", "ORDERS", "read_claim", "read_pattern"]

CODE = "expression"  # the code of the diagnostics
ORDERS = ("==", "!=", "<", "<=", ">", ">=")
PROGRAMS = ("A", "B")
_LONGEST, _DEEPEST = 20_000, 200  # characters, brackets inside of brackets
_NUMBERS = (Number, Arithmetic, Count, Figure, Residuals, Growth)
_LABELS = {
    "_NO": "`no`", "_SOME": "`some`", "_ALL": "`all`", "_NOT": "`not`", "_AND": "`and`", "_OR": "`or`",
    "_WHERE": "`where`", "_FEEDS": "`feeds`", "_BEFORE": "`before`", "COUNT": "`count(...)`", "FIGURE": "a figure",
    "NUMBER": "a number", "NAME": "a name", "OP": "a comparison", "VALUE": "a value", "PATH": "a name", "LPAR": "`(`", "RPAR": "`)`",
    "LBRACE": "`{`", "RBRACE": "`}`", "LSQB": "`[`", "RSQB": "`]`", "COMMA": "`,`", "EQUAL": "`=`", "DOT": "`.`",
    "POLICY": "a policy", "$END": "the end",
}  # fmt: skip
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4, "P": 1000**5}
_BINARY = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_NUMBER = pattern(r"([\d_.]+(?:[eE][+-]?\d+)?) ?(?:([KMGTP])(i?)B?|B)?")
_CALLED = pattern(r"([A-Za-z_]\w*) *$")  # what stands before a bracket
_WORDS = frozenset(
    ["no", "some", "all", "not", "and", "or", "where", "feeds", "feed", "before", "first", "last"]
)
_FUNCTIONS = ("count", "flops", "transcendentals", "bytes", "residuals", "growth")
_PAGE = "the language is on the page of `jaxprtool assert --help`"


@cache
def _parser() -> Any:
    import lark

    text = (grammar_folder() / "assert.lark").read_text(encoding="utf-8")
    starts = ["test", "pattern"]
    return lark.Lark(
        text, parser="lalr", lexer="contextual", start=starts, propagate_positions=True
    )


@deep
def read_claim(text: str) -> Claim:
    """Read an expression of `assert`. Raises UsageError with the position of the fault."""
    return _Builder(text, "test").claim


@deep
def read_pattern(text: str) -> Pattern:
    """Read a pattern of `grep`. Raises UsageError with the position of the fault."""
    return _Builder(text, "pattern").pattern


def fault(text: str, at: At, message: str, help: str = _PAGE) -> NoReturn:
    """Raise UsageError at a position of an expression."""
    span = Span(Source(text, "<expression>"), at[0], max(at[1], at[0] + 1))
    fail(UsageError, message, CODE, span=span, help=help)


class _Builder:
    """Reads one text.

    Attributes:
      claim: the claim that it states, or
      pattern: the pattern that it states.
    """

    claim: Claim
    pattern: Pattern

    def __init__(self, text: str, start: str, whole: str = ""):
        """Read a text.

        A text in quotes inside of `whole` is padded with blanks, so that its offsets are those in
        `whole`.
        """
        self.text, self.whole = text, whole or text
        self._check_size()
        tree = self._parsed(start)
        if start == "pattern":
            self.pattern = self.read_pattern(tree)
        else:
            self.claim = self.read_claim(tree)

    def fault(self, at: At, message: str, help: str = _PAGE) -> NoReturn:
        fault(self.whole, at, message, help)

    def _check_size(self) -> None:
        if len(self.text) > _LONGEST:
            message = f"an expression of {len(self.text):,} characters, more than {_LONGEST:,}"
            self.fault((0, 1), message, "give several expressions")
        depth = 0
        for i, c in enumerate(self.text):
            depth += (c in "([{") - (c in ")]}")
            if depth > _DEEPEST:
                self.fault((i, i + 1), "nested too deeply")

    def _parsed(self, start: str) -> Any:
        from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

        try:
            return _parser().parse(self.text, start=start)
        except UnexpectedToken as e:
            token: Any = e.token
            at = len(self.text) if token.type == "$END" else token.start_pos or 0
            self._unexpected(at, e.expected)
        except UnexpectedCharacters as e:
            self._unexpected(e.pos_in_stream, e.allowed or ())
        except UnexpectedEOF as e:
            self._unexpected(len(self.text), e.expected)

    def _unexpected(self, at: Any, expected: Any) -> NoReturn:
        rest = self.text[at:].split()
        word = rest[0] if rest else ""
        called = _CALLED.search(self.text[:at]) if word.startswith("(") else None
        if called and called[1] not in _WORDS:
            self._no_function(called)
        labels = [*dict.fromkeys(label for kind, label in _LABELS.items() if kind in expected)]
        listed = f"{', '.join(labels[:-1])} or {labels[-1]}" if len(labels) > 1 else "".join(labels)
        found = f"`{word[:30]}`" if word else "the end"
        message = f"{listed or 'something else'} was expected, not {found}"
        help = _PAGE
        if word.startswith("=") and "OP" in expected:
            help = "numbers are compared with `==`"
        elif not self.text.strip():
            help = "for example 'no callback' or 'count(transpose) <= 2'"
        self.fault((at, at + len(word)), message, help)

    def _no_function(self, called: Any) -> NoReturn:
        """Raise the error for a bracket after a name that is not the name of a function."""
        name = called[1]
        near = close_names(name, _FUNCTIONS)
        help = f"did you mean {near[0]}?" if near else f"there are {', '.join(_FUNCTIONS)}"
        self.fault(called.span(1), f"there is no function {name}", help)

    # -- tests ----------------------------------------------------------------------------------------

    def read_claim(self, tree: Any) -> Claim:
        """Return the claim of a tree; a number is none, and raises an error."""
        found = self.read_test(tree)
        if isinstance(found, _NUMBERS):
            self.fault(
                found.at, "a number is neither true nor false", "compare it: count(sin) <= 2"
            )
        return found

    def read_number(self, tree: Any) -> Any:
        """Return the number of a tree; a claim is none, and raises an error."""
        found = self.read_test(tree)
        if not isinstance(found, _NUMBERS):
            self.fault(found.at, "what is true or false is no number", "count(PATTERN) is a number")
        return found

    def read_test(self, tree: Any) -> Any:
        """Return the claim or the number of a tree."""
        return getattr(self, f"_{tree.data}")(_at(tree), tree.children)

    def _either(self, at: At, parts: Any) -> Claim:
        return Logic("or", tuple(map(self.read_claim, parts)), at)

    def _both(self, at: At, parts: Any) -> Claim:
        return Logic("and", tuple(map(self.read_claim, parts)), at)

    def _negation(self, at: At, parts: Any) -> Claim:
        return Logic("not", (self.read_claim(parts[0]),), at)

    def _none(self, at: At, parts: Any) -> Claim:
        return Exists(self.read_pattern(parts[0]), False, at)

    def _some(self, at: At, parts: Any) -> Claim:
        return Exists(self.read_pattern(parts[0]), True, at)

    def _all_where(self, at: At, parts: Any) -> Claim:
        return AllWhere(self.read_pattern(parts[0]), self.read_filter(parts[1]), at)

    def _all_feed(self, at: At, parts: Any) -> Claim:
        return Feeds(self.read_pattern(parts[0]), self.read_pattern(parts[1]), True, at)

    def _feeds(self, at: At, parts: Any) -> Claim:
        return Feeds(self.read_pattern(parts[0]), self.read_pattern(parts[1]), False, at)

    def _before(self, at: At, parts: Any) -> Claim:
        ends = [end.children for end in parts]
        which = ["".join(c.lower() for c in end[:-1]) for end in ends]
        patterns = [self.read_pattern(end[-1]) for end in ends]
        return Before(patterns[0], patterns[1], (which[0], which[1]), at)

    def _lone_pattern(self, at: At, parts: Any) -> NoReturn:
        text = self.text[slice(*at)]
        help = f"say `no {text}`, `some {text}` or `count({text}) == 1`"
        self.fault(at, "a pattern is neither true nor false", help)

    def _chain(self, at: At, parts: Any) -> Claim:
        for op in parts[1::2]:
            if op not in ORDERS:
                self.fault(
                    _token(op), f"`{op}` does not compare numbers", f"{', '.join(ORDERS)} do"
                )
        return Chain(tuple(map(self.read_number, parts[::2])), tuple(map(str, parts[1::2])), at)

    # -- numbers --------------------------------------------------------------------------------------

    def _sum(self, at: At, parts: Any) -> Any:
        return Arithmetic(str(parts[1]), tuple(map(self.read_number, parts[::2])), at)

    _product = _sum

    def _minus(self, at: At, parts: Any) -> Any:
        return Arithmetic("-", (self.read_number(parts[1]),), at)

    def _number(self, at: At, parts: Any) -> Any:
        return Number(self.number(parts[0]), str(parts[0]), at)

    def number(self, token: Any) -> float:
        """The value of a NUMBER with its unit."""
        m = _NUMBER.fullmatch(token)
        digits = "" if m is None else m[1].rstrip("_")
        try:
            value = float(digits)
        except ValueError:
            self.fault(_token(token), f"`{token}` is no number")
        if m is not None and m[2]:
            value *= (_BINARY if m[3] else _UNITS)[m[2]]
        if value == float("inf"):
            self.fault(_token(token), "the number is too large")
        return value

    def _count(self, at: At, parts: Any) -> Any:
        pattern = next(p for p in parts if not isinstance(p, str))
        top = parts[0].type == "TOP"
        program = self.program(parts[-1]) if isinstance(parts[-1], str) else "A"
        return Count(self.read_pattern(pattern), program, top, at)

    def _figure(self, at: At, parts: Any) -> Any:
        name, pattern, program = str(parts[0]), None, "A"
        if len(parts) > 1:
            pattern = self.read_pattern(parts[1])
            if len(parts) == 2 and pattern.text in PROGRAMS:
                pattern, program = None, pattern.text
        if len(parts) == 3:
            program = self.program(parts[2])
        return Figure(name, pattern, program, at)

    def _residuals(self, at: At, parts: Any) -> Any:
        policy, program = "", "A"
        for part in parts:
            if not isinstance(part, str) and part.data == "policy":
                policy = str(part.children[0]).strip("\"'")
                program = self.program(part.children[1]) if len(part.children) > 1 else program
        last = parts[-1]
        if not isinstance(last, str):
            pattern = self.read_pattern(last)
            if pattern.value is None:
                help = "residuals are counted by their types: residuals(dots).count(f32[_, 64])"
                self.fault(pattern.at, f"`{pattern.text}` is no type", help)
            return Residuals(policy, pattern, program, at)
        if last != "bytes":
            message = f"residuals have no {last}"
            self.fault(_token(last), message, "residuals(dots).bytes is the bytes that they take")
        return Residuals(policy, None, program, at)

    def _growth(self, at: At, parts: Any) -> Any:
        return Growth(self.read_number(parts[1]), str(parts[2]), at)

    def program(self, token: Any) -> str:
        """A or B."""
        if token not in PROGRAMS:
            help = "the programs are A, and B, which --vs gives"
            self.fault(_token(token), f"there is no program {token}", help)
        return str(token)

    # -- patterns -------------------------------------------------------------------------------------

    def read_pattern(self, tree: Any) -> Pattern:
        """The pattern of a tree."""
        at = _at(tree)
        text = self.text[slice(*at)]
        if tree.data == "called":
            key, value = tree.children
            if key != "name":
                help = f"say _[{key}={value}] for the param of any primitive"
                self.fault(_token(key), f"`{key}` is no pattern: only `name=...` is", help)
            at_param = (_token(key)[0], _token(value)[1])
            params = (self.checked(at_param, param, "name", "==", str(value), at_param),)
            head = Head("name", None, _token(key))
            return Pattern(None, (), (head,), params, (), (), text, at)
        parts = {part.data: part for part in tree.children}
        value = self.value_pattern(tree, parts)
        filters = (
            () if "braces" not in parts else tuple(map(self.read_filter, parts["braces"].children))
        )
        if value is not None:
            return Pattern(value, (), (), (), (), filters, text, at)
        results = (
            () if "results" not in parts else tuple(map(self.result, parts["results"].children))
        )
        quoted = self.quoted(parts["heads"].children, len(tree.children) == 1)
        if quoted is not None:
            return quoted
        heads = tuple([self.head(h) for h in parts["heads"].children])
        operands = [self.operand(p) for p in tree.children if p.data in ("operand", "literal")]
        params = self.params(parts["brackets"]) if "brackets" in parts else ()
        return Pattern(None, results, heads, params, tuple(operands), filters, text, at)

    def value_pattern(self, tree: Any, parts: Any) -> TypePattern | None:
        """Return the type in a pattern that consists of one: `f64`, `f32[2, _]`, `_[8]`."""
        heads = parts["heads"].children
        name = heads[0].children[0]
        items = parts["brackets"].children if "brackets" in parts else None
        has_params = bool(items) and items[0].children[0].data == "params"
        if has_params or len(heads) > 1 or parts.keys() - {"heads", "brackets", "braces"}:
            return None
        if name.type not in ("NAME", "ANYTHING") or (name.type == "ANYTHING" and items is None):
            return None
        if name.type == "NAME" and items is None and find_type(str(name)) is None:
            return None
        dims: Any = None if items is None else items[0].children[0].children if items else ()
        return self.type(_at(tree), name, dims)

    def type(self, at: At, name: Any, dims: Any) -> TypePattern:
        """Return the type of a name and the tokens of its dimensions (None: any)."""
        texts = None if dims is None else [str(d.children[0]) for d in dims]
        return self.checked(at, type_of, str(name), texts, at)

    def result(self, tree: Any) -> TypePattern:
        return self.type_in(tree.children[1])

    def type_in(self, tree: Any) -> TypePattern:
        """The type of a `type` tree."""
        name, *rest = tree.children
        brackets = "[" in self.text[slice(*_at(tree))]
        dims: Any = rest[0].children if rest else () if brackets else None
        return self.type(_at(tree), name, dims)

    def quoted(self, heads: Any, alone: bool) -> Pattern | None:
        """Return the pattern in quotes where they contain more than a name: `'f32[2,64,64]'`; else None."""
        token = heads[0].children[0]
        inside = str(token)[1:-1]
        if token.type != "STRING" or (
            re.fullmatch(r"[\w*\-]+", inside) and find_type(inside) is None
        ):
            return None
        if not alone or len(heads) > 1:
            self.fault(_token(token), "a pattern in quotes stands alone", "write it without quotes")
        if self.whole is not self.text:
            self.fault(_token(token), "quotes inside of quotes")
        blanks = " " * (_token(token)[0] + 1)
        return _Builder(blanks + inside, "pattern", self.text).pattern

    def head(self, tree: Any) -> Head:
        token = tree.children[0]
        at, name = _token(token), str(token)
        if token.type == "ANYTHING":
            return Head(None, None, at)
        if token.type == "STRING":
            name = name[1:-1]
            if not re.fullmatch(r"[\w*\-]+", name):
                self.fault(at, f"`{name}` is no name of a primitive")
        if "*" in name:
            words = [re.sub(r"([^\w])", r"\\\1", word) for word in name.split("*")]
            return Head(name, self.checked(at, regex, f"^{'.*'.join(words)}$", at), at)
        return Head(name, None, at)

    def params(self, tree: Any) -> tuple[Any, ...]:
        if not tree.children:
            self.fault(_at(tree), "no params are given", "say primitive[key=value]")
        items = tree.children[0].children[0]
        if items.data != "params":
            self.fault(
                _at(tree), "params are expected: key=value", "dims stand behind the type of a value"
            )
        found: list[Any] = []
        for item in items.children:
            key, op, value = item.children
            at = _at(item)
            op = "==" if op == "=" else str(op)
            found.append(self.checked(at, param, str(key), op, str(value), at))
        return tuple(found)

    def operand(self, tree: Any) -> Operand:
        at, parts = _at(tree), tree.children
        if tree.data == "literal":
            value = self.number(parts[-1])
            return Operand(None, None, -value if len(parts) > 1 else value, at)
        name = None if parts[0].type == "ANYTHING" else str(parts[0])
        if parts[0].type == "PATH" and find_type(str(parts[0]).partition("[")[0]) is not None:
            self.fault(at, f"`{name}` is a type, and an operand is expected", f"write `_:{name}`")
        return Operand(name, self.type_in(parts[1]) if len(parts) > 1 else None, None, at)

    # -- filters --------------------------------------------------------------------------------------

    def read_filter(self, tree: Any) -> Any:
        """The filter of a tree."""
        kinds = {"filter_either": "or", "filter_both": "and", "filter_negation": "not"}
        at = _at(tree)
        if tree.data in kinds:
            return Logic(kinds[tree.data], tuple(map(self.read_filter, tree.children)), at)
        *some, attribute, op, value = tree.children
        op = "==" if op == "=" else str(op)
        words = [str(w.children[0]) for w in attribute.children if not isinstance(w, str)]
        index = next((str(x) for x in attribute.children if isinstance(x, str)), None)
        given = words, index, _at(attribute)
        return self.checked(at, comparison, given, op, str(value), bool(some), at)

    def checked(self, at: At, make: Any, *args: Any) -> Any:
        """Call a function; raise its FilterFault as a fault of the expression."""
        try:
            return make(*args)
        except FilterFault as e:
            self.fault(at, e.message, e.help or _PAGE)


def _at(tree: Any) -> At:
    if tree.meta.empty:
        return 0, 1
    return tree.meta.start_pos, tree.meta.end_pos


def _token(token: Any) -> At:
    return token.start_pos, token.end_pos
