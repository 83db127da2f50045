"""Sizes that are no numbers: what `check` takes with them, every verb takes or refuses with a reason.

Each size of each example is called `n`, in types alone or in the params of shapes too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jaxprtool as jt
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.linearize import linearize
from jaxprtool.driver.vjp import vjp
from jaxprtool.driver.vmap import vmap
from jaxprtool.ir.avals import SymbolicDim
from jaxprtool.ir.diagnostics import JaxprToolError
from tests.laws.oracle import EXAMPLES, law, ours
from tests.rules.example import Example

_DIMENSIONS = re.compile(r"(?<=[a-z0-9>])\[([0-9,]+)\]")
_SHAPES = re.compile(r"\b(\w*shape|\w*sizes|limit_indices)=\(([0-9, ]*)\)")
VERBS: dict[str, Callable[[Any], Any]] = {
    "jvp": jvp,
    "vmap": lambda p: vmap(p, axis_size=2),
    "linearize": linearize,
    "vjp": vjp,
    "stats": lambda p: str(jt.stats(p)),
    "cost": lambda p: str(jt.cost(p)),
    "residuals": lambda p: str(jt.residuals(p)),
    "opt": jt.opt,
    "lint": lambda p: str(jt.lint(p)),
    "hash": jt.hash_program,
    "fmt": lambda p: jt.parse(jt.format_jaxpr(p)),
    "diff": lambda p: jt.diff(p, p),
    "lower": jt.lower,
}


def _renamed(words: str, size: str) -> str:
    return re.sub(rf"\b{size}\b", "n", words)


def _texts(text: str) -> Iterator[str]:
    sizes = {d for m in _DIMENSIONS.finditer(text) for d in m[1].split(",") if int(d or 0) > 1}
    for size in sorted(sizes):
        typed = _DIMENSIONS.sub(lambda m, s=size: f"[{_renamed(m[1], s)}]", text)
        yield typed
        yield _SHAPES.sub(lambda m, s=size: f"{m[1]}=({_renamed(m[2], s)})", typed)


@pytest.mark.filterwarnings("ignore:the custom|the batching rule")  # they are not in this text
@law(EXAMPLES)
def test_a_verb_answers_or_says_why_not(example: Example) -> None:
    text = jt.format_jaxpr(jt.make_jaxpr(ours(example))(*[a.aval for a in example.args]))
    for changed in dict.fromkeys(_texts(text)):
        try:
            program = jt.parse(changed)
            jt.check(program)
        except JaxprToolError as e:
            assert e.exit_code != 3, changed
            continue
        for name, verb in VERBS.items():
            try:
                verb(program)
            except JaxprToolError as e:
                assert e.exit_code != 3, (name, changed)
            except Exception as e:
                raise AssertionError(f"{name}: {e!r} of\n{changed}") from e


def test_what_is_true_of_any_size_is_computed() -> None:
    n = SymbolicDim("n")
    assert (n + 0, 0 + n, n - 0, 1 * n, n * 1, n // 1) == (n,) * 6
    assert n - n == 0 and n // n == 1 and n <= n and n >= n and not n < n
    assert min(n, n) == n and sum([n]) == n and f"[{n}]" == "[n]" and "x" + n == "xn"


@pytest.mark.parametrize(
    "operation",
    [
        *(lambda n: n + 1, lambda n: 2 * n, lambda n: n - 1, lambda n: 1 - n, lambda n: n // 2),
        *(lambda n: n % 2, lambda n: n < 3, lambda n: n > 3, lambda n: max(n, 1), range, int),
        *(lambda n: n + SymbolicDim("m"), lambda n: n <= SymbolicDim("m"), lambda n: [0][n]),
    ],
)
def test_nothing_else_is(operation: Callable[[Any], Any]) -> None:
    with pytest.raises(jt.UnsupportedError, match="the size n is none"):
        operation(SymbolicDim("n"))
