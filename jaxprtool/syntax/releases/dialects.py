"""The dialects of JAX's printer: how each release since 0.1.70 writes a program.

A dialect is recognised while a text is read, and recorded with the program: it is printed back as
it was written. A program that was made anew is in the dialect of the installed JAX, which is found
without importing it, or else of the newest known release.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec

from jaxprtool.core.primitive import known_primitive
from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.diagnostics import Diagnostic, UnsupportedError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive
from jaxprtool.ir.placement import Placement
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.origins import Annotating
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.earlier_params import WAYS_TO_COPY
from jaxprtool.syntax.releases.earlier_spellings import EARLIER_SPELLINGS, without_batching_dims
from jaxprtool.syntax.releases.earlier_types import (
    ITEMS,
    NUMPYS,
    TAGGED,
    has_numbers,
    has_tags,
    has_types,
    is_not_numpys,
    told_by_types,
    type_in,
)
from jaxprtool.syntax.releases.source_release import source_release
from jaxprtool.syntax.releases.spellings import (
    DEFINITIONS,
    EACH_LEAF,
    TYPED_LITERALS,
    TYPES,
    WHOLE_CELLS,
    Form,
    Release,
    forms_of,
)

__all__ = [
    "ANNOTATES_BELOW",
    "BLANK_TUPLES",
    "NEWEST",
    "RECOGNISED",
    "RELEASES",
    "Dialect",
    "dialect_in",
    "dialect_of",
    "find_dialect",
    "installed",
    "knows_inner_drops",
    "recognised",
    "refuse_unsayable",
    "says_all",
    "unsayable",
]

# The releases whose print is known. A text of an earlier one is read, and upgraded.
RELEASES: tuple[Release, ...] = (
    *[(0, 1, n) for n in range(70, 78)], *[(0, 2, n) for n in range(29)], *[(0, 3, n) for n in range(26)], *[(0, 4, n) for n in range(1, 39)], (0, 5, 0), (0, 5, 1), (0, 5, 2), (0, 5, 3), (0, 6, 0), (0, 6, 1),
    (0, 6, 2), (0, 7, 0), (0, 7, 1), (0, 7, 2), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 8, 3), (0, 9, 0), (0, 9, 1), (0, 9, 2),
    (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11, 0), (0, 11, 1), (0, 11, 2), (0, 12, 0),
)  # fmt: skip
# The first release that the params in a text tell alone. One of an earlier release is told by literals without types
# (`building.spelled.earlier_dialect`); where nothing tells it, it is printed as this one does.
RECOGNISED: Release = (0, 6, 2)
_SHARES, _FOLLOWS = (0, 4, 22), (0, 5, 3)
ANNOTATES_BELOW = (0, 10, 1)
# The first releases with the words of today for ways to copy, for partition specs and for sets.
_COPY_SEMANTICS, _PARTITION_SPEC, _SORTED_SETS = (0, 7, 2), (0, 9, 1), (0, 10, 1)
_KIND_OF_SUM: Release = (0, 11, 1)
_PRINTER_DROPS = (0, 10, 1)
BLANK_TUPLES: Release = (0, 1, 77)
_MEMORY: tuple[Release, Release] = ((0, 4, 24), (0, 7))


@dataclass(frozen=True)
class Dialect:
    """How one release of JAX writes programs.

    Attributes:
      release: the release.
      forms: the forms of primitives that it names differently, lacks, or prints differently from
        our declaration.
      long_jaxprs_above: whether a jaxpr with more than ten equations is printed as a definition.
      writes_out_later: whether a definition writes out the definitions that stand after it, instead
        of naming them.
      names_inner_drops: whether unread results have names in inner jaxprs (not `_`).
    """

    release: Release
    forms: dict[str, Form] = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """`jax-0.10.2`."""
        return "jax-" + ".".join(map(str, self.release))

    @functools.cached_property
    def called(self) -> frozenset[str]:
        """The primitives that may be printed by another name than ours."""
        return frozenset(n for n, form in self.forms.items() if form.name != n or form.others)

    @property
    def long_jaxprs_above(self) -> bool:
        return self.release >= DEFINITIONS

    @property
    def writes_out_later(self) -> bool:
        return self.release < DEFINITIONS

    @property
    def names_inner_drops(self) -> bool:
        return self.release >= _PRINTER_DROPS

    @property
    def is_classic(self) -> bool:
        """Whether texts have no types, hanging indents, and names that begin at `a` in each jaxpr."""
        return self.release < TYPES

    @property
    def blank_tuples(self) -> bool:
        """Whether an empty tuple is printed with blanks in it."""
        return self.release >= BLANK_TUPLES

    @property
    def types_literals(self) -> bool:
        """Whether a literal is printed with its type."""
        return self.release >= TYPED_LITERALS

    @property
    def in_memory(self) -> bool:
        """Whether the references of kernels are printed with a memory space, `MemRef<None>{float32[8]}`."""
        return _MEMORY[0] <= self.release < _MEMORY[1]

    @property
    def names_axes(self) -> bool:
        """Whether types have named axes, `f32[3;i:4]`."""
        return TYPES <= self.release < ITEMS

    @property
    def printed_by_numpy(self) -> Callable[[object], bool] | None:
        """Return which types have literals that are printed as NumPy's scalars; None for none."""
        if self.release < ITEMS:
            return is_not_numpys
        return has_numbers if NUMPYS[0] <= self.release < NUMPYS[1] else None

    @property
    def follows_calls(self) -> bool:
        """Whether the arguments of a jit have the names of the call's operands; arguments of other
        jaxprs have new names.
        """
        return self.release >= _FOLLOWS

    @property
    def has_definitions(self) -> bool:
        """Whether a jaxpr that occurs more than once is printed as a definition."""
        return self.release >= _SHARES

    @property
    def binds_nothing(self) -> bool:
        """Whether an equation without results begins with ` = `."""
        return self.release < _SHARES

    @property
    def writes_colons(self) -> bool:
        """Whether the index of a whole cell has a colon for each dimension."""
        return self.release < WHOLE_CELLS

    @property
    def joins_leaves(self) -> bool:
        """Whether a collective takes all leaves of a tree in one equation."""
        return self.release < EACH_LEAF

    @property
    def annotating(self) -> Annotating:
        """How annotations are printed."""
        beside = TYPED_LITERALS <= self.release < ANNOTATES_BELOW
        return Annotating(beside, self.is_classic, self.binds_nothing)

    @property
    def layout(self) -> tuple[bool, ...]:
        """The properties on which names and definitions depend."""
        return self.long_jaxprs_above, self.names_inner_drops, self.follows_calls

    def type_text(self, aval: AbstractType) -> str:
        """Return the text of a type in this release."""
        return str(aval) if self.release >= TAGGED else type_in(self.release, aval)

    def respell(self, text: str) -> str:
        """Return the text of a param's value with this release's words for sets, partition specs
        and copy semantics.
        """
        if self.release < _COPY_SEMANTICS and "ArrayCopySemantics." in text:
            for i, (then, now) in enumerate(WAYS_TO_COPY.items(), 1):
                text = text.replace(f"ArrayCopySemantics.{now}", f"<CopySemantics.{then}: {i}>")
        if self.release < _PARTITION_SPEC:
            if "P(" in text:
                text = _SPEC.sub("PartitionSpec(", text)
        elif "PartitionSpec(" in text:
            text = _LONG_SPEC.sub("P(", text)
        if "unreduced={" in text:
            text = text.replace(_SUM, "")
            if self.release >= _KIND_OF_SUM:
                text = _UNREDUCED.sub(rf"\g<0>{_SUM}", text)
        if self.release < _SORTED_SETS and "frozenset({})" in text:
            text = text.replace("frozenset({})", "frozenset()")
        if self.release < _SHARES and "Precision." in text:
            text = _PRECISION.sub(_numbered_in_jaxlib if self.is_classic else _numbered, text)
        return without_batching_dims(self.release, text)


_PRECISION = pattern(r"(?<=[(\s])Precision\.(DEFAULT|HIGHEST|HIGH)(?=[,)])")
_PRECISIONS = ("DEFAULT", "HIGH", "HIGHEST")


def _numbered(m: re.Match[str]) -> str:
    """Return a member of an enum as Python shows it."""
    return f"<{m[0]}: {_PRECISIONS.index(m[1])}>"


def _numbered_in_jaxlib(m: re.Match[str]) -> str:
    """Return the same for an enum of jaxlib, as which it was printed to 0.2.21."""
    return f"<PrecisionConfig_{_numbered(m)[1:]}"


_SUM = ", unreduced_kind=sum"
_UNREDUCED = pattern(r"unreduced=\{[^{}]*\}(?:, reduced=\{[^{}]*\})?(?!, unreduced_kind)")
_SPEC, _LONG_SPEC = pattern(r"(?<![\w.])P\("), pattern(r"(?<![\w.])PartitionSpec\(")


@functools.cache
def dialect_in(release: Release) -> Dialect:
    """Return the dialect of a release, one of `RELEASES`."""
    earlier = EARLIER_SPELLINGS if release < RECOGNISED else {}
    return Dialect(release, forms_of(release, earlier))


NEWEST = "jax-" + ".".join(map(str, RELEASES[-1]))
_NAME = pattern(r"jax-(\d{1,4}(?:\.\d{1,4}){1,3})")


@functools.cache
def find_dialect(name: str) -> Dialect:
    """Return the dialect of a name, `jax-0.10.2`; `jax-0.10` stands for the last release of its series.

    Raises:
      UsageError: no dialect has this name.
    """
    m = _NAME.fullmatch(name)
    release = tuple(map(int, m[1].split("."))) if m else ()
    series = [r for r in RELEASES if r[: len(release)] == release[:3]]
    if not release or not series:
        first, last = RELEASES[0], RELEASES[-1]
        names = [f"jax-{a}.{b}" for a, b in sorted({r[:2] for r in RELEASES})]
        why = "older ones are read, and not written" if () < release < first else ""
        why = why or ("it is newer than this jaxprtool" if release > last else "")
        message = f"no dialect {name!r}" + (f": {why}" if why else "")
        help = (
            f"the dialects are {', '.join(names)}, and those of their releases, such as jax-0.10.2"
        )
        fail(UsageError, message, "no-dialect", help=help)
    return dialect_in(series[-1])


def _nearest(release: Release) -> Dialect:
    """Return the dialect of the last known release that is not later than `release`."""
    return dialect_in(max([r for r in RELEASES if r <= release], default=RECOGNISED))


_DIST_INFO = pattern(r"jax-(\d+(?:\.\d+)*)[^-]*\.dist-info")


def _is_meant(primitive: Primitive, form: Form) -> bool:
    """Whether a form is about the primitive of an equation, not about another one with this name.

    An object of a running JAX that prints under the name of one of our primitives is another
    primitive.
    """
    return primitive.known or not (form.has or known_primitive(primitive.name) is None)


def refuse_unsayable(program: ClosedJaxpr, dialect: Dialect) -> None:
    """Raise UnsupportedError where a release cannot express a program, with a diagnostic for each such place."""
    wrong: list[Diagnostic] = []
    for eqn in all_eqns(program.jaxpr):
        if what := unsayable(eqn, dialect):
            message = f"{dialect.name} cannot say this: {what}"
            help = f"write it in a later dialect, such as {NEWEST}"
            wrong.append(Diagnostic(message, "not-in-dialect", eqn.span, help))
    if wrong:
        raise UnsupportedError(wrong)


def says_all(programs: Iterable[ClosedJaxpr], name: str) -> bool:
    """Whether a dialect can express programs.

    Raises UsageError where no dialect has this name.
    """
    dialect = find_dialect(name)
    return not any(unsayable(eqn, dialect) for p in programs for eqn in all_eqns(p.jaxpr))


def unsayable(eqn: JaxprEqn, dialect: Dialect) -> str:
    """Return why a release cannot express an equation, "" where it can."""
    form = dialect.forms.get(eqn.primitive.name)
    if form is None or not _is_meant(eqn.primitive, form) or form.was(eqn) is not None:
        return ""
    if not form.has:
        born = ".".join(map(str, form.born))
        came = f"; it came with JAX {born}" if form.born > dialect.release else ""
        return f"{eqn.primitive} is no primitive there{came}"
    what = next(filter(None, (refuse(eqn) for refuse in form.refusals)), "")
    for key in form.lacks:
        value, declared = eqn.params.get(key), eqn.primitive.params.get(key)
        if what or declared is None or declared.kind.is_bookkeeping or form.rewrite:
            continue
        if value is not None and value != form.nothing(key, eqn):
            what = f"{eqn.primitive} has no param {key} there, which is {value}"
    for key in form.shown:
        if not what and isinstance(eqn.params.get(key), Placement):
            what = f"{eqn.primitive} has the param {key} there, of which only the type is known"
    return what


@functools.cache
def installed() -> Dialect:
    """Return the dialect of the installed JAX, or of the newest known release where none is installed.

    JAX is not imported.
    """
    found = _NAME.match("jax-" + _installed_version())
    if found is None:
        return find_dialect(NEWEST)
    return _nearest(tuple(map(int, found[1].split("."))))


def _installed_version() -> str:
    """Return the version of the installed JAX, "" for none, from the name of its metadata folder."""
    loaded = getattr(sys.modules.get("jax"), "__version__", "")
    if loaded:
        return loaded
    try:
        spec = find_spec("jax")
    except Exception:  # raised by an import hook, since nothing of JAX has run
        return ""
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = os.path.dirname(place)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if m := _DIST_INFO.fullmatch(name):
                return m[1]
    return _version_of_metadata() if spec is not None else ""


def _version_of_metadata() -> str:
    metadata = import_module("importlib.metadata")  # slow to import, and almost never needed
    try:
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        return ""


def dialect_of(program: ClosedJaxpr) -> Dialect:
    """Return the dialect that a program was read in; for a program made anew, that of the installed JAX."""
    written = program.jaxpr.written
    return find_dialect(written.dialect) if written is not None and written.dialect else installed()


def knows_inner_drops(program: ClosedJaxpr) -> bool:
    """Whether a program was read in a dialect that prints unread results of inner jaxprs as `_`.

    Such a program shows which of these results JAX drops.
    """
    written = program.jaxpr.written
    if written is None or not written.dialect:
        return False
    return not find_dialect(written.dialect).names_inner_drops


def recognised(text: str, told: Iterable[tuple[str, Release]]) -> Dialect:
    """Return the dialect of a text: that of the last release that prints it in this way.

    A text without any sign is in the newest dialect, and the text of a release before 0.6.2 in that
    of 0.6.2: `building.spelled.earlier_dialect` recognises earlier ones.

    Args:
      text: the text.
      told: the bounds on the release that its equations imply, as from `spellings.told_by`. A
        release that the user names goes before these.
    """
    if given := source_release():
        return _nearest(given)
    since, before = set[Release]([(0,)]), set[Release]()
    for bound, release in (*told, *told_by_types(text)):
        (since if bound == "since" else before).add(release)
    if "<CopySemantics." in text:
        before.add(_COPY_SEMANTICS)
    if "unreduced_kind=" in text:
        since.add(_KIND_OF_SUM)
    elif "unreduced={" in text:
        before.add(_KIND_OF_SUM)
    if "PartitionSpec(" in text:
        before.add(_PARTITION_SPEC)
    # Structures of trees hold `frozenset()` in each release.
    if "=frozenset()" in text and "frozenset({})" not in text:
        before.add(_SORTED_SETS)
    last = min((r for r in before if r > max(since)), default=None)
    later = RELEASES[RELEASES.index(RECOGNISED) :]
    tagged = has_tags(text)
    fit = [r for r in later if (last is None or r < last) and has_types(r, tagged)]
    return dialect_in(fit[-1] if fit else RECOGNISED)
