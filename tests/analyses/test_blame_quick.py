"""What `blame` does quickly: it says the same as what it does step by step, and takes time linear in the program."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming import origins as of_origins
from jaxprtool.analyses.blaming.straight import Straight
from jaxprtool.driver.blame import blame
from tests.bench.blamed import many_origins, origins_apart, program_of

_UNARY = ("log", "sqrt", "exp", "tanh", "neg", "sin", "abs")
_BINARY = ("add", "mul", "sub", "div", "max", "min", "pow")


def _text(rng: random.Random) -> str:
    """A program of elementwise equations on f32[3], with comparisons and choices."""
    names = ["a", "b", "c"]
    lines = []
    for i in range(rng.randint(12, 30)):
        v = f"v{chr(97 + i // 26)}{chr(97 + i % 26)}"
        kind = rng.random()
        if kind < 0.4:
            lines.append(f"{v}:f32[3] = {rng.choice(_UNARY)} {rng.choice(names)}")
        elif kind < 0.85:
            x, y = rng.choice(names), rng.choice(names)
            lines.append(f"{v}:f32[3] = {rng.choice(_BINARY)} {x} {y}")
        else:
            x, y, z = rng.choices(names, k=3)
            lines.append(f"{v}p:bool[3] = gt {x} {rng.choice(names)}")
            lines.append(f"{v}:f32[3] = select_n {v}p {y} {z}")
        names.append(v)
    outs = rng.sample(names[3:], 5)
    for x in outs[:3]:  # a result for each element
        for i in range(3):
            cut = f"slice[limit_indices=({i + 1},) start_indices=({i},) strides=None]"
            lines.append(f"{x}{'xyz'[i]}:f32[1] = {cut} {x}")
            outs.append(f"{x}{'xyz'[i]}")
    lets = "\n    ".join(_with_params(line) for line in lines)
    return f"{{ lambda ; a:f32[3] b:f32[3] c:f32[3]. let\n    {lets}\n  in ({', '.join(outs)}) }}"


def _with_params(line: str) -> str:
    for name in ("log", "sqrt", "exp", "tanh", "sin"):
        line = line.replace(f"= {name} ", f"= {name}[accuracy=None] ")
    return line


def _args(rng: random.Random) -> list[Any]:
    values = (np.nan, np.inf, 0.0, 0.5, -1.0, 2.0)
    fully = rng.random() < 0.3
    return [
        np.array(
            [np.nan] * 3 if fully else rng.choices(values, (1, 1, 3, 5, 5, 5), k=3), np.float32
        )
        for _ in range(3)
    ]


@pytest.mark.parametrize("seed", range(150))
def test_equations_of_the_program_are_followed_quickly_as_step_by_step(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    program, args = jt.parse(_text(rng)), _args(rng)
    quick = blame(program, args)
    monkeypatch.setattr(Straight, "go_on", lambda *a: a[4])
    slow = blame(program, args)
    assert quick.json() == slow.json()
    assert quick.lines() == slow.lines()


@pytest.mark.parametrize("shape", [many_origins, origins_apart])
def test_few_of_many_origins_are_described(shape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    n, described = 100, list[Any]()
    program, args = program_of("many", shape(n))
    plain = of_origins._described  # pyright: ignore[reportPrivateUsage]

    def counting(*a: Any) -> Any:
        described.append(a)
        return plain(*a)

    monkeypatch.setattr(of_origins, "_described", counting)
    found = blame(program, args)
    assert len(found.appearances) == n
    assert any("... 91 more ..." in line for line in found.lines())
    assert len(described) <= 10
    assert all(a["result"]["count"] == 8 for a in found.json()["appearances"])
    assert len(described) == n


def test_values_that_would_take_much_memory_are_described_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, args = program_of("many", many_origins(30))
    later = blame(program, args).json()
    monkeypatch.setattr(of_origins, "_KEPT", 100)
    assert blame(program, args).json() == later
