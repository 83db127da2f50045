"""Programs cannot change, so that nothing that was derived from one is ever wrong."""

from __future__ import annotations

import contextlib
import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.frozen import FrozenDict, FrozenList
from jaxprtool.ir.jaxpr import Primitive
from jaxprtool.ir.memo import Memo, MemoTable
from jaxprtool.ir.spans import Source
from jaxprtool.ir.walk import map_programs
from tests.programs.catalogue import EXAMPLES

TEXT = """\
{ lambda a:f32[3]; b:f32[3]. let
    c:f32[3] = jit[name=f jaxpr={ lambda ; d:f32[3]. let e:f32[3] = sin d in (e,) }] b
    f:f32[3] = mul c a
    g:f32[3] = mul f 2.0:f32[]
  in (g,) }"""
A = np.arange(3, dtype=np.float32)


def program():
    return jt.with_consts(jt.parse(TEXT), {"a": A})


PARTS = {
    "program": lambda p: (p, "jaxpr"),
    "constants": lambda p: (p, "consts"),
    "jaxpr": lambda p: (p.jaxpr, "eqns"),
    "results": lambda p: (p.jaxpr, "outs"),
    "equation": lambda p: (p.eqns[0], "primitive"),
    "params": lambda p: (p.eqns[0], "params"),
    "variable": lambda p: (p.jaxpr.in_binders[0], "aval"),
    "literal": lambda p: (p.eqns[2].inputs[1], "val"),
    "type": lambda p: (p.in_avals[0], "shape"),
    "element type": lambda p: (p.in_avals[0], "dtype"),
    "kind of an element type": lambda p: (p.in_avals[0].dtype, "kind"),
    "primitive": lambda p: (p.eqns[1].primitive, "name"),
}


@pytest.mark.parametrize("part", PARTS)
def test_attributes_cannot_be_set_or_deleted(part):
    x, name = PARTS[part](program())
    with pytest.raises(AttributeError, match="does not change"):
        setattr(x, name, getattr(x, name))
    with pytest.raises(AttributeError, match="does not change"):
        delattr(x, name)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.eqns[0].params.update(name="g"),
        lambda p: p.eqns[0].params.pop("name"),
        lambda p: p.eqns[0].params.__setitem__("name", "g"),
        lambda p: p.eqns[0].params.setdefault("other", 1),
        lambda p: p.eqns[0].params.clear(),
    ],
)
def test_params_cannot_be_changed(change):
    with pytest.raises(TypeError, match="params do not change"):
        change(program())


ODD = "{ lambda ; a:f32[]. let b:f32[] = odd[f=<lambda> r=R(x=1) l=[1, [2]] d={'k': [3]} e= = 1] a in (b,) }"


@pytest.mark.parametrize(
    "change",
    [
        lambda v: setattr(v["f"], "text", "g"),
        lambda v: setattr(v["r"], "name", "S"),
        lambda v: setattr(v["r"], "args", (1,)),
        lambda v: v["r"].fields.update(x=2),
        lambda v: v["l"].append(1),
        lambda v: v["l"][1].sort(),
        lambda v: v["l"].__setitem__(0, 2),
        lambda v: v["d"].clear(),
        lambda v: v["d"]["k"].extend([1]),
    ],
)
def test_values_of_params_cannot_be_changed(change):
    """Of a program that was read, and of one that went through pickle and through copies."""
    p = jt.parse(ODD)
    text = str(p)
    for q in (p, pickle.loads(pickle.dumps(p)), copy.deepcopy(p)):
        with pytest.raises((TypeError, AttributeError), match=r"does not change|do not change"):
            change(q.eqns[0].params)
        assert str(q) == text == str(jt.parse(text))


def test_containers_are_tuples():
    p = program()
    for x in (p.consts, p.eqns, p.jaxpr.in_binders, p.jaxpr.outs, p.eqns[0].inputs):
        assert type(x) is tuple


def test_what_is_derived_follows_the_new_program():
    p, x = program(), np.ones(3, np.float32)
    before = jt.jaxpr_as_fun(p)(x)[0], jt.jvp_jaxpr(p)[0]
    changed = p.replace(consts=[2 * A])
    np.testing.assert_allclose(jt.jaxpr_as_fun(changed)(x)[0], 2 * before[0])
    tangents = jt.jaxpr_as_fun(jt.jvp_jaxpr(changed)[0])(x, x)
    np.testing.assert_allclose(tangents[1], 2 * jt.jaxpr_as_fun(before[1])(x, x)[1])

    cos = [e.replace(primitive=find_primitive("cos")) for e in p.eqns[0].params["jaxpr"].eqns]
    inner = p.eqns[0].params["jaxpr"]
    made = map_programs(
        p, lambda c: c.replace(jaxpr=c.jaxpr.replace(eqns=cos)) if c is inner else c
    )
    assert "cos" in str(made) and "sin" in str(p)
    np.testing.assert_allclose(jt.jaxpr_as_fun(made)(x)[0], np.cos(x) * A * 2, rtol=1e-6)


def test_memos_are_apart_and_stay_with_their_program():
    p, first, second = program(), Memo[int]("n"), Memo[int]("n")
    assert first.find(p) is None and first.of(p, lambda: 1) == 1
    assert first.of(p, lambda: 2) == 1 and second.find(p) is None
    assert first.find(p.jaxpr) is None and first.find(p.replace(consts=p.consts)) is None

    table = MemoTable[int]("n")
    assert table.find(p, "a") is None and table.keep(p, "a", 1) == 1
    assert table.of(p, "a", lambda: 2) == 1 and table.of(p, "b", lambda: 2) == 2
    assert table.find(p.jaxpr, "a") is None and table.find(p.replace(consts=p.consts), "a") is None


def test_what_a_text_says_of_its_layout_goes_with_the_same_equations_only():
    definition = "{ lambda ; d:f32[3]. let e:f32[3] = sin d in (e,) }"
    text = f"let f = {definition} in\n{TEXT.replace(definition, 'f')}"
    p = jt.parse(text)
    assert set(p.jaxpr.written.definitions) == {"f"} and str(map_programs(p, lambda c: c)) == str(p)
    assert p.jaxpr.replace(eqns=p.eqns[:0]).written is None
    lone = jt.parse("a:f32[3] = sin b")
    assert lone.jaxpr.written.lone_equation and not lone.jaxpr.written.definitions


def test_replace_takes_fields_only():
    with pytest.raises(TypeError, match="a JaxprEqn has no 'name'; it has primitive, inputs"):
        program().eqns[0].replace(name="f")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies_are_equal(copied):
    p = program()
    jt.jaxpr_as_fun(p)(A)  # so that there is something derived
    assert jt.diff(p, copied(p)).equal
    assert str(copied(p.jaxpr)) == str(p.jaxpr)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_part_of_a_program_is_its_own_copy(copied):
    p = jt.parse("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }  # f.py:1:2 (f)")
    (eqn,) = p.eqns
    parts = [eqn, eqn.primitive, *eqn.inputs, *eqn.out_binders, eqn.params, eqn.origin, p.in_avals]
    for part in parts:
        assert copied({"held": part})["held"] == part
    assert all(copied(x) is x for x in (eqn, eqn.primitive, *eqn.inputs, *eqn.out_binders))
    assert copied(jt.lax.cumprod.primitive) is jt.lax.cumprod.primitive


def reachable(root):
    """Everything that a program holds, with the way to it: not what is derived from it, nor what declares a primitive's params."""
    seen, pending = {id(root)}, [(root, "program")]
    while pending:
        x, way = pending.pop()
        yield x, way
        parts = []
        if isinstance(x, dict):
            parts = [(f"{way}[{k!r}]", v) for k, v in x.items()]
        elif isinstance(x, (tuple, list, frozenset)):
            parts = [(f"{way}[{i}]", v) for i, v in enumerate(x)]
        if is_ours(x) and not isinstance(x, (Primitive, Source)):
            parts += [(f"{way}.{n}", getattr(x, n)) for n in fields(x) if n not in DERIVED]
        for to, part in parts:
            if id(part) not in seen:
                seen.add(id(part))
                pending.append((part, to))


DERIVED = {"derived", "cached"}


def is_ours(x):
    return type(x).__module__.startswith("jaxprtool")


def fields(x):
    names = {n for cls in type(x).__mro__ for n in getattr(cls, "__slots__", ())}
    return [n for n in sorted({*names, *getattr(x, "__dict__", ())}) if hasattr(x, n)]


def is_fixed(x):
    """Whether an object, without what it holds, is as it is for ever."""
    if isinstance(x, np.ndarray):
        return not x.flags.writeable
    if isinstance(x, (list, dict, set)):
        return isinstance(x, (FrozenList, FrozenDict))
    for name in fields(x) if is_ours(x) and not isinstance(x, Source) else ():
        try:
            setattr(x, name, getattr(x, name))
        except (AttributeError, TypeError):
            continue
        return False
    return True


def live():
    w = np.ones((3, 3), np.float32)

    def f(p, x):
        noise = jax.random.normal(jax.random.key(0), (3,))
        return jnp.tanh(x @ p["w"] @ w).at[jnp.array([0, 1])].add(1.0).sum() + noise.sum()

    return jt.trace(f, {"w": w}, w)


HOLDERS = {
    "arrays": lambda: jt.make_jaxpr(lambda x: x * A)(A),
    "views of arrays": lambda: jt.make_jaxpr(lambda x: x * A[::-1])(A),
    "given constants": program,
    "live": live,
    "odd values": lambda: jt.parse(ODD),
    "numbers of NumPy": lambda: jt.parse(
        "{ lambda ; a:f32[2]. let b:f32[] = reduce_sum[axes=(np.int64(0),)] a in (b,) }"
    ),
    "comments": lambda: jt.parse(f"# first\n{TEXT}\n# last"),
    **{p.stem: functools.partial(jt.load, p) for p in sorted(EXAMPLES.glob("*.jaxpr"))},
}


@pytest.mark.parametrize("name", HOLDERS)
def test_nothing_that_a_program_holds_can_change(name):
    changing = [f"{way}: {type(x)}" for x, way in reachable(HOLDERS[name]()) if not is_fixed(x)]
    assert not changing


@pytest.mark.parametrize(
    "make",
    [
        lambda a: jt.make_jaxpr(lambda x: (x * a, a))(A),
        lambda a: jt.trace(lambda x: (jnp.sin(x) * a, jnp.asarray(a)), A),
        lambda a: jt.with_consts(
            jt.parse(
                "{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = mul b a; d:f32[3] = cos a in (c, d) }"
            ),
            {"a": a},
        ),
    ],
)
def test_an_array_that_a_program_took_may_change(make):
    """The program keeps what it was, for every verb; and nobody writes into its constants by its results."""
    a, x = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    p = make(a)
    before = [np.array(y) for y in jt.eval_jaxpr(p, [x])]
    compiled, text = jt.compile(p), jt.format_jaxpr(p, lossless=True)
    a[:] = 9
    for y in jt.eval_jaxpr(p, [x]):
        with contextlib.suppress(ValueError):  # a constant cannot be written into
            y[:] = 7
    for outs in (jt.eval_jaxpr(p, [x]), compiled(x), jt.eval_jaxpr(jt.parse(text), [x])):
        np.testing.assert_allclose([*map(np.asarray, outs)], before, rtol=1e-6)


def test_a_compiled_function_keeps_what_it_closes_over():
    """As in JAX."""
    a, x = np.ones(3, np.float32), np.ones(3, np.float32)
    f, g = jt.jit(lambda x: x * a), jax.jit(lambda x: x * a)
    f(x), g(x)
    a[:] = 5
    np.testing.assert_array_equal(np.asarray(f(x)), np.asarray(g(x)))
