"""Formats of `debug_print` are any text: each is read back from a file as it was, wherever it stands."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr
from tests.syntax.two_readers import difference


def _print(indent: int, operand: str) -> str:
    """An equation that prints, in the layout of JAX."""
    params = (
        "fmt=?", "has_placeholders=True", "in_tree=None", "logging_record=None", "np_printoptions=()",
        "ordered=False", "partitioned=False", "static_args=()",
    )  # fmt: skip
    blanks = " " * indent
    lines = [f"{blanks}  {param}" for param in params]
    return "\n".join([f"{blanks}debug_print[", *lines, f"{blanks}] {operand}"])


PROGRAM = f"""\
{{ lambda ; a:f32[3]. let
    b:f32[3] = jit[
      name=f
      jaxpr={{ lambda ; c:f32[3]. let
{_print(10, "c")}
          d:f32[3] = sin c
        in (d,) }}
    ] a
{_print(4, "b")}
  in (b,) }}
"""
PIECES = (
    *("\n", "\n    ", "\n      ", "\n            ", " ", "\t", "\r", "\r\n", "\x1b[31m", "\x1b[0m", "\x1b"),
    *("ordered=True", "loss={}", "has_placeholders=", "in_tree=None", "]", "[", "{", "}", "(", ")", "'", '"'),
    *("# f.py:1:2 (g)", "# [jvp(f)]", "# ", "#", ";", ",", "=", "$", "$'", "\\", "\\n", "b:f32[3] = sin a"),
    *("in (a,) }", "{ lambda ; a:f32[]. let in (a,) }", "where a = 3.0", "x", "{}"),
)  # fmt: skip
formats = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


def with_format(fmt: str) -> ClosedJaxpr:
    """The program, whose two prints have a format."""

    def renamed(closed: ClosedJaxpr) -> ClosedJaxpr:
        eqns = []
        for eqn in closed.jaxpr.eqns:
            params = {
                **eqn.params,
                **({"fmt": fmt} if "fmt" in eqn.params else {}),
                **({"jaxpr": renamed(eqn.params["jaxpr"])} if "jaxpr" in eqn.params else {}),
            }
            eqns.append(eqn.replace(params=params))
        return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))

    return renamed(parse(PROGRAM))


@example("loss\n      ordered=1 {}")
@example("\nhas_placeholders=\nordered=True")
@example("\x1b[31m{}\x1b[0m\r")
@example("$'a\\n      b='")
@settings(max_examples=300, deadline=None)
@given(formats)
def test_a_format_is_read_back_as_it_was(fmt):
    program = with_format(fmt)
    printed = format_jaxpr(program, lossless=True)
    again = parse(printed)
    assert [e.params["fmt"] for e in all_eqns(again.jaxpr) if "fmt" in e.params] == [fmt, fmt]
    assert format_jaxpr(again, lossless=True) == printed
    assert difference(printed) is None


@pytest.mark.parametrize("fmt", ["$5 {}", "$'{}'", "'{}'", "a\nloss={}\n  acc={}", "a # b {}", "]"])
def test_what_can_stand_as_jax_prints_it_does(fmt):
    assert f"fmt={fmt}\n" in format_jaxpr(with_format(fmt), lossless=True)
