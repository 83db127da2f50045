"""cse: what is computed twice is computed once (common-subexpression elimination)."""

from __future__ import annotations

from collections.abc import Hashable

from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, JaxprEqn
from jaxprtool.passes.bodies import NewBody, in_each_body, is_pure
from jaxprtool.passes.keys import Keys
from jaxprtool.passes.registry import define_pass

__all__ = ["cse"]


@define_pass("cse", "bits types no-more-equations idempotent linear-time")
def cse(program: ClosedJaxpr) -> ClosedJaxpr:
    """Compute once what is computed several times: an equation whose operation, params and operands another one has.

    At any depth, in each jaxpr by itself. Equations with effects stay, and those that use references.
    """
    keys = Keys()
    return in_each_body(program, lambda closed: _without_copies(closed, keys))


def _without_copies(closed: ClosedJaxpr, keys: Keys) -> ClosedJaxpr:
    body = NewBody(closed)
    seen: dict[Hashable, JaxprEqn] = {}
    for old in closed.eqns:
        eqn = body.renamed(old)
        if not is_pure(eqn):
            body.add(eqn)
            continue
        key = keys.equation(eqn)
        first = seen.get(key)
        if first is None or not _has_results(first, eqn):
            seen[key] = eqn
            body.add(eqn)
            continue
        for v, x in zip(eqn.out_binders, first.out_binders, strict=True):
            body.put_instead(v, x)
    return body.result()


def _has_results(first: JaxprEqn, eqn: JaxprEqn) -> bool:
    """Whether each result that is read of an equation has a name in the first one too."""
    pairs = zip(first.out_binders, eqn.out_binders, strict=True)
    return not any(isinstance(x, DropVar) and not isinstance(v, DropVar) for x, v in pairs)
