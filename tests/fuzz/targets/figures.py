"""Verbs that count take every checked program, and their figures fit one another.

The groups of a table add up to its total, whatever they are by, where no branch is chosen; figures are no less than 0; a program has one hash, however it is
printed; and nothing differs from itself.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from typing import Any

import jaxprtool as jt
from jaxprtool.driver.cost import KEYS, SORTS
from jaxprtool.ir.walk import all_eqns
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.checked_programs import Case, accepted, draw, show

ALL = 1 << 30  # rows
POLICIES = ("nothing", "everything", "dots", "dots_no_batch")


def check(case: Case) -> None:
    program, rng = case.program, random.Random(case.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if accepted(program):
            for law in (_stats, _cost, _residuals, _hash):
                law(program, rng)


def _stats(program: Any, rng: random.Random) -> None:
    found = _document(lambda: jt.stats(program, by=rng.choice(KEYS), top=ALL))
    if found is not None:
        total = found["equations"]
        _adds_up("equations", [g["equations"] for g in found["groups"]], total["written"])
        for end in ("low", "high"):
            parts = [g["executed"][end] for g in found["groups"]]
            if total["executed"][end] is not None and None not in parts and not _branches(program):
                _adds_up(f"executed, {end}", parts, total["executed"][end])


def _cost(program: Any, rng: random.Random) -> None:
    trips = rng.choice((None, 0, 3))
    found = _document(lambda: jt.cost(program, sort=rng.choice(SORTS[:4]), trips=trips, top=ALL))
    if found is None:
        return
    total = found["total"]
    for key in ("flops", "transcendentals", "bytes"):
        parts = [row[key] for row in found["equations"]]
        if total[key] is not None and None not in parts and not _branches(program):
            _adds_up(key, parts, total[key])
    held = total["held_bytes"]
    if total["peak_bytes"] is not None and not 0 <= held <= total["peak_bytes"]:
        raise Failure(f"{held} bytes are held throughout, and {total['peak_bytes']} at the peak")


def _branches(program: Any) -> bool:
    """Whether an equation chooses among jaxprs: a total has one of them, and the rows have all."""
    several = (p for e in all_eqns(program.jaxpr) for p in e.params.values())
    return any(
        isinstance(p, tuple) and sum(isinstance(x, jt.ClosedJaxpr) for x in p) > 1 for p in several
    )


def _residuals(program: Any, rng: random.Random) -> None:
    policy = rng.choice(POLICIES)
    found = _document(lambda: jt.residuals(program, policy=policy, top=ALL))
    if found is not None:
        kept = [row["bytes"] for row in found["residuals"]]
        _adds_up("bytes kept", kept, found["total"]["bytes"])


def _hash(program: Any, rng: random.Random) -> None:
    del rng
    try:
        name = jt.hash_program(program)
        again = jt.parse(jt.format_jaxpr(program, lossless=True))
        found = jt.diff(program, program)
    except jt.JaxprToolError:
        return
    if jt.hash_program(again) != name:
        raise Failure("a program that was printed and read again has another hash")
    if not found.equal or found.lines:
        raise Failure(f"a program differs from itself: {found.lines}")


def _adds_up(what: str, parts: list[int], total: int) -> None:
    if sum(parts) != total or any(n < 0 for n in parts):
        raise Failure(f"{what}: {parts} and {total} in all")


def _document(ask: Callable[[], Any]) -> dict[str, Any] | None:
    """The JSON of an answer that has words too; None for an error of the user's."""
    try:
        found = ask()
    except jt.JaxprToolError:
        return None
    str(found)
    return json.loads(json.dumps(found.json()))


TARGET = Target("figures", draw, check, show)
