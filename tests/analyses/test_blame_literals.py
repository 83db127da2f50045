"""A NaN or an infinity that a program writes itself, moves and drops again is no fault; one that it computes with, or a result has, is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.driver.running.check_nans import NanError
from tests.invoke import invoke

X = np.linspace(-1, 1, 6).astype(np.float32)
INF = np.float32(np.inf)
KEPT = np.arange(6) < 3
SEGMENTS = np.array([0, 1, 2, 0, 1, 2])


def full(x: Any, n: int = 6) -> Any:
    return jnp.full(n, x, jnp.float32)


def attention(x: Any) -> Any:
    """One query by blocks of keys, as flash attention does it."""

    def block(carry: Any, s: Any) -> Any:
        most, total = carry
        new = jnp.maximum(most, s)
        return (new, total * jnp.exp(most - new) + jnp.exp(s - new)), None

    return lax.scan(block, (-INF, np.float32(0)), x)[0]


RIGHT = {
    "largest in a loop": lambda x: lax.fori_loop(0, 6, lambda i, c: jnp.maximum(c, x[i]), -INF),
    "largest in a scan": lambda x: lax.scan(lambda c, a: (jnp.maximum(c, a),) * 2, -INF, x),
    "broadcast, then max": lambda x: jnp.maximum(full(-INF), x),
    "broadcast in a call": lambda x: jax.jit(lambda a: jnp.maximum(a, x))(full(-INF)),
    "largest of a padded one": lambda x: jnp.max(jnp.pad(x, 2, constant_values=-INF)),
    "largest of some": lambda x: jnp.max(x, initial=-INF, where=x > 0),
    "largest in segments": lambda x: jax.ops.segment_max(x, SEGMENTS, 3),
    "clipped": lambda x: jnp.clip(x, full(-INF), full(INF)),
    "places of the largest": lambda x: lax.top_k(jnp.where(KEPT, x, -INF), 2)[1],
    "the least place": lambda x: jnp.argmin(jnp.where(KEPT, x, INF)),
    "compared": lambda x: jnp.where(full(INF) > x, x, 0),
    "median": jnp.median,
    "quantile": lambda x: jnp.quantile(x, 0.3),
    "slogdet": lambda x: jnp.linalg.slogdet(jnp.outer(x, x) + jnp.eye(6, dtype=jnp.float32))[1],
    "log of a uniform density": lambda x: jax.scipy.stats.uniform.logpdf(x * 0.1 + 0.5),
    "interpolated": lambda x: jnp.interp(x, jnp.arange(-2.0, 3), jnp.arange(5.0), left=np.nan),
}
COMPUTED = {
    "attention by blocks": attention,
    "negated, then max": lambda x: jnp.maximum(-full(INF), x),
    "masked softmax": lambda x: jax.nn.softmax(jnp.where(KEPT, x, -INF)),
    "softmax, bias added": lambda x: jax.nn.softmax(x + jnp.where(KEPT, 0, -INF)),
    "a NaN that is multiplied": lambda x: jnp.where(KEPT, x, x * np.float32(np.nan))[:3],
}
WRONG = {
    "a result": lambda x: full(INF),
    "added": lambda x: full(INF) + x,
    "infinity less itself": lambda x: jnp.exp(full(INF) - jnp.where(x > 2, x, INF)),
    "no softmax: all masked": lambda x: jax.nn.softmax(jnp.where(x > 2, x, -INF)),
    "NaN kept by max": lambda x: jnp.maximum(full(np.nan), x),
    "NaN decides": lambda x: jnp.where(full(np.nan) > x, x, 0),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_dropped_is_no_fault(name: str) -> None:
    found = jt.blame(RIGHT[name], X)
    assert not found.found and not found.masked_by and not found.deciding, str(found)
    assert all(o.reached is None for o in found.outputs)
    assert all(a.source is not None and a.source.kind == "literal" for a in found.dropped)
    jt.run(RIGHT[name], X, check_nans=True)


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_of_a_literal_is_told(name: str) -> None:
    found = jt.blame(COMPUTED[name], X)
    assert found.found and found.masked_by and not found.dropped
    assert found.appearances[0].source.kind == "literal"
    assert {o.reached for o in found.outputs} == {"masked"}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_result_has_is_a_fault(name: str) -> None:
    assert jt.blame(WRONG[name], X).found


def test_a_dropped_literal_hides_no_other_fault() -> None:
    def f(x: Any) -> Any:
        return jnp.log(jnp.maximum(full(-INF), x))

    found = jt.blame(f, X)
    assert found.found and found.first.eqn.primitive.name == "log"
    assert [a.source is None for a in found.appearances] == [True]
    assert not found.masked_by
    assert [a.label for a in found.dropped] == ["literal 0 (-inf:f32[])"]


def test_what_reaches_a_result_comes_before_a_masked_literal() -> None:
    def f(x: Any) -> Any:
        return jnp.log(jax.nn.softmax(jnp.where(KEPT, x, -INF)) - 2)

    found = jt.blame(f, X)
    assert found.first.eqn.primitive.name == "log" and found.kind == "nan"
    assert "literal" in found.appearances[-1].label


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jnp.nan_to_num(x),
        lambda x: jnp.where(jnp.isnan(x), 0, x),
        lambda x: jnp.sum(x, where=jnp.isfinite(x)),
        lambda x: jnp.isnan(x),
        lambda x: x[1:],
    ],
)
def test_a_run_goes_on_where_a_nan_that_it_is_given_is_dropped(f: Any) -> None:
    x = X.copy()
    x[0] = np.nan
    jt.run(f, x, check_nans=True)


@pytest.mark.parametrize("f", [lambda x: full(np.nan) * x, lambda x: jnp.sin(full(np.nan) * x)])
def test_a_run_stops_for_a_literal_nan_that_a_result_has(f: Any) -> None:
    with pytest.raises(NanError, match=r"broadcast_in_dim gives NaN .* from literal 0"):
        jt.run(f, X, check_nans=True)


def test_a_run_stops_at_a_nan_of_a_dropped_literal() -> None:
    """What is computed of a literal is an equation's own."""
    with pytest.raises(NanError, match="sub gives NaN"):
        jt.run(lambda x: jnp.where(x > 2, full(INF) - full(INF), x), X, check_nans=True)


TEXT = """{ lambda ; a:f32[4]. let
    b:f32[4] = broadcast_in_dim[broadcast_dimensions=() shape=(4,) sharding=None] -inf:f32[]
    c:f32[4] = max b a
    d:f32[4] = mul c 3e38:f32[]
    e:f32[4] = div d 3e38:f32[]
  in (e,) }
"""


def test_what_the_verb_says(tmp_path: Any) -> None:
    path = tmp_path / "a.jaxpr"
    path.write_text(TEXT)
    done = invoke(f"blame {path} --args [1,0.5,0.25,0]")
    assert done.status == 0
    assert done.output.splitlines() == [
        "no bad value",
        "bad literals that are only moved, and dropped",
        f"  inf: {path}:2:5: broadcast_in_dim at 2  from literal 0 (-inf:f32[])",
    ]
    done = invoke(f"blame --jit {path} --args [1,0.5,0.25,0]")
    assert done.status == 0 and "note: the compiled program shows none either" in done.output


def test_only_what_numpy_does_not_show_is_said_of_the_compiled_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A literal that is dropped is not the first compiled value that is bad."""
    from jaxprtool.driver.running import only_compiled

    run = only_compiled.run

    def overflows(program: Any, args: Any, **how: Any) -> Any:
        """A compiler that folds the product and the quotient of the text into an infinity."""
        outs = run(program, args, **how)
        last = program.eqns[-1].primitive.name if program.eqns else ""
        return [np.full_like(x, INF) for x in outs] if last == "div" else outs

    monkeypatch.setattr(only_compiled, "run", overflows)
    found = jt.blame(jt.parse(TEXT), np.float32([1, 0.5, 0.25, 0.125]), jit=True)
    assert found.compiled.place.eqn.primitive.name == "div" and found.compiled.equations == 4
