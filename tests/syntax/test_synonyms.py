"""Suggestions by meaning: every name of another system leads to one of ours, and is none itself."""

from __future__ import annotations

import re

import pytest

from jaxprtool.cli.main import VERBS
from jaxprtool.core.primitive import vocabulary
from jaxprtool.ir import synonyms
from jaxprtool.ir.dtypes import find_dtype
from tests.invoke import invoke

NAMES = {*vocabulary()}


def parts(found: str | tuple[str, ...]) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else found


def test_tables_lead_to_names_of_ours() -> None:
    targets = {x for found in synonyms.PRIMITIVES.values() for x in parts(found)}
    assert targets - NAMES == set()
    assert {x for found in synonyms.VERBS.values() for x in parts(found)} <= set(VERBS)
    assert all(find_dtype(str(found)) for found in synonyms.DTYPES.values())


def test_what_is_suggested_is_no_name_of_ours() -> None:
    ours = {re.sub("[-_]", "", name): name for name in NAMES}
    wrong = {k: v for k, v in synonyms.PRIMITIVES.items() if ours.get(k, v) != v}
    assert wrong == {}
    assert not [k for k in synonyms.VERBS if k in VERBS and synonyms.VERBS[k] != k]
    assert not [k for k in synonyms.DTYPES if find_dtype(k) and k != "bool"]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("dot", "dot_general"),
        ("where", "select_n"),
        ("relu", "max"),
        ("less_equal", "le"),
        ("matmul", "dot_general"),
        ("qqqqqq", ""),
        ("arctan2", "atan2"),
        ("Softmax", "exp, reduce_sum and div"),
        ("all_reduce", "psum"),
        ("while_loop", "while"),
        ("sinn", "sin"),
    ],
)
def test_unknown_primitives(name: str, ours: str) -> None:
    done = invoke("check", f"{{ lambda ; a:f32[3]. let b:f32[3] = {name} a in (b,) }}")
    assert done.status == 1 and f"unknown primitive {name}" in done.error
    assert (f"did you mean {ours}?" if ours else "--plugin") in done.error


@pytest.mark.parametrize(
    ("name", "ours"),
    [("float", "f32"), ("double", "f64"), ("s32", "i32"), ("pred", "bool"), ("half", "f16")],
)
def test_unknown_element_types(name: str, ours: str) -> None:
    done = invoke("check", f"{{ lambda ; a:{name}[3]. let in (a,) }}")
    assert done.status == 2 and f"did you mean {ours}[3]?" in done.error
    done = invoke("check", f"{{ lambda ; a:{name}. let in (a,) }}")
    assert done.status == 2 and f"did you mean {ours}[]?" in done.error
    done = invoke(["trace", "math:sin", "--shape", f"{name}[3]"])
    assert done.status == 2 and f"did you mean {ours}[3]?" in done.error
    done = invoke(["trace", "math:sin", "--shape", name])
    assert done.status == 2 and f"did you mean {ours}[]?" in done.error


@pytest.mark.parametrize(
    ("name", "verb"), [("eval", "run"), ("format", "fmt"), ("typecheck", "check"), ("grda", "grad")]
)
def test_unknown_verbs(name: str, verb: str) -> None:
    assert f"did you mean {verb}?" in invoke([name]).error
