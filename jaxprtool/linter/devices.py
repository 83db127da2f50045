"""Lint rules of collectives, of moves between memories, and of donated arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from jaxprtool.interpreters.check import memory_facts
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import JaxprEqn, Lit, Primitive
from jaxprtool.linter.frames import At, Frame
from jaxprtool.linter.registry import Found, lint_rule
from jaxprtool.linter.repeats import copies_in, is_collective

__all__ = ["donated_twice", "donation_unused", "offload_in_loop", "repeated_collective"]


@lint_rule(
    "repeated-collective",
    family="devices",
    kind="jaxpr",
    mend="do it once, and use the result twice",
    fix="cse",
)
def repeated_collective(frame: Frame) -> Iterator[Found]:
    """The same value is sent twice, by the same collective.

    A collective waits for all devices and sends its operand through the network. The compiler
    removes a second one only if it can prove that the order does not matter.
    """
    for eqn, first in copies_in(frame.jaxpr).items():
        if is_collective(eqn):
            message = f"this {eqn.primitive.name} sends what another one has sent"
            yield Found(message, frame.place(eqn), related=(frame.place(first),))


def _may_move(primitive: Primitive) -> bool:
    """Whether results of a primitive may be in another memory than its operands."""
    return memory_facts[primitive] == "rule" and not primitive.holds_jaxprs


@lint_rule(
    "offload-in-loop",
    _may_move,
    family="devices",
    mend="move what does not change before the loop, or the whole array after it",
)
def offload_in_loop(at: At) -> Iterator[str]:
    """A loop moves arrays between the host's memory and the device's in each iteration.

    The connection between them is about a hundred times slower than the device's memory. Moving
    pays off if a reverse pass offloads its residuals and the copies overlap with the computation;
    otherwise the loop waits for the copies.
    """
    if at.frame.turns < 2:
        return
    for x, v in zip(at.eqn.inputs, at.eqn.out_binders, strict=False):
        if isinstance(x.aval, ShapedArray) and x.aval.memory != v.aval.memory:
            there = f"to the {v.aval.memory}" if v.aval.memory else "to the device"
            yield f"{x.aval} is moved {there} in each turn of a loop"


def _donated(eqn: JaxprEqn) -> list[int]:
    """Return the positions of the operands that a call donates."""
    flags = eqn.params.get("donated_invars") or ()
    return [i for i, flag in enumerate(flags) if flag is True and i < len(eqn.inputs)]


def _may_donate(primitive: Primitive) -> bool:
    return "donated_invars" in primitive.params


@lint_rule(
    "donation-unused",
    _may_donate,
    family="devices",
    mend="donate only arguments that the function returns updated, with the same shape and type",
)
def donation_unused(at: At) -> Iterator[str]:
    """A donated argument's memory cannot be used for any result.

    XLA stores a result in a donated buffer of the same shape and element type. If no such result is
    left (each buffer holds one), the argument is deleted and no memory is saved; JAX warns of it
    when it compiles.
    """
    left = Counter(_room(v.aval) for v in at.eqn.out_binders)
    for i in _donated(at.eqn):
        room = _room(at.eqn.inputs[i].aval)
        if left[room] > 0:
            left[room] -= 1
        else:
            yield f"operand {i} of type {at.eqn.inputs[i].aval} is donated, and no result is left of its shape and type"


def _room(aval: Any) -> Any:
    return (aval.shape, aval.dtype, aval.spec) if isinstance(aval, ShapedArray) else aval


@lint_rule(
    "donated-twice",
    family="devices",
    kind="jaxpr",
    mend="do not donate it, or use the result of the call instead",
)
def donated_twice(frame: Frame) -> Iterator[Found]:
    """A donated argument is used again after the call to which it was donated.

    Its memory may then hold a result. In an eager call JAX raises an error ("Array has been
    deleted"); inside another jit the donation has no effect, and no memory is saved.
    """
    given: dict[Any, JaxprEqn] = {}
    for eqn in frame.jaxpr.eqns:
        if given:
            for x in dict.fromkeys(eqn.inputs):
                call = given.pop(x, None)
                if call is not None:
                    message = f"{_name(x)} is used here, after it was donated"
                    yield Found(message, frame.place(eqn), related=(frame.place(call),))
        if "donated_invars" not in eqn.params:
            continue
        for x in [eqn.inputs[i] for i in _donated(eqn)]:
            if type(x) is Lit:
                continue
            if x in frame.jaxpr.outs or eqn.inputs.count(x) > 1:
                how = "returned" if x in frame.jaxpr.outs else "another operand too"
                yield Found(f"{_name(x)} is donated, and {how}", frame.place(eqn))
            else:
                given[x] = eqn


def _name(x: Any) -> str:
    return x.name or "a value"
