"""Symbolic sizes: a program that `check` accepts is accepted by every verb, or refused with a
reason.

Each size of each example is called `n`, in types alone or in the params of shapes too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.core.kinds.numbers import PADDING_CONFIG, SHAPE
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.linearize import linearize
from jaxprtool.driver.vjp import vjp
from jaxprtool.driver.vmap import vmap
from jaxprtool.ir.avals import SymbolicDim
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.syntax.params import format_value, read_value
from tests.laws.oracle import EXAMPLES, law, ours
from tests.rules.example import Example


def draw_like(aval: Any) -> Any:
    return (
        np.linspace(-1, 1, max(aval.size, 1))
        .astype(aval.dtype.name)[: aval.size]
        .reshape(aval.shape)
    )


_DIMENSIONS = re.compile(r"(?<=[a-z0-9>])\[([0-9,]+)\]")
_SHAPES = re.compile(r"\b(\w*shape|\w*sizes|limit_indices)=\(([0-9, ]*)\)")
VERBS: dict[str, Callable[[Any], Any]] = {
    "jvp": jvp,
    "vmap": lambda p: vmap(p, axis_size=2),
    "linearize": linearize,
    "vjp": vjp,
    "stats": lambda p: str(jt.stats(p)),
    "cost": lambda p: str(jt.cost(p)),
    "residuals": lambda p: str(jt.residuals(p)),
    "opt": jt.opt,
    "lint": lambda p: str(jt.lint(p)),
    "hash": jt.hash_program,
    "fmt": lambda p: jt.parse(jt.format_jaxpr(p)),
    "diff": lambda p: jt.diff(p, p),
    "lower": jt.lower,
}


def _renamed(words: str, size: str) -> str:
    return re.sub(rf"\b{size}\b", "n", words)


def _texts(text: str) -> Iterator[str]:
    sizes = {d for m in _DIMENSIONS.finditer(text) for d in m[1].split(",") if int(d or 0) > 1}
    for size in sorted(sizes):
        typed = _DIMENSIONS.sub(lambda m, s=size: f"[{_renamed(m[1], s)}]", text)
        yield typed
        yield _SHAPES.sub(lambda m, s=size: f"{m[1]}=({_renamed(m[2], s)})", typed)


@pytest.mark.filterwarnings("ignore:the custom|the batching rule")  # they are not in this text
@law(EXAMPLES)
def test_a_verb_answers_or_says_why_not(example: Example) -> None:
    text = jt.format_jaxpr(jt.make_jaxpr(ours(example))(*[a.aval for a in example.args]))
    for changed in dict.fromkeys(_texts(text)):
        try:
            program = jt.parse(changed)
            jt.check(program)
        except JaxprToolError as e:
            assert e.exit_code != 3, changed
            continue
        for name, verb in VERBS.items():
            try:
                verb(program)
            except JaxprToolError as e:
                assert e.exit_code != 3, (name, changed)
            except Exception as e:
                raise AssertionError(f"{name}: {e!r} of\n{changed}") from e


def test_what_is_true_of_any_size_is_computed() -> None:
    n = SymbolicDim("n")
    assert (n + 0, 0 + n, n - 0, 1 * n, n * 1, n // 1) == (n,) * 6
    assert n - n == 0 and n // n == 1 and n <= n and n >= n and not n < n
    assert min(n, n) == n and sum([n]) == n and f"[{n}]" == "[n]" and "x" + n == "xn"


@pytest.mark.parametrize(
    "operation, found",
    [
        (lambda n: n + 1, "n + 1"),
        (lambda n: 1 + n, "n + 1"),
        (lambda n: 2 * n, "2*n"),
        (lambda n: n * n, "n^2"),
        (lambda n: n - 1, "n - 1"),
        (lambda n: 1 - n, "- n + 1"),
        (lambda n: -n, "- n"),
        (lambda n: n // 2, "floordiv(n, 2)"),
        (lambda n: n % 2, "mod(n, 2)"),
        (lambda n: 7 // n, "floordiv(7, n)"),
        (lambda n: divmod(2 * n, 2), ("n", 0)),
        (lambda n: (2 * n + SymbolicDim("m")) - SymbolicDim("m"), "2*n"),
        (lambda n: n + n == 2 * n, True),
        (lambda n: max(n - 1, 0), "n - 1"),
        (
            lambda n: (bool(n), n >= 1, n < n + 1, n // 2 <= n, n > 2 * n),
            (True, True, True, True, False),
        ),
    ],
)
def test_what_jax_can_say_is_computed(operation: Callable[[Any], Any], found: Any) -> None:
    """JAX takes each name for a number from 1 on."""
    assert operation(SymbolicDim("n")) == found


@pytest.mark.parametrize(
    "operation",
    [
        *(lambda n: n < 3, lambda n: n > 3, lambda n: max(n, 2), lambda n: n / 2, lambda n: n**2),
        *(
            lambda n: n <= SymbolicDim("m"),
            lambda n: [0][n],
            lambda n: n + 0.5,
            range,
            int,
            lambda n: bool(n - 1),
        ),
        *(lambda n: SymbolicDim("n^9") + n, lambda n: SymbolicDim("+".join(["n*m"] * 50)) + n),
    ],
)
def test_nothing_else_is(operation: Callable[[Any], Any]) -> None:
    with pytest.raises(jt.UnsupportedError, match="is none"):
        operation(SymbolicDim("n"))


SYMBOLIC = """\
{ lambda ; a:f32[a,b] b:f32[b,2*a + 1]. let
    c:f32[a,b] = sin a
    u:f32[b] = reduce_sum[axes=(0,) out_sharding=None] c
    d:f32[a*b] = reshape[dimensions=None new_sizes=(a*b,) sharding=None] c
    e:f32[2*a,b] = concatenate[dimension=0] a c
    f:f32[a,2*a + 1] = dot_general[dimension_numbers=(([1], [0]), ([], []))] c b
    g:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] a
    h:i32[] = dim_as_value[dim=a]
    i:f32[] = convert_element_type[new_dtype=float32 weak_type=False] h
    j:f32[] = div g i
    k:i32[a] = iota[dimension=0 dtype=int32 shape=(a,) sharding=None]
    l:f32[floordiv(a, 2),b] = slice[
      limit_indices=(floordiv(a, 2), b)
      start_indices=(0, 0)
      strides=None
    ] c
    m:f32[a + 3,b] = pad[padding_config=((1, 2, 0), (0, 0, 0))] a 0.0:f32[]
    n:f32[a,b,b] = broadcast_in_dim[
      broadcast_dimensions=(0, 1)
      shape=(a, b, b)
      sharding=None
    ] c
    o:f32[b] p:f32[a,b] = scan[
      jaxpr={ lambda ; q:f32[b] r:f32[b]. let
          s:f32[b] = add q r
          t:f32[b] = mul q r
        in (s, t) }
      length=a
      linear=(False, False)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
      _split_transpose=False
    ] u a
    v:f32[- mod(- 1, a) + a,b] = slice[
      limit_indices=(- mod(- 1, a) + a, b)
      start_indices=(0, 0)
      strides=None
    ] a
  in (d, e, f, j, k, l, m, n, o, p, v) }
"""


@pytest.mark.parametrize("name", ["check", "opt", "jvp", "vjp", "linearize", "vmap"])
@pytest.mark.parametrize("sizes", ["a=4 b=3", "a=1 b=1", "a=7 b=2"])
def test_a_symbolic_program_gives_what_the_program_of_those_sizes_gives(
    name: str, sizes: str
) -> None:
    """A verb, then sizes; and sizes, then the verb."""
    verb = {**VERBS, "check": lambda p: p, "linearize": lambda p: linearize(p)["primal"]}[name]
    symbolic = jt.parse(SYMBOLIC)
    jt.check(symbolic)
    made = jt.opt(verb(symbolic), passes=f"specialise {sizes}")
    want = verb(jt.opt(symbolic, passes=f"specialise {sizes}"))
    jt.check(made)
    assert made.in_avals == want.in_avals and made.out_avals == want.out_avals
    args = [draw_like(aval) for aval in want.in_avals]
    for x, y in zip(jt.eval_jaxpr(made, args), jt.eval_jaxpr(want, args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_a_program_whose_types_need_sizes_is_specialised_first() -> None:
    """`check` cannot say whether `n - 2` rows are there; the program of ten rows is checked."""
    text = (
        "{ lambda ; a:f32[n]. let b:f32[n - 2] = slice[limit_indices=(n,) start_indices=(2,)"
        " strides=None] a in (b,) }"
    )
    with pytest.raises(jt.JaxprTypeError, match="needs sizes that are numbers"):
        jt.check(jt.parse(text))
    made = jt.opt(jt.parse(text), passes="specialise n=10")
    assert str(made.out_avals[0]) == "f32[8]"
    with pytest.raises(JaxprToolError):
        jt.opt(jt.parse(text), passes="specialise n=1")
    with pytest.raises(jt.JaxprTypeError, match="f32"):
        jt.opt(jt.parse(text.replace("b:f32[n - 2]", "b:f32[n - 3]")), passes="specialise n=10")


@pytest.mark.parametrize(
    "text, value",
    [
        ("(-1, 2*a)", (-1, SymbolicDim("2*a"))),
        ("(a,)", (SymbolicDim("a"),)),
        ("(floordiv(a, 2), 3)", (SymbolicDim("floordiv(a, 2)"), 3)),
        ("(- mod(- 1, a) + a,)", (SymbolicDim("- mod(- 1, a) + a"),)),
    ],
)
def test_sizes_in_params_are_read_and_printed(text: str, value: Any) -> None:
    read = SHAPE.read(read_value(text))
    assert read == value and [*map(type, read)] == [*map(type, value)]
    assert format_value(read) == text


def test_sizes_in_tuples_of_tuples() -> None:
    text = "((0, - mod(- 1, a) + a, 0), (-1, a, 0))"
    read = PADDING_CONFIG.read(read_value(text))
    assert PADDING_CONFIG.fits(read) and format_value(read) == text
    assert [type(x) for x in read[1]] == [int, SymbolicDim, int]
    for wrong in ("(a)", "((0, a, 0)", "(a; b)", "(a, 'b')", "(lambda x: x,)"):
        assert not PADDING_CONFIG.fits(PADDING_CONFIG.read(read_value(wrong))), wrong
