"""Lint rule of keys of random numbers that are used twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.columns.flow import elements_facts, passed_on
from jaxprtool.interpreters.columns.keys import key_uses
from jaxprtool.interpreters.columns.runs import Run, runs_of
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Primitive
from jaxprtool.ir.memo import Memo
from jaxprtool.linter.engine import View
from jaxprtool.linter.frames import call_of
from jaxprtool.linter.registry import Found, lint_rule

__all__ = ["key_reuse"]

# Note [Roots]
#
# Every value has a root; two keys with equal roots are the same key. The result of an operation
# that does not
# change keys has the root of its operand. The root of elements taken from an array of keys is made
# of the
# array's root and the operation, so that the same element, taken twice, has the same root; likewise
# that of
# a key derived from a key and a number (`fold_in`). The root of any other result is its variable.
# In a
# jaxpr, the root of an argument is its binder, which is replaced by the operand's root for a call.

_USES, _DERIVES = "uses", "derives"
# Kinds of operations (`interpreters.columns.flow`) whose results are the same keys, and whose
# results are some of the keys of an array.
_SAME_KEY = frozenset({"kept", "permuted", "converted"})
_PART = frozenset({"chosen"})


def _uses(primitive: Primitive) -> bool:
    """Whether a primitive uses the key that is its first operand."""
    return key_uses[primitive] == _USES


class Use(NamedTuple):
    """The use of a key.

    Attributes:
      root: the root of the key.
      eqn: the equation of the current jaxpr that uses it, or whose jaxprs use it.
      inner: the equation, possibly in a nested jaxpr, that uses it.
    """

    root: Any
    eqn: JaxprEqn
    inner: JaxprEqn


class Twice(NamedTuple):
    """A key that is used twice: the first and the second use, which are equal if it is used by each
    iteration of a loop (`in_turns`).
    """

    jaxpr: Jaxpr
    first: Use
    second: Use
    in_turns: bool = False


class Summary(NamedTuple):
    """What a jaxpr does with keys.

    Attributes:
      uses: the uses of keys that are arguments, or are derived from arguments only.
      outs: the roots of its results.
      twice: the keys that it uses twice itself.
    """

    uses: Sequence[Use]
    outs: Sequence[Any]
    twice: Sequence[Twice]


@lint_rule(
    "key-reuse",
    family="keys",
    kind="program",
    needs=(_uses,),
    mend="split it first: key, subkey = jax.random.split(key)",
)
def key_reuse(view: View) -> Iterator[Found]:
    """A key of random numbers is used twice.

    The same key gives the same random bits: two draws that are meant to be independent are equal,
    or shifted copies of each other. Drawing uses a key, and so does splitting it; folding a number
    into it does not. In a loop, a key that is the same in each iteration is used in each of them,
    and a scan over an array of keys uses all of them. Draws that a derivative recomputes because of
    jax.checkpoint are meant to be equal, and are not reported.
    """
    done: dict[Jaxpr, Summary] = {}
    _summary(view.program, done, Keys())
    frames = {frame.jaxpr: frame for frame in view.frames}
    for summary in done.values():
        for found in summary.twice:
            frame = frames.get(found.jaxpr)
            if frame is None:
                continue
            place, first = frame.place(found.second.eqn), frame.place(found.first.eqn)
            inside = found.second.inner is not found.second.eqn
            what = f" (by {found.second.inner.primitive.name} inside)" if inside else ""
            if found.in_turns:
                yield Found(f"each turn of the loop uses the same key{what}", place)
            else:
                yield Found(
                    f"a key is used here again{what}: {_at(found.first)} has used it",
                    place,
                    related=(first,),
                )


def _at(use: Use) -> str:
    span = use.eqn.span
    line = f" at line {span.source.position(span.start)[0]}" if span is not None else ""
    return f"{use.eqn.primitive.name}{line}"


_DRAWS = Memo[bool]("uses keys of random numbers")


@deep
def _draws(jaxpr: Jaxpr) -> bool:
    """Whether an equation of a jaxpr, or of one that it runs, uses a key."""
    found = _DRAWS.find(jaxpr)
    if found is None:
        found = any(
            _uses(eqn.primitive)
            or (eqn.primitive.holds_jaxprs and any(_draws(run.jaxpr.jaxpr) for run in runs_of(eqn)))
            for eqn in jaxpr.eqns
        )
        _DRAWS.keep(jaxpr, found)
    return found


@deep
def _summary(closed: ClosedJaxpr, done: dict[Jaxpr, Summary], keys: Keys) -> Summary:
    """Return what a jaxpr does with keys; each jaxpr is examined once."""
    jaxpr = closed.jaxpr
    found = done.get(jaxpr)
    if found is None:
        found = done[jaxpr] = _Body(jaxpr, done, keys).summary()
    return found


class _Body:
    """Follows keys through the equations of one jaxpr."""

    def __init__(self, jaxpr: Jaxpr, done: dict[Jaxpr, Summary], keys: Keys):
        self.jaxpr, self.done, self.keys = jaxpr, done, keys
        self.roots: dict[Any, Any] = {}
        self.used: dict[Any, Use] = {}
        self.parts: dict[Any, Use] = {}  # array of keys -> a use of one of its elements
        self.twice: list[Twice] = []

    def summary(self) -> Summary:
        for eqn in self.jaxpr.eqns:
            self.look(eqn)
        binders = {*self.jaxpr.all_binders}
        uses = [use for root, use in self.used.items() if _variables(root) <= binders]
        return Summary(uses, [self.root(x) for x in self.jaxpr.outs], self.twice)

    def root(self, x: Any) -> Any:
        if type(x) is Lit:
            return self.keys.literal(x)
        return self.roots.get(x, x)

    def look(self, eqn: JaxprEqn) -> None:
        """Follow the keys through an equation."""
        primitive = eqn.primitive
        elements, on_keys = elements_facts[primitive], key_uses[primitive]
        if on_keys == _USES:
            self.use(Use(self.root(eqn.inputs[0]), eqn, eqn))
        elif elements in _SAME_KEY:
            for k, v in enumerate(eqn.out_binders):
                self.roots[v] = self.root(passed_on(eqn, k, _SAME_KEY))
        elif elements in _PART or on_keys == _DERIVES:
            operands = tuple([self.root(x) for x in eqn.inputs])
            params = tuple([(k, self.keys.value(v)) for k, v in sorted(eqn.params.items())])
            whole = operands[0] if elements in _PART else None
            for k, v in enumerate(eqn.out_binders):
                self.roots[v] = _Root(primitive.name, operands, (*params, k), whole)
        elif eqn.primitive.holds_jaxprs:
            runs = [run for run in runs_of(eqn) if _draws(run.jaxpr.jaxpr)]
            if runs:
                self.run(eqn, runs)

    def use(self, use: Use) -> None:
        """Record the use of a key; if it was used before, as a key that is used twice."""
        root = use.root
        first = self.used.get(root) or self.parts.get(root)
        whole: Any = root
        while first is None and isinstance(whole, _Root) and whole.whole is not None:
            whole = whole.whole
            first = self.used.get(whole)
        if first is not None:
            self.twice.append(Twice(self.jaxpr, first, use))
            return
        self.used[root] = use
        while isinstance(root, _Root) and root.whole is not None:
            root = root.whole
            self.parts.setdefault(root, use)

    def run(self, eqn: JaxprEqn, runs: Sequence[Run]) -> None:
        """Follow keys through the jaxprs that an equation runs."""
        call = call_of(eqn)
        branches: dict[Any, Use] = {}
        for run in runs:
            inner = _summary(run.jaxpr, self.done, self.keys)
            roots = self.arguments(eqn, run)
            again = (
                eqn.params.get("differentiated") is True
            )  # a recomputation: draws again on purpose
            uses = {} if again else {self.put(use.root, roots): use for use in inner.uses}
            for root, use in uses.items():
                outer = Use(root, eqn, use.inner)
                if run.branch is not None:
                    branches.setdefault(root, outer)
                elif root is None:
                    continue
                elif (run.times > 1 or run.turns) and run.devices == 1:
                    self.twice.append(Twice(self.jaxpr, outer, outer, in_turns=True))
                else:
                    self.use(outer)
            for use in () if again else inner.uses:
                if use.root in (elements := _elements(eqn, run)):
                    self.use(Use(self.root(elements[use.root]), eqn, use.inner))
            if call is not None:
                for v, root in zip(eqn.out_binders, inner.outs, strict=True):
                    made = self.put(root, roots)
                    self.roots[v] = v if made is None else made
        for root, use in branches.items():
            if root is not None:
                self.use(use)

    def arguments(self, eqn: JaxprEqn, run: Run) -> dict[Any, Any]:
        """Return binder -> root of the operand, for the arguments of a jaxpr; in a loop only for
        those that are the same in each iteration.
        """
        binders, inputs = run.jaxpr.jaxpr.in_binders, eqn.inputs
        from_end = len(inputs) - len(binders)
        pairs = [(v, inputs[from_end + i]) for i, v in enumerate(binders) if from_end + i >= 0]
        if run.branch is None and (run.times != 1 or run.turns):
            same = _same_in_turns(eqn, run)
            pairs = [(binders[i], inputs[k]) for i, k in same]
        return {v: self.root(x) for v, x in pairs}

    def put(self, root: Any, roots: dict[Any, Any]) -> Any:
        """Return a root of an inner jaxpr with its binders replaced by the roots of the operands.

        Return None if it contains any other variable of the jaxpr.
        """
        if isinstance(root, _Root):
            operands = [self.put(x, roots) for x in root.operands]
            if any(x is None for x in operands):
                return None
            whole = operands[0] if root.whole is not None else None
            return _Root(root.name, tuple(operands), root.params, whole)
        return root if isinstance(root, tuple) else roots.get(root)


class _Root(NamedTuple):
    """The root of a key that is taken or derived from others: an element of an array, or by
    `fold_in`.

    Attributes:
      name, operands, params: the primitive, the roots of its operands, and its params.
      whole: the root of the array, for an element; None otherwise.
    """

    name: str
    operands: tuple[Any, ...]
    params: tuple[Any, ...]
    whole: Any = None


def _variables(root: Any) -> set[Any]:
    """Return the variables in a root; the root of a literal has none."""
    if isinstance(root, _Root):
        return {v for x in root.operands for v in _variables(x)}
    return set() if isinstance(root, tuple) else {root}


def _elements(eqn: JaxprEqn, run: Run) -> dict[Any, Any]:
    """Return, for a scan, binder -> array, for the arguments that are slices of xs; otherwise
    {}.
    """
    consts, carry = eqn.params.get("num_consts"), eqn.params.get("num_carry")
    if consts is None or carry is None or run.branch is not None:
        return {}
    first = consts + carry
    return dict(zip(run.jaxpr.jaxpr.in_binders[first:], eqn.inputs[first:], strict=True))


def _same_in_turns(eqn: JaxprEqn, run: Run) -> list[tuple[int, int]]:
    """Return pairs of positions: of an argument of a loop's jaxpr that is the same in each
    iteration, and of the operand that is passed for it.
    """
    params, jaxpr = eqn.params, run.jaxpr.jaxpr
    if "num_consts" in params:
        consts, skipped, carried = params["num_consts"], 0, params.get("num_carry", 0)
    elif "body_nconsts" in params:
        skipped, consts = params["cond_nconsts"], params["body_nconsts"]
        if run.param == "cond_jaxpr":
            skipped, consts = 0, params["cond_nconsts"]
        carried = len(jaxpr.outs) if run.param == "body_jaxpr" else 0
    else:
        return []
    same = [(i, skipped + i) for i in range(consts)]
    for i in range(carried):
        binder = jaxpr.in_binders[consts + i]
        if jaxpr.outs[i] is binder:
            same.append((consts + i, skipped + consts + i))
    return same
