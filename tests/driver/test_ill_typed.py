"""What is ill-typed is an error that says so, at its place, from every function and every verb: never one of Python's."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from tests.fuzz.targets.every_verb import NO_PROGRAM
from tests.invoke import VERBS, invoke

TEXTS = {
    "too many operands": "c:f64[3] = broadcast_in_dim a a",
    "too few operands": "c:f64[3] = mul a",
    "a param that is missing": "c:f64[3] = named_call[name=f] a",
    "no branches": "c:f64[3] = cond[branches=3] a",
    "no number": "c:f64[3] = reshape[dimensions=None new_sizes=3 sharding=None] a",
    "no indices": "c:f64[3] = slice[start_indices=(0,) limit_indices=None strides=None] a",
    "no jaxpr": "c:f64[3] = custom_jvp_call[name=f call_jaxpr=None jvp=f symbolic_zeros=False] a",
    "no member": "c:f64[3] = round[rounding_method=-1] a",
    "no type that sorts": "b:float0[3] = convert_element_type[new_dtype=float0 weak_type=False] a; "
    "c:float0[3] = sort[dimension=0 is_stable=True num_keys=1] b",
    "no index": "r:Ref{f64[3]} = new_ref a; c:f64[3] = get r",
    "no spec": "c:f64[3] = reduce_prod[axes=() out_sharding=NamedSharding(mesh=3, spec=P(None))] a",
}
X = np.ones(3)
FUNCTIONS = {
    "to_jax": jt.to_jax,
    "to_jax_function": lambda p: jt.to_jax_function(p)(X),
    "lower": jt.lower,
    "compile": jt.compile,
    "eval_jaxpr": lambda p: jt.eval_jaxpr(p, [X]),
    "jaxpr_as_fun": lambda p: jt.jaxpr_as_fun(p)(X),
    "vmap of a function": lambda p: jt.vmap(jt.jaxpr_as_fun(p))(np.ones((2, 3))),
    "grad of a function": lambda p: jt.grad(lambda x: jt.jaxpr_as_fun(p)(x)[0].sum())(X),
    "jit of a function": lambda p: jt.jit(jt.jaxpr_as_fun(p))(X),
    "make_jaxpr of a function": lambda p: jt.make_jaxpr(jt.jaxpr_as_fun(p))(X),
    "jvp of a function": lambda p: jt.jvp(jt.jaxpr_as_fun(p), (X,), (X,)),
    "linearize of a function": lambda p: jt.linearize(jt.jaxpr_as_fun(p), X),
    "jvp_jaxpr": jt.jvp_jaxpr,
    "vmap_jaxpr": lambda p: jt.vmap_jaxpr(p, 2, [0]),
    "partial_eval_jaxpr": lambda p: jt.partial_eval_jaxpr(p, [True]),
    "transpose_jaxpr": lambda p: jt.transpose_jaxpr(p, [True]),
    "stats": jt.stats,
    "triage": lambda p: jt.triage(p, p),
}


def program(name):
    return f"{{ lambda ; a:f64[3]. let {TEXTS[name]} in (c,) }}"


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(name, function):
    """A function that gives no answer says what is wrong with the program."""
    parsed = jt.parse(program(name))
    try:
        FUNCTIONS[function](parsed)
    except jt.JaxprToolError as e:
        assert e.diagnostics
    except Exception as e:
        pytest.fail(f"{type(e).__name__}: {e}")


@pytest.mark.parametrize("name", TEXTS)
def test_the_type(name):
    """The programs are what this file says that they are, but for a sharding that only JAX refuses."""
    if name == "no spec":
        return
    with pytest.raises(jt.JaxprTypeError):
        jt.typecheck_jaxpr(jt.parse(program(name)))


@pytest.mark.parametrize("name", TEXTS)
def test_verbs(name, tmp_path, monkeypatch):
    """Verbs that take a program and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jaxpr").write_text(program(name))
    two = {"compare", "diff", "equiv", "triage"}
    for verb in sorted(VERBS.keys() - NO_PROGRAM - {"reduce", "bench", "profile"}):
        words = [verb, *(["_"] if verb == "grep" else []), *["p.jaxpr"] * (1 + (verb in two))]
        words += ["--", "check"] if verb == "repro" else []
        done = invoke([*words, *(["no f32"] if verb == "assert" else [])])
        assert done.status in (0, 1, 2), f"{verb}: {done.error}"
