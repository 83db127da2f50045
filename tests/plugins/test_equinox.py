"""The plug-in for equinox's primitives, which is built in."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jaxprtool as jt

BODY = """{ lambda ; p:bool[] a:f32[4] x:f32[] i:i32[]. let
    q:bool[] = unvmap_any p
    m:i32[] = unvmap_max i
    n:bool[] = nonbatchable[allow_constant_across_batch=True msg=constant] q
    s:f32[] = select_if_vmap p x 1.0:f32[]
    r:f32[4] = maybe_set[
      i_static=None
      i_treedef=PyTreeDef(*)
      kwargs=()
      makes_false_steps=FALSE
    ] p a s i
    t:f32[4] = nondifferentiable_backward[msg=no symbolic=True] a
  in (n, m, r, t) }"""


def _program(false_steps="False"):
    program = jt.parse(BODY.replace("FALSE", false_steps))
    jt.typecheck_jaxpr(program)
    return program


A, X = np.arange(4, dtype=np.float32), np.float32(9)


@pytest.mark.parametrize(
    "false_steps, pred, index, expected",
    [
        ("False", True, 2, [0, 1, 9, 3]),
        ("False", False, -1, [0, 1, 2, 9]),
        ("True", False, 1, [0, 1, 2, 3]),
        ("False", True, 4, [0, 1, 2, 3]),
    ],
)
def test_values(false_steps, pred, index, expected):
    program = _program(false_steps)
    args = [np.bool_(pred), A, X, np.int32(index)]
    for out in (jt.eval_jaxpr(program, args), jt.compile(program)(*args)):
        assert bool(out[0]) is pred and int(out[1]) == index
        np.testing.assert_array_equal(np.asarray(out[2]), expected)


@pytest.mark.parametrize("kwargs", ["{}", "[]"])
def test_params_that_are_dicts_and_lists(kwargs):
    """equinox to 0.11 has a dict of params, `kwargs={}`."""
    text = BODY.replace("FALSE", "False").replace("kwargs=()", f"kwargs={kwargs}")
    program = jt.parse(text)
    assert str(program) == text
    jt.typecheck_jaxpr(program)
    args = [np.bool_(True), A, X, np.int32(2)]
    through_jax = lambda p, args: jt.to_jax_function(p)(*args)
    for run in (jt.eval_jaxpr, lambda p, args: jt.compile(p)(*args), through_jax):
        np.testing.assert_array_equal(np.asarray(run(program, args)[2]), [0, 1, 9, 3])
    g = jt.grad(lambda x: jt.jaxpr_as_fun(program)(args[0], A, x, args[3])[2][2])
    assert g(X) == 1


def test_batch():
    f = jt.jaxpr_as_fun(_program())
    preds, indices = np.array([True, False]), np.array([1, 2], np.int32)
    n, m, r, _ = jt.vmap(f, in_axes=(0, None, None, 0))(preds, A, X, indices)
    np.testing.assert_array_equal(n, [True, True])
    np.testing.assert_array_equal(m, [2, 2])
    np.testing.assert_array_equal(r, [[0, 9, 2, 3], [0, 1, 2, 3]])


def test_derivatives():
    f = jt.jaxpr_as_fun(_program())

    def placed(a, x):
        return f(np.bool_(True), a, x, np.int32(1))[2]

    _, t = jt.jvp(placed, (A, X), (np.ones_like(A), np.float32(5)))
    np.testing.assert_array_equal(t, [1, 5, 1, 1])
    cts = jt.vjp(placed, A, X)[1](A + 1)
    np.testing.assert_array_equal(cts[0], [1, 2, 3, 4])  # equinox: what was there is read by nobody
    assert cts[1] == 2
    with pytest.raises(jt.JaxprToolError, match="no"):
        jt.vjp(lambda a: f(np.bool_(True), a, X, np.int32(1))[3], A)[1](A)


def test_misuse():
    text = BODY.replace("FALSE", "False").replace("x:f32[]", "x:f32[2]")
    with pytest.raises(jt.JaxprTypeError, match=re.escape("one type is needed")):
        jt.typecheck_jaxpr(jt.parse(text))


def test_announcements_change_nothing():
    text = """{ lambda ; a:f32[2] b:i32[]. let
    c:f32[2] d:i32[] = announce_jaxpr[
      announce=<function f at 0xXXXXXXXXXXXX>
      intermediates=False
      name=here
      stack=()
    ] a b
  in (c, d) }"""
    f = jt.jaxpr_as_fun(jt.parse(text))
    a, b = np.array([1, 2], np.float32), np.int32(3)
    for out in (f(a, b), jt.compile(jt.parse(text))(a, b)):
        np.testing.assert_array_equal(out[0], a)
        assert out[1] == 3
    np.testing.assert_array_equal(jt.vjp(lambda a: f(a, b)[0], a)[1](a + 1)[0], a + 1)
    out = jt.vmap(f, in_axes=(0, None))(np.stack([a, a]), b)
    np.testing.assert_array_equal(out[0], np.stack([a, a]))


def test_what_is_not_traceable_can_only_be_run():
    f = jt.jaxpr_as_fun(
        jt.parse("{ lambda ; a:f32[2]. let b:f32[2] = nontraceable[name=it] a in (b,) }")
    )
    a = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(f(a)[0], a)
    for transformed in (
        lambda: jt.jvp(f, (a,), (a,)),
        lambda: jt.vmap(f)(np.stack([a, a])),
    ):
        with pytest.raises(jt.JaxprToolError, match="of it, which is not to be transformed"):
            transformed()


@pytest.mark.parametrize("primitive", ["nonbatchable", "nondifferentiable_backward"])
def test_what_is_said_prints_back_as_it_was_read(primitive):
    """Messages are sentences, with all that stands in sentences."""
    said = "Nonconstant batch. `equinox.internal.while_loop` has received values, which don't (yet) agree: a bug! See 'x'."
    other = "allow_constant_across_batch=True" if primitive == "nonbatchable" else "symbolic=True"
    params = "\n".join(f"      {p}" for p in sorted([other, f"msg={said}"]))
    text = (
        f"{{ lambda ; a:bool[]. let\n    b:bool[] = {primitive}[\n{params}\n    ] a\n  in (b,) }}"
    )
    program = jt.parse(text)
    assert program.eqns[0].params["msg"] == said
    assert str(program) == text == jt.format_jaxpr(program, lossless=True)


# -- branched_error ----------------------------------------------------------------------------

FAILING = """{ lambda ; p:bool[] i:i32[] a:f32[2] b:i32[]. let
    c:f32[2] d:i32[] = branched_error[
      msgs=['First, `x` is not finite.', "it's the second"]
    ] p i a b
  in (c, d) }"""
OPERANDS = np.array([1, 2], np.float32), np.int32(3)
RUNS = {
    "numpy": jt.eval_jaxpr,
    "xla": lambda program, args: jt.compile(program)(*args),
    "jax": lambda program, args: jt.to_jax_function(program)(*args),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_a_branched_error(run):
    program = jt.parse(FAILING)
    assert str(program) == FAILING
    jt.typecheck_jaxpr(program)
    out = run(program, [np.bool_(False), np.int32(1), *OPERANDS])
    np.testing.assert_array_equal(out[0], OPERANDS[0])
    assert out[1] == 3
    for i, said in enumerate(["First, x is not finite", "it's the second"]):
        with pytest.raises(Exception, match=said):
            np.asarray(run(program, [np.bool_(True), np.int32(i), *OPERANDS])[0])
    with pytest.raises(Exception, match="the text has no message beyond 2"):
        np.asarray(run(program, [np.bool_(True), np.int32(2), *OPERANDS])[0])


def test_a_branched_error_is_the_identity_to_derivatives():
    f = jt.jaxpr_as_fun(jt.parse(FAILING))
    p, i, (a, b) = np.bool_(False), np.int32(0), OPERANDS
    primals, tangents = jt.jvp(lambda a: f(p, i, a, b)[0], (a,), (a + 1,))
    np.testing.assert_array_equal(primals, a)
    np.testing.assert_array_equal(tangents, a + 1)
    np.testing.assert_array_equal(jt.vjp(lambda a: f(p, i, a, b)[0], a)[1](a + 3)[0], a + 3)


def test_a_branched_error_of_one_example_fails_for_the_batch():
    f = jt.vmap(jt.jaxpr_as_fun(jt.parse(FAILING)), in_axes=(0, 0, 0, None))
    args = np.array([0, 1], np.int32), np.stack([OPERANDS[0]] * 2), OPERANDS[1]
    c, d = f(np.array([False, False]), *args)
    np.testing.assert_array_equal(c, args[1])
    np.testing.assert_array_equal(d, [3, 3])
    with pytest.raises(jt.JaxprToolError, match="it's the second"):
        f(np.array([False, True]), *args)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("p:bool[]", "p:bool[2]", "takes bool[] and an integer scalar, not bool[2] and i32[]"),
        ("i:i32[]", "i:f32[]", "takes bool[] and an integer scalar, not bool[] and f32[]"),
        ("['First, `x` is not finite.', \"it's the second\"]", "[]", "is no list of messages"),
    ],
)
def test_a_branched_error_that_does_not_fit(old, new, message):
    with pytest.raises(jt.JaxprTypeError, match=re.escape(message)):
        jt.typecheck_jaxpr(jt.parse(FAILING.replace(old, new)))


# -- vprim -------------------------------------------------------------------------------------

ONE = "params=(('i_static', None), ('i_treedef', PyTreeDef(*)), ('kwargs', ()), ('makes_false_steps', True))"
MAPPED = f"""{{ lambda ; p:bool[3] a:f32[3,4] x:f32[3] i:i32[3]. let
    b:f32[3,4] = vprim[
      __axis_name=<object object at 0xXXXXXXXXXXXX>
      __axis_size=3
      __batch_axes=(0, 0, 0, 0)
      {ONE}
      prim=maybe_set
    ] p a x i
  in (b,) }}"""
TWICE = f"""{{ lambda ; p:bool[3] a:f32[4] x:f32[2,3] i:i32[2]. let
    b:f32[2,3,4] = vprim[
      __axis_name=None
      __axis_size=2
      __batch_axes=(None, None, 0, 0)
      params=(('prim', maybe_set), ('__axis_size', 3), ('__axis_name', None), ('__batch_axes', (0, None, 0, None)), ('params', {ONE.removeprefix("params=")}))
      prim=vprim
    ] p a x i
  in (b,) }}"""
P3, A3 = np.array([True, False, True]), np.arange(12, dtype=np.float32).reshape(3, 4)


def _updated(pred, a, x, i):
    out = np.array(a)
    if pred and 0 <= i < len(out):
        out[i] = x
    return out


def _mapped():
    x, i = np.float32([7, 8, 9]), np.int32([1, 2, 4])
    return MAPPED, [P3, A3, x, i], np.stack([_updated(*v) for v in zip(P3, A3, x, i, strict=True)])


def _mapped_twice():
    x, i = np.float32([[7, 8, 9], [4, 5, 6]]), np.int32([3, 0])
    wanted = [
        [_updated(p, A, v, at) for p, v in zip(P3, row, strict=True)]
        for row, at in zip(x, i, strict=True)
    ]
    return TWICE, [P3, A, x, i], np.array(wanted)


@pytest.mark.parametrize("make", [_mapped, _mapped_twice])
def test_a_primitive_of_each_example(make):
    """`vprim` is vmap of the primitive that its params name."""
    text, args, wanted = make()
    program = jt.parse(text)
    assert str(program) == text
    jt.typecheck_jaxpr(program)
    for (out,) in (jt.eval_jaxpr(program, args), jt.compile(program)(*args)):
        np.testing.assert_array_equal(np.asarray(out), wanted)

    def changed(a, x):
        return jt.eval_jaxpr(program, [args[0], a, x, args[3]])[0]

    # Linear in what is set and in what it is set in: the derivative is the update of the tangents.
    _, moved = jt.jvp(changed, (args[1], args[2]), (args[1] * 2, args[2] * 3))
    (expected,) = jt.eval_jaxpr(program, [args[0], args[1] * 2, args[2] * 3, args[3]])
    np.testing.assert_array_equal(moved, expected)
    batched = jt.vmap(changed, in_axes=(None, 0))(args[1], np.stack([args[2], args[2] + 1]))
    np.testing.assert_array_equal(batched[0], wanted)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("prim=maybe_set", "prim=their_own", "their_own is not known here"),
        ("(0, 0, 0, 0)", "(0, 0, 0)", "3 axes for 4 operands"),
        ("(0, 0, 0, 0)", "(0, 1, 0, 0)", "3 examples along dimension 1"),
        ("__axis_size=3", "__axis_size=2", "2 examples along dimension 0"),
    ],
)
def test_a_primitive_of_each_example_that_does_not_fit(old, new, message):
    with pytest.raises(jt.JaxprTypeError, match=message):
        jt.typecheck_jaxpr(jt.parse(MAPPED.replace(old, new)))
