"""Constants of the body of a `shard_map` may have types that vary: their values are the same on all devices."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from tests.invoke import invoke

TEXT = """{ lambda ; a:f32[4]. let
    b:f32[4] = shard_map[
      check_vma=True
      in_specs=(P('a',),)
      jaxpr={ lambda c:f32[1]{V:a}; d:f32[1]{V:a}. let e:f32[1]{V:a} = mul c d in (e,) }
      where c = [2.0]
      mesh=Mesh('a': 4, axis_types=(Auto,))
      newly_manual_axes=frozenset({'a'})
      out_specs=(P('a',),)
    ] a
  in (b,) }
"""


@pytest.mark.parametrize(
    "words",
    [
        "check",
        "run --args ramp",
        "run --jit --args ramp",
        "jvp",
        "vmap --in-axes 0 --axis-size 2",
        "linearize",
        "vjp",
        "lower",
        "blame --args ramp",
        "gradcheck --args ramp",
        "precision --args ramp",
        "compare --backends numpy,f64 --args ramp",
    ],
)
def test_every_verb_takes_them(words):
    assert invoke(f"{words} -" if " " not in words else words.replace(" ", " - ", 1), TEXT)[0] == 0


def test_they_have_one_value():
    (out,) = jt.eval_jaxpr(jt.parse(TEXT), [np.arange(4, dtype=np.float32)])
    np.testing.assert_array_equal(out, [0, 2, 4, 6])


def test_other_types_are_refused():
    found = invoke("run - --args ramp", TEXT.replace("c = [2.0]", "c = [2.0, 3.0]"))
    assert found.status and "[bad-constant]" in found.error


@pytest.mark.parametrize("words", ["run --through jax", "compare --backends numpy,jax"])
def test_jax_takes_them(words):
    """As operands; the tests have one device of JAX's."""
    text = TEXT.replace("'a': 4", "'a': 1").replace("f32[4]", "f32[1]")
    found = invoke(f"{words} - --args [3.0]", text)
    assert found.status == 0, found.error
    assert "run" not in words or found.output == "f32[1] [6.]\n"


def test_jax_takes_those_of_what_is_computed_again():
    text = """{ lambda ; a:f32[3]. let
        b:f32[3] = remat2[
          differentiated=False
          jaxpr={ lambda c:f32[3]; d:f32[3]. let e:f32[3] = mul c d in (e,) }
          where c = [2.0, 1.0, 3.0]
          policy=None
          prevent_cse=True
        ] a
      in (b,) }
    """
    found = invoke("run - --through jax --args ramp", text)
    assert found.status == 0 and found.output == "f32[3] [0., 1., 6.]\n"
