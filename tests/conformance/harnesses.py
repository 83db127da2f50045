"""JAX's own cases, one or more for each primitive: `jax._src.internal_test_util.test_harnesses`."""

from __future__ import annotations

import functools
import re
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxprtool as jt

__all__ = ["Case", "JaxCannot", "as_ours", "group_of", "harness_names", "programs", "sample"]

_DEVICE = "cpu"


class JaxCannot(Exception):
    """JAX itself does not run the case on the CPU."""


# Harnesses whose results are not determined by their inputs alone; these get inputs without equal elements.
_TIES = re.compile("^approx_top_k_|^sort_.*isstable_False")  # XLA leaves equal keys in any order


@dataclass
class Case:
    """A harness's program.

    Attributes:
      harness: the harness's full name.
      x64: whether 64-bit types were on when it was traced.
      closed: JAX's ClosedJaxpr.
      text: how JAX prints it.
      args: values of its arguments: NumPy arrays, and JAX's arrays of PRNG keys.
      more: other values for them.
    """

    harness: str
    x64: bool
    closed: Any
    text: str
    args: list[Any]
    more: list[Any]


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
    """The primitive that a harness is about."""
    return _harnesses()[name].group_name


def sample() -> dict[str, list[str]]:
    """A fixed choice of harnesses of each primitive, evenly spread over their names."""
    groups: dict[str, list[str]] = {}
    for name in _harnesses():
        groups.setdefault(group_of(name), []).append(name)
    return {
        group: [names[(2 * i + 1) * len(names) // (2 * k)] for i in range(k)]
        for group, names in groups.items()
        for k in [min(len(names), 1 + round(len(names) ** 0.5 / 5))]
    }


def programs(name: str) -> list[Case]:
    """A harness's program with 64-bit types on, and the one with them off if that is another program.

    Harnesses that are about 64-bit types are other harnesses' cases without them.

    Raises:
      JaxCannot: JAX says so, or raises an error while it traces or prints.
    """
    harness = _harnesses()[name]
    if not harness.filter(_DEVICE):
        raise JaxCannot("; ".join(m.description for m in harness.jax_unimplemented))
    wide = _traced(harness, x64=True)
    if _is_wide(wide):
        return [wide]
    try:
        narrow = _traced(harness, x64=False)
    except JaxCannot:
        return [wide]
    return [wide] if narrow.text == wide.text else [wide, narrow]


def _is_wide(case: Case) -> bool:
    """Whether arguments or results have 64-bit types."""
    jaxpr = case.closed.jaxpr
    avals = [v.aval for v in (*jaxpr.invars, *jaxpr.outvars)]
    return any(a.dtype.itemsize >= (16 if a.dtype.kind == "c" else 8) for a in avals)


def _traced(harness: Any, *, x64: bool) -> Case:
    import jax

    with jax.enable_x64(x64):
        rng = np.random.RandomState(zlib.crc32(harness.fullname.encode()))
        args, tree = jax.tree.flatten(harness.dyn_args_maker(rng))
        more = jax.tree.leaves(harness.dyn_args_maker(rng))
        if _TIES.search(harness.fullname):
            args, more = [[_distinct(x, rng) for x in values] for values in (args, more)]

        def flat(*leaves: Any) -> list[Any]:
            return jax.tree.leaves(harness.dyn_fun(*jax.tree.unflatten(tree, leaves)))

        try:
            closed = jax.make_jaxpr(flat)(*args)
            text = str(closed)
        except Exception as e:  # whatever JAX raises, it cannot
            raise JaxCannot(f"{type(e).__name__}: {e}") from e
        avals = closed.in_avals
        return Case(harness.fullname, x64, closed, text, _typed(args, avals), _typed(more, avals))


def _distinct(like: Any, rng: Any) -> np.ndarray:
    """An array of the type of another, with no element twice: whole numbers, or consecutive floats from 1."""
    dtype = like.dtype
    order = rng.permutation(like.size).reshape(like.shape)
    if dtype.kind in "iuc":
        return order.astype(dtype)
    if dtype.kind == "b":
        return np.asarray(like)
    bits = np.dtype(f"u{dtype.itemsize}")
    return (np.ones((), dtype).view(bits) + order.astype(bits)).view(dtype)


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
