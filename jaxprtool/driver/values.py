"""Values for a program's arguments, as words of the command line.

A word is a number or a nested list (`3.0`, `[[1,2],[3,4]]`), a file (`x.npy`, `inputs.npz`), or a
generator (`random:SEED`, `zeros`, `ones`, `ramp`), or one of them for an argument by name (`a=3.0`). Shapes and dtypes come from the program. An `.npz` file
gives as many arguments as it has arrays; a generator as the last word gives all that are left. Words without a name
are for the arguments that no word names, in order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Var
from jaxprtool.ir.synonyms import close_names

__all__ = ["arguments", "is_word", "open_binders", "open_names", "parse_literal", "split_words"]

_NUMBER = re.compile(
    r"[+-]?(?:nan|inf(?:inity)?|\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)"
    r"(?:[+-](?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?j|j)?",
    re.IGNORECASE,
)
_TOKEN = re.compile(rf"\s*(?:([\[\]\(\),])|({_NUMBER.pattern}|true|false)(?![\w.]))", re.IGNORECASE)
_NAMED = re.compile(r"([A-Za-z_][^=\s\[(]*)=(.*)", re.DOTALL)
_GENERATOR = re.compile(r"(random|zeros|ones|ramp)(?::(\d+))?\Z")


def is_word(text: str) -> bool:
    """Whether a word of the command line reads like a value (and not like an option or a jaxpr file)."""
    return (
        text.startswith(("[", "("))
        or text.endswith((".npy", ".npz"))
        or text.lower() in ("true", "false")
        or text.startswith("random:")
        or _GENERATOR.match(text) is not None
        or _NUMBER.fullmatch(text) is not None
        or ((m := _NAMED.fullmatch(text)) is not None and is_word(m[2]))
    )


def split_words(texts: Sequence[str]) -> list[str]:
    """The words of some texts: cut at spaces that are not inside brackets."""
    words: list[str] = []
    for text in texts:
        depth, word = 0, ""
        for c in text:
            depth += (c in "[(") - (c in "])")
            if c.isspace() and depth <= 0:
                words.append(word)
                word = ""
            else:
                word += c
        words.append(word)
    return [w for w in words if w]


def open_binders(program: ClosedJaxpr) -> list[Var]:
    """What a caller has to give: constants without a value, then the arguments."""
    pairs = zip(program.jaxpr.const_binders, program.consts, strict=True)
    return [*(v for v, c in pairs if c is None), *program.jaxpr.in_binders]


def open_names(program: ClosedJaxpr) -> list[str]:
    """What the function that was traced calls `open_binders`; "" where that is not known."""
    n = len(open_binders(program)) - len(program.jaxpr.in_binders)
    return [""] * n + list(program.arg_names or [""] * len(program.jaxpr.in_binders))


def arguments(
    binders: Sequence[Var],
    words: Sequence[str],
    *,
    names: Sequence[str] = (),
    max_bytes: int | None = None,
) -> list[Any]:
    """Values for binders, as NumPy arrays of the right shapes and dtypes.

    Args:
      binders: what is to be given, as `open_binders` lists it.
      words: what the module's docstring describes, one word each.
      names: further names of the arguments, as `open_names` lists them.
      max_bytes: refuse to make more than this.

    Raises:
      UsageError: wrong number, shape or dtype (the message names the argument and both types), an
        unreadable file, a word that is none of the above, too large.
    """
    named = zip(binders, [*names] or [""] * len(binders), strict=True)
    binders = [v if v.name or not name else Var(v.aval, name, v.span) for v, name in named]
    _check_size(binders, max_bytes)
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    given: dict[int, Any] = {}
    unnamed: list[str] = []
    for word in split_words(words):
        m = _NAMED.fullmatch(word)
        if m is None:
            unnamed.append(word)
            continue
        i = _position(m[1], binders, names)
        if i in given:
            fail(UsageError, f"--args gives {m[1]} twice", "bad-value")
        given[i] = _from_word(m[2], [(i, binders[i])], False, arrays)[0]
    left = [(i, v) for i, v in enumerate(binders) if i not in given]
    if not binders:  # a generator gives all that there are: none
        unnamed = [w for w in unnamed if not _GENERATOR.match(w)]
    values: list[Any] = []
    for k, word in enumerate(unnamed):
        values += _from_word(word, left[len(values) :], k == len(unnamed) - 1, arrays)
    _check_count(binders, len(given) + len(values))
    given.update((i, x) for (i, _), x in zip(left, values, strict=True))
    return [given[i] for i in range(len(binders))]


def _position(name: str, binders: Sequence[Var], names: Sequence[str]) -> int:
    """Which argument a name means. Raises UsageError for none."""
    known = [v.name or "" for v in binders]
    for found in (known, names):
        if name in found:
            return list(found).index(name)
    known = [x for x in (names if any(names) else known) if x]
    near = close_names(name, known)
    takes = f"it takes {' '.join(known[:20])}" if known else ""
    help = f"did you mean {near[0]}?" if near else takes
    fail(UsageError, f"--args {name}=: the program has no argument {name}", "bad-value", help=help)


def _from_word(word: str, left: Sequence[tuple[int, Var]], last: bool, arrays: Any) -> list[Any]:
    """The values that one word gives, for the arguments that are left: their positions and binders.

    When there is none left it still gives one (None), so that the message can count them.
    """
    generator = _GENERATOR.match(word)
    if generator is None and word.startswith("random:"):
        fail(UsageError, f"--args: the seed of {word} is not a number", "bad-value")
    if generator is not None:
        kind, seed = generator[1], int(generator[2] or 0)
        chosen = left if last else left[:1]
        made = [arrays.generate(kind, seed, i, v.aval) for i, v in chosen]
        return made or [None]
    if word.endswith(".npz"):
        return arrays.load_npz(word, left)
    value = arrays.load_npy(word) if word.endswith(".npy") else parse_literal(word)
    if not left:
        return [None]
    i, v = left[0]
    if word.endswith(".npy"):
        return [arrays.fit(value, v, i, word)]
    return [arrays.from_literal(value, v, i)]


def _check_count(binders: Sequence[Var], given: int) -> None:
    n = len(binders)
    if given == n:
        return
    takes = f"takes {counted(n, 'argument') if n else 'no arguments'}"
    types = " ".join(f"{v.name or '_'}:{v.aval}" for v in binders)
    fail(
        UsageError,
        f"the program {takes}{f' ({types})' if n else ''}, and {given or 'none'} "
        f"{'is' if given == 1 else 'are'} given",
        "argument-count",
        help="a generator as the last word gives all that are left: --args random:0" if n else "",
    )


def _check_size(binders: Sequence[Var], max_bytes: int | None) -> None:
    total = sum(getattr(v.aval, "nbytes", 0) for v in binders)
    if max_bytes is not None and total > max_bytes:
        biggest = max(binders, key=lambda v: getattr(v.aval, "nbytes", 0))
        fail(
            UsageError,
            f"the arguments take {total:,} bytes, more than the limit of {max_bytes:,} "
            f"(largest: {biggest.name or '_'}:{biggest.aval})",
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
