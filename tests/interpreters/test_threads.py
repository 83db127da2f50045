"""Evaluations in several threads at once do not see one another's observers, limits and loops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.core.stack import run_deep
from jaxprtool.core.verification import verified_if, verifying
from jaxprtool.interpreters.evaluation.limits import (
    Turns,
    check_room,
    limited_bytes,
    limited_seconds,
    limited_steps,
    limited_turns,
    no_loops,
    running_loops,
    steps,
)
from jaxprtool.interpreters.evaluation.observe import computed_by, observed_by, observer
from jaxprtool.interpreters.evaluation.separate import separate
from jaxprtool.ir.diagnostics import UsageError

COUNT = jt.parse("""{ lambda ; a:i32[]. let
    b:i32[] = while[
      cond_jaxpr={ lambda ; c:i32[]. let d:bool[] = lt c 9:i32[] in (d,) }
      body_jaxpr={ lambda ; e:i32[]. let f:i32[] = add e 1:i32[] in (f,) }
      cond_nconsts=0
      body_nconsts=0
    ] a
  in (b,) }""")
ZERO = np.int32(0)


def in_thread(f: Callable[[], Any]) -> Any:
    """Return what f returns, or raises, in another thread."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(f())
        except Exception as e:
            found.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def count() -> int:
    (result,) = jt.eval_jaxpr(COUNT, [ZERO])
    return int(result)


class Refusing:
    """An observer, and a provider of functions, that nothing may ask."""

    def __init__(self) -> None:
        self.programs: dict[Any, Any] = {}

    def enter(self, *_: Any) -> bool:
        raise AssertionError("another thread is observed")

    begin = see = leave = of = enter


@pytest.mark.parametrize(
    "setting",
    [
        lambda: observed_by(Refusing()),  # type: ignore[arg-type]
        lambda: computed_by(Refusing()),  # type: ignore[arg-type]
        lambda: limited_steps(3),
        lambda: limited_turns(Turns(3)),
        lambda: limited_seconds(-1.0),
    ],
)
def test_settings_are_those_of_their_thread(setting):
    with setting():
        assert in_thread(count) == 9


@pytest.mark.parametrize(
    "limit",
    [lambda: limited_steps(3), lambda: limited_turns(Turns(3)), lambda: limited_seconds(-1.0)],
)
def test_a_separate_evaluation_and_a_deep_one_have_the_limits_of_those_that_start_them(limit):
    with limit():
        assert isinstance(in_thread(separate(count)), UsageError)
        with pytest.raises(UsageError):
            run_deep(count)
    assert in_thread(separate(count)) == 9


def test_room_is_that_of_the_thread():
    with limited_bytes(7):
        with pytest.raises(UsageError):
            check_room(8, "it")
        assert isinstance(in_thread(separate(lambda: check_room(8, "it"))), UsageError)
        assert in_thread(lambda: check_room(8, "it")) is None


def test_loops_are_those_of_the_thread_and_of_its_deep_ones():
    def names() -> list[str]:
        return [loop.name for loop in running_loops()]

    for _ in steps("outer", 1):
        assert names() == ["outer"]
        assert in_thread(names) == in_thread(separate(names)) == []
        assert run_deep(names) == ["outer"]
        with no_loops():
            assert names() == []
    assert names() == []


def test_a_separate_evaluation_is_not_observed():
    with observed_by(Refusing()), computed_by(Refusing()):  # type: ignore[arg-type]
        assert run_deep(observer) is not None
        assert in_thread(separate(count)) == 9


def test_the_check_of_each_jaxpr_is_switched_off_in_one_thread():
    assert verifying()
    with verified_if(False):
        assert not run_deep(verifying)
        assert not in_thread(separate(verifying))
    assert verifying()


def planted(op: str, length: int) -> jt.ClosedJaxpr:
    """A chain of sines with one other operation in its middle."""
    ops = ["sin"] * length
    ops[length // 2] = op
    lines = [f"v{i + 1}:f32[3] = {op} v{i}" for i, op in enumerate(ops)]
    return jt.parse(f"{{ lambda ; v0:f32[3]. let {'; '.join(lines)} in (v{length},) }}")


def test_faults_are_found_in_several_threads_at_once():
    x = -np.ones(3, np.float32)
    programs = [planted("log", 60), planted("sqrt", 80), planted("acosh", 70)]
    alone = [str(jt.blame(p, x)) for p in programs]
    found: list[list[str]] = [[] for _ in programs]

    def search(i: int) -> None:
        for _ in range(10):
            found[i].append(str(jt.blame(programs[i], x)))

    threads = [threading.Thread(target=search, args=(i,)) for i in range(len(programs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[text] * 10 for text in alone]
