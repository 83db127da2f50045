"""residuals: what a reverse pass saves, under a policy, compared with another one, and the cheapest
choice under a limit.
"""

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
    """Return what a reverse pass of a program saves.

    Args:
      program: (a) -> (b).
      wrt: positions of leaves, or names of arguments or of parts of them, with a derivative; all
        inexact leaves by default.
      policy: what is saved: see `policy_of`; None: what the program says itself.
      vs: a policy to compare it with.
      top: the number of rows that are shown.

    Raises:
      JaxprTypeError, UnsupportedError, MissingRuleError: as `linearize`.
      UsageError: an invalid option.
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
    """Return the program that recomputes least among those whose reverse pass saves no more than a limit.

    Among the results of equations of the program itself (not of inner jaxprs) HiGHS finds the best
    choice; it is compared with the named policies. With more than 20,000 results only these are
    compared.

    Args:
      program: (a) -> (b).
      limit: the bytes that may be saved besides arguments and constants.
      wrt, vs, top: as for `residuals`.

    Returns:
      What it saves, and the program; its policy is among the words of the answer.

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
    """Return which of some programs computes least and saves no more than a limit, and what it saves.

    `known` has the results for some of them. Each program is made anew and freed unless it is the
    best so far, since its derivative is cached on it.

    Raises:
      UsageError: all save more.
    """
    found: tuple[str, Keeping] | None = None
    least: int | None = None
    for words, make in tried.items():
        kept = known.get(words) or _kept(make(), flags)
        least = kept.computed if least is None else min(least, kept.computed)
        if kept.computed <= limit and (found is None or _rank(kept) < _rank(found[1])):
            found = words, kept
        del kept  # frees it before the next one is made
    if found is None:
        message = f"--best: {least:,} bytes are the least that was found, more than {limit:,}"
        span = next(iter(tried.values()))().jaxpr.span
        fail(UsageError, message, "too-large", span=span)
    return found


def _rank(kept: Keeping) -> tuple[int, int]:
    return kept.flops or 0, kept.computed


def kept(program: ClosedJaxpr, policy: str = "") -> list[Kept]:
    """Return what a reverse pass of a program saves under a policy ("": what the program says
    itself), for all inexact arguments.

    Raises:
      JaxprTypeError, UnsupportedError, MissingRuleError, UsageError: as `residuals`.
    """
    check_arrays(check_input(program), "residuals", sized=True)
    flags, _ = differentiated(program, None)
    return _kept(under_policy(program, policy or None), flags).values


def _chosen(
    program: ClosedJaxpr, plain: Keeping, limit: int
) -> dict[str, Callable[[], ClosedJaxpr]]:
    """Return a function that makes the program with the solver's choice of saved values, by the words of its policy.

    Empty where the solver finds no choice, or saves nothing.
    """
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
    """Return the program as one `remat2` with a policy (see `policy_of`); the program itself for None."""
    return program if policy is None else checkpointed(program, policy_of(policy))


_SECONDS = 10.0  # time limit of the solver
