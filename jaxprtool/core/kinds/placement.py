"""Kinds of params that place values: named axes, meshes, partition specs, shardings, layouts, memories, devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from jaxprtool.core.kinds.containers import NOTHING, EachOperandOf, EachResultOf, TupleOf, either
from jaxprtool.core.kinds.enums import EnumKind
from jaxprtool.core.kinds.numbers import BOOLEAN, INTEGER, PAIR
from jaxprtool.core.kinds.printed import class_named, is_known
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import Opaque, ParamValue, Record, Word
from jaxprtool.ir.placement import Placement
from jaxprtool.ir.sharding import Mesh as Mesh_
from jaxprtool.ir.sharding import PartitionSpec

__all__ = [
    "AxesByName",
    "AxisNames",
    "AxisSet",
    "AxisSizes",
    "Destinations",
    "Donated",
    "Groups",
    "InLayouts",
    "InShardings",
    "Layout",
    "MappedAxes",
    "MemorySpace",
    "MemorySpaces",
    "Mesh",
    "Names",
    "OutLayouts",
    "OutShardings",
    "Pairs",
    "Platforms",
    "Sharding",
    "Specs",
    "UnconstrainedDims",
    "numbers_of_names",
]


class AxisName(Kind):
    """Names of axes.

    JAX accepts any object; a text holds words, objects in angle brackets, and positions.
    """

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (str, Opaque)) or INTEGER.fits(value)

    def given(self, value: Any) -> Any:
        return INTEGER.given(value)


class NameOrNames(Kind):
    """The name of an axis, or several."""

    def fits(self, value: ParamValue) -> bool:
        return AXIS_NAME.fits(value) or AXIS_NAMES.fits(value)


class PlatformName(Kind):
    """Tuples of names of platforms; None stands for any platform."""

    def fits(self, value: ParamValue) -> bool:
        return value is None or (
            isinstance(value, (tuple, list)) and all(isinstance(n, str) for n in value)
        )


class Described(Kind):
    """Records with certain names, or other objects of which only the text is known, which names the class.

    Of a sharding, rules read the mesh, the partition spec and the memory, which are fields of a
    record. No rule looks into GSPMD shardings (`GSPMDSharding({replicated})`), devices and layouts,
    which are kept as text and printed.
    """

    def __init__(
        self, name: str, one: str, many: str, note: str = "", *, classes: str, texts: str = "(?!)"
    ):
        super().__init__(name, one, many, note)
        self._classes, self._texts = re.compile(classes), re.compile(texts)

    def fits(self, value: ParamValue) -> bool:
        if self._classes.fullmatch(class_named(value)) or is_known(value):
            return True
        return isinstance(value, (Opaque, Word)) and self._texts.match(str(value)) is not None


class ShardingKind(Described):
    """Shardings, and the parts of types that say over which mesh axes values are split."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (Placement, PartitionSpec)) or super().fits(value)


class MeshKind(Kind):
    """Meshes."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, Mesh_)


class SpecKind(Kind):
    """Partition specs."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, PartitionSpec)


class AxisSetKind(Kind):
    """Sets of names of axes."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (frozenset, set)) or AXIS_NAMES.fits(value)


class NumbersOfNames(Kind):
    """Axis name -> number, as JAX prints them: `FrozenDict({'i': 0})`."""

    def fits(self, value: ParamValue) -> bool:
        found = numbers_of_names(value)
        return found is not None and all(map(INTEGER.fits, found.values()))


def numbers_of_names(value: ParamValue) -> Mapping[Any, int] | None:
    """Return the mapping axis name -> number that a param holds; None for another value."""
    if isinstance(value, Record) and value.name == "FrozenDict" and len(value.args) == 1:
        (value,) = value.args
    return value if isinstance(value, Mapping) else None


class SetOfIntegers(Kind):
    """Sets of integers."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (frozenset, set)) and all(map(INTEGER.fits, value))


AXIS_NAME = AxisName("AxisName", "a name", "names")
AXIS_NAMES = TupleOf(
    AXIS_NAME, name="AxisNames", note="names of axes, or positions of the operand's"
)
NAMES = NameOrNames("Names", "a name, or a tuple of names", "names", "of axes")
GROUPS = TupleOf(
    TupleOf(INTEGER), name="Groups", one="a tuple of tuples of integers", note="groups of members"
)
PAIRS = TupleOf(PAIR, name="Pairs", one="a tuple of pairs of integers")
PLATFORMS = TupleOf(
    PlatformName("Platform", "a tuple of names", "tuples of names"),
    name="Platforms",
    one="a tuple of tuples of names",
    note="of platforms, None for any",
)

NUMBERS_OF_NAMES = NumbersOfNames(
    "AxisSizes", "a dict of integers by names", "dicts of integers by names", "of axes"
)

MESH = MeshKind("Mesh", "a mesh", "meshes", "names and sizes of the axes of a grid of devices")
SPECS = TupleOf(SpecKind("Spec", "a partition spec", "partition specs"), name="Specs")
# The last are texts of HLO: `{devices=[2,1]0,1}`, and before JAX 0.4 `type: REPLICATED`.
SHARDING = ShardingKind(
    "Sharding",
    "a sharding",
    "shardings",
    "the devices that have each part",
    classes=r"\w*(?:Sharding|Spec|Format|Layout|UnspecifiedValue)",
    texts=r"UnspecifiedValue|\{(?:\{|replicated|maximal|manual|unknown|unreduced|devices)|type: [A-Z]",
)
LAYOUT = Described(
    "Layout",
    "a layout",
    "layouts",
    "the order in memory of the elements",
    classes=r"\w*(?:Layout|Format)",
)
MEMORY = EnumKind("Memory", ("Device", "Host", "Any"), enum="MemorySpace")
# Kernels have spaces of other enums, which print as words (`vmem`).
MEMORY_SPACE = Described(
    "MemorySpace",
    "a memory space",
    "memory spaces",
    classes=r"(?:\w*Memory)?Space",  # `Space.Host` to 0.9, `MemorySpace.Host` since
    texts=r"(?!\w*(?:int|float)\d)[a-z_]+\Z",
)
_DEVICE = Described(
    "Device",
    "a device",
    "devices",
    classes=r"\w*Device|\w+_\d+|TransferToMemoryKind",
    texts=r"[a-z]+:\d+\Z|[A-Z]\w*_\d+\Z",
)
DESTINATION = either(_DEVICE, MEMORY_SPACE, SHARDING, LAYOUT, name="Destination")
AXIS_SET = AxisSetKind("AxisSet", "a set of names", "sets of names", "of axes of the mesh")
SET_OF_DIMS = SetOfIntegers("UnconstrainedDims", "a set of integers", "sets of integers")

AxisNames = Annotated[tuple[Any, ...], AXIS_NAMES]
Names = Annotated[Any, NAMES]
Groups = Annotated[Any, GROUPS]
Pairs = Annotated[Any, PAIRS]
Platforms = Annotated[Any, PLATFORMS]
Mesh = Annotated[Mesh_, MESH]
Specs = Annotated[Any, SPECS]
AxisSet = Annotated[Any, AXIS_SET]
Sharding = Annotated[Any, SHARDING]
_ONE_SHARDING = either(SHARDING, NOTHING)
InShardings = Annotated[Any, EachOperandOf(_ONE_SHARDING, name="InShardings")]
OutShardings = Annotated[Any, EachResultOf(_ONE_SHARDING, name="OutShardings")]
Layout = Annotated[Any, LAYOUT]
_ONE_LAYOUT = either(LAYOUT, NOTHING)
InLayouts = Annotated[Any, EachOperandOf(_ONE_LAYOUT, name="InLayouts")]
OutLayouts = Annotated[Any, EachResultOf(_ONE_LAYOUT, name="OutLayouts")]
MemorySpace = Annotated[Any, MEMORY_SPACE]
MemorySpaces = Annotated[Any, TupleOf(MEMORY_SPACE, name="MemorySpaces")]
Destinations = Annotated[Any, TupleOf(either(DESTINATION, NOTHING), name="Destinations")]
UnconstrainedDims = Annotated[Any, SET_OF_DIMS]
Donated = Annotated[Any, EachOperandOf(BOOLEAN, name="Donated")]
AxisSizes = Annotated[Any, NUMBERS_OF_NAMES]
AxesByName = Annotated[Any, TupleOf(NUMBERS_OF_NAMES, name="AxesByName")]
MappedAxes = Annotated[Any, TupleOf(either(INTEGER, NOTHING), name="MappedAxes")]
