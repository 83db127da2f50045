"""What JAX gives for a case, in every column, with as few compilations as possible."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxprtool.backends.numpy_eval import float0
from jaxprtool.ir.dtypes import dtype_of
from tests.conformance.compare import Rounding, compare
from tests.conformance.harnesses import Case, JaxCannot, as_ours, group_of
from tests.releases import SERIES

__all__ = ["Oracle", "ask_jax", "rounding"]

# The numbers are to be right, not fast; most of the time would be LLVM's.
_OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
if SERIES < (0, 11):  # later ones have no other
    _OPTIONS["xla_cpu_use_fusion_emitters"] = False

_FALSE_DERIVATIVES = {
    "reduce": "JAX's jvp of reduce leaves out an initial value that is not neutral",
}


@dataclass
class Oracle:
    """JAX's results for a case by column, or why there are none.

    Attributes:
      tangents, cotangents: one for each argument and result; zeros of float0 where there is no other.
      batched: the arguments with a new leading axis of size two.
    """

    case: Case
    tangents: list[Any]
    cotangents: list[Any]
    batched: list[Any]
    results: dict[str, list[Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, column: str) -> list[Any]:
        """The results in a column, flat; raises JaxCannot."""
        if column in self.errors:
            raise JaxCannot(self.errors[column])
        return self.results[column]


class _Part:
    """One column as JAX's jaxpr, on values of its inputs that have any."""

    def __init__(self, f: Callable[..., Any], args: Any):
        import jax

        leaves, tree = jax.tree.flatten(args)
        shown = [x for x in leaves if x.dtype != float0]

        def of_shown(*values: Any) -> list[Any]:
            rest = iter(values)
            full = [x if x.dtype == float0 else next(rest) for x in leaves]
            return jax.tree.leaves(f(*jax.tree.unflatten(tree, full)))

        self.closed, self.values = jax.make_jaxpr(of_shown)(*shown), shown
        self.avals = self.closed.out_avals
        self.kept = [i for i, a in enumerate(self.avals) if a.dtype != float0]

    def __call__(self, values: list[Any]) -> list[Any]:
        """The results that are not float0."""
        from jax.extend.core import jaxpr_as_fun

        outs = jaxpr_as_fun(self.closed)(*values)
        return [outs[i] for i in self.kept]

    def complete(self, results: list[Any]) -> list[Any]:
        """All results, those of float0 too, as our values."""
        outs = [np.zeros(a.shape, float0) for a in self.avals]
        for i, x in zip(self.kept, results, strict=True):
            outs[i] = as_ours(x)
        return outs


def ask_jax(case: Case) -> Oracle:
    """JAX's results for a case in all columns."""
    import jax
    from jax.extend.core import jaxpr_as_fun

    with jax.enable_x64(case.x64):
        f = jaxpr_as_fun(case.closed)
        rng = np.random.default_rng(zlib.crc32(case.harness.encode()))
        args, avals, outs = case.args, case.closed.in_avals, case.closed.out_avals
        tangents, cotangents = [_tangent(a, rng) for a in avals], [_tangent(a, rng) for a in outs]
        batched = [_stack(x, y) for x, y in zip(args, case.more, strict=True)]
        oracle = Oracle(case, tangents, cotangents, batched)
        columns = {
            "eval": (lambda xs: f(*xs), [args]),
            "jvp": (lambda xs, ts: jax.jvp(f, xs, ts), [args, tangents]),
            "vjp": (lambda xs, cts: jax.vjp(f, *xs)[1](cts), [args, cotangents]),
            "vmap": (lambda xs: jax.vmap(f)(*xs), [batched]),
        }
        parts = {}
        for column, (g, values) in columns.items():
            try:
                parts[column] = _Part(g, values)
            except Exception as e:  # whatever JAX raises, it cannot
                oracle.errors[column] = f"{type(e).__name__}: {e}"
        _run(parts, oracle)
        _leave_out_false_derivatives(oracle)
        return oracle


def _leave_out_false_derivatives(oracle: Oracle) -> None:
    """JAX's jvp of some primitives has other values than its evaluation; then it is no judge."""
    why = _FALSE_DERIVATIVES.get(group_of(oracle.case.harness))
    if why is None or not {"eval", "jvp"} <= oracle.results.keys():
        return
    values = oracle.results["eval"]
    try:
        compare(oracle.results["jvp"][: len(values)], values, rounding(oracle.case)[False])
    except AssertionError:
        oracle.errors.update({"jvp": why, "vjp": why})


def rounding(case: Case) -> dict[bool, Rounding]:
    """The comparison for a case's values (False) and derivatives (True)."""
    dtypes = [a.dtype for a in case.closed.in_avals]
    return {d: Rounding(group_of(case.harness), dtypes, d) for d in (False, True)}


def _run(parts: dict[str, _Part], oracle: Oracle) -> None:
    """Run columns together, or one by one if XLA cannot do one of them."""
    import jax

    def together(all_values: Any) -> Any:
        return {c: p(values) for (c, p), values in zip(parts.items(), all_values, strict=True)}

    values = [p.values for p in parts.values()]
    try:
        results = jax.jit(together).lower(values).compile(_OPTIONS)(values)
        found = {c: parts[c].complete(outs) for c, outs in results.items()}
    except Exception as e:  # whatever JAX raises, it cannot
        if len(parts) > 1:
            for column, part in parts.items():
                _run({column: part}, oracle)
            return
        oracle.errors.update({c: f"{type(e).__name__}: {e}" for c in parts})
        return
    oracle.results.update(found)


def _stack(x: Any, y: Any) -> Any:
    import jax

    return np.stack([x, y]) if isinstance(x, np.ndarray) else jax.numpy.stack([x, y])


def _tangent(aval: Any, rng: np.random.Generator) -> np.ndarray:
    """A random tangent for a value of JAX's type `aval`; float0 zeros where it is not inexact."""
    dtype = dtype_of(aval.dtype)
    if dtype is None or not dtype.is_inexact:
        return np.zeros(aval.shape, float0)
    t = rng.normal(size=aval.shape)
    if dtype.kind == "c":
        t = t + 1j * rng.normal(size=aval.shape)
    return np.asarray(t).astype(aval.dtype)
