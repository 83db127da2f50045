"""Searching a sorted array."""

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
    """For each query where it belongs in sorted_arr along an axis: how many elements stand before it.

    The first axes of both are batch axes; the result has them, then the other ones of sorted_arr, then those of query.
    -inf < ... < -0 = 0 < ... < inf < NaN.

    side: of equal elements, whether it belongs before (`left`) or after them (`right`).
    dimension: the axis of sorted_arr along which the elements ascend.
    batch_dims: how many batch axes there are.
    method: how JAX looks: `scan`, `scan_unrolled`, `compare_all` or `sort`.
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
    """For each of some axes the indices along it of the first elements that are not zero, in row-major order.

    The other axes are batch axes, and the first ones of the results.

    size: how many elements there are in the results.
    axes: the axes.
    out_dtype: the element type of the results.
    fill_value: for each axis what stands where there are no more such elements, else 0.
    """
