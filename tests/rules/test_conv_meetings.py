"""How many elements of a kernel meet elements of an operand: counted by hand, and quickly whatever the dilations."""

from __future__ import annotations

import random
import time

import pytest

import jaxprtool as jt
from jaxprtool.rules.convolution.conv_general_dilated import _meetings


def by_hand(n, k, outs, stride, padding, dilation, kernel_dilation):
    places = [o * stride - padding[0] + j * kernel_dilation for o in range(outs) for j in range(k)]
    return sum(p % dilation == 0 and 0 <= p // dilation < n for p in places)


def test_meetings():
    rng = random.Random(0)
    for _ in range(3000):
        n, k, outs = (rng.randint(1, 9) for _ in range(3))
        stride, dilation, kernel_dilation = (rng.randint(1, 7) for _ in range(3))
        case = n, k, outs, stride, (rng.randint(-4, 9), 0), dilation, kernel_dilation
        assert _meetings(*case) == by_hand(*case), case


@pytest.mark.parametrize("which", range(7))
def test_no_size_takes_long(which):
    case = [9, 3, 5, 2, (1, 0), 3, 2]
    case[which] = (1 << 40, 0) if which == 4 else (1 << 40) + 1
    began = time.process_time()
    _meetings(*case)
    assert time.process_time() - began < 1


def test_too_many_to_count():
    with pytest.raises(jt.UnsupportedError, match="too large to be counted"):
        _meetings(1 << 40, 1 << 30, 1 << 31, 1, (0, 0), 1, 1)
