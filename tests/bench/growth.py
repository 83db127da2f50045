"""Time an equation of chains of growing length, and cold starts of whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import jaxprtool as jt
from jaxprtool.interpreters.linearize import linearize_jaxpr, vjp_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr

from .measure import Row, best

VERBS = ["fmt", "check", "diff", "jvp", "vmap", "partial-eval", "linearize", "transpose", "grad"]


def growth_rows(sizes: list[int]) -> list[Row]:
    """Time an equation of a chain of n equations: it must not grow with n."""
    rows = []
    for n in sizes:
        lines = ["{ lambda ; a:f32[3]. let"]
        names = ["a"] + [f"v{chr(97 + i % 26)}{_letters(i)}" for i in range(n)]
        for i in range(n):
            op = ("sin", "mul", "tanh")[i % 3]
            operands = f"{names[i]} 2.0:f32[]" if op == "mul" else names[i]
            lines.append(f"    {names[i + 1]}:f32[3] = {op} {operands}")
        lines.append(f"  in ({names[n]},) }}")
        text = "\n".join(lines)
        program = jt.parse(text)
        steps = {
            "parse": lambda t=text: jt.parse(t),
            "print": lambda p=program: jt.format_jaxpr(p),
            "check": lambda p=program: jt.typecheck_jaxpr(p.jaxpr),
            "jvp": lambda p=program: jt.jvp_jaxpr(ClosedJaxpr(p.jaxpr)),
            "linearize": lambda p=program: linearize_jaxpr(ClosedJaxpr(p.jaxpr)),
            "vjp": lambda p=program: vjp_jaxpr(ClosedJaxpr(p.jaxpr)),
            "stats": lambda p=program: jt.stats(p).lines(),
            "cost": lambda p=program: jt.cost(p).lines(),
            "assert": lambda p=program: jt.holds(p, "no f64", "all mul feed tanh").lines(),
            "eval": lambda p=program: jt.eval_jaxpr(p.jaxpr, [np.ones(3, np.float32)]),
        }
        for what, run in steps.items():
            (seconds,) = best(2, run)
            rows.append(Row(f"{what} of {n:,} equations", seconds * 1e6 / n, None, None))
    rows.sort(key=lambda r: r.what.split()[0])
    return rows


def _letters(i: int) -> str:
    out = ""
    while True:
        out += chr(97 + i % 26)
        i //= 26
        if not i:
            return out


def start_rows(runs: int) -> list[Row]:
    """Cold starts of whole processes, in milliseconds, beside that of a Python that imports click alone."""
    text = "{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = mul a b; d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c in (d,) }\n"
    linear = "{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = mul a b in (c,) }\n"
    extra = {
        "diff": ["{f}", "{f}"],
        "vmap": ["--in-axes", "0,-", "--axis-size", "2", "{f}"],
        "partial-eval": ["--known", "0", "{f}"],
        "transpose": ["--linear", "1", "{g}"],
        "run": ["{f}", "--args", "ones"],
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        f, g = Path(folder, "f.jaxpr"), Path(folder, "g.jaxpr")
        f.write_text(text)
        g.write_text(linear)
        for verb in [*VERBS, "run"]:
            words = [w.format(f=f, g=g) for w in extra.get(verb, ["{f}"])]
            command = ["-m", "jaxprtool", verb, *words]
            ours, click = best(runs, lambda c=command: _process(c), lambda: _process(_CLICK))
            budget = RUN_BUDGET if verb == "run" else LIGHT_BUDGET
            rows.append(Row(f"cold start: {verb}", ours * 1e3, click * 1e3, budget, "ms"))
    return rows


LIGHT_BUDGET, RUN_BUDGET = 3.0, 5.8
_CLICK = ["-c", "import click"]


def _process(words: list[str]) -> None:
    command = [sys.executable, *words]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
