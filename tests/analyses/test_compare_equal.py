"""compare of programs that are equal and written differently: there is no first difference."""

import functools
import warnings
from itertools import permutations

import pytest

import jaxprtool as jt
from jaxprtool.driver.compare import compare
from tests.analyses.planting import REAL, real_program

PASSES = ("", "inline", "outline", "unroll", "hoist", "cse,dce")


@functools.lru_cache(maxsize=1)
def written(name):
    """A real program as several passes leave it, the program wrapped in a call, and arguments."""
    program, args = real_program(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {passes: jt.opt(program, passes) if passes else program for passes in PASSES}
        if not program.consts:
            call = jt.jit(jt.jaxpr_as_fun(program))
            made["a call"] = jt.make_jaxpr(call)(*program.in_avals)
    return made, args


@pytest.mark.parametrize("name", REAL)
def test_equal_programs_have_no_first_difference(name):
    made, args = written(name)
    for first, second in [*permutations(made, 2)][::3]:
        found = compare(made[first], made[second], args, first=True)
        if found.equal:
            assert found.first is None, (first, second, str(found))
            assert found.flips is None, (first, second, str(found))
