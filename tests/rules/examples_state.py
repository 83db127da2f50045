"""Sample operands of operations on references, whose cells are made and read inside of an example; of broadcast_to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.references import Indexer, Item, Operand, RefIndex, Slice
from tests.rules.example import Example, arg


def _in_jax(x: Any, *, shape: tuple[int, ...]) -> Any:
    from jax import numpy as jnp

    return jnp.broadcast_to(x, shape)


def _broadcast(operand: str, *shape: int) -> Example:
    return Example(lax.broadcast_to, (arg(operand),), {"shape": shape}, jax=_in_jax)


def staged(f: Callable[..., Any]) -> Callable[..., Any]:
    """f as a program: transformations discharge the references of a program, and of nothing less."""

    def op(*args: Any, **params: Any) -> Any:
        program = jt.make_jaxpr(lambda *xs: f(*xs, **params))(*[get_aval(x) for x in args])
        return jt.jaxpr_as_fun(program)(*args)

    op.plain = f  # type: ignore[attr-defined]
    return op


def _get(x: Any, *operands: Any, **params: Any) -> Any:
    ref = lax.new_ref(x)
    return lax.get(ref, *operands, **params), lax.freeze(ref)


def _swap(x: Any, value: Any, *operands: Any, **params: Any) -> Any:
    ref = lax.new_ref(x)
    return lax.swap(ref, value, *operands, **params), lax.freeze(ref)


def _addupdate(x: Any, value: Any, *operands: Any, **params: Any) -> Any:
    ref = lax.new_ref(x)
    lax.addupdate(ref, value, *operands, **params)
    return lax.freeze(ref)


_OPS = {lax.get: _get, lax.swap: _swap, lax.addupdate: _addupdate}


def _jax_op(op: Any, where: Callable[..., Any]) -> Callable[..., Any]:
    """where: operands of the index -> the index, as Python writes it."""

    def in_jax(x: Any, *rest: Any, **_: Any) -> Any:
        import jax
        from jax._src.state.primitives import ref_addupdate, ref_get, ref_swap

        ref = jax.new_ref(x)
        if op is lax.get:
            return ref_get(ref, where(*rest)), jax.freeze(ref)
        value, *operands = rest
        if op is lax.swap:
            return ref_swap(ref, where(*operands), value), jax.freeze(ref)
        ref_addupdate(ref, where(*operands), value)
        return jax.freeze(ref)

    return in_jax


def _indexed(x: str, value: str, index: RefIndex, where: Callable[..., Any], *operands: Any) -> Any:
    """An index in all three operations; operands: (type, values) each."""
    found = []
    for op, function in _OPS.items():
        types = [arg(x)] if op is lax.get else [arg(x), arg(value)]
        types += [arg(t, values=v) for t, v in operands]
        label = f"{x}-{index}"
        found.append(
            Example(
                staged(function),
                tuple(types),
                {"index": index},
                label=label,
                jax=_jax_op(op, where),
                of=op,
            )
        )
    return found


def _at(*items: Item) -> RefIndex:
    return RefIndex(Indexer(items))


def _kept(x: Any) -> Any:
    return lax.freeze(lax.new_ref(x))


def _kept_in_jax(x: Any) -> Any:
    import jax

    return jax.freeze(jax.new_ref(x))


def _given_up(x: Any) -> Any:
    ref = lax.new_ref(x)
    out = lax.get(ref, index=RefIndex())
    lax.free_ref(ref)
    return out


def _given_up_in_jax(x: Any) -> Any:
    import jax

    ref = jax.new_ref(x)
    out = ref[...]
    jax.free_ref(ref)
    return out


def _filled(x: Any, *, ty: Any) -> Any:
    """What was in the cell is not told, so it is written first."""
    ref = lax.empty_ref(ty=ty)
    lax.swap(ref, x, index=RefIndex())
    return lax.freeze(ref)


def _filled_in_jax(x: Any, **_: Any) -> Any:
    import jax

    ref = jax.empty_ref(jax.typeof(x))
    ref[...] = x
    return jax.freeze(ref)


def _exchange(a: Any, b: Any) -> tuple[()]:
    """Cells a and b: the sine of the second goes to the first, the old first one is added to the second."""
    old = lax.swap(a, lax.sin(lax.get(b, index=RefIndex())), index=RefIndex())
    lax.addupdate(b, old, index=RefIndex())
    return ()


def _exchange_in_jax(x: Any, y: Any, **_: Any) -> Any:
    import jax
    from jax._src.state.discharge import run_state
    from jax._src.state.primitives import ref_addupdate, ref_get, ref_swap

    def body(refs: Any) -> None:
        old = ref_swap(refs[0], ..., jax.numpy.sin(ref_get(refs[1], ...)))
        ref_addupdate(refs[1], ..., old)

    return run_state(body)((x, y))


def _states(t: str) -> Example:
    aval = arg(t).aval
    jaxpr: ClosedJaxpr = jt.make_jaxpr(_exchange)(RefType(aval), RefType(aval))

    def op(*xs: Any, **params: Any) -> Any:
        return lax.run_state(*xs, jaxpr=jaxpr, **params)

    return Example(
        staged(op), (arg(t), arg(t)), label=f"exchange-{t}", jax=_exchange_in_jax, of=lax.run_state
    )


def _slice_in_jax(start: Any, size: int) -> Any:
    from jax._src.state.indexing import Slice

    return Slice(start, size)


I32 = "i32[]"
ALL = Slice()

EXAMPLES = [
    *_indexed("f64[4,3]", "f64[4,3]", RefIndex(), lambda: ...),
    *_indexed("f64[]", "f64[]", RefIndex(), lambda: ...),
    *_indexed("f64[4,3]", "f64[3]", _at(-1, ALL), lambda: (-1, slice(None))),
    *_indexed("f64[4,3]", "f64[2]", _at(Slice(1, 2), 0), lambda: (slice(1, 3), 0)),
    *_indexed("f64[4,3]", "f64[3]", _at(Operand(0), ALL), lambda i: (i, slice(None)), (I32, 2)),
    *_indexed("f32[4,3]", "f32[3]", _at(Operand(0), ALL), lambda i: (i, slice(None)), (I32, 9)),
    *_indexed(
        "f64[4,3]",
        "f64[3]",
        _at(Operand(0), Operand(1)),
        lambda i, j: (i, j),
        ("i32[3]", [0, 1, 1]),
        ("i32[3]", [0, 2, 1]),
    ),
    *_indexed(
        "f64[4,3]",
        "f64[2,3]",
        _at(Slice(Operand(0), 2), ALL),
        lambda i: (_slice_in_jax(i, 2), slice(None)),
        (I32, 1),
    ),
    *_indexed("i32[3]", "i32[]", _at(0), lambda: (0,)),
    *[
        Example(staged(_kept), (arg(t),), label=t, jax=_kept_in_jax, of=op)
        for op in (lax.new_ref, lax.freeze)
        for t in ("f64[2]", "i32[]", "bf16[0]")
    ],
    Example(
        staged(_given_up), (arg("f64[2]"),), label="f64[2]", jax=_given_up_in_jax, of=lax.free_ref
    ),
    *[
        Example(
            staged(_filled),
            (arg(t),),
            {"ty": arg(t).aval},
            label=t,
            smooth=False,  # of one type
            jax=_filled_in_jax,
            of=lax.empty_ref,
        )
        for t in ("f64[2]", "f32[]")
    ],
    _states("f64[3]"),
    _states("f32[]"),
    _broadcast("i32[]", 2),
    _broadcast("i32[2,1]", 2, 2),
    _broadcast("f32[3]", 2, 3),
    _broadcast("f64[1,3]", 4, 2, 3),
    _broadcast("f32[0]", 2, 0),
]
