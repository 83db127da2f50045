"""The toolchain for jaxprs: read, check, run, transform and compile them.

    import jaxprtool as jt
    program = jt.parse(text)

The README describes the command line; every verb is also a function of this package.
`jaxprtool.names` lists all names.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jaxprtool.core.gateways import gateways

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxprtool import lax as lax
    from jaxprtool import rules as rules
    from jaxprtool.core.trace import Trace
    from jaxprtool.ir.jaxpr import ClosedJaxpr
    from jaxprtool.names import *  # noqa: F403 (its names are those of the package)

__version__ = "0.1.0"


def _base_trace() -> Trace:
    from jaxprtool.interpreters.evaluate import EvalTrace  # noqa: PLC0415 (gateway)

    return EvalTrace()


def _load_operators() -> None:
    import_module("jaxprtool.ops.operators")


def _load_numpy() -> Any:
    from jaxprtool.backends.numpy_eval import load_namespace  # noqa: PLC0415 (gateway)

    return load_namespace()


def _load_family(primitive: str) -> None:
    from jaxprtool.ops import load_family  # noqa: PLC0415 (gateway)

    load_family(primitive)


def _load_families() -> None:
    from jaxprtool.ops import load_families  # noqa: PLC0415 (gateway)

    load_families()


def _load_plugins(primitive: str) -> None:
    from jaxprtool.driver.user_code.entry_points import load_plugins  # noqa: PLC0415 (gateway)

    load_plugins(primitive)


def _load_rows(declared_in: str) -> None:
    from jaxprtool.rules import load_rows  # noqa: PLC0415 (gateway)

    load_rows(declared_in)


def _load_type_rule() -> None:
    from jaxprtool.interpreters.check import abstract_eval  # noqa: PLC0415 (gateway)
    from jaxprtool.syntax.infer import set_type_rule  # noqa: PLC0415 (gateway)

    set_type_rule(abstract_eval)


def _compile_jaxpr(closed: ClosedJaxpr) -> Any:
    from jaxprtool.backends.xla.compile import compile_jaxpr  # noqa: PLC0415 (gateway)

    return compile_jaxpr(closed)


def _apply_jax_function(f: Callable[..., Any], args: Any) -> Any:
    from jaxprtool.backends.jax.trace import apply_jax_function  # noqa: PLC0415 (gateway)

    return apply_jax_function(f, args)


def _dim_arithmetic(op: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    from jaxprtool.backends.sizes import dim_arithmetic  # noqa: PLC0415 (gateway)

    return dim_arithmetic(op, a, b)


gateways.base_trace = _base_trace
gateways.dim_arithmetic = _dim_arithmetic
gateways.load_operators = _load_operators
gateways.load_numpy = _load_numpy
gateways.load_family = _load_family
gateways.load_families = _load_families
gateways.load_plugins = _load_plugins
gateways.load_rows = _load_rows
gateways.load_type_rule = _load_type_rule
gateways.compile_jaxpr = _compile_jaxpr
gateways.apply_jax_function = _apply_jax_function


def __getattr__(name: str) -> Any:
    """Return a module of the package, or a name of `jaxprtool.names`."""
    if name.startswith("__"):
        raise AttributeError(f"module 'jaxprtool' has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    try:
        found = getattr(import_module(f"{__name__}.names"), name)
    except AttributeError:
        raise AttributeError(f"module 'jaxprtool' has no attribute {name!r}") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the names of the package, for completion, without names that are imported from other
    packages.
    """
    names = vars(import_module(f"{__name__}.names"))
    ours = [n for n, x in names.items() if getattr(x, "__module__", "").startswith(__name__)]
    return sorted({"__version__", "lax", "rules", *(n for n in ours if not n.startswith("_"))})


__all__ = ["lax", "rules"]
