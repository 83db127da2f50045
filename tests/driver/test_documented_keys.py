"""The keys of the JSON of a verb that finds faults stand in its `--help`, whatever the answer is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.invoke import invoke

LOG = "{ lambda ; a:f32[3]. let b:f32[3] = log a in (b,) }"
EXP = "{ lambda ; a:f32[3]. let b:f32[3] = exp a; c:f32[3] = sin b in (c,) }"
INTEGERS = "{ lambda ; a:i32[3]. let b:i32[3] = mul a a in (b,) }"
ANSWERS = [
    "blame LOG --args [-1,2,3]",
    "blame LOG --args ones",
    "blame EXP --args [nan,1,1]",
    "compare LOG --args ones",
    "compare LOG EXP --first --args [-1,2,3]",
    "compare LOG EXP --arbiter f64 --args ones",
    "compare INTEGERS --args ones",
    "precision LOG --args [1,2,3]",
    "gradcheck LOG --args [1,2,3]",
    "gradcheck EXP --order 2 --args ones",
    "equiv LOG EXP",
    "equiv LOG LOG",
    "equiv --prove LOG EXP",
    "reduce LOG --nan --args [-1,2,3] -o SMALL",
    "reduce LOG --nan --args ones -o SMALL",
]


@pytest.mark.parametrize("words", ANSWERS)
def test_the_keys_of_an_answer_are_documented(words: str, tmp_path: Path) -> None:
    for name, text in {"LOG": LOG, "EXP": EXP, "INTEGERS": INTEGERS}.items():
        (tmp_path / name).write_text(text)
    words = re.sub(r"\b(LOG|EXP|INTEGERS|SMALL)\b", lambda m: str(tmp_path / m[0]), words)
    done = invoke(f"{words} --json")
    assert done.status in (0, 1), done.error

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    found = json.loads(done.output, parse_constant=refuse)
    help = {
        *re.findall(r"\w+", invoke(f"{words.split()[0]} --help").output.partition("\nOptions:")[0])
    }
    assert found["schema"] == 1
    assert {*found} <= help, sorted({*found} - help)


# On the second device of two the branch that takes a logarithm runs.
ON_DEVICES = """{ lambda ; a:f32[2]. let
    b:f32[2] = shard_map[
      check_vma=False
      in_specs=(P('i',),)
      jaxpr={ lambda ; c:f32[1]. let
          d:bool[1] = gt c 0.0:f32[]
          e:bool[] = reshape[dimensions=None new_sizes=() sharding=None] d
          f:i32[] = convert_element_type[new_dtype=int32 weak_type=False] e
          g:f32[1] = cond[branches=(
            { lambda ; h:f32[1]. let i:f32[1] = log h in (i,) }
            { lambda ; h:f32[1]. let i:f32[1] = neg h in (i,) }
          )] f c
        in (g,) }
      mesh=Mesh('i': 2, axis_types=(Auto,))
      newly_manual_axes=frozenset({'i'})
      out_specs=(P('i',),)
    ] a
  in (b,) }"""


@pytest.mark.parametrize("words", ["blame A --args [1,-1]", "compare A B --first --args [1,-1]"])
def test_the_keys_of_a_place_are_documented(words: str, tmp_path: Path) -> None:
    (tmp_path / "A").write_text(ON_DEVICES)
    (tmp_path / "B").write_text(ON_DEVICES.replace("log", "exp"))
    words = re.sub(r"\b[AB]\b", lambda m: str(tmp_path / m[0]), words)
    place = json.loads(invoke(f"{words} --json").output)["first"]
    help = {*re.findall(r"\w+", invoke(f"{words.split()[0]} --help").output)}
    assert place["device"] == {"i": 1}
    assert {*place, *place["path"][0]} <= help


def test_a_run_that_stops_at_a_nan_says_where_in_json(tmp_path: Path) -> None:
    (tmp_path / "log.jaxpr").write_text(LOG)
    path = str(tmp_path / "log.jaxpr")
    done = invoke(["run", "--check-nans", "--json", path, "--args", "[-1,2,3]"])
    assert done.status == 1 and "log gives NaN" in done.error
    blamed = json.loads(invoke(["blame", "--json", path, "--args", "[-1,2,3]"]).output)
    assert json.loads(done.output) == {"outs": None, "nan": blamed["first"], "schema": 1}
    done = invoke(["run", "--check-nans", "--json", path, "--args", "ones"])
    assert done.status == 0 and json.loads(done.output)["outs"][0]["data"] == [0, 0, 0]
