"""The plug-in for lineax's `linear_solve`, which is built in: against x = A^-1 b, and its derivatives as formulas."""

from __future__ import annotations

import re

import jax
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


OF_TWO = SHAPES.replace("float64)]", "float64), S(shape=(3,), dtype=float64)]")
SINGULAR = DIAGONAL.replace("True, True)", "False, True)").replace(SHAPES, OF_TWO)
FLAT = equation(
    "DiagonalLinearOperator[(Missing,)], [*]",
    f"(CustomNode(diagonal_token[(Missing,)], []), (*, {OF_TWO}))",
    "AutoLinearSolver[(Missing,)], [None]",
    [VECTOR] * 3,
)
ONES = equation(
    "MatrixLinearOperator[(Missing, frozenset({unit_diagonal_tag, diagonal_tag}))], [*]",
    f"(None, {OF_TWO})",
    "Diagonal[(Missing,)], [*, None]",
    [SQUARE, VECTOR],
    "False, ",
)
SMALL = np.array([4.0, 1e-4, 0.0])  # the second counts as zero where rcond is 1e-3
DIAGONALS = {
    "singular": (SINGULAR, [SMALL, SMALL], [0.25, -2e4, 0]),
    "auto with zeros": (FLAT, [SMALL, SMALL], [0.25, -2e4, 0]),
    "auto of a diagonal": (
        FLAT.replace("diagonal_token", "well_posed_diagonal_token"),
        [A[0], A[0]],
        B / A[0],
    ),
    "rcond": (
        SINGULAR.replace("False, True)", "False, 0.001, True)").replace("None", "*"),
        [SMALL, SMALL],
        [0.25, 0, 0],
    ),
    "of ones": (ONES, [A], B),
}


@pytest.mark.parametrize("name", DIAGONALS)
def test_a_diagonal_in_the_state(name):
    """Elements near zero count as zeros, whose x is 0, as in a pseudo-inverse; its derivative by b, and the transpose."""
    text, given, want = DIAGONALS[name]
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    for x, code in (jt.eval_jaxpr(program, [*given, B]), jt.compile(program)(*given, B)):
        np.testing.assert_allclose(x, want, rtol=1e-12)
        assert code == 0
    f = jt.jaxpr_as_fun(program)
    _, dx = jt.jvp(lambda b: f(*given, b)[0], (B,), (B,))
    np.testing.assert_allclose(dx, want, rtol=1e-12)
    (ct,) = jt.vjp(lambda b: f(*given, b)[0], B)[1](B)
    np.testing.assert_allclose(ct, want, rtol=1e-12)
    x, _ = jt.vmap(f)(*[np.stack([a, a]) for a in (*given, B)])
    np.testing.assert_allclose(x, [want, want], rtol=1e-12)


def test_the_derivative_by_a_singular_diagonal():
    f = jt.jaxpr_as_fun(jt.parse(SINGULAR))
    d = np.array([4.0, 2.0, 0.0])
    _, dx = jt.jvp(lambda d: f(d, d, B)[0], (d,), (np.ones(3),))
    np.testing.assert_allclose(dx, [-1 / 16, 2 / 4, 0], rtol=1e-12)


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


# A function as operator, in the text of lineax 0.0.5: x -> a * (c x) + x for constants a, c, with its LU or QR factors.
FUNCTION_OF = """{ lambda ; a:f64[3] c:f64[3,3] p:%(p)s q:%(q)s %(b)s. let
    %(out)s y:i32[] = %(name)s[%(before)s
      %(flatten)sstatic%(colon)s({ lambda a:f64[3] b:f64[3,3]; c:f64[3]. let
    d:f64[3] = dot_general[dimension_numbers=(([1], [0]), ([], []))] b c
    e:f64[3] = mul a d
    f:f64[3] = add e c
  in (f,) }, @, @, @, @, %(flag)s, %(held)s, True)
      treedef%(colon)sPyTreeDef((CustomNode(FunctionLinearOperator[('fn',), ('tags',), (frozenset())], [CustomNode(_ClosureConvert[('jaxpr', 'consts')], [*, [*, *]])]), %(state)s, %(vector)s, {}, CustomNode(%(solver)s[()], []), *))%(after)s
    ] a c p q %(names)s
  in (%(names_out)s, y) }""".replace("@", OBJECT)


def of_function(solver: str, turned: bool, leaves: int = 1) -> str:
    """A program that solves the system of `FUNCTION_OF`; its vector has one leaf, or a number and the rest."""
    shapes = ["f64[3]"] if leaves == 1 else ["f64[]", "f64[2]"]
    structs = ", ".join(
        f"ShapeDtypeStruct(shape={'(2,)' if s == 'f64[2]' else '()' if s == 'f64[]' else '(3,)'}, dtype=float64)"
        for s in shapes
    )
    static = f"CustomNode(Static[(), ('_leaves', '_treedef'), ([{structs}, {structs}, PyTreeDef(())])], [])"
    state = f"((*, *), {static}, *)" if solver == "LU" else f"((*, *), *, {static})"
    star = "*" if leaves == 1 else "(*, *)"
    names, outs = [[f"{x}{i}" for i in range(leaves)] for x in ("g", "x")]
    return FUNCTION_OF % {
        "p": "f64[3,3]",
        "q": {"LU": "i32[3]", "QR": "f64[3,3]", "packed QR": "f64[3]"}[solver],
        "b": " ".join(f"{n}:{s}" for n, s in zip(names, shapes, strict=True)),
        "out": " ".join(f"{n}:{s}" for n, s in zip(outs, shapes, strict=True)),
        "name": "linear_solve", "before": "", "after": "", "colon": "=",
        "flatten": "flatten=<equinox.internal._primitive.Flatten object at 0xXXXXXXXXXXXX>\n      ",
        "flag": turned, "held": ", ".join([OBJECT] * leaves), "state": state, "vector": star,
        "solver": solver[-2:], "names": " ".join(names), "names_out": ", ".join(outs),
    }  # fmt: skip


@pytest.mark.parametrize("leaves", [1, 2])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("solver", ["LU", "QR", "packed QR"])
def test_a_function_as_operator(solver, turned, leaves):
    """A flag says that the factors are those of the transpose; the derivatives by A are those of its function."""
    import scipy.linalg

    a, c = np.array([1.0, 2, -1]), A
    dense = lambda a, c: np.diag(a) @ c + np.eye(3)
    factored = dense(a, c).T if turned else dense(a, c)
    if solver == "packed QR":  # as lineax 0.1 has it
        h, scales = np.linalg.qr(factored, mode="raw")
        factors = h.T, scales
    else:
        factors = scipy.linalg.lu_factor(factored) if solver == "LU" else np.linalg.qr(factored)
    p, q = factors[0], factors[1].astype(np.int32 if solver == "LU" else np.float64)
    f = jt.jaxpr_as_fun(jt.parse(of_function(solver, turned, leaves)))

    def solve(a, c, b):
        vector = [b] if leaves == 1 else [b[0], b[1:]]
        *x, _ = f(a, c, p, q, *vector)
        return x

    def whole(x):
        return np.concatenate([np.atleast_1d(v) for v in x])

    want = np.linalg.solve(dense(a, c), B)
    np.testing.assert_allclose(whole(solve(a, c, B)), want, rtol=1e-12)
    if solver != "LU" or leaves == 2:  # least squares; or the function is of another vector
        ct = jt.vjp(lambda b: solve(a, c, b)[0], B)[1](B)[0] if leaves == 1 else None
        if ct is not None:
            np.testing.assert_allclose(ct, np.linalg.solve(dense(a, c).T, B), rtol=1e-9)
        with pytest.raises(jt.JaxprTypeError, match=r"the derivative .*by a function as operator"):
            jt.jvp(lambda a: solve(a, c, B), (a,), (a,))
        return
    rng = np.random.default_rng(1)
    da, dc, db = (rng.standard_normal(x.shape) for x in (a, c, B))
    h = 1e-6
    ends = [np.linalg.solve(dense(a + s * da, c + s * dc), B + s * db) for s in (h, -h)]
    x, moved = jt.jvp(solve, (a, c, B), (da, dc, db))
    np.testing.assert_allclose(whole(moved), (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8)
    cts = [np.asarray(rng.standard_normal(np.shape(v))) for v in x]
    back = jt.vjp(solve, a, c, B)[1](cts)
    left = sum(np.sum(ct * d) for ct, d in zip(cts, moved, strict=True))
    right = sum((ct * d).sum() for ct, d in zip(back, (da, dc, db), strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-9)


@pytest.mark.parametrize("turned", [False, True])
def test_second_derivatives_by_a_function_as_operator(turned):
    """Forward over reverse: the factors are constants, and the operator is none."""
    import scipy.linalg

    a, c = np.array([1.0, 2, -1]), A
    dense = lambda a: np.diag(a) @ c + np.eye(3)
    lu, pivots = scipy.linalg.lu_factor(dense(a).T if turned else dense(a))
    f = jt.jaxpr_as_fun(jt.parse(of_function("LU", turned)))
    solved = lambda a, b: f(a, c, lu, pivots.astype(np.int32), b)[0].sum()
    for argument in (0, 1):
        gradient = jt.grad(solved, argument)
        _, moved = jt.jvp(lambda a, gradient=gradient: gradient(a, B), (a,), (np.ones(3),))

        def by_hand(a, argument=argument):
            back = np.linalg.solve(dense(a).T, np.ones(3))
            return back if argument else -back * (c @ np.linalg.solve(dense(a), B))

        h = 1e-6
        want = (by_hand(a + h) - by_hand(a - h)) / (2 * h)
        np.testing.assert_allclose(moved, want, rtol=1e-6, atol=1e-8)


def test_each_of_a_batch():
    """`vprim` of equinox applies it to each."""
    text = LU.replace(
        "linear_solve[", "vprim[__axis_name=n __axis_size=2 __batch_axes=(0, 0, 0, 0)"
    )
    inner = re.search(r"flatten=(.*)\n *static=(.*)\n *treedef=(.*)\n", text)
    assert inner
    given = f" params={{'flatten': {inner[1]}, 'static': {inner[2]}, 'treedef': {inner[3]}}} prim=linear_solve"
    text = text.replace(inner[0].rstrip(), given.strip())
    for old in ("f64[3,3]", "i32[3]", "f64[3]"):
        text = text.replace(f":{old}", f":{old.replace('[', '[2,')}")
    text = text.replace("y:i32[]", "y:i32[2]")
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    args = [np.stack([x, x + x.dtype.type(1)]) for x in operands(LU, A, B)]
    args[2][1] = args[2][0]
    x, code = jt.eval_jaxpr(program, args)
    for i in range(2):
        want = np.linalg.solve(args[0][i], args[3][i])
        np.testing.assert_allclose(x[i], want, rtol=1e-9, atol=1e-12)
    assert list(code) == [0, 0]


@pytest.mark.parametrize("turned", [False, True])
def test_the_derivatives_of_a_batch_are_those_of_each(turned):
    """Those by the operator too, of any order, and in both modes; it is `vprim` of equinox again, as in lineax's programs."""
    import scipy.linalg

    f = jt.jaxpr_as_fun(jt.parse(of_function("LU", turned)))
    rng = np.random.default_rng(3)

    def drawn():
        a, c, b = (rng.standard_normal(s) for s in ((3,), (3, 3), (3,)))
        dense = np.diag(a) @ c + np.eye(3)
        return a, c, b, *scipy.linalg.lu_factor(dense.T if turned else dense)

    rows = [drawn() for _ in range(2)]
    factors = [np.stack(x) for x in zip(*[row[3:] for row in rows], strict=True)]
    given = [np.stack(x) for x in zip(*[row[:3] for row in rows], strict=True)]

    def of_one(p, q):
        return lambda a, c, b: f(a, c, p, q.astype(np.int32), b)[0]

    def of_all(a, c, b):
        return jt.vmap(lambda p, q, a, c, b: of_one(p, q)(a, c, b))(*factors, a, c, b)

    assert "prim=linear_solve" in str(jt.make_jaxpr(of_all)(*given))
    for mode in (jt.jacfwd, jt.jacrev):
        for k in range(3):
            whole = mode(lambda *x: of_all(*x).sum(), k)(*given)
            for i, row in enumerate(rows):
                one = mode(lambda *x, row=row: of_one(*row[3:])(*x).sum(), k)(*row[:3])
                np.testing.assert_allclose(whole[i], one, rtol=1e-8, atol=1e-10)
            by_all = mode(jt.grad(lambda *x: (of_all(*x) ** 2).sum()), k)(*given)
            for i, row in enumerate(rows):
                by_one = mode(jt.grad(lambda *x, row=row: (of_one(*row[3:])(*x) ** 2).sum()), k)
                np.testing.assert_allclose(by_all[i, :, i], by_one(*row[:3]), rtol=1e-7, atol=1e-9)


def test_a_structure_tells_no_release():
    """Structures hold `frozenset()` in all releases; in params, empty sets are `frozenset({})` since JAX 0.10.1."""
    text = of_function("LU", False)
    assert "frozenset()" in text
    written = jt.parse(text).jaxpr.written
    other = jt.parse(text.replace("frozenset()", "None")).jaxpr.written
    assert written is not None and other is not None and written.dialect == other.dialect


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
        (LU.replace("LU[", "Diagonal["), "the state of Diagonal cannot be read"),
        (DIAGONAL.replace("True, True)", "False, (), True)").replace("None", "*"), "of Diagonal"),
        (CHOLESKY.replace(MATRIX, FUNCTION), "Cholesky of a FunctionLinearOperator"),
        (FACTORS.replace("((*, *), ", "(*, *, "), "the state of LU cannot be read"),
        (FACTORS.replace("[False]", "[Perhaps]").replace("Static", "Other"), "cannot be read"),
        (LU.replace("PyTreeDef((CustomNode(M", "PyTreeDef((Other(M"), "cannot be read"),
        (LU.replace(f"({OBJECT}, ", "("), "does not fit 4 operands"),
        (LU.replace("a:f64[3,3]", "a:f64[2,3]"), "do not fit together"),
        (FACTORS.replace("c:i32[3]", "c:f64[3]"), "do not fit together"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(jt.JaxprTypeError, match=re.escape(why)):
        jt.typecheck_jaxpr(jt.parse(text))


@pytest.mark.parametrize("name", [*CASES, *DIAGONALS])
def test_jax_prints_what_was_read(name):
    """Of a text without lineax too: a stand-in has no params beside those of the text. It computes, and is read back."""
    text, given, *_ = CASES.get(name) or DIAGONALS[name]
    n = len(jt.parse(text).in_avals)
    for result, letter in zip("xy", "abcdefgh"[n:], strict=False):  # as JAX names them
        text = re.sub(rf"\b{result}\b", letter, text)
    program = jt.parse(text)
    args = [*given, B] if name in DIAGONALS else operands(text, given, B[: given.shape[0]])
    with jax.enable_x64(True):
        made = jt.to_jax(program)
        assert str(made) == str(program)
        assert str(jt.from_jax(made)) == str(program)
        x, code = jax.jit(jt.to_jax_function(program))(*args)
    np.testing.assert_allclose(x, jt.eval_jaxpr(program, args)[0], rtol=1e-12)
    assert code == 0
