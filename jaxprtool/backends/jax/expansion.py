"""Expand primitives that only this process knows, so that a file can hold the program, and other processes can run it.

A primitive becomes a call of its implementation. Where JAX has a derivative rule for it the call is
a `custom_jvp_call`, since the derivative of an implementation may differ from the one that the rule
gives. An operation that such a rule applies to tangents is linear in them, and becomes a
`linear_call` with JAX's transpose. Where JAX's batching rule does something else than batching the
implementation, the call becomes a `custom_vmap_call` (`batch_rules`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from jaxprtool.backends.jax.batch_rules import rule_of
from jaxprtool.backends.jax.foreign import NOTHING, Known
from jaxprtool.backends.jax.live import LivePrimitive
from jaxprtool.backends.jax.private import jvp_rule_of
from jaxprtool.backends.jax.rules import DEPTH, patterns
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.core.partition import split_list
from jaxprtool.core.primitive import find_primitive
from jaxprtool.core.trace import is_inexact
from jaxprtool.interpreters.dce import dce_closed
from jaxprtool.ir.diagnostics import MissingRuleError
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import map_jaxprs

__all__ = ["expanded"]


def expanded(program: ClosedJaxpr, rules: bool = True) -> ClosedJaxpr:
    """Return the program with calls in place of primitives that only this process knows.

    A primitive whose implementation JAX cannot trace stays as it is. Without `rules` the calls have
    no derivative rules.
    """
    return _Expansion(rules).closed(program)


class _Expansion:
    """One expansion; a jaxpr that occurs twice stays one object, and one in which nothing changes the same object.

    Attributes:
      active: the primitives whose derivative rules are being expanded, to bound rules that apply
        their own primitive.
    """

    def __init__(self, rules: bool, batches: bool = True) -> None:
        self.batches = batches  # whether batch rules are inspected
        self.depth = DEPTH if rules else 0
        self.done: dict[Any, ClosedJaxpr] = {}
        self.calls: dict[Any, JaxprEqn] = {}
        self.active: list[LivePrimitive] = []

    def closed(self, program: ClosedJaxpr, linear: Sequence[bool] = ()) -> ClosedJaxpr:
        """Expand a program; `linear` says for each argument whether the program is linear in it."""
        linear = list(linear) if any(linear) else []
        key = (program, tuple(linear), self.depths())
        found = self.done.get(key)
        if found is None:
            found = self.done[key] = self._closed(program, linear)
        return found

    def depths(self) -> tuple[Any, ...]:
        """Return a cache key for the rules that are being expanded: the expansion of a program
        depends on how many levels are left.
        """
        return tuple(sorted(map(id, self.active)))

    def _closed(self, program: ClosedJaxpr, linear: Sequence[bool]) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        moving = {v for v, flag in zip(jaxpr.in_binders, linear, strict=False) if flag}
        used = {x for e in jaxpr.eqns for x in e.inputs if type(x) is not Lit}
        used.update(x for x in jaxpr.outs if type(x) is not Lit)
        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            flags = [type(x) is not Lit and x in moving for x in eqn.inputs]
            if any(flags):
                moving.update(v for v in eqn.out_binders if is_inexact(v.aval))
            eqns += self.eqns(eqn, flags, used)
        if len(eqns) == len(jaxpr.eqns) and all(map(operator.is_, eqns, jaxpr.eqns)):
            return program
        return program.replace(jaxpr=jaxpr.replace(eqns=eqns))

    def eqns(self, eqn: JaxprEqn, linear: Sequence[bool], used: set[Any]) -> list[JaxprEqn]:
        """Return the equations that replace one that is linear in some operands; `used` are the
        variables that are read.
        """
        if isinstance(eqn.primitive, LivePrimitive):
            try:
                return self.linear_calls(eqn, linear, used) if any(linear) else [self.call(eqn)]
            except MissingRuleError:
                return [eqn]
        params = {
            k: map_jaxprs(v, lambda c, k=k: self.closed(c, _linear_in(k, c, eqn, linear)))
            for k, v in eqn.params.items()
        }
        same = all(params[k] is v for k, v in eqn.params.items())
        return [eqn if same else eqn.replace(params=params)]

    def call(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return the call of the implementation, with its derivative rule."""
        primitive, avals = eqn.primitive, [x.aval.strong for x in eqn.inputs]
        assert isinstance(primitive, LivePrimitive)
        known = self.known(eqn)
        body = primitive.rules.expansion(avals, eqn.params, known)
        key = (body, self.depths())
        made = self.calls.get(key)
        if made is None:
            made = self._call(primitive, avals, eqn.params, body, known)
            made = self.calls[key] = self.with_batch_rule(eqn, made, body, known)
        return eqn.replace(primitive=made.primitive, params=made.params)

    def with_batch_rule(
        self, eqn: JaxprEqn, call: JaxprEqn, body: ClosedJaxpr, known: Known
    ) -> JaxprEqn:
        """Wrap the call in one with JAX's batching rule, where that differs from batching the implementation."""
        if not self.batches:
            return call
        write_out = lambda program: _Expansion(False, False).closed(program)  # noqa: E731
        fields = rule_of(eqn, body, known, write_out)
        if not fields:
            return call
        operands = [Var(x.aval.strong) for x in eqn.inputs]
        results = [Var(v.aval.strong) for v in eqn.out_binders]
        inner = ClosedJaxpr(
            Jaxpr(operands, [call.replace(inputs=operands, out_binders=results)], results), []
        )
        outer = find_primitive("custom_vmap_call")
        return JaxprEqn(outer, [], {**outer.defaults, **fields, "call": inner}, [])

    def _call(
        self,
        primitive: LivePrimitive,
        avals: Sequence[Any],
        params: Any,
        body: ClosedJaxpr,
        known: Known,
    ) -> JaxprEqn:
        inside = self.closed(body)
        ruled = jvp_rule_of(primitive.value) is not None
        floats = (is_inexact(a) for a in avals), (is_inexact(a) for a in body.out_avals)
        if not ruled or not all(map(any, floats)):
            call = find_primitive("jit")
            return JaxprEqn(
                call, [], {**call.defaults, "jaxpr": inside, "name": primitive.name}, []
            )
        call = find_primitive("custom_jvp_call")
        rule = (
            None
            if self.active.count(primitive) >= self.depth
            else self.jvp_rule(primitive, avals, params, known)
        )
        fields = {"call_jaxpr": inside, "name": primitive.name, "jvp_jaxpr": rule}
        return JaxprEqn(call, [], {**call.defaults, **fields, "jvp": f"{primitive.name}_jvp"}, [])

    def jvp_rule(
        self, primitive: LivePrimitive, avals: Sequence[Any], params: Any, known: Known
    ) -> ClosedJaxpr | None:
        """(*primals, *tangents of the inexact ones) -> (*results, *tangents of the inexact ones)."""
        flags = [is_inexact(a) for a in avals]
        rules = primitive.rules
        try:
            trace = lambda live: rules.jvp_program(avals, live, params, known)  # noqa: E731
            taken, rule = patterns(flags, trace)
        except MissingRuleError:
            return None
        primals, given = split_list(rule.jaxpr.in_binders, len(avals))
        rest = iter(given)
        tangents = [
            next(rest) if on else Var(a) for on, f, a in zip(taken, flags, avals, strict=True) if f
        ]
        binders = [*primals, *tangents]
        jaxpr = Jaxpr(binders, rule.jaxpr.eqns, rule.jaxpr.outs, rule.jaxpr.const_binders)
        self.active.append(primitive)
        try:
            linear = [False] * len(primals) + [True] * len(tangents)
            return self.closed(dce_closed(ClosedJaxpr(jaxpr, rule.consts)), linear)
        finally:
            self.active.pop()

    def linear_calls(self, eqn: JaxprEqn, linear: Sequence[bool], used: set[Any]) -> list[JaxprEqn]:
        """Return the equation as a `linear_call` with JAX's transpose, and a plain call for integer
        results that are read.

        Integer results, such as whether a solver succeeded, are not linear, so `linear_call` cannot
        return them.
        """
        moving = [is_inexact(v.aval) for v in eqn.out_binders]
        read = [v in used and not on for v, on in zip(eqn.out_binders, moving, strict=True)]
        try:
            calls = [self.linear_call(eqn, linear, moving)]
        except MissingRuleError:
            return [self.call(eqn)]
        if any(read):
            calls.append(self.call(eqn.replace(out_binders=_only(eqn.out_binders, read))))
        return calls

    def known(self, eqn: JaxprEqn) -> Known:
        """Return the values of operands that the implementation needs, since it looks at them in Python."""
        avals, rules = [x.aval.strong for x in eqn.inputs], eqn.primitive.rules  # type: ignore[attr-defined]
        try:
            rules.expansion(avals, eqn.params)
        except MissingRuleError:
            return _known(eqn)
        return NOTHING

    def linear_call(
        self, eqn: JaxprEqn, linear: Sequence[bool], moving: Sequence[bool]
    ) -> JaxprEqn:
        """Return the equation as a `linear_call` of the results marked `moving`.

        Raises:
          MissingRuleError: JAX has no transpose of it.
        """
        primitive = eqn.primitive
        assert isinstance(primitive, LivePrimitive)
        outs = list(compress(eqn.out_binders, moving))
        avals = [x.aval.strong for x in eqn.inputs]
        cts = [v.aval.strong for v in outs]
        rules, known = primitive.rules, self.known(eqn)
        back = rules.transpose_program(avals, linear, cts, eqn.params, known)
        order = sorted(range(len(avals)), key=lambda i: linear[i])
        operands = [Var(a) for a in avals]
        results = [Var(v.aval.strong) for v in eqn.out_binders]
        # Literals stay literals, since a rule may inspect their values in Python.
        read = [x if type(x) is Lit else v for x, v in zip(eqn.inputs, operands, strict=True)]
        inner = self.call(eqn.replace(inputs=read, out_binders=_only(results, moving)))
        inputs = [operands[i] for i in order]
        callee = ClosedJaxpr(Jaxpr(inputs, [inner], list(compress(results, moving))))
        call = find_primitive("linear_call")
        params = {
            **call.defaults,
            "callee": callee,
            "num_callee_consts": 0,
            "num_res": len(avals) - sum(linear),
            "transpose_jaxpr": self.closed(back),
        }
        inputs = [eqn.inputs[i] for i in order]
        return eqn.replace(primitive=call, inputs=inputs, params=params, out_binders=outs)


def _known(eqn: JaxprEqn) -> Known:
    """Return the values of operands that are literals of types without tangents."""
    pairs = [(i, x) for i, x in enumerate(eqn.inputs) if type(x) is Lit and not is_inexact(x.aval)]
    return {i: np.asarray(x.val, np_dtype(x.aval.dtype)) for i, x in pairs if x.val is not None}


def _only(binders: Sequence[Var], read: Sequence[bool]) -> list[Var]:
    """Return the binders, with those that are not read dropped."""
    return [v if on else DropVar(v.aval) for v, on in zip(binders, read, strict=True)]


def _linear_in(key: str, inner: ClosedJaxpr, eqn: JaxprEqn, linear: Sequence[bool]) -> list[bool]:
    """Return for each argument of a jaxpr in an equation's params whether the jaxpr is linear in it.

    Derivative rules are linear in tangents and cotangents, which come last; other jaxprs take the
    last operands.
    """
    n = len(inner.jaxpr.in_binders)
    if key == "jvp_jaxpr":
        return [i >= len(eqn.inputs) for i in range(n)]
    if key == "bwd_jaxpr":
        cotangents = sum(is_inexact(v.aval) for v in eqn.out_binders)
        return [i >= n - cotangents for i in range(n)]
    flags = [*[False] * n, *linear]
    return flags[len(flags) - n :] if key not in ("fwd_jaxpr", "transpose_jaxpr") else [False] * n
