"""lineax's `linear_solve`, as far as its text holds it: direct solvers, of matrices and of factors.

The text says how operands make an operator A, the state of a solver and a vector b: `treedef` is the structure of
(operator, state, vector, options, solver, throw), and `static` has a value for each leaf that is no operand. Where A is a
matrix, or a diagonal or tridiagonal one, x is computed from A, so that it has all derivatives; where A is a function, from
the LU factors in the state, so that it has derivatives by b alone. Iterative solvers are refused: their text has no limits.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.objects import TreeDef
from jaxprtool.ir.dtypes import INT32 as _CODE


@jt.primitive(multiple_results=True)
def linear_solve(*operands, flatten: Any, static: tuple, treedef: TreeDef):
    """x with A x = b, of least squares or least norm where A is not square, and lineax's code of the result.

    flatten: an object of equinox.
    static: a value for each leaf of the structure, an object without value for those that are operands.
    treedef: the structure of operator, state, vector, options, solver and whether a failure raises.
    """


_SUCCESSFUL, _SINGULAR, _NONFINITE_INPUT = 0, 2, 6  # positions in lineax's enumeration


# -- the structure -----------------------------------------------------------------------------


class _Node(NamedTuple):
    """A part of a structure: what it is, and its parts.

    name: `*` for a leaf, that of a class for a custom node, "" for others.
    about: the text of what a custom node holds besides its parts.
    """

    name: str
    about: str
    parts: tuple[_Node, ...]

    def leaves(self) -> int:
        """The number of its leaves."""
        return 1 if self.name == "*" else sum(part.leaves() for part in self.parts)

    def names(self) -> set[str]:
        """The names of its custom nodes."""
        return {self.name}.union(*[part.names() for part in self.parts])


_CLOSING = {"(": ")", "[": "]", "{": "}"}


def _end(text: str, start: int) -> int:
    """The offset of the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    raise ValueError(f"a bracket is not closed in {text}")


def _items(text: str) -> list[str]:
    """What the commas of a text separate, those inside of brackets aside."""
    found, start, i = [], 0, 0
    while i < len(text):
        if text[i] in _CLOSING:
            i = _end(text, i)
        elif text[i] == ",":
            found.append(text[start:i])
            start = i + 1
        i += 1
    return [x.strip() for x in [*found, text[start:]] if x.strip()]


def _node(text: str) -> _Node:
    """The structure that a text of JAX's describes. Raises ValueError for other texts."""
    if text in ("*", "None"):
        return _Node(text, "", ())
    if text.startswith("CustomNode("):
        about, parts = _items(text.removeprefix("CustomNode(")[:-1])
        name, _, rest = about.partition("[")
        return _Node(name, rest, _node(parts).parts)
    if text[:1] in ("(", "["):
        return _Node("", "", tuple(map(_node, _items(text[1:-1]))))
    if text[:1] == "{":
        values = [item.partition(":")[2].strip() for item in _items(text[1:-1])]
        return _Node("", "", tuple(map(_node, values)))
    raise ValueError(f"{text!r} is no structure")


# -- the system --------------------------------------------------------------------------------


class _System(NamedTuple):
    """What is solved, and how.

    kind: how x is computed: a key of `_SOLVE`.
    about: what the operator holds besides its operands: its tags.
    places: the operands that are needed for that, b aside.
    """

    kind: str
    about: str
    places: tuple[int, ...]


_OPERATORS = {
    "MatrixLinearOperator": "matrix",
    "DiagonalLinearOperator": "diagonal",
    "TridiagonalLinearOperator": "tridiagonal",
}
_DIRECT = {"Cholesky", "Diagonal", "LU", "QR", "Triangular", "Tridiagonal"}
_TOKENS = {
    "cholesky_token": "Cholesky",
    "lu_token": "LU",
    "qr_token": "QR",
    "triangular_token": "Triangular",
    "tridiagonal_token": "Tridiagonal",
    "well_posed_diagonal_token": "Diagonal",
}


def _refuse(why: str) -> Any:
    message = f"linear_solve: {why}; `jaxprtool trace` of the function writes what it stands for"
    jt.ill_typed(message, "linear-solve")


def _structure(treedef: str) -> tuple[_Node, ...]:
    """The six parts of the structure."""
    try:
        parts = _node(treedef.strip().removeprefix("PyTreeDef(")[:-1]).parts
    except (ValueError, RecursionError):
        parts = ()
    return parts if len(parts) == 6 else _refuse("its structure cannot be read")


@functools.lru_cache
def _system(static: tuple[Any, ...], treedef: str, count: int) -> _System:
    """The system that an equation with `count` operands states. Raises JaxprTypeError for one that is not known here."""
    operator, state, vector, options, solver, _ = _structure(treedef)
    total = sum(map(_Node.leaves, (operator, state, vector, options, solver)))
    held = [str(x).startswith("<object object") for x in static]
    if sum(held) != count or len(held) < total or vector.leaves() != 1:
        _refuse(f"its structure does not fit {count} operands, of which one is the vector")
    number = iter(range(count))
    places = [next(number) if h else None for h in held]
    ends = operator.leaves(), operator.leaves() + state.leaves()
    of_operator = tuple(i for i in places[: ends[0]] if i is not None)
    of_state = tuple(i for i in places[ends[0] : ends[1]] if i is not None)
    tokens = [_TOKENS[name] for name in state.names() if name in _TOKENS]
    how = tokens[0] if tokens and solver.name == "AutoLinearSolver" else solver.name
    kind = _OPERATORS.get(operator.name)
    if how not in _DIRECT:
        _refuse(f"{how} is not one of {', '.join(sorted(_DIRECT))}")
    if how == "Diagonal" and kind != "diagonal":
        _refuse("Diagonal is known here for diagonal operators")
    if solver.name == "Diagonal" and static[total - solver.leaves()] is not True:
        _refuse(
            "Diagonal is known here with well_posed=True: elements near zero count as zeros else"
        )
    if kind is not None:
        triangular = how == "Triangular" and kind == "matrix"
        return _System("triangular" if triangular else kind, operator.about, of_operator)
    if how != "LU" or "[True]" in state.parts[-1].about + str(state.parts[-1].parts):
        _refuse(f"{how} of a {operator.name} is not known here")
    return _System("factors", operator.about, of_state)


def _column(b: Any) -> Any:
    return lax.reshape(b, new_sizes=(*b.shape, 1))


def _triangle(a: Any, b: Any, **params: Any) -> Any:
    """x with op(a) x = b for a triangular matrix and a vector."""
    x = lax.triangular_solve(a, _column(b), left_side=True, **params)
    return lax.reshape(x, new_sizes=b.shape)


def _by_factors(lu: Any, pivots: Any, b: Any) -> Any:
    permutation = lax.lu_pivots_to_permutation(pivots, permutation_size=b.shape[0])
    y = _triangle(lu, b[permutation], lower=True, unit_diagonal=True)
    return _triangle(lu, y, lower=False)


def _by_matrix(a: Any, b: Any) -> Any:
    """Through LU where a is square; QR of it, or of its transpose, gives least squares, or the least norm."""
    m, n = a.shape
    if m == n:
        lu, pivots, _ = lax.lu(a)
        return _by_factors(lu, pivots, b)
    tall = a if m > n else lax.transpose(a, permutation=(1, 0))
    q, r = lax.qr(tall, full_matrices=False)
    if m > n:
        return _triangle(r, _product(q, b, 0), lower=False)
    return _product(q, _triangle(r, b, lower=False, transpose_a=True), 1)


def _product(q: Any, b: Any, axis: int) -> Any:
    """The contraction of an axis of a matrix with a vector."""
    return lax.dot_general(q, b, dimension_numbers=(((axis,), (0,)), ((), ())))


def _by_triangle(a: Any, b: Any, about: str) -> Any:
    lower, unit = "lower_triangular_tag" in about, "unit_diagonal_tag" in about
    return _triangle(a, b, lower=lower, unit_diagonal=unit)


def _by_diagonals(d: Any, below: Any, above: Any, b: Any) -> Any:
    zero = lax.zeros((1,), d.dtype)
    dl = lax.concatenate(zero, below, dimension=0)
    du = lax.concatenate(above, zero, dimension=0)
    return lax.reshape(lax.tridiagonal_solve(dl, d, du, _column(b)), new_sizes=b.shape)


def _solution(system: _System, operands: Any) -> Any:
    parts, b = [operands[i] for i in system.places], operands[-1]
    if system.kind == "triangular":
        return _by_triangle(parts[0], b, system.about)
    return _SOLVE[system.kind](*parts, b)


_SOLVE: dict[str, Any] = {
    "matrix": _by_matrix,
    "diagonal": lambda d, b: lax.div(b, d),
    "tridiagonal": _by_diagonals,
    "factors": _by_factors,
}


# -- the row -----------------------------------------------------------------------------------


def _of(operands: Any, params: Any) -> _System:
    return _system(params["static"], str(params["treedef"]), len(operands))


def _types(*operands: Any, **params: Any) -> Any:
    system, b = _of(operands, params), operands[-1]
    shapes = [operands[i].shape for i in system.places]
    first = shapes[0] if shapes else ()
    n = first[-1:] if system.kind in ("matrix", "triangular") else b.shape
    fits = {
        "matrix": lambda: len(first) == 2 and first[0] == b.shape[0],
        "triangular": lambda: first == (*b.shape, *b.shape),
        "diagonal": lambda: first == b.shape,
        "tridiagonal": lambda: shapes[1:] == [(b.shape[0] - 1,)] * 2 and first == b.shape,
        "factors": lambda: shapes == [(*b.shape, *b.shape), b.shape],
    }
    if len(b.shape) != 1 or not fits[system.kind]():
        types = ", ".join(map(str, operands))
        jt.ill_typed(f"linear_solve: {system.kind} and vector do not fit together: {types}")
    if b.dtype.kind != "f":
        _refuse(f"vectors of {b.dtype} are not known here")
    return [jt.ShapedArray(n, b.dtype), jt.ShapedArray((), _CODE)]


def _expanded(in_avals: Any, *operands: Any, **params: Any) -> Any:
    """x, and the code: whether x is finite, and if not, whether b was."""
    x = _solution(_of(operands, params), operands)
    fine = lax.reduce_and(lax.is_finite(x), axes=(0,))
    given = lax.reduce_and(lax.is_finite(operands[-1]), axes=(0,))
    codes = [
        lax.convert_element_type(c, new_dtype=_CODE)
        for c in (_NONFINITE_INPUT, _SINGULAR, _SUCCESSFUL)
    ]
    return [x, lax.select_n(fine, lax.select_n(given, *codes[:2]), codes[2])]


def _some(system: _System, operands: Any, which: list[int]) -> Any:
    """x as a function of some of the operands."""

    def f(*xs: Any) -> Any:
        full = list(operands)
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        return _solution(system, full)

    return f


def _moved_vector(primals: Any, tangents: Any, place: int, x: Any) -> Any:
    """What A x' is: b' - A' x."""
    minus = lax.neg(_product(jt.instantiate(tangents[place]), x, 1))
    return lax.add(jt.instantiate(tangents[-1]), minus)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    system = _of(primals, params)
    out = linear_solve(*primals, **params)
    used = {*system.places, len(primals) - 1}
    live = [i for i, t in enumerate(tangents) if type(t) is not jt.Zero and i in used]
    zeros = [jt.Zero(jt.ShapedArray(x.shape, x.dtype)) for x in out]
    if system.kind == "factors" and any(
        type(t) is not jt.Zero and i not in used and t.dtype.kind == "f"
        for i, t in enumerate(tangents)
    ):
        _refuse("the derivative by a function as operator is not known here")
    if not live:
        return out, zeros
    if system.kind == "triangular":  # by all elements of A, as lineax has it
        right = _moved_vector(primals, tangents, system.places[0], out[0])
        return out, [_by_triangle(primals[system.places[0]], right, system.about), zeros[1]]
    f = _some(system, primals, live)
    _, moved = jt.jvp(f, tuple(primals[i] for i in live), tuple(tangents[i] for i in live))
    return out, [moved, zeros[1]]


def _transpose(cts: Any, *operands: Any, **params: Any) -> Any:
    found: list[Any] = [None] * len(operands)
    b = operands[-1]
    if any(jt.is_linear(x) for x in operands[:-1]):
        _refuse("it is linear in the vector only")
    if jt.is_linear(b) and type(cts[0]) is not jt.Zero:
        zero = jt.instantiate(jt.Zero(b.aval))
        f = _some(_of(operands, params), operands, [len(operands) - 1])
        (found[-1],) = jt.vjp(f, zero)[1](cts[0])
    return found


def _batch(axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
    f = functools.partial(_expanded, (), **params)
    return jt.vmap(f, in_axes=tuple(dims))(*values), [0, 0]


jt.define(
    linear_solve,
    **jt.decomposed(_expanded),
    abstract_eval=_types,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    cost=lambda in_avals, out_avals, **_: 2 * in_avals[0].size * in_avals[-1].size,
)
