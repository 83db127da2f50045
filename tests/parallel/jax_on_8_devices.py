"""What JAX computes on eight host devices: run as a program, since a process has one number of devices.

    python jax_on_8_devices.py OUT

Writes a pickle: name -> {"text", "args", "outs", "tangents", "jvp", "cts", "vjp", "vmap", "counts"}; what JAX refuses is None.
"""

from __future__ import annotations

import os
import pickle
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import parallel
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LINE = Mesh(np.array(jax.devices()), ("i",))
GRID = Mesh(np.array(jax.devices()).reshape(4, 2), ("i", "j"))
PROGRAMS = {}


def program(mesh, in_specs, out_specs, *shapes, checks=(False, True), **options):
    """Register a function of shards, with and without `check_vma`."""

    def register(f):
        for check in checks:
            g = jax.shard_map(
                f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check, **options
            )
            PROGRAMS[f.__name__ + ("_checked" if check else "")] = g, shapes
        return f

    return register


SHIFT = [(k, (k + 1) % 8) for k in range(8)]


@program(LINE, (P("i"),), (P(), P()), (16,))
def sums(x):
    return lax.psum(jnp.sin(x), "i"), lax.pmean(x * x, "i")


@program(LINE, (P("i"),), (P(), P()), (16,))
def extremes(x):
    return lax.pmax(x, "i"), lax.pmin(x, "i")


@program(LINE, (P("i"), P()), P("i"), (16,), (2,))
def weighted(x, w):
    return jnp.tanh(x * w) + lax.psum(x * w, "i")


@program(LINE, (P("i"),), (P("i"), P("i")), (16,))
def permuted(x):
    return lax.ppermute(x * x, "i", SHIFT), lax.ppermute(x, "i", [(0, 3), (3, 1)])


@program(LINE, (P("i"),), (P("i"), P("i"), P(None, "i")), (16,))
def gathered(x):
    a = lax.all_gather(x, "i", axis=1)
    return lax.all_gather(x * x, "i", tiled=True), a, lax.all_gather(jnp.sin(x), "i").T


@program(LINE, (P("i"),), (P("i"), P(None, "i"), P("i")), (16, 8))
def exchanged(x):
    a = lax.all_to_all(x * x, "i", 1, 0, tiled=True)
    b = lax.all_to_all(x.reshape(8, 2), "i", 0, 1, tiled=True)
    return a, b, lax.all_to_all(jnp.sin(x).T, "i", 0, 0, tiled=True)


@program(LINE, (P("i"),), P(None, "i"), (16, 8))
def exchanged_untiled(x):
    return lax.all_to_all(jnp.sin(x).reshape(8, 2), "i", 0, 1)


@program(LINE, (P(None, "i"),), (P("i"), P(None, "i")), (16, 8))
def scattered(x):
    return (
        lax.psum_scatter(x * x, "i", tiled=True),
        lax.psum_scatter(x.reshape(8, 2), "i")[:, None],
    )


@program(LINE, (P("i"),), P("i"), (16,))
def indexed(x):
    return x * lax.axis_index("i") + x[lax.axis_index("i") % 2]


@program(LINE, (P("i"),), (P(), P("i")), (16,), checks=(False,))
def in_groups(x):
    groups = [[0, 2, 4, 6], [1, 3, 5, 7]]
    y = lax.psum(jnp.cos(x), "i", axis_index_groups=groups)
    z = lax.all_gather(x * x, "i", axis_index_groups=[[0, 1], [2, 3], [7, 6], [5, 4]], tiled=True)
    return lax.psum(y, "i"), z


@program(LINE, (P("i"),), (P("i"), P("i"), P("i")), (64,), checks=(False,))
def in_groups_of_every_kind(x):
    groups = [[0, 5, 2, 7], [1, 4, 3, 6]]
    y = lax.psum_scatter(x * x, "i", axis_index_groups=groups, tiled=True)
    z = lax.all_to_all(jnp.sin(x), "i", 0, 0, axis_index_groups=groups, tiled=True)
    return y, z, lax.all_gather(x[:2], "i", axis_index_groups=groups)


@program(GRID, (P("i", "j"),), (P("i", "j"), P("i")), (8, 4), checks=(False,))
def along_a_batch_and_the_mesh(x):
    """Collectives along axes of the mesh and an axis of vmap at once."""

    def example(v):
        total = lax.psum(v * v, ("k", "i", "j"))
        return jnp.sin(v) * total + lax.psum(v, ("j", "k")), lax.psum(v * total, "j")

    return jax.vmap(example, axis_name="k")(x)


@program(LINE, (P("i"), P()), (P("i"), P()), (16,), (2,))
def scanned(x, w):
    def step(c, _):
        total = lax.psum(c * w, "i")
        return jnp.sin(c) + 0.1 * total, total.sum()

    return lax.scan(step, x, None, length=3)


@program(LINE, (P("i"),), P("i"), (16,), checks=(False,))
def looped(x):
    def going(state):
        return (lax.psum(state[0].sum(), "i") > 0.5) & (state[1] < 20)

    return lax.while_loop(going, lambda s: (s[0] * 0.7, s[1] + 1), (x * x, 0))[0]


@program(LINE, (P("i"),), P("i"), (16,), checks=(False,))
def branched(x):
    return lax.cond(x[0] > 0, lambda v: v * v, lambda v: jnp.sin(v), x) + lax.psum(x, "i")


@program(GRID, (P("i", "j"), P("j")), (P("i", "j"), P("i"), P(None, "j")), (8, 4), (4,))
def on_grid(x, w):
    a = lax.psum(x * w, "j")
    b = lax.psum(jnp.sin(x), "i")
    return x * lax.axis_index("i") + lax.axis_index("j"), a, b * w


@program(GRID, (P("i", "j"), P(None, "j")), P("i"), (8, 4), (2, 4))
def matmul(x, w):
    return lax.psum(x @ w.T, "j") + lax.psum(x.sum() * w.sum(), ("i", "j"))


@program(GRID, (P(("j", "i")),), (P(("i", "j")), P("j", "i")), (16, 2), checks=(False,))
def both_axes(x):
    perm = [(k, (k + 3) % 8) for k in range(8)]
    y = lax.ppermute(x * x, ("i", "j"), perm)
    return y, lax.all_gather(x, ("j", "i"), axis=1, tiled=True)[:1, :4]


@program(GRID, (P("i"),), P("i"), (8, 4), checks=(False,), axis_names={"i"})
def partly_manual(x):
    return lax.psum(x, "i") * lax.axis_index("i") + jnp.cos(x)


@program(GRID, (P("i", "j"), P("j")), P("i"), (8, 4), (4,))
def residuals(x, w):
    s = jnp.sin(x).sum()
    return lax.psum(jnp.exp(s * w) * x, "j")


@program(LINE, (P("i"),), (P(), P("i"), P("i"), P("i"), P("i")), (64,))
def in_two_steps(x):
    started = [
        parallel.psum_start(jnp.sin(x), "i"),
        parallel.all_gather_start(x[:2], "i", tiled=True),
        parallel.psum_scatter_start(x * x, "i", tiled=True),
        parallel.all_to_all_start(x, "i", 0, 0, tiled=True),
        parallel.ppermute_start(jnp.cos(x), "i", SHIFT),
    ]
    # JAX 0.12 gives some of them at once.
    return tuple(x.done() if hasattr(x, "done") else x for x in started)


@program(GRID, (P("i", "j"), P("j")), P("i"), (8, 4), (4, 3))
def rematerialised(x, w):
    y = lax.scan(lambda c, _: (jnp.sin(c + (x * c[:, :1]) @ w), c), jnp.tanh(x @ w), None, length=2)
    return lax.psum(y[0] * jnp.sum(x @ w), "j")


_DOTS = jax.checkpoint_policies.dots_saveable
for _name in ("rematerialised", "rematerialised_checked"):
    _f, _shapes = PROGRAMS[_name]
    PROGRAMS[_name] = jax.checkpoint(_f, policy=_DOTS), _shapes


def _constrained(x, *axes):
    return lax.with_sharding_constraint(x, NamedSharding(GRID, P(*axes)))


def _product(x, w):
    return jnp.tanh(_constrained(_constrained(x, "i") @ _constrained(w, None, "j"), "i", "j"))


def _in_part(x, w):
    return _constrained(_constrained(jnp.sin(x), P.UNCONSTRAINED, "j") @ w)


def _in_a_scan(x, w):
    c, ys = lax.scan(lambda c, v: (_constrained(jnp.sin(c * v), "j"), c.sum()), jnp.ones(4), x)
    return c @ w, ys


def _beside_shards(x, w):
    halves = jax.shard_map(
        lambda v: v * lax.axis_size("i"), mesh=GRID, in_specs=P("i"), out_specs=P("i")
    )
    return _constrained(halves(x), ("j", "i")) @ w


for _name, _f in [
    ("constrained", _product),
    ("constrained_in_part", _in_part),
    ("constrained_in_a_scan", _in_a_scan),
    ("constrained_beside_shards", _beside_shards),
]:
    PROGRAMS[_name] = _f, ((8, 4), (4, 6))


@jax.pmap
def _plain(x, y):
    return jnp.sin(x) * y


PROGRAMS["pmap"] = _plain, ((8, 3), (8, 3))
PROGRAMS["pmap_axes"] = (
    jax.pmap(
        lambda x, y: (x / lax.psum(jnp.exp(x), "b"), y * lax.axis_index("b")),
        axis_name="b",
        in_axes=(1, None),
        out_axes=(0, 1),
    ),
    ((3, 8), (2,)),
)


# What is still to be summed along an axis, or was, goes from one shard_map to another.
SUMMED = jax.make_mesh((4, 2), ("i", "j"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)


def _shards(in_specs, out_specs):
    return jax.shard_map(mesh=SUMMED, in_specs=in_specs, out_specs=out_specs)


def _split(x, *axes):
    return jax.reshard(x, NamedSharding(SUMMED, P(*axes)))


def _handed_over(x, w):
    @_shards((P("i", None), P()), P(unreduced={"i"}))
    def parts(x, w):
        return lax.pcast(jnp.tanh(x @ w), "i", to="unreduced")

    @_shards(P(unreduced={"i"}), P())
    def total(y):
        return jnp.sin(lax.psum(y, "i"))

    return total(parts(_split(x, "i", None), w))


def _handed_out(x, w):
    @_shards((P(None, "i"), P("i", None)), P(None, "j", unreduced={"i"}))
    def parts(x, w):
        y = x @ w
        half = y.shape[1] // 2
        mine = lax.dynamic_slice_in_dim(y, lax.axis_index("j") * half, half, 1)
        return lax.pcast(mine, "i", to="unreduced")

    @_shards(P(None, "j", unreduced={"i"}), P("i", "j"))
    def scattered(y):
        return lax.psum_scatter(y, "i", tiled=True) ** 2

    return scattered(parts(_split(x, None, "i"), _split(w, "i", None)))


def _the_same_on_all(x, w):
    @_shards((P("i", None), P()), P(reduced={"i"}))
    def whole(x, w):
        return lax.all_gather(jnp.sin(x @ w), "i", to="reduced", tiled=True)

    @_shards((P(reduced={"i"}), P("i", None)), P("i", None))
    def use(y, x):
        return lax.pcast(y, "i", to="varying")[:2] * x[:, :1]

    x = _split(x, "i", None)
    return use(whole(x, w), x)


def _weights(x, w):
    """Both uses of the weights have cotangents that are parts, which are summed once."""

    @_shards((P("i", None), P(reduced={"i"})), P("i", None))
    def use(x, w):
        return jnp.tanh(x @ lax.pcast(w, "i", to="varying"))

    x, w = _split(x, "i", None), jax.reshard(w, NamedSharding(SUMMED, P(reduced={"i"})))
    return use(x, w) + use(x * 2, w)


def _of_numbers(x, w):
    """Parts without axes, of which the gradient has residuals."""

    @_shards((P("i", None), P()), P(unreduced={"i"}))
    def parts(x, w):
        return lax.pcast(jnp.sin(x @ w).sum(), "i", to="unreduced")

    @_shards(P(unreduced={"i"}), P())
    def total(y):
        return lax.psum(y, "i") ** 2

    return total(parts(_split(x, "i", None), w))


if hasattr(jax, "reshard"):
    for _f in (_handed_over, _handed_out, _the_same_on_all, _weights, _of_numbers):
        PROGRAMS[f"sums_{_f.__name__[1:]}"] = _f, ((8, 4), (4, 6))


def attempt(f, *args):
    """The leaves of f(*args) as NumPy arrays; None when JAX refuses."""
    try:
        return [np.asarray(x) for x in jax.tree.leaves(jax.jit(f)(*args))]
    except (NotImplementedError, ValueError, TypeError, AssertionError):
        return None
    except jax.errors.JaxRuntimeError as e:
        if "UniqueIndexDomains" not in str(e):
            raise
        return None  # what is still to be summed, of which JAX 0.12 hands out no array


def record(f, shapes):
    """All there is to know of one program."""
    rng = np.random.default_rng(0)

    def draw(shape):
        return rng.normal(size=shape).astype(np.float32)

    args, tangents = [draw(s) for s in shapes], [draw(s) for s in shapes]
    closed = jax.make_jaxpr(f)(*args)
    outs, tree = jax.tree.flatten(jax.eval_shape(f, *args))
    cts = [draw(x.shape) for x in outs]
    batch = [np.stack([draw(s) for _ in range(3)]) for s in shapes]
    return {
        "text": str(closed),
        "args": args,
        "outs": attempt(f, *args),
        "tangents": tangents,
        "jvp": attempt(lambda a, t: jax.jvp(f, a, t)[1], tuple(args), tuple(tangents)),
        "cts": cts,
        "vjp": attempt(lambda a, c: jax.vjp(f, *a)[1](c), args, jax.tree.unflatten(tree, cts)),
        "batch": batch,
        "vmap": attempt(jax.vmap(f), *batch),
    }


if __name__ == "__main__":
    found = {name: record(f, shapes) for name, (f, shapes) in PROGRAMS.items()}
    with open(sys.argv[1], "wb") as out:
        pickle.dump(found, out)
