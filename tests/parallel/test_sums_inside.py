"""Collectives and casts inside of shard_map along axes over which a value is to be summed, `{U:x}`, or was, `{R:x}`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P
from jax.sharding import AbstractMesh, AxisType

import jaxprtool as jt
from jaxprtool.interpreters.linearize import vjp_jaxpr
from tests.invoke import invoke

X = np.arange(16, dtype=np.float32).reshape(8, 2) / 7
W = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)


def on_devices(function, in_specs, out_specs):
    return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs)


def scattered(x, w):
    """Parts of a sum, of which each device gets a part."""

    def body(x, w):
        parts = jax.lax.pcast(jnp.tile(x @ w, (4, 1)), "x", to="unreduced")
        return jax.lax.psum_scatter(parts, "x", tiled=True)

    return on_devices(body, (P("x", None), P()), P("x", None))(x, w)


def summed(x, w):
    """Parts of a sum, which all devices get."""

    def body(x, w):
        return jax.lax.psum(jax.lax.pcast(x @ w, "x", to="unreduced"), "x")

    return on_devices(body, (P("x", None), P()), P())(x, w)


def gathered(x, w):
    """What all devices have, as what is the same on them, and varies again."""

    def body(x, w):
        whole = jax.lax.all_gather(x @ w, "x", to="reduced", tiled=True)
        return jax.lax.pcast(whole, "x", to="varying")[:2] + x

    return on_devices(body, (P("x", None), P()), P("x", None))(x, w)


def weights(x, w):
    """Weights whose cotangents are parts, as they are added up once for several uses."""

    def body(x, w):
        w = jax.lax.pcast(w, "x", to="reduced")
        again = jax.lax.pcast(w, "x", to="varying")
        return jnp.tanh(x @ again) + x @ again

    return on_devices(body, (P("x", None), P()), P("x", None))(x, w)


PLAIN = {
    scattered: lambda x, w: jnp.tile((x @ w).reshape(4, 2, 2).sum(0), (4, 1)),
    summed: lambda x, w: (x @ w).reshape(4, 2, 2).sum(0),
    gathered: lambda x, w: jnp.tile((x @ w)[:2], (4, 1)) + x,
    weights: lambda x, w: jnp.tanh(x @ w) + x @ w,
}


def traced(function, *args):
    mesh = AbstractMesh((4,), ("x",), axis_types=(AxisType.Explicit,))
    shapes = [jax.ShapeDtypeStruct(x.shape, "float32") for x in args]
    try:
        with jax.sharding.use_abstract_mesh(mesh):
            return jax.make_jaxpr(function)(*shapes)
    except (AttributeError, NotImplementedError, TypeError, ValueError, AssertionError) as e:
        pytest.skip(f"this JAX has no such values: {e}")


def laid_out(function):
    """The function of operands that are split as it takes them."""
    return lambda x, w: function(jax.reshard(x, P("x", None)), w)


@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
def test_values_and_text(function):
    closed = traced(laid_out(function), X, W)
    text = str(closed)
    want = PLAIN[function](X, W)
    for program in (jt.parse(text), jt.from_jax(closed)):
        jt.typecheck_jaxpr(program.jaxpr)
        assert str(program) == text
        np.testing.assert_allclose(jt.eval_jaxpr(program, [X, W])[0], want, rtol=1e-5)
    batched, dims = jt.vmap_jaxpr(program, 3, [0, None])
    (got,) = jt.eval_jaxpr(batched, [np.stack([X, 2 * X, -X]), W])
    each = [PLAIN[function](x, W) for x in (X, 2 * X, -X)]
    np.testing.assert_allclose(np.moveaxis(got, dims[0], 0), each, rtol=1e-5)


@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
def test_derivatives_are_those_of_jax(function):
    """Ours of the program, and the text of JAX's own, which has the collectives of the other direction."""
    loss = lambda x, w: (laid_out(function)(x, w) ** 2).sum()
    want = jax.grad(lambda x, w: (PLAIN[function](x, w) ** 2).sum(), argnums=(0, 1))(X, W)
    theirs = jt.parse(str(traced(jax.grad(loss, argnums=(0, 1)), X, W)))
    jt.typecheck_jaxpr(theirs.jaxpr)
    for got, expected in zip(jt.eval_jaxpr(theirs, [X, W]), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4)
    program = jt.from_jax(traced(loss, X, W))
    ours = jt.eval_jaxpr(vjp_jaxpr(program), [X, W, np.float32(1)])
    for got, expected in zip(ours[-2:], want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4)


def handed_over(x, w):
    """Parts of a sum go from one shard_map to another, which adds them up."""
    parts = on_devices(
        lambda x, w: jax.lax.pcast(x @ w, "x", to="unreduced"),
        (P("x", None), P()),
        P(unreduced={"x"}),
    )(x, w)
    return on_devices(lambda y: jax.lax.psum(y, "x"), (P(unreduced={"x"}),), P())(parts)


def the_same_on_all(x, w):
    """What all devices have leaves one shard_map, and is used by another."""
    whole = on_devices(
        lambda x, w: jax.lax.all_gather(x @ w, "x", to="reduced", tiled=True),
        (P("x", None), P()),
        P(reduced={"x"}),
    )(x, w)
    use = lambda y, x: jax.lax.pcast(y, "x", to="varying")[:2] + x
    return on_devices(use, (P(reduced={"x"}), P("x", None)), P("x", None))(whole, x)


@pytest.mark.parametrize(
    ("function", "plain"),
    [(handed_over, PLAIN[summed]), (the_same_on_all, PLAIN[gathered])],
    ids=lambda f: f.__name__.strip("<>"),
)
def test_between_calls(function, plain):
    closed = traced(laid_out(function), X, W)
    text = str(closed)
    for program in (jt.parse(text), jt.from_jax(closed)):
        jt.typecheck_jaxpr(program.jaxpr)
        assert str(program) == text
        np.testing.assert_allclose(jt.eval_jaxpr(program, [X, W])[0], plain(X, W), rtol=1e-5)
        batched, dims = jt.vmap_jaxpr(program, 2, [0, None])
        (got,) = jt.eval_jaxpr(batched, [np.stack([X, 2 * X]), W])
        each = [plain(x, W) for x in (X, 2 * X)]
        np.testing.assert_allclose(np.moveaxis(got, dims[0], 0), each, rtol=1e-5)
    want, tangent = jax.jvp(plain, (X, W), (2 * X, W))
    got = jt.eval_jaxpr(jt.jvp_jaxpr(program)[0], [X, W, 2 * X, W])
    np.testing.assert_allclose(got[0], want, rtol=1e-5)
    np.testing.assert_allclose(got[1], tangent, rtol=1e-5)
    ct = np.asarray(want) + 1
    cts = jt.eval_jaxpr(vjp_jaxpr(program), [X, W, ct])[-2:]
    for ours, theirs in zip(cts, jax.vjp(plain, X, W)[1](ct), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_dead_results_leave_no_trace():
    """Of two results one of which nobody reads, the other one keeps what is said of it."""
    both = lambda x, w: on_devices(
        lambda x, w: (jax.lax.pcast(x @ w, "x", to="unreduced"), jnp.sin(x)),
        (P("x", None), P()),
        (P(unreduced={"x"}), P("x", None)),
    )(x, w)[0]
    program = jt.optimize(jt.from_jax(traced(laid_out(both), X, W)), "dce")
    (eqn,) = [e for e in program.jaxpr.eqns if e.primitive.name == "shard_map"]
    assert [str(s) for s in eqn.params["out_specs"]] == ["P(unreduced={'x'})"]
    np.testing.assert_allclose(jt.eval_jaxpr(program, [X, W])[0], PLAIN[summed](X, W), rtol=1e-5)


# As JAX 0.11.1 and later print it: what is done with the parts of a value is said, and may be something else than their sum.
LARGEST = """{ lambda ; a:f32[4@x,2]. let
    b:f32[2]{U_max:x} = reduce_max[
      axes=(0,)
      out_sharding=NamedSharding(mesh=AbstractMesh('x': 2, axis_types=(Explicit,)), spec=P(None, unreduced={'x'}, unreduced_kind=max))
    ] a
    c:f32[2] = shard_map[
      check_vma=True
      in_specs=(P(None, unreduced={'x'}, unreduced_kind=max),)
      jaxpr={ lambda ; d:f32[2]{U:x}. let
          e:f32[2] = unreduced_pmax[axes=('x',)] d
        in (e,) }
      mesh=AbstractMesh('x': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({'x'})
      out_specs=(P(),)
    ] b
  in (c,) }
"""


def test_the_largest_part():
    program = jt.parse(LARGEST)
    jt.typecheck_jaxpr(program)
    assert jt.format_jaxpr(program) + "\n" == LARGEST
    x = -X[:4]
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [x])[0], x.max(0))
    batched, _ = jt.vmap_jaxpr(program, 2, [0])
    np.testing.assert_array_equal(
        jt.eval_jaxpr(batched, [np.stack([x, -x])])[0], [x.max(0), (-x).max(0)]
    )
    assert 'unreduced=max{"x"}' in str(jt.lower(program))
    wrong = LARGEST.replace("unreduced_kind=max),)", "unreduced_kind=some),)")
    with pytest.raises(jt.JaxprTypeError, match="partition specs"):
        jt.typecheck_jaxpr(jt.parse(wrong))


def test_the_kind_of_a_sum_is_said_since_0_11_1():
    text = str(traced(laid_out(handed_over), X, W))
    kind = ", unreduced_kind=sum"
    later = invoke(["fmt", "--dialect", "jax-0.12"], text)
    earlier = invoke(["fmt", "--dialect", "jax-0.10.2"], text)
    assert later.output.count(kind) == 2 and kind not in earlier.output
    for printed in (later.output, earlier.output):
        assert invoke("fmt", printed).output == printed
        assert jt.diff(jt.parse(printed), jt.parse(text)).equal


def test_what_goes_in_is_said_as_it_is():
    """The type of an operand says what is to be summed, and its spec has to say the same."""
    text = str(traced(laid_out(handed_over), X, W)).replace(", unreduced_kind=sum", "")
    wrong = text.replace("in_specs=(P(unreduced={'x'}),)", "in_specs=(P(),)")
    assert wrong != text
    with pytest.raises(jt.JaxprTypeError, match="its in_spec says something else"):
        jt.typecheck_jaxpr(jt.parse(wrong).jaxpr)


def test_a_sum_to_come_is_said():
    text = str(traced(laid_out(handed_over), X, W)).replace(", unreduced_kind=sum", "")
    text = text.replace("out_specs=(P(unreduced={'x'}),)", "out_specs=(P(),)")
    with pytest.raises(jt.JaxprTypeError, match="still to be summed over x"):
        jt.typecheck_jaxpr(jt.parse(text).jaxpr)


def test_cotangents_have_the_types_of_the_other_direction():
    """What is to be summed has a cotangent that was summed, as in JAX; its type and specs say so."""
    parts = lambda x, w: on_devices(
        lambda x, w: jax.lax.pcast(jnp.sin(x @ w), "x", to="unreduced"),
        (P("x", None), P()),
        P(unreduced={"x"}),
    )(x, w)
    program = jt.from_jax(traced(laid_out(parts), X, W))
    pulled = vjp_jaxpr(program)
    jt.typecheck_jaxpr(pulled.jaxpr)
    assert str(program.out_avals[0]) == "f32[2,2]{U:x}"
    assert str(pulled.in_avals[-1]) == "f32[2,2]{R:x}"
    ct = np.ones((2, 2), np.float32)
    plain = lambda x, w: jnp.sin(x @ w).reshape(4, 2, 2).sum(0)
    want = jax.vjp(plain, X, W)[1](ct)
    for got, expected in zip(jt.eval_jaxpr(pulled, [X, W, ct])[-2:], want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
