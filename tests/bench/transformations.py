"""Text to jaxpr, jaxpr to jaxpr, evaluation and lowering, on the gradient of a deep MLP, an equation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.analyses.identity.share import share_equal
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.interpreters.origins import without_origins
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import count_eqns, map_programs, with_eqns

from .measure import On, Row, alone, best


def mlp_gradient(layers: int) -> tuple[Callable[[], Any], list[Any]]:
    """What makes JAX's jaxpr of the gradient of an MLP's loss, and arguments for it."""
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
    gradient = lambda: jax.make_jaxpr(jax.grad(loss))(params, x, y)
    return gradient, jax.tree.leaves((params, x, y))


FLAT = {
    "parse": 1.0,
    "print": 0.5,
    "parse, with origins": 1.1,  # they cost a tenth at most
    "print, with origins": 0.55,
    "check": 0.25,
    "eval": 0.25,
    "jvp": 0.5,
    "vmap": 0.5,
    "linearize": 0.1,
    "vjp": 0.1,
    "grad": 0.1,
    "lower": 0.5,
}


@dataclass(frozen=True)
class Subject:
    """A program to measure.

    Attributes:
      trace: makes JAX's jaxpr, anew each time.
      closed: JAX's jaxpr.
      text: its text, as JAX prints it.
      program: ours.
      args: its arguments.
      n: the number of its equations, those of nested jaxprs too.
      title: what the names of its rows begin with.
      budgets: for each row the largest ratio.
      function: what was traced, where `eval_jaxpr` would compile (the bodies of loops); of the leaves of its arguments.
    """

    trace: Callable[[], Any]
    closed: Any
    text: str
    program: ClosedJaxpr
    args: list[Any]
    n: int
    title: str
    budgets: dict[str, float]
    function: Callable[..., Any] | None = None

    @classmethod
    def of(
        cls, trace: Callable[[], Any], args: list[Any], title: str, budgets: dict[str, float]
    ) -> Subject:
        closed = trace()
        program = share_equal(without_origins(jt.from_jax(closed)))  # as `trace` gives it
        n = count_eqns(program.jaxpr)
        return cls(trace, closed, str(closed), program, args, n, title, budgets)

    def row(self, what: str, ours: float, theirs: float, budget: str = "") -> Row:
        """A row of times in seconds, as times an equation."""
        scale = 1e6 / self.n
        limit = self.budgets.get(budget or what)
        return Row(self.title + what, ours * scale, theirs * scale, limit)

    def ours(self, run: Callable[[ClosedJaxpr], Any]) -> On:
        """A function of our program, for which nothing is remembered."""
        return On(lambda: _copied(self.program), run)

    def theirs(self, run: Callable[[Any], Any]) -> On:
        """A function of JAX's, as a function of values, for which nothing is remembered."""
        import jax
        from jax._src import core

        def make() -> Any:
            f = core.jaxpr_as_fun(self.trace())
            jax.clear_caches()
            return f

        return On(make, run)


def _copied(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same program in new objects, nested ones too."""
    return map_programs(program, lambda closed: with_eqns(closed, list(closed.eqns)))


def text_rows(subject: Subject, runs: int) -> list[Row]:
    """Reading, printing and checking."""
    from jax._src import core

    closed = subject.closed
    print_ours, print_theirs, parse = _text_times(subject.text, lambda: str(closed), runs)
    shown = functools.partial(closed.pretty_print, source_info=True, name_stack=True)
    print_shown, theirs_shown, parse_shown = _text_times(shown(), shown, runs)
    checked = [closed.jaxpr, *_bodies(closed.jaxpr)]
    check_ours, check_theirs = alone(
        runs,
        subject.ours(lambda p: jt.typecheck_jaxpr(p.jaxpr)),
        lambda: [core.check_jaxpr(jaxpr) for jaxpr in checked],
    )
    return [
        subject.row("parse + build (to JAX's print)", parse, print_theirs, "parse"),
        subject.row("print", print_ours, print_theirs),
        subject.row(
            "parse + build, with origins", parse_shown, theirs_shown, "parse, with origins"
        ),
        subject.row("print, with origins", print_shown, theirs_shown),
        subject.row("check", check_ours, check_theirs),
    ]


def _text_times(text: str, theirs: Callable[[], str], runs: int) -> list[float]:
    """The times of our print of a text's program, of `theirs`, JAX's print of it, and of reading the text."""
    program = jt.parse(text)
    return alone(runs, lambda: jt.format_jaxpr(program), theirs, lambda: jt.parse(text))


def _bodies(jaxpr: Any) -> list[Any]:
    """The bodies and branches of loops at any depth, which JAX's check does not look into."""
    from jax._src import core

    found = []
    for eqn in jaxpr.eqns:
        for inner in core.jaxprs_in_params(eqn.params):
            found += [inner] if eqn.primitive.name in ("scan", "while", "cond") else []
            found += _bodies(inner)
    return found


def eval_rows(subject: Subject, runs: int) -> list[Row]:
    """Evaluation on NumPy, against JAX operation by operation: `eval_jaxpr`, or the function where it has loops."""
    import jax
    from jax._src import core

    numpy_namespace()
    closed, args = subject.closed, subject.args
    program = _copied(subject.program)
    (first,) = best(1, lambda: jt.eval_jaxpr(program, args))

    def theirs() -> Any:
        with jax.disable_jit():
            if subject.function is not None:
                return jax.block_until_ready(subject.function(*args))
            return jax.block_until_ready(core.eval_jaxpr(closed.jaxpr, closed.consts, *args))

    (first_theirs,) = best(1, theirs)
    ours, steady = best(runs, lambda: jt.eval_jaxpr(program, args), theirs)
    return [
        subject.row("eval, first time", first, first_theirs),
        subject.row("eval, steady", ours, steady, "eval"),
    ]


def transform_rows(subject: Subject, runs: int) -> list[Row]:
    """Transformations of jaxprs, against JAX tracing the same transformation of the same jaxpr."""
    import jax
    import jax.numpy as jnp
    from jax._src import core

    args = subject.args
    batched = [np.stack([a, a]) for a in args]
    dims, positions = [0] * len(args), tuple(range(len(args)))

    def total(f: Any) -> Any:
        return lambda *a: sum(x.sum() for x in f(*a)[:1])

    def traced(transform: Callable[[Any], Any], values: Any = args) -> On:
        return subject.theirs(lambda f: jax.make_jaxpr(transform(f))(*values))

    def scalar() -> Any:
        return jax.make_jaxpr(total(core.jaxpr_as_fun(subject.trace())))(*args)

    summed = Subject.of(scalar, args, "", {})
    pairs = {
        "jvp": (
            subject.ours(jt.jvp_jaxpr),
            traced(lambda f: lambda *a: jax.jvp(f, a, a)),
        ),
        "vmap": (
            subject.ours(lambda p: jt.vmap_jaxpr(p, 2, dims)),
            traced(jax.vmap, batched),
        ),
        "linearize": (
            subject.ours(linearize_jaxpr),
            traced(lambda f: lambda *a: jax.linearize(f, *a)[0]),
        ),
        "vjp": (
            subject.ours(vjp_jaxpr),
            traced(lambda f: lambda *a: jax.vjp(f, *a)[1]([jnp.ones_like(x) for x in f(*a)])),
        ),
        "grad": (
            summed.ours(lambda p: grad_jaxpr(p, positions)),
            traced(lambda f: jax.grad(total(f), argnums=positions)),
        ),
    }
    return [subject.row(what, *alone(runs, *both)) for what, both in pairs.items()]


def lower_rows(subject: Subject, runs: int) -> list[Row]:
    """Lowering to StableHLO."""
    import jax

    ours = subject.ours(lambda p: str(jt.lower(p)))
    function = subject.theirs(lambda f: f)
    theirs = On(
        lambda: jax.jit(function.make()).trace(*subject.args), lambda x: x.lower().as_text()
    )
    return [subject.row("lower", *alone(runs, ours, theirs))]


def xla_rows(subject: Subject, runs: int) -> list[Row]:
    """Lowering, compiling and running with XLA, against `jax.jit` of the same function."""
    import jax
    from jax._src import core

    rows = lower_rows(subject, runs)
    trace, args = mlp_gradient(8)
    small = Subject.of(trace, args, "", {"compile": 1.1})
    compiling = small.theirs(lambda f: jax.jit(lambda *a: f(*a)).lower(*args).compile())
    rows.append(small.row("compile", *best(runs, small.ours(jt.compile), compiling)))
    compiled, g = jt.compile(small.program), core.jaxpr_as_fun(small.closed)
    jitted = jax.jit(lambda *a: g(*a))
    ready = [jax.device_put(a) for a in args]
    jax.block_until_ready(jitted(*ready))
    placed = compiled.place(args)

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
