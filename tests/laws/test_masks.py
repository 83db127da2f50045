"""Which primitives can drop a NaN or an infinity: what the rows say, against values."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.driver.run import run
from jaxprtool.interpreters.columns.flow import mask_facts
from tests.laws.oracle import EXAMPLES, by_primitive, by_structure, inputs, ours, out_avals
from tests.rules.example import Example

GROUPS = {p.name: es for p, es in by_primitive(by_structure(EXAMPLES, narrow=True)).items()}
VALUES = {"nan": (np.nan,), "inf": (np.inf, -np.inf)}
MOST = 12  # examples of a primitive


def finite(x: Any) -> Any:
    """An array with ones in the place of what is not finite, which would be another bad value."""
    x = np.asarray(x)
    return np.where(np.isfinite(x), x, x.dtype.type(1))


def planted(example: Example, kind: str) -> Iterator[list[Any]]:
    """Operands with a bad value in one place, the first or the last, or in all places of an operand.

    The others are those of the example, or zeros or ones.
    """
    floats = [i for i, a in enumerate(example.args) if a.aval.dtype.kind == "f" and a.aval.size]
    plain = [finite(x) if i in floats else x for i, x in enumerate(inputs(example))]
    for others in (None, 0, 1):
        args = [
            np.full_like(x, others) if others is not None and i in floats else x
            for i, x in enumerate(plain)
        ]
        for i in floats:
            for bad in VALUES[kind]:
                for where in (slice(None), slice(0, 1), slice(-1, None)):
                    x = np.array(args[i])
                    x.reshape(-1)[where] = bad
                    yield [*args[:i], x, *args[i + 1 :]]


def is_empty(example: Example) -> bool:
    """Whether a result has no elements, bad ones or others."""
    return any(getattr(a, "size", 1) == 0 for a in out_avals(example))


@functools.cache
def can_mask(name: str, kind: str) -> bool:
    """Whether a bad operand of a primitive has left all its results finite, in one of its examples."""
    for example in [e for e in GROUPS[name] if not is_empty(e)][:MOST]:
        program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
        for args in planted(example, kind):
            flow = Flow(Sought())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(program, args, observer=flow)
            masks = [e for c in flow.root.context().all_inside() for e in c.masks]
            if any(e.primitive is example.primitive for e in masks):
                return True
    return False


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_what_masks_says_so_and_what_does_not_says_that(name):
    primitive = GROUPS[name][0].primitive
    found = can_mask(name, "nan"), can_mask(name, "inf")
    expected = {
        "nothing": (False, False),
        "nan": (True, False),
        "inf": (False, True),
        "both": (True, True),
    }
    assert expected[mask_facts[primitive]] == found
