"""Special functions: the gamma and beta functions and their relatives, Bessel functions."""

from jaxprtool.core.primitive import primitive

__all__ = [
    "bessel_i0e",
    "bessel_i1e",
    "digamma",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "lgamma",
    "polygamma",
    "random_gamma_grad",
    "regularized_incomplete_beta",
    "zeta",
]


@primitive
def lgamma(x):
    """log |Gamma(x)|, elementwise."""


@primitive
def digamma(x):
    """The derivative of lgamma, elementwise."""


@primitive
def polygamma(m, x):
    """The m-th derivative of digamma at x, for whole m >= 0, elementwise."""


@primitive
def zeta(x, q):
    """The Hurwitz zeta function, the sum of (q + k)^-x over k >= 0, elementwise."""


@primitive
def igamma(a, x):
    """The regularized lower incomplete gamma function P(a, x), elementwise."""


@primitive
def igammac(a, x):
    """The regularized upper incomplete gamma function 1 - P(a, x), elementwise."""


@primitive
def igamma_grad_a(a, x):
    """The derivative of P(a, x) by a, elementwise."""


@primitive
def random_gamma_grad(a, x):
    """The derivative by a of a sample x of Gamma(a, 1): of the x where P(a, x) stays the same, elementwise."""


@primitive
def regularized_incomplete_beta(a, b, x):
    """The regularized incomplete beta function I_x(a, b), elementwise."""


@primitive
def bessel_i0e(x):
    """exp(-|x|) I_0(x), with the modified Bessel function of order 0, elementwise."""


@primitive
def bessel_i1e(x):
    """exp(-|x|) I_1(x), with the modified Bessel function of order 1, elementwise."""
