"""What only releases up to one print, and nothing in the tables of spellings tells: sets of params, values, words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.earlier_types import has_named_axes
from jaxprtool.syntax.releases.spellings import Release

__all__ = ["EARLIER_WORDS", "LAST_SETS", "OLD_VALUES", "LastSet", "told_by_words"]


class LastSet(NamedTuple):
    """The params that a primitive had to a release, where one came then that says nothing of what is
    computed.

    An equation with exactly these is of that release or an earlier one.

    Attributes:
      params: their names.
      last: the release.
      value: one of them, and how its value begins, where later releases have the same params.
    """

    params: frozenset[str]
    last: Release
    value: tuple[str, str] = ("", "")


def _last(release: Release, params: str, key: str = "", start: str = "") -> LastSet:
    return LastSet(frozenset(params.split()), release, (key, start))


_OF_PARTITIONING = (
    "call decode_shardings in_tree infer_sharding_from_operands out_tree partition"
    " propagate_user_sharding"
)
_OF_PMAP = (
    "axis_name axis_size backend call_jaxpr devices donated_invars global_arg_shapes"
    " global_axis_size in_axes name out_axes"
)

LAST_SETS: dict[str, tuple[LastSet, ...]] = {
    "broadcast_in_dim": (_last((0, 4, 35), "broadcast_dimensions shape"),),
    "custom_partitioning": (
        _last((0, 4, 1), _OF_PARTITIONING.replace("decode_shardings ", "")),
        _last((0, 4, 11), _OF_PARTITIONING.replace("decode_shardings ", "") + " static_args"),
        _last((0, 4, 38), f"{_OF_PARTITIONING} static_args"),
    ),
    "device_put": (_last((0, 4, 6), "device"), _last((0, 4, 29), "device src")),
    "dot_general": (_last((0, 2, 8), "dimension_numbers precision", "dimension_numbers", "((("),),
    "eig": (_last((0, 4, 35), "compute_left_eigenvectors compute_right_eigenvectors"),),
    "eigh": (_last((0, 4, 20), "lower sort_eigenvalues"),),
    "io_callback": (_last((0, 4, 13), "callback ordered result_avals"),),
    "iota": (_last((0, 4, 34), "dimension dtype shape"),),
    "qr": (_last((0, 4, 38), "full_matrices"),),
    "reshape": (_last((0, 4, 35), "dimensions new_sizes"),),
    "scan": (_last((0, 4, 25), "jaxpr length linear num_carry num_consts reverse unroll"),),
    "svd": (_last((0, 4, 34), "compute_uv full_matrices subset_by_index"),),
    "xla_pmap": (
        _last((0, 4, 2), _OF_PMAP),
        _last((0, 4, 7), f"{_OF_PMAP} is_explicit_global_axis_size"),
    ),
}

# How the values of params begin that only releases to one of them print.
OLD_VALUES: dict[str, dict[str, tuple[str, Release]]] = {
    "device_put": {"devices": ("[", (0, 6, 0))},
    "round": {"rounding_method": ("RoundingMethod.", (0, 6, 0))},
    "custom_partitioning": {"static_args": ("[", (0, 6, 0))},
    "custom_lin": {"out_avals": ("[", (0, 6, 0))},
}
# What only releases to 0.4.38 print, or equations whose params tell.
EARLIER_WORDS = (
    *("<Precision.", ":void[", "=RoundingMethod.", "custom_partitioning[", "device_put[", "eig["),
    *("eigh[", "io_callback[", "xla_call[", "xla_pmap["),
)

# The jaxpr of a scatter that overwrites.
_OVERWRITES = pattern(
    r"update_jaxpr=\{ lambda\s+;\s(\w+)(?::\S+)? (\w+)(?::\S+)?\.\s+let\s+in \(\2,\) \}"
)
_LAST_OVERWRITING: Release = (0, 4, 13)
_NUMBERS_AS_TUPLES = pattern(r"(?<!\w)dot_general\[\s*dimension_numbers=\(\(\(")
_LAST_TUPLES: Release = (0, 4, 2)
_UNITS = pattern(r"(?<=\w):\*(?=[\s.])")
_LAST_UNITS: Release = (0, 3, 9)
_LAST_NAMED_AXES: Release = (0, 4, 30)  # in types
_LAST_PRECISIONS: Release = (0, 4, 21)  # by their `repr`


def told_by_words(text: str) -> Iterator[Release]:
    """Yield the last releases that print the words of a text."""
    if "dimension_numbers=(((" in text and _NUMBERS_AS_TUPLES.search(text):
        yield _LAST_TUPLES
    if "scatter[" in text and _OVERWRITES.search(text):
        yield _LAST_OVERWRITING
    if ":*" in text and _UNITS.search(text):
        yield _LAST_UNITS
    if has_named_axes(text):
        yield _LAST_NAMED_AXES
    if "<Precision." in text:
        yield _LAST_PRECISIONS
