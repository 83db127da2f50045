"""Find the equation whose derivative rule is wrong: each equation of a program is checked at its own values.

`find_equations` runs the program with the observer `_Equations`, which checks the outermost
equations with `check_point`. Those that disagree and hold jaxprs are searched inside in the next
run, until the innermost equation is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from jaxprtool.analyses.gradchecking.found import Check, Mismatch
from jaxprtool.analyses.gradchecking.gradcheck import (
    check_point,
    differentiable,
    directions_of,
    is_symmetric,
)
from jaxprtool.analyses.gradchecking.point import MODES, How, without_float0
from jaxprtool.analyses.places import Place, Watch
from jaxprtool.analyses.promises import breaks_promise
from jaxprtool.core.trace import inexact
from jaxprtool.interpreters.columns.solutions import solution_rules
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.evaluation.observe import observed_by
from jaxprtool.interpreters.jvp import derivative_facts, jvp_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var

__all__ = ["Finding", "Known", "decides", "find_equations", "find_inside"]

_STEP = 1 / 64  # how far arguments are moved, relative to them, to see other decisions
_NEARBY = 3  # points near the arguments at which an equation that disagrees is checked again
_RESIDUAL = 1e-3  # of a solution x, relative to the right side b and the terms of A x
_EQUATIONS = 1_000  # checks in one search, at most, of equations with jaxprs, and as many of others
# By the kind of a finding: the kinds that a finding at the equation around it may have, to be explained by this one.
_MEANT = {
    "wrong": ("wrong", "unsure", "kink"),
    "kink": ("unsure", "kink"),
    "stopped": ("wrong", "unsure", "kink"),
    "promise": ("wrong", "unsure", "kink"),
    "quantile": ("wrong", "unsure", "kink"),
    "symmetric": ("wrong", "unsure", "kink"),
    "solution": ("wrong", "unsure", "kink"),
}
Way = tuple[JaxprEqn, ...]
_Alone = tuple[ClosedJaxpr, list[Any]]
# The finding at an equation the n-th time that it ran, or None.
Known = dict[tuple[Way, int], "Finding | None"]


class Finding(NamedTuple):
    """An equation whose derivative disagrees with its differences.

    Attributes:
      place: the equation, with the iteration of each loop.
      kind: `wrong`; `kink`: the function has a kink or a jump there; `stopped`: it lets no
        derivative pass although its result changes (stop_gradient, round); `promise`: its indices
        are not as it promises; `quantile`: it draws, and its derivative is that of the
        distribution; `symmetric`: its derivative is right along symmetric directions, and its
        operand is a symmetric matrix; `solution`: it solves A x = b, and has the derivative of x as
        long as the operands that hold A belong together; `unsure`: its differences are not known
        well enough.
      mismatch: what differs; None where that is not known, as for `unsure`.
      symmetric: whether its derivative is wrong along other directions than symmetric ones.
    """

    place: Place
    kind: str
    mismatch: Mismatch | None = None
    symmetric: bool = False

    def explains(self, outer: Finding) -> bool:
        """Whether a finding at the equation around it only shows what this one is."""
        return outer.kind in _MEANT.get("symmetric" if self.symmetric else self.kind, ())

    def says_more(self, other: Finding | None) -> bool:
        """Whether this finding replaces another one at the same equation, in another iteration: it explains more, or is a fault."""
        if other is None or "wrong" in (self.kind, other.kind):
            return other is None or other.kind != "wrong"
        mine, its = (_MEANT.get("symmetric" if f.symmetric else f.kind, ()) for f in (self, other))
        return len(mine) > len(its)

    def json(self) -> dict[str, Any]:
        """The keys kind, place, and those of the mismatch."""
        found = {} if self.mismatch is None else self.mismatch.json()
        return {"kind": self.kind, "place": self.place.json(), **found}


def find_equations(
    evaluate: Callable[[Watch], Any], how: How, *, every: bool = False, known: Known | None = None
) -> list[Finding]:
    """Find the equations whose rules disagree with differences, each at the first place where it does.

    An equation that holds jaxprs and disagrees is searched inside: where an equation there
    disagrees too, that one is to blame, and else the equation itself, whose rule is its own
    (`custom_jvp_call`). The same holds for kinks.

    Args:
      evaluate: evaluate(observer) runs the program once.
      how: how derivatives are checked.
      every: whether an equation in a loop is checked in every iteration; else in the first, second,
        fourth, eighth, ... unless a loop disagrees and nothing in those iterations does; for a kink
        alone not where a rule is wrong.
      known: what earlier searches in the same program have found, which is not checked again; what
        this one finds is added.
    """
    known = {} if known is None else known
    found, points = _search(evaluate, how, every, known)
    open_ones = {f.kind for f in found.values() if _follows(f.place.eqn)} & {"wrong", "kink"}
    if any(f.kind == "wrong" and not _follows(f.place.eqn) for f in found.values()):
        open_ones -= {"kink"}  # a rule to mend is known
    if not every and open_ones:
        more, more_points = _search(evaluate, how, True, known)
        kinds = {f.kind for f in more.values()}
        if kinds & open_ones:
            found, points = more, more_points
    return [_unless_smooth(finding, points.get(way), how) for way, finding in found.items()]


def find_inside(evaluate: Callable[[Watch], Any], how: How, known: Known) -> list[Finding]:
    """Find the equations at any depth whose own rules are wrong in some iteration, even where the equations around do not show it.

    A loop that forgets where it began has small derivatives, and does not show one wrong iteration
    among many.

    Args: as of `find_equations`.
    """
    found: dict[Way, Finding] = {}
    suspects: set[Way] = {()}
    while suspects:
        watch = _Equations(suspects, how, True, known, opens=True)
        evaluate(watch)
        found.update(watch.found)
        suspects = watch.opened
    return [f for f in found.values() if f.kind == "wrong"]


def _unless_smooth(finding: Finding, point: _Alone | None, how: How) -> Finding:
    """Return the finding at an equation that is differentiated through its jaxprs, in which nothing was found.

    A kink is rounding: its differences are not known well. So is a derivative that is wrong here
    and right nearby: something inside has a kink, and adds it to large numbers.
    """
    if not _follows(finding.place.eqn):
        return finding
    if finding.kind == "kink" or (
        finding.kind == "wrong" and point is not None and _agrees_nearby(*point, how)
    ):
        return finding._replace(kind="unsure", mismatch=None)
    return finding


def _agrees_nearby(program: ClosedJaxpr, args: Sequence[Any], how: How) -> bool:
    """Whether the derivatives of a program agree at some point near its arguments, where it has no kink."""
    xp, live = numpy_namespace(), inexact(program.in_avals)
    for k in range(_NEARBY):
        random = xp.random.default_rng(how.seed + k)
        near: list[Any] = []
        for x, moves in zip(args, live, strict=True):
            by = random.uniform(-_STEP, _STEP, xp.shape(x))
            if moves and x.dtype.kind == "c":
                by = by + 1j * random.uniform(-_STEP, _STEP, xp.shape(x))
            if moves and how.symmetric and is_symmetric(x):
                by = by + by.conj().swapaxes(-1, -2)
            near.append((x + xp.where(x == 0, 1, x) * by).astype(x.dtype) if moves else x)
        with observed_by(None):
            try:
                checks = check_point(program, near, how)
            except JaxprToolError:
                continue
        known = any(c.status == "agrees" for c in checks if c.mode in MODES)
        if known and not any(c.wrong for c in checks):
            return True
    return False


def _search(
    evaluate: Callable[[Watch], Any], how: How, every: bool, known: Known
) -> tuple[dict[Way, Finding], dict[Way, _Alone]]:
    """Search once; return the findings by the way to each equation, and for wrong ones that hold jaxprs the programs of them alone.

    every: whether equations in loops are checked in every iteration.
    """
    found: dict[Way, Finding] = {}
    points: dict[Way, _Alone] = {}
    suspects: set[Way] = {()}
    while suspects:
        watch = _Equations(suspects, how, every, known)
        evaluate(watch)
        for way, finding in watch.found.items():
            outer = found.get(way[:-1])
            if outer is not None and finding.explains(outer):
                del found[way[:-1]]
        found.update(watch.found)
        points.update(watch.points)
        suspects = {
            way
            for way, finding in watch.found.items()
            if finding.kind in ("wrong", "unsure", "kink") and _follows(way[-1])
        }
    return found, points


class _Equations(Watch):
    """Checks the equations directly inside some equations.

    Attributes:
      suspects: the ways to the jaxprs whose equations are checked.
      how: how derivatives are checked.
      every: whether equations in loops are checked in every iteration.
      known: what was found so far, here and in earlier searches.
      opens: whether equations that are differentiated through their jaxprs are not checked, but
        added to `opened`.
      opened: the ways to these.
      found: the findings, by the way to the equation.
      points: for wrong equations that are differentiated through their jaxprs, the programs of them
        alone, and their arguments.
      count: how often each equation has run.
      left: how many checks are left, for equations that hold jaxprs (True) and for others.
      programs: each equation as a program, with the positions of its arguments among the operands.
    """

    def __init__(
        self, suspects: set[Way], how: How, every: bool, known: Known, *, opens: bool = False
    ):
        super().__init__()
        self.suspects, self.how, self.every, self.known = suspects, how, every, known
        self.opens, self.opened = opens, set[Way]()
        self.found: dict[Way, Finding] = {}
        self.points: dict[Way, _Alone] = {}
        self.count: dict[Way, int] = {}
        self.left = {True: _EQUATIONS, False: _EQUATIONS}
        self.programs: dict[JaxprEqn, tuple[ClosedJaxpr, list[int]] | None] = {}

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Check an equation."""
        inside = tuple([level.step.eqn for level in self.levels if level.step is not None])
        of_its_own = eqn.primitive.holds_jaxprs
        if inside not in self.suspects or self.left[of_its_own] == 0:
            return
        way = (*inside, eqn)
        if self.opens and _follows(eqn):
            self.opened.add(way)
            return
        before = self.found.get(way)
        if before is not None and before.kind == "wrong":
            return
        n = self.count[way] = self.count.get(way, 0) + 1
        if not self.every and n & (n - 1):
            return
        if eqn not in self.programs:
            self.programs[eqn] = _program_of(eqn)
        alone = self.programs[eqn]
        if alone is None or any(map(_has_nan, ins)):
            return
        program, positions = alone
        args = [ins[i] for i in positions]
        if (way, n) not in self.known:
            self.left[of_its_own] -= 1
            finding = self.check(eqn, program, args)
            if finding is not None and finding.kind == "wrong" and _solves(eqn, ins, outs):
                finding = self.check_solution(eqn, ins)
            self.known[way, n] = self.meant(finding, eqn, ins)
        finding = self.known[way, n]
        if finding is not None and finding.says_more(before):
            self.found[way] = finding
            if finding.kind == "wrong" and _follows(eqn):
                self.points[way] = program, args

    def check_solution(self, eqn: JaxprEqn, ins: Sequence[Any]) -> Finding:
        """Check an equation that solves A x = b again, with the operands that hold A fixed."""
        alone = _program_of(eqn, ins)
        finding = None if alone is None else self.check(eqn, alone[0], [ins[i] for i in alone[1]])
        return finding or Finding(self.place(eqn), "solution")

    def meant(self, finding: Finding | None, eqn: JaxprEqn, ins: Sequence[Any]) -> Finding | None:
        """Replace a finding at an equation whose derivative may well disagree with its differences."""
        if finding is not None and finding.kind != "unsure":
            if derivative_facts[eqn.primitive] == "quantile":
                return Finding(finding.place, "quantile")
            if breaks_promise(eqn, ins):
                return Finding(finding.place, "promise")
        return finding

    def check(self, eqn: JaxprEqn, program: ClosedJaxpr, args: Sequence[Any]) -> Finding | None:
        """Check an equation at its values."""
        with observed_by(None):
            try:
                checks, how = check_point(program, args, self.how), self.how
                if any(c.wrong or c.kinks for c in checks) and _takes_symmetric(eqn, args):
                    before, how = checks, self.how._replace(symmetric=True)
                    checks = check_point(program, args, how)
                    if any(c.wrong for c in before) and not any(c.wrong for c in checks):
                        kind = "kink" if any(c.kinks for c in checks) else "symmetric"
                        return Finding(self.place(eqn), kind, symmetric=True)
            except JaxprToolError:  # the equation cannot be run alone
                return Finding(self.place(eqn), "unsure")
            return self.judged(eqn, program, args, checks, how)

    def judged(
        self,
        eqn: JaxprEqn,
        program: ClosedJaxpr,
        args: Sequence[Any],
        checks: Sequence[Check],
        how: How,
    ) -> Finding | None:
        """Return what the checks of an equation mean.

        Where one result has a jump, the derivatives of the others may be those of another branch
        (the signs of the columns of `qr`): a rule that is right nearby is right.
        """
        place = self.place(eqn)
        wrong = [c.wrong[0] for c in checks if c.wrong]
        if wrong:
            if _stops(program):
                return Finding(place, "stopped", wrong[0])
            uneven = any(c.kinks or c.uneven for c in checks)
            ways = dict.fromkeys((self.how, how)) if uneven and not _follows(eqn) else ()
            if any(_agrees_nearby(program, args, way) for way in ways):
                return Finding(place, "kink")
            certain = not _follows(eqn) or not decides(program, args, self.how)
            return Finding(place, "wrong" if certain else "unsure", wrong[0])
        if any(c.kinks for c in checks):
            return Finding(place, "stopped" if _stops(program) else "kink")
        unsure = any(c.unsure for c in checks)
        return Finding(place, "unsure") if unsure else None


def _program_of(eqn: JaxprEqn, solving: Sequence[Any] = ()) -> tuple[ClosedJaxpr, list[int]] | None:
    """Return an equation as a program of the variables that it reads, and the first position of each among its operands.

    None where it has no derivative to check, or has effects.

    solving: for an equation that solves A x = b, the values of the operands; those that hold A
    become constants.
    """
    atoms = [*eqn.inputs]
    n = solution_rules[eqn.primitive](eqn.params).matrices if solving else 0
    held = {x: value for x, value in zip(atoms[:n], solving, strict=False) if isinstance(x, Var)}
    variables = {x: None for x in atoms[n:] if isinstance(x, Var) and x not in held}
    outs = [Var(v.aval) for v in eqn.out_binders]
    alone = eqn.replace(out_binders=outs)
    program = ClosedJaxpr(Jaxpr([*variables], [alone], outs, [*held]), [*held.values()])
    if all(v.aval.dtype.kind != "0" for v in variables if isinstance(v.aval, ShapedArray)):
        program, _ = without_float0(program, [None] * len(variables))
    if not differentiable(program) or has_effects(eqn):
        return None
    return program, [atoms.index(v) for v in variables]


def _solves(eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether an equation solves A x = b, and its result is a solution."""
    rule = solution_rules.find(eqn.primitive)
    if rule is None:
        return False
    matvec, constants, matrices = rule(eqn.params)
    b, xp = ins[matrices:], numpy_namespace()
    x = outs[: len(b)]

    def times(x: Sequence[Any]) -> Sequence[Any]:
        with observed_by(None):
            return eval_jaxpr(matvec.jaxpr, [*matvec.consts, *ins[:constants], *x])

    signs = [(xp.arange(v.size).reshape(v.shape) % 2 * 2 - 1).astype(v.dtype) for v in x]
    sizes = times([v * s for v, s in zip(x, signs, strict=True)])  # the size of terms of A x
    return all(
        bool((abs(y - c) <= _RESIDUAL * (abs(c).max() + abs(size).max())).all())
        for y, c, size in zip(times(x), b, sizes, strict=False)
        if c.size
    )


def _follows(eqn: JaxprEqn) -> bool:
    """Whether an equation is differentiated through the equations inside it."""
    primitive = eqn.primitive
    return primitive.holds_jaxprs and derivative_facts[primitive] == "jaxprs"


def _stops(program: ClosedJaxpr) -> bool:
    """Whether the derivative of a program is zero whatever its arguments are."""
    return not any(jvp_jaxpr(program, instantiate_outs=False)[1])


def _takes_symmetric(eqn: JaxprEqn, args: Sequence[Any]) -> bool:
    """Whether a primitive has a symmetric operand, so that its rule may be for such operands alone; a program's own rules are not."""
    return not eqn.primitive.holds_jaxprs and any(map(is_symmetric, args))


def _has_nan(x: Any) -> bool:
    return getattr(getattr(x, "dtype", None), "kind", "") in "fcV" and bool((x != x).any())


def decides(program: ClosedJaxpr, args: Sequence[Any], how: How) -> bool:
    """Whether a program decides otherwise at the ends of the steps than at its arguments.

    Where it does, its differences say little of its derivative.
    """
    live = inexact(program.in_avals)
    seen: set[int] = set()
    for k in range(how.directions):
        direction = directions_of(program, args, "fwd", how, k)
        for scale in (0.0, _STEP, -_STEP):
            pairs = zip(compress(args, live), direction, strict=True)
            moved = iter([(x + scale * t).astype(x.dtype) for x, t in pairs])
            values = [next(moved) if f else x for x, f in zip(args, live, strict=True)]
            watch = _Decisions()
            with observed_by(watch):
                eval_jaxpr(program, values)
            seen.add(watch.digest)
    return len(seen) > 1


class _Decisions(Watch):
    """Hashes what a run decides by: all integers and booleans that it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hash(())

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Take in the results of an equation that are no floating or complex numbers."""
        for x in outs:
            kind = getattr(getattr(x, "dtype", None), "kind", "")
            if kind and kind in "iub":
                self.digest = hash((self.digest, x.tobytes()))
