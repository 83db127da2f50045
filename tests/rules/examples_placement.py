"""Sample operands of identities; without params that name devices."""

from __future__ import annotations

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core.primitives import copy_p

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from tests.rules.example import Example, arg


def _zero(**_params):
    return np.zeros((), np.int32)


EXAMPLES = [
    Example(
        lax.device_put,
        (arg("f32[3]"), arg("i32[]")),
        {"devices": (None, None), "srcs": (None, None), "copy_semantics": ()},
        jax=lambda x, y, **_: [copy_p.bind(x), copy_p.bind(y)],
    ),
    Example(
        lax.sharding_constraint,
        (arg("f32[3]"),),
        {"sharding": None},
        jax=lambda x, **_: copy_p.bind(x),
    ),
    Example(
        lax.layout_constraint,
        (arg("f32[2,3]"),),
        {"layout": None},
        jax=lambda x, **_: copy_p.bind(x),
    ),
    *[
        Example(
            lax.xla_metadata_value,
            (arg(t),),
            {"xla_metadata_kvs": kvs},
            jax=lambda x, xla_metadata_kvs: set_xla_metadata(x, **dict(xla_metadata_kvs)),
        )
        for t, kvs in (
            ("f32[2,3]", (("group", "a"), ("place", 3))),
            ("i32[]", ()),
            ("c64[2]", (("a", True),)),
        )
    ],
    Example(lax.tie, (arg("i32[2]"), arg("f32[3]")), jax=lambda x, y: copy_p.bind(y)),
    Example(
        lax.empty,
        (),
        {"shape": (2, 3), "dtype": find_dtype("f32"), "out_sharding": None},
        jax=jax.lax.empty,
    ),
    Example(
        lax.empty,
        (),
        {"shape": (), "dtype": find_dtype("i32"), "out_sharding": None},
        jax=jax.lax.empty,
    ),
    Example(
        lax.empty2,
        (),
        {"dtype": find_dtype("f64"), "memory_space": None},
        jax=lambda **_: np.zeros(()),
    ),
    Example(lax.empty2, (), {"dtype": find_dtype("i32"), "memory_space": None}, jax=_zero),
]
