"""The plug-in for lineax's `linear_solve`, which is built in: against x = A^-1 b, and its derivatives as formulas."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jaxprtool as jt

STATIC = "CustomNode(Static[(Missing, [False], PyTreeDef(*))], [])"
SHAPES = "CustomNode(Static[(Missing, [S(shape=(3,), dtype=float64)], PyTreeDef(([*, *], *)))], [])"
OBJECT = "<object object at 0xXXXXXXXXXXXX>"


def equation(operator: str, state: str, solver: str, types: list[str], static: str = "") -> str:
    """A program with one linear_solve of operands of these types, of which the last is the vector."""
    operands = [f"{'abcdefgh'[i]}:{t}" for i, t in enumerate(types)]
    names = " ".join(o.partition(":")[0] for o in operands)
    held = ", ".join([OBJECT] * len(types))
    columns = types[0].partition(",")[2].strip("]") if operator.startswith("Matrix") else "3"
    return f"""{{ lambda ; {" ".join(operands)}. let
    x:f64[{columns}] y:i32[] = linear_solve[
      flatten=<equinox.internal._primitive.Flatten object at 0xXXXXXXXXXXXX>
      static=({held}, {static}True)
      treedef=PyTreeDef((CustomNode({operator}), {state}, *, {{}}, CustomNode({solver}), *))
    ] {names}
  in (x, y) }}"""


MATRIX = "MatrixLinearOperator[(Missing, frozenset())], [*]"
LOWER = "MatrixLinearOperator[(Missing, frozenset({lower_triangular_tag}))], [*]"
FUNCTION = "FunctionLinearOperator[(Missing, (PyTreeDef(*)), frozenset())], [*]"
SQUARE, VECTOR = "f64[3,3]", "f64[3]"
LU_STATE = f"((*, *), {SHAPES}, {STATIC})"
LU = equation(MATRIX, LU_STATE, "LU[(Missing,)], []", [SQUARE, SQUARE, "i32[3]", VECTOR])
FACTORS = LU.replace(MATRIX, FUNCTION)
AUTO = equation(
    MATRIX,
    f"(CustomNode(lu_token[(Missing,)], []), {LU_STATE})",
    "AutoLinearSolver[(Missing,)], [*]",
    [SQUARE, SQUARE, "i32[3]", VECTOR],
    "None, ",
)
CHOLESKY = equation(MATRIX, f"(*, {STATIC})", "Cholesky[(Missing,)], []", [SQUARE, SQUARE, VECTOR])
TRIANGULAR = equation(
    LOWER, f"(*, {STATIC})", "Triangular[(Missing,)], []", [SQUARE] * 2 + [VECTOR]
)
DIAGONAL = equation(
    "DiagonalLinearOperator[(Missing,)], [*]",
    f"(*, {SHAPES})",
    "Diagonal[(Missing,)], [*, None]",
    [VECTOR] * 3,
    "True, ",
)
TRIDIAGONAL = equation(
    "TridiagonalLinearOperator[(Missing,)], [*, *, *]",
    f"((*, *, *), {SHAPES})",
    "Tridiagonal[(Missing,)], []",
    [VECTOR, "f64[2]", "f64[2]"] * 2 + [VECTOR],
)


def least(shape: str) -> str:
    m = shape[4]
    types = [shape, "f64[3,2]", "f64[2]", f"f64[{m}]"]
    return equation(MATRIX, f"((*, *), {STATIC}, {SHAPES})", "QR[(Missing,)], []", types)


A = np.array([[4.0, 1, 2], [1, 5, 3], [2, 3, 6]])
B = np.array([1.0, -2, 3])
NUMPY = {"f64": np.float64, "i32": np.int32}


def operands(text: str, *given: np.ndarray) -> list[np.ndarray]:
    """The operands of a program: those given first, then the state, of which nothing is read, and the vector."""
    types = jt.parse(text).in_avals
    *first, b = given
    state = [np.full(a.shape, 7, NUMPY[str(a.dtype)]) for a in types[len(first) : -1]]
    return [*first, *state, b]


CASES = {
    "lu": (LU, A, A),
    "auto": (AUTO, A, A),
    "cholesky": (CHOLESKY, A, A),
    "triangular": (TRIANGULAR, np.tril(A), np.tril(A)),
    "diagonal": (DIAGONAL, np.diag(A), np.diag(np.diag(A))),
    "tall": (least("f64[3,2]"), A[:, :2], A[:, :2]),
    "wide": (least("f64[2,3]"), A[:2], A[:2]),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    text, given, dense = CASES[name]
    program, b = jt.parse(text), B[: dense.shape[0]]
    jt.typecheck_jaxpr(program)
    args = operands(text, given, b)
    want = np.linalg.pinv(dense) @ b
    for x, code in (jt.eval_jaxpr(program, args), jt.compile(program)(*args)):
        np.testing.assert_allclose(x, want, rtol=1e-12, atol=1e-12)
        assert code == 0
    x, _ = jt.vmap(jt.jaxpr_as_fun(program))(*[np.stack([a, a]) for a in args])
    np.testing.assert_allclose(x, [want, want], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    """By A and by b, against differences of the pseudo-inverse; and forward against reverse mode."""
    text, given, dense = CASES[name]
    b = B[: dense.shape[0]]
    *fixed, _ = operands(text, given, b)
    f = jt.jaxpr_as_fun(jt.parse(text))

    def solve(a, b):
        return f(a, *fixed[1:], b)[0]

    rng = np.random.default_rng(0)
    da, db = rng.standard_normal(given.shape), rng.standard_normal(b.shape)
    dense_da = np.diag(da) if da.ndim == 1 else da
    h = 1e-6
    ends = [np.linalg.pinv(dense + s * h * dense_da) @ (b + s * h * db) for s in (1, -1)]
    x, dx = jt.jvp(solve, (given, b), (da, db))
    np.testing.assert_allclose(dx, (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8)
    ct = rng.standard_normal(x.shape)
    ct_a, ct_b = jt.vjp(solve, given, b)[1](ct)
    np.testing.assert_allclose(ct @ dx, (ct_a * da).sum() + ct_b @ db, rtol=1e-9)


def test_tridiagonal():
    d, below, above = np.array([4.0, 5, 6]), np.array([1.0, 2]), np.array([-1.0, 3])
    dense = np.diag(d) + np.diag(below, -1) + np.diag(above, 1)
    args = operands(TRIDIAGONAL, d, below, above, B)
    x, _ = jt.eval_jaxpr(jt.parse(TRIDIAGONAL), args)
    np.testing.assert_allclose(x, np.linalg.solve(dense, B), rtol=1e-12, atol=1e-12)


def test_an_operator_that_is_a_function_is_solved_by_its_factors():
    import scipy.linalg

    lu, pivots = scipy.linalg.lu_factor(A[::-1])
    f = jt.jaxpr_as_fun(jt.parse(FACTORS))
    args = [A, lu, pivots.astype(np.int32)]
    want = np.linalg.solve(A[::-1], B)
    np.testing.assert_allclose(f(*args, B)[0], want, rtol=1e-12, atol=1e-12)
    (ct,) = jt.vjp(lambda b: f(*args, b)[0], B)[1](B)
    np.testing.assert_allclose(ct, np.linalg.solve(A[::-1].T, B), rtol=1e-12, atol=1e-12)
    with pytest.raises(jt.JaxprToolError, match="derivative by a function as operator"):
        jt.jvp(lambda a: f(a, *args[1:], B)[0], (A,), (A,))


def test_a_structure_may_show_jaxprs():
    """A node of a class that holds a function shows its jaxpr, as in lossless texts of optimistix's `fixed_point`."""
    shown = """([<function f at 0xXXXXXXXXXXXX>, { lambda ; a:f64[3]. let
    b:f64[3] = custom_jvp_call[
      name=g
      call_jaxpr={ lambda ; d:f64[3]. let  in (d,) }
    ] a
  in (b,) }, frozenset()], PyTreeDef((*, *, *)))"""
    sets = f"frozenset({{}}), {OBJECT}, "
    text = LU.replace(", frozenset())", f", {shown})").replace(
        f"static=({OBJECT}, ", f"static=({sets}"
    )
    program = jt.parse(text)
    assert shown in program.eqns[0].params["treedef"].text
    printed = jt.format_jaxpr(program, lossless=True)
    assert shown in printed
    assert "static=(frozenset({}), " in printed
    assert jt.format_jaxpr(jt.parse(printed), lossless=True) == printed


def test_the_code_says_what_is_not_finite():
    f = jt.jaxpr_as_fun(jt.parse(DIAGONAL))
    d, infinite = np.ones(3), np.array([1, np.inf, 1])
    with np.errstate(all="ignore"):
        assert [int(f(x, d, b)[1]) for x, b in ((d, B), (0 * d, B), (d, infinite))] == [0, 2, 6]


def test_a_linear_equation_is_transposed():
    program, _ = jt.transpose_jaxpr(
        jt.parse(LU.replace("in (x, y)", "in (x,)")), linear=[False, False, False, True]
    )
    args = operands(LU, A + np.triu(A), B)
    (x,) = jt.eval_jaxpr(program, args)
    np.testing.assert_allclose(x, np.linalg.solve((A + np.triu(A)).T, B), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "text, why",
    [
        (CHOLESKY.replace("Cholesky[", "CG["), "CG is not one of"),
        (LU.replace("LU[", "Diagonal["), "for diagonal operators"),
        (DIAGONAL.replace("True, True)", "False, True)"), "well_posed=True"),
        (CHOLESKY.replace(MATRIX, FUNCTION), "Cholesky of a FunctionLinearOperator"),
        (FACTORS.replace("[False]", "[True]"), "LU of a FunctionLinearOperator"),
        (LU.replace("PyTreeDef((CustomNode(M", "PyTreeDef((Other(M"), "cannot be read"),
        (LU.replace(f"({OBJECT}, ", "("), "does not fit 4 operands"),
        (LU.replace("a:f64[3,3]", "a:f64[2,3]"), "do not fit together"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(jt.JaxprTypeError, match=re.escape(why)):
        jt.typecheck_jaxpr(jt.parse(text))
