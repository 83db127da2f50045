"""residuals: what a reverse pass keeps, under a policy, beside another one, and the cheapest under a limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from jaxprtool.analyses.memory.kept import Keeping, Kept, keeping
from jaxprtool.analyses.memory.kept_answer import Residuals
from jaxprtool.analyses.memory.recomputation import values_to_keep
from jaxprtool.core.stack import deep
from jaxprtool.driver.places import with_places
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.arguments import Position, differentiated
from jaxprtool.interpreters.linearize import linearize_jaxpr
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.checkpointing import POLICY_WORDS, checkpointed, policy_of, with_names
from jaxprtool.passes.names import look_for_policy_names

__all__ = ["best", "kept", "policy_of", "residuals", "under_policy"]


@deep
def residuals(
    program: ClosedJaxpr,
    *,
    wrt: Sequence[Position] | None = None,
    policy: str | None = None,
    vs: str | None = None,
    top: int = 20,
) -> Residuals:
    """What a reverse pass of a program keeps.

    Args:
      program: (a) -> (b).
      wrt: positions of leaves, or names of arguments or of parts of them, with a derivative; all inexact leaves by default.
      policy: what is kept: see `policy_of`; None: what the program says itself.
      vs: a policy to compare it with.
      top: how many rows people see.

    Raises:
      JaxprTypeError, UnsupportedError, MissingRuleError: as `linearize`.
      UsageError: an option that makes no sense.
    """
    if top < 1:
        fail(UsageError, f"--top {top}: at least one row is shown", "option")
    program = with_places(program)
    check_arrays(check_input(program), "residuals", sized=True)
    flags, _ = differentiated(program, wrt)
    for words in filter(None, (policy, vs)):
        look_for_policy_names(program, words)
    kept = _kept(under_policy(program, policy), flags)
    plain = kept if policy == "everything" else _kept(under_policy(program, "everything"), flags)
    other = None if vs is None else _kept(under_policy(program, vs), flags)
    return Residuals(kept, policy, plain, top, other, vs)


@deep
def best(
    program: ClosedJaxpr,
    limit: int,
    *,
    wrt: Sequence[Position] | None = None,
    vs: str | None = None,
    top: int = 20,
) -> tuple[Residuals, ClosedJaxpr]:
    """The program that computes least again among those whose reverse pass keeps no more than a limit.

    Of the results of equations of the program itself (not of jaxprs inside of them) the best choice is looked for with HiGHS;
    it is compared with the policies that have names. Of more than 20,000 results only these are compared.

    Args:
      program: (a) -> (b).
      limit: the bytes that may be kept besides arguments and constants.
      wrt, vs, top: as of `residuals`.

    Returns:
      What it keeps, and the program; its policy is among the words of the answer.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError, MissingRuleError: as `residuals`.
    """
    program = with_places(program)
    check_arrays(check_input(program), "residuals", sized=True)
    flags, _ = differentiated(program, wrt)
    if vs is not None:
        look_for_policy_names(program, vs)
    plain = _kept(under_policy(program, "everything"), flags)
    tried: dict[str, Callable[[], ClosedJaxpr]] = {"as it is": lambda: program}
    tried |= {w: functools.partial(under_policy, program, w) for w in POLICY_WORDS}
    tried |= _chosen(program, plain, limit)
    words, kept = _cheapest(tried, flags, limit, {"everything": plain})
    other = None if vs is None else _kept(under_policy(program, vs), flags)
    return Residuals(kept, words, plain, top, other, vs), tried[words]()


def _cheapest(
    tried: Mapping[str, Callable[[], ClosedJaxpr]],
    flags: Sequence[bool],
    limit: int,
    known: Mapping[str, Keeping],
) -> tuple[str, Keeping]:
    """Which of some programs computes least and keeps no more than a limit, and what it keeps; `known` has that of some.

    Each is made anew, since its derivative is kept with it, and what it keeps holds equations of that: of those that are
    dearer nothing stays.

    Raises:
      UsageError: all keep more.
    """
    found: tuple[str, Keeping] | None = None
    least: int | None = None
    for words, make in tried.items():
        kept = known.get(words) or _kept(make(), flags)
        least = kept.computed if least is None else min(least, kept.computed)
        if kept.computed <= limit and (found is None or _rank(kept) < _rank(found[1])):
            found = words, kept
        del kept  # else it stays until the next one is there
    if found is None:
        message = f"--best: {least:,} bytes are the least that was found, more than {limit:,}"
        span = next(iter(tried.values()))().jaxpr.span
        fail(UsageError, message, "too-large", span=span)
    return found


def _rank(kept: Keeping) -> tuple[int, int]:
    return kept.flops or 0, kept.computed


def kept(program: ClosedJaxpr, policy: str = "") -> list[Kept]:
    """What a reverse pass of a program keeps under a policy ("": what the program says itself), for all inexact arguments.

    Raises:
      JaxprTypeError, UnsupportedError, MissingRuleError, UsageError: as `residuals`.
    """
    check_arrays(check_input(program), "residuals", sized=True)
    flags, _ = differentiated(program, None)
    return _kept(under_policy(program, policy or None), flags).values


def _chosen(
    program: ClosedJaxpr, plain: Keeping, limit: int
) -> dict[str, Callable[[], ClosedJaxpr]]:
    """What makes the program that keeps the values that the solver chooses, by the words of its policy."""
    from jaxprtool.backends.choice import cheapest  # noqa: PLC0415 (gateway: SciPy)

    saved = [v for v in plain.values if v.producer is not None]
    solve = functools.partial(cheapest, seconds=_SECONDS)
    found = values_to_keep(program, saved, limit, solve)
    if found is None:
        return {}
    names = {v: f"keep_{v.name or i}" for i, v in enumerate(found)}
    if not names:
        return {}
    words = f"names={','.join(names.values())}"
    return {words: lambda: under_policy(with_names(program, names), words)}


def _kept(program: ClosedJaxpr, flags: Sequence[bool]) -> Keeping:
    primal, linear, _ = linearize_jaxpr(program, flags)
    return keeping(program, primal, linear)


def under_policy(program: ClosedJaxpr, policy: str | None) -> ClosedJaxpr:
    """The program as one `remat2` with a policy (see `policy_of`); itself for None."""
    return program if policy is None else checkpointed(program, policy_of(policy))


_SECONDS = 10.0  # for which the solver is given time
