"""Placeholders for names of the Autodidax tutorial that have no counterpart in this package."""

from __future__ import annotations

from typing import Any, NoReturn

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["SENTENCES", "Elsewhere"]


class Elsewhere:
    """A name of the tutorial without a counterpart. Any use of it raises a UsageError that names
    what to use instead.
    """

    __slots__ = ("name", "sentence")

    def __init__(self, name: str, sentence: str):
        self.name, self.sentence = name, sentence

    def __repr__(self) -> str:
        return f"<the tutorial's {self.name}: {self.sentence}>"

    def _refuse(self, *args: Any, **params: Any) -> NoReturn:
        del args, params
        fail(UsageError, f"there is no {self.name} here", "autodidax", help=self.sentence)

    __call__ = __getitem__ = __setitem__ = __iter__ = __len__ = __contains__ = _refuse
    __enter__ = __exit__ = __add__ = __instancecheck__ = __subclasscheck__ = __mro_entries__ = (
        _refuse
    )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()


_RULES = "rules stand in the row of their primitive, under jaxprtool/rules; `python -m jaxprtool.rules {0}` lists them"
_TABLES = {
    "impl_rules": "define(op, impl=...) gives a primitive its evaluation rule; "
    + _RULES.format("impl"),
    "jvp_rules": "define(op, jvp=...) gives a primitive its jvp rule; " + _RULES.format("jvp"),
    "vmap_rules": "define(op, batch=...) gives a primitive its batching rule; "
    + _RULES.format("batch"),
    "abstract_eval_rules": "define(op, abstract_eval=...) gives a primitive its type rule; "
    + _RULES.format("abstract_eval"),
    "hlo_translations": "define(op, lower=...) gives a primitive its lowering to StableHLO; "
    + _RULES.format("lower"),
    "partial_eval_rules": "define(op, partial_eval=...) gives a primitive such a rule; "
    + _RULES.format("partial_eval"),
    "transpose_rules": "define(op, transpose=...) gives a primitive its transpose; "
    + _RULES.format("transpose"),
}
_TABLES["xla_translations"] = _TABLES["hlo_translations"]
_TABLES["partial_eval_jaxpr_rules"] = _TABLES["partial_eval_rules"]

_OF_A_RULE = {
    "jvp_rules": (
        "add_jvp mul_jvp sin_jvp cos_jvp neg_jvp reduce_sum_jvp greater_jvp less_jvp xla_call_jvp_rule cond_jvp_rule"
    ),
    "vmap_rules": (
        "binop_batching_rule vectorized_unop_batching_rule reduce_sum_batching_rule xla_call_vmap_rule cond_vmap_rule"
    ),
    "abstract_eval_rules": (
        "binop_abstract_eval compare_abstract_eval vectorized_unop_abstract_eval reduce_sum_abstract_eval "
        "broadcast_abstract_eval xla_call_abstract_eval_rule cond_abstract_eval"
    ),
    "impl_rules": "broadcast_impl xla_call_impl cond_impl",
    "hlo_translations": (
        "direct_translation compare_translation reduce_sum_translation broadcast_translation xla_call_translation "
        "cond_translation"
    ),
    "partial_eval_rules": "xla_call_partial_eval xla_call_peval_eqn cond_partial_eval cond_peval_eqn",
    "transpose_rules": (
        "mul_transpose_rule neg_transpose_rule add_transpose_rule reduce_sum_transpose_rule xla_call_transpose_rule "
        "cond_transpose_rule"
    ),
}

_STACK = (
    "there is no stack of levels: a trace is made with its parent, JVPTrace(parent), and "
    "`with jaxprtool.core.bind.set_current_trace(trace)` makes it the one that interprets every operation"
)
_DYNAMIC = "the current trace interprets every operation, traced operands or not, so nothing has to be made dynamic"
_GRAPH = "PartialEvalTrace records equations in the order in which they happen, so there is no graph to sort"
_TREES = "trees are optree's: tree_flatten, tree_unflatten and register_pytree_node are all there is to them"
_PRINT = "pp_jaxpr(jaxpr), or format_jaxpr(program, 'autodidax'), gives the whole text"
_XLA = "jaxprtool.lower(program) gives StableHLO, jaxprtool.compile(program) a function; jit does both by itself"
_EXAMPLE = "it is an example of the tutorial's: define it as it stands there"

_GROUPS = {
    _STACK: "MainTrace trace_stack new_main",
    _DYNAMIC: "dynamic_trace new_dynamic",
    "types say shape and element type alone; a value itself is what EvalTrace passes on": (
        "ConcreteArray jax_types"
    ),
    _TREES: "Empty empty Store NodeType node_types Leaf leaf",
    "JaxprTrace holds the equations itself, and inlines scalars as it records": (
        "JaxprBuilder _inline_literals"
    ),
    "typecheck_jaxpr checks atoms along with everything else": "typecheck_atom",
    _PRINT: "PPrint pp vcat var_str pp_eqn pp_params pp_rules pprint_xla_call pprint_cond",
    _XLA: (
        "IDHashable MlirContext xla_callable aval_to_ir_type aval_to_xla_shape jaxpr_subcomp execute_compiled "
        "default_input_handler input_handlers handle_result _mlir_dtype _hlo_const _hlo_consts _xla_consts _xla_params"
    ),
    "results are NumPy arrays, or arrays that stay on the device of the backend": "Array DeviceArray",
    _GRAPH: (
        "LambdaBindingRecipe ConstRecipe JaxprEqnRecipe JaxprRecipe tracers_to_jaxpr recipe_to_eqn tracer_parents toposort "
        "remove_duplicates check_toposort"
    ),
    "the tracers of a PartialEvalTrace are JaxprTracers; known values are not boxed": (
        "PartialEvalTracer"
    ),
    "cond is jaxprtool.lax.cond_call with branches=(false, true), the first operand their index": (
        "bind_cond _join_jaxpr_consts _join_jaxpr_res _cond_partial_eval"
    ),
    _EXAMPLE: "add_one_to_a_scalar foo assert_allclose",
}

# name -> what to use instead
SENTENCES: dict[str, str] = {
    **_TABLES,
    **{name: _TABLES[table] for table, names in _OF_A_RULE.items() for name in names.split()},
    **{name: sentence for sentence, names in _GROUPS.items() for name in names.split()},
}
