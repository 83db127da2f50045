"""The contracts of the columns: what a rule takes and gives, one protocol for each keyword of `define`.

Params of an equation come by keyword. `*_` in a protocol takes nothing: it is what makes type checkers accept functions
that name the params of their primitive. Where a primitive gives one result, a rule gives a value, an aval, an axis;
where it has `multiple_results`, lists of them. The modules of the interpreters say more about theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from jaxprtool.interpreters.cost import Cost
    from jaxprtool.interpreters.lower import LoweringContext
    from jaxprtool.interpreters.monoids import Monoid
    from jaxprtool.interpreters.partial_eval import PartialEvalTrace
    from jaxprtool.interpreters.remat import Saves, Saving
    from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = [
    "AbstractEvalRule",
    "BatchRule",
    "CostRule",
    "DceRule",
    "DischargeRule",
    "Follows",
    "IdentityRule",
    "ImplRule",
    "JvpRule",
    "KeysRule",
    "LayoutRule",
    "LinearizeRule",
    "Liveness",
    "LowerRule",
    "MonoidRule",
    "OrderRule",
    "PartialEvalRule",
    "Residual",
    "SavingRule",
    "TransposeRule",
]


class AbstractEvalRule(Protocol):
    """Types of the operands to the type of the result; raises through `ill_typed`."""

    def __call__(self, *in_avals: Any, **params: Any) -> Any: ...


class ImplRule(Protocol):
    """NumPy arrays to the result on NumPy, whose namespace is `xp`; operands are not changed in place.

    A rule may have a method `prepare(xp, in_avals, out_avals, params)` that returns a function of the values alone.
    """

    def __call__(self, xp: Any, /, *values: Any, **params: Any) -> Any: ...


class JvpRule(Protocol):
    """Primals and tangents (arrays or `Zero`) to (primal_out, tangent_out); linear in the tangents."""

    def __call__(
        self, primals: Sequence[Any], tangents: Sequence[Any], /, *_: Any, **params: Any
    ) -> Any: ...


class TransposeRule(Protocol):
    """The cotangent of the result, and the operands, to the cotangents of the operands.

    Operands in which the operation is linear are `UndefPrimal(aval)`; the others are values, and get None.
    """

    def __call__(self, ct: Any, /, *operands: Any, **params: Any) -> Any: ...


class BatchRule(Protocol):
    """Operands, and the axis along which each is batched (None: it is not), to (out, out_dim)."""

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
    """Operands as StableHLO values to the result as one, written with the methods of `ctx`."""

    def __call__(self, ctx: LoweringContext, /, *operands: Any, **params: Any) -> Any: ...


class CostRule(Protocol):
    """Types of operands and results to the number of arithmetic operations on elements, or to a `Cost`."""

    def __call__(
        self, in_avals: Sequence[Any], out_avals: Sequence[Any], /, *_: Any, **params: Any
    ) -> int | Cost: ...


class PartialEvalRule(Protocol):
    """Operands, tracers of `trace` where they are unknown, to results; records on `trace` what is left."""

    def __call__(
        self, trace: PartialEvalTrace, args: Sequence[Any], /, *_: Any, **params: Any
    ) -> Sequence[Any]: ...


class SavingRule(Protocol):
    """An equation, which operands are unknown, and a policy, to its two computations; None: nothing inside is saved."""

    def __call__(self, eqn: JaxprEqn, unks: Sequence[bool], saves: Saves, /) -> Saving | None: ...


class LinearizeRule(Protocol):
    """jvp and its partial evaluation in one step: known primals and unknown tangents to (primals_out, tangents_out)."""

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
    """An equation, and which of its results are read, to (the smaller equation, which operands it still has)."""

    def __call__(
        self, eqn: JaxprEqn, used_outs: Sequence[bool], /
    ) -> tuple[JaxprEqn, list[bool]]: ...


class DischargeRule(Protocol):
    """Operands, references as `State`s, to results, by pure operations and by replacing the states' `value`."""

    def __call__(self, *operands: Any, **params: Any) -> Any: ...


class OrderRule(Protocol):
    """Params to whether the effects are ordered."""

    def __call__(self, params: dict[str, Any], /) -> bool: ...


class LayoutRule(Protocol):
    """Types of the operands, and of the result without a layout, to the mesh axes of each dimension of the result."""

    def __call__(
        self, in_avals: Sequence[Any], out_aval: Any, /, *_: Any, **params: Any
    ) -> Sequence[tuple[str, ...]]: ...


class KeysRule(Protocol):
    """A result of the batch rule over words of keys, its axis of words, and their number, to the result for keys."""

    @property
    def gives_keys(self) -> bool: ...

    def __call__(self, out: Any, dim: int | None, size: int, /) -> Any: ...


class IdentityRule(Protocol):
    """Params to whether an operation is its first operand, where the result has the type of that one."""

    def __call__(self, params: dict[str, Any], /) -> bool: ...


class MonoidRule(Protocol):
    """An element type to the NumPy function that reduces by an operation, with its neutral element."""

    def __call__(self, dtype: Any, /) -> Monoid: ...


Follows = Literal["operands", "rule"]  # what says a part of the result's type
Liveness = Literal["borrows", "consumes"]  # what an operation does with its operands
Residual = Literal["saved", "made again"]  # what becomes of a known result of literals alone
