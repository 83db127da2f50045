"""The functions of upper layers that lower layers call: heavy libraries, and rules, are imported by their first call.

`jaxprtool/__init__` fills them in, so that no layer imports one above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxprtool.core.trace import Trace
    from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["Gateways", "gateways"]


class Gateways:
    """One function for each thing that an upper layer provides.

    Attributes:
      base_trace: gives the evaluating trace, which is current where no transformation runs.
      load_operators: gives tracers the operators and methods of arrays.
      load_numpy: gives the namespace of functions on values that impl rules take.
      load_family: takes the name of a primitive; imports the module of `ops` that declares it, if one does.
      load_families: imports all modules of `ops`.
      load_plugins: takes the name of a primitive that nobody declares; imports the installed plug-ins that do.
      load_rows: takes the name of a module of `ops`; imports the rows of the primitives that it declares.
      load_type_rule: has what gives operations their result types told to the reader of texts that leave types out.
      compile_jaxpr: takes a jaxpr; gives the compiled function of values.
      dim_arithmetic: takes an operator and two numbers, of which one at least is a symbolic dimension; gives the result, or None.
      apply_jax_function: takes a function written with JAX and its arguments, values of ours; gives its results.
    """

    base_trace: Callable[[], Trace]
    load_operators: Callable[[], None]
    load_numpy: Callable[[], Any]
    load_family: Callable[[str], None]
    load_families: Callable[[], None]
    load_plugins: Callable[[str], None]
    load_rows: Callable[[str], None]
    load_type_rule: Callable[[], None]
    compile_jaxpr: Callable[[ClosedJaxpr], Callable[..., list[Any]]]
    dim_arithmetic: Callable[[Callable[[Any, Any], Any], Any, Any], Any]
    apply_jax_function: Callable[[Callable[..., Any], Any], Any]


gateways = Gateways()
