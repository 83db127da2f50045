"""run --check-nans: stop at the first equation that makes a NaN."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from jaxprtool.analyses.bad_values import Sought
from jaxprtool.analyses.flow import Flow
from jaxprtool.analyses.origins import Stop
from jaxprtool.analyses.places import Place
from jaxprtool.analyses.provenance import Origin
from jaxprtool.driver import run as running
from jaxprtool.driver.compile import Compiled
from jaxprtool.driver.places import with_places
from jaxprtool.interpreters.observe import Observer
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = ["NanError", "check_options", "run_words", "stopping_at_nans"]


class NanError(JaxprToolError):
    """An equation gives a NaN. `place` is its place."""

    exit_code = 1

    def __init__(self, diagnostics: Diagnostic, place: Place | None = None):
        super().__init__(diagnostics)
        self.place = place


@contextmanager
def stopping_at_nans() -> Generator[Observer]:
    """An observer that ends the evaluation, with NanError, at the first equation whose result is a NaN."""
    try:
        yield Flow(Sought(nan=True), stop=True)
    except Stop as e:
        raise _error(e.origin) from None


def check_options(jit: bool, through: str | None) -> None:
    """Raise UsageError where a program does not run on NumPy."""
    if jit or through is not None:
        goes = f"--check-nans goes without {'--jit' if jit else '--through'}"
        help = "`jaxprtool blame --jit` looks at what is compiled"
        fail(UsageError, f"NaNs are looked for on NumPy: {goes}", "option", help=help)


def run_words(
    source: ClosedJaxpr | Compiled, words: Sequence[str], name: str, alone: bool = True, **how: Any
) -> list[Value]:
    """As `driver.run.run_words`, but stop, with NanError, at the first equation that makes a NaN.

    name: what places call the text of a program that was traced. alone: whether nothing else is observed.
    """
    if not alone:
        message = "--check-nans goes without --print, --save-values and --digest"
        fail(UsageError, message, "option", help="run it twice, with one of them each")
    check_options(how.get("jit", False), how.get("through"))
    if isinstance(source, Compiled):
        fail(UsageError, "an artifact is compiled: --check-nans needs the program", "option")
    with stopping_at_nans() as observer:
        return running.run_words(with_places(source, name), words, observer=observer, **how)


def _error(origin: Origin) -> NanError:
    place = origin.place
    assert place is not None
    eqn = place.eqn
    of = f" in {origin.count:,} of {counted(origin.size, 'element')}" if origin.size > 1 else ""
    at = f", the first at {list(origin.indices[0])}" if origin.indices and origin.indices[0] else ""
    given = "" if origin.source is None else f", from {origin.source.kind} {origin.source.index}"
    way = f": {place}" if place.path else ""
    python = f" ({place.source})" if place.source and eqn.span is not None else ""
    message = f"{eqn.primitive.name} gives NaN{of}{at}{given}{way}{python}"
    help = "`jaxprtool blame` says what it reaches, and shows the operands"
    where = "" if eqn.span is not None else place.source or ""
    return NanError(Diagnostic(message, "nan", span=eqn.span, where=where, help=help), place)
