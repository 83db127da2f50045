"""Pages of the messages on programs that are ill-typed, but for those on collectives, kernels and references."""

from __future__ import annotations

from jaxprtool.linter.messages.writing import program, typed
from jaxprtool.linter.registry import Page

__all__ = ["TYPING"]

_SIN = program("b:f32[3] = sin a")
_TWO = "a:f32[3] c:f32[3]"
_MATRIX = "a:f32[2,3]"


def _scan(body: str, length: int = 4) -> str:
    counts = f"length={length} num_carry=1 num_consts=0 reverse=False unroll=1"
    return f"scan[jaxpr={{ lambda ; c:f32[]. let {body} in (d,) }} {counts}] a"


def _while(going: str, outs: str) -> str:
    cond = f"cond_jaxpr={{ lambda ; a:f32[]. let {going} in ({outs}) }} cond_nconsts=0"
    body = "body_jaxpr={ lambda ; a:f32[]. let b:f32[] = sin a in (b,) } body_nconsts=0"
    return program(f"b:f32[] = while[{body} {cond}] a", args="a:f32[]")


def _cond(index: str, second: str) -> str:
    first = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    return program(f"b:f32[3] = cond[branches=({first} {second})] {index} a")


_COS = "{ lambda ; a:f32[3]. let b:f32[3] = cos a in (b,) }"
_SUM = "{ lambda ; x:f32[] y:f32[]. let z:f32[] = add x y in (z,) }"


def _gather(
    numbers: str = "",
    sizes: str = "(1,)",
    fill: str = "None",
    mode: str = "CLIP",
    of: str = "f32[3]",
) -> str:
    numbers = numbers or "offset_dims=() collapsed_slice_dims=(0,) start_index_map=(0,)"
    fields = ", ".join(
        f"{x})" if not x.endswith(")") else x for x in numbers.replace(") ", ")|").split("|")
    )
    record = f"GatherDimensionNumbers({fields}, operand_batching_dims=(), start_indices_batching_dims=())"
    params = f"dimension_numbers={record} fill_value={fill} indices_are_sorted=False mode=GatherScatterMode.{mode}"
    return program(
        f"b:{of.partition('[')[0]}[2] = gather[{params} slice_sizes={sizes} unique_indices=False] a i",
        args=f"a:{of} i:i32[2,1]",
    )


def _window(size: str) -> str:
    rest = "base_dilation=(1,) padding=((0, 0),) window_dilation=(1,) window_strides=(1,)"
    return program(f"b:f32[2] = reduce_window_sum[{rest} window_dimensions={size}] a")


def _convolution(lhs: str = "(0, 1, 2)", groups: int = 1) -> str:
    record = f"ConvDimensionNumbers(lhs_spec={lhs}, rhs_spec=(0, 1, 2), out_spec=(0, 1, 2))"
    params = f"batch_group_count=1 dimension_numbers={record} feature_group_count={groups} lhs_dilation=(1,) padding=((0, 0),)"
    rest = "precision=None preferred_element_type=None rhs_dilation=(1,) window_strides=(1,)"
    return program(
        f"b:f32[1,1,3] = conv_general_dilated[{params} {rest}] a w",
        args="a:f32[1,1,4] w:f32[1,1,2]",
    )


def _reduce(jaxpr: str, consts: str = "()") -> str:
    params = f"computation=None dimensions=(0,) jaxpr={jaxpr}"
    return program(f"b:f32[] = reduce[{params}] a 0.0:f32[]")


TYPING: list[Page] = [
    typed(
        "unknown-primitive",
        "Nobody has declared a primitive of this name",
        "write the name that is meant, or load the module that declares it with --plugin (`check --allow-unknown` takes it at its word)",
        program("b:f32[3] = sinn a"),
        _SIN,
    ),
    typed(
        "binder-type",
        "An equation gives another type than its variable is declared with",
        "declare the type that the operation gives, and look at those that read it",
        program("b:f64[3] = sin a"),
        _SIN,
    ),
    typed(
        "result-count",
        "An equation binds more or fewer results than the operation has",
        "bind each result, `_` where nobody reads it",
        program("b:f32[3] c:f32[3] = sin a"),
        _SIN,
    ),
    typed(
        "operand-count",
        "An operation has too many operands, or too few",
        "give it those that the message lists",
        program("b:f32[3] = add a a a"),
        program("b:f32[3] = add a a"),
    ),
    typed(
        "operand-types",
        "The operands have types that do not go together",
        "convert one of them, with convert_element_type",
        program("b:f32[3] = add a c", args="a:f32[3] c:f64[3]"),
        program("b:f32[3] = add a c", args=_TWO),
    ),
    typed(
        "operand-dtype",
        "An operation does not take operands of this element type",
        "convert the operand, with convert_element_type",
        program("b:i32[3] = sin a", args="a:i32[3]"),
        _SIN,
    ),
    typed(
        "operand-shapes",
        "The operands have shapes that do not go together",
        "make the shapes equal with broadcast_in_dim: primitives do not broadcast",
        program("b:f32[3] = add a c", args="a:f32[3] c:f32[4]"),
        program("b:f32[3] = add a c", args=_TWO),
    ),
    typed(
        "operand-rank",
        "An operation needs an operand of more axes",
        "reshape it to a matrix, or to a batch of matrices",
        program("b:f32[3] = cholesky a"),
        program("b:f32[2,2] = cholesky a", args="a:f32[2,2]"),
    ),
    typed(
        "operand-memories",
        "The operands are in different memories",
        "move one of them with device_put",
        program("b:f32[3] = add a c", args="a:f32[3] c:f32<host>[3]"),
        program("b:f32[3] = add a c", args=_TWO),
    ),
    typed(
        "missing-param",
        "An operation lacks a param",
        "write the param; the message shows the declaration",
        program("b:f32[3] = cumsum a"),
        program("b:f32[3] = cumsum[axis=0] a"),
    ),
    typed(
        "unknown-param",
        "An operation has no param of this name",
        "write the name that is meant; the message shows the declaration",
        program("b:f32[3] = cumsum[axis=0 exclusive=True] a"),
        program("b:f32[3] = cumsum[axis=0 reverse=True] a"),
    ),
    typed(
        "bad-param",
        "The value of a param is not of the kind that it has to be",
        "write a value of the kind that the message names",
        program("b:f32[3] = cumsum[axis='x'] a"),
        program("b:f32[3] = cumsum[axis=0] a"),
    ),
    typed(
        "param-value",
        "The value of a param is of the right kind, and there is no such value",
        "write one of the values that the message names",
        program("b:i32[3] = integer_pow[y=-1] a", args="a:i32[3]"),
        program("b:i32[3] = integer_pow[y=2] a", args="a:i32[3]"),
    ),
    typed(
        "axis-range",
        "An axis is named that the operand does not have",
        "count axes from 0; jaxprs have no negative ones",
        program("b:f32[] = reduce_sum[axes=(1,) out_sharding=None] a"),
        program("b:f32[] = reduce_sum[axes=(0,) out_sharding=None] a"),
    ),
    typed(
        "axis-twice",
        "An axis is named twice",
        "name it once",
        program("b:f32[3] = reduce_sum[axes=(0, 0) out_sharding=None] a", args=_MATRIX),
        program("b:f32[3] = reduce_sum[axes=(0,) out_sharding=None] a", args=_MATRIX),
    ),
    typed(
        "empty-axis",
        "The greatest or least element of nothing is asked for",
        "leave out what has no elements",
        program("b:i32[] = argmax[axes=(0,) index_dtype=int32] a", args="a:f32[0]"),
        program("b:i32[] = argmax[axes=(0,) index_dtype=int32] a"),
    ),
    typed(
        "dimension-count",
        "A param has more or fewer entries than the operand has axes",
        "write an entry for each axis",
        program("b:f32[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,) sharding=None] a"),
        program(
            "b:f32[3] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(3,) sharding=None] a"
        ),
    ),
    typed(
        "broadcast-size",
        "An axis is to be broadcast that has another size than 1",
        "broadcast axes of size 1, or new ones",
        program(
            "b:f32[4] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(4,) sharding=None] a"
        ),
        program(
            "b:f32[4] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(4,) sharding=None] a",
            args="a:f32[1]",
        ),
    ),
    typed(
        "reshape-size",
        "A reshape changes the number of elements",
        "write sizes whose product is that of the operand's",
        program("b:f32[2,2] = reshape[dimensions=None new_sizes=(2, 2) sharding=None] a"),
        program("b:f32[3,1] = reshape[dimensions=None new_sizes=(3, 1) sharding=None] a"),
    ),
    typed(
        "squeeze-size",
        "An axis is squeezed that has another size than 1",
        "name axes of size 1, or reduce the axis",
        program("b:f32[] = squeeze[dimensions=(0,)] a"),
        program("b:f32[] = squeeze[dimensions=(0,)] a", args="a:f32[1]"),
    ),
    typed(
        "permutation",
        "An order of axes does not name each of them once",
        "write each axis of the operand once",
        program("b:f32[3,2] = transpose[permutation=(1, 1)] a", args=_MATRIX),
        program("b:f32[3,2] = transpose[permutation=(1, 0)] a", args=_MATRIX),
    ),
    typed(
        "negative-size",
        "A size is negative",
        "write a size of 0 or more",
        program("b:f32[3] = pad[padding_config=((0, 0, -1),)] a 0.0:f32[]"),
        program("b:f32[3] = pad[padding_config=((0, 0, 0),)] a 0.0:f32[]"),
    ),
    typed(
        "slice-range",
        "A slice is not within the operand",
        "write limits up to the size of the axis, and starts up to the limits",
        program("b:f32[4] = slice[limit_indices=(4,) start_indices=(0,) strides=None] a"),
        program("b:f32[2] = slice[limit_indices=(2,) start_indices=(0,) strides=None] a"),
    ),
    typed(
        "slice-stride",
        "A slice has a stride that is not positive",
        "write a stride of 1 or more; `rev` reverses",
        program("b:f32[3] = slice[limit_indices=(3,) start_indices=(0,) strides=(0,)] a"),
        program("b:f32[2] = slice[limit_indices=(3,) start_indices=(0,) strides=(2,)] a"),
    ),
    typed(
        "slice-sizes",
        "The slices of a gather have other sizes than its dimension numbers say",
        "write 1 along collapsed dimensions",
        _gather(sizes="(2,)"),
        _gather(),
    ),
    typed(
        "dimension-numbers",
        "Dimension numbers do not fit the operands",
        "name axes of the operands, in the order that the message says",
        _gather("offset_dims=() collapsed_slice_dims=(3,) start_index_map=(0,)"),
        _gather(),
    ),
    typed(
        "fill-value",
        "The value for what is out of bounds is no number of the operand's",
        "write a number of its type, or None",
        _gather(fill="1j"),
        _gather(fill="1.0"),
    ),
    typed(
        "index-mode",
        "There is no such mode for indices out of bounds",
        "write CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS or ONE_HOT",
        _gather(mode="WRAP"),
        _gather(),
    ),
    typed(
        "split-sizes",
        "The parts of a split do not add up to the axis",
        "write sizes whose sum is that of the axis",
        program("b:f32[1] c:f32[1] = split[axis=0 sizes=(1, 1)] a"),
        program("b:f32[1] c:f32[2] = split[axis=0 sizes=(1, 2)] a"),
    ),
    typed(
        "dot-sizes",
        "Contracted or batch axes differ in size",
        "contract axes of one size; transpose an operand if others are meant",
        program(
            "b:f32[] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a c",
            args="a:f32[3] c:f32[4]",
        ),
        program("b:f32[] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a c", args=_TWO),
    ),
    typed(
        "bad-permutation",
        "The axes of an operand of a convolution are not named each once",
        "write each axis once: batch, features, then space",
        _convolution(lhs="(0, 1, 1)"),
        _convolution(),
    ),
    typed(
        "group-count",
        "The groups of a convolution do not divide its features or its batch",
        "write a number of groups that divides them",
        _convolution(groups=2),
        _convolution(),
    ),
    typed(
        "bad-size",
        "A window, a stride or a dilation is not positive",
        "write sizes of 1 or more",
        _window("(0,)"),
        _window("(2,)"),
    ),
    typed(
        "fft-lengths",
        "The lengths of an FFT are not those of the last axes",
        "write the sizes of the operand's last axes",
        program("b:c64[4] = fft[fft_lengths=(3,) fft_type=0] a", args="a:c64[4]"),
        program("b:c64[4] = fft[fft_lengths=(4,) fft_type=0] a", args="a:c64[4]"),
    ),
    typed(
        "key-count",
        "A sort has more keys than operands, or none",
        "write a number from 1 to that of the operands",
        program("b:f32[3] = sort[dimension=0 is_stable=True num_keys=2] a"),
        program("b:f32[3] = sort[dimension=0 is_stable=True num_keys=1] a"),
    ),
    typed(
        "top-k-size",
        "More elements are asked for than the axis has",
        "write a number up to the size of the axis",
        program("b:f32[5] c:i32[5] = top_k[axis=0 k=5] a"),
        program("b:f32[2] c:i32[2] = top_k[axis=0 k=2] a"),
    ),
    typed(
        "recall-target",
        "The part of the greatest elements to be found is not between 0 and 1",
        "write a number above 0, and 1 at most",
        program(
            "b:f32[1] c:i32[1] = approx_top_k[aggregate_to_topk=True is_max_k=True k=1 recall_target=1.5\n"
            "reduction_dimension=0 reduction_input_size_override=-1] a"
        ),
        program(
            "b:f32[1] c:i32[1] = approx_top_k[aggregate_to_topk=True is_max_k=True k=1 recall_target=0.5\n"
            "reduction_dimension=0 reduction_input_size_override=-1] a"
        ),
    ),
    typed(
        "size-override",
        "The size that a reduction goes by is less than that of its axis",
        "write -1, or the size of the axis before it was split",
        program(
            "b:f32[3] c:i32[3] = approx_top_k[aggregate_to_topk=False is_max_k=True k=1 recall_target=0.5\n"
            "reduction_dimension=0 reduction_input_size_override=2] a"
        ),
        program(
            "b:f32[3] c:i32[3] = approx_top_k[aggregate_to_topk=False is_max_k=True k=1 recall_target=0.5\n"
            "reduction_dimension=0 reduction_input_size_override=3] a"
        ),
    ),
    typed(
        "reducer-type",
        "The jaxpr of a reduction is not a function of two elements that gives one",
        "let it take two arguments of the element type, and give one",
        _reduce("{ lambda ; x:f32[]. let in (x,) }"),
        _reduce(_SUM),
    ),
    typed(
        "argument-count",
        "A jaxpr in a param, or a whole program, takes another number of arguments than it is given",
        "give an operand, or a value, for each argument",
        program("b:f32[3] = jit[name=f jaxpr={ lambda ; a:f32[3] c:f32[3]. let in (a,) }] a"),
        program("b:f32[3] = jit[name=f jaxpr={ lambda ; a:f32[3]. let in (a,) }] a"),
    ),
    typed(
        "argument-type",
        "A jaxpr in a param takes another type than that of the operand",
        "give it an operand of the type of its argument",
        program("b:f64[3] = jit[name=f jaxpr={ lambda ; a:f64[3]. let in (a,) }] a"),
        program("b:f32[3] = jit[name=f jaxpr={ lambda ; a:f32[3]. let in (a,) }] a"),
    ),
    typed(
        "branch-type",
        "The branches of a cond return different types",
        "let each branch return the same types",
        _cond("0:i32[]", "{ lambda ; a:f32[3]. let b:i32[3] = sign 1:i32[] in (1.0:f64[],) }"),
        _cond("0:i32[]", _COS),
    ),
    typed(
        "cond-index",
        "What chooses a branch is no index",
        "choose by an i32[], or by a bool[] between two branches",
        _cond("0.0:f32[]", _COS),
        _cond("0:i32[]", _COS),
    ),
    typed(
        "carry-type",
        "A loop returns another type than it takes from turn to turn",
        "convert the result, or start from a value of the type that it returns",
        program(
            "b:f32[] = " + _scan("d:f64[] = convert_element_type[new_dtype=float64] c"),
            args="a:f32[]",
        ),
        program("b:f32[] = " + _scan("d:f32[] = sin c"), args="a:f32[]"),
    ),
    typed(
        "scan-length",
        "A scanned array has another length than the scan",
        "write the size of its first axis as the length",
        program(
            "scan[jaxpr={ lambda ; c:f32[]. let in () } length=4 num_carry=0 num_consts=0 reverse=False unroll=1] a",
            outs="a,",
        ),
        program(
            "scan[jaxpr={ lambda ; c:f32[]. let in () } length=3 num_carry=0 num_consts=0 reverse=False unroll=1] a",
            outs="a,",
        ),
    ),
    typed(
        "loop-condition",
        "The condition of a while loop does not return a boolean",
        "let it return one bool[]: compare the carry with something",
        _while("b:f32[] = sin a", "b,"),
        _while("b:bool[] = lt a 3.0:f32[]", "b,"),
    ),
]
