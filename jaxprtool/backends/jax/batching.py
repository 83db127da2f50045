"""Batching rules of `jax.custom_batching.custom_vmap` functions: called when the size of a batch is known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.live import LiveFunction, LiveOpaque, Named, masked_text
from jaxprtool.backends.jax.placement import Surroundings
from jaxprtool.backends.jax.private import call_vmap_rule, evaluate, traced_structure
from jaxprtool.backends.jax.wide_types import with_wide_types
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.dtypes import dtype_of
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.rules.custom_vmap import is_sequential

__all__ = ["LiveVmapRule", "with_vmap_rule"]


class LiveVmapRule(LiveOpaque):
    """The rule of a `custom_vmap_call` equation of JAX's.

    Attributes:
      eqn: the equation.
      from_jax: converts programs from JAX.
      to_aval: converts types to JAX's.
      around: the named axes around the equation: the rule may use collectives.
    """

    __slots__ = ("around", "eqn", "from_jax", "to_aval")
    around: Surroundings
    eqn: Any
    from_jax: Callable[[Any], ClosedJaxpr]
    to_aval: Callable[[Any], Any]

    def __init__(
        self,
        eqn: Any,
        from_jax: Callable[[Any], ClosedJaxpr],
        to_aval: Callable[[Any], Any],
        around: Surroundings,
    ):
        super().__init__(masked_text(eqn.params["rule"], True), eqn.params["rule"])
        amend(self, eqn=eqn, from_jax=from_jax, to_aval=to_aval, around=around)

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveVmapRule, (self.eqn, self.from_jax, self.to_aval, self.around)

    def batched(
        self, axis_size: int, in_batched: Sequence[bool], avals: Sequence[Any]
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """Return the function of batched arguments by the rule, and for each result whether it is batched.

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

        structs = [self.around.typed(a, self.to_aval(a)) for a in avals]
        with self.around.again():
            try:
                with with_wide_types(structs):
                    program = jax.make_jaxpr(traced)(*structs)
            except Exception as e:  # a user's function runs here: any error is possible
                fail(UsageError, f"the batching rule {self.text} fails: {e}", "batching-rule")
            return self.from_jax(program), flags


def with_vmap_rule(
    eqn: JaxprEqn,
    object_of: Callable[[str, Any], Any],
    to_jax: Callable[[ClosedJaxpr], Any],
) -> dict[str, Any]:
    """Return the params of a `custom_vmap_call` with a rule for JAX, where they hold a rule of ours, or only its text.

    Args:
      eqn: the equation.
      object_of: returns JAX's object for a param, given its key and value; raises UnsupportedError
        where there is none.
      to_jax: converts programs.
    """
    rule: Any = eqn.params["rule"]
    if isinstance(rule, (LiveFunction, LiveOpaque)) and not isinstance(rule.value, Named):
        return dict(eqn.params)

    def tree(key: str, leaves: Any) -> Any:
        with contextlib.suppress(UnsupportedError):
            found = object_of(key, eqn.params[key])
            if getattr(found, "num_leaves", None) == len(leaves):
                return found
        return jax.tree.structure(leaves)

    leaves_in = (0,) * len(eqn.inputs)
    in_tree = tree("in_tree", leaves_in)
    trees = {"in_tree": traced_structure(jax.tree.unflatten(in_tree, leaves_in))}
    trees["out_tree"] = tree("out_tree", [0] * len(eqn.out_binders))

    def batch(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        by = getattr(rule, "batched", None)
        if by is None and is_sequential(rule):
            outs = _one_by_one(to_jax(eqn.params["call"]), jax.tree.leaves(in_batched), args)
            return tuple(
                jax.tree.unflatten(trees["out_tree"], x) for x in (outs, [True] * len(outs))
            )
        if by is None:
            message = f"the batching rule {rule} of custom_vmap_call is not in the text"
            fail(UnsupportedError, message, "batching-rule", span=eqn.span)
        leaves, flags = jax.tree.leaves(args), jax.tree.leaves(in_batched)
        avals = [ShapedArray(x.shape, dtype_of(x.dtype)) for x in leaves]
        program, out_flags = by(axis_size, flags, avals)
        outs = evaluate(to_jax(program), *leaves)
        return tuple(jax.tree.unflatten(trees["out_tree"], x) for x in (outs, out_flags))

    objects = {"rule": Named(batch, str(rule)), **trees}
    return {**eqn.params, **{k: LiveOpaque(str(eqn.params[k]), x) for k, x in objects.items()}}


def _one_by_one(closed: Any, in_batched: Sequence[bool], args: Any) -> list[Any]:
    """Return the results of a program for each example in turn, as `jax.custom_batching.sequential_vmap` does."""
    leaves = jax.tree.leaves(args)
    mapped = [x for x, b in zip(leaves, in_batched, strict=True) if b]

    def step(examples: Sequence[Any]) -> list[Any]:
        given = iter(examples)
        return evaluate(
            closed, *[next(given) if b else x for x, b in zip(leaves, in_batched, strict=True)]
        )

    return jax.lax.map(step, mapped)
