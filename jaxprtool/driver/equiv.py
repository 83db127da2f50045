"""equiv: decide whether two programs compute the same, by proof or by samples."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from jaxprtool.analyses.answer import json_number
from jaxprtool.analyses.identity.counterexample import shrunk
from jaxprtool.analyses.identity.equiv import (
    Argument,
    Equivalence,
    Sample,
    Samples,
    drawn_results,
    effects_of,
)
from jaxprtool.analyses.identity.normal_form import same_normal_form, unknown_inside
from jaxprtool.analyses.rounding.shadow import is_rounded
from jaxprtool.core.trace import words_of_key
from jaxprtool.driver.precision import precision
from jaxprtool.driver.run import checked_arguments, run
from jaxprtool.driver.running.prints import silent
from jaxprtool.driver.running.wider_runs import WiderRuns, differ
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.domains import parse_domains
from jaxprtool.driver.words.numbers import check_not_negative
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.limits import Turns, limited_turns
from jaxprtool.interpreters.evaluation.missing_values import present_constants
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit, Value, Var
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.passes.precisions.jitter import Jitter

__all__ = ["equiv", "equiv_words", "packed_arguments"]

_NEIGHBOURS = 3  # arguments beside a sample that show what rounding does
_ROUNDINGS = 6  # runs with other roundings that show it
_EXPLAINED = 10  # samples whose small elements are looked at, where rounding explains them
_FAR = 16  # units in the last place that results may be apart before a wider precision is asked
_FEW = 4  # bits after the binary point that are too few for rounding to be told by its effects
_WRITTEN = 100  # numbers that stand in programs
_WORDS = 200  # elements of arguments that are printed as words
_FIRST = 1_000_000  # steps of loops without a known end that the first sample may take, where it is not given,
# or B where it is given and A takes less than a tenth of them;
_TURNS = 10_000  # those that a later sample may take, or B where A takes less than a tenth of them,
_MORE = 10  # or so many times as many as a sample before it has taken
_HALVED = 7  # times the steps of later samples are halved at most, once for each that was left out


def equiv(
    a: ClosedJaxpr,
    b: ClosedJaxpr,
    args: Sequence[Value] | None = None,
    *,
    samples: int = 100,
    domain: Sequence[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> Equivalence:
    """Whether two programs give the same results.

    They are equal when their normal forms are (`analyses.identity.normal_form`), and probably equal
    where inner constants have no values. Otherwise both run on samples on NumPy. The first samples
    are ordinary values, halves, powers of two, equal arguments and the numbers that occur in the
    programs; later ones also contain 0, -0, 1, infinities, NaN, the smallest and the largest numbers.
    Samples on which a loop takes too many steps are left out, except for the given arguments.

    Args:
      a, b: the programs.
      args: arguments for the first sample, as `run` takes them.
      samples: the number of samples.
      domain: which values arguments may have (`driver.words.domains`).
      rtol, atol: how far results may be from each other; by default, what rounding explains.
      seed: the seed of the random samples.
      max_bytes, step_limit: as for `run`.

    Raises:
      JaxprTypeError, UsageError: as `run`; an invalid domain.
    """
    check_not_negative(rtol=rtol, atol=atol, seed=seed)
    a, b = (_prepared(p) for p in (a, b))
    binders = open_binders(a)
    if args is not None:
        args = checked_arguments(a, args)
    reason = _other_types(a, b)
    if reason:
        _check_inner_constants(a)
        _check_inner_constants(b)
        return Equivalence("refuted", reason)
    if samples < 0:
        fail(UsageError, f"{samples} samples cannot be tried", "option")
    domains = parse_domains(domain, binders, of_open(a))
    same = _by_normal_form(a, b)
    if same is not None:
        return same
    limits = {"max_bytes": max_bytes, "step_limit": step_limit}
    trial = _Trial(a, b, domains, rtol, atol, limits)
    trial.turns = _FIRST if args is None else None
    drawn = _samples(binders, args, domains, samples, seed, _written(a, b))
    for n, (special, given) in enumerate(drawn):
        found = trial.sample(given, special, required=n == 0 and args is not None)
        if found is not None:
            return _refuted(trial, found, binders)
    if trial.over is not None and not trial.samples.tried:
        raise trial.over
    return Equivalence("probable", samples=trial.samples, effects=trial.effects)


def _by_normal_form(a: ClosedJaxpr, b: ClosedJaxpr) -> Equivalence | None:
    """Return the answer by equal normal forms; None where they are not equal."""
    pure = transformable(a), transformable(b)
    if not same_normal_form(*pure):
        return None
    sides = [{*unknown_inside(p)} for p in pure]  # of one program they are the same ones
    unknown = max(len(sides[0] - sides[1]), len(sides[1] - sides[0]))
    return Equivalence("probable" if unknown else "proved", unknown=unknown)


def _prepared(program: ClosedJaxpr) -> ClosedJaxpr:
    check_arrays(check_input(program), "equiv", sized=True)
    return load_constants(program)


def _check_inner_constants(program: ClosedJaxpr) -> None:
    """Raise UsageError where an inner jaxpr has a constant without a value: the other program may
    take it as an argument.
    """
    for eqn in all_eqns(program.jaxpr):
        for inner in sub_jaxprs(eqn):
            present_constants(inner)


def _other_types(a: ClosedJaxpr, b: ClosedJaxpr) -> str:
    """Return why programs cannot be compared, by their types; or ""."""
    sides = [[str(v.aval.strong) for v in open_binders(p)] for p in (a, b)]
    if sides[0] != sides[1]:
        return f"they take ({', '.join(sides[0])}) and ({', '.join(sides[1])})"
    sides = [[str(x.strong) for x in p.out_avals] for p in (a, b)]
    if sides[0] != sides[1]:
        return f"they give ({', '.join(sides[0])}) and ({', '.join(sides[1])})"
    return ""


def _samples(
    binders: Sequence[Var],
    args: Sequence[Value] | None,
    domains: dict[int, Any],
    count: int,
    seed: int,
    written: Sequence[float],
) -> Iterator[tuple[bool, list[Value]]]:
    """Yield samples: the given arguments, ordinary ones, then special ones; each with whether it is special.

    Some contain the numbers that occur in the programs.
    """
    from jaxprtool.backends.samples import ORDINARY, draw  # noqa: PLC0415 (gateway: NumPy)

    if args is not None and count:
        yield False, [*args]
        count -= 1
    ordinary = count if not binders else (count + 1) // 2
    for n in range(count):
        kind = n % ORDINARY if n < ordinary else ORDINARY + n - ordinary
        avals = [v.aval for v in binders]
        number = 1_000_000 * seed + n
        yield (
            n >= ordinary,
            [draw(x, domains.get(i), number, i, kind, written) for i, x in enumerate(avals)],
        )
        if not binders:
            return


def _written(*programs: ClosedJaxpr) -> list[float]:
    """Return the numbers that are literals of programs, and their constants without axes."""
    found: dict[float, None] = {}
    for program in programs:
        for eqn in all_eqns(program.jaxpr):
            found.update((x.val, None) for x in eqn.inputs if type(x) is Lit and _is_number(x.val))
        for c in program.consts:
            if getattr(c, "shape", None) == () and hasattr(c, "item"):
                found[c.item()] = None
    return [x for x in found if _is_number(x)][:_WRITTEN]


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


class _TooLong(Exception):
    """Programs take more steps on a sample than are allowed; holds the error of each of them."""

    def __init__(self, over: Sequence[JaxprToolError]):
        super().__init__()
        self.over = over


class _Trial:
    """Two programs, run on samples.

    Attributes:
      samples: statistics of the samples on which they agree.
      effects: how many equations of both have side effects, which are not compared, by primitive.
      turns: the number of steps of loops without a known end that the next sample may take; None:
        any number.
      taken: the largest number of steps that a sample has taken so far.
      over: the error of the first sample that takes more.
      by_element: how many more samples are judged element by element, where rounding explains what differs.
      judged: how many more samples on which they agree are judged in a wider precision.
    """

    def __init__(
        self,
        a: ClosedJaxpr,
        b: ClosedJaxpr,
        domains: dict[int, Any],
        rtol: float | None,
        atol: float | None,
        limits: dict[str, Any],
    ):
        from jaxprtool.backends import agreement, samples  # noqa: PLC0415 (gateway: NumPy)

        self.programs, self.domains, self.limits = (a, b), domains, limits
        self.tolerance = rtol, atol
        self.least_and_bits = agreement.least_and_bits
        self.larger, self.neighbour = agreement.larger, samples.neighbour
        self.gap, self.contains, self.simpler = agreement.gap, samples.contains, samples.simpler
        drawn = {i for p in (a, b) for i in drawn_results(p.jaxpr)}
        self.samples = Samples(0, drawn=sorted(drawn))
        self.effects = effects_of(transformable(a), transformable(b))
        self.turns: int | None = None
        self.taken = 0
        self.over: JaxprToolError | None = None
        self.by_element = _EXPLAINED
        self.jitter = Jitter()
        self.wider = WiderRuns(a, b, limits)
        self.judged = _EXPLAINED

    def results(self, args: list[Value]) -> tuple[list[Value], list[Value]]:
        """Return the results of both programs.

        Raises _TooLong where one takes more steps than it may.
        """
        found, over, taken = list[Any](), list[JaxprToolError](), 0
        for program in self.programs:
            ended = bool(found)  # the first program
            turns = Turns(self._turns_after(taken) if ended else self.turns)
            try:
                with limited_turns(turns), silent():
                    found.append(run(program, args, **self.limits))
            except UsageError as e:
                if e.diagnostics[0].code != "step-limit":
                    raise
                over.append(e)
            taken = max(taken, turns.taken)
        if not over:
            self.taken = max(self.taken, taken)
        # where many samples are left out, little time is lost with each more
        self.turns = max(_TURNS >> min(self.samples.left_out, _HALVED), _MORE * self.taken)
        if over:
            raise _TooLong(over)
        for i in self.samples.drawn:  # another run gives something else
            found[1][i] = found[0][i]
        return found[0], found[1]

    def _turns_after(self, taken: int) -> int | None:
        """Return how many steps the second program may take on a sample on which the first took `taken`."""
        if self.turns is None:  # the sample is given
            free = self.limits["step_limit"] is not None
            return None if free else max(_FIRST, _MORE * taken)
        return min(self.turns, max(_TURNS, _MORE * taken))

    def gaps(self, args: list[Value], *, special: bool = False) -> list[Any]:
        """Return how far the results for some arguments are from each other, beyond what rounding explains.

        special: whether the arguments are infinities, the largest numbers and the like, which rounding may turn into anything.
        """
        outs = self.results(args)
        found = [self.gap(x, y, *self.tolerance) for x, y in zip(*outs, strict=True)]
        if self.tolerance != (None, None):
            return found
        if not any(g.differing for g in found):
            if special or not all(g.finite for g in found):
                return found
            return self.small_elements(args, outs) or self.not_of_rounding(args, outs) or found
        if not any(g.differing and g.rounded for g in found):
            return found
        rooms = self.rooms(args, outs)
        near = [self.gap(x, y, None, None, r) for x, y, r in zip(*outs, rooms, strict=True)]
        forgiven = any(f.differing > g.differing for f, g in zip(found, near, strict=True))
        if forgiven and not any(_rounds(p, args, **self.limits) for p in self.programs):
            return found
        if not all(g.finite for g in near):
            return near
        if forgiven and self.differ_in_few_bits(args, outs, found):
            return found
        return self.of_rounding(args, outs, rooms, near)

    def of_rounding(self, args: list[Value], outs: Any, rooms: list[Any], near: list[Any]) -> Any:
        """Return how far results are from each other, beyond what rounding explains.

        It explains what is the same number in a wider precision, as far as other roundings of the
        equations move the results. `exp(x) - 1` and `expm1(x)` have few digits in common near 0.

        Args:
          args, outs: the arguments and the results.
          rooms: how far results may be from each other.
          near: how far they are, beyond that.
        """
        where = [g.rounded and g.differing > 0 for g in near]
        if not any(where):
            return near
        with contextlib.suppress(JaxprToolError, _TooLong):
            moves = self.rooms_of_rounding(args, outs, [0.0] * len(rooms))
            agreeing = self.wider.agreeing(args, self.turns, outs, moves, where)
            if agreeing is None:
                return near
            rooms = [*map(numpy_namespace().maximum, rooms, moves)]
            rows = zip(where, near, rooms, agreeing, *outs, strict=True)
            return [self.gap(x, y, None, None, r * s) if w else g for w, g, r, s, x, y in rows]
        return near

    def differ_in_few_bits(self, args: list[Value], outs: Any, found: list[Any]) -> bool:
        """Whether results that differ are of types of few bits (f8), and differ as much in a wider precision.

        The last place of such a type is a large share of a number: what moves with it says nothing.
        """
        few = [
            g.rounded and g.differing > 0 and self.least_and_bits(x.dtype)[1] <= _FEW
            for g, x in zip(found, outs[0], strict=True)
        ]
        wide = self.wider.results(args, self.turns) if any(few) else None
        if wide is None:
            return False
        rows = zip(few, zip(*outs, strict=True), zip(*wide, strict=True), strict=True)
        return any(
            differ(own, both, 2.0 ** -self.least_and_bits(own[0].dtype)[1])
            for f, own, both in rows
            if f
        )

    def not_of_rounding(self, args: list[Value], outs: Any) -> list[Any] | None:
        """Return how far results are from each other that are within the tolerance, and yet differ by more than rounding explains.

        They do where they differ as much in a wider precision. None for all others.
        """
        if not self.judged:
            return None
        exact = [self.gap(x, y, 0.0, 0.0) for x, y in zip(*outs, strict=True)]
        if not any(g.differing and g.rounded and g.max_ulp > _FAR for g in exact):
            return None
        self.judged -= 1
        wide = self.wider.results(args, self.turns)
        if wide is None:
            return None
        pairs = [*zip(zip(*outs, strict=True), zip(*wide, strict=True), exact, strict=True)]
        apart = [
            g.rounded and differ(own, p, 2.0 ** -self.least_and_bits(own[0].dtype)[1])
            for own, p, g in pairs
        ]
        if not any(apart):
            return None
        with contextlib.suppress(JaxprToolError, _TooLong):
            rooms = self.rooms_of_rounding(args, outs, self.rooms(args, outs))
            rows = zip(apart, rooms, exact, *outs, strict=True)
            # the tolerance of 0 leaves nothing but the room
            found = [self.gap(x, y, 0.0, 0.0, r) if a else g for a, r, g, x, y in rows]
            if any(g.differing for g, a in zip(found, apart, strict=True) if a):
                none = [g._replace(differing=0) for g in exact]
                return [f if a else g for f, g, a in zip(found, none, apart, strict=True)]
        return None

    def small_elements(
        self, args: list[Value], outs: tuple[list[Value], list[Value]]
    ) -> list[Any] | None:
        """Return how far results are from each other, each element judged by its own size; None where rounding explains it.

        A small element beside a large one may have rounding errors of the size of those of the large one, or none. How far
        it moves tells: when the last place of the arguments changes, and when the equations round otherwise.
        """

        def alone(rooms: Sequence[Any]) -> list[Any] | None:
            triples = zip(*outs, rooms, strict=True)
            found = [self.gap(x, y, None, None, r, alone=True) for x, y, r in triples]
            return found if any(g.differing for g in found) else None

        rooms: list[Any] = [0.0] * len(outs[0])
        if not self.by_element or alone(rooms) is None:
            return None
        with contextlib.suppress(JaxprToolError, _TooLong):
            rooms = self.rooms(args, outs)
            if (found := alone(rooms)) is not None:
                rooms = self.rooms_of_rounding(args, outs, rooms)
                found = alone(rooms)
            if found is not None:
                return found
        self.by_element -= 1
        return None

    def rooms_of_rounding(
        self, args: list[Value], outs: tuple[list[Value], list[Value]], rooms: list[Any]
    ) -> list[Any]:
        """Return the larger of `rooms` and a multiple of how far other roundings of the equations move the results."""
        for seed in range(_ROUNDINGS):
            with self.jitter.drawn(seed):
                moved = self.results(args)
            rooms = self._larger(rooms, moved, outs)
        return rooms

    def rooms(self, args: list[Value], outs: tuple[list[Value], list[Value]]) -> list[Any]:
        """Return how far changes of the arguments in their last place move the results of either
        program, times a factor.
        """
        rooms: list[Any] = [0.0] * len(outs[0])
        for seed in range(_NEIGHBOURS):
            rooms = self._larger(rooms, self.results(self.neighbour(args, seed)), outs)
        return rooms

    def _larger(self, rooms: list[Any], moved: Any, outs: Any) -> list[Any]:
        found = [*rooms]
        for k, pairs in enumerate(zip(*moved, *outs, strict=True)):
            for x, y in (pairs[::2], pairs[1::2]):
                found[k] = self.larger(found[k], x, y)
        return found

    def sample(self, args: list[Value], special: bool, *, required: bool) -> Sample | None:
        """Run both on a sample; return what differs, made as simple as possible, or None.

        required: whether the sample must not be left out.
        """
        before = self.samples
        try:
            gaps = self.gaps(args, special=special)
        except _TooLong as e:
            self.over = self.over or e.over[0]
            if required:
                raise e.over[0] from None
            left_out, uneven = before.left_out + 1, before.uneven + (len(e.over) == 1)
            self.samples = before._replace(left_out=left_out, uneven=uneven)
            return None
        if not any(g.differing for g in gaps):
            found = [(g.max_abs, g.max_rel, g.max_ulp) for g in gaps]
            tops = zip(before[1:4], *found, strict=True)
            max_abs, max_rel, max_ulp = map(max, tops)
            self.samples = before._replace(
                tried=before.tried + 1,
                max_abs=max_abs,
                max_rel=max_rel,
                max_ulp=max_ulp,
                zero_signs=before.zero_signs + any(g.zero_signs for g in gaps),
            )
            return None
        finite = all(g.finite for g in gaps)
        self.by_element = self.judged = -1  # as many as it takes to make this one simple

        def differs(tried: list[Value]) -> bool:
            pairs = enumerate(tried)
            if not all(self.contains(self.domains.get(i), x) for i, x in pairs if _is_array(x)):
                return False
            with contextlib.suppress(JaxprToolError, _TooLong):
                found = self.gaps(tried, special=special)
                same_kind = all(g.finite for g in found) or not finite
                return same_kind and any(g.differing for g in found)
            return False

        small = shrunk(args, differs, self.simpler)
        return Sample(small, special, self.gaps(small, special=special), self.results(small))


def _rounds(program: ClosedJaxpr, args: list[Value], **limits: Any) -> bool:
    """Whether an operation of a program rounds for some arguments: it gives another result in double precision.

    If none does, rounding explains no difference, not even where the function jumps (`round` at
    0.5). For programs in double precision, long double is used. True where this cannot be found
    out.
    """
    of = [v.aval for eqn in all_eqns(program.jaxpr) for v in eqn.out_binders]
    if not any(map(is_rounded, of)):  # `precision` has nothing to measure then, and refuses it
        return False
    of += [v.aval for v in open_binders(program)]
    dtypes = [x.dtype for x in of if isinstance(x, ShapedArray)]
    wide = any(d.kind in "fc" and d.real.bits == 64 for d in dtypes)
    try:
        found = precision(program, args, shadow="f128" if wide else "f64", top=1, tries=0, **limits)
    except JaxprToolError:
        return True
    if found.in_f64 or any(out.ulps or out.left_out for out in found.outputs):
        return True
    calls = (
        e.total == 0 if e.place.eqn.primitive.holds_jaxprs else e.local == 0
        for e in found.equations
    )
    return not all(calls)


def _is_array(x: Value) -> bool:
    return hasattr(x, "astype")


def _refuted(trial: _Trial, sample: Sample, binders: Sequence[Var]) -> Equivalence:
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    interface = of_open(trial.programs[0])
    names = interface.names() if interface else [v.name or "_" for v in binders]
    words = [_word(x, v, arrays) for x, v in zip(sample.args, binders, strict=True)]
    found = [
        Argument(name, str(v.aval), w) for name, v, w in zip(names, binders, words, strict=True)
    ]
    outputs: list[dict[str, Any]] = []
    for k, (gap, x, y) in enumerate(zip(sample.gaps, *sample.outs, strict=True)):
        if gap.differing:
            one, other = (_element(arrays.result_json(v)["data"], gap.element) for v in (x, y))
            outputs.append(
                {
                    "index": k,
                    "type": str(trial.programs[0].out_avals[k]),
                    "element": list(gap.element),
                    "n_different": gap.differing,
                    "max_abs": json_number(gap.max_abs),
                    "max_rel": json_number(gap.max_rel),
                    "max_ulp": json_number(gap.max_ulp),
                    "a": one,
                    "b": other,
                }
            )
    wider, where = "", [g.differing > 0 for g in sample.gaps]
    if any(where) and all(g.rounded for g in sample.gaps if g.differing):
        wider = trial.wider.same_results(sample.args, trial.turns, sample.outs, where)
    return Equivalence(
        "refuted", "", trial.samples, sample, found, outputs, effects=trial.effects, same_in=wider
    )


def _element(data: Any, index: Sequence[int]) -> Any:
    for i in index:
        data = data[i]
    return data


def _word(x: Value, v: Var, arrays: Any) -> str | None:
    """Return an argument as a word of the command line, which reads back as the same value; None
    where there is none.
    """
    if getattr(x, "size", 0) > _WORDS:
        return None
    word = arrays.word_of(x)
    try:
        (again,) = arguments([Var(v.aval)], [word])
    except JaxprToolError:
        return None
    same = arrays.result_json(again) == arrays.result_json(x)
    bits, wanted = (words_of_key(y) for y in (again, x))
    signs = bits.tobytes() == wanted.tobytes() or bool((wanted != wanted).any())  # of zeros
    return word if same and signs else None


def packed_arguments(found: Equivalence, path: str) -> bytes:
    """Return the counterexample as the bytes of an `.npz` file for `run --args`."""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    assert found.sample is not None
    return arrays.pack(found.sample.args, path, _keys([a.name for a in found.arguments]))


def _keys(names: Sequence[str]) -> list[str]:
    """Return names of arrays in a file: those of the arguments, or their positions where a name is
    missing or not unique.
    """
    if len(set(names)) == len(names) and "_" not in names:
        return [*names]
    return [f"arg{i}" for i in range(len(names))]


def equiv_words(a: ClosedJaxpr, b: ClosedJaxpr, words: Sequence[str], **how: Any) -> Equivalence:
    """Call `equiv` for two programs, with values for the first sample given as words (see `driver.words.values`)."""
    args = None
    if words:
        check_arrays(check_input(a), "equiv", sized=True)
        limit = how.get("max_bytes")
        args = arguments(open_binders(a), words, interface=of_open(a), max_bytes=limit)
    return equiv(a, b, args, **how)
