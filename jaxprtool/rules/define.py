"""`define`: one row of the table of rules, all columns at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jaxprtool.core.gateways import gateways
from jaxprtool.core.identity import identity_rules
from jaxprtool.core.primitive import primitive_of
from jaxprtool.core.rule_table import FactTable, Maker, RuleTable, Unsupported
from jaxprtool.interpreters.batch import batch_rules, batching_facts
from jaxprtool.interpreters.cells import liveness_facts
from jaxprtool.interpreters.check import abstract_eval_rules, memory_facts, varying_facts
from jaxprtool.interpreters.columns.communication import sends_rules
from jaxprtool.interpreters.columns.determined import determined_rules
from jaxprtool.interpreters.columns.flow import elements_facts, mask_facts, steering_facts
from jaxprtool.interpreters.columns.keys import key_rules, key_uses
from jaxprtool.interpreters.columns.layouts import layout_rules, sums_facts
from jaxprtool.interpreters.columns.monoids import algebra_rules, monoid_rules
from jaxprtool.interpreters.columns.ordering import order_rules
from jaxprtool.interpreters.columns.passing import passing_rules
from jaxprtool.interpreters.columns.ranges import range_rules
from jaxprtool.interpreters.columns.runs import runs_rules
from jaxprtool.interpreters.columns.solutions import solution_rules
from jaxprtool.interpreters.cost import cost_rules
from jaxprtool.interpreters.dce import dce_rules, effect_facts
from jaxprtool.interpreters.discharge import discharge_rules
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.jvp import derivative_facts, jvp_rules, zero_derivative
from jaxprtool.interpreters.linearize import linearize_rules
from jaxprtool.interpreters.lower import lowering_rules
from jaxprtool.interpreters.partial_eval import partial_eval_rules, residual_facts
from jaxprtool.interpreters.remat import saving_rules
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_rules
from jaxprtool.ir.jaxpr import Primitive
from jaxprtool.makers.keys import TAKING_KEYS

if TYPE_CHECKING:
    from jaxprtool.interpreters.contracts import (
        AbstractEvalRule,
        AlgebraRule,
        Batching,
        BatchRule,
        CostRule,
        DceRule,
        Derivative,
        DeterminedRule,
        DischargeRule,
        Effects,
        Elements,
        Follows,
        IdentityRule,
        ImplRule,
        JvpRule,
        KeysRule,
        LayoutRule,
        LinearizeRule,
        Liveness,
        LowerRule,
        Masks,
        MonoidRule,
        OnKeys,
        OrderRule,
        PartialEvalRule,
        PassingRule,
        RangeRule,
        Residual,
        RunsRule,
        SavingRule,
        SendsRule,
        SolutionRule,
        Steers,
        Sums,
        TransposeRule,
        Varying,
    )

__all__ = [
    "COLUMNS",
    "FACTS",
    "FEW",
    "LOCALLY_CONSTANT",
    "PLACES",
    "REQUIRED",
    "define",
    "rows_of",
]

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

# Columns that few primitives have; the table of all primitives and columns leaves them out.
FEW: dict[str, RuleTable] = {
    "order": order_rules,
    "identity": identity_rules,
    "layout": layout_rules,
    "keys": key_rules,
    "runs": runs_rules,
    "passing": passing_rules,
    "sends": sends_rules,
    "monoid": monoid_rules,
    "algebra": algebra_rules,
    "determined": determined_rules,
    "range": range_rules,
    "solution": solution_rules,
}
FACTS: dict[str, FactTable] = {
    "effects": effect_facts,
    "liveness": liveness_facts,
    "memory": memory_facts,
    "varying": varying_facts,
    "residual": residual_facts,
    "derivative": derivative_facts,
    "batching": batching_facts,
    "masks": mask_facts,
    "steers": steering_facts,
    "elements": elements_facts,
    "on_keys": key_uses,
    "sums": sums_facts,
}
_RULES = COLUMNS | FEW
# Where `define` was called for each primitive: file and line.
PLACES: dict[Primitive, list[tuple[str, int]]] = {}
REQUIRED = ("abstract_eval", "impl", "jvp", "transpose", "batch", "lower", "cost")

# Columns of an operation whose results do not change with small changes of its operands.
LOCALLY_CONSTANT: dict[str, Any] = {"jvp": zero_derivative, "transpose": NONLINEAR}


# What `define` takes in place of a rule: a maker of one, the reason why there is none, or nothing.
Other = Maker | Unsupported | None


def define(
    op: Any,
    *,
    abstract_eval: AbstractEvalRule | Other = None,
    impl: ImplRule | Other = None,
    jvp: JvpRule | Other = None,
    transpose: TransposeRule | Other = None,
    batch: BatchRule | Other = None,
    lower: LowerRule | Other = None,
    cost: CostRule | Other = None,
    partial_eval: PartialEvalRule | Other = None,
    saving: SavingRule | Other = None,
    linearize: LinearizeRule | Other = None,
    dce: DceRule | Other = None,
    discharge: DischargeRule | Other = None,
    effects: Effects = False,
    order: OrderRule | None = None,
    liveness: Liveness = "borrows",
    memory: Follows = "operands",
    layout: LayoutRule | None = None,
    keys: KeysRule | None = None,
    runs: RunsRule | None = None,
    passing: PassingRule | None = None,
    sends: SendsRule | None = None,
    varying: Varying | None = None,
    residual: Residual = "saved",
    derivative: Derivative = "jaxprs",
    batching: Batching = "examples",
    masks: Masks = "nothing",
    steers: Steers = "nothing",
    elements: Elements = "computed",
    sums: Sums = "refused",
    on_keys: OnKeys = "nothing",
    identity: IdentityRule | None = None,
    monoid: MonoidRule | None = None,
    algebra: AlgebraRule | None = None,
    determined: DeterminedRule | None = None,
    range: RangeRule | None = None,
    solution: SolutionRule | None = None,
) -> None:
    """Give a primitive its row: a rule for each column.

    A rule is a function (`interpreters.contracts`), a `Maker` of one, or `unsupported("why")`. Ours have those up to `cost`.
    Raises TypeError where a rule is no function, or a column lacks; ValueError where there is a rule in a column already.

    Args:
      op: the binding function that `primitive` returned. abstract_eval, impl, lower: types, evaluation on NumPy, StableHLO.
      jvp, transpose, batch, cost: derivatives in forward mode; transposition; vectorisation; the number of operations.
      partial_eval, saving, linearize, dce: for params that hold jaxprs; discharge: for references and futures.
      effects, order: whether it has side effects ("inside": only on references of its jaxprs; "state": results differ each time); when they are ordered.
      liveness, memory: whether later equations may use its operands; whether results are in their memory, or where the types say.
      layout: the layout of the result on a mesh; None: that of the first operand with a layout and the result's shape. sums: see there.
      keys, on_keys: how its batch rule applies it to arrays of keys (None: it needs no rule for that); whether it uses up a key.
      runs, passing: which of its jaxprs run, and how often; how to hand them numbers. sends, varying: bytes that members send; how results vary.
      residual, derivative, batching: whether a result of literals is saved; what its derivative and its batch consist of.
      masks, steers, elements: which of NaN and infinity it may drop; which operands decide; which elements it moves (`interpreters.columns.flow`).
      identity, determined, range: when it returns its first operand; whether operands determine the results; the bounds of these.
      monoid, algebra: the NumPy function that reduces by it; which laws hold exactly (`interpreters.columns.monoids`). solution: what its results solve.
    """
    _fill(op, locals())


def _fill(op: Any, given: dict[str, Any]) -> None:
    """Put what `define` was given into the tables."""
    primitive, caller = primitive_of(op), sys._getframe(2)
    if primitive.pending and rows_of(primitive.pending) not in sys.modules:
        gateways.load_rows(primitive.pending)  # a user adds rules to a row of ours
    rules = {column: given[column] for column in _RULES if given[column] is not None}
    needed = REQUIRED if is_ours(primitive) else TAKING_KEYS if "keys" in rules else ()
    missing = [c for c in needed if c not in rules and primitive not in COLUMNS[c].rules]
    if missing:
        raise TypeError(f"define({primitive}): the row has no {', '.join(missing)}")
    for column, rule in rules.items():
        if isinstance(rule, Maker):
            rule = rules[column] = rule(op)
        if not callable(rule):
            raise TypeError(f"define({primitive}): the {column} rule is not a function: {rule!r}")
    if "keys" in rules:
        for column, taking_keys in TAKING_KEYS.items():
            rules[column] = taking_keys(primitive, rules[column])
    for column, rule in rules.items():
        _RULES[column].define(primitive, rule)
    if given["varying"] is None and "partial_eval" in rules:
        given["varying"] = "rule"  # its params hold jaxprs, whose types say what varies
    if given["jvp"] is zero_derivative:
        given["derivative"] = "zero"
    for column, table in FACTS.items():
        if given[column] not in (None, table.values[0]):
            table.define(primitive, given[column])
    PLACES.setdefault(primitive, []).append((caller.f_code.co_filename, caller.f_lineno))


def rows_of(declared_in: str) -> str:
    """The module with the rows of the primitives that a module of `ops` declares."""
    return declared_in.replace(".ops.", ".rules.", 1)


def is_ours(primitive: Primitive) -> bool:
    """Whether a primitive is declared in this package."""
    stub = primitive.stub
    return stub is not None and stub.__module__.startswith("jaxprtool.ops.")
