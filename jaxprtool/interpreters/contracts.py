"""The contracts of the columns: what a rule takes and returns, one protocol for each keyword of `define`.

Params of an equation come by keyword. No argument is ever passed to `*_` in a protocol: it lets
type checkers accept functions that name the params of their primitive. The rule of a primitive with
one result returns one value, aval or axis; that of a primitive with `multiple_results` returns
lists. The modules of the interpreters have the full contracts. The equations that a rule of `jvp`,
`linearize`, `transpose` or `batch` records may be reused for other equations with the same params
and types of operands (Note [Replayed rules]), so it must depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from jaxprtool.core.policies import Saves
    from jaxprtool.interpreters.columns.monoids import Algebra, Monoid
    from jaxprtool.interpreters.columns.ranges import Range
    from jaxprtool.interpreters.columns.runs import Run
    from jaxprtool.interpreters.columns.solutions import Solved
    from jaxprtool.interpreters.cost import Cost
    from jaxprtool.interpreters.lower import LoweringContext
    from jaxprtool.interpreters.partial_eval import PartialEvalTrace
    from jaxprtool.interpreters.remat import Saving
    from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Var

# The functions on values that impl rules are written with: NumPy's and SciPy's, on arrays of all of our element types.
Namespace = Any
# What jvp rules give: (primal_out, tangent_out); of `multiple_results` each is a list.
PrimalAndTangent = tuple[Any, Any]
# What batch rules give: (out, the axis along which it is batched, or None); of `multiple_results` each is a list.
OutAndDim = tuple[Any, Any]

__all__ = [
    "AbstractEvalRule",
    "AlgebraRule",
    "BatchRule",
    "Batching",
    "CostRule",
    "DceRule",
    "Derivative",
    "DeterminedRule",
    "DischargeRule",
    "EarlierRule",
    "Effects",
    "Elements",
    "Follows",
    "IdentityRule",
    "ImplRule",
    "JvpRule",
    "KeysRule",
    "LayoutRule",
    "LinearizeRule",
    "Liveness",
    "LowerRule",
    "Masks",
    "MonoidRule",
    "Namespace",
    "OnKeys",
    "OrderRule",
    "OutAndDim",
    "PartialEvalRule",
    "PrimalAndTangent",
    "RangeRule",
    "Residual",
    "PassingRule",
    "RunsRule",
    "SavingRule",
    "SendsRule",
    "SolutionRule",
    "Steers",
    "Sums",
    "TransposeRule",
    "Varying",
]


class AbstractEvalRule(Protocol):
    """(types of the operands) -> type of the result. It raises errors through `ill_typed`."""

    def __call__(self, *in_avals: Any, **params: Any) -> Any: ...


class ImplRule(Protocol):
    """(namespace of NumPy, operands) -> result, as NumPy arrays. Operands are not changed in place.

    A rule may have a method `prepare(xp, in_avals, out_avals, params)` that returns a function of the values alone.
    """

    def __call__(self, xp: Any, /, *values: Any, **params: Any) -> Any: ...


class JvpRule(Protocol):
    """(primals, tangents) -> (primal_out, tangent_out), linear in the tangents, each of which is an array or a `Zero`."""

    def __call__(
        self, primals: Sequence[Any], tangents: Sequence[Any], /, *_: Any, **params: Any
    ) -> Any: ...


class TransposeRule(Protocol):
    """(cotangent of the result, operands) -> cotangents of the operands.

    Operands in which the operation is linear are `UndefPrimal(aval)`; the others are values, and get None.
    """

    def __call__(self, ct: Any, /, *operands: Any, **params: Any) -> Any: ...


class BatchRule(Protocol):
    """(batch size, operands, batch axis of each or None) -> (out, out_dim)."""

    def __call__(
        self,
        axis_size: int,
        values: Sequence[Any],
        dims: Sequence[Any],
        /,
        *_: Any,
        **params: Any,
    ) -> Any: ...


class LowerRule(Protocol):
    """(context, operands as StableHLO values) -> result as a StableHLO value. Methods of the context write the operations."""

    def __call__(self, ctx: LoweringContext, /, *operands: Any, **params: Any) -> Any: ...


class CostRule(Protocol):
    """(types of operands, types of results) -> number of arithmetic operations on elements, or a `Cost`."""

    def __call__(
        self, in_avals: Sequence[Any], out_avals: Sequence[Any], /, *_: Any, **params: Any
    ) -> int | Cost: ...


class PartialEvalRule(Protocol):
    """(trace, operands) -> results. Unknown operands are tracers of the trace, which records the operations on them."""

    def __call__(
        self, trace: PartialEvalTrace, args: Sequence[Any], /, *_: Any, **params: Any
    ) -> Sequence[Any]: ...


class SavingRule(Protocol):
    """(equation, which operands are unknown, policy) -> its two computations; None where nothing inside is saved."""

    def __call__(self, eqn: JaxprEqn, unks: Sequence[bool], saves: Saves, /) -> Saving | None: ...


class LinearizeRule(Protocol):
    """(trace, known primals, unknown tangents) -> (primals_out, tangents_out): jvp and its partial evaluation in one step."""

    def __call__(
        self,
        trace: PartialEvalTrace,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        /,
        *_: Any,
        **params: Any,
    ) -> Any: ...


class DceRule(Protocol):
    """(equation, which results are read) -> (the smaller equation, which operands it still has)."""

    def __call__(
        self, eqn: JaxprEqn, used_outs: Sequence[bool], /
    ) -> tuple[JaxprEqn, list[bool]]: ...


class DischargeRule(Protocol):
    """(operands) -> results, where references are `State`s whose `value` the rule reads and replaces."""

    def __call__(self, *operands: Any, **params: Any) -> Any: ...


class OrderRule(Protocol):
    """(params) -> whether the effects are ordered."""

    def __call__(self, params: dict[str, Any], /) -> bool: ...


class LayoutRule(Protocol):
    """(types of the operands, type of the result without a layout) -> mesh axes of each dimension of the result."""

    def __call__(
        self, in_avals: Sequence[Any], out_aval: Any, /, *_: Any, **params: Any
    ) -> Sequence[tuple[str, ...]]: ...


class KeysRule(Protocol):
    """(result of the batch rule over the words of keys, axis of the words, their number) -> result for keys."""

    @property
    def gives_keys(self) -> bool: ...

    def __call__(self, out: Any, dim: int | None, size: int, /) -> Any: ...


class IdentityRule(Protocol):
    """(params) -> whether an operation returns its first operand unchanged, where the result has that operand's type."""

    def __call__(self, params: dict[str, Any], /) -> bool: ...


class RangeRule(Protocol):
    """(params) -> the range of the results, whatever the operands are."""

    def __call__(self, params: dict[str, Any], /) -> Range: ...


class PassingRule(Protocol):
    """(function that hands numbers to a jaxpr, equation, variables of the numbers) -> the equation with them.

    See `interpreters.columns.passing`.
    """

    def __call__(
        self,
        passed: Callable[[ClosedJaxpr], ClosedJaxpr],
        eqn: JaxprEqn,
        point: Sequence[Var],
        /,
    ) -> JaxprEqn: ...


class RunsRule(Protocol):
    """(params) -> the jaxprs that are evaluated, and how often."""

    def __call__(self, params: dict[str, Any], /) -> Sequence[Run]: ...


class SendsRule(Protocol):
    """(types of operands, types of results, number of members) -> bytes that each member sends."""

    def __call__(
        self, in_avals: Sequence[Any], out_avals: Sequence[Any], members: int, /, **params: Any
    ) -> int: ...


class DeterminedRule(Protocol):
    """(types of the operands, params) -> whether they determine the results; `finite`: where all values are finite."""

    def __call__(self, in_avals: Any, params: dict[str, Any], /) -> bool | Literal["finite"]: ...


class SolutionRule(Protocol):
    """(params) -> the equation that the results solve."""

    def __call__(self, params: dict[str, Any], /) -> Solved: ...


class EarlierRule(Protocol):
    """(types of the operands, params) -> a function of the operands made of earlier operations, or None."""

    def __call__(self, *in_avals: Any, **params: Any) -> Callable[..., Any] | None: ...


class AlgebraRule(Protocol):
    """(element type of the operands) -> the laws that hold exactly, rounding included."""

    def __call__(self, dtype: Any, /) -> Algebra: ...


class MonoidRule(Protocol):
    """(element type) -> the NumPy function that reduces by an operation, with its neutral element."""

    def __call__(self, dtype: Any, /) -> Monoid: ...


Follows = Literal["operands", "rule"]  # what determines a part of the result's type
Varying = Literal[
    "operands", "rule", "untracked"
]  # what determines the varying axes of the result; untracked: its type does not have them, as in JAX
Effects = Literal[False, True, "inside", "state"]  # which side effects an operation has
Liveness = Literal["borrows", "consumes"]  # what an operation does with its operands
Elements = Literal[
    "computed", "kept", "permuted", "chosen", "converted", "placed", "ordered"
]  # where the elements of the results come from
OnKeys = Literal["nothing", "uses", "derives"]  # what an operation does with keys of random numbers
Batching = Literal["examples", "rule"]  # what a batched operation computes
Derivative = Literal[
    "jaxprs", "rule", "zero", "quantile"
]  # what the derivative of an operation consists of
Residual = Literal[
    "saved", "made again"
]  # whether a known result of literals alone is saved or computed again
Masks = Literal[
    "nothing", "nan", "inf", "both"
]  # which non-finite values an operand may have while all results are finite
Steers = Literal[
    "nothing", "all", "operand 0", "operand 1", "indices", "num_keys", "cond_jaxpr"
]  # which operands decide something
# Which operands may be still to be summed along an axis.
Sums = Literal["refused", "kept", "max", "min", "together", "product", "quotient"]
