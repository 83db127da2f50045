"""Custom derivative rules of functions of JAX, such as `jax.nn.relu`.

The text of a program has the body of such a function and the name of its rule, but not the rule.
The derivative of the body differs from the rule at some points (1/2 instead of 0 for relu at 0, or
NaN instead of a number at the ends of a domain), and a body of bit operations has none. So the
rules are written here, with the same values as in JAX. A call is regarded as one of JAX's function
if its name, the name of its rule, and the operations of its body are the same (`known_function`). A
rule is a function of the call and its operands:

    rule(call, tangents, *primals) -> (results, their tangents)

where a tangent is Zero only for an operand or a result that has none, such as an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.partition import split_list
from jaxprtool.core.trace import get_aval, inexact, is_inexact
from jaxprtool.interpreters.contracts import PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero, fill_zeros
from jaxprtool.interpreters.stage import stage_shared
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.walk import all_eqns
from jaxprtool.makers.calls import inline_jvp
from jaxprtool.makers.elementwise import full_like
from jaxprtool.rules.linalg.determinants import det_and_adjugate_product, log_det_tangent, trace
from jaxprtool.rules.linalg.matrices import adjoint, matmul

__all__ = ["known_function"]

_CALLS = frozenset({"jit", "custom_jvp_call"})
_UNNAMED = "f"  # the name of a custom call whose text has no name
_SHAPES = frozenset({"broadcast_in_dim", "convert_element_type", "copy", "copy_p", "pvary"})


class Call(NamedTuple):
    """A custom call whose derivative rule is taken from here.

    Attributes:
      body: the body of the function.
      again: binds the same call with other operands, and returns its results as a list.
    """

    body: ClosedJaxpr
    again: Callable[..., list[Value]]


class KnownFunction(NamedTuple):
    """A function of JAX with a derivative rule of its own.

    Attributes:
      where: its full name.
      rule_name: the name of its rule in prints.
      operations: the primitives that its body may have in any release, besides calls and
        conversions.
      rule: the derivative rule, as described in the module.
      arity: the number of operands.
      bodies: the exact sets of operations of its body in releases that print no name of a custom
        call.
    """

    where: str
    rule_name: str
    operations: frozenset[str]
    rule: Callable[..., PrimalAndTangent]
    arity: int = 1
    bodies: tuple[frozenset[str], ...] = ()

    def jaxpr(self, params: dict[str, Any]) -> ClosedJaxpr:
        """Return the rule as a jaxpr for the param `jvp_jaxpr`: (*primals, *tangents of floats) ->
        (*results, *their tangents).

        Args:
          params: the params of the call.
        """
        body: ClosedJaxpr = params["call_jaxpr"]
        floats = inexact(body.in_avals)
        call = Call(body, lambda *xs: lax.custom_jvp_call(*xs, **params))

        def rule(*xs: Any) -> list[Any]:
            primals, given = split_list(xs, len(floats))
            outs, tangents = self.rule(call, fill_zeros(floats, given, body.in_avals), *primals)
            return [*outs, *[t for t in tangents if type(t) is not Zero]]

        avals = [*body.in_avals, *[a.tangent() for a in body.in_avals if is_inexact(a)]]
        key = self.where, params["symbolic_zeros"]
        return _RULES.of(body, key, lambda: stage_shared(rule, avals))


_RULES = MemoTable[ClosedJaxpr]("the rule that JAX has")


def known_function(params: dict[str, Any]) -> KnownFunction | None:
    """Return the function of JAX that a `custom_jvp_call` without a rule calls, or None.

    Args:
      params: the params of the call.
    """
    body: ClosedJaxpr = params["call_jaxpr"]
    used = frozenset([e.primitive.name for e in all_eqns(body.jaxpr)]) - _CALLS - _SHAPES
    found = _FUNCTIONS.get(params["name"]) or _FUNCTIONS.get(_name_within(body))
    if found is None and params["name"] == _UNNAMED:
        found = next((f for f in _FUNCTIONS.values() if used in f.bodies and _takes(f, body)), None)
    if found is None or not used <= found.operations or not _takes(found, body):
        return None
    return found if not params["num_consts"] and params["jvp"] in ("jvp", found.rule_name) else None


def _name_within(body: ClosedJaxpr) -> str:
    """Return the name of the function that a body calls, if it is a single call: JAX before 0.6.1
    prints no name of a custom call itself. Return "" otherwise.
    """
    eqns = body.jaxpr.eqns
    return str(eqns[0].params.get("name", "")) if len(eqns) == 1 else ""


def _takes(known: KnownFunction, body: ClosedJaxpr) -> bool:
    """Whether a body fits a known function: the number of operands, a first result of floats, and
    floating operands of its type with its shape or rank 0 (any shape, if there is only one
    operand).
    """
    first = body.out_avals[0]
    if (
        len(body.in_avals) != known.arity
        or not isinstance(first, ShapedArray)
        or first.dtype.kind != "f"
    ):
        return False
    floats = [a for a in body.in_avals if is_inexact(a)]
    shapes = {a.shape for a in floats if a.shape} - {first.shape}
    return all(a.dtype is first.dtype for a in floats) and (not shapes or len(body.in_avals) == 1)


# -- functions of one result, whose tangent is a function of it --------------------------------------


def _of_answer(rule: Callable[..., Value]) -> Callable[..., PrimalAndTangent]:
    """Return the derivative rule of a function with one result, the answer, given a function
    rule(answer, tangents, *primals) that returns its tangent.
    """

    def jvp(call: Call, tangents: Sequence[Value], *primals: Value) -> PrimalAndTangent:
        (answer,) = call.again(*primals)
        return [answer], [rule(answer, tangents, *primals)]

    return jvp


def _slope(slope: Callable[..., Value]) -> Callable[..., PrimalAndTangent]:
    """Return the derivative rule of a function of one number, given its derivative slope(answer,
    x).
    """
    return _of_answer(lambda answer, tangents, x: lax.mul(tangents[0], slope(answer, x)))


def _where(holds: Value, t: Value) -> Value:
    return lax.select_n(holds, full_like(t, 0.0), t)


def _relu(answer: Value, tangents: Sequence[Value], x: Value) -> Value:
    return _where(lax.gt(x, 0.0), tangents[0])


def _relu6(answer: Value, tangents: Sequence[Value], x: Value) -> Value:
    return _where(lax.and_(lax.gt(x, 0.0), lax.lt(x, 6.0)), tangents[0])


def _log_of_sum(exp: Callable[..., Value]) -> Callable[..., PrimalAndTangent]:
    """Return the rule of log(exp(x) + exp(y)): dx exp(x - answer) + dy exp(y - answer), where +inf
    is replaced by 0 in the differences.
    """

    def finite(x: Value) -> Value:
        return lax.select_n(lax.eq(x, math.inf), x, full_like(x, 0.0))

    def rule(answer: Value, tangents: Sequence[Value], *xs: Value) -> Value:
        parts = [
            lax.mul(t, exp(lax.sub(finite(x), finite(answer))))
            for t, x in zip(tangents, xs, strict=True)
            if type(t) is not Zero
        ]
        return lax.add(*parts) if len(parts) == 2 else parts[0]

    return _of_answer(rule)


def _x_times_log(log: Callable[..., Value], shifted: Callable[..., Value]) -> Any:
    """Return the rule of x log(y), or of x log(1 + y): dx log(..) + dy x / shifted(y)."""

    def rule(answer: Value, tangents: Sequence[Value], x: Value, y: Value) -> Value:
        t, u = tangents
        return lax.add(lax.mul(t, log(y)), lax.div(lax.mul(u, x), shifted(y)))

    return _of_answer(rule)


def _log_of_normal(answer: Value, x: Value) -> Value:
    """Return exp(log p(x) - answer), where p is the density of the normal distribution and `answer`
    the logarithm of its distribution function.
    """
    logpdf = lax.neg(lax.div(lax.add(math.log(2 * math.pi), lax.mul(x, x)), 2.0))
    return lax.exp(lax.sub(logpdf, answer))


# -- functions with rules of more than that -----------------------------------------------------------


def _i0(call: Call, tangents: Sequence[Value], x: Value) -> PrimalAndTangent:
    """Return the derivative of the body, but 0 at x = 0, where that of the absolute value would be
    1.
    """
    outs, (t,) = inline_jvp(call.body, [x], tangents)
    return outs, [lax.select_n(lax.eq(x, 0.0), t, full_like(t, 0.0))]


def _frexp(call: Call, tangents: Sequence[Value], x: Value) -> PrimalAndTangent:
    """Return the derivative of mantissa = x 2^-exponent; the exponent is constant."""
    mantissa, exponent = call.again(x)
    scale = lax.exp2(lax.neg(lax.convert_element_type(exponent, new_dtype=get_aval(x).dtype)))
    return [mantissa, exponent], [lax.mul(tangents[0], scale), Zero(get_aval(exponent))]


def _pinv(call: Call, tangents: Sequence[Value], a: Value) -> PrimalAndTangent:
    """Return dP = -P dA P + P P^T dA^T (I - A P) + (I - P A) dA^T P^T P for the pseudoinverse P of
    A.

    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), 413-432.
    """
    (p,) = call.again(a)
    da, tall = tangents[0], get_aval(a).shape[-2] >= get_aval(a).shape[-1]
    if tall:
        s = matmul(matmul(p, adjoint(p)), adjoint(da))
        t = matmul(matmul(adjoint(da), adjoint(p)), p)
        first, second = matmul(matmul(p, da), p), matmul(matmul(s, a), p)
        third = matmul(matmul(p, a), t)
    else:
        s = matmul(p, matmul(adjoint(p), adjoint(da)))
        t = matmul(adjoint(da), matmul(adjoint(p), p))
        first, second = matmul(p, matmul(da, p)), matmul(s, matmul(a, p))
        third = matmul(p, matmul(a, t))
    return [p], [lax.sub(lax.add(lax.sub(lax.sub(s, first), second), t), third)]


def _slogdet(call: Call, tangents: Sequence[Value], a: Value) -> PrimalAndTangent:
    sign, log = call.again(a)
    return [sign, log], [full_like(sign, 0.0), log_det_tangent(a, tangents[0])]


def _det(call: Call, tangents: Sequence[Value], a: Value) -> PrimalAndTangent:
    """Return the derivative trace(adj(A) dA), which is right for singular matrices, too."""
    det, product = det_and_adjugate_product(a, tangents[0])
    return [det], [trace(product)]


# -- the table -----------------------------------------------------------------------------------------


_CHOSEN = frozenset(
    {"select_n", "eq", "ne", "lt", "gt", "le", "ge", "or", "and", "not"}  # of `where` and `isnan`
)
_OF_SUM = frozenset({"max", "sub", "ne", "add", "abs", "neg", "exp", "log1p", "select_n"})
_OF_PRODUCT = frozenset({"ne", "log", "mul", "select_n"})
_SUM = _CHOSEN | _OF_SUM | {"exp2", "log", "mul", "div"}
_PRODUCT = _CHOSEN | {"mul", "log", "log1p"}
_SHIFTS = {"shift_right_arithmetic", "shift_right_logical", "bitcast_convert_type"}
_BITS = _CHOSEN | _SHIFTS | {"abs", "mul", "sub", "add"}
_POLYNOMIAL = {"mul", "sub", "add", "div", "neg", "square", "integer_pow"}
_TAIL = _CHOSEN | _POLYNOMIAL | {"max", "min", "log", "exp", "abs", "erf", "erfc"}
_OF_TAIL = frozenset(
    {
        "gt",
        "neg",
        "mul",
        "abs",
        "lt",
        "erf",
        "add",
        "erfc",
        "sub",
        "select_n",
        "max",
        "log",
        "min",
        "div",
    }
)
_OF_SINGULAR_VALUES = frozenset({"mul", "svd", "gt", "select_n", "transpose", "div", "dot_general"})
_SELECTED = {"slice", "gather", "squeeze", "reshape", "expand_dims", "transpose"}
_SINGULAR_VALUES = _CHOSEN | _SELECTED | {"svd", "mul", "div", "dot_general", "conj", "real"}

_LOG_DET = frozenset(
    {"lu", "gather", "concatenate", "iota", "reduce_or", "reduce_sum", "abs", "log", "mul", "add"}
    | {"eq", "ne", "lt", "and", "rem", "select_n"}
)
_BY_PLATFORM = {"cond", "platform_index", "clamp"}  # the permutation of a single matrix
_DET = KnownFunction(
    "jax.numpy.linalg.det",
    "_det_jvp",
    _LOG_DET | _BY_PLATFORM | {"exp", "sign", "squeeze"},  # the last two of 1 x 1
    _det,
    bodies=(_LOG_DET | {"exp"}, _LOG_DET | _BY_PLATFORM | {"exp"}),
)
_I0 = KnownFunction(
    "jax.numpy.i0",
    "_i0_jvp",
    frozenset({"abs", "exp", "bessel_i0e", "mul"}),
    _i0,
    bodies=(frozenset({"abs", "exp", "bessel_i0e", "mul"}),),
)
_FUNCTIONS = {
    "relu": KnownFunction("jax.nn.relu", "jvp", frozenset({"max"}), _of_answer(_relu)),
    "relu6": KnownFunction("jax.nn.relu6", "jvp", frozenset({"max", "min"}), _of_answer(_relu6)),
    "logaddexp": KnownFunction(
        "jax.numpy.logaddexp",
        "_logaddexp_jvp",
        _SUM,
        _log_of_sum(lax.exp),
        arity=2,
        bodies=(_OF_SUM,),
    ),
    "logaddexp2": KnownFunction(
        "jax.numpy.logaddexp2",
        "_logaddexp2_jvp",
        _SUM,
        _log_of_sum(lax.exp2),
        arity=2,
        bodies=(_OF_SUM | {"log", "mul", "div"}, _OF_SUM - {"exp"} | {"exp2", "div"}),
    ),
    "logit": KnownFunction(
        "jax.scipy.special.logit",
        "jvp",
        frozenset({"log", "div", "sub"}),
        _of_answer(lambda _, t, x: lax.div(t[0], lax.mul(x, lax.sub(1.0, x)))),
        bodies=(frozenset({"log", "div", "sub"}),),
    ),
    "log1mexp": KnownFunction(
        "jax.nn.log1mexp",
        "jvp",
        _CHOSEN | {"log", "neg", "expm1", "exp", "log1p"},
        _of_answer(lambda _, t, x: lax.div(t[0], lax.expm1(x))),
    ),
    "xlogy": KnownFunction(
        "jax.scipy.special.xlogy",
        "_xlogy_jvp",
        _PRODUCT,
        _x_times_log(lax.log, lambda y: y),
        arity=2,
        bodies=(_OF_PRODUCT,),
    ),
    "xlog1py": KnownFunction(
        "jax.scipy.special.xlog1py",
        "_xlog1py_jvp",
        _PRODUCT,
        _x_times_log(lax.log1p, lambda y: lax.add(1.0, y)),
        arity=2,
        bodies=(_OF_PRODUCT - {"log"} | {"log1p"},),
    ),
    "_xlogx": KnownFunction(
        "jax.scipy.special.entr",
        "_xlogx_jvp",
        _PRODUCT,
        _slope(lambda _, x: lax.add(lax.log(x), 1.0)),
        bodies=(_OF_PRODUCT,),
    ),
    "log_ndtr": KnownFunction(
        "jax.scipy.special.log_ndtr",
        "_log_ndtr_jvp",
        _TAIL,
        _slope(_log_of_normal),
        bodies=(_OF_TAIL | {"integer_pow"}, _OF_TAIL | {"square"}),
    ),
    "_i0": _I0,
    "i0_impl": _I0._replace(rule_name="i0_impl_jvp"),
    "_frexp": KnownFunction("jax.numpy.frexp", "_frexp_jvp", _BITS, _frexp),
    "_slogdet_lu": KnownFunction(
        "jax.numpy.linalg.slogdet",
        "_slogdet_jvp",
        _LOG_DET | _BY_PLATFORM,
        _slogdet,
        bodies=(_LOG_DET, _LOG_DET | _BY_PLATFORM),
    ),
    "_det": _DET,
    "_det_2x2": _DET._replace(
        operations=_CHOSEN | {"abs", "div", "mul", "sub", "slice", "squeeze"}
    ),
    "_pinv": KnownFunction(
        "jax.numpy.linalg.pinv",
        "_pinv_jvp",
        _SINGULAR_VALUES,
        _pinv,
        bodies=(_OF_SINGULAR_VALUES | {"gather"}, _OF_SINGULAR_VALUES | {"slice"}),
    ),
}
