"""Programs of other shapes than the MLP's gradient: calls, unrolled layers, slices, nested jits, loops in loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .measure import Row
from .transformations import Subject, eval_rows, lower_rows, text_rows, transform_rows

BUDGETS = {
    "parse": 0.6,
    "print": 0.3,
    "parse, with origins": 0.66,  # they cost a tenth at most
    "print, with origins": 0.33,
    "check": 0.15,
    "eval": 0.12,
    "jvp": 0.25,
    "vmap": 0.2,
    "linearize": 0.08,
    "vjp": 0.08,
    "grad": 0.08,
    "lower": 0.15,
}

_rng = np.random.default_rng(0)


def _draw(*shape: int) -> np.ndarray:
    return _rng.normal(size=shape).astype(np.float32) / 4


def recurrent(steps: int = 60) -> tuple[Callable[..., Any], list[Any]]:
    """An unrolled GRU, whose gates are calls of jitted functions, as libraries of layers have them."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def gate(w: Any, u: Any, b: Any, x: Any, h: Any) -> Any:
        return jax.nn.sigmoid(x @ w + h @ u + b)

    @jax.jit
    def cell(params: Any, h: Any, x: Any) -> Any:
        update, reset, new = params
        z, r = gate(*update, x, h), gate(*reset, x, h)
        w, u, b = new
        return (1 - z) * h + z * jax.nn.tanh(x @ w + (r * h) @ u + b)

    def loss(params: Any, xs: Any) -> Any:
        h = jnp.zeros((2, 4))
        for t in range(steps):
            h = cell(params, h, jax.nn.relu(xs[t]))
        return (h**2).mean()

    params = [(_draw(3, 4), _draw(4, 4), _draw(4)) for _ in range(3)]
    return loss, [params, _draw(steps, 2, 3)]


def transformer(layers: int = 12) -> tuple[Callable[..., Any], list[Any]]:
    """An unrolled transformer of attention, layer norms and GELU."""
    import jax
    import jax.numpy as jnp

    def norm(x: Any, scale: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return scale * centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6)

    def attend(x: Any, w: Any) -> Any:
        q, k, v = jnp.split(x @ w, 3, axis=-1)
        heads = lambda y: y.reshape(y.shape[0], 2, -1).swapaxes(0, 1)
        scores = jnp.einsum("hqd,hkd->hqk", heads(q), heads(k)) / 2
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        out = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ heads(v)
        return out.swapaxes(0, 1).reshape(x.shape)

    def loss(params: Any, x: Any) -> Any:
        for w, up, down, s1, s2 in params:
            x = x + attend(norm(x, s1), w)
            x = x + jax.nn.gelu(norm(x, s2) @ up) @ down
        return jax.nn.logsumexp(x, axis=-1).mean()

    sizes = [(8, 24), (8, 16), (16, 8), (8,), (8,)]
    return loss, [[tuple(_draw(*s) for s in sizes) for _ in range(layers)], _draw(6, 8)]


def stencil(steps: int = 150) -> tuple[Callable[..., Any], list[Any]]:
    """Steps of a finite-difference scheme in slices, pads and updates."""
    import jax.numpy as jnp

    def loss(u: Any, c: Any) -> Any:
        for _ in range(steps):
            inner = u[1:-1, 1:-1]
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            u = u.at[1:-1, 1:-1].set(inner + c * (around - 4 * inner))
        return jnp.sum(u**2)

    return loss, [_draw(8, 8), np.float32(0.1)]


def nested_jits(depth: int = 60) -> tuple[Callable[..., Any], list[Any]]:
    """Jitted functions that each call the one before and one of their own."""
    import jax
    import jax.numpy as jnp

    f = lambda x: x
    for i in range(depth):

        def g(x: Any, f: Any = f, c: float = 1 + i / depth) -> Any:
            y = jax.jit(lambda x: jnp.sin(x) * c)(x)
            return f(y) + jnp.cos(x * y)

        f = jax.jit(g)
    return lambda x: f(x).sum(), [_draw(4)]


def loops(depth: int = 4) -> tuple[Callable[..., Any], list[Any]]:
    """Scans in scans, with branches and a counted loop inside."""
    import jax
    import jax.numpy as jnp

    def step(level: int) -> Callable[[Any, Any], Any]:
        def body(c: Any, x: Any) -> Any:
            if level:
                c, ys = jax.lax.scan(step(level - 1), c * 0.9, jnp.stack([x, x + 1]))
                c = jax.lax.cond(c[0] > 0, lambda c: jnp.tanh(c), lambda c: c * 0.5, c)
                return c, ys.sum(0)
            c = jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + x, c)
            return c, jnp.tanh(c * x)

        return body

    def loss(c: Any, xs: Any) -> Any:
        total = 0.0
        for _ in range(4):
            c, ys = jax.lax.scan(step(depth), c, xs)
            total = total + ys.sum()
        return total

    return loss, [_draw(3), _draw(2, 3)]


SHAPES = {
    "recurrent": recurrent,
    "transformer": transformer,
    "stencil": stencil,
    "nested jits": nested_jits,
    "loops": loops,
}


def shape_rows(runs: int) -> Iterator[Row]:
    """Every row of every shape: of the function, and reading and evaluating of its gradient."""
    import jax

    for name, make in SHAPES.items():
        _, args = make()
        leaves = jax.tree.leaves(args)
        forward = lambda make=make, args=args: jax.make_jaxpr(make()[0])(*args)
        gradient = lambda make=make, args=args: jax.make_jaxpr(jax.grad(make()[0]))(*args)
        subject = Subject.of(forward, leaves, f"{name}: ", BUDGETS)
        backward = Subject.of(gradient, leaves, f"{name}, gradient: ", BUDGETS)
        yield from text_rows(backward, runs)
        if (
            name == "loops"
        ):  # `eval_jaxpr` compiles them; the function is taken operation by operation
            flat, tree = make()[0], jax.tree.structure(args)
            function = lambda *xs, f=flat, tree=tree: f(*jax.tree.unflatten(tree, xs))
            yield from eval_rows(dataclasses.replace(subject, function=function), runs)
        else:
            yield from eval_rows(backward, runs)
        yield from transform_rows(subject, runs)
        yield from lower_rows(backward, runs)
