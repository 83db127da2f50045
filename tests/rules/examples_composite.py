"""Sample operands of composite."""

from __future__ import annotations

from jaxprtool import ops as lax
from tests.rules.example import Example, arg
from tests.rules.examples_control_flow import body


def _composite(label, f, *types, **params):
    params = {"jaxpr": body(f, *types), "name": f"my.{label}", **params}
    return Example(lax.composite, tuple(map(arg, types)), params, label=label, differentiable=False)


EXAMPLES = [
    _composite("sine", lambda x: lax.sin(x) * x, "f64[3]"),
    _composite("two", lambda x, n: (x, n + n), "f64[3]", "i32[2]", version=1),
]
