"""A plug-in that was loaded for one program changes nothing for the primitives that a process declares to JAX itself."""

from __future__ import annotations

import subprocess
import sys

import jax
import pytest
from jax.extend.core import Primitive, jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.core.primitive import declared_primitive


@pytest.mark.parametrize("name", ["linear_solve", "unvmap_any", "no_plug_in_has_this"])
def test_a_primitive_of_the_process_gets_its_own_jaxprs(name):
    """Rules ask for the very object that they were given, which no jaxpr of ours is."""
    held = jax.make_jaxpr(lambda x: x * 2.0)(1.0)
    given = []

    def run(x, *, body):
        given.append(body)
        return jaxpr_as_fun(body)(x)[0]

    own = Primitive(name)
    own.def_impl(run)
    own.def_abstract_eval(lambda x, *, body: x)
    declared_primitive(name)
    program = jt.trace(lambda x: own.bind(x, body=held), 1.0)
    assert given and all(body is held for body in given)
    assert [float(x) for x in jt.eval_jaxpr(jt.parse(str(program)), [3.0])] == [6.0]


def test_the_same_where_a_module_of_a_plug_in_was_imported():
    """As `--plugin` does, before any program holds its primitives."""
    code = (
        "import jaxprtool.plugins.equinox; from tests.plugins import test_loading as t; "
        "t.test_a_primitive_of_the_process_gets_its_own_jaxprs('unvmap_any')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
