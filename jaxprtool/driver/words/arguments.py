"""The arguments of a program that an option refers to, and their names.

The leaves of the function that was traced are named by its parameters and the path from them
(`params["w"]`, or `params.w` and `params/w` where that is unambiguous); in a program without an
interface, variables by their names.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from jaxprtool.core.trace import inexact, is_inexact
from jaxprtool.ir.diagnostics import JaxprToolWarning, UsageError, counted, fail
from jaxprtool.ir.interface import LEAF, Interface, Part, argument_label
from jaxprtool.ir.jaxpr import ClosedJaxpr, Var
from jaxprtool.ir.synonyms import close_names

__all__ = [
    "AmbiguousNameWarning",
    "Position",
    "argument_parts",
    "differentiated",
    "flags_of",
    "inexact_flags",
    "describe",
    "part_named",
    "parts_called",
    "similar_names",
]

Position = int | str
_SHOWN = 12  # names in a message


class AmbiguousNameWarning(JaxprToolWarning):
    """A name belongs to an argument of the function and also to another variable of the program."""

    code = "ambiguous-name"


def describe(program: ClosedJaxpr, i: int) -> str:
    """Return the name of argument i for a message."""
    return argument_label(i, program.jaxpr.in_binders[i].name, program.interface)


def parts_called(
    name: str, interface: Interface | None, binders: Sequence[Var], *, inside: bool = False
) -> list[Part]:
    """Return the parts of the arguments that a name means: none, one, or several where it is ambiguous.

    The arguments of the function and the parts below them come first, then the variables. A warning
    is given where an argument and another variable have one name.

    Args:
      name: the name.
      interface: the interface of the program, or None.
      binders: the variables of the leaves.
      inside: whether the name may be that of a part of the only argument (`w` for `params["w"]`).
    """
    found: list[Part] = []
    if interface is not None:
        found = interface.find(name)
        if not found and inside and len(interface.args) == 1:
            found = interface.args[0][1].find(_step(name))
    bound = [i for i, v in enumerate(binders) if v.name == name]
    if not found:
        return [Part(i, LEAF) for i in bound]
    if interface is not None and bound and bound[0] not in found[0].positions:
        args, other = [arg for arg, _ in interface.args], interface.names()[bound[0]]
        taken = name if name in args else args[0] + _step(name)
        message = f"{name} is taken for the argument {taken}; the variable {name} of the program is {other}"
        warnings.warn(message, AmbiguousNameWarning, stacklevel=2)
    return found


def _step(name: str) -> str:
    return name if name[:1] in ("[", ".", "/") else f".{name}"


def similar_names(name: str, interface: Interface | None, binders: Sequence[Var]) -> str:
    """Return the help for a name that no argument has: it lists similar names, or all names."""
    known = [v.name for v in binders if v.name]
    every = known
    below: list[str] = []
    if interface is not None:
        known = [name for name, _ in interface.args]
        every = [*known, *interface.names()]
        pairs = zip(known, interface.args, strict=True)
        below = [arg + _step(name) for arg, (_, tree) in pairs if tree.find(_step(name))]
        if parent := _parent(name, interface):
            return parent
    near = below or close_names(name, dict.fromkeys(every))
    if near:
        return f"did you mean {near[0]}?"
    if not known:
        return ""
    more = ", ..." if len(known) > _SHOWN else ""
    are = "arguments are" if len(known) > 1 else "argument is"
    return f"its {are} {', '.join(known[:_SHOWN])}{more}"


def _parent(name: str, interface: Interface) -> str:
    """Return the help for a name that begins like a part with children: it lists these; "" for any other."""
    for i in range(len(name) - 1, 0, -1):
        found = interface.find(name[:i]) if name[i] in "[./" else []
        if found and found[0].tree.children:
            known = [name[:i] + step for step in found[0].tree.steps()]
            near = close_names(name, known)
            return f"did you mean {near[0]}?" if near else f"there are {', '.join(known[:_SHOWN])}"
    return ""


def part_named(program: ClosedJaxpr, name: str, option: str, *, inside: bool = False) -> Part:
    """Return the part of the arguments that a name means (see `parts_called`).

    Raises:
      UsageError: no argument has the name, which may be that of a constant; or it is ambiguous.
    """
    jaxpr, interface = program.jaxpr, program.interface
    found = parts_called(name, interface, jaxpr.in_binders, inside=inside)
    if len(found) == 1:
        return found[0]
    if found and interface is not None:
        refuse_ambiguous(f"{option} {name}", found, interface)
    if any(v.name == name for v in jaxpr.const_binders):
        message = f"{option} {name}: {name} is a constant of the program, and no argument"
        fail(UsageError, message, "argument-index", span=jaxpr.span)
    message = f"{option} {name}: the program has no argument {name}"
    help = similar_names(name, interface, jaxpr.in_binders)
    fail(UsageError, message, "argument-index", span=jaxpr.span, help=help)


def refuse_ambiguous(what: str, found: Sequence[Part], interface: Interface) -> None:
    """Raise UsageError for a name of several parts."""
    names = interface.names()
    each = " and ".join(names[p.start] for p in found)
    fail(UsageError, f"{what} is ambiguous: it may be {each}", "ambiguous-name")


def argument_parts(program: ClosedJaxpr, wanted: Sequence[Position], option: str) -> list[Part]:
    """Return the requested parts of the arguments.

    Args:
      program: the program.
      wanted: positions of leaves, negative ones counted from the end, and names (see
        `parts_called`).
      option: the name of the list in messages.

    Raises:
      UsageError: there is no such argument, or one is named twice.
    """
    n = len(program.jaxpr.in_binders)
    parts: list[Part] = []
    seen: set[int] = set()
    for word in wanted:
        if isinstance(word, int) and not -n <= word < n:
            fail(
                UsageError,
                f"{option} {word}: there is no such argument, the program takes {counted(n, 'argument')}",
                "argument-index",
                span=program.jaxpr.span,
            )
        part = Part(word % n, LEAF) if isinstance(word, int) else part_named(program, word, option)
        for i in part.positions:
            if i in seen:
                fail(UsageError, f"{option} names {describe(program, i)} twice", "argument-index")
            seen.add(i)
        parts.append(part)
    return parts


def flags_of(program: ClosedJaxpr, parts: Sequence[Part]) -> list[bool]:
    """Return for each leaf of the arguments whether it is in one of the parts."""
    positions = {i for part in parts for i in part.positions}
    return [i in positions for i in range(len(program.in_avals))]


def inexact_flags(program: ClosedJaxpr, parts: Sequence[Part], option: str) -> list[bool]:
    """Return `flags_of` parts that have tangents; raises UsageError where a leaf of them is an integer or boolean."""
    flags = flags_of(program, parts)
    for i, (v, wanted) in enumerate(zip(program.jaxpr.in_binders, flags, strict=True)):
        if wanted and not is_inexact(v.aval):
            fail(
                UsageError,
                f"{option} {i}: {describe(program, i)} is {v.aval}, which has no tangents",
                "not-differentiable",
                span=v.span,
            )
    return flags


def differentiated(
    program: ClosedJaxpr, wrt: Sequence[Position] | None
) -> tuple[list[bool], list[Part] | None]:
    """Return the arguments that `--wrt` names: for each leaf whether it is among them, and the parts in their order.

    Without names these are all inexact leaves, and there are no parts (None). Raises UsageError as
    `argument_parts` and `inexact_flags` do.
    """
    if wrt is None:
        return inexact(program.in_avals), None
    parts = sorted(argument_parts(program, wrt, "--wrt"), key=lambda p: p.start)
    return inexact_flags(program, parts, "--wrt"), parts
