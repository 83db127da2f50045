"""Random expressions of `assert`: well-formed ones about a program, and texts that are changed somewhere."""

from __future__ import annotations

import random

from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns

__all__ = ["changed", "condition", "expression", "pattern", "type_text"]

ORDERS = ("==", "!=", "<", "<=", ">", ">=")
FIGURES = (
    "peak", "flops", "transcendentals", "bytes", "communication", "equations", "executed", "depth", "constants", "arguments",
)  # fmt: skip
PIECES = (
    "no", "some", "all", "every", "where", "feeds", "before", "first", "last", "and", "or", "not", "any", "count(", "top.count(",
    "growth(", "residuals(", "peak", "bytes", "A", "B", ", B", "S", "(", ")", "[", "]", "{", "}", "==", "=", "<=", "~", "!~", "+",
    "-", "*", "/", "2", "2GiB", "1e999", "9" * 30, "0", "_", "...", "f32", "f32[2, _]", "f64<host>[8]", "sin|cos", "reduce_*",
    "*callback", "'f32[2]'", '"sin"', "scope", "in.dtype", "out[0].shape", "param.axes", "(a*)*$", "[a-", "\\", "é", "\x00", "'", '"',
    "dots", "names=a+b", "name=x", "depth", "inside", "key<fry>[]", "scatter-add", "999999999999999999999", "\n", "pjit", ".", 'params["w"]', "params.w", "x/y", "x[0]:f32[2]",
)  # fmt: skip


def expression(rng: random.Random, program: ClosedJaxpr, depth: int = 0) -> str:
    """A well-formed expression, mostly about what is in a program."""
    kind = rng.randrange(10 if depth < 3 else 7)
    if kind == 0:
        return f"{rng.choice(('no', 'some'))} {pattern(rng, program)}"
    if kind == 1:
        return f"all {pattern(rng, program)} where {condition(rng, program)}"
    if kind == 2:
        every = rng.choice(("all ", ""))
        return f"{every}{pattern(rng, program)} feeds {pattern(rng, program)}"
    if kind == 3:
        ends = [f"{rng.choice(('', 'first ', 'last '))}{pattern(rng, program)}" for _ in range(2)]
        return " before ".join(ends)
    if kind < 7:
        words = [number(rng, program)]
        for _ in range(rng.choice((1, 1, 1, 2))):
            words += [rng.choice(ORDERS), number(rng, program)]
        return " ".join(words)
    parts = [expression(rng, program, depth + 1) for _ in range(2)]
    return (f"({parts[0]}) and ({parts[1]})", f"({parts[0]}) or {parts[1]}", f"not ({parts[0]})")[
        kind - 7
    ]


def number(rng: random.Random, program: ClosedJaxpr) -> str:
    kind = rng.randrange(8)
    if kind < 2:
        return rng.choice(("0", "1", "2.5", "1e3", "2KiB", "10"))
    if kind < 5:
        return (
            f"{rng.choice(('', 'top.'))}count({pattern(rng, program)}{rng.choice(('', '', ', B'))})"
        )
    if kind == 5:
        figure = rng.choice(FIGURES)
        return figure + rng.choice(("", "", "(B)", f"({pattern(rng, program)})"))
    if kind == 6:
        policy = rng.choice(("", "(dots)", "(nothing)", "(names=a+b)", "(everything, B)"))
        return f"residuals{policy}.{rng.choice(('bytes', f'count({type_text(rng, program)})'))}"
    a, b = number(rng, program), number(rng, program)
    return rng.choice((f"({a} {rng.choice('+-*/')} {b})", f"-{a}", f"growth({a}, S)"))


def pattern(rng: random.Random, program: ClosedJaxpr) -> str:
    """A pattern that mostly matches something."""
    if rng.random() < 0.2:
        return type_text(rng, program) + _braces(rng, program)
    eqns = [*all_eqns(program.jaxpr)]
    if not eqns or rng.random() < 0.1:
        return rng.choice(("_", "sin", "callback", "collective", "reduce_*", "pjit", "nothing"))
    eqn = rng.choice(eqns)
    name = eqn.primitive.name
    text = rng.choice((name, name, name, "_", f"{name}|sin", f"{name[:2]}*"))
    if eqn.params and rng.random() < 0.2:
        key = rng.choice([*eqn.params])
        text += f"[{key}={rng.choice(('_', 'None', 'True', '(0,)', '3'))}]"
    if rng.random() < 0.2:
        text += f" {rng.choice(('_', f'_:{type_text(rng, program)}', '2.0', 'a'))}"
    if rng.random() < 0.1:
        text = f"_:{type_text(rng, program)} = {text}"
    return text + _braces(rng, program)


def _braces(rng: random.Random, program: ClosedJaxpr) -> str:
    return f" {{{condition(rng, program)}}}" if rng.random() < 0.3 else ""


def type_text(rng: random.Random, program: ClosedJaxpr) -> str:
    """A type with holes, of a result in a program."""
    types = [v.aval for e in all_eqns(program.jaxpr) for v in e.out_binders]
    arrays = [t for t in types if getattr(t, "shape", None) is not None and t.dtype.kind != "?"]
    if not arrays:
        return "f32[2, _]"
    chosen = rng.choice(arrays)
    dims = [rng.choice((str(d), "_")) for d in chosen.shape]
    if rng.random() < 0.2:
        dims = ["...", *dims[rng.randrange(len(dims) + 1) :]]
    return rng.choice((chosen.dtype.short, f"{chosen.dtype.short}[{', '.join(dims)}]"))


def condition(rng: random.Random, program: ClosedJaxpr, depth: int = 0) -> str:
    """A filter."""
    dtype = type_text(rng, program).partition("[")[0]
    eqns = [*all_eqns(program.jaxpr)]
    name = rng.choice(eqns).primitive.name if eqns else "sin"
    order = rng.choice(ORDERS)
    simple = (
        f"{rng.choice(('in', 'out', 'any in', 'any out'))}.dtype {rng.choice(('==', '!='))} {dtype}",
        f"out.rank {order} {rng.randrange(4)}",
        f"in[{rng.randrange(3)}].bytes {order} {rng.choice(('8', '1KiB'))}",
        f"depth {order} {rng.randrange(1, 4)}",
        f"inside {rng.choice(('==', '!='))} {name}",
        f"primitive {rng.choice(('~', '!~'))} '{name[:2]}|^s.*n$'",
        f"scope {rng.choice(('~', '!~', '=='))} jvp",
        f"shape == [{rng.choice(('2', '_', '...'))}]",
        "memory == device",
    )
    if depth < 2 and rng.random() < 0.3:
        a, b = condition(rng, program, depth + 1), condition(rng, program, depth + 1)
        return rng.choice((f"({a}) and {b}", f"({a} or {b})", f"not ({a})"))
    return rng.choice(simple)


def changed(rng: random.Random, text: str) -> str:
    """A text with pieces of the language put in, taken out or exchanged."""
    words = text.split(" ")
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(words) + 1)
        how = rng.randrange(4)
        if how == 0:
            words.insert(at, rng.choice(PIECES))
        elif how == 1:
            words[at : at + 1] = [rng.choice(PIECES)]
        elif how == 2:
            words = words[:at] or words
        else:
            joined = " ".join(words)
            cut = rng.randrange(len(joined) + 1)
            words = (joined[:cut] + rng.choice(PIECES) + joined[cut + 1 :]).split(" ")
    return " ".join(words)
