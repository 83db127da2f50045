"""Evaluation in the platform's long double, for the rules that support it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprtool.backends.limits import finfo
from jaxprtool.backends.numpy_eval import Namespace, load_namespace, np_dtype
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import COMPLEX128, FLOAT64, DType
from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = ["Extended", "check_long_double", "narrowed", "widened"]

_WIDE = {
    np.dtype(np.float64): np.dtype(np.longdouble),
    np.dtype(np.complex128): np.dtype(np.clongdouble),
}
_NARROW = {wide: narrow for narrow, wide in _WIDE.items()}
# What NumPy, SciPy and the rules raise where they have no long double.
_NO_RULE = (
    *(TypeError, ValueError, AttributeError, KeyError, NotImplementedError, IndexError),
    AssertionError,
)


def check_long_double() -> None:
    """Raise UnsupportedError where the platform's long double is no wider than f64."""
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        message = "this platform's long double is no wider than f64"
        fail(UnsupportedError, message, "no-wider-type", help="--shadow f64 is for narrower types")


def widened(x: Any) -> Any:
    """Return a value of a floating or complex type as long double; any other value as it is."""
    dtype = getattr(x, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype in _NARROW:
        return x
    if dtype.kind in "fc":
        return x.astype(np.clongdouble if dtype.kind == "c" else np.longdouble)
    return x.astype(np.longdouble) if _is_float(dtype) else x


@functools.cache
def _is_float(dtype: np.dtype) -> bool:
    try:
        finfo(dtype)
    except ValueError:
        return False
    return dtype.names is None


def narrowed(x: Any, aval: Any) -> Any:
    """Round a long double to a value of a type."""
    if getattr(x, "dtype", None) in _NARROW:
        with np.errstate(all="ignore"):
            return x.astype(np_dtype(aval.dtype))
    return x


def _dtype_of_aval(dtype: DType) -> np.dtype:
    """Return the dtype of an aval as the namespace does, but long double in the place of f64."""
    if dtype is FLOAT64 or dtype is COMPLEX128:
        return _WIDE[np_dtype(dtype)]
    return np_dtype(dtype)


class _Namespace(Namespace):
    """The namespace without LAPACK and BLAS, which would compute in f64."""

    def __getattr__(self, name: str) -> Any:
        if name in ("lapack", "blas"):
            raise AttributeError(f"{name} has no long double")
        return super().__getattr__(name)


@functools.cache
def _namespace() -> Namespace:
    """The namespace for rules that compute with long double where types say f64."""
    xp = _Namespace("jaxprtool.numpy.extended")
    xp.__dict__.update(vars(load_namespace()))
    xp.__dict__.update(
        dtype_of_aval=_dtype_of_aval,
        float64=np.longdouble,
        complex128=np.clongdouble,
        finfo_of=finfo,
    )
    return xp


class Extended:
    """The functions of equations in long double (`interpreters.evaluation.observe`): of all
    equations, or of chosen ones.

    An equation whose rule does not support long double is computed in its own types, and its
    results are widened.

    Attributes:
      programs: a cache of prepared programs.
      chosen: says of an equation whether it is computed in long double; None: all are. The operands
        of others are rounded to their types.
      narrow: the equations that were computed in their own types, although they are chosen.
    """

    def __init__(self, chosen: Callable[[JaxprEqn], bool] | None = None):
        self.programs: dict[Any, Any] = {}
        self.chosen = chosen
        self.narrow: dict[JaxprEqn, None] = {}

    def of(self, eqn: JaxprEqn) -> Callable[..., Any]:
        """Return the function of an equation."""
        if self.chosen is not None and not self.chosen(eqn):
            return self._rounded(eqn)
        once = eqn.primitive.holds_jaxprs or has_effects(eqn)
        try:
            wide = _prepared(_namespace(), eqn)
        except _NO_RULE:
            if once:
                raise
            wide = None
        several, outs = eqn.primitive.multiple_results, eqn.out_binders
        wanted = [
            i for i, v in enumerate(outs) if getattr(v.aval, "dtype", None) in (FLOAT64, COMPLEX128)
        ]
        shapes = [getattr(v.aval, "shape", None) for v in outs]
        if eqn.primitive.holds_jaxprs:
            return wide or self._in_own_types(eqn)
        own = self._in_own_types(eqn)

        def run(*ins: Any) -> Any:
            result = None
            if wide is not None:
                try:
                    result = wide(*map(widened, ins))
                except _NO_RULE:
                    if once:
                        raise
            if result is None:
                return own(*ins)
            found = result if several else (result,)
            if not once and any(
                getattr(x, "shape", s) != s for x, s in zip(found, shapes, strict=True)
            ):
                return own(*ins)  # the words of a number, of which a long double has more
            if any(found[i].dtype not in _NARROW for i in wanted):
                if not once:
                    return own(*ins)
                self.narrow[eqn] = None
                found = [*map(widened, found)]
            return found if several else found[0]

        return run

    def _in_own_types(self, eqn: JaxprEqn) -> Callable[..., Any]:
        """Return the function in the equation's own types; its results are widened."""
        f = self._rounded(eqn)

        def run(*ins: Any) -> Any:
            self.narrow[eqn] = None
            result = f(*ins)
            several = eqn.primitive.multiple_results
            return [*map(widened, result)] if several else widened(result)

        return run

    def _rounded(self, eqn: JaxprEqn) -> Callable[..., Any]:
        """Return the function in the equation's own types, for an equation that is not chosen."""
        f = _prepared(numpy_namespace(), eqn)
        avals = [x.aval for x in eqn.inputs]
        return lambda *ins: f(*map(narrowed, ins, avals))


def _prepared(xp: Any, eqn: JaxprEqn) -> Callable[..., Any]:
    avals: Sequence[Any] = [x.aval for x in eqn.inputs]
    return prepare_impl(xp, eqn.primitive, avals, [v.aval for v in eqn.out_binders], eqn.params)
