"""Discharge rules of `cond`, `scan` and `while`: references become operands and results that hold
their contents before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.partition import split_list
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.discharge import State, discharge_jaxpr, states_of, store, values_of
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Value, Var
from jaxprtool.ir.params import ParamValue
from jaxprtool.rules.control_flow.loops import pick

__all__ = ["discharge_cond", "discharge_scan", "discharge_while"]


def discharge_cond(
    index: Value, *operands: Value, branches: tuple[ClosedJaxpr, ...], **params: ParamValue
) -> Value:
    """Discharge a `cond`: each branch also returns the contents of the references at its end."""
    bodies = tuple(discharge_jaxpr(b) for b in branches)
    outs = lax.cond_call(index, *values_of(operands), branches=bodies, **params)
    n = len(branches[0].jaxpr.outs)
    store(states_of(operands), outs[n:])
    return outs[:n]


def _is_ref(v: Var) -> bool:
    return type(v.aval) is RefType


def discharge_scan(*operands: Value, **params: Any) -> list[Any]:
    """Discharge a `scan`: references among the constants become a part of the carry, and those
    among xs become one xs and one ys each.
    """
    closed: ClosedJaxpr = params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, carry, xs = split_list(operands, n_consts, n_carry)
    if states_of(carry):
        ill_typed("scan: no reference can be carried", "unsupported-type")
    refs = [i for i, x in enumerate(consts) if type(x) is State]
    fixed = [i for i, x in enumerate(consts) if type(x) is not State]
    n_in, n_out = len(operands), len(closed.jaxpr.outs)
    body = discharge_jaxpr(closed)
    body = pick(
        body,
        [*fixed, *refs, *range(n_consts, n_in)],
        [
            *range(n_out, n_out + len(refs)),
            *range(n_out),
            *range(n_out + len(refs), len(body.jaxpr.outs)),
        ],
    )
    outs = lax.scan_call(
        *[consts[i] for i in fixed],
        *[consts[i].value for i in refs],
        *carry,
        *values_of(xs),
        **{
            **params,
            "jaxpr": body,
            "num_consts": len(fixed),
            "num_carry": len(refs) + n_carry,
            "linear": None,
        },
    )
    store([consts[i] for i in refs], outs[: len(refs)])
    store(states_of(xs), outs[len(refs) + n_out :])
    return outs[len(refs) : len(refs) + n_out]


def discharge_while(*operands: Value, **params: Any) -> list[Any]:
    """Discharge a `while`: references become the first part of the carry.

    The condition may read them, but not write them.
    """
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    sizes = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, carry = split_list(operands, *sizes)
    if states_of(carry):
        ill_typed("while: no reference can be carried", "unsupported-type")
    states = list({id(s): s for s in states_of([*cond_consts, *body_consts])}.values())
    new_cond, fixed_cond = _with_cells(cond, cond_consts, states, 1)
    new_body, fixed_body = _with_cells(body, body_consts, states, len(carry))
    outs = lax.while_call(
        *fixed_cond,
        *fixed_body,
        *[s.value for s in states],
        *carry,
        cond_jaxpr=pick(new_cond, range(len(new_cond.in_avals)), [len(states)]),
        body_jaxpr=new_body,
        cond_nconsts=len(fixed_cond),
        body_nconsts=len(fixed_body),
    )
    store(states, outs[: len(states)])
    return outs[len(states) :]


def _with_cells(
    closed: ClosedJaxpr, consts: Sequence[Value], states: Sequence[State], n_out: int
) -> tuple[ClosedJaxpr, list[Value]]:
    """Discharge the condition or the body of a loop.

    Returns:
      The jaxpr (constants that are no references, contents of the references, carry) -> (contents,
        results).
      The operands for those constants.
    """
    done = discharge_jaxpr(closed).jaxpr
    at = {id(x): i for i, x in enumerate(consts) if type(x) is State}
    refs = [i for i, v in enumerate(closed.jaxpr.in_binders) if _is_ref(v)]
    cells, after = [], []
    for s in states:
        i = at.get(id(s))
        v = Var(s.aval.inner) if i is None else done.in_binders[i]
        cells.append(v)
        after.append(v if i is None else done.outs[n_out + refs.index(i)])
    fixed = [i for i, x in enumerate(consts) if type(x) is not State]
    binders = [*[done.in_binders[i] for i in fixed], *cells, *done.in_binders[len(consts) :]]
    jaxpr = Jaxpr(binders, done.eqns, [*after, *done.outs[:n_out]], done.const_binders)
    values = discharge_jaxpr(closed).consts
    return ClosedJaxpr(jaxpr, values), [consts[i] for i in fixed]
