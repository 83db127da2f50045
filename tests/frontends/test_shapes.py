"""Types of arguments on the command line."""

import pytest

import jaxprtool as jt
from jaxprtool.driver.words.shapes import parse_shape


def aval(text):
    return parse_shape(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("f32[3,4]", "f32[3,4]"),
        (" float64[ 3 , 4 ] ", "f64[3,4]"),
        ("i32[]", "i32[]"),
        ("bool[2]", "bool[2]"),
        ("bf16[0]", "bf16[0]"),
        ("key<fry>[]", "key<fry>[]"),
        ('{"w": f32[3,4], "b": f32[4]}', "{'w': f32[3,4], 'b': f32[4]}"),
        ("{w: f32[3], 0: i32[],}", "{'w': f32[3], 0: i32[]}"),
        ("(f32[3], i32[])", "(f32[3], i32[])"),
        ("(f32[3],)", "(f32[3],)"),
        ("(f32[3])", "f32[3]"),
        ("[f32[3], (None, {'a': [c64[1]]})]", "[f32[3], (None, {'a': [c64[1]]})]"),
        ("()", "()"),
        ("{}", "{}"),
        ("None", "None"),
    ],
)
def test_reads(text, want):
    assert repr(parse_shape(text)) == want


def test_types_are_interned():
    assert aval("f32[3]") is jt.ShapedArray((3,), "float32")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("f32", 1, "the element type f32 needs a shape"),
        ("f33[3]", 1, "unknown element type 'f33'"),
        ("f32[3", 6, "']' was expected"),
        ("f32[3,x]", 7, "not a dimension: 'x'"),
        ("f32[-1]", 5, "not a dimension: '-1'"),
        ("f32[3,]", 7, "not a dimension"),
        ("f32[3] i32[]", 8, "unexpected 'i32[]'"),
        ("", 1, "a type was expected at the end"),
        ("(f32[3], i32[]", 1, "this '(' is never closed"),
        ("[f32[] f32[]]", 8, "',' or ']' was expected"),
        ('{"a" f32[]}', 6, "':' was expected"),
        ('{"a": f32[], "a": i32[]}', 14, "the key 'a' occurs twice"),
        ("{f32[]: 3}", 2, "a key was expected"),
        ("(f32[], banana)", 9, "unknown type 'banana'"),
        ("f32[3] $", 8, "unexpected '$'"),
        ("(" * 300 + ")" * 300, 202, "nested too deeply"),
    ],
)
def test_refuses(text, column, message):
    with pytest.raises(jt.UsageError) as e:
        parse_shape(text, "--shape")
    diagnostic = e.value.diagnostics[0]
    assert message in diagnostic.message
    assert str(diagnostic.span) == f"--shape:1:{column}"
