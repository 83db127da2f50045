"""What is done with a case, from its printed text, and whether JAX gives the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxprtool as jt
from tests.conformance.compare import compare
from tests.conformance.harnesses import Case, JaxCannot, as_ours, programs
from tests.conformance.oracle import Oracle, ask_jax, rounding

__all__ = ["CANNOT", "COLUMNS", "FAILED", "PASSED", "REFUSED", "Outcome", "run_case", "run_harness"]

PASSED, FAILED, CANNOT, REFUSED = "pfcr"


@dataclass
class Outcome:
    """What came of a harness in one column; `why` is the error where it did not pass."""

    harness: str
    column: str
    result: str
    why: str = ""


class Ours:
    """A case as we have it: its text, and the program that is read from it."""

    def __init__(self, case: Case):
        self.text = case.text
        self.types = "with 64-bit types" if case.x64 else "without 64-bit types"
        self.args = [as_ours(x) for x in case.args]
        self.rounding = rounding(case)
        self.consts = [as_ours(np.asarray(c) if np.isscalar(c) else c) for c in case.closed.consts]

    def program(self) -> jt.ClosedJaxpr:
        """The program, with the values of its constants, which no text has."""
        return jt.ClosedJaxpr(jt.parse(self.text).jaxpr, self.consts)

    def compare(self, actual: Any, expected: Any, *, derivative: bool = False) -> None:
        """Raise AssertionError unless results are JAX's."""
        compare(actual, expected, self.rounding[derivative])

    def function(self) -> Callable[..., list[Any]]:
        """The program as a function on NumPy."""
        return jt.jaxpr_as_fun(self.program())


def _parse(ours: Ours, oracle: Oracle) -> None:
    jt.parse(ours.text)


def _print(ours: Ours, oracle: Oracle) -> None:
    printed = jt.format_jaxpr(jt.parse(ours.text))
    assert printed == ours.text, f"prints as {printed[:300]}"


def _check(ours: Ours, oracle: Oracle) -> None:
    found = jt.typecheck_jaxpr(ours.program().jaxpr)
    types = [a.str_short(short_dtypes=True) for a in oracle.case.closed.out_avals]
    assert [str(t) for t in found.out_types] == types, f"{found.out_types} is not {types}"


def _eval(ours: Ours, oracle: Oracle) -> None:
    expected = oracle["eval"]
    actual = jt.eval_jaxpr(ours.program().jaxpr, [*ours.consts, *ours.args])
    ours.compare(actual, expected)


def _xla(ours: Ours, oracle: Oracle) -> None:
    expected = oracle["eval"]
    ours.compare(jt.compile(ours.program())(*ours.args), expected)


def _jvp(ours: Ours, oracle: Oracle) -> None:
    expected = oracle["jvp"]
    outs, tangents = jt.jvp(ours.function(), ours.args, oracle.tangents)
    ours.compare(outs, expected[: len(outs)])
    ours.compare(tangents, expected[len(outs) :], derivative=True)


def _vjp(ours: Ours, oracle: Oracle) -> None:
    expected = oracle["vjp"]
    pullback = jt.vjp(ours.function(), *ours.args)[1]
    ours.compare(pullback(list(oracle.cotangents)), expected, derivative=True)


def _vmap(ours: Ours, oracle: Oracle) -> None:
    expected = oracle["vmap"]
    batched = [as_ours(x) for x in oracle.batched]
    ours.compare(jt.vmap(ours.function())(*batched), expected)


COLUMNS: dict[str, Callable[[Ours, Oracle], None]] = {
    "parse": _parse,
    "print": _print,
    "check": _check,
    "eval": _eval,
    "xla": _xla,
    "jvp": _jvp,
    "vjp": _vjp,
    "vmap": _vmap,
}


def run_harness(name: str) -> list[Outcome]:
    """All columns of a harness; of its two programs, where it has two, the worse outcome."""
    with warnings.catch_warnings():
        # JAX's about 64-bit types, and ours that a text has no custom rules
        warnings.simplefilter("ignore")
        try:
            rows = [run_case(case) for case in programs(name)]
        except JaxCannot as e:
            return [Outcome(name, column, CANNOT, str(e)) for column in COLUMNS]
    worst_first = FAILED + REFUSED + PASSED + CANNOT
    return [
        Outcome(name, column, *min(found, key=lambda f: worst_first.index(f[0])))
        for column, *found in zip(COLUMNS, *rows, strict=True)
    ]


def run_case(case: Case) -> list[tuple[str, str]]:
    """A letter for each column, and the error."""
    oracle, ours = ask_jax(case), Ours(case)
    return [_run_column(run, ours, oracle) for run in COLUMNS.values()]


def _run_column(run: Callable[[Ours, Oracle], None], ours: Ours, oracle: Oracle) -> tuple[str, str]:
    try:
        run(ours, oracle)
    except JaxCannot as e:
        return CANNOT, str(e)
    except jt.JaxprToolError as e:
        return REFUSED, f"{ours.types}: {_in_a_line(e)}"
    except Exception as e:  # a fault of ours, of whatever kind, is what is looked for
        return FAILED, f"{ours.types}: {type(e).__name__}: {_in_a_line(e)}"
    return PASSED, ""


def _in_a_line(error: Exception) -> str:
    return " | ".join(line.strip() for line in str(error).splitlines() if line.strip())[:400]
