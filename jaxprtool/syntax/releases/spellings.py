"""How each release of JAX since 0.6.2 prints the equations of a primitive: one table, for reading and for writing.

A row lists the changes by releases (`Spelling`). Texts are read by their contents, in the spelling
of any release; from the rows follows which releases print a spelling (`told_by`), and how to print
in the dialect of each (`Form`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from typing import Any, NamedTuple

from jaxprtool.core.primitive import declared_primitive
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import Opaque
from jaxprtool.syntax.releases.scan_trees import flat_trees, parts_of_trees

__all__ = [
    "DEFINITIONS",
    "EACH_LEAF",
    "LONG",
    "SIZES",
    "SPELLINGS",
    "TELLING",
    "TYPED_LITERALS",
    "TYPES",
    "WHOLE_CELLS",
    "Form",
    "Release",
    "Replaced",
    "Spelling",
    "bounds",
    "by_spelled_name",
    "forms_of",
    "no_param",
    "renamed",
    "replaced",
    "told_by",
]

Release = tuple[int, ...]
TYPES: Release = (0, 2, 22)  # since then binders have types, and jaxprs are laid out as today
TYPED_LITERALS: Release = (0, 6, 1)  # since then literals have types
WHOLE_CELLS: Release = (0, 8, 0)  # since then the index of a whole cell may be `...`; before, `:,:`
SIZES: Release = (0, 7, 1)  # since then no size of a shape is an operand
EACH_LEAF: Release = (0, 8, 2)  # since then a collective takes one leaf of a tree only
DEFINITIONS: Release = (0, 10, 2)  # since then long jaxprs are printed as definitions:
LONG = 10  # a long jaxpr has more equations than this
# (the params of an equation by their printed names, the equation) -> its params in another release.
Rewrite = Callable[[dict[str, Any], JaxprEqn], dict[str, Any]]


class Spelling(NamedTuple):
    """The changes that one release made in how the equations of a primitive are printed.

    Attributes:
      since: the release.
      name: the name of the primitive since then, where that is not its name here.
      called: the name before, where it was another.
      born: whether the release added the primitive.
      gone: whether the release removed it.
      renamed: our name of a param -> its name since then, where they differ.
      was: our name of a param -> its name before.
      added: params that were added, which are always printed, each with the value that says
        nothing.
      allowed: params that were added, and are printed as their declarations say, each with the
        value that says nothing.
      removed: params that were always printed and were removed, each with the value that says
        nothing.
      hidden: params that were always printed, and no longer are, since the types of the results
        imply them; the first of them always had a value.
      unless_none: params that were printed where they were not None, or did not exist; since then
        the declaration decides.
      rewrite: further changes since then.
      before: further differences before.
      stated: params that a lossless text of an earlier release always has: without them it would be
        read as the text of such a release.
      mutable: params that were lists or sets before, `devices=[None]`, and are tuples or frozen sets
        since then.
      first: whether the params that come first here do so since then; before, all were sorted by
        name.
      cannot: returns why an equation has no form before, "" where it has one.
      replaces: the earlier primitives, as which an equation is printed in earlier dialects if it was
        read as one of them; its own name where only the params were others.
    """

    since: Release
    name: str = ""
    called: str = ""
    born: bool = False
    gone: bool = False
    renamed: Mapping[str, str] = {}
    was: Mapping[str, str] = {}
    added: Mapping[str, Any] = {}
    allowed: Mapping[str, Any] = {}
    removed: Mapping[str, Any] = {}
    hidden: tuple[str, ...] = ()
    unless_none: tuple[str, ...] = ()
    rewrite: Rewrite | None = None
    before: Rewrite | None = None
    stated: tuple[str, ...] = ()
    mutable: tuple[str, ...] = ()
    first: bool = False
    cannot: Callable[[JaxprEqn], str] | None = None
    replaces: str = ""


class Replaced(NamedTuple):
    """An equation as its text had it, with a primitive or params that no later release has.

    Attributes:
      name: the name of the primitive.
      params: its params.
      new: the params that replace them.
    """

    name: str
    params: dict[str, Any]
    new: dict[str, Any]


# By the jaxpr that an equation calls: one that still has the new params is printed so in the dialects that have the old ones.
replaced = Memo[Replaced]("equation of an earlier release")


def _by_trees(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of a scan with `ft_in` and `ft_out` in the place of the counts.

    They are kept as they were read, where they still have these counts.
    """
    left = {k: v for k, v in params.items() if k not in ("num_consts", "num_carry")}
    consts, carry = (eqn.params.get(k) for k in ("num_consts", "num_carry"))
    if not isinstance(consts, int) or not isinstance(carry, int):
        return params  # ill-typed
    ins = consts, carry, len(eqn.inputs) - consts - carry
    outs = carry, len(eqn.out_binders) - carry
    if min(*ins, *outs) < 0:
        return params  # ill-typed: no trees have these counts
    for key, counts, last in (("ft_in", ins, "None"), ("ft_out", outs, "RightsOnly(Right(None))")):
        read = params.get(key)
        if read is None or parts_of_trees(read, len(counts)) != counts:
            left[key] = Opaque(flat_trees(counts, last))
    return left


def no_param(eqn: JaxprEqn) -> None:
    """The value that says nothing, for a param without a default: it is not printed."""


def _all_false(eqn: JaxprEqn) -> tuple[bool, ...]:
    return (False,) * len(eqn.inputs)


def _last_axis(eqn: JaxprEqn) -> int | None:
    operand = eqn.inputs[0].aval if eqn.inputs else None
    return operand.ndim - 1 if isinstance(operand, ShapedArray) else None


_NO_GROUPS = (Spelling((0, 8, 1), removed={"axis_index_groups": None}),)
_OUT_SHARDING = (Spelling((0, 11, 1), added={"out_sharding": None}),)
_SUM = (Spelling((0, 8), added={"out_sharding": None}),)

_ASYNCHRONOUS = (
    "all_to_all_start", "all_to_all_done", "pbroadcast_start", "pbroadcast_done", "ppermute_start", "ppermute_done",
    "psum_start", "psum_invariant_start", "psum_done", "reduce_scatter_start", "reduce_scatter_done", "unreduced_psum_start",
    "unreduced_reduce_scatter_start", "all_gather_reduced_start",
)  # fmt: skip
_STILL_TO_SUM = (
    "all_gather_reduced",
    "preduced",
    "unreduced_psum",
    "unreduced_reduce_scatter",
)


def _born(*release: int) -> tuple[Spelling, ...]:
    return (Spelling(release, born=True),)


SPELLINGS: dict[str, tuple[Spelling, ...]] = {
    # ---- calls and control flow
    "CustomRoot": _born(0, 12),
    "closed_call": (
        Spelling((0, 10), replaces="custom_dce_call"),
        Spelling((0, 11, 1), name="eval_jaxpr"),
    ),
    "custom_dce_call": (Spelling((0, 10), gone=True),),
    "composite": (Spelling((0, 11, 2), renamed={"jaxpr": "call_jaxpr"}),),
    "compute_on": (
        *_born(0, 8),
        Spelling((0, 10, 1), added={"compiler_options_json": None}),
    ),
    "custom_transpose_call": (Spelling((0, 10), gone=True),),
    "jit": (Spelling((0, 7), called="pjit"),),
    "linear_call": (Spelling((0, 10), replaces="custom_transpose_call"),),
    "scan": (
        Spelling((0, 10), removed={"_split_transpose": False, "linear": _all_false}),
        Spelling(
            (0, 11),
            added={"ft_in": no_param, "ft_out": no_param},
            removed={"num_carry": no_param, "num_consts": no_param},
            rewrite=_by_trees,
        ),
    ),
    "xla_metadata_value": _born(0, 7),
    # ---- several devices
    **dict.fromkeys(("all_gather_start", "all_gather_done"), _born(0, 9, 1)),
    **dict.fromkeys(_ASYNCHRONOUS, _born(0, 10)),
    "psum_invariant": _NO_GROUPS,
    "pvary": _NO_GROUPS,
    "reshard": (
        Spelling((0, 7, 2), replaces="mesh_cast"),
        Spelling((0, 8, 2), added={"concrete_mesh": None}),
        Spelling((0, 10), hidden=("dst_sharding", "concrete_mesh")),
    ),
    **dict.fromkeys(_STILL_TO_SUM, _born(0, 8, 1)),
    **dict.fromkeys(("precv", "psend"), _born(0, 7)),
    "reduced_vary_cast_p": (*_born(0, 8, 1), Spelling((0, 12), name="reduced_vary_cast")),
    "shard_alike": (Spelling((0, 12), gone=True),),
    "shard_map": (Spelling((0, 10, 2), was={"newly_manual_axes": "manual_axes"}),),
    **dict.fromkeys(("unreduced_pmax", "unreduced_pmin"), _born(0, 11, 1)),
    "vary_unreduced_cast_p": (*_born(0, 8, 1), Spelling((0, 12), name="vary_unreduced_cast")),
    # ---- shapes, products and reductions
    "broadcast_in_dim": (
        Spelling((0, 9, 1), hidden=("shape", "broadcast_dimensions", "sharding")),
        Spelling((0, 10), unless_none=("sharding",)),
    ),
    "conv_general_dilated": (Spelling((0, 7, 2), added={"out_sharding": None}),),
    "convert_element_type": (Spelling((0, 9, 1), unless_none=("sharding",)),),
    "dot_general": (Spelling((0, 10), unless_none=("out_sharding",)),),
    "ragged_dot_general": (Spelling((0, 10, 1), added={"out_sharding": None}),),
    "reduce_max": _OUT_SHARDING,
    "reduce_min": _OUT_SHARDING,
    "reduce_sum": _SUM,
    "scaled_dot": _born(0, 9, 1),
    "scatter-add": (
        Spelling((0, 7), added={"out_sharding": None}),
        Spelling((0, 7, 1), removed={"out_sharding": None}),
    ),
    "stack": _born(0, 10, 1),
    "tile": _born(0, 9),
    "unstack": _born(0, 10, 1),
    # ---- elements, sorting and matrices
    "eig": (
        Spelling((0, 8), added={"implementation": None}, removed={"use_magma": None}),
        Spelling((0, 10, 1), added={"enable_eigvec_derivs": False}),
    ),
    "eigh": (Spelling((0, 8, 1), added={"algorithm": None}),),
    **dict.fromkeys(("Frexp", "Ldexp", "Nonzero", "polynomial"), _born(0, 12)),
    "erfc": (Spelling((0, 12), added={"accuracy": None}, unless_none=("accuracy",)),),
    "log2": _born(0, 11, 2),
    **dict.fromkeys(("mulhi", "philox2x32", "philox4x32", "threefry4x32"), _born(0, 10, 2)),
    "one_minus_square": _born(0, 11, 2),
    "top_k": (
        Spelling((0, 8, 1), added={"axis": _last_axis}),
        Spelling((0, 11), added={"is_stable": True}),
    ),
    "ormqr": _born(0, 10),
    "SearchSorted": _born(0, 12),
    "tridiagonal_solve": (Spelling((0, 10), added={"perturb_singular": False}),),
    # ---- effects, references and kernels
    "dce_sink": (
        *_born(0, 7),
        Spelling((0, 10), added={"prevent_mlir_dce": False}),
    ),
    "debug_print": (
        *_born(0, 7, 2),
        Spelling((0, 8, 1), added={"logging_record": None}),
    ),
    "empty": _born(0, 7, 2),
    "empty2": (
        Spelling((0, 7, 2), called="empty"),
        Spelling((0, 8), added={"memory_space": None}),
    ),
    "empty_ref": (
        *_born(0, 9, 1),
        Spelling((0, 11, 1), added={"pin": False}),
    ),
    "free_ref": _born(0, 9, 1),
    "new_ref": (
        Spelling((0, 7), added={"memory_space": None}),
        Spelling((0, 7, 1), called="mutable_array"),
        Spelling((0, 7, 2), called="array_ref"),
        Spelling((0, 8, 1), added={"kind": None}),
        Spelling((0, 11, 1), added={"pin": False}),
    ),
    "pallas_call": (
        Spelling((0, 7), added={"metadata": None}),
        Spelling((0, 8, 1), added={"name": None}),
        Spelling((0, 9, 1), removed={"backend": None}),
    ),
    "reciprocal": (Spelling((0, 9, 2), added={"full_range": True}),),
}


def renamed(name: str) -> dict[str, str]:
    """Return the params of a primitive that releases since 0.8 name differently: their name -> our name."""
    found: dict[str, str] = {}
    for spelling in SPELLINGS[name]:
        for ours, theirs in (*spelling.renamed.items(), *spelling.was.items()):
            found[theirs] = ours
    return found


def _declared(name: str) -> Set[str]:
    """Return the names of the params with which a primitive is declared."""
    primitive = declared_primitive(name)
    return frozenset() if primitive is None else primitive.params.keys()


def told_by(name: str, found: Mapping[str, Any]) -> frozenset[tuple[str, Release]]:
    """Return the bounds on the release that an equation implies: ("since", release) and ("before", release).

    Args:
      name: the name of its primitive, as in the text.
      found: its params, as in the text.
    """
    return _told_by(name, (*found,), (*[k for k, v in found.items() if v is None],))


@lru_cache(maxsize=512)
def _told_by(
    name: str, found: tuple[str, ...], none: tuple[str, ...]
) -> frozenset[tuple[str, Release]]:
    """Return the bounds that follow from the names of the params, and from those that are None."""
    return frozenset(bounds(_SPELLED[name], name, frozenset(found), frozenset(none)))


def bounds(
    row: tuple[Spelling, ...], name: str, found: frozenset[str], none: frozenset[str]
) -> Iterator[tuple[str, Release]]:
    """Yield the bounds on the release that an equation implies, as `told_by`.

    Args:
      row: the changes of its primitive.
      name: the name of its primitive, as in the text.
      found: the names of its params, as in the text.
      none: the names of those that are None.
    """
    # Params that were added and later removed: a text without one may be of a release before or after.
    added = {k for s in row for k in s.added}
    passing = added & {k for s in row for k in s.removed}
    passing |= {k for s in row if not found >= {*s.hidden} - added for k in s.hidden}
    for spelling in row:
        since = spelling.since
        if spelling.gone or spelling.name not in ("", name) or spelling.called == name:
            yield "before", since
            continue
        if spelling.born or spelling.name or spelling.called:
            yield "since", since
            if not spelling.added:
                continue
        for ours, theirs in spelling.renamed.items():
            if ours in found or theirs in found:
                yield "before" if ours in found else "since", since
        for ours, theirs in spelling.was.items():
            if ours in found or theirs in found:
                yield "since" if ours in found else "before", since
        if not found.isdisjoint(spelling.allowed):
            yield "since", since
        if not none.isdisjoint(spelling.hidden):
            yield "before", since
        if spelling.hidden and found.isdisjoint(_names_of(spelling.hidden[0], row)):
            yield "since", since
        # One without any says nothing, where there were some before: the defaults of a text that a person wrote, who
        # would not use the name that a primitive had.
        if found or spelling.added.keys() == _declared(name) or name not in SPELLINGS:
            for key in spelling.added:
                if key in found or key not in passing:
                    yield "since" if key in found else "before", since
            if not found.isdisjoint(spelling.removed):
                yield "before", since
            elif spelling.added.keys() <= found and any(
                v is not no_param and k not in passing for k, v in spelling.removed.items()
            ):
                yield "since", since


def _names_of(key: str, row: tuple[Spelling, ...]) -> set[str]:
    """Return the names of a param in all releases."""
    return {key, *(s.was[key] for s in row if key in s.was)}


def by_spelled_name(table: Mapping[str, tuple[Spelling, ...]]) -> dict[str, tuple[Spelling, ...]]:
    """Return the rows of a table by all names of the primitives, of this release and of earlier ones."""
    found = dict(table)
    for row in table.values():
        for i, spelling in enumerate(row, 1):
            if spelling.name:
                found[spelling.name] = (spelling,)
            if spelling.called:
                found[spelling.called] = row[:i]
    return found


_SPELLED = by_spelled_name(SPELLINGS)
for _row in SPELLINGS.values():  # by the names of primitives that others replaced, too
    for _spelling in _row:
        for _name in _spelling.replaces.split():
            _SPELLED.setdefault(_name, (Spelling(_spelling.since, called=_name),))
# The names of primitives whose equations say something about the release.
TELLING = frozenset(_SPELLED)


class Form:
    """How a release prints the equations of one primitive.

    Attributes:
      name: its name of the primitive.
      has: whether it has the primitive.
      born: the first release that has it; (0,) where all have it.
      names: our name of a param -> its name, where they differ.
      lacks: params that it does not have, each with the value that says nothing.
      more: params that it prints where an equation has none: a value, or a function of the equation
        that returns one or None for none.
      shown: params that it always prints.
      unless_none: params that it prints where they are not None.
      printed: params that it prints whatever their values.
      rewrite: functions applied to the params last.
      sorted: whether all params are sorted by name.
      stated: params that a lossless text always has.
      mutable: params that it prints as lists or sets.
      others: the primitives as which it prints equations that were read as one of them.
      refusals: functions that return why it has no form for an equation, "" where it has one.
    """

    __slots__ = (
        *(
            "born",
            "has",
            "lacks",
            "more",
            "mutable",
            "name",
            "names",
            "others",
            "printed",
            "refusals",
        ),
        *("rewrite", "shown", "sorted", "stated", "unless_none"),
    )

    def __init__(self, name: str, release: Release, row: tuple[Spelling, ...]):
        self.name, self.has, self.sorted = name, True, False
        self.born: Release = next((s.since for s in row if s.born), (0,))
        self.names: dict[str, str] = {}
        self.lacks: dict[str, Any] = {}
        self.more: dict[str, Any] = {}
        self.shown: set[str] = set()
        self.unless_none: set[str] = set()
        self.rewrite: list[Rewrite] = []
        self.stated: set[str] = set()
        self.mutable: set[str] = set()
        self.others: set[str] = set()
        self.refusals: list[Callable[[JaxprEqn], str]] = []
        for spelling in row:
            if spelling.since <= release:
                self._follow(spelling)
        for spelling in reversed(row):
            if spelling.since > release:
                self._undo(spelling)
        self.shown -= self.lacks.keys()
        self.printed = {*self.shown, *self.more}.difference(self.lacks, self.unless_none)

    def nothing(self, key: str, eqn: JaxprEqn) -> Any:
        """Return the value that says nothing for a param that the release lacks."""
        found = self.lacks[key]
        return found(eqn) if callable(found) else found

    def _follow(self, spelling: Spelling) -> None:
        """Apply a change of this release, or an earlier one."""
        self.has &= not spelling.gone
        self.name = spelling.name or self.name
        if spelling.rewrite is not None:
            self.rewrite.append(spelling.rewrite)
        self.names.update(spelling.renamed)
        self.more.update(spelling.added)
        self.lacks.update(spelling.removed)
        for key in (*spelling.removed, *spelling.hidden, *spelling.unless_none):
            self.more.pop(key, None)

    def _undo(self, spelling: Spelling) -> None:
        """Revert a change of a later release; called from the last one on."""
        self.has &= not spelling.born
        self.name = spelling.called or self.name
        self.names.update(spelling.was)
        for key in spelling.added:
            self.more.pop(key, None)
        self.lacks.update(spelling.added)
        self.lacks.update(spelling.allowed)
        self.more.update(spelling.removed)
        self.shown.update(spelling.hidden)
        self.unless_none.update(spelling.unless_none)
        self.sorted |= spelling.first
        self.stated.update(spelling.stated)
        self.mutable.update(spelling.mutable)
        if spelling.before is not None:
            self.rewrite.append(spelling.before)
        if spelling.cannot is not None:
            self.refusals.append(spelling.cannot)
        if spelling.replaces:
            self.others = {*spelling.replaces.split()}

    def was(self, eqn: JaxprEqn) -> Replaced | None:
        """Return the form in which an equation was read, if its primitive is one of `others`; else None."""
        if not self.others:
            return None
        found: Replaced | None = getattr(eqn.params, "was", None)
        if found is None:
            held = (v for v in eqn.params.values() if isinstance(v, ClosedJaxpr))
            found = next((p for c in held if (p := replaced.find(c)) is not None), None)
            same = found is None or all(eqn.params.get(k) == v for k, v in found.new.items())
            found = found if same else None
        return None if found is None or found.name not in self.others else found

    def name_of(self, eqn: JaxprEqn) -> str:
        """Return the release's name for the primitive of an equation."""
        was = self.was(eqn)
        return self.name if was is None else was.name

    @property
    def is_ours(self) -> bool:
        """Whether the release prints the primitive as our declaration says."""
        changed = self.names or self.lacks or self.more or self.shown or self.unless_none
        changed = (
            changed or self.rewrite or self.others or self.sorted or self.stated or self.mutable
        )
        return not (changed or self.refusals)


def forms_of(release: Release, earlier: Mapping[str, tuple[Spelling, ...]]) -> dict[str, Form]:
    """Return the forms of the primitives that a release names differently, lacks, or prints
    differently from our declaration.

    Args:
      release: the release.
      earlier: rows of changes before those of `SPELLINGS`, for one of the earlier releases.
    """
    names = dict.fromkeys((*SPELLINGS, *earlier))
    rows = {name: (*earlier.get(name, ()), *SPELLINGS.get(name, ())) for name in names}
    forms = {name: Form(name, release, row) for name, row in rows.items()}
    return {k: f for k, f in forms.items() if not f.is_ours or f.name != k or not f.has}
