"""The verbs that look for faults against the run on NumPy that they observe (in the column of JAX)."""

from __future__ import annotations

from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.driver.blame import blame
from jaxprtool.driver.compare import compare
from jaxprtool.driver.precision import precision
from jaxprtool.driver.run import run
from jaxprtool.driver.running.record import Recording, recorded

from .measure import Row, best
from .shapes import SHAPES

LAYERS, STEPS = 1_250, 10_000  # a layer has four equations
SIZES = 1_000, 100_000  # elements of arrays


def compared_rows(runs: int) -> list[Row]:
    """Rows about a flat program of 5,000 equations, about a scan of 10,000 steps, and about other shapes."""
    rows = [row for name, f in (("flat", _flat), ("scan", _scan)) for row in _rows(name, f, runs)]
    rows += _shape_rows("scans in scans", runs, _scans)
    for n in SIZES:
        rows += [_array_row(f"{what} of {n:,}", f, n, runs) for what, f in ARRAYS.items()]
    return [*rows, *(row for name in SHAPES for row in _shape_rows(name, runs))]


def _array_row(what: str, f: Any, n: int, runs: int) -> Row:
    """`precision` of a program of arrays of n elements; each takes more passes in double precision than the operation."""
    x = np.linspace(0, 1, n).astype(np.float32)
    program = jt.parse(jt.format_jaxpr(jt.trace(f, x, x), lossless=True), what)
    measured, plain = best(
        runs, lambda: precision(program, [x, x], tries=0), lambda: run(program, [x, x])
    )
    return Row(f"precision, {what}", measured * 1e3, plain * 1e3, None, "ms")


def _shape_rows(name: str, runs: int, make: Any = None) -> list[Row]:
    """`blame`, also of NaN in all arguments, and `precision` of a program of another shape; no budget is for these."""
    import jax

    f, args = (make or SHAPES[name])()
    program = jt.parse(jt.format_jaxpr(jt.trace(f, *args), lossless=True), name)
    given = [np.asarray(x) for x in jax.tree.leaves(args)]
    bad = [x * np.float32(np.nan) for x in given]
    plain, blaming, everywhere, measured = best(
        runs,
        lambda: run(program, given),
        lambda: blame(program, given),
        lambda: blame(program, bad),
        lambda: precision(program, given, tries=0),
    )
    labels = ("blame", blaming), ("blame of NaN everywhere", everywhere), ("precision", measured)
    return [Row(f"{x}, {name}", ours * 1e3, plain * 1e3, None, "ms") for x, ours in labels]


def _rows(name: str, f: Any, runs: int) -> list[Row]:
    x = np.linspace(0, 1, 8).astype(np.float32)
    text = jt.format_jaxpr(jt.trace(f, x, x))
    a, b = jt.parse(text, "a"), jt.parse(text, "b")
    variable = next(v.name for v in a.eqns[-1].out_binders if v.name)

    def plain() -> None:
        run(a, [x, x])

    def first() -> None:
        assert compare(a, b, [x, x], first=True).equal

    def printing() -> None:
        lines: list[str] = []
        what = Recording(variables=(variable,))
        with recorded(what, a, lines.append, lines.append, lines.append) as observer:
            run(a, [x, x], observer=observer)
        assert lines

    def blaming(args: list[Any], found: bool) -> None:
        assert blame(a, args).found == found

    rows: list[Row] = []
    for label, measured, budget in (
        (f"compare --first, {name}", first, 10.0 if name == "flat" else None),
        (f"run --print, {name}", printing, 3.0),
        (f"blame, {name}", lambda: blaming([x, x], False), 3.0),
        (
            f"blame of NaN everywhere, {name}",
            lambda: blaming([x * np.float32(np.nan), x], True),
            3.0,
        ),
        (f"precision, {name}", lambda: precision(a, [x, x], tries=0), 3.0),
    ):
        ours, theirs = best(runs, measured, plain)
        rows.append(Row(label, ours * 1e3, theirs * 1e3, budget, "ms"))
    return rows


def _flat(x: Any, w: Any) -> Any:
    import jax.numpy as jnp

    for _ in range(LAYERS):
        x = jnp.tanh(x * w + x) - x
    return x


def _scan(x: Any, w: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def body(c: Any, _: Any) -> Any:
        return jnp.tanh(c * w + c) - c, None

    return jax.lax.scan(body, x, None, length=STEPS)[0]


def _scans() -> Any:
    """Five scans of four steps in each other."""
    import jax
    import jax.numpy as jnp

    def body(depth: int) -> Any:
        def step(c: Any, _: Any) -> Any:
            if not depth:
                return jnp.tanh(c * 0.9 + 0.1), None
            return jax.lax.scan(body(depth - 1), c, None, length=4)[0] * 0.99, None

        return step

    f = lambda x: jax.lax.scan(body(4), x, None, length=4)[0]
    return f, [np.linspace(0, 1, 8).astype(np.float32)]


def _sums(x: Any, w: Any) -> Any:
    for _ in range(40):
        x = (x * w + x) - w
    return x


def _functions(x: Any, w: Any) -> Any:
    import jax.numpy as jnp

    for _ in range(40):
        x = jnp.tanh(x * w + x) - x
    return x


def _moves(x: Any, w: Any) -> Any:
    import jax.numpy as jnp

    for _ in range(20):
        x = jnp.concatenate([x[1:], x[:1]]).reshape(-1, 10).T.reshape(-1)
        x = jnp.where(w > 0.5, x, -x)
    return x


ARRAYS = {"sums": _sums, "functions": _functions, "moves": _moves}
