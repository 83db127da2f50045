"""Texts without types cost a bounded multiple of today's text of the same program: what a type rule says is asked for once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import jaxprtool as jt
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.syntax.infer import set_type_rule

OPERATIONS = ("sin {}", "mul {} b", "add {} 2.0", "max {} a")
STATES = {
    "0.2": ("{{ lambda  ; a b.\n  let {}\n  in ({},) }}", "", "\n      "),
    "0.3": ("{{ lambda ; a:f32[4] b:f32[4]. let\n    {}\n  in ({},) }}", ":f32[4]", "\n    "),
    "no shapes": ("{{ lambda ; a b. let\n    {}\n  in ({},) }}", "", "\n    "),
}


def text_of(state: str, n: int, number: Callable[[int], str]) -> str:
    """A program of n equations of four kinds, as a release printed it, with literals without types."""
    frame, type_, between = STATES[state]
    lines, last = [], "a"
    for i in range(n):
        made = OPERATIONS[i % 4].format(last).replace("2.0", number(i))
        lines.append(f"v{i}{type_} = {made}")
        last = f"v{i}"
    return frame.format(between.join(lines), last)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("number", [lambda i: "2.0", lambda i: f"{i}.5"], ids=["one", "many"])
def test_equal_operations_are_typed_once(state, number):
    """However long the program is, and however many literals it has: they are all of one type."""
    asked: list[str] = []

    def counted(primitive, avals, params):
        asked.append(primitive.name)
        return abstract_eval(primitive, avals, params)

    def typed(n: int) -> int:
        asked.clear()
        program = jt.parse(text_of(state, n, number))
        jt.typecheck_jaxpr(jt.with_types(program, "f32[4]", "f32[4]"))
        return len(asked)

    set_type_rule(counted)
    try:
        few, many = typed(40), typed(400)
    finally:
        set_type_rule(abstract_eval)
    assert 0 < few == many


def test_typed_once_is_typed_alike():
    """Operations of one kind on other types have results of their own."""
    text = "{ lambda  ; a b c.\n  let d = mul a 2.0\n      e = mul b 2.0\n      f = mul c 2\n      g = mul a a\n  in (d, e, f, g) }"
    typed = jt.with_types(jt.parse(text), "f32[3]", "f64[2]", "i32[]")
    assert [str(v.aval) for v in typed.jaxpr.outs] == ["f32[3]", "f64[2]", "i32[]", "f32[3]"]
