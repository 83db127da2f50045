"""Convert policies of `jax.checkpoint` to params, and back.

JAX makes some of its policies as closures. They are determined by the values they close over, so
they become records of the functions that made them, which a file can hold. Any other function is
kept, and called while it is alive.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.live import LiveOpaque, LiveRecord, LiveWord, masked_text
from jaxprtool.backends.jax.private import (
    POLICY_CLASSES,
    Offloaded,
    ask_policy,
    is_policy_named,
    policy_maker_of,
)
from jaxprtool.core.policies import POLICIES, Offload, offload, policy_saves
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.params import Opaque, Record

__all__ = ["LivePolicy", "policy_from_jax", "policy_maker", "policy_of_text"]


class LivePolicy(LiveOpaque):
    """A policy that is only known as a function.

    Attributes:
      as_jax: converts an equation of ours to one of JAX's.
    """

    __slots__ = ("as_jax",)
    as_jax: Callable[[JaxprEqn], Any]

    def __init__(self, policy: Callable[..., Any], as_jax: Callable[[JaxprEqn], Any]):
        super().__init__(masked_text(policy, True), policy)
        amend(self, as_jax=as_jax)

    def __reduce__(self) -> tuple[Any, ...]:
        return LivePolicy, (self.value, self.as_jax)

    def asks(self, eqn: JaxprEqn) -> bool | Offload:
        """Return whether the policy saves the results of an equation.

        It is called as JAX calls it, with JAX's primitive, types and params; results of a primitive
        that JAX does not have are not saved.

        Raises:
          UsageError: the policy fails, or returns something that JAX does not accept.
        """
        try:
            theirs = self.as_jax(eqn)
        except UnsupportedError:
            return False
        avals = [x.aval for x in theirs.invars]
        try:
            answer = ask_policy(self.value, theirs.primitive, avals, theirs.params)
        except Exception as e:  # a user's function runs here: any error is possible
            fail(
                UsageError,
                f"the policy {self.text} of remat2 fails on {eqn.primitive}: {e}",
                "remat-policy",
            )
        return offload(answer.src, answer.dst) if isinstance(answer, Offloaded) else answer


def policy_from_jax(
    policy: Any, value: Callable[..., Any], as_jax: Callable[[JaxprEqn], Any]
) -> Any:
    """Return the param `policy` of a `remat2` equation of JAX's.

    Args:
      policy: JAX's policy, or None.
      value: converts any param.
      as_jax: converts an equation of ours to one of JAX's.
    """
    if policy is None or isinstance(policy, POLICY_CLASSES) or _plain_name(policy):
        return value(policy)
    record = _record(policy, value)
    return LivePolicy(policy, as_jax) if record is None else record


def _plain_name(policy: Any) -> str | None:
    """Return the name of a function that is itself one of JAX's policies."""
    name = getattr(policy, "__name__", "")
    return name if name in POLICIES and is_policy_named(policy, name) else None


def _record(policy: Any, value: Callable[..., Any]) -> LiveRecord | None:
    """Return a policy that one of JAX's functions made, as a call of that function; None for anything else."""
    maker = policy_maker_of(policy)
    if maker not in _MAKERS:
        return None
    closed_over = inspect.getclosurevars(policy).nonlocals
    if maker in _CLASSES:
        (kept,) = closed_over.values()
        name, field = _CLASSES[maker]
        return LiveRecord.of(Record(name, (), **{field: frozenset(kept)}), policy)
    names = inspect.signature(policy_maker(maker)).parameters
    fields = {n: _field(closed_over[n], value) for n in names if n in closed_over}
    if any(isinstance(x, LiveOpaque) for x in fields.values()):
        return None
    return LiveRecord.of(Record(maker, (), **fields), policy)


# Functions in `jax.checkpoint_policies` that make policies as closures.
_MAKERS = (
    *("offload_dot_with_no_batch_dims", "save_any_names_but_these"),
    *("save_and_offload_only_these_names", "save_anything_except_these_names"),
    *("save_from_both_policies", "save_only_these_names"),
)
# What 0.10 and 0.11 have instead of closures: (class, field) by the function that makes the policy.
_CLASSES = {
    "save_any_names_but_these": ("SaveAnyNamesButThese", "names"),
    "save_only_these_names": ("SaveOnlyTheseNames", "saveable_names"),
}


def _field(x: Any, value: Callable[..., Any]) -> Any:
    if isinstance(x, (set, frozenset)):
        return tuple(sorted(x))
    if not callable(x) or isinstance(x, POLICY_CLASSES):
        return value(x, top=False)
    name = _plain_name(x)
    if name:
        return LiveWord(name, x)
    found = _record(x, value)
    return LiveOpaque(masked_text(x, False), x) if found is None else found


def policy_maker(name: str) -> Any:
    """Return JAX's policy of this name, or the function that makes such policies; None where there is none."""
    found = getattr(jax.checkpoint_policies, name, None) or _OF_CLASS.get(name)
    if found is None or name not in _MAKERS:
        return found
    params = [p.kind is p.VAR_POSITIONAL for p in inspect.signature(found).parameters.values()]
    return _by_name(found) if params == [True] else found


def policy_of_text(printed: Opaque) -> Any:
    """Return JAX's policy for one of which only the print is known, `<function dots_saveable at 0x7f00>`.

    A policy affects no result: where the print does not identify it, JAX gets one that saves
    nothing, as our own derivatives do, with the same warning.
    """
    saves = policy_saves(printed)
    return policy_maker(next(name for name, known in POLICIES.items() if known is saves))


def _by_name(maker: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes any number of names, called with a tuple of them by the name of its parameter."""

    @functools.wraps(maker)
    def made(*names: str, **fields: Sequence[str]) -> Any:
        return maker(*names, *[name for given in fields.values() for name in given])

    return made


# Policies by the names of the classes that some releases have for them.
_OF_CLASS: dict[str, Callable[..., Any]] = {
    "DotsSaveable": lambda only_if_no_batch_dims: (
        jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        if only_if_no_batch_dims
        else jax.checkpoint_policies.dots_saveable
    ),
    "OffloadDotWithNoBatchDims": jax.checkpoint_policies.offload_dot_with_no_batch_dims,
    "SaveAndOffloadOnlyTheseNames": jax.checkpoint_policies.save_and_offload_only_these_names,
    "SaveAnyNamesButThese": lambda names: jax.checkpoint_policies.save_any_names_but_these(*names),
    "SaveOnlyTheseNames": lambda saveable_names: jax.checkpoint_policies.save_only_these_names(
        *saveable_names
    ),
}
