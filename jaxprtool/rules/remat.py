"""Rows of `remat2` (`jax.checkpoint`) and `name`, and the Python function `checkpoint`.

The derivative of a `remat2` computes the known part of its jaxpr twice. The first computation
returns the results, and only the arguments are kept. The recomputation is in another `remat2`, and
computes the values that the tangents or cotangents need. Values that the policy saves are kept,
too: they become arguments of the recomputation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.partition import merge_lists, partition_list, split_list
from jaxprtool.core.policies import POLICIES, Saves, policy_saves, save_everything
from jaxprtool.core.trace import get_aval
from jaxprtool.core.tree import tree_flatten, tree_unflatten
from jaxprtool.interpreters.batch import elementwise_batch
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.passing import call_passing
from jaxprtool.interpreters.contracts import PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.dce import call_dce_rule, dce_closed, dce_jaxpr, prune_consts
from jaxprtool.interpreters.functions.parameters import Statics, by_position, named_like
from jaxprtool.interpreters.jvp import Zero, fill_zeros
from jaxprtool.interpreters.partial_eval import (
    PartialEvalTrace,
    partial_eval_jaxpr,
)
from jaxprtool.interpreters.remat import Saving, split_saving
from jaxprtool.interpreters.reuse.copies import once
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import argument_names, flatten_fun, hoist_consts, stage
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass, transpose_unary
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Value
from jaxprtool.ir.memo import Memo, MemoTable
from jaxprtool.ir.params import ParamValue, Word
from jaxprtool.ir.walk import all_eqns, with_jaxprs
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.calls import CallRules
from jaxprtool.rules.define import define

__all__ = ["checkpoint"]

# -- remat2 ------------------------------------------------------------------------------------


def _one_flag(params: dict[str, ParamValue]) -> dict[str, Any]:
    """Return the params with `prevent_cse` as a single flag, if it has one for each argument.

    The arguments are about to change.
    """
    prevent = params["prevent_cse"]
    return {**params, "prevent_cse": any(prevent)} if isinstance(prevent, tuple) else params


_TRANSPOSED = MemoTable[tuple[ClosedJaxpr, list[bool]]]("transposed remat2")


class _RematRules(CallRules):
    """The rules of a call, except those that say which values are kept between the two
    computations.
    """

    def transposed(
        self, closed: ClosedJaxpr, linear: Sequence[bool], nonzero: Sequence[bool]
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """Transpose the jaxpr, after splitting it into its non-linear and its linear equations,
        which may be interleaved.
        """
        key = (tuple(linear), tuple(nonzero))
        return _TRANSPOSED.of(closed, key, lambda: _transposed(closed, linear, nonzero))

    def partial_eval(
        self, trace: PartialEvalTrace, args: Sequence[Value], **params: Any
    ) -> list[Value]:
        closed: ClosedJaxpr = params["jaxpr"]
        unks = [trace.is_unknown(x) for x in args]
        parts = _split(closed, unks, policy_saves(params["policy"]))
        known_args, _ = partition_list(unks, args)
        outs, saved = split_list(
            trace.known(apply_jaxpr, parts.known, known_args, closed), parts.n_known
        )
        operands = [*saved, *[args[i] for i in parts.used]]
        atoms = trace.atoms(operands)
        fields = {**self.fields(parts.again, params), "differentiated": True}
        avals = parts.again.out_avals
        unknown = trace.emit(self.op.primitive, atoms, fields, avals) if avals else []
        return merge_lists(parts.unks_out, outs, unknown)

    def saving(self, eqn: JaxprEqn, unks: Sequence[bool], saves: Saves) -> Saving | None:
        """The saving rule: the policy of the outer `remat2` decides; both parts remain `remat2`
        calls.
        """
        cut = split_saving(eqn.params["jaxpr"], unks, saves)
        if not cut.n_saved:
            return None
        again = {**eqn.params, "differentiated": True}
        return Saving(
            stage(lambda *args: self.apply(cut.known, args, eqn.params), cut.known.in_avals),
            stage(lambda *args: self.apply(cut.again, args, again), cut.again.in_avals),
            cut.unks_out,
        )


def _transposed(
    closed: ClosedJaxpr, linear: Sequence[bool], nonzero: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    first, rest, _, _ = partial_eval_jaxpr(closed, linear, True, keep=True)
    fixed_avals = first.in_avals
    flags: list[bool] = []

    def pull_back(*args: Value) -> list[Value]:
        fixed, live = split_list(args, len(fixed_avals))
        residuals = apply_jaxpr(first, fixed, closed)
        cts = fill_zeros(nonzero, live, [x.aval for x in closed.jaxpr.outs])
        undef = [UndefPrimal(v.aval.strong) for v in rest.jaxpr.in_binders[len(residuals) :]]
        out = backward_pass(rest.jaxpr, [*rest.const_operands, *residuals, *undef], cts)
        flags[:] = [type(ct) is not Zero for ct in out]
        return [ct for ct in out if type(ct) is not Zero]

    ct_avals = [x.aval.tangent() for x, nz in zip(closed.jaxpr.outs, nonzero, strict=True) if nz]
    transposed = stage(pull_back, [*[a.strong for a in fixed_avals], *ct_avals])
    return once(dce_closed(transposed)), flags


class _Parts:
    """A jaxpr split for rematerialisation.

    Attributes:
      known: (known arguments) -> (known results, saved values), with `n_known` results.
      again: (saved values, arguments `used`) -> (unknown results).
      unks_out: which results are unknown.
    """

    def __init__(
        self,
        known: ClosedJaxpr,
        n_known: int,
        again: ClosedJaxpr,
        used: list[int],
        unks_out: list[bool],
    ):
        self.known, self.n_known, self.again = known, n_known, again
        self.used, self.unks_out = used, unks_out


def _split(closed: ClosedJaxpr, unks: Sequence[bool], saves: Saves) -> _Parts:
    if saves is save_everything:
        return _PARTS.of(closed, tuple(unks), lambda: _keep_residuals(closed, unks))
    return _PARTS.of(closed, (tuple(unks), saves), lambda: _compute_again(closed, unks, saves))


_PARTS = MemoTable[_Parts]("parts of a remat2")


def _keep_residuals(closed: ClosedJaxpr, unks: Sequence[bool]) -> _Parts:
    """Split the jaxpr like that of an ordinary call: save all values that the unknown part uses."""
    known, rest, unks_out, _n_res = partial_eval_jaxpr(_keeping(closed), unks)
    used = [i for i, u in enumerate(unks) if u]
    return _Parts(known, unks_out.count(False), rest, used, unks_out)


def _keeping(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr with inner `remat2`s that save everything, since the outer policy
    decides.
    """
    return _KEEPING.of(closed, lambda: _made_keeping(closed))


_KEEPING = Memo[ClosedJaxpr]("nothing computed again inside")


def _made_keeping(closed: ClosedJaxpr) -> ClosedJaxpr:
    if not any(e.primitive is lax.remat_call.primitive for e in all_eqns(closed.jaxpr)):
        return closed
    eqns = []
    for eqn in closed.eqns:
        eqn = with_jaxprs(eqn, _keeping)
        if eqn.primitive is lax.remat_call.primitive:
            eqn = eqn.replace(params={**eqn.params, "policy": Word("everything_saveable")})
        eqns.append(eqn)
    jaxpr = closed.jaxpr
    return ClosedJaxpr(
        Jaxpr(jaxpr.in_binders, eqns, jaxpr.outs, jaxpr.const_binders), closed.consts
    )


def _compute_again(closed: ClosedJaxpr, unks: Sequence[bool], saves: Saves) -> _Parts:
    """Split the jaxpr so that its unknown part computes everything again from the arguments and the saved values."""
    cut = split_saving(closed, unks, saves)
    jaxpr, n_known = cut.again.jaxpr, cut.unks_out.count(False)
    again, used = dce_jaxpr(jaxpr, cut.unks_out)
    saved, args = split_list(used, cut.n_saved)
    known, _ = dce_jaxpr(cut.known.jaxpr, [*[True] * n_known, *saved], keep_inputs=True)
    return _Parts(
        prune_consts(ClosedJaxpr(known, cut.known.consts)),
        n_known,
        prune_consts(ClosedJaxpr(again, cut.again.consts)),
        [i for i, u in enumerate(args) if u],
        cut.unks_out,
    )


def _types(
    *avals: Aval, jaxpr: ClosedJaxpr, prevent_cse: ParamValue, **_: ParamValue
) -> list[Aval]:
    outs = check_call("remat2", jaxpr, avals)
    if isinstance(prevent_cse, (tuple, list)) and len(prevent_cse) != len(avals):
        ill_typed(
            f"remat2: prevent_cse has {len(prevent_cse)} flags, and there are {len(avals)} operands",
            "param-value",
        )
    return outs


def _lower(
    ctx: Value, *args: Value, jaxpr: ClosedJaxpr, prevent_cse: Any, **params: Any
) -> list[Any]:
    """Write the body in place.

    Arguments of the recomputation go through a barrier, so that XLA does not merge it with the
    first computation.
    """
    guarded = prevent_cse if isinstance(prevent_cse, tuple) else (prevent_cse,) * len(args)
    if params["differentiated"] and any(guarded):
        kept, hidden = partition_list(guarded, args)
        avals = [x.aval for x in hidden]
        behind = ctx.op("optimization_barrier", *hidden, out=avals)
        args = tuple(merge_lists(guarded, kept, behind))
    return ctx.inline(jaxpr, args)


_dce_call = call_dce_rule("jaxpr")


def _dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    smaller, used = _dce_call(eqn, used_outs)
    prevent = eqn.params["prevent_cse"]
    if isinstance(prevent, tuple) and not all(used):
        flags = tuple(p for p, u in zip(prevent, used, strict=True) if u)
        smaller = smaller.replace(params={**smaller.params, "prevent_cse": flags})
    return smaller, used


_rules = _RematRules(lax.remat_call, "jaxpr", _one_flag)

define(
    lax.remat_call,
    **{
        **_rules.columns(),
        "abstract_eval": _types,
        "lower": _lower,
        "dce": _dce,
        "discharge": _rules.discharge,
        "passing": call_passing("jaxpr"),
    },
)


def _name_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, name: str
) -> PrimalAndTangent:
    """The jvp rule: the tangent gets no name, so a policy that saves the value does not save it."""
    return lax.checkpoint_name(*primals, name=name), tangents[0]


define(
    lax.checkpoint_name,
    abstract_eval=lambda x, name: x.strong,
    impl=lambda xp, x, name: x,
    jvp=_name_jvp,
    transpose=transpose_unary(lambda ct, aval, name: ct),
    batch=elementwise_batch,
    lower=lambda ctx, x, name: x,
    cost=FREE,
    elements="kept",
    earlier=lambda x, name: lambda v: v,
)


def checkpoint(
    f: Callable[..., Value],
    policy: str | None = None,
    *,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> Callable[..., Value]:
    """Return f with derivatives that recompute its intermediate values instead of storing them.

    Args:
      f: a function of pytrees; it may close over tracers.
      policy: the name of a policy that says which values are stored nevertheless:
        `nothing_saveable` (the same as None), `everything_saveable`, `dots_saveable`,
        `dots_with_no_batch_dims_saveable`.
      prevent_cse: whether the compiler must not merge the recomputation with the first computation.
      static_argnums: positions of arguments that are not traced.

    Raises:
      UsageError: there is no policy of that name, or no such argument.
    """
    if policy is not None and policy not in POLICIES:
        fail(
            UsageError,
            f"there is no policy named {policy!r}",
            "remat-policy",
            help=f"the names are {', '.join(POLICIES)}",
        )

    statics = Statics.of(f, static_argnums, ())

    def rematerialised(*given: Value, **keywords: Value) -> Value:
        of_args, left, keywords, _ = statics.apart(f, given, keywords)
        of_args, args = by_position(of_args, left, keywords)
        leaves, in_tree = tree_flatten(args)
        flat, out_tree = flatten_fun(of_args, in_tree)
        closed = stage(flat, [get_aval(x) for x in leaves], argument_names(of_args, args))
        word = None if policy is None else Word(policy)
        operands = [*closed.const_operands, *leaves]
        params = {"prevent_cse": prevent_cse, "policy": word}
        outs = lax.remat_call(*operands, jaxpr=hoist_consts(closed), **params)
        return tree_unflatten(out_tree[0], outs)

    return named_like(f, rematerialised)
