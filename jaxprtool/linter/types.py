"""Lint rules of types that cause recompilation, or wider element types than intended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Aval
from jaxprtool.linter.engine import View
from jaxprtool.linter.frames import At, Frame
from jaxprtool.linter.registry import Found, lint_rule

__all__ = ["step_type", "weak_carry", "weak_input", "weak_output", "wide_type"]


def _is_weak(aval: Aval) -> bool:
    return isinstance(aval, ShapedArray) and aval.weak_type


@lint_rule(
    "weak-input",
    family="types",
    kind="program",
    mend="give it a type: jnp.asarray(x, jnp.float32), or np.float32(x)",
)
def weak_input(view: View) -> Iterator[Found]:
    """An argument is weakly typed: it was a Python number.

    A call with an array of the same shape and element type has another type, so that jit traces and
    compiles the function again; and the number is promoted to the types of its operands, which may
    differ from call to call.
    """
    for v, label in zip(view.program.jaxpr.in_binders, view.arguments, strict=True):
        if _is_weak(v.aval):
            message = f"{label} is a weakly typed {v.aval}: an array in its place compiles again"
            yield Found(message, var=v, label=label)


@lint_rule(
    "weak-output",
    family="types",
    kind="program",
    mend="give it a type where it is made: jnp.zeros((), jnp.float32) for 0.0",
)
def weak_output(view: View) -> Iterator[Found]:
    """A result is weakly typed, although no argument is.

    If it becomes an argument of the next call, that call has another type than the first one, and
    is compiled again.
    """
    jaxpr = view.program.jaxpr
    if any(_is_weak(v.aval) for v in jaxpr.in_binders):
        return  # these are the cause, and have their own finding
    for x, label in zip(jaxpr.outs, view.results, strict=True):
        if _is_weak(x.aval):
            made = view.frames[0].maker(x)
            place = made and view.frames[0].place(made[0])
            message = f"{label} is a weakly typed {x.aval}"
            yield Found(message, place or None, label=label)


@lint_rule(
    "weak-carry",
    "scan",
    "while",
    family="types",
    mend="start the loop from a typed value: jnp.float32(0) for 0.0",
)
def weak_carry(at: At) -> str | None:
    """A loop carries a weakly typed floating-point number.

    It started as a Python number. JAX traces the body again until the types of the carry before and
    after a step agree, and the result of the loop is weakly typed, too.
    """
    carried = at.eqn.out_binders[: at.params.get("num_carry", len(at.eqn.out_binders))]
    weak = [v.aval for v in carried if _is_weak(v.aval) and v.aval.dtype.kind in "fc"]
    return f"the loop carries a weakly typed {weak[0]}" if weak else None


@lint_rule(
    "wide-type",
    family="types",
    kind="program",
    mend="name the type: dtype=jnp.float32 where the value is made",
)
def wide_type(view: View) -> Iterator[Found]:
    """A 64-bit floating-point number (f64, c128) appears in a program whose arguments have none.

    Usually it comes from a NumPy array, which is f64 by default, under `jax_enable_x64`. Everything
    that is computed with it is f64 as well: it takes twice the memory, and many times the time on
    accelerators, some of which have no f64 at all.
    """
    jaxpr = view.program.jaxpr
    if any(_is_wide(v.aval) for v in jaxpr.all_binders):
        return
    for frame in view.frames:
        yield from _first_wide(frame)


def _first_wide(frame: Frame) -> Iterator[Found]:
    """Yield the equations of a jaxpr with a 64-bit result and no 64-bit operand."""
    for eqn in frame.jaxpr.eqns:
        for v in eqn.out_binders:
            if _is_wide(v.aval):
                if not any(_is_wide(x.aval) for x in eqn.inputs) and not eqn.primitive.holds_jaxprs:
                    yield Found(f"{v.aval} appears here, made of narrower values", frame.place(eqn))
                break


_WIDE = frozenset({"f64", "c128"})


def _is_wide(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.dtype.short in _WIDE


@lint_rule(
    "step-type",
    family="types",
    kind="program",
    mend="convert the result to the argument's type (x.astype), and type what it starts from",
)
def step_type(view: View) -> Iterator[Found]:
    """A step does not return exactly the types that it takes.

    `--carry 0:0` says that result 0 is argument 0 of the next call. If it has another shape,
    element type, weak type or sharding, the second call is traced and compiled again (and in a loop
    it is an error).
    """
    jaxpr = view.program.jaxpr
    for out, i in view.options.carry:
        given, taken = jaxpr.outs[out].aval, jaxpr.in_binders[i].aval
        differ = _difference(given, taken)
        if differ:
            made = view.frames[0].maker(jaxpr.outs[out])
            place = view.frames[0].place(made[0]) if made else None
            message = f"{view.results[out]} is {_told(given)}, and {view.arguments[i]} is {_told(taken)}: {differ}"
            yield Found(message, place, None if place else jaxpr.in_binders[i])


def _difference(a: Aval, b: Aval) -> str:
    """Return the difference of two types in words; "" for equal ones."""
    if a is b or a == b:
        return ""
    if not isinstance(a, ShapedArray) or not isinstance(b, ShapedArray):
        return "the types differ"
    parts = {
        "shape": a.shape != b.shape,
        "element type": a.dtype != b.dtype,
        "weak type": a.weak_type != b.weak_type,
        "sharding": a.shape == b.shape and (a.spec, a.vary) != (b.spec, b.vary),
        "memory": a.memory != b.memory,
    }
    return "another " + " and ".join(k for k, differs in parts.items() if differs)


def _told(aval: Aval) -> str:
    return f"a weakly typed {aval}" if _is_weak(aval) else str(aval)
