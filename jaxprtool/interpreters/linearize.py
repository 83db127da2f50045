"""linearize, vjp, grad and Jacobians: compositions of jvp, partial evaluation and transposition.

linearize is jvp with known primals and unknown tangents; vjp is linearize, then transpose.

Contract of a `linearize` rule, for primitives whose params hold jaxprs:

    rule(trace, primals, tangents, **params) -> (primals_out, tangents_out)

It is the jvp rule and its partial evaluation in one step, so that no jaxpr of the jvp is made. Primals are known; tangents
are tracers of `trace`, or Zero. For primitives without a `linearize` rule the jvp rule is partially evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.bind import set_current_trace, state
from jaxprtool.core.rule_table import RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.core.tree import tree_flatten, tree_leaves, tree_unflatten
from jaxprtool.interpreters.batch import vmap
from jaxprtool.interpreters.dce import prune_consts
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import as_value, jaxpr_as_fun
from jaxprtool.interpreters.interfaces import of_grad, of_linearize, of_vjp, with_interface
from jaxprtool.interpreters.jvp import (
    Zero,
    check_tangent,
    inexact,
    instantiate,
    is_inexact,
    jvp,
    jvp_flat,
    jvp_interpret,
    jvp_rules,
    zeros,
)
from jaxprtool.interpreters.origins import within_jaxpr
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, parts
from jaxprtool.interpreters.sharing import computes_again, rematerialised
from jaxprtool.interpreters.stage import JaxprTrace, flatten_fun
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, counted, fail
from jaxprtool.ir.dtypes import INT32 as _INT32
from jaxprtool.ir.interface import argument_label
from jaxprtool.ir.jaxpr import ClosedJaxpr, Primitive
from jaxprtool.ir.memo import MemoTable

__all__ = [
    "grad",
    "grad_jaxpr",
    "hessian",
    "jacfwd",
    "jacrev",
    "linearize",
    "linearize_body",
    "linearize_jaxpr",
    "linearize_rules",
    "value_and_grad",
    "vjp",
    "vjp_jaxpr",
]

linearize_rules = RuleTable("linearize")


def _linearize_flat(
    f: Callable[..., Sequence[Any]], primals: Sequence[Any]
) -> tuple[list[Any], ClosedJaxpr]:
    """The results of f, and its linear part: (tangents) -> (tangents of the results), without symbolic zeros."""
    trace = PartialEvalTrace(state.trace)
    avals = [get_aval(x) for x in primals]
    inputs = [trace.new_input(a.tangent()) for a in avals]
    tangents = [t if is_inexact(a) else Zero(a) for t, a in zip(inputs, avals, strict=True)]
    with set_current_trace(trace):
        outs, out_tangents = jvp_flat(f, primals, tangents)
        results = [instantiate(t) for t in out_tangents]
    _check_known(trace, outs)
    return outs, trace.finish(results)


def _check_known(trace: PartialEvalTrace, outs: Sequence[Any]) -> None:
    """Raise UnsupportedError for a result that depends on tangents: some jvp rules compute primal and tangent in one operation."""
    for i, x in enumerate(outs):
        if trace.is_unknown(x):
            names = [e.primitive.name for e in trace.eqns if x.atom in e.out_binders]
            why = (
                f"the jvp rule of {names[0]} computes both at once" if names else "it is a tangent"
            )
            fail(
                UnsupportedError,
                f"result {i} has no value without tangents: {why}",
                "no-known-value",
                help="forward mode (jvp) works",
            )


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of f at a point, and its derivative at that point as a linear function.

    Args:
      f: a function of pytrees; Python control flow on concrete primals is fine.
      primals: the arguments.

    Returns:
      f(*primals), and f_lin with f_lin(*tangents) = jvp(f, primals, tangents)[1]. `f_lin.program` is its jaxpr, with
      residuals as constants.
    """
    leaves, in_tree = tree_flatten(primals)
    flat, out_tree = flatten_fun(f, in_tree)
    outs, linear = _linearize_flat(flat, leaves)
    run, avals, result_tree = jaxpr_as_fun(linear), [get_aval(x) for x in leaves], out_tree[0]

    def f_lin(*tangents: Any) -> Any:
        tangent_leaves, tangent_tree = tree_flatten(tangents)
        if tangent_tree != in_tree:
            fail(
                UsageError,
                f"the tangents are {tangent_tree}, the primals {in_tree}",
                "tangent-tree",
            )
        checked = [
            instantiate(check_tangent(t, a, f"tangent {i}"))
            for i, (t, a) in enumerate(zip(tangent_leaves, avals, strict=True))
        ]
        return tree_unflatten(result_tree, run(*checked))

    f_lin.program = linear  # type: ignore[attr-defined]
    return tree_unflatten(out_tree[0], outs), f_lin


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., tuple[Any, ...]]]:
    """The value of f at a point, and the function that pulls cotangents back.

    Args:
      f: a function of pytrees.
      primals: the arguments.

    Returns:
      f(*primals), and f_vjp with f_vjp(*cotangents) a tuple with the cotangent of each argument. It takes the
      cotangents of f's result as one pytree of the result's structure, or, where the result is a
      list or tuple, also one by one. Cotangents of integers and booleans are float0.
    """
    leaves, in_tree = tree_flatten(primals)
    flat, out_tree = flatten_fun(f, in_tree)
    outs, linear = _linearize_flat(flat, leaves)
    out_avals, result_tree = [get_aval(x) for x in outs], out_tree[0]

    def f_vjp(*cotangents: Any) -> tuple[Any, ...]:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        ct_leaves, ct_tree = tree_flatten(given)
        if ct_tree != result_tree:
            ct_leaves = tree_leaves(cotangents)
        if len(ct_leaves) != len(out_avals):
            fail(
                UsageError,
                f"the results are {result_tree}, the cotangents {ct_tree}",
                "cotangent-tree",
            )
        cts = [
            check_tangent(ct, a, f"cotangent {i}")
            for i, (ct, a) in enumerate(zip(ct_leaves, out_avals, strict=True))
        ]
        undef = [UndefPrimal(v.aval) for v in linear.jaxpr.in_binders]
        back = within_jaxpr(linear.jaxpr, "transpose")
        out = backward_pass(back, [*linear.consts, *undef], cts)
        return tree_unflatten(in_tree, [as_value(instantiate(ct)) for ct in out])

    return tree_unflatten(out_tree[0], outs), f_vjp


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Like `grad`, with the value of f in front of its gradient."""
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def value_and_grad_f(*args: Any) -> tuple[Any, Any]:
        for i in nums:
            if not -len(args) <= i < len(args):
                fail(
                    UsageError,
                    f"argnums {i} is out of range for {counted(len(args), 'argument')}",
                    "argnums",
                )
        positions = [i % len(args) for i in nums]
        for i in positions:
            _check_differentiable(args[i], i)

        def of_chosen(*chosen: Any) -> Any:
            full = list(args)
            for i, x in zip(positions, chosen, strict=True):
                full[i] = x
            return f(*full)

        of_chosen.__name__ = getattr(f, "__name__", type(f).__name__)
        value, pullback = vjp(of_chosen, *[args[i] for i in positions])
        grads = pullback(_unit_cotangent(value))
        return value, grads[0] if isinstance(argnums, int) else grads

    return value_and_grad_f


def _check_differentiable(arg: Any, position: int) -> None:
    for leaf in tree_leaves(arg):
        aval = get_aval(leaf)
        if aval.dtype.kind != "f":
            fail(
                UsageError,
                f"grad needs real floating arguments, and argument {position} is {aval}",
                "grad-input",
                help="use vjp for other types, or choose other arguments with argnums",
            )


def _unit_cotangent(value: Any) -> Any:
    leaves = tree_leaves(value)
    aval = get_aval(leaves[0]) if len(leaves) == 1 else None
    if aval is None or aval.shape != () or aval.dtype.kind != "f":
        what = f"{counted(len(leaves), 'result')}" if aval is None else f"a result of type {aval}"
        fail(
            UsageError,
            f"grad needs a function with one real floating scalar as its result, and this has {what}",
            "grad-output",
            help="sum the result, or use vjp, jacrev or jacfwd",
        )
    return tree_unflatten(tree_flatten(value)[1], [scalar_lit(1.0, aval.dtype)])


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The gradient of a function with one real scalar result.

    Args:
      f: a function of pytrees.
      argnums: the argument, or arguments, to differentiate by.

    Returns:
      A function like f that returns the gradient, in the structure of the argument; a tuple for several.

    Raises:
      UsageError: the result is no real scalar, or an argument is not real.
    """
    both = value_and_grad(f, argnums)
    return lambda *args: both(*args)[1]


def _basis(aval: Any) -> Any:
    """The unit vectors of a type: shape (size, *shape)."""
    n = aval.size
    rows = lax.iota(dtype=_INT32, shape=(n, n), dimension=0)
    columns = lax.iota(dtype=_INT32, shape=(n, n), dimension=1)
    eye = lax.convert_element_type(lax.eq(rows, columns), new_dtype=aval.dtype)
    return lax.reshape(eye, new_sizes=(n, *aval.shape))


def jacfwd(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The Jacobian by forward mode: for each result and argument leaf an array (*out shape, *in shape)."""

    def jacobian(*args: Any) -> Any:
        leaves, tree = tree_flatten(args[argnums])
        columns = []
        for i, leaf in enumerate(leaves):
            aval = get_aval(leaf)

            def push(tangent: Any, i: int = i) -> Any:
                ts = [tangent if j == i else zeros(get_aval(x)) for j, x in enumerate(leaves)]

                def of_arg(x: Any) -> Any:
                    return f(*args[:argnums], x, *args[argnums + 1 :])

                return jvp(of_arg, (args[argnums],), (tree_unflatten(tree, ts),))[1]

            out = vmap(push, out_axes=-1)(_basis(aval))
            out_leaves, out_tree = tree_flatten(out)
            shaped = [
                lax.reshape(x, new_sizes=(*get_aval(x).shape[:-1], *aval.shape)) for x in out_leaves
            ]
            columns.append((shaped, out_tree))
        rows = zip(*[c for c, _ in columns], strict=True)
        return tree_unflatten(columns[0][1], [tree_unflatten(tree, list(r)) for r in rows])

    return jacobian


def jacrev(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The Jacobian by reverse mode: for each result and argument leaf an array (*out shape, *in shape)."""

    def jacobian(*args: Any) -> Any:
        def of_arg(x: Any) -> Any:
            return f(*args[:argnums], x, *args[argnums + 1 :])

        value, pullback = vjp(of_arg, args[argnums])
        leaves, tree = tree_flatten(value)
        rows = []
        for i, leaf in enumerate(leaves):
            aval = get_aval(leaf)

            def pull(ct: Any, i: int = i) -> Any:
                cts = [ct if j == i else zeros(get_aval(x)) for j, x in enumerate(leaves)]
                return pullback(tree_unflatten(tree, cts))[0]

            out_leaves, out_tree = tree_flatten(vmap(pull)(_basis(aval)))
            shaped = [
                lax.reshape(x, new_sizes=(*aval.shape, *get_aval(x).shape[1:])) for x in out_leaves
            ]
            rows.append(tree_unflatten(out_tree, shaped))
        return tree_unflatten(tree, rows)

    return jacobian


def hessian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The matrix of second derivatives: forward over reverse."""
    return jacfwd(jacrev(f, argnums), argnums)


# -- jaxpr to jaxpr ----------------------------------------------------------------------------


class LinearParts(NamedTuple):
    """A linearized jaxpr.

    primal: (a) -> (b, res). linear: (res, tangents of a) -> (tangents of b). flags: which results have a tangent.
    n_res: the number of residuals.
    """

    primal: ClosedJaxpr
    linear: ClosedJaxpr
    flags: list[bool]
    n_res: int


@deep
def linearize_body(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], wanted: Sequence[bool]
) -> LinearParts:
    """Linearize a jaxpr in a param; the result is kept for each combination of flags.

    Args:
      closed: (a) -> (b).
      nonzeros: for each argument whether it has a tangent.
      wanted: for each result whether its tangent is a result even if it is zero.
    """
    key = (tuple(nonzeros), tuple(wanted))
    made = _LINEARIZED.find(closed, key)
    if made is None:
        made = _Linearized(closed, nonzeros).split(wanted)
        if computes_again(closed, made.n_res):
            made = _Linearized(rematerialised(closed), nonzeros).split(wanted)
        _LINEARIZED.keep(closed, key, made)
        # kept under the flags of the results too: callers that know those ask by them
        _LINEARIZED.keep(closed, (tuple(nonzeros), tuple(made.flags)), made)
    return made


_LINEARIZED = MemoTable[LinearParts]("linearized")


class _Linearized:
    """A linearized jaxpr: the trace `first` recorded operations on primals, and `second` those on tangents."""

    def __init__(self, closed: ClosedJaxpr, wrt: Sequence[bool]):
        closed = transformable(closed)
        jaxpr = closed.jaxpr
        self.first = JaxprTrace()
        self.second = PartialEvalTrace(self.first)
        with set_current_trace(self.second):
            consts = self.first.new_consts(closed)
            primals = self.first.new_inputs(jaxpr.in_binders)
            tangents = [
                self.second.new_input(v.aval.tangent()) if w else Zero(v.aval)
                for v, w in zip(jaxpr.in_binders, wrt, strict=True)
            ]
            self.outs, self.out_tangents = jvp_interpret(
                jaxpr, consts, primals, tangents, self.first.copy_eqn, self._rule
            )
        _check_known(self.second, self.outs)

    def _rule(self, primitive: Primitive) -> Callable[..., Any] | None:
        """The linearize rule of a primitive as a jvp rule, which uses the jvp rule where a primal is unknown; None for no rule."""
        rule = linearize_rules.find(primitive)
        if rule is None:
            return None

        def jvp_rule(primals: Any, tangents: Any, **params: Any) -> Any:
            if any(map(self.second.is_unknown, primals)):
                return jvp_rules[primitive](primals, tangents, **params)
            return rule(self.second, primals, tangents, **params)

        return jvp_rule

    def split(self, wanted: Sequence[bool]) -> LinearParts:
        """Both parts, with the tangents of results that are nonzero or wanted."""
        flags = [w or type(t) is not Zero for w, t in zip(wanted, self.out_tangents, strict=True)]
        with set_current_trace(self.second):
            kept = [*map(instantiate, compress(self.out_tangents, flags))]
        primal, linear, n_res = parts(self.first, self.outs, self.second.finish(kept))
        return LinearParts(primal, linear, flags, n_res)


@deep
def linearize_jaxpr(
    closed: ClosedJaxpr, wrt: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """Linearize a jaxpr: split its jvp into a primal part and a linear part.

    Args:
      closed: (a) -> (b).
      wrt: for each argument whether it has a tangent; all inexact ones by default.

    Returns:
      primal: (a) -> (b, res); linear: (res, tangents of a) -> (tangents of the inexact b); and the number
      of residuals.
    """
    flags, flags_out = inexact(closed.in_avals) if wrt is None else wrt, inexact(closed.out_avals)
    lin = _Linearized(closed, flags)
    primal, linear, _, n_res = lin.split(flags_out)
    primal = prune_consts(primal)
    if closed.interface is not None:
        faces = of_linearize(closed.interface, flags, flags_out, n_res)
        primal, linear = map(with_interface, (primal, linear), faces)
    return primal, linear, n_res


@deep
def vjp_jaxpr(
    closed: ClosedJaxpr, wrt: Sequence[bool] | None = None, *, keep_outs: bool = True
) -> ClosedJaxpr:
    """The jaxpr of value and pullback: (a, cotangents of the inexact b) -> (b, cotangents of a).

    Args:
      closed: (a) -> (b).
      wrt: the arguments whose cotangents are wanted; all inexact ones by default.
      keep_outs: whether b is among the results.
    """
    flags = inexact(closed.in_avals) if wrt is None else wrt
    lin = _Linearized(closed, flags)
    made = _pull_back(lin, keep_outs, lin.first.new_input)
    if closed.interface is None:
        return made
    flags_out = inexact(closed.out_avals)
    return with_interface(made, of_vjp(closed.interface, flags, flags_out, keep_outs=keep_outs))


def _pull_back(
    lin: _Linearized,
    keep_outs: bool,
    cotangent: Callable[[Any], Any],
    wanted: Sequence[int] | None = None,
) -> ClosedJaxpr:
    """The program of the results, if they are kept, and the cotangents of the arguments with a tangent.

    cotangent(aval) is that of a result. wanted: which of the arguments' cotangents; all by default.
    """
    with set_current_trace(lin.first):
        avals = [get_aval(x) for x in lin.outs]
        cts = [cotangent(a.tangent()) if is_inexact(a) else Zero(a) for a in avals]
        pairs = zip(lin.out_tangents, cts, strict=True)
        live = [(t, ct) for t, ct in pairs if type(t) is not Zero]
        linear = lin.second.build([t for t, _ in live])
        undef = [UndefPrimal(v.aval) for v in linear.jaxpr.in_binders]
        back = within_jaxpr(linear.jaxpr, "transpose")
        out = backward_pass(back, [*linear.consts, *undef], [ct for _, ct in live])
        results = [instantiate(ct) for ct in (out if wanted is None else [out[i] for i in wanted])]
    return lin.first.finish([*(lin.outs if keep_outs else []), *results])


@deep
def grad_jaxpr(
    closed: ClosedJaxpr, wrt: Sequence[int] = (0,), *, with_value: bool = False
) -> ClosedJaxpr:
    """The jaxpr of the gradient: (a) -> (gradients by the arguments `wrt`), after the value with `with_value`.

    Raises:
      UsageError: not exactly one real scalar result; an argument of `wrt` that is not real or not there.
    """
    closed = transformable(closed)
    avals = closed.out_avals
    if len(avals) != 1 or avals[0].shape != () or avals[0].dtype.kind != "f":
        got = ", ".join(map(str, avals)) or "none"
        fail(
            UsageError,
            f"grad needs one real floating scalar as the result, and the results are {got}",
            "grad-output",
            span=closed.jaxpr.span,
            help="use vjp, which takes a cotangent for each result",
        )
    for i in wrt:
        _check_wrt(closed, i)
    chosen = set(wrt)
    lin = _Linearized(closed, [i in chosen for i in range(len(closed.jaxpr.in_binders))])
    order = [sorted(chosen).index(i) for i in wrt]
    made = _pull_back(lin, with_value, lambda aval: scalar_lit(1.0, aval.dtype), order)
    if closed.interface is None:
        return made
    return with_interface(made, of_grad(closed.interface, len(order), with_value=with_value))


def _check_wrt(closed: ClosedJaxpr, i: int) -> None:
    binders = closed.jaxpr.in_binders
    if not 0 <= i < len(binders):
        message = f"there is no argument {i}: the program takes {len(binders)}"
        fail(UsageError, message, "argument-index")
    v = binders[i]
    if v.aval.dtype.kind != "f":
        fail(
            UsageError,
            f"grad needs real floating arguments, and {argument_label(i, v.name, closed.interface)} is {v.aval}",
            "grad-input",
            span=v.span,
            help="choose other arguments with --wrt",
        )
