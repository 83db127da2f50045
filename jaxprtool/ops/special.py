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
    """d/dx log |Gamma(x)|, elementwise."""


@primitive
def polygamma(m, x):
    """d^m/dx^m digamma(x), elementwise, for integral m >= 0 of the type of x."""


@primitive
def zeta(x, q):
    """The Hurwitz zeta function: sum of (q + k)^-x over k = 0, 1, 2, ..., elementwise."""


@primitive
def igamma(a, x):
    """P(a, x) = 1/Gamma(a) * integral of t^(a-1) e^-t dt from 0 to x, elementwise.

    This is the regularized lower incomplete gamma function.
    """


@primitive
def igammac(a, x):
    """Q(a, x) = 1/Gamma(a) * integral of t^(a-1) e^-t dt from x to infinity = 1 - P(a, x),
    elementwise.

    This is the regularized upper incomplete gamma function.
    """


@primitive
def igamma_grad_a(a, x):
    """dP(a, x)/da of the regularized lower incomplete gamma function P, elementwise."""


@primitive
def random_gamma_grad(a, x):
    """dx/da = -(dP/da) / (dP/dx) of a sample x of the gamma distribution Gamma(a, 1), elementwise.

    This is the derivative of the x at which P(a, x), its distribution function, has a fixed value.
    """


@primitive
def regularized_incomplete_beta(a, b, x):
    """I_x(a, b) = 1/B(a, b) * integral of t^(a-1) (1-t)^(b-1) dt from 0 to x, elementwise.

    This is the regularized incomplete beta function.
    """


@primitive
def bessel_i0e(x):
    """e^-|x| I_0(x), where I_0 is the modified Bessel function of the first kind of order 0,
    elementwise.
    """


@primitive
def bessel_i1e(x):
    """e^-|x| I_1(x), where I_1 is the modified Bessel function of the first kind of order 1,
    elementwise.
    """
