"""A library's primitive that a plug-in declares, met in a live program: kept, and under every column what JAX makes of it.

JAX with the library's own rules is the oracle.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax import to_jax
from jaxprtool.driver.user_code.entry_points import BUILT_IN
from jaxprtool.ir.walk import all_eqns
from tests.plugins.libraries import META, primitives

P = primitives()
RNG = np.random.default_rng(0)
X, Y, W = (RNG.standard_normal(3).astype(np.float32) for _ in range(3))
T, F, I = np.bool_(True), np.bool_(False), np.int32(1)


def _said(name: str) -> None:
    """What a program announces."""


LAYER, LOSS = META()
PLACE = {"i_static": None, "i_treedef": jax.tree.structure(0), "kwargs": ()}
ANNOUNCED = {"stack": (), "name": "here", "intermediates": False, "announce": _said}


def placed(false_steps: bool, n: int = 1) -> Callable[..., Any]:
    def f(p: Any, xs: Any, x: Any, *i: Any) -> Any:
        tree = jax.tree.structure(0 if n == 1 else (0,) * n)
        params = {**PLACE, "i_treedef": tree, "makes_false_steps": false_steps}
        return P.maybe_set.bind(p, jnp.multiply(xs, xs), x * 2, *i, **params)[0] * 3

    return f


# name: the function, its arguments, and which of them may differ from example to example
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[bool, ...]]] = {
    "select_if_vmap": (
        lambda p, x, y: P.select_if_vmap.bind(p, jnp.sin(x), y * x),
        (F, X, Y),
        (True, True, True),
    ),
    "unvmap_any": (lambda x: jnp.where(P.unvmap_any.bind(x > 0.5), x, 2 * x), (X,), (True,)),
    "unvmap_all": (lambda x: jnp.where(P.unvmap_all.bind(x > -0.5), x, 2 * x), (X,), (True,)),
    "unvmap_max": (lambda i, x: P.unvmap_max.bind(i) + i + x, (I, X), (True, True)),
    "nonbatchable": (
        lambda p, x: jnp.where(
            P.nonbatchable.bind(p, msg="not constant", allow_constant_across_batch=True), x, -x
        ),
        (F, X),
        (False, True),
    ),
    "nonbatchable refused": (
        lambda i: P.nonbatchable.bind(i, msg="no: not this", allow_constant_across_batch=False),
        (I,),
        (True,),
    ),
    "nondifferentiable_backward": (
        lambda x: P.nondifferentiable_backward.bind(2 * x, msg="no [a=b] {c}", symbolic=True),
        (X,),
        (True,),
    ),
    "nondifferentiable_backward of zeros": (
        lambda x: (
            P.nondifferentiable_backward.bind(2 * x, msg="no cotangent", symbolic=False) * 0.0 + x
        ),
        (X,),
        (True,),
    ),
    "nontraceable": (lambda x: P.nontraceable.bind(x, name="a thing of two words"), (X,), (True,)),
    "announce_jaxpr": (lambda x: P.announce_jaxpr.bind(x * 2, **ANNOUNCED), (X,), (True,)),
    "maybe_set": (placed(False), (T, X, np.float32(9), I), (True,) * 4),
    "maybe_set with false steps": (placed(True), (F, X, np.float32(9), I), (True,) * 4),
    "maybe_set of rows": (placed(False), (T, np.stack([X, Y]), W, I), (True,) * 4),
    "maybe_set at two indices": (
        placed(False, 2),
        (T, np.stack([X, Y]), np.float32(9), I, I),
        (True,) * 5,
    ),
    "maybe_set of integers": (placed(True), (F, np.int32([1, 2, 3]), np.int32(9), I), (True,) * 4),
    "layer_tag": (lambda x, w: P.layer_tag.bind(x * w, x, w, meta=LAYER), (X, W), (True,) * 2),
    "loss_tag": (lambda t, x: P.loss_tag.bind(t, jnp.sin(x), meta=LOSS), (Y, X), (True,) * 2),
}

# kfac_jax says of the results of a loss that they are batched as the first operand is, whichever they are.
TOGETHER = {"loss_tag"}


def differs(x: np.ndarray, free: bool) -> np.ndarray:
    """Three examples of an argument; different ones if it is free."""
    if not free:
        return np.stack([x] * 3)
    if x.dtype == bool:
        return np.stack([x, ~x, x])
    return np.stack([x, (x + 1).astype(x.dtype), x])


def same(ours: Any, theirs: Any) -> None:
    leaves = jax.tree.leaves(theirs)
    assert len(ours) == len(leaves)
    for a, b in zip(ours, leaves, strict=True):
        a = np.asarray(a)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def plain(text: str) -> str:
    """A text without quotes and layout."""
    return "".join(text.replace("'", "").split())


def agree(ours: Callable[[], Any], theirs: Callable[[], Any], *, through_jax: bool = False) -> None:
    """The same values; and an error of ours where the library's rule fails (the library's own `through_jax`)."""
    try:
        wanted = theirs()
    except Exception as e:  # the library's own, of any class
        try:
            ours()
        except jt.JaxprToolError:
            return
        except Exception as mine:
            assert type(mine) is type(e) and through_jax, mine
            return
        raise AssertionError(f"ours gives values where the library's rule fails: {e}") from e
    same(ours(), wanted)


def programs(name: str) -> dict[str, Any]:
    """The program of a case as each front end gives it."""
    f, args, _ = CASES[name]
    live = jt.from_jax(jax.make_jaxpr(f)(*args))
    return {
        "from_jax": live,
        "trace": jt.trace(f, *args),
        "text": jt.parse(jt.format_jaxpr(jt.trace(f, *args), lossless=True)),
        "to_jax and back": jt.from_jax(jt.to_jax(live)),
    }


HOW = ("from_jax", "trace", "text", "to_jax and back")


def test_every_primitive_of_the_plug_ins_has_a_case() -> None:
    """linear_solve is none of them: its text does not hold all that a solver does, and it is written out.

    Those of jax.experimental.sparse have theirs in tests/plugins/test_sparse.py, tags of which no living kfac_jax has
    any in tests/plugins/test_kfac.py, and `vprim`, which equinox makes of others under vmap, in tests/plugins/test_equinox.py, as has `branched_error`, which only
    equinox 0.10 has.
    """
    built_in = {k: names for k, names in BUILT_IN.items() if not k.endswith("kfac_earlier")}
    names = {name for named in built_in.values() for name in named} - {
        "branched_error",
        "linear_solve",
        "vprim",
    }
    names = {name for name in names if not re.match("b?(coo|csr)_|spsolve", name)}
    assert names == {name.split()[0] for name in CASES}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", CASES)
class TestKept:
    def test_it_is_printed_as_jax_prints_it(self, name, how):
        f, args, _ = CASES[name]
        program = programs(name)[how]
        jt.typecheck_jaxpr(program)
        eqn = next(e for e in all_eqns(program.jaxpr) if e.primitive.name == name.split()[0])
        assert eqn.primitive.known
        if how in ("from_jax", "trace"):
            theirs = str(jax.make_jaxpr(f)(*args))
            assert str(program) == theirs or "'" in str(
                program
            )  # a string whose end has to be said
            assert plain(str(program)) == plain(theirs)

    def test_values(self, name, how):
        f, args, _ = CASES[name]
        program = programs(name)[how]
        same(jt.eval_jaxpr(program, args), f(*args))
        same(jt.compile(program)(*args), f(*args))

    def test_vmap(self, name, how):
        f, args, free = CASES[name]
        g = jt.jaxpr_as_fun(programs(name)[how])
        batches = [differs(x, on) for x, on in zip(args, free, strict=True)]
        for dims in itertools.product((None, 0), repeat=len(args)):
            if set(dims) != {None} and (name not in TOGETHER or None not in dims):
                given = [x if d is None else b for x, b, d in zip(args, batches, dims, strict=True)]
                agree(
                    lambda d=dims, g_=given: jt.vmap(g, d)(*g_),
                    lambda d=dims, g_=given: jax.vmap(f, d)(*g_),
                )

    def test_vmap_of_vmap(self, name, how):
        """Of each argument inside, and of each outside: the same one twice, too."""
        g = jt.jaxpr_as_fun(programs(name)[how])
        args = CASES[name][1]
        one = [tuple(0 if i == k else None for i in range(len(args))) for k in range(len(args))]
        for inner, outer in itertools.product(one, one) if name not in TOGETHER else ():
            twice(name, g, inner, outer)

    def test_derivatives(self, name, how):
        f, args, _ = CASES[name]
        derivatives(jt.jaxpr_as_fun(programs(name)[how]), f, args)


def twice(name: str, g: Callable[..., Any], inner: Any, outer: Any) -> None:
    """vmap of vmap of a function of ours, beside JAX's."""
    f, args, free = CASES[name]
    given = []
    for x, on, *dims in zip(args, free, inner, outer, strict=True):
        for d in dims:
            x = x if d is None else differs(x, on) if x.ndim < 2 else np.stack([x] * 3)
        given.append(x)
    agree(
        lambda: jt.vmap(jt.vmap(g, inner), outer)(*given),
        lambda: jax.vmap(jax.vmap(f, inner), outer)(*given),
    )


def derivatives(g: Callable[..., Any], f: Callable[..., Any], args: Any, ours: Any = jt) -> None:
    """jvp and vjp of a function of ours, beside JAX's of `f`; each alone and under vmap, on both sides of it."""
    at = [i for i, x in enumerate(args) if x.dtype == np.float32]
    given = [args[i] for i in at]
    moved = [np.full_like(x, 0.5 + i) for i, x in enumerate(given)]

    def of_floats(call: Any) -> Any:
        def h(*xs: Any) -> Any:
            full = [*args]
            for i, x in zip(at, xs, strict=True):
                full[i] = x
            return tuple(jax.tree.leaves(call(*full)))

        return h

    mine, theirs = of_floats(g), of_floats(f)
    outs = jax.eval_shape(theirs, *given)
    if any(x.dtype != np.float32 for x in outs):
        return
    cts = tuple(np.full(x.shape, 0.25 + i, x.dtype) for i, x in enumerate(outs))

    def jvp(lib: Any, h: Any) -> Any:
        return lambda *xs: jax.tree.leaves(lib.jvp(h, xs, tuple(moved)))

    def vjp(lib: Any, h: Any) -> Any:
        def of(*xs: Any) -> Any:
            _, back = lib.vjp(h, *xs)
            return [*back(cts)]

        return of

    def over_batch(lib: Any, h: Any) -> Any:
        return lambda *xs: sum(x.sum() for x in lib.vmap(h)(*xs))

    several = [np.stack([x, x + 1]) for x in given]
    for transform in (jvp, vjp):
        agree(
            lambda t=transform: t(ours, mine)(*given),
            lambda t=transform: t(jax, theirs)(*given),
            through_jax=ours is jax,
        )
        agree(
            lambda t=transform: ours.vmap(t(ours, mine))(*several),
            lambda t=transform: jax.vmap(t(jax, theirs))(*several),
            through_jax=ours is jax,
        )
    every = tuple(range(len(given)))
    agree(
        lambda: ours.grad(over_batch(ours, mine), every)(*several),
        lambda: jax.grad(over_batch(jax, theirs), every)(*several),
        through_jax=ours is jax,
    )


@pytest.mark.parametrize("which", ["the library's", "a stand-in"])
@pytest.mark.parametrize("name", CASES)
class TestThroughJax:
    """What `to_jax` makes, under JAX's own transformations."""

    @pytest.fixture(autouse=True)
    def _choose(self, which, monkeypatch):
        if which == "a stand-in":
            monkeypatch.setattr(to_jax, "theirs_in_library", lambda primitive: None)

    def function(self, name: str) -> Callable[..., Any]:
        f, args, _ = CASES[name]
        return jax.extend.core.jaxpr_as_fun(jt.to_jax(jt.from_jax(jax.make_jaxpr(f)(*args))))

    def test_values(self, name, which):
        f, args, _ = CASES[name]
        same(jax.jit(self.function(name))(*args), f(*args))

    def test_vmap(self, name, which):
        f, args, free = CASES[name]
        g = self.function(name)
        batches = [differs(x, on) for x, on in zip(args, free, strict=True)]
        agree(lambda: jax.vmap(g)(*batches), lambda: jax.vmap(f)(*batches), through_jax=True)

    def test_derivatives(self, name, which):
        f, args, _ = CASES[name]
        derivatives(self.function(name), f, args, jax)

    def test_the_way_back(self, name, which):
        f, args, _ = CASES[name]
        live = jt.from_jax(jax.make_jaxpr(f)(*args))
        assert str(jt.from_jax(jt.to_jax(live))) == str(live)
