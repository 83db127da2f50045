"""What the laws share: all examples, the same function in this package and in JAX, comparison by
dtype.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax.releases import since
from jaxprtool.backends.jax.vocabulary import leaving, their_name
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.backends.xla.compile import compile_jaxpr
from jaxprtool.core.rule_table import Unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.core.tree import tree_leaves, tree_unflatten
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.jvp import jvp_rules
from jaxprtool.ir.dtypes import DType, dtype_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Primitive
from tests.releases import IS_ORACLE
from tests.rules.example import Example, make_inputs

Check = Callable[[Example], None]
RULES = Path(__file__).parent.parent / "rules"


def _load() -> list[Example]:
    found: list[Example] = []
    for path in sorted(RULES.glob("examples_*.py")):
        found += importlib.import_module(f"tests.rules.{path.stem}").EXAMPLES
    return found


EXAMPLES = _load()

# Relative tolerance of a comparison of two implementations, by the real part's dtype.
TOLERANCE = {"f8": 1e-11, "f4": 2e-5, "f2": 4e-3, "bf16": 3e-2, "small": 3e-1}


def law(examples: list[Example]) -> Callable[[Check], Any]:
    """Make a check of one example a test with one case for each primitive, over all examples of it.

    The test runs all of them, and says of each that fails what is wrong.
    """
    groups = by_primitive(examples)

    def decorate(check: Check) -> Any:
        @pytest.mark.parametrize("primitive", [p.name for p in groups])
        def test(primitive: str) -> None:
            failures = []
            for example in next(es for p, es in groups.items() if p.name == primitive):
                try:
                    check(example)
                except Exception as e:  # every kind of failure is to be told with its example
                    failures.append((example, e))
            if failures:
                told = [f"{example.id}\n{_told(e)}" for example, e in failures]
                message = f"{len(failures)} of {primitive}'s examples fail:\n" + "\n".join(told)
                raise AssertionError(message)

        test.__doc__ = check.__doc__
        return test

    return decorate


def _told(error: Exception, limit: int = 600) -> str:
    """Return the text of an error in a few lines, with its innermost place in this package or its
    tests.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "jaxprtool" in f.filename or "tests" in f.filename]
    place = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
    text = f"{place}{type(error).__name__}: {error}".strip()
    return "    " + text[:limit].replace("\n", "\n    ")


def by_primitive(examples: list[Example]) -> dict[Primitive, list[Example]]:
    groups: dict[Primitive, list[Example]] = {}
    for e in examples:
        groups.setdefault(e.primitive, []).append(e)
    return groups


class OneProgram:
    """Results for examples, computed by one program for all the examples of a primitive.

    Most of the time of a small program is compilation, and one program with twenty operations compiles
    almost as fast as one with a single operation.

    Args:
      examples: the examples.
      prepare: example -> (function of a list of arrays, that list).
      run: (function of a list of lists of arrays, that list) -> its results.
    """

    def __init__(self, examples: list[Example], prepare: Any, run: Any):
        self.groups, self.prepare, self.run = by_primitive(examples), prepare, run
        self.results: dict[int, Any] = {}

    def __getitem__(self, example: Example) -> Any:
        if id(example) not in self.results:
            group = self.groups[example.primitive]
            try:
                found = self._run(group)
            except Exception:  # of one of them: run each alone, to see of which
                group, found = [example], self._run([example])
            self.results.update({id(e): out for e, out in zip(group, found, strict=True)})
        return self.results[id(example)]

    def _run(self, group: list[Example]) -> Any:
        prepared = [self.prepare(e) for e in group]

        def together(all_args: Any) -> list[Any]:
            return [f(args) for (f, _), args in zip(prepared, all_args, strict=True)]

        return self.run(together, [args for _, args in prepared])


def called(function: Callable[[Example], Any]) -> Any:
    """Return the `prepare` of `OneProgram` for a function of an example (`ours` or `in_jax`) that
    takes its inputs.
    """

    def prepare(example: Example) -> Any:
        f = function(example)
        return (lambda args: f(*args)), inputs(example)

    return prepare


def on_jax(function: Any, args: Any) -> Any:
    """Run a program under JAX, compiled with as little effort as possible."""
    import jax

    lowered = jax.jit(function).lower(args)
    options: Any = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return lowered.compile(options)(args)


def on_xla(function: Any, args: Any) -> Any:
    """Stage and compile a function of lists of arrays that returns lists of lists of them."""
    program, tree = jt.make_jaxpr(function, return_tree=True)(args)
    leaves = [x for xs in args for x in xs]
    return tree_unflatten(tree, [np.asarray(x) for x in compile_jaxpr(program)(*leaves)])


def by_structure(examples: list[Example], *, narrow: bool = False) -> list[Example]:
    """Keep one example of those that differ only in the width of their element types.

    narrow: keep one of 16-bit types too.
    """
    found: dict[Any, Example] = {}
    for e in examples:
        operands = tuple(
            (a.aval.shape, a.aval.dtype.kind, narrow and a.aval.dtype.bits < 32, str(a.values))
            for a in e.args
        )
        params = {k: v for k, v in e.params.items() if not isinstance(v, DType)}
        found.setdefault((e.primitive, operands, str(params)), e)
    return list(found.values())


def holds_jaxprs(example: Example) -> bool:
    """Return whether the params of an example hold jaxprs."""
    return any(type(v) is ClosedJaxpr for v in tree_leaves([*example.params.values()]))


def is_differentiable(example: Example) -> bool:
    """Whether an operand, and a result, have tangents, and the primitive a derivative."""
    if not example.differentiable or isinstance(jvp_rules.find(example.primitive), Unsupported):
        return False
    return any(a.aval.dtype.is_inexact for a in example.args) and any(
        a.dtype.is_inexact for a in out_avals(example)
    )


def derived_as_jax(example: Example) -> bool:
    """Return whether the derivative has to be that of the installed JAX; rules here do not differ
    by release.
    """
    changed = example.rule_before and since(*example.rule_before)
    return since(*example.rule_since) and not changed


def out_avals(example: Example) -> list[Any]:
    """The types of the results, by the type rule."""
    if example.of is not None:
        program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
        return program.jaxpr.out_avals
    params = {**example.primitive.defaults, **example.params}
    return abstract_eval(example.primitive, [a.aval for a in example.args], params)


def as_list(out: Any) -> list[Any]:
    """The results of an operation as a list, whether it has one or several."""
    return list(out) if isinstance(out, (list, tuple)) else [out]


def ours(example: Example) -> Any:
    """Return the example as a function of its operands that returns a list, in this package."""
    return lambda *args: as_list(example.op(*args, **example.params))


@functools.cache
def _jax_primitives() -> dict[str, Any]:
    from jax.extend.core import primitives

    found = (getattr(primitives, n) for n in dir(primitives) if n.endswith("_p"))
    return {p.name: p for p in found}


def _jax_param(name: str, value: Any) -> Any:
    if isinstance(value, DType):
        return np_dtype(value)
    if name == "rounding_method":
        import jax

        return jax.lax.RoundingMethod(value)
    return value


def _exported(example: Example) -> Any:
    """The example as a program, converted to JAX's."""
    from jax.extend.core import jaxpr_as_fun

    program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
    return jaxpr_as_fun(jt.to_jax(program))


def in_jax(example: Example) -> Any:
    """Return the same function in JAX.

    It is JAX's primitive of the same name, what the example gives, or, where params hold jaxprs, the program with
    this one equation.
    """
    if example.jax is not None:
        params = {k: _jax_param(k, v) for k, v in example.params.items()}
        return lambda *args: as_list(example.jax(*args, **params))
    declared = {**example.primitive.defaults, **example.params}
    if any(p.kind.holds_jaxprs for p in example.primitive.params.values()):
        return _exported(example)
    params = {k: _jax_param(k, v) for k, v in declared.items()}
    name = example.primitive.name
    primitive = _jax_primitives()[their_name(name)]
    n = len(example.args)
    return lambda *args: as_list(primitive.bind(*args, **leaving(name, params, {}, n, 0)))


def is_in_jax(example: Example) -> bool:
    """Return whether the installed JAX can compute an example; the release that the tests are
    written for can.
    """
    if IS_ORACLE:
        return True
    import jax

    try:
        jax.make_jaxpr(in_jax(example))(*inputs(example))
    except (AttributeError, ImportError, KeyError, jt.UnsupportedError):
        return False
    except Exception:  # what else is wrong with it, its test says
        return True
    return True


def _tolerance(dtype: Any) -> float:
    ours_ = dtype_of(dtype)
    assert ours_ is not None
    real = ours_.real
    if real.name == "bfloat16":
        return TOLERANCE["bf16"]
    return TOLERANCE.get(f"f{real.bits // 8}", TOLERANCE["small"])


def assert_close(actual: Any, expected: Any, *, scale: float = 1.0, what: str = "") -> None:
    """Equal shapes and dtypes, and elements equal up to rounding (exactly, for integers)."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: {actual.shape} is not {expected.shape}"
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} is not {expected.dtype}"
    dtype = dtype_of(actual.dtype)
    if dtype is None or dtype.kind == "0":
        return
    if not dtype.is_inexact:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    tol = _tolerance(dtype) * scale
    wide = np.complex128 if dtype.kind == "c" else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    size = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(size, 1e-3), err_msg=what)


def tangent_like(x: Any, seed: int) -> Any:
    """A random tangent of a value: float0 zeros for integers."""
    x = np.asarray(x)
    dtype = dtype_of(x.dtype)
    assert dtype is not None
    rng = np.random.default_rng(seed)
    if not dtype.is_inexact:
        return np.zeros(x.shape, [("float0", np.void, 0)])
    t = rng.normal(size=x.shape)
    if dtype.kind == "c":
        t = t + 1j * rng.normal(size=x.shape)
    return np.asarray(t).astype(x.dtype)


def sample(combinations: Any, limit: int = 12) -> list[Any]:
    """Return at most `limit` combinations: the first one, and evenly spread others."""
    found = list(combinations)
    if len(found) <= limit:
        return found
    step = len(found) / limit
    return [found[int(i * step)] for i in range(limit)]


def aval_of(x: Any) -> Any:
    """The type of a value."""
    return get_aval(x)


_inputs: dict[tuple[int, int], list[Any]] = {}


def inputs(example: Example, seed: int = 0) -> list[Any]:
    """Return the values of the operands, in a new list; the arrays are shared and read-only."""
    key = id(example), seed
    if key not in _inputs:
        _inputs[key] = make_inputs(example, seed)
        for x in _inputs[key]:
            x.flags.writeable = False
    return list(_inputs[key])


product = itertools.product
