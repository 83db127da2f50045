"""Batching rules of `jax.custom_batching.custom_vmap` functions: asked when a batch's size is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.live import LiveOpaque, masked_text
from jaxprtool.backends.jax.private import call_vmap_rule
from jaxprtool.backends.jax.rules import with_wide_types
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["LiveVmapRule"]


class LiveVmapRule(LiveOpaque):
    """The rule of a `custom_vmap_call` equation of JAX's.

    Attributes:
      eqn: the equation.
      from_jax, to_aval: conversions of programs, and of types to JAX's.
    """

    __slots__ = ("eqn", "from_jax", "to_aval")
    eqn: Any
    from_jax: Callable[[Any], ClosedJaxpr]
    to_aval: Callable[[Any], Any]

    def __init__(
        self, eqn: Any, from_jax: Callable[[Any], ClosedJaxpr], to_aval: Callable[[Any], Any]
    ):
        super().__init__(masked_text(eqn.params["rule"], True), eqn.params["rule"])
        amend(self, eqn=eqn, from_jax=from_jax, to_aval=to_aval)

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveVmapRule, (self.eqn, self.from_jax, self.to_aval)

    def batched(
        self, axis_size: int, in_batched: Sequence[bool], avals: Sequence[Any]
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """The function of batched arguments that the rule makes, and which of its results are batched.

        Raises:
          UsageError: the rule fails, or its results do not fit.
        """
        in_tree, out_tree = (self.eqn.params[k] for k in ("in_tree", "out_tree"))
        unflatten = jax.tree.unflatten
        flags: list[bool] = []

        def traced(*leaves: Any) -> list[Any]:
            args, batched = unflatten(in_tree, leaves), unflatten(in_tree, list(in_batched))
            out, out_batched = call_vmap_rule(self.value, axis_size, batched, args, out_tree)
            flags[:] = jax.tree.leaves(out_batched)
            return jax.tree.leaves(out)

        structs = [self.to_aval(a) for a in avals]
        try:
            with with_wide_types(structs):
                program = jax.make_jaxpr(traced)(*structs)
        except Exception as e:  # a user's function runs here: any error is possible
            fail(UsageError, f"the batching rule {self.text} fails: {e}", "batching-rule")
        return self.from_jax(program), flags
