"""What releases before 0.7.1 print of memories and of blocks, whose types say nothing of them."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt

TRANSFERS = {
    "0.4.28": "device=TransferToMemoryKind(memory_kind='pinned_host') src=None",
    "0.5.2": "copy_semantics=[<CopySemantics.COPY: 2>] devices=[TransferToMemoryKind(memory_kind='pinned_host')] srcs=[None]",
    "0.6.2": "copy_semantics=(ArrayCopySemantics.ALWAYS_COPY,) devices=(TransferToMemoryKind(memory_kind='pinned_host'),) srcs=(None,)",
    "sharded": "copy_semantics=[<CopySemantics.COPY: 2>] devices=[NamedSharding(mesh=Mesh('x': 1), spec=PartitionSpec(), memory_kind=pinned_host)] srcs=[None]",
}


@pytest.mark.parametrize("name", TRANSFERS)
def test_transfers_to_other_memories(name):
    """The value is where it is put, and its type does not say so."""
    text = f"{{ lambda ; a:f32[3]. let b:f32[3] = device_put[{TRANSFERS[name]}] a; c:f32[3] = add a b in (c,) }}"
    program = jt.parse(text)
    assert str(jt.typecheck_jaxpr(program.jaxpr)) == "(f32[3]) -> (f32[3])"
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [[1.0, 2.0, 3.0]])[0], [2.0, 4.0, 6.0])


def test_transfers_since_types_have_memories():
    text = "{ lambda ; a:f32[3]. let b:f32<host>[3] = device_put[copy_semantics=(ArrayCopySemantics.REUSE_INPUT,) devices=(MemorySpace.Host,) srcs=(None,)] a in (b,) }"
    assert str(jt.typecheck_jaxpr(jt.parse(text).jaxpr)) == "(f32[3]) -> (f32<host>[3])"


MAPPED = """\
{ lambda ; a:f32[4,8]. let
    b:f32[4,8] = pallas_call[
      compiler_params={}
      debug=False
      grid_mapping=GridMapping(grid=(4,), block_mappings=(BlockMapping(block_shape=(<jax._src.pallas.core.Mapped object at 0x7f77058e3bb0>, 8), index_map_jaxpr={ lambda ; a:i32[]. let  in (a, 0) }, indexing_mode=<jax._src.pallas.core.Blocked object at 0x7f77058e3340>), BlockMapping(block_shape=(<jax._src.pallas.core.Mapped object at 0x7f77058e3bb0>, 8), index_map_jaxpr={ lambda ; a:i32[]. let  in (a, 0) }, indexing_mode=<jax._src.pallas.core.Blocked object at 0x7f77058e3340>)), mapped_dims=(0,), num_index_operands=0, num_scratch_operands=0)
      in_shapes=(ShapeDtypeStruct(shape=(4, 8), dtype=float32),)
      input_output_aliases=()
      interpret=False
      jaxpr={ lambda ; c:MemRef<None>{float32[8]} d:MemRef<None>{float32[8]}. let
          e:f32[8] <- c[:]
          f:f32[8] = add e 1.0
          d[:] <- f
        in () }
      name=batched_k
      out_shapes=(ShapeDtypeStruct(shape=(4, 8), dtype=float32),)
      which_linear=(False,)
    ] a
  in (b,) }"""


def test_dimensions_that_are_mapped():
    program = jt.parse(MAPPED)
    jt.typecheck_jaxpr(program.jaxpr)
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [x])[0], x + 1)
