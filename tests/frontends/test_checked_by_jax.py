"""What `to_jax` makes of a text is well-typed to JAX too: its own checker accepts types, params and effects."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import pytest
from jax._src.core import check_jaxpr

import jaxprtool as jt
from tests.releases import SERIES

TESTS = Path(__file__).parents[1]
TEXTS = [
    *sorted((TESTS / "syntax" / "dialects").glob("jax-*/*.jaxpr")),
    *sorted((TESTS.parent / "examples").glob("**/*.jaxpr")),
]
# What a print of JAX does not hold, and this process does not have: meshes, symbolic dimensions, devices.
NOT_HERE = ("InconclusiveDimension", "Sharding", "mesh")

WHOLE_BLOCKS = """\
{ lambda ; a:f32[8,4]. let
    b:f32[8,4] = pallas_call[
      compiler_params={}
      debug=False
      grid_mapping=GridMapping(grid=(), block_mappings=(None, None), mapped_dims=(), num_index_operands=0, num_scratch_operands=0, num_constant_operands=0)
      input_output_aliases=()
      interpret=True
      jaxpr={ lambda ; c:MemRef<None>{float32[8,4]} d:MemRef<None>{float32[8,4]}. let
          e:f32[8,4] <- c[:,:]
          f:f32[8,4] = add e 1.0
          d[:,:] <- f
        in () }
      name=kernel
      out_shapes=(ShapeDtypeStruct(shape=(8, 4), dtype=float32),)
      which_linear=(False,)
    ] a
  in (b,) }"""
COLLECTIVE = """\
{ lambda ; a:f32[4,2]. let
    b:f32[4,2] = shard_map[
      check_vma=True
      in_specs=(P('x', None),)
      jaxpr={ lambda ; c:f32[4,2]{V:x}. let d:f32[4,2] = psum_invariant[axes=('x',)] c in (d,) }
      mesh=Mesh('x': 1, axis_types=(Auto,))
      newly_manual_axes=frozenset({'x'})
      out_specs=(P(None, None),)
    ] a
  in (b,) }"""
MAPPED = """\
{ lambda ; a:f32[1,3]. let
    b:f32[1,3] = xla_pmap[
      axis_name=i
      axis_size=1
      backend=None
      call_jaxpr={ lambda ; c:f32[3]. let d:f32[3] = psum[axes=('i',) axis_index_groups=None] c in (d,) }
      devices=None
      donated_invars=(False,)
      global_axis_size=None
      in_axes=(0,)
      name=f
      out_axes=(0,)
    ] a
  in (b,) }"""


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_texts(path: Path) -> None:
    checked(path.read_text())


@pytest.mark.parametrize("text", [WHOLE_BLOCKS, COLLECTIVE, MAPPED], ids=["blocks", "mesh", "pmap"])
def test_calls(text: str) -> None:
    """Blocks without a record, and axes that end with the call that binds them."""
    jt.typecheck_jaxpr(jt.parse(text).jaxpr)
    checked(text, skip=False)
    batched = jt.vmap_jaxpr(jt.parse(text), 2, [0])
    jt.typecheck_jaxpr((batched[0] if isinstance(batched, tuple) else batched).jaxpr)


def checked(text: str, skip: bool = True) -> None:
    with jax.enable_x64("f64" in text or "i64" in text):
        _checked(text, skip)


def _checked(text: str, skip: bool) -> None:
    try:
        made = jt.to_jax(jt.parse(text))
    except jt.JaxprToolError as e:
        if not skip:
            raise
        pytest.skip(f"not for this JAX: {e}")
    try:
        check_jaxpr(getattr(made, "jaxpr", made))
    except Exception as e:
        if skip and re.search("|".join(NOT_HERE), f"{type(e).__name__} {e}"):
            pytest.skip(f"not in the text: {e}")
        raise


def test_tokens_of_what_jax_has_not() -> None:
    """A primitive that the installed JAX has no more is refused by name, whatever its operands are."""
    text = "{ lambda ; a:Tok. let b:f32[3] c:Tok = infeed[partitions=None shapes=(ShapedArray(float32[3]),)] a in (b, c) }"
    if SERIES >= (0, 10):
        with pytest.raises(jt.UnsupportedError, match="has no primitive infeed"):
            jt.to_jax(jt.parse(text))


@pytest.mark.parametrize(
    "value", ["np.int64(9223372036854775808)", "np.uint8(256)", "np.uint8(-1)"]
)
def test_numbers_that_are_too_large_for_their_type(value: str) -> None:
    text = f"{{ lambda ; a:f32[]. let b:f32[] = odd[n=({value},)] a in (b,) }}"
    program = jt.parse(text)
    assert value in str(program)
    with pytest.raises(jt.JaxprToolError):
        jt.to_jax(program)
