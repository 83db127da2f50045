"""Find the equation to blame inside an operation that holds jaxprs, such as the combiner of a scatter or a reduce.

Evaluation need not run these jaxprs equation by equation (a scatter of sums is one call of NumPy),
so that their equations are not observed. Where the jaxprs of two operations differ in a single
equation, that one is to blame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jaxprtool.analyses.comparing.comparison import First
from jaxprtool.analyses.comparing.counterparts import counterparts, other_results, same_operation
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.columns.runs import runs_rules
from jaxprtool.ir.jaxpr import Atom, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["innermost"]

Inner = tuple[str, int | None, Jaxpr]
Pair = tuple[Place, Place]


def innermost(first: First) -> First:
    """Return the first difference, moved to the only equation that differs inside its operations; unchanged where there is none."""
    a, b = first.a, first.b
    if not isinstance(a, Place) or not isinstance(b, Place):
        return first
    found = _inside(a, b, Signatures())
    return first if found is None else replace(first, a=found[0], b=found[1], given=())


def _inside(a: Place, b: Place, signatures: Signatures) -> Pair | None:
    """Return the only pair of equations that differs inside two operations which are the same but for their jaxprs, or None."""
    inner = [_of_operation(x.eqn) for x in (a, b)]
    if len(inner[0]) != len(inner[1]) or len(a.eqn.inputs) != len(b.eqn.inputs):
        return None
    if not inner[0] or not same_operation(a.eqn, b.eqn, signatures):
        return None
    found: list[Pair | None] = []
    for (param, branch, p), (_, _, q) in zip(*inner, strict=True):
        ways = [(*x.path, Step(x.eqn, param, branch)) for x in (a, b)]
        for pair in _differing(p, q, signatures):
            places = None if pair is None else [*map(Place, pair, ways)]
            found.append(None if places is None else (places[0], places[1]))
            if len(found) > 1:
                return None
    if len(found) != 1 or found[0] is None:
        return None
    return _inside(*found[0], signatures) or found[0]


def _of_operation(eqn: JaxprEqn) -> list[Inner]:
    """Return the jaxprs of an equation that are a part of its operation; [] where it runs them as calls and loops do."""
    if not eqn.primitive.holds_jaxprs or runs_rules.find(eqn.primitive) is not None:
        return []
    found: list[Inner] = []
    for param, value in eqn.params.items():
        held = [closed.jaxpr for closed in jaxprs_in(value)]
        found += [(param, i if len(held) > 1 else None, jaxpr) for i, jaxpr in enumerate(held)]
    return found


def _differing(
    a: Jaxpr, b: Jaxpr, signatures: Signatures
) -> Iterator[tuple[JaxprEqn, JaxprEqn] | None]:
    """Yield the pairs of equations of two jaxprs that differ; None for any other difference."""
    if len(a.all_binders) != len(b.all_binders) or len(a.outs) != len(b.outs):
        yield None
        return
    pairs = counterparts(a, b)
    names = dict(zip(a.all_binders, b.all_binders, strict=True))
    alone = len(a.eqns) + len(b.eqns) - 2 * len(pairs)
    for i, j in pairs:
        p, q = a.eqns[i], b.eqns[j]
        if not _alike(p, q, names, signatures):
            yield p, q
        names.update(zip(p.out_binders, q.out_binders, strict=False))
    outs = zip(a.outs, b.outs, strict=True)
    others = [x for x, y in outs if not _corresponds(x, y, names, signatures)]
    if alone or others or other_results(a, b, pairs):
        yield None


def _corresponds(x: Atom, y: Atom, names: dict[Var, Var], signatures: Signatures) -> bool:
    """Whether a result of one jaxpr corresponds to one of the other."""
    if isinstance(x, Lit):
        return isinstance(y, Lit) and signatures.lit(x) == signatures.lit(y)
    return names.get(x) is y


def _alike(p: JaxprEqn, q: JaxprEqn, names: dict[Var, Var], signatures: Signatures) -> bool:
    """Whether two equations do the same, in their jaxprs as well, with operands that correspond."""
    if len(p.inputs) != len(q.inputs) or not same_operation(p, q, signatures):
        return False
    operands = zip(p.inputs, q.inputs, strict=True)
    if any(names.get(x) is not y for x, y in operands if isinstance(x, Var)):
        return False
    return signatures.shallow(p, nested=True) == signatures.shallow(q, nested=True)
