"""Classify how a program has changed since its snapshot: only its text, its numbers, or what it computes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxprtool.analyses.counting.cost import Estimate
from jaxprtool.analyses.identity.hashing import program_hash
from jaxprtool.analyses.identity.normal_form import same_normal_form
from jaxprtool.analyses.rounding.inexact import inexact_pairs, without_inexact
from jaxprtool.core.stack import deep
from jaxprtool.driver.residuals import residuals
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr
from jaxprtool.ir.walk import count_eqns

__all__ = ["CONSTANTS", "DIFFERENT", "EQUIVALENT", "PRINTER", "Kind", "figures", "kind_of_change"]

Programs = Mapping[str, ClosedJaxpr]

PRINTER, EQUIVALENT = "printer only", "equivalent"
CONSTANTS, DIFFERENT = "constants within tolerance", "different"


class Kind(NamedTuple):
    """How programs differ: one of the four words, and details, or ""."""

    word: str
    note: str = ""


@deep
def kind_of_change(
    a: Programs, b: Programs, rtol: float | None = None, atol: float | None = None
) -> Kind:
    """Return how the programs of two texts differ.

    *printer only*: they have one hash, so that at most names, layout and dialect differ. *constants
    within tolerance*: they are equal except for inexact numbers in them that are close.
    *equivalent*: they have one normal form. *different*: anything else, including other types of
    arguments or results (weak types among them).

    Args:
      a, b: well-typed programs by name.
      rtol, atol: how far numbers may be from each other; by default, what rounding of their types
        explains.

    Raises:
      UsageError: a file with constants cannot be read.
    """
    if len(a) == len(b) == 1:
        pairs = [(next(iter(a.values())), next(iter(b.values())))]
    elif a.keys() != b.keys():
        return Kind(DIFFERENT, f"{', '.join(a)} became {', '.join(b)}")
    else:
        pairs = [(a[name], b[name]) for name in a]
    kinds = [_kind(load_constants(x), load_constants(y), rtol, atol) for x, y in pairs]
    return max(kinds, key=lambda k: _ORDER.index(k.word))


_ORDER = (PRINTER, CONSTANTS, EQUIVALENT, DIFFERENT)


def _kind(a: ClosedJaxpr, b: ClosedJaxpr, rtol: float | None, atol: float | None) -> Kind:
    ins, outs = ((_types(x), _types(y)) for x, y in _signatures(a, b))
    if ins[0] != ins[1]:
        return Kind(DIFFERENT, f"it takes {ins[1]}, and took {ins[0]}")
    if outs[0] != outs[1]:
        return Kind(DIFFERENT, f"it gives {outs[1]}, and gave {outs[0]}")
    if program_hash(a) == program_hash(b):
        return Kind(PRINTER)
    note = _close(a, b, rtol, atol)
    if note is not None:
        return Kind(CONSTANTS, note)
    with contextlib.suppress(JaxprToolError):  # it cannot be brought into the normal form
        if same_normal_form(transformable(a), transformable(b)):
            return Kind(EQUIVALENT)
    return Kind(DIFFERENT)


def _signatures(a: ClosedJaxpr, b: ClosedJaxpr) -> list[tuple[Sequence[Aval], Sequence[Aval]]]:
    return [(a.in_avals, b.in_avals), (a.out_avals, b.out_avals)]


def _types(avals: Sequence[Aval]) -> str:
    weak = [" weak" if getattr(x, "weak_type", False) else "" for x in avals]
    return f"({', '.join(f'{x}{w}' for x, w in zip(avals, weak, strict=True))})"


def _close(a: ClosedJaxpr, b: ClosedJaxpr, rtol: float | None, atol: float | None) -> str | None:
    """Return how far inexact numbers are from each other, where all else is equal and they are close; else None."""
    if program_hash(without_inexact(a)) != program_hash(without_inexact(b)):
        return None
    from jaxprtool.backends import agreement, numpy_eval  # noqa: PLC0415 (gateway: NumPy)

    largest = differing = 0.0
    for x, y in inexact_pairs(a, b):
        if x is None or y is None:
            if x is not y:
                return None
            continue
        values = numpy_eval.value(x), numpy_eval.value(y)
        found = agreement.gap(*values, rtol, atol)
        if found.differing:
            return None
        differing += found.max_abs > 0
        largest = max(largest, found.max_rel)
    return f"{differing:.0f} of them differ, by {largest:.2g} of their size at most"


# -- figures ------------------------------------------------------------------------------------------

Figures = dict[str, int | None]


@deep
def figures(programs: Programs) -> Figures:
    """Return the total cost of the programs of a file; None for a figure that is not known.

    Returns:
      equations (those that run), flops, bytes, peak (of memory, in bytes; the largest), residuals
        (bytes besides arguments and constants that a reverse pass saves), collectives (the number
        of equations that communicate) and sent (the bytes that they send).
    """
    each = [_figures(p) for p in programs.values()]
    return {key: _joined(key, [f[key] for f in each]) for key in each[0]} if each else {}


def _joined(key: str, values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return None
    return max(known) if key == "peak" else sum(known)


def _figures(program: ClosedJaxpr) -> Figures:
    found: Figures = {"equations": count_eqns(program.jaxpr)}
    empty = ("flops", "bytes", "peak", "residuals", "collectives", "sent")
    found |= dict.fromkeys(empty)
    with contextlib.suppress(JaxprToolError):  # a primitive has no rule
        e = Estimate(program)
        sent = [x.high for x in e.sent.values()]
        found |= {
            "equations": e.written,
            "flops": e.total.flops.high,
            "bytes": e.total.nbytes.high,
            "peak": e.memory.nbytes,
            "collectives": sum(bool(row.axes) for row in e.rows),
            "sent": None if None in sent else sum(x or 0 for x in sent),
        }
    with contextlib.suppress(JaxprToolError):  # it has no derivative
        found["residuals"] = residuals(program).kept.computed
    return found
