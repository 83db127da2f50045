"""`define`: one row of the table of rules, all columns at once."""

from __future__ import annotations

from typing import Any

from jaxprtool.core.primitive import primitive_of
from jaxprtool.core.rule_table import Maker, RuleTable, Unsupported
from jaxprtool.interpreters.batch import batch_rules
from jaxprtool.interpreters.check import abstract_eval_rules, keeps_track_of_varying
from jaxprtool.interpreters.cost import cost_rules
from jaxprtool.interpreters.dce import dce_rules
from jaxprtool.interpreters.discharge import discharge_rules
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.jvp import jvp_rules, zero_derivative
from jaxprtool.interpreters.linearize import linearize_rules
from jaxprtool.interpreters.lower import lowering_rules
from jaxprtool.interpreters.partial_eval import partial_eval_rules
from jaxprtool.interpreters.saving import saving_rules
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_rules

__all__ = ["COLUMNS", "LOCALLY_CONSTANT", "define"]

COLUMNS: dict[str, RuleTable] = {
    "abstract_eval": abstract_eval_rules,
    "impl": impl_rules,
    "jvp": jvp_rules,
    "transpose": transpose_rules,
    "batch": batch_rules,
    "lower": lowering_rules,
    "cost": cost_rules,
    "partial_eval": partial_eval_rules,
    "saving": saving_rules,
    "linearize": linearize_rules,
    "dce": dce_rules,
    "discharge": discharge_rules,
}


# Columns of an operation whose results do not change with small changes of its operands.
LOCALLY_CONSTANT = {"jvp": zero_derivative, "transpose": NONLINEAR}


def define(op: Any, **rules: Any) -> None:
    """Give a primitive its rules.

    Args:
      op: the binding function that `primitive` returned.
      rules: a rule for each column, by the column's name: `abstract_eval`, `impl`, `jvp`, `transpose`, `batch`,
        `lower`, `cost`; and `partial_eval`, `linearize`, `saving` and `dce` for primitives whose params hold jaxprs,
        `discharge` for those that use references. The contracts stand
        at the top of the interpreters' modules. `unsupported("why")` states that there is none. A
        user's own primitive may leave columns out; using one that is missing is an error that says so.

    Raises:
      TypeError: an unknown column.
      ValueError: the primitive has a rule in that column already.
    """
    primitive = primitive_of(op)
    if "partial_eval" in rules:  # its params hold jaxprs, whose types say what varies
        keeps_track_of_varying(primitive)
    for column, rule in rules.items():
        if column not in COLUMNS:
            raise TypeError(
                f"define({primitive}): no column {column!r}; there are {', '.join(COLUMNS)}"
            )
        if isinstance(rule, Maker):
            rule = rule(op)
        if not callable(rule) and not isinstance(rule, Unsupported):
            raise TypeError(f"define({primitive}): the {column} rule is not a function: {rule!r}")
        COLUMNS[column].define(primitive, rule)
