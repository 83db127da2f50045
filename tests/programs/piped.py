"""Functions whose programs hold what is hard to hand on in a file: constants of all kinds and sizes, rules, keys, shardings."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

RANDOM = np.random.default_rng(0)
SMALL = RANDOM.normal(size=150).astype(np.float32)
MEDIUM = RANDOM.normal(size=5000).astype(np.float32)
SQUARE = RANDOM.normal(size=(300, 300)).astype(np.float32)
BFLOAT = RANDOM.normal(size=(3, 300)).astype(ml_dtypes.bfloat16)
FLAGS = RANDOM.integers(0, 2, 2000).astype(bool)
BYTES = RANDOM.integers(-128, 127, (40, 50)).astype(np.int8)
COMPLEX = (RANDOM.normal(size=300) + 1j * RANDOM.normal(size=300)).astype(np.complex64)
FEW = RANDOM.normal(size=3).astype(np.float32)
NARROW = RANDOM.integers(-8, 7, 2000).astype(ml_dtypes.int4)
EIGHT = RANDOM.normal(size=2000).astype(ml_dtypes.float8_e4m3fn)
INDICES = RANDOM.integers(0, 150, 600).astype(np.int32)
ODD = np.array([0x7FC00001, 0xFFC00000, 0x7F800001, 0x80000000, 0x7F800000], np.uint32)
ODD = ODD.view(np.float32)
X = np.linspace(-1, 1, 3, dtype=np.float32)


def closure(x):
    return (SMALL[:3] * x).sum() + (SMALL * x[0]).sum() + jnp.sum(jnp.asarray(MEDIUM) * x[1])


def matrices(x):
    return jnp.tanh(jnp.asarray(SQUARE) @ (jnp.asarray(SQUARE).sum(0) * x[0]))[:4]


def kinds(x):
    real = jnp.where(jnp.asarray(FLAGS), x[0], 1.0).sum() + (jnp.asarray(BYTES) * x[1]).sum()
    wide = (jnp.asarray(BFLOAT).astype(jnp.float32) * x[2]).sum(1)
    return real + wide + jnp.abs(jnp.asarray(COMPLEX) * x[0]).sum()


def narrow(x):
    four = jnp.asarray(NARROW).astype(jnp.float32)
    return (four * x[0]).sum() + (jnp.asarray(EIGHT).astype(jnp.float32) * x[1]).sum()


def gathered(x):
    return jnp.sin(jnp.asarray(SMALL)[INDICES] * x[0]).reshape(3, -1).sum(1) * x


def keys(x):
    many = jnp.asarray(KEYS)
    drawn = jax.vmap(lambda k: jax.random.normal(k, (3,)))(many).mean(0)
    return drawn * x + jax.random.uniform(jax.random.key(7), (3,))


KEYS = jax.random.split(jax.random.key(3), 200)


def drawn(x, key):
    return x * jax.random.normal(key, (3,)) + jax.random.normal(key, (3,))


def in_scan(x):
    table = jnp.asarray(MEDIUM[:3000]).reshape(1000, 3)

    def step(c, i):
        return jnp.tanh(c * table[i % 1000] + FEW), (c * jnp.asarray(SMALL)[:3]).sum()

    return lax.scan(step, x, np.arange(4))


def in_branches(i, x):
    return lax.switch(i, [lambda y: y * FEW, lambda y: y @ jnp.asarray(SQUARE[:3, :3]), jnp.sin], x)


def in_loop(x):
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * FEW + SMALL[:3].sum()), (0, x)
    )


@jax.jit
def in_call(x):
    return (jnp.asarray(MEDIUM) * x[0]).sum() + jax.jit(lambda y: y * jnp.asarray(FEW))(x)


@jax.custom_jvp
def forward(x):
    return jnp.sin(x) * FEW


@forward.defjvp
def _forward_jvp(primals, tangents):
    return forward(*primals), 7 * tangents[0] * jnp.asarray(SMALL)[:3]


def custom_forward(x):
    return forward(x) + forward(x * 2)


@jax.custom_vjp
def backward(x, n):
    return x * n


backward.defvjp(
    lambda x, n: (backward(x, n), jnp.cos(x)),
    lambda c, g: (7 * g * c * jnp.asarray(MEDIUM)[:3], None),
)


def custom_backward(x):
    return backward(x, 2) * backward(x + 1, 3)


def rematerialised(x):
    return jax.checkpoint(lambda y: jnp.sin(jnp.sin(y) * jnp.asarray(MEDIUM)[:3]).sum())(x)


def printing(x):
    jax.debug.print("x = {x}, and {n}", x=x, n=3)
    return jnp.cos(x) * FEW


def called_back(x):
    kind = jax.ShapeDtypeStruct((3,), np.float32)
    return jax.pure_callback(np.sin, kind, x, vmap_method="sequential") * FEW


def odd_numbers(x):
    return jnp.asarray(ODD), x * jnp.float32(-0.0), jnp.asarray(np.float32("nan"))


def scalars(x):
    return x * jnp.asarray(np.float32(2.5)), jnp.asarray(np.int64(3)) + np.int32(4), np.bool_(True)


def references(x):
    cell = jax.new_ref(x)
    cell[0] += FEW[1]
    lax.fori_loop(0, 3, lambda i, _: cell.__setitem__(i, cell[i] * 2), None)
    return cell[...]


def sharded(x):
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    f = jax.shard_map(
        lambda y: lax.psum(jnp.sin(y), "d") * jnp.asarray(MEDIUM)[: y.shape[0]],
        mesh=mesh,
        in_specs=jax.P("d"),
        out_specs=jax.P(),
    )
    return f(jnp.concatenate([x, x[:1]]))


def linear(x):
    return (jnp.asarray(MEDIUM) * x[0]).reshape(5, -1).sum(1), x * FEW


def no_arguments():
    return jnp.asarray(MEDIUM).sum() * jnp.asarray(SMALL)


# The functions and their arguments.
SOURCES = {
    **dict.fromkeys(
        [
            *[closure, matrices, kinds, narrow, gathered, keys, in_scan, in_loop, in_call],
            *[custom_forward, custom_backward, rematerialised, printing, called_back],
            *[odd_numbers, scalars, references, sharded, linear],
        ],
        (X,),
    ),
    drawn: (X, jax.random.key(1)),
    in_branches: (np.int32(1), X),
    no_arguments: (),
}


def __getattr__(name):
    """`closure_args` are the arguments of `closure`, for `--like`."""
    for f, args in SOURCES.items():
        if name == f"{f.__name__}_args":
            return args
    raise AttributeError(name)
