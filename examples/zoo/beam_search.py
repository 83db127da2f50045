"""Beam search over a small recurrent language model, in the style of T5X.

Finished sequences are kept apart, with a penalty for length; the loop ends once no live one can overtake them.

jaxprtool trace examples/zoo/beam_search.py:search \\
    --shape '{"embedding": f32[7,5], "out": f32[5,7], "uc": f32[5,5], "ug": f32[5,10], "wc": f32[5,5],
        "wg": f32[5,10]}' \\
    --shape 'f32[2,5]' --shape 'i32[2]' \\
    -o examples/zoo/beam_search.jaxpr
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

VOCABULARY, WIDTH, BEAMS, LENGTH = 7, 5, 3, 6
END, PADDING = 1, 0
WORST = -1e7


class State(NamedTuple):
    """Live and finished beams of each example, and the model's state of the live ones."""

    step: jax.Array
    live: jax.Array
    live_scores: jax.Array
    hidden: jax.Array
    done: jax.Array
    done_scores: jax.Array
    is_done: jax.Array


def next_log_probs(params, hidden, token):
    """A GRU cell and a softmax: (f32[..., VOCABULARY], new hidden state)."""
    x = params["embedding"][token]
    reset, update = jnp.split(jax.nn.sigmoid(x @ params["wg"] + hidden @ params["ug"]), 2, axis=-1)
    candidate = jnp.tanh(x @ params["wc"] + (reset * hidden) @ params["uc"])
    hidden = update * hidden + (1 - update) * candidate
    return jax.nn.log_softmax(hidden @ params["out"]), hidden


def penalty(length, alpha=0.6):
    """By how much a score is divided (Wu et al. 2016)."""
    return jnp.power((5.0 + length) / 6.0, alpha)


def take_beams(tree, beams):
    """Of each leaf [batch, old beams, ...] those at beams: i32[batch, new beams]."""
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, beams), tree)


def running(state):
    """Whether a live beam could still become better than the worst finished one."""
    best_live = state.live_scores[:, :1] / penalty(float(LENGTH))
    worst_done = jnp.min(jnp.where(state.is_done, state.done_scores, WORST), axis=1, keepdims=True)
    return (state.step < LENGTH) & jnp.any(worst_done < best_live)


def advance(params, state):
    """All beams longer by one token; the best 2 * BEAMS candidates leave at least BEAMS that do not end."""
    batch = state.live.shape[0]
    token = lax.dynamic_slice_in_dim(state.live, state.step, 1, axis=2)[..., 0]
    logprobs, hidden = next_log_probs(params, state.hidden, token)
    candidates = (state.live_scores[..., None] + logprobs).reshape(batch, BEAMS * VOCABULARY)
    scores, flat = lax.top_k(candidates, 2 * BEAMS)
    parents, words = flat // VOCABULARY, flat % VOCABULARY
    sequences = lax.dynamic_update_slice_in_dim(
        take_beams(state.live, parents), words[..., None], state.step + 1, axis=2
    )
    ends = words == END
    live_scores, best = lax.top_k(jnp.where(ends, WORST, scores), BEAMS)
    live, parents = take_beams((sequences, parents), best)
    finished = jnp.where(ends, scores / penalty(state.step + 1.0), WORST)
    all_done = jnp.concatenate([state.done, sequences], axis=1)
    all_scores = jnp.concatenate([state.done_scores, finished], axis=1)
    all_flags = jnp.concatenate([state.is_done, ends], axis=1)
    done_scores, kept = lax.top_k(all_scores, BEAMS)
    done, is_done = take_beams((all_done, all_flags), kept)
    hidden = take_beams(hidden, parents)
    return State(state.step + 1, live, live_scores, hidden, done, done_scores, is_done)


def search(params, hidden, start):
    """(i32[batch, BEAMS, LENGTH + 1], f32[batch, BEAMS]), best first; start: i32[batch]."""
    batch = start.shape[0]
    blank = jnp.full((batch, BEAMS, LENGTH + 1), PADDING, jnp.int32)
    state = State(
        step=jnp.int32(0),
        live=blank.at[:, :, 0].set(start[:, None]),
        live_scores=jnp.tile(jnp.array([0.0] + [WORST] * (BEAMS - 1)), (batch, 1)),
        hidden=jnp.broadcast_to(hidden[:, None], (batch, BEAMS, WIDTH)),
        done=blank,
        done_scores=jnp.full((batch, BEAMS), WORST),
        is_done=jnp.zeros((batch, BEAMS), bool),
    )
    state = lax.while_loop(running, lambda s: advance(params, s), state)
    any_done = jnp.any(state.is_done, axis=1, keepdims=True)
    sequences = jnp.where(any_done[..., None], state.done, state.live)
    return sequences, jnp.where(any_done, state.done_scores, state.live_scores)


def example(seed=0):
    """Arguments of `search`."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape).astype(np.float32)

    params = {
        "embedding": draw(VOCABULARY, WIDTH),
        "out": draw(WIDTH, VOCABULARY),
        "uc": draw(WIDTH, WIDTH),
        "ug": draw(WIDTH, 2 * WIDTH),
        "wc": draw(WIDTH, WIDTH),
        "wg": draw(WIDTH, 2 * WIDTH),
    }
    return jax.tree.map(jnp.asarray, (params, draw(2, WIDTH), np.array([2, 5], np.int32)))
