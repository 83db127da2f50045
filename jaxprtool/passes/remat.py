"""remat: a program whose derivative computes intermediate values again."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.params import Record, Word
from jaxprtool.passes.registry import define_pass
from jaxprtool.rules.policies import POLICIES

__all__ = ["policy_named", "remat"]

_SHORT = {
    "everything": "everything_saveable",
    "dots": "dots_saveable",
    "dots_no_batch": "dots_with_no_batch_dims_saveable",
}


def policy_named(name: str) -> Any:
    """The policy of a word: `nothing`, `everything`, `dots`, `dots_no_batch`, `names=a+b` or one of JAX's.

    Raises:
      UsageError: there is no such policy.
    """
    key, equals, names = name.partition("=")
    if key == "names" and equals:
        saved = frozenset(filter(None, names.split("+")))
        return Record("SaveOnlyTheseNames", names_which_can_be_saved=saved)
    if name in ("nothing", "nothing_saveable"):
        return None
    full = _SHORT.get(name, name)
    if full not in POLICIES:
        known = ", ".join(["nothing", *_SHORT, "names=a+b", *POLICIES])
        fail(UsageError, f"there is no policy {name}", "no-policy", help=f"there are {known}")
    return Word(full)


@define_pass("remat", "bits types")
def remat(program: ClosedJaxpr, *, policy: str = "nothing") -> ClosedJaxpr:
    """Put the whole program into a `remat2`, so that its derivative keeps what the policy says and computes the rest again.

    policy: nothing, everything, dots, dots_no_batch, names=a+b, or a name of JAX's.
    """
    jaxpr = program.jaxpr
    consts = [Var(v.aval, v.name) for v in jaxpr.const_binders]
    ins = [Var(v.aval, v.name) for v in jaxpr.in_binders]
    outs = [Var(x.aval) for x in jaxpr.outs]
    inner = ClosedJaxpr(Jaxpr([*jaxpr.const_binders, *jaxpr.in_binders], jaxpr.eqns, jaxpr.outs))
    params = {
        "jaxpr": inner,
        "policy": policy_named(policy),
        "prevent_cse": True,
        "differentiated": False,
    }
    call = JaxprEqn(lax.remat_call.primitive, [*consts, *ins], params, outs)
    return program.replace(jaxpr=Jaxpr(ins, [call], outs, consts, jaxpr.span))
