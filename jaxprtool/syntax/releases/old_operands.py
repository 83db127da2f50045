"""Equations with other operands, or with another jaxpr, in texts of earlier releases: to 0.3.0 `select c t f`, and to
0.4.13 the jaxpr of a scatter that overwrites, and to 0.7.0 the sizes of a shape that has None.

    b:f32[3] = select c t f                                   select_n c f t
    b:f32[4] = scatter[... update_jaxpr={ lambda ; c:f32[] d:f32[]. let  in (d,) }] a i u
    b:f32[a] = broadcast_in_dim[... shape=(None,)] 2.0 a      broadcast_in_dim[... shape=(a,)] 2.0

They are read as the current ones (`earlier`), and arranged as before when they are printed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from jaxprtool.ir.avals import AbstractType, ShapedArray
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, Var
from jaxprtool.ir.walk import map_programs, with_eqns
from jaxprtool.syntax.releases.spellings import SIZES, Release, Replaced
from jaxprtool.syntax.types import UNTYPED

__all__ = ["SELECT_N", "arranged", "is_kernel", "no_choice"]

SELECT_N: Release = (0, 3, 1)  # since then the operand for False comes first
_KEYS: Release = (0, 3, 17)  # since then `random_gamma` takes keys; before, their words
_PLAIN: Release = (0, 4, 14)  # since then a scatter that overwrites has no jaxpr
_THUNKS: Release = (0, 6)  # since then the transpose of a linear call is a function
_SHAPED = frozenset({"broadcast_in_dim", "iota"})


def arranged(program: ClosedJaxpr, release: Release, lossless: bool) -> ClosedJaxpr:
    """Return the program with the equations as a release has them; `check` does not accept it.

    The same object where there are no such equations. In a lossless text each scatter has a jaxpr
    of its own, which tells the release; JAX makes one for each element type.
    """
    if release >= SIZES:
        return program

    seconds: dict[Any, ClosedJaxpr] = {}

    def change(closed: ClosedJaxpr) -> ClosedJaxpr:
        eqns = closed.eqns
        if release < _KEYS:
            eqns = _of_words(closed)
        if release < _THUNKS:
            eqns = [_arranged(eqn, release, {} if lossless else seconds) for eqn in eqns]
        if not lossless:
            eqns = _with_sizes(eqns, closed.jaxpr.in_binders)
        same = len(eqns) == len(closed.eqns) and all(map(operator.is_, eqns, closed.eqns))
        return closed if same else with_eqns(closed, eqns)

    return map_programs(program, change)


def _of_words(closed: ClosedJaxpr) -> Sequence[JaxprEqn]:
    """Return the equations of a jaxpr with samples of the words of keys, where only these samples use the keys.

    c:key<fry>[] = random_wrap[impl=fry] a
    b:f32[] = random_gamma[...] c 2.0            b:f32[] = random_gamma a 2.0
    """
    keys = {e.out_binders[0]: e.inputs[0] for e in closed.eqns if e.primitive.name == "random_wrap"}
    if not keys:
        return closed.eqns
    samples = {e for e in closed.eqns if e.primitive.name == "random_gamma" and _drew_so(e)}
    taken = {e.inputs[0] for e in samples} & keys.keys()
    used = (x for e in closed.eqns for x in e.inputs[1 if e in samples else 0 :])
    others = {*used, *closed.jaxpr.outs}
    alone = taken - others
    made: list[JaxprEqn] = []
    for eqn in closed.eqns:
        if eqn in samples and eqn.inputs[0] in alone:
            left = {"log_space": True} if eqn.params.get("log_space") else {}
            words = keys[cast("Var", eqn.inputs[0])]
            made.append(eqn.replace(inputs=[words, *eqn.inputs[1:]], params=left))
        elif not (eqn.out_binders and eqn.out_binders[0] in alone):
            made.append(eqn)
    return made


def _drew_so(eqn: JaxprEqn) -> bool:
    """Whether a sample is drawn as those releases drew."""
    return not eqn.params.get("complement") and not eqn.params.get("partitionable")


def _arranged(eqn: JaxprEqn, release: Release, seconds: dict[Any, ClosedJaxpr]) -> JaxprEqn:
    name = eqn.primitive.name
    if name == "linear_call" and isinstance(eqn.params.get("transpose_jaxpr"), ClosedJaxpr):
        params = {
            k: v for k, v in eqn.params.items() if k not in ("transpose_jaxpr", "transpose_thunk")
        }
        transpose = {"num_transpose_consts": 0, "transpose": eqn.params["transpose_jaxpr"]}
        return eqn.replace(params={**params, **transpose})
    if name == "scatter" and release < _PLAIN and eqn.params.get("update_jaxpr", ...) is None:
        was: Replaced | None = getattr(eqn.params, "was", None)
        second = None if was is None else was.params["update_jaxpr"]
        if second is None and eqn.inputs:
            aval = eqn.inputs[0].aval
            scalar = ShapedArray((), aval.dtype) if isinstance(aval, ShapedArray) else UNTYPED
            second = seconds.get(scalar) or _second_of_two(scalar)
            seconds[scalar] = second
        return eqn.replace(params={**eqn.params, "update_jaxpr": second})
    if name == "select_n" and release < SELECT_N and not no_choice(eqn):
        which, *cases = eqn.inputs
        return eqn.replace(inputs=[which, *reversed(cases)])
    return eqn


def _with_sizes(eqns: Iterable[JaxprEqn], binders: Iterable[Var]) -> list[JaxprEqn]:
    """Return equations with the sizes of their shapes as operands, where their text had them."""
    above, made = {v.name: v for v in binders}, list[JaxprEqn]()
    for eqn in eqns:
        made.append(_with_own_sizes(eqn, above) if eqn.primitive.name in _SHAPED else eqn)
        above.update((v.name, v) for v in eqn.out_binders)
    return made


def _with_own_sizes(eqn: JaxprEqn, above: Mapping[str | None, Var]) -> JaxprEqn:
    was: Replaced | None = getattr(eqn.params, "was", None)
    shape = () if was is None else was.params.get("shape", ())
    if None not in shape or len(shape) != len(eqn.params["shape"]):
        return eqn
    sizes = [d for d, given in zip(eqn.params["shape"], shape, strict=True) if given is None]
    if not all(isinstance(d, str) and d in above for d in sizes):
        return eqn
    params = {**eqn.params, "shape": shape}
    return eqn.replace(inputs=[*eqn.inputs, *[above[d] for d in sizes]], params=params)


def _second_of_two(scalar: AbstractType) -> ClosedJaxpr:
    """Return the jaxpr that returns the second of two scalars of a type."""
    scalars = [Var(scalar) for _ in range(2)]
    return ClosedJaxpr(Jaxpr(scalars, [], scalars[1:]))


def is_kernel(primitive: Primitive) -> bool:
    """Whether the references in the jaxpr of a primitive have memory spaces."""
    return primitive.name == "pallas_call"


def no_choice(eqn: JaxprEqn) -> str:
    """Return why a `select_n` is no choice between two operands by a bool; "" where it is one."""
    which = eqn.inputs[0].aval if eqn.inputs else None
    if len(eqn.inputs) != 3:
        return f"select has two cases there, and not {len(eqn.inputs) - 1}"
    if isinstance(which, ShapedArray) and which.dtype is not BOOL:
        return "select takes a bool there, and not a number"
    return ""
