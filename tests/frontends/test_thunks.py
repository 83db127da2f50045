"""Functions that JAX holds in params come back from a text: `custom_vjp` with `optimize_remat`, differentiated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.storage.output import program_text

X = jnp.linspace(0.5, 1.5, 3)


def function(forward):
    """sin(x) * y with a rule of its own, with `forward`, which changes nothing, in its forward rule."""

    @jax.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y

    def fwd(x, y):
        return forward(jnp.sin(x)) * y, (jnp.cos(x), y)

    f.defvjp(fwd, lambda res, ct: (3 * res[0] * ct, res[1] * ct), optimize_remat=True)
    return lambda x: f(x, x + 1).sum()


LOOKS = {
    "grad": lambda f: jax.grad(f),
    "rematerialised": lambda f: jax.grad(jax.checkpoint(f)),
    "batched": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2 * x])),
    "result alone": lambda f: lambda x: jax.vjp(f, x)[0],
}


@pytest.mark.parametrize(
    "forward", [lambda s: s, lambda s: s * np.ones(3, np.float32)], ids=["", "consts"]
)
@pytest.mark.parametrize("look", LOOKS)
def test_a_text_of_an_optimised_remat_is_a_function_of_jax(look, forward):
    f = LOOKS[look](function(forward))
    text = program_text({"": jt.from_jax(jax.make_jaxpr(f)(X))})
    again = jt.to_jax_function(jt.parse(text))
    want = np.asarray(f(X))
    np.testing.assert_allclose(jax.tree.leaves(jax.jit(again)(X))[0], want, rtol=1e-6)
    np.testing.assert_allclose(jax.tree.leaves(again(X))[0], want, rtol=1e-6)


def test_it_prints_as_it_did():
    text = str(jt.from_jax(jax.make_jaxpr(jax.grad(function(lambda s: s)))(X)))
    assert str(jt.from_jax(jt.to_jax(jt.parse(text)))) == text
