"""`--max-bytes`: every verb that has it refuses a program that needs more on the way, and takes it with more."""

from __future__ import annotations

import pytest

from tests.invoke import VERBS, command, invoke

# Neither the argument nor the result is large, and the derivative of the second one keeps what it does not.
WIDE = """{ lambda ; a:f32[]. let
    b:f32[200000] = broadcast_in_dim[broadcast_dimensions=() shape=(200000,) sharding=None] a
    c:f32[200000] = sin b
    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
  in (d,) }"""
LONG = """{ lambda ; a:f32[]. let
    b:f32[] = scan[
      jaxpr={ lambda ; d:f32[]. let e:f32[] = sin d; f:f32[] = mul e d; g:f32[] = cos f in (g,) }
      length=1000
      linear=(False,)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
      _split_transpose=False
    ] a
  in (b,) }"""
BESIDE = {"reduce": ["--slow", "0"], "fuzz": None, "repro": None}


def _verbs() -> list[str]:
    found = [v for v in sorted(VERBS) if any("--max-bytes" in p.opts for p in command(v).params)]
    return [v for v in found if BESIDE.get(v, []) is not None]


def _call(verb: str, text: str, tmp_path, limit: str):
    file = tmp_path / "a.jaxpr"
    file.write_text(text)
    other = [str(file)] if verb == "equiv" else []
    if verb == "equiv":
        (tmp_path / "b.jaxpr").write_text(text.replace("sin", "tan"))
        other = [str(tmp_path / "b.jaxpr")]
    takes = {o for p in command(verb).params for o in p.opts}
    args = ["--args", "1.0"] if "--args" in takes else []
    return invoke([verb, str(file), *other, *BESIDE.get(verb, []), "--max-bytes", limit, *args])


@pytest.mark.parametrize("verb", _verbs())
def test_what_is_made_on_the_way_counts(verb, tmp_path):
    done = _call(verb, WIDE, tmp_path, "10000")
    assert done.status == 2 and "too-large" in done.error, (done.output[:300], done.error)


@pytest.mark.parametrize("verb", _verbs())
def test_with_room_the_verb_answers(verb, tmp_path):
    done = _call(verb, WIDE, tmp_path, "100M")
    assert done.status in (0, 1) and "too-large" not in done.error, done.error


def test_derivatives_that_are_checked_have_room_too(tmp_path):
    assert _call("run", LONG, tmp_path, "8000").status == 0
    done = _call("gradcheck", LONG, tmp_path, "8000")
    assert done.status == 2 and "too-large" in done.error
    assert _call("gradcheck", LONG, tmp_path, "1M").status == 0
