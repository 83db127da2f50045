"""Lint rules of effects: calls of Python functions and debug prints."""

from __future__ import annotations

from jaxprtool.ir.jaxpr import Primitive
from jaxprtool.linter.frames import At
from jaxprtool.linter.registry import lint_rule
from jaxprtool.passes.once import takes_python

__all__ = ["callback", "debug_print"]

_DEBUG = ("debug_print", "debug_callback")  # primitives that serve debugging


def _calls_python(primitive: Primitive) -> bool:
    return takes_python(primitive) and primitive.name not in _DEBUG


@lint_rule(
    "callback",
    _calls_python,
    family="effects",
    mend="write it with jax.numpy, or tell lint that it is meant: `# jaxpr: ignore=callback`",
)
def callback(at: At) -> str:
    """The program calls back into Python.

    Each call waits for the host, copies its operands there and the results back, while an
    accelerator is idle; in a loop this happens in each iteration. Such a program cannot be exported
    or cached.
    """
    return f"{at.name} calls a function of Python{_in_a_loop(at)}"


@lint_rule(
    "debug-print",
    *_DEBUG,
    family="effects",
    mend="take it out, or tell lint that it is meant: `# jaxpr: ignore=debug-print`",
)
def debug_print(at: At) -> str:
    """A debug print, or another debug callback, was left in.

    It copies its operands to the host each time. Because of its effect, neither the equation nor
    those that compute its operands can be removed.
    """
    return f"{at.name} was left in{_in_a_loop(at)}"


def _in_a_loop(at: At) -> str:
    return ", in each turn of a loop" if at.frame.turns > 1 else ""
