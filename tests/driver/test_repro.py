"""Archives of `repro`: what they hold, that they replay, and that hostile ones are refused."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.cli.main import VERBS, cli
from jaxprtool.driver.bundles.bundle import bundle_bytes, read_bundle
from jaxprtool.driver.bundles.commands import ARGS_VERBS
from jaxprtool.driver.bundles.replaying import Outcome, happens
from tests.invoke import command, invoke

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.jaxpr"))
LOG = "{ lambda ; a:f32[3]. let b:f32[3] = log a in (b,) }"


def made(folder: Path, text: str, line: str) -> Path:
    """The archive of a program and the rest of a command line."""
    (folder / "p.jaxpr").write_text(text)
    path = folder / "bug.zip"
    done = invoke(f"repro {folder / 'p.jaxpr'} -o {path} {line}")
    assert done.status == 0, done.error
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_is_kept_and_replays(path: Path, tmp_path: Path) -> None:
    archive = tmp_path / "bug.zip"
    done = invoke(f"repro --json {path} --args random:0 -o {archive} -- run")
    assert done.status == 0, done.error
    found = json.loads(done.output)
    assert found["status"] == invoke(f"run {path} --args random:0").status
    assert found["file"] == str(archive)
    held = zipfile.ZipFile(archive)
    assert {i.filename: i.file_size for i in held.infolist()} == found["members"]
    again = json.loads(invoke(f"repro --json {archive}").output)
    assert again["happens"] and again["versions"] == {} == again["platform"]


@pytest.mark.parametrize(
    "verb",
    sorted({*VERBS} - {"trace", "repro", "fuzz", "snapshot", "git-setup", "retraces", "explain"}),
)
def test_every_built_in_verb_replays(verb: str, tmp_path: Path) -> None:
    """Also where it ends with a message: that happens again."""
    args = "--args [1,2,3]" if verb in ARGS_VERBS else ""
    short = "--seconds=0" if verb in ("bench", "profile") else ""
    path = made(tmp_path, LOG, f"{args} -- {verb} {short}")
    assert invoke(f"repro {path}").output.startswith("still happens")


def test_times_are_never_the_same(tmp_path: Path) -> None:
    """Of what measures them the status counts, and where it fails its message too."""
    for line in ("opt --time", "opt --passes dce --time", "bench --seconds=0 --json"):
        args = "--args [1,2,3]" if line.startswith("bench") else ""
        path = made(tmp_path, LOG, f"{args} -- {line}")
        assert invoke(f"repro {path}").output.startswith("still happens")
    before, now = Outcome(0, "took 1.25 ms", ""), Outcome(0, "took 2.5 ms", "")
    assert happens(before, now, measured=True) and not happens(before, now)
    assert not happens(before, now._replace(status=1), measured=True)
    failed = Outcome(2, "", "error: one")
    assert not happens(failed, Outcome(2, "", "error: two"), measured=True)


def test_the_same_things_give_the_same_bytes(tmp_path: Path) -> None:
    first = made(tmp_path, LOG, "--args [1,2,3] -- run").read_bytes()
    code = f"from tests.driver.test_repro import *; made(Path({str(tmp_path)!r}), LOG, '--args [1,2,3] -- run')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert (tmp_path / "bug.zip").read_bytes() == first


def test_a_result_that_changes_does_not_happen(tmp_path: Path) -> None:
    path = made(tmp_path, LOG, "--args [1,2,3] -- run")
    bundle = read_bundle(path.read_bytes(), "bug.zip")
    other = type(bundle)(
        **{**bundle.__dict__, "output": "f32[3] [1, 2, 3]\n", "versions": {"jax": "0.1"}}
    )
    path.write_bytes(bundle_bytes(other))
    done = invoke(f"repro {path}")
    assert done.status == 1 and "does not happen here" in done.output
    assert "+f32[3] [0." in done.output and "jax: 0.1 then" in done.output
    found = json.loads(invoke(f"repro --json {path}").output)
    assert found["happens"] is False and found["versions"]["jax"][0] == "0.1"


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (("f32[] 0.84147098\n", ""), ("f32[] 0.84147101\n", ""), True),
        (("f32[] 0.8414\n", ""), ("f32[] 0.8514\n", ""), False),
        (("f32[2] [1, 2]\n", ""), ("f32[2] [1, 3]\n", ""), False),
        (("", "error: a [x]\n"), ("", "error: b [x]\n"), False),
        (("x y\n", ""), ("x  y\n", ""), True),
    ],
)
def test_what_counts_as_the_same(before: Any, now: Any, same: bool) -> None:
    assert happens(Outcome(0, *before), Outcome(0, *now)) is same
    assert not happens(Outcome(0, *before), Outcome(1, *before))


def test_what_is_expected_is_given(tmp_path: Path) -> None:
    path = made(tmp_path, LOG, "--args [1,2,3] --expect 'nothing but zeros' -- run")
    readme = zipfile.ZipFile(path).read("README.md").decode()
    assert "It should write:\n\n    nothing but zeros" in readme
    assert read_bundle(path.read_bytes(), "x").expected_by == "given"


def test_constants_are_in_the_archive(tmp_path: Path) -> None:
    """Those in a file beside the program too."""
    table = np.arange(5000, dtype=np.float32)
    program = jt.make_jaxpr(lambda x: jt.lax.add(x, table))(jt.ShapedArray((5000,), "f32"))
    jt.save(program, tmp_path / "p.jaxpr")
    assert [*tmp_path.glob("*.npz")]
    done = invoke(f"repro {tmp_path / 'p.jaxpr'} --args ones -o {tmp_path / 'bug.zip'} -- run")
    assert done.status == 0, done.error
    for path in [*tmp_path.glob("*.npz"), tmp_path / "p.jaxpr"]:
        path.unlink()
    assert invoke(f"repro {tmp_path / 'bug.zip'}").status == 0


SECRET = """{ lambda ; salary:f32[3] bonus:f32[3]. let
    total:f32[3] = add salary bonus  # /home/me/payroll.py:12:4 (pay)
    worst:f32[3] = log total
  in (worst,) }"""


def test_scrub_leaves_no_names_and_no_values(tmp_path: Path) -> None:
    path = made(tmp_path, SECRET, "--scrub --args [-71234.5,2,3] [0,0,1] -- blame --nan")
    held = zipfile.ZipFile(path)
    texts = "".join(held.read(n).decode() for n in held.namelist() if n != "args.npz")
    assert not [w for w in ("salary", "bonus", "payroll", "71234") if w in texts]
    values = np.load(io.BytesIO(held.read("args.npz")))
    assert not any(np.any(values[k] == np.float32(-71234.5)) for k in values)
    assert invoke(f"repro {path}").output.startswith("still happens")


def test_without_scrub_the_sources_are_listed(tmp_path: Path) -> None:
    (tmp_path / "p.jaxpr").write_text(SECRET)
    done = invoke(f"repro {tmp_path / 'p.jaxpr'} --args ones -- run")
    assert "/home/me/payroll.py" in done.output and "salary:f32[3]" in done.output
    assert [*tmp_path.iterdir()] == [tmp_path / "p.jaxpr"]  # it is listed, and nothing is written


def run_script(path: Path, folder: Path) -> str:
    """What the script of a bundle prints, from another folder than its own."""
    with zipfile.ZipFile(path) as held:
        held.extractall(folder)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    code = "import runpy, sys; sys.modules['jaxprtool'] = None; runpy.run_path(sys.argv[1])"
    command = [sys.executable, "-I", "-c", code, str(folder / "script.py")]
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


FEW = [p for p in EXAMPLES if p.stem in ("mlp", "gru", "attention", "newton", "kalman", "square")]


@pytest.mark.parametrize("path", FEW, ids=lambda p: p.stem)
def test_the_script_gives_what_the_program_gives(path: Path, tmp_path: Path) -> None:
    """With JAX alone."""
    archive = tmp_path / "bug.zip"
    done = invoke(f"repro {path} --args random:0 -o {archive} -- run")
    assert done.status == 0, done.error
    lines = run_script(archive, tmp_path)
    program = jt.load(path)
    held = np.load(tmp_path / "args.npz")
    outs = jt.run(program, *[held[k] for k in held])
    names = [f"{np.asarray(x).dtype} {np.asarray(x).shape}" for x in outs]
    assert [n for n in names if n in lines] == names
    first = np.asarray(outs[0]).reshape(-1)[:1]
    numbers = [
        float(w.strip("[]")) for w in lines.split() if w.strip("[]-").replace(".", "").isdigit()
    ]
    assert any(np.isclose(float(np.real(first[0])), n, rtol=1e-2) for n in numbers)


def test_the_script_of_a_derivative_prints_it(tmp_path: Path) -> None:
    path = made(tmp_path, "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }", "-- grad")
    assert run_script(path, tmp_path) == "float32 () 0.0\nfloat32 () 1.0\n"


# -- hostile archives --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return made(tmp_path_factory.mktemp("good"), LOG, "--args [1,2,3] -- run").read_bytes()


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as held:
        return {n: held.read(n) for n in held.namelist()}


def archive(parts: Sequence[tuple[zipfile.ZipInfo | str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as held:
        for name, data in parts:
            held.writestr(name, data)
    return buffer.getvalue()


def refused(folder: Path, data: bytes, why: str, *words: str) -> None:
    """The archive is refused with a message that says why, and nothing is run or written."""
    path = folder / "bad.zip"
    path.write_bytes(data)
    before = {*folder.rglob("*")}
    done = invoke(["repro", str(path), *words])
    assert done.status == 2 and why in done.error, (done.status, done.output, done.error)
    assert "Traceback" not in done.error and {*folder.rglob("*")} == before
    assert done.error.count("error:") == 1 and done.error.count(" [") == 1, "one message, once"


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/passwd",
        "C:evil",
        "a/../../b",
        "evil.py",
        "jaxprtool.py",
        "sub/",
        "..\\evil",
    ],
)
def test_other_members_are_refused(name: str, good: bytes, tmp_path: Path) -> None:
    refused(tmp_path, archive([*members(good).items(), (name, b"x")]), "bad-bundle")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives_with_tricks_are_refused(good: bytes, tmp_path: Path) -> None:
    parts = members(good)
    others = [(n, x) for n, x in parts.items() if n != "program.jaxpr"]
    refused(tmp_path, archive([*others, (link("program.jaxpr"), b"/etc/passwd")]), "no plain file")
    refused(tmp_path, archive([*parts.items(), ("args.npz", b"")]), "twice")
    refused(tmp_path, archive(others), "it has no program.jaxpr")
    refused(tmp_path, good[: len(good) // 2], "bad-bundle")
    refused(tmp_path, b"PK\x03\x04" + b"\0" * 100, "bad-bundle")
    refused(tmp_path, b"", "bad-bundle")
    broken = bytearray(good)
    broken[len(good) // 3] ^= 255
    path = tmp_path / "bad.zip"
    path.write_bytes(broken)
    assert invoke(["repro", str(path)]).status in (0, 1, 2)


def test_bombs_are_refused(good: bytes, tmp_path: Path) -> None:
    parts = members(good)
    bomb = archive([*((n, x) for n, x in parts.items() if n != "args.npz"), ("args.npz", b"\0" * (1 << 24))])  # fmt: skip
    assert len(bomb) < 1 << 16
    refused(tmp_path, bomb, "bytes when it is unpacked", "--max-bytes", "8M")
    lying = bytearray(archive([("manifest.json", parts["manifest.json"]), ("program.jaxpr", b"x" * 100_000)]))  # fmt: skip
    size = (100_000).to_bytes(4, "little")
    while (at := lying.find(size)) >= 0:  # it says that there are 10 bytes
        lying[at : at + 4] = (10).to_bytes(4, "little")
    refused(tmp_path, bytes(lying), "bad-bundle")


def with_manifest(good: bytes, **changes: Any) -> bytes:
    parts = members(good)
    manifest = {**json.loads(parts["manifest.json"]), **changes}
    parts["manifest.json"] = json.dumps(manifest).encode()
    return archive([*parts.items()])


HOSTILE: list[dict[str, Any]] = [
    {"verb": "trace"},
    {"verb": "repro"},
    {"verb": "fuzz"},
    {"verb": "os.system"},
    {"verb": "--plugin"},
    {"verb": "run", "options": [["--plugin", "os"]]},
    {"verb": "run", "options": [["--plugin=os"]]},
    {"verb": "run", "options": [["--jit", "--plugin", "os"]]},
    {"verb": "run", "options": [["-"]]},
    {"verb": "run", "options": [["evil.py:main"]]},
    {"verb": "run", "options": [["--args", "/etc/passwd.npy"]]},
    {"verb": "run", "options": [["--coordinator", "host:1"]]},
    {"verb": "run", "options": [["--platform", "evil"]]},
    {"verb": "run", "options": [["--like", "evil.py:main"]]},
    {"verb": "run", "options": [["--output", "/tmp/x"]]},
    {"verb": "run", "options": [["--output", "{out}/../x"]]},
    {"verb": "run", "options": [["--save-values", ".."]]},
    {"verb": "run", "options": [["--consts", "x.npz"]]},
    {"verb": "grad", "options": [["--allow-path", "/"]]},
    {"verb": "fmt", "options": [["--in-place"]]},
    {"verb": "fmt", "options": [["--from-log"]]},
    {"verb": "reduce", "options": [["--test", "rm -r {}"]]},
    {"verb": "reduce", "options": [["--crash", "run --plugin os"]]},
    {"verb": "reduce", "options": [["--keep-good", "../x"]]},
]


@pytest.mark.parametrize("changes", HOSTILE, ids=str)
def test_commands_of_others_are_refused(
    changes: dict[str, Any], good: bytes, tmp_path: Path
) -> None:
    refused(tmp_path, with_manifest(good, **changes), "bundle-command")


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2},
        {"format": "zip"},
        {"options": "--jit"},
        {"options": [[1]]},
        {"options": None},
        {"verb": 7},
        {"result": []},
        {"result": {"status": "0", "output": "", "messages": ""}},
        {"versions": {"jax": 1}},
        {"expected": None},
    ],
    ids=str,
)
def test_other_manifests_are_refused(changes: dict[str, Any], good: bytes, tmp_path: Path) -> None:
    refused(tmp_path, with_manifest(good, **changes), "bad-bundle")


def test_a_value_is_never_read_as_another_option(good: bytes, tmp_path: Path) -> None:
    """A value that looks like an option, or a file, stays the value of its option."""
    for value in ("--plugin", "-o/tmp/x", "evil.py:f", "x --plugin os"):
        path = tmp_path / "bad.zip"
        path.write_bytes(with_manifest(good, options=[["--print", value]]))
        done = invoke(f"repro --json {path}")
        assert done.status == 1, done.error
        assert "os" not in json.loads(done.output)["now"]["output"]


def test_every_option_of_every_verb_is_allowed_or_refused_on_purpose() -> None:
    """A new option that reads, runs or writes has to be looked at before an archive may hold it."""
    from jaxprtool.driver.bundles import commands

    refused_ones = {
        *("--plugin", "--consts", "--allow-path", "--shape", "--like", "--static", "--x64"),
        *("--frontend", "--source", "--source-root", "--rules", "--in-place", "--from-log"),
        "--host-devices",
        *("--platform", "--coordinator", "--num-processes", "--process-id", "--connect-timeout"),
        *("--test", "--crash", "-j", "--args", "--vs", "--fix", "--html", "--compare"),
    }
    verbs = (*commands.ARGS_VERBS, *commands._PLAIN_VERBS)
    options = {
        max(p.opts, key=len) for v in verbs for p in command(v).params if p.opts[0].startswith("-")
    }
    options = {o for o in options if o.startswith("-")}
    known = {*commands._OPTIONS, *commands._OUTPUTS, *refused_ones}
    assert options - known == set()
    assert cli.name == "cli"


def test_a_plug_in_of_this_machine_is_not_imported(tmp_path: Path) -> None:
    """A program that names the primitive of an installed plug-in does not make the archive import it."""
    info = tmp_path / "evil-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[jaxprtool.plugins]\nevil_sin = evil_plugin\n")
    (tmp_path / "evil_plugin.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    program = "{ lambda ; a:f32[]. let b:f32[] = evil_sin a in (b,) }"
    (tmp_path / "p.jaxpr").write_text(program)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    words = ["repro", str(tmp_path / "p.jaxpr"), "-o", str(tmp_path / "b.zip"), "--", "check", "--allow-unknown"]  # fmt: skip
    python = [sys.executable, "-m", "jaxprtool"]
    subprocess.run([*python, *words], env=env, cwd=ROOT, check=True, capture_output=True)
    (tmp_path / "ran").unlink(missing_ok=True)
    done = subprocess.run([*python, "repro", str(tmp_path / "b.zip")], env=env, cwd=ROOT, capture_output=True, text=True)  # fmt: skip
    assert "happen" in done.stdout and not (tmp_path / "ran").exists(), done.stderr


def test_a_program_may_not_read_files(good: bytes, tmp_path: Path) -> None:
    np.savez(tmp_path / "secret.npz", a=np.ones(3, np.float32))
    parts = members(good)
    text = f'{{ lambda b:f32[3]; a:f32[3]. let c:f32[3] = add a b in (c,) }}\nwhere b = npz("{tmp_path}/secret.npz", "a")\n'
    parts["program.jaxpr"] = text.encode()
    path = tmp_path / "bad.zip"
    path.write_bytes(archive([*parts.items()]))
    done = invoke(f"repro --json {path}")
    assert done.status in (1, 2)
    assert done.status == 2 or json.loads(done.output)["now"]["status"] == 2


# -- from Python -------------------------------------------------------------------------------------


def test_from_python(tmp_path: Path) -> None:
    program = jt.parse(LOG)
    found = jt.repro(
        program, np.array([1, -2, 3], np.float32), verb="blame", output=tmp_path / "bug.zip"
    )
    assert found.bundle.status == 1 and "status 1" in str(found)
    again = jt.replay(tmp_path / "bug.zip")
    assert again.happens and json.dumps(again.json())
    with pytest.raises(jt.UsageError, match="not allowed"):
        jt.repro(program, verb="run", options=[["--plugin", "os"]])


def test_a_function_from_python() -> None:
    def loss(params: Any, x: Any) -> Any:
        return jt.lax.mul(params["w"], jt.lax.sin(x))

    found = jt.repro(loss, {"w": np.float32(2)}, np.float32(1), verb="run")
    assert found.bundle.status == 0 and "1.68" in found.bundle.output


def test_time_limit(tmp_path: Path) -> None:
    path = made(tmp_path, LOG, "--time-limit 0.01 --args [1,2,3] -- run")
    assert read_bundle(path.read_bytes(), "x").status is None
    assert invoke(f"repro --time-limit 0.01 {path}").output.startswith("still happens")
    assert invoke(f"repro {path}").status == 1


@pytest.mark.parametrize(
    "line",
    ["--scrub", "--expect x", "-o other.zip", "--args 1"],
)
def test_options_of_the_other_use_are_refused(line: str, tmp_path: Path) -> None:
    path = made(tmp_path, LOG, "--args [1,2,3] -- run")
    done = invoke(f"repro {path} {line}")
    assert done.status == 2 and "for a command, and none is given" in done.error


def test_a_function_that_calls_back_is_not_kept(tmp_path: Path) -> None:
    source = """
    import jax, numpy as np
    def f(x):
        return jax.pure_callback(np.log, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2
    """
    (tmp_path / "calls.py").write_text(textwrap.dedent(source))
    target, archive = f"{tmp_path}/calls.py:f", tmp_path / "bug.zip"
    shape = ["--shape", "f32[2]", "--args", "[1,-1]"]
    done = invoke(["repro", target, *shape, "-o", str(archive), "--", "blame"])
    assert done.status == 2 and "[no-callback]" in done.error and not archive.exists()
    small = tmp_path / "small.jaxpr"
    words = ["reduce", "--nan", target, *shape, "-o", str(small)]
    assert invoke(words).status == 0
    args = ["--args", f"{small}.args.npz"]
    assert invoke(["repro", str(small), *args, "-o", str(archive), "--", "blame"]).status == 0
    assert invoke(["repro", str(archive)]).status == 0
    # what does not run it is kept
    done = invoke(["repro", target, "--shape", "f32[2]", "-o", str(archive), "--", "stats"])
    assert done.status == 0, done.error


def test_a_program_with_symbolic_sizes_of_a_primitive_that_jax_may_lack(tmp_path: Path) -> None:
    """Its script cannot be written, and the archive says so."""
    path = tmp_path / "p.jaxpr"
    path.write_text(
        "{ lambda ; a:f32[n]. let b:i32[0] = Nonzero[size=0 axes=(0,) out_dtype=int32] a in (b,) }"
    )
    done = invoke(["repro", str(path), "-o", str(tmp_path / "bug.zip"), "--", "check"])
    assert done.status == 0, done.error
    assert "cannot have arguments of type f32[n]" in done.output + done.error
