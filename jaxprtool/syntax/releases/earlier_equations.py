"""Convert equations of other JAX releases that have no single current equivalent: rearrange
operands, or make several equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jaxprtool.core.inner import reference_to
from jaxprtool.core.primitive import declared_primitive, find_primitive
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.dtypes import INT32, UINT32, custom_dtype
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Primitive, Var
from jaxprtool.syntax.infer import UntypedLit, untyped_literal
from jaxprtool.syntax.params import read_value
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.ref_trees import index_of_dims, index_of_tree
from jaxprtool.syntax.types import UNTYPED, untyped_scalar

__all__ = [
    "branches",
    "distance_as_operand",
    "factors",
    "first_operand",
    "first_operand_last",
    "gamma_of_words",
    "has_sizes",
    "hi_primitive",
    "identity_callback",
    "index_of_reference",
    "last_operand",
    "no_operands",
    "references",
    "scalar_of_any_contents",
    "singular_values",
    "sizes_as_operands",
    "swapped_cases",
    "tridiagonal_with_info",
    "with_jaxpr",
    "zeros",
    "zeros_of_operand",
]

Params = dict[str, Any]
Arranged = tuple[Params, list[Any]]


# -- operands ----------------------------------------------------------------------------------


def swapped_cases(params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert `select c t f`, to 0.2.28; select_n takes the operand for False first."""
    which, *cases = inputs
    return params, [which, *reversed(cases)]


def last_operand(params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert `tie_in x y`, to 0.1.77, which returns y."""
    return params, [inputs[-1]]


def first_operand(params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert `id_tap_dep x y`, from 0.2.12 on, which returns x, after the operation that made y."""
    return params, [inputs[0]]


def first_operand_last(params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert a solver (0.1.50 to 0.1.62), which takes only the last of the constants, and the guess."""
    count = len(params["call_jaxpr"].jaxpr.in_binders)
    return params, list(inputs)[len(inputs) - count :]


def no_operands(params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert `create_token x`, to 0.2.5, which takes no operand now."""
    del inputs
    return params, []


def distance_as_operand(params: Params, inputs: Sequence[Any]) -> Arranged:
    """`roll[shift=2] x` (0.4.26 to 0.4.30): how far it turns is the second operand now."""
    left = {k: v for k, v in params.items() if k != "shift"}
    return left, [*inputs, Lit(int(params["shift"]), ShapedArray((), INT32))]


def index_of_reference(count: int, params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert `get[tree=PyTreeDef(...)] r i`, where JAX prints all params, and
    `get[indexed_dims=(True, False)] r i`, to 0.4.14.

    `count` operands come before those of the index.
    """
    before, after = list(inputs[:count]), inputs[count:]
    dims = params.get("indexed_dims")
    if dims is None:
        index, operands = index_of_tree(str(params["tree"]), after)
    else:
        shape = getattr(getattr(before[0].aval, "inner", None), "shape", ())
        index, operands = index_of_dims(dims, shape, after)
    return {"index": index}, [*before, *operands]


def branches(params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert `cond[true_jaxpr false_jaxpr]` (0.1.43 to 0.1.68): a bool, the operands of the true
    branch, those of the false one.

    Now both branches take all operands.
    """
    if "true_jaxpr" not in params:
        return {k: v for k, v in params.items() if k != "linear"}, list(inputs)
    predicate, *operands = inputs
    true, false = params["true_jaxpr"], params["false_jaxpr"]
    n_true, n_false = len(true.jaxpr.in_binders), len(false.jaxpr.in_binders)
    if n_true + n_false == len(operands):
        true, false = _taking(true, 0, len(operands)), _taking(false, n_true, len(operands))
    elif n_true != len(operands) or n_false != len(operands):
        raise ValueError("the branches take other operands than there are")
    return {"branches": (false, true)}, [_as_index(predicate), *operands]


def _as_index(predicate: Any) -> Any:
    """Convert a literal predicate to the number of a branch; a variable of type bool is used as it is."""
    if isinstance(predicate, UntypedLit):
        return Lit(int(predicate.text == "True"), ShapedArray((), INT32))
    return predicate


def _taking(closed: ClosedJaxpr, first: int, count: int) -> ClosedJaxpr:
    """Return a jaxpr with `count` arguments, of which it uses its own ones from position `first` on."""
    jaxpr = closed.jaxpr
    own = jaxpr.in_binders
    before = [Var(UNTYPED) for _ in range(first)]
    after = [Var(UNTYPED) for _ in range(count - first - len(own))]
    return closed.replace(jaxpr=jaxpr.replace(in_binders=[*before, *own, *after]))


def with_jaxpr(primitive: Primitive, params: Params, closed: ClosedJaxpr) -> Params:
    """Return the params of a call whose jaxpr stands below it, to 0.1.57; the jaxpr's constants become arguments.

    A map over devices (`xla_pmap`) took all arguments along their first axis, and the constants
    whole.
    """
    jaxpr = closed.jaxpr
    called = jaxpr.replace(in_binders=jaxpr.all_binders, const_binders=())
    key = "jaxpr" if "jaxpr" in primitive.params else "call_jaxpr"
    new = {**params, key: ClosedJaxpr(called)}
    if "in_axes" in primitive.params and "mapped_invars" not in params:
        whole, mapped = (None,) * len(jaxpr.const_binders), (0,) * len(jaxpr.in_binders)
        new.setdefault("in_axes", (*whole, *mapped))
    return new


# -- several equations ---------------------------------------------------------------------------


def references(params: Params, inputs: Sequence[Any], outs: Sequence[Var]) -> list[JaxprEqn]:
    """Convert `for` (0.3.15 to 0.7.1) to a scan over the number of the step, whose constants are references."""
    body: ClosedJaxpr = params["jaxpr"]
    step, *formals = body.jaxpr.in_binders
    if len(formals) != len(inputs):
        raise ValueError("a loop has a reference for each operand")
    cells = [
        Var(v.aval if isinstance(v.aval, RefType) else reference_to(x.aval))
        for v, x in zip(formals, inputs, strict=True)
    ]
    if step.aval is UNTYPED:  # JAX counts in i32
        amend(step, aval=ShapedArray((), INT32))
    made = [_equation("new_ref", [x], {}, [r]) for x, r in zip(inputs, cells, strict=True)]
    n = params["nsteps"]
    steps = Var(ShapedArray((n,), step.aval.dtype))
    counted = {"dtype": step.aval.dtype, "shape": (n,), "dimension": 0}
    jaxpr = Jaxpr([*formals, step], body.jaxpr.eqns, body.jaxpr.outs, body.jaxpr.const_binders)
    looped = {
        "jaxpr": body.replace(jaxpr=jaxpr),
        "length": n,
        "num_consts": len(cells),
        "num_carry": 0,
        "reverse": params["reverse"],
    }
    return [
        *made,
        _equation("iota", [], counted, [steps]),
        _equation("scan", [*cells, steps], looped, []),
        *[_equation("freeze", [r], {}, [v]) for r, v in zip(cells, outs, strict=True)],
    ]


_ZEROS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def zeros(params: Params, inputs: Sequence[Any], outs: Sequence[Var]) -> list[JaxprEqn]:
    """Convert `zeros_like x`, to 0.4.23 in derivatives: a 0 of the type of the result, broadcast to its shape."""
    del params
    (_,), (aval,) = inputs, [v.aval for v in outs]
    params, operands = _zeros(aval)
    return [_equation("broadcast_in_dim", operands, params, outs)]


def tridiagonal_with_info(
    params: Params, inputs: Sequence[Any], outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """Convert `tridiagonal` of the first releases (0.4.13 has it): its fifth result is LAPACK's
    error code, 0 for success.
    """
    if len(outs) != 5:
        return None
    *found, info = outs
    given, operands = _zeros(info.aval)
    return [
        _equation("tridiagonal", inputs, params, found),
        _equation("broadcast_in_dim", operands, given, [info]),
    ]


def zeros_of_operand(params: Params, inputs: Sequence[Any]) -> Arranged:
    """Convert `zeros_like x` where the result has no type: the type is that of x."""
    del params
    (x,) = inputs
    if isinstance(x, UntypedLit):
        zero = untyped_literal(str(type(untyped_scalar(x.text))()))
        return {"shape": (), "broadcast_dimensions": ()}, [zero]
    return _zeros(x.aval)


def _zeros(aval: Any) -> Arranged:
    if not isinstance(aval, ShapedArray) or aval.dtype.kind not in _ZEROS:
        raise ValueError(f"there are no zeros of {aval}")
    zero = Lit(_ZEROS[aval.dtype.kind], ShapedArray((), aval.dtype))
    return {"shape": aval.shape, "broadcast_dimensions": ()}, [zero]


def factors(params: Params, inputs: Sequence[Any], outs: Sequence[Var]) -> list[JaxprEqn] | None:
    """Convert `lu` with two results, to 0.1.77: the permutation was computed from the pivots elsewhere."""
    if len(outs) != 2:
        return None
    return [_equation("lu", inputs, params, [*outs, DropVar(UNTYPED)])]


def singular_values(
    params: Params, inputs: Sequence[Any], outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """Convert `svd[compute_uv=False]` with three results, to 0.1.77, of which only the first had a meaning."""
    if len(outs) != 3 or params.get("compute_uv") is not False:
        return None
    return [_equation("svd", inputs, {**params, "compute_uv": True}, outs)]


def scalar_of_any_contents(
    params: Params, inputs: Sequence[Any], outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """`empty[dtype=float32]`, to 0.7.1, is `empty2`: a scalar; None where a shape is given, as later releases do."""
    return None if "shape" in params else [_equation("empty2", inputs, params, outs)]


def has_sizes(params: Params) -> bool:
    """Whether the shape of an equation is read from operands, which its param does not say."""
    shape = params.get("shape")
    return isinstance(shape, tuple) and None in shape


def sizes_as_operands(
    params: Params, inputs: Sequence[Any], outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """Convert `broadcast_in_dim[shape=(None,)] 2.0 a` and `iota[shape=(None,)] a` (0.3.15 to 0.7.0), where the
    sizes of a shape that has None are operands: the type of the result, `f32[a]`, says all of it.

    None for another equation.
    """
    if not has_sizes(params) or len(outs) != 1:
        return None
    shape = cast("tuple[Any, ...]", params["shape"])
    aval, sizes = outs[0].aval, shape.count(None)
    if not isinstance(aval, ShapedArray) or len(aval.shape) != len(shape) or len(inputs) < sizes:
        return None
    name = "iota" if "dimension" in params else "broadcast_in_dim"
    return [_equation(name, inputs[: len(inputs) - sizes], {**params, "shape": aval.shape}, outs)]


def identity_callback(
    params: Params, inputs: Sequence[Any], outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """Convert `outside_call[identity=True]` (0.2.8 to 0.4.33), which returns its operands after a
    host function saw them.

    None for other calls.
    """
    if params.get("identity") is not True or len(inputs) != len(outs):
        return None
    return [_equation("optimization_barrier", inputs, {}, outs)]


_CALLED = pattern(r"(\w+)\[(.*)\]")
_PARAM = pattern(r"\s*(\w+)=((?:[^\s\[\](){}]|\[[^\[\]]*\]|\([^()]*\))+)(?=\s|\Z)")


def hi_primitive(
    params: Params, inputs: Sequence[Any], outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """Convert `call_hi_primitive[_prim=SearchSorted[side=left ...]]`, where JAX prints all params.

    None where nobody declares the primitive.
    """
    called = _CALLED.fullmatch(str(params["_prim"]).strip())
    primitive = declared_primitive(called[1]) if called else None
    if called is None or primitive is None:
        return None
    given, pos = dict[str, Any](), 0
    while m := _PARAM.match(called[2], pos):
        given[m[1]], pos = read_value(m[2], primitive.params[m[1]].kind), m.end()
    if called[2][pos:].strip():
        return None  # a jaxpr
    return [_equation(called[1], inputs, given, outs)]


def gamma_of_words(
    params: Params, inputs: Sequence[Any], outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """Convert `random_gamma` of the words of keys, u32[..., n] (to 0.3.16); None where its operand is keys already."""
    words, a = inputs
    if words.aval is UNTYPED:  # no text without types has keys
        keys, impl = UNTYPED, "fry"
    elif isinstance(words.aval, ShapedArray) and words.aval.dtype is UINT32 and words.aval.shape:
        impl = {2: "fry", 4: "rbg"}[words.aval.shape[-1]]
        keys = ShapedArray(words.aval.shape[:-1], custom_dtype(f"key<{impl}>"))
    else:
        return None
    wrapped = Var(keys)
    taken = {k: v for k, v in params.items() if k == "log_space"}
    return [
        _equation("random_wrap", [words], {"impl": impl}, [wrapped]),
        _equation(
            "random_gamma",
            [wrapped, a],
            {"log_space": False, "partitionable": False, "complement": False, **taken},
            outs,
        ),
    ]


def _equation(name: str, inputs: Sequence[Any], params: Params, outs: Sequence[Var]) -> JaxprEqn:
    primitive = find_primitive(name)
    return JaxprEqn(primitive, inputs, {**primitive.defaults, **params}, outs)
