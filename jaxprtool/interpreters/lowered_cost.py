"""`AS_LOWERED`: the cost rule that counts the StableHLO operations which the `lower` rule of the same row writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.rule_table import Maker
from jaxprtool.interpreters.cost import Cost, cost_jaxpr
from jaxprtool.interpreters.lower import HloValue, LoweringContext, lowering_rules
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Primitive, Value, Var
from jaxprtool.ir.params import ParamValue
from jaxprtool.stablehlo.cost import Arithmetic, operation_cost

__all__ = ["AS_LOWERED", "lowered_cost"]


def lowered_cost(
    primitive: Primitive,
    in_avals: Sequence[Aval],
    out_avals: Sequence[Aval],
    params: dict[str, ParamValue],
) -> Cost:
    """Count the arithmetic of the StableHLO operations to which an equation is lowered.

    Matrix products, convolutions and Fourier transforms among them count as nothing: the rows of
    their primitives count them.

    Raises:
      UnsupportedError: the operations include a loop; the row has to state its number of
        iterations.
    """
    counter = _Counter()
    inputs = [Var(a) for a in in_avals]
    counter.eqn = JaxprEqn(primitive, inputs, params, [Var(a) for a in out_avals])
    operands = [HloValue("%operand", getattr(a, "physical", a)) for a in in_avals]
    lowering_rules[primitive](counter, *operands, **params)
    return counter.total


@Maker
def AS_LOWERED(op: Any) -> Callable[..., Cost]:
    """Return `lowered_cost` as the cost rule of an operation."""
    primitive = op.primitive
    return lambda in_avals, out_avals, **params: lowered_cost(
        primitive, in_avals, out_avals, params
    )


class _Counter(LoweringContext):
    """A lowering context that counts the operations that a rule writes, instead of writing them.

    Attributes:
      total: the arithmetic so far, of the current region.
    """

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.total = Cost()
        self.bodies: list[Arithmetic] = []

    def _count(self, name: str, operands: Sequence[Value], results: Sequence[Value], **attrs: Any):
        found = operation_cost(name, operands, results, **attrs)
        self.total += Cost(found.flops, found.transcendentals)

    def write(self, text: str, aval: Aval) -> HloValue:
        name = text.partition(" ")[0].partition("(")[0].removeprefix("stablehlo.")
        self._count(name, [aval], [aval])
        return HloValue("%result", aval)

    def op(
        self, name: str, /, *operands: HloValue, out: Any = None, regions: Any = (), **attrs: Any
    ) -> Value:
        if out is None:
            out = self.out_aval
        outs = out if isinstance(out, list) else [out]
        bodies = [self.bodies[int(r)] for r in regions]
        self._count(name, [x.aval for x in operands], outs, bodies=bodies, **attrs)
        results = [HloValue("%result", a) for a in outs]
        return results if isinstance(out, list) else results[0]

    def region(self, avals: Sequence[Aval], body: Callable[..., Value]) -> str:
        """Count the operations of a region; returns its number, by which `op` finds the count."""
        outer, self.total = self.total, Cost()
        body(*[HloValue("%argument", a) for a in avals])
        self.bodies.append(Arithmetic(self.total.flops, self.total.transcendentals))
        self.total = outer
        return str(len(self.bodies) - 1)

    def reduce(self, op: Any, x: Value, init: Value, axes: Sequence[int]) -> Value:
        if type(op) is not str:
            return super().reduce(op, x, init, axes)
        scalar = ShapedArray((), x.aval.dtype)
        combine = lambda a, b: self.op(op, a, b, out=scalar)  # noqa: E731
        return super().reduce(lambda *pair: [combine(*pair)], [x], [init], axes)[0]

    def call(
        self, closed: ClosedJaxpr, operands: Sequence[HloValue], name: str = "f"
    ) -> list[HloValue]:
        self.total += cost_jaxpr(closed)._replace(bytes=None)
        return [HloValue("%result", a.physical) for a in closed.out_avals]

    def inline(self, closed: ClosedJaxpr, operands: Sequence[HloValue]) -> list[HloValue]:
        return self.call(closed, operands)

    def written(self, closed: ClosedJaxpr, operands: Sequence[HloValue]) -> list[HloValue]:
        return self.call(closed, operands)

    def function(self, closed: ClosedJaxpr, name: str) -> str:
        return name
