"""`--max-bytes` and `--step-limit`: every verb that evaluates has them, and ends with a message where they are reached."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.driver.reduce import How, reduce
from jaxprtool.driver.reducing.interest import Failure, Interest
from jaxprtool.interpreters.evaluation.limits import steps
from jaxprtool.ir.diagnostics import UsageError
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


# The loop has no end: its condition stays true.
ENDLESS = """{ lambda ; a:f32[]. let
    b:f32[] c:f32[] = while[
      body_jaxpr={ lambda ; d:f32[] e:f32[]. let f:f32[] = sin d; g:f32[] = mul e 1.0:f32[] in (f, g) }
      body_nconsts=0
      cond_jaxpr={ lambda ; d:f32[] e:f32[]. let h:bool[] = gt e 0.5:f32[] in (h,) }
      cond_nconsts=0
    ] a 1.0:f32[]
    i:f32[] = log c
  in (b, i) }"""
# What each verb needs besides, several times where it runs programs in several ways.
STEPPING = {
    "bench": [[], ["--backends", "numpy"], ["--backends", "xla"]],
    "blame": [[], ["--jit"]],
    "compare": [
        *([], ["--first"], ["--arbiter", "f64"], ["--backends", "xla,numpy"]),
        *(
            ["--backends", "xla,jax"],
            ["--backends", "xla,jax", "--first"],
            ["--backends", "f64,xla"],
        ),
    ],
    "gradcheck": [["--modes", "fwd"], ["--modes", "fwd", "--order", "2"]],
    "precision": [[], ["--shadow", "f128"]],
    "reduce": [["--nan"], ["--slow", "0"], ["--differs", "xla,numpy"], ["--differs", "xla,jax"]],
    "profile": [[], ["--backend", "xla"]],
    "run": [[], ["--check-nans"], ["--print", "b"], ["--jit"], ["--through", "jax"]],
}
# A bundle's command has its own options, and a limit of time.
OWN_LIMIT = {"repro"}


def _evaluating() -> list[str]:
    takes = {v: {o for p in command(v).params for o in p.opts} for v in VERBS}
    return [v for v in sorted(VERBS) if "--args" in takes[v] and v not in OWN_LIMIT]


def test_all_verbs_that_evaluate_take_the_limit_in_the_same_words():
    helps = set()
    for verb in _evaluating():
        found = [p for p in command(verb).params if "--step-limit" in p.opts]
        assert found, f"{verb} takes --args and no --step-limit"
        helps.add(found[0].help)
    assert len(helps) == 1


@pytest.mark.parametrize(
    ("verb", "beside"), [(v, b) for v in _evaluating() for b in STEPPING.get(v, [[]])]
)
def test_a_loop_without_an_end_is_stopped(verb, beside, tmp_path):
    file, other = tmp_path / "a.jaxpr", tmp_path / "b.jaxpr"
    file.write_text(ENDLESS)
    other.write_text(ENDLESS.replace("sin", "tan"))
    two = verb == "equiv" or (verb == "compare" and "--backends" not in beside)
    words = [verb, str(file), *([str(other)] if two else []), *beside]
    done = invoke([*words, "--args", "1.0", "--step-limit", "20"])
    assert done.status == 2 and "[step-limit]" in done.error, (done.output[:300], done.error)
    assert "Traceback" not in done.error and "while has taken 20 steps" in done.error


CALLING = """{ lambda ; a:f32[]. let
    b:f32[] = while[
      body_jaxpr={ lambda ; c:f32[]. let
          d:f32[] = io_callback[callback=None ordered=False result_avals=(ShapedArray(float32[]),) sharding=None] c
        in (d,) }
      body_nconsts=0
      cond_jaxpr={ lambda ; e:f32[]. let f:bool[] = lt e 0.5:f32[] in (f,) }
      cond_nconsts=0
    ] a
  in (b,) }"""


def test_steps_are_counted_without_what_prints_and_not_where_functions_would_be_called_again():
    printing = ENDLESS.replace("let f:f32", "let debug_print[fmt=x has_placeholders=False] ; f:f32")
    done = invoke(["run", "--jit", "-", "--args", "1.0", "--step-limit", "20"], stdin=printing)
    assert done.status == 2 and "[step-limit]" in done.error, done.error
    assert "x" not in done.error.splitlines()
    done = invoke(["run", "--jit", "-", "--args", "1.0", "--step-limit", "20"], stdin=CALLING)
    assert done.status == 2 and "do only once" in done.error, done.error


CALLS = """{ lambda ; a:f32[]. let
    b:f32[] = jit[name=f jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }] a
    e:f32[] = jit[name=f jaxpr={ lambda ; c:f32[]. let d:f32[] = exp c in (d,) }] b
  in (e,) }"""


@pytest.mark.parametrize("verb", _evaluating())
def test_each_of_several_runs_has_the_whole_limit(verb, tmp_path):
    file, other = tmp_path / "a.jaxpr", tmp_path / "b.jaxpr"
    file.write_text(CALLS)
    other.write_text(CALLS.replace("sin", "tan"))
    two = [str(other)] if verb in ("compare", "equiv") else []
    beside = {"bench": ["--seconds", "0"], "reduce": ["--slow", "0"]}.get(verb, [])
    done = invoke([verb, str(file), *two, *beside, "--args", "1.0", "--step-limit", "12"])
    assert done.status in (0, 1) and "step-limit" not in done.error, done.error


class _EndlessWithOtherValues(Interest):
    """Runs for ever on a candidate with other values than the first one had; counts how often it was stopped."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.stopped = 0

    def failure(self, c: Candidate) -> Failure:
        self.first = [*map(float, c.args or ())]
        return Failure("test", "it is interesting")

    def __call__(self, c: Candidate) -> bool:
        if [*map(float, c.args or ())] == self.first:
            return True
        try:
            for _ in steps("while", None):
                pass
        except UsageError:
            self.stopped += 1
        return False


def test_candidates_of_reduce_end_those_with_other_values_for_scrubbing_too(monkeypatch):
    monkeypatch.setattr("jaxprtool.driver.reduce._GRACE", 0.05)
    program = jt.parse("{ lambda ; a:f32[]. let  in (a,) }")
    interest = _EndlessWithOtherValues()
    found = reduce(program, [0.3], interest, How(scrub=True))
    assert interest.stopped and found.ended == "done" and [*map(float, found.args or ())] != []
