"""Collectives of lowered and compiled programs: kinds, types, axes, bytes, and every spelling of their groups."""

from __future__ import annotations

import itertools
import random

import pytest

import jaxprtool as jt
from jaxprtool.analyses.asking.evaluate import Asked
from jaxprtool.analyses.asking.mesh_groups import axes_of_groups, axes_of_pairs, read_groups
from jaxprtool.analyses.asking.stage_text import read_hlo, read_stablehlo
from jaxprtool.analyses.asking.staged import Staged
from jaxprtool.driver.asking import Assertion
from tests.invoke import invoke

MESH = {"data": 2, "model": 4}

HLO = """HloModule jit_main, is_scheduled=true, num_partitions=8

%region_0.0 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

%async_computation (p: bf16[2,4]) -> bf16[2,16] {
  %p = bf16[2,4]{1,0} parameter(0)
  ROOT %all-gather.9 = bf16[2,16]{1,0} all-gather(%p), channel_id=9, replica_groups=[2,4]<=[8], dimensions={1}
}

ENTRY %main (x: f32[4,8], y: bf16[2,4]) -> f32[4,32] {
  %x = f32[4,8]{1,0} parameter(0), metadata={op_name="x"}
  %y = bf16[2,4]{1,0:T(8,128)(2,1)S(5)} parameter(1)
  %ag = (f32[4,8]{1,0}, f32[4,32]{1,0}) all-gather-start(%x), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={1}, use_global_device_ids=true, metadata={op_name="jit(f)/attn/all_gather" source_file="f.py" source_line=3}
  %agd = f32[4,32]{1,0} all-gather-done(%ag)
  %ar = (f32[4,32]{1,0}, s32[]) all-reduce(%agd, %c), channel_id=2, replica_groups=[4,2]<=[2,4]T(1,0), to_apply=%region_0.0
  %ars = f32[4,32]{1,0} all-reduce-start(%agd), channel_id=3, replica_groups={}, to_apply=%region_0.0
  %ard = f32[4,32]{1,0} all-reduce-done(%ars)
  %rs = ((f32[4,32]{1,0}), f32[1,32]{1,0}) reduce-scatter-start(%agd), replica_groups=mesh['a'=2,'b'=4] {'b'}, dimensions={0}
  %rsd = f32[1,32]{1,0} reduce-scatter-done(%rs)
  %cp = (f32[4,8]{1,0}, f32[4,8]{1,0}, u32[], u32[]) collective-permute-start(%x), source_target_pairs={{0,4},{4,0}}
  %cpd = f32[4,8]{1,0} collective-permute-done(%cp)
  %as = ((bf16[2,4]{1,0}), bf16[2,16]{1,0}, u32[]) async-start(%y), calls=%async_computation
  %au = ((bf16[2,4]{1,0}), bf16[2,16]{1,0}, u32[]) async-update(%as)
  %ad = bf16[2,16]{1,0} async-done(%au), calls=%async_computation
  %cc = f32[4] custom-call(%x), custom_call_target="xla_ffi_python_cpu_callback", backend_config="{a = (b}"
  ROOT %copy = f32[4,32]{1,0} copy(%agd)
}
"""

STABLEHLO = """module @jit_f attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x32xf32> {
    %0 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}> : (tensor<4x8xf32>) -> tensor<4x32xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %9 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %2 = stablehlo.convert %1 : (tensor<4x32xf32>) -> tensor<4x32xcomplex<f32>>
    %3 = stablehlo.custom_call @xla_python_callback(%2) : (tensor<4x32xcomplex<f32>>) -> tensor<ui8>
    return %1 : tensor<4x32xf32>
  }
}
"""


def asked(text, title="HLO"):
    read = read_hlo if title == "HLO" else read_stablehlo
    return Asked(Staged(read(text), title, [MESH], {"peak": 100.0}))


@pytest.mark.parametrize(
    "text",
    [
        "count(collective) == 6",
        "count(all_gather) == 2 and count(all-gather) == 2",  # one of them is wrapped
        "count(all_gather {dtype == f32, axis == model, dimension == 1}) == 1",
        "count(all_gather {dtype == bf16, axis == model, dimension == 1, bytes == 64}) == 1",
        "all all_gather where members == 4 and groups == 2",
        "count(all_reduce {axis == data}) == 2 and count(all_reduce {axis == model}) == 1",
        "bytes(all_gather) == 4 * 32 * 4 + 2 * 16 * 2 and bytes(all_reduce) == 4 * 32 * 4 * 2 + 4",
        "bytes(reduce_scatter) == 128 and bytes(collective_permute) == 128",
        "count(reduce_scatter {axis == model, dimension == 0}) == 1",
        "count(collective_permute {axis == data}) == 1 and no collective_permute {axis == model}",
        "count(collective {scope ~ attn}) == 1 and count(all_gather _:f32[4, 8]) == 1",
        "some custom_call {target ~ 'callback'} and some f32[4, _] and no f64",
        "count(_[2, 16]) == 1 and count(bf16[2, 4]) == 2",
        "peak == 100 and count(add) == 1 and equations == count(_)",
        "no all_gather[channel_id=2] and some all_gather[channel_id=9]",
    ],
)
def test_what_is_true_of_hlo(text):
    verdict = Assertion(text).of(asked(HLO))
    assert verdict, str(verdict)
    assert not verdict.warnings


@pytest.mark.parametrize(
    "text",
    [
        "count(collective) == 2 and count(add) == 1 and count(custom_call {target ~ callback}) == 1",
        "count(all_gather {axis == model, dimension == 1, dtype == f32}) == 1",
        "count(all_reduce {axis == data, bytes == 512}) == 1 and bytes(all_gather) == 512",
        "count(c64[4, 32]) == 1 and some u8[]",
    ],
)
def test_what_is_true_of_stablehlo(text):
    verdict = Assertion(text).of(asked(STABLEHLO, "StableHLO"))
    assert verdict, str(verdict)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flops < 1", "not known of HLO"),
        ("dot before add", "before it is lowered"),
        ("dot feeds add", "before it is lowered"),
        ("residuals.bytes < 1", "not known of HLO"),
        ("flops(dot) < 1", "not known of HLO"),
    ],
)
def test_what_is_not_known_after_lowering(text, message):
    with pytest.raises(jt.UsageError, match=message):
        Assertion(text).of(asked(HLO))


@pytest.mark.parametrize(("name", "meant"), [("psum", "all_reduce"), ("all_gahter", "all_gather")])
def test_a_name_that_no_operation_has_is_a_warning(name, meant):
    verdict = Assertion(f"no {name}").of(asked(HLO))
    assert verdict and meant in verdict.warnings[0].help


# -- groups -------------------------------------------------------------------------------------------


def groups_along(mesh, chosen):
    """The groups of devices that differ along the chosen axes, by their definition."""
    found = {}
    for device, at in enumerate(itertools.product(*map(range, mesh.values()))):
        place = tuple(i for name, i in zip(mesh, at, strict=True) if name not in chosen)
        found.setdefault(place, []).append(device)
    return [*found.values()]


def spellings(rng, mesh, chosen):
    """The groups along some axes of a mesh in all spellings of the text."""
    groups = groups_along(mesh, chosen)
    rows = [",".join(map(str, g)) for g in groups]
    sizes, names = [*mesh.values()], [*mesh]
    order = [i for i, n in enumerate(names) if n not in chosen] + [names.index(n) for n in chosen]
    iota = f"[{len(groups)},{len(groups[0])}]<=[{','.join(map(str, sizes))}]"
    yield "{" + ",".join(f"{{{row}}}" for row in rows) + "}"
    yield iota + f"T({','.join(map(str, order))})"
    if order == sorted(order):
        yield f"[{len(groups)},{len(groups[0])}]<=[{len(groups) * len(groups[0])}]"
    shape = f"{len(groups)}x{len(groups[0])}"
    listed = ", ".join(f"[{', '.join(map(str, g))}]" for g in groups)
    yield f"dense<[{listed}]> : tensor<{shape}xi64>"
    renamed = {name: f"axis_{i}" for i, name in enumerate(names)}
    inside = ",".join(f"'{renamed[n]}'={mesh[n]}" for n in names)
    yield f"mesh[{inside}] {{{','.join(repr(renamed[n]) for n in chosen)}}}"


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_those_of_axes_in_every_spelling(seed):
    rng = random.Random(seed)
    mesh = {f"a{i}": rng.choice((2, 2, 3, 4)) for i in range(rng.randrange(1, 4))}
    chosen = [n for n in mesh if rng.random() < 0.6] or [rng.choice([*mesh])]
    for text in spellings(rng, mesh, chosen):
        groups = read_groups(text)
        assert {frozenset(g) for g in groups} == {
            frozenset(g) for g in groups_along(mesh, chosen)
        }, text
        assert axes_of_groups(groups, [mesh]) == chosen, text


@pytest.mark.parametrize("seed", range(20))
def test_pairs_are_those_of_axes(seed):
    rng = random.Random(seed)
    mesh = {f"a{i}": rng.choice((2, 3, 4)) for i in range(rng.randrange(1, 4))}
    axis = rng.choice([*mesh])
    groups = groups_along(mesh, [axis])
    pairs = [(g[i], g[(i + 1) % len(g)]) for g in groups for i in range(len(g))]
    text = "{" + ",".join(f"{{{a},{b}}}" for a, b in pairs) + "}"
    assert axes_of_pairs(read_groups(text), [mesh]) == [axis]


@pytest.mark.parametrize(
    "text", ["", "x", "[2,2]<=[5]", "[2,2]<=[2,2]T(0,2)", "[9999999,2]<=[19999998]", "dense<\"0x12\">", "mesh['a'=2] {'b'}", "mesh['a'=0] {'a'}", "mesh['a'=3] {'a':(1)2}"]
)  # fmt: skip
def test_groups_that_cannot_be_read(text):
    assert read_groups(text) is None


def test_groups_of_no_axes():
    assert axes_of_groups([[0, 3], [1, 2]], [{"x": 2, "y": 2}]) == []
    assert axes_of_groups([[0, 1]], []) == []
    assert axes_of_groups([], [MESH]) == ["data", "model"]


# -- real programs ------------------------------------------------------------------------------------


def test_what_the_partitioner_makes():
    words = ["count(all_reduce {axis == batch}) == 1", "bytes(all_reduce) == 164", "no all_gather"]
    done = invoke(["assert", "examples/data_parallel.jaxpr", "--stage", "compiled", *words])
    assert done.status == 0, done.output + done.error
    found = jt.holds(
        jt.load("examples/data_parallel.jaxpr"), "count(all_reduce) == 3", stage="lowered"
    )
    assert found and found.verdicts[0].matches[0].located.startswith("StableHLO:")
    compiled = jt.holds(
        jt.load("examples/mlp.jaxpr"), "no collective", "peak > 0 and flops > 0", stage="compiled"
    )
    assert compiled, str(compiled)
    with pytest.raises(jt.UsageError, match="stage"):
        jt.holds(jt.load("examples/mlp.jaxpr"), "no f64", stage="parsed")


@pytest.mark.parametrize("text", [HLO, STABLEHLO])
def test_texts_that_are_cut_or_changed_are_read(text):
    """Readers of the text never fail."""
    rng = random.Random(0)
    for _ in range(300):
        at = rng.randrange(len(text))
        cut = (
            text[:at]
            + rng.choice(("", "(", ")", "{", '"', "<", "tensor<9x", "\n", "["))
            + text[at + rng.randrange(3) :]
        )
        for read in (read_hlo, read_stablehlo):
            for operation in read(cut):
                item = Asked(Staged([operation], "HLO", [MESH])).a
                for claim in (
                    "no _ {axis == x or dimension == 1 or members == 2}",
                    "bytes(_) >= 0",
                ):
                    Assertion(claim).of(Asked(item))
