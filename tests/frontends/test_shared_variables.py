"""JAX's jaxprs may share variables after partial evaluation and dead code elimination: a shared variable has one name in its print."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax.releases import since
from jaxprtool.backends.jax.written_twice import written_twice

X = np.full(4, 0.5, np.float32)


def pulled_back(f):
    return lambda *args: jax.vjp(f, *args)[1](f(*args))


def sums(x):
    """The sines of running sums, whose last sum nobody reads."""
    return jnp.sin(jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x)[1])


def iterated(x):
    """A loop that both the known part of a rematerialised function and what is rematerialised hold."""
    doubled = jax.jit(lambda c: jnp.sin(c) * jnp.cos(c) + c + 1)
    return x * jax.lax.while_loop(lambda c: c[0] < 3, doubled, jax.lax.stop_gradient(x))


def turned(x):
    """A scan around a loop that both parts hold, one of whose results nothing reads in one of them."""

    def body(carry, y):
        def turn(s):
            return s[0] + 1, jnp.sin(s[1]) * jnp.cos(s[1]), s[2] * 2

        held = jax.lax.stop_gradient(y)
        _, a, b = jax.lax.while_loop(lambda s: s[0] < 3, turn, (0, held, held))
        return carry + y * a, (carry * a, b)

    carry, (products, _) = jax.lax.scan(body, jnp.float32(0), x)
    return carry * jnp.sum(products * x)


ERFCX = getattr(jax.scipy.special, "erfcx", jax.scipy.special.log_ndtr)  # since 0.10
PROGRAMS = {
    "unread": (pulled_back(jax.checkpoint(jax.jit(sums))), (X,)),
    "beta": (pulled_back(jax.scipy.special.beta), (X, X)),
    "remat": (pulled_back(jax.checkpoint(ERFCX)), (X,)),
    "turned": (pulled_back(jax.checkpoint(turned)), (X,)),
    "loop": (pulled_back(jax.checkpoint(iterated)), (X,)),
    # The forward pass alone, with what it keeps: two calls of `jnp.where`, the second a part of the first, with its variables.
    "masked": (lambda x, m: jax.vjp(lambda y: jax.nn.log_softmax(y, where=m), x), (X, X > 0)),
    "second": (lambda x: jax.jvp(pulled_back(jnp.sinc), (x,), (x,)), (X,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_live_programs_print_as_jax_prints_them(name):
    function, args = PROGRAMS[name]
    closed = jax.make_jaxpr(function)(*args)
    live = jt.from_jax(closed)
    if not closed.consts:
        assert str(live) == str(closed)
    assert str(jt.to_jax(live)) == str(closed)
    for got, want in zip(
        jt.eval_jaxpr(live, args), jax.tree.leaves(jax.jit(function)(*args)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=2e-5)


# Two of its functions have one text, of which JAX before 0.10 prints what it calls as well as its name: there is no telling which is meant.
ALIKE = () if since(0, 10) else ("beta",)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ALIKE])
def test_their_texts_come_back_from_jax(name):
    function, args = PROGRAMS[name]
    closed = jax.make_jaxpr(function)(*args)
    program = jt.ClosedJaxpr(jt.parse(str(closed)).jaxpr, [*map(np.asarray, closed.consts)])
    assert str(jt.to_jax(program)) == str(closed)


def test_names_that_jax_would_not_give_are_no_shared_variables():
    text = """{ lambda ; x:f32[4]. let
    y:f32[4] = jit[name=f jaxpr={ lambda ; u:f32[4]. let v:f32[4] = sin u in (v,) }] x
    z:f32[4] = jit[name=g jaxpr={ lambda ; u:f32[4]. let v:f32[4] = cos u in (v,) }] y
  in (z,) }"""
    made = jt.to_jax(jt.parse(text))
    f, g = [eqn.params["jaxpr"].jaxpr for eqn in made.jaxpr.eqns]
    assert f.invars[0] is not g.invars[0]
    np.testing.assert_allclose(
        jax.core.eval_jaxpr(made.jaxpr, [], X)[0], np.cos(np.sin(X)), rtol=1e-6
    )


def test_an_unread_result_with_a_name_is_as_jax_names_it():
    """Dead code elimination leaves such results, which JAX 0.9 printed by their names."""
    text = """{ lambda ; a:f32[4]. let
    b:f32[] c:f32[4] = scan[_split_transpose=False jaxpr={ lambda ; d:f32[] e:f32[]. let
          f:f32[] = mul d e
          g:f32[] = sin e
        in (f, f) } length=4 linear=(False, False) num_carry=1 num_consts=0 reverse=False unroll=1] 1.0:f32[] a
    h:f32[] i:f32[4] = scan[_split_transpose=False jaxpr={ lambda ; d:f32[] e:f32[]. let
          f:f32[] = mul d e
        in (f, f) } length=4 linear=(False, False) num_carry=1 num_consts=0 reverse=False unroll=1] b c
  in (h, i) }"""
    shared = written_twice(jt.parse(text)).variables
    assert [v.name for v in shared] == ["d", "e", "f"]
