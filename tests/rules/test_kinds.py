"""Kinds of params: what fits, what is refused and how, what is read, how it is described."""

from __future__ import annotations

import typing
from typing import Any

import pytest

import jaxprtool as jt
from jaxprtool.core.kinds import dimension_numbers, enums, functions, numbers, objects, placement
from jaxprtool.core.kinds.annotations import kind_of
from jaxprtool.core.kinds.containers import NOTHING, Anything, either, tuple_of, tuple_of_length
from jaxprtool.core.kinds.dimension_numbers import DOT_NUMBERS, GATHER_NUMBERS
from jaxprtool.core.kinds.enums import INDEX_MODE, PRECISION, ROUNDING_METHOD
from jaxprtool.core.kinds.functions import JAXPR, NAME, TEXT
from jaxprtool.core.kinds.numbers import AXES, AXIS, BOOLEAN, ELEMENT_TYPE, INTEGER, NUMBER, SHAPE
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, Primitive
from jaxprtool.ir.kinds import UNREAD, Kind
from jaxprtool.ir.params import Opaque, Record, Word

MODULES = (dimension_numbers, enums, functions, numbers, objects, placement)


def _named() -> dict[str, Kind]:
    """The kinds by the names that stubs have for them."""
    found = {}
    for module in MODULES:
        for name, value in vars(module).items():
            if typing.get_origin(value) is typing.Annotated and not name.startswith("_"):
                found[name] = kind_of(value, {})
    return found


def test_a_kind_has_the_name_that_stubs_spell():
    assert {name: kind.name for name, kind in _named().items()} == {n: n for n in _named()}


def test_every_kind_is_described():
    for kind in _named().values():
        assert kind.one and kind.many and "\n" not in kind.describe()
        assert kind.describe().startswith(kind.one)


# What each kind refuses, beside what `_STRANGE` has.
WRONG: dict[str, list[Any]] = {
    "Accuracy": [1, "LOW", Opaque("<Other>"), Record("Other")],
    "AxisNames": ["i", 1, (1.5,), (None,)],
    "AxesByName": [{"i": 0}, ({"i": 0.5},), (("i", 0),)],
    "AxisSet": [1, "i"],
    "AxisSizes": [4, ("i", 4), {"i": "j"}],
    "Axis": [1.5, True, None, "0", (0,), 1 << 63],
    "Axes": [0, (1.5,), (True,), (None,), ((0,),)],
    "Flags": [True, (2,), (None,), ("True",)],
    "EachOperand": [True, (2,), (None,), ("True",)],
    "Bookkeeping": [],
    "Constants": [1, None],
    "ConvNumbers": [((0,), (1,)), Record("ConvDimensionNumbers", lhs_spec=(0,)), ((0,), (1,), 2)],
    "CopySemantics": ["ALWAYS", 7, True],
    "Destinations": [1, ("x", 1), (1,)],
    "Donated": [True, (2,)],
    "DotNumbers": [((0,), (1,)), (((0,), (1,)), ((), ()), ((), ())), (((0.5,), (1,)), ((), ()))],
    "PlainDotNumbers": [((0,), (1,)), (((0.5,), (1,)), ((), ()))],
    "DebugEffect": [1, (), {}, Word("GatherScatterMode.CLIP")],
    "InputType": [1, "float32", (), Opaque("<class 'int'>")],
    "ShardingRule": [1, (), {}, Record("Mesh")],
    "StaticArgs": [1, None, {}],
    "VmapMethod": ["parallel", 1, None, ()],
    "ElementTypeOrClass": ["float32", 1, Opaque("<class 'numpy.float32'>")],
    "EigenvalueAlgorithm": ["LU", 0],
    "EigenvalueLibrary": ["BLAS", 0],
    "Exported": [1, (), {}],
    "JsonText": [1, ()],
    "MemorySpaces": [1, (1,)],
    "FftType": ["DCT", 4, -1, True],
    "Function": [1, (), {}],
    "GatherNumbers": [(), Record("GatherDimensionNumbers", offset_dims=(0,))],
    "Dimension": [1.5, True, ()],
    "Groups": [(0, 1), ((0, 1.5),), 1],
    "IndexMode": ["wrap", 3, None, True],
    "Layout": [1, ()],
    "InLayouts": [1, (1,)],
    "OutLayouts": [1, (1,)],
    "LogRecord": [1, ()],
    "Indices": [0, (1.5,), ("a",)],
    "MappedAxes": [0, ("i",)],
    "MemorySpace": [1, ()],
    "Mesh": [1, (), {}],
    "NamedParams": [1, (("a", 1),), ((1, 2, 3),)],
    "Names": [1.5, (1.5,), None],
    "OperandType": [1, ()],
    "ValueType": [1, ()],
    "Options": [1, (1,), ((1.5, 2),)],
    "Padding": [(0, 0), ((0, 0, 0),), 1],
    "PaddingConfig": [((0, 0),), 1],
    "Pairs": [(0, 1), ((0, 1, 2),), ((0, 1.5),)],
    "Permutation": [0, (0.5,)],
    "Platforms": ["cpu", ("cpu",), ((1,),)],
    "Policy": [1, ()],
    "Precision": ["SOME", 1, ("HIGH",), ("HIGH", "SOME"), Record("Other")],
    "RaggedDotNumbers": [(), Record("RaggedDotDimensionNumbers", lhs_ragged_dimensions=(0,))],
    "RandomAlgorithm": ["RNG_BEST", 3],
    "RefIndex": [1, [1], ("[0]",), Opaque("[0]")],
    "RefType": [1, ()],
    "RoundingMethod": ["UP", 2, True],
    "Scalar": ["1", (), None],
    "ScatterNumbers": [(), Record("ScatterDimensionNumbers", update_window_dims=(0,))],
    "Selection": ["eq", 0],
    "Shape": [0, (1.5,), ("a",)],
    "Sharding": [1, (), {}],
    "InShardings": [1, (1,)],
    "OutShardings": [1, (1,)],
    "Size": [1.5, True, ()],
    "SolverJaxprs": [(), Record("_LinearSolveTuple", matvec=None)],
    "SolverLengths": [(), Record("_LinearSolveTuple", matvec=1)],
    "Specs": [1, {}],
    "Strides": [0, (1.5,)],
    "SvdAlgorithm": ["LU", 0],
    "Text": [1, ()],
    "Label": [1, ()],
    "TreeDef": [1, ()],
    "Types": [1, (1,)],
    "UnconstrainedDims": [1, (0,), frozenset({"a"})],
}
_STRANGE = [object(), 1j, b""]


@pytest.mark.parametrize("name", sorted(_named()))
def test_wrong_values_are_refused(name):
    kind = _named()[name]
    for value in WRONG[name]:
        assert not kind.fits(value), value
    refused = [v for v in _STRANGE if not kind.fits(v)]
    assert kind.unchecked or refused or name in ("Scalar", "Effect", "Function", "LogRecord")


def test_the_message_names_the_kind():
    text = "{ lambda ; a:f32[3]. let b:f32[3] = rev[dimensions=(True,)] a in (b,) }"
    with pytest.raises(
        jt.JaxprToolError, match=r"dimensions is \(True,\), and has to be a tuple of integers"
    ):
        jt.typecheck_jaxpr(jt.parse(text).jaxpr)


@pytest.mark.parametrize(
    "annotation, kind",
    [
        (int, INTEGER),
        (bool, BOOLEAN),
        (float, NUMBER),
        (str, NAME),
        (None, NOTHING),
        (jt.DType, ELEMENT_TYPE),
        (ClosedJaxpr, JAXPR),
        (tuple[int, ...], tuple_of(INTEGER)),
        (tuple[int, int], tuple_of_length(INTEGER, 2)),
        (int | None, either(INTEGER, NOTHING)),
        (numbers.Axes, AXES),
        (numbers.Axes | None, either(AXES, NOTHING)),
        (AXES, AXES),
        ("numbers.Axes | None", either(AXES, NOTHING)),
        ("tuple[numbers.Axis, ...]", tuple_of(AXIS)),
    ],
)
def test_annotations(annotation, kind):
    assert kind_of(annotation, {"numbers": numbers}) is kind


@pytest.mark.parametrize(
    "annotation, name",
    [
        (Any, "Any"),
        ("Any", "Any"),
        (Primitive, "jaxprtool.ir.primitive.Primitive"),
        ("Nowhere", "Nowhere"),
    ],
)
def test_annotations_that_say_nothing(annotation, name):
    kind = kind_of(annotation, {"Any": Any})
    assert isinstance(kind, Anything) and kind.name == name and kind.fits(object())


def test_a_primitive_of_a_user():
    @jt.primitive(name="test_kinds_user")
    def user(x, *, n: int, axes: tuple[int, ...] = (), kind: Any = None, mode: INDEX_MODE = "clip"):
        """x."""

    params = user.primitive.params
    assert [str(p.kind) for p in params.values()] == ["int", "tuple[int, ...]", "Any", "IndexMode"]
    assert [name for name, *_ in user.primitive.checked] == ["n", "axes", "mode"]


def test_kinds_read():
    assert ELEMENT_TYPE.read_text("float32") is FLOAT32 and ELEMENT_TYPE.read_text("x") is UNREAD
    assert either(ELEMENT_TYPE, NOTHING).read_text("f32 ") is FLOAT32
    assert tuple_of(ELEMENT_TYPE).read((Word("float32"), Word("x"))) == (FLOAT32, Word("x"))
    assert NAME.read_text(" <lambda> ") == "<lambda>" and TEXT.read_text(" a ") == " a "
    assert DOT_NUMBERS.read((([1], [0]), ([], []))) == (((1,), (0,)), ((), ()))
    assert DOT_NUMBERS.printed((((1,), (0,)), ((), ())), "jax") == (([1], [0]), ([], []))
    read = GATHER_NUMBERS.read(Record("GatherDimensionNumbers", offset_dims=[0]))
    assert read.fields == {
        "offset_dims": (0,),
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
    }
    value = (1, 2)
    assert AXES.read(value) is value and SHAPE.printed(value, "jax") is value


def test_members_of_enums():
    for value in (Word("GatherScatterMode.CLIP"), Word("CLIP"), "clip", 0):
        assert INDEX_MODE.member(value) == "CLIP"
    assert ROUNDING_METHOD.number(Word("TO_NEAREST_EVEN")) == 1
    assert INDEX_MODE.word("CLIP") == Word("GatherScatterMode.CLIP")
    assert PRECISION.fits((Word("Precision.HIGH"), None)) and PRECISION.fits(Word("TF32_TF32_F32"))


def test_names_of_choices():
    assert str(either(AXIS, NOTHING)) == "Axis | None"
    assert either(AXIS, AXIS) is AXIS
    assert str(either(either(AXIS, NOTHING), SHAPE)) == "Axis | None | Shape"
