"""The jaxprs that a program runs, and which equations make and use a value, also across calls.

A rule asks which equation made an operand. The answer may be in a called jaxpr or in the calling
one: `jnp.log(jax.nn.softmax(x))` is a `log` of the result of a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.columns.flow import elements_facts, passed_on
from jaxprtool.interpreters.columns.runs import Run, runs_of
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Primitive
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import count_eqns

__all__ = ["At", "Frame", "Ref", "call_of", "frames_of", "is_derived"]

_SMALL = (
    16  # a jaxpr of up to this many equations is examined for each call, since the arguments differ
)
_STEPS = 64  # the largest number of calls and value-preserving operations that are looked through

# Kinds of operations (`interpreters.columns.flow`) whose result is the operand except for its shape
# and type, and those whose result consists of elements of the operand.
_SAME = frozenset({"kept", "converted"})
_OF_SAME = _SAME | {"permuted", "chosen"}
_MAKERS = Memo[dict[Any, tuple[JaxprEqn, int]]]("what makes each variable")
_READERS = Memo[dict[Any, list[JaxprEqn]]]("what reads each variable")


class Frame:
    """A jaxpr at one place where a program runs it.

    Attributes:
      closed, jaxpr: the jaxpr with its constants, and without.
      step: the equation that runs it, and the param that holds it; None for the program itself.
      above: the frame of that equation.
      turns: how often it runs when the program runs once; 2 stands for "several times" in a loop of
        unknown length.
      first: whether this is the first frame of this jaxpr.
      known: whether its arguments are the operands of `step` only, since no other equation runs it.
      outside: whether the last question about it was answered by looking at its arguments.
    """

    __slots__ = (
        "_made",
        "above",
        "closed",
        "first",
        "jaxpr",
        "known",
        "outside",
        "step",
        "turns",
    )

    def __init__(self, closed: ClosedJaxpr, step: Step | None = None, above: Frame | None = None):
        self.closed, self.jaxpr, self.step, self.above = closed, closed.jaxpr, step, above
        self.turns, self.first, self.known, self.outside = 1, True, True, False
        self._made: dict[Any, tuple[JaxprEqn, int]] | None = None

    @property
    def path(self) -> tuple[Step, ...]:
        """The enclosing equations, the outermost first."""
        found: list[Step] = []
        frame: Frame | None = self
        while frame is not None and frame.step is not None:
            found.append(frame.step)
            frame = frame.above
        return tuple(reversed(found))

    @property
    def root(self) -> Jaxpr:
        """The jaxpr of the whole program."""
        frame = self
        while frame.above is not None:
            frame = frame.above
        return frame.jaxpr

    def place(self, eqn: JaxprEqn) -> Place:
        """Return the place of one of its equations."""
        return Place(eqn, self.path)

    def maker(self, x: Atom) -> tuple[JaxprEqn, int] | None:
        """Return the equation that makes a variable, and the position among its results; None for
        an argument or a literal.
        """
        makers = self._made
        if makers is None:
            makers = self._made = _MAKERS.of(self.jaxpr, self._makers)
        return None if type(x) is Lit else makers.get(x)

    def readers(self, x: Atom) -> list[JaxprEqn]:
        """Return the equations of the jaxpr that use a variable."""
        return _READERS.of(self.jaxpr, self._readers).get(x, [])

    def outer(self, x: Atom) -> tuple[Frame, Atom] | None:
        """Return the operand of the enclosing equation that is passed for an argument, and its
        frame.

        Return None for other variables, and if the operand is not known.
        """
        if self.above is None or self.step is None:
            return None
        self.outside = True  # the answer may differ for another call of the jaxpr
        inputs, binders = self.step.eqn.inputs, self.jaxpr.in_binders
        if not self.known or x not in binders:
            return None
        i = len(inputs) - (len(binders) - binders.index(x))
        return (self.above, inputs[i]) if i >= 0 else None

    def _makers(self) -> dict[Any, tuple[JaxprEqn, int]]:
        return {v: (eqn, k) for eqn in self.jaxpr.eqns for k, v in enumerate(eqn.out_binders)}

    def _readers(self) -> dict[Any, list[JaxprEqn]]:
        found: dict[Any, list[JaxprEqn]] = {}
        for eqn in self.jaxpr.eqns:
            for x in dict.fromkeys(eqn.inputs):
                if type(x) is not Lit:
                    found.setdefault(x, []).append(eqn)
        return found


def call_of(eqn: JaxprEqn) -> Run | None:
    """Return the run of an equation that is a call: one jaxpr, run once, with its operands as
    arguments.

    Return None for other equations.
    """
    if not eqn.primitive.holds_jaxprs:
        return None
    runs = runs_of(eqn)
    if len(runs) != 1 or (runs[0].times, runs[0].turns, runs[0].devices) != (1, 0, 1):
        return None
    jaxpr = runs[0].jaxpr.jaxpr
    fits = len(jaxpr.in_binders) == len(eqn.inputs) and len(jaxpr.outs) == len(eqn.out_binders)
    return runs[0] if fits and runs[0].branch is None else None


def frames_of(program: ClosedJaxpr) -> Iterator[Frame]:
    """Yield the jaxprs that a program runs, each before those inside it; small ones once for each
    call.
    """
    uses = _uses(program.jaxpr)
    seen = {program.jaxpr}
    pending = [Frame(program)]
    while pending:
        frame = pending.pop()
        yield frame
        inner: list[Frame] = []
        for eqn in frame.jaxpr.eqns:
            if not eqn.primitive.holds_jaxprs:
                continue
            for run in runs_of(eqn):
                jaxpr = run.jaxpr.jaxpr
                small = count_eqns(jaxpr) <= _SMALL
                if jaxpr in seen and not small:
                    continue
                made = Frame(run.jaxpr, Step(eqn, run.param, run.branch), frame)
                made.first = jaxpr not in seen
                once = run.branch is not None or call_of(eqn) is not None
                made.known = once and (small or uses[jaxpr] == 1)
                made.turns = frame.turns * (2 if run.turns else min(run.times, 2))
                inner.append(made)
                seen.add(jaxpr)
        pending += reversed(inner)


def _uses(root: Jaxpr) -> Counter[Jaxpr]:
    """Return by how many equations each jaxpr is run."""
    uses: Counter[Jaxpr] = Counter()
    pending = [root]
    while pending:
        for eqn in pending.pop().eqns:
            if not eqn.primitive.holds_jaxprs:
                continue
            for run in runs_of(eqn):
                uses[run.jaxpr.jaxpr] += 1
                if uses[run.jaxpr.jaxpr] == 1:
                    pending.append(run.jaxpr.jaxpr)
    return uses


def is_derived(eqn: JaxprEqn) -> bool:
    """Whether the scopes of an equation say that it comes from differentiation."""
    names = () if eqn.origin is None else eqn.origin.names or ()
    return any("jvp(" in name or "transpose(" in name for name in names)


class Ref(NamedTuple):
    """A value of a program: an atom, in a frame."""

    frame: Frame
    atom: Atom

    @property
    def aval(self) -> Any:
        """Its type."""
        return self.atom.aval

    def seen_through(self, elements: frozenset[str] = _OF_SAME) -> Ref:
        """Return the value from which it comes by operations that change no element; conversions
        may round.
        """
        frame, atom = self
        for _ in range(_STEPS):
            found = frame.maker(atom)
            if found is None:
                if type(atom) is Lit:
                    break
                outer = frame.outer(atom)
                if outer is None:
                    break
                frame, atom = outer
                continue
            eqn, k = found
            operand = passed_on(eqn, k, elements)
            if operand is not None and _kind(operand) == _kind(eqn.out_binders[k]):
                atom = operand  # a conversion between integers and floats is not looked through
                continue
            run = call_of(eqn)
            if run is None:
                break
            frame, atom = _inside(frame, eqn, run), run.jaxpr.jaxpr.outs[k]
        return Ref(frame, atom)

    def at(self) -> At | None:
        """Return the equation that makes it, looking through calls and operations that change no
        element.
        """
        frame, atom = self
        found = frame.maker(atom)
        if found is not None and _computes(found[0].primitive):
            return At(frame, found[0])  # the usual case
        frame, atom = self.seen_through()
        found = frame.maker(atom)
        return None if found is None else At(frame, found[0])

    def made(self, *names: str) -> At | None:
        """Return the equation that makes it if its primitive has one of these names, otherwise
        None.
        """
        found = self.at()
        return found if found is not None and found.name in names else None

    def number(self) -> Any:
        """Return the number that it is, or that all its elements are; None if it is not known."""
        atom = self.seen_through().atom
        value = atom.val if isinstance(atom, Lit) else None
        return value if isinstance(value, (bool, int, float, complex)) else None

    def is_same(self, other: Ref, depth: int = 3) -> bool:
        """Whether both are the same value, except for its shape and type.

        It may have been computed twice, by up to `depth` equations one after the other.
        """
        a, b = self.seen_through(_SAME), other.seen_through(_SAME)
        if type(a.atom) is Lit or type(b.atom) is Lit:
            return a.number() is not None and a.number() == b.number()
        if a.atom is b.atom and a.frame.step == b.frame.step:
            return True
        first, second = a.frame.maker(a.atom), b.frame.maker(b.atom)
        if depth == 0 or first is None or second is None or first[1] != second[1]:
            return False
        return _is_copy(At(a.frame, first[0]), At(b.frame, second[0]), depth - 1)


def _is_copy(first: At, second: At, depth: int) -> bool:
    """Whether two equations have the same primitive, equal params and the same operands."""
    ins, others = first.eqn.inputs, second.eqn.inputs
    if first.eqn.primitive is not second.eqn.primitive or len(ins) != len(others):
        return False
    if first.eqn.primitive.holds_jaxprs or not ins:
        return False
    keys = Keys()
    if [*map(keys.value, first.params.items())] != [*map(keys.value, second.params.items())]:
        return False
    return all(first.operand(i).is_same(second.operand(i), depth) for i in range(len(ins)))


def _computes(primitive: Primitive) -> bool:
    """Whether a primitive computes its results: it is not a call, and does not only move
    elements.
    """
    return elements_facts[primitive] not in _OF_SAME and not primitive.holds_jaxprs


def _kind(x: Atom) -> str:
    return getattr(getattr(x.aval, "dtype", None), "kind", "")


def _inside(frame: Frame, eqn: JaxprEqn, run: Run) -> Frame:
    return Frame(run.jaxpr, Step(eqn, run.param), frame)


class At(NamedTuple):
    """An equation, in a frame."""

    frame: Frame
    eqn: JaxprEqn

    @property
    def name(self) -> str:
        """The name of its primitive."""
        return self.eqn.primitive.name

    @property
    def params(self) -> Any:
        """Its params."""
        return self.eqn.params

    @property
    def out(self) -> Any:
        """The type of its first result."""
        return self.eqn.out_binders[0].aval

    def operand(self, i: int) -> Ref:
        """Return operand i."""
        return Ref(self.frame, self.eqn.inputs[i])

    def made(self, i: int, *names: str) -> At | None:
        """Return the equation that makes operand i if its primitive has one of these names, else
        None.
        """
        return self.operand(i).made(*names)

    def number(self, i: int) -> Any:
        """Return the number that operand i is, or that all its elements are; None if it is not
        known.
        """
        made = self.frame.maker(self.eqn.inputs[i])
        if made is not None and _computes(made[0].primitive):
            return None  # the usual case
        return self.operand(i).number()

    def place(self) -> Place:
        """Return its place in the program."""
        return self.frame.place(self.eqn)
