"""Programs whose derivatives recompute what a policy does not keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.primitive import primitive_of
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.params import Record, Word
from jaxprtool.ir.synonyms import close_names

__all__ = ["POLICY_FORMS", "POLICY_WORDS", "checkpointed", "policy_of", "with_names"]


def checkpointed(program: ClosedJaxpr, policy: Any) -> ClosedJaxpr:
    """Return the program as the jaxpr of a single `remat2` with a policy (a value of its param); interface and constants stay."""
    jaxpr = program.jaxpr
    binders = [*jaxpr.const_binders, *jaxpr.in_binders]
    inner = ClosedJaxpr(Jaxpr(binders, jaxpr.eqns, jaxpr.outs, (), jaxpr.span))
    consts = [Var(v.aval, v.name) for v in jaxpr.const_binders]
    args = [Var(v.aval, v.name) for v in jaxpr.in_binders]
    outs = [Var(x.aval) for x in jaxpr.outs]
    params = {"jaxpr": inner, "policy": policy, "prevent_cse": True, "differentiated": False}
    eqn = JaxprEqn(primitive_of(lax.remat_call), [*consts, *args], params, outs, jaxpr.span)
    return program.replace(jaxpr=Jaxpr(args, [eqn], outs, consts, jaxpr.span))


def with_names(program: ClosedJaxpr, names: Mapping[Var, str]) -> ClosedJaxpr:
    """Return the program with names that policies know (`checkpoint_name`) for some results of its equations.

    Args:
      program: the program.
      names: variable -> name.
    """
    jaxpr, primitive = program.jaxpr, primitive_of(lax.checkpoint_name)
    named: dict[Any, Var] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        inputs = [x if isinstance(x, Lit) else named.get(x, x) for x in eqn.inputs]
        eqns.append(eqn.replace(inputs=inputs))
        for v in eqn.out_binders:
            if v in names:
                named[v] = Var(v.aval)
                name = {"name": names[v]}
                eqns.append(JaxprEqn(primitive, [v], name, [named[v]], eqn.span, None, eqn.origin))
    outs = [x if isinstance(x, Lit) else named.get(x, x) for x in jaxpr.outs]
    return program.replace(jaxpr=jaxpr.replace(eqns=eqns, outs=outs))


# Policies by what is kept, and JAX's names for them.
POLICY_WORDS = {
    "nothing": "nothing_saveable",
    "everything": "everything_saveable",
    "dots": "dots_saveable",
    "dots_no_batch": "dots_with_no_batch_dims_saveable",
}
POLICY_FORMS = ("names", "offload")  # policies of names, which follow a `=`


def policy_of(words: str) -> Any:
    """Return a policy as `remat2` has it.

    Args:
      words: `nothing`, `everything`, `dots`, `dots_no_batch` (matrix products, those without batch
        dimensions), `names=a,b` (or `names=a+b`), or `offload=a,b`: values that `checkpoint_name`
        gives these names, which are kept, or moved to the host's memory.

    Raises:
      UsageError: it is none of these.
    """
    kind, _, rest = words.partition("=")
    names = tuple(filter(None, (name.strip() for name in re.split(r"[,+]", rest))))
    if kind in POLICY_WORDS and not rest:
        return Word(POLICY_WORDS[kind])
    if kind == "names" and names:
        return Record("SaveOnlyTheseNames", saveable_names=frozenset(names))
    if kind == "offload" and names:
        return Record(
            "save_and_offload_only_these_names",
            names_which_can_be_saved=(),
            names_which_can_be_offloaded=names,
            offload_src="device",
            offload_dst="pinned_host",
        )
    known = [*POLICY_WORDS, *POLICY_FORMS]
    near = close_names(kind, known)
    message = f"there is no policy {words!r}" + (f", did you mean {near[0]}?" if near else "")
    help = "policies are nothing, everything, dots, dots_no_batch, names=a,b and offload=a,b"
    fail(UsageError, message, "remat-policy", help=help)
