"""Checks of programs at values, as functions of Python: each takes a program, or a JAX function with its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.gradchecking.answer import GradCheck
from jaxprtool.analyses.identity.equiv import Equivalence
from jaxprtool.analyses.rounding.precision_answer import Precision
from jaxprtool.driver import equiv as equivalence
from jaxprtool.driver import gradcheck as gradchecking
from jaxprtool.driver import precision as measuring
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import is_function, with_values, with_values_of_two
from jaxprtool.driver.places import with_places
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["equiv", "gradcheck", "precision"]


@for_the_function(equivalence.equiv, programs=2)
def equiv(a: Any, b: Any, *args: Any, domain: str | Sequence[str] = (), **how: Any) -> Equivalence:
    """Whether two programs, or functions, compute the same.

    Args:
      a, b: programs or functions; see `jaxprtool.trace`.
      args: the arguments on which a function among them is traced; the first sample too. Programs need none.
      domain: which values arguments may have: `"x: f32[3] in [-1, 1]"`, or a list of such texts.
      how: keywords of `driver.equiv`: `samples`, `rtol`, `atol`, `seed`, `max_bytes`, `step_limit`.

    Returns:
      An object with `status` (`proved`, `probable` or `refuted`), `proved`, `refuted`, `samples` and, where they differ,
      `sample`, whose `args` are a counterexample; `str` of it is what `jaxprtool equiv` prints.

    Raises:
      JaxprTypeError, UsageError: as `driver.equiv`.
    """
    first, second, leaves = with_values_of_two(a, b, args)
    values = leaves if leaves and all(map(_is_value, leaves)) else None
    domains = [domain] if isinstance(domain, str) else domain
    return equivalence.equiv(first, second, values, domain=domains, **how)


def _is_value(x: Any) -> bool:
    """Whether a leaf is an array or a number, not a type: a `ShapeDtypeStruct` has a dtype, but no elements."""
    if isinstance(x, (bool, int, float, complex)):
        return True
    return hasattr(x, "dtype") and hasattr(x, "__getitem__")


@for_the_function(gradchecking.gradcheck)
def gradcheck(
    program: Any, *args: Any, modes: str | Sequence[str] = "fwd,rev", **how: Any
) -> GradCheck:
    """Whether the derivatives of a program, or of a function, agree with finite differences.

    Args:
      program, args: as `run` takes them.
      modes: `fwd` (jvp), `rev` (vjp), or both.
      how: keywords of `driver.gradcheck`: `order`, `eps`, `rtol`, `atol`, `seed`, `max_bytes`,
        `step_limit`.

    Returns:
      An object with `passed`, `blame` (the equations whose rules are wrong, with their places) and
        `derivatives` (what was found in each mode); `str` of it is what `jaxprtool gradcheck`
        prints.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError, MissingRuleError: as `driver.gradcheck`.
    """
    words = modes.split(",") if isinstance(modes, str) else modes
    found, leaves = _placed(program, args)
    return gradchecking.gradcheck(found, leaves, modes=[m.strip() for m in words], **how)


@for_the_function(measuring.precision)
def precision(program: Any, *args: Any, **how: Any) -> Precision:
    """What rounding does in each equation of a program, or of a function, and where more precision helps.

    Args:
      program, args: as `run` takes them.
      how: keywords of `driver.precision`: `shadow`, `top`, `tries`, `max_bytes`, `step_limit`.

    Returns:
      An object with `outputs` (the errors of the results), `equations` (those of the equations, with their places) and
      `trials` (what becomes of the results' errors where an equation is done in double precision); `str` of it is what
      `jaxprtool precision` prints.

    Raises:
      JaxprTypeError, UsageError, UnsupportedError: as `driver.precision`.
    """
    found, leaves = _placed(program, args)
    return measuring.precision(found, leaves, **how)


def _placed(program: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, Sequence[Any]]:
    """Return a program whose equations have places, and its arguments, one by one."""
    found, values = with_values(program, args)
    if not is_function(program):
        return with_places(found), values
    return with_places(found, getattr(program, "__name__", type(program).__name__)), values
