"""The public names of the package: `jt.NAME` after `import jaxprtool as jt`.

The package imports this module when one of them is first used, so that the command line starts
without importing them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool import lax as lax
from jaxprtool.core.bind import bind as bind
from jaxprtool.core.primitive import primitive as primitive
from jaxprtool.core.primitive import shown as shown
from jaxprtool.core.rule_table import unsupported as unsupported
from jaxprtool.core.tree import register_pytree_node as register_pytree_node
from jaxprtool.driver.api.asking import assert_that as assert_that
from jaxprtool.driver.api.asking import grep as grep
from jaxprtool.driver.api.asking import holds as holds
from jaxprtool.driver.api.checks import equiv as equiv
from jaxprtool.driver.api.checks import gradcheck as gradcheck
from jaxprtool.driver.api.checks import precision as precision
from jaxprtool.driver.api.compare import compare as compare
from jaxprtool.driver.api.faults import blame as blame
from jaxprtool.driver.api.faults import run as run
from jaxprtool.driver.api.figures import cost as cost
from jaxprtool.driver.api.figures import growth as growth
from jaxprtool.driver.api.figures import residuals as residuals
from jaxprtool.driver.api.figures import stats as stats
from jaxprtool.driver.api.fuzz import fuzz as fuzz
from jaxprtool.driver.api.fuzz import random_program as random_program
from jaxprtool.driver.api.guard import retraces as retraces
from jaxprtool.driver.api.guard import snapshot as snapshot
from jaxprtool.driver.api.guard import triage as triage
from jaxprtool.driver.api.lint import Found as Found
from jaxprtool.driver.api.lint import explain as explain
from jaxprtool.driver.api.lint import lint as lint
from jaxprtool.driver.api.lint import lint_rule as lint_rule
from jaxprtool.driver.api.passes import Match as Match
from jaxprtool.driver.api.passes import define_pass as define_pass
from jaxprtool.driver.api.passes import hash as hash
from jaxprtool.driver.api.passes import hash_program as hash_program
from jaxprtool.driver.api.passes import opt as opt
from jaxprtool.driver.api.passes import optimize as optimize
from jaxprtool.driver.api.passes import rewrite_rule as rewrite_rule
from jaxprtool.driver.api.programs import check as check
from jaxprtool.driver.api.programs import compile as compile
from jaxprtool.driver.api.programs import diff as diff
from jaxprtool.driver.api.programs import discharge as discharge
from jaxprtool.driver.api.programs import eval_jaxpr as eval_jaxpr
from jaxprtool.driver.api.programs import format_jaxpr as format_jaxpr
from jaxprtool.driver.api.programs import jaxpr_as_fun as jaxpr_as_fun
from jaxprtool.driver.api.programs import jvp_jaxpr as jvp_jaxpr
from jaxprtool.driver.api.programs import lower as lower
from jaxprtool.driver.api.programs import of_program, of_typed
from jaxprtool.driver.api.programs import partial_eval_jaxpr as partial_eval_jaxpr
from jaxprtool.driver.api.programs import rewrite as rewrite
from jaxprtool.driver.api.programs import trace as trace
from jaxprtool.driver.api.programs import transpose_jaxpr as transpose_jaxpr
from jaxprtool.driver.api.programs import typecheck_jaxpr as typecheck_jaxpr
from jaxprtool.driver.api.programs import vmap_jaxpr as vmap_jaxpr
from jaxprtool.driver.api.programs import with_consts as with_consts
from jaxprtool.driver.api.programs import with_types as with_types
from jaxprtool.driver.api.reduce import reduce as reduce
from jaxprtool.driver.api.repro import replay as replay
from jaxprtool.driver.api.repro import repro as repro
from jaxprtool.driver.api.times import bench as bench
from jaxprtool.driver.api.times import profile as profile
from jaxprtool.driver.asking import Assertion as Assertion
from jaxprtool.driver.check import Signature as Signature
from jaxprtool.driver.compile import Compiled as Compiled
from jaxprtool.driver.diff import Difference as Difference
from jaxprtool.driver.save import load as load
from jaxprtool.driver.save import save as save
from jaxprtool.interpreters.batch import materialize as materialize
from jaxprtool.interpreters.batch import vmap as vmap
from jaxprtool.interpreters.check import ill_typed as ill_typed
from jaxprtool.interpreters.functions.gradients import grad as grad
from jaxprtool.interpreters.functions.gradients import linearize as linearize
from jaxprtool.interpreters.functions.gradients import value_and_grad as value_and_grad
from jaxprtool.interpreters.functions.gradients import vjp as vjp
from jaxprtool.interpreters.functions.jacobians import hessian as hessian
from jaxprtool.interpreters.functions.jacobians import jacfwd as jacfwd
from jaxprtool.interpreters.functions.jacobians import jacrev as jacrev
from jaxprtool.interpreters.jvp import Zero as Zero
from jaxprtool.interpreters.jvp import instantiate as instantiate
from jaxprtool.interpreters.jvp import jvp as jvp
from jaxprtool.interpreters.stage import make_jaxpr as make_jaxpr
from jaxprtool.interpreters.transpose import UndefPrimal as UndefPrimal
from jaxprtool.interpreters.transpose import is_linear as is_linear
from jaxprtool.ir.avals import ShapedArray as ShapedArray
from jaxprtool.ir.diagnostics import Diagnostic as Diagnostic
from jaxprtool.ir.diagnostics import JaxprParseError as JaxprParseError
from jaxprtool.ir.diagnostics import JaxprToolError as JaxprToolError
from jaxprtool.ir.diagnostics import JaxprTypeError as JaxprTypeError
from jaxprtool.ir.diagnostics import MissingRuleError as MissingRuleError
from jaxprtool.ir.diagnostics import UnsupportedError as UnsupportedError
from jaxprtool.ir.diagnostics import UsageError as UsageError
from jaxprtool.ir.dtypes import DType as DType
from jaxprtool.ir.jaxpr import ClosedJaxpr as ClosedJaxpr
from jaxprtool.ir.jaxpr import Jaxpr as Jaxpr
from jaxprtool.ir.jaxpr import JaxprEqn as JaxprEqn
from jaxprtool.ir.jaxpr import JaxprType as JaxprType
from jaxprtool.ir.jaxpr import Lit as Lit
from jaxprtool.ir.jaxpr import Primitive as Primitive
from jaxprtool.ir.jaxpr import Var as Var
from jaxprtool.makers.decomposed import decomposed as decomposed
from jaxprtool.rules.control_flow.cond import cond as cond
from jaxprtool.rules.control_flow.cond import switch as switch
from jaxprtool.rules.control_flow.functions import fori_loop as fori_loop
from jaxprtool.rules.control_flow.functions import scan as scan
from jaxprtool.rules.control_flow.functions import while_loop as while_loop
from jaxprtool.rules.define import define as define
from jaxprtool.rules.jit import jit as jit
from jaxprtool.rules.parallel.mapped import PartitionSpec as PartitionSpec
from jaxprtool.rules.parallel.mapped import shard_map as shard_map
from jaxprtool.rules.remat import checkpoint as checkpoint
from jaxprtool.syntax.parse import parse as parse
from jaxprtool.syntax.parse import parse_file as parse_file


def from_jax(closed_jaxpr: Any, *, rules: bool = True) -> ClosedJaxpr:
    """Convert JAX's ClosedJaxpr to a program of this package. It does not go through text, so that
    nothing is lost.
    """
    from jaxprtool.backends.jax import from_jax as jax_bridge  # noqa: PLC0415 (gateway)

    return jax_bridge.from_jax(closed_jaxpr, rules=rules)


@of_program
def to_jax(program: ClosedJaxpr) -> Any:
    """Convert a program to JAX's ClosedJaxpr. Raises UnsupportedError where a param is known only
    as text.
    """
    from jaxprtool.backends.jax import to_jax as jax_export  # noqa: PLC0415 (gateway)

    return jax_export.to_jax(program)


@of_typed
def to_jax_function(program: ClosedJaxpr) -> Callable[..., Any]:
    """Return the JAX function that a program computes; all transformations of JAX can be applied to
    it.

    The function can be given to `jax.jit`, `grad`, `vmap`, `jvp`, `linearize`, `checkpoint`, or be called in a scan. It has
    the program's constants, effects and custom derivative rules. It takes the program's arguments
    as flat arrays and returns a list, unless the program has an interface, because it was traced
    from a function, here or into a file. Then it takes the arguments of that function, by position
    or by name, in the same pytrees, and returns the same pytree. A custom class in the result is
    the class of that name in the arguments, else a named tuple. Constants without values in the
    program are the first arguments.

    Args:
      program: a program. The arguments of the function have the types `program.in_avals`: Python
        numbers and lists are converted; arrays have to have these types (without batch axes of
        `jax.vmap`).

    Returns:
      The function. Its results have the types `program.out_avals`. Outside `jax.jit` it computes
      one equation after another.

    Raises:
      UsageError: the program has 64-bit types, and `jax_enable_x64` is off. The function itself
        raises it where the number, structure, shape or dtype of its arguments is wrong.
      UnsupportedError: as `to_jax`.
    """
    from jaxprtool.backends.jax import function  # noqa: PLC0415 (gateway)

    return function.to_jax_function(program)


def __getattr__(name: str) -> Any:
    """Return `float0` or `KeyArray`, which need NumPy; it is imported when one of them is first
    read.
    """
    if name in ("float0", "KeyArray"):
        from jaxprtool.backends import numpy_eval  # noqa: PLC0415 (gateway)

        return getattr(numpy_eval, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
