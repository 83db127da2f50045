"""lint --fix: apply the passes that mend what `driver.lint` has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxprtool.core.stack import deep
from jaxprtool.driver.places import with_places
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.linter.answer import Lint, Linted
from jaxprtool.passes.left_alone import left_alone
from jaxprtool.passes.pipeline import pipeline, run_pipeline

__all__ = ["Fixed", "fixed"]


class Fixed(NamedTuple):
    """Programs after the passes that mend their findings.

    Attributes:
      programs: by the names that they had; the same objects where nothing changed.
      changed: whether any of them has changed.
    """

    programs: dict[str, ClosedJaxpr]
    changed: bool


@deep
def fixed(programs: Mapping[str, ClosedJaxpr], found: Lint) -> Fixed:
    """Return programs after the passes that mend what `lint` has found in them.

    The passes are applied to the whole program, except for the equations of findings that comments
    tell lint to ignore.
    """
    made = {
        key: _mended(program, one)
        for (key, program), one in zip(programs.items(), found.programs, strict=True)
    }
    return Fixed(made, any(made[key] is not program for key, program in programs.items()))


def _mended(program: ClosedJaxpr, linted: Linted) -> ClosedJaxpr:
    fixes = [f.fix for f in linted.findings if f.fix]
    passes = dict.fromkeys(p for fix in fixes for p in fix.split(","))
    if not passes:
        return program

    def run(p: ClosedJaxpr) -> ClosedJaxpr:
        return run_pipeline(load_constants(p), pipeline(",".join(passes)), until_fixed=True)

    places = [f.found.place for f in linted.ignored if f.fix]
    ignored = {place.eqn for place in places if place is not None}
    # the spans show where the findings are
    made = left_alone(with_places(program), ignored, run)
    typecheck_jaxpr(made, allow_unknown=True)
    return made
