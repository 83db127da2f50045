"""What `check` refuses is still refused once it has been laid out, in whichever release's words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.invoke import invoke

CASES = Path(__file__).parent.parent / "cases"
LOOP = """{ lambda ; a:f32[] b:f32[4]. let
    c:f32[] d:f32[4] = scan[
      jaxpr={ lambda ; e:f32[] f:f32[]. let g:f32[] = add e f in (g, e) }
      length=4
      linear=LINEAR
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] a b
  in (c, d) }
"""


def _codes(text: str) -> set[str]:
    done = invoke(["check", "--error-format", "json", "-"], text)
    found = [json.loads(line) for line in done.error.splitlines()]
    return {d["code"] for d in found if d["severity"] == "error"}


def _inputs() -> list[str]:
    texts = [f.read_text() for f in sorted(CASES.glob("check/*.jaxpr"))]
    texts = [t for t in texts if t.startswith("# run:")]
    return [re.split(r"^# ----", t.split("\n", 1)[1], flags=re.MULTILINE)[0] for t in texts]


def test_each_ill_typed_case_stays_ill_typed():
    seen = 0
    for text in _inputs():
        before, done = _codes(text), invoke(["fmt", "-"], text)
        if before and done.status == 0:
            seen += 1
            assert _codes(done.output) == before, text
    assert seen > 10


@pytest.mark.parametrize("dialect", ["jax-0.8", "jax-0.9", "jax-0.10", "jax-0.11", "jax-0.12"])
@pytest.mark.parametrize("linear", ["(False, 'x')", "(False,)", "(False, False, False)", "3"])
def test_flags_that_are_none_stay_where_a_release_has_no_such_param(dialect, linear):
    text = LOOP.replace("LINEAR", linear)
    before = _codes(text)
    assert before
    done = invoke(["fmt", "--dialect", dialect, "-"], text)
    assert done.status == 0, done.error
    assert _codes(done.output) == before
