"""Convert params of earlier JAX releases to those of the current one: one function for each change.

Each takes the params of an equation and its operands, and returns the current params. It raises
ValueError and similar errors for params that it cannot read. The docstrings show the old spelling.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

from jaxprtool.core.kinds.enums import PRECISION_LEVEL
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.frozen import FrozenDict, amend
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import ElementClass, EnumMember, Opaque, Record, Word
from jaxprtool.ir.sharding import (
    known_mesh,
    mesh_axes,
    partition_specs,
    varying_axes,
    with_varying,
)
from jaxprtool.ir.trees import LEAF, TreeDefinition
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.scan_trees import parts_of_trees

__all__ = [
    "of_jit",
    "axes_of_name",
    "bit_generator",
    "broadcast",
    "composite",
    "constraint",
    "custom_vjp",
    "device_put",
    "dot",
    "dot_general",
    "foreign_call",
    "forward",
    "from_last",
    "linear_call",
    "mapped",
    "no_axes",
    "overwriting",
    "padding",
    "platform_index",
    "precision",
    "ragged_dot",
    "random_split",
    "residuals",
    "results_of_callback",
    "rounding",
    "shard_map",
    "solver",
    "top_k",
    "vectorized",
    "window",
    "with_unused_results",
    "wrapped_function",
    "without_groups",
]

Params = dict[str, Any]
Inputs = Sequence[Any]
_MOST_DIMENSIONS = 64  # of an array, in JAX and here


def shard_map(params: Params, inputs: Inputs) -> Params:
    """`manual_axes` (0.6.1 to 0.10.1); `in_names out_names check_rep auto rewrite` (to 0.6.0)."""
    del inputs
    new = dict(params)
    for names, specs in (("in_names", "in_specs"), ("out_names", "out_specs")):
        if names in new:
            new[specs] = partition_specs(map(_spec, new.pop(names)))
    if "check_rep" in new:
        # In 0.6.0 alone types say what varies where it is checked, as they do now.
        new["check_vma"] = new["check_rep"] is True and _says_what_varies(new["jaxpr"])
        mesh = known_mesh(new["mesh"])
        auto = mesh_axes(new.pop("auto", frozenset()), mesh)
        new["newly_manual_axes"] = frozenset([n for n in mesh.sizes if n not in auto])
        del new["check_rep"]
    elif isinstance(new.get("jaxpr"), ClosedJaxpr):
        _order_what_varies(new["jaxpr"], tuple(known_mesh(new["mesh"]).sizes))
    return new


def _order_what_varies(closed: ClosedJaxpr, order: tuple[str, ...]) -> None:
    """Put the varying axes in types in the order of the mesh; 0.7 and 0.8.0 print a set
    (`f32[2]{y,x}`), in any order.
    """
    inner = [c.jaxpr for eqn in all_eqns(closed.jaxpr) for c in sub_jaxprs(eqn)]
    for jaxpr in dict.fromkeys([closed.jaxpr, *inner]):
        for v in itertools.chain(jaxpr.in_binders, *[eqn.out_binders for eqn in jaxpr.eqns]):
            names = varying_axes(v.aval)
            if len(names) > 1:
                amend(v, aval=with_varying(v.aval, names, order))


def _says_what_varies(closed: ClosedJaxpr) -> bool:
    """Whether a type in a jaxpr has varying axes."""
    jaxpr = closed.jaxpr
    binders = itertools.chain(jaxpr.in_binders, *[eqn.out_binders for eqn in jaxpr.eqns])
    return any(isinstance(v.aval, ShapedArray) and bool(v.aval.vary.varying) for v in binders)


def _spec(names: dict[int, tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """`{0: ('i',)}`, the axes by dimension, as a partition spec."""
    last = max(names, default=-1)
    if last >= _MOST_DIMENSIONS:
        raise ValueError(f"no array has a dimension {last}")
    return tuple(tuple(names.get(i, ())) for i in range(last + 1))


def without_groups(params: Params, inputs: Inputs) -> Params:
    """`axis_index_groups=None`, to 0.8.0."""
    del inputs
    if params.get("axis_index_groups", ...) is None:
        return {k: v for k, v in params.items() if k != "axis_index_groups"}
    return params


def no_axes(params: Params, inputs: Inputs) -> Params:
    """Clear `axes`: where types have no varying axes, nothing has to be made varying."""
    del inputs
    return {"axes": ()} if "axes" in params else params


_ROUNDING = {"AWAY_FROM_ZERO": 0, "TO_NEAREST_EVEN": 1}


def rounding(params: Params, inputs: Inputs) -> Params:
    """The enum by name (before Python 3.11); missing, to 0.2.5: rounding away from zero."""
    del inputs
    method = params.get("rounding_method", 0)
    return {"rounding_method": _ROUNDING[method.member] if isinstance(method, Word) else method}


def top_k(params: Params, inputs: Inputs) -> Params:
    """The last axis, to 0.8.0."""
    if "axis" in params:
        return params
    return {**params, "axis": len(inputs[0].aval.shape) - 1}


def random_split(params: Params, inputs: Inputs) -> Params:
    """`count=2`, to 0.4.13."""
    del inputs
    if "count" not in params:
        return params
    return {**{k: v for k, v in params.items() if k != "count"}, "shape": (params["count"],)}


def vectorized(params: Params, inputs: Inputs) -> Params:
    """`vectorized` of `pure_callback` and `ffi_call`, to 0.5.3; a callback without it was mapped one by one."""
    del inputs
    if "vectorized" not in params:
        return params
    new = {k: v for k, v in params.items() if k != "vectorized"}
    if new.get("vmap_method") is None:
        methods = {"True": "legacy_vectorized", "False": "sequential", "Deprecated": "sequential"}
        new["vmap_method"] = Word(methods[str(params["vectorized"])])
    return new


_OF_FOREIGN_CALLS = {"has_side_effect", "result_avals", "target_name", "vectorized", "vmap_method"}


def foreign_call(params: Params, inputs: Inputs) -> Params:
    """`vectorized`, to 0.5.3; to 0.4.34, each attribute is a param of its own, and layouts are row-major."""
    new = vectorized(params, inputs)
    if "vectorized" not in params or "attributes" in params:
        return new
    given = {k: v for k, v in new.items() if k not in _OF_FOREIGN_CALLS}
    attributes = [
        (k, str(given[k]) if isinstance(given[k], Word) else given[k]) for k in sorted(given)
    ]
    types = {"input_layouts": [x.aval for x in inputs], "output_layouts": new["result_avals"]}
    layouts = {k: tuple(_by_rows(a) for a in avals) for k, avals in types.items()}
    rest = {k: v for k, v in new.items() if k in _OF_FOREIGN_CALLS}
    return {**rest, **layouts, "attributes": tuple(attributes)}


def _by_rows(aval: Any) -> tuple[int, ...]:
    """Return the order of the dimensions of an array, the fastest first."""
    return tuple(reversed(range(len(aval.shape))))


def device_put(params: Params, inputs: Inputs) -> Params:
    """`device` and `src`, one for all operands, to 0.4.29; lists, and other names of copy semantics, to 0.6.1."""
    new: dict[str, Any] = dict(params)
    for one, each in (("device", "devices"), ("src", "srcs")):
        if one in new:
            new[each] = (new.pop(one),) * len(inputs)
    new.setdefault("devices", (None,) * len(inputs))
    new.setdefault("srcs", (None,) * len(inputs))
    new = {k: _as_tuple(v) for k, v in new.items()}
    # Since 0.7.1 types say in which memory a value is; to 0.7.0 a transfer to another one gave the operand's type.
    new["devices"] = tuple([None if _is_transfer(d) else d for d in new["devices"] or ()])
    old = "device" in params or "<CopySemantics" in str(params.get("copy_semantics", ""))
    if old:
        new["devices"] = tuple(map(_without_memory, new["devices"]))
    if "copy_semantics" in new:
        new["copy_semantics"] = tuple(map(_copy_semantics, new["copy_semantics"]))
    else:  # to 0.4.33: existing buffers were reused
        new["copy_semantics"] = (Word("ArrayCopySemantics.REUSE_INPUT"),) * len(inputs)
    return new


def _is_transfer(destination: Any) -> bool:
    return isinstance(destination, Record) and destination.name == "TransferToMemoryKind"


def _without_memory(destination: Any) -> Any:
    """Return a sharding without its memory kind."""
    if not isinstance(destination, Record) or "memory_kind" not in destination.fields:
        return destination
    fields = {k: v for k, v in destination.fields.items() if k != "memory_kind"}
    return Record(destination.name, destination.args, **fields)


def _as_tuple(value: Any) -> Any:
    return (*value,) if isinstance(value, list) else value


_SEMANTICS = pattern(r"<CopySemantics\.(\w+): \d+>")  # 0.4.34 to 0.7.1
# The ways of `device_put` to copy, by what they were called, in the order of their numbers.
WAYS_TO_COPY = {"ALIAS": "REUSE_INPUT", "COPY": "ALWAYS_COPY", "DONATE": "DONATE_INPUT"}


def _copy_semantics(value: Any) -> Any:
    m = _SEMANTICS.fullmatch(str(value))
    return Word(f"ArrayCopySemantics.{WAYS_TO_COPY[m[1]]}") if m else value


def platform_index(params: Params, inputs: Inputs) -> Params:
    """`has_default`, to 0.6.0: now a last entry None."""
    del inputs
    if "has_default" not in params:
        return params
    platforms = tuple(params["platforms"])
    return {"platforms": (*platforms, None) if params["has_default"] is True else platforms}


def linear_call(params: Params, inputs: Inputs) -> Params:
    """A transpose as a jaxpr, to 0.5.3; one with constants takes operands that later releases do
    not have, and stays.
    """
    del inputs
    if "num_transpose_consts" not in params or params["num_transpose_consts"] != 0:
        return params
    new = dict(params, transpose_jaxpr=params["transpose"])
    del new["num_transpose_consts"], new["transpose"]
    return new


def bit_generator(params: Params, inputs: Inputs) -> Params:
    """The element type as a NumPy class."""
    del inputs
    found = params.get("dtype")
    return {**params, "dtype": found.dtype} if isinstance(found, ElementClass) else params


_FUNCTION = pattern(r"<function (?:[\w<>]+\.)*([\w<>]+) at 0x\w+>")
_CORE = pattern(r"\n *Core: (\w+)\s*\Z")


def custom_vjp(params: Params, inputs: Inputs) -> Params:
    """The backward rule as a function, to 0.6.0: its name is kept."""
    del inputs
    new = dict(params)
    text = str(new.pop("bwd", ""))
    m = _FUNCTION.fullmatch(text) or _CORE.search(text)
    return {**new, "bwd": m[1]} if m else new


def wrapped_function(value: Any) -> Any:
    """Add the line break at the end of the text of a function that JAX has transformed (0.4.36 to 0.6.0).

    Values that are read from a text lack it.
    """
    text = value.text if isinstance(value, Opaque) else value
    if not isinstance(text, str) or not text.startswith("Wrapped function:"):
        return value
    return Opaque(f"{text}\n")


def kernel(params: Params, inputs: Inputs) -> Params:
    """`pallas_call` to 0.5.3: index maps, and axes that `vmap` added, are in its grid mapping; shapes are params."""
    del inputs
    dropped = ("in_shapes", "out_shapes", "which_linear", "name_and_src_info")
    new: dict[str, Any] = {k: v for k, v in params.items() if k not in dropped}
    mapping = new["grid_mapping"]
    fields = mapping.fields
    blocks = tuple(map(_current_block, fields["block_mappings"]))
    new["grid_mapping"] = Record(mapping.name, (), **{**fields, "block_mappings": blocks})
    vmapped = fields.get("vmapped_dims", fields.get("mapped_dims", ()))
    if vmapped and "vmapped_dims" not in new:
        new["vmapped_dims"] = vmapped
    shapes = params.get("out_shapes")
    if shapes is not None and "out_avals" not in new:
        new["out_avals"] = tuple(
            ShapedArray(tuple(s.fields["shape"]), find_dtype(s.fields["dtype"])) for s in shapes
        )
    return new


_MAPPED = pattern(r"<[\w.]+\.Mapped object")


def _current_block(block: Any) -> Any:
    """Convert a block to the form in which each dimension says how it is indexed.

    `Unblocked` dimensions are indexed by elements; a dimension with a `Mapped object` does not
    exist for the kernel.
    """
    if not isinstance(block, Record) or "block_shape" not in block.fields:
        return block
    fields = dict(block.fields)
    shape = tuple([None if _MAPPED.match(str(n)) else n for n in fields["block_shape"]])
    fields["block_shape"] = shape
    mode = fields.pop("indexing_mode", None)
    if "Unblocked" in str(mode):
        padding = mode.fields.get("padding") if isinstance(mode, Record) else None
        pairs = padding or ((0, 0),) * len(shape)
        fields["block_shape"] = tuple(
            None if n is None else Record("Element", block_size=n, padding=pair)
            for n, pair in zip(shape, pairs, strict=True)
        )
    return Record(block.name, (), **fields)


def broadcast(params: Params, inputs: Inputs) -> Params:
    """`broadcast[sizes]`, to 0.1.55: new dimensions before those of the operand."""
    sizes, shape = tuple(params["sizes"]), _shape(inputs[0])
    dimensions = tuple(range(len(sizes), len(sizes) + len(shape)))
    return {"shape": (*sizes, *shape), "broadcast_dimensions": dimensions}


def precision(params: Params, inputs: Inputs) -> Params:
    """Precisions by `repr`, `(<Precision.HIGHEST: 2>, <Precision.HIGHEST: 2>)`, to 0.4.25."""
    del inputs
    found = params.get("precision")
    if isinstance(found, EnumMember):
        return {**params, "precision": _named_level(found)}
    levels = cast("tuple[Any, ...]", found) if isinstance(found, tuple) else ()
    if not any(isinstance(x, EnumMember) for x in levels):
        return params
    return {**params, "precision": tuple(map(_named_level, levels))}


def _named_level(value: Any) -> Any:
    member = PRECISION_LEVEL.member(value) if isinstance(value, EnumMember) else None
    return value if member is None else PRECISION_LEVEL.word(member)


def dot_general(params: Params, inputs: Inputs) -> Params:
    """`dot_general[algorithm=]`, of 0.4.32 to 0.4.34; it is a `precision` now."""
    new = precision(params, inputs)
    if "algorithm" not in new:
        return new
    new = {k: v for k, v in new.items() if k != "algorithm"}
    algorithm = params["algorithm"]
    return new if algorithm is None else {**new, "precision": algorithm}


def dot(params: Params, inputs: Inputs) -> Params:
    """`dot`, to 0.1.43: the last dimension of the first operand, the last but one (or only one) of the second."""
    left, right = (len(_shape(x)) for x in inputs)
    contracted = ((left - 1,), (max(right - 2, 0),))
    return {**precision(params, inputs), "dimension_numbers": (contracted, ((), ()))}


def _shape(x: Any) -> tuple[Any, ...]:
    if not isinstance(x.aval, ShapedArray):
        raise ValueError(f"the shape of {x} is not known")
    return x.aval.shape


def from_last(params: Params, inputs: Inputs) -> Params:
    """`dimension=-1`, as 0.1.60 prints it."""
    if isinstance(params.get("dimension"), int) and params["dimension"] < 0:
        return {**params, "dimension": params["dimension"] + len(_shape(inputs[0]))}
    return params


def overwriting(params: Params, inputs: Inputs) -> Params:
    """An `update_jaxpr` that returns the update, to 0.4.13: it adds nothing to the name of the primitive."""
    del inputs
    closed = params.get("update_jaxpr")
    if not isinstance(closed, ClosedJaxpr) or params.get("update_consts") != ():
        return params
    jaxpr = closed.jaxpr
    if len(jaxpr.in_binders) != 2 or jaxpr.outs != jaxpr.in_binders[1:]:
        return params
    return {**params, "update_jaxpr": None}


def axes_of_name(params: Params, inputs: Inputs) -> Params:
    """`psum[axis_name=i]`, to 0.2.9."""
    del inputs
    new = dict(params)
    if "axis_name" in new:
        name = new.pop("axis_name")
        new["axes"] = _as_tuple(name) if isinstance(name, (tuple, list)) else (name,)
    return new


def window(params: Params, inputs: Inputs) -> Params:
    """A window without dilations, to 0.1.72; padding by name, to 0.1.50."""
    new, size = dict(params), len(params["window_dimensions"])
    new.setdefault("base_dilation", (1,) * size)
    new.setdefault("window_dilation", (1,) * size)
    return padding(new, inputs)


_PADDING = pattern(r"(?:PaddingType\.|<PaddingType\.)?(VALID|SAME)(?:: \d+>)?")


def padding(params: Params, inputs: Inputs) -> Params:
    """`padding=PaddingType.VALID`, to 0.1.50."""
    m = _PADDING.fullmatch(str(params["padding"]))
    if m is None:
        return params
    sizes, strides = params["window_dimensions"], params["window_strides"]
    if m[1] == "VALID":
        return {**params, "padding": ((0, 0),) * len(sizes)}
    pads: list[tuple[int, int]] = []
    windowed = (
        inputs[0] if "jaxpr" in params else inputs[-1]
    )  # the initial value is the last operand of reduce_window
    for n, size, stride in zip(_shape(windowed), sizes, strides, strict=True):
        total = max((-(-n // stride) - 1) * stride + size - n, 0)
        pads.append((total // 2, total - total // 2))
    return {**params, "padding": tuple(pads)}


def forward(params: Params, inputs: Inputs) -> Params:
    """`scan[forward=True]`, to 0.1.65; `ft_in` and `ft_out` for the counts of operands, from 0.11 on."""
    del inputs
    new = {k: v for k, v in params.items() if k != "forward"}
    if "forward" in params:
        new["reverse"] = params["forward"] is False
    if "ft_in" in params:
        new["num_consts"], new["num_carry"] = parts_of_trees(params["ft_in"], 2)
    return new


def mapped(params: Params, inputs: Inputs) -> Params:
    """`xla_pmap[mapped_invars]`, to 0.2.5: operands mapped along the first axis, and so are all results."""
    del inputs
    new, closed = dict(params), params["call_jaxpr"]
    if "mapped_invars" in new:
        new["in_axes"] = tuple([0 if m is True else None for m in new.pop("mapped_invars")])
    if "out_axes" not in new:
        new["out_axes"] = (0,) * len(closed.jaxpr.outs)
    return new


def softly_mapped(params: Params, inputs: Inputs) -> Params:
    """`soft_pmap` (0.2.0 to 0.2.9), a map along an axis that has a name, as an `xmap`."""
    new = mapped(params, inputs)
    axis = str(new.pop("axis_name"))

    def by_name(number: Any) -> Record:
        return Record("FrozenDict", (FrozenDict({} if number is None else {axis: number}),))

    return {
        "call_jaxpr": new["call_jaxpr"],
        "global_axis_sizes": by_name(new["axis_size"]),
        "in_axes": tuple(map(by_name, new["in_axes"])),
        "out_axes": tuple(map(by_name, new["out_axes"])),
    }


def residuals(params: Params, inputs: Inputs) -> Params:
    """`custom_transpose_call` (to 0.9.2), a linear function whose transpose no text holds."""
    del inputs
    count = str(params["res_tree"]).count("*")
    return {"callee": params["call_jaxpr"], "num_callee_consts": 0, "num_res": count}


def with_unused_results(params: Params, inputs: Inputs) -> Params:
    """`custom_dce_call` (0.4.36 to 0.9.2): no text holds its rule for unread results, so all results are computed."""
    del inputs
    return {"call_jaxpr": params["fun_jaxpr"]}


def results_of_callback(params: Params, inputs: Inputs) -> Params:
    """`outside_call` (0.2.8 to 0.4.33) whose results are those of a function."""
    del inputs
    return {"callback": params["callback"], "result_avals": tuple(params["flat_results_aval"])}


def of_jit(params: Params, inputs: Inputs) -> Params:
    """`inline=Inline.AUTO`, from 0.12 on; shardings in HLO's spelling, to 0.4.21, which name no mesh, are dropped.

    Unspecified shardings, and a mesh without axes, occur in the text where JAX prints all params;
    they are dropped too.
    """
    del inputs
    new = dict(params)
    if isinstance(new.get("inline"), Word):
        new["inline"] = new["inline"].member == "ALWAYS"
    for key in ("in_shardings", "out_shardings"):
        shardings = new.get(key)
        if "GSPMDSharding(" in str(shardings):
            del new[key]
        elif isinstance(shardings, tuple):
            each = cast("tuple[Any, ...]", shardings)
            new[key] = tuple([None if str(x) == "UnspecifiedValue" else x for x in each])
    if _is_no_mesh(new.get("ctx_mesh")):
        del new["ctx_mesh"]
    return new


def _is_no_mesh(mesh: Any) -> bool:
    """Whether a mesh has no axes: `Mesh()`, `Mesh(, axis_types=())` in 0.7.0 and 0.7.1."""
    return str(mesh) == "Mesh()" or str(mesh).startswith("Mesh(,")


def _is_hlo(sharding: Any) -> bool:
    return str(sharding).startswith("GSPMDSharding(")


_SET = pattern(r"\{\d+(?:, \d+)*\}")


def constraint(params: Params, inputs: Inputs) -> Params:
    """Drop a sharding in HLO's spelling, which names no mesh, and a mesh without axes; read a set of dimensions.

    To 0.3.14 the axes of a mesh are in a param of their own, which is dropped together with the
    sharding.
    """
    del inputs
    new = dict(params)
    if new.pop("axis_resources", None) is not None:
        new["sharding"] = None
    dims = new.get("unconstrained_dims")
    if isinstance(dims, (set, frozenset)):
        new["unconstrained_dims"] = frozenset(cast("set[int]", dims))
    elif str(dims) == "set()":
        new["unconstrained_dims"] = frozenset()
    elif _SET.fullmatch(str(dims)):  # `{0, 1}`, to 0.5.0, which is no literal of current texts
        new["unconstrained_dims"] = frozenset(map(int, str(dims)[1:-1].split(",")))
    if _is_hlo(new.get("sharding")):
        new["sharding"] = None
    if str(new.get("context_mesh")).startswith("Mesh(,"):
        new["context_mesh"] = None
    return new


def ragged_dot(params: Params, inputs: Inputs) -> Params:
    """`ragged_dot` (to 0.5.2): rows of the first operand in groups, a matrix for each group;
    batched for three dimensions.
    """
    batch = (0,) if getattr(inputs[0].aval, "ndim", 0) == 3 else ()
    first = len(batch)
    numbers = Record(
        "RaggedDotDimensionNumbers",
        (),
        dot_dimension_numbers=(((first + 1,), (first + 1,)), (batch, batch)),
        lhs_ragged_dimensions=(first,),
        rhs_group_dimensions=(first,),
    )
    return {**params, "ragged_dot_dimension_numbers": numbers}


def composite(params: Params, inputs: Inputs) -> Params:
    """Attributes as pairs of a name and a value (to 0.5.3); since then a tuple or a list is the tree of its items."""
    del inputs
    return {**params, "attributes": tuple([_attribute(*a) for a in params["attributes"]])}


def _attribute(name: str, *value: Any) -> tuple[Any, ...]:
    if len(value) != 1:
        return name, *value
    (one,) = value
    if not isinstance(one, (tuple, list)):
        return name, (one,), TreeDefinition(LEAF)
    items = cast("tuple[Any, ...] | list[Any]", one)
    if any(isinstance(x, (tuple, list, dict)) for x in items):
        raise ValueError("attributes in attributes")
    return name, tuple(items), TreeDefinition(type(items)([LEAF] * len(items)))


def solver(params: Params, inputs: Inputs) -> Params:
    """`root` (0.1.50 to 0.1.62): becomes a call of its solver."""
    del inputs
    return {"call_jaxpr": _field(params["jaxprs"], "solve")}


def _field(record: Any, name: str) -> ClosedJaxpr:
    found = getattr(record, name)
    if not isinstance(found, ClosedJaxpr):
        raise ValueError(f"{name} is no jaxpr")
    return found
