"""`define`, which adds one row to the table of rules: the rules and facts of a primitive.

Columns of rules:
  abstract_eval, impl, lower: the types of the results; evaluation on NumPy; writing StableHLO.
  jvp, transpose, batch, cost: forward derivatives; transposition; vmap; the number of operations.
  partial_eval, saving, linearize, dce: rules of primitives whose params hold jaxprs.
  discharge: how to remove references and futures.
  order: when its side effects are ordered.
  layout: the sharding of the result on a mesh; None: that of the first operand that has one and the
    shape of the result.
  keys: how the batch rule treats arrays of keys; None: like other arrays.
  runs, passing: which jaxprs run, and how often; how to pass them further numbers.
  sends: the bytes that the members of a collective send.
  identity, determined, range: when it returns its first operand; whether the operands determine the
    results on all backends; bounds of the results.
  monoid, algebra: the NumPy function that reduces by it; the laws that hold exactly
    (`interpreters.columns.monoids`).
  solution: the equation that its results solve.
  earlier: what releases of JAX that lack it, or a param of it, computed the same with.

Columns of facts:
  effects: whether it has side effects ("inside": only on references of its jaxprs; "state": results
    differ from call to call).
  liveness, memory: whether later equations may use its operands; in which memory its results are.
  varying: what determines the mesh axes along which the types of its results vary.
  residual, derivative, batching: whether a result of literals is saved as a residual; what its
    derivative consists of; what a batched operation computes.
  masks, steers, elements: which of NaN and infinity may be absent from the results though an
    operand has it; which operands only decide; whether elements are computed or moved
    (`interpreters.columns.flow`).
  sums: which operands may be unreduced, still to be summed over a mesh axis.
  on_keys: what it does with keys of random numbers.
"""

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
from jaxprtool.interpreters.columns.earlier import earlier_rules
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
        EarlierRule,
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

# Columns that few primitives have; `python -m jaxprtool.rules` without arguments leaves them out.
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
    "earlier": earlier_rules,
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


# What `define` accepts in place of a rule: a maker of a rule, the reason why there is none, or
# None.
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
    earlier: EarlierRule | None = None,
) -> None:
    """Add the row of a primitive: a rule or fact for each column (see this module).

    A rule is a function (`interpreters.contracts` has the signatures), a `Maker` of one, or
    `unsupported("why")`. Primitives of this package need the rules up to `cost`.

    Args:
      op: the binding function that `primitive` returned.

    Raises:
      TypeError: a rule is not a function, or a needed one is missing.
      ValueError: a column has a rule for this primitive already.
    """
    _fill(op, locals())


def _fill(op: Any, given: dict[str, Any]) -> None:
    """Put the rules and facts that `define` was given into the tables."""
    primitive, caller = primitive_of(op), sys._getframe(2)
    if primitive.pending and rows_of(primitive.pending) not in sys.modules:
        gateways.load_rows(primitive.pending)  # a user adds rules to a primitive of this package
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
        given["varying"] = "rule"  # its params hold jaxprs, whose types say which results vary
    if given["jvp"] is zero_derivative:
        given["derivative"] = "zero"
    for column, table in FACTS.items():
        if given[column] not in (None, table.values[0]):
            table.define(primitive, given[column])
    PLACES.setdefault(primitive, []).append((caller.f_code.co_filename, caller.f_lineno))


def rows_of(declared_in: str) -> str:
    """Return the name of the module with the rows of the primitives that a module of `ops`
    declares.
    """
    return declared_in.replace(".ops.", ".rules.", 1)


def is_ours(primitive: Primitive) -> bool:
    """Whether a primitive is declared in this package."""
    stub = primitive.stub
    return stub is not None and stub.__module__.startswith("jaxprtool.ops.")
