"""The policies of `remat2`: which results are saved for the recomputation, and in which memory.

In the process that traced a program, a policy may be a Python function, which is called (`asks`).
In a file it is the name or the constructor of a policy of JAX.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jaxprtool.ir.diagnostics import JaxprToolWarning
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.params import PrintedFunction, Record, Word

__all__ = [
    "POLICIES",
    "POLICY_RECORDS",
    "Offload",
    "PolicyWarning",
    "Saves",
    "offload",
    "policy_as_called",
    "policy_name",
    "policy_saves",
    "save_everything",
    "save_nothing",
]


class Offload(NamedTuple):
    """The answer of a policy that saves a value in another memory until the second computation.

    Attributes:
      source: the memory of the value (`host`; "" is the device's).
      memory: the memory that it is saved in.
    """

    source: str
    memory: str


Saves = Callable[[JaxprEqn], bool | Offload]


class PolicyWarning(JaxprToolWarning):
    """A policy is a Python function that is not in the text, so it is unknown what it saves."""

    code = "remat-policy"


def save_nothing(eqn: JaxprEqn) -> bool:
    """The policy that computes everything again."""
    return False


def save_everything(eqn: JaxprEqn) -> bool:
    """Return True: the policy that saves everything, as a derivative without `remat2` does."""
    return True


# The primitives whose results JAX's policies named "dots" save.
_DOTS = ("dot_general", "conv_general_dilated", "scaled_matmul_wrapper")


def _is_dot(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name in _DOTS


def _is_dot_without_batch(eqn: JaxprEqn) -> bool:
    if eqn.primitive.name == "scaled_matmul_wrapper":
        return eqn.inputs[0].aval.shape[0] == 1
    if eqn.primitive.name != "dot_general":
        return False
    _, (left, right) = eqn.params["dimension_numbers"]
    return not left and not right


class _Named(NamedTuple):
    """A policy that saves the values to which `checkpoint_name` gave one of these names; with
    `but`, one of all other names.
    """

    names: frozenset[str]
    but: bool = False

    def __call__(self, eqn: JaxprEqn) -> bool:
        return eqn.primitive.name == "name" and (eqn.params["name"] in self.names) != self.but


class _Either(NamedTuple):
    """A policy that saves what either of two policies saves."""

    first: Saves
    second: Saves

    def __call__(self, eqn: JaxprEqn) -> bool | Offload:
        return self.first(eqn) or self.second(eqn)


class _Offloading(NamedTuple):
    """A policy that moves the values that another policy saves to another memory."""

    saves: Saves
    move: Offload

    def __call__(self, eqn: JaxprEqn) -> bool | Offload:
        return self.move if self.saves(eqn) else False


def offload(source: str, destination: str) -> Offload:
    """Return a move between memories, given JAX's names of their kinds: `pinned_host` is the
    host's, others are the device's.
    """
    return Offload(*["host" if kind == "pinned_host" else "" for kind in (source, destination)])


POLICIES: dict[str, Saves] = {
    "nothing_saveable": save_nothing,
    "everything_saveable": save_everything,
    "dots_saveable": _is_dot,
    "checkpoint_dots": _is_dot,
    "dots_with_no_batch_dims_saveable": _is_dot_without_batch,
    "checkpoint_dots_with_no_batch_dims": _is_dot_without_batch,
    "dot_with_no_batch_dims": _is_dot_without_batch,  # its name in JAX up to 0.3, and up to 0.5
    "dot_with_no_batch_dims_saveable": _is_dot_without_batch,
}

# Functions of JAX that make policies, by the names of what they return.
_MADE_BY: dict[str, Saves] = {
    "save_anything_except_these_names": save_everything,  # as in JAX, which saves everything too
    "offload_dot_with_no_batch_dims": _is_dot_without_batch,
}


def policy_saves(policy: Any) -> Saves:
    """Return a policy as a function of equations: whether the results of an equation are saved, or
    moved to another memory meanwhile.

    Args:
      policy: None, a name (`dots_saveable`), a record (`SaveOnlyTheseNames(...)`), the text of a
        function, or an object with a method `asks`, which calls the Python function.

    Returns:
      The function; for the same policy, the same function or an equal one. A policy that is only
        known as text, and not one of JAX's, saves nothing, with a warning.
    """
    if policy is None:
        return save_nothing
    if hasattr(policy, "asks"):
        return policy.asks
    found = _known(policy)
    if found is None:
        _warn_unknown(policy)
        return save_nothing
    return found


def policy_name(policy: Any) -> str | None:
    """Return the name of a policy that is defined in JAX, in whatever form a release prints it.

    It is None for other policies, and for those that JAX makes from arguments.
    """
    made = policy.is_local if isinstance(policy, PrintedFunction) else isinstance(policy, Record)
    if (
        made and getattr(policy, "name", "") != "DotsSaveable"
    ):  # since 0.10 the class of two policies in POLICIES
        return None
    found = _known(policy)
    return next((name for name, saves in POLICIES.items() if saves is found), None)


# Classes of policies in JAX 0.10 and 0.11, which print their fields; in other releases all are
# functions.
POLICY_RECORDS = (
    *("DotsSaveable", "SaveAnyNamesButThese", "SaveOnlyTheseNames"),
    *("OffloadDotWithNoBatchDims", "SaveAndOffloadOnlyTheseNames"),
)


_CALLED = {
    "OffloadDotWithNoBatchDims": "offload_dot_with_no_batch_dims",
    "SaveAndOffloadOnlyTheseNames": "save_and_offload_only_these_names",
}


def policy_as_called(policy: Any) -> Any:
    """Return a policy that is printed as a class as the call that makes it, the form of other
    releases.

    Other policies are returned unchanged.
    """
    if not isinstance(policy, Record) or policy.name not in _CALLED:
        return policy
    fields = {k: v if isinstance(v, str) else tuple(sorted(v)) for k, v in policy.fields.items()}
    return Record(_CALLED[policy.name], (), **fields)


def _known(policy: Any) -> Saves | None:
    """Return a policy as a function of equations if its name or its record is known, otherwise
    None.
    """
    if isinstance(policy, str):
        return POLICIES.get(Word(policy).member)
    if isinstance(policy, Record) and policy.name in _RECORDS:
        return _RECORDS[policy.name](**policy.fields)
    if isinstance(policy, PrintedFunction):
        return (_MADE_BY if policy.is_local else POLICIES).get(policy.maker)
    return None


def _warn_unknown(policy: Any) -> None:
    warnings.warn(
        f"what the policy {policy} of remat2 saves is not in the text: everything is computed again. "
        "A program that is transformed in the process that traced it asks the policy itself",
        PolicyWarning,
        stacklevel=2,
    )


def _saved_or_offloaded(
    names_which_can_be_saved: Any,
    names_which_can_be_offloaded: Any,
    offload_src: str,
    offload_dst: str,
) -> Saves:
    saved = _Named(frozenset(names_which_can_be_saved))
    moved = _Named(frozenset(names_which_can_be_offloaded))
    return _Either(saved, _Offloading(moved, offload(offload_src, offload_dst)))


def _offloaded_dot(offload_src: str, offload_dst: str) -> Saves:
    return _Offloading(_is_dot_without_batch, offload(offload_src, offload_dst))


def _dots(only_if_no_batch_dims: bool) -> Saves:
    return _is_dot_without_batch if only_if_no_batch_dims else _is_dot


def _these_names(saveable_names: Iterable[str]) -> Saves:
    return _Named(frozenset(saveable_names))


def _other_names(names: Iterable[str]) -> Saves:
    return _Named(frozenset(names), but=True)


def _everything(**_: Any) -> Saves:
    return save_everything


def _of_both(policy_1: Any, policy_2: Any) -> Saves:
    return _Either(policy_saves(policy_1), policy_saves(policy_2))


_RECORDS: dict[str, Callable[..., Saves]] = {
    "DotsSaveable": _dots,
    "SaveOnlyTheseNames": _these_names,
    "SaveAnyNamesButThese": _other_names,
    "offload_dot_with_no_batch_dims": _offloaded_dot,
    "OffloadDotWithNoBatchDims": _offloaded_dot,
    "SaveAndOffloadOnlyTheseNames": _saved_or_offloaded,
    "save_anything_except_these_names": _everything,
    "save_and_offload_only_these_names": _saved_or_offloaded,
    "save_from_both_policies": _of_both,
}
