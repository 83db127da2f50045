"""The programs that expressions are asked of, with their equations, values and figures.

`Subject` finds what matches a pattern, and notes names in patterns that nothing has; `Program` is a
jaxpr, and `staged.Staged` a lowered program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from jaxprtool.analyses.asking.called import Arguments
from jaxprtool.analyses.asking.items import Equation, Item, Value
from jaxprtool.analyses.asking.matching import fits, matches, needs_context
from jaxprtool.analyses.asking.named import Named, names_in
from jaxprtool.analyses.asking.walk import Level, levels_of
from jaxprtool.analyses.counting.cost import Estimate
from jaxprtool.analyses.counting.fixed_sizes import check_sizes
from jaxprtool.analyses.counting.stats import grouped
from jaxprtool.analyses.counting.tally import ALL, Count, in_order
from jaxprtool.analyses.memory.kept import Kept
from jaxprtool.analyses.memory.liveness import memory
from jaxprtool.core.primitive import declared_primitive, vocabulary
from jaxprtool.interpreters.columns.communication import sends_rules
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import argument_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit
from jaxprtool.ir.synonyms import PRIMITIVES as SYNONYMS
from jaxprtool.ir.synonyms import close_names, meant
from jaxprtool.ir.walk import nesting
from jaxprtool.syntax.assertions.nodes import Head, Pattern, TypePattern
from jaxprtool.syntax.patterns import pattern

__all__ = ["Program", "Subject", "Unknown"]

_WORDS = pattern(r"[_\-]")
_OF_EQUATIONS = ("flops", "transcendentals", "bytes", "communication", "executed")
_ALIKE = {"callback": ("debug",)}  # printing calls the host, too
# Words for classes of primitives by their properties, besides the words in their names (`callback`).
_CLASSES: dict[str, Callable[[Any], bool]] = {
    "collective": lambda primitive: sends_rules.find(primitive) is not None,
}


class Unknown(NamedTuple):
    """A name in a pattern that nothing has: its position in the expression, the message and the help."""

    at: tuple[int, int]
    message: str
    help: str


class _Fitting(dict[Any, bool]):
    """Whether a type fits a pattern, by type."""

    def __init__(self, pattern: TypePattern):
        super().__init__()
        self._pattern = pattern

    def __missing__(self, aval: Any) -> bool:
        found = self[aval] = fits(self._pattern, aval)
        return found


class Subject:
    """Something that expressions are asked of.

    Attributes:
      title: what it is called in messages.
      names: the names of its operations.
      unknown: names in patterns that nothing has.
    """

    title: str

    def __init__(self, title: str):
        self.title = title
        self.unknown: list[Unknown] = []
        self._found: dict[Any, list[Item]] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its operations."""
        raise NotImplementedError

    def items(self, names: frozenset[str] | None, *, top: bool, contexts: bool) -> Iterable[Item]:
        """Yield its operations with these names (None: all), in order.

        Args:
          names: the names.
          top: whether only operations outside of nested jaxprs count.
          contexts: whether what surrounds an operation will be asked for.
        """
        raise NotImplementedError

    def values(self, of: TypePattern, *, top: bool, contexts: bool) -> Iterable[Item]:
        """Yield its values of a type; `top` and `contexts` as for `items`."""
        raise NotImplementedError

    def figure(self, name: str) -> float:
        """Return a figure. Raises UsageError for one that it does not have, or that is not known."""
        raise NotImplementedError

    def figure_of(self, name: str, pattern: Pattern) -> float:
        """Return a figure of what matches a pattern. Raises UsageError."""
        raise NotImplementedError

    def kept(self, policy: str) -> Sequence[Kept]:
        """Return what a reverse pass keeps under a policy. Raises UsageError."""
        raise NotImplementedError

    # -- patterns -------------------------------------------------------------------------------------

    def find(self, pattern: Pattern, *, top: bool = False, contexts: bool = False) -> list[Item]:
        """Return what matches a pattern, in the order of the program.

        Args:
          pattern: the pattern.
          top: whether only what is outside of nested jaxprs counts.
          contexts: whether what surrounds each match will be asked for.
        """
        if pattern.value is None:
            self.meant(pattern)  # notes unknown names even where the answer is cached
        self.note_names(names_in(pattern.operands, pattern.filters))
        contexts = contexts or needs_context(*pattern.filters)
        key = pattern.text, top, contexts
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = [*self._matching(pattern, top, contexts)]
        return found

    def _matching(self, pattern: Pattern, top: bool, contexts: bool) -> Iterator[Item]:
        if pattern.value is not None:
            found = self.values(pattern.value, top=top, contexts=contexts)
        else:
            found = self.items(self.meant(pattern), top=top, contexts=contexts)
        for item in found:
            if matches(item, pattern):
                yield item

    def meant(self, pattern: Pattern) -> frozenset[str] | None:
        """Return the names of operations that the heads of a pattern mean; None for all."""
        if any(head.name is None for head in pattern.heads):
            return None
        found = frozenset(name for head in pattern.heads for name in self._named(head))
        self._note_params(pattern)
        return found

    def _named(self, head: Head) -> Iterator[str]:
        name = self.spelled(head.name or "")
        if head.glob is not None:
            if not any(map(head.glob.search, self.known())):
                self._note(head, f"no primitive has a name like {name}", "")
            yield from filter(head.glob.search, self.names)
        elif name in self.names or self.is_known(name):
            yield name
        else:
            words = self.by_word(name)
            if not words:
                self._note(head, *self.misnamed(name))
            yield from words

    def _note(self, head: Head, message: str, help: str) -> None:
        found = Unknown(head.at, message, help)
        if found not in self.unknown:
            self.unknown.append(found)

    def _note_params(self, pattern: Pattern) -> None:
        """Note params that none of the named primitives has."""

    def note_names(self, names: Iterable[Named]) -> None:
        """Note names of values that none has, and names of primitives in filters that none has."""
        for named in names:
            if named.is_value:
                said = self.misnamed_value(named.name)
            else:
                name = self.spelled(named.name)
                there = name in self.names or self.is_known(name)
                said = None if there else self.misnamed(name)
            if said is not None and (found := Unknown(named.at, *said)) not in self.unknown:
                self.unknown.append(found)

    def misnamed_value(self, name: str) -> tuple[str, str] | None:
        """Return message and help for a name that no value has; None for one that a value has."""
        raise NotImplementedError

    def spelled(self, name: str) -> str:
        """Return a name in the spelling of the operations here."""
        return name

    def known(self) -> Iterable[str]:
        """Return all names that an operation may have."""
        raise NotImplementedError

    def is_known(self, name: str) -> bool:
        """Whether an operation may have this name."""
        return name in self.known()

    def by_word(self, name: str) -> list[str]:
        """Return the known names that have a word among theirs, or one that means the same."""
        words = {name, *_ALIKE.get(name, ())}
        return [n for n in self.known() if not words.isdisjoint(_WORDS.split(n))]

    def misnamed(self, name: str) -> tuple[str, str]:
        """Return message and help for a name that no operation has."""
        near = close_names(name, self.known())
        help = f"did you mean {' or '.join(near)}?" if near else ""
        return f"there is no operation {name}", help


class Program(Subject):
    """A program whose equations have places.

    Attributes:
      program: the program.
      trips: the iterations of a loop whose length is not known; None: unknown.
    """

    def __init__(
        self,
        program: ClosedJaxpr,
        title: str = "",
        trips: int | None = None,
        kept: Callable[[ClosedJaxpr, str], Sequence[Kept]] | None = None,
    ):
        """Prepare to ask a program.

        Args:
          program: a well-typed program.
          title: what it is called in messages.
          trips: the iterations of a loop whose length is not known; None: unknown.
          kept: returns what a reverse pass keeps of a program under a policy.
        """
        super().__init__(title)
        self.program, self.trips, self._residuals = program, trips, kept
        self._kept: dict[str, Sequence[Kept]] = {}

    @cached_property
    def arguments(self) -> Arguments:
        """The names of its arguments."""
        return Arguments(self.program)

    @cached_property
    def levels(self) -> list[Level]:
        """Its jaxprs, each once."""
        return levels_of(self.program.jaxpr, self.trips, contexts=False)

    @cached_property
    def in_contexts(self) -> list[Level]:
        """Its jaxprs, once for each context."""
        return levels_of(self.program.jaxpr, self.trips, contexts=True)

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(e.primitive.name for level in self.levels for e in level.jaxpr.eqns)

    def items(self, names: frozenset[str] | None, *, top: bool, contexts: bool) -> Iterator[Item]:
        for level in self._some_levels(top, contexts):
            for i, eqn in enumerate(level.jaxpr.eqns):
                if names is None or eqn.primitive.name in names:
                    yield Equation(level, i, self.arguments)

    def values(self, of: TypePattern, *, top: bool, contexts: bool) -> Iterator[Item]:
        fitting, jaxpr = _Fitting(of), self.program.jaxpr
        labels = argument_labels([v.name for v in jaxpr.in_binders], self.program.interface)
        named = self.arguments
        for v in jaxpr.const_binders:
            if fitting[v.aval]:
                yield Value(v, None, f"constant {v.name or ''}", named)
        for v, label in zip(jaxpr.in_binders, labels, strict=True):
            if fitting[v.aval]:
                yield Value(v, None, label, named)
        for level in self._some_levels(top, contexts):
            for i, eqn in enumerate(level.jaxpr.eqns):
                made = [x for x in eqn.inputs if type(x) is Lit and fitting[x.aval]]
                made += [v for v in eqn.out_binders if fitting[v.aval]]
                if made:
                    equation = Equation(level, i, named)
                    for x in made:
                        yield Value(x, equation, "value", named)

    def _some_levels(self, top: bool, contexts: bool) -> list[Level]:
        found = self.in_contexts if contexts else self.levels
        return found[:1] if top else found

    # -- names ----------------------------------------------------------------------------------------

    @cached_property
    def _variables(self) -> frozenset[str]:
        """The names of its variables, at any depth."""
        found: set[str | None] = set()
        for level in self.levels:
            found.update(v.name for v in level.jaxpr.all_binders)
            found.update(v.name for e in level.jaxpr.eqns for v in e.out_binders)
        return frozenset(name for name in found if name is not None)

    def misnamed_value(self, name: str) -> tuple[str, str] | None:
        if name in self._variables or self.arguments.positions(name):
            return None
        near = close_names(name, self.arguments.labels or sorted(self._variables))
        help = (
            f"did you mean {near[0]}?" if near else "`jaxprtool fmt` shows the names of variables"
        )
        return f"no value is called {name}, so that nothing ever matches it", help

    def known(self) -> Iterable[str]:
        return vocabulary()

    def is_known(self, name: str) -> bool:
        return declared_primitive(name) is not None

    def by_word(self, name: str) -> list[str]:
        test = _CLASSES.get(name)
        if test is not None:
            return sorted(n for n, primitive in vocabulary().items() if test(primitive))
        found, said = super().by_word(name), meant(name, SYNONYMS)
        # `matmul` is a word of scaled_matmul_wrapper, and means dot_general
        return found if not said or said in found else []

    def misnamed(self, name: str) -> tuple[str, str]:
        said = meant(name, SYNONYMS)
        near = [said] if said else close_names(name, [*vocabulary(), *_CLASSES])
        help = (
            f"did you mean {' or '.join(near)}?" if near else "names are those of JAX's primitives"
        )
        return f"there is no primitive {name}, so that nothing ever matches it", help

    def _note_params(self, pattern: Pattern) -> None:
        heads = [declared_primitive(h.name or "") for h in pattern.heads if h.glob is None]
        if not heads or None in heads:
            return
        keys = {key for p in heads if p is not None for key in p.params}
        for param in pattern.params:
            if param.key not in keys:
                names = " or ".join([str(h.name) for h in pattern.heads])
                near = close_names(param.key, keys)
                help = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(keys))}"
                message = f"{names} has no param {param.key}"
                found = Unknown(param.at, message, help if keys else "it has none")
                if found not in self.unknown:
                    self.unknown.append(found)

    # -- figures --------------------------------------------------------------------------------------

    @cached_property
    def estimate(self) -> Estimate:
        """What it costs. Raises MissingRuleError."""
        return Estimate(self.program, trips=self.trips)

    def figure(self, name: str) -> float:
        jaxpr = self.program.jaxpr
        if name in ("constants", "arguments"):
            check_sizes(self.program)
        found: dict[str, Callable[[], int | None]] = {
            "peak": lambda: memory(self.program, in_order(jaxpr)).nbytes,
            "flops": lambda: self.estimate.total.flops.high,
            "transcendentals": lambda: self.estimate.total.transcendentals.high,
            "bytes": lambda: self.estimate.total.nbytes.high,
            "communication": lambda: _sum_of(self.estimate.sent.values()),
            "equations": lambda: sum(v.times * len(v.jaxpr.eqns) for v in self.levels),
            "executed": lambda: (
                grouped(in_order(jaxpr), "primitive", self.trips)[ALL].counts[0].high
            ),
            "depth": lambda: nesting(jaxpr),
            "constants": lambda: _bytes_of(jaxpr.const_binders),
            "arguments": lambda: _bytes_of(jaxpr.in_binders),
        }
        return self._known(name, found[name]())

    def _known(self, name: str, value: int | None) -> int:
        if value is None:
            places = self.estimate.unknown
            span = places[0].eqn.span if places else None
            message = f"{name} is not known, since a loop turns as often as it likes"
            help = "say how often with --trips N"
            fail(UsageError, message, "unknown-trips", span=span, help=help)
        return value

    @cached_property
    def _each(self) -> dict[tuple[Jaxpr, JaxprEqn], Any]:
        """The rows of the estimate, by jaxpr and equation, for equations that run no jaxprs."""
        return {(row.site.jaxpr, row.eqn): row for row in self.estimate.rows}

    def figure_of(self, name: str, pattern: Pattern) -> float:
        if name not in _OF_EQUATIONS:
            help = f"of a pattern there are {', '.join(_OF_EQUATIONS)}"
            fail(UsageError, f"{name} is of a whole program", "expression", help=help)
        total = Count()
        for item in self.find(pattern):
            if not isinstance(item, Equation):
                message = f"{name} is of equations, and {pattern.text} is a type of values"
                fail(UsageError, message, "expression")
            times = item.level.executed
            total += times if name == "executed" else self._one(name, item) * times
        return self._known(f"{name}({pattern.text})", total.high)

    def _one(self, name: str, item: Equation) -> Count:
        row = self._each.get((item.level.jaxpr, item.eqn))
        if row is None:
            message = f"{name}: {item.name} is what it runs, and costs nothing itself"
            help = f"of what it runs: {name}(_ {{inside == {item.name}}})"
            fail(UsageError, message, "expression", span=item.eqn.span, help=help)
        if name == "communication":
            low, times = row.sent.low, max(item.level.executed.low, 1)
            return Count(low // times, None if row.sent.high is None else low // times)
        one = {"bytes": "nbytes"}.get(name, name)
        n = getattr(row.each, one)
        return Count(n, n if row.each.is_known or name == "bytes" else None)

    def kept(self, policy: str) -> Sequence[Kept]:
        if self._residuals is None:
            fail(UsageError, "residuals are not looked for here", "expression")
        found = self._kept.get(policy)
        if found is None:
            found = self._kept[policy] = self._residuals(self.program, policy)
        return found


def _sum_of(counts: Iterable[Count]) -> int | None:
    total = Count()
    for count in counts:
        total += count
    return total.high


def _bytes_of(atoms: Sequence[Any]) -> int:
    return sum(getattr(x.aval, "nbytes", 0) for x in atoms)
