"""compare: differences are counted rightly, and the first one is the equation that was exchanged."""

from __future__ import annotations

import json
import tracemalloc
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import io_callback

import jaxprtool as jt
from jaxprtool.analyses.comparing.comparison import Tolerance
from jaxprtool.analyses.places import Watch
from jaxprtool.backends import differences
from jaxprtool.backends.agreement import gap
from jaxprtool.backends.differences import difference
from jaxprtool.driver.compare import compare
from jaxprtool.driver.comparing.in_step import Side
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.passes.precisions.double import in_double
from tests.analyses.exchanged import STEP_LIMIT, exchanges
from tests.programs.catalogue import EXAMPLES, PROGRAMS

FILES = [
    p
    for p in sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
    if p.stem != "multiply_add"  # needs a plug-in
]
FLOATS = (
    *("float16", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)


# -- arrays ------------------------------------------------------------------------------------------


def all_values(name):
    """Every number of a type of 16 bits or fewer that is no NaN, each once, in order."""
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    bits = np.arange(1 << find_dtype(name).bits, dtype=f"u{dtype.itemsize}")
    values = bits.view(dtype)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
    values, wide = values[wide == wide], wide[wide == wide]
    return values[np.unique(wide, return_index=True)[1]]


@pytest.mark.parametrize("name", FLOATS)
def test_ulps_count_the_floats_between(name):
    values = all_values(name)
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, len(values), (2, 300))
    for p, q in zip(i, j, strict=True):
        found = difference(values[p : p + 1], values[q : q + 1])
        assert found.max_ulp == abs(int(p) - int(q)), (values[p], values[q])
        assert found.n_different == (p != q)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@np.errstate(all="ignore")
def test_ulps_of_wide_floats(dtype):
    tiny = np.nextafter(dtype(0), dtype(1))
    for x in (dtype(0), dtype(1), tiny, -tiny, dtype(-3.7), np.finfo(dtype).max):
        up = np.nextafter(np.nextafter(x, dtype(np.inf)), dtype(np.inf))
        steps = 1 if np.isinf(np.nextafter(x, dtype(np.inf))) else 2
        assert difference(np.array([x]), np.array([up])).max_ulp == steps
    far = difference(np.array([-np.inf], dtype), np.array([np.inf], dtype))
    assert far.max_ulp > 2 ** (np.dtype(dtype).itemsize * 8 - 2)
    assert far.n_different == 1 and far.max_abs == np.inf


def test_a_nan_is_a_nan_whatever_its_bits():
    other = np.array([0x7FC00001, 0xFFC00000], np.uint32).view(np.float32)
    assert difference(np.array([np.nan, np.nan], np.float32), other).n_different == 0
    alone = difference(np.array([np.nan, 1.0]), np.array([1.0, 1.0]))
    assert (alone.n_different, alone.n_nan, alone.max_ulp) == (1, 1, np.inf)
    wide = difference(np.array([np.nan, 1.0]), np.array([1.0, 1.0]), rtol=1e9, atol=1e9)
    assert wide.n_different == 1


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("tolerance", [{"rounding": True}, {"rtol": 1e-2}, {"atol": 1.0}])
def test_an_infinity_is_near_the_largest_number_alone(dtype, tolerance):
    most = float(ml_dtypes.finfo(dtype).max)
    a = np.array([1, most, np.inf, np.inf, 3, most], dtype)
    b = np.array([np.inf, -np.inf, -np.inf, np.inf, 3, np.inf], dtype)
    assert difference(a, b, **tolerance).n_different == 3
    found = gap(a, b, tolerance.get("rtol"), tolerance.get("atol"))
    assert found.differing == 3 and found.element in [(0,), (1,), (2,)]
    assert difference(a[5:], b[5:], rtol=0.0).n_different == 1


@pytest.mark.parametrize("dtypes", [("f", "f"), ("f", "d"), ("d", "f")])
def test_what_masks_elements_does_not_excuse_the_others(dtypes):
    x, y = [-1e30, 0.5, 2.0, -1e30], [-1e30, 0.7, 2.0, -1e30]
    x, y = (np.array(v, dtype) for v, dtype in zip((x, y), dtypes, strict=True))
    found = difference(x, y, rounding=True)
    assert found.n_different == 1
    assert found.where == (1,)
    assert not differences.clearly_near(x, y)
    near = np.array([-1e30, 0.500001, 2.0, -1e30], dtypes[1])  # beside 2.0, which does not differ
    assert not difference(x, near, rounding=True).n_different
    moved = np.array([-1e30, 0.7, 2.0, -1e30 * (1 + 1e-6)], dtypes[1])
    assert not difference(x, moved, rounding=True).n_different  # of a sum with it


def test_a_fault_before_a_mask_is_named_on_two_backends():
    def of(f):
        def masked(x, keep):
            return jax.nn.softmax(jnp.where(keep, f(x * 3.0), -1e30))

        x = np.linspace(0.1, 2.0, 6).astype("f")
        return jt.trace(masked, x, x < 1), [x, x < 1]

    (a, args), (b, _) = of(jnp.sin), of(jnp.cos)
    for backends in (("numpy", "xla"), ("xla", "jax"), ("numpy", "f64")):
        found = compare(a, b, args, first=True, backends=backends)
        assert found.first.a.eqn.primitive.name == "sin", backends


def test_an_infinity_leaves_the_other_elements_apart():
    a, b = np.array([1.0, np.inf], np.float32), np.array([1.5, np.inf], np.float32)
    assert difference(a, b, rounding=True).n_different == gap(a, b, None, None).differing == 1
    a, b = np.array([complex(1, np.inf)]), np.array([complex(1, 5)])
    assert difference(a, b, rtol=0.1).n_different == gap(a, b, 0.1, None).differing == 1


def test_zeros_of_both_signs_are_noted():
    found = difference(np.array([0.0, -0.0, 1.0]), np.array([-0.0, -0.0, 1.0]))
    assert (found.n_different, found.max_ulp, found.n_zero_signs) == (0, 0, 1)


def test_complex_numbers_differ_by_the_larger_part():
    up = np.nextafter(np.float32(1), np.float32(2))
    a, b = np.array([1 + 2j, 3j], np.complex64), np.array([1 + 2j, 3j], np.complex64)
    b[0] = up + 2j
    found = difference(a, b)
    assert (found.n_different, found.max_ulp, found.where) == (1, 1, (0,))
    nan = difference(np.array([complex(np.nan, 1)]), np.array([complex(np.nan, 2)]))
    assert nan.n_different == 1


@pytest.mark.parametrize("dtype", ["int4", "int8", "uint8", "int64", "uint64", "bool"])
def test_integers_are_compared_exactly(dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    a, b = np.zeros((2, 3), dtype), np.zeros((2, 3), dtype)
    b[1, 2] = 1
    found = difference(a, b, rtol=10.0, atol=10.0)
    assert (found.n_different, found.where, found.exact) == (1, (1, 2), True)
    if dtype.kind == "u" and dtype.itemsize == 8:
        b[0, 0] = np.iinfo(dtype).max
        assert difference(a, b).max_abs == 2**64 - 1


def test_keys_are_compared_as_keys():
    words = np.arange(8, dtype=np.uint32).reshape(4, 2)
    other = words.copy()
    other[2] += 1
    found = difference(jt.KeyArray("fry", words), jt.KeyArray("fry", other))
    assert (found.n_different, found.size, found.type_a) == (1, 4, "key<fry>[4]")
    assert found.where == (2,)


def test_shapes_and_kinds_that_differ():
    assert difference(np.zeros(3), np.zeros(4)).n_different == 4
    assert difference(np.zeros(3), np.zeros(3, np.int32)).n_different == 3
    assert difference(np.zeros(3, np.float32), np.zeros(3)).n_different == 0
    narrow = difference(np.float32([1.0]), np.array([1.0 + 1e-12]))
    assert (narrow.n_different, narrow.max_ulp) == (0, 0)


def test_tolerances():
    a, b = np.array([1.0, 1e-30], np.float32), np.array([1.0000002, 2e-30], np.float32)
    assert difference(a, b).n_different == 2
    assert difference(a, b, rtol=1e-6).n_different == 1
    assert difference(a, b, rtol=1e-6, atol=1e-29).n_different == 0
    assert difference(a, b, ulp=2).n_different == 1
    assert difference(a, b, rounding=True).n_different == 0


# -- the first difference ----------------------------------------------------------------------------


def test_the_operands_of_what_flips_are_shown():
    """An integer that is off by one since what it is rounded from is beside a half."""
    x = np.float32([3.0, 0.95])
    program = jt.from_jax(jax.make_jaxpr(lambda x: jax.lax.round(x * np.float32(10.0)))(x))
    found = jt.compare(program, program, x, backends=("numpy", "f64"), first=True)
    assert found.first is not None and found.first.given == [(9.5, float(x[1]) * 10)]
    assert "  operands there: 9.5 / 9.49999988\n" in str(found)


class Bits(Watch):
    """The bits of the results of each equation that is run."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def see(self, eqn, ins, outs):
        values = [getattr(x, "data", getattr(x, "value", x)) for x in outs]
        self.seen.append([np.asarray(x).tobytes() for x in values])


def observed(program, args):
    bits = Bits()
    run(program, args, observer=bits)
    return bits.seen


def check_exchanges(program, args, n, *, subtle):
    """An equation that was exchanged is the first whose results differ, or nothing differs anywhere."""
    hits = 0
    for made in exchanges(program, n, subtle=subtle):
        try:
            found = compare(program, made.program, args, first=True, step_limit=STEP_LIMIT)
        except JaxprToolError as e:
            assert "step" in str(e), made.how
            continue
        if found.first is None:
            assert found.equal and observed(program, args) == observed(made.program, args), made.how
            continue
        hits += 1
        assert found.first.a is not None and found.first.b is not None
        assert found.first.a.eqn.span == made.eqn.span, (made.how, str(found))
        assert found.first.b.eqn.span == made.eqn.span, made.how
    return hits


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_first_difference_is_the_exchanged_equation(path):
    program = jt.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = arguments(open_binders(program), ["random:0"])
        assert check_exchanges(program, args, 6, subtle=False)
        check_exchanges(program, args, 6, subtle=True)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_first_difference_in_traced_programs(name):
    f, args = PROGRAMS[name].make()
    program = with_places(jt.trace(f, *args), name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = arguments(open_binders(program), ["random:1"])
        check_exchanges(program, values, 2, subtle=True)


def first_of(f, g, *args, **how):
    a, b = with_places(jt.trace(f, *args), "a"), with_places(jt.trace(g, *args), "b")
    return compare(a, b, [np.asarray(x) for x in args], first=True, **how)


X = np.linspace(0.1, 2.0, 5).astype(np.float32)


def test_the_step_of_a_loop_is_named():
    def loop(f):
        def body(c, x):
            return jax.lax.cond(x > 3, f, lambda c: c * 2, c), c

        return lambda x: jax.lax.scan(body, x[0], jnp.arange(6.0))

    found = first_of(loop(jnp.sin), loop(jnp.cos), X)
    assert str(found.first.a).split(" at")[0] == "scan" and "step 4 > cond" in str(found.first.a)
    assert found.first.a.eqn.primitive.name == "sin" and found.first.b.eqn.primitive.name == "cos"


def test_an_equation_without_counterpart():
    def f(x):
        return jnp.tanh(jnp.sin(x) * 3) + x

    def g(x):
        return jnp.tanh(jnp.sin(x) * 1.5 * 2.1) + x

    found = first_of(f, g, X)
    assert found.first.a.eqn.primitive.name == "mul"
    assert found.first.b.eqn.primitive.name == "mul"


def test_one_equation_for_several():
    def f(x):
        return jnp.exp(jax.nn.sigmoid(x) * 2)

    def g(x):
        return jnp.exp(1 / (1 + jnp.exp(-1.001 * x)) * 2)

    found = first_of(f, g, X, tolerance=Tolerance(rtol=1e-6))
    assert found.first.a.eqn.primitive.name in ("logistic", "jit")
    assert found.first.b.eqn.primitive.name in ("div", "mul")
    same = first_of(f, lambda x: jnp.exp(1 / (1 + jnp.exp(-x)) * 2), X, tolerance=Tolerance(ulp=4))
    assert same.equal and same.first is None


def test_the_first_comparison_that_flips():
    def program(scale):
        def f(x):
            y = jnp.exp(x) * scale
            return jnp.where(y > 2.7, y, 0.0)

        return f

    found = first_of(program(1.0), program(2.0), X)
    assert found.first.a.eqn.primitive.name == "mul"
    assert found.flips.a.eqn.primitive.name == "gt"


def test_results_that_are_other_variables():
    found = first_of(lambda x: jnp.sin(x), lambda x: (jnp.sin(x), jnp.cos(x))[1], X)
    assert found.first.a.eqn.primitive.name == "sin"
    assert found.first.b.eqn.primitive.name == "cos"


def test_errors_of_either_run_are_raised():
    def loop(n):
        return lambda x: jax.lax.fori_loop(0, n, lambda i, x: x + 1, x)

    for f, g in ((loop(3), loop(30)), (loop(30), loop(3))):
        with pytest.raises(jt.UsageError, match="steps"):
            first_of(f, g, X, step_limit=10)
    found = first_of(loop(3), loop(4), X)
    assert not found.equal and found.first.a is not None


# -- backends ----------------------------------------------------------------------------------------


def loop(f):
    def body(c, x):
        return jax.lax.cond(x > 3, f, lambda c: c * 2, c), c

    return lambda x: jax.lax.scan(body, x[0], jnp.arange(6.0))


@pytest.mark.parametrize("backends", ["numpy,xla", "xla,numpy", "xla,jax", "jax,numpy", "f64,xla"])
def test_results_that_nobody_reads_are_compared_in_prefixes(backends):
    def f(x):
        values, _ = jax.lax.top_k(x, 2)
        return jax.lax.scan(lambda c, y: (jnp.sin(c + y), c * y), values[0], x)[1]

    a = jt.parse(jt.format_jaxpr(jt.trace(f, X)), "a")
    b = jt.parse(str(a).replace("= sin", "= cos"), "b")
    found = jt.compare(a, b, X, backends=backends, first=True, rtol=1e-5)
    assert found.first.a.eqn.primitive.name == "sin"


@pytest.mark.parametrize("backends", ["numpy,xla", "xla,numpy", "xla,jax", "f64,xla", "f64"])
def test_prefixes_of_compiled_programs(backends):
    found = jt.compare(loop(jnp.sin), loop(jnp.cos), X, backends=backends, first=True, rtol=1e-5)
    for place, name in ((found.first.a, "sin"), (found.first.b, "cos")):
        assert [str(step).split(" at")[0] for step in place.path] == ["scan", "cond"]
        assert (place.path[0].step, place.path[1].branch) == (4, 1)
        assert place.eqn.primitive.name == name


@pytest.mark.parametrize("path", FILES[:6], ids=lambda p: p.stem)
def test_prefixes_find_exchanged_equations(path):
    program = jt.load(path)
    args = arguments(open_binders(program), ["random:0"])
    for made in exchanges(program, 1):
        on_numpy = compare(
            program, made.program, args, first=True, tolerance=Tolerance(rounding=True)
        )
        how = {"backends": ("numpy", "xla"), "first": True}
        found = compare(program, made.program, args, **how)
        if not on_numpy.equal:
            assert found.first is not None and found.first.a is not None
            assert found.first.a.eqn.span == on_numpy.first.a.eqn.span, (made.how, str(found))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_program_in_double_precision_is_well_typed(path):
    program = jt.load(path)
    made = in_double(load_constants(program))
    found = jt.typecheck_jaxpr(made.jaxpr)
    assert not [a for a in (*found.in_types, *found.out_types) if str(a)[:4] in ("f32[", "bf16")]
    assert not [
        v
        for eqn in made.eqns
        for v in eqn.out_binders
        if str(v.aval).startswith("f32[") and eqn.primitive.name != "bitcast_convert_type"
    ]
    args = arguments(open_binders(program), ["random:0"])
    found = compare(program, None, args, backends=("numpy", "f64"), tolerance=Tolerance(rtol=1e-3))
    assert found.equal, str(found)


def test_bits_of_floats_stay_those_of_their_type():
    def f(x):
        bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
        return jax.lax.bitcast_convert_type(bits ^ jnp.uint32(1), jnp.float32) * 3, bits

    found = jt.compare(f, None, X, backends="numpy,f64", first=True)
    assert found.equal
    assert [x.found.n_different for x in found.outputs] == [0, 0]
    key = jax.random.key(0)
    found = jt.compare(lambda k: jax.random.normal(k, (7,)), None, key, backends="numpy,f64")
    assert found.equal


def test_an_arbiter_says_which_side_is_worse():
    def bad(x):
        return jnp.sqrt(x * x + 1e4) - 100

    def good(x):
        return x * x / (jnp.sqrt(x * x + 1e4) + 100)

    first = jt.compare(good, bad, X, arbiter="f64")
    assert [x.judgement for x in first.outputs] == ["B worse"]
    second = jt.compare(bad, good, X, arbiter="f64")
    assert second.outputs[0].judgement == "A worse"
    third = jt.compare(jnp.sin, lambda x: jnp.sin(x) * jnp.float32(1.0000001), X, arbiter="f64")
    assert third.outputs[0].judgement == "both within rounding"


def test_excess_precision_is_named(monkeypatch):
    """Processors round each result: what another device does is put in the place of XLA here."""
    x = np.linspace(0.1, 2, 64).astype(ml_dtypes.bfloat16)

    def f(x):
        return x * x + x - x * x * x

    program = jt.trace(f, x)
    wide = np.asarray(f(jnp.asarray(x).astype(jnp.float32))).astype(ml_dtypes.bfloat16)
    plain = Side.results
    monkeypatch.setattr(Side, "results", lambda s: [wide] if s.backend == "xla" else plain(s))
    (note,) = compare(program, None, [x], tolerance=Tolerance(ulp=0)).notes
    assert note.startswith("excess precision: ")
    monkeypatch.setattr(Side, "results", lambda s: [-wide] if s.backend == "numpy" else plain(s))
    (note,) = compare(program, None, [x], tolerance=Tolerance(ulp=0)).notes
    assert note.startswith("no excess precision: ")


@pytest.mark.parametrize("backend", ["xla", "jax"])
def test_excess_precision_is_named_where_a_product_of_matrices_is_not_rounded(backend):
    """XLA on CPUs multiplies matrices of bf16 in f32, and does not round what is converted to f32."""
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(ml_dtypes.bfloat16)

    def f(x):
        return (x @ x.T + x).astype(jnp.float32) * 3

    found = jt.compare(f, None, x, backends=["numpy", backend], ulp=0)
    assert not found.equal and found.notes[0].startswith("excess precision: ")


def test_the_first_difference_on_a_mesh_is_that_of_a_device():
    """All devices run at once; the type, the index and the numbers are those of the text."""
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.sharding.AbstractMesh((4,), ("i",), axis_types=auto)
    spec = jax.sharding.PartitionSpec("i")

    def on(f):
        return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)

    x = np.arange(1, 9, dtype=np.float32)
    wrong = on(lambda x: jnp.where(x == 6, 0.5, x * 2))
    found = jt.compare(on(lambda x: jnp.where(x == 6, 0.25, x * 2)), wrong, x, first=True)
    assert "f32[2]{V:i}, 1 of 8 differ: 0.25 / 0.5 at [1] of device i=2" in str(found)
    found = jt.compare(on(lambda x: x * 2), on(lambda x: x * 2 + (x == 6)), x, first=True)
    assert "at [1] of device i=2" in str(found), str(found)


def test_results_of_other_numbers_and_shapes():
    found = jt.compare(lambda x: x, lambda x: (x, x), X)
    assert not found.equal and [x.found.type_a for x in found.outputs] == ["f32[5]", "-"]
    found = jt.compare(lambda x: x, lambda x: x[1:], X)
    assert found.outputs[0].json()["type_b"] == "f32[4]" and not found.equal


def test_keys_callbacks_and_cells(capsys):
    calls = []

    def f(scale):
        def g(key, x):
            ref = jax.new_ref(x)
            ref[0] = ref[0] * scale
            y = jax.pure_callback(lambda v: calls.append(1) or v * 2, x, ref[...])
            return jax.random.split(key), y

        return g

    key = jax.random.key(3)
    found = jt.compare(f(1.5), f(2.5), key, X, first=True)
    assert found.first.a.eqn.primitive.name == "mul" and len(calls) == 2
    assert [x.found.n_different for x in found.outputs] == [0, 1]
    assert found.outputs[0].found.type_a == "key<fry>[2]"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"backends": "nunpy"}, "no backend"),
        ({"backends": "numpy"}, "nothing to compare"),
        ({"backends": "numpy,xla,jax"}, "two runs"),
        ({"ulp": 1, "rtol": 1e-3}, "tolerance of its own"),
    ],
)
def test_wrong_usage(how, message):
    with pytest.raises(jt.UsageError, match=message):
        jt.compare(jnp.sin, None, X, **how)


def test_the_document_has_the_keys_of_the_help():
    found = jt.compare(jnp.sin, jnp.cos, X, first=True)
    document = found.json()
    assert {"equal", "outputs", "first", "first_b"} <= document.keys()
    keys = {"index", "type", "n_different", "max_abs", "max_rel", "max_ulp"}
    assert keys <= document["outputs"][0].keys()
    assert document["first"]["primitive"] == "sin" and document["first_b"]["primitive"] == "cos"
    json.dumps(document, allow_nan=False)
    assert "<pre>" in found._repr_html_()


def test_memory_is_bounded_by_what_is_alive_and_not_by_the_steps():
    def program(scale):
        def body(c, _):
            return jnp.sin(c) * scale, None

        return lambda x: jax.lax.scan(body, x, None, length=400)[0]

    x = np.ones((200, 500), np.float32)  # 400 kB, of which each run makes 320 MB
    programs = [with_places(jt.trace(program(s), x), "p") for s in (1.0, 1.0 + 1e-7)]
    compare(*programs, [x[:]], first=True)
    tracemalloc.start()
    found = compare(*programs, [x], first=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.first is not None and peak < 60e6, f"{peak:,} bytes"


@pytest.mark.parametrize("at_the_end", [True, False])
def test_effects_run_once_on_each_side(at_the_end):
    """A compiled side is searched by parts of the program, and none of them does again what the program does."""
    seen = []

    def note(x):
        seen.append("note")

    def host(x):
        seen.append("host")
        return np.asarray(x) * 3

    def f(x):
        y = jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        z = io_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), y + 1)

        def body(c, v):
            jax.debug.callback(note, v)
            return c * 0.5 + jnp.exp(v), c

        c, ys = jax.lax.scan(body, jnp.float32(0), z)
        if at_the_end:
            jax.debug.callback(note, c)
        return jnp.tanh(c * 1e-3) + ys

    x = np.linspace(0, 1, 3).astype(np.float32)
    found = jt.compare(f, None, x, backends=("numpy", "xla"), first=True, rtol=0.0, atol=0.0)
    assert seen.count("host") == 4 and seen.count("note") == 6 + 2 * at_the_end
    if not found.equal:
        assert found.first is not None


FLOATS = (
    "float16",
    "float32",
    "float64",
    "float8_e5m2",
)  # the last is one of ml_dtypes, and of NumPy's kind "f"


@pytest.mark.parametrize("types", [(a, b) for a in FLOATS for b in FLOATS], ids=str)
def test_what_is_clearly_near_differs_by_rounding_alone(types):
    """The quick answer is never another than the full one, at all magnitudes, and mostly the same where little differs."""
    rng = np.random.default_rng(FLOATS.index(types[0]) * 10 + FLOATS.index(types[1]))
    quick = 0
    for n in range(600):
        shape = [(), (1,), (7,), (3, 2)][n % 4]
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-12, 12)
        apart = 10.0 ** rng.uniform(-8, 0) * rng.integers(0, 2, size=shape)
        y = x * (1 + apart)
        if n % 10 == 0:
            y = np.where(rng.integers(0, 3, size=shape) == 0, [np.nan, np.inf, 0.0][n % 3], y)
        with np.errstate(all="ignore"):
            x, y = (
                v.astype(getattr(jnp, t))
                for v, t in zip((np.asarray(x), np.asarray(y)), types, strict=True)
            )
            near = differences.clearly_near(x, y)
        found = differences.difference(x, y, rounding=True)
        assert not (near and found.n_different), (x, y)
        quick += near
    assert quick > 100


@pytest.mark.parametrize("types", [(a, b) for a in FLOATS for b in FLOATS], ids=str)
@pytest.mark.parametrize("given", [(1e-2, 0.0), (0.0, 1e-3), (1e-2, 1e-6)], ids=str)
def test_what_is_clearly_within_a_tolerance_does_not_differ_by_it(types, given):
    """Element by element, at all magnitudes, down to denormal numbers."""
    rng = np.random.default_rng(FLOATS.index(types[0]) * 10 + FLOATS.index(types[1]))
    quick = 0
    for n in range(600):
        shape = [(), (1,), (7,), (3, 2)][n % 4]
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-8, 6)
        y = x * (1 + 10.0 ** rng.uniform(-8, 0) * rng.integers(0, 2, size=shape))
        if n % 10 == 0:
            y = np.where(rng.integers(0, 3, size=shape) == 0, [np.nan, np.inf, 0.0][n % 3], y)
        with np.errstate(all="ignore"):
            x, y = (
                np.asarray(v).astype(getattr(jnp, t)) for v, t in zip((x, y), types, strict=True)
            )
            near = differences.clearly_within(x, y, *given)
        found = differences.difference(x, y, rtol=given[0], atol=given[1])
        assert not (near and found.n_different), (x, y)
        quick += near
    assert quick > 50 or "float8_e5m2" in types  # two bits agree to no hundredth
