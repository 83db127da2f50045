"""A file does not decide how many host devices are made: beyond 64 it is asked for, by `run`, `compile` and for artifacts."""

from __future__ import annotations

from pathlib import Path

import pytest

import jaxprtool as jt
from tests.invoke import invoke

N = 72
TEXT = f"""{{ lambda ; a:f32[{N}]. let
    b:f32[{N}] = shard_map[
      check_vma=False
      in_specs=(P('x'),)
      jaxpr={{ lambda ; c:f32[1]. let d:f32[1] = neg c in (d,) }}
      manual_axes=frozenset({{'x'}})
      mesh=AbstractMesh('x': {N}, axis_types=(Auto,))
      newly_manual_axes=frozenset({{'x'}})
      out_specs=(P('x'),)
    ] a
  in (b,) }}
"""
REFUSED = f"the program's mesh has {N} devices, and at most 64 are made unasked"
AS_MANY = f"--devices {N} of `jaxprtool run` and `jaxprtool compile` makes as many"


def test_from_the_shell(tmp_path: Path) -> None:
    file, artifact = str(tmp_path / "program.jaxpr"), str(tmp_path / "program.xla")
    Path(file).write_text(TEXT)
    for words in (["compile", file], ["compile", file, "-o", artifact], ["run", "--jit", file, "--args", "ones"]):  # fmt: skip
        done = invoke(words)
        assert done.status == 2 and REFUSED in done.error and AS_MANY in done.error
    assert not Path(artifact).exists()
    asked = ["--devices", str(N)]
    assert invoke(["compile", "-q", *asked, file, "-o", artifact]).status == 0
    assert f"num_partitions={N}" in invoke(["compile", *asked, file]).output
    plain = invoke(["run", file, "--args", "ones"])
    for words in (["--jit", file], [artifact]):
        done = invoke(["run", *asked, *words, "--args", "ones"])
        assert (done.status, done.output) == (0, plain.output), done.error
    done = invoke(["run", artifact, "--args", "ones"])
    assert done.status == 2 and REFUSED in done.error


def test_in_python(tmp_path: Path) -> None:
    program, path = jt.parse(TEXT), tmp_path / "program.xla"
    with pytest.raises(jt.UsageError, match=REFUSED):
        jt.compile(program)
    jt.compile(program, devices=N).save(str(path))
    with pytest.raises(jt.UsageError, match=REFUSED):
        jt.load(path)
    loaded = jt.load(path, devices=N)
    assert isinstance(loaded, jt.Compiled) and len(loaded.in_avals) == 1
