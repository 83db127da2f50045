"""The programs of `examples/` with arguments for them, and what JAX gives for each."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxprtool as jt
from jaxprtool.ir.walk import all_eqns, count_eqns
from tests.releases import MADE_OF

__all__ = [
    "EXAMPLES",
    "GRADIENTS",
    "PROGRAMS",
    "Case",
    "case_of",
    "close",
    "draw",
    "load",
    "quick_jit",
]

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def quick_jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """jax.jit of an oracle: each is run once, so compiling is what takes time."""
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(f, compiler_options=options)


def load(name: str) -> dict[str, Any]:
    """The names that examples/NAME.py defines."""
    return _load(name).copy()


@functools.cache
def _load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def draw(seed: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Normal numbers of standard deviation 1/2."""
    return np.asarray(np.random.default_rng(seed).normal(size=shape) / 2).astype(dtype)


def wide(*values: Any) -> list[np.ndarray]:
    """Values as f64."""
    return [np.asarray(v, np.float64) for v in values]


def mlp():
    params = {"w1": draw(0, 4, 8), "b1": draw(1, 8), "w2": draw(2, 8, 10), "b2": draw(3, 10)}
    return load("mlp")["loss"], (params, draw(4, 5, 4), np.array([0, 2, 9, 1, 0], np.int32))


def attention():
    norm = {"scale": draw(0, 8), "bias": draw(1, 8)}
    params = {"norm": norm, "qkv": draw(2, 8, 24), "out": draw(3, 8, 8)}
    return load("attention")["loss"], (params, draw(4, 6, 8))


def gru():
    module = load("gru")
    return module["loss"], (module["init"](0, 3, 4, 3), *module["echo"](1, 6, 2, 3))


def kalman():
    dynamics, observation, log_q, log_r, ys = wide(
        [[0.9, 0.2], [-0.1, 0.8]], [[1.0, 0.5]], [-1.0, -0.5], [-2.0], draw(0, 8, 1)
    )
    params = {"dynamics": dynamics, "observation": observation, "log_q": log_q, "log_r": log_r}
    return load("kalman")["log_likelihood"], (params, ys)


def ode():
    return load("ode")["van_der_pol"], tuple(wide([2.0, 0.1], 1.5))


def newton():
    return load("newton")["kepler"], tuple(wide(0.3, 1.2))


def root():
    return load("newton")["kepler_root"], tuple(wide(0.3, 1.2))


def ridge():
    return load("newton")["ridge"], tuple(wide(draw(0, 6, 3), draw(1, 6), -0.5))


def beam_search():
    params = {"embedding": draw(0, 7, 4), "recurrent": draw(1, 4, 4), "output": draw(2, 4, 7)}
    return load("beam_search")["search"], (params,)


def kmeans():
    return load("kmeans")["kmeans"], (draw(0, 12, 2),)


def deep_scan():
    params = {"in": draw(0, 5, 4, 6), "out": draw(1, 5, 6, 4)}
    return load("deep_scan")["loss"], (params, draw(2, 3, 4))


def remat():
    return load("deep_scan")["remat_loss"], deep_scan()[1]


class Program(NamedTuple):
    """How to make a program, and what it can do.

    Attributes:
      make: gives the function and its arguments.
      reverse: whether it has a reverse mode: a loop of unknown length has none.
    """

    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    reverse: bool = True


PROGRAMS = {
    p.make.__name__: p
    for p in [
        *map(Program, (mlp, attention, gru, kalman, root, ridge, beam_search, kmeans)),
        *map(Program, (deep_scan, remat)),
        Program(ode, reverse=False),
        Program(newton, reverse=False),
    ]
}


def is_float(x: Any) -> bool:
    """Whether a value, maybe one that JAX traces, has tangents."""
    return np.dtype(x.dtype).kind == "f"


def _tangent(x: Any, seed: int) -> np.ndarray:
    return draw(seed, *x.shape, dtype=x.dtype if is_float(x) else jax.dtypes.float0)


def mlp_gradient():
    loss, args = mlp()
    return jax.grad(loss), args


def attention_gradient():
    loss, args = attention()
    return jax.grad(loss), args


GRADIENTS = {f.__name__: Program(f) for f in (mlp_gradient, attention_gradient)}


class Case:
    """A function of flat arguments and results, our program of it, and what JAX computes.

    Attributes:
      f: the function of JAX, from leaves to a list of leaves.
      args: its arguments; `inexact` are the positions of those with tangents, `tangents` values for all.
      jaxpr, program: JAX's jaxpr of f, and ours.
      batch: three rows of every argument.
      scalar: whether the only result is a real scalar, so that there is a gradient.
    """

    def __init__(self, make: Callable[[], Any], reverse: bool = True):
        f, args = make()
        self.args, tree = jax.tree.flatten(args)
        self.f = lambda *leaves: jax.tree.leaves(f(*jax.tree.unflatten(tree, leaves)))
        self.reverse = reverse
        self.x64 = any(x.dtype == np.float64 for x in self.args)
        self.tolerance = 1e-8 if self.x64 else 3e-5
        self.inexact = [i for i, x in enumerate(self.args) if is_float(x)]
        self.tangents = [_tangent(x, 50 + i) for i, x in enumerate(self.args)]
        self.batch = [
            np.stack([x, x * 3 // 4 if x.dtype.kind == "i" else x * 3 / 4, x]).astype(x.dtype)
            for x in self.args
        ]
        with self.precision():
            self.jaxpr = jax.make_jaxpr(self.f)(*self.args)
        self.program = jt.from_jax(self.jaxpr)
        self.run = jt.jaxpr_as_fun(self.program)
        outs = self.program.out_avals
        self.scalar = len(outs) == 1 and outs[0].shape == () and outs[0].dtype.kind == "f"

    def precision(self) -> Any:
        """The setting of 64-bit types that this program needs in JAX."""
        return jax.enable_x64(self.x64)

    def jax(self, f: Callable[..., Any], *args: Any) -> list[np.ndarray]:
        """The leaves of what JAX computes for f(*args), compiled."""
        with self.precision():
            return [np.asarray(x) for x in jax.tree.leaves(quick_jit(f)(*args))]

    def jax_size(self, f: Callable[..., Any], *args: Any) -> int:
        """Equations of JAX's jaxpr of f as 0.10 would have them, nested ones included."""
        with self.precision():
            jaxpr = jt.from_jax(jax.make_jaxpr(f)(*args)).jaxpr
        more = [MADE_OF.get(e.primitive.name, 1) - 1 for e in all_eqns(jaxpr)]
        return count_eqns(jaxpr) + sum(more)

    # -- the transformations as JAX has them: functions of the arguments that have tangents --

    def floats(self, xs: Any) -> list[Any]:
        """Those of the values, one for each argument, that belong to inexact ones."""
        return [xs[i] for i in self.inexact]

    def with_floats(self, given: Any) -> list[Any]:
        """All arguments, the inexact ones replaced."""
        full = list(self.args)
        for i, x in zip(self.inexact, given, strict=True):
            full[i] = x
        return full

    def of_floats(self, *given: Any) -> list[Any]:
        """f of its inexact arguments."""
        return self.f(*self.with_floats(given))

    def pushforward(self, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        """Results, and tangents of the inexact ones."""
        outs, ts = jax.jvp(self.of_floats, tuple(primals), tuple(tangents))
        return outs, self.only_floats(ts)

    def only_floats(self, tangents: Any) -> list[Any]:
        """Tangents without those of integers."""
        return [t for t in tangents if is_float(t)]

    def pullback(self, primals: Any, cotangents: Any) -> list[Any]:
        """Cotangents of the inexact arguments, from those of the inexact results."""
        outs, pull = jax.vjp(self.of_floats, *primals)
        cts = iter(cotangents)
        return pull([next(cts) if is_float(o) else _tangent(o, 0) for o in outs])

    @functools.cached_property
    def want(self) -> list[np.ndarray]:
        """The results."""
        return self.jax(self.f, *self.args)

    @functools.cached_property
    def cotangents(self) -> list[np.ndarray]:
        """Cotangents for the inexact results."""
        return [_tangent(x, 90 + i) for i, x in enumerate(self.want) if is_float(x)]

    @functools.cached_property
    def want_tangents(self) -> list[np.ndarray]:
        """Tangents of the inexact results."""
        given = self.floats(self.args), self.floats(self.tangents)
        return self.jax(lambda xs, ts: self.pushforward(xs, ts)[1], *given)

    @functools.cached_property
    def want_cotangents(self) -> list[np.ndarray]:
        """Cotangents of the inexact arguments."""
        return self.jax(self.pullback, self.floats(self.args), self.cotangents)

    @functools.cached_property
    def want_batch(self) -> list[np.ndarray]:
        """The results for `batch`."""
        return self.jax(jax.vmap(self.f), *self.batch)

    def close(self, got: Any, want: Any, scale: float = 1.0) -> None:
        """Assert that two lists of arrays agree, types included."""
        for g, w in zip(got, want, strict=True):
            close(g, w, scale * self.tolerance)


def close(got: Any, want: Any, tolerance: float = 3e-5) -> None:
    """Assert that two arrays have one type and are equal up to rounding."""
    got, want = np.asarray(got), np.asarray(want)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, strict=True)


@functools.cache
def case_of(name: str) -> Case:
    """The case of a program, made once."""
    return Case(*(PROGRAMS | GRADIENTS)[name])
