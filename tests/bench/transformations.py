"""Text to jaxpr, jaxpr to jaxpr, evaluation and lowering, on the gradient of a deep MLP, an equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr

from .measure import Row, best


def mlp_gradient(layers: int) -> tuple[Any, list[Any]]:
    """JAX's jaxpr of the gradient of an MLP's loss, and arguments for it."""
    import jax
    import jax.numpy as jnp

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return jnp.mean((x - y) ** 2)

    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32) / 4
    params = [(draw(8, 8), draw(8)) for _ in range(layers)]
    x, y = draw(4, 8), draw(4, 8)
    return jax.make_jaxpr(jax.grad(loss))(params, x, y), jax.tree.leaves((params, x, y))


_PARSED: dict[str, ClosedJaxpr] = {}


def fresh(text: str) -> ClosedJaxpr:
    """The program, read once, with whatever was derived from it forgotten."""
    if text not in _PARSED:
        _PARSED[text] = jt.parse(text)
    return ClosedJaxpr(_PARSED[text].jaxpr, _PARSED[text].consts)


def text_rows(closed: Any, text: str, n: int, runs: int) -> list[Row]:
    """Reading, printing and checking."""
    from jax._src import core

    program = fresh(text)
    scale = 1e6 / n
    print_ours, print_theirs = best(runs, lambda: jt.format_jaxpr(program), lambda: str(closed))
    (parse,) = best(runs, lambda: jt.parse(text))
    check_ours, check_theirs = best(
        runs, lambda: jt.typecheck_jaxpr(program.jaxpr), lambda: core.check_jaxpr(closed.jaxpr)
    )
    return [
        Row("parse + build (to JAX's print)", parse * scale, print_theirs * scale, 1.0),
        Row("print", print_ours * scale, print_theirs * scale, 0.5),
        Row("check", check_ours * scale, check_theirs * scale, 0.25),
    ]


def eval_rows(closed: Any, text: str, args: list[Any], n: int, runs: int) -> list[Row]:
    """Evaluation on NumPy, against `jax.core.eval_jaxpr`."""
    import jax
    from jax._src import core

    numpy_namespace()
    first_program = jt.parse(text)
    (first,) = best(1, lambda: jt.eval_jaxpr(first_program.jaxpr, args))
    theirs = lambda: jax.block_until_ready(core.eval_jaxpr(closed.jaxpr, closed.consts, *args))
    (first_theirs,) = best(1, theirs)
    ours, steady = best(runs, lambda: jt.eval_jaxpr(first_program.jaxpr, args), theirs)
    scale = 1e6 / n
    return [
        Row("eval, first time", first * scale, first_theirs * scale, None),
        Row("eval, steady", ours * scale, steady * scale, 0.25),
    ]


def transform_rows(closed: Any, text: str, args: list[Any], n: int, runs: int) -> list[Row]:
    """Transformations of jaxprs, against JAX tracing the same transformation of the same jaxpr."""
    import jax
    from jax._src import core

    f = core.jaxpr_as_fun(closed)
    total = lambda *a: sum(x.sum() for x in f(*a)[:1])
    batched = [np.stack([a, a]) for a in args]
    summed = jax.make_jaxpr(total)(*args)
    summed_text = str(summed)
    dims = [0] * len(args)

    def make(g: Any, values: Any) -> Callable[[], Any]:
        return lambda: jax.make_jaxpr(lambda *a: g(*a))(
            *values
        )  # a new function: nothing is cached

    pairs = [
        (
            "jvp",
            0.5,
            lambda: jt.jvp_jaxpr(fresh(text)),
            make(lambda *a: jax.jvp(f, a, a), args),
        ),
        (
            "vmap",
            0.5,
            lambda: jt.vmap_jaxpr(fresh(text), 2, dims),
            make(jax.vmap(f), batched),
        ),
        (
            "linearize",
            0.1,
            lambda: linearize_jaxpr(fresh(text)),
            make(lambda *a: jax.linearize(f, *a)[0], args),
        ),
        (
            "vjp",
            0.1,
            lambda: vjp_jaxpr(fresh(text)),
            make(lambda *a: jax.vjp(f, *a)[1](list(f(*a))), args),
        ),
        (
            "grad",
            0.1,
            lambda: grad_jaxpr(fresh(summed_text), range(len(args))),
            make(jax.grad(total, argnums=tuple(range(len(args)))), args),
        ),
    ]
    rows = []
    for what, budget, ours, theirs in pairs:
        a, b = best(runs, ours, theirs)
        rows.append(Row(what, a * 1e6 / n, b * 1e6 / n, budget))
    return rows


def xla_rows(closed: Any, text: str, args: list[Any], n: int, runs: int) -> list[Row]:
    """Lowering, compiling and running with XLA, against `jax.jit` of the same function."""
    import jax
    from jax._src import core

    f = core.jaxpr_as_fun(closed)
    traced = lambda: jax.jit(lambda *a: f(*a)).trace(*args)
    stages = [traced() for _ in range(runs)]
    programs = [fresh(text) for _ in range(runs)]
    ours, theirs = best(
        runs, lambda: str(jt.lower(programs.pop())), lambda: stages.pop().lower().as_text()
    )
    rows = [Row("lower", ours * 1e6 / n, theirs * 1e6 / n, 0.5)]
    small, small_args = mlp_gradient(8)
    small_text, small_n = str(small), len(small.eqns)
    g = core.jaxpr_as_fun(small)
    compile_ours, compile_theirs = best(
        1,
        lambda: jt.compile(fresh(small_text)),
        lambda: jax.jit(lambda *a: g(*a)).lower(*small_args).compile(),
    )
    rows.append(Row("compile", compile_ours * 1e6 / small_n, compile_theirs * 1e6 / small_n, None))
    compiled = jt.compile(fresh(small_text))
    jitted = jax.jit(lambda *a: g(*a))
    ready = [jax.device_put(a) for a in small_args]
    jax.block_until_ready(jitted(*ready))
    placed = compiled.place(small_args) if hasattr(compiled, "place") else small_args

    def loop(call: Callable[..., Any], values: Any) -> Callable[[], Any]:
        def run() -> None:
            for _ in range(50):
                out = call(*values)
            for x in out:
                np.asarray(x)

        return run

    a, b = best(max(runs, 5), loop(compiled, placed), loop(jitted, ready))
    rows.append(Row("compiled program, a call", a * 2e4, b * 2e4, 1.0, "us"))
    return rows
