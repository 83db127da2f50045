"""Primitives that only a running JAX knows: every rule of ours calls JAX's rule, and uses the jaxpr that it traces.

jvp, batch, transpose     JAX's rules of the primitive, traced for the operands' types
impl, lower               the function that implements it; where JAX cannot trace one, what JAX compiles of the primitive
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import jax
import numpy as np

from jaxprtool.backends.jax.live import LivePrimitive
from jaxprtool.backends.jax.private import (
    NoTangent,
    array_type,
    implementations,
    instantiated,
    jvp_rule_of,
    result_types,
    type_of,
)
from jaxprtool.backends.jax.rules import is_inexact, no_tangent
from jaxprtool.backends.jax.to_jax import jax_params
from jaxprtool.backends.jax.wide_types import with_wide_types
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.core.partition import merge_lists, partition_list, split_list, spread
from jaxprtool.core.trace import get_aval, inexact
from jaxprtool.interpreters.batch import batch_rules
from jaxprtool.interpreters.check import abstract_eval_rules
from jaxprtool.interpreters.cost import FREE, cost_rules
from jaxprtool.interpreters.evaluate import impl_rules, runner
from jaxprtool.interpreters.jvp import Zero, fill_zeros, instantiate, jvp_rules
from jaxprtool.interpreters.lower import lowering_rules
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.transpose import is_linear, transpose_rules
from jaxprtool.ir.diagnostics import Diagnostic, MissingRuleError
from jaxprtool.ir.exact_keys import HashableParams
from jaxprtool.ir.frozen import set_field
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["NOTHING", "Known", "give_rules"]

Known = Mapping[int, np.ndarray]  # operands whose values are known, by position
NOTHING: Known = {}


def give_rules(
    primitive: LivePrimitive, from_jax: Callable[[Any], ClosedJaxpr], to_aval: Callable[[Any], Any]
) -> None:
    """Let our interpreters use JAX's rules of a primitive.

    Args:
      primitive: our primitive, which holds JAX's.
      from_jax: converts programs from JAX.
      to_aval: converts types from JAX.
    """
    if primitive in abstract_eval_rules:
        return
    rules = _Rules(primitive, from_jax, to_aval)
    abstract_eval_rules.define(primitive, rules.types)
    impl_rules.define(primitive, _Impl(rules))
    jvp_rules.define(primitive, rules.jvp)
    batch_rules.define(primitive, rules.batch)
    transpose_rules.define(primitive, rules.transpose)
    lowering_rules.define(primitive, rules.lower)
    cost_rules.define(primitive, FREE)
    set_field(primitive, "rules", rules)


class _Rules:
    """The rules of one primitive; `made` caches the jaxprs by types and params."""

    def __init__(self, primitive: LivePrimitive, from_jax: Any, to_aval: Any):
        self.primitive, self.from_jax, self.to_aval = primitive, from_jax, to_aval
        self.made: dict[Any, ClosedJaxpr] = {}
        self.functions: dict[int, Callable[..., Any]] = {}  # of JAX's, by the jaxprs of `expansion`
        self.bodies: list[ClosedJaxpr] = []  # keeps ids unique

    def given(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return JAX's params."""
        held = self.primitive.given
        return jax_params(self.primitive.value, params) if held is None else held

    def bind(self, params: dict[str, Any]) -> Callable[..., list[Any]]:
        """Return the primitive as a function of its operands that returns a list."""
        theirs, given = self.primitive.value, self.given(params)
        bind = lambda *xs: theirs.bind(*xs, **given)  # noqa: E731
        return bind if theirs.multiple_results else lambda *xs: [bind(*xs)]

    def trace(
        self,
        column: str,
        params: dict[str, Any],
        avals: Sequence[Any],
        key: Any,
        f: Any,
        known: Known = NOTHING,
    ) -> ClosedJaxpr:
        """Return the jaxpr of f, a function of JAX's, for operands of these types; `key` is what else it depends on.

        Operands in `known` have these values inside of it, which a rule may look at in Python.

        Raises:
          MissingRuleError: JAX has no such rule, or it fails.
        """
        types = tuple([a.strong for a in avals])
        fixed = HashableParams({str(i): x.item() for i, x in sorted(known.items())})
        whole: Any = (column, types, key, fixed, HashableParams(params))
        try:
            found = self.made.get(whole)
        except TypeError:  # params without a hash
            whole, found = None, None
        if found is not None:
            return found
        structs = [jax.ShapeDtypeStruct(a.shape, np_dtype(a.dtype)) for a in types]
        given = lambda *xs: f(*[known.get(i, x) for i, x in enumerate(xs)])  # noqa: E731
        try:
            with with_wide_types(structs):
                found = self.from_jax(jax.make_jaxpr(given)(*structs))
        except Exception as e:  # a user's function runs here: any error is possible
            self.missing(column, e)
        if whole is not None:
            self.made[whole] = found
        return found

    def missing(self, column: str, error: Exception | None) -> NoReturn:
        name = self.primitive.name
        why = f": {type(error).__name__}: {str(error).splitlines()[0]}" if str(error or "") else ""
        message = f"JAX gives no {column} rule for the primitive {name} of this process{why}"
        raise MissingRuleError(Diagnostic(message, "no-rule"), name)

    def types(self, *avals: Any, **params: Any) -> list[Any]:
        theirs, given = self.primitive.value, self.given(params)
        types = [array_type(a.shape, np_dtype(a.dtype)) for a in avals]
        return [self.to_aval(a).strong for a in result_types(theirs, types, given)]

    def expansion(
        self, avals: Sequence[Any], params: dict[str, Any], known: Known = NOTHING
    ) -> ClosedJaxpr:
        """Return the primitive's implementation as a jaxpr without the primitive itself; see `trace` for `known`."""
        theirs, given = self.primitive.value, self.given(params)
        error: Exception | None = None
        for i, (f, several) in enumerate(implementations(theirs)):

            def flat(*xs: Any, f: Any = f, several: bool = several) -> list[Any]:
                out = f(*xs, **given)
                return list(out) if several else [out]

            try:
                found = self.trace("impl", params, avals, i, flat, known)
            except MissingRuleError as e:
                error = e
                continue
            if not self.occurs(found.jaxpr, avals, params):
                self.functions[id(found)] = flat
                self.bodies.append(found)
                return found
        self.missing("impl", error)

    def occurs(self, jaxpr: Jaxpr, avals: Sequence[Any], params: dict[str, Any]) -> bool:
        """Whether a jaxpr applies the primitive to operands of these types with these params."""
        types, shown = [a.strong for a in avals], str(params)
        todo = [jaxpr]
        while todo:
            for eqn in todo.pop().eqns:
                same = eqn.primitive is self.primitive and str(eqn.params) == shown
                if same and [x.aval.strong for x in eqn.inputs] == types:
                    return True
                todo += [c.jaxpr for c in sub_jaxprs(eqn)]
        return False

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        live = [type(t) is not Zero for t in tangents]
        given = [t for t in tangents if type(t) is not Zero]
        rule = self.jvp_program([get_aval(x) for x in primals], live, params)
        outs = apply_jaxpr(rule, [*primals, *given])
        n_out = len(self.types(*[get_aval(x).strong for x in primals], **params))
        results, live_out = split_list(outs, n_out)
        kinds = [get_aval(x) for x in results]
        return results, fill_zeros(inexact(kinds), live_out, kinds)

    def jvp_rule(self, params: dict[str, Any]) -> Callable[..., Any]:
        """Return JAX's rule with these params: (primals, tangents) -> (results, their tangents), lists."""
        theirs, given, bind = self.primitive.value, self.given(params), self.bind(params)
        rule = jvp_rule_of(theirs)

        def of_table(primals: Any, tangents: Any) -> Any:
            outs, out_tangents = cast(Any, rule)(primals, tangents, **given)
            if not theirs.multiple_results:
                outs, out_tangents = [outs], [out_tangents]
            # Some libraries say None where nothing moves, which JAX takes in reverse mode.
            pairs = zip(outs, out_tangents, strict=True)
            return outs, [no_tangent(x) if t is None else t for x, t in pairs]

        def of_jax(primals: Any, tangents: Any) -> Any:
            live = [type(t) is not NoTangent for t in tangents]
            fixed, moving = partition_list(live, primals)
            of_moving = lambda *xs: bind(*merge_lists(live, fixed, xs))  # noqa: E731
            return jax.jvp(of_moving, moving, partition_list(live, tangents)[1])

        return of_jax if rule is None else of_table

    def jvp_program(
        self,
        avals: Sequence[Any],
        live: Sequence[bool],
        params: dict[str, Any],
        known: Known = NOTHING,
    ) -> ClosedJaxpr:
        """(*primals, *tangents of those that are `live`) -> (*results, *tangents of the inexact ones)."""
        n, rule = len(avals), self.jvp_rule(params)

        def f(*xs: Any) -> list[Any]:
            pairs = zip(xs[:n], spread(live, xs[n:]), strict=True)
            given = tuple([no_tangent(x) if t is None else t for x, t in pairs])
            outs, tangents = rule(xs[:n], given)
            moving = [t for x, t in zip(outs, tangents, strict=True) if is_inexact(type_of(x))]
            return [*outs, *map(instantiated, moving)]

        given = [a for a, on in zip(avals, live, strict=True) if on]
        return self.trace("jvp", params, [*avals, *given], tuple(live), f, known)

    def batch(self, axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
        avals = [get_aval(x) for x in values]
        program, out_dims = self.batch_program(axis_size, dims, avals, params)
        return apply_jaxpr(program, values), out_dims

    def batch_program(
        self, axis_size: int, dims: Any, avals: Sequence[Any], params: dict[str, Any]
    ) -> tuple[ClosedJaxpr, list[int | None]]:
        """Return JAX's rule for batched operands of these types, and the batch axis of each result: 0, or None."""
        size, bind = int(axis_size), self.bind(params)

        def mapped(out_axes: Any) -> Any:
            return jax.vmap(bind, in_axes=tuple(dims), out_axes=out_axes, axis_size=size)

        def traced(out_axes: Any) -> ClosedJaxpr:
            f = lambda *xs: mapped(list(out_axes))(*xs)  # noqa: E731
            return self.trace("batch", params, avals, (size, tuple(dims), tuple(out_axes)), f)

        n_out = len(traced([0] * self._count(avals, dims, params)).out_avals)
        out_dims: list[Any] = [0] * n_out
        for i in range(n_out):  # JAX refuses to say that a batched result is none
            trial = [None if i == k else d for k, d in enumerate(out_dims)]
            try:
                traced(trial)
            except MissingRuleError:
                continue
            out_dims = trial
        return traced(out_dims), out_dims

    def batched_pair(
        self,
        size: int,
        dims: Sequence[int | None],
        avals: Sequence[Any],
        params: dict[str, Any],
        body: ClosedJaxpr,
        known: Known,
    ) -> tuple[ClosedJaxpr, ClosedJaxpr]:
        """Return what JAX's rule makes of a batch, and the batched implementation; the batch axis
        of results is the first.

        Args:
          size: the size of the batch.
          dims: 0 for operands that are batched, None for others.
          avals: the types of the operands of one example.
          body: the implementation, as returned by `expansion`.

        Raises:
          MissingRuleError: JAX cannot batch one of them.
        """
        full = [
            a if d is None else a.update(shape=(size, *a.shape))
            for a, d in zip(avals, dims, strict=True)
        ]
        made = []
        for column, f in (("batch", self.bind(params)), ("impl batch", self.functions[id(body)])):
            over = lambda *xs, f=f: list(jax.vmap(f, tuple(dims), 0, axis_size=size)(*xs))  # noqa: E731
            key = (size, tuple(dims), id(f) if column == "impl batch" else None)
            made.append(self.trace(column, params, full, key, over, known))
        return made[0], made[1]

    def _count(self, avals: Sequence[Any], dims: Any, params: dict[str, Any]) -> int:
        single = []
        for a, d in zip(avals, dims, strict=True):
            a = a.strong
            shape = a.shape if d is None else (*a.shape[:d], *a.shape[d + 1 :])
            single.append(a.update(shape=shape))
        return len(self.types(*single, **params))

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        linear = [is_linear(x) for x in args]
        values = [x for x, flag in zip(args, linear, strict=True) if not flag]
        avals = [x.aval.strong if is_linear(x) else get_aval(x).strong for x in args]
        kinds = self.types(*avals, **params)
        given = [ct for ct, flag in zip(cts, inexact(kinds), strict=True) if flag]
        full = [instantiate(ct) for ct in given]
        back = self.transpose_program(avals, linear, [get_aval(x) for x in full], params)
        return spread(linear, apply_jaxpr(back, [*values, *full]))

    def transpose_program(
        self,
        avals: Sequence[Any],
        linear: Sequence[bool],
        ct_avals: Sequence[Any],
        params: dict[str, Any],
        known: Known = NOTHING,
    ) -> ClosedJaxpr:
        """(*operands that are not `linear`, *cotangents of inexact results) -> (*cotangents of the others)."""
        bind = self.bind(params)
        fixed_avals = [a for a, flag in zip(avals, linear, strict=True) if not flag]
        wanted = [a.strong for a, flag in zip(avals, linear, strict=True) if flag]
        structs = [jax.ShapeDtypeStruct(a.shape, np_dtype(a.dtype)) for a in wanted]
        n = len(fixed_avals)

        def f(*xs: Any) -> list[Any]:
            def of_linear(*moving: Any) -> list[Any]:
                outs = bind(*merge_lists(linear, xs[:n], moving))
                return [x for x in outs if is_inexact(x.aval)]

            return list(jax.linear_transpose(of_linear, *structs)(list(xs[n:])))

        key = (tuple(linear), tuple(wanted))
        places = [i for i, flag in enumerate(linear) if not flag]
        fixed = {places.index(i): x for i, x in known.items()}
        return self.trace("transpose", params, [*fixed_avals, *ct_avals], key, f, fixed)

    def lower(self, ctx: Any, *operands: Any, **params: Any) -> list[Any]:
        try:
            body = self.expansion(ctx.in_avals, params)
        except MissingRuleError:  # it is another language's, and only its lowering is JAX's
            text = self.lowered(ctx.in_avals, params)
            try:
                return ctx.call_module(text, operands, self.primitive.name)
            except ValueError as e:
                self.missing("lower", e)
        return ctx.inline(body, operands)

    def lowered(self, avals: Sequence[Any], params: dict[str, Any]) -> str:
        """Return the module to which JAX lowers the primitive alone.

        Raises MissingRuleError where it cannot.
        """
        structs = [jax.ShapeDtypeStruct(a.shape, np_dtype(a.dtype)) for a in avals]
        try:
            with with_wide_types(structs):
                return jax.jit(self.bind(params), keep_unused=True).lower(*structs).as_text()
        except Exception as e:  # a user's function runs here: any error is possible
            self.missing("lower", e)


class _Impl:
    """Evaluates the implementation on NumPy where JAX can trace it, else with JAX itself."""

    def __init__(self, rules: _Rules):
        self.rules = rules

    def __call__(self, xp: Any, *values: Any, **params: Any) -> list[Any]:
        return self.prepare(xp, [get_aval(v) for v in values], None, params)(*values)

    def prepare(self, xp: Any, in_avals: Any, out_avals: Any, params: Any) -> Callable[..., Any]:
        try:
            run = runner(self.rules.expansion(in_avals, params))
        except MissingRuleError:
            bind = jax.jit(self.rules.bind(params))
            return lambda *values: self.through_jax(bind, values)
        return lambda *values: run(values)

    def through_jax(self, bind: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
        try:
            return [np.asarray(x) for x in bind(*values)]
        except NotImplementedError as e:
            self.rules.missing("impl", e)
