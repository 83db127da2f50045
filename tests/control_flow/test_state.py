"""References: cells on NumPy, discharged everywhere else, against JAX."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.state.discharge import run_state
from jax.experimental.pallas import ds

import jaxprtool as jt
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.discharge import has_refs
from jaxprtool.interpreters.jvp import jvp_jaxpr
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.interpreters.partial_eval import partial_eval_jaxpr
from jaxprtool.interpreters.transpose import transpose_jaxpr
from tests.control_flow.oracle import close, compare, in_jax, traced

X = np.arange(20, dtype=np.float32).reshape(4, 5)


def _numbers_and_slices(x, i):
    r = jax.new_ref(x)
    a = r[0]
    r[i] = jnp.sin(r[1]) * 2
    r[:, 1] = x[:, 0]
    b = r[1:3, :2]
    r[i, 2] += 3.0
    return r[...], a, b, r[-1]


def _arrays(x):
    r = jax.new_ref(x)
    a = r[:, jnp.array([0, 1, 1])]
    b = r[jnp.array([0, 1]), 1:3]
    c = r[jnp.array([0, 1]), jnp.array([[0], [1]])]
    r[jnp.array([1, 2])] = x[:2] * 2
    r[0, 1:3] = jnp.ones(2, np.float32)
    return a, b, c, jax.freeze(r)


def _control_flow(x):
    r, s = jax.new_ref(x[0]), jax.new_ref(jnp.zeros((), np.float32))

    def step(c, v):
        r[0] = r[0] * 1.1 + v[0]
        s[...] = s[...] + jnp.sin(r[1])
        jax.lax.cond(v[1] > 7, lambda: r.__setitem__(2, v[2]), lambda: None)
        return c + r[0], r[2]

    c, ys = jax.lax.scan(step, 0.0, x)

    @jax.jit
    def call(r, z):
        r[3] = r[3] * z
        return z * 2

    return call(r, c), ys, r[...], s[...]


def _fori(x):
    r = jax.new_ref(x)

    def body(i, c):
        r[i] = r[i] * 2.0
        return c + r[i].sum()

    return jax.lax.fori_loop(0, 3, body, 0.0), r[...]


def _while_that_reads(x):
    r, s = jax.new_ref(x[0]), jax.new_ref(x[1])

    def body(i):
        s[1] = s[1] + 1.0
        return i + 1.0

    return jax.lax.while_loop(lambda i: r[1] + i < 9.0, body, 0.0), r[...], s[...]


def _run_state(x):
    def body(refs):
        a, b = refs
        a[0] = b[1] * 2.0
        b[...] = a[...] + 1

    return run_state(body)((x, x * 2))


def _slices(x, i):
    r = jax.new_ref(x)
    a = r[1, 0:5:2]
    r[0:4:3, ::2] = jnp.ones((2, 3), np.float32)
    b = r[ds(i, 2), ds(i - 1, 2, 3)]
    r[ds(i, 2, 2), 1] = b[0]
    jax.ref.addupdate(r, (slice(None), slice(1, 4, 2)), x[:, :2])
    return a, b, r[jnp.array([0, 2]), 1:5:2], r[...]


def _slices_of_a_loop(x):
    r, s = jax.new_ref(x), jax.new_ref(x[0])

    def step(c, cells):
        row, i = cells
        t = jax.new_ref(c)  # of a weak type
        row[i] = row[i] * 2.0 + t[...]
        s[...] = s[...] + row[...]
        return jax.freeze(t) + 1.0, row[0]

    out = jax.lax.scan(step, 0.0, (r, jnp.arange(4)), reverse=True)
    jax.free_ref(s)
    return out, r[...]


PROGRAMS = {
    "slices_of_a_loop": (_slices_of_a_loop, (X,)),
    "numbers": (_numbers_and_slices, (X, np.int32(2))),
    "arrays": (_arrays, (X,)),
    "control_flow": (_control_flow, (X,)),
    "fori": (_fori, (X,)),
    "run_state": (_run_state, (X,)),
}


@pytest.mark.parametrize("f, args", PROGRAMS.values(), ids=PROGRAMS)
def test_programs(f, args):
    discharged = jt.discharge(traced(f, *args))
    jt.typecheck_jaxpr(discharged)
    assert not has_refs(discharged.jaxpr)
    # JAX does not differentiate or map all of these itself.
    program = compare(f, *args, oracle=in_jax(discharged), batch=len(args) == 1)
    jt.typecheck_jaxpr(vjp_jaxpr(program))


def test_a_condition_that_reads_a_reference():
    compare(_while_that_reads, X, reverse=False, batch=False, forward=False)


def test_strides_are_written_though_jax_does_not_print_them():
    program = traced(_slices, X, np.int32(1))
    assert {"[1,:5:2]", "[:4:3,:5:2]", "[c:c+3:2,1]"} <= set(
        re.findall(r"\[[^] =]+:2.*\]", str(program))
    )
    again = jt.parse(str(program))
    assert str(again) == str(program)
    want = jax.tree.leaves(_slices(X, np.int32(1)))
    for p in (program, again, jt.discharge(again)):
        close(jt.eval_jaxpr(p, [X, np.int32(1)]), want)
    close(jt.compile(again)(X, np.int32(1)), want)


ACCESSES = {
    "get": lambda r, i, v: r[i],
    "set": lambda r, i, v: r.__setitem__(i, v),
    "add": lambda r, i, v: jax.ref.addupdate(r, i, v),
    "slice": lambda r, i, v: r[ds(i.min(), 2)],
}


@pytest.mark.parametrize("i", [-1, -9, 9, [-1, 9, -9, 1, 1], [[3, -5]]], ids=str)
@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
def test_outside_of_the_cell(access, i):
    def f(x, i):
        r = jax.new_ref(x)
        out = access(r, i, jnp.full(i.shape, 9.0, np.float32))
        return (r[...] if out is None else out), r[...]

    args = X[0, :4], np.array(i, np.int32)
    program, want = traced(f, *args), jax.jit(f)(*args)
    close(jt.eval_jaxpr(program, args), want)
    close(jt.compile(program)(*args), want)


FROM_TEXT = {
    n: p for n, p in PROGRAMS.items() if n != "arrays"
}  # its constants are not in the text


@pytest.mark.parametrize("f, args", FROM_TEXT.values(), ids=FROM_TEXT)
def test_programs_read_from_text(f, args):
    closed = jax.make_jaxpr(f)(*args)
    program = jt.parse(str(closed))
    assert str(program) == str(closed)
    want = jax.tree.leaves(jax.jit(f)(*args))
    close(jt.eval_jaxpr(program, args), want)
    close(jt.compile(program)(*args), want)
    close(in_jax(program)(*args), want)


def test_a_cell_that_holds_nothing_at_the_start():
    def f(x):
        r = jax.empty_ref(jax.typeof(x))
        r[...] = x
        return r[1:]

    closed = jax.make_jaxpr(f)(X)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        assert str(program) == str(closed)
        close(jt.eval_jaxpr(program, [X]), [X[1:]])
        close(jt.compile(program)(X), [X[1:]])
        close(jax.jit(in_jax(program))(X), [X[1:]])


def test_masks():
    text = """{ lambda ; a:f32[4] b:bool[4]. let
    r:Ref{f32[4]} = new_ref[kind=None memory_space=None] a
    c:f32[4] <- r[...] mask=b other=7.0:f32[]
    d:f32[4], r[...] <- r[...], c mask=b
    r[...] += a mask=b
    e:f32[4] = freeze r
  in (c, d, e) }"""
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    a, b = X[0, :4] + 1, np.array([True, False, True, False])
    want = [np.where(b, a, 7), np.where(b, a, np.where(b, a, 7)), np.where(b, 2 * a, a)]
    for p in (program, jt.discharge(program)):
        close(jt.eval_jaxpr(p, [a, b]), [w.astype(np.float32) for w in want])


def test_addupdate():
    text = """{ lambda ; a:f32[3] i:i32[2]. let
    b:Ref{f32[3]} = new_ref[kind=None memory_space=None] a
    b[0] += 2.0:f32[]
    c:f32[2] <- b[:2]
    b[i] += c
    d:f32[3] = freeze b
  in (d,) }"""
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    args = [np.ones(3, np.float32), np.array([1, 1], np.int32)]
    for p in (program, jt.discharge(program)):
        np.testing.assert_array_equal(jt.eval_jaxpr(p, args)[0], [3, 5, 1])
    np.testing.assert_array_equal(np.asarray(jt.compile(program)(*args)[0]), [3, 5, 1])
    np.testing.assert_array_equal(args[0], 1)


def _program(line):
    return f"""{{ lambda ; a:f32[3] i:f32[] j:i32[]. let
    b:Ref{{f32[3]}} = new_ref[kind=None memory_space=None] a
    {line}
    d:f32[3] <- b[...]
  in (d,) }}"""


@pytest.mark.parametrize(
    "line, message",
    [
        ("b[0] <- a", "swap puts f32[3] where f32[] is"),
        ("b[5] <- 1.0:f32[]", "the index 5 is out of range for an axis of 3"),
        ("b[0,0] <- 1.0:f32[]", "is for 2 axes of [3]"),
        ("b[2:1] <- 1.0:f32[]", "the slice 2:1 is out of range"),
        ("b[0:6:2] <- a", "the slice :5:2 is out of range for an axis of 3"),
        ("b[0:3:2] <- a", "swap puts f32[3] where f32[2] is"),
        ("b[0:3:0] <- a", "the index 0:3:0 cannot be read"),
        ("b[j:j+4] <- a", "is out of range for an axis of 3"),
        ("c:f32[3] <- b[...] mask=i", "takes the mask f32[], and bool[3] is needed"),
        ("c:Ref{f32[]} = empty_ref[ty=blue]", "empty_ref ty=blue is not the type of an array"),
        ("c:f32[] <- b[i]", "operand 0 of the index is no integer"),
        ("c:f32[] <- a[0]", "get needs a reference to an array, and its operand is f32[3]"),
        ("b[0] += a", "addupdate puts f32[3] where f32[] is"),
    ],
)
def test_ill_typed(line, message):
    with pytest.raises(jt.JaxprTypeError, match=re.escape(message)):
        jt.typecheck_jaxpr(jt.parse(_program(line)))


def test_references_from_outside():
    text = "{ lambda ; a:Ref{f32[3]} b:f32[]. let c:f32[] <- a[1]; a[0] <- b in (c,) }"
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    pure = jt.discharge(program)
    c, cell = jt.eval_jaxpr(pure, [np.arange(3, dtype=np.float32), np.float32(7)])
    close([c, cell], [np.float32(1), np.array([7, 1, 2], np.float32)])
    with pytest.raises(jt.MissingRuleError, match="jaxprtool discharge"):
        jt.lower(program)


USED_AFTERWARDS = {
    "read": "c:f32[] <- b[0]",
    "written": "b[0] <- 1.0:f32[]",
    "frozen": "c:f32[3] = freeze b",
    "passed": "jit[name=f jaxpr={ lambda ; e:Ref{f32[3]}. let e[0] <- 1.0:f32[] in () }] b",
}


@pytest.mark.parametrize("end", ["d:f32[3] = freeze b", "free_ref b"])
@pytest.mark.parametrize("line", USED_AFTERWARDS.values(), ids=USED_AFTERWARDS)
def test_a_reference_that_is_used_after_its_end(end, line):
    text = f"""{{ lambda ; a:f32[3]. let
    b:Ref{{f32[3]}} = new_ref[kind=None memory_space=None] a
    {end}
    {line}
  in () }}"""
    message = r"the reference b is used after (freeze|free_ref) at <string>:3:5"
    with pytest.raises(jt.JaxprTypeError, match=message):
        jt.typecheck_jaxpr(jt.parse(text))


def test_a_slice_of_a_reference_of_the_wrong_length():
    text = """{ lambda ; a:Ref{f32[3]}. let
    scan[
      jaxpr={ lambda ; b:Ref{f32[]}. let b[...] <- 1.0:f32[] in () }
      length=4
      num_carry=0
      num_consts=0
      reverse=False
      unroll=1
    ] a
  in () }"""
    with pytest.raises(jt.JaxprTypeError, match=r"operand 0 is f32\[3\].*length=4"):
        jt.typecheck_jaxpr(jt.parse(text))


TAKES = "{ lambda ; r:Ref{f32[3]} b:f32[3]. let c:f32[3] <- r[...]; d:f32[3] = mul c b; r[...] <- d in (c,) }"


@pytest.mark.parametrize(
    "transform",
    [
        lambda p: jvp_jaxpr(p, [True, True]),
        lambda p: jvp_jaxpr(p, [False, True]),
        lambda p: vmap_jaxpr(p, 2, [0, 0], None),
        lambda p: partial_eval_jaxpr(p, [False, True]),
        lambda p: linearize_jaxpr(p, [False, True]),
        lambda p: grad_jaxpr(p, (1,)),
        lambda p: transpose_jaxpr(p, [False, True]),
    ],
)
def test_a_reference_as_an_argument_is_refused_with_the_way_out(transform):
    with pytest.raises(
        jt.UnsupportedError, match=r"argument 0 \(r\) is a reference, Ref\{f32"
    ) as e:
        transform(jt.parse(TAKES))
    assert "jaxprtool discharge" in e.value.diagnostics[0].help


def test_what_takes_references_is_differentiated_and_batched_once_it_is_discharged():
    pure = jt.jaxpr_as_fun(jt.discharge(jt.parse(TAKES)))
    x = np.arange(3, dtype=np.float32)
    close(jt.jvp(pure, (x, x), (x, x))[1], [x, 2 * x * x])
    close(
        jt.vmap(pure)(np.stack([x, x]), np.stack([x, x])), [np.stack([x, x]), np.stack([x * x] * 2)]
    )
