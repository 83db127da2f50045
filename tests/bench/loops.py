"""Loops: a long scan of a small body, evaluated and compiled, and transformations of nested loops.

Evaluation is measured against JAX op by op: `eval_jaxpr` of the body in a Python loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.ir.walk import count_eqns

from .measure import On, Row, alone, best

STEPS, EAGER_STEPS = 10_000, 300
COPIES = 5


def loop_rows(runs: int) -> list[Row]:
    """All rows about loops."""
    return [*_scan_rows(runs), *_nested_rows(max(runs, 40))]


def _scan_rows(runs: int) -> list[Row]:
    import jax
    import jax.numpy as jnp
    from jax._src import core

    def step(c: Any, x: Any) -> Any:
        c = jnp.tanh(c * 0.9 + x)
        return c, c.sum()

    args = [np.zeros(4, np.float32), np.random.default_rng(0).normal(size=(STEPS, 4)).astype("f")]
    closed = jax.make_jaxpr(lambda c, xs: jax.lax.scan(step, c, xs))(*args)
    body = closed.jaxpr.eqns[0].params["jaxpr"]
    program = jt.from_jax(closed)

    def op_by_op() -> None:
        c = jnp.asarray(args[0])
        for x in args[1][:EAGER_STEPS]:
            c, _ = core.eval_jaxpr(body.jaxpr, body.consts, c, x)
        jax.block_until_ready(c)

    op_by_op()
    ours, theirs = best(runs, lambda: jt.eval_jaxpr(program, args), op_by_op)
    row = Row("scan on NumPy", ours * 1e6 / STEPS, theirs * 1e6 / EAGER_STEPS, 0.2, "us/step")
    blamed, plain = best(runs, lambda: jt.blame(program, *args), lambda: jt.run(program, *args))
    blame = Row("blame of it, of run", blamed * 1e6 / STEPS, plain * 1e6 / STEPS, 3.0, "us/step")
    rows = [row, blame, *_origin_rows(closed, args, runs), *_moved_rows(runs), *_body_rows(runs)]
    return [*rows, *_call_rows(closed, args, 100 * runs)]


def _origin_rows(closed: Any, args: list[Any], runs: int) -> list[Row]:
    """`blame` of the scan where bad elements of its carry come from one equation each."""
    import jax
    import jax.numpy as jnp
    from jax._src import core

    makers = [jnp.log, jnp.sqrt, jnp.arccosh]
    rows: list[Row] = []
    for n in (1, 2, 3):

        def begins(c: Any, xs: Any, n: int = n) -> Any:
            for i, make in enumerate(makers[:n]):
                c = c.at[i].set(make(c[i] - 2))
            return core.jaxpr_as_fun(closed)(c, xs)

        program = jt.from_jax(jax.make_jaxpr(begins)(*args))
        times = best(runs, lambda p=program: jt.blame(p, *args), lambda p=program: jt.run(p, *args))
        blamed, plain = (t * 1e6 / STEPS for t in times)
        name = f"blame of {n} origin{'s' * (n > 1)} in it, of run"
        rows.append(Row(name, blamed, plain, 3.0, "us/step"))
    return rows


def _moved_rows(runs: int) -> list[Row]:
    """`blame` of a scan where elements are bad from several equations, and are picked or moved in another way in each step."""
    import jax
    import jax.numpy as jnp

    steps = {
        "masks": lambda c, x: jnp.where(x > 0, c, jnp.sin(c)),
        "turns": lambda c, x: jnp.roll(c, 1),
        "orders": lambda c, x: c[jnp.argsort(x)],
        "rotations": lambda c, x: jnp.concatenate([c[1:], c[:1]]) * x,
        "reversals": lambda c, x: jnp.flip(c) + x,
        "running sums": lambda c, x: jnp.cumsum(c) * 0.5 + x,
        "masks of 64x64": lambda c, x: jnp.where(x > 0, c, jnp.sin(c)),
    }
    rng = np.random.default_rng(1)
    rows: list[Row] = []
    for name, step in steps.items():
        n, width = (STEPS // 20, 64 * 64) if "64x64" in name else (STEPS, 8)
        xs = rng.normal(size=(n, width)).astype("f")

        def f(c: Any, xs: Any, step: Any = step) -> Any:
            c = c.at[0].set(jnp.log(c[0] - 2)).at[1].set(jnp.sqrt(c[1] - 2))
            c = c.at[2].set(jnp.arccosh(c[2] - 2))
            return jax.lax.scan(lambda c, x: (step(c, x), c.sum()), c, xs)

        given = [np.zeros(width, np.float32), xs]
        program = jt.from_jax(jax.make_jaxpr(f)(*given))
        times = best(
            runs,
            lambda p=program, a=given: jt.blame(p, *a),
            lambda p=program, a=given: jt.run(p, *a),
        )
        blamed, plain = (t * 1e6 / n for t in times)
        rows.append(Row(f"blame of 3 origins and {name}, of run", blamed, plain, 3.0, "us/step"))
    return rows


def _body_rows(runs: int) -> list[Row]:
    """`blame` of scans without a bad value, whose bodies call functions of `jax.jit`."""
    import jax
    import jax.numpy as jnp

    bodies = {
        "masks": lambda c: jnp.clip(jnp.where(c > 0.5, c * 0.99, c + 0.01), 0, 1),
        "turns": lambda c: jnp.roll(c, 1) * 0.999 + jnp.flip(c),
        "calls of calls": lambda c: jax.nn.gelu(jax.nn.softplus(c)) * 0.5,
        "branches": lambda c: jax.lax.cond(c[0] > 0.5, jnp.flip, lambda c: jnp.roll(c, 1), c),
    }
    rows: list[Row] = []
    for name, body in bodies.items():

        def f(c: Any, body: Any = body) -> Any:
            return jax.lax.scan(lambda c, _: (body(c), c.sum()), c, None, length=STEPS)

        given = np.linspace(0, 0.9, 8).astype("f")
        program = jt.from_jax(jax.make_jaxpr(f)(given))
        blaming, running = partial(jt.blame, program, given), partial(jt.run, program, given)
        blamed, plain = (t * 1e6 / STEPS for t in best(runs, blaming, running))
        rows.append(Row(f"blame of {name} in a scan, of run", blamed, plain, 3.0, "us/step"))
    return rows


def _call_rows(closed: Any, args: list[Any], runs: int) -> list[Row]:
    """A call of the compiled scan, the arguments placed, the result read.

    Where its code lies in memory makes one copy of the same program up to 1 % quicker than another, so there
    are several of each side, called in turn, and the quickest count; the last row is of JAX's slowest.
    """
    import jax
    from jax._src import core

    def call(f: Callable[..., Any], values: Any) -> Callable[[], Any]:
        return lambda: np.asarray(f(*values)[0])

    calls = []
    for _ in range(COPIES):
        compiled, jitted = jt.compile(jt.from_jax(closed)), jax.jit(core.jaxpr_as_fun(closed))
        calls += [call(compiled, compiled.place(args))]
        calls += [call(jitted, [jax.device_put(x) for x in args])]
    for run in calls:
        run()
    times = [1e6 * t for t in best(max(runs, 500), *calls)]
    ours, theirs = times[::2], times[1::2]
    return [
        Row("scan, compiled, a call", min(ours), min(theirs), 1.0, "us"),
        Row("scan, JAX's slowest copy, a call", max(theirs), min(theirs), None, "us"),
    ]


def _nested(x: Any, w: Any) -> Any:
    """A scan of a `fori_loop` of a `cond`, and of a scan."""
    import jax
    import jax.numpy as jnp

    def outer(c: Any, v: Any) -> Any:
        def choose(_: Any, a: Any) -> Any:
            def yes(a: Any) -> Any:
                return jnp.sin(a) * w

            return jax.lax.cond(a.sum() > 0, yes, lambda a: jnp.cos(a) + w, a)

        c = jax.lax.fori_loop(0, 5, choose, c)
        c, ys = jax.lax.scan(lambda k, u: (jnp.tanh(k * u + v), k.sum()), c, x)
        return c * w, ys.sum()

    c, ys = jax.lax.scan(outer, x[0], x)
    return c.sum() + ys.sum()


def _nested_rows(runs: int) -> list[Row]:
    """Transformations of nested loops, each time of jaxprs that nothing was derived from yet."""
    import jax
    from jax._src import core

    args = [np.random.default_rng(0).normal(size=(6, 4)).astype("f"), np.float32(0.5)]

    def trace() -> Any:
        return jax.make_jaxpr(lambda *a: _nested(*a))(*args)

    text = str(trace())
    n = count_eqns(jt.parse(text).jaxpr)
    rows = []
    for what, budget, ours, theirs, values in _transformations(args):

        def in_jax(f: Any, theirs: Any = theirs, values: Any = values) -> None:
            jax.make_jaxpr(theirs(f))(*values)

        in_ours = On(lambda: jt.parse(text), ours)
        a, b = alone(runs, in_ours, On(lambda: core.jaxpr_as_fun(trace()), in_jax))
        rows.append(Row(f"nested loops: {what}", a * 1e6 / n, b * 1e6 / n, budget))
    a, b = alone(
        runs,
        On(lambda: jt.parse(text), lambda p: str(jt.lower(p))),
        On(
            lambda: jax.jit(core.jaxpr_as_fun(trace())).trace(*args),
            lambda stage: stage.lower().as_text(),
        ),
    )
    return [*rows, Row("nested loops: lower", a * 1e6 / n, b * 1e6 / n, 0.5)]


def _transformations(args: list[Any]) -> list[tuple[str, float, Any, Any, list[Any]]]:
    """Name, budget, ours on a program, JAX's on its function, and the arguments."""
    import jax
    import jax.numpy as jnp

    def total(f: Any) -> Any:
        return lambda *a: f(*a)[0]

    pairs, one = [np.stack([a, a]) for a in args], [jnp.float32(1)]
    return [
        ("jvp", 0.5, jt.jvp_jaxpr, lambda f: lambda *a: jax.jvp(f, a, a), args),
        ("vmap", 0.5, lambda p: jt.vmap_jaxpr(p, 2, [0, 0]), jax.vmap, pairs),
        ("linearize", 0.1, linearize_jaxpr, lambda f: lambda *a: jax.linearize(f, *a)[0], args),
        ("vjp", 0.1, vjp_jaxpr, lambda f: lambda *a: jax.vjp(f, *a)[1](one), args),
        ("grad", 0.1, lambda p: grad_jaxpr(p, (0, 1)), lambda f: jax.grad(total(f), (0, 1)), args),
    ]
