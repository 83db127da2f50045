"""A param that an equation may be without says the same when its default is written out."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.core.primitive import find_primitive
from jaxprtool.generation.seeds import seeds

OPTIONAL = [
    (name, key)
    for name in seeds()
    for key, param in find_primitive(name).params.items()
    if param.optional
]


def _with_params(program, name, change):
    """The program with other params of the equations of one primitive."""
    eqns = [
        e.replace(params=change({**e.params})) if e.primitive.name == name else e
        for e in program.jaxpr.eqns
    ]
    return program.replace(jaxpr=program.jaxpr.replace(eqns=eqns))


@pytest.mark.parametrize(("name", "key"), OPTIONAL)
def test_with_its_default_or_without_it(name, key):
    program, default = seeds()[name][0], find_primitive(name).params[key].default
    given = _with_params(program, name, lambda params: {**params, key: default})
    without = _with_params(
        program, name, lambda params: {k: v for k, v in params.items() if k != key}
    )
    assert same_program(without, given)
    assert jt.diff(without, given).equal
    assert str(jt.hash(without)) == str(jt.hash(given))
