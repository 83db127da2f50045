"""The hash of a program: the same for equal structure, another for another."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import jaxprtool as jt
from tests.invoke import invoke
from tests.programs.catalogue import PROGRAMS, case_of

TEXT = (
    "{ lambda ; a:f32[3] b:f32[]. let\n    c:f32[3] = mul a b\n    d:f32[3] = add c 1e-05:f32[]\n"
    "    e:f32[3] = jit[name=f jaxpr={ lambda ; g:f32[3]. let h:f32[3] = sin g in (h,) }] d\n  in (e,) }\n"
)


def hash_of(text: str) -> str:
    return jt.hash(jt.parse(text))


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("c:f32[3] = mul a b", "zz:f32[3] = mul a b").replace("add c", "add zz"),
        TEXT.replace("1e-05", "9.999999747378752e-06"),
        TEXT.replace("name=f", "name=another"),
        TEXT.replace("jit[", "pjit["),
        TEXT.replace("mul a b\n", "mul a b # model.py:3:4 (loss)\n"),
        TEXT + "args (x=*, y=*) -> *\n",
        TEXT.replace("\n", "\n\n"),
    ],
)
def test_what_does_not_enter(other):
    assert other != TEXT and hash_of(other) == hash_of(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mul a b", "mul b a"),
        ("1e-05", "2e-05"),
        ("add", "sub"),
        ("name=f", "name=f donated_invars=(True,)"),
        ("sin g", "cos g"),
        ("f32", "f64"),
    ],
)
def test_what_enters(old, new):
    other = TEXT.replace(old, new)
    assert other != TEXT and hash_of(other) != hash_of(TEXT)


def test_values_of_constants_enter():
    def of(x):
        return jt.hash(jt.trace(lambda y: jt.lax.mul(x, y), np.ones(3)))

    assert of(np.arange(3.0)) == of(np.arange(3.0)) != of(np.arange(3.0) + 1)


def test_weak_types_of_arguments_enter():
    def f(x):
        return x * 2

    assert jt.hash(jt.trace(f, 1.0)) != jt.hash(jt.trace(f, np.float32(1)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_dialect_and_style_has_the_hash(name):
    program = case_of(name).program
    text = jt.format_jaxpr(program, lossless=True)
    assert hash_of(text) == jt.hash(program)
    for dialect in ("jax-0.9.2", "jax-0.12"):
        done = invoke(["fmt", "--dialect", dialect, "-"], text)
        if not done.status and "[earlier-words]" not in done.error:  # else it has other equations
            assert hash_of(done.output) == jt.hash(program), dialect


@pytest.mark.filterwarnings("ignore::jaxprtool.passes.own_rules.LostRuleWarning")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("passes", ["unroll,fold", "inline", "lift-consts", "sink-consts,simplify"])
def test_what_passes_make_is_the_same_program_when_it_is_read_back(name, passes):
    made = jt.opt(case_of(name).program, passes=passes)
    read = jt.parse(jt.format_jaxpr(made, lossless=True))
    assert jt.diff(made, read).equal, str(jt.diff(made, read))
    assert jt.hash(made) == jt.hash(read)


def test_it_is_the_same_in_every_process_and_release():
    """A cache that was written by an earlier release stays valid."""
    command = [sys.executable, "-m", "jaxprtool", "hash", "-"]
    found = subprocess.run(command, input=TEXT, capture_output=True, text=True, check=True).stdout
    assert found == f"{GOLDEN}  <stdin>\n"


GOLDEN = "ea993d266b663b92b3d7e94b43afdf409c48910b91469ed8b93fe519dd064190"


SPELLED = """\
{ lambda ; a:f32[4]. let
    b:f32[4] = remat2[
      differentiated=False
      jaxpr={ lambda ; c:f32[4]. let d:f32[4] = sin c in (d,) }
      policy=%(policy)s
      prevent_cse=True
    ] a
    e:f32[1,4] = broadcast_in_dim[
      broadcast_dimensions=(1,)
      shape=(1, 4)
      sharding=NamedSharding(mesh=AbstractMesh('i': 1, axis_types=(%(axis)s,)%(devices)s), spec=P(None, None))
    ] b
    f:i32[] = empty2[dtype=int32 memory_space=%(space)s]
  in (e, f) }
"""
OF_0_10 = {
    "policy": "DotsSaveable(only_if_no_batch_dims=True)",
    "axis": "Auto",
    "devices": ", device_kind=cpu, num_cores=None, platform=cpu",
    "space": "MemorySpace.Device",
}


@pytest.mark.parametrize(
    "earlier",
    [
        {"policy": "<function dots_with_no_batch_dims_saveable at 0x7f0>"},  # 0.8
        {"policy": "<function dot_with_no_batch_dims_saveable at 0x7f0>"},  # to 0.5
        {"devices": ", device_kind=cpu, num_cores=None"},  # 0.8
        {"devices": ""},
        {"space": "Space.Device"},  # 0.8
    ],
    ids=lambda found: " ".join(found),
)
def test_what_releases_print_otherwise_is_the_same(earlier):
    old, new = (jt.parse(SPELLED % (OF_0_10 | found)) for found in (earlier, {}))
    assert jt.hash(old) == jt.hash(new)
    assert jt.diff(old, new).equal


@pytest.mark.parametrize(
    "other",
    [
        {"policy": "DotsSaveable(only_if_no_batch_dims=False)"},
        {"policy": "<function mine at 0x7f0>"},
        {"policy": "<function save_only_these_names.<locals>.policy at 0x7f0>"},
        {"axis": "Manual"},
        {"space": "MemorySpace.Host"},
    ],
    ids=lambda found: " ".join(found.values()),
)
def test_what_they_mean_counts(other):
    assert jt.hash(jt.parse(SPELLED % (OF_0_10 | other))) != jt.hash(jt.parse(SPELLED % OF_0_10))
