"""Kinds of objects that exist only in a running JAX (functions, trees, effects, policies), and of
params that do not affect what is computed.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from jaxprtool.core.kinds.containers import NOTHING, Anything, EachOperandOf, Either, TupleOf
from jaxprtool.core.kinds.functions import NAME
from jaxprtool.core.kinds.numbers import BOOLEAN, ELEMENT_CLASS, TypeKind
from jaxprtool.core.kinds.printed import class_named, is_known, may_be_function
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.kinds import Kind, Style
from jaxprtool.ir.params import Opaque, ParamValue, PrintedArray, Record
from jaxprtool.ir.references import RefIndex as RefIndex_
from jaxprtool.ir.trees import TreeDefinition

__all__ = [
    "BOOKKEEPING",
    "Bookkeeping",
    "BookkeepingOf",
    "Constants",
    "Dictionary",
    "Exported",
    "Flags",
    "Function",
    "InputType",
    "JsonText",
    "JsonTextKind",
    "LogRecord",
    "NamedParams",
    "ObjectOfJax",
    "OperandType",
    "Options",
    "Policy",
    "RefIndex",
    "RefType",
    "ShardingRule",
    "StaticArgs",
    "TreeDef",
    "ValueType",
]


class BookkeepingKind(Anything):
    """Any values, for a param that says nothing about what is computed."""

    is_bookkeeping = True


class FlagsOfOperands(EachOperandOf):
    """A boolean per operand that affects how JAX computes, but not what is computed."""

    is_bookkeeping = True


class ValuesOfPython(TupleOf):
    """Tuples of any values, for a param that says nothing about what is computed."""

    is_bookkeeping = True


class BookkeepingOf(Either):
    """The union of some kinds, for a param that says nothing about what is computed."""

    def __init__(self, *parts: Kind, name: str):
        super().__init__(tuple(part for kind in parts for part in kind.parts), name)
        self.is_bookkeeping = True


class ObjectOfJax(Kind):
    """Objects of certain classes of a running JAX.

    A file holds only the text, which names the class.

    No rule reads their fields; objects whose fields rules read, such as the structure of a tree,
    have classes of their own.
    """

    def __init__(self, name: str, one: str, many: str, *, classes: str):
        super().__init__(name, one, many)
        self._classes = re.compile(classes)

    def fits(self, value: ParamValue) -> bool:
        return self._classes.fullmatch(class_named(value)) is not None or is_known(value)


class FunctionOfPython(Kind):
    """Functions and other callables of a running process; a file holds only their text."""

    def fits(self, value: ParamValue) -> bool:
        return may_be_function(value)


class StructureOfTrees(ObjectOfJax):
    """Structures of pytrees.

    Nodes of classes that hold functions (as in equinox and lineax) show the jaxprs of these.
    """

    shows_jaxprs = True

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, TreeDefinition) or super().fits(value)


class Dictionary(Kind):
    """Dicts, as JAX prints them: `{}`, `FrozenDict({})`."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, dict) or class_named(value) in ("FrozenDict", "mappingproxy")


class Option(Kind):
    """Pairs of a name or a position, and a value."""

    def fits(self, value: ParamValue) -> bool:
        return (
            isinstance(value, (tuple, list))
            and len(value) == 2
            and isinstance(value[0], (str, int))
        )


class NamedParam(Kind):
    """(name, leaves, PyTreeDef): a param of a composite operation."""

    prints_itself = False

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (tuple, list)) and len(value) == 3 and isinstance(value[0], str)

    def printed(self, value: ParamValue, style: Style) -> Any:
        if style == "jax" or not isinstance(value, tuple) or len(value) != 3:
            return value
        name, leaves, tree = value
        return name, _each_whole(leaves), tree


def _each_whole(leaves: Any) -> Any:
    return tuple([_whole(x) for x in leaves]) if isinstance(leaves, tuple) else leaves  # pyright: ignore[reportUnknownVariableType]


def _whole(leaf: Any) -> Any:
    """Return an array among attributes with all of its elements shown; anything else as it is."""
    inside = leaf.args[0] if isinstance(leaf, Record) and len(leaf.args) == 1 else None
    if not isinstance(inside, PrintedArray) or inside.exact:
        return leaf
    return Record(leaf.name, (inside.whole,))


class IndexOfReference(Kind):
    """Indices of references."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, RefIndex_)


class TypeOrText(TypeKind):
    """Types, which JAX prints with the long names of element types; any other text is kept as it is."""

    spelling = "type"
    prints_itself = False

    def fits(self, value: ParamValue) -> bool:
        return super().fits(value) or isinstance(value, (str, Opaque, Record))

    def printed(self, value: ParamValue, style: Style) -> Any:
        if not isinstance(value, ShapedArray):
            return value
        return Opaque(f"{'~' if value.weak_type else ''}{value.str_short()}")


class ShortType(TypeOrText):
    """Types as binders declare them, with the short names of element types."""

    def printed(self, value: ParamValue, style: Style) -> Any:
        return Opaque(repr(value)) if isinstance(value, ShapedArray) else value


class JsonTextKind(Kind):
    """JSON texts, which JAX prints as they are."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, str) and bool(value.strip())

    def printed(self, value: ParamValue, style: Style) -> Any:
        return Opaque(value) if isinstance(value, str) else value


BOOKKEEPING = BookkeepingKind("Bookkeeping")
FLAGS = FlagsOfOperands(BOOLEAN, name="Flags", note="JAX's bookkeeping")
FUNCTION = FunctionOfPython("Function", "a function of Python", "functions of Python")
TREE = StructureOfTrees("TreeDef", "a tree definition", "tree definitions", classes="PyTreeDef")
JSON_TEXT = JsonTextKind("JsonText", "a JSON text", "JSON texts")
EXPORTED = ObjectOfJax("Exported", "an exported program", "exported programs", classes="Exported")
POLICY = FunctionOfPython("Policy", "a policy", "policies", "which results are saved")
RECORD = ObjectOfJax("LogRecord", "a place in Python", "places in Python", classes="LogRecord")
OPTIONS = TupleOf(
    Option("Option", "a pair", "pairs"), name="Options", one="a tuple of pairs", note="name, value"
)

NAMED_PARAMS = TupleOf(
    NamedParam("NamedParam", "a named param", "(name, leaves, tree) triples"), name="NamedParams"
)
REF_INDEX = IndexOfReference(
    "RefIndex", "an index of a reference", "indices of references", "what of the cell is meant"
)
REF_TYPE = TypeOrText("RefType", "a type", "types")
VALUE_TYPE = TypeOrText("ValueType", "a type", "types", "of a result")
OPERAND_TYPE = ShortType("OperandType", "a type", "types", "of an operand")
CONSTANTS = TupleOf(
    Anything("Constant"), name="Constants", one="a tuple of values", note="of constants"
)

SHARDING_RULE = BookkeepingOf(
    ObjectOfJax("SdyShardingRule", "a sharding rule", "sharding rules", classes=r"\w*ShardingRule"),
    NAME,
    NOTHING,
    name="ShardingRule",
)
STATIC_ARGS = ValuesOfPython(Anything("value"), name="StaticArgs", one="a tuple of values")
INPUT_TYPE = BookkeepingOf(ELEMENT_CLASS, NOTHING, name="InputType")

Flags = Annotated[Any, FLAGS]
Bookkeeping = Annotated[Any, BOOKKEEPING]
Function = Annotated[Any, FUNCTION]
TreeDef = Annotated[Any, TREE]
JsonText = Annotated[Any, JSON_TEXT]
Exported = Annotated[Any, EXPORTED]
Policy = Annotated[Any, POLICY]
LogRecord = Annotated[Any, RECORD]
Options = Annotated[Any, OPTIONS]
NamedParams = Annotated[Any, NAMED_PARAMS]
ShardingRule = Annotated[Any, SHARDING_RULE]
StaticArgs = Annotated[Any, STATIC_ARGS]
InputType = Annotated[Any, INPUT_TYPE]
RefIndex = Annotated[RefIndex_, REF_INDEX]
RefType = Annotated[Any, REF_TYPE]
OperandType = Annotated[Any, OPERAND_TYPE]
ValueType = Annotated[Any, VALUE_TYPE]
Constants = Annotated[tuple[Any, ...], CONSTANTS]
