"""Accelerators: their peak arithmetic and memory bandwidth, as their vendors state them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["DEVICES", "Device"]


class Device(NamedTuple):
    """The peak performance of a device.

    Attributes:
      flops: operations per second of dense matrix products, by the bits of an element (of floating
        point, 8 to 64).
      bandwidth: bytes per second that are read from its memory, or written to it.
    """

    flops: Mapping[int, float]
    bandwidth: float

    def peak(self, bits: int) -> float:
        """Return the operations per second on elements of so many bits."""
        fitting = [n for n in self.flops if n >= bits]
        return self.flops[min(fitting) if fitting else max(self.flops)]


def _device(bandwidth: float, f8: float, f16: float, f32: float, f64: float) -> Device:
    return Device({8: f8 * 1e12, 16: f16 * 1e12, 32: f32 * 1e12, 64: f64 * 1e12}, bandwidth * 1e12)


# Data sheets: TB/s, then TFLOP/s on 8, 16, 32 and 64 bits without sparsity. f32 is that of the ordinary units, not TF32.
DEVICES: dict[str, Device] = {
    "v100": _device(0.9, 125, 125, 15.7, 7.8),
    "a100": _device(2.039, 312, 312, 19.5, 9.7),
    "l4": _device(0.3, 242, 121, 30.3, 0.47),
    "h100": _device(3.35, 1979, 989, 67, 34),
    "h200": _device(4.8, 1979, 989, 67, 34),
    "b200": _device(8.0, 4500, 2250, 80, 40),
    # The matrix units of TPUs multiply bf16; f32 is what passes over three parts of each operand leave of it.
    "tpu-v4": Device({16: 275e12, 32: 275e12 / 6}, 1.2e12),
    "tpu-v5e": Device({8: 393e12, 16: 197e12, 32: 197e12 / 6}, 0.82e12),
    "tpu-v5p": Device({8: 918e12, 16: 459e12, 32: 459e12 / 6}, 2.765e12),
    "tpu-v6e": Device({8: 1836e12, 16: 918e12, 32: 918e12 / 6}, 1.64e12),
}
