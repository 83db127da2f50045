"""Results `_` of a jaxpr that something reads: which of its values they are (JAX 0.5.3 to 0.10.0 do not print it)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.syntax.building.drops import AmbiguousResultWarning

# Part of jnp.unique: the second result of the sort, the positions, is read, by way of the result of the inner call.
TEXT = """\
{{ lambda ; a:i32[4]. let
    b:i32[4] _:i32[4] = pjit[
      name=_unique
      jaxpr={{ lambda ; a:i32[4]. let
          _:i32[4] = pjit[
            name=lexsort
            jaxpr={{ lambda ; a:i32[4]. let
                c:i32[4] = iota[dimension=0 dtype=int32 shape=(4,) sharding=None]
                _:i32[4] _:i32[4] = sort[dimension=0 is_stable=True num_keys=1] a c
                {extra}
              in (_,) }}
          ] a
          b:i32[4] = {use}
        in (b, _) }}
    ] a
  in (b,) }}"""
A = np.array([30, 10, 40, 20], np.int32)


@pytest.mark.parametrize(
    ("extra", "use", "warned", "expected"),
    [
        ("d:i32[4] = neg c", "neg _", True, [-1, -3, 0, -2]),  # nothing tells: the last
        ("d:i32[4] = neg c", "neg a", False, -A),  # nobody reads it
        # What the body reads must be the result, or it had a name.
        ("d:i32[4] = neg _", "neg _", True, [-10, -20, -30, -40]),
    ],
)
def test_which_of_several_values_a_result_without_a_name_is(extra, use, warned, expected):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program = jt.parse(TEXT.format(extra=extra, use=use))
    assert bool(found) is warned
    assert all(x.category is AmbiguousResultWarning for x in found)
    (got,) = jt.eval_jaxpr(program.jaxpr, [A])
    np.testing.assert_array_equal(got, expected)
