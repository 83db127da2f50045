"""Assertions about programs, for tests of code that uses JAX.

    from jaxprtool.testing import assert_jaxpr, assert_jaxpr_equal

    def test_step():
        assert_jaxpr(step, params, batch).has_no("f64", "callback").holds("count(dot_general) <= 4", "peak <= 2GiB")
        assert_jaxpr_equal(step, "jaxprs/step.jaxpr", params, batch)

pytest also gets the fixture `jaxpr_snapshot` and tests from case files, see
`jaxprtool.pytest_plugin`.
"""

from __future__ import annotations

from jaxprtool.testing.assertions import JaxprAssertions as JaxprAssertions
from jaxprtool.testing.assertions import assert_jaxpr as assert_jaxpr
from jaxprtool.testing.assertions import assert_jaxpr_equal as assert_jaxpr_equal

__all__ = ["JaxprAssertions", "assert_jaxpr", "assert_jaxpr_equal"]
