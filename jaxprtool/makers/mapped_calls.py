"""Calls that map: by another call that does the same, and of one example at a time over a batch."""

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
    """The columns of a call that does what another one does: evaluation, transformations, lowering and cost are those of that one.

    Args:
      op: the binding function of the other one.
      params_of: the params of the call -> those of the other one.
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
    """A batch rule that is no loop, but where the examples are devices.

    Args:
      batch: the rule, or its maker.
      is_loop: (operands, params) -> whether it is a loop there; None for never.
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
    """An operation that steers by values of which each device has its own: what its jaxprs exchange along no axis runs alone.

    So a device does nothing of a branch that others take, nor of a step that others still have to do. Those that exchange
    values run at once, and one such group of devices runs after the other. Their jaxprs are handed the index of the device.

    Args:
      primitive, params: the operation, with multiple results.
      together: its batch rule, (axis_size, vals, dims, **params), where all examples run at once.
      axis_size, vals, dims: as in a batch rule.
      held: the params that hold jaxprs, or tuples of them.

    Returns:
      What a batch rule does; None where the examples are no devices, all of them exchange values, or a jaxpr inside asks which
      device it is on and cannot be handed it.
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


# A value, the axis along which devices stand, and whether it is the index of each group of them.
_Operand = tuple[Value, int | None, bool]


def _handed(
    primitive: Primitive,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    params: dict[str, Any],
    groups: _Groups,
) -> tuple[dict[str, Any], list[_Operand]]:
    """The params and the operands of an operation whose jaxprs do not ask for the index along an axis. Raises CannotPass."""
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
    """An operation on one group of devices after the other, by a scan."""
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
    """The named axes along which equations of jaxprs exchange values: what has no operands, or keeps elements, exchanges none."""
    names: set[str] = set()
    for eqn in (eqn for closed in jaxprs for eqn in all_eqns(closed.jaxpr)):
        if eqn.inputs and elements_facts[eqn.primitive] != "kept":
            names.update(collective_names(eqn))
    return names


def _alone(held: Any, apart: NamedAxis) -> Any:
    """Jaxprs as devices that run one by one run them, along these axes."""
    if isinstance(held, tuple):
        return tuple(_alone(c, apart) for c in held)
    return vmap_jaxpr(held, apart, [None] * len(held.in_avals), None)[0]


class _Groups:
    """The devices of a mesh in groups: those that differ along the axes `joint` only.

    Attributes:
      n: how many groups there are.
      joint, apart: the axes along which the devices of a group differ, and the others, with their sizes.
    """

    def __init__(self, axis_size: NamedAxis, joint: Container[str]):
        self.sizes = axis_size.axes
        self.joint = {a: n for a, n in self.sizes.items() if a in joint}
        self.apart = {a: n for a, n in self.sizes.items() if a not in joint}
        self.n = math.prod(self.apart.values())
        self._order = [[*self.sizes].index(a) for a in (*self.apart, *self.joint)]

    def index(self, name: str) -> Value:
        """The index along an axis of each group."""
        sizes = tuple(self.apart.values())
        index = lax.iota(dtype=INT32, shape=(self.apart[name],), dimension=0)
        return reshaped(broadcasted(index, sizes, ([*self.apart].index(name),)), (self.n,))

    def split(self, x: Value, dim: int) -> Value:
        """A batch of all devices, with axes for the groups and for the devices of a group at the front."""
        x = moveaxis(x, dim, 0)
        local = get_aval(x).shape[1:]
        x = reshaped(x, (*self.sizes.values(), *local))
        x = transposed(x, [*self._order, *range(len(self._order), get_aval(x).ndim)])
        return reshaped(x, (self.n, math.prod(self.joint.values()), *local))

    def joined(self, y: Value, dim: int | None) -> Value:
        """A batch of all devices again; `dim` is None where those of a group have the same value."""
        members = math.prod(self.joint.values())
        y = y if dim is not None else materialize(y, None, members, 1)
        local = get_aval(y).shape[2:]
        sizes = [*self.apart.values(), *self.joint.values()]
        y = reshaped(y, (*sizes, *local))
        n = len(sizes)
        y = transposed(y, [*inverse_permutation(self._order), *range(n, n + len(local))])
        return reshaped(y, (self.n * members, *local))
