"""Texts of earlier releases that hold what later ones print in another way, printed back byte for byte."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.driver.fmt import fmt


def aligned(text: str) -> str:
    """Return a text with its annotations, after `|`, in one column."""
    lines = [line.partition("|") for line in text.split("\n")]
    column = max(len(a.rstrip()) for a, *_ in lines) + 1
    return "\n".join([f"{a.rstrip():{column}}{b}" if bar else a for a, bar, b in lines])


TEXTS = {
    # the line of Python and the names on two lines, to 0.6.0
    "annotations below each other": aligned(
        """\
{ lambda ; a:f32[3]. let
    b:f32[3] = sin a |# f.py:1:2 (f)
|# [outer/inner]
    c:f32[3] = pjit[ |# f.py:2:3 (f)
|# [outer]
      name=g
      jaxpr={ lambda ; b:f32[3]. let c:f32[3] = neg b in (c,) } |# f.py:2:9 (g)
|# []
    ] b
  in (c,) }"""
    ),
    "annotations of what has no results": aligned(
        """\
{ lambda ; a:f32[3]. let
     = debug_callback[ |# f.py:1 (f)
      callback=<function debug_callback.<locals>._flat_callback at 0x7fdb564cadc0>
      effect=DebugEffect.PRINT
    ] a
    b:f32[3] = add a 1.0 |# f.py:2 (f)
  in (b,) }"""
    ),
    "annotations in brackets": aligned(
        """\
{ lambda  ; a.
  let b = sin a |[f.py:1 (f)]
      c = reduce_sum[ axes=(0,) ] b |[f.py:2 (f)]
      d = cond[ branches=( { lambda  ; a.
                             let b = neg a |[f.py:3 (f)]
                             in (b,) }
                           { lambda  ; a.
                             let b = sin a |[f.py:3 (f)]
                             in (b,) } )
                linear=(False,) ] 0 c
  in (d,) }"""
    ),
    "whole numbers of types that NumPy lacks": """\
{ lambda ; a:bf16[3]. let
    b:bf16[3] = mul a 1.5
    c:bf16[3] = add b 0.100098
    d:bool[3] = gt c 2
  in (d,) }""",
    "named axes": """\
{ lambda ; a:f32[2,3]. let
    b:f32[2,3] = xla_pmap[
      axis_name=i
      axis_size=2
      backend=None
      call_jaxpr={ lambda ; c:f32[3]. let
          d:i32[;i:2] = axis_index[axis_name=i]\x20
          e:f32[;i:2] = convert_element_type[new_dtype=float32 weak_type=False] d
          f:f32[3;i:2] = mul c e
        in (f,) }
      devices=None
      donated_invars=(False,)
      global_axis_size=2
      in_axes=(0,)
      is_explicit_global_axis_size=False
      name=<lambda>
      out_axes=(0,)
    ] a
  in (b,) }""",
    "units": """\
{ lambda ; a:f32[3]. let
    b:f32[3] _:* c:f32[3] = xla_call[
      call_jaxpr={ lambda ; d:f32[3] e:*. let
          f:f32[3] = sin d
          g:f32[3] = cos d
        in (f, *, g) }
      name=jvp(f)
    ] a *
    _:* _:* = remat_call[
      call_jaxpr={ lambda ; h:* i:*. let  in (*, *) }
      concrete=False
      differentiated=False
      name=jvp(<lambda>)
      policy=None
      prevent_cse=True
    ] * *
    j:i32[] = convert_element_type[new_dtype=int32 weak_type=False] True
    k:f32[3] = cond[
      branches=(
        { lambda ; l_:* m:f32[3]. let n:f32[3] = mul m 2.0 in (n,) }
        { lambda ; o:* p:f32[3]. let q:f32[3] = sin p in (q,) }
      )
      linear=(False, False)
    ] j * c
  in (b, k) }""",
    "units without types": """\
{ lambda  ; a.
  let b _ c = xla_call[ backend=None
                        call_jaxpr={ lambda  ; a b.
                                     let c = sin a
                                         d = cos a
                                     in (c, *, d) }
                        device=None
                        donated_invars=(False, False)
                        inline=False
                        name=jvp(f) ] a *
      d = mul b c
  in (d,) }""",
    "params that were lists": """\
{ lambda a:f32[2]; b:f32[2]. let
    c:f32[2] = device_put[devices=[None] srcs=[None]] a
    d:f32[2] = mul b c
  in (d,) }""",
    "params that were lists, beside others": """\
{ lambda a:f32[2]; b:f32[2]. let
    c:f32[2] = device_put[
      copy_semantics=[<CopySemantics.ALIAS: 1>]
      devices=[None]
      srcs=[None]
    ] a
    d:f32[2] = mul b c
  in (d,) }""",
    "a primitive that another replaced": """\
{ lambda ; a:f32[8@x]. let
    b:f32[8] = mesh_cast[
      dst_sharding=NamedSharding(mesh=AbstractMesh('x': 2, axis_types=(Auto,)), spec=PartitionSpec(None,))
    ] a
  in (b,) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_printed_back(name: str):
    text = TEXTS[name]
    assert str(jt.parse(text)) == text
    assert fmt(text).text == f"{text}\n"


def test_named_axes_are_of_a_release():
    """Others print none, and the program is the same."""
    program = jt.parse(TEXTS["named axes"])
    assert program.jaxpr.written is not None
    assert program.jaxpr.written.dialect < "jax-0.4.31"
    later = jt.format_jaxpr(program, lossless=True, dialect="jax-0.4.36")
    assert ";i:2]" not in later and jt.diff(jt.parse(later), program).equal


def test_numbers_of_equations_of_others_say_nothing():
    """The numbers of a sparse product are tuples in each release."""
    text = """\
{ lambda ; a:f32[9] b:i32[9,2] c:f32[3]. let
    d:f32[3] = device_put[devices=[None] srcs=[None]] c
    e:f32[3] = bcoo_dot_general[
      dimension_numbers=(((1,), (0,)), ((), ()))
      lhs_spinfo=SparseInfo(shape=(3, 3), indices_sorted=True, unique_indices=True)
      preferred_element_type=float32
    ] a b d
  in (e,) }"""
    assert str(jt.parse(text)) == text


def test_a_program_that_was_changed_has_no_units():
    """Not where it is printed, nor in the jaxprs that it still calls."""
    program = jt.parse(TEXTS["units"])
    jt.check(program)
    batched, _ = jt.vmap_jaxpr(program, 2, [0])
    assert "*" not in jt.format_jaxpr(batched, dialect="jax-0.3.7")
    assert "*" not in jt.format_jaxpr(program, dialect="jax-0.3.25") and "*" in str(program)


def test_a_changed_equation_beside_units():
    program = jt.parse(TEXTS["units"])
    new = jt.rewrite(program, lambda e: jt.lax.cos if e.primitive.name == "sin" else None)
    text = jt.format_jaxpr(new, lossless=True, dialect="jax-0.3.7")
    assert "*" not in text and jt.diff(jt.parse(text), new).equal


def test_a_sample_of_the_words_of_keys():
    """It is read as one of keys, and stays one of words in its text."""
    text = "{ lambda  ; a.\n  let b = random_gamma a 2.0\n      c = mul b 2.0\n  in (c,) }"
    program = jt.parse(text)
    assert [e.primitive.name for e in program.eqns] == ["random_wrap", "random_gamma", "mul"]
    assert str(program) == text and fmt(text).text == f"{text}\n"
    later = jt.format_jaxpr(program, lossless=True, dialect="jax-0.4.13")
    assert "random_wrap" in later and jt.diff(jt.parse(later), program).equal


def test_a_function_with_its_own_derivative_is_a_call_that_its_releases_have():
    """To 0.2.3 the equation has the name of the function. `closed_call` is of later releases, whose texts have types."""
    text = """\
{ lambda  ; a.
  let b = my_sin[ in_tree=PyTreeDef((*,))
                  jaxpr={ lambda  ; a.
                          let b = sin a
                              c = mul b 2.0
                          in (c,) }
                  num_consts=0
                  out_tree=PyTreeDef(*) ] a
  in (b,) }"""
    done = fmt(text).text
    assert "core_call[ call_jaxpr=" in done and fmt(done).text == done
