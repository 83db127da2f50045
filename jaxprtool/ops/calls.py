"""The call of a jaxpr that is compiled as one unit."""

from jaxprtool.core.kinds.objects import Options
from jaxprtool.core.kinds.placement import (
    Donated,
    InLayouts,
    InShardings,
    Mesh,
    OutLayouts,
    OutShardings,
)
from jaxprtool.core.primitive import param, primitive
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["jit_call"]


@primitive(name="jit", multiple_results=True)
def jit_call(
    *args,
    jaxpr: ClosedJaxpr = param(named_by_call=True),
    name: str = param("f", hidden="never", first=True),
    inline: bool = param(False, hidden="always"),
    donated_invars: Donated | None = param(None, hidden="blank"),
    in_shardings: InShardings | None = param(None, hidden="blank"),
    out_shardings: OutShardings | None = param(None, hidden="blank"),
    in_layouts: InLayouts | None = param(None, hidden="blank"),
    out_layouts: OutLayouts | None = param(None, hidden="blank"),
    keep_unused: bool = False,
    ctx_mesh: Mesh | None = None,
    compiler_options_kvs: Options = (),
    backend: str | None = param(None, hidden="always"),
):
    """jaxpr(*args), compiled as one unit.

    jaxpr: the function.
    name: its name.
    inline: whether the staging of an outer function takes the body in.
    donated_invars: for each argument, whether its buffer may be reused; None for none of them.
    in_shardings: shardings of the arguments, None for unspecified ones.
    out_shardings: shardings of the results, None for unspecified ones.
    in_layouts: layouts of the arguments, None for unspecified ones.
    out_layouts: layouts of the results, None for unspecified ones.
    keep_unused: whether arguments that nobody reads stay arguments of the compiled function.
    ctx_mesh: the mesh of the context, or None.
    compiler_options_kvs: options for the compiler, as pairs.
    backend: `xla` where an eager call is to be compiled, None where NumPy is to run the body.
    """
