"""The discrete Fourier transform."""

from jaxprtool.core.kinds.enums import FftType
from jaxprtool.core.primitive import primitive

__all__ = ["fft"]


@primitive
def fft(x, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
    """out[k] = sum over j of x[j] exp(-2 pi i j k / n), along each of the last axes of x, of size
    n.

    FFT is this sum. IFFT is its inverse: exp(+2 pi i j k / n) / n in place of exp(-2 pi i j k / n).
    RFFT is FFT of real x, whose last axis has only the elements 0 to n // 2 of the result, since
    the others are their conjugates. IRFFT is the inverse of RFFT.

    fft_type: FFT (0), IFFT (1), RFFT (2) or IRFFT (3).
    fft_lengths: the sizes n of the transformed axes; of IRFFT, their sizes in the result.
    """
