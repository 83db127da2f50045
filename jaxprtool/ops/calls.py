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
    inline: whether tracing an outer function replaces the call by the equations of the body.
    donated_invars: for each argument, whether its buffer may be reused; None: no buffer may be.
    in_shardings: the sharding of each argument, or None where unspecified.
    out_shardings: the sharding of each result, or None where unspecified.
    in_layouts: the layout in memory of each argument, or None where unspecified.
    out_layouts: the layout in memory of each result, or None where unspecified.
    keep_unused: whether the compiled function also takes the arguments that the body does not use.
    ctx_mesh: the mesh of the context, or None.
    compiler_options_kvs: options for the compiler, as pairs (name, value).
    backend: `xla` if an eager call is compiled by XLA, None if NumPy evaluates the body.
    """
