"""Every primitive that the installed JAX binds in programs is known, but for those of kernels and of one kind of device."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys

import jax
import jax._src
import jax.experimental
from jax.extend.core import Primitive

from jaxprtool.core.primitive import declared_primitive
from jaxprtool.driver.user_code.entry_points import load_plugins
from jaxprtool.syntax.releases.earlier import OLDER

# What is written in the languages of kernels and of foreign programs, or has a lowering for one kind of device alone.
ELSEWHERE = (
    "pallas",
    "mosaic",
    "cudnn",
    "jax2tf",
    "rnn",
    "tpu",
    "triton",
    "multihost_utils",
    "fused",
    "nm",
    "_lowerings",
    "thunky",
)
# Other primitives that are not known, and why.
LEFT_OUT = {
    **dict.fromkeys(("ag_done", "ag_start"), "has no lowering for a CPU"),
    "pbroadcast": "another primitive of the name, of the pass over a shard_map",
    **dict.fromkeys(("accum_grad_in_ref", "stage", "vmap"), "gone before a jaxpr is printed"),
    **dict.fromkeys(("call_hi_primitive", "call_hi_primitive_linearized"), "prints as what it calls"),
    **dict.fromkeys(("program_order", "relayout"), "how a program is compiled"),
    **dict.fromkeys(("dce_sential", "full_to_shard", "geqp3", "shard_to_full"), "inside of transformations"),
    **dict.fromkeys(("bias_bwd", "bias_fwd", "coo_spmm", "coo_spmv"), "has no lowering for a CPU"),
    **dict.fromkeys(("log_extend", "log_read", "new_log"), "lists of Python objects, a trial"),
    "buffer_callback": "a Python function of raw buffers",
    "spsolve": "calls SciPy",
    "todense": "what `sparsify` rewrites",
    "unreachable": "refuses to run in JAX too",
    "with_memory_space_constraint": "where an operand of a kernel is",
}  # fmt: skip


def bound() -> dict[str, str]:
    """The names of JAX's primitives, each with a module that holds it."""
    for package in (jax._src, jax.experimental):
        for module in pkgutil.walk_packages(
            package.__path__, f"{package.__name__}.", lambda _: None
        ):
            if not any(word in module.name for word in (*ELSEWHERE, "test")):
                with contextlib.suppress(Exception):  # what it needs is not installed
                    importlib.import_module(module.name)
    return {
        value.name: name
        for name, module in sorted(sys.modules.items())
        if name.startswith(("jax._src.", "jax.experimental."))
        and not any(word in name for word in ELSEWHERE)
        for value in vars(module).values()
        if isinstance(value, Primitive)
    }


def is_known(name: str) -> bool:
    if name not in OLDER and declared_primitive(name) is None:
        load_plugins(name)
    return name in OLDER or declared_primitive(name) is not None


def test_jax_binds_no_primitive_that_is_not_known():
    found = bound()
    assert len(found) > 200
    unknown = [f"{n} of {m}" for n, m in found.items() if n not in LEFT_OUT and not is_known(n)]
    assert not unknown, ", ".join(unknown)
