"""The examples of the laws show every param that changes the mathematics with two values at least."""

from __future__ import annotations

from collections import defaultdict

from tests.laws.oracle import EXAMPLES

# One value is right: any other is a hint to the compiler, a place, or the bookkeeping of a running JAX.
HINTS = {
    *("inline", "donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts"),
    *("keep_unused", "ctx_mesh", "compiler_options_kvs", "backend", "sharding", "out_sharding"),
    *("branches_platforms", "linear", "_split_transpose", "accuracy", "prevent_cse", "policy"),
    *("differentiated", "precision", "use_magma", "layout", "context_mesh", "unconstrained_dims"),
    *("memory_space", "kind", "devices", "srcs", "copy_semantics", "partitioned", "callback"),
    *("in_tree", "tree", "out_trees", "err_tree", "logging_record", "computation", "effect"),
    *("which_linear", "transpose_thunk", "attributes", "jvp", "fwd", "bwd", "name", "ordered"),
    *("implementation", "algorithm", "recall_target", "_input_dtype", "ft_in", "ft_out", "pin"),
    *("is_stable", "method", "unroll", "prevent_mlir_dce"),
}

# One value is right for these primitives, with the reason.
ONE_VALUE = {
    # a rule that sees which tangents are zero, or has constants: tests/control_flow has programs
    **{("custom_jvp_call", p): "programs" for p in ("symbolic_zeros", "num_consts")},
    **{("custom_vjp_call", p): "programs" for p in ("symbolic_zeros", "num_consts")},
    # custom rules in the process that traced them: tests/control_flow/test_custom_functions
    **{("custom_vmap_call", p): "programs" for p in ("rule", "call", "out_tree")},
    **{
        ("remat_opt", p): "programs"
        for p in ("num_consts", "num_res", "fwd_jaxpr", "fun_jaxpr_thunk")
    },
    **{
        ("pallas_call", p): "kernels of tests/control_flow"
        for p in ("input_output_aliases", "vmapped_dims")
    },
    **{
        ("pallas_call", p): "for compilers of other devices, and for JAX's own print"
        for p in (*("compiler_params", "cost_estimate", "debug", "interpret", "mesh", "metadata"),)
    },
    **{
        ("custom_partitioning", p): "says how values are spread over devices"
        for p in (
            *("decode_shardings", "infer_sharding_from_operands", "out_tree", "partition"),
            *("propagate_user_sharding", "sharding_rule", "static_args"),
        )
    },
    **{("reciprocal", p): "what a TPU may leave out" for p in ("approx", "full_range")},
    ("CustomRoot", "solve_jaxpr"): "closed_call",
    ("CustomRoot", "has_aux"): "says how many results there are",
    # the primitives of older programs have the one rule of closed_call
    **{(name, "call_jaxpr"): "closed_call" for name in ("core_call", "call", "named_call")},
    **{(name, "jaxpr"): "closed_call" for name in ("compute_on", "xla_metadata_call")},
    **{
        ("compute_on", p): "tests/control_flow/test_annotated_calls"
        for p in ("compiler_options_json", "compute_type", "out_memory_spaces")
    },
    ("run_state", "jaxpr"): "its jaxpr is made for the types",
    ("run_state", "is_initialized"): "cells without a value are refused",
    **{
        (name, p): "programs of tests/control_flow"
        for name in ("get", "swap", "addupdate")
        for p in ("mask", "other")
    },
    # what no CPU has
    ("eigh", "sort_eigenvalues"): "LAPACK sorts",
    ("eigh", "subset_by_index"): "refused",
    ("svd", "subset_by_index"): "refused",
    ("schur", "sort_eig_vals"): "refused, as in JAX",
    ("schur", "select_callable"): "refused, as in JAX",
    ("ragged_dot_general", "group_offset"): "not implemented, as in JAX",
    ("approx_top_k", "reduction_input_size_override"): "for parts of an array over several devices",
    ("psum", "axis_index_groups"): "for named axes, in tests/parallel",
    ("random_gamma", "complement"): "False before JAX 0.4.14: tests/syntax/test_draws",
    # the constants of jaxprs, which are values of their own in a program that is read
    ("reduce_window", "consts"): "constants are in the jaxpr",
    ("select_and_scatter", "select_consts"): "constants are in the jaxpr",
    ("select_and_scatter", "scatter_consts"): "constants are in the jaxpr",
    **{
        (name, "update_consts"): "constants are in the jaxpr"
        for name in ("scatter", *(f"scatter-{f}" for f in ("add", "sub", "mul", "min", "max")))
    },
    ("scatter", "update_jaxpr"): "scatter_apply alone has one: tests/rules/test_indexing_values",
}


def _values():
    """For each primitive and param the values that examples give it."""
    found = defaultdict(set)
    for e in EXAMPLES:
        for param, value in {**e.primitive.defaults, **e.params}.items():
            found[e.primitive.name, param].add(str(value))
    return found


def test_every_param_that_matters_has_several_values():
    values = _values()
    primitives = {e.primitive.name: e.primitive for e in EXAMPLES}
    single = {
        (name, param)
        for name, primitive in primitives.items()
        for param in primitive.params
        if param not in HINTS and len(values[name, param]) < 2
    }
    assert single == ONE_VALUE.keys()
