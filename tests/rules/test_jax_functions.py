"""Derivatives of JAX's own functions from texts that JAX has printed: those of JAX, at special points too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as sp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.linearize import vjp_jaxpr
from jaxprtool.interpreters.lost_rules import CustomRuleWarning

POINTS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 6.0, 7.0, 2.0], np.float32)
PAIRS = [a.ravel() for a in np.meshgrid(POINTS, POINTS)]
TALL = np.eye(4, 2, dtype=np.float32)  # both singular values are 1
LOW = np.ones((3, 3), np.float32)  # of rank 1
WELL = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
ROWS = np.zeros((4, 4), np.float32)  # what makes the last row of it equal to the first
ROWS[3] = WELL[3] - WELL[0]
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "jax.nn.relu": (jax.nn.relu, [POINTS]),
    "jax.nn.relu6": (jax.nn.relu6, [POINTS]),
    "jax.nn.log1mexp": (jax.nn.log1mexp, [POINTS]),
    "jax.numpy.logaddexp": (jnp.logaddexp, PAIRS),
    "jax.numpy.logaddexp of a number": (jax.nn.softplus, [POINTS]),
    "jax.numpy.logaddexp2": (jnp.logaddexp2, PAIRS),
    "jax.numpy.i0": (jnp.i0, [POINTS]),
    "jax.numpy.frexp": (lambda x: jnp.frexp(x)[0], [POINTS]),
    "jax.numpy.frexp in ldexp": (lambda x: jnp.ldexp(x, 3), [POINTS]),
    "jax.numpy.linalg.pinv": (jnp.linalg.pinv, [TALL]),
    "jax.numpy.linalg.pinv of a wide matrix": (jnp.linalg.pinv, [TALL.T]),
    "jax.numpy.linalg.pinv of a low rank": (jnp.linalg.pinv, [LOW]),
    "jax.numpy.linalg.det": (jnp.linalg.det, [WELL]),
    "jax.numpy.linalg.det of rank n - 1": (jnp.linalg.det, [WELL - ROWS]),
    "jax.numpy.linalg.det of rank n - 2": (
        jnp.linalg.det,
        [np.diag(np.array([1, 2, 0, 0], np.float32))],
    ),
    "jax.numpy.linalg.det of one number": (jnp.linalg.det, [np.zeros((1, 1), np.float32)]),
    "jax.numpy.linalg.slogdet": (lambda a: jnp.linalg.slogdet(a)[1], [WELL]),
    "jax.scipy.special.xlogy": (sp.xlogy, PAIRS),
    "jax.scipy.special.xlog1py": (sp.xlog1py, PAIRS),
    "jax.scipy.special.entr": (sp.entr, [POINTS]),
    "jax.scipy.special.logit": (sp.logit, [POINTS]),
    "jax.scipy.special.log_ndtr": (sp.log_ndtr, [POINTS]),
}
cases = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Divisions by zero are meant; JAX runs NumPy in a rule, too."""
    with np.errstate(all="ignore"):
        yield


def read(f: Callable[..., Any], args: list[Any]) -> jt.ClosedJaxpr:
    return jt.parse(str(jax.make_jaxpr(f)(*args)))


def close(got: list[Any], want: Any) -> None:
    for a, b in zip(got, jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@cases
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_a_forward_derivative_is_that_of_jax_and_no_larger(name: str, batched: bool) -> None:
    f, args = FUNCTIONS[name]
    if batched:
        f, args = jax.vmap(f), [np.stack([a, a]) for a in args]
    tangents = [np.full_like(a, 0.75) for a in args]
    with pytest.warns(CustomRuleWarning, match=f"that of {name.split()[0]} is taken"):
        made, _ = jt.jvp_jaxpr(read(f, args))
    theirs = jax.make_jaxpr(lambda x, t: jax.jvp(f, tuple(x), tuple(t)))(args, tangents)
    got = jt.eval_jaxpr(made, [*args, *tangents])
    close(got, jax.jvp(f, tuple(args), tuple(tangents)))
    assert len(str(made).splitlines()) <= len(str(theirs).splitlines())


@cases
@pytest.mark.filterwarnings("ignore::jaxprtool.interpreters.lost_rules.CustomRuleWarning")
def test_a_gradient_is_that_of_jax(name: str) -> None:
    f, args = FUNCTIONS[name]
    outs, pull = jax.vjp(f, *args)
    ct = np.linspace(0.5, 1.5, outs.size, dtype=np.float32).reshape(outs.shape)
    got = jt.eval_jaxpr(vjp_jaxpr(read(f, args)), [*args, ct])
    close(got[1:], pull(ct))


@cases
@pytest.mark.filterwarnings("ignore::jaxprtool.interpreters.lost_rules.CustomRuleWarning")
def test_a_derivative_through_jax_is_that_of_jax(name: str) -> None:
    """Of the function that JAX gets of a text too."""
    f, args = FUNCTIONS[name]
    g = jt.to_jax_function(read(f, args))
    ones = tuple(map(np.ones_like, args))
    got = jax.jvp(lambda *xs: g(*xs)[0], tuple(args), ones)
    close(list(got), jax.jvp(f, tuple(args), ones))


@pytest.mark.filterwarnings("ignore::jaxprtool.interpreters.lost_rules.CustomRuleWarning")
def test_second_derivatives_use_the_rule_again() -> None:
    f = lambda x: jax.nn.relu(x) ** 2 + jax.nn.softplus(x)
    x = np.array([0.0, 1.0, -2.0], np.float32)
    once, _ = jt.jvp_jaxpr(read(f, [x]))
    twice, _ = jt.jvp_jaxpr(once)
    one, zero = np.ones_like(x), np.zeros_like(x)
    got = jt.eval_jaxpr(twice, [x, one, one, zero])[-1]
    slope = lambda x: jax.jvp(f, (x,), (one,))[1]
    np.testing.assert_allclose(got, jax.jvp(slope, (x,), (one,))[1], rtol=1e-5)


RELU = """{ lambda ; a:f32[]. let
    b:f32[] = custom_jvp_call[
      name=relu
      call_jaxpr={ lambda ; c:f32[]. let d:f32[] = max c 0.0:f32[] in (d,) }
      jvp=jvp
      symbolic_zeros=False
    ] a
  in (b,) }
"""
OF_0_3_25 = """{ lambda ; a:f32[]. let
    b:f32[] = custom_jvp_call[
      call_jaxpr={ lambda ; c:f32[]. let
          d:f32[] = xla_call[
            call_jaxpr={ lambda ; e:f32[]. let f:f32[] = max e 0.0 in (f,) }
            name=relu
          ] c
        in (d,) }
      jvp_jaxpr_thunk=<function _memoize.<locals>.memoized at 0x7fdb5f323820>
      num_consts=0
    ] a
  in (b,) }
"""
# releases before 0.6.1 print no names of custom calls
XLOGY_OF_0_4_28 = """{ lambda ; a:f32[2] b:f32[2]. let
    c:f32[2] = custom_jvp_call[
      call_jaxpr={ lambda ; d:f32[2] e:f32[2]. let
          f:bool[2] = ne d 0.0
          g:f32[2] = log e
          h:f32[2] = mul d g
          i:f32[2] = broadcast_in_dim[broadcast_dimensions=() shape=(2,)] 0.0
          j:f32[2] = pjit[
            name=_where
            jaxpr={ lambda ; k:bool[2] l:f32[2] m:f32[2]. let
                n:f32[2] = select_n k m l
              in (n,) }
          ] f h i
        in (j,) }
      jvp_jaxpr_thunk=<function _memoize.<locals>.memoized at 0x7f2a>
      num_consts=0
      symbolic_zeros=False
    ] a b
  in (c,) }
"""
I0_OF_0_12 = """{ lambda ; a:f32[]. let
    b:f32[] = custom_jvp_call[
      name=i0_impl
      call_jaxpr={ lambda ; c:f32[]. let
          d:f32[] = abs c
          e:f32[] = exp d
          f:f32[] = bessel_i0e d
          g:f32[] = mul e f
        in (g,) }
      jvp=i0_impl_jvp
      symbolic_zeros=False
    ] a
  in (b,) }
"""
OTHERS = {
    "another name": RELU.replace("relu", "ramp"),
    "another rule": RELU.replace("jvp=jvp", "jvp=straight_through"),
    "another body": RELU.replace("max c 0.0:f32[]", "tanh c"),
}


@pytest.mark.parametrize("text", [RELU, OF_0_3_25], ids=["named", "0.3.25"])
def test_the_function_of_jax_is_known_in_every_release(text: str) -> None:
    with pytest.warns(CustomRuleWarning, match=r"jax\.nn\.relu is taken"):
        made, _ = jt.jvp_jaxpr(jt.parse(text))
    assert jt.eval_jaxpr(made, [np.float32(0), np.float32(1)])[1] == 0


def test_functions_without_names_are_known_by_their_operations() -> None:
    with pytest.warns(CustomRuleWarning, match=r"jax\.scipy\.special\.xlogy is taken"):
        made, _ = jt.jvp_jaxpr(jt.parse(XLOGY_OF_0_4_28))
    x, y = np.zeros(2, np.float32), np.array([0.0, 2.0], np.float32)
    got = jt.eval_jaxpr(made, [x, y, np.ones_like(x), np.ones_like(y)])
    close(got, jax.jvp(sp.xlogy, (x, y), (np.ones_like(x), np.ones_like(y))))


def test_other_names_of_later_releases() -> None:
    with pytest.warns(CustomRuleWarning, match=r"jax\.numpy\.i0 is taken"):
        made, _ = jt.jvp_jaxpr(jt.parse(I0_OF_0_12))
    assert jt.eval_jaxpr(made, [np.float32(0), np.float32(1)])[1] == 0


@pytest.mark.parametrize("which", OTHERS)
def test_the_body_of_another_function_is_differentiated(which: str) -> None:
    with pytest.warns(CustomRuleWarning, match="its body is differentiated instead"):
        jt.jvp_jaxpr(jt.parse(OTHERS[which]))


def test_a_rule_that_the_program_holds_comes_first() -> None:
    @jax.custom_jvp
    def relu(x: Any) -> Any:
        return jnp.maximum(x, 0)

    relu.defjvps(lambda g, ans, x: 3 * g)
    program = jt.from_jax(jax.make_jaxpr(relu)(0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CustomRuleWarning)
        made, _ = jt.jvp_jaxpr(program)
    assert jt.eval_jaxpr(made, [np.float32(0), np.float32(1)])[1] == 3
