"""What is said of primitives that nobody declares: the same by `check`, evaluation, lowering and `to_jax`."""

import jax
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax.private import hijax

ONE = "{ lambda ; x:f32[3]. let\n    y:f32[3] = %s x\n  in (y,) }"

VERBS = {
    "check": lambda p: jt.typecheck_jaxpr(p.jaxpr),
    "run": lambda p: jt.eval_jaxpr(p.jaxpr, [[1.0, 2.0, 3.0]]),
    "lower": jt.lower,
    "to_jax": jt.to_jax,
}


def said(verb: str, equation: str):
    with pytest.raises(jt.JaxprToolError) as e:
        VERBS[verb](jt.parse(ONE % equation))
    return e.value.diagnostics[0]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("equation", "name", "help"),
    [
        ("dfx_event[name=f]", "dfx_event", "a module that declares it can be given with --plugin"),
        ("_RootMap[f=fun transposed=False]", "_RootMap", "it is an object of the process"),
        ("sinn", "sinn", "did you mean sin?"),
    ],
)
def test_an_unknown_primitive_is_the_same_fault_in_every_verb(verb, equation, name, help):
    found = said(verb, equation)
    assert found.code == "unknown-primitive"
    assert found.message.startswith(f"unknown primitive {name}")
    assert found.help.startswith(help)
    assert found.span is not None
    assert str(found).startswith("<string>:2:")


def test_check_names_the_object_that_a_call_of_one_holds():
    message = said("check", "call_hi_primitive[_prim=Thing[f=fun]]").message
    assert message == "unknown primitive Thing"


def test_a_class_of_jax_that_is_not_made_of_operands_is_no_primitive(monkeypatch):
    base = getattr(hijax, "HiPrim", getattr(hijax, "VJPHiPrimitive", None))
    if base is None:
        pytest.skip(f"JAX {jax.__version__} has no primitives that are classes")

    class _RootMap(base):
        def __init__(self, f, in_avals, transposed=False):
            self.in_avals, self.out_aval, self.params = in_avals, f, {"transposed": transposed}
            super().__init__()

    monkeypatch.setattr(jax.lax, "_RootMap", _RootMap, raising=False)
    found = said("to_jax", "_RootMap[transposed=False] x")
    assert (
        found.message == f"unknown primitive _RootMap: jax {jax.__version__} has none of this name"
    )
