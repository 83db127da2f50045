"""Every binder knows where it stands in its text, though it is looked for only when somebody asks."""

from __future__ import annotations

from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.ir.jaxpr import Jaxpr, Var
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.infer import reachable
from tests.timing import assert_growth

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.jaxpr"))
DROPPED = """{ lambda a:f32[3] ; b:f32[3] c:f32[3]. let
    _:f32[3] d:f32[3] _:f32[3] = three b c
    e:f32[3]
      f:f32[2, 3] g:f32[3] = three d d
    b1:f32[3] = sin e; b:f32[3] = sin b1
  in (g,) }"""


def binders(jaxpr: Jaxpr) -> list[Var]:
    inner = [v for j in reachable([jaxpr]) for v in j.all_binders]
    return [*inner, *(v for eqn in all_eqns(jaxpr) for v in eqn.out_binders)]


def check_places(program: jt.ClosedJaxpr) -> None:
    found = set[tuple[int, int]]()
    for v in binders(program.jaxpr):
        assert v.span is not None
        text = v.span.source.text[v.span.start : v.span.end]
        assert text.partition(":")[0] == v.name
        found.add((v.span.start, v.span.end))
    assert len(found) == len(binders(program.jaxpr))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_binders_of_examples(path: Path) -> None:
    check_places(jt.parse(path.read_text(encoding="utf-8")))


def test_dropped_results_and_types_with_blanks() -> None:
    check_places(jt.parse(DROPPED.replace("b:f32[3] = sin b1", "h:f32[3] = sin b1")))


def test_a_name_that_is_bound_twice_is_told_of_with_both_places() -> None:
    with pytest.raises(jt.JaxprTypeError) as e:
        jt.parse(DROPPED)
    (found,) = e.value.diagnostics
    assert "(first at <string>:1:21)" in found.message
    assert found.span is not None and found.span.start == DROPPED.index("b:f32[3] = sin")


def test_a_name_that_somebody_has_changed_stands_somewhere_in_the_run() -> None:
    v = jt.parse("{ lambda a:f32[3] ; b:f32[3]. let in (b,) }").jaxpr.in_binders[0]
    renamed = Var(v.aval, "other", v.place).span
    assert renamed is not None
    assert renamed.source.text[renamed.start : renamed.end] == "b:f32[3]"


def test_looking_for_all_binders_takes_time_in_proportion() -> None:
    def program(n: int) -> jt.ClosedJaxpr:
        names = " ".join([f"a{i}:f32[3]" for i in range(n)])
        return jt.parse(f"{{ lambda a:f32[3]; {names}. let in (a,) }}")

    def look(closed: jt.ClosedJaxpr) -> None:
        assert all(v.span for v in closed.jaxpr.in_binders)

    assert_growth(program, look, 2_000, 20_000, 30)  # a hundred times if each were looked for alone
