"""Tuples of the releases to 0.1.40 are taken apart: what they hold are arguments, operands and results of their own."""

from __future__ import annotations

import time

import numpy as np
import pytest

import jaxprtool as jt
from tests.invoke import invoke

X, Y = np.float32(2.0), np.float32(3.0)

CALL = """\
{ lambda  ;  ; a b.
  let c = pack a b
      d = pack c a
      e = xla_call[ device=None ] d
        { lambda  ;  ; a.
          let (b c) = id a
              (d e) = id b
              f = sub d e
              g = pack f c
              h = pack g f
          in h } [  ;  ]
      (f g) = id e
      (h i) = id f
      j = pack h i g
  in j }

"""
LOOP = """\
{ lambda  ;  ; a b.
  let c = pack a 0
      d = pack b
      e = while[ aval_out=(float32[], int32[])
                 cond_jaxpr={ lambda  ;  ; a.
                              let (b c) = id a
                                  d = lt c 3
                              in d }

                 body_jaxpr={ lambda b_ ;  ; a.
                              let (c d) = id a
                                  e = mul c b_
                                  f = add d 1
                                  g = pack e f
                              in g }
                  ] c * d
      (f g) = id e
  in f }

"""
BRANCH = """\
{ lambda  ;  ; a b.
  let c = gt a 0.0
      d = pack b a
      e = pack a
      f = cond[ aval_out=float32[]
                true_jaxpr={ lambda a_cond ;  ; b.
                             let (c d) = id b
                                 e = mul c d
                                 f = add e a_cond
                             in f }

                false_jaxpr={ lambda  ;  ; a.
                              let
                              in a }
                 ] c d e b *
  in f }

"""
ARGUMENT = """\
{ lambda  ;  ; a.
  let (b c) = id a
      (d) = id b
      e = sub d c
      f = pack e
      g = pack f
  in g }

"""
NOTHING = """\
{ lambda  ;  ; a b.
  let c = pack
      d = pack c b
      (e f) = id d
      () = id e
  in * }

"""


@pytest.mark.parametrize(
    ("text", "args", "want"),
    [
        (CALL, [X, Y], [-1, 2, -1]),
        (LOOP, [X, Y], [54]),
        (BRANCH, [X, Y], [8]),
        (BRANCH, [-X, Y], [3]),
        (ARGUMENT, [X, Y], [-1]),
        (NOTHING, [X, Y], []),
    ],
)
def test_values(text, args, want):
    assert [float(x) for x in jt.eval_jaxpr(jt.parse(text), args)] == want


@pytest.mark.parametrize("text", [CALL, LOOP, BRANCH, ARGUMENT, NOTHING])
def test_what_is_printed_has_none_and_reads_back_equal(text):
    program = jt.with_types(jt.parse(text), "f32[]", "f32[]")
    jt.typecheck_jaxpr(program)
    printed = jt.format_jaxpr(program, lossless=True)
    assert "pack" not in printed and " id " not in printed
    assert jt.format_jaxpr(jt.parse(printed), lossless=True) == printed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(d e f) = id c", "a tuple of 2 elements is taken apart into 3"),
        ("(d) = id c", "a tuple of 2 elements is taken apart into 1"),
        ("() = id c", "a tuple of 2 elements is taken apart into 0"),
    ],
)
def test_a_tuple_has_one_length(line, message):
    text = f"{{ lambda  ;  ; a b.\n  let c = pack a b\n      {line}\n  in a }}\n"
    with pytest.raises(jt.JaxprToolError, match=message):
        jt.parse(text)


def test_a_loop_whose_constants_are_not_known_is_refused_by_the_checker():
    text = LOOP.replace("c * d", "c * a")
    with pytest.raises(jt.JaxprToolError):
        jt.typecheck_jaxpr(jt.with_types(jt.parse(text), "f32[]", "f32[]"))


def test_tuples_do_not_grow_without_bound():
    """Sixty lines stand for more values than a machine has room for."""
    lines = ["v0 = pack a a", *(f"v{i} = pack v{i - 1} v{i - 1}" for i in range(1, 60))]
    text = "{ lambda  ;  ; a.\n  let " + "\n      ".join(lines) + "\n  in v59 }\n"
    start = time.process_time()
    with pytest.raises(jt.JaxprToolError, match="its tuples hold more than"):
        jt.parse(text)
    assert time.process_time() - start < 20


def test_tuples_nest_deeply():
    lines = ["v0 = pack a", *(f"v{i} = pack v{i - 1}" for i in range(1, 5000))]
    text = "{ lambda  ;  ; a.\n  let " + "\n      ".join(lines) + "\n  in v4999 }\n"
    assert len(jt.parse(text).jaxpr.outs) == 1


@pytest.mark.parametrize("text", ["b = pack a a\n", "b = pack a a\n      # f.py:1\n", "c = id a\n"])
def test_a_lone_equation_of_tuples_is_written(text):
    written = invoke(["fmt", "-"], text)
    assert written.status == 0 and "a" in written.output
    assert invoke(["fmt", "-"], written.output).output == written.output


@pytest.mark.parametrize(("binders", "n"), [("", 0), ("b c", 2)])
def test_a_tuple_has_one_name(binders, n):
    with pytest.raises(jt.JaxprToolError, match=f"pack gives one tuple, and {n} results are bound"):
        jt.parse(f"{{ lambda  ;  ; a.\n  let {binders} = pack a a\n  in a }}\n")
