"""Sample operands of atomic operations on a cell, which is made and read inside of an example."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.params import Opaque, Word
from tests.rules.example import Example, arg
from tests.rules.examples_state import staged

_DOES: dict[str, Any] = {
    "XCHG": lambda old, value: value,
    "ADD": lambda old, value: old + value,
    "MAX": lambda old, value: _jnp().maximum(old, value),
    "MIN": lambda old, value: _jnp().minimum(old, value),
    "AND": lambda old, value: old & value,
    "OR": lambda old, value: old | value,
    "XOR": lambda old, value: old ^ value,
}


def _jnp() -> Any:
    from jax import numpy as jnp

    return jnp


def _rmw(x: Any, *operands: Any, **params: Any) -> Any:
    ref = lax.new_ref(x)
    return lax.atomic_rmw(ref, *operands, **params), lax.freeze(ref)


def _cas(x: Any, compared: Any, value: Any) -> Any:
    ref = lax.new_ref(x)
    return lax.atomic_cas(ref, compared, value), lax.freeze(ref)


def _cas_in_jax(x: Any, compared: Any, value: Any) -> Any:
    return x, _jnp().where(x == compared, value, x)


def _tree(items: str, shape: str, dims: str = "()", leaves: str = "", mask: bool = False) -> Opaque:
    index = f"CustomNode(NDIndexer[(PyTreeDef(({items})), {shape}, {dims})], [{leaves}])"
    return Opaque(f"PyTreeDef((*, ({index},), *, {'*' if mask else None}))")


def _slice(start: int | None, size: int) -> str:
    return f"CustomNode(Slice[({start}, {size}, 1)], [{'*' if start is None else None}, None])"


def _in_jax(kind: str, where: Any) -> Any:
    """where: operands of the index -> the index, as NumPy has it."""

    def in_jax(x: Any, *rest: Any, **_: Any) -> Any:
        n = where.__code__.co_argcount
        index, value, mask = where(*rest[:n]), rest[n], rest[n + 1 :]
        old = x[index]
        new = _DOES[kind](old, value)
        return old, x.at[index].set(_jnp().where(mask[0], new, old) if mask else new)

    return in_jax


def _example(kind: str, types: list[Any], tree: Opaque, where: Any, label: str) -> Example:
    return Example(
        staged(_rmw),
        tuple(types),
        {"args_tree": tree, "atomic_type": Word(f"AtomicOpType.{kind}")},
        label=f"{kind}-{label}",
        jax=_in_jax(kind, where),
        of=lax.atomic_rmw,
    )


_ROW = f"*, {_slice(0, 3)}"
_PART = f"{_slice(None, 2)}, {_slice(1, 2)}"
_MASK = [True, False, True]

EXAMPLES = [
    *[
        _example(
            kind,
            [arg(f"{t}[4,3]"), arg("i32[]", values=2), arg(f"{t}[3]")],
            _tree(_ROW, "(4, 3)", leaves="*"),
            lambda i: (i, slice(0, 3)),
            t,
        )
        for kind, t in (
            *[(k, "f64") for k in ("XCHG", "ADD", "MAX", "MIN")],
            *[(k, "i32") for k in ("XCHG", "ADD", "MAX", "MIN", "AND", "OR", "XOR")],
            ("ADD", "f32"),
        )
    ],
    *[
        _example(
            kind,
            [arg("i32[4,3]"), arg("i32[]", values=1), arg("i32[3]"), arg("bool[3]", values=_MASK)],
            _tree(_ROW, "(4, 3)", leaves="*", mask=True),
            lambda i: (i, slice(0, 3)),
            "masked",
        )
        for kind in _DOES
    ],
    _example(
        "ADD",
        [arg("f64[4,3]"), arg("i32[]", values=1), arg("f64[2,2]")],
        _tree(_PART, "(4, 3)", leaves="*, *"),
        lambda i: (i + _jnp().arange(2)[:, None], _jnp().arange(1, 3)[None, :]),
        "a part",
    ),
    *[
        _example(
            kind,
            [arg("f64[4]"), arg("i32[3]", values=[2, 0, 3]), arg("f64[3]")],
            _tree("*,", "(4,)", "(3,)", "*"),
            lambda i: (i,),
            "numbers",
        )
        for kind in ("ADD", "MAX", "MIN", "XCHG")
    ],
    *[
        Example(
            staged(_cas),
            (arg("i32[]", values=3), arg("i32[]", values=n), arg("i32[]", values=7)),
            label=f"{n} of 3",
            jax=_cas_in_jax,
            of=lax.atomic_cas,
        )
        for n in (3, 4)
    ],
]
