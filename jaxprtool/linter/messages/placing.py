"""Pages of the messages on ill-typed programs with named axes, references, and rules of derivatives."""

from __future__ import annotations

from jaxprtool.linter.messages.writing import program, typed
from jaxprtool.linter.registry import Page

__all__ = ["PLACING"]


def _mapped(
    *equations: str,
    arg: str = "c:f32[2]{V:i}",
    out: str = "d",
    in_spec: str = "P('i',)",
    out_spec: str = "P('i',)",
    size: int = 8,
    result: str = "f32[8]",
    checked: bool = True,
) -> str:
    """A program of one shard_map over four devices."""
    body = "; ".join(equations)
    return program(
        f"b:{result} = shard_map[\n"
        f"  check_vma={checked}\n"
        f"  in_specs=({in_spec},)\n"
        f"  jaxpr={{ lambda ; {arg}. let {body} in ({out},) }}\n"
        "  manual_axes=frozenset({'i'})\n"
        "  mesh=Mesh('i': 4)\n"
        f"  out_specs=({out_spec},)\n"
        "] a",
        args=f"a:f32[{size}]",
    )


_GOOD = _mapped("d:f32[2]{V:i} = sin c")
_GROUPS = "d:f32[2] = psum[axes=('i',) axis_index_groups=%s] c"
_REF = "a:Ref{f32[8]}"


def _custom(rule: str) -> str:
    call = "call_jaxpr={ lambda ; c:f64[3]. let d:f64[3] = sin c in (d,) }"
    return program(
        f"b:f64[3] = custom_jvp_call[name=f {call} jvp=jvp jvp_jaxpr={rule} symbolic_zeros=False] a",
        args="a:f64[3]",
    )


def _linear(transposed: str) -> str:
    callee = "{ lambda ; x:f32[3]. let y:f32[3] = neg x in (y,) }"
    return program(
        f"b:f32[3] = linear_call[callee={callee} num_callee_consts=0 num_res=0"
        f" transpose_jaxpr={transposed}] a"
    )


PLACING: list[Page] = [
    typed(
        "unbound-axis",
        "A named axis is not in scope here",
        "name an axis of the mesh, or of the map, around it",
        program("b:f32[3] = psum[axes=('i',) axis_index_groups=None] a"),
        _GOOD,
    ),
    typed(
        "spec",
        "An array cannot be split, or joined, as a spec says",
        "name axes of the mesh, of sizes that divide those of the array",
        _mapped("d:f32[2]{V:i} = sin c", size=6),
        _GOOD,
    ),
    typed(
        "not-replicated",
        "A result of a shard_map differs from device to device, and its spec says that it does not",
        "reduce it with psum_invariant, or name the axis in the spec",
        _mapped("d:f32[2]{V:i} = sin c", out_spec="P(None,)", result="f32[2]"),
        _GOOD,
    ),
    typed(
        "not-varying",
        "A collective acts along an axis along which its operand is the same on all devices",
        "let it vary first, with pvary",
        _mapped(
            "d:f32[2] = psum_invariant[axes=('i',)] c",
            "e:f32[2] = psum_invariant[axes=('i',)] d",
            out="e",
            out_spec="P(None,)",
            result="f32[2]",
        ),
        _mapped("d:f32[2] = psum_invariant[axes=('i',)] c", out_spec="P(None,)", result="f32[2]"),
    ),
    typed(
        "varying",
        "A value is to vary along an axis along which it varies already",
        "leave the pvary out",
        _mapped("d:f32[2]{V:i} = pvary[axes=('i',)] c"),
        _GOOD,
    ),
    typed(
        "axis-groups",
        "The groups of a collective do not hold each member once, or differ in size",
        "write each number below the size of the axis once, in groups of one size",
        _mapped(_GROUPS % "((0, 1), (2,))", arg="c:f32[2]", checked=False),
        _mapped(_GROUPS % "((0, 1), (2, 3))", arg="c:f32[2]", checked=False),
    ),
    typed(
        "axis-size",
        "The size of an axis in a param is not that of the axis",
        "write the number of its members",
        _mapped(
            "d:f32[6] = all_gather[all_gather_dimension=0 axis_index_groups=None axis_name=('i',) axis_size=3 tiled=True] c",
            arg="c:f32[2]",
            checked=False,
            result="f32[24]",
        ),
        _mapped(
            "d:f32[8] = all_gather[all_gather_dimension=0 axis_index_groups=None axis_name=('i',) axis_size=4 tiled=True] c",
            arg="c:f32[2]",
            checked=False,
            result="f32[32]",
        ),
    ),
    typed(
        "dead-reference",
        "A reference is used after it was frozen",
        "read it before, or use what freeze gives",
        program(
            "r:Ref{f32[3]} = new_ref[kind=None memory_space=None] a",
            "b:f32[3] = freeze r",
            "c:f32[] <- r[0]",
            outs="b, c",
        ),
        program(
            "r:Ref{f32[3]} = new_ref[kind=None memory_space=None] a",
            "c:f32[] <- r[0]",
            "b:f32[3] = freeze r",
            outs="b, c",
        ),
    ),
    typed(
        "mask-type",
        "A mask does not have the shape of what it masks",
        "give it the shape of the indexed part, and element type bool",
        program("b:f32[4] <- a[0:4] mask=m", args=f"{_REF} m:bool[8]"),
        program("b:f32[4] <- a[0:4] mask=m", args=f"{_REF} m:bool[4]"),
    ),
    typed(
        "rule-type",
        "The rule of a derivative is not a function between the types of the function's",
        "let a jvp rule take the arguments and their tangents, and give the results and theirs",
        _custom("{ lambda ; e:f64[3]. let f:f64[3] = cos e in (f,) }"),
        _custom(
            "{ lambda ; e:f64[3] t:f64[3]. let f:f64[3] = sin e; g:f64[3] = cos e; h:f64[3] = mul g t in (f, h) }"
        ),
    ),
    typed(
        "transpose-type",
        "The transpose of a linear call does not return cotangents of its operands",
        "let it return a value of the type of each linear operand",
        _linear(
            "{ lambda ; x:f32[3]. let y:f32[] = reduce_sum[axes=(0,) out_sharding=None] x in (y,) }"
        ),
        _linear("{ lambda ; x:f32[3]. let y:f32[3] = neg x in (y,) }"),
    ),
]
