"""blame names the equation that makes a NaN, says what it reaches, and calls what is masked so."""

from __future__ import annotations

import gc
import itertools
import os
import random
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.analyses.sites import Sites
from jaxprtool.core.tree import tree_leaves
from jaxprtool.driver.blame import blame
from jaxprtool.driver.places import with_places
from jaxprtool.driver.running.check_nans import NanError
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.interpreters.columns.flow import goes_into_good_results
from tests.analyses.faults import (
    STEPS,
    Recorder,
    has_nan,
    is_planted,
    planted,
    results,
    same,
    spots,
)
from tests.programs.catalogue import EXAMPLES, PROGRAMS

FILES = sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
MOST = 1000 if os.environ.get("JAXPRTOOL_ALL") else 6
X = np.array([4.0, -1.0, 1.0], np.float32)
CASES = [*PROGRAMS, *[str(p.relative_to(EXAMPLES)) for p in FILES if p.stem != "multiply_add"]]


def program_of(case: str) -> tuple[Any, list[Any]]:
    """A program with places, and arguments for it."""
    if case in PROGRAMS:
        f, args = PROGRAMS[case].make()
        leaves = tree_leaves(args)
        with jax.enable_x64(any(np.asarray(x).dtype == np.float64 for x in leaves)):
            return with_places(jt.trace(f, *args), case), leaves
    loaded: Any = jt.load(EXAMPLES / case)
    program = with_places(loaded, case)
    return program, arguments(open_binders(program), ["random:0"])


def ask(*args: Any, **how: Any) -> Any:
    """`jt.blame`, of whose answer each field is taken to be there."""
    return jt.blame(*args, **how)


def outputs(f: Any, *args: Any) -> list[str | None]:
    return [o.reached for o in ask(f, *args).outputs]


def blamed(program: Any, args: Any, **kinds: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return blame(program, args, step_limit=STEPS, **kinds)


@pytest.mark.parametrize("case", CASES)
def test_a_planted_nan_is_found_and_what_it_reaches(case: str) -> None:
    program, args = program_of(case)
    before = results(program, args)
    if any(map(has_nan, before)) or blamed(program, args, nan=True).found:
        pytest.skip("it has a NaN of its own")
    chosen = spots(case, program, args, MOST)
    assert chosen
    for spot in chosen:
        faulty = with_places(jt.parse(jt.format_jaxpr(planted(program, spot), lossless=True), case))
        recorder = Recorder()
        try:
            after = results(faulty, args, recorder)
        except jt.UsageError:  # with the NaN a loop has no end
            after = None
        found = blamed(faulty, args, nan=True)
        ran = map(Sites(faulty).of, recorder.first.values())
        first = next(place for place in ran if is_planted(place.eqn))
        assert found.found and found.kind == "nan", str(spot)
        assert is_planted(found.first.eqn), f"{spot}\n{found}"
        assert found.first.path == first.path, f"{spot}\n{found}"
        if after is None:
            assert found.stopped
            continue
        check_outputs(found, before, after)
        for output in found.outputs:
            if output.reached == "reaching":
                assert output.chain, f"{spot}\n{found}"
                begins = output.chain[0]
                if not is_planted(begins.eqn):  # what a NaN decides may make another one
                    assert found.deciding, f"{spot}\n{found}"
                    assert begins in [a.place for a in found.appearances], f"{spot}\n{found}"


def check_outputs(found: Any, before: Any, after: Any) -> None:
    """A result reaches exactly where it holds a NaN; one that depends on no bad value is what it was.

    So is a masked one where all that masks is picking among elements.
    """
    picked = not any(goes_into_good_results(p.eqn) for p in found.masked_by)
    for output, a, b in zip(found.outputs, before, after, strict=True):
        assert (output.reached == "reaching") == has_nan(b), str(found)
        if output.reached is None or (output.reached == "masked" and picked):
            assert same(a, b), str(found)


@pytest.mark.parametrize("case", CASES)
def test_a_masked_nan_is_called_masked(case: str) -> None:
    program, args = program_of(case)
    before = results(program, args)
    if blamed(program, args, nan=True).found:
        pytest.skip("it has a NaN of its own")
    for spot in spots(case, program, args, MOST):
        masked = planted(program, spot, masked=True)
        faulty = with_places(jt.parse(jt.format_jaxpr(masked, lossless=True), case))
        after = results(faulty, args)
        found = blamed(faulty, args, nan=True)
        assert is_planted(found.first.eqn), f"{spot}\n{found}"
        assert all(o.reached != "reaching" for o in found.outputs), f"{spot}\n{found}"
        assert [same(a, b) for a, b in zip(before, after, strict=True)]
        assert "select_n" in {p.eqn.primitive.name for p in found.masked_by}, f"{spot}\n{found}"


# -- sources -----------------------------------------------------------------------------------


def test_an_argument_is_named() -> None:
    found = ask(lambda x, y: x + y * 2, X, np.float32(np.nan))
    assert (found.appearances[0].source.kind, found.appearances[0].source.index) == ("argument", 1)
    assert found.first.eqn.primitive.name == "mul"
    assert "takes it from argument" in str(found)


def test_an_argument_that_is_a_result() -> None:
    found = ask(lambda x: x, np.float32(np.inf))
    assert found.found and found.first is None and found.kind == "inf"
    assert found.outputs[0].reached == "reaching" and "result" in str(found)


def test_a_constant_is_named() -> None:
    table = np.array([1, np.nan], np.float32)
    found = ask(lambda x: x + jnp.asarray(table), np.float32(1))
    assert found.appearances[0].source.kind == "constant"
    assert found.first.eqn.primitive.name == "add"


def test_a_literal_is_named() -> None:
    found = ask(lambda x: jnp.sin(x + np.float32(np.inf)), X)
    first = found.appearances[0]
    assert first.kind == "inf" and first.source.kind == "literal" and first.source.index == 1
    assert "literal" in str(found)


def test_a_literal_that_is_not_taken_is_no_fault() -> None:
    assert not ask(lambda x: jnp.maximum(x, -np.inf), X).found


# -- places and values -------------------------------------------------------------------------


def test_offending_indices_and_the_values_of_operands_there() -> None:
    a = np.array([[1, 0, 3], [0, 5, 6]], np.float32)
    first = ask(lambda a, b: a / b, a * 0, a).json()
    result = {
        "index": 0,
        "type": "f32[2,3]",
        "count": 2,
        "indices": [[0, 1], [1, 0]],
        "values": ["nan"] * 2,
    }
    assert first["result"] == result
    zero, divisor = first["operands"]
    assert divisor["values"] == [0.0, 0.0] and zero["values"] == [0.0, 0.0]
    assert (divisor["min"], divisor["max"], divisor["nan"]) == (0.0, 6.0, 0)


def test_scalars_stretch() -> None:
    found = ask(lambda a: jax.lax.div(np.float32(0), a), np.float32(0)).json()
    assert [o["values"] for o in found["operands"]] == [[0.0], [0.0]]


def test_the_step_of_a_long_loop_and_little_is_kept() -> None:
    xs = np.ones(20_000, np.float32)
    xs[12_345] = -1
    from jaxprtool.analyses.blaming.bad_values import Sought
    from jaxprtool.analyses.blaming.flow import Flow
    from jaxprtool.driver.run import run

    def f(xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c + jnp.log(x), jnp.sin(c)), np.float32(0), xs)

    program = with_places(jt.trace(f, xs))
    flow = Flow(Sought())
    run(program, [xs], observer=flow)
    assert len(flow.origins) == 1
    assert sum(len(c.made) for c in flow.root.context().all_inside()) == 3
    found = ask(f, xs)
    assert found.first.path[0].step == 12_345
    assert [o.reached for o in found.outputs] == ["reaching"] * 2


def test_elements_tell_a_second_origin_from_what_flows() -> None:
    """An elementwise operation whose operand is bad elsewhere makes a bad element of its own."""
    found = ask(lambda x: jnp.log(jnp.sqrt(x) - 1), np.array([-1, 0.25], np.float32))
    names = [a.place.eqn.primitive.name for a in found.appearances]
    assert names == ["sqrt", "log"]
    found = ask(lambda x: jnp.log(jnp.sqrt(x)), np.array([-1, 1], np.float32))
    assert len(found.appearances) == 1


def test_a_nan_of_infinities_is_told() -> None:
    found = ask(lambda x: jnp.exp(x) - jnp.exp(x), np.float32(1000))
    kinds = [(a.kind, a.place.eqn.primitive.name) for a in found.appearances]
    assert kinds == [("inf", "exp"), ("inf", "exp"), ("nan", "sub")]
    assert ask(lambda x: jnp.exp(x) - jnp.exp(x), np.float32(1000), nan=True).kind == "nan"


@pytest.mark.parametrize(
    ("how", "value", "name"),
    [
        ({"denormal": True}, 1e-20, "mul"),
        ({"above": 100.0}, 1e3, "mul"),
        ({"inf": True}, 1e30, "mul"),
    ],
)
def test_other_kinds(how: Any, value: float, name: str) -> None:
    found = ask(lambda x: jnp.sin(x * x) * 0, np.float32(value), **how)
    if "above" in how:
        assert found.appearances[0].source.kind == "argument"
    assert found.kind == next(iter(how)) and found.first.eqn.primitive.name == name


def test_references() -> None:
    def f(x: Any) -> Any:
        cell = jax.new_ref(x)
        cell[...] = jnp.log(cell[...])
        other = cell[...] * 2
        cell[...] = x
        return other, cell[...] + 1

    found = ask(f, np.float32(-1))
    assert found.first.eqn.primitive.name == "log"
    assert [o.reached for o in found.outputs] == ["reaching", "masked"], str(found)


def test_effects_run_once() -> None:
    calls: list[float] = []

    def f(x: Any) -> Any:
        jax.debug.callback(lambda y: calls.append(float(y)), x)
        return jnp.log(x)

    found = ask(f, np.float32(-1))
    assert found.found and len(calls) == 1


def test_callbacks_may_begin_it() -> None:
    def f(x: Any) -> Any:
        y = jax.pure_callback(lambda x: np.float32(np.nan), jax.ShapeDtypeStruct((), np.float32), x)
        return y + 1

    found = ask(f, np.float32(1))
    assert found.first.eqn.primitive.name == "pure_callback"


def test_the_document_has_the_keys_that_the_help_names() -> None:
    document = ask(jnp.log, X).json()
    assert {"found", "kind", "first", "chain", "outputs", "masked_by"} <= {*document}
    assert {*document["first"]} == {
        "file",
        "line",
        "column",
        "primitive",
        "path",
        "source",
        "names",
    }
    assert {"index", "reached"} <= {*document["outputs"][0]}


# -- compiled, stopped, --check-nans -----------------------------------------------------------


DENORMAL = np.array([1.0, 1.2e-38], np.float32)


def only_compiled(x: Any) -> Any:
    y = jax.jit(lambda y: 1 / (y * 0.5))(-x)
    return jnp.tanh(y) * y


def test_what_is_bad_only_when_compiled() -> None:
    """XLA takes a denormal number for zero."""
    assert not ask(only_compiled, DENORMAL).found
    found = ask(only_compiled, DENORMAL, jit=True)
    assert found.found and found.kind == "inf" and "only when compiled" in str(found)
    assert found.first.eqn.primitive.name == "div"
    assert found.json()["only_compiled"]["place"] == found.json()["first"]


def test_what_is_clean_when_compiled_too() -> None:
    found = ask(jnp.sin, X, jit=True)
    assert not found.found and "none either" in str(found)


def test_a_program_with_effects_is_not_run_again() -> None:
    calls: list[float] = []

    def f(x: Any) -> Any:
        jax.debug.callback(lambda y: calls.append(float(y)), x)
        return jnp.sin(x)

    def g(x: Any) -> Any:
        def host(x: Any) -> Any:
            calls.append(1)
            return np.sin(x)

        return jax.pure_callback(host, jax.ShapeDtypeStruct((), np.float32), x)

    for h in (f, g):
        calls.clear()
        found = ask(h, np.float32(1), jit=True)
        assert not found.found and "runs once only" in str(found)
        assert len(calls) == 1


def test_a_loop_without_an_end_is_blamed() -> None:
    def f(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: ~(c > 10), lambda c: c + jnp.log(x), np.float32(0))

    found = ask(f, np.float32(-1), step_limit=50)
    assert found.stopped and found.first.eqn.primitive.name == "log"
    assert str(found).splitlines()[-1].endswith(f"results: {found.stopped}")
    with pytest.raises(jt.UsageError):
        ask(f, np.float32(1.001), step_limit=50)


def test_check_nans_stops_at_the_first() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            y = jnp.log(x)
            jax.debug.callback(lambda x: seen.append(float(x)), x)
            return c + y, c

        return jax.lax.scan(body, np.float32(0), x)

    xs = np.array([1, 2, -3, 4], np.float32)
    with pytest.raises(NanError, match=r"log gives NaN: scan at .* > step 2 > log at") as e:
        jt.run(f, xs, check_nans=True)
    place = e.value.place
    assert e.value.exit_code == 1 and place is not None and place.path[0].step == 2
    assert seen == [1, 2]
    assert len(jt.run(f, abs(xs), check_nans=True)) == 2
    jt.run(lambda x: x / 0, xs, check_nans=True)  # infinities are none


def test_devices_have_the_places_of_the_text() -> None:
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")

    def body(x: Any) -> Any:
        return jax.lax.psum(jnp.log(x), "i")

    f = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=jax.sharding.PartitionSpec())
    found = ask(f, X)
    assert found.chain[0].eqn.primitive.name == "log"
    assert str(found.first).startswith("shard_map at")
    assert [o.reached for o in found.outputs] == ["reaching"]


def test_custom_rules_and_keys() -> None:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sqrt(x)

    f.defjvp(lambda p, t: (f(*p), t[0] / f(*p)))
    found = ask(lambda x: f(x) + jax.random.uniform(jax.random.key(0)), np.float32(-1))
    assert found.first.eqn.primitive.name == "sqrt" and found.first.path
    found = ask(jax.grad(f), np.float32(0))
    assert found.first.eqn.primitive.name == "div"


# -- random programs ---------------------------------------------------------------------------


DRAWN = 400 if os.environ.get("JAXPRTOOL_ALL") else 15


def drawn(seed: int, *, nan: bool = True) -> tuple[Any, list[Any]] | None:
    """A random program with arguments, one of which may hold a NaN; None where the draw is no program that runs."""
    rng = random.Random(seed)
    try:
        program = with_places(wrapped(rng, draw_program(rng)))
        given = arguments(open_binders(program), [f"random:{seed}"])
        if not all(isinstance(x, np.ndarray) for x in given) or _gives_keys(program):
            return None  # keys and references are no numbers
        args = [np.array(x) for x in given]
        floats = [x for x in args if x.dtype.kind == "f" and x.size]
        if floats and nan:
            rng.choice(floats).reshape(-1)[0] = np.nan
        results(program, args)
    except Exception:  # a draw may be wrong in any way
        return None
    return program, args


def _gives_keys(program: Any) -> bool:
    return any(
        getattr(a, "dtype", None) is not None and a.dtype.kind == "k" for a in program.out_avals
    )


def test_random_programs() -> None:
    """A result reaches exactly where it holds a bad value, whatever the program does."""
    good = (found for seed in itertools.count() if (found := drawn(seed)) is not None)
    for program, args in itertools.islice(good, DRAWN):
        after = results(program, args)
        found = blamed(program, args)
        assert str(found) and found.json()["schema"] == 1
        for output, x in zip(found.outputs, after, strict=True):
            bad = x.dtype.kind in "fc" and not np.isfinite(x).all()
            assert (output.reached == "reaching") == bad or x.dtype.kind == "V", (
                f"{program}\n{found}"
            )


def test_a_planted_nan_in_random_programs() -> None:
    """The equation that makes it is named, whatever is around it, and each result says what has become of it."""
    good = (found for seed in itertools.count() if (found := drawn(seed, nan=False)) is not None)
    for program, args in itertools.islice(good, DRAWN):
        before = results(program, args)
        if any(map(has_nan, before)) or blamed(program, args, nan=True).found:
            continue
        for spot in spots(str(program), program, args, 2):
            text = jt.format_jaxpr(planted(program, spot), lossless=True)
            faulty = with_places(jt.parse(text, "drawn"))
            try:
                after = results(faulty, args)
            except jt.UsageError:  # with the NaN a loop has no end
                continue
            found = blamed(faulty, args, nan=True)
            assert found.found and is_planted(found.first.eqn), f"{spot}\n{text}\n{found}"
            check_outputs(found, before, after)


# -- the cost of long loops ---------------------------------------------------------------------


def _every_hundredth(x: Any) -> Any:
    """A step in a hundred makes a NaN and masks it; what is called inside (`where`, `%`) are jaxprs of their own."""

    def body(c: Any, i: Any) -> Any:
        z = jnp.where(i % 100 == 37, 0.0, c + 2.0)
        y = jnp.where(i % 100 == 37, 0.5, z / z)
        return jnp.tanh(c * 0.9 + y * 0.1), None

    return jax.lax.scan(body, x, jnp.arange(4_000))[0]


def test_steps_in_which_nothing_is_new_are_passed_over_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed: list[Any] = []
    follow = Flow._follow_log
    monkeypatch.setattr(
        Flow, "_follow_log", lambda self, log: (followed.append(log.jaxpr), follow(self, log))[1]
    )
    program = jt.trace(_every_hundredth, np.float32(0.5))
    jt.blame(program, np.float32(0.5))
    followed.clear()
    gc.collect()
    gc.disable()
    try:
        found = jt.blame(program, np.float32(0.5))
        left = gc.collect()
    finally:
        gc.enable()
    (body,) = [e.params["jaxpr"].jaxpr for e in program.eqns if e.primitive.name == "scan"]
    assert followed.count(body) < 400, f"{followed.count(body)} of 4,000 steps"
    assert left < 2_000, f"{left:,} objects in cycles"
    first = found.appearances[0]
    assert first.place.path[0].step == 37 and first.origin.made.times == 40
