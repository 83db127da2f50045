"""Declaring primitives: `@primitive` turns a stub into a `Primitive` and its binding function.

    @primitive
    def rev(operand, *, dimensions: tuple[int, ...]):
        \"\"\"out[..i..] = operand[..n-1-i..] along `dimensions`.

        dimensions: the axes to reverse.
        \"\"\"

The function's name is the primitive's, positional parameters are operands, keyword-only ones are params with
their kinds (`core.kinds`) and defaults, the docstring is the mathematics with one line for each param. A param that
equals its default is not printed, unless the default is marked `shown(...)`, as JAX prints some; whatever else the text
form does with a param is said by `param(...)` in the place of its default. An operand annotated `Index` takes a bare int as i32.
A stub with `**name` takes further params of any name.

A primitive with the operands and params of another one states the mathematics alone:

    @primitive(like=cumsum)
    def cumprod():
        \"\"\"out[i] = the product of operand[0..i] along an axis.\"\"\"
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Annotated, Any

from jaxprtool.core.bind import NO_EQN, state
from jaxprtool.core.declared import FAULTS, fail_params, refuse_misfits
from jaxprtool.core.gateways import gateways
from jaxprtool.core.kinds.annotations import kind_of
from jaxprtool.core.kinds.containers import Anything
from jaxprtool.core.trace import scalar_lit
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.declaration import REQUIRED, Hidden, Param, Recover
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.dtypes import BOOL, COMPLEX128, FLOAT64, INT32, INT64, DType, dtype_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit, Primitive, Value
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import Opaque, Record, Word
from jaxprtool.ir.primitive import Signature

__all__ = [
    "Index",
    "declared_by",
    "declared_primitive",
    "find_primitive",
    "known_primitive",
    "loading_plugin",
    "optional",
    "param",
    "primitive",
    "primitive_of",
    "shown",
    "stand_in",
    "dtype_of_result",
    "types_of_results",
    "vocabulary",
]

# What is declared so far: the families of `ops` that were needed, and what users declare.
_DECLARED: dict[str, Primitive] = {}
_UNKNOWN: dict[str, Primitive] = {}
# What plug-ins declare that were loaded because a program holds one of their primitives. They are apart, so that a
# declaration of the user's own, made before or after, is the one that counts.
_FOUND: dict[str, Primitive] = {}
_home = _DECLARED  # where declarations go


_INDEX = Anything("Index")
Index = Annotated[Any, _INDEX]  # annotation of an operand for which a bare int is i32


_UNDECLARED = Anything("")  # the kind of a param without an annotation


class _Declared:
    """A default with declarations, which `param`, `shown` and `optional` return."""

    __slots__ = ("default", "fields")

    def __init__(self, default: Any, **fields: Any):
        self.default, self.fields = default, fields


def param(
    default: Any = REQUIRED,
    *,
    hidden: Hidden | None = None,
    optional: bool = False,
    first: bool = False,
    recover: Recover | None = None,
    names_jaxprs: bool = True,
    met_first: bool = False,
    acts_along: bool = False,
    named_by_call: bool = False,
) -> Any:
    """Declare a param in the place of its default: `def f(*, shape=param(hidden="implied"))`.

    Args:
      default: the default; a param without one has to be given.
      hidden: when the printer leaves it out; by default, where it equals its default, if it has
        one.
      optional, first, recover, names_jaxprs, met_first, acts_along, named_by_call: see `Param`.
    """
    return _Declared(
        default,
        hidden=hidden or ("never" if default is REQUIRED else "default"),
        optional=optional,
        first=first,
        recover=recover,
        names_jaxprs=names_jaxprs,
        met_first=met_first,
        acts_along=acts_along,
        named_by_call=named_by_call,
    )


def shown(value: Any) -> Any:
    """Declare a default that is printed all the same: `def iota(*, sharding=shown(None))`."""
    return _Declared(value, hidden="never")


def optional(value: Any) -> Any:
    """Declare the default of a param that is printed only where the text had it: JAX prints it in
    some releases or cases.
    """
    return _Declared(value, hidden="never", optional=True)


def dtype_of_result(value: Any, out_avals: Sequence[Any]) -> Any:
    """A `recover` function: return the element type of the result, where the text does not state it."""
    return getattr(out_avals[0], "dtype", value) if len(out_avals) == 1 else value


def types_of_results(value: Any, out_avals: Sequence[Any]) -> Any:
    """A `recover` function: return the types of the results, where the text does not state them."""
    return tuple([a.strong for a in out_avals]) if value is None else value


def find_primitive(name: str) -> Primitive:
    """Return the declared primitive of this name, or else one with `known=False`."""
    found = _DECLARED.get(name) or _UNKNOWN.get(name) or known_primitive(name) or _FOUND.get(name)
    if found is None:
        found = _UNKNOWN[name] = Primitive(name, known=False, multiple_results=True)
    return found


def stand_in(primitive: Primitive) -> None:
    """Register a primitive without a stub under its name, unless another one has this name."""
    _UNKNOWN.pop(primitive.name, None)
    _FOUND.setdefault(primitive.name, primitive)


def known_primitive(name: str) -> Primitive | None:
    """Return the primitive of this name that `ops` or the user declares; None where an installed plug-in might."""
    found = _DECLARED.get(name)
    if found is None and name not in _UNKNOWN:
        gateways.load_family(name)
        found = _DECLARED.get(name)
    return found


def declared_primitive(name: str) -> Primitive | None:
    """Return the declared primitive of this name; None where neither `ops`, the user nor an
    installed plug-in declares it.
    """
    found = known_primitive(name) or _FOUND.get(name)
    if found is None:
        gateways.load_plugins(name)
        found = _DECLARED.get(name) or _FOUND.get(name)
    return found


def _found_again(name: str) -> Primitive:
    return declared_primitive(name) or find_primitive(name)


def _reduced(primitive: Primitive) -> tuple[Any, ...]:
    return _found_again, (primitive.name,)


copyreg.pickle(Primitive, _reduced)  # type: ignore[arg-type]  # the stub knows no other types than functions return


def declared_by(module: str) -> list[Primitive]:
    """Return the primitives that a module of `ops`, such as `jaxprtool.ops.binary`, declares."""
    return [p for p in [*_DECLARED.values()] if p.stub and p.stub.__module__ == module]


def vocabulary() -> dict[str, Primitive]:
    """Return all primitives by name that `ops` and the user declare, in no particular order."""
    gateways.load_families()
    return _DECLARED


@contextlib.contextmanager
def loading_plugin() -> Generator[None]:
    """A `with` block for importing a plug-in that the user did not name.

    Its primitives are registered apart, so that they do not conflict with declarations of the same
    names.
    """
    global _home
    before, _home = _home, _FOUND
    try:
        yield
    finally:
        _home = before


def primitive(
    stub: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    multiple_results: bool = False,
    like: Any = None,
    one_type: bool = False,
    notation: str = "",
    takes: Callable[..., Any] | None = None,
    unites: Callable[..., Any] | None = None,
    binds: Callable[[dict[str, Any]], Any] | None = None,
    library: str = "",
) -> Any:
    """Declare a primitive from a stub; returns its binding function.

    The function applies the primitive to operands (values, tracers, Python scalars) with params by
    keyword. Its attribute `primitive` is the `Primitive`.

    Args:
      stub: the stub, when used without arguments.
      name: the printed name where it is no Python name (`scatter-add`) or hides one (`and`).
      multiple_results: whether the binding function returns a list.
      like: the binding function of a primitive with the same operands, params, jaxprs and number of results, which the
        stub leaves out; what follows the first paragraph of that one's docstring is on this one too.
      one_type, notation, takes, unites, binds: see `Primitive`.
      library: the package that declares the primitive to JAX (`equinox`): what JAX has in a program is taken for this
        primitive where it is a global of a module of that package. For a plug-in that an entry point names, it is the
        package that the plug-in is in, unless it is given; for other modules, any primitive of the name is taken for it.

    Raises:
      TypeError: `like` is given, and the stub has parameters.
      ValueError: a primitive of this name is declared already.
    """
    if stub is None:
        return functools.partial(
            primitive,
            name=name,
            multiple_results=multiple_results,
            like=like,
            one_type=one_type,
            notation=notation,
            takes=takes,
            unites=unites,
            binds=binds,
            library=library,
        )
    if like is not None:
        stub, multiple_results = _completed(stub, like), like.primitive.multiple_results
        takes, unites = takes or like.primitive.takes, unites or like.primitive.unites
    facts: dict[str, Any] = {"multiple_results": multiple_results, "one_type": one_type}
    facts |= {"notation": notation, "takes": takes, "unites": unites, "binds": binds}
    facts["library"] = library
    return _binding_function(stub, _declare(stub, name or stub.__name__, **facts))


def primitive_of(op: Any) -> Primitive:
    """Return the primitive behind a binding function (or the primitive itself)."""
    return op if isinstance(op, Primitive) else op.primitive


def _completed(stub: Callable[..., Any], like: Any) -> Callable[..., Any]:
    """Complete a stub that only states the mathematics by the signature and the lines on params of the stub `like`."""
    if stub.__code__.co_varnames:
        raise TypeError(f"{stub.__name__} is like {like.__name__}: its stub has no parameters")
    lines = inspect.cleandoc(like.__doc__ or "").partition("\n\n")[2]
    stub.__doc__ = f"{stub.__doc__}\n\n{lines}"
    stub.__wrapped__ = like  # type: ignore[attr-defined]  # what `inspect.signature` follows
    return stub


def _params(
    names: Sequence[str], kinds: dict[str, Kind], defaults: dict[str, Any], doc: str
) -> dict[str, Param]:
    """Return the declarations of params from the annotations, defaults and docstring lines of a stub."""
    lines = dict(line.split(": ", 1) for line in reversed(doc.splitlines()) if ": " in line)
    found: dict[str, Param] = {}
    for name in names:
        given = defaults.get(name, REQUIRED)
        fields: dict[str, Any] = {"hidden": "never" if given is REQUIRED else "default"}
        if isinstance(given, _Declared):
            given, fields = given.default, given.fields
        kind = kinds.get(name, _UNDECLARED)
        found[name] = Param(name, kind, given, doc=lines.get(name, ""), **fields)
    return found


def _declare(
    stub: Callable[..., Any], name: str, *, library: str, **declarations: Any
) -> Primitive:
    of_ops = stub.__module__.startswith("jaxprtool.ops.")
    home = _DECLARED if of_ops else _home  # a plug-in may have asked for the family
    found = Primitive(
        name,
        functools.partial(_signature, stub),
        library=library or (stub.__module__.partition(".")[0] if home is _FOUND else ""),
        stub=stub,
        pending=stub.__module__ if of_ops else "",
        **declarations,
    )
    # a user's primitive must not have the name of one in a family
    if not of_ops and home is _DECLARED:
        gateways.load_family(name)
    if name in home:
        raise ValueError(f"a primitive named {name} is declared already")
    _UNKNOWN.pop(name, None)
    home[name] = found
    return found


def _signature(stub: Callable[..., Any]) -> Signature:
    """Return the operands and params that a stub declares."""
    signature: Any = stub
    # declared like another primitive, whose signature counts
    while hasattr(signature, "__wrapped__"):
        signature = signature.__wrapped__
    code, doc = signature.__code__, inspect.cleandoc(stub.__doc__ or "")
    n, end = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = signature.__globals__
    kinds = {k: kind_of(a, names) for k, a in signature.__annotations__.items()}
    operands, several = [*code.co_varnames[:n]], code.co_flags & inspect.CO_VARARGS
    named = [*operands, code.co_varnames[end]] if several else operands
    indices = [i for i, x in enumerate(named) if kinds.get(x) is _INDEX]
    if several:
        operands.append("*" + named[-1])
    return Signature(
        tuple(operands),
        _params(code.co_varnames[n:end], kinds, signature.__kwdefaults__ or {}, doc),
        indices[0] if indices else 1 << 30,
        doc,
        bool(code.co_flags & inspect.CO_VARKEYWORDS),
    )


def _binding_function(stub: Callable[..., Any], declared: Primitive) -> Callable[..., Any]:
    several = declared.multiple_results

    def bound(*operands: Value, **params: Any) -> Value:
        for x in operands:
            if type(x) in _RANK:
                operands = type_scalars(declared, operands)
                break
        names, defaults = declared.params, declared.defaults
        if not params and len(defaults) == len(names):
            params = defaults
        else:
            if len(params) < len(names):
                params = {**defaults, **params}
            given, known = params.keys(), names.keys()
            if given != known and not (declared.open and given > known):
                fail_params(declared, params)
            for value in params.values():
                if type(value) not in _USUAL and not _is_usual(value):
                    params = _of_kinds(declared, params)
                    break
            # It is bound by a user's Python code, not by a rule.
            if state.eqn.primitive is NO_EQN.primitive:
                refuse_misfits(declared, params)
        try:
            out = state.trace.process_primitive(declared, operands, params)
        except JaxprToolError:
            raise
        except FAULTS:  # raised by a rule, which relies on params of their kinds
            refuse_misfits(declared, params)
            raise
        if several and Lit in map(type, out):  # of a jaxpr, whose results may be literals
            out = [state.trace.literal(x) if type(x) is Lit else x for x in out]
        return out

    functools.update_wrapper(bound, stub)
    bound.primitive = declared  # type: ignore[attr-defined]
    return bound


# Types of params whose values are in the form of their kinds.
_NAMED = (
    Word,
    Opaque,
    Record,
)  # and their subclasses, which hold the JAX object that they represent
_USUAL = frozenset({bool, int, float, complex, type(None), DType, ClosedJaxpr, *_NAMED})


def _is_usual(value: Any) -> bool:
    """Whether a value is a (nested) tuple of values of the usual types, or of a type for which JAX has an object."""
    if type(value) is not tuple:
        return isinstance(value, _NAMED)
    for x in value:  # noqa: SIM110 (all(...) takes twice as long)  # pyright: ignore[reportUnknownVariableType]
        if type(x) not in _USUAL and not _is_usual(x):  # pyright: ignore[reportUnknownArgumentType]
            return False
    return True


def _of_kinds(primitive: Primitive, params: dict[str, Any]) -> dict[str, Any]:
    """Convert params from Python code to values of their kinds: lists to tuples, NumPy's element types to ours."""
    known = primitive.params
    found = {k: known[k].kind.given(v) if k in known else v for k, v in params.items()}
    return found if any(found[k] is not v for k, v in params.items()) else params


_RANK: dict[type[object], int] = {bool: 0, int: 1, float: 2, complex: 3}
_KIND_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_DEFAULT: dict[type[object], DType] = {bool: BOOL, int: INT64, float: FLOAT64, complex: COMPLEX128}


def type_scalars(primitive: Primitive, operands: tuple[object, ...]) -> tuple[Value, ...]:
    """Convert Python scalars among the operands to the element type of the first operand that can represent them.

    Without such an operand they become bool, i64, f64 or c128, as in NumPy.
    """
    if len(operands) == 2 and primitive.index_from > 1:
        number_first = type(operands[0]) is float
        number, other = operands if number_first else reversed(operands)
        dtype = getattr(other, "dtype", None)
        # the most common case
        if type(number) is float and type(dtype) is DType and dtype.kind in "fc":
            typed_number = scalar_lit(number, dtype)
            return (typed_number, other) if number_first else (other, typed_number)
    dtypes = [
        dtype_of(getattr(x, "dtype", None))
        for x in operands[: primitive.index_from]
        if type(x) not in _RANK
    ]
    typed: list[Value] = []
    for i, x in enumerate(operands):
        rank = _RANK.get(type(x))
        if rank is None:
            typed.append(x)
        elif i >= primitive.index_from:
            typed.append(Lit(x, ShapedArray((), INT32)))
        else:
            fits = (
                d for d in dtypes if d is not None and _KIND_RANK.get(d.kind, -1) >= max(rank, 0)
            )
            if rank:
                fits = (d for d in fits if d is not BOOL)
            dtype = next(fits, None)
            if dtype is None and dtypes and rank and primitive.one_type:
                fail(
                    UsageError,
                    f"{primitive} of {dtypes[0]} and the Python scalar {x!r}: the types differ",
                    "operand-types",
                    help="convert one of them with lax.convert_element_type",
                )
            typed.append(scalar_lit(x, dtype or _widest(operands)))
    return tuple(typed)


def _widest(operands: tuple[object, ...]) -> DType:
    """Return the default element type of the widest Python scalar among the operands."""
    scalars = [type(x) for x in operands if type(x) in _RANK]
    return _DEFAULT[max(scalars, key=_RANK.__getitem__)]
