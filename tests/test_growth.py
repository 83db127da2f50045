"""Everything takes time linear in the number of equations, and deep nesting is no obstacle."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import sys
import tempfile
import threading

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.diffing.diff import diff_programs
from jaxprtool.core.stack import deep, heap_set_aside
from jaxprtool.core.verification import set_verify
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.interpreters.linearize import linearize_jaxpr, vjp_jaxpr
from jaxprtool.passes.pipeline import Stage, pipeline, run_pipeline
from jaxprtool.passes.registry import all_passes
from tests.bench.diffs import pair
from tests.timing import assert_growth

SMALL, FACTOR, MARGIN = 1000, 10, 3.0
DEPTH = 1000


@pytest.fixture(autouse=True)
def nothing_else():
    """What is timed is the work itself: no verification, and no search of what other tests left behind."""
    before = set_verify(False)
    gc.freeze()
    yield
    gc.unfreeze()
    set_verify(before)


def text_of(n: int) -> str:
    """A program of n equations, of several kinds, whose values stay small."""
    lines, last = [], "a"
    for i in range(n):
        op = (
            "sin {}",
            "mul {} b",
            "add {} a",
            "reshape[dimensions=None new_sizes=(3,) sharding=None] {}",
        )
        lines.append(f"    v{i}:f64[3] = {op[i % 4].format(last)}")
        last = f"v{i}"
    body = "\n".join(lines)
    return f"{{ lambda ; a:f64[3] b:f64[3]. let\n{body}\n  in ({last},) }}"


def open_text(n: int) -> str:
    """A program without types in which each shape is decided by that of the equation after it."""
    made = [f"    v{i} = broadcast_in_dim[broadcast_dimensions=()] 1.0:f32[]" for i in range(n + 1)]
    used = [f"    w{i} = select_n b v{i} v{i + 1}" for i in range(n)]
    body = "\n".join([*made, *used, f"    w = select_n b v{n} a"])
    return f"{{ lambda ; a:f32[3] b:bool[3]. let\n{body}\n  in (w,) }}"


def fresh(n: int) -> jt.ClosedJaxpr:
    """The program anew, so that nothing is cached with it."""
    return jt.parse(text_of(n))


def mixed(n: int) -> str:
    """A program of n equations in which no long part is there twice."""
    rng = random.Random(0)
    lines, last = [], "a"
    for i in range(n):
        lines.append(f"    v{i}:f64[3] = {rng.choice(('sin {}', 'mul {} b')).format(last)}")
        last = f"v{i}"
    body = "\n".join(lines)
    return f"{{ lambda ; a:f64[3] b:f64[3]. let\n{body}\n  in ({last},) }}"


def calls(depth: int) -> jt.ClosedJaxpr:
    """A call of a call of a call ..., each defined by name."""
    text = "let f0 = { lambda ; a:f64[]. let b:f64[] = sin a in (b,) } in\n"
    for i in range(1, depth):
        call = f"jit[name=f{i - 1} jaxpr=f{i - 1}] a"
        text += f"let f{i} = {{ lambda ; a:f64[]. let b:f64[] = {call} in (b,) }} in\n"
    call = f"jit[name=f{depth - 1} jaxpr=f{depth - 1}] a"
    return jt.parse(f"{text}{{ lambda ; a:f64[]. let b:f64[] = {call} in (b,) }}")


def written_once(program: jt.ClosedJaxpr) -> None:
    for name in ("roll", "outline"):
        run_pipeline(program, pipeline(name))


LINEAR_PASSES = [Stage(p, {}) for p in all_passes() if "linear-time" in p.laws]
ARGS = [np.array([0.1, 0.2, 0.3]), np.array([0.5, -0.5, 0.25])]
VERBS = {
    "parse": (text_of, jt.parse),
    "print": (fresh, jt.format_jaxpr),
    "check": (fresh, jt.typecheck_jaxpr),
    "jvp": (fresh, jt.jvp_jaxpr),
    "vmap": (fresh, lambda p: jt.vmap_jaxpr(p, 3, [0, None])),
    "linearize": (fresh, linearize_jaxpr),
    "vjp": (fresh, vjp_jaxpr),
    "parse, types by use": (lambda n: open_text(n // 4), jt.parse),
    "stats": (fresh, lambda p: jt.stats(p, by="scope").lines()),
    "stats by depth": (calls, lambda p: jt.stats(p, by="depth").json()),
    "cost by depth": (calls, lambda p: jt.cost(p, by="depth").json()),
    "lint": (fresh, lambda p: jt.lint(p, select=["all"]).json()),
    "cost": (fresh, lambda p: jt.cost(p, reorder=True, device="h100").json()),
    "residuals": (fresh, lambda p: jt.residuals(p, policy="dots").lines()),
    "dce": (fresh, lambda p: dce_jaxpr(p.jaxpr)),
    "eval": (fresh, lambda p: jt.eval_jaxpr(p, ARGS)),
    "profile": (fresh, lambda p: jt.profile(p, *ARGS, seconds=0).json()),
    "passes": (fresh, lambda p: [run_pipeline(p, [stage]) for stage in LINEAR_PASSES]),
    "roll and outline, nothing repeats": (lambda n: jt.parse(mixed(n)), written_once),
    "lower": (fresh, lambda p: str(jt.lower(p))),
    "diff": (
        lambda n: (fresh(n), fresh(n)),
        lambda pair: diff_programs({"": pair[0]}, {"": pair[1]}),
    ),
    **{
        f"diff, {name}, {'order ignored' if ignore else 'in order'}": (
            lambda n, name=name: pair(name, n),
            lambda both, ignore=ignore: jt.diff(*both, ignore=ignore).lines,
        )
        for name, ignore in (
            ("nothing in common", []),
            ("of two kinds", []),
            ("a block moved", []),
            ("shuffled", []),
            ("all alike", []),
            ("another chain", []),
            ("a name for another value", []),
            ("shuffled", ["order"]),
            ("every tenth changed", ["order"]),
        )
    },
}


@pytest.mark.parametrize("verb", VERBS)
def test_time_is_linear(verb):
    """Ten times as many equations take at most thirty times as long: a square would be a hundred."""
    assert_growth(*VERBS[verb], SMALL, FACTOR * SMALL, MARGIN * FACTOR)


def nested(depth: int) -> str:
    """A call of a call of a call ..."""
    text = "{ lambda ; a:f64[]. let b:f64[] = sin a in (b,) }"
    for _ in range(depth):
        text = f"{{ lambda ; a:f64[]. let b:f64[] = jit[name=f jaxpr={text}] a in (b,) }}"
    return text


def in_a_deep_thread(work) -> None:
    """Run something with a stack as large as that of the command line."""
    failures = []

    def guarded() -> None:
        try:
            work()
        except BaseException as e:  # handed on to the test
            failures.append(e)

    limit, size = sys.getrecursionlimit(), threading.stack_size(512 << 20)
    sys.setrecursionlimit(200_000)
    try:
        thread = threading.Thread(target=guarded)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    if failures:
        raise failures[0]


def test_deep_nesting():
    def work() -> None:
        program = jt.parse(nested(DEPTH))
        assert jt.typecheck_jaxpr(program).out_types == program.out_avals
        text = jt.format_jaxpr(program)
        assert text.count("jit[") == DEPTH
        assert jt.format_jaxpr(jt.parse(text)) == text
        np.testing.assert_allclose(jt.eval_jaxpr(program, [0.5])[0], np.sin(0.5))
        derivative, _ = jt.jvp_jaxpr(program)
        np.testing.assert_allclose(jt.eval_jaxpr(derivative, [0.5, 1.0])[1], np.cos(0.5))

    in_a_deep_thread(work)


IN_DEPTH = {
    **{
        f"pass {stage}": (lambda p, stage=stage: run_pipeline(p, [stage]))
        for stage in LINEAR_PASSES
    },
    "stats": lambda p: jt.stats(p, by="depth").lines(),
    "cost": lambda p: jt.cost(p, by="depth").lines(),
    "residuals": lambda p: jt.residuals(p).lines(),
    "lint": lambda p: jt.lint(p).lines(),
    "hash": jt.hash_program,
    "linearize": linearize_jaxpr,
    "vjp": vjp_jaxpr,
}


@pytest.mark.parametrize("verb", IN_DEPTH)
def test_time_is_linear_in_the_depth(verb):
    """Ten times as deep takes at most thirty times as long."""
    read = lambda depth: jt.parse(nested(depth))
    in_a_deep_thread(lambda: assert_growth(read, IN_DEPTH[verb], 200, 2000, MARGIN * FACTOR))


def test_deep_nesting_is_verified_in_linear_time():
    def work() -> None:
        set_verify(True)
        jt.jvp_jaxpr(jt.parse(nested(DEPTH)))

    in_a_deep_thread(work)


API = {
    "check": jt.typecheck_jaxpr,
    "str": str,
    "format": jt.format_jaxpr,
    "eval": lambda p: jt.eval_jaxpr(p, [0.5]),
    "jvp": jt.jvp_jaxpr,
    "vmap": lambda p: jt.vmap_jaxpr(p, 3, [0]),
    "partial_eval": lambda p: jt.partial_eval_jaxpr(p, [True]),
    "transpose": lambda p: jt.transpose_jaxpr(linearize_jaxpr(p)[1], [False, True]),
    "linearize_jaxpr": linearize_jaxpr,
    "vjp_jaxpr": vjp_jaxpr,
    "linearize": lambda p: jt.linearize(jt.jaxpr_as_fun(p), 0.5)[1](1.0),
    "vjp": lambda p: jt.vjp(jt.jaxpr_as_fun(p), 0.5)[1]([1.0]),
    "grad": lambda p: jt.grad(lambda x: jt.jaxpr_as_fun(p)(x)[0])(0.5),
    "jvp of a function": lambda p: jt.jvp(jt.jaxpr_as_fun(p), (0.5,), (1.0,)),
    "lower": lambda p: str(jt.lower(p)),
    "compile": lambda p: jt.compile(p)(0.5),
    "diff": lambda p: jt.diff(p, jt.parse(nested(300))),
    "diff of different ones": lambda p: jt.diff(p, jt.parse(nested(300).replace("sin", "cos"))),
    "lines of a diff": lambda p: diff_programs({"": p}, {"": jt.parse(nested(300))}),
    "signature": jt.check,
    "stats": lambda p: jt.stats(p).json(),
    "lint": lambda p: jt.lint(p).json(),
    "cost": lambda p: str(jt.cost(p, chart=True)),
    "residuals": lambda p: str(jt.residuals(p, policy="nothing", vs="everything")),
    "repr": repr,
    "discharge": jt.discharge,
    "save and load": lambda p: _saved(p),
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "copy": copy.deepcopy,
}


def _saved(program):
    with tempfile.TemporaryDirectory() as folder:
        jt.save(program, f"{folder}/deep.jaxpr")
        jt.load(f"{folder}/deep.jaxpr")


@pytest.mark.parametrize("verb", API)
def test_no_recursion_error_at_python_s_limit(verb):
    """300 calls inside each other, in the thread that happens to call."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        API[verb](jt.parse(nested(300)))
        assert sys.getrecursionlimit() == 1000
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("ends", [("(", ",)"), ("[", "]"), ("{1: ", "}")])
def test_values_of_params_nest_to_any_depth(ends):
    before, after = (end * 1000 for end in ends)
    text = f"{{ lambda ; a:f32[]. let b:f32[] = foo[x={before}1{after}] a in (b,) }}"
    program = jt.parse(text)
    printed = jt.format_jaxpr(program)
    assert jt.format_jaxpr(jt.parse(printed)) == printed
    diff_programs({"": program}, {"": jt.parse(printed)})


def test_what_a_deep_thread_raises_comes_back():
    def work(depth: int) -> int:
        if not depth:
            raise KeyError("at the bottom")
        return work(depth - 1) + 1

    with pytest.raises(KeyError, match="at the bottom"):
        deep(work)(5000)


def test_text_does_not_grow_with_the_square_of_depth():
    """Beyond some 200 levels nothing is indented further."""
    sizes = [len(jt.format_jaxpr(jt.parse(nested(n)))) for n in (300, 600, 1200)]
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


@pytest.mark.parametrize(
    "verb", ["parse", "print", "check", "jvp", "vmap", "linearize", "vjp", "lower"]
)
def test_the_collector_waits_while_a_program_is_made(verb):
    """Python's garbage collector would scan all objects made so far again and again, in quadratic
    time.
    """
    prepare, run = VERBS[verb]
    argument, runs = prepare(3000), []
    watch = lambda phase, info: runs.append(info["generation"])
    gc.collect()  # so that it is not due before the verb begins
    gc.callbacks.append(watch)
    try:
        made = run(argument)
        assert not runs
    finally:
        gc.callbacks.remove(watch)
    assert gc.isenabled() and made is not None


def test_the_collector_is_as_it_was_before():
    with pytest.raises(jt.JaxprParseError):
        jt.parse("{ lambda ; a:f32[]. let b:f32[] = sin")
    assert gc.isenabled()
    gc.disable()
    try:
        jt.jvp_jaxpr(jt.parse(text_of(10)))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_heap_is_set_aside_where_it_would_be_collected():
    gc.unfreeze()
    with heap_set_aside():
        assert gc.get_freeze_count()
    assert not gc.get_freeze_count()
    gc.disable()
    try:
        with heap_set_aside():
            assert not gc.get_freeze_count()
    finally:
        gc.enable()
    gc.freeze()  # what others have frozen stays so
    try:
        with heap_set_aside():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
