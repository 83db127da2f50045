"""A test of whether some samples are larger than others."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

__all__ = ["p_greater"]


def p_greater(samples: Sequence[float], others: Sequence[float]) -> float:
    """Return the probability that samples are so much larger than others, if both are from one distribution.

    The one-sided test of Mann and Whitney (H. B. Mann and D. R. Whitney, Annals of Mathematical
    Statistics 18, 1947): exact for few samples without ties.
    """
    return float(stats.mannwhitneyu(samples, others, alternative="greater").pvalue)
