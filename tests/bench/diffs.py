"""Pairs of programs that are hard to compare, in any size, and how long `diff` takes for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

import jaxprtool as jt
from jaxprtool.ir.jaxpr import ClosedJaxpr

from .measure import Row, best

__all__ = ["HARD", "diff_rows", "pair"]

Body = list[str]
LIMIT = 10.0  # seconds for 50,000 equations against 50,000


def near(
    n: int,
    seed: int = 0,
    changed: Collection[int] = (),
    name: str = "v",
    operations: Sequence[str] = ("add", "mul", "sub", "max"),
) -> Body:
    """Equations that read what is a little above them; div at the changed places."""
    rng = random.Random(seed)
    names, body = ["a", "b"], []
    for i in range(n):
        x, y = rng.choice(names[-20:]), rng.choice(names[-20:])
        drawn = rng.choice(operations)
        body.append(f"{name}{i}:f32[3] = {'div' if i in changed else drawn} {x} {y}")
        names.append(f"{name}{i}")
    return body


def chain(n: int, operation: str = "sin", name: str = "v", first: str = "a") -> Body:
    """Each equation reads the last one."""
    return [f"{name}{i}:f32[3] = {operation} {f'{name}{i - 1}' if i else first}" for i in range(n)]


def apart(n: int) -> Body:
    """Equations that can stand in any order, each with a number of its own."""
    return [f"v{i}:f32[3] = mul a {i}.0:f32[]" for i in range(n)]


def few_kinds(n: int) -> Body:
    """Equations that can stand in any order, of six kinds."""
    rng = random.Random(0)
    return [
        f"v{i}:f32[3] = {rng.choice(['sin', 'cos', 'exp'])} {rng.choice('ab')}" for i in range(n)
    ]


def alike(n: int) -> Body:
    """Equations that are all the same."""
    return [f"v{i}:f32[3] = mul a b" for i in range(n)]


def shuffled(body: Body) -> Body:
    return random.Random(1).sample(body, len(body))


def replaced(body: Body, old: str, new: str, step: int) -> Body:
    return [x.replace(old, new) if i % step == 0 else x for i, x in enumerate(body)]


def moved(n: int) -> tuple[Body, Body]:
    """A tenth of the equations at the beginning, and at the end."""
    rng = random.Random(0)
    block = [
        f"w{i}:f32[3] = {rng.choice(['sin', 'tan', 'log'])} {f'w{i - 1}' if i else 'a'}"
        for i in range(n // 10)
    ]
    rest = near(n - len(block))
    return [*block, *rest], [*rest, *block]


HARD: dict[str, Callable[[int], tuple[Body, Body]]] = {
    "renamed, one changed": lambda n: (near(n), near(n, changed={n // 2}, name="w")),
    "every tenth changed": lambda n: (near(n), near(n, changed=range(0, n, 10))),
    "nothing in common": lambda n: (near(n), near(n, 1)),
    "of two kinds": lambda n: (
        near(n, operations=("add", "mul")),
        near(n, 1, operations=("add", "mul")),
    ),
    "a block moved": moved,
    "reversed": lambda n: (apart(n), apart(n)[::-1]),
    "shuffled": lambda n: (apart(n), shuffled(apart(n))),
    "shuffled, of few kinds": lambda n: (few_kinds(n), shuffled(few_kinds(n))),
    "all alike": lambda n: (alike(n), alike(n + 7)),
    "alike, some changed": lambda n: (alike(n), replaced(alike(n), "mul", "add", 97)),
    "a longer chain": lambda n: (chain(n), chain(n + 5)),
    "another chain": lambda n: (chain(n), chain(n, "cos")),
    "a name for another value": lambda n: (
        ["w:f32[3] = sin a", *replaced(apart(n), "mul a", "mul w", 1)],
        ["u:f32[3] = sin a", "w:f32[3] = cos a", *replaced(apart(n), "mul a", "mul w", 1)],
    ),
    "the first one changed": lambda n: (chain(n), [chain(1, "cos")[0], *chain(n)[1:]]),
}


def program(body: Body) -> ClosedJaxpr:
    """The program of these equations, whose result is that of the last one."""
    last = body[-1].partition(":")[0]
    lines = "\n".join(f"    {line}" for line in body)
    return jt.parse(f"{{ lambda ; a:f32[3] b:f32[3]. let\n{lines}\n  in ({last},) }}")


def pair(name: str, n: int) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """The two programs of a hard case, of about n equations each."""
    a, b = HARD[name](n)
    return program(a), program(b)


def diff_rows(n: int = 50_000) -> list[Row]:
    """Time the comparison of n equations with n."""
    rows: list[Row] = []
    for name in HARD:
        a, b = pair(name, n)
        for how, words in (("", []), (", order ignored", ["order"])):
            (seconds,) = best(1, lambda a=a, b=b, w=words: jt.diff(a, b, ignore=w).lines)
            rows.append(Row(f"diff: {name}{how}", seconds, None, LIMIT, "s"))
    return rows
