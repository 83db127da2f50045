"""Vectorisation (vmap): a function of single examples becomes one of batches.

Contract of a `batch` rule:

    rule(axis_size, values, dims, **params) -> (out, out_dim)        (two lists for multiple_results)

Each operand comes with the axis along which it is batched, an int, or `not_mapped` (None); at least one is
batched, unless `axis_size` is a `NamedAxis` and the operation may act along it. Batch axes have size `axis_size`. The rule
computes what a loop over the batch would, by applying operations, and says where the result's batch axis is.

Makers: `elementwise_batch`, `broadcast_batch`, `same_shape_batch`; `moveaxis` and `materialize` help others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, are_devices, bound_axes
from jaxprtool.core.bind import bind, interpreted, set_current_trace, state
from jaxprtool.core.env import Env
from jaxprtool.core.partition import merge_lists, partition_list, unzip2
from jaxprtool.core.rule_table import FactTable, Maker, RuleTable, Unsupported
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import Trace, Tracer, get_aval
from jaxprtool.core.tree import tree_flatten, tree_prefix_leaves, tree_unflatten
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.interpreters.evaluation.observe import devices_added, runs_for_devices
from jaxprtool.interpreters.functions.parameters import by_position, named_like
from jaxprtool.interpreters.interfaces import with_interface
from jaxprtool.interpreters.reuse.replay import Replayer, joined
from jaxprtool.interpreters.stage import (
    JaxprTrace,
    JaxprTracer,
    argument_names,
    flatten_fun,
    stage,
)
from jaxprtool.ir.avals import AbstractToken, AxisGroups, ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.interface import argument_label, result_label
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Primitive, Value
from jaxprtool.ir.memo import Memo, MemoTable
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.placement import placement_of
from jaxprtool.ir.sharding import varying_axes
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.ops.parallel import collective_names

__all__ = [
    "BatchTrace",
    "BatchTracer",
    "batch_rules",
    "batching_facts",
    "broadcast_batch",
    "elementwise_batch",
    "is_elementwise",
    "materialize",
    "materialize_all",
    "moveaxis",
    "not_mapped",
    "one_by_one",
    "same_shape_batch",
    "takes_matrices",
    "vmap",
    "vmap_jaxpr",
]

batch_rules = RuleTable("batch")
# Whether a batched operation does for each example what it does for one, or follows a rule that its user wrote.
batching_facts = FactTable("batching", "examples", "rule")

not_mapped = None


class BatchTracer(Tracer):
    """A batch of values. Its type is that of one example: it does not have the batch axis."""

    __slots__ = ("bdim", "val")

    def __init__(self, trace: BatchTrace, val: Value, bdim: int | None):
        self._trace, self.val, self.bdim = trace, val, bdim

    @property
    def aval(self) -> Aval:
        aval = get_aval(self.val)
        if self.bdim is None:
            return aval
        return aval.update(shape=aval.shape[: self.bdim] + aval.shape[self.bdim + 1 :])

    def full_lower(self) -> Value:
        return self.val if self.bdim is None else self

    def origin(self) -> str:
        return "an argument mapped by vmap"


class BatchTrace(Trace):
    """Applies batch rules, in terms of its parent."""

    __slots__ = ("axis_size",)

    def __init__(self, parent: Trace, axis_size: int):
        self.parent, self.axis_size = parent, axis_size

    def pure(self, value: Value) -> BatchTracer:
        return BatchTracer(self, value, not_mapped)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Value], params: dict[str, ParamValue]
    ) -> Value:
        vals, dims = unzip2(self.unbox(x) for x in args)
        previous, state.trace = state.trace, self.parent
        try:
            if all(d is None for d in dims) and not _acts_along(self.axis_size, primitive, params):
                return self.parent.process_primitive(primitive, vals, params)
            out, dim = _rule_of(primitive, self.axis_size)(self.axis_size, vals, dims, **params)
        finally:
            state.trace = previous
        if primitive.multiple_results:
            return [self.box(x, d) for x, d in zip(out, dim, strict=True)]
        return self.box(out, dim)

    def box(self, value: Value, dim: int | None) -> Value:
        """A tracer, or the bare value where it is not batched."""
        return value if dim is None else BatchTracer(self, value, dim)

    def unbox(self, x: Value) -> tuple[Value, int | None]:
        """Value and batch axis."""
        return (x.val, x.bdim) if type(x) is BatchTracer and x._trace is self else (x, not_mapped)


def moveaxis(x: Value, source: int, target: int) -> Value:
    """`x` with one axis elsewhere; no operation when it is there already."""
    if source == target:
        return x
    order = [i for i in range(get_aval(x).ndim) if i != source]
    order.insert(target, source)
    return lax.transpose(x, permutation=tuple(order))


def materialize(x: Value, dim: int | None, axis_size: int, target: int = 0) -> Value:
    """`x` with its batch axis at `target`; broadcast along it when it has none."""
    if dim is not None:
        return moveaxis(x, dim, target)
    aval = get_aval(x)
    shape = (*aval.shape[:target], axis_size, *aval.shape[target:])
    kept = tuple(i + (i >= target) for i in range(aval.ndim))
    return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept)


def materialize_all(
    vals: Sequence[Value], dims: Sequence[int | None], axis_size: int
) -> tuple[list[Value], int]:
    """The values with their batch axes in one place, and that place: the one they have if all agree, else 0."""
    agree = all(d == dims[0] and d is not None for d in dims)
    target = dims[0] if agree and dims[0] is not None else 0
    return [materialize(x, d, axis_size, target) for x, d in zip(vals, dims, strict=True)], target


def one_by_one(
    primitive: Primitive,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    axis_size: int,
    params: dict[str, ParamValue],
) -> OutAndDim:
    """Apply an operation to each example in turn, by a scan.

    Args:
      primitive, params: the operation.
      vals, dims: its operands, and the batch axis of each or None.
      axis_size: the number of examples.
    """
    batched = [d is not None for d in dims]
    moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(vals, dims, strict=True)]
    fixed, examples = partition_list(batched, moved)
    slices = [get_aval(x) for x in examples]
    slices = [a.update(shape=a.shape[1:]) for a in slices]

    def step(*args: Value) -> list[Value]:
        operands = merge_lists(batched, args[: len(fixed)], args[len(fixed) :])
        out = bind(primitive, *operands, **params)
        return out if primitive.multiple_results else [out]

    body = stage(step, [*[get_aval(x).strong for x in fixed], *slices])
    if any(isinstance(a, AbstractToken) for a in (*body.in_avals, *body.out_avals)):
        rule = batch_rules[primitive]  # which says why there is none: no loop has tokens
        return rule(axis_size, vals, dims, **params)
    if are_devices(axis_size):
        runs_for_devices(body.jaxpr, tuple(axis_size.axes.items()))
    outs = lax.scan_call(
        *fixed, *examples, jaxpr=body, length=axis_size, num_consts=len(fixed), num_carry=0
    )
    return (outs, [0] * len(outs)) if primitive.multiple_results else (outs[0], 0)


def _rule_of(primitive: Primitive, axis_size: int) -> Callable[..., OutAndDim]:
    """The rule; on devices, which do alone what they do, a loop where the primitive has none."""
    rule = batch_rules.rules.get(primitive) or batch_rules.find(primitive)
    if (rule is None or type(rule) is Unsupported) and are_devices(axis_size):
        return lambda size, vals, dims, **params: one_by_one(primitive, vals, dims, size, params)
    return rule or batch_rules[primitive]


def vmap(
    f: Callable[..., Value],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[..., Value]:
    """Map a function over axes of its arguments.

    Args:
      f: a function of pytrees.
      in_axes: for the arguments (a tuple, one entry each, or one for all), the axis to map over, None for
        arguments that are passed whole, or a pytree prefix of such; negative axes count from the end. Of arguments that
        are given by keyword it is the first axis.
      out_axes: likewise for the results, where the batch axis goes in each.
      axis_name: what collectives in f (`lax.psum`, `lax.axis_index`, ...) call the axis.
      axis_size: its size; needed only when no argument is mapped.

    Returns:
      A function of batches: arguments that have the axis, all of one size.

    Raises:
      UsageError: no mapped axis, sizes that differ, an axis that is not there, None in out_axes for a
        result that is mapped.
    """

    def mapped(*args: Value, **keywords: Value) -> Value:
        axes_in = _axes_of(in_axes, args, "in_axes")
        of_args, given = by_position(f, args, keywords)
        leaves, in_tree = tree_flatten(given)
        dims = [
            _canonical_axis(d, get_aval(x), lambda i=i: argument_names(of_args, given)[i], 0)
            for i, (d, x) in enumerate(zip_longest(axes_in, leaves, fillvalue=0))
        ]
        size = _axis_size(leaves, dims, axis_size)
        axes = {} if axis_name is None else {axis_name: size}
        size = NamedAxis(axes) if axes else size
        flat, out_tree = flatten_fun(of_args, in_tree)
        trace = BatchTrace(state.trace, size)
        with set_current_trace(trace), bound_axes(axes):
            outs = flat(*[trace.box(x, d) for x, d in zip(leaves, dims, strict=True)])
        results = tree_unflatten(out_tree[0], outs)
        wanted = _axes_of(out_axes, results, "out_axes")
        placed = [_place(trace.unbox(x), w, size) for x, w in zip(outs, wanted, strict=True)]
        return tree_unflatten(out_tree[0], placed)

    return named_like(f, mapped)


def _axes_of(axes: Sequence[int], tree: Any, what: str) -> list[Value]:
    axes = tuple(axes) if isinstance(axes, list) else axes
    try:
        return tree_prefix_leaves(axes, tree, _is_axis)
    except ValueError:
        fail(UsageError, f"{what}={axes} is no prefix of the structure of the values", "axes-tree")


def _is_axis(x: Any) -> bool:
    """Whether an entry of in_axes or out_axes is None or a position."""
    return x is None or (hasattr(x, "__index__") and not isinstance(x, bool))


def _canonical_axis(dim: Any, aval: Aval, label: Callable[[], str], extra: int) -> int | None:
    """An axis of a value, counted from the start; `extra` is 1 where the value does not have the axis yet.

    Raises UsageError, with `label()` as the name of the value, where it has no such axis.
    """
    if dim is None:
        return None
    ndim = aval.ndim + extra
    if not _is_axis(dim) or not -ndim <= dim < ndim:
        fail(UsageError, f"vmap axis {dim} is out of range for {label()}, {aval}", "axis-range")
    return operator.index(dim) % ndim


def _axis_size(leaves: Sequence[Value], dims: Sequence[int | None], given_size: int | None) -> int:
    sizes = {get_aval(x).shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None}
    if given_size is not None:
        sizes.add(given_size)
    if not sizes:
        fail(UsageError, "vmap needs at least one argument with a mapped axis", "no-mapped-axis")
    if len(sizes) > 1:
        along = [
            f"{get_aval(x)} along {d}" for x, d in zip(leaves, dims, strict=True) if d is not None
        ]
        given = ", ".join([*along, *([] if given_size is None else [f"axis_size={given_size}"])])
        fail(UsageError, f"the mapped axes differ in size: {given}", "axis-size")
    return sizes.pop()


def _place(boxed: tuple[Value, int | None], wanted: Any, size: int) -> Value:
    value, dim = boxed
    if wanted is None:
        if dim is not None:
            fail(UsageError, "out_axes is None for a result that is mapped", "out-axes")
        return value
    aval = get_aval(value)
    extra = 0 if dim is not None else 1
    target = _canonical_axis(wanted, aval, lambda: "a result", extra)
    return materialize(value, dim, size, target or 0)


@deep
def vmap_jaxpr(
    closed: Jaxpr | ClosedJaxpr,
    axis_size: int,
    in_dims: Sequence[int | None],
    out_dims: Sequence[int | None] | int | None = 0,
) -> tuple[ClosedJaxpr, list[int | None]]:
    """Vectorise a jaxpr.

    Args:
      closed: the jaxpr; its constants are not batched.
      axis_size: size of the batch.
      in_dims: for each argument its batch axis, or None.
      out_dims: the batch axis of each result: a list, or one for all. None leaves it to the rules where a result has its
        batch axis, and whether it has one.

    Returns:
      The batched jaxpr, and the batch axis of each result (None: it is not batched).

    Raises:
      UsageError: wrong number of axes, or an axis that is out of range.
      UnsupportedError: an argument to batch is no array; MissingRuleError: a primitive has no `batch` rule.
    """
    closed = transformable(closed)
    n = len(closed.jaxpr.outs)
    wanted: list[Any] = list(out_dims) if isinstance(out_dims, (list, tuple)) else [out_dims] * n
    interface = closed.interface
    names = [v.name for v in closed.jaxpr.in_binders]
    in_dims = _batch_axes(
        in_dims, closed.in_avals, "argument", lambda i: argument_label(i, names[i], interface)
    )
    wanted = _batch_axes(wanted, closed.out_avals, "result", lambda i: result_label(i, interface))
    named = axis_size.key if type(axis_size) is NamedAxis else None
    key = (axis_size, named, tuple(in_dims), tuple(wanted))
    found = _BATCHED.find(closed, key)
    if found is None:
        made, dims = _vmap_jaxpr(closed, axis_size, in_dims, wanted)
        found = _BATCHED.keep(closed, key, (with_interface(made, closed.interface), dims))
    return found


_BATCHED = MemoTable[tuple[ClosedJaxpr, list[int | None]]]("batched")


def _batch_axes(
    axes: Sequence[int | None], avals: Sequence[Aval], what: str, label: Callable[[int], str]
) -> list[int | None]:
    """The same batch axes, negative ones counted from the start.

    Args:
      axes: for each value its batch axis, or None.
      avals: the types of the values without the batch.
      what, label: for messages, what the values are and what each of them is called.

    Raises:
      UsageError: there are more or fewer axes than values, or an axis that a value does not have.
      UnsupportedError: a value to batch is no array.
    """
    if len(axes) != len(avals):
        message = f"vmap: {len(axes)} axes are given for {len(avals)} {what}s"
        fail(UsageError, message, "axes-count")
    found: list[int | None] = []
    for i, (d, a) in enumerate(zip(axes, avals, strict=True)):
        if d is not None and not isinstance(a, ShapedArray):
            message = f"vmap: {label(i)} is {a}, which has no axes"
            fail(UnsupportedError, message, "unsupported-type")
        found.append(d if d is None or d >= 0 else _canonical_axis(d, a, lambda i=i: label(i), 1))
    return found


def _vmap_jaxpr(
    closed: ClosedJaxpr, axis_size: int, in_dims: Sequence[int | None], wanted: Sequence[int | None]
) -> tuple[ClosedJaxpr, list[int | None]]:
    jaxpr = closed.jaxpr
    trace = JaxprTrace()
    consts = [
        trace.new_const(_not_varying(v.aval, axis_size), c)
        for v, c in zip(jaxpr.const_binders, closed.consts, strict=True)
    ]
    env = Env(zip(jaxpr.const_binders, consts, strict=True))
    dims: dict[Any, int] = {}
    replayer = Replayer(trace, jaxpr.eqns)
    with set_current_trace(trace):
        for v, d in zip(jaxpr.in_binders, in_dims, strict=True):
            aval = v.aval
            if placement_of(aval).groups or varying_axes(aval):
                aval = _not_varying(aval, axis_size)
            if d is not None:
                dims[v] = d
                shape = (*aval.shape[:d], axis_size, *aval.shape[d:])
                aval = aval.update(shape=shape, spec=placement_of(aval).batched(d).spec)
            env[v] = trace.new_input(aval)
        for eqn in interpreted(jaxpr.eqns):
            ins = env.read(eqn.inputs)
            ds = [dims.get(x) for x in eqn.inputs]
            for d in ds:
                if d is not None:
                    break
            else:
                if type(axis_size) is not NamedAxis:
                    env.write(eqn.out_binders, trace.copy_eqn(eqn, ins))
                    continue
                if not _acts_along(axis_size, eqn.primitive, eqn.params):
                    env.write(eqn.out_binders, bind_eqn(eqn, ins))
                    continue
            rule = _rule_of(eqn.primitive, axis_size)
            if eqn in replayer.often:
                made = replayer.apply(eqn, ins, ds, _batched, eqn, rule, axis_size, ins, ds)
            else:
                made = _batched(eqn, rule, axis_size, ins, ds)
            n = len(eqn.out_binders)
            for v, x, d in zip(eqn.out_binders, made[:n], made[n:], strict=True):
                env[v] = x
                if d is not None:
                    dims[v] = d
        outs = env.read(jaxpr.outs)
        out_dims = [dims.get(x) for x in jaxpr.outs]
        for i, w in enumerate(wanted):
            if w is not None:
                outs[i], out_dims[i] = materialize(outs[i], out_dims[i], axis_size, w), w
    built = trace.build_live(outs)
    if are_devices(axis_size):
        made = [(v, x.atom, dims.get(v)) for v, x in env.items() if type(x) is JaxprTracer]
        devices_added(jaxpr, built.jaxpr, tuple(axis_size.axes.items()), made)
    return built, out_dims


def _batched(
    eqn: JaxprEqn,
    rule: Callable[..., Any],
    axis_size: int,
    values: Sequence[Value],
    dims: Sequence[int | None],
) -> list[Value]:
    """The results of an equation, and then their batch axes, by its rule."""
    recorded = state.trace.mark()
    out, dim = rule(axis_size, values, dims, **eqn.params)
    if not eqn.primitive.multiple_results:
        out, dim = [out], [dim]
    if are_devices(axis_size) and state.trace.mark() == recorded:
        out = [*map(_same, out)]
    return joined(eqn, out, dim)


def _same(x: Value) -> Value:
    """An array, or a literal, again, as the result of an equation."""
    is_array = type(x) in (JaxprTracer, Lit) and isinstance(x.aval, ShapedArray)
    is_array = is_array and x.aval.dtype.kind != "0"
    return lax.stop_gradient(x) if is_array else x


def _acts_along(axis_size: int, primitive: Primitive, params: dict[str, ParamValue]) -> bool:
    """Whether an operation without batched operands may still act along the batch's named axis."""
    if type(axis_size) is not NamedAxis:
        return False
    eqn = JaxprEqn(primitive, [], params, [])
    names = {*collective_names(eqn), *(n for c in sub_jaxprs(eqn) for n in _names_in(c))}
    return not names.isdisjoint(axis_size.axes)


def _names_in(closed: ClosedJaxpr) -> frozenset[str]:
    """The axis names that a jaxpr's collectives and types mention, nested jaxprs included."""
    found = _AXIS_NAMES.find(closed)
    if found is None:
        names: set[str] = set()
        for eqn in all_eqns(closed.jaxpr):
            names.update(collective_names(eqn))
            names.update(n for v in eqn.out_binders for n in varying_axes(v.aval))
        names.update(n for v in closed.jaxpr.in_binders for n in varying_axes(v.aval))
        found = _AXIS_NAMES.keep(closed, frozenset(names))
    return found


_AXIS_NAMES = Memo[frozenset[str]]("axis names")


def _not_varying(aval: Aval, axis_size: int) -> Value:
    """A type without the axes that become the batch; what is to be summed along them has its parts in the batch."""
    if type(axis_size) is not NamedAxis or not isinstance(aval, ShapedArray):
        return aval
    groups = aval.vary
    varying, unreduced, reduced = (
        [n for n in found if n not in axis_size.axes]
        for found in (groups.varying, groups.unreduced, groups.reduced)
    )
    return aval.update(vary=AxisGroups(varying, unreduced, reduced, groups.kind))


# -- makers: op -> rule ------------------------------------------------------------------------


def _of_elements(rule: Value) -> Value:
    """The rule, marked as that of an elementwise operation."""
    rule.elementwise = True
    return rule


def is_elementwise(primitive: Primitive) -> bool:
    """Whether each element of the result is computed from the elements of the operands at its index (size 1 stretches).

    The row says so where its batch rule is made by `elementwise_batch` or `broadcast_batch`.
    """
    return getattr(batch_rules.find(primitive), "elementwise", False)


def takes_matrices(primitive: Primitive) -> bool:
    """Whether an operation is one on matrices, a decomposition say, so that the rounding of each element is that of the largest.

    The row says so where its batch rule is made by `rules.linalg.matrices.leading_batch`.
    """
    return getattr(batch_rules.find(primitive), "matrices", False)


@Maker
def elementwise_batch(op: Any) -> Value:
    """The rule of an elementwise operation of one operand: the batch axis stays where it is."""

    def rule(
        axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
    ) -> Value:
        return op(*vals, **params), dims[0]

    return _of_elements(rule)


@Maker
def broadcast_batch(op: Any) -> Value:
    """The rule of an elementwise operation of several operands, where size 1 and rank 0 stretch.

    The batch axis stays where the first batched operand of full rank has it. Operands without it get
    an axis of size 1 there, unless they have rank 0; no operand is broadcast to the batch size.
    """

    def rule(
        axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
    ) -> Value:
        avals = [get_aval(x) for x in vals]
        ranks = [a.ndim - (d is not None) for a, d in zip(avals, dims, strict=True)]
        rank = max(ranks)
        target = next(
            (d for d, r in zip(dims, ranks, strict=True) if d is not None and r == rank), 0
        )
        out = [
            _align(x, a.shape, d, r, rank, target)
            for x, a, d, r in zip(vals, avals, dims, ranks, strict=True)
        ]
        return op(*out, **params), target

    return _of_elements(rule)


def _align(
    x: Value, shape: tuple[int, ...], dim: int | None, rank: int, full: int, target: int
) -> Value:
    """`x`, whose rank without the batch axis is `rank`, with its batch axis at `target` among `full` other axes."""
    if dim == target and rank == full:
        return x
    if dim is None:
        return x if rank == 0 else _expand(x, shape, target)
    if rank == 0:
        ones = (1,) * full
        shape = (*ones[:target], *shape, *ones[target:])
        return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=(target,))
    return moveaxis(x, dim, target)


def _expand(x: Value, shape: tuple[int, ...], axis: int) -> Value:
    """`x` with a new axis of size 1."""
    kept = tuple(i + (i >= axis) for i in range(len(shape)))
    new = (*shape[:axis], 1, *shape[axis:])
    return lax.broadcast_in_dim(x, shape=new, broadcast_dimensions=kept)


@Maker
def same_shape_batch(op: Any) -> Value:
    """The rule of an elementwise operation whose operands have one shape, without exception."""

    def rule(
        axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
    ) -> Value:
        target = next(d for d in dims if d is not None)
        out = [materialize(x, d, axis_size, target) for x, d in zip(vals, dims, strict=True)]
        return op(*out, **params), target

    return rule
