"""lineax's `linear_solve` with direct solvers, as far as the text of a program determines it.

The operands are leaves of an operator A, the state of a solver and a vector b: `treedef` is the
structure of (operator, state, vector, options, solver, throw), and `static` has the value of each
leaf that is no operand.

- Where A is a matrix, diagonal or tridiagonal, x is computed from A, so that all derivatives are
  defined.
- Where A is a function, x is computed from the LU or QR factors or the diagonal in the state.
  Derivatives with respect to A are those of the function, whose jaxpr the text has; with QR (least
  squares) there are none.

The transpose rule keeps the structure, and sets the param `transposed`. Iterative solvers are
refused, since the error of their result depends on lineax's implementation.
"""

from __future__ import annotations

import functools
import math
import re
from types import NoneType
from typing import Any, NamedTuple

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.objects import TreeDef
from jaxprtool.ir.dtypes import INT32 as _CODE
from jaxprtool.plugins.equinox_vprim import of_each
from jaxprtool.plugins.lineax_structure import Node, read_node


@jt.primitive(multiple_results=True)
def linear_solve(
    *operands, flatten: Any, static: tuple, transposed: bool = False, treedef: TreeDef
):
    """x with A x = b (least squares or least norm where A is not square), and lineax's status code.

    flatten: an object of equinox; it is not used.
    static: the value of each leaf of the structure; a placeholder for leaves that are operands.
    transposed: whether A^T x = b is solved, with b as the last operands; JAX's text never has it.
    treedef: the structure of (operator, state, vector, options, solver, throw).
    """


_SUCCESSFUL, _SINGULAR, _NONFINITE_INPUT = 0, 2, 6  # positions in lineax's enumeration


# -- the system --------------------------------------------------------------------------------


class _System(NamedTuple):
    """The linear system that an equation states, and how it is solved.

    kind: how x is computed: a key of `_SOLVE`.
    about: the text of the static data of the operator: its tags.
    places: the indices of the operands from which x is computed, b excepted.
    vector: the indices of the operands that are b.
    turned: whether the factors are those of the transposed operator of the system.
    transposed: whether A^T x = b is solved.
    shapes: the shapes of the leaves of x.
    of_transposed: the shapes of the leaves of b.
    operator: the structure of A.
    leaves: for each leaf of A, its operand (a `_Place`) or its static value.
    rcond: an element of a diagonal counts as zero up to rcond times the largest one; None for
    lineax's default.
    """

    kind: str
    about: str
    places: tuple[int, ...]
    vector: tuple[int, ...]
    turned: bool
    transposed: bool
    shapes: tuple[tuple[int, ...], ...]
    of_transposed: tuple[tuple[int, ...], ...]
    operator: Node
    leaves: tuple[Any, ...]
    rcond: float | None = None


class _Place(NamedTuple):
    """A leaf of the operator that is an operand, with its index."""

    number: int


_OPERATORS = {
    "MatrixLinearOperator": "matrix",
    "DiagonalLinearOperator": "diagonal",
    "TridiagonalLinearOperator": "tridiagonal",
}
_FACTORED = {"LU": "lu", "QR": "qr"}  # the factors from which x is computed, where A is a function
_SCALES = (
    "scale",
    "scale but zeros",
)  # from a diagonal; elements near zero count as zeros, whose x is 0
_BY_STATE = (*_FACTORED.values(), *_SCALES)
_DIGITS = {
    "bfloat16": 7,
    "float16": 10,
    "float32": 23,
    "float64": 52,
}  # binary ones after the point
_SHAPE, _NUMBER = re.compile(r"shape=\(([^)]*)\)"), re.compile(r"\d+")
_DIRECT = {"Cholesky", "Diagonal", "LU", "QR", "Triangular", "Tridiagonal"}
_TOKENS = {
    "cholesky_token": "Cholesky",
    "diagonal_token": "Diagonal",
    "lu_token": "LU",
    "qr_token": "QR",
    "triangular_token": "Triangular",
    "tridiagonal_token": "Tridiagonal",
    "well_posed_diagonal_token": "Diagonal",
}


def _refuse(why: str) -> Any:
    message = f"linear_solve: {why}; `jaxprtool trace` of the function writes what it stands for"
    jt.ill_typed(message, "linear-solve")


def _structure(treedef: str) -> tuple[Node, ...]:
    """Parse the param `treedef` into its six parts."""
    try:
        parts = read_node(treedef.strip().removeprefix("PyTreeDef(")[:-1]).parts
    except (ValueError, RecursionError):
        parts = ()
    return parts if len(parts) == 6 else _refuse("its structure cannot be read")


@functools.lru_cache
def _system(static: tuple[Any, ...], treedef: str, count: int) -> _System:
    """Return the system that an equation with `count` operands states. Raises JaxprTypeError for
    unsupported ones.
    """
    operator, state, vector, options, solver, _ = _structure(treedef)
    total = sum(map(Node.leaves, (operator, state, vector, options, solver)))
    held = [str(x).startswith("<object object") for x in static]
    if sum(held) != count or len(held) < total or any(held[total - solver.leaves() :]):
        _refuse(f"its structure does not fit {count} operands")
    number = iter(range(count))
    leaves = [_Place(next(number)) if h else x for h, x in zip(held, static, strict=True)]
    ends = operator.leaves(), operator.leaves() + state.leaves()
    of_vector = _places(leaves[ends[1] : ends[1] + vector.leaves()])
    tokens = [_TOKENS[name] for name in state.names() if name in _TOKENS]
    how = tokens[0] if tokens and solver.name == "AutoLinearSolver" else solver.name
    kind = _OPERATORS.get(operator.name)
    given = (of_vector, operator, tuple(leaves[: ends[0]]))
    if how not in _DIRECT:
        _refuse(f"{how} is not one of {', '.join(sorted(_DIRECT))}")
    if how == "Diagonal":
        own = [*static[total - solver.leaves() : total]]  # well_posed, and rcond where it is given
        well_posed = "well_posed_diagonal_token" in state.names() if tokens else own[:1] == [True]
        if kind != "diagonal" or not well_posed:
            rcond = own[1] if len(own) == 2 and not tokens else None
            return _of_diagonal(well_posed, rcond, state, leaves[ends[0] : ends[1]], given)
    if kind is not None:
        triangular = how == "Triangular" and kind == "matrix"
        places = _places(leaves[: ends[0]])
        kind = "triangular" if triangular else kind
        return _of_operator(kind, operator, places, given)
    if how not in _FACTORED:
        _refuse(f"{how} of a {operator.name} is not known here")
    return _of_factors(how, state, leaves[ends[0] : ends[1]], given)


def _of_operator(kind: str, operator: Node, places: Any, given: Any) -> _System:
    """Return a system whose x is computed from A."""
    if len(given[0]) != 1:
        _refuse(f"a vector of {len(given[0])} leaves does not fit a {operator.name}")
    return _System(kind, operator.about, places, given[0], False, False, (), (), *given[1:])


def _of_diagonal(
    well_posed: bool, rcond: Any, state: Node, leaves: list[Any], given: Any
) -> _System:
    """Return a system whose x is computed from the diagonal in the state; the state has none where
    all elements are 1.
    """
    if state.parts and state.parts[0].name in _TOKENS:
        state = state.parts[1]
    if len(state.parts) != 2 or len(leaves) > 1 or not isinstance(rcond, (int, float, NoneType)):
        _refuse("the state of Diagonal cannot be read")
    of_b, of_x = _shapes_of(state.parts[1].about, len(given[0]))
    kind = "scale" if well_posed else "scale but zeros"
    of_state = _System(kind, "", _places(leaves), given[0], False, False, of_x, of_b, *given[1:])
    return of_state._replace(rcond=rcond)


def _shapes_of(about: str, n: int) -> tuple[Any, Any]:
    """Return the shapes of the `n` leaves of b, and those of the leaves of x, from the text of a
    state.
    """
    found = [tuple(int(size) for size in _NUMBER.findall(shape)) for shape in _SHAPE.findall(about)]
    return tuple(found[:n]), tuple(found[n:])


def _of_factors(how: str, state: Node, leaves: list[Any], given: Any) -> _System:
    """Return a system whose x is computed from the factors in the state, which also has a flag and
    the shapes of b and x.
    """
    if len(state.parts) == 2 and state.parts[0].name in _TOKENS:
        state = state.parts[1]
    if not state.parts or state.parts[0].leaves() != 2:
        _refuse(f"the state of {how} cannot be read")
    n, flags, at = len(given[0]), list[bool](), 2
    of_b, of_x = _shapes_of("", n)
    for part in state.parts[1:]:
        if part.name == "*":
            flags.append(leaves[at] is True)
        elif "shape=" in part.about:
            of_b, of_x = _shapes_of(part.about, n)
        elif part.name == "Static":
            flags.append("[True]" in part.about)
        at += part.leaves()
    if len(flags) != 1:
        _refuse(f"the state of {how} cannot be read")
    places = _places(leaves[:2])
    return _System(_FACTORED[how], "", places, given[0], flags[0], False, of_x, of_b, *given[1:])


def _places(leaves: Any) -> tuple[int, ...]:
    """Return the indices of the operands among some leaves."""
    return tuple([x.number for x in leaves if isinstance(x, _Place)])


def _column(b: Any) -> Any:
    return lax.reshape(b, new_sizes=(*b.shape, 1))


def _triangle(a: Any, b: Any, **params: Any) -> Any:
    """Return x with op(a) x = b for a triangular matrix a and a vector b."""
    x = lax.triangular_solve(a, _column(b), left_side=True, **params)
    return lax.reshape(x, new_sizes=b.shape)


def _by_factors(lu: Any, pivots: Any, b: Any) -> Any:
    permutation = lax.lu_pivots_to_permutation(pivots, permutation_size=b.shape[0])
    y = _triangle(lu, b[permutation], lower=True, unit_diagonal=True)
    return _triangle(lu, y, lower=False)


def _by_matrix(a: Any, b: Any) -> Any:
    """Return x with a x = b: by LU where a is square, else least squares (QR of a) or least norm
    (QR of a^T).
    """
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
    """Return the contraction of one axis of a matrix with a vector."""
    return lax.dot_general(q, b, dimension_numbers=(((axis,), (0,)), ((), ())))


def _by_triangle(a: Any, b: Any, about: str) -> Any:
    lower, unit = "lower_triangular_tag" in about, "unit_diagonal_tag" in about
    return _triangle(a, b, lower=lower, unit_diagonal=unit)


def _by_diagonals(d: Any, below: Any, above: Any, b: Any) -> Any:
    zero = lax.zeros((1,), d.dtype)
    dl = lax.concatenate(zero, below, dimension=0)
    du = lax.concatenate(above, zero, dimension=0)
    return lax.reshape(lax.tridiagonal_solve(dl, d, du, _column(b)), new_sizes=b.shape)


def _by_lu(lu: Any, pivots: Any, b: Any, turned: bool) -> Any:
    """Return x with A x = b, or with A^T x = b where `turned`, from the factors P A = L U."""
    if not turned:
        return _by_factors(lu, pivots, b)
    permutation = lax.lu_pivots_to_permutation(pivots, permutation_size=b.shape[0])
    y = _triangle(lu, b, lower=False, transpose_a=True)
    z = _triangle(lu, y, lower=True, unit_diagonal=True, transpose_a=True)
    return lax.sort(permutation, z, dimension=0, is_stable=True, num_keys=1)[1]


def _by_qr(q: Any, r: Any, b: Any, turned: bool) -> Any:
    """Return the least-squares solution from the QR factors of A, or the least-norm solution from
    those of A^T.

    Since lineax 0.1 the state has the packed factors of LAPACK's geqrf: R, and below it the
    Householder reflectors of Q.
    """
    if len(r.shape) == 1:
        q, r = lax.householder_product(q, r), q[: r.shape[0]]
    if turned:
        return _product(q, _triangle(r, b, lower=False, transpose_a=True), 1)
    return _triangle(r, _product(q, b, 0), lower=False)


def _by_scale(system: _System, diagonal: Any, b: Any) -> Any:
    """Return x with d x = b for a diagonal d; x is 0 where an element of d counts as zero."""
    if system.kind == "scale but zeros":
        size, largest = lax.abs(diagonal), lax.reduce_max(lax.abs(diagonal), axes=(0,))
        eps = 2.0 ** -_DIGITS[diagonal.dtype.name]
        own = 2 * eps * diagonal.shape[0]
        part = own if system.rcond is None else eps if system.rcond < 0 else system.rcond
        kept = lax.gt(size, lax.mul(largest, lax.full_like(largest, part)))
        diagonal = lax.select_n(kept, lax.full_like(diagonal, math.inf), diagonal)
    return lax.div(b, diagonal)


def _raveled(leaves: Any) -> Any:
    """Return all elements of some arrays as one vector."""
    flat = [lax.reshape(x, new_sizes=(x.size,)) for x in leaves]
    return flat[0] if len(flat) == 1 else lax.concatenate(*flat, dimension=0)


def _shapes_of_x(system: _System, operands: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the leaves of x, for systems that are solved by factors."""
    shapes = system.shapes or [operands[i].shape for i in system.vector]
    return [tuple(shape) for shape in shapes]


def _transposed(system: _System) -> _System:
    """Return the system of the transposed operator."""
    first = min(system.vector)
    n = len(system.shapes or system.vector)
    return system._replace(
        vector=tuple(range(first, first + n)),
        turned=not system.turned,
        transposed=not system.transposed,
        shapes=system.of_transposed,
        of_transposed=system.shapes,
    )


def _solution(system: _System, operands: Any) -> list[Any]:
    """Return the leaves of x."""
    parts, vector = ([operands[i] for i in which] for which in (system.places, system.vector))
    if system.kind == "triangular":
        return [_by_triangle(parts[0], vector[0], system.about)]
    if system.kind not in _BY_STATE:
        return [_SOLVE[system.kind](*parts, vector[0])]
    b = _raveled(vector)
    if system.kind in _SCALES:
        x = _by_scale(system, parts[0], b) if parts else b
    else:
        x = _SOLVE[system.kind](*parts, b, system.turned)
    leaves, at = list[Any](), 0
    for shape in _shapes_of_x(system, operands):
        end = at + math.prod(shape)
        leaves.append(lax.reshape(x[at:end], new_sizes=shape))
        at = end
    return leaves


_SOLVE: dict[str, Any] = {
    "matrix": _by_matrix,
    "diagonal": lambda d, b: lax.div(b, d),
    "tridiagonal": _by_diagonals,
    "lu": _by_lu,
    "qr": _by_qr,
}


# -- the row -----------------------------------------------------------------------------------


def _of(operands: Any, params: Any) -> _System:
    """Return the system of an equation; where `transposed` is set, that of the transposed
    operator.
    """
    static, treedef = params["static"], str(params["treedef"])
    if not params["transposed"]:
        return _system(static, treedef, len(operands))
    held = sum([str(x).startswith("<object object") for x in static])
    system = _transposed(_system(static, treedef, held))
    if len(operands) != max(system.vector) + 1 or system.kind not in _BY_STATE:
        _refuse("what is transposed does not fit its structure")
    return system


def _types(*operands: Any, **params: Any) -> Any:
    system = _of(operands, params)
    b = operands[system.vector[0]]
    shapes = [operands[i].shape for i in system.places]
    if system.kind in _BY_STATE:
        outs, fits = _types_by_factors(system, operands, shapes)
    else:
        first = shapes[0] if shapes else ()
        outs = [first[-1:] if system.kind in ("matrix", "triangular") else b.shape]
        of_kind = {
            "matrix": lambda: len(first) == 2 and first[0] == b.shape[0],
            "triangular": lambda: first == (*b.shape, *b.shape),
            "diagonal": lambda: first == b.shape,
            "tridiagonal": lambda: shapes[1:] == [(b.shape[0] - 1,)] * 2 and first == b.shape,
        }
        fits = len(b.shape) == 1 and of_kind[system.kind]()
    if not fits:
        types = ", ".join(map(str, operands))
        jt.ill_typed(f"linear_solve: {system.kind} and vector do not fit together: {types}")
    if b.dtype.name not in _DIGITS:
        _refuse(f"vectors of {b.dtype} are not known here")
    return [*[jt.ShapedArray(out, b.dtype) for out in outs], jt.ShapedArray((), _CODE)]


def _types_by_factors(system: _System, operands: Any, shapes: Any) -> tuple[Any, bool]:
    """Return the shapes of the leaves of x, and whether these, the factors and b fit together."""
    b = [operands[i] for i in system.vector]
    n = sum([x.size for x in b])
    outs = _shapes_of_x(system, operands)
    m = sum(map(math.prod, outs))
    alike = all(x.dtype == b[0].dtype for x in b)
    if system.kind in _SCALES:
        fits = all(operands[i].dtype == b[0].dtype for i in system.places)
        return outs, alike and fits and n == m and shapes in ([(n,)], [])
    first, second = (operands[i].dtype for i in system.places)
    alike = alike and first == b[0].dtype and second == (_CODE if system.kind == "lu" else first)
    if system.kind == "lu":
        return outs, alike and n == m and shapes == [(n, n), (n,)]
    tall, k = (m, n) if system.turned else (n, m)
    return outs, alike and tall >= k and shapes in ([(tall, k), (k, k)], [(tall, k), (k,)])


def _expanded(in_avals: Any, *operands: Any, **params: Any) -> Any:
    """Return the leaves of x, and the status code: whether x is finite, and if not, whether b
    was.
    """
    system = _of(operands, params)
    x = _solution(system, operands)
    fine = _finite(x)
    given = _finite([operands[i] for i in system.vector])
    codes = [
        lax.convert_element_type(c, new_dtype=_CODE)
        for c in (_NONFINITE_INPUT, _SINGULAR, _SUCCESSFUL)
    ]
    return [*x, lax.select_n(fine, lax.select_n(given, *codes[:2]), codes[2])]


def _finite(leaves: Any) -> Any:
    return lax.reduce_and(lax.is_finite(_raveled(leaves)), axes=(0,))


def _some(system: _System, operands: Any, which: list[int]) -> Any:
    """Return the function from the operands `which` to the leaves of x."""

    def f(*xs: Any) -> list[Any]:
        full = list(operands)
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        return _solution(system, full)

    return f


def _applied(operator: Node, leaves: list[Any], operands: Any, x: list[Any]) -> list[Any]:
    """Return the leaves of A x, for operators that the text determines. Removes the leaves of A
    from `leaves`.
    """
    name = operator.name
    if name in ("AddLinearOperator", "ComposedLinearOperator"):
        first = leaves[: operator.parts[0].leaves()]
        del leaves[: len(first)]
        if name == "AddLinearOperator":
            both = _applied(operator.parts[0], first, operands, x)
            return list(map(lax.add, both, _applied(operator.parts[1], leaves, operands, x)))
        x = _applied(operator.parts[1], leaves, operands, x)
        return _applied(operator.parts[0], first, operands, x)
    if name == "TaggedLinearOperator":
        return _applied(operator.parts[0], leaves, operands, x)
    if name == "IdentityLinearOperator":
        return x
    own = [leaves.pop(0) for _ in range(operator.leaves())]
    values = [operands[leaf.number] for leaf in own if isinstance(leaf, _Place)]
    if name == "MatrixLinearOperator" and len(values) == len(x) == 1:
        return [_product(values[0], x[0], 1)]
    if name == "DiagonalLinearOperator" and len(values) == len(x) == 1:
        return [lax.mul(values[0], x[0])]
    functions = [leaf.jaxpr for leaf in own if isinstance(leaf, jt.ClosedJaxpr)]
    if len(functions) == 1:
        f, held = functions[0], len(functions[0].const_binders)
        n = len(f.in_binders)
        if name == "FunctionLinearOperator" and len(values) == held and n == len(x):
            return list(jt.eval_jaxpr(f, [*values, *x]))
        if name == "JacobianLinearOperator" and len(values) == held + n and n == len(x):
            consts, at = values[:held], values[held:]
            of_x = jt.jaxpr_as_fun(jt.ClosedJaxpr(f, consts))
            return list(jt.jvp(of_x, tuple(at), tuple(x))[1])
    _refuse("the derivative by a function as operator is not known here")
    return []


def _product_of(system: _System, operands: Any, x: list[Any]) -> list[Any]:
    """Return A x, or A^T x where the system is transposed."""
    if not system.transposed:
        return _applied(system.operator, [*system.leaves], operands, x)
    zeros = [lax.full_like(operands[i], 0) for i in system.vector]

    def f(*y: Any) -> list[Any]:
        return _applied(system.operator, [*system.leaves], operands, list(y))

    return list(jt.vjp(f, *zeros)[1](x))


def _moved_vector(system: _System, primals: Any, tangents: Any, x: list[Any]) -> list[Any]:
    """Return b' - A' x, which equals A x', where ' marks tangents."""
    moved = [jt.instantiate(tangents[i]) for i in system.vector]
    places = _places(system.leaves)
    live = [i for i in places if type(tangents[i]) is not jt.Zero]
    if not live:
        return moved

    def product(*of_operator: Any) -> list[Any]:
        full = list(primals)
        for i, value in zip(live, of_operator, strict=True):
            full[i] = value
        return _product_of(system, full, x)

    at = tuple(primals[i] for i in live), tuple(tangents[i] for i in live)
    _, changes = jt.jvp(product, *at)
    return [lax.add(b, lax.neg(jt.instantiate(c))) for b, c in zip(moved, changes, strict=True)]


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """The jvp rule: it differentiates the solver where x is computed from A, else it solves A x' =
    b' - A' x.

    A triangular A is differentiated as a full matrix, with tangents of all its elements, as lineax
    does.
    """
    system = _of(primals, params)
    out = linear_solve(*primals, **params)
    zeros = [jt.Zero(jt.ShapedArray(x.shape, x.dtype)) for x in out]
    used = {*system.places, *system.vector}
    given = {*system.vector, *_places(system.leaves)}
    factored = system.kind in _BY_STATE
    needed = given if factored else used
    live = [i for i, t in enumerate(tangents) if type(t) is not jt.Zero and i in needed]
    if not live:
        return out, zeros
    if factored or system.kind == "triangular":
        if system.kind == "qr" and {*live} - {*system.vector}:
            _refuse("the derivative of least squares by a function as operator is not known here")
        right = _moved_vector(system, primals, tangents, list(out[:-1]))
        full = list(primals)
        for i, value in zip(system.vector, right, strict=True):
            full[i] = value
        return out, [*linear_solve(*full, **params)[:-1], zeros[-1]]
    f = _some(system, primals, live)
    _, moved = jt.jvp(f, tuple(primals[i] for i in live), tuple(tangents[i] for i in live))
    return out, [*moved, zeros[-1]]


def _transpose(cts: Any, *operands: Any, **params: Any) -> Any:
    found: list[Any] = [None] * len(operands)
    system = _of(operands, params)
    linear = [i for i, x in enumerate(operands) if jt.is_linear(x)]
    if {*linear} - {*system.vector}:
        _refuse("it is linear in the vector only")
    if linear and any(type(ct) is not jt.Zero for ct in cts[:-1]):
        given = [jt.instantiate(ct) for ct in cts[:-1]]
        if system.kind in _BY_STATE and len(linear) == len(system.vector):
            others = operands[: min(system.vector)]
            turned = {**params, "transposed": not params["transposed"]}
            for i, ct in zip(linear, linear_solve(*others, *given, **turned)[:-1], strict=True):
                found[i] = ct
            return found
        zeros = [jt.instantiate(jt.Zero(operands[i].aval)) for i in linear]
        f = _some(system, operands, linear)
        moved = jt.vjp(f, *zeros)[1](given)
        for i, ct in zip(linear, moved, strict=True):
            found[i] = ct
    return found


def _batch(axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
    outs = of_each("linear_solve", params, axis_size, values, dims)
    return outs, [0] * len(outs)


jt.define(
    linear_solve,
    **jt.decomposed(_expanded),
    abstract_eval=_types,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    cost=lambda in_avals, out_avals, **_: 2 * in_avals[0].size * in_avals[-1].size,
)
