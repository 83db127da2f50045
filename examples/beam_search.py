"""Beam search by `scan`, `top_k` and gathers: the most likely sentences of a small recurrent language model.

jaxprtool trace examples/beam_search.py:search --shape '{"embedding": f32[7,4], "recurrent": f32[4,4], "output": f32[4,7]}' \\
    --static beams=3 --static length=5 > examples/beam_search.jaxpr
jaxprtool run examples/beam_search.jaxpr --args random:0
"""

import jax
import jax.numpy as jnp

Params = dict[str, jax.Array]
Beams = tuple[jax.Array, jax.Array, jax.Array, jax.Array]

BEGIN, END = 0, 1


def next_token(params: Params, h: jax.Array, token: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next state f32[hidden] and the log-probabilities f32[words] of what follows a token."""
    h = jnp.tanh(params["embedding"][token] + h @ params["recurrent"])
    return h, jax.nn.log_softmax(h @ params["output"])


def extend(params: Params, beams: Beams, words: int) -> tuple[Beams, tuple[jax.Array, jax.Array]]:
    """Every beam by every word, of which the best are kept: the new beams, and their parents and words."""
    h, token, score, done = beams
    h, log_probs = jax.vmap(next_token, (None, 0, 0))(params, h, token)
    stay = jnp.where(jnp.arange(words) == END, 0.0, -jnp.inf)
    scores = score[:, None] + jnp.where(done[:, None], stay, log_probs)
    score, chosen = jax.lax.top_k(scores.reshape(-1), score.size)
    parent, token = chosen // words, chosen % words
    done = done[parent] | (token == END)
    return (h[parent], token, score, done), (parent, token)


def search(params: Params, beams: int = 3, length: int = 5) -> tuple[jax.Array, jax.Array]:
    """The best sentences, i32[beams, length], and their log-probabilities, f32[beams], best first."""
    words, hidden = params["embedding"].shape
    start = (
        jnp.zeros((beams, hidden)),
        jnp.full(beams, BEGIN),
        jnp.full(beams, -jnp.inf).at[0].set(0.0),
        jnp.zeros(beams, bool),
    )

    def forward(state: Beams, _: None) -> tuple[Beams, tuple[jax.Array, jax.Array]]:
        return extend(params, state, words)

    def backward(
        place: jax.Array, kept: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        parent, token = kept
        return parent[place], token[place]

    (_, _, score, _), kept = jax.lax.scan(forward, start, None, length=length)
    _, sentences = jax.lax.scan(backward, jnp.arange(beams), kept, reverse=True)
    return sentences.T, score
