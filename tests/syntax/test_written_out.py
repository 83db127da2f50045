"""Definitions that stand after others which call them: JAX to 0.10.1 writes them out there, and they are one jaxpr all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import jaxprtool as jt
from jaxprtool.driver.fmt import fmt
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.syntax.releases.dialects import RELEASES

# A print of JAX 0.9.0, but for the names of functions: `act` and `norm` stand after `block` and `conv`, and `norm` after `act`.
NET = """let block = { lambda ; a:f32[4] b:f32[4]. let
    c:f32[4] = jit[
      name=norm
      jaxpr={ lambda ; a:f32[4]. let
          d:f32[] = reduce_max[axes=(0,)] a
          c:f32[4] = sub a d
        in (c,) }
    ] a
    e:f32[4] = jit[
      name=act
      jaxpr={ lambda ; c:f32[4]. let
          f:f32[4] = jit[name=half jaxpr={ lambda ; c:f32[4]. let f:f32[4] = mul 0.5:f32[] c in (f,) }] c
          e:f32[4] = tanh f
        in (e,) }
    ] c
    g:f32[4] = add a e
  in (g,) } in
let conv = { lambda ; g:f32[4]. let
    h:f32[4] = jit[
      name=norm
      jaxpr={ lambda ; a:f32[4]. let
          d:f32[] = reduce_max[axes=(0,)] a
          c:f32[4] = sub a d
        in (c,) }
    ] g
    i:f32[4] = jit[
      name=act
      jaxpr={ lambda ; c:f32[4]. let
          f:f32[4] = jit[
            name=half
            jaxpr={ lambda ; c:f32[4]. let f:f32[4] = mul 0.5:f32[] c in (f,) }
          ] c
          e:f32[4] = tanh f
        in (e,) }
    ] h
  in (i,) } in
let norm = { lambda ; a:f32[4]. let
    d:f32[] = reduce_max[axes=(0,)] a
    c:f32[4] = sub a d
  in (c,) } in
let act = { lambda ; c:f32[4]. let
    f:f32[4] = jit[
      name=half
      jaxpr={ lambda ; c:f32[4]. let f:f32[4] = mul 0.5:f32[] c in (f,) }
    ] c
    e:f32[4] = tanh f
  in (e,) } in
let half = { lambda ; c:f32[4]. let f:f32[4] = mul 0.5:f32[] c in (f,) } in
{ lambda ; j:f32[4] k:f32[4]. let
    l:f32[4] = jit[name=block jaxpr=block] j k
    m:f32[4] = jit[name=conv jaxpr=conv] l
    n:f32[4] = jit[name=block jaxpr=block] m k
    o:f32[4] = jit[name=conv jaxpr=conv] n
    p:f32[4] = jit[name=act jaxpr=act] o
  in (p,) }
"""


def bodies(program: ClosedJaxpr) -> Iterator[tuple[str, ClosedJaxpr]]:
    """The jaxprs that equations hold, with the names that these say, one for each place."""
    seen, todo = {program.jaxpr}, [program.jaxpr]
    while todo:
        for eqn in todo.pop().eqns:
            for closed in sub_jaxprs(eqn):
                yield str(eqn.params["name"]), closed
                if closed.jaxpr not in seen:
                    seen.add(closed.jaxpr)
                    todo.append(closed.jaxpr)


def test_what_is_written_out_is_the_definition_below():
    program = jt.parse(NET)
    written = program.jaxpr.written
    assert written is not None
    assert written.dialect == "jax-0.10.1"
    for name, closed in bodies(program):
        assert closed is written.definitions[name]


# `outer` has by name what stands below it, which no release before 0.10.2 prints so, and a jaxpr with the same variables.
LATER = """let outer = { lambda ; a:f32[4]. let
    b:f32[4] = jit[name=act jaxpr=act] a
    c:f32[4] = jit[name=act jaxpr={ lambda ; d:f32[4]. let e:f32[4] = tanh d in (e,) }] b
  in (c,) } in
let act = { lambda ; d:f32[4]. let e:f32[4] = tanh d in (e,) } in
{ lambda ; f:f32[4]. let
    g:f32[4] = jit[name=outer jaxpr=outer] f
    h:f32[4] = jit[name=outer jaxpr=outer] g
  in (h,) }
"""


def test_what_a_text_writes_out_beside_a_name_is_another_jaxpr():
    program = jt.parse(LATER)
    written = program.jaxpr.written
    assert written is not None
    assert not written.later_written_out
    named, other = (c for name, c in bodies(program) if name == "act")
    assert named is written.definitions["act"] is not other
    text = fmt(LATER).text
    assert text.count("jaxpr=act]") == text.count("e:f32[4] = tanh d") - 1 == 1
    assert fmt(text).text == text
    lossless = jt.format_jaxpr(program, lossless=True)
    assert jt.format_jaxpr(jt.parse(lossless), lossless=True) == lossless


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: ".".join(map(str, r)))
def test_lossless_texts_name_what_stands_below_in_each_dialect(release):
    """What their equations tell of the release holds: the file is the same when it is written again."""
    scan = "h:f32[] i:f32[2] = scan[jaxpr={ lambda ; a:f32[] b:f32[]. let in (a, b) } length=2] 0.0:f32[] g"
    text = LATER.replace("h:f32[4] = jit", f"{scan}\n    k:f32[4] = jit").replace("(h,)", "(k, i)")
    program = jt.parse(text.replace("f:f32[4].", "f:f32[4] l:f32[2].").replace("[] g\n", "[] l\n"))
    dialect = "jax-" + ".".join(map(str, release))
    lossless = jt.format_jaxpr(program, lossless=True, dialect=dialect)
    assert len(re.findall(r"jaxpr=act\b", lossless)) == 1
    assert jt.format_jaxpr(jt.parse(lossless), lossless=True) == lossless


def test_it_is_written_out_again():
    text = fmt(NET).text
    assert fmt(text).text == text
    assert len(re.findall(r"half\s+jaxpr={", text)) == 3
    assert str(jt.parse(text)) + "\n" == text
    assert jt.format_jaxpr(jt.parse(text), dialect="jax-0.12").count("name=half") == 1


def test_what_is_made_of_it_is_as_small_as_that_of_a_text_with_names():
    early = jt.parse(NET)
    late = jt.parse(jt.format_jaxpr(early, dialect="jax-0.12"))

    def sizes(p: ClosedJaxpr) -> list[int]:
        parts = jt.partial_eval_jaxpr(jt.jvp_jaxpr(p)[0], [False, False, True, True])
        made = [p, jt.jvp_jaxpr(p)[0], jt.vmap_jaxpr(p, 2, [0, 0])[0], *parts[:2]]
        return [len([*all_eqns(m.jaxpr)]) for m in made]

    assert sizes(early)[0] == 15
    assert sizes(early) == sizes(late)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("0.5:f32[] c in (f,) }] c\n          e", "0.25:f32[] c in (f,) }] c\n          e"),
        (
            "name=half jaxpr={ lambda ; c:f32[4]. let f",
            "name=half jaxpr={ lambda ; c:f32[4]. let # mine\n f",
        ),
    ],
)
def test_one_that_was_edited_is_another_jaxpr(before: str, after: str):
    text = NET.replace(before, after, 1)
    assert text != NET
    program = jt.parse(text)
    written = program.jaxpr.written
    assert written is not None
    assert len({c for name, c in bodies(program) if name == "half"}) == 2
    assert len({c for name, c in bodies(program) if name == "act"}) == 2
    assert len({c for name, c in bodies(program) if name == "norm"}) == 1
    shown = fmt(text).text
    assert after.split()[0] in shown
    assert fmt(shown).text == shown
    assert jt.diff(jt.parse(shown), program).equal


def test_a_jaxpr_without_variables_is_no_copy_of_another():
    """JAX 0.10.2 has names for definitions further below, and two jaxprs that bind nothing have one text."""
    text = """let first = { lambda ; a:f32[3]. let
    jit[name=nothing jaxpr={ lambda ; . let  in () }]~
    b:f32[3] = jit[name=second jaxpr=second] a
  in (b,) } in
let none = { lambda ; . let  in () } in
let second = { lambda ; c:f32[3]. let
    jit[name=none jaxpr=none]~
    d:f32[3] = sin c
  in (d,) } in
{ lambda ; a:f32[3]. let
    b:f32[3] = jit[name=first jaxpr=first] a
    jit[name=none jaxpr=none]~
    c:f32[3] = jit[name=first jaxpr=first] b
    d:f32[3] = jit[name=second jaxpr=second] c
  in (d,) }""".replace("~", " ")
    assert str(jt.parse(text)) == text
