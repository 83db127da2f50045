"""JAX's primitives that are objects: each is a `call_hi_primitive` that prints the name of its
class and its own params.

JAX has them from 0.11 on, and prints them so from 0.12 on.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.private import NoTangent, hijax, instantiated
from jaxprtool.backends.jax.releases import since

__all__ = ["hi_primitive", "shown_as", "shown_params"]

_hijax: Any = hijax  # what there is of it differs by release
_BASE: Any = getattr(_hijax, "HiPrim", getattr(_hijax, "VJPHiPrimitive", None))


def hi_primitive(name: str, in_avals: Sequence[Any], out_avals: Sequence[Any], params: Any) -> Any:
    """Return JAX's object for an equation that prints as a primitive of such a class; None where there is none.

    Raises:
      Exception: whatever JAX raises where the class does not accept such operands or params.
    """
    if not since(0, 11):  # 0.10 has some of these classes, and cannot lower them in every call
        return None
    for module_name, module in list(sys.modules.items()):
        cls = vars(module).get(name) if module_name.startswith("jax.") else None
        if _BASE is not None and isinstance(cls, type) and issubclass(cls, _BASE):
            wanted = inspect.signature(cls).parameters
            more = {"out_dtype": out_avals[0].dtype} if "out_dtype" in wanted and out_avals else {}
            by_place = [k for k, p in wanted.items() if p.kind is not p.KEYWORD_ONLY]
            operands = by_place[: len(in_avals)]  # some print the types of these too
            rest = {k: v for k, v in params.items() if k not in operands}
            try:
                inspect.signature(cls).bind(*in_avals, **{**rest, **more})
            except TypeError:  # a class of this name, in a release that prints another one
                continue
            made = cls(*in_avals, **{**rest, **more})
            if len(made.in_avals_flat) == len(in_avals):
                return made
    return None


def shown_params(prim: Any) -> dict[str, Any] | None:
    """Return the params that JAX prints after the name of an object's class; None where it prints the object.

    Functions are printed by name, and traced ones as jaxprs.
    """
    shown = getattr(prim, "pp_params", None)
    if shown is None:
        return None
    found = {k: getattr(v, "jaxpr", v) for k, v in shown().items()}
    return {k: _name_of(v) if _is_function(v) else v for k, v in found.items()}


def _is_function(v: Any) -> bool:
    return inspect.isfunction(v) or isinstance(v, functools.partial)


def _name_of(f: Any) -> str:
    return getattr(f, "__name__", "") or _name_of(f.func)


def shown_as(
    name: str,
    params: dict[str, Any],
    f: Callable[..., Sequence[Any]],
    in_avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> Any:
    """Return an object that computes f, and prints as one of class `name`; None where JAX does not print objects so.

    Its derivatives and batches are those of f.
    """
    if not hasattr(_BASE, "pp_params"):
        return None

    def __init__(self: Any) -> None:
        self.in_avals, self.out_aval, self.params = tuple(in_avals), tuple(out_avals), params
        _BASE.__init__(self)

    def expand(self: Any, *args: Any) -> tuple[Any, ...]:
        return tuple(f(*args))

    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        outs, out_tangents = jax.jvp(self.expand, primals, tuple(map(instantiated, tangents)))
        zero = [t.dtype == jax.dtypes.float0 for t in out_tangents]
        kinds = [a.to_tangent_aval() for a in out_avals]
        pairs = zip(zero, kinds, out_tangents, strict=True)
        return outs, tuple(NoTangent(kind) if none else t for none, kind, t in pairs)

    def batch(self: Any, axis_data: Any, args: Any, dims: Any) -> Any:
        in_front = (0,) * len(out_avals)
        return _hijax.vmap_rule(axis_data, self.expand, tuple(dims), in_front)(*args), in_front

    lin, linearized = _hijax.linearize_from_jvp
    forward, backward = _hijax.vjp_from_lin
    rules = {"lin": lin, "linearized": linearized, "vjp_fwd": forward, "vjp_bwd_retval": backward}
    own = {"__init__": __init__, "expand": expand, "jvp": jvp, "batch": batch, **rules}
    return type(name, (_BASE,), own)()
