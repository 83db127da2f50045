"""Search in sorted arrays, and for elements that are not zero."""

from jaxprtool.core.kinds.numbers import Axes, Axis, Size
from jaxprtool.core.primitive import dtype_of_result, param, primitive
from jaxprtool.ir.dtypes import INT32, DType

__all__ = ["nonzero", "search_sorted"]


@primitive(name="SearchSorted")
def search_sorted(
    sorted_arr,
    query,
    *,
    side: str = param("left", hidden="never", first=True),
    dimension: Axis = param(0, hidden="never", first=True),
    batch_dims: int = param(0, hidden="never", first=True),
    method: str = param("scan", hidden="never", first=True),
    out_dtype: DType = param(INT32, hidden="implied", recover=dtype_of_result),
):
    """For each q of query, the number of elements of sorted_arr along an axis that are less than q.

    The first batch_dims axes of both operands are batch axes. The axes of the result are these, the
    other axes of sorted_arr except the searched one, and the other axes of query.
    The order is -inf < ... < -0 = 0 < ... < inf < NaN.

    side: `left`, or `right` to also count the elements that are equal to q.
    dimension: the axis of sorted_arr along which the elements ascend.
    batch_dims: the number of batch axes.
    method: JAX's algorithm: `scan`, `scan_unrolled`, `compare_all` or `sort`; no effect here.
    out_dtype: the element type of the result.
    """


@primitive(name="Nonzero", multiple_results=True)
def nonzero(
    a,
    *fill_value,
    size: Size = param(first=True),
    axes: Axes = param(first=True),
    out_dtype: DType = param(INT32, hidden="never", first=True),
):
    """The positions of the elements that are not zero: for each of some axes, the indices along it.

    The positions are in row-major order; there are `size` of them. If there are fewer elements that
    are not zero, the rest is fill_value, one number for each axis, or 0 without that operand. The
    axes that are not searched are batch axes and come first in the results.

    size: the number of positions.
    axes: the axes that are searched.
    out_dtype: the element type of the results.
    """
