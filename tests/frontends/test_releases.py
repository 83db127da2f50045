"""What differs between releases of JAX: params of other names, primitives that are new, and what no release had yet."""

from __future__ import annotations

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.backends.jax import private, releases, vocabulary
from jaxprtool.backends.jax.primitives import has_primitive
from jaxprtool.backends.jax.trace import trace_with_jax
from jaxprtool.ir.diagnostics import UnsupportedError
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.releases import spellings
from jaxprtool.syntax.releases.spellings import SPELLINGS

X = jnp.array([1.0, 2.0, 4.0])
TABLE = np.arange(3.0, dtype=np.float32)
POLICIES = jax.checkpoint_policies


def remat(policy):
    f = jax.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "a")), policy=policy)
    return lambda x: f(x)


def rectified(x):
    """A loop over a custom rule that JAX calls in one jaxpr, and rematerialises in another one."""
    return lax.scan(lambda c, _: (jax.nn.relu(c * x), None), x, None, length=2)[0].sum()


def root(x):
    return lax.custom_root(
        lambda y: y * y - x, jnp.ones(3), lambda f, y: jnp.sqrt(x), lambda g, y: y / g(jnp.ones(3))
    )


# Functions whose jaxprs differ from release to release.
FUNCTIONS = {
    "call": jax.jit(lambda x: jax.jit(jnp.sin)(x) + 1),
    "call inline": lambda x: jax.jit(jnp.sin, inline=True)(x),
    "composite": lax.composite(lambda x: x * 2, name="my.double"),
    "constants": lambda x: x + TABLE,
    "frexp": lambda x: list(jnp.frexp(x)),
    "inner constants": lambda x: jax.jit(lambda y: y * TABLE)(x),
    "largest": lambda x: jnp.max(x) + jnp.min(x) + jnp.sum(x),
    "ldexp": lambda x: jnp.ldexp(x, 2),
    "log2": jnp.log2,
    "nonzero": lambda x: jnp.nonzero(x > 1.5, size=2)[0],
    "platform": lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
    "polynomial": lambda x: jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x),
    "remat all but": remat(POLICIES.save_anything_except_these_names("b")),
    "remat any": remat(POLICIES.save_any_names_but_these("b")),
    "remat both": remat(
        POLICIES.save_from_both_policies(
            POLICIES.save_only_these_names("a"), POLICIES.dots_saveable
        )
    ),
    "remat dots": remat(POLICIES.dots_saveable),
    "remat names": remat(POLICIES.save_only_these_names("a")),
    "remat of what is shared": jax.grad(jax.checkpoint(rectified)),
    "root": root,
    "scan": lambda x: lax.scan(lambda c, s: (c + s["a"] * x, c), x, {"a": jnp.outer(x, x)}),
    "searchsorted": lambda x: jnp.searchsorted(x, 2.5),
    "top_k": lambda x: lax.top_k(x, 2),
    "while": lambda x: lax.fori_loop(0, 3, lambda i, y: y + x, x),
}


ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@pytest.fixture(params=FUNCTIONS)
def function(request):
    f = FUNCTIONS[request.param]
    return lambda x: jax.tree.leaves(f(x))


def equal(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, strict=True)


def test_what_comes_back_is_what_went(function):
    closed = jax.make_jaxpr(function)(X)
    back = jt.to_jax(jt.from_jax(closed))
    assert str(back) == str(closed)
    equal(jaxpr_as_fun(back)(X), function(X))


def test_what_comes_back_from_a_file_is_what_went(function):
    closed = jax.make_jaxpr(function)(X)
    if "_prim=CustomRoot[{" in str(closed):
        pytest.xfail("JAX 0.11 prints functions of Python there; what `trace` writes comes back")
    back = jt.to_jax(jt.parse(jt.format_jaxpr(jt.from_jax(closed), lossless=True)))
    assert ADDRESS.sub("", str(back)) == ADDRESS.sub("", str(closed))
    equal(jaxpr_as_fun(back)(X), function(X))


def test_a_traced_program_runs_without_jax_s_rules(function):
    program = trace_with_jax(function, (X,))
    assert all(eqn.primitive.known for eqn in all_eqns(program.jaxpr))
    text = jt.format_jaxpr(program, lossless=True)
    equal(jt.jaxpr_as_fun(jt.parse(text))(np.asarray(X)), function(X))


DIFFERENTIABLE = [
    "largest",
    "ldexp",
    "log2",
    "polynomial",
    "remat names",
    "root",
    "scan",
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_those_of_jax(name):
    def f(x):
        return jax.tree.leaves(FUNCTIONS[name](x))[0].sum()

    run = jt.jaxpr_as_fun(trace_with_jax(f, (X,)))
    equal([jt.grad(lambda x: run(x)[0])(np.asarray(X))], [jax.grad(f)(X)])


def test_a_file_is_a_function_of_jax(function):
    """What is kept of a program today is a function in another release: under jit and vmap."""
    text = jt.format_jaxpr(jt.trace(function, X), lossless=True)
    f, rows = jt.to_jax_function(jt.parse(text)), jnp.stack([X, X + 1])
    equal(jax.jit(f)(X), function(X))
    try:
        want = jax.vmap(function)(rows)
    except NotImplementedError:  # JAX does not batch composites either
        return
    equal(jax.jit(jax.vmap(f))(rows), want)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_file_has_the_derivatives_of_jax(name):
    def f(x):
        return jax.tree.leaves(FUNCTIONS[name](x))[0].sum()

    g = jt.to_jax_function(jt.parse(jt.format_jaxpr(jt.trace(f, X), lossless=True)))
    equal([jax.grad(g)(X)], [jax.grad(f)(X)])
    equal(jax.jit(lambda x: jax.jvp(g, (x,), (x,)))(X), jax.jvp(f, (X,), (X,)))


def test_a_hint_comes_back_only_where_it_holds():
    closed = jax.make_jaxpr(FUNCTIONS["scan"])(X)
    batched, _ = jt.vmap_jaxpr(jt.from_jax(closed), 2, [0])
    want = jax.vmap(FUNCTIONS["scan"])(jnp.stack([X, X + 1]))
    equal(jaxpr_as_fun(jt.to_jax(batched))(jnp.stack([X, X + 1])), jax.tree.leaves(want))


STANDING_IN = {
    "log2": "{ lambda ; a:f32[4]. let b:f32[4] = log2[accuracy=None] a in (b,) }",
    "mulhi": "{ lambda ; a:i32[4] b:i32[4]. let c:i32[4] = mulhi a b in (c,) }",
    "mulhi of unsigned": "{ lambda ; a:u16[4] b:u16[4]. let c:u16[4] = mulhi a b in (c,) }",
    "named_call": "{ lambda ; a:f32[4]. let b:f32[4] = named_call[call_jaxpr={ lambda ; a:f32[4]. let b:f32[4] = sin a in (b,) } name=f] a in (b,) }",
    "ormqr": "{ lambda ; a:f32[4,2] b:f32[2] c:f32[4,3]. let d:f32[4,3] = ormqr[left=True transpose=True] a b c in (d,) }",
    "stack": "{ lambda ; a:f32[4] b:f32[4]. let c:f32[4,2] = stack[axis=1] a b in (c,) }",
    "tile": "{ lambda ; a:f32[2,3]. let b:f32[4,3] = tile[reps=(2, 1)] a in (b,) }",
    "unstack": "{ lambda ; a:f32[2,3]. let b:f32[2] c:f32[2] d:f32[2] = unstack[axis=1] a in (b, d, c) }",
}  # fmt: skip


@pytest.mark.parametrize("name", STANDING_IN)
def test_primitives_that_a_release_lacks_are_calls_of_its_functions(name):
    program = jt.parse(STANDING_IN[name])
    rng = np.random.default_rng(0)
    args = [
        rng.integers(-40000, 40000, a.shape).astype(a.dtype.name) * (3 if "i32" in str(a) else 1)
        if a.dtype.kind in "iu"
        else rng.uniform(0.5, 1.5, a.shape).astype(np.float32)
        for a in program.in_avals
    ]
    got = jax.jit(jt.to_jax_function(program))(*args)
    for a, b in zip(got, jt.eval_jaxpr(program, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, strict=True)


# A JAX that came after this package.


@pytest.fixture
def newer(monkeypatch):
    """As if the installed JAX were one that nobody knows yet."""
    monkeypatch.setattr(jax, "__version__", "0.13.0")
    monkeypatch.setattr(releases, "VERSION", (0, 13, 0))


def with_params(closed, position, **params):
    """A jaxpr of JAX's, with further params in one equation."""
    eqns = list(closed.jaxpr.eqns)
    eqns[position] = eqns[position].replace(params={**eqns[position].params, **params})
    consts = closed.consts
    return private.ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), consts)


def test_an_unknown_param_is_named_with_the_release(newer):
    closed = with_params(jax.make_jaxpr(lambda x: jnp.sin(jnp.cos(x)))(X), 1, foo=3)
    with pytest.raises(UnsupportedError) as raised:
        jt.from_jax(closed)
    message = "jax 0.13.0 is newer than this jaxprtool knows: sin has the unknown param foo"
    assert message in str(raised.value)


def test_a_missing_param_is_named_with_the_release(newer):
    closed = jax.make_jaxpr(FUNCTIONS["scan"])(X)
    (scan,) = [i for i, e in enumerate(closed.jaxpr.eqns) if e.primitive.name == "scan"]
    eqns = list(closed.jaxpr.eqns)
    given = {k: v for k, v in eqns[scan].params.items() if k not in ("num_carry", "ft_in")}
    eqns[scan] = eqns[scan].replace(params=given)
    changed = private.ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    with pytest.raises(UnsupportedError, match=r"jax 0\.13\.0 is newer .*: scan has no param"):
        jt.from_jax(changed)


def test_what_a_newer_release_did_not_change_works(newer):
    closed = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(X)
    assert str(jt.to_jax(jt.from_jax(closed))) == str(closed)


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("0.12.0.1", (0, 12, 0, 1)), ("0.8.3", (0, 8, 3)), ("0.13.0.dev20270101+g1", (0, 13, 0))],
)
def test_versions_are_read(version, numbers):
    assert releases._numbers(version) == numbers


def test_a_param_that_a_release_lacks_is_left_out_where_it_says_nothing(monkeypatch):
    monkeypatch.setattr(vocabulary, "_ABSENT", {"mul": {"out_dtype": None}})
    assert vocabulary.leaving("mul", {"out_dtype": None}, {}, 2, 1) == {}
    with pytest.raises(UnsupportedError, match="mul has no param out_dtype, which is float32"):
        vocabulary.leaving("mul", {"out_dtype": "float32"}, {}, 2, 1)


def test_jax_works_in_a_process_that_ran_our_executables_first():
    """jaxlib 0.8 looks JAX's types up at the first call of anything, and never again."""
    code = (
        "import sys, numpy as np, jaxprtool as jt\n"
        "program = jt.parse('{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }')\n"
        "jt.compile(program)(np.ones(3, np.float32))\n"
        "import jax, jax.numpy as jnp\n"
        "print(float(jax.jit(lambda x: (x * 2).sum())(jnp.ones(3))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["6.0"], done.stderr


def test_keys_that_the_installed_jax_has_not():
    """Later releases have more kinds: a program of these runs on NumPy, and JAX is not asked for what it has not."""
    program = jt.parse(
        "{ lambda ; a:key<phx4>[]. let b:u32[2] = random_bits[bit_width=32 shape=(2,)] a in (b,) }"
    )
    seeded = jt.parse("{ lambda ; a:i32[]. let b:key<phx4>[] = random_seed[impl=phx4] a in (b,) }")
    assert jt.eval_jaxpr(seeded, [7])[0].shape == ()
    if private.key_impl("phx4") is not None:
        assert str(jt.to_jax(program)) == str(program)
        assert str(jt.to_jax(seeded)) == str(seeded)
        return
    for wanted in (program, seeded):
        with pytest.raises(jt.UnsupportedError, match="has no keys of the kind phx4"):
            jt.to_jax(wanted)
    with pytest.raises(jt.UnsupportedError, match="has no keys of the kind phx4"):
        trace_with_jax(lambda k: k, (program.jaxpr.in_binders[0].aval,))


ROOT = """{ lambda ; a:f32[]. let
    b:f32[] = CustomRoot[
      solve_jaxpr={ lambda ; c:f32[] d:f32[]. let e:f32[] = div c d; f:f32[] = add d e; g:f32[] = mul f 0.5:f32[] in (g,) }
      has_aux=False
    ] a 1.0:f32[] a a
  in (b,) }"""


def its_root(x):
    f = lambda y: y * y - x
    newton = lambda f, y: jax.lax.fori_loop(0, 9, lambda i, y: y - f(y) / (2 * y), y)
    return jax.lax.custom_root(f, np.float32(1), newton, lambda g, y: y / g(np.float32(1)))


ROOTS = {
    "a root": its_root,
    "its derivative": jax.grad(its_root),
    "its second derivative": jax.grad(jax.grad(its_root)),
    "in a call": lambda x: jax.jit(its_root)(x) + jax.jit(its_root)(x + 1),
    "in a loop": lambda x: jax.lax.scan(lambda c, t: (its_root(c + t), c), x, jnp.stack([x, x]))[0],
    "in a branch": lambda x: jax.lax.cond(x > 1, its_root, lambda x: x, x),
    "a batch": lambda x: jax.vmap(its_root)(jnp.stack([x, x + 1])),
}  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_of_a_running_program_keeps_its_derivative_and_its_print(name):
    f, x = ROOTS[name], np.float32(2)
    closed = jax.make_jaxpr(f)(x)
    program = jt.from_jax(closed)
    assert str(jt.to_jax(program)) == str(closed)
    if releases.since(0, 10, 1):  # before, JAX writes what a definition uses out inside of it
        assert str(program) == str(closed)
    want = jax.jvp(f, (x,), (x,))
    np.testing.assert_allclose(jt.eval_jaxpr(program.jaxpr, [x])[0], want[0], rtol=1e-5)
    np.testing.assert_allclose(jt.jvp(jt.jaxpr_as_fun(program), [x], [x])[1][0], want[1], rtol=1e-5)


def test_a_root_of_a_text_is_a_call_of_its_solver_in_jax():
    program = jt.parse(ROOT)
    f = jt.to_jax_function(program)
    assert f(np.float32(2)) == jt.eval_jaxpr(program.jaxpr, [np.float32(2)])[0] == 1.5
    assert jax.grad(lambda a: jax.numpy.sum(jax.numpy.asarray(f(a))))(np.float32(2)) == 0.5
    batched, _ = jt.vmap_jaxpr(program, 2, [0])
    assert np.array_equal(np.ravel(jt.to_jax_function(batched)(np.float32([2, 3]))), [1.5, 2])


def test_what_the_printer_knows_of_a_release_the_bridge_knows_too():
    """A param that came with a release, or went with it, is one of JAX's in that release: in texts and in running programs."""
    renamed = {(name, theirs) for name in SPELLINGS for theirs in spellings.renamed(name)}
    changed = {(name, key) for name, key in renamed} | {
        ("reshard", "concrete_mesh"),
        ("scan", "num_carry"),
        ("scan", "num_consts"),
    }
    changed |= {
        ("top_k", "axis"),
        ("psum_invariant", "axis_index_groups"),
        ("pvary", "axis_index_groups"),
    }
    for name, found in SPELLINGS.items():
        for spelling in found:
            if spelling.since <= (0, 8):  # what no JAX beside us lacks
                continue
            for table, told in (
                (vocabulary.ADDED, spelling.added),
                (vocabulary.LOST, spelling.removed),
            ):
                for key in told:
                    assert (name, key) in changed or (name, key) in table, (name, key)


def test_what_the_installed_jax_has_is_in_its_dialect():
    """`empty2` has been there since 0.7.2, and was one of 0.10.2: `fmt --dialect jax-0.8.3` refused what JAX 0.8.3 makes."""
    late = [
        name
        for name, spellings in SPELLINGS.items()
        for s in spellings
        if s.born and releases.VERSION[:3] < s.since and has_primitive(name)
    ]
    assert late == []
