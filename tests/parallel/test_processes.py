"""One program on two processes with four host devices each, against JAX and against one process with eight."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxprtool as jt
from tests.invoke import invoke

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = str(ROOT / "examples" / "data_parallel.jaxpr")


def free_port():
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


def start(port, index, *words, count=2):
    """Process `index` of `count`."""
    where = ("--coordinator", f"localhost:{port}", "--num-processes", str(count))
    command = [sys.executable, "-m", "jaxprtool", "run", *where, "--process-id", str(index), *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def finish(process):
    """(exit status, standard output, standard error)."""
    output, error = process.communicate(timeout=120)
    return process.returncode, output, error


def both(*words):
    """What two processes that are started in the wrong order end with."""
    port = free_port()
    second = start(port, 1, *words)
    first = start(port, 0, *words)
    return finish(first), finish(second)


def test_example_prints_what_one_process_prints():
    words = ["--jit", "--json", EXAMPLE, "--args", "random:0"]
    first, second = both("--devices", "4", *words)
    assert second == (0, "", "")
    assert first[::2] == (0, "")
    alone = invoke(["run", *words]).output
    for got, want in zip(*(json.loads(t)["outs"] for t in (first[1], alone)), strict=True):
        assert (got["dtype"], got["shape"]) == (want["dtype"], want["shape"])
        np.testing.assert_allclose(got["data"], want["data"], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_like_jax_on_eight_devices(on_8_devices, tmp_path):
    """All programs of the other tests as one, with results in a file."""
    cases = [c for c in on_8_devices.values() if c["outs"] is not None]
    runs = [jt.jaxpr_as_fun(jt.parse(c["text"])) for c in cases]
    sizes = [len(c["args"]) for c in cases]

    def all_of_them(*args):
        rest = iter(args)
        given = [[next(rest) for _ in range(n)] for n in sizes]
        return [y for run, xs in zip(runs, given, strict=True) for y in run(*xs)]

    args = [x for c in cases for x in c["args"]]
    program = jt.make_jaxpr(all_of_them)(*args)
    (tmp_path / "all.jaxpr").write_text(jt.format_jaxpr(program))
    np.savez(tmp_path / "in.npz", *args)
    out = tmp_path / "out.npz"
    first, second = both(
        "--jit", str(tmp_path / "all.jaxpr"), "--args", str(tmp_path / "in.npz"), "-o", str(out)
    )
    assert first == second == (0, "", "")
    wanted = [y for c in cases for y in c["outs"]]
    with np.load(out) as found:
        assert len(found.files) == len(wanted)
        for i, want in enumerate(wanted):
            np.testing.assert_allclose(found[f"out{i}"], want, rtol=2e-4, atol=2e-4, strict=True)


TYPES = """{ lambda ; a:i32[2,8] k:u32[8,2]. let
    b:bool[8] c:bf16[2,8] d:c64[] e:key<fry>[8] f:i32[2,2] = shard_map[
      check_vma=False
      in_specs=(P(None, ('j', 'i')), P(('i', 'j')))
      jaxpr={ lambda ; g:i32[2,1] h:u32[1,2]. let
          r:key<fry>[1] = random_wrap[impl=fry] h
          l:i32[1] = reduce_max[axes=(0,) out_sharding=None] g
          m:bool[1] = gt l 3:i32[]
          n:bf16[2,1] = convert_element_type[new_dtype=bfloat16 weak_type=False] g
          o:f32[] = psum[axes=('i', 'j') axis_index_groups=None] 1.5:f32[]
          p:c64[] = complex o 0.5:f32[]
          q:i32[2,1] = psum[axes=('i',) axis_index_groups=None] g
        in (m, n, p, r, q) }
      mesh=Mesh('i': 4, 'j': 2, axis_types=(Auto, Auto))
      newly_manual_axes=frozenset({'i', 'j'})
      out_specs=(P(('i', 'j')), P(None, ('j', 'i')), P(), P(('i', 'j')), P(None, 'j'))
    ] a k
  in (b, c, d, e, f, 2.5:f32[]) }
"""


def test_results_of_all_kinds_of_types(tmp_path):
    """From an artifact: split in the mesh's order or in another one, over some axes, or not at all."""
    program, artifact = tmp_path / "types.jaxpr", tmp_path / "types.bin"
    program.write_text(TYPES)
    assert invoke(["compile", str(program), "-o", str(artifact)]).status == 0
    first, second = both(str(artifact), "--args", "ramp")
    assert second == (0, "", "")
    assert first == (0, invoke(["run", str(program), "--args", "ramp"]).output, "")


def test_processes_that_disagree():
    port = free_port()
    second = start(port, 1, "--jit", EXAMPLE, "--args", "random:1")
    first = start(port, 0, "--jit", EXAMPLE, "--args", "random:0")
    for status, output, error in (finish(first), finish(second)):
        assert (status, output) == (2, "")
        assert "process 1 has another value for the arguments than process 0" in error


def test_process_that_waits_in_vain():
    words = ("--jit", "--connect-timeout", "0.5", EXAMPLE, "--args", "random:0")
    port = free_port()
    for process in (start(port, 1, *words), start(free_port(), 0, *words)):
        status, output, error = finish(process)
        assert (status, output) == (2, "")
        assert "not all 2 were there after 0.5 s" in error and "[coordinator]" in error


def test_processes_that_count_differently():
    port = free_port()
    words = ("--jit", "--connect-timeout", "2", EXAMPLE, "--args", "random:0")
    stranger, first = start(port, 3, *words, count=4), start(port, 0, *words)
    assert finish(first)[0] == 2
    status, _, error = finish(stranger)
    assert status == 2 and "has no place for number 3 of 4" in error


def test_port_that_is_taken():
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        status, _, error = finish(start(port, 0, "--jit", EXAMPLE, "--args", "random:0"))
    assert status == 2
    assert f"cannot listen on port {port}: address already in use" in error


TOGETHER = "--coordinator localhost:1234 --num-processes 2 --process-id 1"


@pytest.mark.parametrize(
    "options, message",
    [
        ("--jit --coordinator localhost:1234", "need --num-processes and --process-id too"),
        ("--jit --num-processes 2 --process-id 0", "need --coordinator too"),
        ("--jit --process-id 0", "need --coordinator and --num-processes too"),
        (TOGETHER, "--coordinator goes with --jit"),
        (f"--jit {TOGETHER} --process-id 2", "--process-id 2 is out of range for --num-processes"),
        (f"--jit {TOGETHER} --process-id -1", "--process-id -1 is out of range"),
        (f"--jit {TOGETHER} --num-processes 0", "0 is not in the range"),
        (f"--jit {TOGETHER} --coordinator localhost", "localhost is no HOST:PORT"),
        (f"--jit {TOGETHER} --coordinator :1234", ":1234 is no HOST:PORT"),
        (f"--jit {TOGETHER} --coordinator host:99999", "host:99999 is no HOST:PORT"),
        (f"--jit {TOGETHER} --connect-timeout 0", "0 is not in the range"),
        (f"--jit {TOGETHER} --num-processes 3", "8 devices, and 3 processes cannot share it"),
        (f"--jit {TOGETHER} --devices 3", "8 devices, and 2 processes with 3 each have 6"),
    ],
)
def test_bad_options(options, message):
    done = invoke(["run", *options.split(), EXAMPLE, "--args", "random:0"])
    assert (done.status, done.output) == (2, "")
    assert message in done.error


def test_program_without_a_mesh():
    text = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    done = invoke(["run", "--jit", *TOGETHER.split(), "-", "--args", "1"], stdin=text)
    assert done.status == 2
    assert "the program has no mesh, and 2 processes cannot share it" in done.error
