"""fuzz --check: it comes out clean, and finds what is planted, in every column."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.backends.stability import plain, stable_differences
from jaxprtool.driver.fuzzing.columns import COLUMNS, Deviation, Tried, deviation, tried
from jaxprtool.driver.reduce import How
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.generation.programs import draw_typed
from jaxprtool.interpreters.batch import batch_rules
from jaxprtool.interpreters.columns.determined import is_determined
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.jvp import jvp_rules
from jaxprtool.interpreters.lower import lowering_rules
from jaxprtool.interpreters.transpose import transpose_rules
from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.passes.precisions.jitter import Jitter
from tests.invoke import invoke

MANY = 40 if os.environ.get("JAXPRTOOL_ALL") else 1


@pytest.mark.parametrize(
    ("column", "count"),
    [("numpy", 60), ("vmap", 60), ("xla", 25), ("jax", 10), ("jvp", 12), ("vjp", 12)],
)
def test_nothing_differs(column: str, count: int, tmp_path: Path) -> None:
    found = jt.fuzz([column], seed=5_000, count=count * MANY, output=tmp_path / "found")
    assert not found.findings, str(found)
    assert found.compared[column] > count * MANY * 0.8 and not (tmp_path / "found").exists()


@pytest.mark.parametrize(
    ("column", "count", "share"),
    [
        ("numpy", 16, 0.85),
        ("xla", 16, 0.85),
        ("jax", 6, 0.7),
        ("jvp", 6, 0.6),
        ("vjp", 6, 0.6),
        ("vmap", 6, 0.7),
    ],
)
def test_most_equations_of_large_programs_are_compared(
    column: str, count: int, share: float
) -> None:
    """One equation without a derivative, say, must not keep a program out of a column."""
    found = jt.fuzz([column], seed=8_000, count=count, size=12)
    assert found.compared[column] >= count * 5 / 6, found
    assert found.equations[column] > share * found.drawn, found


def test_an_equation_that_a_column_refuses_is_an_argument_there() -> None:
    program = jt.parse("""{ lambda ; a:f32[3] p:f32[3] m:i32[3]. let
        b:f32[3] = sin a
        c:f32[3] = random_gamma_grad p p
        d:f32[3] = mul c b
        e:f32[3] = log d
        f:f32[3] = mul e a
        g:i32[3] = population_count m
      in (f, g) }""")
    args = [np.array([-1, 2, 3], "f4"), np.array([1, 2, 3], "f4"), np.array([1, 2, 3], "i4")]
    done = tried("vjp", program, args)
    assert done.found is None
    left = ["sin", "mul", "mul", "population_count"]
    assert [e.primitive.name for e in done.program.eqns] == left
    a, m, c, e = done.args
    assert a is args[0] and m is args[2] and len(done.program.jaxpr.outs) == 3
    np.testing.assert_array_equal(c, lax.random_gamma_grad(args[1], args[1]))
    assert np.isfinite(e).all()  # the logarithm is NaN, of which there is no derivative


def test_what_a_column_finds_in_a_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = jt.parse("""{ lambda ; a:f32[]. let
        b:f32[] = sin a
        c:f32[] = random_gamma_grad a b
        d:f32[] = add b c
      in (d,) }""")
    monkeypatch.setitem(jvp_rules.rules, lax.sin.primitive, jvp_rules[lax.tanh.primitive])
    found = tried("jvp", program, [np.float32(0.5)]).found
    assert found is not None and found.kind == "differs"


def _wrong(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule whose result is 1 too large."""

    def changed(*args: Any, **params: Any) -> Any:
        return rule(*args, **params) + 1

    return changed


# column, table, primitive, another rule, whether a program of its derivative has it
PLANTED = {
    "xla": (impl_rules, lax.tanh, lambda rule: _wrong(rule)),
    "jax": (impl_rules, lax.mul, lambda rule: _wrong(rule)),
    "xla lowering": (lowering_rules, lax.sin, lambda rule: lowering_rules[lax.cos.primitive]),
    "jvp": (jvp_rules, lax.sin, lambda rule: jvp_rules[lax.tanh.primitive]),
    "vjp": (transpose_rules, lax.neg, lambda rule: lambda cts, x, **p: [cts[0]]),
    "vmap": (batch_rules, lax.cumsum, lambda rule: _as_if_not_batched),
}


def _as_if_not_batched(axis_size: Any, vals: Any, dims: Any, **params: Any) -> Any:
    """The rule of a cumulative sum that takes the batch axis for an axis of the operand."""
    (x,), (d,) = vals, dims
    return lax.cumsum(x, **{**params, "axis": d}), d


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_and_reduced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    column, (table, op, change) = name.split()[0], PLANTED[name]
    primitive = op.primitive
    monkeypatch.setitem(table.rules, primitive, change(table[primitive]))
    folder = tmp_path / "found"
    line = (
        f"fuzz --check {column} --size 3 --primitives {primitive},add,neg -n 16 -o {folder} --json"
    )
    done = invoke(line)
    assert done.status == 1, (done.output, done.error)
    found = json.loads(done.output)
    mine = [f for f in found["findings"] if primitive.name in f["primitives"]]
    assert found["found"] == len(found["findings"]) and mine, found
    first = mine[0]
    assert first["column"] == column and first["kind"] in ("differs", "crash")
    small = jt.load(first["file"])
    assert primitive.name in first["primitives"] and len(small.eqns) <= 2
    assert len(jt.load(first["original"]).eqns) >= len(small.eqns)
    args = np.load(first["args"])
    assert deviation(column, small, [args[k] for k in args]) is not None
    assert Path(first["original_args"]).exists()


def test_a_rule_that_raises_is_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_params: Any) -> Any:
        raise KeyError("nothing there")

    monkeypatch.setitem(batch_rules.rules, lax.sin.primitive, broken)
    done = invoke(f"fuzz --check vmap --primitives sin,add -n 20 -o {tmp_path / 'found'}")
    assert done.status == 1
    assert "vmap crash: KeyError: 'nothing there'" in done.output and "of sin, from" in done.output
    assert "in the same way" in done.output


def test_without_reduction_the_program_is_kept_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(impl_rules.rules, lax.sin.primitive, _wrong(impl_rules[lax.sin.primitive]))
    line = f"fuzz --check xla --size 3 --primitives sin,add -n 6 --no-reduce --json -o {tmp_path}"
    for finding in json.loads(invoke(line).output)["findings"]:
        assert Path(finding["file"]).read_text() == Path(finding["original"]).read_text()


def test_it_ends_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program is begun that would end after the limit, and a finding is reduced in what is left of it."""
    now = 0.0

    def slow(column: str, program: jt.ClosedJaxpr, args: object) -> Tried:
        nonlocal now
        now += 0.4
        failed = Deviation(column, "differs", "it") if column == "vmap" else None
        return Tried(program, args, failed)

    asked: list[float] = []

    def reduced(program: jt.ClosedJaxpr, args: object, interest: object, how: How) -> None:
        asked.append(how.seconds)
        raise jt.UsageError(Diagnostic("stopped", "usage"))

    driver = sys.modules["jaxprtool.driver.fuzz"]
    clock = SimpleNamespace(monotonic=lambda: now)
    for module in (driver, sys.modules["jaxprtool.core.clock"]):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(driver, "tried", slow)
    monkeypatch.setattr(driver.reducing, "reduce", reduced)
    found = jt.fuzz("numpy,xla,jvp,vmap", seconds=2, output=tmp_path)
    assert found.programs == 1 and found.seconds == pytest.approx(1.6)
    assert asked == [pytest.approx(0.4)]
    found = jt.fuzz("numpy,xla,jvp", seconds=1, output=tmp_path)
    assert found.compared == {"numpy": 1, "xla": 1, "jvp": 1}
    found = jt.fuzz("numpy,xla,jvp,vmap", seconds=0.5, output=tmp_path)
    assert found.compared["xla"] == 1 and not found.compared.get("jvp")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--check numpy,tpu", "option"),
        ("--check ,", "option"),
        ("--seconds 3", "option"),
        ("--no-reduce", "option"),
        ("--json", "option"),
        ("--primitives add,mull", "unknown-primitive"),
        ("--primitives ppermute", "option"),
        ("--size 0", "usage"),
        ("-n 0", "usage"),
        ("--check numpy --seconds -1", "usage"),
        ("-o /dev/null/x", "unwritable-file"),
        ("file.jaxpr", "usage"),
    ],
)
def test_wrong_usage(line: str, code: str) -> None:
    done = invoke(f"fuzz {line}")
    assert done.status == 2 and f"[{code}]" in done.error, done.error


def test_programs_without_determined_results_are_refused() -> None:
    program = jt.parse(
        "{ lambda ; a:f32[] b:f32[]. let c:f32[3] = rng_uniform[shape=(3,)] a b in (c,) }"
    )
    assert not is_determined(program)
    for column in COLUMNS:
        with pytest.raises(Exception, match="determine"):
            deviation(column, program, [np.float32(0), np.float32(1)])


# -- what rounding explains --------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["jvp", "vjp"])
def test_a_result_that_only_the_derivative_of_jax_gives_is_no_difference(column: str) -> None:
    """JAX's rule of `cumlogsumexp` leaves the first element as it is, where its value has another imaginary part."""
    text = "{ lambda ; a:c64[2]. let b:c64[2] = cumlogsumexp[axis=0 reverse=False] a in (b,) }"
    x = np.array([-4j, 1 - 3j], np.complex64)
    assert deviation(column, jt.parse(text), [x]) is None


def test_jitter_keeps_types_and_moves_results_a_little() -> None:
    moved = 0
    for seed in range(60):
        program = draw_typed(random.Random(seed), 3, ["add", "mul", "sin", "scan", "cond", "while"])
        args = arguments(open_binders(program), ["random:0"])
        exact, jitter = jt.eval_jaxpr(program, args), Jitter()
        found = []
        for draw in (0, 1, 0):
            with jitter.drawn(draw):
                found.append(jt.eval_jaxpr(program, args))
        for xs in found:
            assert [(x.dtype, x.shape) for x in xs] == [(x.dtype, x.shape) for x in exact]
            for x, y in zip(xs, exact, strict=True):
                if x.dtype.kind == "f":
                    np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)
        first, second, again = [[x.tobytes() for x in xs] for xs in found]
        assert first == again
        moved += first != second
        assert [x.tobytes() for x in jt.eval_jaxpr(program, args)] == [x.tobytes() for x in exact]
    assert moved > 20


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "c64", "c128"])
def test_jitter_moves_each_type_of_numbers_by_one_in_the_last_place(dtype: str) -> None:
    """In jaxprs of params too, and whether a primitive has one result or several."""
    text = f"{{ lambda ; a:{dtype}[]. let b:{dtype}[] = jit[name=f jaxpr={{ lambda ; c:{dtype}[]. let d:{dtype}[] = neg c in (d,) }}] a in (b,) }}"
    program, jitter = jt.parse(text), Jitter()
    args = arguments(open_binders(program), ["ones"])
    one = jt.eval_jaxpr(program, args)[0]
    sizes = set()
    for seed in range(40):
        with jitter.drawn(seed):
            (out,) = jt.eval_jaxpr(program, args)
        assert out.dtype == one.dtype
        sizes.add(complex(out).real)
    eps = float(np.finfo(one.dtype).eps if dtype != "bf16" else 2.0**-7)
    assert max(abs(x + 1) for x in sizes) <= 2 * eps + eps**2
    assert len(sizes) >= 3


def of(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_difference_is_one_where_no_rounding_explains_it() -> None:
    def constant(x: float) -> tuple[Any, Any]:
        return [of([x])], lambda args: [of([x])]

    def steep(args: Any) -> Any:
        return [of([np.float32(1e6) * (args[0] - np.float32(1.0))])]

    args = [np.float32(1.0)]
    assert stable_differences(constant(1.0), constant(1.1), args)
    assert not stable_differences(constant(1.0), constant(1.0 + 1e-6), args)
    assert not stable_differences((steep(args), steep), constant(0.3), args)
    assert stable_differences((steep(args), steep), constant(1e9), args)


@pytest.mark.parametrize(
    ("x", "y", "same"),
    [(1e-20, 0.0, True), (1e-6, 0.0, False), (np.nan, 0.0, False), (1e-20, np.nan, False)],
)
def test_complex_numbers_near_0_differ_by_the_rounding_of_1(x: float, y: float, same: bool) -> None:
    def constant(x: float) -> tuple[Any, Any]:
        value = np.array([x], np.complex64)
        return [value], lambda args: [value]

    found = stable_differences(constant(x), constant(y), [])
    assert bool(found) is not same
    if same:  # a result of another type, or a real one, is no such number
        real = [of([x])], lambda args: [of([x])]
        assert stable_differences(constant(x), real, [])
        assert stable_differences(real, ([of([y])], lambda args: [of([y])]), [])


def test_what_implementations_may_choose() -> None:
    assert plain(of([1e-40, 1.0])).tolist() == [0.0, 1.0]
    assert np.isnan(plain(np.array([complex(np.inf, 0)]))).all()
    assert np.isinf(plain(of([np.inf]))).all() and np.isnan(plain(of([np.inf]), poles=True)).all()
