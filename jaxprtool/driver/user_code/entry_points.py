"""Plug-ins of installed distributions, found by entry points of the group `jaxprtool.plugins`.

    [project.entry-points."jaxprtool.plugins"]
    my_sin = "my_library.jaxprtool_plugin"

The name of an entry point is that of a primitive, its value the module that declares it; a module
with several primitives has an entry point for each. So the installed primitives are known without
importing any plug-in, and a program with a primitive costs only the import of the one module that
declares it. Distributions are searched when a program first holds an undeclared primitive.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from typing import ClassVar

from jaxprtool.core.primitive import find_primitive, loading_plugin
from jaxprtool.driver.user_code.modules import imported
from jaxprtool.ir.diagnostics import JaxprToolWarning

__all__ = ["BUILT_IN", "GROUP", "PluginWarning", "load_plugins", "only_built_in"]

GROUP = "jaxprtool.plugins"
# The modules of `jaxprtool.plugins`, and what each declares. `pyproject.toml` has an entry point for each primitive; the
# table stands for those where the package is used from a folder, without being installed.
BUILT_IN: dict[str, tuple[str, ...]] = {
    "jaxprtool.plugins.bcoo": (
        "bcoo_extract",
        "bcoo_fromdense",
        "bcoo_sort_indices",
        "bcoo_sum_duplicates",
        "bcoo_todense",
        "bcoo_todense_p",
        "bcoo_transpose",
    ),
    "jaxprtool.plugins.bcoo_products": (
        "bcoo_dot_general",
        "bcoo_dot_general_sampled",
        "bcoo_spdot_general",
    ),
    "jaxprtool.plugins.bcsr": (
        "bcsr_dot_general",
        "bcsr_extract",
        "bcsr_fromdense",
        "bcsr_todense",
    ),
    "jaxprtool.plugins.coo": (
        "coo_fromdense",
        "coo_matmat",
        "coo_matvec",
        "coo_todense",
        "csr_fromdense",
        "csr_matmat",
        "csr_matvec",
        "csr_todense",
        "spsolve",
    ),
    "jaxprtool.plugins.equinox": (
        "announce_jaxpr",
        "branched_error",
        "maybe_set",
        "nonbatchable",
        "nondifferentiable_backward",
        "nontraceable",
        "select_if_vmap",
        "unvmap_all",
        "unvmap_any",
        "unvmap_max",
    ),
    "jaxprtool.plugins.equinox_vprim": ("vprim",),
    "jaxprtool.plugins.kfac": ("layer_tag", "loss_tag"),
    "jaxprtool.plugins.kfac_earlier": (
        "CategoricalLogitsNegativeLogProbLoss_tag",
        "MultiBernoulliNegativeLogProbLoss_tag",
        "NormalMeanNegativeLogProbLoss_tag",
        "NormalMeanVarianceNegativeLogProbLoss_tag",
        "OneHotCategoricalLogitsNegativeLogProbLoss_tag",
        "conv2d_tag",
        "dense_tag",
        "generic_tag",
        "scale_and_shift_tag",
    ),
    "jaxprtool.plugins.lineax": ("linear_solve",),
}


class PluginWarning(JaxprToolWarning):
    """An installed plug-in cannot be used."""

    code: ClassVar[str] = "plugin-failed"


def load_plugins(primitive: str) -> None:
    """Import the plug-in that declares a primitive, where one is installed; each is imported once.

    A plug-in of another distribution comes before one of ours. One that fails, or does not declare what its entry point
    says, is a `PluginWarning`, and the next one is tried.

    Args:
      primitive: the name of a primitive that is not declared.
    """
    for module in _modules().get(primitive, ()):
        if _declares(module, primitive):
            return


def only_built_in() -> None:
    """From now on import only plug-ins of this package, for a program for which no other code may be run."""
    global _others
    _others = False
    _modules.cache_clear()


_others = True


@functools.cache
def _modules() -> dict[str, list[str]]:
    """Return the modules that declare each primitive, by the entry points of installed distributions."""
    # It is slow, and only programs with primitives that nobody declares need it.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found: dict[str, list[str]] = {}
    own = {p: module for module, names in BUILT_IN.items() for p in names}
    for entry in entry_points(group=GROUP) if _others else ():
        if entry.value not in BUILT_IN:
            found.setdefault(entry.name, []).append(entry.value)
    for primitive, module in own.items():
        found.setdefault(primitive, []).append(module)
    return found


@functools.cache
def _declares(module: str, primitive: str) -> bool:
    """Import a plug-in; return whether it has declared a primitive."""
    error = _failure(module)
    if error is None and find_primitive(primitive).known:
        return True
    why = error or "it does not declare the primitive"
    message = f"the plug-in {module}, which is installed for the primitive {primitive}, is left out: {why}"
    warnings.warn(message, PluginWarning, stacklevel=2)
    return False


@functools.cache
def _failure(module: str) -> str | None:
    """Import a module; return what went wrong, or None."""
    if ":" in module:
        return "its entry point names something in a module, and has to name the module"
    try:
        with loading_plugin(), contextlib.redirect_stdout(sys.stderr):
            imported(module)
    except (Exception, SystemExit) as e:  # what others' modules raise must not stop the reader
        return f"{type(e).__name__}: {e}"
    return None
