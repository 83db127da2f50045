"""Sorting, and selection of the largest elements."""

from jaxprtool.core.kinds.numbers import Axis
from jaxprtool.core.primitive import primitive, shown

__all__ = ["approx_top_k", "sort", "top_k"]


@primitive(multiple_results=True)
def sort(*operands, dimension: Axis, is_stable: bool = shown(True), num_keys: int = shown(1)):
    """The operands, all permuted along an axis by the permutation that makes the keys ascend.

    The keys are the first num_keys operands, compared lexicographically. The order is
    -inf < ... < -0 = 0 < ... < inf < NaN; complex numbers are compared by their real parts, then by
    their imaginary parts.

    dimension: the axis.
    is_stable: whether elements with equal keys keep their order.
    num_keys: the number of operands that are keys.
    """


@primitive(multiple_results=True)
def top_k(operand, *, k: int, axis: Axis, is_stable: bool = shown(True)):
    """The k largest elements along an axis, in descending order, and their indices (i32).

    Equal elements come in the order of their indices. The order of elements is
    -NaN < -inf < ... < -0 < 0 < ... < inf < NaN.

    k: the number of elements.
    axis: the axis.
    is_stable: whether equal elements must come in the order of their indices; here they always do.
    """


@primitive(multiple_results=True)
def approx_top_k(
    operand,
    *,
    k: int,
    reduction_dimension: Axis,
    recall_target: float,
    is_max_k: bool,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
):
    """The k largest or smallest elements along an axis, approximately, in order, and their indices
    (i32).

    On CPUs the result is exact.

    k: the number of elements.
    reduction_dimension: the axis; negative numbers count from the end.
    recall_target: the expected share of the k true elements in the result.
    is_max_k: whether the largest elements are selected, or the smallest.
    reduction_input_size_override: the size of the whole axis if operand is a part of it; or -1.
    aggregate_to_topk: whether the candidates are reduced to k elements.
    """
