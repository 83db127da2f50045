"""The discrete Fourier transform."""

from jaxprtool.core.kinds.enums import FftType
from jaxprtool.core.primitive import primitive

__all__ = ["fft"]


@primitive
def fft(x, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
    """The Fourier transform of the last axes of x.

    fft_type: 0 (FFT), 1 (IFFT, the inverse), 2 (RFFT, of real x, with half of the last axis of the result left
    out), 3 (IRFFT, the inverse of that); or the name.
    fft_lengths: the sizes of the axes that are transformed; of IRFFT, those of the result.
    """
