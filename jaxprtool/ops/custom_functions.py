"""Functions with derivatives of their own."""

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
    """call_jaxpr(*args), with a forward derivative of its own.

    call_jaxpr: the function.
    name: its name.
    jvp: the name of the rule.
    symbolic_zeros: whether the rule sees which tangents are zero.
    num_consts: how many of the first arguments are constants, which the rule does not differentiate.
    jvp_jaxpr: the rule: (*primals, *tangents) -> (*primals_out, *tangents_out), the tangents those of the
        inexact values only; None when the text did not hold it, and then call_jaxpr is differentiated.
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
    """call_jaxpr(*args), with a reverse derivative of its own.

    call_jaxpr: the function.
    name: its name.
    fwd: the name of the forward rule.
    bwd: the name of the backward rule.
    symbolic_zeros: whether the rules see which tangents are zero.
    num_consts: how many of the first arguments are constants, which the rule does not differentiate.
    out_trees: JAX's bookkeeping of the rules' structures.
    fwd_jaxpr: the forward rule: (*args) -> (*residuals, *results); None when the text did not hold it.
    bwd_jaxpr: the backward rule: (*residuals, *cotangents) -> (*cotangents of the inexact arguments).
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
    """The linear map of a custom_vjp_call, known only by its transpose.

    num_res: how many of the first operands are residuals; the rest are tangents.
    bwd_jaxpr: the transpose: (*residuals, *cotangents) -> (*cotangents of the tangents).
    bwd: its name.
    in_zeros: for each operand of the call, whether its tangent is zero and left out.
    out_avals: the types of the results.
    symbolic_zeros: whether the rule sees which cotangents are zero.
    """
