"""Each param that JAX binds to one of its primitives is one that ours has, or that the bridge knows what to do with."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pkgutil
import sys

import jax
import jax._src
import jax.experimental

from jaxprtool.backends.jax import vocabulary
from jaxprtool.backends.jax.private import Primitive
from jaxprtool.core.primitive import declared_primitive
from jaxprtool.driver.user_code.entry_points import load_plugins

# Modules of other machines, which nobody imports here, and what is no jaxpr of a program.
ELSEWHERE = ("cudnn", "jax2tf", "tpu_custom_call", "triton", "multihost_utils", "test", "thunky")
# Params of equations that other modules of the bridge make, or that are gone before a jaxpr is printed.
OF_OTHERS = {"call_hi_primitive", "custom_jvp_call", "custom_vjp_call", "reshard", "scan", "cond"}
# What is bound while a call is traced and is gone from its equation.
BINDING = {"subfuns", "debug_info"}
# Other primitives of a name, of the cores of a TPU that gather, and what one release alone had.
OTHERS = {"gather[tree=]", "scatter[tree=]", "scatter[add=]", "bitcast[dtype=]"}
OTHERS |= {"mpmd_map[grid_mappings=]"}


def _modules():
    for package in (jax._src, jax.experimental):
        names = pkgutil.walk_packages(package.__path__, f"{package.__name__}.", lambda _: None)
        for module in names:
            if not any(word in module.name for word in ELSEWHERE):
                with contextlib.suppress(Exception):  # what it needs is not installed
                    importlib.import_module(module.name)
    for name, module in sorted(sys.modules.items()):
        ours = name.startswith(("jax._src.", "jax.experimental."))
        if ours and not any(word in name for word in ELSEWHERE):
            yield module


def _bound(module):
    """(primitive, keyword) of each `PRIMITIVE.bind(..., keyword=...)` in the source of a module."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):
        return
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "bind":
            continue
        found = module
        for part in ast.unparse(node.func.value).split("."):
            found = getattr(found, part, None)
        if isinstance(found, Primitive):
            yield from ((found, k.arg) for k in node.keywords if k.arg)


def _is_known(name, key):
    if declared_primitive(name) is None:
        load_plugins(name)
    ours = declared_primitive(name)
    if ours is None or ours.open or ours.notation or name in OF_OTHERS or key in ours.params:
        return True  # of what is no primitive of ours, test_primitives_of_jax tells
    return (name, key) in vocabulary.ADDED or name in vocabulary._CHANGE


def test_jax_binds_no_param_that_is_not_known():
    found = {(p.name, key) for module in _modules() for p, key in _bound(module)}
    assert len(found) > 200
    unknown = {f"{n}[{k}=]" for n, k in found if k not in BINDING and not _is_known(n, k)}
    assert sorted(unknown - OTHERS) == []
