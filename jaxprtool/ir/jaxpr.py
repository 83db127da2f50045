"""Variables, equations, jaxprs and primitives.

The names are Autodidax's. In JAX, `in_binders` is `invars`, `out_binders` is `outvars`, `inputs` is
`invars` of an equation, `const_binders` is `constvars`, and `Lit` is `Literal`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from jaxprtool.ir.frozen import (
    Frozen,
    FrozenDict,
    FrozenList,
    amend,
    become,
    itself,
    refuse_change,
    refuse_removal,
    set_field,
)
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.memo import Keeper
from jaxprtool.ir.origin import Origin
from jaxprtool.ir.primitive import NO_PARAMS, Params, Primitive
from jaxprtool.ir.spans import Place, Span

if TYPE_CHECKING:
    from jaxprtool.ir.avals import AbstractType

__all__ = [
    "Atom",
    "Aval",
    "ClosedJaxpr",
    "DropVar",
    "Jaxpr",
    "JaxprEqn",
    "JaxprType",
    "Lit",
    "NO_PARAMS",
    "Params",
    "Primitive",
    "Value",
    "Var",
    "Written",
    "lossless_text",
    "new_closed",
    "new_eqn",
    "new_jaxpr",
    "new_var",
    "type_of",
]


# An `AbstractType`. Readers of `x.aval` know which class of types it is (most often `ShapedArray`), and read its fields.
Aval = Any
# The value of an atom while a program is interpreted: an array or scalar of a backend, a `Lit`, or a tracer.
Value = Any


_VAR = ("aval", "name", "place")


class Var:
    """A variable. Two variables are the same only if they are the same object.

    `name` is the name in the source, or None where the printer has yet to choose one. `place` finds
    the position of the binder in the source; it is asked only when `span` is read.
    """

    __slots__ = _VAR
    __setattr__ = refuse_change
    __delattr__ = refuse_removal
    __copy__ = __deepcopy__ = itself
    aval: Aval
    name: str | None
    place: Span | Place | None

    def __new__(
        cls, aval: AbstractType, name: str | None = None, place: Span | Place | None = None
    ) -> Var:
        made = new_var(aval, name, place)
        if cls is not Var:
            amend(made, __class__=cls)
        return made

    @property
    def span(self) -> Span | None:
        """The position of the binder in the source; None for a variable that is in none."""
        place = self.place
        return place if place is None or isinstance(place, Span) else place.find(str(self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.aval, self.name)

    def __repr__(self) -> str:
        return f"{self.name or '_'}:{self.aval}"


class DropVar(Var):
    """The binder of a result that no equation reads, printed `_`."""

    __slots__ = ()

    def __new__(
        cls, aval: AbstractType, name: str | None = "_", place: Span | Place | None = None
    ) -> Var:
        return super().__new__(cls, aval, name, place)


class _VarMaker:
    __slots__ = _VAR

    def __init__(
        self, aval: AbstractType, name: str | None = None, place: Span | Place | None = None
    ):
        self.aval, self.name, self.place = aval, name, place
        try:
            self.__class__ = Var  # type: ignore[assignment]
        except TypeError:
            become(self, Var)


new_var: Callable[..., Var] = _VarMaker  # type: ignore[assignment]  # Note [Makers]


class Lit(Frozen):
    """A literal operand: a Python scalar (or an array, for JAX's `[...]` literals) and its type.

    It is also a value: `bind` takes it as an operand, and each interpreter reads it in its own way.
    """

    __slots__ = ("aval", "cached", "span", "val")
    __copy__ = __deepcopy__ = itself
    _trace = None  # tracers have their trace here; a literal has none
    val: Value
    aval: Aval
    span: Span | None
    cached: list[Value]  # the value in the form of the evaluator, once the evaluator has read it

    def __init__(self, val: Value, aval: AbstractType, span: Span | None = None):
        # One by one, since literals are made often: `amend` takes twice as long.
        set_field(self, "val", val)
        set_field(self, "aval", aval)
        set_field(self, "span", span)
        set_field(self, "cached", [])

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    def __reduce__(self) -> tuple[Any, ...]:
        return Lit, (self.val, self.aval)

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval}"


Atom = Var | Lit
type_of = operator.attrgetter("aval.strong")  # the type of an atom, without its weak-type mark
_aval_of = operator.attrgetter("aval")


_EQN = ("comments", "inputs", "origin", "out_binders", "params", "primitive", "span")


class JaxprEqn:
    """One equation: `out_binders = primitive[params] inputs`.

    Attributes:
      span: its position in the text that was read.
      comments: the comment lines above it and, last, the comment at its end (or ""); None where
        there are none.
      origin: the line of Python that it comes from, kept through transformations, or None.
    """

    __slots__ = _EQN
    __setattr__ = refuse_change
    __delattr__ = refuse_removal
    __copy__ = __deepcopy__ = itself
    primitive: Primitive
    inputs: tuple[Atom, ...]
    params: Params
    out_binders: tuple[Var, ...]
    span: Span | None
    comments: tuple[str, ...] | None
    origin: Origin | None

    def __new__(
        cls,
        primitive: Primitive,
        inputs: Iterable[Atom],
        params: Mapping[str, Any],
        out_binders: Iterable[Var],
        span: Span | None = None,
        comments: tuple[str, ...] | None = None,
        origin: Origin | None = None,
    ) -> JaxprEqn:
        return new_eqn(primitive, inputs, params, out_binders, span, comments, origin)

    def replace(self, **changes: Any) -> JaxprEqn:
        """The equation with some fields replaced."""
        return _replaced(self, changes)

    def with_inputs(self, inputs: Iterable[Atom]) -> JaxprEqn:
        """The equation with other operands; faster than `replace`."""
        return new_eqn(
            self.primitive,
            inputs,
            self.params,
            self.out_binders,
            self.span,
            self.comments,
            self.origin,
        )

    def with_origin(self, origin: Origin | None) -> JaxprEqn:
        """The equation with another origin."""
        return new_eqn(
            self.primitive,
            self.inputs,
            self.params,
            self.out_binders,
            self.span,
            self.comments,
            origin,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.primitive, self.inputs, self.params, self.out_binders)
        return JaxprEqn, (*fields, None, self.comments, self.origin)

    def __repr__(self) -> str:
        names: dict[Var, str] = {}  # for variables without one: a, b, c, ...
        for x in (*self.inputs, *self.out_binders):
            if isinstance(x, Var) and not x.name:
                names.setdefault(x, chr(ord("a") + len(names)) if len(names) < 26 else "_")
        outs = " ".join(f"{v.name or names[v]}:{v.aval}" for v in self.out_binders)
        ins = (x.name or names[x] if isinstance(x, Var) else repr(x) for x in self.inputs)
        return " ".join([outs, "=", str(self.primitive), *ins]).lstrip()


class _EqnMaker:
    __slots__ = _EQN

    def __init__(
        self,
        primitive: Primitive,
        inputs: Iterable[Atom],
        params: Mapping[str, Any],
        out_binders: Iterable[Var],
        span: Span | None = None,
        comments: tuple[str, ...] | None = None,
        origin: Origin | None = None,
    ):
        self.primitive, self.inputs, self.out_binders = primitive, tuple(inputs), tuple(out_binders)
        read = isinstance(params, Params)
        self.params = params if read else Params(params) if params else NO_PARAMS
        self.span, self.comments, self.origin = span, comments, origin
        try:
            self.__class__ = JaxprEqn  # type: ignore[assignment]
        except TypeError:
            become(self, JaxprEqn)


new_eqn: Callable[..., JaxprEqn] = _EqnMaker  # type: ignore[assignment]  # Note [Makers]


class JaxprType(NamedTuple):
    """The type of a jaxpr: constants and arguments in, results out."""

    in_types: list[Aval]
    out_types: list[Aval]

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(repr, ts)) for ts in self)
        return f"({ins}) -> ({outs})"


class Written(NamedTuple):
    """The layout of the text that a jaxpr was read from.

    It does not affect what the jaxpr computes.

    Attributes:
      definitions: the named jaxprs that the text defines before it; some may be unused.
      lone_equation: whether the text is a single equation without a jaxpr around it.
      dialect: the release of JAX that prints such a text, `jax-0.10.2`; "" for a jaxpr inside
        another one.
      effects: the text of the effects beside the results, ` : { Debug }`, or "".
      later_written_out: whether a definition writes out the jaxprs defined after it instead of
        naming them.
    """

    definitions: Mapping[str, ClosedJaxpr]
    lone_equation: bool = False
    dialect: str = ""
    effects: str = ""
    later_written_out: bool = False


def _lines(comments: Mapping[str, Sequence[str]]) -> FrozenDict[str, FrozenList[str]]:
    return FrozenDict({place: FrozenList(lines) for place, lines in comments.items()})


_JAXPR = ("comments", "const_binders", "eqns", "in_binders", "outs", "span", "written")


class Jaxpr(Keeper):
    """A function in A-normal form, closed: its body refers to nothing outside.

    Attributes:
      const_binders: the variables bound to the constants.
      in_binders: the variables bound to the arguments.
      eqns: the equations in order.
      outs: the results: variables or literals.
      span: its position in the source.
      comments: comment lines that belong to no equation: `{"head": [...], "tail": [...]}`; or None.
      written: the layout of the text that it was read from; None without a text, or where there is
        nothing to record.
    """

    __slots__ = _JAXPR
    const_binders: tuple[Var, ...]
    in_binders: tuple[Var, ...]
    eqns: tuple[JaxprEqn, ...]
    outs: tuple[Atom, ...]
    span: Span | None
    comments: Mapping[str, Sequence[str]] | None
    written: Written | None

    def __new__(
        cls,
        in_binders: Iterable[Var],
        eqns: Iterable[JaxprEqn],
        outs: Iterable[Atom],
        const_binders: Iterable[Var] = (),
        span: Span | None = None,
        comments: Mapping[str, Sequence[str]] | None = None,
        written: Written | None = None,
    ) -> Self:
        made = new_jaxpr(in_binders, eqns, outs, const_binders, span, comments, written)
        if cls is not Jaxpr:
            amend(made, __class__=cls)
        return made  # pyright: ignore[reportReturnType]

    def replace(self, **changes: Any) -> Jaxpr:
        """The jaxpr with some fields replaced. The new jaxpr has no `written` and no memos."""
        return _replaced(self, {"written": None, **changes})

    @property
    def all_binders(self) -> tuple[Var, ...]:
        """The binders of the constants, then those of the arguments."""
        return self.const_binders + self.in_binders

    @property
    def in_avals(self) -> list[Aval]:
        """Types of the arguments (not of the constants)."""
        return [*map(_aval_of, self.in_binders)]

    @property
    def out_avals(self) -> list[Aval]:
        """Types of the results."""
        return [*map(_aval_of, self.outs)]

    def __repr__(self) -> str:
        return _to_text(ClosedJaxpr(self, [None] * len(self.const_binders)))


class _JaxprMaker(Keeper):
    __slots__ = _JAXPR
    __setattr__ = object.__setattr__  # type: ignore[assignment]
    __delattr__ = object.__delattr__  # type: ignore[assignment]

    def __init__(
        self,
        in_binders: Iterable[Var],
        eqns: Iterable[JaxprEqn],
        outs: Iterable[Atom],
        const_binders: Iterable[Var] = (),
        span: Span | None = None,
        comments: Mapping[str, Sequence[str]] | None = None,
        written: Written | None = None,
    ):
        self.in_binders, self.eqns, self.outs = tuple(in_binders), tuple(eqns), tuple(outs)
        self.const_binders, self.span, self.written = tuple(const_binders), span, written
        self.comments = None if comments is None else _lines(comments)
        set_field(self, "derived", {})
        become(self, Jaxpr)


new_jaxpr: Callable[..., Jaxpr] = _JaxprMaker  # type: ignore[assignment]  # Note [Makers]

_CLOSED = ("consts", "interface", "jaxpr")


class ClosedJaxpr(Keeper):
    """A jaxpr and the values of its constants (None for a value that is not known).

    Every jaxpr inside a param is one of these, with no constants where JAX holds an open jaxpr.
    A jaxpr that occurs twice in a program is one object, so that it is read, printed, transformed
    and lowered once. `interface` holds the names of the arguments and the pytrees of arguments and results, as the
    function that was traced has them (None where they are not known). Arrays among the constants belong to the program: they must
    not be written into (`private_array` makes a copy that nobody can write into).

    Raises:
      ValueError: the interface has another number of leaves than the jaxpr has arguments and results.
    """

    __slots__ = _CLOSED
    jaxpr: Jaxpr
    consts: tuple[Value, ...]
    interface: Interface | None

    def __new__(
        cls, jaxpr: Jaxpr, consts: Iterable[Value] = (), interface: Interface | None = None
    ) -> Self:
        made = new_closed(jaxpr, consts, interface)
        if cls is not ClosedJaxpr:
            amend(made, __class__=cls)
        return made  # pyright: ignore[reportReturnType]

    def replace(self, **changes: Any) -> ClosedJaxpr:
        """The program with some fields replaced. The new program has no memos."""
        return _replaced(self, changes)

    @property
    def const_operands(self) -> list[Value]:
        """The constants as operands of equations: their values; a literal without a value for a
        constant whose value is unknown.
        """
        pairs = zip(self.jaxpr.const_binders, self.consts, strict=True)
        return [Lit(None, v.aval.strong) if c is None else c for v, c in pairs]

    @property
    def in_avals(self) -> list[Aval]:
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[Aval]:
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> tuple[JaxprEqn, ...]:
        return self.jaxpr.eqns

    def __iter__(self) -> Iterator[Any]:
        """Unpacks as (jaxpr, consts)."""
        return iter((self.jaxpr, self.consts))

    def __str__(self) -> str:
        """JAX's print, which drops weak types, derivative rules and hidden params; `jaxprtool.save` keeps them."""
        return _to_text(self)

    def __repr__(self) -> str:
        return _to_text(self)


class _ClosedMaker(Keeper):
    __slots__ = _CLOSED
    __setattr__ = object.__setattr__  # type: ignore[assignment]
    __delattr__ = object.__delattr__  # type: ignore[assignment]

    def __init__(
        self, jaxpr: Jaxpr, consts: Iterable[Value] = (), interface: Interface | None = None
    ):
        if interface is not None and not interface.fits(len(jaxpr.in_binders), len(jaxpr.outs)):
            raise ValueError(f"{interface} does not fit {_counts(jaxpr)}; replace(interface=None)")
        self.jaxpr, self.consts, self.interface = jaxpr, tuple(consts), interface
        set_field(self, "derived", {})
        become(self, ClosedJaxpr)


new_closed: Callable[..., ClosedJaxpr] = _ClosedMaker  # type: ignore[assignment]  # Note [Makers]


# The maker of each class, and the fields in the order in which it takes them.
_FIELDS: dict[type, tuple[Callable[..., Any], tuple[str, ...]]] = {
    JaxprEqn: (
        new_eqn,
        ("primitive", "inputs", "params", "out_binders", "span", "comments", "origin"),
    ),
    Jaxpr: (
        new_jaxpr,
        ("in_binders", "eqns", "outs", "const_binders", "span", "comments", "written"),
    ),
    ClosedJaxpr: (new_closed, ("jaxpr", "consts", "interface")),
}


def _counts(jaxpr: Jaxpr) -> str:
    return f"a jaxpr of {len(jaxpr.in_binders)} arguments and {len(jaxpr.outs)} results"


def _replaced(x: Any, changes: Mapping[str, Any]) -> Any:
    make, names = _FIELDS[type(x)]
    for name in changes:
        if name not in names:
            raise TypeError(f"a {type(x).__name__} has no {name!r}; it has {', '.join(names)}")
    return make(*[changes[k] if k in changes else getattr(x, k) for k in names])


def _to_text(program: ClosedJaxpr, *, lossless: bool = False) -> str:
    del lossless
    return f"<jaxpr of {len(program.jaxpr.eqns)} equations>"


def lossless_text(program: ClosedJaxpr) -> str:
    """The text of a program from which the parser reads the same program."""
    return _to_text(program, lossless=True)


def set_printer(printer: Callable[..., str]) -> None:
    """Install the printer that `str` and `repr` of jaxprs call (a layer above this one has it)."""
    global _to_text
    _to_text = printer
