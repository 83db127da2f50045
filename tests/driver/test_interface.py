"""Names and trees of arguments and results: from functions, through transformations, files and values."""

from __future__ import annotations

import collections
import copy
import pickle
import string
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver import discharge, grad, jvp, linearize, partial_eval, transpose, vjp, vmap
from jaxprtool.driver.run import run_words
from jaxprtool.driver.trace import trace
from jaxprtool.driver.words.arguments import AmbiguousNameWarning
from jaxprtool.driver.words.trees import parse_value
from jaxprtool.ir.interface import LEAF, MAX_DEPTH, Interface, Tree, check_count
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr
from tests.invoke import invoke


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_pytree_node_class
class Node:
    """A registered class whose children have no names."""

    def __init__(self, *children: Any):
        self.children = children

    def tree_flatten(self) -> tuple[Any, None]:
        return self.children, None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Node:
        return cls(*children)


F32 = jt.ShapedArray((), "float32")
KEYS = st.text(string.printable + "é世\u2028", max_size=4) | st.integers(-9, 99)


def nodes(below: Any) -> Any:
    return (
        st.lists(below, max_size=3)
        | st.lists(below, max_size=3).map(tuple)
        | st.tuples(below, below).map(lambda xs: Pair(*xs))
        | st.lists(below, max_size=2).map(lambda xs: Node(*xs))
        | st.dictionaries(st.text(max_size=3), below, max_size=3)
        | st.dictionaries(st.integers(-9, 99), below, max_size=3)
        | st.dictionaries(KEYS, below, max_size=3).map(collections.OrderedDict)
    )


PYTREES = st.recursive(st.just(F32) | st.none(), nodes, max_leaves=8)


def described(x: Any) -> Tree:
    """The structure of a pytree, by its classes alone."""
    if x is None:
        return Tree("none")
    if isinstance(x, Pair):
        return Tree("object", tuple(map(described, x)), ("first", "second"), "Pair")
    if isinstance(x, (list, tuple)):
        return Tree("list" if isinstance(x, list) else "tuple", tuple(map(described, x)))
    if isinstance(x, Node):
        children = tuple(map(described, x.children))
        return Tree("object", children, (None,) * len(children), "Node")
    if isinstance(x, dict):
        keys = [*x] if isinstance(x, collections.OrderedDict) else sorted(x)
        name = "OrderedDict" if isinstance(x, collections.OrderedDict) else ""
        return Tree("dict", tuple([described(x[k]) for k in keys]), tuple(keys), name)
    return LEAF


@hypothesis.settings(deadline=None, max_examples=150)
@hypothesis.given(PYTREES, PYTREES)
def test_trees_go_into_the_text_and_come_back(x: Any, y: Any) -> None:
    program = trace(lambda a, b: (b, {"a": a}), [x, y], frontend="jax")
    wanted = Interface((("a", described(x)), ("b", described(y))), described((y, {"a": x})))
    assert program.interface == wanted
    for width in (20, 80):
        text = format_jaxpr(program, lossless=True, width=width)
        assert parse(text).interface == wanted
        assert format_jaxpr(parse(text), lossless=True, width=width) == text
    assert "args (" not in str(program)


@hypothesis.settings(deadline=None, max_examples=150)
@hypothesis.given(st.lists(PYTREES, max_size=3), PYTREES, st.integers(10, 80))
def test_any_number_of_arguments_fits_any_width(args: list[Any], result: Any, width: int) -> None:
    """No argument and no result are numbers too."""
    interface = Interface(
        tuple([(f"x{i}", described(x)) for i, x in enumerate(args)]), described(result)
    )
    binders = " ".join([f"a{i}:f32[]" for i in range(interface.n_in)])
    atoms = " ".join(["0.0:f32[]," for _ in jax.tree.leaves(result)])
    program = parse(f"{{ lambda ; {binders}. let  in ({atoms}) }}").replace(interface=interface)
    text = format_jaxpr(program, lossless=True, width=width)
    assert parse(text).interface == interface
    assert format_jaxpr(parse(text), lossless=True, width=width) == text


@hypothesis.settings(deadline=None, max_examples=100)
@hypothesis.given(PYTREES)
def test_every_leaf_is_found_by_its_name(x: Any) -> None:
    interface = Interface((("x", described(x)), ("xs", LEAF)), LEAF)
    names = interface.names()
    assert len(names) == interface.n_in == len(jax.tree.leaves(x)) + 1
    for i, name in enumerate(names):
        assert (i, LEAF) in interface.find(name)
    assert [p.start for p in interface.find("xs")] == [len(names) - 1]


def test_a_name_may_be_spelled_as_python_or_as_a_path() -> None:
    tree = described({"a": {"b.c": [F32, Pair(F32, F32)]}})
    of = Interface((("p", tree),), LEAF)
    for name in ('p["a"]["b.c"][1].second', "p['a']['b.c'][1].second", "p.a.b.c.1.second", "p/a/b.c/1/second", "p[a][b.c].1/second"):  # fmt: skip
        assert of.find(name) == [(2, LEAF)], name
    assert [p.start for p in of.find("p.a")] == [0]
    assert not of.find("p.a.b") and not of.find("pp") and not of.find("p.a.b.c.7")


def test_what_is_nested_too_deeply_has_no_interface() -> None:
    deep: Any = F32
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert trace(lambda x: x, [deep], frontend="jax").interface is not None
    assert trace(lambda x: x, [[deep]], frontend="jax").interface is None


def test_an_interface_that_does_not_fit_is_refused() -> None:
    program = trace(lambda x: x, [F32], frontend="jax")
    with pytest.raises(ValueError, match=r"does not fit a jaxpr of 1 arguments"):
        program.replace(interface=Interface((), LEAF))
    assert program.replace(interface=None).interface is None


def test_names_of_parameters() -> None:
    def f(a: Any, /, b: Any, *rest: Any, scale: float = 1.0) -> Any:
        return a * scale, b, rest

    shapes = [F32, {"w": F32}, F32, (F32,)]
    for frontend in ("jax", "numpy"):
        program = trace(f, shapes, static={"scale": 2.0}, frontend=frontend)
        text = 'args (a=*, b={"w": *}, rest=(*, (*,))) -> (*, {"w": *}, (*, (*,)))'
        assert str(program.interface) == text
    assert str(jt.make_jaxpr(lambda *xs: xs)(1.0, 2.0).interface) == "args (xs=(*, *)) -> (*, *)"
    assert jt.from_jax(jax.make_jaxpr(lambda x: x)(1.0)).interface is None


def test_leaves_that_are_no_arrays_are_none() -> None:
    program = trace(lambda p, x: p["f"](p["w"] * x), [{"f": jnp.sin, "w": F32}, F32])
    assert str(program.interface) == 'args (p={"f": None, "w": *}, x=*) -> *'


PARAMS = {"w": jt.ShapedArray((3,), "float32"), "n": jt.ShapedArray((), "int32")}


def step(params: Any, x: Any) -> Any:
    return {"loss": jnp.sum(params["w"] * x), "n": params["n"] + 1}


STEP = trace(step, [PARAMS, PARAMS["w"]])


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            jvp.jvp(STEP, ["params.w"]),
            'args (params={"n": *, "w": *}, x=*, d_params={"n": None, "w": *}) -> '
            '({"loss": *, "n": *}, {"loss": *, "n": None})',
        ),
        (
            jvp.jvp(jvp.jvp(trace(jnp.sin, [F32]))),
            "args (x=*, d_x=*, d_x_2=*, d_d_x=*) -> ((*, *), (*, *))",
        ),
        (
            vjp.vjp(STEP, keep_outs=False),
            'args (params={"n": *, "w": *}, x=*, ct={"loss": *, "n": None}) -> ({"n": None, "w": *}, *)',
        ),
        (
            vjp.vjp(STEP, ["params.w"]),
            'args (params={"n": *, "w": *}, x=*, ct={"loss": *, "n": None}) -> ({"loss": *, "n": *}, *)',
        ),
        (
            linearize.linearize(STEP, ["x"])["linear"],
            'args (residuals=(*,), d_x=*) -> {"loss": *, "n": None}',
        ),
        (
            partial_eval.partial_eval(STEP, ["params.n"])["known"],
            'args (params={"n": *, "w": None}) -> ({"loss": None, "n": *}, ())',
        ),
        (
            transpose.transpose(trace(lambda m, x: (m * x,), [F32, F32]), ["x"]),
            "args (m=*, ct=(*,)) -> *",
        ),
        (
            vmap.vmap(STEP, {"params": {"w": 1}}, {"loss": 0, "n": None}),
            'args (params={"n": *, "w": *}, x=*) -> {"loss": *, "n": *}',
        ),
        (discharge.discharge(STEP), str(STEP.interface)),
        (jt.jvp_jaxpr(STEP)[0].replace(interface=None), None),
    ],
)
def test_transformations_keep_names_and_trees(made: Any, text: str | None) -> None:
    assert made.interface is None if text is None else str(made.interface) == text


def loss(params: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ params["layer"].first + params["layer"].second) ** 2)


W, B, X = (jt.ShapedArray(s, "float32") for s in ((2, 3), (3,), (4, 2)))
LOSS = trace(loss, [{"layer": Pair(W, B)}, X])


def test_a_gradient_has_the_tree_of_what_it_is_by() -> None:
    rng = np.random.default_rng(0)
    params = {"layer": Pair(*(rng.normal(size=s).astype("f") for s in ((2, 3), (3,))))}
    x = rng.normal(size=(4, 2)).astype("f")
    made = grad.grad(LOSS, ["params"], with_value=True)
    assert str(made.interface).endswith('-> (*, {"layer": Pair(first=*, second=*)})')
    value, *gradients = jt.eval_jaxpr(made.jaxpr, [*made.consts, *jax.tree.leaves((params, x))])
    wanted, by = jax.value_and_grad(loss)(params, x)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    for have, want in zip(gradients, jax.tree.leaves(by), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    several = grad.grad(LOSS, ["x", "params.layer.second", 0])
    assert str(several.interface).endswith("-> (*, *, *)")
    assert [str(a) for a in several.out_avals] == ["f32[4,2]", "f32[3]", "f32[2,3]"]


class Momentum(NamedTuple):
    """A state as optimisers have it, in a tuple with an empty one."""

    count: Any
    trace: Any


class Empty(NamedTuple):
    """The state of a transformation that has none."""


def train(params: Any, state: Any, x: Any) -> Any:
    momentum, rest = state
    by = jax.grad(loss)(params, x)
    moved = jax.tree.map(lambda m, g: 0.9 * m + g, momentum.trace, by)
    new = jax.tree.map(lambda p, m: p - 0.1 * m, params, moved)
    return new, (Momentum(momentum.count + 1, moved), rest)


def test_states_of_an_optimiser() -> None:
    params = {"layer": Pair(jnp.ones((2, 3)), jnp.ones(3))}
    state = Momentum(jnp.int32(0), jax.tree.map(jnp.zeros_like, params)), Empty()
    program = trace(train, [params, state, jnp.ones((4, 2))])
    assert program.interface is not None
    assert 'state[0].trace["layer"].first' in program.interface.names()
    assert "Empty()" in str(program.interface)
    again = parse(format_jaxpr(program, lossless=True))
    assert again.interface == program.interface
    x = jnp.arange(8.0).reshape(4, 2)
    found = run_words(again, ["params=ones", "x=ramp", "state[0]={count: 0, trace: zeros}"])
    for have, want in zip(found, jax.tree.leaves(train(params, state, x)), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_programs_that_differ_in_names_only_are_equal() -> None:
    assert jt.diff(LOSS, LOSS.replace(interface=None)).equal


def test_files_pickles_and_copies_keep_them(tmp_path: Path) -> None:
    jt.save(LOSS, tmp_path / "loss.jaxpr")
    found = [
        jt.load(tmp_path / "loss.jaxpr"),
        pickle.loads(pickle.dumps(LOSS)),
        copy.deepcopy(LOSS),
    ]
    assert [p.interface for p in found] == [LOSS.interface] * 3


def test_values_by_the_names_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jt.save(LOSS, "loss.jaxpr")
    w, b, x = np.ones((2, 3), "f"), np.zeros(3, "f"), np.ones((4, 2), "f")
    keys = ['params["layer"].first', "params/layer/second", "x"]
    files: dict[str, dict[str, Any]] = {
        "all.npz": dict(zip(keys, (w, b, x), strict=True)),
        "params.npz": {"layer.first": w, "layer/second": b},
        "wrong.npz": {"params/layer/frist": w, "x": x},
    }
    for name, held in files.items():
        np.savez(name, **held)
    np.savez("plain.npz", w, b, x)
    wanted = f"f32[] {float(np.float32(12 * np.tanh(2.0) ** 2)):.5f}"
    for words in ("all.npz", "params=params.npz x=ones", "x=ones params.npz", "plain.npz"):
        assert invoke(f"run loss.jaxpr --args {words}").output.startswith(wanted[:10]), words
    done = invoke("run loss.jaxpr --args wrong.npz zeros")
    assert "no argument params/layer/frist" in done.error and "layer.first" in done.error


def test_results_in_a_file_are_called_by_their_places(tmp_path: Path) -> None:
    jt.save(STEP, tmp_path / "step.jaxpr")
    out = tmp_path / "out.npz"
    assert invoke(f"run {tmp_path}/step.jaxpr --args ones -o {out}").status == 0
    assert sorted(np.load(out)) == ["loss", "n"]
    made = grad.grad(LOSS, ["params"], with_value=True)
    jt.save(made, tmp_path / "grad.jaxpr")
    assert invoke(f"run {tmp_path}/grad.jaxpr --args ones -o {out}").status == 0
    assert sorted(np.load(out)) == ["out0", 'out1["layer"].first', 'out1["layer"].second']


def test_a_compiled_program_knows_its_names(tmp_path: Path) -> None:
    jt.compile(STEP).save(str(tmp_path / "step.bin"))
    done = invoke(f"run {tmp_path}/step.bin --args params.n=1 x=[1,2,3] ones")
    assert done.output == '{"loss": f32[] 6.0, "n": i32[] 2}\n', done.error
    assert (
        'argument params["w"] is f32[3]'
        in invoke(f"run {tmp_path}/step.bin --args ones [1] ones").error
    )


NAMED = """{ lambda c:f32[] ; a:f32[3] b:f32[]. let
    d:f32[3] = mul a b
    e:f32[3] = mul d c
  in (e,) }
where c = 2.0
args (params={"w": *}, x=*) -> *
"""
THREE = np.ones(3, np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda p, *args: jt.eval_jaxpr(p, args),
        lambda p, *args: jt.jaxpr_as_fun(p)(*args),
        lambda p, *args: jt.compile(p)(*args),
        lambda p, *args: jt.compile(p).place(args),
    ],
    ids=["eval_jaxpr", "jaxpr_as_fun", "compile", "place"],
)
def test_errors_of_python_calls_name_arguments(call: Any) -> None:
    program = jt.parse(NAMED)
    takes = 'takes 2 arguments (params["w"], x), and 1 is given'
    for args, message in [
        ((THREE,), takes),
        ((np.ones(2, np.float32), 1.0), 'argument params["w"] has type f32[2], and f32[3]'),
        ((THREE, THREE), "argument x has type f32[3], and f32[] is needed"),
    ]:
        with pytest.raises(jt.UsageError) as error:
            call(program, *args)
        assert message in str(error.value)


def test_errors_of_python_calls_of_programs_without_names() -> None:
    program = jt.parse(NAMED).replace(interface=None)
    with pytest.raises(jt.UsageError, match=r"argument 1 \(b\) has type f32\[3\]"):
        jt.eval_jaxpr(program, [THREE, THREE])
    with pytest.raises(jt.UsageError, match=r"argument 2 \(b\) has type f32\[3\]"):
        jt.eval_jaxpr(program.jaxpr, [np.float32(1), THREE, THREE])
    with pytest.raises(jt.UsageError, match="takes 3 arguments, and 2 are given"):
        jt.eval_jaxpr(program.jaxpr, [THREE, THREE])


def test_many_names_are_cut_short() -> None:
    with pytest.raises(jt.UsageError) as error:
        check_count(9, 1, Interface((("x", Tree("tuple", (LEAF,) * 9)),), LEAF))
    assert "takes 9 arguments (x[0], x[1]" in str(error.value)
    assert "x[7], ...), and 1 is given" in str(error.value)


def test_errors_of_vmap_jaxpr_name_arguments_and_results() -> None:
    program = jt.parse(NAMED)
    with pytest.raises(jt.UsageError, match=r'-3 is out of range for argument params\["w"\]'):
        jt.vmap_jaxpr(program, 2, [-3, None])
    with pytest.raises(jt.UsageError, match="-3 is out of range for result 0"):
        jt.vmap_jaxpr(program, 2, [0, None], [-3])


def weighted(params: Any, x: Any) -> Any:
    return params["w"] * x


INTS = np.ones(3, np.int32)
WRONG_CALLS = {
    "jvp": lambda f, args: jt.jvp(f, args, jax.tree.map(lambda _: TWO, args)),
    "linearize": lambda f, args: jt.linearize(f, *args)[1](*jax.tree.map(lambda _: TWO, args)),
    "vmap": lambda f, args: jt.vmap(f, in_axes=2)(*args),
    "grad": lambda f, args: jt.grad(f)(*jax.tree.map(lambda _: INTS, args)),
}
TWO = np.ones(2, np.float32)


@pytest.mark.parametrize("how", WRONG_CALLS)
def test_errors_of_transformed_functions_name_arguments(how: str) -> None:
    """A Python function's by its parameters, a program's by the names that it has."""
    program = jt.parse(NAMED)
    for f, args, name in [
        (weighted, ({"w": THREE}, THREE), 'argument params["w"] of weighted'),
        (jt.jaxpr_as_fun(program), (THREE, np.float32(1)), 'argument params["w"]'),
        (
            jt.jaxpr_as_fun(program.replace(interface=None)),
            (THREE, np.float32(1)),
            "argument 0 (a)",
        ),
    ]:
        with pytest.raises(jt.UsageError) as error:
            WRONG_CALLS[how](f, args)
        assert name in str(error.value)


def test_a_name_of_an_argument_wins_over_that_of_a_variable() -> None:
    text = "{ lambda ; b:f32[] w:f32[3]. let y:f32[3] = mul w b in (y,) }\nargs (w=*, b=*) -> *"
    with pytest.warns(AmbiguousNameWarning, match="b is taken for the argument b; the variable b of the program is w"):  # fmt: skip
        (found,) = run_words(parse(text), ["b=[1,2,3]", "2"])
    assert found.tolist() == [2.0, 4.0, 6.0]


def test_an_argument_that_is_a_tree_is_called_by_its_name() -> None:
    text = (
        "{ lambda ; v:f32[] w:f32[] b:f32[]. let y:f32[] = mul w b in (y,) }\n"
        "args (b={'p': *, 'q': *}, x=*) -> *"
    ).replace("'", '"')
    message = "b is taken for the argument b; the variable b of the program is x"
    with pytest.warns(AmbiguousNameWarning, match=message):
        (found,) = run_words(parse(text), ['b={"p": 1, "q": 2}', "x=3"])
    assert found.item() == 6.0


VERBS = {
    "grad": "--wrt params --value",
    "vjp": "--wrt params",
    "jvp": "--wrt params",
    "vmap": "--axis-size 2 --in-axes x=0",
    "transpose": "--linear params.layer.second",
    "partial-eval": "--known params",
    "linearize": "",
    "discharge": "",
    "fmt": "",
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_gives_what_runs_on_the_trees_that_it_names(verb: str, tmp_path: Path) -> None:
    program = trace(affine, [{"layer": Pair(W, B)}, X]) if verb == "transpose" else LOSS
    jt.save(program, tmp_path / "in.jaxpr")
    out = str(tmp_path / "out.jaxpr")
    words = ["-i", out] if verb == "fmt" else [str(tmp_path / "in.jaxpr"), "-o", out]
    Path(out).write_text((tmp_path / "in.jaxpr").read_text())
    done = invoke([verb, *VERBS[verb].split(), *words])
    assert done.status == 0, done.error
    for name, made in jt.parse_file(Path(out).read_text()).items():
        assert made.interface is not None
        named = [f"{n}={str(t).replace('*', 'ones')}" for n, t in made.interface.args]
        by_tree = invoke(["run", f"{out}#{name}" if name else out, "--args", *named])
        by_position = invoke(["run", f"{out}#{name}" if name else out, "--args", "ones"])
        assert by_tree.status == 0 and by_tree.output == by_position.output, by_tree.error


def affine(params: Any, x: Any) -> Any:
    return {"y": x @ jnp.ones((2, 3)) * 0 + params["layer"].second}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, 'b c': [x.npy, (random:0,)], }", {"a": "1", "b c": ["x.npy", ("random:0",)]}),
        ("State(pos=-1e-3, vel=Node(a, b=c))", {"pos": "-1e-3", "vel": ("a", "c")}),
        ('OrderedDict{"a\\\\b": null}', {"a\\b": "null"}),
        ("Empty()", ()),
    ],
)
def test_values_as_words(text: str, value: Any) -> None:
    assert parse_value(text, "--args") == value


@pytest.mark.parametrize("text", ["", "{", "{a}", "{a: 1 b: 2}", "[1", "(1]", "{a: 1, a: 2}", "'x", "[" * 200, "1 2", "S(a=)", "[,]"])  # fmt: skip
def test_values_that_are_none(text: str) -> None:
    with pytest.raises(jt.UsageError):
        parse_value(text, "--args")
