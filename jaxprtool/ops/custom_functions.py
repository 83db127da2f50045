"""Calls of functions whose derivatives the user has defined: `custom_jvp` and `custom_vjp`."""

from jaxprtool.core.kinds.numbers import Flags, Types
from jaxprtool.core.kinds.objects import Bookkeeping
from jaxprtool.core.primitive import param, primitive, shown, types_of_results
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["custom_jvp_call", "custom_lin", "custom_vjp_call"]


@primitive(multiple_results=True)
def custom_jvp_call(
    *args,
    call_jaxpr: ClosedJaxpr,
    name: str = param("f", hidden="never", first=True, names_jaxprs=False),
    jvp: str = shown("jvp"),
    symbolic_zeros: bool = shown(False),
    num_consts: int = 0,
    jvp_jaxpr: ClosedJaxpr | None = param(None, hidden="always"),
):
    """call_jaxpr(*args), whose JVP the user has defined.

    call_jaxpr: the function.
    name: its name.
    jvp: the name of the JVP rule.
    symbolic_zeros: whether the rule is told which tangents are zero.
    num_consts: the number of leading arguments that are constants, which have no tangents.
    jvp_jaxpr: the rule: (*primals, *tangents) -> (*primals_out, *tangents_out), or None.
        Only values of inexact types have tangents. It is None when the program was read from a text
        without the rule; then call_jaxpr itself is differentiated.
    """


@primitive(multiple_results=True)
def custom_vjp_call(
    *args,
    call_jaxpr: ClosedJaxpr,
    name: str = param("f", hidden="never", first=True, names_jaxprs=False),
    fwd: str = shown("fwd"),
    bwd: str = shown("bwd"),
    symbolic_zeros: bool = shown(False),
    num_consts: int = 0,
    out_trees: Bookkeeping = param(None, hidden="always"),
    fwd_jaxpr: ClosedJaxpr | None = param(None, hidden="always"),
    bwd_jaxpr: ClosedJaxpr | None = param(None, hidden="always"),
):
    """call_jaxpr(*args), whose VJP the user has defined.

    call_jaxpr: the function.
    name: its name.
    fwd: the name of the forward rule.
    bwd: the name of the backward rule.
    symbolic_zeros: whether the rules are told which tangents and cotangents are zero.
    num_consts: the number of leading arguments that are constants, which have no cotangents.
    out_trees: JAX's pytrees of the results of the rules.
    fwd_jaxpr: the forward rule: (*args) -> (*residuals, *results); None when the text lacks it.
    bwd_jaxpr: the backward rule: (*residuals, *cotangents) -> (*cotangents of inexact arguments).
    """


@primitive(multiple_results=True)
def custom_lin(
    *args,
    num_res: int,
    bwd_jaxpr: ClosedJaxpr | None = param(None, hidden="always"),
    bwd: str = shown("bwd"),
    in_zeros: Flags = shown(()),
    out_avals: Types | None = param(None, hidden="always", recover=types_of_results),
    symbolic_zeros: bool = shown(False),
):
    """The tangents of the results of a `custom_vjp_call`, given residuals and the tangents of its
    arguments.

    This linear map is known by its transpose only, the backward rule; so it can be transposed, but
    not evaluated.

    num_res: the number of leading operands that are residuals; the others are tangents.
    bwd_jaxpr: the transpose: (*residuals, *cotangents) -> (*cotangents of the tangents).
    bwd: the name of the transpose.
    in_zeros: for each argument of the call, whether its tangent is zero and no operand.
    out_avals: the types of the results.
    symbolic_zeros: whether the transpose is told which cotangents are zero.
    """
