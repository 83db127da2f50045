"""Our transformations of Python functions take what JAX's take: keyword and static arguments, pairs with aux, complex numbers.

Each case is computed by both libraries, of a function that is written with operators, and of one that is written with JAX.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr

X, Y = np.array([0.5, 1.5, -2.0], np.float32), np.float32(1.25)
Z = np.array([0.5 + 1j, 1.5, -2.0j], np.complex64)


def same(ours: Any, theirs: Any) -> None:
    """The same tree, with leaves of the same types and values."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def scalar(x, y, *, scale=1.0):
    return x[0] * x[1] * y * scale


def scalar_of_jax(x, y, *, scale=1.0):
    return jnp.sum(jnp.sin(x) * y) * scale


def with_aux(x, y, *, scale=1.0):
    value = x[0] * x[1] * y
    return value, {"half": value * 0.5, "x": x, "scale": y * scale}


def with_aux_of_jax(x, y, *, scale=1.0):
    z = jnp.sin(x) * y
    return jnp.sum(z), {"z": z, "scale": y * scale}


def aux_without_derivative(x, y):
    """Were the aux differentiated, its infinite derivative would make the gradient NaN."""
    return x[0] * y, jnp.sqrt(x - x)


def vector(x, y, *, scale=1.0):
    return {"a": x * x * y, "b": x[0] * scale}


def vector_with_aux(x, y, *, scale=1.0):
    return {"a": x * x * y, "b": x[0] * scale}, {"y": y, "x": x}


ARGNUMS = [0, 1, -1, (0, 1), (1,)]
GRADIENTS = ["grad", "value_and_grad"]
JACOBIANS = ["jacfwd", "jacrev", "hessian"]


@pytest.mark.parametrize("argnums", ARGNUMS, ids=str)
@pytest.mark.parametrize("f", [with_aux, with_aux_of_jax, aux_without_derivative])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_beside_aux(name, f, argnums):
    same(getattr(jt, name)(f, argnums, has_aux=True)(X, Y), getattr(jax, name)(f, argnums, has_aux=True)(X, Y))  # fmt: skip


@pytest.mark.parametrize("argnums", ARGNUMS, ids=str)
@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_beside_aux(name, argnums):
    made = [getattr(lib, name)(vector_with_aux, argnums, has_aux=True)(X, Y) for lib in (jt, jax)]
    same(*made)


@pytest.mark.parametrize("f", [with_aux, with_aux_of_jax, aux_without_derivative])
def test_pushed_and_pulled_beside_aux(f):
    tangents = (np.ones_like(X), np.float32(2))
    same(jt.jvp(f, (X, Y), tangents, has_aux=True), jax.jvp(f, (X, Y), tangents, has_aux=True))
    for name, given in (("vjp", (np.float32(3),)), ("linearize", tangents)):
        value, linear, aux = getattr(jt, name)(f, X, Y, has_aux=True)
        value_of_jax, linear_of_jax, aux_of_jax = getattr(jax, name)(f, X, Y, has_aux=True)
        same((value, aux), (value_of_jax, aux_of_jax))
        same(linear(*given), linear_of_jax(*given))


@pytest.mark.parametrize("f", [with_aux, with_aux_of_jax])
def test_aux_under_other_transformations(f):
    of = lambda lib: lib.vmap(lib.grad(f, has_aux=True), in_axes=(0, None))
    batch = np.stack([X, X * 2])
    same(of(jt)(batch, Y), of(jax)(batch, Y))
    second = lambda lib: lib.grad(lambda x, y: lib.grad(f, 1, has_aux=True)(x, y)[0], has_aux=False)
    same(second(jt)(X, Y), second(jax)(X, Y))
    same(jt.jit(jt.grad(f, has_aux=True))(X, Y), jax.jit(jax.grad(f, has_aux=True))(X, Y))


@pytest.mark.parametrize("verb", ["grad", "jacfwd", "jacrev", "hessian"])
@pytest.mark.parametrize("result", [lambda x: x, lambda x: (x, x, x), lambda x: ()])
def test_a_function_with_aux_returns_a_pair(verb, result):
    with pytest.raises(jt.UsageError, match="no-aux"):
        getattr(jt, verb)(result, has_aux=True)(1.0)


@pytest.mark.parametrize("f", [scalar, scalar_of_jax])
@pytest.mark.parametrize("name", GRADIENTS + JACOBIANS)
def test_keyword_arguments_are_not_differentiated(name, f):
    of = lambda lib: getattr(lib, name)(f, (0, 1))(X, Y, scale=np.float32(3))
    same(of(jt), of(jax))


def test_keyword_arguments_may_be_of_any_kind():
    f = lambda x, mode: x * x if mode == "square" else x
    assert jt.grad(f)(3.0, mode="square") == 6 and jt.grad(f)(3.0, mode="same") == 1


@pytest.mark.parametrize("f", [scalar, scalar_of_jax])
def test_keyword_arguments_are_mapped_along_the_first_axis(f):
    batch, scales = np.stack([X, X * 2]), np.array([1, 3], np.float32)
    of = lambda lib: lib.vmap(f, in_axes=(0, None))(batch, Y, scale=scales)
    same(of(jt), of(jax))
    with pytest.raises(jt.UsageError, match="axis-size"):
        jt.vmap(f, in_axes=(0, None))(batch, Y, scale=np.ones(3, np.float32))


@pytest.mark.parametrize("f", [scalar, scalar_of_jax])
@pytest.mark.parametrize("name", ["jit", "checkpoint"])
def test_keyword_arguments_are_traced(name, f):
    of = lambda lib: getattr(lib, name)(f)(X, Y, scale=np.float32(3))
    same(of(jt), of(jax))
    by = lambda lib: lambda x, y, s: getattr(lib, name)(f)(x, y, scale=s)
    same(jt.grad(by(jt), (0, 2))(X, Y, Y), jax.grad(by(jax), (0, 2))(X, Y, Y))


def test_keyword_arguments_come_last_in_a_program():
    f = lambda x, *, b, a: x * b + a
    for program in (jt.make_jaxpr(f)(Y, b=X, a=Y), jt.trace(f, Y, b=X, a=Y)):
        assert [str(v.aval) for v in program.jaxpr.in_binders] == ["f32[]", "f32[]", "f32[3]"]
        assert program.interface is not None
        assert [name for name, _ in program.interface.args] == ["x", "a", "b"]
    theirs = jax.make_jaxpr(f)(Y, b=X, a=Y)
    assert [v.aval.shape for v in theirs.jaxpr.invars] == [(), (), (3,)]


def test_a_keyword_is_no_position():
    """A call by keyword is another call than one by position, also for what is kept of `jit`."""
    f = jt.jit(lambda x, y=2.0, z=3.0: x + 10 * y + 100 * z)
    assert [f(1.0, 5.0), f(1.0, z=5.0), f(1.0, y=5.0)] == [351, 521, 351]


# -- static arguments ----------------------------------------------------------------------------------


def power(x, n=2, *, negate=False):
    return -(x**n) if negate else x**n


STATIC: dict[str, tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]] = {
    "position": ({"static_argnums": 1}, (X, 3), {}),
    "negative position": ({"static_argnums": -1}, (X, 3), {}),
    "default": ({"static_argnums": 1}, (X,), {}),
    "position by name": ({"static_argnums": 1}, (X,), {"n": 3}),
    "name": ({"static_argnames": "n"}, (X,), {"n": 3}),
    "name by position": ({"static_argnames": "n"}, (X, 3), {}),
    "names": ({"static_argnames": ["n", "negate"]}, (X,), {"negate": True}),
    "both": ({"static_argnums": 1, "static_argnames": "negate"}, (X, 3), {"negate": True}),
}


@pytest.mark.parametrize("name", STATIC)
def test_static_arguments_of_jit(name):
    options, args, keywords = STATIC[name]
    same(jt.jit(power, **options)(*args, **keywords), jax.jit(power, **options)(*args, **keywords))


def test_static_arguments_that_are_equal_and_not_the_same():
    f = lambda x, n: x * n
    ours, theirs = jt.jit(f, static_argnums=1), jax.jit(f, static_argnums=1)
    x = np.arange(3, dtype=np.float32)
    for n in (2, True, 2.0, 1, 1j, 1.0, 2j, np.float32(1)):
        same(ours(x, n), theirs(x, n))
    of_integers = jt.jit(f, static_argnums=1)
    assert [of_integers(np.arange(2), n).dtype for n in (1, 1.0, True)] == ["i8", "f8", "i8"]


def test_static_arguments_of_other_functions():
    same(jt.checkpoint(power, static_argnums=1)(X, 3), X**3)
    assert str(jt.make_jaxpr(power, static_argnums=1)(X, 3)) == str(jt.make_jaxpr(lambda x: x**3)(X))  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"static_argnums": 2}, "static_argnums has 2, and power takes 2 arguments"),
        ({"static_argnums": -3}, "static_argnums has -3"),
        ({"static_argnames": "negat"}, "no such parameter.*\n.*did you mean negate"),
        ({"static_argnames": ["n", "m"]}, "static_argnames has 'm'"),
        ({"static_argnums": "n"}, "static_argnums is 'n', and positions"),
        ({"static_argnames": 1}, "static_argnames is 1, and names"),
        ({"static_argnames": ["n", 0]}, "and names of arguments are needed"),
    ],
)
def test_static_arguments_that_are_not_there(options, words):
    with pytest.raises(jt.UsageError, match=words):
        jt.jit(power, **options)


def test_static_arguments_are_hashable():
    with pytest.raises(jt.UsageError, match="n of power is static, and list is not hashable"):
        jt.jit(power, static_argnames="n")(X, n=[3])


# -- complex numbers and integers ----------------------------------------------------------------------

HOLOMORPHIC = [lambda z: z * z * 2, lambda z: jnp.sin(z) * z, lambda z: 1 / z[1:] + z[0]]


@pytest.mark.parametrize("f", HOLOMORPHIC)
@pytest.mark.parametrize("name", JACOBIANS)
def test_holomorphic_jacobians(name, f):
    z = Z + 1
    same(getattr(jt, name)(f, holomorphic=True)(z), getattr(jax, name)(f, holomorphic=True)(z))


@pytest.mark.parametrize("f", HOLOMORPHIC)
def test_holomorphic_gradients(f):
    first, z = lambda z: f(z)[0], Z + 1
    same(jt.grad(first, holomorphic=True)(z), jax.grad(first, holomorphic=True)(z))


@pytest.mark.parametrize("f", [lambda z: abs(z[0]) * 2, lambda z: jnp.sum(jnp.abs(z) ** 3)])
def test_gradients_by_complex_arguments(f):
    """They are df/dx - i df/dy, as JAX's, of programs too."""
    same(jt.grad(f)(Z), jax.grad(f)(Z))
    same(jt.jacrev(f)(Z), jax.jacrev(f)(Z))
    program = jt.from_jax(jax.make_jaxpr(f)(Z))
    same(jt.eval_jaxpr(grad_jaxpr(program), [Z])[0], jax.grad(f)(Z))


@pytest.mark.parametrize(
    ("name", "options", "f", "x"),
    [
        ("jacfwd", {}, lambda z: z * z, Z),
        ("jacfwd", {}, lambda x: x * 2.0, np.arange(3)),
        ("jacfwd", {"holomorphic": True}, lambda x: x * x, X),
        ("jacfwd", {"holomorphic": True}, abs, Z),
        ("jacrev", {}, lambda z: z * z, Z),
        ("jacrev", {}, lambda x: x * 1j, X),
        ("jacrev", {}, lambda x: x > 1, X),
        ("jacrev", {}, lambda x: x * 2.0, np.arange(3)),
        ("jacrev", {"holomorphic": True}, lambda x: x * x, X),
        ("jacrev", {"holomorphic": True}, abs, Z),
        ("hessian", {}, lambda z: z * z, Z),
        ("hessian", {}, lambda x: x * 1j, X),
        ("grad", {}, lambda z: z[0] * z[1], Z),
        ("grad", {}, lambda x: x[0] * 1j, X),
        ("grad", {}, lambda x: x[0] * 2.0, np.arange(3)),
        ("grad", {"holomorphic": True}, lambda x: x[0], X),
        ("grad", {"holomorphic": True}, lambda z: abs(z[0]), Z),
    ],
)
def test_types_that_have_no_derivative_of_this_kind(name, options, f, x):
    """Half of the derivative of such a function, or float0, would come without a word."""
    with pytest.raises(TypeError):
        getattr(jax, name)(f, **options)(x)
    with pytest.raises(jt.UsageError, match=r"grad-input|grad-output"):
        getattr(jt, name)(f, **options)(x)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_integers_are_float0(name):
    f = lambda n, x: n[0] * x
    n = np.arange(3, dtype=np.int8)
    of = lambda lib: getattr(lib, name)(f, (0, 1), allow_int=True)(n, np.float32(2))
    same(of(jt), of(jax))


PROGRAM = jt.parse(
    "{ lambda a:f32[]; b:f32[]. let c:f32[] = mul a b; d:f32[] = sin c in (d,) } where a = 2.0"
)


def test_a_program_is_applied_in_what_is_transformed():
    whole = lambda b: jt.eval_jaxpr(PROGRAM, [b])[0]
    opened = lambda a, b: jt.eval_jaxpr(PROGRAM.jaxpr, [a, b])[0]
    same(jt.grad(whole)(Y), jax.grad(lambda b: jnp.sin(2 * b))(Y))
    same(jt.grad(opened)(np.float32(2), Y), jax.grad(lambda a: jnp.sin(a * Y))(np.float32(2)))
    same(jt.vmap(whole)(X), np.sin(2 * X))
    assert [e.primitive.name for e in jt.make_jaxpr(whole)(Y).eqns] == ["mul", "sin"]
    with pytest.raises(jt.UsageError, match="a value that is traced, of type f32"):
        jt.grad(lambda b: jt.run(PROGRAM, b, jit=True)[0])(Y)


# -- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grad", "vmap", "jacrev", "checkpoint"])
def test_what_is_made_of_a_function_has_its_name(name):
    made = getattr(jt, name)(power)
    assert made.__name__ == "power"
    with jax.enable_x64(True):
        text = str(jt.make_jaxpr(jt.jit(made))(X if name != "grad" else Y))
    assert "name=power" in text


def test_arguments_have_the_names_of_the_function():
    with pytest.raises(jt.UsageError, match="argument w of loss is"):
        jt.grad(jt.vmap(_loss))(np.arange(2), np.ones(2))


def _loss(w, x):
    return w * x


_loss.__name__ = "loss"


# -- loops ---------------------------------------------------------------------------------------------

LOOPS = {
    "scan of JAX": lambda lib: lib.scan(lambda c, x: (c + jnp.sin(x), jnp.cos(c)), Y, X),
    "length of NumPy": lambda lib: lib.scan(lambda c, _: (c * 2, c), Y, None, length=np.int64(3)),
    "fori_loop of JAX": lambda lib: lib.fori_loop(0, 3, lambda i, c: jnp.sin(c) * i, Y),
    "fori_loop unrolled": lambda lib: lib.fori_loop(0, 5, lambda i, c: c * 2, Y, unroll=2),
    "bounds of NumPy": lambda lib: lib.fori_loop(np.int8(0), 300, lambda i, c: c + 1, Y),
    "while_loop of JAX": lambda lib: lib.while_loop(lambda c: c < 9, lambda c: jnp.exp(c) + c, Y),
    "axes of NumPy": lambda lib: lib.vmap(lambda x: x * 2, np.int32(1), np.int64(-1))(X[None]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    class OfJax:
        scan, fori_loop, while_loop = jax.lax.scan, jax.lax.fori_loop, jax.lax.while_loop
        vmap = staticmethod(lambda f, i, o: jax.vmap(f, int(i), int(o)))

    same(LOOPS[name](jt), LOOPS[name](OfJax))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jt.scan(lambda c, x: c, Y, X), "a step returns a pair"),
        (lambda: jt.scan(lambda c, x: (c, x, x), Y, X), "a step returns a pair"),
        (lambda: jt.cond(None, lambda x: x, lambda x: x, Y), "the predicate of cond is None"),
        (lambda: jt.vmap(lambda x: x, in_axes=True)(X), "vmap axis True"),
        (lambda: jt.vmap(lambda x: x, axis_size=4)(X), "f32.3. along 0, axis_size=4"),
        (
            lambda: jt.make_jaxpr(lambda a, b: jt.fori_loop(a, b, lambda i, c: c, 0.0))(1, Y),
            "the bounds are i64.. and f32.., and have to be of one type",
        ),
    ],
)
def test_loops_that_are_refused(call, words):
    with pytest.raises(jt.UsageError, match=words):
        call()


SUM_OF_SINES = jt.parse(
    "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[] = reduce_sum[axes=(0,)] b in (c,) }"
)


@pytest.mark.parametrize(
    "apply",
    [
        lambda f: jt.jit(f)(X),
        lambda f: jt.vmap(f)(X),
        lambda f: jt.grad(f)(X),
        lambda f: jt.jvp(f, (X,), (X,)),
        lambda f: jt.vjp(f, X),
        lambda f: jt.linearize(f, X),
        lambda f: jt.jacfwd(f)(X),
        lambda f: jt.hessian(f)(X),
        lambda f: jt.checkpoint(f)(X),
        lambda f: jt.make_jaxpr(f)(X),
        lambda f: jt.scan(f, X, X),
        lambda f: jt.cond(True, f, f, X),
    ],
)
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (SUM_OF_SINES, "jaxpr_as_fun"),
        (SUM_OF_SINES.jaxpr, "jaxpr_as_fun"),
        (3, "not 3 of type int"),
    ],
)
def test_what_is_no_function_is_named(apply, function, said):
    with pytest.raises(jt.UsageError, match=r"(?s)function is needed.*" + said):
        apply(function)


def test_a_program_as_a_function_has_its_gradient():
    same(jt.grad(jt.jaxpr_as_fun(SUM_OF_SINES))(X), jax.grad(lambda x: jnp.sum(jnp.sin(x)))(X))
