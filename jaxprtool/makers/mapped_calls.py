"""Calls whose rules are those of another call, and calls that run one example of a batch at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, are_devices
from jaxprtool.core.partition import merge_lists, partition_list
from jaxprtool.core.rule_table import Maker, RuleTable
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import (
    batch_rules,
    materialize,
    moveaxis,
    one_by_one,
    vmap_jaxpr,
)
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.interpreters.columns.passing import CannotPass, Passing
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.cost import cost_rules
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.evaluation.observe import runs_for_devices
from jaxprtool.interpreters.jvp import jvp_rules
from jaxprtool.interpreters.lower import lowering_rules
from jaxprtool.interpreters.partial_eval import partial_eval_rules
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import transpose_rules
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive, Value, Var
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.walk import all_eqns, jaxprs_in
from jaxprtool.makers.axes import broadcasted, inverse_permutation, reshaped, transposed
from jaxprtool.ops.parallel import collective_names

__all__ = ["alone_on_devices", "by_devices", "of_another"]


def of_another(op: Any, params_of: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of a call that delegates to another call: evaluation, transformations, lowering and cost.

    Args:
      op: the binding function of the other call.
      params_of: returns the params of the other call, given those of this one.
    """

    def by(table: RuleTable) -> Callable[..., Any]:
        return lambda *args, **params: table[op.primitive](*args, **params_of(params))

    return {
        "impl": by(impl_rules),
        "jvp": by(jvp_rules),
        "transpose": by(transpose_rules),
        "batch": by(batch_rules),
        "lower": by(lowering_rules),
        "cost": by(cost_rules),
        "partial_eval": by(partial_eval_rules),
    }


def alone_on_devices(
    batch: Any, is_loop: Callable[[Sequence[Value], dict[str, ParamValue]], bool] | None = None
) -> Maker:
    """Wrap a batch rule that is no loop over the examples: where the examples are devices, it loops over them.

    Args:
      batch: the rule, or its maker.
      is_loop: (operands, params) -> whether the rule is a loop over the examples there; None for
        never.
    """

    def make(op: Any) -> Callable[..., OutAndDim]:
        together = batch(op) if isinstance(batch, Maker) else batch

        def rule(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
            if not are_devices(axis_size) or (is_loop is not None and is_loop(vals, params)):
                return together(axis_size, vals, dims, **params)
            return one_by_one(op.primitive, vals, dims, axis_size, params)

        return rule

    return Maker(make)


def by_devices(
    primitive: Primitive,
    together: Callable[..., OutAndDim],
    axis_size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    params: dict[str, Any],
    held: Sequence[str],
) -> OutAndDim | None:
    """Batch an operation over devices, where the value that steers it (a predicate, say) may differ between devices.

    A device must not take part in a branch that others take, or in iterations that only others
    still have to do. Devices exchange values along the named axes of the collectives in the
    operation's jaxprs. The devices that exchange values with each other form a group, which runs in
    lockstep; the groups run one after the other. Where the jaxprs exchange no values, each device
    runs alone. The jaxprs get the index of the device as an argument.

    Args:
      primitive, params: the operation, with multiple results.
      together: its batch rule, (axis_size, vals, dims, **params), where all examples run in
        lockstep.
      axis_size, vals, dims: as in a batch rule.
      held: the params that hold jaxprs, or tuples of them.

    Returns:
      The results and batch axes, as from a batch rule. None where the examples are no devices,
        where all of them exchange values, or where a jaxpr inside asks for the index of its device
        and cannot be given it as an argument.
    """
    if not are_devices(axis_size):
        return None
    groups = _Groups(axis_size, _exchanging([c for key in held for c in jaxprs_in(params[key])]))
    if groups.n == 1:
        return None
    apart = NamedAxis(groups.apart, each=True, alone=True)
    fields = {**params, **{key: _alone(params[key], apart) for key in held}}
    try:
        made, operands = _handed(primitive, vals, dims, fields, groups)
    except CannotPass:
        return None
    if groups.joint:
        return _by_groups(groups, together, operands, made)
    values = [x for x, _, _ in operands]
    in_dims = [0 if is_index else d for _, d, is_index in operands]
    return one_by_one(primitive, values, in_dims, axis_size, made)


# An operand: its value, the axis along which devices are stacked, and whether it is the index within each group of devices.
_Operand = tuple[Value, int | None, bool]


def _handed(
    primitive: Primitive,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    params: dict[str, Any],
    groups: _Groups,
) -> tuple[dict[str, Any], list[_Operand]]:
    """Return params and operands of an operation whose jaxprs take the indices of the device as arguments.

    Raises CannotPass.
    """
    names, index = [*groups.apart], ShapedArray((), INT32)
    (again,) = stage(lambda x: [lax.stop_gradient(x)], [index]).eqns

    def asked(eqn: JaxprEqn) -> int | None:
        asks_for = [] if eqn.inputs else [n for n in collective_names(eqn) if n in names]
        return names.index(asks_for[0]) if asks_for else None

    def instead(eqn: JaxprEqn, number: Var) -> JaxprEqn:
        return eqn.replace(primitive=again.primitive, inputs=[number], params=again.params)

    point = [Var(index) for _ in names]
    given = [Var(get_aval(x).strong) for x in vals]
    passing = Passing(len(names), asked, instead)
    eqn = passing.eqn(JaxprEqn(primitive, given, params, []), point)
    of: dict[Any, _Operand] = {v: (x, d, False) for v, x, d in zip(given, vals, dims, strict=True)}
    wanted = {*eqn.inputs}.intersection(point)
    of |= {
        v: (groups.index(n), None, True) for v, n in zip(point, names, strict=True) if v in wanted
    }
    return dict(eqn.params), [of[v] for v in eqn.inputs]


def _by_groups(
    groups: _Groups,
    together: Callable[..., OutAndDim],
    operands: Sequence[_Operand],
    params: dict[str, Any],
) -> OutAndDim:
    """Apply an operation to one group of devices after the other, by a scan."""
    members = NamedAxis(groups.joint, each=True)
    split = [x if d is None else groups.split(x, d) for x, d, _ in operands]
    differs = [d is not None or is_index for _, d, is_index in operands]
    in_dims = [None if d is None else 0 for _, d, _ in operands]
    fixed, examples = partition_list(differs, split)
    slices = [get_aval(x) for x in examples]
    slices = [a.update(shape=a.shape[1:]) for a in slices]
    found: list[int | None] = []

    def step(*args: Value) -> list[Value]:
        values = merge_lists(differs, args[: len(fixed)], args[len(fixed) :])
        outs, out_dims = together(members, values, in_dims, **params)
        found[:] = [None if d is None else 0 for d in out_dims]
        return [x if d is None else moveaxis(x, d, 0) for x, d in zip(outs, out_dims, strict=True)]

    body = stage(step, [*[get_aval(x).strong for x in fixed], *slices])
    runs_for_devices(body.jaxpr, tuple(groups.apart.items()))
    outs = lax.scan_call(
        *fixed, *examples, jaxpr=body, length=groups.n, num_consts=len(fixed), num_carry=0
    )
    return [groups.joined(y, d) for y, d in zip(outs, found, strict=True)], [0] * len(outs)


def _exchanging(jaxprs: Sequence[ClosedJaxpr]) -> set[str]:
    """Return the named axes along which the equations of jaxprs exchange values.

    Equations without operands, and those that keep their operand's elements, exchange none.
    """
    names: set[str] = set()
    for eqn in (eqn for closed in jaxprs for eqn in all_eqns(closed.jaxpr)):
        if eqn.inputs and elements_facts[eqn.primitive] != "kept":
            names.update(collective_names(eqn))
    return names


def _alone(held: Any, apart: NamedAxis) -> Any:
    """Return the jaxprs as devices run them one by one along these axes."""
    if isinstance(held, tuple):
        return tuple(_alone(c, apart) for c in held)
    return vmap_jaxpr(held, apart, [None] * len(held.in_avals), None)[0]


class _Groups:
    """The devices of a mesh in groups: the devices of a group differ only along the axes `joint`.

    Attributes:
      n: the number of groups.
      joint: the axes along which the devices of a group differ, with their sizes.
      apart: the other axes, with their sizes.
    """

    def __init__(self, axis_size: NamedAxis, joint: Container[str]):
        self.sizes = axis_size.axes
        self.joint = {a: n for a, n in self.sizes.items() if a in joint}
        self.apart = {a: n for a, n in self.sizes.items() if a not in joint}
        self.n = math.prod(self.apart.values())
        self._order = [[*self.sizes].index(a) for a in (*self.apart, *self.joint)]

    def index(self, name: str) -> Value:
        """Return for each group its index along an axis."""
        sizes = tuple(self.apart.values())
        index = lax.iota(dtype=INT32, shape=(self.apart[name],), dimension=0)
        return reshaped(broadcasted(index, sizes, ([*self.apart].index(name),)), (self.n,))

    def split(self, x: Value, dim: int) -> Value:
        """Split the batch axis of all devices into an axis of the groups and one of the devices of
        a group, at the front.
        """
        x = moveaxis(x, dim, 0)
        local = get_aval(x).shape[1:]
        x = reshaped(x, (*self.sizes.values(), *local))
        x = transposed(x, [*self._order, *range(len(self._order), get_aval(x).ndim)])
        return reshaped(x, (self.n, math.prod(self.joint.values()), *local))

    def joined(self, y: Value, dim: int | None) -> Value:
        """Merge the axes of groups and devices into one batch axis; `dim` is None where the devices
        of a group share the value.
        """
        members = math.prod(self.joint.values())
        y = y if dim is not None else materialize(y, None, members, 1)
        local = get_aval(y).shape[2:]
        sizes = [*self.apart.values(), *self.joint.values()]
        y = reshaped(y, (*sizes, *local))
        n = len(sizes)
        y = transposed(y, [*inverse_permutation(self._order), *range(n, n + len(local))])
        return reshaped(y, (self.n * members, *local))
