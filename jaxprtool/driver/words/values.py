"""Values for a program's arguments, as words of the command line.

A word is a number or a nested list (`3.0`, `[[1,2],[3,4]]`), a file (`x.npy`, `inputs.npz`), or a
generator (`random:SEED`, `zeros`, `ones`, `ramp`), or one of them for an argument by name (`a=3.0`). Shapes and dtypes
come from the program. An `.npz` file gives the arguments that its arrays are named for (`params["w"]`, `params.w`,
`params/w`), else as many as it has arrays; a generator as the last word gives all that are left. Words without a name are
for the arguments that no word names, in order.

Where a program has an interface, the value of an argument is a tree of such words, `params={"w": x.npy, "b": zeros}`, and
a dict of arguments gives several: `{"params": {...}, "x": [1, 2]}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jaxprtool.driver.verify import check_types
from jaxprtool.driver.words.arguments import parts_called, refuse_ambiguous, similar_names
from jaxprtool.driver.words.examples import example_values
from jaxprtool.driver.words.trees import WordTree, parse_value, spread
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.interface import LEAF, Interface, Part, Tree, argument_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value, Var
from jaxprtool.syntax.patterns import pattern

__all__ = ["arguments", "is_word", "open_binders", "values_to_measure"]

_A_NUMBER = (
    r"[+-]?(?:nan|inf(?:inity)?|\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)"
    r"(?:[+-](?:nan|inf(?:inity)?|(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)j|j)?"
)
_NUMBER = pattern(_A_NUMBER, re.IGNORECASE)
_TOKEN = pattern(rf"\s*(?:([\[\]\(\),])|({_A_NUMBER}|true|false)(?![\w.]))", re.IGNORECASE)
_STEP = r"\[(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\[\]\"'=]*)\]"
_NAMED = pattern(rf"([^\W\d](?:[^=\s\[({{\"']|{_STEP})*)=(.*)", re.DOTALL)
_TREE = pattern(r"(?:[^\W\d]\w*)?\{|[^\W\d]\w*\(")
_GENERATOR = pattern(r"(random|zeros|ones|ramp)(?::(\d+))?\Z")


def is_word(text: str) -> bool:
    """Whether a word of the command line reads like a value (not like an option or a jaxpr file)."""
    return (
        text.startswith(("[", "(", "{"))
        or text.endswith((".npy", ".npz"))
        or text.lower() in ("true", "false")
        or text.startswith("random:")
        or _GENERATOR.match(text) is not None
        or _NUMBER.fullmatch(text) is not None
        or ((m := _NAMED.fullmatch(text)) is not None and is_word(m[2]))
    )


def split_words(texts: Sequence[str]) -> list[str]:
    """Split texts into words, at spaces that are not inside brackets."""
    words: list[str] = []
    for text in texts:
        depth, word = 0, ""
        for c in text:
            depth += (c in "[({") - (c in "])}")
            if c.isspace() and depth <= 0:
                words.append(word)
                word = ""
            else:
                word += c
        words.append(word)
    return [w for w in words if w]


def open_binders(program: ClosedJaxpr) -> list[Var]:
    """Return the binders for which a caller gives values: constants without a value, then the arguments."""
    pairs = zip(program.jaxpr.const_binders, program.consts, strict=True)
    return [*(v for v, c in pairs if c is None), *program.jaxpr.in_binders]


def arguments(
    binders: Sequence[Var],
    words: Sequence[str],
    *,
    interface: Interface | None = None,
    max_bytes: int | None = None,
    below: Mapping[Var, int] | None = None,
    otherwise: Sequence[str] = (),
) -> list[Value]:
    """Return values for binders, as NumPy arrays of the right shapes and dtypes.

    Args:
      binders: the binders, as from `open_binders`.
      words: words as described in the module's docstring.
      interface: the names and trees of the binders, as from `interpreters.interfaces.of_open`.
      max_bytes: refuse to make more than this.
      below: by integer binder, an exclusive upper bound of random values.
      otherwise: the words that hold without any, unless the function was traced on example
        arguments (`--like`): then it gets their values.

    Raises:
      UsageError: wrong number, shape, dtype or structure (the message names the argument and both
        types), an unreadable file, a word that is none of the above, too large.
    """
    names = interface.names() if interface else [v.name or "_" for v in binders]
    check_types(binders, "--args", sized=True)
    _check_size(binders, names, max_bytes)
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    if not words:
        values, words = example_values(binders), otherwise
        if values is not None:
            return values
    giving = _Giving(binders, interface, arrays, below or {})
    unnamed: list[str] = []
    for word in split_words(words):
        m = _NAMED.fullmatch(word)
        if m is not None:
            part, name = giving.part(m[1], f"--args {m[1]}=")
            giving.give(part, giving.value(m[2], part), name)
        elif not giving.by_name(word):
            unnamed.append(word)
    if not binders:  # there is no argument for a generator to make
        unnamed = [w for w in unnamed if not _GENERATOR.match(w)]
    for k, word in enumerate(unnamed):
        giving.give_next(word, k == len(unnamed) - 1)
    _check_count(binders, names, len(giving.values) + giving.too_many)
    return [giving.values[i] for i in range(len(binders))]


def values_to_measure(
    program: ClosedJaxpr, words: Sequence[str], max_bytes: int | None
) -> list[Value]:
    """Return `arguments` for a program that is measured: random ones where none are given."""
    binders, interface = open_binders(program), of_open(program)
    how: Any = {"interface": interface, "max_bytes": max_bytes, "otherwise": ("random:0",)}
    return arguments(binders, words, **how)


class _Giving:
    """The values of arguments so far.

    Attributes:
      values: by the position of the argument.
      too_many: the number of words without an argument.
      below: the exclusive upper bounds of random integers.
    """

    def __init__(
        self,
        binders: Sequence[Var],
        interface: Interface | None,
        arrays: Any,
        below: Mapping[Var, int],
    ):
        self.binders, self.interface, self.arrays = binders, interface, arrays
        self.below = below
        names = interface.names() if interface else []
        labels = argument_labels([v.name for v in binders], interface)
        self.slots = [*map(arrays.Slot, range(len(binders)), binders, labels)]
        self.names = names or [v.name or "" for v in binders]
        self.values: dict[int, Value] = {}
        self.too_many = 0

    def part(self, name: str, what: str) -> tuple[Part, str]:
        """Return the part of the arguments that a name means, and its full name.

        Raises UsageError for none.
        """
        found = parts_called(name, self.interface, self.binders, inside=True)
        if len(found) > 1 and self.interface is not None:
            refuse_ambiguous(what, found, self.interface)
        if not found:
            message = f"{what}: the program has no argument {name}"
            help = similar_names(name, self.interface, self.binders)
            fail(UsageError, message, "bad-value", help=help)
        return found[0], name

    def value(self, word: str, part: Part) -> WordTree:
        """Return the value of a word for a part; a file for one array is read later, when its type is known."""
        is_tree = part.tree != LEAF and not {*"{[("}.isdisjoint(word)
        return parse_value(word, "--args") if is_tree else word

    def by_name(self, word: str) -> bool:
        """Take a dict of arguments by name, or an `.npz` file of arrays named like arguments;
        return whether it is one.
        """
        if word.startswith("{"):
            value = parse_value(word, "--args")
            interface = self.interface
            named = interface is not None and any(map(interface.find, value))
            if named or not self._takes_dict():
                for name in value:
                    part, _ = self.part(name, "--args")
                    self.give(part, value[name], name)
                return True
        elif word.endswith(".npz") and self.interface is not None:
            return self._give_members(word, None)
        return False

    def _takes_dict(self) -> bool:
        """Whether one of the remaining arguments is a tree for which a dict without its name may stand."""
        parts = self.interface.parts() if self.interface else []
        return any(p.tree.kind in ("dict", "object") and p.start not in self.values for p in parts)

    def give(self, part: Part, value: WordTree, name: str) -> None:
        """Assign a value to a part of the arguments."""
        for below, called, word in spread(part, value, name, "--args", whole=True):
            for i in below.positions:
                if i in self.values:
                    fail(UsageError, f"--args gives {self.names[i] or called} twice", "bad-value")
            self._give_word(below, called, word)

    def _give_word(self, part: Part, name: str, word: WordTree) -> None:
        slots = [self.slots[i] for i in part.positions]
        if isinstance(word, str) and part.tree.kind != "leaf":
            if word.endswith(".npz") and self._give_members(word, part):
                return
            if not _GENERATOR.match(word) and not word.endswith(".npz"):
                message = f"--args {name}: {name} is {part.tree}, and {word} is given"
                help = f"--args '{name}={_example(part.tree)}'"
                fail(UsageError, message, "bad-value", help=help)
        made = self._made(word, slots, True)
        self.values.update((slot.position, x) for slot, x in zip(slots, made, strict=False))

    def give_next(self, word: str, last: bool) -> None:
        """Assign a word without a name to the first of the remaining arguments, or to as many as it has values for."""
        left = [slot for slot in self.slots if slot.position not in self.values]
        if _TREE.match(word) and left:
            for part in self.interface.parts() if self.interface else ():
                if part.start == left[0].position and part.tree.kind != "leaf":
                    self.give(part, parse_value(word, "--args"), self._argument(part))
                    return
        made = self._made(word, left, last)
        self.values.update((slot.position, x) for slot, x in zip(left, made, strict=False))
        self.too_many += max(len(made) - len(left), 0)

    def _argument(self, part: Part) -> str:
        assert self.interface is not None
        pairs = zip(self.interface.parts(), self.interface.args, strict=True)
        return next(name for p, (name, _) in pairs if p.start == part.start and p.tree.size)

    def _made(self, word: WordTree, left: Sequence[Value], last: bool) -> list[Value]:
        """Return the values that one word gives, for the remaining arguments.

        When none is left it still returns one (None), so that the message can count them.
        """
        arrays = self.arrays
        if not isinstance(word, str):
            return [arrays.from_literal(_literal(word), slot) for slot in left[:1]] or [None]
        generator = _GENERATOR.match(word)
        if generator is None and word.startswith("random:"):
            fail(UsageError, f"--args: the seed of {word} is not a number", "bad-value")
        if generator is not None:
            kind, seed = generator[1], int(generator[2] or 0)
            chosen = left if last else left[:1]
            below = self.below.get
            made = [
                arrays.generate(kind, seed, s.position, s.var.aval, below(s.var)) for s in chosen
            ]
            return made or [None]
        if word.endswith(".npz"):
            return arrays.load_npz(word, left)
        value = arrays.load_npy(word) if word.endswith(".npy") else parse_literal(word)
        if not left:
            return [None]
        if word.endswith(".npy"):
            return [arrays.fit(value, left[0], word)]
        return [arrays.from_literal(value, left[0])]

    def _give_members(self, path: str, within: Part | None) -> bool:
        """Take the arrays of an `.npz` file that are named like arguments, or like parts of one;
        return whether there are any.
        """
        found: dict[str, int] = {}
        members = self.arrays.member_names(path)
        for key in sorted(members):
            parts = self._named_by_member(key, within)
            if len(parts) > 1 and self.interface is not None:
                refuse_ambiguous(f"{key} of {path}", parts, self.interface)
            found.update((key, p.start) for p in parts if p.tree.kind == "leaf")
        if not found:
            return False
        others = sorted(members - found.keys())
        if others:
            message = f"{path}: the program has no argument {others[0]}"
            help = similar_names(others[0], self.interface, self.binders)
            fail(UsageError, message, "bad-value", help=help)
        for key, i in found.items():
            if i in self.values:
                fail(UsageError, f"--args gives {self.names[i]} twice", "bad-value")
            self.values[i] = self.arrays.load_named(path, key, self.slots[i])
        return True

    def _named_by_member(self, key: str, within: Part | None) -> list[Part]:
        assert self.interface is not None
        if within is None:
            return self.interface.find(key)
        path = key if key[:1] in "[./" else f"/{key}"
        below = [Part(within.start + p.start, p.tree) for p in within.tree.find(path)]
        whole = [p for p in self.interface.find(key) if p.start in within.positions]
        return below or whole


def _literal(value: WordTree) -> Any:
    """Convert nested lists of words to nested lists of numbers."""
    if isinstance(value, str):
        return parse_literal(value)
    return [_literal(x) for x in value]


def _example(tree: Tree) -> str:
    """Return a value with the structure of a tree."""
    return str(tree).replace("*", "zeros")


def _check_count(binders: Sequence[Var], names: Sequence[str], given: int) -> None:
    n = len(binders)
    if given == n:
        return
    takes = f"takes {counted(n, 'argument') if n else 'no arguments'}"
    types = " ".join(f"{name}:{v.aval}" for v, name in zip(binders, names, strict=True))
    fail(
        UsageError,
        f"the program {takes}{f' ({types})' if n else ''}, and {given or 'none'} "
        f"{'is' if given == 1 else 'are'} given",
        "argument-count",
        help="a generator as the last word gives all that are left: --args random:0" if n else "",
    )


def _check_size(binders: Sequence[Var], names: Sequence[str], max_bytes: int | None) -> None:
    total = sum(getattr(v.aval, "nbytes", 0) for v in binders)
    if binders and max_bytes is not None and total > max_bytes:
        named = zip(binders, names, strict=True)
        biggest, name = max(named, key=lambda pair: getattr(pair[0].aval, "nbytes", 0))
        fail(
            UsageError,
            f"the arguments take {total:,} bytes, more than the limit of {max_bytes:,} "
            f"(largest: {name}:{biggest.aval})",
            "too-large",
            span=biggest.span,
            help="raise the limit with --max-bytes",
        )


def parse_literal(text: str) -> Any:
    """A number or a nested list, from its text; never evaluated.

    Raises:
      UsageError: it is neither; the message says where.
    """
    done: list[Any] = []
    stack: list[list[Any]] = [done]
    pos, comma = 0, True  # whether a value may come next
    while text[pos:].strip():
        m = _TOKEN.match(text, pos)
        if m is None:
            _bad_literal(text, pos)
        mark, number = m[1], m[2]
        if mark == ",":
            if comma or len(stack) == 1:
                _bad_literal(text, m.start(1))
            comma = True
        elif mark and mark in "])":
            if len(stack) == 1:
                _bad_literal(text, m.start(1))
            stack.pop()
            comma = False
        elif not comma:
            _bad_literal(text, m.start(1) if mark else m.start(2))
        elif mark:
            stack[-1].append([])
            stack.append(stack[-1][-1])
        else:
            stack[-1].append(_number(number))
            comma = False
        pos = m.end()
    if len(stack) > 1 or len(done) != 1:
        _bad_literal(text, len(text))
    return done[0]


def _number(text: str) -> Any:
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    if lower.endswith("j"):
        return complex(lower)
    if re.fullmatch(r"[+-]?[\d_]+", lower):
        return int(lower)
    return float(lower)


def _bad_literal(text: str, pos: int) -> NoReturn:
    rest = text[pos:].strip()[:20]
    where = f" at {rest!r}" if rest and pos else ""
    what = "not closed" if not rest and pos else "not a value"
    fail(
        UsageError,
        f"--args: {text[:60]!r} is {what}{where}",
        "bad-value",
        help="a value is a number, a list such as [[1,2],[3,4]], a .npy or .npz file, random:SEED, "
        "zeros, ones or ramp",
    )
