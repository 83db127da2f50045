"""assert and grep: check expressions about a program, and find the matches of a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jaxprtool.analyses.asking.evaluate import Asked, evaluate
from jaxprtool.analyses.asking.items import Match
from jaxprtool.analyses.asking.mesh_groups import read_meshes
from jaxprtool.analyses.asking.stage_text import read_hlo, read_stablehlo
from jaxprtool.analyses.asking.staged import Staged
from jaxprtool.analyses.asking.subject import Program, Subject, Unknown
from jaxprtool.analyses.asking.verdict import Found, Verdict, Verdicts
from jaxprtool.core.stack import deep
from jaxprtool.driver import residuals
from jaxprtool.driver.compile import compile_located
from jaxprtool.driver.places import with_places
from jaxprtool.driver.progress import working
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.driver.verify import check_input
from jaxprtool.driver.words.numbers import numbers
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.avals import SymbolicDim
from jaxprtool.ir.diagnostics import Diagnostic, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.spans import Source, Span
from jaxprtool.passes.specialise import specialise
from jaxprtool.syntax.assertions.nodes import Claim
from jaxprtool.syntax.assertions.read import read_claim, read_pattern

__all__ = [
    "STAGES",
    "Assertion",
    "Sizes",
    "annotations_of",
    "ask",
    "ask_at",
    "grep",
    "in_sizes",
    "sizes_of",
    "warnings_of",
]

STAGES = ("lowered", "compiled")


class Assertion:
    """An expression of `jaxprtool assert`, read once.

    Attributes:
      text: the expression.
      claim: the claim that it states.
    """

    __slots__ = ("claim", "text")

    def __init__(self, text: str):
        """Read an expression. Raises UsageError with the position of the fault in it."""
        self.text = text
        self.claim: Claim = read_claim(text)

    def __repr__(self) -> str:
        return f"Assertion({self.text!r})"

    def of(self, asked: Asked) -> Verdict:
        """Return whether it is true.

        Raises UsageError where a figure is not known, or something that it needs is not given.
        """
        found = evaluate(self.claim, self.text, asked)
        subjects = [asked.a, asked.b, *[s for _, *both in asked.sizes for s in both]]
        unknown = [u for s in subjects if s is not None for u in s.unknown]
        for s in subjects:
            if s is not None:
                s.unknown = []
        return replace(found, warnings=[*dict.fromkeys(unknown)])


@deep
def ask(
    program: ClosedJaxpr,
    expressions: Sequence[str | Assertion],
    *,
    vs: ClosedJaxpr | None = None,
    sizes: Sequence[tuple[int, ClosedJaxpr, ClosedJaxpr | None]] = (),
    size: str = "",
    trips: int | None = None,
    top: int = 20,
    stage: str | None = None,
    title: str = "<program>",
) -> Verdicts:
    """Return whether expressions are true of a program.

    Args:
      program: the program, A.
      expressions: the expressions (see `jaxprtool assert --help`).
      vs: program B, or None.
      sizes: each size with the programs A and B (or None) in this size, in the place of `program`
        and `vs`.
      size: the name of the size: the `S` in `growth(peak, S)`.
      trips: the number of iterations of loops for which it is not known; None: unknown.
      top: the number of matches of each expression that are shown.
      stage: `lowered` or `compiled`: ask about the StableHLO or the optimised HLO of the programs;
        None: about the programs.
      title: the name of the program.

    Raises:
      JaxprTypeError: a program is ill-typed.
      MissingRuleError, UnsupportedError: it cannot be lowered or compiled.
      UsageError: an expression has no meaning, a figure is not known, there is no B, or no sizes.
    """
    if top < 1:
        fail(UsageError, f"--top {top}: at least one match is shown", "option")
    if trips is not None and trips < 0:
        fail(UsageError, f"--trips {trips}: a loop turns 0 times or more", "option")
    if not expressions:
        help = "for example 'no callback' or 'count(transpose) <= 2'"
        fail(UsageError, "there is nothing to assert: no expression is given", "usage", help=help)
    read = [x if isinstance(x, Assertion) else Assertion(x) for x in expressions]

    if stage is not None and stage not in STAGES:
        fail(UsageError, f"stage {stage!r}: it is one of {', '.join(STAGES)}", "option")

    def subject(of: ClosedJaxpr, name: str) -> Subject:
        placed = with_places(check_input(of), name)
        return _staged(placed, stage) if stage else Program(placed, name, trips, residuals.kept)

    several = [
        (n, subject(p, f"{title} at {size} = {n}"), None if q is None else subject(q, "B"))
        for n, p, q in sizes
    ]
    if several:
        asked = Asked(*several[-1][1:], several, size)
    else:
        asked = Asked(subject(program, title), None if vs is None else subject(vs, "B"))
    return Verdicts(title, [x.of(asked) for x in read], top)


def _staged(program: ClosedJaxpr, stage: str) -> Staged:
    """Return the operations of a program after lowering or compilation."""
    loaded = load_constants(program)
    lowered = lower_jaxpr(loaded).text
    meshes = read_meshes(lowered)
    if stage == "lowered":
        return Staged(read_stablehlo(lowered), "StableHLO", meshes)
    with working("compiling with XLA"):
        compiled = compile_located(loaded, donate=True)
    costs = compiled.cost_analysis()
    figures = {
        "peak": compiled.memory_analysis().peak,
        "flops": costs.get("flops", 0.0),
        "transcendentals": costs.get("transcendentals", 0.0),
        "bytes": costs.get("bytes accessed", 0.0),
    }
    return Staged(read_hlo(compiled.as_text()), "HLO", meshes, figures)


@deep
def grep(
    pattern: str,
    programs: Sequence[tuple[str, ClosedJaxpr]],
    *,
    top: int | None = None,
    only_count: bool = False,
) -> Found:
    """Return the matches of a pattern in programs.

    Args:
      pattern: a pattern of equations, or a type of values (see `jaxprtool assert --help`).
      programs: each with its name.
      top: the largest number of matches to find in each program; None: all.
      only_count: whether only numbers are shown.

    Raises:
      JaxprTypeError: a program is ill-typed.
      UsageError: the pattern has no meaning.
    """
    wanted = read_pattern(pattern)
    found: list[tuple[str, list[Match]]] = []
    unknown: list[Sequence[Unknown]] = []
    for name, program in programs:
        subject = Program(with_places(check_input(program), name), name)
        items = subject.find(wanted)
        found.append((name, [*dict.fromkeys(i.match() for i in items[:top])]))
        unknown.append(subject.unknown)
    # a name is only unknown if no program has it
    everywhere = [u for u in unknown[0] if all(u in other for other in unknown)] if unknown else []
    return Found(pattern, found, only_count, everywhere)


def warnings_of(expression: str, unknown: Sequence[Unknown]) -> list[Diagnostic]:
    """Return warnings about names in an expression that occur nowhere in the programs."""
    source = Source(expression, "<expression>")
    return [
        Diagnostic(u.message, "unknown-name", Span(source, *u.at), u.help, severity="warning")
        for u in unknown
    ]


def annotations_of(verdicts: Verdicts) -> list[Diagnostic]:
    """Return an error for each expression that is not true, at the first match that decides it."""
    found: list[Diagnostic] = []
    for verdict in verdicts.failed:
        places = [m.place for m in verdict.matches if m.place is not None]
        span = places[0].eqn.span if places else None
        said = "; ".join([fact.says for fact in verdict.facts])
        message = f"{verdict.expression} is false: {said}"
        found.append(Diagnostic(message, "assertion", span))
    return found


# -- sizes --------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """The contents of `S=128,512`: the name of the size, and its values, all different, in ascending order."""

    name: str
    values: list[int]


def sizes_of(text: str) -> Sizes:
    """The sizes in `S=128,512`. Raises UsageError."""
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier():
        fail(
            UsageError, f"--sizes {text}: NAME=N,M is expected", "option", help="--sizes S=128,512"
        )
    found = sorted(numbers("--sizes", values))
    if len(found) < 2 or len({*found}) < len(found) or found[0] < 1:
        message = f"--sizes {text}: two or more different positive numbers are expected"
        fail(UsageError, message, "option", help="--sizes S=128,512")
    return Sizes(name, found)


Load = Callable[[str, dict[str, Any]], ClosedJaxpr]


def ask_at(
    file: str,
    expressions: Sequence[str],
    vs: str | None,
    sizes: str | None,
    tracing: dict[str, Any],
    load: Load,
    **how: Any,
) -> Verdicts:
    """Return whether expressions are true of the program of a file, or of a function.

    Args:
      file: the file or the function.
      expressions: the expressions.
      vs: the file or the function of program B, or None.
      sizes: `S=128,512`, or None for the one size that it has.
      tracing: the options for tracing functions.
      load: reads the program of a file, or traces one with these options.
      how: `trips`, `top`; see `ask`.

    Raises:
      JaxprTypeError, UsageError: as `ask` and `in_sizes`.
    """
    read = [Assertion(text) for text in expressions]
    if sizes is None:
        other = None if vs is None else load(vs, tracing)
        return ask(load(file, tracing), read, vs=other, title=file, **how)
    wanted = sizes_of(sizes)
    programs = in_sizes(file, tracing, wanted, load)
    others = [None] * len(programs) if vs is None else _others(vs, tracing, wanted, load)
    several = [(n, p, q) for n, p, q in zip(wanted.values, programs, others, strict=True)]
    return ask(programs[0], read, sizes=several, size=wanted.name, title=file, **how)


def in_sizes(file: str, tracing: dict[str, Any], sizes: Sizes, load: Load) -> list[ClosedJaxpr]:
    """Return a program in several sizes.

    The name of the size stands in the types or arguments of a function (`--shape f32[S,64]`,
    `--static n=S`, `--like 'example_args(S)'`), in braces in the name of a file (`a_{S}.jaxpr`), or
    is a symbolic dimension of the program in a file.

    Args:
      file: the function or the file.
      tracing: the options for tracing functions.
      sizes: the sizes.
      load: reads the program of a file, or traces one with these options.

    Raises:
      UsageError: nothing of the program depends on the size.
    """
    name = sizes.name
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    words, static = (*tracing.get("shapes", ()), *tracing.get("like", ())), _static(tracing)
    if f"{{{name}}}" in file:
        return [load(file.replace(f"{{{name}}}", str(n)), tracing) for n in sizes.values]
    if any(map(word.search, words)) or name in static.values():
        return [load(file, _at_size(tracing, word, name, n)) for n in sizes.values]
    program = None if is_function(file) else load(file, tracing)
    if program is None or not _has_dimension(program, word):
        help = f"say --shape 'f32[{name},64]' of a function, or a_{{{name}}}.jaxpr for a file"
        fail(UsageError, f"--sizes: nothing in {file} depends on {name}", "option", help=help)
    return [specialise(program, **{name: n}) for n in sizes.values]


def _others(vs: str, tracing: dict[str, Any], sizes: Sizes, load: Load) -> list[ClosedJaxpr]:
    """Return program B in the same sizes; one without the size is the same in all."""
    try:
        return in_sizes(vs, tracing, sizes, load)
    except UsageError:
        return [load(vs, tracing)] * len(sizes.values)


def _at_size(tracing: dict[str, Any], word: re.Pattern[str], name: str, n: int) -> dict[str, Any]:
    words = {
        key: tuple([word.sub(str(n), text) for text in tracing[key]])
        for key in ("shapes", "like")
        if key in tracing
    }
    static = _static(tracing)
    chosen = {key: n if value == name else value for key, value in static.items()}
    return {**tracing, **words, **({"static": chosen} if static else {})}


def _static(tracing: dict[str, Any]) -> dict[str, Any]:
    return tracing.get("static") or {}


def _has_dimension(program: ClosedJaxpr, word: re.Pattern[str]) -> bool:
    shapes = [getattr(aval, "shape", ()) for aval in program.in_avals]
    return any(isinstance(d, SymbolicDim) and word.search(d) for shape in shapes for d in shape)
