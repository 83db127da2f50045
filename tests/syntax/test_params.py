"""Values of params: the closed literal grammar, and what is outside of it."""

from __future__ import annotations

import pytest

from jaxprtool.core.kinds.containers import NOTHING, either
from jaxprtool.core.kinds.functions import NAME
from jaxprtool.core.kinds.numbers import ELEMENT_TYPE, SHAPE
from jaxprtool.generation.seeds import seeds
from jaxprtool.ir.avals import AxisGroups, ShapedArray, SymbolicDim
from jaxprtool.ir.diagnostics import JaxprToolError, JaxprTypeError
from jaxprtool.ir.dtypes import FLOAT32, INT32
from jaxprtool.ir.frozen import FrozenDict, FrozenList
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import (
    ElementClass,
    EnumMember,
    NumpyScalar,
    Opaque,
    OrderedSet,
    PrintedFunction,
    Record,
    Word,
)
from jaxprtool.ir.sharding import Mesh, PartitionSpec
from jaxprtool.ir.trees import LEAF, TreeDefinition
from jaxprtool.syntax.params import format_value, read_value
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr

VALUES = [
    ("3", 3),
    ("-1", -1),
    ("0.95", 0.95),
    ("1e-05", 1e-05),
    ("inf", float("inf")),
    ("(1+2j)", 1 + 2j),
    ("True", True),
    ("None", None),
    ("()", ()),
    ("(1,)", (1,)),
    ("((0, 0), (1, 2))", ((0, 0), (1, 2))),
    ("[False, True]", [False, True]),
    ("{0: ('x',)}", {0: ("x",)}),
    ("frozenset({'x', 'y'})", frozenset({"x", "y"})),
    ("(slice(1, 2, None), Ellipsis)", (slice(1, 2), Ellipsis)),
    ("(np.int64(1), 0)", (NumpyScalar(1), 0)),
    ("GatherScatterMode.CLIP", Word("GatherScatterMode.CLIP")),
    (
        "(Precision.HIGHEST, Precision.HIGHEST)",
        (Word("Precision.HIGHEST"), Word("Precision.HIGHEST")),
    ),
    ("Dims(a=(0,), b=())", Record("Dims", a=(0,), b=())),
    ("P('i', None)", PartitionSpec("i", None)),
    ("P('i',)", PartitionSpec("i")),
    ("PartitionSpec('i',)", PartitionSpec("i")),
    ("P('i', unreduced={'j'})", PartitionSpec("i", unreduced={"j"})),
    ("P(reduced={'k', 'j'})", PartitionSpec(reduced={"j", "k"})),
    ("P(1)", Record("P", (1,))),
    ("(P(UNCONSTRAINED, ('i', 'j')),)", (PartitionSpec(Word("UNCONSTRAINED"), ("i", "j")),)),
    ("Mesh('i': 2, axis_types=(Explicit,))", Mesh({"i": 2}, ["Explicit"])),
    ("frozenset({'b', 'a'})", OrderedSet(["b", "a"])),
    ("(ShapedArray(float32[4,4]),)", (ShapedArray((4, 4), FLOAT32),)),
    ("ShapedArray(int32[], weak_type=True)", ShapedArray((), INT32, True)),
    (
        "(ShapedArray(float32[4@x]{V:(i,j)}),)",
        (ShapedArray((4,), FLOAT32, spec=(("x",),), vary=AxisGroups(["i", "j"])),),
    ),
    ("ShapedArray(int32[]{V:i, U:k})", ShapedArray((), INT32, vary=AxisGroups(["i"], ["k"]))),
    ("(<function f at 0xXX>, 1)", (Opaque("<function f at 0xXX>"), 1)),
    ("PyTreeDef(((*,), {'x': *}))", TreeDefinition(((LEAF,), {"x": LEAF}))),
    ("PyTreeDef([*, None])", TreeDefinition([LEAF, None])),
    (
        "PyTreeDef((CustomNode(Box, [*]), {}))",
        TreeDefinition((Record("CustomNode", (Word("Box"), [LEAF])), {})),
    ),
    ("PyTreeDef(*, 1)", Opaque("PyTreeDef(*, 1)")),
    ("PyTreeDef(*)", TreeDefinition(LEAF)),
    ("(<AccuracyMode.HIGHEST: 1>,)", (EnumMember("AccuracyMode", "HIGHEST", 1),)),
    ("<class 'numpy.float32'>", ElementClass(FLOAT32, "numpy.float32")),
    ("<class 'numpy.thing'>", Opaque("<class 'numpy.thing'>")),
    (
        "<function f.<locals>.g at 0xXX>",
        PrintedFunction("<function f.<locals>.g at 0xXX>", ("f", "<locals>", "g")),
    ),
]


FROZEN = {list: FrozenList, dict: FrozenDict}


@pytest.mark.parametrize("text, value", VALUES)
def test_values(text, value):
    found = read_value(text)
    assert found == value and type(found) is FROZEN.get(type(value), type(value))
    assert format_value(found) == text


OUTSIDE = [
    "[0 1 2 3]",
    "a b c",
    "x={x} {}",
    "<function f at 0xXXXX> and more",
    "Wrapped function:\n0   : f\n",
    "P('i', summed={'j'})",
    "{'j'}",
    "Mesh('i': j)",
    "__import__('os').system('true') or 1",
    "(1, 2",
    "(" * 500 + ")" * 500,
    "'never closed",
    "'\\q'",
]


@pytest.mark.parametrize("text", OUTSIDE)
def test_outside_of_the_grammar(text):
    found = read_value(text)
    assert type(found) is Opaque
    assert format_value(found) == text


def test_calls_are_only_data():
    assert read_value("exit(1)") == Record("exit", (1,))


def test_kinds_guide():
    assert read_value("float32", ELEMENT_TYPE) is FLOAT32
    assert read_value("float32", either(ELEMENT_TYPE, NOTHING)) is FLOAT32
    assert read_value("None", either(ELEMENT_TYPE, NOTHING)) is None
    assert read_value("float32", NAME) == "float32"
    assert type(read_value("float32")) is Word


def equation(params: str):
    return parse(f"{{ lambda ; a:f32[3]. let b:f32[3] = thing[{params}] a in (b,) }}").eqns[0]


FLAT = [
    ("fmt=x = {x}, e=3 {}", {"fmt": "x = {x}", "e": "3 {}"}),
    ("fmt=b a=1", {"fmt": "b", "a": "1"}),
    ("b = 1 a =(2, 3)", {"b": "1", "a": "(2, 3)"}),
    ("a=1, b=(2,),", {"a": "1", "b": "(2,)"}),
    ("a=1,\n b=2\n", {"a": "1", "b": "2"}),
    ("a=1  # one\n b=2 # two\n", {"a": "1", "b": "2"}),
    ("a=it's b=2", {"a": "it's", "b": "2"}),
    ("name=f a=1", {"name": "f", "a": "1"}),
    ("a=[x=1 y=2] b=(k=3)", {"a": "[x=1 y=2]", "b": "(k=3)"}),
    ("a='] b=1' b=2", {"a": "] b=1", "b": "2"}),
    ("empty= z=1", {"empty": "", "z": "1"}),
    (
        "a=<class 'T[S[A, '?*y'] | (B, '')]'> b=2",
        {"a": "<class 'T[S[A, '?*y'] | (B, '')]'>", "b": "2"},
    ),
]


@pytest.mark.parametrize("text, expected", FLAT)
def test_where_a_flat_value_ends(text, expected):
    found = equation(text).params
    assert {k: format_value(v) for k, v in found.items()} == expected


BLOCK = [
    "first line\nsecond line of several words",
    "[ 0.  1.  2.\n 18. 19.]",
    "Wrapped function:\n\nCore: memoized\n",
    "a=b ] [ { lambda ; a:f32[]. let in (a,) }",
    "<bound method f of Wrapped function:\n0   : g   (PyTreeDef((*, *)), [1])\nCore: h\n>",
    "Mesh(device_ids=array([[0, 1],\n       [2, 3]]), axis_names=('x', 'y'))",
    "PyTreeDef((CustomNode(F[<class 'T[S[A, '?*y'] | B]'>, { lambda ; a:f32[]. let\n"
    "    b:f32[] = f[\n      name=g\n    ] a\n  in (b,) }], [*]), *))",
]


@pytest.mark.parametrize("value", BLOCK)
def test_where_a_value_in_block_layout_ends(value):
    text = (
        "{ lambda ; a:f32[3]. let\n    b:f32[3] = thing[\n"
        f"      first=1\n      text={value}\n      zzz=2\n    ] a\n  in (b,) }}"
    )
    program = parse(text)
    assert list(program.eqns[0].params) == ["first", "text", "zzz"]
    assert format_jaxpr(program, width=40) == text


@pytest.mark.parametrize(
    "value",
    [
        "Mesh(device_ids=[], axis_nas=())",
        "Mesh(axis_sizes=(2,), axis_name='x')",
        "AbstractMesh(device_ids=array([0, 1]), axis_names=None)",
        "Mesh(axis_sizes=(2,), axis_names=2)",
    ],
)
def test_what_is_no_mesh_stays_text(value):
    assert format_value(equation(f"mesh={value}").params["mesh"]) == value


def test_jaxprs_inside_a_record():
    inner = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    eqn = equation(f"jaxprs=_Tuple(matvec={inner}, vecmat=None)")
    assert isinstance(eqn.params["jaxprs"].matvec, ClosedJaxpr)
    assert format_value(eqn.params["jaxprs"]) == f"_Tuple(matvec={inner}, vecmat=None)"


def test_errors_inside_a_record_have_positions_in_the_text():
    with pytest.raises(JaxprTypeError) as caught:
        equation("\n jaxprs=_Tuple(f={ lambda ; a:f32[]. let b:f32[] = sin c in (b,) })")
    (only,) = caught.value.diagnostics
    assert str(only.span) == "<string>:2:56"


def test_records_of_jaxprs_of_records_stay_text_when_they_are_deep():
    text = "1"
    for _ in range(200):
        text = f"T({{ lambda ; a:f32[]. let b:f32[] = f[x={text}] a in (b,) }})"
    program = parse(f"{{ lambda ; a:f32[]. let b:f32[] = f[x={text}] a in (b,) }}")
    printed = format_jaxpr(program)
    assert format_jaxpr(parse(printed)) == printed


HIDDEN = [
    ("b:f32[2,3] = broadcast_in_dim 0.0:f32[]", {"shape": (2, 3), "broadcast_dimensions": ()}),
    (
        "b:f32[] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a a",
        {
            "dimension_numbers": (((0,), (0,)), ((), ())),
            "precision": None,
            "preferred_element_type": None,
        },
    ),
    (
        "b:i32[3] = convert_element_type[new_dtype=int32 weak_type=False] a",
        {"new_dtype": INT32, "weak_type": False, "sharding": None},
    ),
    ("b:f32[3] = exp a", {"accuracy": None}),
]


@pytest.mark.parametrize("text, params", HIDDEN)
def test_hidden_params_are_put_back(text, params):
    whole = f"{{ lambda ; a:f32[3]. let {text} in (b,) }}"
    found = parse(whole).eqns[0].params
    assert {k: found[k] for k in params} == params
    assert format_jaxpr(parse(whole), width=200) == whole


BODY = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
RULES = "{ lambda ; a:f32[3] t:f32[3]. let b:f32[3] = cos a; c:f32[3] = mul t b in (c, c) }"


def called(params: str) -> dict:
    text = f"{{ lambda ; a:f32[3]. let b:f32[3] = custom_jvp_call[{params}] a in (b,) }}"
    return parse(text).eqns[0].params


@pytest.mark.parametrize(
    "between", ["jvp_jaxpr=", "jvp_jaxpr = ", " jvp_jaxpr =", ",jvp_jaxpr=\n", "\n  jvp_jaxpr= ", "  # why\n jvp_jaxpr="]
)  # fmt: skip
def test_a_rule_is_read_however_it_is_laid_out(between):
    found = called(f"name=f call_jaxpr={BODY} jvp=f_jvp {between}{RULES} symbolic_zeros=False")
    assert isinstance(found["jvp_jaxpr"], ClosedJaxpr)
    assert found["jvp"] == "f_jvp"


@pytest.mark.parametrize(
    "params",
    [
        f"name=f call_jaxpr={BODY} jvp=f jvp_jaxpr:={RULES} symbolic_zeros=False",
        f"name=f call_jaxpr={BODY} jvp=f {RULES} symbolic_zeros=False",
        f"name=f := g call_jaxpr={BODY} jvp=f symbolic_zeros=False",
        f"name=f( call_jaxpr={BODY} jvp=f symbolic_zeros=False",
        f"name=f) call_jaxpr={BODY} jvp=f symbolic_zeros=False",
        f"name=f call_jaxpr={BODY} jvp=f num_consts=0 +jvp_jaxpr={RULES}",
    ],
)
def test_nothing_with_a_meaning_is_lost_in_a_text(params):
    with pytest.raises(JaxprToolError):
        called(params)


def test_free_text_may_hold_anything():
    fmt = "x = {} (loss= {lambda # 'it"
    text = (
        f"{{ lambda ; a:f32[3]. let\n    debug_print[\n      fmt={fmt}\n      in_tree=None\n"
        "      ordered=False\n    ] a\n  in () }"
    )
    assert parse(text).eqns[0].params["fmt"] == fmt


def test_a_name_beside_the_jaxpr_of_that_name() -> None:
    """In params that nobody declares `name=f` is a word, and `jaxpr=f` the shared jaxpr."""
    program = parse(
        "let f = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in\n"
        "{ lambda ; c:f32[]. let d:f32[] = odd[name=f jaxpr=f] c in (d,) }"
    )
    params = program.eqns[0].params
    assert isinstance(params["jaxpr"], ClosedJaxpr)
    assert not isinstance(params["name"], ClosedJaxpr)


def values_of_seeds() -> list[tuple[Kind, str]]:
    """The values of params in the seeds of random programs, as texts, with the kinds of their params."""
    found: dict[tuple[str, str], tuple[Kind, str]] = {}
    for program in (p for programs in seeds().values() for p in programs):
        for eqn in program.jaxpr.eqns:
            for name, value in eqn.params.items():
                declared = eqn.primitive.params.get(name)
                kind = declared.kind if declared else NOTHING
                if declared and kind.spelling == "value" and not kind.holds_jaxprs:
                    text = format_value(value)
                    found[name, text] = kind, text
    return [*found.values()]


@pytest.mark.parametrize("more", [")", ",)", "),)", "]", "}", " x", ")x", "(", "))", ", ]", '"'])
def test_a_value_with_something_behind_it_is_another(more):
    texts = values_of_seeds()
    assert len(texts) > 300
    for kind, text in texts:
        found = read_value(text + more, kind)
        assert isinstance(found, Opaque) or found != read_value(text, kind), text + more


@pytest.mark.parametrize(
    "text",
    ["(1, 2))", "((0, 0),),)", "(1, 2", '((", 0),)', "((0, 0))", "(1,,2)", "(a)", "(0 0,)"],
)
def test_sizes_that_are_none(text):
    assert isinstance(read_value(text, SHAPE), Opaque) or not SHAPE.fits(read_value(text, SHAPE))


@pytest.mark.parametrize(
    "size", ["a", "2*a + 1", "-1*a", "max(0, floordiv(mod(a + 1, 2), 3) + 2)", "(a + 1)*2"]
)
def test_sizes_with_names(size):
    assert read_value(f"({size}, 3)", SHAPE) == (SymbolicDim(size), 3)
    assert parse(f"{{ lambda ; b:f32[{size}]. let in (b,) }}").in_avals[0].shape == (
        SymbolicDim(size),
    )


@pytest.mark.parametrize(
    "text",
    ["PyTreeDef(((*}))", "(PyTreeDef((*], 1)", "X(a=PyTreeDef([*)))", "(<:f32[>, 1)", "X(a=Ref{f32[[2]})"],
)  # fmt: skip
def test_brackets_that_do_not_balance_make_no_value(text):
    assert isinstance(read_value(text), Opaque)


@pytest.mark.parametrize("n", [10**3, 10**20])
def test_long_ranges(n):
    """A range is a value of its own, of as many elements as it says."""
    text = f"{{ lambda ; a:f32[]. let b:f32[] = odd[r=range(0, {n})] a in (b,) }}"
    assert f"odd[r=range(0, {n})]" in str(parse(text))


@pytest.mark.parametrize("value", ["None[x", "a(b[", "((]", "x=[('k', 1)"])
@pytest.mark.parametrize("comment", ["", "  # []", "  # said"])
def test_an_unbalanced_value_ends_where_the_layout_says(value: str, comment: str):
    """A comment after the operands does not end it, though the brackets up to there balance."""
    text = f"""\
{{ lambda ; a:f32[3]. let
    b:i32[] = mine[
      key={value}
      other=2
    ] 1:i32[] a{comment}
  in (b,) }}"""
    program = parse(text)
    (eqn,) = program.eqns
    assert str(eqn.params["key"]) == value
    assert eqn.params["other"] == 2
    assert format_jaxpr(program, lossless=True) == text
