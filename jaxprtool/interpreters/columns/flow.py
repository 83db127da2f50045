"""Facts on how values flow through an operation.

Three columns: `elements` says which elements of the operands the results consist of, `masks`
whether a NaN or an infinity may be dropped, and `steers` which operands only decide something.
"""

from __future__ import annotations

from collections.abc import Container

from jaxprtool.core.rule_table import FactTable
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Atom, JaxprEqn

__all__ = ["elements_facts", "goes_into_good_results", "mask_facts", "passed_on", "steering_facts"]

# What the elements of the results are. "computed": numbers of their own. "kept": those of the operand, in their order (repeated,
# where it broadcasts); of an operation with several results, each those of the operand in its place. "permuted": those of the
# first operand in another order. "chosen": some of those of the first operand, which other operands and params say (and a fill value for indices out of bounds).
# "converted": those of the first operand in their order, each rounded or converted. "placed": some of those of several operands, whose
# places params and operands of integers or booleans say. "ordered": of each result those of the operand in its place, as the first
# ones are ordered; further operands would be ordered in the same way.
elements_facts = FactTable(
    "elements", "computed", "kept", "permuted", "chosen", "converted", "placed", "ordered"
)

# Which of NaN and infinity an operand may have while all results are finite. (Infinities that turn into NaN are not dropped.)
mask_facts = FactTable("masks", "nothing", "nan", "inf", "both")

# What of an operation decides something: none of its operands, all (a comparison: the result is a decision), the one at a
# position (an index), the operands that are indices (`Primitive.index_from`), as many of the first ones as the param `num_keys`
# says, or what the jaxpr `cond_jaxpr` returns.
steering_facts = FactTable(
    "steers", "nothing", "all", "operand 0", "operand 1", "indices", "num_keys", "cond_jaxpr"
)


def passed_on(eqn: JaxprEqn, k: int, elements: Container[str]) -> Atom | None:
    """Return the operand whose elements result k of an equation consists of.

    None where the fact in the column `elements` is not one of `elements`.
    """
    found = elements_facts[eqn.primitive]
    if found not in elements:
        return None
    return eqn.inputs[k if found == "kept" else 0]


def goes_into_good_results(eqn: JaxprEqn) -> bool:
    """Whether a finite element of a result may be computed from a NaN or an infinity, as in `nan >
    0` and `pow(nan, 0)`.

    False where nothing masks bad values: what is computed from one is bad. False too for operations
    that pick elements of their operands, by other operands or params, since they do not use the
    elements they leave out. Conversions mask where their result is of integers.
    """
    primitive, elements = eqn.primitive, elements_facts[eqn.primitive]
    if mask_facts[primitive] == "nothing" or elements in _PICKED:
        return False
    if elements == "converted":
        return not all(getattr(v.aval, "dtype", INT32).is_inexact for v in eqn.out_binders)
    return steering_facts[primitive] not in _PICKING


_PICKED = ("kept", "permuted", "chosen", "placed")
_PICKING = ("operand 0", "operand 1", "indices")
