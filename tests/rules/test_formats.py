"""Format strings of files: names, positions, `!r`, `!s` and bounded formats; anything else is text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxprtool as jt
from jaxprtool.rules.formats import format_fields, print_options

VALUE = np.float32(1.5)


@pytest.mark.parametrize(
    "fmt",
    [
        "{}",
        "{0} {0}",
        "{x}",
        "{x!r}",
        "{!s:>10}",
        "{:.3f}",
        "{:+08.2f} {x:e}",
        "{{}} {}",
        "no field",
    ],
)
def test_harmless_formats_are_python_s(fmt):
    assert format_fields(fmt, [VALUE, 2], {"x": VALUE}) == fmt.format(VALUE, 2, x=VALUE)


@pytest.mark.parametrize(
    "fmt",
    [
        "{0.__class__}",
        "{0.__class__.__mro__[1].__subclasses__}",
        "{x[0]}",
        "{0[a]}",
        "{:1000000000d}",
        "{:.9999999999f}",
        "{:{x}}",
        "{x!a}",
        "{7}",
        "{nobody}",
        "{0:not a format}",
        "{",
        "}",
        "{0",
    ],
)
def test_any_other_field_is_text(fmt):
    assert format_fields(fmt, [VALUE], {"x": VALUE}) == fmt


@given(st.text(alphabet="{}0x!rs:.[]_a9<>^+d ", max_size=30))
def test_no_format_fails_or_grows(fmt):
    assert len(format_fields(fmt, [VALUE], {"x": VALUE})) <= 1000 * (len(fmt) + 1)


def test_print_options_are_bounded():
    given = (("precision", 10**9), ("linewidth", "x"), ("formatter", {}), ("nanstr", "n" * 10**6))
    options = print_options((*given, "word", ("sign", "?")))
    assert options == {"precision": 100, "nanstr": "n" * 100}
    with np.printoptions(**options):
        assert str(np.float64("nan")) == "nan"
    assert print_options("text") == {}


@pytest.mark.parametrize("fmt", ["{0.__class__}", "{:1000000000d}", "{0[0]}"])
def test_debug_print_looks_at_no_attribute(fmt, capsys):
    text = f"{{ lambda ; a:i32[]. let debug_print[fmt={fmt!r} has_placeholders=True] a in () }}"
    jt.eval_jaxpr(jt.parse(text), [3])
    assert capsys.readouterr().out.strip("'\n") == fmt
