"""A graph attention network on sparse edges, in the style of Jraph.

Messages travel along lists of senders and receivers; segment sums and maxima gather them at the nodes. The graph is padded
to a fixed size, with a mask.

jaxprtool trace examples/zoo/message_passing.py:loss \\
    --shape '{"edges": f32[9,1], "layer": {"edge": f32[1,2], "receiver": f32[2,2], "sender": f32[2,2],
        "weight": f32[4,2,2]}, "layer2": {"edge": f32[1,2], "receiver": f32[2,2], "sender": f32[2,2],
        "weight": f32[4,2,2]}, "readout": f32[8,3]}' \\
    --shape 'f32[6,4]' --shape 'f32[10,1]' --shape 'i32[10]' --shape 'i32[10]' --shape 'i32[6]' --shape 'i32[2]' \\
    -o examples/zoo/message_passing.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np

NODES, EDGES, FEATURES, HEADS, CLASSES = 6, 10, 4, 2, 3


def segment_softmax(scores, segments, count):
    """Softmax over all entries with the same segment."""
    highest = jax.ops.segment_max(scores, segments, count)
    shifted = jnp.exp(scores - jnp.where(jnp.isfinite(highest), highest, 0.0)[segments])
    return shifted / jax.ops.segment_sum(shifted, segments, count)[segments]


def attention_layer(params, nodes, edges, senders, receivers, mask):
    """Each node becomes a mean of its senders, weighted by attention heads; edges: f32[EDGES, 1]."""
    projected = jnp.einsum("nf,fhd->nhd", nodes, params["weight"])
    score = (
        jnp.einsum("nhd,hd->nh", projected, params["sender"])[senders]
        + jnp.einsum("nhd,hd->nh", projected, params["receiver"])[receivers]
        + edges @ params["edge"]
    )
    score = jnp.where(mask[:, None], jax.nn.leaky_relu(score, 0.2), -1e9)
    weights = segment_softmax(score, receivers, len(nodes)) * mask[:, None]
    messages = projected[senders] * weights[..., None]
    total = jax.ops.segment_sum(messages, receivers, len(nodes), indices_are_sorted=False)
    return jax.nn.elu(total.reshape(len(nodes), -1))


def edge_update(params, nodes, edges, senders, receivers):
    """Edges see their two ends."""
    both = jnp.concatenate([edges, nodes[senders], nodes[receivers]], axis=-1)
    return edges + jnp.tanh(both @ params)


def readout(params, nodes, graph_of_node, graphs=2):
    """Class scores of each graph from the mean and the maximum of its nodes."""
    total = jax.ops.segment_sum(nodes, graph_of_node, graphs)
    count = jnp.zeros(graphs).at[graph_of_node].add(1.0)
    mean = total / jnp.maximum(count, 1.0)[:, None]
    return jnp.concatenate([mean, jax.ops.segment_max(nodes, graph_of_node, graphs)], 1) @ params


def loss(params, nodes, edges, senders, receivers, graph_of_node, labels):
    """Cross-entropy of the graphs' classes; edges with a negative sender are padding."""
    mask = senders >= 0
    senders = jnp.maximum(senders, 0)
    hidden = attention_layer(params["layer"], nodes, edges, senders, receivers, mask)
    edges = edge_update(params["edges"], hidden, edges, senders, receivers)
    hidden = hidden + attention_layer(params["layer2"], hidden, edges, senders, receivers, mask)
    scores = jax.nn.log_softmax(readout(params["readout"], hidden, graph_of_node))
    return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))


def example(seed=0):
    """Arguments of `loss`: two graphs side by side."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(0, 0.6, shape).astype(np.float32)

    def layer():
        size = FEATURES // HEADS
        vectors = {"sender": draw(HEADS, size), "receiver": draw(HEADS, size)}
        return {"weight": draw(FEATURES, HEADS, size), "edge": draw(1, HEADS), **vectors}

    params = {
        "layer": layer(),
        "layer2": layer(),
        "edges": draw(1 + 2 * FEATURES, 1),
        "readout": draw(2 * FEATURES, CLASSES),
    }
    senders = np.array([0, 1, 2, 3, 1, 4, 5, 5, -1, -1], np.int32)
    receivers = np.array([1, 2, 3, 0, 0, 5, 4, 4, 0, 0], np.int32)
    graph_of_node = np.array([0, 0, 0, 0, 1, 1], np.int32)
    labels = np.array([2, 0], np.int32)
    return params, draw(NODES, FEATURES), draw(EDGES, 1), senders, receivers, graph_of_node, labels
