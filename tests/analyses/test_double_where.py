"""Laws of `blame` on gradients of `where(c, f(x), 0)`: the `where` is named if its untaken side makes the NaN, and only then."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.analyses.blaming import double_where

X = np.array([1.5, 0.0, 2.0], np.float32)

# At 0 the derivative of each makes a NaN, by a coefficient of its own or by one that meets the 0 of the cotangent.
INNER: dict[str, Callable[[Any], Any]] = {
    "log": jnp.log,
    "log |x|": lambda x: jnp.log(jnp.abs(x)),
    "x ** x": lambda x: jnp.power(x, x),
    "x log x": lambda x: x * jnp.log(x),
    "arctan2": lambda x: jnp.arctan2(x, x * 0),
    "exp(-1 / x)": lambda x: jnp.exp(-1 / x),
    "lgamma": lax.lgamma,
    "logaddexp": lambda x: jnp.logaddexp(jnp.log(x), jnp.log(x)),
}
Choice = Callable[[Callable[[Any], Any], Any], Any]
CONTEXTS: dict[str, Callable[[Choice, Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "plain": lambda where, f: lambda x: where(f, x).sum(),
    "jit of f": lambda where, f: lambda x: where(jax.jit(f), x).sum(),
    "scan": lambda where, f: (
        lambda x: lax.scan(lambda c, v: (c + where(f, v), None), jnp.float32(0), x)[0]
    ),
    "remat": lambda where, f: lambda x: jax.checkpoint(lambda x: where(f, x).sum())(x),
    "later": lambda where, f: lambda x: (where(lambda x: f(x) * 2 + 1, x) * 3).sum(),
    "cond": lambda where, f: (
        lambda x: lax.cond(x.sum() > 0, lambda x: where(f, x).sum(), lambda x: x.sum(), x)
    ),
}


def _where(compare: Any) -> Choice:
    return lambda f, x: jnp.where(compare(x, 0), f(x), 0.0)


def _blamed(f: Any, args: Any, *, text: bool = False) -> Any:
    if not text:
        return jt.blame(jt.trace(f, *args), *args)
    made = jax.make_jaxpr(f)(*args)
    return jt.blame(jt.parse(str(made)), *[np.asarray(x) for x in (*made.consts, *args)])


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("inner", INNER)
def test_a_where_is_named_whose_untaken_side_makes_the_nan(inner: str, context: str) -> None:
    f = jax.grad(CONTEXTS[context](_where(operator.gt), INNER[inner]))
    assert np.isnan(jax.jit(f)(X)).any()
    for text in (False, True):
        found = _blamed(f, [X], text=text)
        assert found.unguarded is not None, str(found)
        assert found.unguarded.place.eqn.primitive.name == "select_n"


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("inner", INNER)
def test_no_where_is_named_that_takes_the_side_of_the_nan(inner: str, context: str) -> None:
    """The 0 that the NaN meets is no cotangent that a `where` has put there: it is a value of the function, exp(-1 / 0)."""
    f = jax.grad(CONTEXTS[context](_where(operator.ge), INNER[inner]))
    for text in (False, True):
        found = _blamed(f, [X], text=text)
        assert found.found and found.unguarded is None, str(found)


W, D = np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, np.nan, 2.0], np.float32)
M = np.array([True, False, True])


def test_a_where_after_a_nan_of_the_data_is_named() -> None:
    """The derivative by the weights multiplies the cotangent, 0 there, by the data."""
    masked = jax.grad(lambda w, m, d: jnp.where(m, w * d, 0.0).sum())
    asked = jax.grad(lambda w, d: jnp.where(jnp.isfinite(d), w * d, 0.0).sum())
    for f, args in ((masked, (W, M, D)), (asked, (W, D))):
        assert np.isnan(jax.jit(f)(*args)).any()
        for text in (False, True):
            found = _blamed(f, args, text=text)
            assert found.unguarded is not None and found.unguarded.kept, str(found)


@pytest.mark.parametrize(
    "f",
    [
        lambda w, m, d: jnp.where(m, w, 0.0) * d,
        lambda w, m, d: jnp.where(m, w, 0.0) * jnp.log(-w),
        jax.grad(lambda w, m, d: (jnp.sqrt(w - 1) * jnp.sin(w - w)).sum()),
        jax.grad(lambda w, m, d: (jnp.where(w > 1, w, 0.0) * jnp.log(w - 2)).sum()),
        jax.grad(lambda w, m, d: (jnp.where(m, w / 0.5, 0.0) ** 2 / jnp.sum(w - 2)).sum()),
        jax.grad(lambda w, m, d: jnp.log(-jnp.sum(jax.nn.relu(w - 1.5) * w))),
        jax.grad(
            lambda w, m, d: (
                jnp.sum(jnp.maximum(w - 1.5, 0) * jnp.where(w > 2, w, 0)) * jnp.log(-w.sum())
            )
        ),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_another_choice_beside_a_zero_and_a_nan_is_not_named(f: Any, text: bool) -> None:
    """Those of the text have neither names nor lines that say which of two choices is the transpose of the other."""
    found = _blamed(f, (W, M, D), text=text)
    assert found.found and found.unguarded is None, str(found)


A = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
ROWS = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 2.0, 1.0]], np.float32)
DATA = np.array([[1.0, 1.0, 1.0], [1.0, np.nan, 1.0], [1.0, 1.0, 1.0]], np.float32)
ONES = np.ones(1, np.float32)


def _in_rows(m: Any, x: Any) -> Any:
    return jnp.where(m[:, None], x, 0.0).sum()


# The 0 of the cotangent, or the value that it meets, comes out of a sum of products.
SUMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "by the matrix": (lambda a, x, m: jnp.where(m, a @ jnp.log(x), 0.0).sum(), (A, X, M)),
    "before a matrix": (lambda r, a, m: _in_rows(m, jnp.log(r) @ a), (ROWS, A, M)),
    "three factors": (lambda r, a, m: _in_rows(m, jnp.log(r) @ a @ a), (ROWS, A, M)),
    "transposed": (lambda r, a, m: _in_rows(m, (a.T @ jnp.log(r).T).T), (ROWS, A, M)),
    "einsum": (
        lambda r, a, m: _in_rows(m, jnp.einsum("ij,kj->ik", jnp.log(r), a)),
        (ROWS, A, M),
    ),
    "identity": (
        lambda x: jnp.where(x > 0, jnp.eye(3, dtype=jnp.float32) @ jnp.sqrt(x), 0.0).sum(),
        (X,),
    ),
    "data": (lambda w, d, m: jnp.where(m, d @ w, 0.0).sum(), (W, DATA, M)),
    "convolution": (
        lambda x, k, m: jnp.where(m, jnp.convolve(jnp.log(x), k, "same"), 0.0).sum(),
        (X, ONES, M),
    ),
    "scan": (
        lambda x, a: lax.scan(
            lambda c, v: (c + jnp.where(v > 0, a[0] @ (jnp.log(v) * a), 0.0).sum(), None),
            jnp.float32(0),
            x,
        )[0],
        (X, A),
    ),
    "vmap": (
        lambda x, a: jax.vmap(lambda v: jnp.where(v > 0, jnp.dot(jnp.log(v) * a[0], a[1]), 0.0))(
            x
        ).sum(),
        (X, A),
    ),
    "remat": (
        lambda r, a, m: jax.checkpoint(lambda r: _in_rows(m, jnp.log(r) @ a))(r),
        (ROWS, A, M),
    ),
    "solve": (
        lambda a, x: jnp.where(a.sum() > 0, jnp.linalg.solve(a, x).sum(), 0.0),
        (A * 0, X),
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_where_around_a_sum_of_products_is_named(name: str) -> None:
    f, args = SUMS[name]
    gradient = jax.grad(f)
    assert np.isnan(jax.jit(gradient)(*args)).any()
    for text in (False, True):
        found = _blamed(gradient, args, text=text)
        assert found.unguarded is not None, str(found)
        assert found.unguarded.kept or name == "remat", str(found)  # remat runs the transpose alone
        assert found.unguarded.place.eqn.primitive.name == "select_n"


@pytest.mark.parametrize(
    "f",
    [
        lambda w, m, a: a @ (jnp.where(m, w, 0.0) * 0.0 + jnp.log(-w)),
        lambda w, m, a: jnp.where(m, w, 0.0) @ jnp.log(-a),
        jax.grad(lambda w, m, a: (jnp.where(m, a, 0.0) @ jnp.log(w - 1)).sum()),
        jax.grad(lambda w, m, a: jnp.log(w - 1) @ jnp.where(m, 0.0, 0.0)),
        jax.grad(lambda w, m, a: jnp.log(-jnp.sum(jax.nn.relu(a @ (w - 1.5)) * w))),
        jax.grad(lambda w, m, a: (jnp.where(m, a @ w, 0.0) ** 2 / jnp.sum(w - 2)).sum()),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_zeros_of_the_data_in_a_sum_of_products_are_no_choice_of_the_derivative(
    f: Any, text: bool
) -> None:
    found = _blamed(f, (W, M, A), text=text)
    assert found.found and found.unguarded is None, str(found)


MASK = np.array([[True, True, False], [False, False, False], [True, True, True]])


@pytest.mark.parametrize(
    "f",
    [
        lambda s: (jnp.where(MASK, jax.nn.softmax(jnp.where(MASK, s, -jnp.inf)), 0.0) @ A).sum(),
        lambda s: jax.nn.softmax(s, where=jnp.asarray(MASK)).sum(),
        lambda s: jnp.where(
            MASK.any(-1), jax.nn.logsumexp(jnp.where(MASK, s, -jnp.inf), axis=-1), 0.0
        ).sum(),
        lambda s: jax.vmap(lambda v: lax.cond(v > 2, lambda v: jnp.log(v - 2), lambda v: v * 0, v))(
            s.ravel()
        ).sum(),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_no_where_is_named_where_no_bad_value_reaches_a_result(f: Any, text: bool) -> None:
    gradient = jax.grad(f)
    assert np.isfinite(jax.jit(gradient)(A)).all()
    found = _blamed(gradient, (A,), text=text)
    assert found.found and found.unguarded is None, str(found)


@pytest.mark.parametrize("text", [False, True])
def test_a_nan_that_the_program_writes_and_drops_is_neither_first_nor_what_a_where_makes(
    text: bool,
) -> None:
    """`jnp.var` chooses between its result and NaN; the NaN of the derivative of `std` begins in that of the root."""
    found = _blamed(jax.grad(jnp.std), (np.ones(3, np.float32),), text=text)
    assert found.first is not None and found.first.eqn.primitive.name == "div", str(found)
    assert found.original is not None and found.original.eqn.primitive.name == "sqrt"
    assert found.unguarded is None
    assert all(a.source is None for a in found.appearances) and found.dropped


SOLVABLE = np.array([[3, 1, 0], [1, 4, 1], [0, 1, 5]], np.float32)
UPPER = np.array([[2, 0.5, 1], [0, 1.5, 0.3], [0, 0, 1.2]], np.float32)
NO_CHOICE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    # the 0 of the cotangent is that of the value, and is permuted by integers that a choice gives
    "solve": (lambda y: jnp.linalg.solve(SOLVABLE, y), np.zeros((3, 3), np.float32)),
    "solve by rows": (lambda y: jax.vmap(lambda r: jnp.linalg.solve(SOLVABLE, r))(y), A * 0),
    # the derivative of the operation chooses a triangle of the cotangent
    "triangular": (lambda y: jax.scipy.linalg.solve_triangular(y, SOLVABLE), UPPER),
}


@pytest.mark.parametrize("inner", [jnp.sqrt, lambda x: x**0.3])
@pytest.mark.parametrize("name", NO_CHOICE)
def test_choices_inside_of_a_solve_are_not_named(name: str, inner: Callable[[Any], Any]) -> None:
    f, x = NO_CHOICE[name]
    gradient = jax.grad(lambda x: (f(inner(x)) ** 2).sum())
    found = _blamed(gradient, [x])
    assert found.found and found.unguarded is None, str(found)


def test_the_triangle_of_a_decomposition_is_no_where_to_guard() -> None:
    """What a decomposition gives is NaN on both sides of its triangle."""

    def f(r: Any, s: Any) -> Any:
        return jnp.linalg.cholesky(s @ s.T + jnp.diag(1 / r)).sum()

    found = jt.blame(jax.grad(f), np.array([1, 0, 2], np.float32), np.eye(3, dtype=np.float32))
    assert (
        found.first is not None
        and found.first.eqn.primitive.name == "div"
        and found.unguarded is None
    ), str(found)


def test_the_division_of_a_backward_rule_is_not_derived_from_what_follows_the_call_in_its_line():
    """In JAX's gradient it has the place of the call, which is that of the sum of its result: `root(x).sum()`."""
    root = jax.custom_vjp(lambda x: jnp.sqrt(x))
    root.defvjp(lambda x: (jnp.sqrt(x), jnp.sqrt(x)), lambda r, g: (g / (2 * r),))
    found = jt.blame(jax.grad(lambda x: root(jnp.sin(x)).sum()), np.array([0.0, 1], np.float32))
    assert found.first.eqn.primitive.name == "div"
    assert found.original is None or found.original.eqn.primitive.name == "sqrt"


def test_what_factors_are_computed_from_is_gone_through_only_where_there_is_a_choice(
    monkeypatch: Any,
) -> None:
    """A long derivative has many products of a 0 and a bad value."""
    walk, through = double_where.walk_before, list[bool]()

    def counted(*args: Any, **options: Any) -> Any:
        through.append(options.get("through", False))
        return walk(*args, **options)

    def chain(x: Any) -> Any:  # it has many of them
        for i in range(400):
            x = jnp.tanh(x) * x + jnp.sin(x) / (x * x + 2)
            x = jnp.where(x > 1e9, x, x * 1.0) + jnp.sqrt(x - x) if i == 200 else x
        return x.sum()

    monkeypatch.setattr(double_where, "walk_before", counted)
    found = _blamed(jax.grad(chain), (np.linspace(0.5, 1.5, 5, dtype=np.float32),), text=False)
    assert found.found and found.unguarded is None
    assert len(through) > 5 and not any(through)
