"""Options for functions that are given in place of files."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.driver.words.static import parse_static
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["FUNCTION_OPTIONS", "FunctionOption", "check_function_options", "function_options"]


class FunctionOption(click.Option):
    """An option for tracing a function that is given in place of a file."""


FUNCTION_OPTIONS = "A function, module:name or file.py:name, may take the place of FILE; then"


def _on_function_option(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is None or value == ():
        return
    if param.name == "static":
        value = dict(map(parse_static, value))
    ctx.obj.tracing[param.name] = value


def check_function_options(ctx: click.Context) -> None:
    """Raise UsageError for options for functions if only files are given."""
    words: list[str] = []
    for p in ctx.command.params:
        if isinstance(p, click.Argument):
            value = ctx.params[p.name or ""]
            words += value if isinstance(value, tuple) else (value,)
    ctx.obj.functions = any(map(is_function, words))
    # some of these options also apply to files: to leave out origins, or to give missing types
    modules = any(word.endswith(".py") for word in words)
    tracing = ctx.obj.tracing.keys() - ({"source"} if modules else {"source", "shapes"})
    if tracing and not ctx.obj.functions and ctx.command.name != "trace":
        given = next(p.opts[0] for p in ctx.command.params if p.name in tracing)
        fail(
            UsageError,
            f"{given} is for a function, and {' '.join(words)} is a file",
            "usage",
            help="a function is named as module:name or path/to/file.py:name",
        )


_OPTIONS: list[tuple[list[str], dict[str, Any]]] = [
    (
        ["--shape", "shapes"],
        {
            "multiple": True,
            "metavar": "TYPE",
            "help": "Type of an argument, once for each (also of a FILE that has no types): f64[3], i32[], or a pytree of types: "
            "{'w': f32[3,4], 'b': f32[4]}, 'State(pos=f32[3], vel=f32[3])' for a class of the module.",
        },
    ),
    (
        ["--like"],
        {
            "multiple": True,
            "metavar": "NAME",
            "help": "Example arguments, any pytrees: a tuple of them (or one) beside the function, or a "
            "function that returns it: example_args, or file.py:example_args. They come before those of --shape. "
            "Verbs that run the function take these values where --args gives none.",
        },
    ),
    (
        ["--static"],
        {
            "multiple": True,
            "metavar": "NAME=VALUE",
            "help": "A keyword argument that is not traced.",
        },
    ),
    (
        ["--x64/--no-x64"],
        {"default": None, "help": "Whether JAX traces with 64-bit types."},
    ),
    (
        ["--host-devices"],
        {
            "type": click.IntRange(1),
            "metavar": "N",
            "help": "How many devices JAX takes the host for while it traces: as many as the function's meshes have.",
        },
    ),
    (
        ["--frontend"],
        {
            "type": click.Choice(["auto", "jax", "lax", "numpy"]),
            "help": "What traces: JAX, or jaxprtool itself (for its own lax and plain NumPy); "
            "auto, the default: by what the function uses.",
        },
    ),
    (
        ["--source/--no-source"],
        {
            "default": None,
            "help": "Whether each equation keeps its line of Python, and the names around it, which are printed beside "
            "it; it does unless told otherwise, also where a FILE has them.",
        },
    ),
    (
        ["--source-root"],
        {
            "metavar": "DIR",
            "help": "Paths of files below this folder are written relative to it: the working directory by default.",
        },
    ),
    (
        ["--rules/--no-rules"],
        {
            "default": None,
            "help": "Whether the derivative rules of custom functions go with them (they can be long); they do "
            "unless told otherwise.",
        },
    ),
]


def function_options() -> list[click.Parameter]:
    """Return the options; each stores its value in `Session.tracing`."""
    return [
        FunctionOption(names, expose_value=False, callback=_on_function_option, **rest)
        for names, rest in _OPTIONS
    ]
