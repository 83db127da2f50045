"""A program at the point at which its derivatives are checked: what is differentiated, and how precisely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from jaxprtool.analyses.gradchecking.rounding import roughness
from jaxprtool.analyses.gradchecking.together import Together
from jaxprtool.core.trace import inexact
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit, Var
from jaxprtool.ir.walk import all_eqns, map_programs
from jaxprtool.passes.precisions.double import doubled, in_complex, in_double

__all__ = ["FEW_BITS", "MODES", "How", "Point", "copied", "without_float0"]

MODES = ("fwd", "rev")
FEW_BITS = 16  # bits of the fraction of types whose differences say little
_RTOL = {"fine": 1e-6, "single": 2e-3, "half": 5e-2}
_RTOL_WIDE = 1e-4  # of a derivative in single precision beside differences in double


_ROUGH = 64  # times the rounding of a number: what comes from larger ones


class How(NamedTuple):
    """How derivatives are checked.

    Attributes:
      modes: the modes to check, of `MODES`.
      step: the smallest step of the differences, relative to the size of an argument; None: by the
        type.
      rtol: how far a derivative may be from its difference, relative to it; None: by the type.
      atol: how far it may be in absolute terms; None: by the type.
      directions: along how many random directions a program with more than a few elements is
        checked.
      seed: the seed of the directions.
      complex: whether steps in the imaginary direction are tried.
      symmetric: whether arguments that are symmetric matrices stay so, and of square results only
        the lower triangles count: operations on such arguments, cholesky for example, have
        derivatives along such directions alone, and some leave the upper triangle as it is.
      max_bytes: how much memory the program and its derivatives may need; None: no limit.
    """

    modes: Sequence[str] = MODES
    step: float | None = None
    rtol: float | None = None
    atol: float | None = None
    directions: int = 3
    seed: int = 0
    complex: bool = False
    symmetric: bool = False
    max_bytes: int | None = None


class Point:
    """A program at a point.

    Attributes:
      program: the program.
      args: the values of its arguments.
      how: how it is checked.
      numeric: the module `backends.finite_differences`.
      live: for each argument whether it has tangents.
      flags: for each result whether it has tangents.
      given: the arguments that have tangents.
      outputs: the positions of the results that have tangents.
      positions: the positions of the arguments that have tangents.
      steps: the steps of the differences.
      floor: what is not known of numbers as small as denormal ones.
      complex: whether steps in the imaginary direction are tried.
      rtol: the relative tolerance.
      atol: the absolute tolerance; None: by the type.
      is_wide: whether differences are taken of the program in double precision.
      rounds_much: whether it computes with a type of few bits, and no operation rounds to fewer
        still.
      rough: how far rounding moves each result, for results where that was computed.
      forms: the programs that were run, by form; see `forget`.
      together: evaluates the program in double precision at several points at a time.
    """

    def __init__(self, program: ClosedJaxpr, args: Sequence[Any], how: How):
        from jaxprtool.backends import finite_differences  # noqa: PLC0415 (gateway: NumPy)

        self.program, self.args, self.how = program, args, how
        self.numeric = finite_differences
        self.live, self.flags = inexact(program.in_avals), inexact(program.out_avals)
        self.given = [*compress(args, self.live)]
        self.outputs = [i for i, flag in enumerate(self.flags) if flag]
        self.positions = [i for i, flag in enumerate(self.live) if flag]
        dtypes = _dtypes(program)
        bits = min(
            [*map(finite_differences.fraction_bits, dtypes), *_kept_bits(program)], default=52
        )
        tiny = max(map(finite_differences.smallest_normal, dtypes), default=0.0)
        self.steps = finite_differences.steps_for(bits, how.step, tiny)
        # what is not known of a number as small as denormal ones
        self.floor = 16 * self.steps.epsilon * tiny
        real = all(d.kind == "f" for d in dtypes)
        self.complex = how.complex and real
        self.forms: dict[str, ClosedJaxpr | None] = {}
        self.together = Together(self.live)
        tolerance = _RTOL["fine" if bits > 40 else "single" if bits > FEW_BITS else "half"]
        self.rtol = tolerance if how.rtol is None else how.rtol
        self.atol = how.atol
        self.is_wide = False
        self.rough: list[Any] = []
        self.bits = bits
        self.rounds_much = bits <= FEW_BITS and not _kept_bits(program)

    def form(self, word: str, make: Callable[[ClosedJaxpr], ClosedJaxpr | None]) -> Any:
        """Return a form of the program, which `make` makes the first time."""
        if word not in self.forms:
            self.forms[word] = make(self.program)
        return self.forms[word]

    def forget(self) -> None:
        """Free the memory of the programs that were run, and of what was prepared to run them."""
        self.forms.clear()
        self.together.forget()

    def widen(self) -> bool:
        """Take differences in double precision, with smaller steps, from now on; return whether that is a change.

        In single precision steps are lost where what is rounded inside a program shows in its
        results, as those of x in (x + 1e4) - 1e4, and they are so large that some cross a kink
        nearby. What the differences say of the derivative is then left to chance.
        """
        if self.bits > 40 or self.is_wide:
            return False
        self.is_wide = True
        if self.how.rtol is None and self.bits > FEW_BITS:
            self.rtol = _RTOL_WIDE
        return True

    def roughen(self) -> bool:
        """Measure how far rounding moves the results (`rough`); return whether that is more than the size of one suggests.

        This happens where a result is a small difference of large numbers, perhaps 0: finite differences cannot see
        anything smaller than the rounding errors of those numbers.
        """
        if self.rough:
            return False
        if self.is_wide:
            given = [*map(self.numeric.wide, self.given)]
            results, epsilon = (lambda given: self.wide_results([given])[0]), 2.0**-52
        else:
            given, results, epsilon = self.given, self.results, self.steps.epsilon
        with numpy_namespace().errstate(all="ignore"):
            base = results(given)
            self.rough = [2 * x for x in roughness(lambda: results(given))]
        pairs = zip(self.rough, base, strict=True)
        return any(bool((x > _ROUGH * epsilon * abs(y)).any()) for x, y in pairs)

    def wide_results(self, points: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the results in double precision, for each of several values of the arguments with tangents."""
        program = self.form("double", in_double)
        args = [[*map(doubled, self.all_arguments(given))] for given in points]
        found = self.together.run(program, args)
        return [self.counted([*compress(outs, self.flags)]) for outs in found]

    def results(self, given: Sequence[Any]) -> list[Any]:
        """Return the results with tangents, for other values of the arguments with tangents."""
        args = self.all_arguments(given)
        return self.counted([*compress(eval_jaxpr(self.form("plain", copied), args), self.flags)])

    def all_arguments(self, given: Sequence[Any]) -> list[Any]:
        """Return the arguments, with other values of those that have tangents."""
        rest = iter(given)
        return [next(rest) if f else x for x, f in zip(self.args, self.live, strict=True)]

    def counted(self, values: Sequence[Any]) -> list[Any]:
        """Return what counts of results, or of their tangents or cotangents: with `symmetric` the lower triangles."""
        if not self.how.symmetric:
            return [*values]
        tril = numpy_namespace().tril
        return [tril(x) if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x for x in values]

    def complex_results(self, given: Sequence[Any]) -> list[Any]:
        """As `results`, for complex numbers."""
        args = self.all_arguments(given)
        return [*compress(eval_jaxpr(self.form("complex", in_complex), args), self.flags)]


def copied(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with copies of all jaxprs in it, so that what is kept with those can be freed before the program is."""
    return map_programs(program, lambda c: c.replace(jaxpr=c.jaxpr.replace()))


def without_float0(program: ClosedJaxpr, args: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any]]:
    """Return the program and its arguments with a boolean in the place of each argument and result of type float0.

    There is nothing to compare in them, and float0 is its own tangent type, so that derivatives
    would take and give them.
    """
    jaxpr = program.jaxpr
    ours = [_is_float0(v.aval) for v in jaxpr.in_binders]
    theirs = [_is_float0(x.aval) for x in jaxpr.outs]
    if not any(ours) and not any(theirs):
        return program, [*args]
    flag = ShapedArray((), BOOL)
    held = [*compress(jaxpr.in_binders, ours)]
    made = jaxpr.replace(
        in_binders=[Var(flag) if f else v for v, f in zip(jaxpr.in_binders, ours, strict=True)],
        const_binders=[*jaxpr.const_binders, *held],
        outs=[Lit(False, flag) if f else x for x, f in zip(jaxpr.outs, theirs, strict=True)],
    )
    no = numpy_namespace().zeros((), bool)
    values = [no if f else x for x, f in zip(args, ours, strict=True)]
    return program.replace(jaxpr=made, consts=[*program.consts, *compress(args, ours)]), values


def _is_float0(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.dtype.kind == "0"


def _dtypes(program: ClosedJaxpr) -> set[Any]:
    """Return the floating and complex types that a program computes with."""
    atoms = [*program.jaxpr.all_binders]
    atoms += [v for eqn in all_eqns(program.jaxpr) for v in eqn.out_binders]
    dtypes = {x.aval.dtype for x in atoms if isinstance(x.aval, ShapedArray)}
    return {d for d in dtypes if d.is_inexact}


def _kept_bits(program: ClosedJaxpr) -> list[int]:
    """Return how many bits of the fraction the equations keep that round to fewer than their type has."""
    found = [eqn.params.get("mantissa_bits") for eqn in all_eqns(program.jaxpr)]
    return [max(bits, 1) for bits in found if isinstance(bits, int)]
