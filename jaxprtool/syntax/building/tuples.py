"""Remove tuples of values, which the releases to 0.1.40 pass around, since their operations have one result each.

c = pack a b                      nothing: c stands for a and b
(d e) = id c                      nothing: d is a, and e is b
f = while[cond_jaxpr={ ... } body_jaxpr={ ... }] c * *
                                  g h = while[... cond_nconsts=0 body_nconsts=0] a b

A variable has a structure: an atom, or a tuple of structures. It follows from the equation that
packs a value, or from the one that takes it apart: an argument that `id` takes apart becomes
several arguments, and an operation whose result it takes apart gets several results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from jaxprtool.ir.diagnostics import Diagnostic, counted
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Params, Var
from jaxprtool.syntax.infer import inner_jaxprs
from jaxprtool.syntax.releases.earlier_equations import branches
from jaxprtool.syntax.releases.units import UNIT
from jaxprtool.syntax.types import UNTYPED

__all__ = ["OF_TUPLES", "has_tuples", "take_tuples_apart"]

_MOST = 3_000_000  # elements of tuples in a program
OF_TUPLES = frozenset({"pack", "id", "while", "cond"})  # what may be such an equation

Structure: TypeAlias = "Atom | tuple[Structure, ...]"


def has_tuples(eqn: JaxprEqn) -> bool:
    """Whether an equation packs or unpacks a tuple, or is a branch or a loop in the form of the releases to 0.1.40."""
    name, params = eqn.primitive.name, eqn.params
    if name in ("pack", "id"):
        return not eqn.primitive.known
    if any(v.aval is not UNTYPED for v in eqn.out_binders):
        return False
    if name == "while":
        return "cond_jaxpr" in params and not {"cond_nconsts", "body_nconsts"} & params.keys()
    return name == "cond" and "true_jaxpr" in params  # later ones are up to date already


def take_tuples_apart(programs: Sequence[ClosedJaxpr]) -> list[Diagnostic]:
    """Remove the tuples from programs that were just read, in place: operands, results and the binders of both.

    Returns diagnostics: tuples that are taken apart into another number of elements than they have.
    """
    faults = _Faults()
    for closed in programs:
        try:
            _Body(closed.jaxpr, faults).take_apart(())
        except _TooLarge:
            message = f"its tuples hold more than {_MOST:,} values, those of tuples inside counted"
            faults.found.append(Diagnostic(message, "too-large", closed.jaxpr.span))
    return faults.found


class _TooLarge(Exception):
    """The tuples of a program have too many elements.

    Tuples of tuples can grow exponentially with the lines of text.
    """


class _Faults:
    """The faults found in a program, and the number of elements of tuples it may still have."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.left = _MOST

    def spend(self, elements: int) -> None:
        self.left -= elements
        if self.left < 0:
            raise _TooLarge


class _Body:
    """Removes the tuples from one jaxpr.

    Attributes:
      found: variable -> structure, for variables that stand for a tuple or for another variable.
      faults: the faults found in the whole program.
    """

    def __init__(self, jaxpr: Jaxpr, faults: _Faults):
        self.jaxpr, self.faults = jaxpr, faults
        self.found: dict[Var, Structure] = {}

    def take_apart(self, given: Sequence[Structure]) -> tuple[list[Structure], list[Structure]]:
        """Remove the tuples from the jaxpr, and from those inside.

        Args:
          given: the structures of the values that it is called with, as far as they are known.

        Returns the structures of its arguments, and of its results.
        """
        jaxpr = self.jaxpr
        for v, structure in zip(jaxpr.in_binders, given, strict=False):
            self._learn(v, structure)
        self._unpack_arguments()
        left = [eqn for eqn in jaxpr.eqns if self._keeps(eqn)]
        for eqn in left:
            inputs, binders = self._leaves(eqn.inputs), self._leaves(eqn.out_binders)
            amend(eqn, inputs=inputs, out_binders=binders)
        ins, outs = [self.of(v) for v in jaxpr.in_binders], [self.of(x) for x in jaxpr.outs]
        amend(jaxpr, in_binders=self._leaves(ins), eqns=tuple(left), outs=self._leaves(outs))
        return ins, outs

    def of(self, x: Structure) -> Structure:
        """Return the structure of an atom, as far as it is known by now."""
        while type(x) is not tuple and x in self.found:
            x = self.found[x]
        if x is UNIT:
            return ()
        if type(x) is not tuple:
            return x
        self.faults.spend(len(x))
        return tuple([self.of(y) for y in x])

    def _leaves(self, atoms: Iterable[Structure]) -> tuple[Any, ...]:
        """Return the atoms that tuples consist of, at any depth."""
        return tuple(_leaves([self.of(x) for x in atoms]))

    def _learn(self, x: Structure, structure: Structure) -> None:
        """Give a value the structure that a jaxpr requires, made of variables of its own."""
        x = self.of(x)
        if type(x) is tuple and type(structure) is tuple:
            for a, b in zip(x, structure, strict=False):
                self._learn(a, b)
        elif type(x) is Var and type(structure) is tuple:
            self.found[x] = _fresh(structure)

    def _unpack_arguments(self) -> None:
        """Process the equations that unpack arguments first: earlier equations may have these
        arguments as operands.
        """
        known = {*self.jaxpr.in_binders}
        for eqn in self.jaxpr.eqns:
            if _is_unpacking(eqn) and eqn.inputs[0] in known:
                self._unpack(eqn)
                known.update(eqn.out_binders)

    def _keeps(self, eqn: JaxprEqn) -> bool:
        """Determine the structures of the results of an equation; return whether it computes something."""
        if _is_unpacking(eqn):
            self._unpack(eqn)
            return False
        if has_tuples(eqn):
            if eqn.primitive.name == "pack":
                self._pack(eqn)
                return False
            self._control_flow(eqn)
            return True
        for closed in inner_jaxprs(eqn):
            fits = len(closed.jaxpr.in_binders) == len(eqn.inputs)
            outs = self._inside(closed.jaxpr, eqn.inputs if fits else ())
            if len(outs) == len(eqn.out_binders):
                self._learn(eqn.out_binders, tuple(outs))
        return True

    def _pack(self, eqn: JaxprEqn) -> None:
        """Record what `c` in `c = pack a b` stands for."""
        if len(eqn.out_binders) != 1:
            message = f"pack gives one tuple, and {len(eqn.out_binders)} results are bound"
            self.faults.found.append(Diagnostic(message, "result-count", eqn.span))
            return
        self.found[eqn.out_binders[0]] = eqn.inputs

    def _unpack(self, eqn: JaxprEqn) -> None:
        """Record what `e` and `f` in `(e f) = id d` stand for, or that `d` stands for both."""
        structure, names = self.of(eqn.inputs[0]), eqn.out_binders
        if type(structure) is Var:
            self.found[structure] = names
            return
        if type(structure) is not tuple or len(structure) != len(names):
            size = len(structure) if type(structure) is tuple else 1
            message = f"a tuple of {counted(size, 'element')} is taken apart into {len(names)}"
            self.faults.found.append(Diagnostic(message, "result-count", eqn.span))
            return
        for v, s in zip(names, structure, strict=True):
            if v is not s:
                self.found[v] = s
            if type(s) is Var and not s.name:  # made by `_fresh`: now it has a place in the text
                amend(s, name=v.name, place=v.place)

    def _inside(self, jaxpr: Jaxpr, operands: Sequence[Structure]) -> list[Structure]:
        """Remove the tuples from a jaxpr that is called with these operands; return the structures of its results."""
        ins, outs = _Body(jaxpr, self.faults).take_apart([self.of(x) for x in operands])
        self._learn(tuple(operands), tuple(ins))
        return outs

    def _with_constants(
        self, closed: ClosedJaxpr, constants: Structure, operand: Structure
    ) -> tuple[ClosedJaxpr, Structure]:
        """Return a jaxpr without tuples, with its constants as its first arguments, and the
        structure of its result.
        """
        jaxpr = closed.jaxpr.replace(in_binders=closed.jaxpr.all_binders, const_binders=())
        outs = self._inside(jaxpr, [*_elements(self.of(constants)), operand])
        return ClosedJaxpr(jaxpr), outs[0] if len(outs) == 1 else tuple(outs)

    def _control_flow(self, eqn: JaxprEqn) -> None:
        """Convert a loop or a branch."""
        inputs, loop = eqn.inputs, eqn.primitive.name == "while"
        jaxprs = ("body_jaxpr", "cond_jaxpr") if loop else ("true_jaxpr", "false_jaxpr")
        lacking = [k for k in jaxprs if not isinstance(eqn.params.get(k), ClosedJaxpr)]
        constants = inputs[1:] if loop else inputs[2::2]
        order = jaxprs[::-1] if loop else jaxprs
        if lacking:
            what, code = f"has no jaxpr {lacking[0]}", "missing-param"
        elif len(inputs) not in ((1, 3) if loop else (5,)) or len(eqn.out_binders) != 1:
            what, code = f"has another number of operands than {3 if loop else 5}", "operand-count"
        elif not all(
            self._are_constants(x, eqn.params[k]) for x, k in zip(constants, order, strict=True)
        ):
            what, code = "takes constants that are no tuple", "operand-types"
        else:
            (self._loop if loop else self._branches)(eqn, *inputs)
            return
        message = f"{eqn.primitive}, as the first releases write it, {what}"
        self.faults.found.append(Diagnostic(message, code, eqn.span))

    def _are_constants(self, x: Any, closed: ClosedJaxpr) -> bool:
        """Whether an operand is the tuple of a jaxpr's constants.

        A constant or an argument of unknown structure is the empty tuple where the jaxpr has no
        constants.
        """
        none = not closed.jaxpr.const_binders and x in self.jaxpr.all_binders
        if none and type(self.of(x)) is not tuple:
            self.found[x] = ()
        return type(self.of(x)) is tuple

    def _loop(
        self, eqn: JaxprEqn, init: Any, cond_consts: Any = UNIT, body_consts: Any = UNIT
    ) -> None:
        """Convert `while[cond_jaxpr body_jaxpr] init cond_consts body_consts`: the constants come first now."""
        body, _ = self._with_constants(eqn.params["body_jaxpr"], body_consts, init)
        cond, _ = self._with_constants(eqn.params["cond_jaxpr"], cond_consts, init)
        params = {
            "cond_jaxpr": cond,
            "body_jaxpr": body,
            "cond_nconsts": len(self._leaves([cond_consts])),
            "body_nconsts": len(self._leaves([body_consts])),
        }
        self._learn(eqn.out_binders[0], self.of(init))
        _become(eqn, (cond_consts, body_consts, init), params)

    def _branches(
        self, eqn: JaxprEqn, predicate: Any, x: Any, x_consts: Any, y: Any, y_consts: Any
    ) -> None:
        """Convert `cond[true_jaxpr false_jaxpr] p x constants_of_true y constants_of_false`: both
        branches take all operands now.
        """
        true, out = self._with_constants(eqn.params["true_jaxpr"], x_consts, x)
        false, _ = self._with_constants(eqn.params["false_jaxpr"], y_consts, y)
        operands = [predicate, *self._leaves([x_consts, x, y_consts, y])]
        self._learn(eqn.out_binders[0], out)
        try:
            params, inputs = branches({"true_jaxpr": true, "false_jaxpr": false}, operands)
        except ValueError:  # the operands differ: the checker reports that for the branches
            params, inputs = {"branches": (false, true)}, operands
        _become(eqn, inputs, params)


def _become(eqn: JaxprEqn, inputs: Sequence[Any], params: dict[str, Any]) -> None:
    """Give an equation other operands and params, in place."""
    params = {**eqn.primitive.defaults, **params}
    amend(eqn, inputs=tuple(inputs), params=Params(params))


def _is_unpacking(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "id" and not eqn.primitive.known and len(eqn.inputs) == 1


def _leaves(structures: Iterable[Structure]) -> Iterator[Any]:
    for structure in structures:
        if type(structure) is tuple:
            yield from _leaves(structure)
        else:
            yield structure


def _elements(structure: Structure) -> tuple[Structure, ...]:
    """Return the elements of a tuple; () for an atom."""
    return structure if isinstance(structure, tuple) else ()


def _fresh(structure: Structure) -> Structure:
    """Return a nested tuple of new variables with the given structure."""
    items = _elements(structure)
    return tuple([_fresh(s) if type(s) is tuple else Var(UNTYPED) for s in items])
