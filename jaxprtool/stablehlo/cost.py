"""Count the arithmetic of StableHLO operations as XLA's `HloCostAnalysis` does before it optimises.

XLA counts one flop, or one transcendental, for each element of the result of an elementwise
operation, whatever the operation and the element type. When it reads a module it replaces
operations that it does not have (most of CHLO, and functions of complex numbers) by others;
`_EXPANDED` gives their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue

__all__ = ["Arithmetic", "operation_cost"]


class Arithmetic(NamedTuple):
    """Numbers of operations on elements: cheap ones (flops), and transcendental functions."""

    flops: int
    transcendentals: int


_FUNCTIONS = """
    atan2 cbrt chlo.atan chlo.erf chlo.tan cosine exponential exponential_minus_one log log_plus_one logistic power
    rsqrt sine sqrt tan tanh
"""

_MOVING = """
    all_gather all_to_all broadcast_in_dim chlo.top_k collective_permute composite concatenate constant create_token
    custom_call dynamic_slice dynamic_update_slice gather iota optimization_barrier pad partition_id reshape reverse
    slice transpose
"""

# The cost of these depends on more than the types, so the lower rule counts it.
_PRODUCTS = frozenset({"convolution", "dot_general", "fft"})

_MOVES, _TRANSCENDENTAL = frozenset(_MOVING.split()), frozenset(_FUNCTIONS.split())

# For one element of an f64, f32, shorter float and complex: flops and transcendentals. None: as a plain operation.
_Counts = tuple[int, int] | None
_EXPANDED: dict[str, tuple[_Counts, _Counts, _Counts, _Counts]] = {
    "exponential": (None, None, None, (15, 4)),
    "log": (None, None, None, (62, 4)),
    "log_plus_one": (None, None, None, (79, 5)),
    "sqrt": (None, None, None, (86, 7)),
    "chlo.acos": ((3, 2), (3, 2), (3, 2), (105, 9)),
    "chlo.acosh": ((7, 4), (7, 4), (7, 4), (105, 9)),
    "chlo.asin": ((5, 2), (5, 2), (5, 2), (105, 9)),
    "chlo.asinh": ((11, 3), (11, 3), (11, 3), (104, 9)),
    "chlo.atan": (None, None, None, (47, 2)),
    "chlo.atanh": ((6, 2), (6, 2), (6, 2), (45, 2)),
    "chlo.bessel_i1e": ((173, 1), (83, 1), (85, 1), None),
    "chlo.conj": ((0, 0), (0, 0), (0, 0), (4, 0)),
    "chlo.cosh": ((3, 2), (3, 2), (5, 2), (95, 12)),
    "chlo.digamma": ((73, 3), (73, 3), (75, 3), None),
    "chlo.erf_inv": ((100, 2), (37, 2), (39, 2), None),
    "chlo.erfc": ((90, 1), (62, 1), (64, 1), None),
    "chlo.lgamma": ((53, 4), (53, 4), (55, 4), None),
    "chlo.next_after": ((24, 0), (24, 0), (24, 0), None),
    "chlo.polygamma": ((260, 19), (260, 19), (263, 19), None),
    "chlo.sinh": ((10, 3), (10, 3), (12, 3), (95, 12)),
    "chlo.square": ((1, 0), (1, 0), (1, 0), (14, 0)),
    "chlo.zeta": ((121, 11), (121, 11), (124, 11), None),
}


def operation_cost(
    name: str,
    operands: Sequence[Value],
    results: Sequence[Value],
    bodies: Sequence[Arithmetic] = (),
    **attrs: ParamValue,
) -> Arithmetic:
    """Return the arithmetic of one operation; zero for convolutions, matrix products and Fourier transforms.

    Args:
      name: `sine` for stablehlo.sine; names of CHLO are given in full.
      operands, results: types.
      bodies: the arithmetic of one run of each of its regions.
      attrs: its attributes.

    Raises:
      UnsupportedError: the number of times it runs its regions is not known, as for a loop.
    """
    if name in _MOVES or name in _PRODUCTS:
        return Arithmetic(0, 0)
    if name in _WITH_BODIES:
        times = _WITH_BODIES[name](operands, results, attrs)
        flops = sum(n * b.flops for n, b in zip(times, bodies, strict=True))
        return Arithmetic(
            flops, sum(n * b.transcendentals for n, b in zip(times, bodies, strict=True))
        )
    if bodies:
        message = f"how often stablehlo.{name} runs its regions is not known"
        help = "the row of the primitive needs a cost rule that counts them"
        fail(UnsupportedError, message, "no-cost", help=help)
    n = _size(results[0])
    if name in ("rng", "rng_bit_generator"):  # XLA calls them transcendental
        return Arithmetic(0, sum(map(_size, results)))
    if name in _EXPANDED:
        counts = _EXPANDED[name][_width(operands[0].dtype)]
        if counts is not None:
            return Arithmetic(counts[0] * n, counts[1] * n)
    return Arithmetic(0, n) if name in _TRANSCENDENTAL else Arithmetic(n, 0)


def _size(aval: Aval) -> int:
    return max(aval.size, 0)


def _width(dtype: DType) -> int:
    """Return the column of `_EXPANDED` for an element type."""
    if dtype.kind == "c":
        return 3
    return 0 if dtype.bits == 64 else 1 if dtype.bits == 32 else 2


def _inner_steps(attrs: dict[str, Any]) -> int:
    """Return the number of pairwise combinations that reduce a window."""
    return math.prod(attrs["window_dimensions"]) - 1


# How often each region of an operation runs.
_WITH_BODIES: dict[str, Any] = {
    "all_reduce": lambda ins, outs, attrs: [_size(outs[0])],
    "reduce": lambda ins, outs, attrs: [max(_size(ins[0]) - _size(outs[0]), 0)],
    "reduce_scatter": lambda ins, outs, attrs: [_size(ins[0]) - _size(outs[0])],
    "reduce_window": lambda ins, outs, attrs: [_size(outs[0]) * _inner_steps(attrs)],
    "scatter": lambda ins, outs, attrs: [_size(ins[len(ins) // 2 + 1])],
    "select_and_scatter": lambda ins, outs, attrs: [
        _size(ins[1]) * _inner_steps(attrs),
        _size(ins[1]),
    ],
}
