"""A slow evaluator of patterns, order and flow: programs are written out, one equation after the other, without any sharing.

It is written for the tests alone, and shares nothing with `jaxprtool.analyses.asking` but the nodes of what is read.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any, NamedTuple

from jaxprtool.core.primitive import vocabulary
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["At", "count", "flows", "matching", "written_out"]


class At(NamedTuple):
    """An equation where it is used: its beginning and end in the program written out, and what is around it."""

    eqn: JaxprEqn
    begin: int
    end: int
    around: tuple[JaxprEqn, ...]


def written_out(program: ClosedJaxpr) -> list[At]:
    """All equations, those of a jaxpr as often as it is used."""
    found: list[At | None] = []

    def walk(jaxpr: Jaxpr, around: tuple[JaxprEqn, ...]) -> None:
        for eqn in jaxpr.eqns:
            begin = len(found)
            found.append(None)
            for inner in inside(eqn):
                walk(inner, (*around, eqn))
            found[begin] = At(eqn, begin, len(found), around)

    walk(program.jaxpr, ())
    return [at for at in found if at is not None]


def inside(eqn: JaxprEqn) -> list[Jaxpr]:
    runs = [run.jaxpr.jaxpr for run in runs_of(eqn)]
    if not runs and not eqn.primitive.known:
        return [c.jaxpr for c in sub_jaxprs(eqn)]
    return runs


def count(program: ClosedJaxpr, pattern: Any, top: bool = False) -> int:
    """How often a pattern is in a program."""
    return len(matching(program, pattern, top))


def matching(program: ClosedJaxpr, pattern: Any, top: bool = False) -> list[Any]:
    """The equations (`At`) or values (pairs of an atom and the `At` that makes it, or None) that match."""
    here = [at for at in written_out(program) if not top or not at.around]
    if pattern.value is None:
        names = {at.eqn.primitive.name for at in here} | vocabulary().keys()
        return [at for at in here if named(pattern, at, names) and rest(pattern, at)]
    values: list[Any] = [(v, None) for v in program.jaxpr.all_binders]
    for at in here:
        atoms = [x for x in at.eqn.inputs if isinstance(x, Lit)] + [*at.eqn.out_binders]
        values += [(x, at) for x in atoms]
    return [
        (x, at)
        for x, at in values
        if is_type(pattern.value, x.aval) and all(true(f, at, [x]) for f in pattern.filters)
    ]


def named(pattern: Any, at: At, names: Any) -> bool:
    own = at.eqn.primitive.name
    for head in pattern.heads:
        if head.name is None or head.name == own:
            return True
        if "*" in (head.name or ""):
            if fnmatch.fnmatchcase(own, head.name):
                return True
        elif head.name not in names and head.name in re.split("[-_]", own):
            return True
    return False


def rest(pattern: Any, at: At) -> bool:
    outs = at.eqn.out_binders
    if len(outs) < len(pattern.results):
        return False
    if not all(is_type(p, v.aval) for p, v in zip(pattern.results, outs, strict=False)):
        return False
    assert not pattern.params
    operands = list(at.eqn.inputs)
    for wanted in pattern.operands:
        while operands and not is_operand(wanted, operands[0]):
            operands.pop(0)
        if not operands:
            return False
        operands.pop(0)
    return all(true(f, at, outs) for f in pattern.filters)


def is_operand(wanted: Any, x: Any) -> bool:
    if wanted.literal is not None:
        return isinstance(x, Lit) and isinstance(x.val, (int, float)) and x.val == wanted.literal
    if wanted.name is not None and getattr(x, "name", None) != wanted.name:
        return False
    return wanted.type is None or is_type(wanted.type, x.aval)


def is_type(wanted: Any, aval: Any) -> bool:
    aval = getattr(aval, "inner", aval)
    if not hasattr(aval, "shape"):
        return False
    if wanted.dtype not in (None, aval.dtype.short) or wanted.memory not in ("", aval.memory):
        return False
    return wanted.dims is None or is_shape(list(wanted.dims), list(aval.shape))


def is_shape(dims: list[Any], shape: list[Any]) -> bool:
    if not dims:
        return not shape
    if dims[0] is ...:
        return any(is_shape(dims[1:], shape[i:]) for i in range(len(shape) + 1))
    return bool(shape) and dims[0] in (None, shape[0]) and is_shape(dims[1:], shape[1:])


def true(f: Any, at: At | None, outs: Any) -> bool:
    """Whether a filter holds."""
    if hasattr(f, "kind"):
        values = [true(part, at, outs) for part in f.parts]
        return not values[0] if f.kind == "not" else (all if f.kind == "and" else any)(values)
    a = f.attribute
    if a.field in ("scope", "depth", "inside", "primitive"):
        return whole(f, at)
    atoms = outs if a.of == "out" else [] if at is None else list(at.eqn.inputs)
    if a.position is not None:
        atoms = atoms[a.position : a.position + 1]
    values = [compare(f.op, of_value(a.field, x), f.value) for x in atoms]
    return any(values) if f.some else bool(values) and all(values)


def whole(f: Any, at: At | None) -> bool:
    field = f.attribute.field
    around = () if at is None else at.around
    if field == "depth":
        return compare(f.op, len(around) + 1, f.value)
    if field == "inside":
        one = any(e.primitive.name == f.value for e in around)
        return one == (f.op == "==")
    if at is None:
        return f.op in ("!=", "!~")
    if field == "primitive":
        return compare(f.op, at.eqn.primitive.name, f.value)
    names = [n for e in (*around, at.eqn) if e.origin is not None for n in e.origin.names or ()]
    return compare(f.op, "/".join(names), f.value)


def of_value(field: str, x: Any) -> Any:
    aval = getattr(x.aval, "inner", x.aval)
    if not hasattr(aval, "shape"):
        return None
    return {
        "dtype": aval.dtype.short,
        "shape": list(aval.shape),
        "rank": len(aval.shape),
        "bytes": aval.nbytes,
        "memory": aval.memory or "device",
    }[field]


def compare(op: str, a: Any, b: Any) -> bool:
    if a is None:
        return op in ("!=", "!~")
    if op in ("~", "!~"):
        return (re.search(b.text, a) is not None) == (op == "~")
    if isinstance(a, list):
        return is_shape(list(b), a) == (op == "==")
    return bool(eval(f"a {op} b", {"a": a, "b": b}))  # one of six operators


# -- flow ---------------------------------------------------------------------------------------------


def flows(program: ClosedJaxpr, begin: Any, sinks: set[int]) -> bool:
    """Whether the results of an equation (an `At`) reach an operand of an equation in `sinks` (ids).

    Jaxprs are run on marks, each call by itself, until the marks of loops do not change any more.
    """
    reached = False

    def run(jaxpr: Jaxpr, marks: list[bool], around: tuple[JaxprEqn, ...]) -> list[bool]:
        nonlocal reached
        env = dict(zip(jaxpr.in_binders, marks, strict=True))

        def read(x: Any) -> bool:
            return not isinstance(x, Lit) and env.get(x, False)

        for eqn in jaxpr.eqns:
            ins = [read(x) for x in eqn.inputs]
            if id(eqn) in sinks and any(ins):
                reached = True
            outs = call(eqn, ins, (*around, eqn))
            if eqn is begin.eqn and around == begin.around:
                outs = [True] * len(outs)
            env.update(zip(eqn.out_binders, outs, strict=True))
        return [read(x) for x in jaxpr.outs]

    def call(eqn: JaxprEqn, ins: list[bool], around: tuple[JaxprEqn, ...]) -> list[bool]:
        name, params, n = eqn.primitive.name, eqn.params, len(eqn.out_binders)
        if name == "cond":
            outs = [run(b.jaxpr, ins[1:], around) for b in params["branches"]]
            return [ins[0] or any(marks) for marks in zip(*outs, strict=True)]
        if name == "scan":
            first, count = params["num_consts"], params["num_carry"]
            carry = ins[first : first + count]
            while True:
                outs = run(
                    params["jaxpr"].jaxpr, ins[:first] + carry + ins[first + count :], around
                )
                new = [a or b for a, b in zip(carry, outs[:count], strict=True)]
                if new == carry:
                    return new + outs[count:]
                carry = new
        if name == "while":
            a, b = params["cond_nconsts"], params["body_nconsts"]
            carry = ins[a + b :]
            while True:
                decided = run(params["cond_jaxpr"].jaxpr, ins[:a] + carry, around)
                outs = run(params["body_jaxpr"].jaxpr, ins[a : a + b] + carry, around)
                new = [x or y or decided[0] for x, y in zip(carry, outs, strict=True)]
                if new == carry:
                    return new
                carry = new
        inner = inside(eqn)
        if inner:
            return run(inner[0], ins, around)
        return [any(ins)] * n

    run(program.jaxpr, [False] * len(program.jaxpr.in_binders), ())
    return reached
