"""specialise: a program for one value of some of its arguments, or for one size of its symbolic dimensions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.avals import ShapedArray, SymbolicDim
from jaxprtool.ir.diagnostics import UsageError, brief, fail
from jaxprtool.ir.interface import Interface, Tree
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.synonyms import close_names
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.rebuild import Rebuild
from jaxprtool.passes.registry import define_pass

__all__ = ["has_symbolic_sizes", "specialise"]

_NAME = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "max": max, "min": min}


@define_pass("specialise", "values", fixes_types=True)
def specialise(program: ClosedJaxpr, **values: Any) -> ClosedJaxpr:
    """Fix arguments to a number (x=0.5), which all of their elements are, and symbolic dimensions to a size (b=8).

    An argument that is fixed is no argument any more. `fold` and `simplify` after it make use of what is known.
    """
    if not values:
        help = "write `specialise x=0.5`, for an argument, or `specialise b=8`, for a dimension"
        fail(UsageError, "specialise: no value is given", "bad-value", help=help)
    dims = {n for aval in _avals(program) for n in _names_in(aval)}
    sizes = {k: v for k, v in values.items() if k in dims}
    if sizes:
        wrong = [k for k, v in sizes.items() if type(v) is not int or v < 0]
        if wrong:
            fail(
                UsageError,
                f"specialise: {wrong[0]} is a dimension, and {brief(values[wrong[0]])} is no size",
                "bad-value",
            )
        program = _Sizes(sizes).closed(program)
    fixed = {k: v for k, v in values.items() if k not in dims}
    return _with_arguments(program, fixed, dims) if fixed else program


def has_symbolic_sizes(program: ClosedJaxpr) -> bool:
    """Whether a type in the program has a symbolic dimension."""
    return any(map(_names_in, _avals(program)))


def _avals(program: ClosedJaxpr) -> list[Aval]:
    jaxpr = program.jaxpr
    binders = [v for e in all_eqns(jaxpr) for v in e.out_binders]
    return [v.aval for v in (*jaxpr.all_binders, *binders)]


def _names_in(aval: Aval) -> set[str]:
    """Return the names of the symbolic dimensions of a type."""
    shape = aval.shape if isinstance(aval, ShapedArray) else ()
    words = {w for n in shape if isinstance(n, SymbolicDim) for w in _NAME.findall(n)}
    return words - _FUNCTIONS.keys()


class _Sizes(Rebuild):
    """Replaces symbolic dimensions by numbers, in types and params."""

    def __init__(self, sizes: Mapping[str, int]):
        super().__init__()
        self.sizes = sizes

    def aval(self, aval: Aval) -> Aval:
        if not isinstance(aval, ShapedArray) or not _names_in(aval):
            return aval
        return aval.update(shape=self.value(aval.shape))

    def params(self, eqn: JaxprEqn) -> dict[str, Any]:
        return {k: self.value(v) for k, v in eqn.params.items()}

    def literal(self, eqn: JaxprEqn) -> Lit | None:
        if eqn.primitive is not lax.dim_as_value.primitive:
            return None
        size = self.value(eqn.params["dim"])
        return Lit(size, eqn.out_binders[0].aval) if type(size) is int else None

    def value(self, x: Any) -> Any:
        """Return a param's value with numbers for dimensions."""
        if isinstance(x, SymbolicDim):
            return size_of(x, self.sizes)
        if type(x) in (tuple, list):
            return type(x)(map(self.value, x))
        return x


def size_of(dim: SymbolicDim, sizes: Mapping[str, int]) -> int | SymbolicDim:
    """Return the size of a dimension (`2*b + 1`); the same dimension where a name in it has no size.

    Raises:
      UsageError: the size is negative, or the text is no polynomial.
    """
    if not {*_NAME.findall(dim)} - _FUNCTIONS.keys() <= sizes.keys():
        return dim
    try:
        found = _evaluated(ast.parse(dim.replace("^", "**"), mode="eval").body, sizes)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError):
        fail(UsageError, f"the dimension {dim} is no polynomial", "bad-value")
    if found < 0:
        fail(UsageError, f"the dimension {dim} is negative: {found}", "bad-value")
    return found


def _evaluated(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(n)):
            return n
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return -_evaluated(x, sizes)
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            return _evaluated(a, sizes) + _evaluated(b, sizes)
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return _evaluated(a, sizes) - _evaluated(b, sizes)
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return _evaluated(a, sizes) * _evaluated(b, sizes)
        case ast.BinOp(left=a, op=ast.Pow(), right=ast.Constant(value=int(n))) if n < 64:
            return _evaluated(a, sizes) ** n
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*[_evaluated(x, sizes) for x in args])
        case _:
            raise ValueError


def _with_arguments(program: ClosedJaxpr, values: Mapping[str, Any], dims: set[str]) -> ClosedJaxpr:
    """Return the program without some arguments, each of which has one value."""
    jaxpr, interface = program.jaxpr, program.interface
    labels = interface.names() if interface is not None else []
    found: dict[int, Any] = {}
    for name, value in values.items():
        at = [i for i, v in enumerate(jaxpr.in_binders) if name in (v.name, *labels[i : i + 1])]
        if not at:
            known = [*dims, *(v.name for v in jaxpr.in_binders if v.name), *labels]
            near = close_names(name, known)
            help = f"did you mean {near[0]}?" if near else ""
            fail(
                UsageError,
                f"specialise: no argument or dimension is called {name}",
                "no-argument",
                help=help,
            )
        found.update(dict.fromkeys(at, value))
    first = [_definition(jaxpr.in_binders[i], x) for i, x in found.items()]
    instead: dict[Any, Any] = {e: x for e, x in first if isinstance(x, Lit)}
    eqns = [x for _, x in first if isinstance(x, JaxprEqn)]
    for e in jaxpr.eqns:
        eqns.append(e.replace(inputs=[instead.get(x, x) for x in e.inputs]))
    left = [v for i, v in enumerate(jaxpr.in_binders) if i not in found]
    outs = [instead.get(x, x) for x in jaxpr.outs]
    new = jaxpr.replace(in_binders=left, eqns=eqns, outs=outs)
    return ClosedJaxpr(new, program.consts, _without(interface, found))


def _definition(v: Var, value: Any) -> tuple[Var, Lit | JaxprEqn]:
    """Return a literal for an argument, or an equation that broadcasts the value to its shape."""
    aval = v.aval
    if not isinstance(aval, ShapedArray) or type(value) not in (bool, int, float):
        fail(UsageError, f"specialise: {brief(value)} is no value of type {aval}", "bad-value")
    kind = aval.dtype.kind
    takes = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}.get(kind, ())
    if type(value) not in takes or (kind in "iu" and not aval.dtype.holds(value)):
        fail(UsageError, f"specialise: {brief(value)} is no value of type {aval}", "bad-value")
    scalar = Lit(float(value) if kind == "f" else value, ShapedArray((), aval.dtype))
    if not aval.shape:
        return v, Lit(scalar.val, aval)
    params = {"shape": aval.shape, "broadcast_dimensions": (), "sharding": None}
    return v, JaxprEqn(lax.broadcast_in_dim.primitive, [scalar], params, [v])


def _without(interface: Interface | None, found: Mapping[int, Any]) -> Interface | None:
    """Return the interface of the arguments that are left: one that is fixed whole is gone, a fixed part of one is None."""
    if interface is None:
        return None
    args: list[tuple[str, Tree]] = []
    start = 0
    for name, tree in interface.args:
        kept = [i not in found for i in range(start, start + tree.size)]
        start += tree.size
        if any(kept) or not kept:
            args.append((name, tree.pruned(kept)))
    return interface._replace(args=tuple(args))
