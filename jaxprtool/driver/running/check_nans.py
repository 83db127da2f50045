"""run --check-nans: stop at the first equation that makes a NaN."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.analyses.blaming.origins import Stop
from jaxprtool.analyses.blaming.provenance import Origin
from jaxprtool.analyses.blaming.reach import Reach
from jaxprtool.analyses.on_devices import local_of
from jaxprtool.analyses.places import Place, device_text
from jaxprtool.analyses.sites import Sites
from jaxprtool.driver import run as running
from jaxprtool.driver.compile import Compiled
from jaxprtool.driver.places import with_places
from jaxprtool.interpreters.evaluation.observe import Observer
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
def stopping_at_nans(program: ClosedJaxpr) -> Generator[Observer]:
    """Return an observer that ends the evaluation of a program, with NanError, at the first
    equation whose result has a NaN.

    A NaN that the program itself contains as a literal does not count, unless a result of the
    program has it.
    """
    flow = Flow(Sought(nan=True), stop=True)
    try:
        yield flow
    except Stop as e:
        raise _error(e.origin, Sites(program)) from None
    reach = Reach(flow)
    for origin in flow.origins:
        if origin.is_literal and origin.flows and not origin.bit & reach.idle:
            raise _error(origin, Sites(program))


def check_options(jit: bool, through: str | None) -> None:
    """Raise UsageError for options with which a program does not run on NumPy."""
    if jit or through is not None:
        goes = f"--check-nans goes without {'--jit' if jit else '--through'}"
        help = "`jaxprtool blame --jit` looks at what is compiled"
        fail(UsageError, f"NaNs are looked for on NumPy: {goes}", "option", help=help)


def run_words(
    source: ClosedJaxpr | Compiled, words: Sequence[str], name: str, alone: bool = True, **how: Any
) -> list[Value]:
    """Do as `driver.run.run_words`, but stop, with NanError, at the first equation that makes a NaN.

    name: the name, in places, of the text of a program that was traced. alone: whether nothing else
    is observed.
    """
    if not alone:
        message = "--check-nans goes without --print, --save-values and --digest"
        fail(UsageError, message, "option", help="run it twice, with one of them each")
    check_options(how.get("jit", False), how.get("through"))
    if isinstance(source, Compiled):
        fail(UsageError, "an artifact is compiled: --check-nans needs the program", "option")
    program = with_places(source, name)
    with stopping_at_nans(program) as observer:
        return running.run_words(program, words, observer=observer, **how)


def _error(origin: Origin, sites: Sites) -> NanError:
    assert origin.place is not None
    place = sites.of(origin.place)
    eqn = place.eqn
    found = origin.described
    of = f" in {found.n_bad:,} of {counted(found.size, 'element')}" if found.size > 1 else ""
    local = local_of(origin, eqn)
    first = next(iter(found.indices if local is None else local.indices), ())
    at = f", the first at {list(first)}" if first else ""
    if local is not None and local.devices:
        of += f" of {local.n_devices} devices"
        at = f"{at or ', the first'} of {device_text(local.devices[0])}"
    given = "" if origin.source is None else f", from {origin.source.kind} {origin.source.index}"
    way = f": {place}" if place.path else ""
    python = f" ({place.source})" if place.source and eqn.span is not None else ""
    message = f"{eqn.primitive.name} gives NaN{of}{at}{given}{way}{python}"
    help = "`jaxprtool blame` says what it reaches, and shows the operands"
    where = "" if eqn.span is not None else place.source or ""
    return NanError(Diagnostic(message, "nan", span=eqn.span, where=where, help=help), place)
