"""A state-space layer (S4D) as one long convolution, done with FFTs.

The kernel of a diagonal complex state-space model is a Vandermonde product; the layer convolves with it along time, in
both directions, and mixes the channels with a gated linear unit.

jaxprtool trace examples/zoo/long_convolution.py:spectral_loss \\
    --shape '{"backward": {"c_imag": f32[3,4], "c_real": f32[3,4], "frequency": f32[3,4],
        "log_decay": f32[3,4], "log_step": f32[3]}, "forward": {"c_imag": f32[3,4], "c_real": f32[3,4],
        "frequency": f32[3,4], "log_decay": f32[3,4], "log_step": f32[3]}, "mix": f32[3,6], "skip": f32[3]}' \\
    --shape 'f32[2,12,3]' --shape 'f32[2,12,3]' \\
    -o examples/zoo/long_convolution.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np

TIME, CHANNELS, STATES = 12, 3, 4


def ssm_kernel(params, time):
    """The impulse response f32[channels, time]: discretised by holding the input over each step."""
    step = jnp.exp(params["log_step"])[:, None]
    a = -jnp.exp(params["log_decay"]) + 1j * params["frequency"]
    c = jax.lax.complex(params["c_real"], params["c_imag"])
    exponent = a * step
    held = c * (jnp.exp(exponent) - 1) / a
    powers = jnp.exp(exponent[:, :, None] * jnp.arange(time))
    return 2 * jnp.einsum("cn,cnt->ct", held, powers).real


def fft_conv(x, kernel):
    """Causal convolution along time; x: f32[batch, time, c], kernel: f32[c, time]."""
    time = x.shape[1]
    size = 2 * time
    spectrum = jnp.fft.rfft(x, n=size, axis=1) * jnp.fft.rfft(kernel, n=size).T
    return jnp.fft.irfft(spectrum, n=size, axis=1)[:, :time]


def layer(params, x):
    """x: f32[batch, time, channels] -> the same."""
    forward = fft_conv(x, ssm_kernel(params["forward"], x.shape[1]))
    backward = fft_conv(x[:, ::-1], ssm_kernel(params["backward"], x.shape[1]))[:, ::-1]
    y = jax.nn.gelu(forward + backward + params["skip"] * x, approximate=False)
    value, gate = jnp.split(y @ params["mix"], 2, axis=-1)
    return x + value * jax.nn.sigmoid(gate)


def spectral_loss(params, x, target):
    """The error, and how far the magnitudes of the 2-D spectra are from one another."""
    y = layer(params, x)
    ours, theirs = jnp.fft.fft2(y, axes=(1, 2)), jnp.fft.fft2(target, axes=(1, 2))
    magnitude = jnp.log1p(jnp.abs(ours)) - jnp.log1p(jnp.abs(theirs))
    return jnp.mean(jnp.square(y - target)) + 0.1 * jnp.mean(jnp.square(magnitude))


def example(seed=0):
    """Arguments of `spectral_loss`."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(0, 0.5, shape).astype(np.float32)

    def ssm():
        names = ["log_decay", "frequency", "c_real", "c_imag"]
        states = {name: draw(CHANNELS, STATES) for name in names}
        return {"log_step": draw(CHANNELS) - 1, **states}

    params = {
        "forward": ssm(),
        "backward": ssm(),
        "skip": draw(CHANNELS),
        "mix": draw(CHANNELS, 2 * CHANNELS),
    }
    return params, draw(2, TIME, CHANNELS), draw(2, TIME, CHANNELS)
