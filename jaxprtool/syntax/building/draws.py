"""Random numbers in texts of earlier releases: the release decides what keys draw, which the equations do not state.

Threefry counts in one of two ways, and XLA's generator draws for a batch of keys either at once or
for each key alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolWarning
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Params, Var
from jaxprtool.syntax.building.spelled import (
    TYPED_LITERAL,
    Releases,
    SpelledEquation,
    releases_of,
    spelled,
)
from jaxprtool.syntax.infer import reachable
from jaxprtool.syntax.releases.spellings import Release
from jaxprtool.syntax.scanning.reading import Reading

__all__ = ["AmbiguousDrawsWarning", "Draws", "count_as_printed", "draws_of"]

# From this release on `jax_threefry_partitionable` is true where nobody sets it.
_PARTITIONABLE: Release = (0, 5, 0)
_KINDS = ("key<fry>", "key<rbg>")  # those that Threefry draws from, or splits
# From this release on XLA's generator draws for a batch of keys at once, from the first of them. It drew for each in a loop.
_AT_ONCE: Release = (0, 4, 26)
# From this release on samples of Gamma below a = 1 are scaled by a power of 1 - u, and not of u.
_COMPLEMENT: Release = (0, 4, 14)
_WHOSE: dict[Release, str] = {
    _PARTITIONABLE: "keys",
    _AT_ONCE: "batches of rbg keys",
    _COMPLEMENT: "samples of random_gamma below 1",
}


class AmbiguousDrawsWarning(JaxprToolWarning):
    """It is not known whether a text is of a release whose keys draw other numbers, or of a later one."""

    code = "ambiguous-draws"


class Draws(NamedTuple):
    """Equations that draw other numbers in releases before `release`.

    Attributes:
      release: the first release that draws today's numbers.
      when: whether the text is of an earlier or a later release; "either" where it may be of both.
        "untold" where an earlier release prints it as the newest does: the text of calls of
        `random_split` and `random_bits` alone is unchanged since 0.4.18. There is no warning then,
        since it would be wrong for all texts that are made today.
      eqns: the equations.
    """

    release: Release
    when: Literal["before", "since", "either", "untold"]
    eqns: list[JaxprEqn]


def count_as_printed(reading: Reading, programs: Collection[ClosedJaxpr]) -> None:
    """Make keys draw as in the release that printed the text; warn where that release is not known.

    Args:
      reading: the text.
      programs: the programs that were built of it.
    """
    for release, when, eqns in draws_of(reading, programs):
        if when == "before":
            for eqn in eqns:
                if release == _AT_ONCE:
                    _draw_alone(eqn)
                else:
                    param = "partitionable" if release == _PARTITIONABLE else "complement"
                    amend(eqn, params=Params({**eqn.params, param: False}))
        elif when == "either":
            where = f"{eqns[0].span}: " if eqns[0].span else ""
            before = ".".join(map(str, release))
            message = f"{where}the text may be of a release before {before}, whose {_WHOSE[release]} draw other numbers than are drawn here"
            message += "; name it with --from-dialect (`dialect=` of `jt.parse`)"
            warnings.warn(AmbiguousDrawsWarning(message), stacklevel=2)


def draws_of(reading: Reading, programs: Collection[ClosedJaxpr]) -> list[Draws]:
    """Return the equations that draw other numbers in earlier releases, where the text does not say how they draw.

    A text that no release before 0.8 must have printed is taken to be of a later one.
    """
    if "random_" not in reading.dedented or TYPED_LITERAL.search(reading.dedented):
        return []  # literals have types since 0.6.1
    jaxprs = [p.jaxpr for p in programs]
    written = [j.written.definitions for j in jaxprs if j.written is not None]
    jaxprs += [closed.jaxpr for found in written for closed in found.values()]
    eqns = [e for j in reachable(jaxprs) for e in j.eqns]
    draws = [e for e in eqns if _counts(e)]
    batches = [e for e in eqns if _draws_a_batch(e)]
    scaled = [e for e in eqns if _may_scale(e)]
    if not draws and not batches and not scaled:
        return []
    as_spelled = spelled(reading)
    draws, batches = [
        [e for e in found if not _says_how(e, as_spelled, "partitionable")]
        for found in (draws, batches)
    ]
    scaled = [e for e in scaled if not _says_how(e, as_spelled, "complement")]
    releases = releases_of(reading, as_spelled.values())
    later = any(map(_names_as_outside, eqns))
    return [
        Draws(release, _when(releases, release, later), found)
        for release, found in (
            (_PARTITIONABLE, draws),
            (_AT_ONCE, batches),
            (_COMPLEMENT, scaled),
        )
        if found
    ]


def _when(
    releases: Releases, release: Release, later: bool
) -> Literal["before", "since", "either", "untold"]:
    """Return whether a text is of a release before `release`.

    later: whether other evidence, which `releases` lacks, says that it is not.
    """
    if releases.since is not None and releases.since >= release:
        return "since"
    if releases.before is not None:
        first = releases.before
    elif releases.until is not None:
        first = (*releases.until, 1)
    else:
        return "untold"
    if first <= release:
        return "before"
    return "since" if later else "either"


def _counts(eqn: JaxprEqn) -> bool:
    """Whether an equation draws or splits with Threefry, and counts by the positions of elements, as by default."""
    if eqn.params.get("partitionable") is not True or not eqn.inputs:
        return False
    aval = eqn.inputs[0].aval
    if not isinstance(aval, ShapedArray):
        return True
    return aval.dtype.name in _KINDS and not _draws_bits_of_rbg(eqn)


def _may_scale(eqn: JaxprEqn) -> bool:
    """Whether an equation draws from Gamma distributions, perhaps with a < 1, in the default way."""
    if eqn.params.get("complement") is not True or not eqn.inputs:
        return False
    a = eqn.inputs[-1]
    return not (isinstance(a, Lit) and isinstance(a.val, (int, float)) and a.val >= 1)


def _draws_bits_of_rbg(eqn: JaxprEqn) -> bool:
    """Whether XLA's generator draws bits from `rbg` keys; Threefry splits these keys."""
    kind = str(getattr(eqn.inputs[0].aval, "dtype", ""))
    return kind == "key<rbg>" and "bit_width" in eqn.params


def _draws_a_batch(eqn: JaxprEqn) -> bool:
    """Whether XLA's generator draws for several keys at once.

    It draws the bits of `rbg` keys, which Threefry splits, and does everything for `unsafe_rbg`
    keys. An equation whose operands are only keys, and that has no param, copies their words.
    """
    if not eqn.primitive.name.startswith("random_") or not eqn.inputs:
        return False
    kind = str(getattr(eqn.inputs[0].aval, "dtype", ""))
    any_of = kind == "key<urbg>" and (bool(eqn.params) or len(eqn.inputs) > 1)
    return (_draws_bits_of_rbg(eqn) or any_of) and any(x.aval.shape for x in _mapped(eqn))


def _mapped(eqn: JaxprEqn) -> list[Atom]:
    """Return the operands that have batch axes; of a key and a number folded into it, those of rank > 0."""
    if not eqn.params:
        return [x for x in eqn.inputs if x.aval.shape]
    return [*eqn.inputs] if eqn.inputs[0].aval.shape else []


def _draw_alone(eqn: JaxprEqn) -> None:
    """Make an equation draw for each key alone: it becomes a loop over the first axis, nested for further axes."""
    mapped, out = _mapped(eqn), eqn.out_binders[0]
    if len({x.aval.shape[0] for x in mapped}) != 1:
        return  # ill-typed
    held = [x for x in eqn.inputs if x not in mapped]
    names = {x: Var(_first(x.aval) if x in mapped else x.aval) for x in (*held, *mapped)}
    inner = eqn.replace(inputs=[names[x] for x in eqn.inputs], out_binders=[Var(_first(out.aval))])
    if _draws_a_batch(inner):
        _draw_alone(inner)
    body = Jaxpr([names[x] for x in (*held, *mapped)], [inner], [*inner.out_binders])
    scan = find_primitive("scan")
    of = {"length": out.aval.shape[0], "num_carry": 0, "num_consts": len(held)}
    params = Params({**scan.defaults, "jaxpr": ClosedJaxpr(body, []), **of})
    amend(eqn, primitive=scan, inputs=(*held, *mapped), params=params)


def _first(aval: Any) -> Any:
    """Return the type of one element along the first axis."""
    return aval.update(shape=aval.shape[1:])


def _says_how(eqn: JaxprEqn, as_spelled: Mapping[int, SpelledEquation], param: str) -> bool:
    """Whether the text of an equation has a param that says how it draws, as only texts of this package do."""
    found = as_spelled.get(eqn.span.start) if eqn.span else None
    return found is not None and param in found.params


def _names_as_outside(eqn: JaxprEqn) -> bool:
    """Whether an argument of a called jaxpr has the name of its operand, as JAX prints it since 0.5.3."""
    called = eqn.params.get("jaxpr")
    if not isinstance(called, ClosedJaxpr):
        return False
    pairs = zip(called.jaxpr.in_binders, eqn.inputs, strict=False)
    return any(isinstance(x, Var) and x.name == v.name for v, x in pairs)
