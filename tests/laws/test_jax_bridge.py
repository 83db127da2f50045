"""Programs go to JAX and back: what is live, a lossless text, and JAX's own text of every example.

to_jax(from_jax(J)) prints as J; to_jax(parse(str(J))) prints and runs as J; `diff` calls a program and its text equal.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.backends.jax.plug_ins import is_plug_ins
from jaxprtool.backends.jax.primitives import has_primitive
from jaxprtool.driver.diff import diff
from tests.conformance.harnesses import JaxCannot, programs
from tests.conformance.harnesses import sample as sample_of_harnesses
from tests.laws.oracle import (
    EXAMPLES,
    OneProgram,
    as_list,
    assert_close,
    by_structure,
    called,
    in_jax,
    inputs,
    is_differentiable,
    is_in_jax,
    law,
    on_jax,
    ours,
)
from tests.releases import SERIES

STRUCTURES = [e for e in by_structure(EXAMPLES) if is_in_jax(e)]
# What a text of JAX's does not hold: functions of Python, which blocks of an array a kernel gets, how Threefry counts.
FUNCTIONS = (
    "pure_callback",
    "io_callback",
    "debug_callback",
    "inspect_sharding",
    "check",
    "custom_vmap_call",
)
WITH_TEXT = [
    e
    for e in STRUCTURES
    if e.primitive.name not in (*FUNCTIONS, "pallas_call") and e.params.get("partitionable", True)
]
PLACES = {id(e): i for i, e in enumerate(STRUCTURES)}
HARNESSES = sample_of_harnesses()


@functools.cache
def _traced(index):
    example = STRUCTURES[index]
    return jax.make_jaxpr(in_jax(example))(*inputs(example))


def traced(example):
    """The example as JAX's jaxpr."""
    return _traced(PLACES[id(example)])


def from_text(closed):
    """JAX's jaxpr of the text of one, with the values of constants, which no text of JAX's has."""
    return jt.to_jax(jt.ClosedJaxpr(jt.parse(str(closed)).jaxpr, list(closed.consts)))


def canonical(text):
    """A text without the differences that say nothing.

    They are an index from the end, a param that JAX's `conj` needs, and one that JAX gives in some places only.
    """
    text = text.replace(" out_sharding=None]", "]")
    return text.replace("[-1,:]", "[3,:]").replace("conj[input_dtype=float32]", "conj")


def in_full(text, theirs):
    """A canonical text; on one line where one of JAX's own cases, `theirs`, leaves out a param, and is shorter."""
    text = canonical(text)
    return text if "out_sharding" in theirs else " ".join(text.split())


@law(STRUCTURES)
def test_what_comes_back_prints_as_it_was(example):
    closed = traced(example)
    assert canonical(str(jt.to_jax(jt.from_jax(closed)))) == canonical(str(closed))


@law(STRUCTURES)
def test_text_is_written_as_jax_writes_it(example):
    closed = traced(example)
    text = str(closed)
    assert jt.format_jaxpr(jt.parse(text)) == text


@law(STRUCTURES)
def test_a_program_and_its_text_are_equal(example):
    live = jt.from_jax(traced(example))
    text = jt.format_jaxpr(live, lossless=True)
    found = diff({"": live}, {"": jt.parse(text)})
    assert found.equal, "\n".join(found.lines)


@law([e for e in WITH_TEXT if e.primitive.name != "custom_linear_solve"])
def test_text_prints_as_it_was(example):
    closed = traced(example)
    assert canonical(str(from_text(closed))) == canonical(str(closed))


RUN = [
    e
    for i, e in enumerate(WITH_TEXT)
    if e.primitive not in {d.primitive for d in WITH_TEXT[max(i - 3, 0) : i]}
    and not (e.primitive.name == "compute_on" and SERIES < (0, 10))  # XLA cannot place it there
]
RAN = OneProgram(RUN, called(in_jax), on_jax)
READ = OneProgram(RUN, called(lambda e: jaxpr_as_fun(from_text(traced(e)))), on_jax)


@law(RUN)
def test_text_runs_as_it_was(example):
    for got, want in zip(as_list(READ[example]), as_list(RAN[example]), strict=True):
        assert got.dtype == want.dtype
        if not jax.dtypes.issubdtype(got.dtype, jax.dtypes.extended):
            assert_close(got, want)


ABSENT = [
    e
    for e in by_structure(EXAMPLES)
    if not has_primitive(e.primitive.name) and not is_plug_ins(e.primitive) and is_differentiable(e)
]


@law(ABSENT or by_structure(EXAMPLES)[:1])
def test_what_jax_has_not_keeps_its_derivative(example):
    """What this release of JAX has no primitive for is done by others there, and has the derivative that it has here."""
    if example not in ABSENT:
        pytest.skip("this release has all primitives")
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    flags = [a.dtype.kind in "fc" for a in program.in_avals]
    tangents = [np.ones_like(x) for x, flag in zip(args, flags, strict=True) if flag]
    moved, _ = jt.jvp_jaxpr(program, flags)
    want = jt.eval_jaxpr(moved, [*args, *tangents])[len(program.out_avals) :]
    f, inexact = jaxpr_as_fun(jt.to_jax(program)), [a.dtype.kind in "fc" for a in program.out_avals]

    def of_floats(*xs):
        rest = iter(xs)
        outs = f(*[next(rest) if flag else x for x, flag in zip(args, flags, strict=True)])
        return [y for y, flag in zip(outs, inexact, strict=True) if flag]

    floats = [x for x, flag in zip(args, flags, strict=True) if flag]
    _, got = jax.jvp(of_floats, floats, tangents)
    for x, y in zip(got, want, strict=True):
        assert_close(x, y)


@pytest.mark.parametrize("primitive", list(HARNESSES))
def test_jax_s_own_cases(primitive):
    for name in HARNESSES[primitive]:
        try:
            cases = programs(name)
        except JaxCannot:
            continue
        for case in cases:
            with jax.enable_x64(case.x64):
                live = jt.from_jax(case.closed)
                assert in_full(str(jt.to_jax(live)), case.text) == in_full(case.text, case.text)
                text = jt.format_jaxpr(live, lossless=True)
                assert diff({"": live}, {"": jt.parse(text)}).equal
                back = from_text(case.closed)
                wants = jaxpr_as_fun(case.closed)(*case.args)
                for got, want in zip(jaxpr_as_fun(back)(*case.args), wants, strict=True):
                    assert got.dtype == want.dtype
                    if not jax.dtypes.issubdtype(got.dtype, jax.dtypes.extended):
                        assert_close(got, want)


WIDE = {"float32": "float64", "int32": "int64", "uint32": "uint64", "complex64": "complex128"}


def widened(x):
    """An operand in the 64-bit type of its kind."""
    name = getattr(getattr(x, "dtype", None), "name", "")
    return x.astype(WIDE[name]) if name in WIDE else x


@law(list({e.primitive.name: e for e in reversed(EXAMPLES)}.values()))
def test_64_bit_types_need_no_setting(example):
    """`to_jax` writes the same jaxpr with `jax_enable_x64` and without."""
    try:
        program = jt.make_jaxpr(ours(example))(*map(widened, inputs(example)))
    except jt.JaxprToolError:
        pytest.skip("the params are for types of 32 bits")

    def written(wide):
        with jax.enable_x64(wide):
            try:
                return str(jt.to_jax(program))
            except jt.JaxprToolError as e:
                return str(e)

    assert written(False) == written(True)
