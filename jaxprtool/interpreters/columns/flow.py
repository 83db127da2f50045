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

# Where the elements of the results come from.
# "computed": they are new numbers.
# "kept": they are the operand's elements in order (repeated by a broadcast); result k has those of operand k.
# "permuted": they are the first operand's elements in another order.
# "chosen": they are elements of the first operand chosen by other operands and params, or a fill value for indices out of bounds.
# "converted": they are the first operand's elements in order, each rounded or converted.
# "placed": they are elements of several operands, placed by params and by operands of integers or booleans.
# "ordered": result k has the elements of operand k, all reordered by the first ones; further operands would be reordered likewise.
elements_facts = FactTable(
    "elements", "computed", "kept", "permuted", "chosen", "converted", "placed", "ordered"
)

# Which of NaN and infinity an operand may have while all results are finite. (Infinities that turn into NaN are not dropped.)
mask_facts = FactTable("masks", "nothing", "nan", "inf", "both")

# Which operands of an operation only decide something: none, all (a comparison: its result is a decision), the one at a position
# (an index), the operands that are indices (`Primitive.index_from`), the first `num_keys` ones, or the results of `cond_jaxpr`.
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
