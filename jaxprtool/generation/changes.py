"""Programs of one to three equations made by mutating seeds.

They may be well-typed or wrong in any way.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

from jaxprtool.generation.seeds import seeds
from jaxprtool.interpreters.check import typecheck_eqn
from jaxprtool.ir.avals import AbstractToken, FutureType, OpaqueType, RefType, ShapedArray
from jaxprtool.ir.diagnostics import JaxprTypeError
from jaxprtool.ir.dtypes import FLOAT32, INT32, custom_dtype, find_dtype
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Params, Var
from jaxprtool.ir.params import NumpyScalar, Opaque, Record, Word

__all__ = ["copied", "draw_program", "mutated", "retyped"]

_DTYPES = [
    "f32",
    "f32",
    "f64",
    "bf16",
    "f16",
    "i32",
    "i8",
    "u32",
    "u8",
    "bool",
    "c64",
    "i4",
    "u2",
    "f8_e4m3fn",
    "f4_e2m1fn",
    "float0",
    "key<fry>",
    "key<rbg>",
]
_SCALARS = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    3,
    7,
    1 << 31,
    1 << 62,
    1 << 64,
    -(1 << 70),
    1.5,
    2.0,
    float("nan"),
    1j,
    "x",
    "",
    Word("f"),
    Word("GatherScatterMode.CLIP"),
    Opaque("<f at 0x1>"),
    NumpyScalar(1),
    FLOAT32,
    INT32,
    find_dtype("key<fry>"),
    find_dtype("float0"),
    custom_dtype("odd_type"),
    ShapedArray((2,), FLOAT32),
    Record("Odd", (), a=1),
    ...,
    slice(None, 2),
]


@functools.cache
def _jaxprs() -> list[ClosedJaxpr]:
    """Return the jaxprs in params of the examples."""
    values = [
        v
        for programs in seeds().values()
        for p in programs
        for e in p.eqns
        for v in e.params.values()
    ]
    flat = [x for v in values for x in (v if isinstance(v, (tuple, list)) else [v])]
    return [x for x in flat if isinstance(x, ClosedJaxpr)]


def _aval(rng: random.Random) -> Any:
    """Return a type; f32[] in the place of a type that no array has."""
    try:
        return _any_type(rng)
    except JaxprTypeError:
        return ShapedArray((), FLOAT32)


def _any_type(rng: random.Random) -> Any:
    """Return a type: most often a small array, sometimes a key, float0, a reference, a token or an unreadable type."""
    dtype = find_dtype(rng.choice(_DTYPES))
    if rng.random() < 0.03:
        dtype = custom_dtype("odd_type")
    pick = rng.random()
    if pick < 0.02:
        shape = rng.choice([(1,) * 65, (0, 1 << 62, 1 << 62), (1 << 62, 4), (1,) * 64, (1 << 40,)])
    else:
        shape = tuple(
            rng.choice((0, 1, 2, 3, 4)) for _ in range(rng.choice((0, 0, 1, 1, 2, 2, 3, 4)))
        )
    aval = ShapedArray(shape, dtype)
    if 0.02 < pick < 0.05:
        return RefType(aval)
    return (
        rng.choice([AbstractToken(), OpaqueType("Odd[2]"), FutureType(aval)])
        if 0.05 < pick < 0.07
        else aval
    )


def _near(rng: random.Random, aval: Any) -> Any:
    """Return a type that differs from one in the element type, a dimension or the rank."""
    if not isinstance(aval, ShapedArray) or rng.random() < 0.2:
        return _aval(rng)
    shape = list(aval.shape)
    pick = rng.random()
    if pick < 0.4:
        dtype = find_dtype(rng.choice(_DTYPES))
        return aval.update(dtype=dtype) if aval.ndim < 64 else aval
    if pick < 0.7 and shape:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 3, 4, 5))
    elif pick < 0.85:
        shape.insert(rng.randint(0, len(shape)), rng.choice((0, 1, 2)))
    elif shape:
        del shape[rng.randrange(len(shape))]
    try:
        return aval.update(shape=tuple(shape))
    except JaxprTypeError:
        return aval


def _changed(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """Return a value of a param with a random change."""
    if isinstance(value, ClosedJaxpr) and rng.random() < 0.8:
        return rng.choice(_jaxprs()) if rng.random() < 0.4 else mutated(rng, value)
    if isinstance(value, (tuple, list)) and rng.random() < 0.85:
        items = list(value)
        pick = rng.random()
        if items and pick < 0.6:
            i = rng.randrange(len(items))
            items[i] = _changed(rng, items[i], depth + 1)
        elif items and pick < 0.75:
            del items[rng.randrange(len(items))]
        else:
            items.insert(rng.randint(0, len(items)), rng.choice([*items, *_SCALARS]))
        return type(value)(items) if type(value) in (tuple, list) else tuple(items)
    if isinstance(value, Record) and rng.random() < 0.8:
        fields = dict(value.fields)
        if fields and rng.random() < 0.8:
            name = rng.choice([*fields])
            fields[name] = _changed(rng, fields[name], depth + 1)
        elif fields:
            del fields[rng.choice([*fields])]
        return Record(value.name, value.args, **fields)
    if isinstance(value, bool) and rng.random() < 0.7:
        return not value
    if type(value) is int and rng.random() < 0.6:
        return value + rng.choice((-2, -1, 1, 2))
    if depth < 3 and rng.random() < 0.25:
        return tuple(rng.choice(_SCALARS) for _ in range(rng.randrange(4)))
    return rng.choice(_SCALARS)


def _literal(rng: random.Random) -> Lit:
    """Return a literal, most often of rank 0; one of higher rank has no value in a text."""
    dtype = find_dtype(rng.choice(_DTYPES[:-3])) or FLOAT32
    if rng.random() < 0.15:
        return Lit(None, ShapedArray((rng.randrange(4),), dtype))
    value = {"b": True, "f": 1.5, "c": 1 + 2j}.get(dtype.kind, 1)
    return Lit(rng.choice((value, value, type(value)(0))), ShapedArray((), dtype))


def retyped(eqns: Sequence[JaxprEqn]) -> None:
    """Give results the types that the type rules give them, so that more of the programs are well-typed."""
    for eqn in eqns:
        try:
            avals = typecheck_eqn(eqn)
        except Exception:  # of any kind: checking the program will raise it again
            continue
        binders = eqn.out_binders[: len(avals)]
        for v, aval in zip(binders, avals, strict=False):
            amend(v, aval=aval)
        more = map(Var, avals[len(binders) :])
        amend(eqn, out_binders=(*binders, *more))


def copied(jaxpr: Jaxpr) -> Jaxpr:
    """Return a copy of the program with variables and equations of its own, which may be amended."""
    new: dict[Any, Var] = {}

    def var(x: Any) -> Any:
        if isinstance(x, Lit):
            return x
        if x not in new:
            new[x] = Var(x.aval)
        return new[x]

    consts, ins = [*map(var, jaxpr.const_binders)], [*map(var, jaxpr.in_binders)]
    eqns = [
        JaxprEqn(e.primitive, [*map(var, e.inputs)], dict(e.params), [*map(var, e.out_binders)])
        for e in jaxpr.eqns
    ]
    return Jaxpr(ins, eqns, [*map(var, jaxpr.outs)], consts)


def _mutate_operands(rng: random.Random, eqn: JaxprEqn, bound: list[Var]) -> None:
    """Swap, drop, repeat or replace an operand, in place."""
    ins, pick = [*eqn.inputs], rng.random()
    i = rng.randrange(len(ins)) if ins else 0
    if ins and pick < 0.15:
        del ins[i]
    elif ins and pick < 0.35:
        j = rng.randrange(len(ins))
        ins[i], ins[j] = ins[j], ins[i]
    elif pick < 0.5:
        ins.insert(i, rng.choice([*ins, *bound]) if ins or bound else _literal(rng))
    elif ins and pick < 0.7:
        ins[i] = _literal(rng)
    elif ins and bound:
        ins[i] = rng.choice(bound)
    amend(eqn, inputs=tuple(ins))


def _mutate(rng: random.Random, jaxpr: Jaxpr) -> None:
    """Change one thing of a program, in place."""
    pick, binders = rng.random(), jaxpr.all_binders
    if pick < 0.3 and binders:
        v = rng.choice(binders)
        aval = _near(rng, v.aval)
        for w in binders:  # all of one type together, often: `add a b` wants that
            if w is v or (w.aval is v.aval and rng.random() < 0.7):
                amend(w, aval=aval)
    elif jaxpr.eqns:
        k = rng.randrange(len(jaxpr.eqns))
        eqn = jaxpr.eqns[k]
        if pick < 0.5:
            bound = [*binders, *(v for e in jaxpr.eqns[:k] for v in e.out_binders)]
            _mutate_operands(rng, eqn, bound)
            return
        params = dict(eqn.params)
        if params and pick < 0.97:
            names = [n for n in params if not isinstance(params[n], str)] or [*params]
            name = rng.choice(names if rng.random() < 0.8 else [*params])
            params[name] = _changed(rng, params[name])
        elif params:
            del params[rng.choice([*params])]
        else:
            params["extra"] = rng.choice(_SCALARS)
        amend(eqn, params=Params(params))


def mutated(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program with one or two mutations, and types of results to match."""
    jaxpr = copied(program.jaxpr)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
        _mutate(rng, jaxpr)
    retyped(jaxpr.eqns)
    known = {*jaxpr.all_binders, *(v for e in jaxpr.eqns for v in e.out_binders)}
    outs = [x for x in jaxpr.outs if isinstance(x, Lit) or x in known]
    return ClosedJaxpr(jaxpr.replace(outs=outs), program.consts)


def _joined(rng: random.Random, first: Jaxpr, second: Jaxpr) -> Jaxpr:
    """Return one program followed by another, whose arguments are taken from values of the first
    where the types fit.
    """
    given = [*(v for e in first.eqns for v in e.out_binders), *first.in_binders]
    new: dict[Var, Any] = {}
    for v in second.in_binders:
        fitting = [x for x in given if x.aval is v.aval]
        if fitting and rng.random() < 0.8:
            new[v] = rng.choice(fitting)

    def renamed(x: Any) -> Any:
        return x if isinstance(x, Lit) else new.get(x, x)

    eqns = [*first.eqns, *(e.replace(inputs=map(renamed, e.inputs)) for e in second.eqns)]
    ins = [*first.in_binders, *(v for v in second.in_binders if v not in new)]
    consts = [*first.const_binders, *second.const_binders]
    return Jaxpr(ins, eqns, [*map(renamed, (*first.outs, *second.outs))], consts)


def draw_program(rng: random.Random) -> ClosedJaxpr:
    """Return a program of a few equations that may be wrong in any way."""
    bases = seeds()
    base = rng.choice(bases[rng.choice([*bases])])
    program = mutated(rng, base)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        other = mutated(rng, rng.choice(bases[rng.choice([*bases])]))
        jaxpr = _joined(rng, program.jaxpr, other.jaxpr)
        retyped(jaxpr.eqns)
        program = ClosedJaxpr(jaxpr, [*program.consts, *other.consts])
    return program
