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
      low: the lower end of its confidence interval.
      high: the upper end of its confidence interval.
      confidence: the confidence of the interval: 0.95, or less where there are too few samples.
    """

    value: float
    low: float
    high: float
    confidence: float


def median_of(samples: Sequence[float]) -> Estimate:
    """Estimate the median, with an interval between two samples that holds it with a probability of at least 0.95.

    The number of samples below the median has a binomial distribution, whatever theirs is: W. J.
    Conover, Practical Nonparametric Statistics, 3rd edition (1999), section 3.2. For fewer than six
    samples the interval lies between the least and the largest, with the lower probability that it
    has.
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
    """Estimate how many times as large as others samples are: the median of all ratios, with an interval.

    This is the estimate of Hodges and Lehmann for the logarithms, with the interval that belongs to
    the test of Mann and Whitney, by the normal approximation: M. Hollander, D. A. Wolfe and E.
    Chicken, Nonparametric Statistical Methods, 3rd edition (2014), sections 4.2 and 4.3. Where
    there are too few samples for it the interval has all ratios, and a lower confidence.
    """
    ratios = sorted(x / y for x in new for y in old)
    m, n = len(new), len(old)
    deviation = math.sqrt(m * n * (m + n + 1) / 12)
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    left = math.floor(m * n / 2 - z * deviation)
    confidence = LEVEL if left >= 1 else max(1 - 2 / math.comb(m + n, n), 0.0)
    left = max(left, 1)
    return Estimate(median(ratios), ratios[left - 1], ratios[m * n - left], min(confidence, LEVEL))
