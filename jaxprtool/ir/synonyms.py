"""Names that other systems have for primitives, for the suggestions in messages.

The systems are NumPy, PyTorch, TensorFlow, ONNX, StableHLO and HLO, earlier JAX, and plain words.
The parser accepts none of these names. A table maps a name in lower case, without `_`, to our name,
or to several names whose combination computes it.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "DTYPES",
    "OPERATIONS",
    "OPTIONS",
    "PRIMITIVES",
    "VERBS",
    "close_names",
    "dtype_meant",
    "meant",
]

Table = dict[str, str | tuple[str, ...]]


def _table(lines: str) -> Table:
    """Read a table from lines such as `ours: theirs theirs`, or `ours + ours: theirs`."""
    found: Table = {}
    for line in lines.strip().splitlines():
        ours, _, theirs = line.partition(": ")
        parts = tuple(ours.strip().split(" + "))
        for name in theirs.split():
            found[_key(name)] = parts[0] if len(parts) == 1 else parts
    return found


def _key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


PRIMITIVES = _table("""
abs: absolute fabs magnitude
acos: arccos
acosh: arccosh
add: plus sum2 addv2
and: logical_and bitwise_and
argmax: arg_max
argmin: arg_min
asin: arcsin
asinh: arcsinh
atan: arctan
atan2: arctan2
atanh: arctanh
bitcast_convert_type: bitcast_convert view
broadcast_in_dim: broadcast expand tile_to expand_as dynamic_broadcast_in_dim full fill zeros ones full_like zeros_like ones_like
cbrt: cube_root
ceil: ceiling
clamp: clip clip_by_value
clz: count_leading_zeros
complex: make_complex polar
concatenate: concat cat hstack vstack
cond: if case ifelse switch select_branch
conj: conjugate
conv_general_dilated: conv conv1d conv2d conv3d convolution convolve conv_transpose
convert_element_type: cast astype convert to to_dtype type_as
copy: clone identity
cumlogsumexp: logcumsumexp
cummax: cumulative_max
cumprod: cumulative_prod
cumsum: cumulative_sum
custom_jvp_call: custom_jvp custom_jvp_call_jaxpr
custom_vjp_call: custom_vjp custom_vjp_call_jaxpr custom_gradient
debug_callback: debug_print_callback
device_put: to_device
digamma: psi
div: divide true_divide truediv realdiv
dot_general: dot matmul mm bmm einsum tensordot inner vdot gemm batch_matmul linear
dynamic_slice: slice_dynamic
dynamic_update_slice: index_update update_slice set_slice
eigh: symeig self_adjoint_eig
eq: equal equals
erf_inv: erfinv
exp: exponential
expand_dims: unsqueeze expanddim newaxis
expm1: exponential_minus_one
fft: ifft rfft irfft fftn
floor: floor_to
gather: take take_along_axis index_select gather_nd embedding embedding_lookup
ge: greater_equal greater_or_equal gte
gt: greater greater_than
imag: imaginary
integer_pow: powi
iota: arange range linspace
is_finite: isfinite
jit: pjit xla_call call_jaxpr func_call
le: less_equal less_or_equal lte
lgamma: gammaln log_gamma loggamma
log: ln logarithm
log1p: log_plus_one
logistic: sigmoid expit
lt: less less_than
max: maximum relu fmax reluv2
min: minimum fmin
mul: multiply times
ne: not_equal neq
neg: negative negate minus
nextafter: next_after
not: logical_not bitwise_not invert
optimization_barrier: barrier
or: logical_or bitwise_or
population_count: popcnt popcount bitwise_count
pow: power float_power
ppermute: collective_permute
psum: all_reduce allreduce cross_replica_sum
all_gather: allgather
all_to_all: alltoall
qr: qr_decomposition
random_bits: rng_bits
reduce_and: reduce_all all
reduce_max: amax nanmax reducemax
reduce_min: amin reducemin
reduce_or: reduce_any any
reduce_precision: round_precision
reduce_prod: prod product
reduce_scatter: psum_scatter
reduce_sum: sum reducesum
reduce_sum + div: mean average reduce_mean
reduce_window: pool avg_pool window_reduce
reduce_window_max: max_pool maxpool
rem: remainder mod fmod modulo floormod
remat2: remat checkpoint remat_call
reshape: ravel flatten view_as
rev: reverse flip fliplr flipud
round: rint round_nearest_even round_nearest_afz
rsqrt: inverse_sqrt reciprocal_sqrt
scan: fori_loop foreach
scatter: scatter_nd index_put
scatter-add: scatter_add segment_sum index_add
select_n: where select tselect choose
shard_map: manual_computation
shift_left: left_shift shl
shift_right_arithmetic: right_shift shr sar
sign: signum sgn
slice: strided_slice narrow
sort: argsort msort
split: chunk array_split
sqrt: square_root
square: sqr
sub: subtract
tanh: hyperbolic_tangent
top_k: topk
transpose: permute permute_dims swapaxes moveaxis
triangular_solve: solve_triangular trsm
while: while_loop whileloop
xor: logical_xor bitwise_xor
exp + reduce_sum + div: softmax
exp + reduce_sum + log: logsumexp log_softmax
exp + log1p: softplus
mul + logistic: silu swish
mul + erf: gelu
reduce_sum + sqrt: norm
mul + add: fma addmm multiply_add
cumsum + sub: diff
""")

DTYPES = _table("""
bool: boolean pred bool_ i1
i8: char signed_char s8 sbyte
u8: byte uchar ui8
i16: short s16
u16: ushort ui16
i32: int integer s32 intc si32
u32: uint unsigned ui32
i64: long s64 int_ longlong si64
u64: ulong ui64
f16: half
bf16: bfloat bfloat16_t
f32: float single real fp32 tf32
f64: double fp64
c64: complex cfloat
c128: cdouble
""") | {"fp16": "f16"}

# Operations of HLO by names of primitives, and others.
OPERATIONS = _table("""
all_gather: pgather
all_reduce: psum pmax pmin psum_invariant allreduce
all_to_all: alltoall
reduce_scatter: psum_scatter
collective_permute: ppermute pshuffle
collective_broadcast: pbroadcast
custom_call: callback pure_callback io_callback debug_callback
dot: matmul
exponential: exp
log_plus_one: log1p
sine: sin
cosine: cos
multiply: mul
subtract: sub
divide: div
maximum: max
minimum: min
negate: neg
reduce: reduce_sum reduce_max reduce_min
convert: convert_element_type
select: select_n
conditional: cond
""")

VERBS = _table("""
check: typecheck validate verify type
fmt: format pretty print cat show tidy
run: eval evaluate execute exec interpret
jvp: forward jacfwd pushforward
vmap: batch vectorize vectorise map
partial-eval: partial_eval pe peval specialize specialise
linearize: linearise tangent
transpose: adjoint
vjp: backward pullback jacrev reverse
grad: gradient derivative differentiate backprop value_and_grad
discharge: run_state purify
lower: stablehlo mlir emit
compile: jit build hlo xla
trace: make_jaxpr record stage export
diff: cmp equal
blame: nan debug
compare: allclose
reduce: bisect minimize creduce
gradcheck: check_grads
equiv: equivalent same
precision: ulp rounding
assert: expect require guard
grep: find search match
hash: digest fingerprint sha256 checksum
opt: optimize optimise simplify cse fold dce passes
lint: linter ruff flake8 pylint warn
explain: describe why
stats: count statistics summary summarize info
cost: flops flop memory roofline
residuals: saved checkpoint remat
bench: benchmark timeit
profile: profiler perf pprof flamegraph
fuzz: random generate quickcheck
retraces: recompiles cache_misses
triage: culprit regression
snapshot: golden approve record
git-setup: difftool mergetool githook
repro: bundle bugreport reproduce replay archive
""")


# Options of verbs, by JAX's keywords and those of LLVM's tools.
OPTIONS = _table("""
args: inputs input arguments values
in-axes: in-dims in-axis
out-axes: out-dims out-axis
axis-size: batch-size batch
wrt: argnums argnum by
static: static-argnums static-argnames statics
x64: enable-x64 jax-enable-x64 double
platform: device-type jax-platforms backend
jit: compile xla jitted
output: out outfile
passes: pass transforms
check-nans: debug-nans jax-debug-nans nans
host-devices: device-count num-cpu-devices
policy: remat checkpoint
fast-math: fastmath
samples: trials
trips: iterations steps
max-bytes: memory max-memory
step-limit: max-steps
time-limit: timeout
""")


def meant(name: str, table: Table) -> str:
    """Return what a name of another system is called here, as the end of a sentence: `gt`, `exp,
    reduce_sum and div`; or "".
    """
    found = table.get(_key(name), "")
    return f"{', '.join(found[:-1])} and {found[-1]}" if isinstance(found, tuple) else found


def dtype_meant(name: str) -> str:
    """Return the element type that a name of another system means, or ""."""
    return meant(name, DTYPES)


def close_names(name: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the names nearest to a misspelt one, best first (may be empty)."""
    from difflib import get_close_matches  # noqa: PLC0415 (only messages need it)

    return get_close_matches(name, [*names], n=3, cutoff=cutoff)
