"""stats: count what a program consists of, compare it with another one, and measure how it grows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jaxprtool.analyses.counting.growth import trends
from jaxprtool.analyses.counting.stats import KEYS, collect
from jaxprtool.analyses.counting.stats_answer import Growth, Stats
from jaxprtool.core.stack import deep
from jaxprtool.driver.places import with_places
from jaxprtool.driver.verify import blaming_the_program
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["growth", "stats"]


@deep
def stats(
    program: ClosedJaxpr,
    *,
    vs: ClosedJaxpr | None = None,
    by: str = "primitive",
    top: int = 20,
    trips: int | None = None,
) -> Stats:
    """Return statistics of a program.

    Args:
      program: the program.
      vs: a program to compare it with.
      by: the key of the groups: primitive, source, scope, shape, dtype or depth (1: the program
        itself).
      top: how many of the largest values the answer has, and the number of rows that are shown.
      trips: the number of iterations of loops for which it is not known; None: unknown.

    Raises:
      JaxprTypeError: a program is so ill-typed that it cannot be counted.
      UsageError: an invalid option.
    """
    _check_options(by, top, trips)
    with blaming_the_program(program):
        found = collect(with_places(program), by, top, trips)
    if vs is None:
        return Stats(found, by, top)
    with blaming_the_program(vs):
        return Stats(found, by, top, collect(with_places(vs), by, top, trips))


@deep
def growth(
    programs: Sequence[ClosedJaxpr],
    names: Sequence[str],
    *,
    sizes: Sequence[int] = (),
    by: str = "scope",
    top: int = 20,
    trips: int | None = None,
) -> Growth:
    """Return how the parts of a program grow with its size.

    Args:
      programs: the program in several sizes, two or more.
      names: their names, in the same order.
      sizes: a number for each; () for the last number that differs in the names, else the elements
        of the arguments.
      by, top, trips: as for `stats`.

    Raises:
      JaxprTypeError: a program is so ill-typed that it cannot be counted.
      UsageError: an invalid option; sizes that are equal, or not one for each program.
    """
    _check_options(by, top, trips)
    found = [*sizes] or _numbers_in(names) or [_elements(p) for p in programs]
    if len(found) != len(programs):
        message = f"{len(found)} sizes are given for {len(programs)} programs"
        fail(UsageError, message, "option", help="--sizes takes a number for each program")
    if len({*found}) < len(found) or min(found) < 1:
        message = f"the sizes {', '.join(map(str, found))} are not different positive numbers"
        fail(UsageError, message, "option", help="say them with --sizes 8,16,32")
    order = sorted(range(len(found)), key=found.__getitem__)
    chosen, n = [programs[i] for i in order], [found[i] for i in order]
    with blaming_the_program(*chosen):
        return Growth([names[i] for i in order], n, by, trends(chosen, n, by, trips), top)


def _check_options(by: str, top: int, trips: int | None) -> None:
    if by not in KEYS:
        fail(UsageError, f"by {by!r}: it is one of {', '.join(KEYS)}", "option")
    if top < 1:
        fail(UsageError, f"--top {top}: at least one row is shown", "option")
    if trips is not None and trips < 0:
        fail(UsageError, f"--trips {trips}: a loop turns 0 times or more", "option")


_NUMBER = re.compile(r"\d+")


def _numbers_in(names: Sequence[str]) -> list[int]:
    """Return the numbers in names that are the same but for one number: 8, 16 for a_8, a_16; or []."""
    if len({_NUMBER.sub("#", name) for name in names}) > 1:
        return []
    columns = zip(*[map(int, _NUMBER.findall(name)) for name in names], strict=True)
    differing = [[*c] for c in columns if len({*c}) == len(names)]
    return differing[-1] if differing else []


def _elements(program: ClosedJaxpr) -> int:
    return sum(max(getattr(a, "size", 0), 0) for a in program.in_avals)
