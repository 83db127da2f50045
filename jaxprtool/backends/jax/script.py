"""Write a program as a Python script that needs only JAX."""

from __future__ import annotations

import base64
import enum
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.releases import loaded_modules
from jaxprtool.backends.jax.to_jax import to_jax
from jaxprtool.backends.jax.wide_types import has_wide_types
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["DERIVATIVES", "script_of"]

# verb -> what the script prints: the results, or derivatives along ones
DERIVATIVES = {
    **dict.fromkeys(("jvp", "linearize"), "jvp"),
    **dict.fromkeys(("vjp", "grad", "gradcheck"), "vjp"),
}
_FEW = 16  # elements of an array that are written out
_RULES = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")

_TOP = '''"""{title}

It needs JAX alone{beside}.
"""

import base64
{paths}
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import primitives as P
{imports}{x64}

def closed(f, *types):
    return jax.make_jaxpr(f)(*types)


def typed(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))

'''

_READ = """
def argument(file, name, dtype, shape):
    found = file[name]
    return found.view(jnp.dtype(dtype)).reshape(shape)


with np.load(Path(__file__).parent / "{file}") as file:
    args = [{args}]
"""

_END = {
    "": "for result in jax.jit(main)(*args):\n    print(result.dtype, result.shape, result)\n",
    "jvp": """inexact = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.inexact)]


def of_inexact(*xs):
    given = dict(zip(inexact, xs))
    return main(*(given.get(i, x) for i, x in enumerate(args)))


primals = [args[i] for i in inexact]
results, tangents = jax.jvp(of_inexact, primals, [np.ones_like(x) for x in primals])
for result in (*results, *tangents):
    print(result.dtype, result.shape, result)
""",
    "vjp": """inexact = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.inexact)]


def of_inexact(*xs):
    given = dict(zip(inexact, xs))
    results = main(*(given.get(i, x) for i, x in enumerate(args)))
    return [y for y in results if jnp.issubdtype(y.dtype, jnp.inexact)]


results, pullback = jax.vjp(of_inexact, *(args[i] for i in inexact))
for result in (*results, *pullback([jnp.ones_like(y) for y in results])):
    print(result.dtype, result.shape, result)
""",
}


def script_of(program: ClosedJaxpr, file: str, names: Sequence[str], verb: str, title: str) -> str:
    """Return a script that computes what a program computes, and prints it.

    Args:
      program: a program whose constants' values are known.
      file: the name of an `.npz` file beside the script with its arguments; "" for none: then they
        are zeros.
      names: the names of the arrays in the file.
      verb: the verb that the script stands for: one that differentiates makes it print derivatives.
      title: a line that describes the script.

    Raises:
      UnsupportedError: the program contains something that cannot be written so.
    """
    derivative = DERIVATIVES.get(verb, "")
    writer = _Writer(derivative)
    with jax.enable_x64(has_wide_types(program)):
        live = to_jax(program)
        body = writer.function("main", live.jaxpr, live.consts)
    imports = "".join(f"{line}\n" for line in sorted(writer.imports))
    x64 = '\njax.config.update("jax_enable_x64", True)\n' if has_wide_types(program) else ""
    beside, paths = (f", and {file} beside it", "from pathlib import Path\n") if file else ("", "")
    top = _TOP.format(title=title, x64=x64, imports=imports, beside=beside, paths=paths)
    given = _READ.format(file=file, args=_arguments(program, names)) if file else _zeros(program)
    return "\n".join([top.rstrip("\n") + "\n", *writer.functions, body, given, _END[derivative]])


def _arguments(program: ClosedJaxpr, names: Sequence[str]) -> str:
    typed = zip(names, map(_typed, program.in_avals), strict=True)
    return ", ".join(f"argument(file, {n!r}, {dtype!r}, {shape})" for n, (dtype, shape) in typed)


def _zeros(program: ClosedJaxpr) -> str:
    typed = map(_typed, program.in_avals)
    each = [f"np.zeros({shape}, jnp.dtype({dtype!r}))" for dtype, shape in typed]
    return f"\nargs = [{', '.join(each)}]\n"


def _typed(aval: Any) -> tuple[str, tuple[int, ...]]:
    """Return the name of the dtype and the shape of an argument."""
    if not isinstance(aval, ShapedArray) or aval.size < 0 or aval.dtype.kind not in "fciub":
        _cannot(f"arguments of type {aval}")
    return np_dtype(aval.dtype).name, tuple(aval.shape)


def _cannot(what: str) -> NoReturn:
    fail(UnsupportedError, f"a plain script of JAX cannot have {what}", "jax-script")


class _Writer:
    """Writes jaxprs as functions.

    Attributes:
      derivative: the derivative that the script computes; "" for only the values.
      functions: the functions of inner jaxprs, in the order in which they are defined.
      imports: statements that import primitives.
    """

    def __init__(self, derivative: str):
        self.derivative = derivative
        self.functions: list[str] = []
        self.imports: set[str] = set()
        self._names: dict[int, tuple[Any, str]] = {}

    def function(self, name: str, jaxpr: Any, consts: Sequence[Any]) -> str:
        """Return a definition of a jaxpr as a function of its arguments that returns a list."""
        if len(jaxpr.constvars) != len(consts):
            _cannot("constants without values")
        names: dict[Any, str] = {}

        def bound(v: Any) -> str:
            names[v] = f"v{len(names)}"
            return names[v]

        lines = [
            f"    {bound(v)} = {_array(c)}" for v, c in zip(jaxpr.constvars, consts, strict=True)
        ]
        head = f"def {name}({', '.join(map(bound, jaxpr.invars))}):"
        for eqn in jaxpr.eqns:
            value = self._value(eqn, [self._atom(x, names) for x in eqn.invars])
            outs = ", ".join(map(bound, eqn.outvars))
            alone = len(eqn.outvars) == 1 and eqn.primitive.multiple_results
            left = f"({outs},) = " if alone else f"{outs} = " if outs else ""
            lines.append(f"    {left}{value}")
        outs = ", ".join(self._atom(x, names) for x in jaxpr.outvars)
        return "\n".join(["", head, *lines, f"    return [{outs}]", ""])

    def _atom(self, x: Any, names: dict[Any, str]) -> str:
        return (
            _array(np.asarray(x.val, getattr(x.aval, "dtype", None)))
            if isinstance(x, private.Literal)
            else names[x]
        )

    def _value(self, eqn: Any, ins: Sequence[str]) -> str:
        name = eqn.primitive.name
        if name == "jit":
            inner = eqn.params["jaxpr"]
            return f"jax.jit({self._named(inner.jaxpr, inner.consts)})({', '.join(ins)})"
        if name in _RULES:
            if self.derivative:
                _cannot(f"{name}, whose derivative is a rule")
            inner = eqn.params.get("call_jaxpr") or eqn.params["fun_jaxpr"]
            return f"{self._named(inner.jaxpr, inner.consts)}({', '.join(ins)})"
        params = [f"{k}={self._param(eqn, k, v)}" for k, v in sorted(eqn.params.items())]
        return f"{self._primitive(eqn.primitive)}.bind({', '.join([*ins, *params])})"

    def _primitive(self, primitive: Any) -> str:
        """Return an expression for a primitive; one that JAX does not make public is imported from its module."""
        for name, value in vars(private.primitives).items():
            if value is primitive:
                return f"P.{name}"
        for module in loaded_modules():
            for name, value in list(vars(module).items()):
                if value is primitive:
                    self.imports.add(f"from {module.__name__} import {name}")
                    return name
        _cannot(f"{primitive}, which is none of JAX's")

    def _named(self, jaxpr: Any, consts: Sequence[Any]) -> str:
        """Return the name of the function of an inner jaxpr, which is defined once."""
        found = self._names.get(id(jaxpr))
        if found is None:
            text = self.function("NAME", jaxpr, consts)
            name = f"f{len(self.functions)}"
            self.functions.append(text.replace("def NAME(", f"def {name}(", 1))
            found = self._names[id(jaxpr)] = jaxpr, name
        return found[1]

    def _param(self, eqn: Any, key: str, v: Any) -> str:
        """Return the value of a param as a Python expression."""
        if isinstance(v, private.ClosedJaxpr) and hasattr(v, "jaxpr"):
            return self._closed(v.jaxpr, v.consts)
        if isinstance(v, private.Jaxpr):
            return f"{self._closed(v, ())}.jaxpr"
        if v is None or type(v) in (bool, int, str):
            return repr(v)
        if type(v) in (float, complex):
            return repr(v) if math.isfinite(abs(v)) else f"{type(v).__name__}({str(v)!r})"
        if type(v) in (tuple, list, frozenset):
            items = [self._param(eqn, key, x) for x in v]
            text = f"({', '.join(items)}{',' * (len(items) == 1)})"
            return text if type(v) is tuple else f"{type(v).__name__}({text})"
        if type(v) is dict:
            return f"{{{', '.join(f'{k!r}: {self._param(eqn, key, x)}' for k, x in v.items())}}}"
        if isinstance(v, np.dtype):
            return f"jnp.dtype({v.name!r})"
        if isinstance(v, np.generic):
            return f"jnp.dtype({v.dtype.name!r}).type({v.item()!r})"
        return self._object(eqn, key, v)

    def _object(self, eqn: Any, key: str, v: Any) -> str:
        """Return an object of a public class of `jax.lax`: a member of an enumeration, or fields by name."""
        kind = type(v)
        if getattr(jax.lax, kind.__name__, None) is kind:
            if isinstance(v, enum.Enum):
                return f"lax.{kind.__name__}.{v.name}"
            names = getattr(v, "_fields", None) or getattr(v, "__dataclass_fields__", ())
            fields = [f"{k}={self._param(eqn, key, getattr(v, k))}" for k in names]
            return f"lax.{kind.__name__}({', '.join(fields)})"
        _cannot(f"{eqn.primitive}[{key}={str(v)[:60]}]")

    def _closed(self, jaxpr: Any, consts: Sequence[Any]) -> str:
        types = [_type(v.aval) for v in jaxpr.invars]
        return f"closed({', '.join([self._named(jaxpr, consts), *types])})"


def _type(aval: Any) -> str:
    if not isinstance(aval, private.ShapedArray) or aval.dtype == jax.dtypes.float0:
        _cannot(f"inner functions of {aval}")
    if jax.numpy.issubdtype(aval.dtype, jax.dtypes.extended):
        _cannot(f"inner functions of {aval}")
    return f"typed({', '.join([repr(aval.dtype.name), *map(str, aval.shape)])})"


def _array(x: Any) -> str:
    """An expression of an array."""
    if not hasattr(x, "dtype") or jax.numpy.issubdtype(x.dtype, jax.dtypes.extended):
        _cannot(f"constants of type {getattr(x, 'dtype', type(x).__name__)}")
    x = np.asarray(x)
    dtype = f"jnp.dtype({x.dtype.name!r})"
    if not x.size:  # a list would not say the later axes
        return f"np.zeros({x.shape}, {dtype})"
    if x.size <= _FEW and x.dtype.kind in "biu":
        return f"np.array({x.tolist()!r}, {dtype})"
    if x.size <= _FEW and x.dtype.kind == "f" and np.isfinite(x).all():
        return f"np.array({x.tolist()!r}, {dtype})"
    data = base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()
    return f"np.frombuffer(base64.b64decode({data!r}), {dtype}).reshape({x.shape})"
