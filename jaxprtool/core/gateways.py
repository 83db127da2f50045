"""Functions of upper layers that lower layers call without importing them.

`jaxprtool/__init__` fills them in, so that no layer imports one above it. The first call of a
gateway imports the module behind it: heavy libraries, and rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxprtool.core.trace import Trace
    from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["Gateways", "gateways"]


class Gateways:
    """One function for each service of an upper layer.

    Attributes:
      base_trace: returns the evaluating trace, which is current where no transformation runs.
      load_operators: gives tracers the operators and methods of arrays.
      load_numpy: returns the namespace of functions on values that impl rules take.
      load_family: takes the name of a primitive; imports the module of `ops` that declares it, if
        one does.
      load_families: imports all modules of `ops`.
      load_plugins: takes the name of an undeclared primitive; imports the installed plug-ins that
        declare it.
      load_rows: takes the name of a module of `ops`; imports the rows (rules) of the primitives
        that it declares.
      load_type_rule: registers the type rules with the reader of texts that leave types out.
      compile_jaxpr: takes a jaxpr; returns the compiled function of values.
      dim_arithmetic: takes an operator and two numbers, at least one of them a symbolic dimension;
        returns the result, or None where it is not known.
      apply_jax_function: takes a function written with JAX and its arguments, values of this
        package; returns its results.
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
