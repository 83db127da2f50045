"""Rules of primitives that apply a jaxpr to their operands: transform the jaxpr, and call the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import in_place, state
from jaxprtool.core.partition import partition_list, split_list, spread
from jaxprtool.core.policies import Saves
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.columns.runs import call_of
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.interpreters.dce import call_dce_rule
from jaxprtool.interpreters.discharge import discharge_jaxpr, states_of, store, values_of
from jaxprtool.interpreters.evaluate import bind_eqn, prepared
from jaxprtool.interpreters.evaluation.limits import count_call
from jaxprtool.interpreters.jvp import Zero, fill_zeros, jvp_interpret, jvp_jaxpr
from jaxprtool.interpreters.linearize import linearize_body
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, call_known_part, split_call
from jaxprtool.interpreters.remat import Saving, split_saving
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr, multiplies
from jaxprtool.interpreters.transpose import backward_pass, is_linear, transpose_jaxpr
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Lit, Value, type_of
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.call_types import check_call

__all__ = [
    "JIT",
    "PER_ARGUMENT",
    "CallImpl",
    "CallRules",
    "inline_columns",
    "inline_jvp",
    "inline_transpose",
    "prepared_impl",
]


class CallImpl:
    """Evaluates a call on NumPy: the jaxpr is prepared once, and run by the loop of `_Program`."""

    def __init__(self, param: str):
        self.param = param

    def __call__(self, xp: Namespace, *args: Value, **params: ParamValue) -> list[Value]:
        count_call()
        return xp.run(params[self.param], args)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        closed: ClosedJaxpr = params[self.param]
        if closed.consts:
            return lambda *args: self(xp, *args, **params)
        program, span = prepared(closed.jaxpr), closed.jaxpr.span

        def run(*args: Value) -> list[Value]:
            count_call(span)
            return program.run(args)

        return run


def prepared_impl(make: Callable[..., Callable[..., Value]]) -> Callable[..., Value]:
    """Return the impl rule of a primitive that runs the jaxprs in its params, each of which is prepared once.

    make(xp, **params) returns a function of the values.
    """

    def rule(xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        return make(xp, **params)(*values)

    def prepare(
        xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        return make(xp, **params)

    rule.prepare = prepare  # type: ignore[attr-defined]
    rule.__wrapped__ = make  # type: ignore[attr-defined]
    return rule


def inline_jvp(
    closed: ClosedJaxpr, primals: Sequence[Value], tangents: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """Apply jvp to a jaxpr, whose equations are applied in the current trace (or called: Note [In
    place or called]).
    """
    if multiplies(closed):
        return JIT.jvp(primals, tangents, **_jit_params(closed))
    return jvp_interpret(in_place(closed.jaxpr), closed.const_operands, primals, tangents, bind_eqn)


def inline_transpose(
    cts: Sequence[Value], args: Sequence[Value], closed: ClosedJaxpr
) -> list[Value]:
    """Return the cotangents of the linear operands of a call, None for the others."""
    if multiplies(closed):
        return JIT.transpose(cts, *args, **_jit_params(closed))
    out = backward_pass(in_place(closed.jaxpr), [*closed.const_operands, *args], cts)
    return spread(map(is_linear, args), out)


def inline_columns(key: str) -> dict[str, Any]:
    """Return the columns of a call that every transformation replaces by the equations of its
    jaxpr, the param `key`.
    """

    def batch(
        axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: Any
    ) -> OutAndDim:
        batched, out_dims = vmap_jaxpr(params[key], axis_size, dims, None)
        return apply_jaxpr(batched, vals, params[key]), out_dims

    return {
        "jvp": lambda primals, tangents, **params: inline_jvp(params[key], primals, tangents),
        "transpose": lambda cts, *args, **params: inline_transpose(cts, args, params[key]),
        "batch": batch,
        "partial_eval": lambda trace, args, **params: apply_jaxpr(params[key], args),
    }


class CallRules:
    """The columns of a primitive that applies a jaxpr to its operands: each rule transforms the
    jaxpr, and calls the result.

    Attributes:
      op: the binding function.
      param: the param that holds the jaxpr.
      update: returns the params of a call with other operands.
    """

    def __init__(
        self,
        op: Any,
        param: str = "jaxpr",
        update: Callable[[dict[str, Value]], dict[str, Value]] = lambda params: params,
    ):
        self.op, self.param, self.update = op, param, update

    def columns(self) -> dict[str, Any]:
        """Return the columns, by the keywords of `define`; all but `impl` and `cost` can be replaced."""
        name, param = self.op.primitive.name, self.param
        return {
            "abstract_eval": lambda *avals, **params: check_call(name, params[param], avals, param),
            "impl": CallImpl(param),
            "jvp": self.jvp,
            "transpose": self.transpose,
            "batch": self.batch,
            "lower": lambda ctx, *args, **params: ctx.inline(params[param], args),
            "cost": lambda ins, outs, **params: cost_jaxpr(params[param]),
            "runs": call_of(param),
            "partial_eval": self.partial_eval,
            "saving": self.saving,
            "dce": call_dce_rule(param),
        }

    def fields(self, closed: ClosedJaxpr, params: dict[str, ParamValue]) -> dict[str, Any]:
        """Return the params of a call of a transformed jaxpr."""
        return {**self.update(params), self.param: closed}

    def apply(
        self, closed: ClosedJaxpr, args: Sequence[Value], params: dict[str, ParamValue]
    ) -> list[Value]:
        """Call a transformed jaxpr; its types are those of the operands by construction."""
        outs = [*map(type_of, closed.jaxpr.outs)]
        fields = self.fields(closed, params)
        trace = state.trace
        out = trace.process_typed(self.op.primitive, args, fields, outs)
        if Lit in map(type, out):
            return [trace.literal(x) if type(x) is Lit else x for x in out]
        return out

    def jvp(self, primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
        nonzeros = [type(t) is not Zero for t in tangents]
        transformed, flags = jvp_jaxpr(params[self.param], nonzeros, instantiate_outs=False)
        live = [t for t in tangents if type(t) is not Zero]
        outs = self.apply(transformed, [*primals, *live], params)
        primals_out, live_out = split_list(outs, len(flags))
        return primals_out, fill_zeros(flags, live_out, map(get_aval, primals_out))

    def batch(self, axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
        batched, out_dims = vmap_jaxpr(params[self.param], axis_size, dims, None)
        return self.apply(batched, vals, params), out_dims

    def transpose(self, cts: Value, *args: Value, **params: Any) -> list[Value]:
        linear = [is_linear(x) for x in args]
        nonzero = [type(ct) is not Zero for ct in cts]
        transposed, flags = self.transposed(params[self.param], linear, nonzero)
        operands, undefined = partition_list(linear, args)
        operands += compress(cts, nonzero)
        outs = self.apply(transposed, operands, params) if any(flags) else []
        return spread(linear, fill_zeros(flags, outs, [x.aval for x in undefined]))

    def transposed(
        self, closed: ClosedJaxpr, linear: Sequence[bool], nonzero: Sequence[bool]
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """Return the transpose of the jaxpr: (non-linear arguments, cotangents) -> (cotangents)."""
        return transpose_jaxpr(closed, linear, nonzero, instantiate_cts=False)

    def saving(self, eqn: JaxprEqn, unks: Sequence[bool], saves: Saves) -> Saving | None:
        """Split the body; both computations contain its part in the place of the call."""
        return split_saving(eqn.params[self.param], unks, saves)

    def partial_eval(
        self, trace: PartialEvalTrace, args: Sequence[Value], **params: Any
    ) -> list[Value]:
        return split_call(
            trace,
            params[self.param],
            args,
            lambda c, xs: self.apply(c, xs, params),
            lambda c, xs: self.record(trace, c, xs, params),
        )

    def record(
        self,
        trace: PartialEvalTrace,
        closed: ClosedJaxpr,
        args: list[Value],
        params: dict[str, ParamValue],
    ) -> list[Value]:
        """Record the call of an unknown part."""
        atoms, fields = trace.atoms(args), self.fields(closed, params)
        return trace.emit(self.op.primitive, atoms, fields, closed.out_avals)

    def discharge(self, *operands: Value, **params: Any) -> list[Value]:
        """Call the discharged jaxpr: the contents of cells become operands, and further results after the others.

        For calls that may take references; a primitive names it as its rule explicitly.
        """
        closed: ClosedJaxpr = params[self.param]
        fields = self.fields(discharge_jaxpr(closed), params)
        outs, cells = split_list(self.op(*values_of(operands), **fields), len(closed.jaxpr.outs))
        store(states_of(operands), cells)
        return outs

    def linearize(
        self, trace: PartialEvalTrace, primals: Value, tangents: Value, **params: Any
    ) -> tuple[list[Value], list[Value]]:
        """Call the primal part of the linearized jaxpr, and record a call of its linear part.

        For calls that compute exactly what their jaxpr computes; a primitive names it as its rule
        explicitly.
        """
        closed: ClosedJaxpr = params[self.param]
        nonzeros = [type(t) is not Zero for t in tangents]
        parts = linearize_body(closed, nonzeros, [False] * len(closed.out_avals))
        both = call_known_part(
            trace, parts.primal, primals, lambda c, xs: self.apply(c, xs, params)
        )
        outs, residuals = split_list(both, len(parts.flags))
        operands = [*residuals, *[t for t in tangents if type(t) is not Zero]]
        recorded = self.record(trace, parts.linear, operands, params) if any(parts.flags) else []
        return outs, fill_zeros(parts.flags, recorded, map(get_aval, outs))


# These describe single arguments, and no longer fit when there are others.
PER_ARGUMENT = dict.fromkeys(
    ("donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts")
)

JIT = CallRules(lax.jit_call, "jaxpr", lambda params: {**params, **PER_ARGUMENT})


def _jit_params(closed: ClosedJaxpr) -> dict[str, Any]:
    """Return the params of a call of a jaxpr."""
    return {**lax.jit_call.primitive.defaults, "jaxpr": closed}
