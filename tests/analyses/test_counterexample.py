"""Counterexamples of `equiv` get as simple as they can in few trials."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jaxprtool.analyses.identity import counterexample
from jaxprtool.analyses.identity.counterexample import shrunk

SHAPES = st.lists(st.sampled_from([(), (0,), (1,), (3,), (2, 5), (40,)]), min_size=1, max_size=60)


def simpler(element):
    return [x for x in (0, 1, 2) if x < element]


@given(SHAPES, st.randoms(use_true_random=False))
def test_of_all_elements_only_those_that_matter_are_left(shapes, random):
    args = [np.full(shape, 7, np.float32) for shape in shapes]
    places = [(i, k) for i, x in enumerate(args) for k in range(x.size)]
    needed = random.sample(places, min(len(places), random.randint(0, 3)))
    trials = 0

    def differs(args):
        nonlocal trials
        trials += 1
        return all(args[i].reshape(-1)[k] for i, k in needed)

    small = shrunk(args, differs, simpler)
    assert [x.shape for x in small] == shapes
    left = {(i, k): small[i].reshape(-1)[k] for i, k in places if small[i].reshape(-1)[k]}
    assert left == dict.fromkeys(needed, 1)
    assert trials <= 2 + len(needed) * (3 * math.log2(len(places) + 1) + 3)


def test_what_is_no_number_stays_and_trials_end(monkeypatch):
    monkeypatch.setattr(counterexample, "_TRIALS", 10)
    key = np.zeros(2, [("key<fry>", "u4", 2)])
    trials = []

    def differs(args):
        trials.append(args)
        return False

    small = shrunk([key, np.ones(1000)], differs, simpler)
    assert small[0] is key and small[1].all()
    assert len(trials) == 10
