"""How Threefry counts in a text of an earlier release, which its equations do not say: the release does."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Literal

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolWarning
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Params, Var
from jaxprtool.syntax.infer import reachable
from jaxprtool.syntax.reading import Reading
from jaxprtool.syntax.spelled import TYPED_LITERAL, SpelledEquation, releases_of, spelled
from jaxprtool.syntax.spellings import Release

__all__ = ["AmbiguousDrawsWarning", "count_as_printed", "draws_of"]

# From this release on `jax_threefry_partitionable` is true where nobody sets it.
_PARTITIONABLE: Release = (0, 5, 0)
_KINDS = ("key<fry>", "key<rbg>")  # those that Threefry draws from, or splits


class AmbiguousDrawsWarning(JaxprToolWarning):
    """A text may be of a release before 0.5.0, whose keys draw other numbers, or of a later one."""

    code = "ambiguous-draws"


def count_as_printed(reading: Reading, programs: Collection[ClosedJaxpr]) -> None:
    """Have Threefry count in programs as in the release that printed their text, and warn where the text may be of either kind.

    Args:
      reading: the text.
      programs: what was built of it.
    """
    when, eqns = draws_of(reading, programs)
    if when == "before":
        for eqn in eqns:
            amend(eqn, params=Params({**eqn.params, "partitionable": False}))
    elif when == "either":
        where = f"{eqns[0].span}: " if eqns[0].span else ""
        message = f"{where}the text may be of a release before 0.5.0, whose keys draw other numbers than are drawn here"
        warnings.warn(AmbiguousDrawsWarning(message), stacklevel=2)


def draws_of(
    reading: Reading, programs: Collection[ClosedJaxpr]
) -> tuple[Literal["before", "since", "either", "untold"], list[JaxprEqn]]:
    """Whether a text is of a release before 0.5.0, and its equations that count with Threefry and do not say how.

    A text that no release before 0.8 must have printed is taken to be of a later one. It is "untold" where an earlier one
    prints it as well: of calls of `random_split` and `random_bits` alone the text has been the same ever since 0.4.18. A
    warning of each such text would be wrong for all that are made today.
    """
    if "random_" not in reading.text or TYPED_LITERAL.search(reading.text):
        return "since", []  # literals have types since 0.6.1
    jaxprs = [p.jaxpr for p in programs]
    written = [j.written.definitions for j in jaxprs if j.written is not None]
    jaxprs += [closed.jaxpr for found in written for closed in found.values()]
    eqns = [e for j in reachable(jaxprs) for e in j.eqns]
    draws = [e for e in eqns if _counts(e)]
    if not draws:
        return "since", []
    as_spelled = spelled(reading)
    draws = [e for e in draws if not _says_how(e, as_spelled)]
    if not draws:
        return "since", []
    releases = releases_of(reading, as_spelled.values())
    if releases.since is not None and releases.since >= _PARTITIONABLE:
        return "since", draws
    if releases.before is not None:
        first = releases.before
    elif releases.until is not None:
        first = (*releases.until, 1)
    else:
        return "untold", draws
    if first <= _PARTITIONABLE:
        return "before", draws
    return ("since" if any(map(_names_as_outside, eqns)) else "either"), draws


def _counts(eqn: JaxprEqn) -> bool:
    """Whether an equation draws or splits with Threefry, counting by the places of elements as where nothing says how."""
    if eqn.params.get("partitionable") is not True or not eqn.inputs:
        return False
    aval = eqn.inputs[0].aval
    return not isinstance(aval, ShapedArray) or aval.dtype.name in _KINDS


def _says_how(eqn: JaxprEqn, as_spelled: Mapping[int, SpelledEquation]) -> bool:
    """Whether the text of an equation says how Threefry counts."""
    found = as_spelled.get(eqn.span.start) if eqn.span else None
    return found is not None and "partitionable" in found.params


def _names_as_outside(eqn: JaxprEqn) -> bool:
    """Whether an argument of a call has the name of its operand, as JAX prints it since 0.5.3."""
    called = eqn.params.get("jaxpr")
    if not isinstance(called, ClosedJaxpr):
        return False
    pairs = zip(called.jaxpr.in_binders, eqn.inputs, strict=False)
    return any(isinstance(x, Var) and x.name == v.name for v, x in pairs)
