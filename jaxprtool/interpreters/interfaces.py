"""Interfaces of transformed programs: the names and pytrees of arguments, tangents, cotangents and residuals.

The tangent of an argument has its tree and its name with `d_` in front. Cotangents of results are called `ct`, and residuals
`residuals`. Leaves without a tangent or cotangent (integers) are None in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jaxprtool.ir.interface import LEAF, Interface, Part, Tree, tuple_of
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = [
    "by_parts",
    "of_discharge",
    "of_grad",
    "of_jvp",
    "of_linearize",
    "of_open",
    "of_partial_eval",
    "of_transpose",
    "of_vjp",
    "with_interface",
]

Args = Sequence[tuple[str, Tree]]


def with_interface(program: ClosedJaxpr, interface: Interface | None) -> ClosedJaxpr:
    """Return the program with an interface; the same object for None, and for an interface that does not fit it."""
    if interface is None or not interface.fits(len(program.in_avals), len(program.jaxpr.outs)):
        return program
    return program.replace(interface=interface)


def of_open(program: ClosedJaxpr) -> Interface | None:
    """Return the interface of the values that a caller gives: constants without a value, by name,
    then the arguments.
    """
    of = program.interface
    if of is None:
        return None
    binders = program.jaxpr.const_binders
    pairs = zip(binders, program.consts or [None] * len(binders), strict=True)
    missing = [(v.name or f"const{i}", LEAF) for i, (v, c) in enumerate(pairs) if c is None]
    joined = _joined(of.args, missing)
    return of._replace(args=joined[len(of.args) :] + joined[: len(of.args)])


def one_or_tuple(trees: Iterable[Tree]) -> Tree:
    """Return the only tree, or the tuple of several."""
    found = [*trees]
    return found[0] if len(found) == 1 else tuple_of(found)


def _kept(interface: Interface, kept: Sequence[bool]) -> Args:
    """Return the arguments with only the kept leaves; arguments of which no leaf is kept are left out."""
    return [(name, tree) for name, tree in interface.of_leaves(kept).args if tree.size]


def _joined(*groups: Args) -> tuple[tuple[str, Tree], ...]:
    """Join several lists of arguments. A name that occurs again gets a number: `x`, `x_2`."""
    found: dict[str, Tree] = {}
    for name, tree in (arg for group in groups for arg in group):
        unique, n = name, 1
        while unique in found:
            n += 1
            unique = f"{name}_{n}"
        found[unique] = tree
    return (*found.items(),)


def _tangents(args: Args) -> Args:
    return [(f"d_{name}", tree) for name, tree in args]


def _residuals(n: int) -> Tree:
    return tuple_of([LEAF] * n)


def of_jvp(of: Interface, tangents: Sequence[bool], tangents_out: Sequence[bool]) -> Interface:
    """(a, tangents of a) -> (b, tangents of b)."""
    args = _joined(of.args, _tangents(_kept(of, tangents)))
    return Interface(args, tuple_of([of.result, of.result.pruned(tangents_out)]))


def of_linearize(
    of: Interface, tangents: Sequence[bool], tangents_out: Sequence[bool], n_res: int
) -> tuple[Interface, Interface]:
    """(a) -> (b, residuals) and (residuals, tangents of a) -> (tangents of b)."""
    residuals = _residuals(n_res)
    primal = Interface(of.args, tuple_of([of.result, residuals]))
    args = _joined([("residuals", residuals)], _tangents(_kept(of, tangents)))
    return primal, Interface(args, of.result.pruned(tangents_out))


def cotangents_by(of: Interface, wrt: Sequence[bool]) -> Tree:
    """Return the tree of the cotangents of some leaves: that of the only argument with any, or a
    tuple of those of several.
    """
    return one_or_tuple([tree for _, tree in _kept(of, wrt)])


def of_vjp(
    of: Interface, wrt: Sequence[bool], inexact_out: Sequence[bool], *, keep_outs: bool
) -> Interface:
    """(a, cotangents of b) -> (b, cotangents of a)."""
    given = of.result.pruned(inexact_out)
    by = cotangents_by(of, wrt)
    args = _joined(of.args, [("ct", given)] if given.size else [])
    return Interface(args, tuple_of([of.result, by]) if keep_outs else by)


def of_grad(of: Interface, n_wrt: int, *, with_value: bool) -> Interface:
    """(a) -> (the gradient by each of some leaves), after the value if that is a result too."""
    by = one_or_tuple([LEAF] * n_wrt)
    return Interface(of.args, tuple_of([of.result, by]) if with_value else by)


def by_parts(made: ClosedJaxpr, parts: Sequence[Part], *, after_outs: bool) -> ClosedJaxpr:
    """Return a program of cotangents whose result has the trees of the arguments' parts that were differentiated by.

    Args:
      made: its interface has the cotangents leaf by leaf.
      parts: the parts, in the order of the results; one part gives its tree, several give a tuple.
      after_outs: whether the result is a pair, whose first part is the result of the differentiated
        program.
    """
    interface = made.interface
    if interface is None:
        return made
    by = one_or_tuple([part.tree for part in parts])
    result = tuple_of([interface.result.children[0], by]) if after_outs else by
    return with_interface(made, interface._replace(result=result))


def of_transpose(
    of: Interface, linear: Sequence[bool], cts: Sequence[bool], cts_out: Sequence[bool]
) -> Interface:
    """(a, cotangent of c) -> (cotangent of b)."""
    given = of.result.pruned(cts)
    args = _joined(_kept(of, [not x for x in linear]), [("ct", given)] if given.size else [])
    wanted = iter(cts_out)
    return Interface(args, cotangents_by(of, [x and next(wanted) for x in linear]))


def of_partial_eval(
    of: Interface, unknown: Sequence[bool], unknown_out: Sequence[bool], n_res: int
) -> tuple[Interface, Interface]:
    """a1 -> (b1, residuals) and (residuals, a2) -> b2."""
    residuals = _residuals(n_res)
    known_result = of.result.pruned([not x for x in unknown_out])
    first = Interface(
        tuple(_kept(of, [not x for x in unknown])), tuple_of([known_result, residuals])
    )
    args = _joined([("residuals", residuals)], _kept(of, unknown))
    return first, Interface(args, of.result.pruned(unknown_out))


def of_discharge(of: Interface, is_ref: Sequence[bool]) -> Interface:
    """(a) -> (b, the contents of the cells of a)."""
    cells = [tree for _, tree in _kept(of, is_ref)]
    return Interface(of.args, tuple_of([of.result, one_or_tuple(cells)]) if cells else of.result)
