"""Constants that a user gives to a program have the number and the types that it says, as arguments have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt

PROGRAM = jt.parse(
    "{ lambda a:f32[2] ; b:f32[2]. let c:f32[2] = add a b in (c,) } where a = [1.0, 2.0]"
)
X = np.ones(2, np.float32)
USES: dict[str, Callable[[jt.ClosedJaxpr], Any]] = {
    "eval": lambda p: jt.eval_jaxpr(p, [X]),
    "run": lambda p: jt.run(p, X),
    "jit": lambda p: jt.run(p, X, jit=True),
    "check": jt.check,
    "lower": jt.lower,
    "to_jax": jt.to_jax,
    "optimize": jt.optimize,
}
WRONG = {
    "few": ([], "1 constant, 0 values"),
    "many": ([X, X], "1 constant, 2 values"),
    "shape": ([np.ones(3, np.float32)], r"the constant a is f32\[3\], and f32\[2\] is needed"),
    "type": ([np.ones(2)], r"the constant a is f64\[2\], and f32\[2\] is needed"),
    "text": (["x"], "the constant a is no array but a str"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("use", USES)
def test_constants_are_those_of_the_program(use, name):
    consts, message = WRONG[name]
    with pytest.raises(jt.JaxprTypeError, match=message):
        USES[use](PROGRAM.replace(consts=consts))


@pytest.mark.parametrize("name", WRONG)
def test_no_file_is_written_of_others(tmp_path, name):
    consts, message = WRONG[name]
    with pytest.raises(jt.JaxprTypeError, match=message):
        jt.save(PROGRAM.replace(consts=consts), tmp_path / "p.jaxpr")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("use", USES)
def test_constants_of_the_types_are_taken(use):
    USES[use](PROGRAM.replace(consts=[np.array([3, 4], np.float32)]))
