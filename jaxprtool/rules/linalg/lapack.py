"""Calls of LAPACK: by SciPy's wrappers for evaluation on NumPy, by jaxlib's custom calls in XLA.

Both call the same routines, one matrix of a batch after the other. The results of matrices for
which a routine fails are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprtool.core.kinds.enums import EnumKind
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import INT32, DType
from jaxprtool.ir.jaxpr import Aval, Value

__all__ = ["char", "each_matrix", "lapack_call", "letter", "routine", "unless_failed"]

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def letter(name: str, dtype: DType) -> str:
    """Return LAPACK's letter for an element type; raise UnsupportedError for a type that has none."""
    found = _LETTERS.get(dtype.name)
    if found is None:
        fail(
            UnsupportedError,
            f"{name} of {dtype}: LAPACK has no routine for this element type",
            "no-lapack-type",
            help="convert the operand to f32 first",
        )
    return found


def routine(xp: Namespace, name: str, stem: str, dtype: DType, complex_stem: str = "") -> Value:
    """Return SciPy's wrapper of a LAPACK or BLAS routine.

    Args:
      xp: the namespace of NumPy and SciPy.
      name: the primitive, for the message.
      stem: the name of the routine without its first letter, which stands for the element type.
      dtype: the element type.
      complex_stem: the stem for complex types, if it differs.
    """
    stem = complex_stem if complex_stem and dtype.kind == "c" else stem
    full = letter(name, dtype) + stem
    return getattr(xp.lapack, full, None) or getattr(xp.blas, full)


def each_matrix(
    xp: Namespace,
    f: Callable[..., Sequence[Value]],
    in_ranks: Sequence[int],
    outs: Sequence[Value],
    operands: Sequence[Value],
) -> list[Value]:
    """Apply f to each example of a batch.

    Args:
      f: from operands of ranks `in_ranks` to results, or to None where it fails; the results are
        then NaN.
      outs: types of the whole results.
      operands: arrays with the same batch axes, followed by the axes of an example.
    """
    results = [xp.zeros(a.shape, xp.dtype_of_aval(a.dtype)) for a in outs]
    batch = operands[0].shape[: operands[0].ndim - in_ranks[0]]
    if not any(r.size for r in results):
        return results
    for i in xp.ndindex(*batch):
        values = f(*[x[i] for x in operands])
        if values is None:
            for r in results:
                if r.dtype.kind in "fc":
                    r[i] = xp.nan * (1 + 1j) if r.dtype.kind == "c" else xp.nan
        else:
            for r, v in zip(results, values, strict=True):
                r[i] = v
    return results


# -- lowering --------------------------------------------------------------------------------------


def char(text: str) -> str:
    """Return a letter as the MLIR text of an option of LAPACK: its code as ui8."""
    return f"{ord(text)} : ui8"


def _layout(ndim: int, column_major: bool) -> str:
    axes = list(range(ndim - 1, -1, -1))
    if column_major:
        axes[:2] = [ndim - 2, ndim - 1]
    shown = f"{axes}" if ndim else ""
    return f"dense<{shown}> : tensor<{ndim}xindex>"


def lapack_call(
    ctx: LoweringContext,
    target: str,
    operands: Sequence[HloValue],
    outs: Sequence[Aval],
    aliases: dict[int, int] | None = None,
    **options: str,
) -> list[HloValue]:
    """Write a custom call of a LAPACK routine of jaxlib, with matrices in column-major order.

    Args:
      target: the routine's name in jaxlib.
      operands: the operands; those of the highest rank are matrices, the others vectors.
      outs: types of the results.
      aliases: operand -> result that may take its memory.
      options: attributes, as MLIR text.
    """
    rank = max(x.aval.ndim for x in operands)

    def layouts(avals: Sequence[Aval]) -> str:
        return f"[{', '.join(_layout(a.ndim, a.ndim == rank) for a in avals)}]"

    place = "output_tuple_indices = [{}], operand_index = {}, operand_tuple_indices = []"
    pairs = [
        f"#stablehlo.output_operand_alias<{place.format(o if len(outs) > 1 else '', i)}>"
        for i, o in (aliases or {}).items()
    ]
    config = ", ".join(f"{k} = {v}" for k, v in sorted(options.items()))
    return ctx.op(
        "custom_call",
        *operands,
        out=list(outs),
        call_target_name=f'"{target}"',
        api_version="4 : i32",
        backend_config=f"{{{config}}}",
        operand_layouts=layouts([x.aval for x in operands]),
        output_operand_aliases=f"[{', '.join(pairs)}]",
        result_layouts=layouts(outs),
    )


def info_type(x: Aval, rank: int = 2) -> ShapedArray:
    """Return the type of a routine's info number for each example of a batch."""
    return ShapedArray(x.shape[: x.ndim - rank], INT32)


def nan_unless(ctx: LoweringContext, ok: HloValue, x: HloValue) -> HloValue:
    """Return x with NaN for the examples that are not ok."""
    aval = x.aval
    nan = complex("nan+nanj") if aval.dtype.kind == "c" else float("nan")
    if ok.aval.shape:
        shape = ShapedArray(aval.shape, ok.aval.dtype)
        ok = ctx.broadcast(ok, shape, range(ok.aval.ndim))
    return ctx.select(ok, x, ctx.constant(nan, aval))


def unless_failed(
    ctx: LoweringContext, info: HloValue, xs: Sequence[HloValue], direction: str = "EQ"
) -> list[HloValue]:
    """Return the results of a routine, with NaN for the examples where its info number is not 0.

    `direction` is the comparison of info with 0 that says that the routine did not fail.
    """
    ok = ctx.compare(direction, info, ctx.constant(0, info.aval))
    return [nan_unless(ctx, ok, x) for x in xs]


def refuse(name: str, param: str, value: Value, why: str) -> None:
    """Raise UnsupportedError for a param that no CPU library implements."""
    fail(UnsupportedError, f"{name} {param}={value}: {why}", "no-cpu-algorithm")


def check_choice(name: str, param: str, value: Value, kind: EnumKind) -> None:
    """Raise JaxprTypeError for a choice of algorithm that is neither a member of the enum nor
    None.
    """
    if value is not None:
        kind.required(name, param, value)


def check_on_cpu(
    name: str, param: str, value: Value, kind: EnumKind, allowed: Sequence[str]
) -> None:
    """Raise UnsupportedError for an algorithm that a CPU does not have.

    None leaves the choice open, and is accepted.
    """
    if value is not None and kind.required(name, param, value) not in allowed:
        refuse(name, param, value, f"a CPU has {', '.join(allowed)}")
