"""Files: compressed and foreign ones, what is left behind, and what a terminal is shown of them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from jaxprtool.driver.storage import compressed
from jaxprtool.driver.storage.foreign import text_help
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.ir.printable import PrintableStream, one_line, printable
from tests.invoke import invoke

ROOT = Path(__file__).parent.parent
TEXT = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }\n"
TYPE = "(f32[3]) -> (f32[3])\n"
PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jaxpr").write_text(TEXT)
    return tmp_path


# -- compressed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PACK)
def test_compressed_files_are_read(folder: Path, kind: str) -> None:
    data = PACK[kind](TEXT.encode())
    Path(f"p.jaxpr.txt.{kind}").write_bytes(data)
    assert invoke(f"check p.jaxpr.txt.{kind}").output == TYPE
    assert invoke("check", data).output == TYPE
    half = len(TEXT) // 2
    members = PACK[kind](TEXT[:half].encode()) + PACK[kind](TEXT[half:].encode())
    assert invoke("check", members).output == TYPE
    assert invoke("check", data + b"\0" * 512).output == TYPE  # padded, as tapes are


@pytest.mark.parametrize("kind", PACK)
def test_compressed_files_that_are_damaged(kind: str) -> None:
    data = PACK[kind](os.urandom(3000).hex().encode())
    for broken in (data[:-20], data[:30], data[:7], data[:500] + b"????????" + data[508:]):
        done = invoke("check", broken)
        assert done.status == 2 and "compressed, and damaged" in done.error, done.error


@pytest.mark.parametrize("kind", PACK)
def test_compressed_bombs(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(compressed, "LIMIT", 4 << 20)
    data = PACK[kind](b" " * (5 << 20))
    assert "holds more than 4 MB [too-large]" in invoke("check", data).error
    part = PACK[kind](b" " * (1 << 20))  # no member alone is too large
    assert "too-large" in invoke("check", part * 5).error
    assert "too-large" not in invoke("check", part * 3).error


def test_zstd_is_named_where_it_cannot_be_read() -> None:
    done = invoke("check", b"\x28\xb5\x2f\xfd\x04\x00")
    assert done.status == 2 and ("zstd" in done.error or "damaged" in done.error)


def test_a_missing_file_has_neighbours(folder: Path) -> None:
    Path("loss.jaxpr").write_text(TEXT)
    assert "did you mean loss.jaxpr?" in invoke("check los.jaxpr").error
    assert "help" not in invoke("check quite_another.jaxpr").error
    assert "help" not in invoke("check no_folder/los.jaxpr").error
    assert "is a directory" in invoke("check .").error


# -- other languages -------------------------------------------------------------------------------


def lowered(dialect: str) -> str:
    f = jax.jit(lambda x: jax.numpy.sin(x) @ x)
    return f.lower(jax.ShapeDtypeStruct((3,), "float32")).as_text(dialect=dialect)


@pytest.mark.parametrize(
    ("make", "what", "how"),
    [
        (lambda: lowered("stablehlo"), "StableHLO", "print(jax.make_jaxpr(f)(*args))"),
        (lambda: lowered("hlo"), "HLO", "print(jax.make_jaxpr(f)(*args))"),
        (lambda: invoke("lower", TEXT).output, "StableHLO", "no way back"),
        (lambda: invoke("compile -q", TEXT).output, "HLO", "no way back"),
        (lambda: "%0 = stablehlo.add %a, %b : tensor<3xf32>", "StableHLO", "no way back"),
        (lambda: "# x\nimport jax\n\ndef loss(x):\n  return x", "Python source", "FILE.py:loss"),
        (lambda: (ROOT / "examples/mlp.py").read_text(), "Python source", "jaxprtool trace"),
        (lambda: '{"eqns": []}', "JSON", "{ lambda"),
        (lambda: "<!DOCTYPE html><html>", "HTML or XML", "{ lambda"),
        (lambda: "define void @f(ptr %x) {\n}", "LLVM IR", "no way back"),
        (lambda: b"ML\xefR\x01", "MLIR bytecode", "no way back"),
        (lambda: b"\x80\x04\x95\x00\x00", "a pickle", "print(jaxpr)"),
        (lambda: b"\x93NUMPY\x01\x00", "a NumPy array", "--args x.npy"),
        (lambda: TEXT.encode("utf-16"), "a text in UTF-16", "iconv"),
    ],
)
def test_other_languages_are_recognised(make, what: str, how: str) -> None:
    for verb in ("check", "fmt"):
        done = invoke(verb, make())
        assert done.status == 2, done.error
        assert f"<stdin> is {what}" in done.error and how in done.error


@pytest.mark.parametrize(
    "text", ["{ lambda ; a:f32[3]. let", "step 3 of module x {", "from 3 to 5", "loss = 3.0", ""]
)
def test_jaxprs_with_mistakes_are_no_other_language(text: str) -> None:
    assert text_help(text, "f") == ("", "")
    assert "and no jaxpr" not in invoke("check", text).error


def test_no_text_takes_long_to_recognise() -> None:
    for text in ("\n" * 20_000, " " * 20_000, "%a = " * 4000, "class x " * 3000, "ENTRY " * 4000):
        text_help(text, "f")


# -- what a terminal is shown ----------------------------------------------------------------------

NASTY = "a\x1b[31m\x07\x9b\x85\x7f\r\u202e\u2066\u200b\ufeff\udcff"


def test_printable() -> None:
    shown = "a\\x1b[31m\\x07\\x9b\\x85\\x7f\\x0d\\u202e\\u2066\\u200b\\ufeff\\udcff"
    assert printable(NASTY) == shown
    assert printable("\tübung\n→ 語 ") == "\tübung\n→ 語 " and one_line("a\nb") == "a\\nb"
    out = io.StringIO()
    print("x\x1b", file=PrintableStream(out))
    assert out.getvalue() == "x\\x1b\n"


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_messages_have_no_control_characters(folder: Path, form: str) -> None:
    name = "a\n::error::x\x1b%.jaxpr"
    Path(name).write_text("{ lambda ; a:f32[3]. let b:f32[3] = s\x07in\u202e a in (b,) }")
    done = invoke(["check", "--error-format", form, name])
    assert done.status == 1 and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.error)
    assert "s\\x07in\\u202e" in done.error.replace("\\\\", "\\")
    if form == "github":
        assert done.error.startswith("::error file=a%0A%3A%3Aerror%3A%3Ax\\x1b%25.jaxpr,line=1,")
        assert done.error.count("\n") == 1
    if form == "json":
        assert json.loads(done.error)["file"] == name
    if form == "text":
        first, quoted, carets = done.error.splitlines()[:3]
        assert first.startswith("a\\n::error::x")
        assert quoted[carets.index("^") :].startswith("s\\x07in\\u202e a")
        assert carets.count("~") + 1 == len("s\\x07in\\u202e")


def test_what_a_program_prints_is_escaped(folder: Path) -> None:
    def f(x):
        jax.debug.print("\x1b]0;owned\x07{x}", x=x)
        return x

    text = str(jax.make_jaxpr(f)(1.0))
    if "debug_print" not in text:
        pytest.skip("this JAX prints by a callback, which a text does not hold")
    done = invoke("run --args 1", text)
    assert done.status == 0, done.error
    assert "\x1b" not in done.error and "owned" in done.error


def test_an_artifact_is_escaped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{ lambda ; a:f32[3]. let b:f32[3] = s\x9bx a in (b,) }\n"
    assert "\x9b" in invoke("fmt", text).output
    monkeypatch.setattr("jaxprtool.cli.session.standard_output", Terminal)
    assert "\x9b" not in invoke("fmt", text).output


class Terminal:
    def isatty(self) -> bool:
        return True


# -- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o664, 0o600, 0o755, 0o444, 0o666])
def test_modes_are_kept_whatever_the_umask(folder: Path, mode: int) -> None:
    target = folder / "out"
    target.write_text("before")
    target.chmod(mode)
    before = os.umask(0o077)
    try:
        write_output(str(target), "after")
        write_output(str(folder / "new"), "x")
    finally:
        os.umask(before)
    assert target.read_text() == "after" and stat.S_IMODE(target.stat().st_mode) == mode
    assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o600


def test_names_of_temporary_files_do_not_depend_on_the_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process ids are not unique: processes in two containers that share a folder may have the same
    id.
    """
    seen: set[str] = set()
    real = os.replace

    def replace(a: str, b: str) -> None:
        seen.add(os.path.basename(a))
        real(a, b)

    monkeypatch.setattr("os.replace", replace)
    monkeypatch.setattr("os.getpid", lambda: 7)
    for _ in range(20):
        write_output("out", "x")
    assert len(seen) == 20 and sorted(os.listdir()) == ["out", "p.jaxpr"]
    long = "x" * 250  # a name that has no room for more
    write_output(long, "y")
    assert Path(long).read_text() == "y"


def test_a_taken_name_is_not_overwritten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"a" * 12, b"b" * 12])
    monkeypatch.setattr("os.urandom", lambda n: next(drawn))
    taken = Path(f".jaxprtool-{(b'a' * 12).hex()}.tmp")
    taken.write_text("another's")
    write_output("out", "x")
    assert taken.read_text() == "another's" and Path("out").read_text() == "x"


def test_a_failed_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(a: str, b: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(UsageError, match="cannot write out: permission denied"):
        write_output("out", "x")
    assert os.listdir() == ["p.jaxpr"]


SLOW = """
import os, signal, time
import jaxprtool.cli.main as cli
for number in (signal.SIGHUP, signal.SIGTERM):  # whatever started this test ignores
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
def slow(a, b):
    print("ready", flush=True)
    time.sleep(60)
os.replace = slow
cli.main(["fmt", "p.jaxpr", "-o", "out"])
"""


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, -15), (signal.SIGHUP, -1), (signal.SIGINT, 130), (signal.SIGUSR1, -10)],
)
def test_a_signal_leaves_no_temporary_file(folder: Path, number: int, status: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout and child.stdout.readline() == b"ready\n"
    assert len(os.listdir()) == 2
    child.send_signal(number)
    _, error = child.communicate(timeout=20)
    assert child.returncode == status, error
    assert os.listdir() == ["p.jaxpr"]


def shell(command: str) -> subprocess.CompletedProcess[str]:
    tool = f"{sys.executable} -m jaxprtool"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = ["bash", "-c", command.replace("jaxprtool", tool)]
    return subprocess.run(words, capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize("verb", ["fmt", "check", "grad", "run --args ones"])
def test_closed_standard_output_is_an_error(folder: Path, verb: str) -> None:
    text = TEXT.replace("f32[3]", "f32[]")
    Path("s.jaxpr").write_text(text)
    done = shell(f"jaxprtool {verb} s.jaxpr >&-")
    assert done.returncode == 2 and "cannot write to standard output: it is closed" in done.stderr
    assert Path("s.jaxpr").read_text() == text


def test_what_writes_nothing_needs_no_standard_output(folder: Path) -> None:
    assert shell("jaxprtool check -q p.jaxpr >&-").returncode == 0
    assert shell("jaxprtool fmt p.jaxpr -o out >&-").returncode == 0
    assert Path("out").read_text() == TEXT
    assert shell("jaxprtool check -q p.jaxpr <&- >&- 2>&-").returncode == 0


def test_what_a_program_prints_is_no_command_of_a_runner():
    stream = io.StringIO()
    PrintableStream(stream).write("a\n::error::b\n ##[group]c\nx::y\n::not a command\n")
    assert stream.getvalue() == "a\n\\x3a:error::b\n \\x23#[group]c\nx::y\n::not a command\n"
