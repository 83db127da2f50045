"""Which arguments of a program an option means."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.synonyms import close_names

__all__ = [
    "Position",
    "argument_positions",
    "describe",
    "names_of",
    "positions_named",
    "wanted_flags",
]


def describe(program: ClosedJaxpr, i: int) -> str:
    """Argument i for a message: `argument 1 (b)`."""
    name = program.jaxpr.in_binders[i].name
    return f"argument {i} ({name})" if name else f"argument {i}"


Position = int | str


def names_of(program: ClosedJaxpr) -> list[list[str]]:
    """For each argument what it is called: in the program, and in the function that was traced."""
    names: list[list[str]] = [[v.name] if v.name else [] for v in program.jaxpr.in_binders]
    for found, name in zip(names, program.arg_names, strict=False):
        found.append(name)
    return names


def positions_named(program: ClosedJaxpr, name: str, option: str) -> list[int]:
    """The positions of the arguments that a name means.

    In a function that was traced, the name of a parameter means all leaves of its pytree (`params`), and the way
    down to some of them those (`params.layers`); else, and first, a name is that of one variable.

    Raises:
      UsageError: no argument has the name, which may be that of a constant.
    """
    names = names_of(program)
    found = [i for i, known in enumerate(names) if name in known]
    found = found or [
        i for i, known in enumerate(names) if any(k.startswith(f"{name}.") for k in known)
    ]
    if found:
        return found
    if any(v.name == name for v in program.jaxpr.const_binders):
        message = f"{option} {name}: {name} is a constant of the program, and no argument"
        fail(UsageError, message, "argument-index", span=program.jaxpr.span)
    known = [k for ks in names for k in ks[-1:]]
    near = close_names(name, known)
    help = f"did you mean {near[0]}?" if near else ""
    if not near and known:
        more = ", ..." if len(known) > 12 else ""
        help = f"its {'arguments are' if len(known) > 1 else 'argument is'} {', '.join(known[:12])}{more}"
    message = f"{option} {name}: the program has no argument {name}"
    fail(UsageError, message, "argument-index", span=program.jaxpr.span, help=help)


def argument_positions(program: ClosedJaxpr, wanted: Sequence[Position], option: str) -> list[int]:
    """Positions counted from 0.

    Args:
      program: the program.
      wanted: positions, negative ones counted from the end, and names (see `positions_named`).
      option: what to call the list in messages.

    Raises:
      UsageError: there is no such argument, or one is named twice.
    """
    n = len(program.jaxpr.in_binders)
    positions: list[int] = []
    for word in wanted:
        if isinstance(word, int) and not -n <= word < n:
            fail(
                UsageError,
                f"{option} {word}: there is no such argument, the program takes {counted(n, 'argument')}",
                "argument-index",
                span=program.jaxpr.span,
            )
        for i in [word % n] if isinstance(word, int) else positions_named(program, word, option):
            if i in positions:
                fail(UsageError, f"{option} names argument {i} twice", "argument-index")
            positions.append(i)
    return positions


def wanted_flags(
    program: ClosedJaxpr, wanted: Sequence[Position] | None, option: str, *, inexact: bool = False
) -> list[bool]:
    """For each argument whether it is wanted; when None is given, whether it is inexact.

    Raises:
      UsageError: there is no such argument; or it is an integer or boolean, and `inexact` is needed.
    """
    able = [a.tangent() is a.strong for a in program.in_avals]
    if wanted is None:
        return able
    positions = argument_positions(program, wanted, option)
    for i in positions:
        if inexact and not able[i]:
            v = program.jaxpr.in_binders[i]
            fail(
                UsageError,
                f"{option} {i}: {describe(program, i)} is {v.aval}, which has no tangents",
                "not-differentiable",
                span=v.span,
            )
    return [i in positions for i in range(len(able))]
