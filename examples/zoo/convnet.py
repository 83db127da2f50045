"""The loss of a convolutional image classifier, as it would be written with Flax.

A strided stem, a residual block with a depthwise and a dilated convolution, group normalisation, max and average pooling.

jaxprtool trace examples/zoo/convnet.py:loss \\
    --shape '{"block": {"bias": f32[4], "depthwise": f32[3,3,1,4], "dilated": f32[3,3,4,6],
        "pointwise": f32[1,1,6,4], "scale": f32[4]}, "head": {"bias": f32[5], "kernel": f32[4,5]},
        "stem": f32[3,3,3,4]}' \\
    --shape 'f32[2,12,12,3]' --shape 'i32[2]' \\
    -o examples/zoo/convnet.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

CLASSES = 5


def conv(x, kernel, stride=1, padding="SAME", dilation=1, groups=1):
    """x: f32[n, height, width, c]; kernel: f32[h, w, c / groups, features]."""
    return lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(stride, stride),
        padding=padding,
        rhs_dilation=(dilation, dilation),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def group_norm(x, scale, bias, groups=2, epsilon=1e-5):
    """Mean 0 and variance 1 over the places and channels of each group."""
    n, h, w, c = x.shape
    grouped = x.reshape(n, h, w, groups, c // groups)
    mean = grouped.mean(axis=(1, 2, 4), keepdims=True)
    variance = grouped.var(axis=(1, 2, 4), keepdims=True)
    normed = (grouped - mean) * lax.rsqrt(variance + epsilon)
    return normed.reshape(x.shape) * scale + bias


def max_pool(x, size=3, stride=2):
    """The largest value of each window."""
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "SAME")


def avg_pool(x, size=2):
    """The mean of each window, of what is inside the image."""
    window = (1, size, size, 1)
    total = lax.reduce_window(x, 0.0, lax.add, window, (1, 1, 1, 1), "SAME")
    count = lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, window, (1, 1, 1, 1), "SAME")
    return total / count


def block(params, x):
    """A residual block: depthwise, then dilated, then pointwise."""
    y = conv(x, params["depthwise"], groups=x.shape[-1])
    y = jax.nn.gelu(group_norm(y, params["scale"], params["bias"]))
    y = conv(y, params["dilated"], dilation=2)
    return x + conv(jax.nn.relu(y), params["pointwise"])


def logits(params, images):
    """images: f32[n, height, width, 3] -> f32[n, CLASSES]."""
    x = conv(images, params["stem"], stride=2, padding=((2, 1), (1, 2)))
    x = max_pool(jax.nn.relu(x))
    x = avg_pool(block(params["block"], x))
    return x.mean(axis=(1, 2)) @ params["head"]["kernel"] + params["head"]["bias"]


def loss(params, images, labels, smoothing=0.1):
    """Cross-entropy with label smoothing; labels: i32[n]."""
    targets = smooth_labels(jax.nn.one_hot(labels, CLASSES), smoothing)
    return -jnp.mean(jnp.sum(targets * jax.nn.log_softmax(logits(params, images)), axis=-1))


def smooth_labels(targets, alpha):
    """A share alpha of the probability spread over all classes."""
    return (1 - alpha) * targets + alpha / targets.shape[-1]


def example(seed=0):
    """Arguments of `loss`."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(0, np.prod(shape[:-1]) ** -0.5, shape).astype(np.float32)

    params = {
        "stem": draw(3, 3, 3, 4),
        "block": {
            "depthwise": draw(3, 3, 1, 4),
            "scale": np.ones(4, np.float32),
            "bias": draw(4),
            "dilated": draw(3, 3, 4, 6),
            "pointwise": draw(1, 1, 6, 4),
        },
        "head": {"kernel": draw(4, CLASSES), "bias": draw(CLASSES)},
    }
    return params, rng.random((2, 12, 12, 3), np.float32), np.array([1, 4], np.int32)
