"""remat: make the derivative of a program recompute intermediate values."""

from __future__ import annotations

from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.checkpointing import POLICY_FORMS, checkpointed, policy_of
from jaxprtool.passes.names import look_for_policy_names
from jaxprtool.passes.registry import define_pass

__all__ = ["remat"]


@define_pass(
    "remat",
    "bits types",
    names={"policy": look_for_policy_names},
    forms={"policy": POLICY_FORMS},
)
def remat(program: ClosedJaxpr, *, policy: str = "nothing") -> ClosedJaxpr:
    """Put the whole program into a `remat2`, so that its derivative keeps what the policy says and computes the rest again.

    policy: nothing, everything, dots, dots_no_batch, names=a+b or offload=a+b.
    """
    return checkpointed(program, policy_of(policy))
