"""Questions to a lowered or compiled program: the operations in its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from jaxprtool.analyses.asking.called import Called
from jaxprtool.analyses.asking.items import Item, Match
from jaxprtool.analyses.asking.matching import fits
from jaxprtool.analyses.asking.mesh_groups import (
    axes_of_groups,
    axes_of_pairs,
    read_groups,
)
from jaxprtool.analyses.asking.stage_text import Operation
from jaxprtool.analyses.asking.subject import Subject
from jaxprtool.analyses.memory.kept import Kept
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.synonyms import OPERATIONS, close_names, meant
from jaxprtool.syntax.assertions.nodes import Pattern, TypePattern
from jaxprtool.syntax.patterns import pattern

__all__ = ["Staged"]

# The operations of StableHLO and HLO: the collectives, and the others.
_COLLECTIVES = """
all_gather all_reduce reduce_scatter all_to_all collective_permute collective_broadcast ragged_all_to_all
"""
_OTHERS = """
abs add and atan2 bitcast bitcast_convert broadcast broadcast_in_dim call case cbrt ceil ceiling cholesky clamp compare
complex composite concatenate conditional constant convert convolution copy cosine count_leading_zeros custom_call divide dot
dot_general dynamic_slice dynamic_update_slice exponential exponential_minus_one fft floor fusion gather get_tuple_element
infeed iota is_finite log log_plus_one logistic manual_computation map maximum minimum multiply negate not optimization_barrier
or outfeed outputs pad parameter partition_id popcnt power real recv reduce reduce_precision reduce_window remainder replica_id
reshape reverse rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter send
sharding_constraint shift_left sign sine slice sort sqrt subtract tan tanh topk transpose triangular_solve tuple while xor
"""
_LONGEST = 200
_PLACE = pattern(r"\[([^\[\]()]*:\d+:\d+)\]")
_OP_NAME = pattern(r'op_name="((?:[^"\\]|\\.)*)"')
_DIMENSIONS = ("dimensions", "all_gather_dim", "scatter_dimension", "split_dimension")
_NUMBER = pattern(r"\d+")


class _Item(Item):
    """An operation of a text, as patterns see it."""

    __slots__ = ("meshes", "of", "times", "title")

    def __init__(self, of: Operation, title: str, meshes: Sequence[Mapping[str, int]]):
        self.of, self.title, self.meshes, self.times = of, title, meshes, 1

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.of.name

    def types(self, of: str) -> Sequence[Any]:
        return self.of.ins if of == "in" else self.of.outs

    def names(self, of: str) -> Sequence[Called]:
        return [Called(None)] * len(self.types(of))

    def param(self, key: str) -> str | None:
        return self.of.attributes.get(key)

    @property
    def scope(self) -> str:
        """The name that the operation has from the program."""
        m = _OP_NAME.search(self.of.attributes.get("metadata", ""))
        return "" if m is None else m[1]

    def field(self, name: str) -> Any:
        attributes = self.of.attributes
        if name in ("scope", "primitive"):
            return self.scope if name == "scope" else self.name
        if name == "dimension":
            texts = [attributes[k] for k in _DIMENSIONS if k in attributes]
            numbers = _NUMBER.findall(texts[0].partition(":")[0]) if texts else []
            return int(numbers[0]) if len(numbers) == 1 and len(numbers[0]) < 20 else None
        if name == "target":
            return attributes.get("custom_call_target", attributes.get("call_target_name"))
        if name == "axis":
            return self.axes
        groups = self.groups
        if groups is None or name not in ("groups", "members"):
            return None
        return len(groups) if name == "groups" else max(map(len, groups), default=0) or None

    @property
    def groups(self) -> list[list[int]] | None:
        """Its groups of devices; None where it has none."""
        text = self.of.attributes.get("replica_groups")
        return None if text is None else read_groups(text)

    @property
    def axes(self) -> list[str]:
        """The axes of the mesh along which it communicates, where its groups lie along axes."""
        pairs = self.of.attributes.get("source_target_pairs")
        if pairs is not None:
            return axes_of_pairs(read_groups(pairs) or [], self.meshes)
        groups = self.groups
        return [] if groups is None else axes_of_groups(groups, self.meshes)

    def match(self) -> Match:
        text = self.of.text
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        places = _PLACE.findall(self.scope)
        return Match(None, 1, text, places[-1] if places else f"{self.title}:{self.of.line}")


class Staged(Subject):
    """A lowered or compiled program.

    Attributes:
      operations: the operations of its text.
      meshes: the meshes of the program: the size of each axis.
      figures: the figures that are known of it: `peak`, `flops`, ...; {} for a program that is not
        compiled.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        title: str,
        meshes: Sequence[Mapping[str, int]] = (),
        figures: Mapping[str, float] | None = None,
    ):
        super().__init__(title)
        self.operations, self.meshes, self.figures = operations, meshes, figures or {}

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(operation.name for operation in self.operations)

    def items(self, names: frozenset[str] | None, *, top: bool, contexts: bool) -> Iterator[Item]:
        for operation in self.operations:
            if names is None or operation.name in names:
                yield _Item(operation, self.title, self.meshes)

    def values(self, of: TypePattern, *, top: bool, contexts: bool) -> Iterator[Item]:
        for operation in self.operations:
            for out in operation.outs:
                if fits(of, out):
                    yield _Item(operation._replace(outs=[out]), self.title, self.meshes)

    def figure(self, name: str) -> float:
        if name == "equations":
            return len(self.operations)
        if name not in self.figures:
            known = ", ".join(["equations", *self.figures])
            message = f"{name} is not known of {self.title}"
            fail(UsageError, message, "expression", help=f"of it there are {known}")
        return self.figures[name]

    def figure_of(self, name: str, pattern: Pattern) -> float:
        if name != "bytes":
            message = f"{name} of operations is not known of {self.title}"
            help = f"bytes({pattern.text}) is the bytes of their results, on each device"
            fail(UsageError, message, "expression", help=help)
        found = self.find(pattern)
        return sum(t.nbytes for item in found for t in item.types("out"))

    def kept(self, policy: str) -> Sequence[Kept]:
        fail(UsageError, f"residuals are not known of {self.title}", "expression")

    # -- names ----------------------------------------------------------------------------------------

    def spelled(self, name: str) -> str:
        return name.replace("-", "_")

    def known(self) -> Iterable[str]:
        return dict.fromkeys([*_COLLECTIVES.split(), *_OTHERS.split(), *self.names])

    def by_word(self, name: str) -> list[str]:
        return [*_COLLECTIVES.split()] if name == "collective" else []

    def misnamed_value(self, name: str) -> tuple[str, str] | None:
        message = f"values of {self.title} have no names, so that nothing ever matches {name}"
        return message, "names are those of a program: leave --stage out"

    def misnamed(self, name: str) -> tuple[str, str]:
        said = meant(name, OPERATIONS)
        near = [said] if said else close_names(name, self.known())
        help = (
            f"did you mean {' or '.join(near)}?" if near else "names are those of HLO's operations"
        )
        return f"{self.title} has no operation {name}, so that nothing ever matches it", help
