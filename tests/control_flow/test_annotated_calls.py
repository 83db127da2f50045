"""Calls that say something to the compiler: `compute_on` and `xla_metadata_call`, live and from text, beside JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.backends.jax.absent_calls import in_current_form
from jaxprtool.backends.jax.releases import since
from jaxprtool.backends.jax.to_jax import to_jax
from tests.control_flow.oracle import close, compare

pytest.importorskip("jax.experimental.scheduling_groups")
from jax.experimental.compute_on import compute_on2
from jax.experimental.scheduling_groups import scheduling_group

X = np.arange(3, dtype=np.float32) + 0.5
Y = X * X - 2


def _product(x, y):
    return jnp.sin(x) * y, y


def _on(space="Device", **options):
    where = {"compute_type": "device_host", "out_memory_spaces": getattr(jax.memory.Space, space)}
    return compute_on2(_product, **where, **options)


OPTIONS = {"compiler_options": {"a": "b c", "d": "true"}} if since(0, 10, 1) else {}
CASES = {
    "compute_on": lambda x, y: [t * x for t in _on()(x, y)],
    "compute_on with options": lambda x, y: [t * x for t in _on(**OPTIONS)(x, y)],
    "compute_on of another memory": _on("Host"),
    "xla_metadata_call": lambda x, y: [t * y for t in scheduling_group("a group")(_product)(x, y)],
}


@pytest.mark.parametrize("name", CASES)
def test_beside_jax(name):
    compare(CASES[name], X, Y, reverse="memory" not in name)  # JAX's cotangents are on the host too


@pytest.mark.parametrize("name", CASES)
def test_text_is_the_live_program(name):
    closed = jax.make_jaxpr(CASES[name])(X, Y)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        jt.typecheck_jaxpr(program)
        assert str(program) == str(closed)
        back = to_jax(program)
        assert str(back) == str(closed)
        close(jax.jit(jaxpr_as_fun(back))(X, Y), jaxpr_as_fun(closed)(X, Y))


@pytest.mark.parametrize("name", CASES)
def test_transformed_calls_stay_what_they_are(name):
    """Their params fit after each transformation: JAX takes the programs, and gives what we do."""
    program = jt.from_jax(jax.make_jaxpr(CASES[name])(X, Y))
    moved, _ = jt.jvp_jaxpr(program, [True, True])
    batched, _ = jt.vmap_jaxpr(program, 2, [0, None])
    first = moved.jaxpr.replace(outs=moved.jaxpr.outs[2:3])
    small = jt.opt(moved.replace(jaxpr=first), passes="dce")
    known, unknown = jt.partial_eval_jaxpr(program, [False, True])[:2]
    made = [(moved, (X, Y, Y, X)), (batched, (np.stack([X, Y]), Y)), (small, (X, Y, Y, X))]
    made += [(known, (X,))]
    if "memory" not in name:  # a cotangent of a value on the host is there too
        back = jt.make_jaxpr(lambda *xs: jt.vjp(jt.jaxpr_as_fun(program), *xs)[1](*xs))(X, Y)
        made.append((back, (X, Y)))
    for other, args in made:
        jt.typecheck_jaxpr(other)
        assert name.split()[0] in [e.primitive.name for e in other.eqns]
        args = args[: len(other.in_avals)]
        close(jt.eval_jaxpr(other, args), jax.jit(jaxpr_as_fun(to_jax(other)))(*args))
    jt.typecheck_jaxpr(unknown)


@pytest.mark.parametrize("name", CASES)
def test_where_jax_has_none_they_are_calls(name):
    """What stands for them in a release without them computes the same, in the same memories."""
    program = jt.from_jax(jax.make_jaxpr(CASES[name])(X, Y))
    eqns = [in_current_form(e, lambda _: False) for e in program.eqns]
    assert eqns[0].primitive is lax.jit_call.primitive
    plain = program.replace(jaxpr=program.jaxpr.replace(eqns=eqns))
    assert jt.typecheck_jaxpr(plain) == jt.typecheck_jaxpr(program)
    close(jt.eval_jaxpr(plain, [X, Y]), jt.eval_jaxpr(program, [X, Y]))
    close(jaxpr_as_fun(to_jax(plain))(X, Y), jt.eval_jaxpr(program, [X, Y]))


BODY = "{ lambda ; c:f32[3]. let d:f32[3] = sin c in (d,) }"
TEXT = f"""{{ lambda ; a:f32[3]. let
    b:f32[3] = compute_on[
      compute_type=gpu_stream:1
      jaxpr={BODY}
      out_memory_spaces=(MemorySpace.Device,)
    ] a
  in (b,) }}"""


def test_text_of_the_releases_to_0_10_0():
    program = jt.parse(TEXT)
    jt.typecheck_jaxpr(program)
    close(jt.eval_jaxpr(program, [X]), [np.sin(X)])


def test_attributes_of_other_releases():
    for given in (
        "scheduling_group=g",
        "ad_metadata=same xla_metadata=(('scheduling_group', 'g'),)",
    ):
        text = f"{{ lambda ; a:f32[3]. let b:f32[3] = xla_metadata_call[jaxpr={BODY} {given}] a in (b,) }}"
        program = jt.parse(text)
        jt.typecheck_jaxpr(program)
        outs = jax.jit(jaxpr_as_fun(to_jax(program)))(X)
        close(outs, [np.sin(X)])


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("(MemorySpace.Device,)", "()", "out_memory_spaces has 0 entries"),
        ("MemorySpace.Device", "MemorySpace.Moon", "MemorySpace.Moon is no memory space"),
        ("a:f32[3]. let", "a:f32[4]. let", "the jaxpr takes"),
        ("compute_type=gpu_stream:1", "", "needs the param compute_type"),
        ("compute_type=gpu_stream:1", "compute_type=device other=1", "has no param other"),
    ],
)
def test_misuse(old, new, why):
    with pytest.raises(jt.JaxprTypeError, match=why.replace("(", r"\(")):
        jt.typecheck_jaxpr(jt.parse(TEXT.replace(old, new)))
