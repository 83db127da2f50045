"""Find where a function has derivatives along all directions that are not linear in the direction.

The middle one of three equal numbers changes with none of them alone, neither upwards nor
downwards, and does where all change: along a single line nothing of that shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.interpreters.evaluate import numpy_namespace

__all__ = ["bends_of"]

_PAIRS = 8  # of random directions; in a single pair the same element may be the middle one as in their sum
_BENT = 0.01  # by how much a sum has to be off, relative to its parts


def bends_of(
    estimate: Callable[[list[Any]], Sequence[Any]], direction: Callable[[int], list[Any]]
) -> list[Any]:
    """Return how large derivatives along random directions are at the elements of results where they are not linear.

    Args:
      estimate: direction -> for each result its derivative along that by differences, and how well
        they know it.
      direction: k -> the k-th random direction, an array for each argument.

    Returns:
      For each result f64 of its shape: 0 where the derivatives add up, or are not known well.
    """
    xp, sizes = numpy_namespace(), list[Any]()
    for pair in range(_PAIRS):
        one, other = direction(2 * pair), direction(2 * pair + 1)
        both = [a + b for a, b in zip(one, other, strict=True)]
        parts = [estimate(tangents) for tangents in (one, other, both)]
        for k, (a, b, c) in enumerate(zip(*parts, strict=True)):
            size = abs(a.value) + abs(b.value) + abs(c.value)
            room = 3 * (a.error + b.error + c.error) + _BENT * size
            bent = abs(c.value - a.value - b.value) > room  # false where one is NaN
            if len(sizes) == k:
                sizes.append(xp.zeros(size.shape))
            sizes[k] = xp.maximum(sizes[k], xp.where(bent, size, 0.0))
    return sizes
