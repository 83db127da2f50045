"""The row of `jit`. Its rules transform the jaxpr that it calls, and call the transformed jaxpr."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.columns.passing import call_passing
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.ir.jaxpr import Value
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.calls import JIT, CallImpl
from jaxprtool.rules.define import define
from jaxprtool.rules.jit import compiled

__all__: list[str] = []


class JitImpl(CallImpl):
    """Evaluate `jit`: by XLA where an eager call asks for it, otherwise equation by equation."""

    def __call__(self, xp: Namespace, *args: Value, **params: Any) -> list[Value]:
        if params["backend"] == "xla":
            return compiled(params["jaxpr"])(*args)
        return super().__call__(xp, *args, **params)


_PER_ARGUMENT = dict.fromkeys(
    ("donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts")
)

define(
    lax.jit_call,
    **{
        **JIT.columns(),
        "abstract_eval": lambda *avals, jaxpr, name, **_: check_call(
            f"jit of {name}", jaxpr, avals
        ),
        "impl": JitImpl("jaxpr"),
        "linearize": JIT.linearize,
        "passing": call_passing("jaxpr", **_PER_ARGUMENT),
        "discharge": JIT.discharge,
        "lower": lambda ctx, *args, jaxpr, name, **_: ctx.call(jaxpr, args, name),
    },
)
