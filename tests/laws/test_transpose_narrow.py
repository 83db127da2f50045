"""The pullback is the adjoint of the pushforward for types of 16 and 8 bits, without rounding: <ct, L t> = <L^T ct, t>.

Operands, tangents and cotangents are small whole numbers, few of them not 0, so that nothing is rounded where the derivative
itself is exact. Whether it is, is seen from the same example in f64.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.ir.dtypes import dtype_of, find_dtype
from tests.laws.oracle import (
    EXAMPLES,
    by_primitive,
    by_structure,
    is_differentiable,
    ours,
    tangent_like,
)
from tests.laws.test_transpose import _dot
from tests.rules.example import Example, make_inputs

NARROW = ("bf16", "f16", "f8_e4m3fn", "f8_e5m2")

GROUPS = by_primitive(
    [e for e in by_structure(EXAMPLES) if is_differentiable(e) and e.reverse and e.forward]
)

# Primitives of which no example is compared, by the reason. Those whose derivative is not exact are not among them.
OF_ONE_TYPE = """
    CustomRoot call closed_call complex compute_on cond conj core_call custom_jvp_call custom_linear_solve
    custom_partitioning custom_vmap_call fft fused_call imag jit
    linear_call named_call real reduce remat2 remat_opt scan xla_metadata_call
"""
NO_ROUTINE = "cholesky eig eigh lu qr svd tridiagonal_solve"
ZERO = "bitcast_convert_type ceil floor round sign stop_gradient"
NOT_COMPARED = {
    **dict.fromkeys(OF_ONE_TYPE.split(), "complex, or its params hold jaxprs of one type"),
    **dict.fromkeys(NO_ROUTINE.split(), "LAPACK has no routine for such types"),
    **dict.fromkeys(ZERO.split(), "the derivative is zero"),
}


def _is_real(x: Any) -> bool:
    dtype = dtype_of(np.asarray(x).dtype)
    return dtype is not None and dtype.kind == "f"


def _with_type(example: Example, name: str) -> Example | None:
    """The example with its real operands of another type; None if it has none, or does not take that type."""
    args = [
        dataclasses.replace(a, aval=a.aval.update(dtype=find_dtype(name)))
        if a.aval.dtype.kind == "f"
        else a
        for a in example.args
    ]
    params = {k: v for k, v in example.params.items() if k not in ("update_jaxpr", "update_consts")}
    changed = dataclasses.replace(example, args=tuple(args), params=params)
    try:
        jt.make_jaxpr(ours(changed))(*[a.aval for a in args])
    except jt.JaxprToolError:
        return None
    return changed


def _whole(shape: tuple[int, ...], seed: int, dtype: Any, most: int = 2) -> Any:
    """Zeros, but for `most` small whole numbers."""
    rng = np.random.default_rng(seed)
    x = np.zeros(shape)
    places = rng.permutation(x.size)[:most]
    x.reshape(-1)[places] = rng.choice([-1, 1, 2], size=len(places))
    return x.astype(dtype)


def _operands(example: Example, seed: int) -> list[Any]:
    """Whole numbers where the example does not say which values it needs."""
    found = []
    for i, (a, x) in enumerate(zip(example.args, make_inputs(example), strict=True)):
        draw = a.aval.dtype.kind == "f" and a.values is None
        found.append(_whole(x.shape, seed + i, x.dtype, x.size) if draw else x)
    return found


def _both_ways(example: Example, args: list[Any], seed: int) -> tuple[list[Any], ...]:
    """Cotangents, the pushed tangents, the pulled cotangents, and tangents."""
    chosen = [i for i, x in enumerate(args) if _is_real(x)]

    def f(*xs: Any) -> list[Any]:
        full = list(args)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        return ours(example)(*full)

    point = [args[i] for i in chosen]
    outs, pushforward = jt.linearize(f, *point)
    _, pullback = jt.vjp(f, *point)
    tangents = [_whole(x.shape, seed + i, x.dtype) for i, x in enumerate(point)]
    cts = [
        _whole(y.shape, seed + 50 + i, y.dtype) if _is_real(y) else tangent_like(y, 0)
        for i, y in enumerate(map(np.asarray, outs))
    ]
    return cts, list(pushforward(*tangents)), list(pullback(cts)), tangents


def _holds(wide: Any, like: Any) -> bool:
    """Whether these are numbers that the type of `like` has."""
    if not _is_real(wide):
        return True
    if not np.isfinite(wide).all():
        return False
    return np.array_equal(np.asarray(wide).astype(np.asarray(like).dtype).astype(np.float64), wide)


def _compare(example: Example, name: str, seed: int) -> str:
    """Compare in one type: "compared", or "rounded", or "nothing" where there was nothing to compare."""
    narrow, wide = _with_type(example, name), _with_type(example, "f64")
    if narrow is None or wide is None:
        return "nothing"
    args = _operands(narrow, seed)
    same = [x.astype(np.float64) if _is_real(x) else x for x in args]
    with np.errstate(all="ignore"):
        expected = _both_ways(wide, same, seed)
        try:
            cts, pushed, pulled, tangents = _both_ways(narrow, args, seed)
        except jt.JaxprToolError:
            assert example.primitive.name in NO_ROUTINE.split()
            return "nothing"
        if not all(map(_holds, [*expected[1], *expected[2]], [*pushed, *pulled])):
            return "rounded"
    left, right = _dot(cts, pushed)[0], _dot(pulled, tangents)[0]
    assert left == right, (example.id, name, left, right)
    return "compared" if left != 0 else "nothing"


@pytest.mark.parametrize("primitive", GROUPS, ids=str)
def test_the_pullback_is_the_adjoint_exactly(primitive):
    found = {
        _compare(example, name, seed)
        for example in GROUPS[primitive]
        for name in NARROW
        for seed in range(2)
    }
    assert (found == {"nothing"}) == (primitive.name in NOT_COMPARED)


def test_most_primitives_are_compared():
    """What is linear is exact, whatever else is rounded."""
    for name in ("add", "mul", "reduce_sum", "dot_general", "gather", "scatter-add", "pad", "sort"):
        (examples,) = [es for p, es in GROUPS.items() if p.name == name]
        assert {"compared"} <= {_compare(e, n, 0) for e in examples for n in NARROW}, name


def test_the_table_names_primitives_that_have_examples():
    assert NOT_COMPARED.keys() <= {p.name for p in GROUPS}


BRANCHES = """{ lambda ; a:i32[] b:f32[2,3] c:i32[3,4]. let
    d:f32[2,4] = cond[
      branches=(
        { lambda ; e:f32[2,3] f:i32[3,4]. let  in ([...]:f32[2,4],) }
        { lambda ; g:f32[2,3] h:i32[3,4]. let
            i:f32[2,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] g h
          in (i,) }
      )
    ] a b c
  in (d,) }"""


def test_integers_have_zeros_as_cotangents():
    """A rule that gives one of another type is not heeded, so that the branches of a conditional agree."""
    plain = jt.parse("{ lambda ; a:i32[3]. let b:i32[3] = neg a in (b,) }")
    programs = [(plain, [True]), (jt.parse(BRANCHES), [False, False, True])]
    for program, linear in programs:
        transposed, _ = jt.transpose_jaxpr(program, linear)
        jt.typecheck_jaxpr(transposed)
        assert all(a.dtype.kind == "0" for a in transposed.out_avals)
