"""The plug-ins for jax.experimental.sparse, which are built in: beside JAX, live and from text."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import sparse
from jax.experimental.sparse import bcoo, bcsr, coo, csr
from jax.experimental.sparse.linalg import spsolve
from jax.experimental.sparse.util import SparseInfo
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.backends.jax.live import LivePrimitive
from jaxprtool.backends.jax.to_jax import to_jax
from jaxprtool.ir.walk import all_eqns
from tests.control_flow.oracle import close

pytestmark = pytest.mark.filterwarnings("ignore")  # JAX's own, of what is slow on other devices
RNG = np.random.default_rng(0)


def dense(shape, dtype=np.float32, share=0.5):
    """An array of which a share is not 0."""
    x = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    return (np.round(x * 4) * (RNG.random(shape) < share)).astype(dtype)


def beside_jax(f, *args, compiled=False):
    """Values of the text, and of the live program, which is the same."""
    closed = jax.make_jaxpr(f)(*args)
    live = jt.from_jax(closed)
    program = live if closed.consts else jt.parse(str(closed))
    jt.typecheck_jaxpr(program)
    assert not any(isinstance(e.primitive, LivePrimitive) for e in all_eqns(live.jaxpr))
    if not closed.consts:
        assert str(live) == str(program) == str(closed)
    want = jax.tree.leaves(f(*args))
    close(jt.eval_jaxpr(program, args), want)
    if compiled:
        close(jt.compile(program)(*args), want)
        close(jax.jit(jaxpr_as_fun(to_jax(program)))(*args), want)
    return program


@st.composite
def arrays(draw):
    """Data and indices of an array: some outside of it, some twice, batch axes of size 1."""
    n_batch, n_dense = draw(st.integers(0, 2)), draw(st.integers(0, 1))
    n_sparse, nse = draw(st.integers(1, 2)), draw(st.integers(0, 6))
    shape = (2, 3)[:n_batch] + (3, 4)[:n_sparse] + (2,) * n_dense
    dtype = draw(st.sampled_from([np.float32, np.int32, np.complex64]))
    batches = [
        tuple(1 if draw(st.booleans()) else s for s in shape[:n_batch]) for _ in ("data", "indices")
    ]
    data = dense((*batches[0], nse, *shape[n_batch + n_sparse :]), dtype, 1)
    indices = RNG.integers(0, draw(st.integers(3, 5)), (*batches[1], nse, n_sparse))
    return data, indices.astype(np.int32), SparseInfo(shape)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(arrays(), st.integers(0, 8))
def test_arrays(array, nse):
    data, indices, info = array
    n_batch = indices.ndim - 2

    def all_of_them(d, i, x):
        yield bcoo._bcoo_todense(d, i, spinfo=info)
        yield bcoo._bcoo_extract(i, x)
        yield bcoo.bcoo_sort_indices_p.bind(d, i, spinfo=info)
        if data.size:
            yield bcoo.bcoo_sum_duplicates_p.bind(d, i, spinfo=info, nse=nse)
        if n_batch == 0 or indices.shape[:n_batch] == info.shape[:n_batch]:
            yield bcoo._bcoo_extract(i, x, assume_unique=False)

    # compiled as one, and not each operation by itself
    beside_jax(jax.jit(lambda *xs: [*all_of_them(*xs)]), data, indices, dense(info.shape))


@pytest.mark.parametrize("n_batch, n_dense", [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)])
@pytest.mark.parametrize("nse", [0, 3, 30])
def test_from_dense(n_batch, n_dense, nse):
    for dtype in (np.float32, np.int32, np.complex64):
        x = dense((2, 3, 4), dtype)
        params = {"nse": nse, "n_batch": n_batch, "n_dense": n_dense}
        beside_jax(lambda x, p=params: bcoo._bcoo_fromdense(x, **p), x)


# shape, number of batch axes, number of sparse axes, dimension numbers, shape of the dense array
PRODUCTS = [
    ((3, 4), 0, 2, (((1,), (0,)), ((), ())), (4,)),
    ((3, 4), 0, 2, (((0,), (0,)), ((), ())), (3, 2)),
    ((3, 4), 0, 2, (((0, 1), (1, 0)), ((), ())), (4, 3, 2)),
    ((3, 4), 0, 2, (((), ()), ((), ())), (2,)),
    ((3, 4), 1, 1, (((1,), (1,)), ((0,), (0,))), (3, 4, 2)),
    ((3, 4), 1, 1, (((0,), (0,)), ((), ())), (3, 2)),
    ((3, 4), 1, 1, (((0, 1), (0, 1)), ((), ())), (3, 4)),
    ((3, 4), 2, 0, (((1,), (0,)), ((), ())), (4, 2)),
    ((2, 3, 4, 5), 2, 2, (((1, 3), (2, 1)), ((0,), (0,))), (2, 5, 3)),
    ((2, 3, 4, 5), 2, 2, (((3,), (2,)), ((1,), (0,))), (3, 2, 5)),
    ((3, 4, 2), 0, 2, (((1,), (0,)), ((), ())), (4, 2)),
    ((3, 4, 2), 1, 1, (((1,), (0,)), ((), ())), (4, 2)),
]


@pytest.mark.parametrize("shape, n_batch, n_sparse, numbers, right", PRODUCTS)
def test_products_with_dense_arrays(shape, n_batch, n_sparse, numbers, right):
    info, n_dense = SparseInfo(shape), len(shape) - n_batch - n_sparse
    for dtype, nse in ((np.float32, 5), (np.int32, 1), (np.complex64, 15)):
        nse = nse if n_sparse else 1
        x, y = dense(shape, dtype), dense(right, dtype)
        data, indices = bcoo._bcoo_fromdense(x, nse=nse, n_batch=n_batch, n_dense=n_dense)
        data, indices = np.asarray(data), np.array(indices)
        odd = RNG.integers(0, 5, indices.shape).astype(np.int32)
        for i in (indices, odd):
            beside_jax(
                lambda *xs: bcoo._bcoo_dot_general(
                    *xs, dimension_numbers=numbers, preferred_element_type=None, lhs_spinfo=info
                ),
                data,
                i,
                y,
            )


SAMPLED = [
    ((3,), (4,), (((), ()), ((), ()))),
    ((3, 5), (5, 4), (((1,), (0,)), ((), ()))),
    ((2, 3, 5), (2, 5, 4), (((2,), (1,)), ((0,), (0,)))),
    ((5,), (5, 4, 2), (((0,), (0,)), ((), ()))),
    ((2, 3), (3, 2), (((), ()), ((0,), (1,)))),
]


@pytest.mark.parametrize("a, b, numbers", SAMPLED)
def test_sampled_products(a, b, numbers):
    x, y = dense(a), dense(b)
    shape = jax.lax.dot_general(x, y, numbers).shape
    for n_batch in range(len(shape)):
        for n_sparse in range(1, len(shape) - n_batch + 1):
            i = RNG.integers(0, 5, (*shape[:n_batch], 3, n_sparse)).astype(np.int32)
            beside_jax(
                lambda *xs: bcoo.bcoo_dot_general_sampled(*xs, dimension_numbers=numbers), x, y, i
            )


SPARSE = [
    ((3, 4), 0, (4, 2), 0, (((1,), (0,)), ((), ()))),
    ((4,), 0, (4,), 0, (((0,), (0,)), ((), ()))),
    ((2, 3, 4), 1, (2, 4, 3), 1, (((2,), (1,)), ((0,), (0,)))),
    ((2, 3, 4), 1, (4, 3), 0, (((2,), (0,)), ((), ()))),
    ((2, 4), 1, (3, 4, 2), 1, (((1,), (1,)), ((), ()))),
]


@pytest.mark.parametrize("left, n_left, right, n_right, numbers", SPARSE)
def test_products_of_sparse_arrays(left, n_left, right, n_right, numbers):
    a = bcoo._bcoo_fromdense(dense(left), nse=4, n_batch=n_left, n_dense=0)
    b = bcoo._bcoo_fromdense(dense(right), nse=3, n_batch=n_right, n_dense=0)
    params = {"lhs_spinfo": SparseInfo(left), "rhs_spinfo": SparseInfo(right)}
    params |= {"dimension_numbers": numbers, "preferred_element_type": None}
    args = [np.asarray(x) for x in (*a, *b)]
    beside_jax(lambda *xs: tuple(bcoo._bcoo_spdot_general(*xs, **params)), *args)


@pytest.mark.parametrize("permutation, n_batch, n_dense", [((1, 0, 2), 0, 1), ((0, 2, 1), 1, 0)])
def test_transposes(permutation, n_batch, n_dense):
    x = bcoo._bcoo_fromdense(dense((3, 4, 2)), nse=4, n_batch=n_batch, n_dense=n_dense)
    params = {"permutation": permutation, "spinfo": SparseInfo((3, 4, 2))}
    beside_jax(lambda *xs: tuple(bcoo._bcoo_transpose(*xs, **params)), *map(np.asarray, x))


@pytest.mark.parametrize("shape, n_batch", [((3, 4), 0), ((2, 3, 4), 1), ((3, 4, 2), 0)])
def test_compressed_rows(shape, n_batch):
    info, n_dense, x = SparseInfo(shape), len(shape) - n_batch - 2, dense(shape)
    params = {"dimension_numbers": (((n_batch + 1,), (0,)), ((), ())), "lhs_spinfo": info}
    params["preferred_element_type"] = None
    for nse in (2, 15):
        f = lambda x, n=nse: bcsr._bcsr_fromdense(x, nse=n, n_batch=n_batch, n_dense=n_dense)
        beside_jax(f, x)
        data, indices, indptr = map(np.asarray, f(x))
        beside_jax(lambda *xs: bcsr._bcsr_todense(*xs, spinfo=info), data, indices, indptr)
        beside_jax(bcsr.bcsr_extract, indices, indptr, x)
        y = dense((4, 2), share=1)
        beside_jax(lambda *xs: bcsr._bcsr_dot_general(*xs, **params), data, indices, indptr, y)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
@pytest.mark.parametrize("nse", [0, 2, 20])
def test_matrices(dtype, nse):
    x, info = dense((3, 4), dtype), coo.COOInfo((3, 4))
    for module, name in ((coo, "coo"), (csr, "csr")):
        own = {"spinfo": info} if module is coo else {"shape": (3, 4)}
        to, vec, mat = (getattr(module, f"_{name}_{f}") for f in ("todense", "matvec", "matmat"))
        f = lambda x, m=module, k=name: getattr(m, f"_{k}_fromdense")(x, nse=nse)
        beside_jax(f, x)
        parts = [np.asarray(p) for p in f(x)]
        beside_jax(lambda *xs, to=to, own=own: to(*xs, **own), *parts)
        for flag in (False, True):
            v = dense((3 if flag else 4,), dtype, 1)
            params = {**own, "transpose": flag}
            beside_jax(lambda *xs, f=vec, p=params: f(*xs, **p), *parts, v)
            both = np.stack([v, v], 1)
            beside_jax(lambda *xs, f=mat, p=params: f(*xs, **p), *parts, both)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_systems(dtype):
    """Values, derivatives and batches of `spsolve`; JAX has no batches of it."""
    a, b = (dense((4, 4), dtype) + 8 * np.eye(4)).astype(dtype), dense((4,), dtype, 1)
    parts = [np.asarray(p) for p in csr._csr_fromdense(a, nse=int(np.sum(a != 0)))]
    data, indices, indptr = parts

    def f(data, b):
        return spsolve(data, indices, indptr, b)

    program = beside_jax(lambda *xs: spsolve(*xs), *parts, b, compiled=True)
    ours = jt.jaxpr_as_fun(program)
    g = lambda data, b: ours(data, indices, indptr, b)
    tangents = dense(data.shape, dtype, 1), dense((4,), dtype, 1)
    close(jt.jvp(g, (data, b), tangents)[1], jax.tree.leaves(jax.jvp(f, (data, b), tangents)[1]))
    ct = np.ones_like(b)
    close(jt.vjp(lambda b: g(data, b), b)[1]([ct]), jax.vjp(lambda b: f(data, b), b)[1](ct))
    bs = np.stack([b, 2 * b])
    close(jt.vmap(g, in_axes=(None, 0))(data, bs), [np.stack([f(data, x) for x in bs])])


# -- programs ----------------------------------------------------------------------------------


def _bcoo(x):
    return sparse.BCOO.fromdense(x, nse=7)


# JAX's tangents of the padding of COO, CSR and CSC are those of the first element: here nothing is padded.
X = np.array([[2, 0, 3, 0], [0, 0, 0, 5], [1, -4, 0, 0]], np.float32)


PROGRAMS = {
    "matvec": lambda x, v: _bcoo(x) @ v,
    "vecmat": lambda x, v: jnp.asarray(v)[:3] @ _bcoo(x),
    "matmat": lambda x, v: _bcoo(x) @ jnp.outer(v, v),
    "transposed": lambda x, v: (_bcoo(x).T @ v[:3]) * v,
    "summed": lambda x, v: _bcoo(x).sum_duplicates(nse=9).sort_indices().todense() @ v,
    "sparse and sparse": lambda x, v: (_bcoo(x) @ _bcoo(x).T).todense() * v[:3],
    "rows": lambda x, v: sparse.BCSR.fromdense(x, nse=7) @ v,
    "coordinates": lambda x, v: sparse.COO.fromdense(x, nse=5) @ v,
    "compressed": lambda x, v: sparse.CSR.fromdense(x, nse=5) @ v,
    "columns": lambda x, v: sparse.CSC.fromdense(x, nse=5) @ v,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    """Values, derivatives and batches of programs, with JAX's own rules as the oracle."""
    f, x, v = PROGRAMS[name], X, dense((4,), share=1)
    program = beside_jax(f, x, v, compiled=True)
    ours = jt.jaxpr_as_fun(program)
    tangents = dense((3, 4), share=1), dense((4,), share=1)
    got, want = jt.jvp(ours, (x, v), tangents), jax.jvp(f, (x, v), tangents)
    close(got[0], want[0])
    close(got[1], want[1])
    ct = np.ones_like(np.asarray(want[0]))
    # JAX has no transpose of products of sparse arrays, and that of a transposed csr_matvec takes rows for columns.
    oracle = {"sparse and sparse": None, "columns": PROGRAMS["matvec"]}.get(name, f)
    if oracle is not None:
        close(jt.vjp(ours, x, v)[1]([ct]), jax.vjp(oracle, x, v)[1](jnp.asarray(ct)))
    vs = np.stack([v, 2 * v])
    mapped = np.stack([np.asarray(f(x, w)) for w in vs])
    close(jt.vmap(ours, in_axes=(None, 0))(x, vs), [mapped])
    xs = np.stack([x, 2 * x[::-1]])
    mapped = np.stack([np.asarray(f(y, v)) for y in xs])
    close(jt.vmap(ours, in_axes=(0, None))(xs, v), [mapped])


def test_tangents_keep_the_primitives():
    program = jt.from_jax(jax.make_jaxpr(PROGRAMS["matvec"])(dense((3, 4)), dense((4,))))
    moved, _ = jt.jvp_jaxpr(program, [False, True])
    names = [e.primitive.name for e in moved.eqns]
    assert names == ["bcoo_fromdense", "bcoo_dot_general", "bcoo_dot_general"]


def test_what_is_not_stored_takes_no_part():
    x = np.array([[1, 0], [0, 2]], np.float32)
    v = np.array([np.inf, 3], np.float32)
    for made in (_bcoo, lambda x: sparse.BCSR.fromdense(x, nse=7)):
        program = jt.parse(str(jax.make_jaxpr(lambda x, v, made=made: made(x) @ v)(x, v)))
        close(jt.eval_jaxpr(program, [x, v]), [np.array([np.inf, 6], np.float32)])


# -- texts -------------------------------------------------------------------------------------

EARLIER = """{ lambda ; a:f32[3] b:f32[3,3]. let
    c:f32[9] d:i32[9,2] = bcoo_fromdense[
      index_dtype=INDEX n_batch=0 n_dense=0 nse=9
    ] b
    e:f32[3] = bcoo_dot_general[
      dimension_numbers=(((1,), (0,)), ((), ()))
      LEFT
    ] c d a
    f:f32[3,3] = TODENSE c d
  in (e, f) }"""
CLASS = "<class 'numpy.int32'>"
RELEASES = {
    "0.2.17": (CLASS, "lhs_shape=(3, 3)", "bcoo_todense_p[shape=(3, 3)]"),
    "0.2.26": (CLASS, "lhs_shape=(3, 3)", "bcoo_todense[shape=(3, 3)]"),
    "0.3.7": (CLASS, "lhs_spinfo=BCOOInfo(shape=(3, 3))", "bcoo_todense[spinfo=BCOOInfo(shape=(3, 3))]"),
    "0.4.13": (
        "int32",
        "lhs_spinfo=SparseInfo(shape=(3, 3), indices_sorted=True, unique_indices=True)",
        "bcoo_todense[spinfo=SparseInfo(shape=(3, 3), indices_sorted=True, unique_indices=True)]",
    ),
}  # fmt: skip


def earlier(release):
    index, left, todense = RELEASES[release]
    return EARLIER.replace("INDEX", index).replace("LEFT", left).replace("TODENSE", todense)


@pytest.mark.parametrize("release", RELEASES)
def test_texts_of_earlier_releases(release):
    program = jt.parse(earlier(release))
    jt.typecheck_jaxpr(program)
    x, v = dense((3, 3)), dense((3,), share=1)
    for outs in (
        jt.eval_jaxpr(program, [v, x]),
        jt.compile(program)(v, x),
        jax.jit(jaxpr_as_fun(to_jax(program)))(v, x),
    ):
        close(outs, [x @ v, x])


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("lhs_shape=(3, 3)", "", "no param says the shape"),
        ("lhs_shape=(3, 3)", "lhs_shape=(3, 3, 3, 3)", "are no array of shape"),
        ("lhs_shape=(3, 3)", "lhs_shape=(3, 4)", "dot_general"),
        ("a:f32[3]", "a:f32[4]", "dot_general"),
        ("((1,), (0,)), ((), ())", "((), ()), ((0,), (0,))", "have to be batch axes"),
        ("nse=9", "nse=-1", "nse=-1"),
        ("n_batch=0", "n_batch=3", "n_batch=3"),
        ("index_dtype=<class 'numpy.int32'>", "index_dtype=float32", "has to be an integer type"),
        ("bcoo_todense[shape=(3, 3)]", "bcoo_todense[spinfo=3]", "has to be a SparseInfo"),
        ("bcoo_todense[shape=(3, 3)] c d", "bcoo_todense[shape=(3, 3)] c c", "integers"),
    ],
)
def test_misuse(old, new, why):
    text = earlier("0.2.26")
    assert old in text
    with pytest.raises(jt.JaxprTypeError, match=re.escape(why)):
        jt.typecheck_jaxpr(jt.parse(text.replace(old, new)))
