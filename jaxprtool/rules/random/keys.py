"""Operations that move elements about, on arrays of keys; imported after those operations' rows."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.interpreters.words import on_words

for _op in (
    lax.broadcast_in_dim,
    lax.concatenate,
    lax.copy,
    lax.dynamic_slice,
    lax.dynamic_update_slice,
    lax.eq,
    lax.expand_dims,
    lax.gather,
    lax.ne,
    lax.pad,
    lax.reshape,
    lax.rev,
    lax.scatter,
    lax.select_n,
    lax.slice,
    lax.split,
    lax.squeeze,
    lax.stack,
    lax.tile,
    lax.transpose,
    lax.unstack,
):
    on_words(_op)
