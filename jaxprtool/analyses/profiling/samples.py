"""Samples of times: medians and ratios with confidence intervals that assume no distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median
from typing import NamedTuple

__all__ = ["LEVEL", "Estimate", "median_of", "ratio_of"]

LEVEL = 0.95


class Estimate(NamedTuple):
    """A number that was estimated from samples.

    Attributes:
      value: the estimate.
      low, high: its confidence interval.
      confidence: of the interval: 0.95, or less where there are too few samples.
    """

    value: float
    low: float
    high: float
    confidence: float


def median_of(samples: Sequence[float]) -> Estimate:
    """The median, with the interval between two samples that holds it with a probability of 0.95 at least.

    The number of samples below the median has a binomial distribution, whatever theirs is: W. J. Conover, Practical
    Nonparametric Statistics, 3rd edition (1999), section 3.2. Of fewer than six samples it is the one between the least and the
    largest, with the probability that it has.
    """
    ordered = sorted(samples)
    n = len(ordered)
    below, outside, best = 0, 2.0**-n, 0
    while True:  # `outside`: that at most `best` samples are below the median
        below += 1
        more = outside + math.comb(n, below) * 2.0**-n
        if 2 * more > 1 - LEVEL or 2 * below >= n - 1:
            break
        best, outside = below, more
    return Estimate(
        median(ordered), ordered[best], ordered[n - 1 - best], max(1 - 2 * outside, 0.0)
    )


def ratio_of(new: Sequence[float], old: Sequence[float]) -> Estimate:
    """How many times as large samples are as others: the median of all ratios of one to another, with an interval.

    This is the estimate of Hodges and Lehmann for the logarithms, with the interval that belongs to the test of Mann and
    Whitney, by the normal approximation: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition
    (2014), sections 4.2 and 4.3. Where there are too few samples for it the interval has all ratios, and a lower confidence.
    """
    ratios = sorted(x / y for x in new for y in old)
    m, n = len(new), len(old)
    deviation = math.sqrt(m * n * (m + n + 1) / 12)
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    left = math.floor(m * n / 2 - z * deviation)
    confidence = LEVEL if left >= 1 else max(1 - 2 / math.comb(m + n, n), 0.0)
    left = max(left, 1)
    return Estimate(median(ratios), ratios[left - 1], ratios[m * n - left], min(confidence, LEVEL))
