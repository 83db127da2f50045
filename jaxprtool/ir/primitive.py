"""Primitives: the operations of equations, as `ops` declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxprtool.ir.declaration import REQUIRED, Param
from jaxprtool.ir.frozen import Frozen, FrozenDict, amend, itself, set_field

__all__ = ["NO_PARAMS", "Params", "Primitive", "Signature"]


class Params(FrozenDict[str, Any]):
    """The params of an equation, by name; a dict that does not change."""

    __slots__ = ()


class ReadParams(Params):
    """Params that the text of the equation spells in another way.

    Attributes:
      was: the equation as its text has it.
    """

    __slots__ = ("was",)
    was: Any

    def __init__(self, params: Mapping[str, Any], was: Any):
        super().__init__(params)
        object.__setattr__(self, "was", was)

    def __reduce__(self) -> tuple[Any, ...]:
        return Params, (dict(self),)  # what a process hands to another one is printed anew


NO_PARAMS = Params()


class Signature(NamedTuple):
    """The operands and params that a stub declares.

    Attributes:
      operands: names of the operands; a last one that starts with `*` takes any number.
      params: the declaration of each param, by name.
      index_from: position of the first operand that is an index.
      doc: the mathematics, with a line for each param.
      open: whether an equation has further params, of any name.
    """

    operands: tuple[str, ...] = ()
    params: Mapping[str, Param] = NO_PARAMS
    index_from: int = 1 << 30
    doc: str = ""
    open: bool = False


class Primitive(Frozen):
    """An operation: a name, and what its stub in `ops` declares.

    Rules live in the interpreters' tables.

    The operands and params in the stub are read on first access, since a program uses few of the
    declared primitives.

    Attributes:
      name: the name as it is printed.
      operands: names of the operands; a last one that starts with `*` takes any number.
      index_from: position of the first operand that is an index (a bare int there is i32).
      params: the declaration of each param, by name, in the order of the stub.
      multiple_results: whether `bind` returns a list (of any length) or a single value.
      known: False for a name that was read in a text and that nobody declared.
      doc: the mathematics.
      stub: the function that declares it; None for an undeclared name.
      one_type: whether all operands have one element type; Python scalars among them take it too.
      notation: the notation of its equations: "read" (`a <- r[i]`), "write" (`r[i] <- a`) or
        "accumulate" (`r[i] += a`); "" where they are written with the name.
      takes: (types of the operands, **params) -> each jaxpr in the params, with the types of its
        arguments; None where each jaxpr takes the operands of the equation.
      unites: (**params) -> groups of arguments and results of the jaxprs that share one type
        (`United`); None where there are none.
      binds: params -> the axis names in scope inside the jaxprs of an equation (`AxisEnv`); None
        where it binds none.
      acts_along: the name of the param with the named axes that it acts along, or "".
      open: whether an equation has further params, of any name.
      optional: names of the params that an equation may lack.
      first: names of the params that are printed first, in this order.
      met_first: names of the params whose jaxprs the printer visits first.
      unprinted: names of the params that JAX never prints.
      checked: the params whose kind excludes some values: name, whether a value fits, default.
      holds_jaxprs: whether the value of a param can be or contain a jaxpr.
      keeps_jaxprs: whether the jaxprs in its params have to stay the identical objects.
      recovered: the params with a `recover` function, which completes the value read from a text.
      pending: the module of `ops` that declares it, until its row of rules is loaded; ""
        afterwards, and for all others.
      library: for a primitive that belongs to a package: its name. JAX's primitive has to be a
        global of a module of that package; "" where the name alone identifies it.
      signature: reads the stub.
    """

    __slots__ = (
        "acts_along",
        "binds",
        "checked",
        "defaults",
        "doc",
        "first",
        "holds_jaxprs",
        "index_from",
        "known",
        "library",
        "met_first",
        "multiple_results",
        "name",
        "notation",
        "one_type",
        "open",
        "operands",
        "optional",
        "params",
        "pending",
        "recovered",
        "signature",
        "stub",
        "takes",
        "unites",
        "unprinted",
    )
    keeps_jaxprs = False
    __copy__ = __deepcopy__ = itself
    acts_along: str
    binds: Callable[[dict[str, Any]], Any] | None
    checked: tuple[tuple[str, Callable[[Any], bool], Any], ...]
    defaults: Params
    doc: str
    first: tuple[str, ...]
    holds_jaxprs: bool
    index_from: int
    known: bool
    library: str
    met_first: tuple[str, ...]
    multiple_results: bool
    name: str
    notation: str
    one_type: bool
    open: bool
    operands: tuple[str, ...]
    optional: frozenset[str]
    params: dict[str, Param]
    pending: str
    recovered: tuple[tuple[str, Callable[..., Any]], ...]
    signature: Callable[[], Signature]
    stub: Callable[..., Any] | None
    takes: Callable[..., Any] | None
    unites: Callable[..., Any] | None
    unprinted: frozenset[str]

    def __init__(
        self,
        name: str,
        signature: Callable[[], Signature] | None = None,
        *,
        multiple_results: bool = False,
        known: bool = True,
        stub: Callable[..., Any] | None = None,
        one_type: bool = False,
        notation: str = "",
        takes: Callable[..., Any] | None = None,
        unites: Callable[..., Any] | None = None,
        binds: Callable[[dict[str, Any]], Any] | None = None,
        pending: str = "",
        library: str = "",
    ):
        """Make a primitive; `signature` gives the declared operands and params (without one, none are known)."""
        amend(
            self,
            name=name,
            multiple_results=multiple_results,
            known=known,
            stub=stub,
            one_type=one_type,
            notation=notation,
            takes=takes,
            unites=unites,
            binds=binds,
            pending=pending,
            library=library,
        )
        if signature is None:
            _fill(self, Signature())
        else:
            amend(self, signature=signature)
            set_field(self, "__class__", _Unread)

    def __repr__(self) -> str:
        return self.name


class _Unread(Primitive):
    """A primitive whose signature was not read yet.

    The first access to such a field makes it a plain `Primitive`.
    """

    __slots__ = ()

    def __getattr__(self, field: str) -> Any:
        if field not in Primitive.__slots__:
            raise AttributeError(field)
        _fill(self, self.signature())
        set_field(self, "__class__", Primitive)
        return getattr(self, field)


def _fill(primitive: Primitive, signature: Signature) -> None:
    """Set the fields that depend on the signature."""
    declared = signature.params.values()
    unchecked = any(p.kind.holds_jaxprs or p.kind.unchecked for p in declared)
    amend(
        primitive,
        operands=signature.operands,
        params=FrozenDict(signature.params),
        index_from=signature.index_from,
        doc=signature.doc,
        open=signature.open,
        defaults=Params({p.name: p.default for p in declared if p.default is not REQUIRED}),
        optional=frozenset([p.name for p in declared if p.optional]),
        holds_jaxprs=not primitive.known or unchecked,
        acts_along=next((p.name for p in declared if p.acts_along), ""),
        checked=tuple([(p.name, p.kind.fits, p.default) for p in declared if not p.kind.unchecked]),
        first=tuple([p.name for p in declared if p.first]),
        met_first=tuple([p.name for p in declared if p.met_first]),
        unprinted=frozenset([p.name for p in declared if p.hidden in ("always", "implied")]),
        recovered=tuple([(p.name, p.recover) for p in declared if p.recover is not None]),
    )
