"""Keys of random numbers that are used twice."""

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
# Every value has a root: that of a key says which key it is. Operations that change no key keep the root of their operand. Elements of an
# array of keys have the root of the array with the operation that takes them, so that the same element, taken twice, has one root;
# so has what is derived of one key and one number (`fold_in`). All other results are roots of their own: the variable itself. In a jaxpr the root
# of an argument is its binder, for which a caller puts the root of the operand.

_USES, _DERIVES = "uses", "derives"
# What the elements of a result are (`interpreters.columns.flow`) that is the same key, and that is a part of an array of keys.
_SAME_KEY = frozenset({"kept", "permuted", "converted"})
_PART = frozenset({"chosen"})


def _uses(primitive: Primitive) -> bool:
    """Whether a primitive uses the key that is its first operand."""
    return key_uses[primitive] == _USES


class Use(NamedTuple):
    """The use of a key.

    Attributes:
      root: of the key.
      eqn: the equation of the jaxpr at hand that uses it, or in which it is used.
      inner: where it is used at last.
    """

    root: Any
    eqn: JaxprEqn
    inner: JaxprEqn


class Twice(NamedTuple):
    """A key that is used twice: the first time and the second one, which is the same in the turns of a loop."""

    jaxpr: Jaxpr
    first: Use
    second: Use
    in_turns: bool = False


class Summary(NamedTuple):
    """What a jaxpr does with keys.

    Attributes:
      uses: the uses of keys that its arguments are, or that are made of them alone.
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

    The same key gives the same random bits: two draws are equal, or shifted copies of each other, where they are meant to be
    independent. Drawing uses a key, and so does splitting it; folding a number into it does not. In a loop, a key that is the same in each
    turn is used as often as the loop turns, and a scan over an array of keys uses them all. What a derivative computes again, as
    jax.checkpoint tells it to, draws the same numbers on purpose.
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
    """What a jaxpr does with keys; each is looked at once."""
    jaxpr = closed.jaxpr
    found = done.get(jaxpr)
    if found is None:
        found = done[jaxpr] = _Body(jaxpr, done, keys).summary()
    return found


class _Body:
    """A jaxpr that is looked at."""

    def __init__(self, jaxpr: Jaxpr, done: dict[Jaxpr, Summary], keys: Keys):
        self.jaxpr, self.done, self.keys = jaxpr, done, keys
        self.roots: dict[Any, Any] = {}
        self.used: dict[Any, Use] = {}
        self.parts: dict[Any, Use] = {}  # of arrays of keys of which some element is used, that use
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
        """Remember the use of a key, or tell that it is the second one."""
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
        """Follow the keys through what an equation runs."""
        call = call_of(eqn)
        branches: dict[Any, Use] = {}
        for run in runs:
            inner = _summary(run.jaxpr, self.done, self.keys)
            roots = self.arguments(eqn, run)
            again = eqn.params.get("differentiated") is True  # what it draws was drawn before
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
        """The roots that the arguments of a jaxpr have: those of the operands, in a loop of those that are the same in each turn."""
        binders, inputs = run.jaxpr.jaxpr.in_binders, eqn.inputs
        from_end = len(inputs) - len(binders)
        pairs = [(v, inputs[from_end + i]) for i, v in enumerate(binders) if from_end + i >= 0]
        if run.branch is None and (run.times != 1 or run.turns):
            same = _same_in_turns(eqn, run)
            pairs = [(binders[i], inputs[k]) for i, k in same]
        return {v: self.root(x) for v, x in pairs}

    def put(self, root: Any, roots: dict[Any, Any]) -> Any:
        """A root of an inner jaxpr with the roots of its arguments in it; None where it holds anything else of the jaxpr's."""
        if isinstance(root, _Root):
            operands = [self.put(x, roots) for x in root.operands]
            if any(x is None for x in operands):
                return None
            whole = operands[0] if root.whole is not None else None
            return _Root(root.name, tuple(operands), root.params, whole)
        return root if isinstance(root, tuple) else roots.get(root)


class _Root(NamedTuple):
    """The root of what is made of keys: an element, or a key with a number in it.

    Attributes:
      whole: of an element the root of the array.
    """

    name: str
    operands: tuple[Any, ...]
    params: tuple[Any, ...]
    whole: Any = None


def _variables(root: Any) -> set[Any]:
    """The variables that a root is made of; those of a literal are none."""
    if isinstance(root, _Root):
        return {v for x in root.operands for v in _variables(x)}
    return set() if isinstance(root, tuple) else {root}


def _elements(eqn: JaxprEqn, run: Run) -> dict[Any, Any]:
    """Of a scan the arguments of its jaxpr that are another element in each turn, and the arrays that these are of."""
    consts, carry = eqn.params.get("num_consts"), eqn.params.get("num_carry")
    if consts is None or carry is None or run.branch is not None:
        return {}
    first = consts + carry
    return dict(zip(run.jaxpr.jaxpr.in_binders[first:], eqn.inputs[first:], strict=True))


def _same_in_turns(eqn: JaxprEqn, run: Run) -> list[tuple[int, int]]:
    """Positions of arguments of a loop's jaxpr that are the same in each turn, and of the operands that they are."""
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
