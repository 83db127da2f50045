"""Primitives of plug-ins in JAX: those of the libraries that they describe, or stand-ins where there are none.

A stand-in is a JAX primitive whose rules call the plug-in's row: the inverse of
`backends.jax.foreign`.

impl, lower              the impl rule on `jax.numpy`, or the jaxpr by which the primitive is defined in terms of others
jvp, batch, transpose    the row's rules, as jaxprs
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.private import NoTangent
from jaxprtool.backends.jax.rules import no_tangent
from jaxprtool.core.partition import split_list, spread
from jaxprtool.core.trace import inexact
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.jvp import derivative_facts, jvp_jaxpr
from jaxprtool.interpreters.transpose import transpose_jaxpr
from jaxprtool.ir.avals import AbstractToken, ShapedArray, SymbolicDim
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.dtypes import custom_dtype, dtype_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Params, Primitive, Var
from jaxprtool.makers.decomposed import expansion

__all__ = [
    "is_plug_ins",
    "is_stand_in",
    "loses_tangents",
    "of_impl",
    "of_library",
    "ours_of",
    "stand_in",
    "takes",
    "theirs_in_library",
]


def is_plug_ins(primitive: Primitive) -> bool:
    """Whether a plug-in declares a primitive, not this package."""
    return primitive.known and not primitive.stub.__module__.startswith("jaxprtool.ops.")


def of_library(theirs: Any, library: str) -> bool:
    """Whether a primitive of JAX's is a global of a module of a package."""
    return any(v is theirs for v in _primitives_in(library))


def theirs_in_library(primitive: Primitive) -> Any:
    """Return the primitive that a library declares to JAX, where the library is loaded; else None."""
    found = (v for v in _primitives_in(primitive.library) if v.name == primitive.name)
    return next(found, None)


def _primitives_in(library: str) -> list[Any]:
    inside = library + "."
    modules = [m for n, m in list(sys.modules.items()) if n == library or n.startswith(inside)]
    values = (v for m in modules for v in list(getattr(m, "__dict__", {}).values()))
    return [v for v in values if isinstance(v, private.Primitive)]


# -- stand-ins ---------------------------------------------------------------------------------

_made: dict[Primitive, Any] = {}
_ours: dict[Any, Primitive] = {}


def ours_of(theirs: Any) -> Primitive | None:
    """Return the primitive for which a stand-in stands; None for other primitives of JAX's."""
    return _ours.get(theirs)


def is_stand_in(theirs: Any) -> bool:
    """Whether a primitive of JAX's was made by `stand_in`; its params are values of ours."""
    return theirs in _ours


def stand_in(
    primitive: Primitive, to_jax: Callable[[ClosedJaxpr], Any], to_aval: Callable[[Any], Any]
) -> Any:
    """Return JAX's primitive that computes what a plug-in's primitive does; the same object each time.

    Its params are values of ours; params that an equation lacks have their defaults. Where the row
    has no impl rule that JAX can trace, tracing it raises UnsupportedError.

    Args:
      primitive: the plug-in's.
      to_jax: converts programs to JAX's.
      to_aval: converts types to JAX's.
    """
    found = _made.get(primitive)
    if found is None:
        rules = _StandIn(primitive, to_jax, to_aval)
        several = primitive.multiple_results
        found = private.new_primitive(primitive.name, several, rules.impl, rules.types, rules)
        _made[primitive] = found
        _ours[found] = primitive
    return found


def loses_tangents(primitive: Primitive, params: dict[str, Any], closed: Any) -> bool:
    """Whether a jaxpr of JAX's made by `of_impl` has a result without a tangent where the primitive's result has one.

    An example is `frexp`, whose impl rule takes apart the bits of a number, which have no
    derivative.
    """
    avals = [_aval(a) for a in closed.in_avals]
    nonzeros = inexact(avals)
    if derivative_facts[primitive] == "zero" or not any(nonzeros):
        return False
    flags = jvp_jaxpr(_program(primitive, avals, params), instantiate_outs=False)[1]
    return any(flags) and [*private.jvp_of(closed, nonzeros, False)[1]] != flags


def of_impl(
    primitive: Primitive,
    in_avals: Sequence[Any],
    params: dict[str, Any],
    to_jax: Callable[[ClosedJaxpr], Any],
    to_aval: Callable[[Any], Any],
) -> Any:
    """Return a closed jaxpr of JAX's that computes, by its impl rule, a primitive that the installed JAX lacks.

    Returns:
      The jaxpr; None where nobody declares the primitive, or its rule does not work with arrays of
        JAX's.
    """
    if not primitive.known:
        return None
    rules = _StandIn(primitive, to_jax, to_aval)
    try:
        return jax.make_jaxpr(lambda *xs: rules.impl(*xs, **params))(*in_avals)
    except JaxprToolError:
        return None


def _program(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> ClosedJaxpr:
    """The program with one equation of a primitive."""
    binders = [Var(a) for a in avals]
    outs = [Var(a) for a in abstract_eval(primitive, avals, params)]
    return ClosedJaxpr(
        Jaxpr(binders, [JaxprEqn(primitive, binders, Params(params), outs)], outs), []
    )


class _StandIn:
    """JAX's rules of one stand-in."""

    def __init__(self, primitive: Primitive, to_jax: Any, to_aval: Any):
        self.primitive, self.to_jax, self.to_aval = primitive, to_jax, to_aval

    def full(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the params with the defaults of those that are not given."""
        return {**self.primitive.defaults, **params}

    def program(self, avals: Sequence[ShapedArray], params: dict[str, Any]) -> ClosedJaxpr:
        """The program with one equation of the primitive."""
        return _program(self.primitive, avals, self.full(params))

    def call(self, program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        return private.jaxpr_as_fun(self.to_jax(program))(*args)

    def given(self, outs: Sequence[Any]) -> Any:
        """Return results, or the only one, in the form in which JAX takes them from the primitive."""
        return list(outs) if self.primitive.multiple_results else outs[0]

    def types(self, *avals: Any, **params: Any) -> Any:
        found = abstract_eval(self.primitive, [_aval(a) for a in avals], self.full(params))
        return self.given([self.to_aval(a) for a in found])

    def impl(self, *values: Any, **params: Any) -> Any:
        params = self.full(params)
        avals = [_aval(private.type_of(x)) for x in values]
        rule = impl_rules[self.primitive]
        program = expansion(rule, avals, params)
        if program is not None:
            return self.given(self.call(program, values))
        wanted = [self.to_aval(a) for a in abstract_eval(self.primitive, avals, params)]
        try:
            out = rule(jax.numpy, *values, **params)
            outs = list(out) if self.primitive.multiple_results else [out]
            outs = [jax.numpy.asarray(x) for x in outs]
        except JaxprToolError:
            raise
        except Exception as e:  # a plug-in's rule, on other arrays than it is for
            return self.refuse(f"{type(e).__name__}: {next(iter(str(e).splitlines()), '')}")
        if [(x.shape, x.dtype) for x in outs] != [(a.shape, a.dtype) for a in wanted]:
            self.refuse("it gives other types on arrays of JAX's")
        return self.given(outs)

    def refuse(self, why: str) -> Any:
        name = self.primitive.name
        message = (
            f"JAX has no primitive {name}, and the impl rule of the plug-in's is not for JAX: {why}"
        )
        help = f"import the library that declares {name}, or define it with jaxprtool.decomposed"
        return fail(UnsupportedError, message, "unknown-primitive", help=help)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        live = [type(t) is not NoTangent for t in tangents]
        program = self.program([_aval(private.type_of(x)) for x in primals], params)
        moved, flags = jvp_jaxpr(program, live, instantiate_outs=False)
        given = [t for t, on in zip(tangents, live, strict=True) if on]
        results, rest = split_list(self.call(moved, [*primals, *given]), len(flags))
        pairs = zip(results, spread(flags, rest), strict=True)
        found = [no_tangent(x) if t is None else t for x, t in pairs]
        return self.given(results), self.given(found)

    def batch(self, values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        size = next(x.shape[d] for x, d in zip(values, dims, strict=True) if d is not None)
        avals = [
            _unbatched(_aval(private.type_of(x)), d) for x, d in zip(values, dims, strict=True)
        ]
        batched, out_dims = vmap_jaxpr(self.program(avals, params), size, dims, None)
        return self.given(self.call(batched, values)), self.given(out_dims)

    def transpose(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        cts = list(cts) if self.primitive.multiple_results else [cts]
        linear = [private.is_unknown(x) for x in args]
        pairs = zip(args, linear, strict=True)
        avals = [_aval(x.aval if flag else private.type_of(x)) for x, flag in pairs]
        live = [type(ct) is not NoTangent for ct in cts]
        if not any(live):
            return [None] * len(args)
        program = self.program(avals, params)
        back, flags = transpose_jaxpr(program, linear, live, instantiate_cts=False)
        given = [ct for ct, on in zip(cts, live, strict=True) if on]
        fixed = [x for x, flag in zip(args, linear, strict=True) if not flag]
        return spread(linear, spread(flags, self.call(back, [*fixed, *given])))


def _unbatched(aval: ShapedArray, dim: int | None) -> ShapedArray:
    """The type of one example."""
    shape = aval.shape
    return aval if dim is None else aval.update(shape=(*shape[:dim], *shape[dim + 1 :]))


def _aval(aval: Any) -> Any:
    if aval is private.ABSTRACT_TOKEN:
        return AbstractToken()
    shape = tuple(d if isinstance(d, int) else SymbolicDim(str(d)) for d in aval.shape)
    return ShapedArray(shape, dtype_of(aval.dtype) or custom_dtype(aval.dtype.name))


def takes(theirs: Any, avals: list[Any], params: dict[str, Any]) -> bool:
    """Whether a library's primitive accepts these params: a text may have those of another release."""
    try:
        theirs.abstract_eval(*avals, **params)
    except Exception:  # a rule of the library's runs here: any error is possible
        return False
    return True
