"""Choices that the code explains by a measurement: how a small compiled program is called, how a process ends."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.backends.xla.placed_call import _of_any

from .measure import Row, best

COPIES = 4
# With one argument JAX's dispatch in C++ is the quicker one by a hair.
BUDGETS = {1: 1.05, 2: 1.0, 4: 1.0, 8: 1.0}


def call_rows(runs: int) -> list[Row]:
    """All rows of this theme."""
    return [*_small_programs(max(1000 * runs, 3000)), *_ends(max(runs, 20))]


def _small_programs(runs: int) -> list[Row]:
    """A call of a program of a few additions, the arguments placed, the result read.

    Against `jax.jit`; the rows without a budget are of the function for any number of arguments.
    """
    import jax
    from jax._src import core

    rows = []
    for n, budget in BUDGETS.items():
        text = _sum_of(n)
        args = [np.ones(3, np.float32)] * n
        calls: list[Callable[[], Any]] = []
        for _ in range(COPIES):
            program = jt.parse(text)
            compiled, jitted = jt.compile(program), jax.jit(core.jaxpr_as_fun(jt.to_jax(program)))
            e = compiled._executable
            plain = _of_any(e._execute, e._handlers, e._in, e.__call__, None)
            placed, theirs = compiled.place(args), [jax.device_put(x) for x in args]
            calls += [_reading(compiled, placed), _reading(plain, placed), _reading(jitted, theirs)]
        for run in calls:
            run()
        times = [1e6 * t for t in best(runs, *calls)]
        ours, plain, theirs = (min(times[i::3]) for i in range(3))
        rows.append(Row(f"call with {n} arguments", ours, theirs, budget, "us"))
        rows.append(Row(f"call with {n} arguments, by loops", plain, theirs, None, "us"))
    return rows


def _sum_of(n: int) -> str:
    binders = " ".join(f"a{i}:f32[3]" for i in range(n))
    lines = [f"b{i}:f32[3] = add b{i - 1} a{i}" for i in range(1, n)]
    body = "\n    ".join(["b0:f32[3] = add a0 1.0:f32[]", *lines])
    return f"{{ lambda ; {binders}. let\n    {body}\n  in (b{n - 1},) }}"


def _reading(f: Callable[..., Any], values: Any) -> Callable[[], Any]:
    return lambda: np.asarray(f(*values)[0])


_LEAVE = "import os, sys\n{}from jaxprtool.cli.main import main\nmain({!r})"


def _ends(runs: int) -> list[Row]:
    """A whole process of a small verb, ended by `os._exit` as it is, against `sys.exit`: milliseconds of the processor."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f.jaxpr")
        path.write_text(_sum_of(2))
        for words in (["fmt", str(path)], ["run", str(path), "--args", "ones"]):
            as_it_is = partial(_process, _LEAVE.format("", words))
            plain = partial(_process, _LEAVE.format("os._exit = sys.exit\n", words))
            as_it_is(), plain()
            pairs = [(as_it_is(), plain()) for _ in range(runs)]
            ours, theirs = map(min, zip(*pairs, strict=True))
            rows.append(
                Row(f"end of {words[0]}, to sys.exit's", ours * 1e3, theirs * 1e3, 0.95, "ms")
            )
    return rows


def _process(code: str) -> float:
    """The seconds of the processor that a process takes."""
    env, before = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}, _used_by_children()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=env)
    return _used_by_children() - before


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
