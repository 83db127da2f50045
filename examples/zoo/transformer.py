"""Greedy decoding with a transformer that keeps its keys and values in a cache.

Rotary positions, grouped-query attention, RMS norm and a gated feed-forward layer, as in the open language models. The
prompt fills the cache in one go (prefill); then a scan feeds each new token back in.

jaxprtool trace examples/zoo/transformer.py:generate \\
    --shape '{"attention": {"k": f32[8,8], "out": f32[16,8], "q": f32[8,16], "v": f32[8,8]}, "down": f32[16,8],
        "embedding": f32[11,8], "norm1": f32[8], "norm2": f32[8], "up": f32[8,32]}' \\
    --shape 'i32[2,4]' \\
    -o examples/zoo/transformer.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

VOCABULARY, WIDTH, HEADS, KV_HEADS, HEAD = 11, 8, 4, 2, 4
CACHE = 8


def rms_norm(x, scale, epsilon=1e-6):
    """Rows of root mean square 1, scaled."""
    return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + epsilon) * scale


def rotate(x, positions, base=10_000.0):
    """Rotary embedding of x: f32[batch, time, heads, head] at positions: i32[time]."""
    frequencies = base ** (-jnp.arange(0, HEAD, 2) / HEAD)
    angles = positions[:, None, None] * frequencies
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate(
        [
            first * jnp.cos(angles) - second * jnp.sin(angles),
            second * jnp.cos(angles) + first * jnp.sin(angles),
        ],
        axis=-1,
    )


def attend(params, x, cache, start):
    """Attention of x, whose first token is at `start`, to all that the cache holds by then."""
    batch, time, _ = x.shape
    positions = start + jnp.arange(time)
    q = rotate((x @ params["q"]).reshape(batch, time, HEADS, HEAD), positions)
    k = rotate((x @ params["k"]).reshape(batch, time, KV_HEADS, HEAD), positions)
    v = (x @ params["v"]).reshape(batch, time, KV_HEADS, HEAD)
    keys = lax.dynamic_update_slice_in_dim(cache["keys"], k, start, axis=1)
    values = lax.dynamic_update_slice_in_dim(cache["values"], v, start, axis=1)
    q = q.reshape(batch, time, KV_HEADS, HEADS // KV_HEADS, HEAD)
    scores = jnp.einsum("btkgd,bskd->bkgts", q, keys) * HEAD**-0.5
    seen = jnp.arange(CACHE) <= positions[:, None]
    weights = jax.nn.softmax(scores, axis=-1, where=seen)
    mixed = jnp.einsum("bkgts,bskd->btkgd", weights, values).reshape(batch, time, -1)
    return mixed @ params["out"], {"keys": keys, "values": values}


def forward(params, tokens, cache, start):
    """Log-probabilities of what follows the last of tokens: i32[batch, time], and the new cache."""
    x = params["embedding"][tokens]
    mixed, cache = attend(params["attention"], rms_norm(x, params["norm1"]), cache, start)
    x = x + mixed
    gate, up = jnp.split(rms_norm(x, params["norm2"]) @ params["up"], 2, axis=-1)
    x = x + (jax.nn.silu(gate) * up) @ params["down"]
    return jax.nn.log_softmax(x[:, -1] @ params["embedding"].T), cache


def generate(params, prompt, steps=3):
    """(i32[batch, steps] the tokens that follow the prompt, f32[batch] their log-probability)."""
    batch, time = prompt.shape
    empty = jnp.zeros((batch, CACHE, KV_HEADS, HEAD))
    logprobs, cache = forward(params, prompt, {"keys": empty, "values": empty}, 0)

    def step(carry, position):
        logprobs, cache = carry
        token = jnp.argmax(logprobs, axis=-1)
        score = jnp.take_along_axis(logprobs, token[:, None], axis=-1)[:, 0]
        return forward(params, token[:, None], cache, position), (token, score)

    _, (tokens, scores) = lax.scan(step, (logprobs, cache), time + jnp.arange(steps))
    return tokens.T, scores.sum(axis=0)


def example(seed=0):
    """Arguments of `generate`."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    attention = {
        "q": draw(WIDTH, HEADS * HEAD),
        "k": draw(WIDTH, KV_HEADS * HEAD),
        "v": draw(WIDTH, KV_HEADS * HEAD),
        "out": draw(HEADS * HEAD, WIDTH),
    }
    params = {
        "embedding": draw(VOCABULARY, WIDTH),
        "attention": attention,
        "norm1": np.ones(WIDTH, np.float32),
        "norm2": np.ones(WIDTH, np.float32),
        "up": draw(WIDTH, 32),
        "down": draw(16, WIDTH),
    }
    return jax.tree.map(jnp.asarray, (params, rng.integers(0, VOCABULARY, (2, 4), np.int32)))
