"""The programs of examples/zoo: what is kept in the folder, and what JAX says about their functions."""

from __future__ import annotations

import ast
import functools
import re
import runpy
import shlex
from pathlib import Path

import jax
import numpy as np
from jax import numpy as jnp

import jaxprtool as jt

FOLDER = Path(__file__).parent.parent.parent / "examples" / "zoo"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py"))
ONLY_FORWARD = ("beam_search", "lbfgs")  # while loops: JAX has no reverse mode of them either


class Program:
    """A program of the zoo: its files, its function of flat arguments, and JAX's answers.

    Attributes:
      path: of the jaxpr.
      command: the words after `jaxprtool` that trace it, as the docstring has them.
      only_forward: whether reverse mode is refused.
      f: the function, of leaves to a list of leaves.
      args: its arguments, arrays of JAX.
      inexact: the positions of those that have tangents.
      tangents: one for each of these.
    """

    def __init__(self, name: str):
        self.name, self.path = name, FOLDER / f"{name}.jaxpr"
        doc = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or ""
        (command,) = re.findall(r"^jaxprtool (.*)\Z", doc, re.MULTILINE | re.DOTALL)
        self.only_forward = name in ONLY_FORWARD
        self.command = shlex.split(command.replace("\\\n", " "))
        module = runpy.run_path(str(FOLDER / f"{name}.py"))
        function = module[self.command[1].partition(":")[2]]
        leaves, tree = jax.tree.flatten(module["example"]())
        self.f = lambda *xs: jax.tree.leaves(function(*jax.tree.unflatten(tree, xs)))
        self.args = [jnp.asarray(x) for x in leaves]
        self.inexact = [i for i, x in enumerate(self.args) if is_float(x)]
        self.tangents = [_draw(x, i) for i, x in enumerate(self.inexact_of(self.args))]

    @functools.cached_property
    def ours(self):
        """The program that is kept."""
        return jt.parse(self.path.read_text())

    def inexact_of(self, args):
        """Those of some arguments that have tangents."""
        return [args[i] for i in self.inexact]

    def on(self, args):
        """All results as a function of the inexact arguments; the others are those of `args`."""

        def of_inexact(*xs):
            full = list(args)
            for i, x in zip(self.inexact, xs, strict=True):
                full[i] = x
            return self.f(*full)

        return of_inexact

    def jvp(self, args, tangents):
        """(results, tangents of the inexact ones)."""
        outs, out_tangents = jax.jvp(self.on(args), self.inexact_of(args), tangents)
        return outs, [t for t in out_tangents if is_float(t)]

    def vjp(self, args, cotangents):
        """(results, cotangents of the inexact arguments)."""
        outs, pullback = jax.vjp(self.on(args), *self.inexact_of(args))
        given = iter(cotangents)
        cts = [next(given) if is_float(y) else np.zeros(y.shape, jax.dtypes.float0) for y in outs]
        return outs, list(pullback(cts))

    @functools.cached_property
    def cotangents(self):
        """One for each inexact result."""
        shapes = jax.eval_shape(self.f, *self.args)
        return [_draw(y, 100 + i) for i, y in enumerate(filter(is_float, shapes))]

    @functools.cached_property
    def batch(self):
        """Two examples, the second near the first."""
        return [jnp.stack([x, _near(x)]) for x in self.args]

    @functools.cached_property
    def batch_outs(self):
        """The results of both examples, one by one."""
        rows = [self._answers([x[i] for x in self.batch])[0] for i in range(2)]
        return [np.stack(outs) for outs in zip(*rows, strict=True)]

    @functools.cached_property
    def outs(self):
        """The results."""
        return self._answers(self.args)[0]

    @functools.cached_property
    def tangents_out(self):
        """The derivative along the tangents."""
        return self._answers(self.args)[1]

    @functools.cached_property
    def cotangents_in(self):
        """The pullback of the cotangents."""
        return self._answers(self.args)[2]

    @functools.cached_property
    def _answers(self):
        """(results, tangents, cotangents) of arguments, in one program: compiling is what takes time."""

        @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
        def answers(args):
            outs, tangents = self.jvp(args, self.tangents)
            return outs, tangents, None if self.only_forward else self.vjp(args, self.cotangents)[1]

        return answers


def is_float(x):
    """Whether values like x have tangents."""
    return jnp.issubdtype(x.dtype, jnp.floating)


def is_key(x):
    """Whether x is an array of PRNG keys."""
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _draw(x, seed):
    return np.random.default_rng(seed).normal(size=x.shape).astype(np.float32)


def _near(x):
    if is_key(x):
        return jax.random.fold_in(x, 1)
    return x * jnp.float32(1.1) if is_float(x) else x


def save(path, values):
    """An .npz file of values, keys as their words."""
    words = [jax.random.key_data(x) if is_key(x) else x for x in values]
    np.savez(path, *map(np.asarray, words))
    return path


def close(got, want, tolerance=2e-4):
    """Equal arrays of equal types; the tolerance is relative to the largest entry, at least 1e-4."""
    assert len(got) == len(want)
    for a, b in zip(got, map(np.asarray, want), strict=True):
        atol = tolerance * float(np.max(np.abs(b.astype(np.float64)), initial=1e-4))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=atol, strict=True)
