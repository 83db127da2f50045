"""Sorting, and the largest elements."""

from jaxprtool.core.kinds.numbers import Axis
from jaxprtool.core.primitive import primitive, shown

__all__ = ["approx_top_k", "sort", "top_k"]


@primitive(multiple_results=True)
def sort(*operands, dimension: Axis, is_stable: bool = shown(True), num_keys: int = shown(1)):
    """The operands rearranged along an axis so that the first ones ascend.

    -inf < ... < -0 = 0 < ... < inf < NaN; complex numbers compare by real, then by imaginary part.

    dimension: the axis.
    is_stable: whether elements with equal keys keep their order.
    num_keys: how many operands are compared, the first one first.
    """


@primitive(multiple_results=True)
def top_k(operand, *, k: int, axis: Axis, is_stable: bool = shown(True)):
    """The k largest elements along an axis, in descending order, and their positions (i32).

    Of equal elements the first counts. -NaN < -inf < ... < -0 < 0 < ... < inf < NaN.

    k: how many.
    axis: the axis.
    is_stable: whether of equal elements the first has to count; it does here in any case.
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
    """k elements along an axis that probably are the largest or smallest, in order, and their positions (i32).

    On CPUs they are exact.

    k: how many.
    reduction_dimension: the axis; negative ones count from the end.
    recall_target: the expected share of true results.
    is_max_k: whether the largest are meant.
    reduction_input_size_override: the size that `recall_target` is about, where operand is a part of the whole; or -1.
    aggregate_to_topk: whether to reduce the candidates to k.
    """
