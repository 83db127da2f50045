"""compare --first where the programs have different equations: what stands in whose place."""

from __future__ import annotations

import os
import random
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.comparing import first_difference
from jaxprtool.driver.compare import compare
from jaxprtool.driver.comparing import in_step
from jaxprtool.driver.places import with_places
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import DropVar, Var
from jaxprtool.ir.walk import all_eqns, count_eqns, map_jaxprs, sub_jaxprs, with_eqns
from jaxprtool.passes.inline import called
from tests.analyses.exchanged import STEP_LIMIT, exchanges, other_variables
from tests.programs.catalogue import EXAMPLES

lax = jt.lax
CANDIDATES = 20 if os.environ.get("JAXPRTOOL_ALL") else 1
FILES = [
    p
    for p in sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
    if p.stem not in ("multiply_add", "data_parallel")  # a plug-in; types that vary over a mesh
]
# What takes the place of an equation, given its result, and whether the values stay what they are.
FORMS = {
    "times one": (lambda y: lax.mul(y, 1.0), True),
    "negated twice": (lambda y: lax.neg(lax.neg(y)), True),
    "three more": (lambda y: lax.mul(lax.neg(lax.mul(lax.neg(y), 2.0)), 0.5), True),
    "times three": (lambda y: lax.mul(y, 3.0), False),
    "two more": (lambda y: lax.add(lax.mul(y, 2.0), 1.0), False),
    "one of three": (lambda y: lax.mul(lax.neg(lax.mul(lax.neg(y), 2.0)), 0.75), False),
}


def rewritten(program, eqn, form):
    """The program with more operations in the place of an equation, as it is read from its text."""

    def rule(e):
        if e.span != eqn.span:
            return None
        return lambda *xs: form(jt.bind(e.primitive, *xs, **e.params))

    made = jt.rewrite(program, rule)
    return jt.parse(jt.format_jaxpr(made, lossless=True), "b")


def candidates(program, n, seed):
    """Equations of one result, of floats, that somebody reads."""
    eqns = [
        e
        for e in all_eqns(program.jaxpr)
        if not e.primitive.multiple_results
        and str(e.out_binders[0].aval.dtype) in ("f32", "f64")
        and not isinstance(e.out_binders[0], DropVar)
    ]
    random.Random(seed).shuffle(eqns)
    return eqns[:n]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_more_operations_in_the_place_of_one(path, form):
    """The first difference is the equation, or the one that reads it where that may stand for one of the new ones."""
    program = load_constants(jt.load(path))
    f, stays = FORMS[form]
    args = arguments(open_binders(program), ["random:0"])
    for eqn in candidates(program, CANDIDATES, form):
        other = rewritten(program, eqn, f)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = compare(program, other, args, first=True, step_limit=STEP_LIMIT)
            except jt.JaxprToolError:
                continue
        what = f"{eqn.primitive.name} {eqn.span}\n{found}"
        if stays:
            assert found.equal and found.first is None, what
        elif found.first is not None:
            reads = any(
                x in eqn.out_binders for x in found.first.a.eqn.inputs if isinstance(x, Var)
            )
            # The combiner of a scatter runs inside of the operation, and is no step of its own.
            inside = [e.span for c in sub_jaxprs(found.first.a.eqn) for e in c.eqns]
            assert found.first.a.eqn.span == eqn.span or reads or eqn.span in inside, what
        else:
            assert found.equal, what


def within_a_call(program):
    """A program that calls another one."""
    call = jt.trace(jax.jit(lambda x: x), np.float32(1)).eqns[0]
    ins, outs = ([Var(x) for x in types] for types in (program.in_avals, program.out_avals))
    eqn = call.replace(inputs=ins, out_binders=outs, params={**call.params, "jaxpr": program})
    return jt.ClosedJaxpr(jt.Jaxpr(ins, [eqn], outs))


@pytest.mark.filterwarnings("ignore::jaxprtool.passes.own_rules.LostRuleWarning")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_exchanged_equation_is_found_inside_of_calls(path):
    """One side has calls in the place of the other's equations: all of it in one, or those of the program opened."""
    program = load_constants(jt.load(path))
    opened = jt.opt(program, "inline size=1000000")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = arguments(open_binders(program), ["random:0"])
        for made in exchanges(program, 2 * CANDIDATES, seed=3):
            if called(made.eqn) is not None:
                continue  # what it is given differs: the first is inside of it
            whole = within_a_call(made.program)
            for a, b in ((program, whole), (opened, made.program)):
                try:
                    found = compare(a, b, args, first=True, step_limit=STEP_LIMIT)
                except JaxprToolError as e:
                    assert "step" in str(e), made.how
                    continue
                if found.equal:
                    continue
                assert found.first is not None and found.first.b is not None, made.how
                place = found.first.b
                assert place.eqn.span == made.eqn.span, (made.how, str(found))
                inside = place.path[0] if place.path else None
                assert b is not whole or (inside is not None and inside.eqn is whole.eqns[0])


@pytest.mark.parametrize("backends", [(), ("f64", "numpy"), ("numpy", "xla"), ("xla", "jax")])
def test_a_call_of_one_side_is_looked_into_on_every_backend(backends):
    called_twice = jax.jit(lambda x: jnp.sin(x) * 2.01)
    x = np.float32([0.5, 1, 2])
    a = with_places(jt.trace(lambda x: jnp.sin(jnp.sin(x) * 2.01) * 2.0, x), "a")
    b = with_places(jt.trace(lambda x: called_twice(called_twice(x)), x), "b")
    found = compare(a, b, [x], first=True, backends=backends)
    assert found.first is not None and found.first.a is not None and found.first.b is not None
    assert found.first.a.eqn.span == a.eqns[-1].span
    assert found.first.b.eqn.primitive.name == "mul"
    assert [step.eqn.span for step in found.first.b.path] == [b.eqns[1].span]


def test_effects_happen_once_where_one_side_has_calls(capsys):
    """The equation inside of the call is named, and what is printed is printed once by each side."""

    def f(step, x):
        def inner(x):
            jax.debug.print("here {}", x)
            return step(x) * 2.0

        return inner, x

    def called(x):
        inner, x = f(jnp.cos, x)
        return jax.jit(inner)(x) + 1.0

    def opened(x):
        inner, x = f(jnp.sin, x)
        return inner(x) + 1.0

    for a, b, name in ((opened, called, "cos"), (called, opened, "sin")):
        programs = [jt.parse(jt.format_jaxpr(jt.trace(p, np.float32(1)))) for p in (a, b)]
        found = jt.compare(*programs, np.float32(1), first=True)
        assert found.first is not None and found.first.b is not None
        assert found.first.b.eqn.primitive.name == name
        assert len(found.first.b.path) == (b is called)
        assert capsys.readouterr().err.count("here") == 2


def test_a_branch_without_equations_has_the_place_of_what_holds_it():
    """Branches that change places: what one of them does stands beside the `cond` where the other one does nothing."""

    def of(*branches):
        return jt.trace(lambda x: jax.lax.cond(x > 0, *branches, jnp.sin(x)), np.float32(1))

    a, b = of(lambda y: y, lambda y: y + 1), of(lambda y: y + 1, lambda y: y)
    for one, other in ((a, b), (b, a)):
        found = jt.compare(one, other, np.float32(1), first=True)
        names = {p.eqn.primitive.name for p in (found.first.a, found.first.b)}
        assert names == {"cond", "add"} and "nothing stands" not in str(found), str(found)


def another_result(f, at):
    """The program of f, whose jaxprs sort two arrays, and the same with the other array where equation `at` reads one."""
    x = np.float32([0.5, 2, 1])
    a = jt.parse(jt.format_jaxpr(jt.trace(f, x), lossless=True), "a")

    def inside(closed):
        sort = next((e for e in closed.eqns if e.primitive.name == "sort"), None)
        eqns = [
            e.replace(params={k: map_jaxprs(v, inside) for k, v in e.params.items()})
            for e in closed.eqns
        ]
        if sort is None:
            return with_eqns(closed, eqns)
        other = dict(zip(sort.out_binders, reversed(sort.out_binders), strict=True))
        if at == "out":
            outs = [other.get(x, x) for x in closed.jaxpr.outs]
            return closed.replace(jaxpr=closed.jaxpr.replace(outs=outs))
        return with_eqns(
            closed,
            [
                e.replace(inputs=[other.get(x, x) for x in e.inputs])
                if e.primitive.name == at
                else e
                for e in closed.eqns
            ],
        )

    b = jt.parse(jt.format_jaxpr(inside(a), lossless=True), "b")
    return a, b, [x]


def sorted_pair(x):
    low, high = jax.lax.sort((x, x[::-1] * 3.0), num_keys=1)
    return jnp.sin(low) + 1.0, low, high


LEVELS = {
    "top": sorted_pair,
    "call": lambda x: jax.jit(sorted_pair)(x),
    "calls": lambda x: jax.jit(jax.jit(sorted_pair))(x * 2.0),
    "branch": lambda x: jax.lax.cond(x[0] > 0, sorted_pair, lambda x: (x, x, x), x),
    "scan": lambda x: jax.lax.scan(lambda c, _: (sorted_pair(c)[0], sorted_pair(c)[2]), x, None, 3),
    "while": lambda x: jax.lax.fori_loop(0, x.astype(int)[1], lambda _, c: sorted_pair(c)[2], x),
}


@pytest.mark.parametrize("backends", [("numpy",), ("numpy", "xla"), ("xla",)], ids="-".join)
@pytest.mark.parametrize("at", ["sin", "out"])
@pytest.mark.parametrize("level", LEVELS)
def test_another_result_of_the_same_equation(level, at, backends):
    """An equation, or the jaxpr, takes the other result of an equation whose results both agree."""
    a, b, args = another_result(LEVELS[level], at)
    found = compare(a, b, args, first=True, backends=backends, step_limit=50)
    if found.equal:
        return
    assert found.first is not None
    names = [p.eqn.primitive.name for p in (found.first.a, found.first.b)]
    assert names == (["sin"] * 2 if at == "sin" else ["sort"] * 2), str(found)


@jax.jit
def gated(x, y):
    z = jnp.sin(x) * y
    return jnp.where(z > 0, z, 0.0) + jnp.cos(y)


def with_a_call(x, call=True, scaled=False, shifted=False):
    """A call before a branch, or none, with an equation before or after it."""
    y = jnp.tanh(x)
    y = y * 3 if scaled else y
    z = gated(y, x) if call else y
    z = z + 1 if shifted else z
    return jax.lax.cond(z.sum() > 0, jnp.exp, lambda z: z, z)


@pytest.mark.parametrize("backends", [["numpy"], ["numpy", "xla"]])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("how", "names"),
    [
        ({"call": False}, ("jit", "tanh")),
        ({"shifted": True}, ("jit", "add")),
        ({"scaled": True}, ("tanh", "mul")),
    ],
)
def test_what_is_added_or_missing_beside_a_call_is_named(how, names, swapped, backends):
    """Not an equation inside of a missing call, nor a later one that reads what an added one gives."""
    x = np.linspace(0.1, 1, 4, dtype=np.float32)
    traced = [jt.trace(f, x) for f in (with_a_call, lambda x: with_a_call(x, **how))]
    a, b = [jt.parse(str(p), n) for p, n in zip(traced, "ab", strict=True)][:: -1 if swapped else 1]
    found = compare(a, b, [x], first=True, backends=backends)
    assert found.first is not None
    places = (found.first.a, found.first.b)[:: -1 if swapped else 1]
    assert tuple(p.eqn.primitive.name for p in places) == names
    assert not any(p.path for p in places)


@pytest.mark.parametrize("backends", [["numpy"], ["numpy", "xla"]])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_a_call_that_is_made_once_more_is_named(deep, swapped, backends):
    """`f(f(x))` beside `f(x)`: the calls of both sides, and not an equation inside of one."""
    x = np.linspace(0.1, 1, 4, dtype=np.float32)

    def times(n):
        def f(x):
            for _ in range(n):
                x = gated(x, 2 * x) if deep else gated(x, x)
            return x

        return jax.jit(lambda x: f(x) + 1) if deep else f

    traced = [jt.trace(times(n), x) for n in (2, 1)][:: -1 if swapped else 1]
    a, b = [jt.parse(str(p), n) for p, n in zip(traced, "ab", strict=True)]
    found = compare(a, b, [x], first=True, backends=backends)
    assert found.first is not None
    for place in (found.first.a, found.first.b):
        assert place is not None
        assert (place.eqn.primitive.name, len(place.path)) == ("jit", int(deep))


def halved(x, by, n=60):
    """Halves until a number is small: by 1.0 it never is."""

    def step(c):
        y, k = c
        return jax.lax.while_loop(lambda c: c[0] > 0.01, lambda c: (c[0] * by, c[1] + 1), (y, k))

    return jnp.sin(jax.lax.cond(x > 0, step, lambda c: c, (x, n))[0])


@pytest.mark.parametrize("swapped", [False, True])
def test_a_loop_that_has_no_end_on_one_side_is_stopped(swapped):
    """What is known before it is said, with the side that was stopped; the other one runs to its end."""
    x = np.float32(1)
    a, b = (with_places(jt.trace(lambda x, by=by: halved(x, by), x), "p") for by in (0.5, 1.0))
    for limit in (None, 100):
        found = compare(*((b, a) if swapped else (a, b)), [x], first=True, step_limit=limit)
        assert not found.equal and found.first is not None and found.first.a is not None
        assert found.first.a.eqn.primitive.name == "mul" and found.first.a.path[-1].step == 0
        assert found.flips is not None and found.flips.a.eqn.primitive.name == "gt"
        (note,) = found.notes
        taken = "10,000" if limit is None else "100"
        assert note.startswith(
            f"{'A' if swapped else 'B'} was stopped: while has taken {taken} steps"
        )
        missing = found.outputs[0].found.type_a if swapped else found.outputs[0].found.type_b
        assert missing == "-" and found.outputs[0].found.n_different == 1


@pytest.mark.parametrize("backends", [["numpy"], ["xla", "numpy"], ["numpy", "xla"], ["xla"]])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_results_of_a_loop_that_has_no_end_on_one_side(backends, swapped, first, monkeypatch):
    """Whichever side it is, and wherever that runs, comparing comes to an end and says so."""
    monkeypatch.setattr(in_step, "_TURNS", 5_000)
    x = np.float32(1)
    a, b = (jt.trace(lambda x, by=by: halved(x, by), x) for by in (0.5, 1.0))
    found = compare(*((b, a) if swapped else (a, b)), [x], backends=backends, first=first)
    assert not found.equal
    (note,) = found.notes
    assert note.startswith(f"{'A' if swapped else 'B'} was stopped: while has taken ")


@pytest.mark.parametrize(
    "backends", [["numpy"], ["numpy", "f64"], ["xla", "numpy"], ["numpy", "xla"], ["xla", "jax"]]
)
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_loops_that_have_no_end_on_either_side(backends, two, first, monkeypatch):
    """Two programs, or one on two backends: both are stopped, and nobody says that they are equal."""
    monkeypatch.setattr(in_step, "_MOST", 3_000)
    monkeypatch.setattr(first_difference, "_MOST", 3_000)
    x = np.float32(1)
    a, b = (jt.trace(lambda x: halved(x, 1.0), x) for _ in range(2))
    if backends == ["numpy"]:
        two = True
    found = compare(a, b if two else None, [x], backends=backends, first=first)
    assert not found.equal and found.notes and not found.outputs
    assert all("was stopped: while has taken 3,000 steps" in note for note in found.notes)
    assert found.lines()[-1] == "not known to be equal: there are no results to compare"
    if backends == ["numpy"]:
        assert [note[0] for note in found.notes] == ["A", "B"]


def test_a_loop_of_many_steps_is_no_loop_without_an_end(monkeypatch):
    """Both go on where neither has ended, in turn; the one that is left may take a hundred times as many."""
    monkeypatch.setattr(in_step, "_TURNS", 10)

    def counted(n):
        return lambda x: jax.lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + 3), (0, x)
        )

    a, b = (jt.trace(counted(n), np.int32(1)) for n in (100, 5_000))
    for p, q in ((a, b), (b, a)):
        found = compare(p, q, [np.int32(1)])
        assert not found.notes and [o.found.n_different for o in found.outputs] == [1, 1]


def test_long_loops_that_differ_run_to_their_end():
    """Loops of more steps than one that has no end may take, which part in their first step."""
    x = np.float32(0)

    def counted(more):
        def step(c):
            return c[0] + 1, jnp.sin(c[1]) + more

        return lambda x: jax.lax.while_loop(lambda c: c[0] < 15_000, step, (0, x))

    a, b = (jt.trace(counted(more), x) for more in (0.5, 0.25))
    found = compare(a, b, [x], first=True)
    assert not found.notes and [o.found.n_different for o in found.outputs] == [0, 1]


def mapped_over_a_mesh(verb):
    """Collectives of two devices, as they are or transformed."""

    def shard(x, w):
        h = jnp.tanh(x @ w)
        mean = jax.lax.pmean(h.mean(0), "i")
        total = jax.lax.psum((h - mean).max(), "i")
        other = jax.lax.ppermute(h[:1], "i", [(0, 1), (1, 0)])
        return mean * total, h + other * jax.lax.axis_index("i")

    mesh = jax.sharding.AbstractMesh((2,), ("i",))
    spec = jax.sharding.PartitionSpec
    f = jax.shard_map(shard, mesh=mesh, in_specs=(spec("i"), spec()), out_specs=(spec(), spec("i")))
    x, w = np.linspace(-1, 2, 32, dtype=np.float32), np.linspace(1, -2, 8, dtype=np.float32)
    program = jt.trace(f, x.reshape(8, 4), w.reshape(4, 2))
    if verb == "jvp":
        return jt.jvp_jaxpr(program)[0]
    return jt.vmap_jaxpr(program, 2, [0, None])[0] if verb == "vmap" else program


@pytest.mark.parametrize(
    "path", [*FILES, "plain", "jvp", "vmap"], ids=lambda p: getattr(p, "stem", p)
)
def test_an_equation_reads_another_variable(path):
    """Other operands leave equations that nobody reads, which what runs in the place of a mesh's jaxpr does not have."""
    mesh = isinstance(path, str)
    program = mapped_over_a_mesh(path) if mesh else load_constants(jt.load(path))
    if mesh:
        program = jt.parse(jt.format_jaxpr(program, lossless=True), "a")
    args = arguments(open_binders(program), ["random:0"])
    known = {e: n for n, e in enumerate(all_eqns(program.jaxpr))}
    for made in other_variables(program, 20 if mesh else 2 * CANDIDATES):
        other = jt.parse(jt.format_jaxpr(made.program, lossless=True), "b")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = compare(program, other, args, first=True, step_limit=STEP_LIMIT)
            except jt.JaxprToolError:
                continue
        if found.equal:
            continue
        assert found.first is not None and found.first.a is not None, made.how
        first = found.first.a.eqn
        inside = [known[e] for c in sub_jaxprs(first) for e in all_eqns(c.jaxpr)]
        at = known[made.eqn]
        combined = not first.primitive.holds_jaxprs or first.primitive.name not in LOOKED_INTO
        assert known[first] == at or (combined and at in inside), (made.how, str(found))


LOOKED_INTO = ("jit", "cond", "scan", "while", "shard_map", "checkpoint")


def test_a_call_that_is_given_another_literal_is_named_and_no_equation_inside() -> None:
    """Both in a program that has the call twice, of which one is another one now, and in one that lacks another call."""

    @jax.jit
    def least(x, y):
        return jnp.maximum(x, y) * 2

    @jax.jit
    def wave(x):
        return jnp.sin(x)

    x = np.arange(-2, 3, dtype=np.float32)
    pairs = [
        (lambda x: wave(least(x, 0.0)), lambda x: jnp.sin(least(x, 0.25))),
        (lambda x: least(x, 0.0) + least(-x, 0.0), lambda x: least(x, 0.0) + least(-x, 0.25)),
    ]
    for a, b in pairs:
        found = jt.compare(a, b, x, first=True)
        assert found.first is not None and found.first.b is not None
        for place in (found.first.a, found.first.b):
            assert place.eqn.params.get("name") == "least" and not place.path, str(found)


def _looped(body):
    return lambda x: jax.lax.scan(lambda c, a: (body(c) + a, c), x, jnp.arange(4.0))[0]


def _branched(body):
    return lambda x: jax.lax.cond(x[0] < 9, body, jnp.cos, x)


@pytest.mark.parametrize("run", [_branched, _looped])
def test_an_equation_before_a_branch_or_a_loop_comes_before_what_differs_inside(run):
    a, b = run(jnp.sin), run(lambda x: jnp.sin(jnp.minimum(x, 0.5)))
    x = np.linspace(-1, 2, 5).astype(np.float32)
    for f, g, sides in ((a, lambda x: b(x * 7), "b"), (lambda x: a(x * 7), b, "a")):
        found = jt.compare(jt.trace(f, x), jt.trace(g, x), x, first=True).json()
        place = found["first" if sides == "a" else "first_b"]
        assert place["primitive"] == "mul" and not place["path"]
    inside = jt.compare(jt.trace(a, x), jt.trace(b, x), x, first=True).json()
    assert inside["first_b"]["primitive"] == "min"


@pytest.mark.filterwarnings("ignore::jaxprtool.passes.own_rules.LostRuleWarning")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_exchanged_copy_is_found_where_the_other_side_has_none(path):
    """One side computes once, and without dead equations and results of loops, what the other computes several times."""
    program = load_constants(jt.load(path))
    once = jt.opt(program, "cse,dce")
    if count_eqns(once.jaxpr) == count_eqns(program.jaxpr):
        pytest.skip("it has no copies, and nothing that is not read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = arguments(open_binders(program), ["random:0"])
        for made in exchanges(program, 6 * CANDIDATES, seed=5):
            try:
                found = compare(made.program, once, args, first=True, step_limit=STEP_LIMIT)
            except JaxprToolError as e:
                assert "step" in str(e), made.how
                continue
            if not found.equal:
                assert found.first is not None and found.first.a is not None, made.how
                assert found.first.a.eqn.span == made.eqn.span, (made.how, str(found))


def test_a_wrong_copy_is_found_with_its_counterpart():
    """The second of two copies of which the other side has one, behind operations that are the same."""

    def f(x, g):
        y, z = jnp.sqrt(jnp.sin(x) + 2), jnp.sqrt(g(x) + 2)
        return y * 3, z / y, jnp.cumsum(x)[0]

    x = np.linspace(0.1, 1, 4, dtype=np.float32)
    a, b = [
        jt.parse(str(jt.trace(lambda x, g=g: f(x, g), x)), n)
        for g, n in ((jnp.cos, "a"), (jnp.sin, "b"))
    ]
    for first, second in ((a, jt.opt(b, "cse,dce")), (jt.opt(b, "cse,dce"), a)):
        found = compare(first, second, [x], first=True).first
        assert found is not None
        names = [p.eqn.primitive.name for p in (found.a, found.b)]
        assert sorted(names) == ["cos", "sin"]


@pytest.mark.filterwarnings("ignore::jaxprtool.passes.own_rules.LostRuleWarning")
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_exchanged_equation_is_found_inside_of_loops_that_are_written_out(path, swapped):
    """One side has loops, the other their steps one after the other."""
    program = load_constants(jt.load(path))
    opened = jt.opt(program, "unroll steps=200 size=10000")
    if "scan" not in {e.primitive.name for e in all_eqns(program.jaxpr)} - {
        e.primitive.name for e in all_eqns(opened.jaxpr)
    }:
        pytest.skip("it has no loops, or long ones")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = arguments(open_binders(program), ["random:0"])
        for made in exchanges(program, 3 * CANDIDATES, seed=8):
            sides = (opened, made.program) if swapped else (made.program, opened)
            try:
                found = compare(*sides, args, first=True, step_limit=STEP_LIMIT)
            except JaxprToolError as e:
                assert "step" in str(e), made.how
                continue
            if not found.equal:
                assert found.first is not None, made.how
                place = found.first.b if swapped else found.first.a
                assert place is not None and place.eqn.span == made.eqn.span, str(found)
                assert all(s.step is not None for s in place.path if s.eqn.primitive.name == "scan")


def test_the_step_of_a_loop_that_is_written_out_is_named():
    """Backward too: the position along the scanned axis."""

    def f(x, last, reverse):
        def step(c, y):
            z = jnp.where(y == last, jnp.cos(c), jnp.sin(c))
            return z + y, z

        return jax.lax.scan(step, 0.5, x, reverse=reverse, unroll=1)

    x = np.arange(5, dtype=np.float32)
    for reverse in (False, True):
        a, b = [
            jt.parse(str(jt.trace(lambda x, n=n, r=reverse: f(x, n, r), x)), "ab"[n > 2])
            for n in (2.0, 9.0)
        ]
        found = compare(a, jt.opt(b, "unroll"), [x], first=True).first
        assert found is not None and found.a is not None
        assert [s.step for s in found.a.path][:1] == [2], str(found.a)


# What changes no value of these, although no rule says so.
_HANDS_ON = {
    "plus zero": lambda y: y + 0.0,
    "plus zero twice": lambda y: (y + 0.0) - 0.0 + 0.0,
    "clamped": lambda y: jax.lax.clamp(-1e9, y, 1e9),
    "the larger": lambda y: jnp.maximum(y, -1e9),
    "chosen": lambda y: jnp.where(y == y, y, 7.0),
    "negated twice": lambda y: jax.lax.neg(jax.lax.neg(y)),
}


@pytest.mark.parametrize("name", _HANDS_ON)
@pytest.mark.parametrize("where", ["at the end", "inside", "in a loop"])
@pytest.mark.parametrize("turned", [False, True])
def test_what_changes_nothing_beside_an_exchanged_operation_is_not_named(name, where, turned):
    """Only one program has it, right after the operation that the other one has in another form."""
    keep = _HANDS_ON[name]

    def program(op, after):
        def f(a, b):
            y = after(op(jnp.sin(a) * b, b))
            return y if where == "at the end" else jnp.tanh(y) - b

        if where != "in a loop":
            return f
        return lambda a, b: jax.lax.scan(lambda c, _: (f(c, b), None), a, None, length=3)[0]

    x, y = np.float32([1.5, 2.5, -3]), np.float32([2, 3, 4])
    sides = [program(jnp.multiply, keep), program(jnp.divide, lambda y: y)]
    a, b = (jt.trace(f, x, y) for f in (sides[::-1] if turned else sides))
    first = compare(a, b, [x, y], first=True).first
    names = [place.eqn.primitive.name for place in (first.a, first.b)]
    assert sorted(names) == ["div", "mul"], names
