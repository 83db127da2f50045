"""A file of each version of the format stays readable: its text, its types and its values are what they were."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.syntax.version import FORMAT
from tests.invoke import invoke

FOLDER = Path(__file__).parent / "formats"
VERSIONS = range(1, FORMAT + 1)

ONES = np.ones(3, np.float32)
BFLOAT = np.array([0x3FC0, 0x8000], np.uint16).view(ml_dtypes.bfloat16)
ODD = np.array([0x7FC00001, 0xFFC00000, 0x80000000], np.uint32).view(np.float32)
CALLS = np.array([0.07405257, 0.9381443], np.float32)
NAN = np.array(0x7FC00001, np.uint32).view(np.float32)

# For each version: the type and the results of each program for arguments that are ones.
SIGNATURES = {
    1: "stored: (f32[3], f32[]) -> (f32[3], bf16[2], u32[2], bool[2], c64[1], f32[3], i4[2], f32[]), "
    "with 7 constants: a:f32[3], b:bf16[2], c:key<fry>[], d:bool[2], e:c64[1], f:f32[3], g:i4[2]\n"
    "cells: (f32[8]) -> (f32[8])\n"
    "model: (f32[3], f32[]) -> (f32[3], f32[2], f32[]), with 1 constant: bk:f32[3]\n"
}
RESULTS = {
    (1, "stored"): [
        np.array([1.25, 1.5, 2], np.float32),
        BFLOAT,
        np.array([3, 4], np.uint32),
        np.array([True, False]),
        np.array([1 - 2j], np.complex64),
        ODD,
        np.array([-8, 7], ml_dtypes.int4),
        NAN,
    ],
    (1, "cells"): [np.ones(8, np.float32)],
    (1, "model"): [
        np.array([(np.sin(1) + 1) ** 4, 0, (np.sin(1) + 1) ** 4 * 8], np.float32),
        CALLS,
        np.array(np.nan, np.float32),
    ],
}


def programs(version: int) -> dict[str, jt.ClosedJaxpr]:
    return jt.load(FOLDER / f"{version}.jaxpr")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_text_stays(version):
    path = FOLDER / f"{version}.jaxpr"
    assert path.read_text().startswith(f"# jaxprtool format {version}\n")
    assert invoke(f"fmt --check {path}").status == 0
    assert invoke(f"fmt {path}").output == path.read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_types_stay(version):
    assert invoke(f"check {FOLDER / f'{version}.jaxpr'}").output == SIGNATURES[version]


@pytest.mark.parametrize("how", ["numpy", "xla", "saved again"])
@pytest.mark.parametrize(("version", "name"), RESULTS)
def test_values_stay(version, name, how, tmp_path):
    program = programs(version)[name]
    if how == "saved again":
        jt.save(program, tmp_path / "again.jaxpr")
        program = jt.load(tmp_path / "again.jaxpr")
    args = [np.ones(a.shape, a.dtype.name) for a in program.in_avals]
    outs = jt.compile(program)(*args) if how == "xla" else jt.jaxpr_as_fun(program)(*args)
    for got, want in zip(map(np.asarray, outs), RESULTS[version, name], strict=True):
        assert got.dtype == want.dtype
        if got.dtype == np.float32 and np.isfinite(want).all():
            np.testing.assert_allclose(got, want, rtol=1e-6)
        else:
            assert got.tobytes() == want.tobytes()


def test_derivative_rules_stay():
    """That of f is 7 cos x, and that of h 3 x t, which are not their derivatives."""
    f = jt.jaxpr_as_fun(programs(1)["model"])
    (gradient,) = jt.vjp(lambda x: f(x, np.float32(1))[0], ONES)[1](ONES)
    y = np.sin(1) + 1
    inner = 3 * y * 3 * y**2 * 7 * np.cos(1)
    np.testing.assert_allclose(gradient, inner * np.array([1, 0, 8]), rtol=1e-5)


def test_weak_types_and_hidden_params_stay():
    program = programs(1)["stored"]
    call = next(e for e in program.eqns if e.primitive.name == "jit")
    assert program.jaxpr.in_binders[1].aval.weak_type
    assert call.params["inline"] is True and call.params["donated_invars"] == (True, False)
    first, second, _ = call.params["jaxpr"].eqns
    assert first.out_binders[0].aval.weak_type and second.inputs[1].aval.weak_type


def test_a_later_version_is_refused(tmp_path):
    (tmp_path / "p.jaxpr").write_text(
        f"# jaxprtool format {FORMAT + 1}\n{{ lambda ; . let  in () }}\n"
    )
    done = invoke(f"check {tmp_path / 'p.jaxpr'}")
    assert done.status == 2 and "[format]" in done.error and ":1:20: error" in done.error
