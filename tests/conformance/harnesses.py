"""JAX's own cases, one or more for each primitive: `jax._src.internal_test_util.test_harnesses`.

A case is a harness, with 64-bit types on or off. With them off, it counts only when that gives another program.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxprtool as jt

__all__ = ["Case", "JaxCannot", "harness_names", "programs", "sample"]

_DEVICE = "cpu"
_WIDE = re.compile(r"64(?!_)|128")


class JaxCannot(Exception):
    """JAX itself does not run the case on the CPU."""


@dataclass
class Case:
    """A traced case.

    Attributes:
      name: the harness's full name, with `/x32` behind it when 64-bit types are off.
      closed: JAX's ClosedJaxpr.
      text: how JAX prints it.
      args: values of its arguments, as JAX or NumPy arrays.
      more: other values for them.
    """

    name: str
    x64: bool
    closed: Any
    text: str
    args: list[Any]
    more: list[Any]

    @property
    def group(self) -> str:
        """The primitive, as the harness names it."""
        return group_of(self.name)


@functools.cache
def _harnesses() -> dict[str, Any]:
    """All harnesses by full name, in order of the names.

    The module reads JAX's flags while it is imported, and has more cases with 64-bit types on.
    """
    import jax

    with jax.enable_x64(True):
        from jax._src.internal_test_util import test_harnesses
    found = {h.fullname: h for h in test_harnesses.all_harnesses}
    assert len(found) == len(test_harnesses.all_harnesses), "two harnesses of one name"
    return dict(sorted(found.items()))


def harness_names(only: str = "") -> list[str]:
    """The names of the harnesses that match a regular expression."""
    pattern = re.compile(only)
    return [name for name in _harnesses() if pattern.search(name)]


def group_of(name: str) -> str:
    """The primitive that a case is about, from the case's or harness's name."""
    return _harnesses()[name.removesuffix("/x32")].group_name


def sample(names: Iterable[str], of_each: Callable[[int], int]) -> dict[str, list[str]]:
    """A fixed choice of names by group, evenly spread: `of_each(n)` out of n."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(group_of(name), []).append(name)
    return {g: [ns[i * len(ns) // k] for i in range(k)] for g, ns in groups.items() for k in [of_each(len(ns))]}


def programs(name: str) -> list[Case]:
    """The case of a harness, and the one with 64-bit types off if that is another program.

    Raises:
      JaxCannot: JAX says so, or raises an error while it traces or prints.
    """
    harness = _harnesses()[name]
    if not harness.filter(_DEVICE):
        raise JaxCannot("; ".join(m.description for m in harness.jax_unimplemented))
    wide = _traced(harness, name, x64=True)
    if _is_wide(wide):
        return [wide]
    try:
        narrow = _traced(harness, f"{name}/x32", x64=False)
    except JaxCannot:
        return [wide]
    return [wide] if narrow.text == wide.text else [wide, narrow]


def _is_wide(case: Case) -> bool:
    """Whether the case is about 64-bit types; without them it is another harness's case."""
    jaxpr = case.closed.jaxpr
    avals = [v.aval for v in (*jaxpr.invars, *jaxpr.outvars)]
    return any(a.dtype.itemsize >= (16 if a.dtype.kind == "c" else 8) for a in avals)


def _traced(harness: Any, name: str, *, x64: bool) -> Case:
    import jax

    with jax.enable_x64(x64):
        rng = np.random.RandomState(zlib.crc32(harness.fullname.encode()))
        args = jax.tree.leaves(harness.dyn_args_maker(rng))
        more = jax.tree.leaves(harness.dyn_args_maker(rng))
        tree = jax.tree.structure(harness.dyn_args_maker(rng))

        def flat(*leaves: Any) -> list[Any]:
            return jax.tree.leaves(harness.dyn_fun(*jax.tree.unflatten(tree, leaves)))

        try:
            closed = jax.make_jaxpr(flat)(*args)
            text = str(closed)
        except Exception as e:  # whatever JAX raises, it cannot
            raise JaxCannot(f"{type(e).__name__}: {e}") from e
        avals = closed.in_avals
        return Case(name, x64, closed, text, _typed(args, avals), _typed(more, avals))


def _typed(values: list[Any], avals: list[Any]) -> list[Any]:
    """Values as arrays of the types that JAX gave them (64-bit ones may have become 32-bit ones)."""
    import jax

    return [
        x if jax.dtypes.issubdtype(a.dtype, jax.dtypes.extended) else np.asarray(x, a.dtype)
        for x, a in zip(values, avals, strict=True)
    ]


def as_ours(x: Any) -> Any:
    """A value of JAX as ours: NumPy arrays, and PRNG keys as `KeyArray`."""
    import jax

    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jt.KeyArray(str(jax.random.key_impl(x)), np.asarray(jax.random.key_data(x)))
    return np.asarray(x)
