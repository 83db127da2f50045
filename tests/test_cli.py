"""The command line as a whole: pipes, files, messages, exit status, bad input."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest

from jaxprtool.cli import report
from jaxprtool.cli.main import cli
from jaxprtool.cli.session import Session
from jaxprtool.driver import progress
from jaxprtool.ir.diagnostics import Diagnostic, InternalError
from jaxprtool.ir.spans import Source, Span
from jaxprtool.ir.synonyms import OPTIONS
from jaxprtool.syntax.parse import parse
from tests.invoke import VERBS, command, invoke

LOSS = """{ lambda ; a:f32[3] b:f32[]. let
    c:f32[3] = sin a
    d:f32[3] = mul c b
    e:f32[] = reduce_sum[axes=(0,) out_sharding=None] d
  in (e,) }
"""
MULTIPLY_ADD = '''
import jaxprtool as jt

@jt.primitive
def multiply_add(x, y, z):
    """x * y + z."""

jt.define(
    multiply_add,
    abstract_eval=lambda x, y, z: x,
    impl=lambda xp, x, y, z: xp.add(xp.multiply(x, y), z),
)
'''
MULTIPLY_ADD_PROGRAM = "{ lambda ; a:f32[2]. let b:f32[2] = multiply_add a a a in (b,) }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loss.jaxpr").write_text(LOSS)
    return tmp_path


def process(*words: str, stdin: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jaxprtool", *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent)])},
        check=False,
        **options,  # type: ignore[call-overload]
    )


# -- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    done = invoke([verb, "--help"])
    assert done.status == 0 and not done.error
    assert "Example:" in done.output and f"jaxprtool {verb}" in done.output
    assert all(len(line) <= 80 for line in done.output.splitlines())
    options = [p for p in command(verb).params if p.param_type_name == "option"]
    assert not [p.name for p in options if not getattr(p, "help", "") and p.name != "style"]


def test_the_list_of_verbs_is_complete() -> None:
    output = invoke("--help").output
    assert all(verb in output and line in output for verb, (_, line) in VERBS.items())
    assert invoke("--version").output.startswith("jaxprtool, version ")
    assert invoke("").status == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("grda x", "there is no verb grda, did you mean grad?"),
        ("grad --wtr 0", "no such option '--wtr'. Did you mean '--wrt'?"),
        ("grad --argnums 0", "no such option '--argnums'. Did you mean '--wrt'?"),
        ("vmap --in-dims 0", "no such option '--in-dims'. Did you mean '--in-axes'?"),
        ("run --debug-nans", "no such option '--debug-nans'. Did you mean '--check-nans'?"),
        ("vmap --axis-size x", "is not a valid integer"),
        ("run --max-bytes lots", "is not a size"),
        ("diff", "missing argument"),
        ("jvp a b", "unexpected extra argument"),
    ],
)
def test_bad_usage_is_status_2_with_one_line(line: str, message: str) -> None:
    done = invoke(line)
    assert done.status == 2 and not done.output
    assert message in done.error and "[usage]" in done.error and "Traceback" not in done.error


def test_options_that_are_suggested_are_options() -> None:
    commands = [cli.get_command(click.Context(cli), verb) for verb in VERBS]
    known = {name for c in commands if c is not None for p in c.params for name in p.opts}
    assert {f"--{ours}" for ours in OPTIONS.values()} <= known


VECTOR = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"


@pytest.mark.parametrize(
    ("status", "line", "text"),
    [
        (0, "check", LOSS),
        (0, "fmt --check", LOSS),
        (1, "check", LOSS.replace("d:f32[3]", "d:f32[4]")),
        (1, "grad", LOSS.replace("d:f32[3]", "d:f32[4]")),
        (1, "run --args ones", LOSS.replace("mul c b", "mul c q")),
        (1, "lower", LOSS.replace("sin", "add")),
        (1, "fmt --check", LOSS.replace("(e,) }", "(e,)  }")),
        (2, "check", "no jaxpr"),
        (2, "check no_such_file", ""),
        (2, "check --no-such-option", LOSS),
        (2, "check no_such_module:f", ""),
        (2, "transpose --linear 0", VECTOR),
        (2, "grad", VECTOR),
        (2, "grad", VECTOR.replace("f32", "i32").replace("sin", "neg")),
        (2, "jvp --wrt nothing", VECTOR),
        (2, "vmap --axis-size 0", VECTOR),
        (2, "jvp", VECTOR.replace("sin", "foo")),
        (2, "run --args ones", VECTOR.replace("sin", "foo")),
        (2, "lower", VECTOR.replace("sin", "foo")),
        (2, "run --max-bytes 1 --args ones", VECTOR),
        (2, "run --args ones -o out.txt", VECTOR),
        (2, "run --args 1", VECTOR),
    ],
)
def test_the_table_of_exit_statuses(status: int, line: str, text: str) -> None:
    done = invoke(line, text)
    assert done.status == status, done.error


def test_the_table_of_exit_statuses_is_told_in_both_places() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    for status in ("0", "1", "2", "3", "130", "141"):
        assert re.search(rf"^ +{status} +\w", invoke("--help").output, re.MULTILINE)
        assert re.search(rf"^\| (\d+, )?{status}(, \d+)? \|", readme, re.MULTILINE)


# -- files and pipes ------------------------------------------------------------------------------


def test_verbs_read_what_verbs_write(folder: Path) -> None:
    gradient = invoke("grad --wrt 0,1 --value loss.jaxpr")
    batched = invoke("vmap --in-axes 0,- --axis-size 4 -", gradient.output)
    assert (
        invoke("check", batched.output).output
        == "(f32[4,3], f32[]) -> (f32[4], f32[4,3], f32[4])\n"
    )
    evaluated = invoke("run --json - --args random:0", batched.output)
    compiled = invoke("run --jit --json - --args random:0", batched.output)
    values = [
        [np.array(out["data"]) for out in json.loads(done.output)["outs"]]
        for done in (evaluated, compiled)
    ]
    for x, y in zip(*values, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_linearize_then_transpose_is_vjp(folder: Path) -> None:
    linear = invoke("linearize loss.jaxpr --args ramp 2").output
    transposed = invoke("transpose --linear 0,1", linear).output
    pulled = invoke("vjp --no-value loss.jaxpr").output
    assert invoke("run --args 1", transposed).output == invoke("run --args ramp 2 1", pulled).output


def test_known_and_unknown_parts_give_the_whole(folder: Path) -> None:
    invoke("partial-eval --known 0 loss.jaxpr -o parts.jaxpr")
    assert invoke("run parts.jaxpr#known --args ramp -o residuals.npz").status == 0
    whole = invoke("run loss.jaxpr --args ramp 2").output
    assert invoke("run parts.jaxpr#unknown --args residuals.npz 2").output == whole


def test_an_output_file_is_whole_or_untouched(folder: Path) -> None:
    target = folder / "out.jaxpr"
    target.write_text("before")
    assert invoke("grad --wrt 7 loss.jaxpr -o out.jaxpr").status == 2
    assert target.read_text() == "before"
    assert invoke("grad loss.jaxpr -o out.jaxpr").output == ""
    assert invoke("check out.jaxpr").status == 0
    assert sorted(p.name for p in folder.iterdir()) == ["loss.jaxpr", "out.jaxpr"]


def test_writing_to_the_input_itself(folder: Path) -> None:
    os.chmod(folder / "loss.jaxpr", 0o640)
    assert invoke("grad loss.jaxpr -o loss.jaxpr").status == 0
    assert "reduce_sum" not in (folder / "loss.jaxpr").read_text()
    assert (folder / "loss.jaxpr").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("target", ["missing/out.jaxpr", "."])
def test_unwritable_output(folder: Path, target: str) -> None:
    done = invoke(f"grad loss.jaxpr -o {target}")
    assert done.status == 2 and "cannot write" in done.error


def test_fmt_in_place_touches_only_what_changes(folder: Path) -> None:
    messy = folder / "messy.jaxpr"
    messy.write_text(
        LOSS.replace("    c:", "  c:").replace("    d:", "  d:").replace("    e:", "  e:")
    )
    assert invoke("fmt --check loss.jaxpr messy.jaxpr").error == "would reformat messy.jaxpr\n"
    before = (folder / "loss.jaxpr").stat().st_mtime_ns
    assert invoke("fmt -i loss.jaxpr messy.jaxpr") == (0, "", "")
    assert messy.read_text() == LOSS
    assert (folder / "loss.jaxpr").stat().st_mtime_ns == before


def test_a_byte_order_mark_and_windows_line_ends(folder: Path) -> None:
    assert invoke("check", b"\xef\xbb\xbf" + LOSS.replace("\n", "\r\n").encode()).status == 0


def test_a_file_whose_name_has_a_hash(folder: Path) -> None:
    (folder / "a#b.jaxpr").write_text(LOSS)
    assert invoke("check a#b.jaxpr").status == 0
    assert "holds no jaxpr named zzz" in invoke("check loss.jaxpr#zzz").error


# -- values ---------------------------------------------------------------------------------------


def test_arrays_from_files(folder: Path) -> None:
    a, b = np.array([1, 2, 3], np.float32), np.float32(0.5)
    want = invoke("run loss.jaxpr --args [1,2,3] 0.5").output
    np.save("a.npy", a)
    np.savez("names.npz", b=b, a=a)
    np.savez("positions.npz", arg1=b, arg0=a)
    np.savez("order.npz", x=a, y=b)
    np.savez("first.npz", a)
    for words in ("a.npy 0.5", "names.npz", "positions.npz", "order.npz", "first.npz 0.5"):
        assert invoke(f"run loss.jaxpr --args {words}").output == want, words


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "argument 0 (a) is f32[3], and f64[3] from x.npy is given"),
        (np.zeros(4, np.float32), "argument 0 (a) is f32[3], and f32[4] from x.npy is given"),
        (np.array(["a", "b", "c"]), "argument 0 (a) is f32[3], and <U1[3] from x.npy is given"),
    ],
)
def test_arrays_that_do_not_fit(folder: Path, array: np.ndarray, message: str) -> None:
    np.save("x.npy", array)
    done = invoke("run loss.jaxpr --args x.npy 1")
    assert done.status == 2 and message in done.error


def test_files_that_are_no_arrays(folder: Path) -> None:
    Path("text.npy").write_text("no array")
    Path("empty.npz").write_bytes(b"")
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    np.savez("short.npz", np.zeros(3, np.float32))
    data = Path("short.npz").read_bytes()
    Path("short.npz").write_bytes(data[:-30])
    for name in ("text.npy", "empty.npz", "objects.npy", "short.npz", "loss.jaxpr.npz"):
        done = invoke(f"run loss.jaxpr --args {name} 1")
        assert done.status == 2 and f"cannot read {name}" in done.error, done.error


def test_results_survive_a_file(folder: Path) -> None:
    program = "{ lambda ; a:bf16[2] b:bool[2] c:i8[]. let d:bf16[2] = neg a; e:bool[2] = not b in (d, e, c) }"
    Path("p.jaxpr").write_text(program)
    assert invoke("run p.jaxpr --args [1.5,2] [true,false] 7 -o out.npz") == (0, "", "")
    again = json.loads(invoke("run p.jaxpr --json --args out.npz").output)["outs"]
    assert [x["data"] for x in again] == [[1.5, 2.0], [True, False], 7]
    assert "a .npy file holds one" in invoke("run p.jaxpr --args zeros -o out.npy").error


def test_json_has_no_bare_nan(folder: Path) -> None:
    Path("p.jaxpr").write_text("{ lambda ; a:f32[3]. let b:f32[3] = log a in (b,) }")
    data = json.loads(invoke("run --json p.jaxpr --args [-1,0,1]").output)["outs"][0]["data"]
    assert data == ["nan", "-inf", 0.0]


def test_constants_in_an_npz_beside_the_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    np.savez(folder / "sub" / "w.npz", w=np.array([1, 2], np.float32))
    text = '{ lambda c:f32[2]; a:f32[2]. let b:f32[2] = mul a c in (b,) }\nwhere c = npz("w.npz", "w")\n'
    (folder / "sub" / "p.jaxpr").write_text(text)
    assert invoke("fmt sub/p.jaxpr").output == text
    for jit in ("", "--jit "):
        assert invoke(f"run {jit}sub/p.jaxpr --args ones").output == "f32[2] [1., 2.]\n"
    moved = invoke("jvp sub/p.jaxpr").output
    assert invoke("run --args ones ones", moved).output == "f32[2] [1., 2.]\nf32[2] [1., 2.]\n"
    (folder / "sub" / "p.jaxpr").write_text(text.replace('"w")', '"v")'))
    assert "no array named v" in invoke("run sub/p.jaxpr --args ones").error


# -- compile ---------------------------------------------------------------------------------------


def test_compile_prints_hlo_and_figures(folder: Path) -> None:
    done = invoke("compile loss.jaxpr")
    assert done.status == 0 and done.output.startswith("HloModule")
    assert "flops: " in done.error and " bytes" in done.error


def test_an_artifact_runs_and_is_no_jaxpr(folder: Path) -> None:
    assert invoke("compile -q loss.jaxpr -o loss.bin") == (0, "", "")
    want = invoke("run --jit loss.jaxpr --args random:3").output
    assert invoke("run loss.bin --args random:3").output == want
    assert "is a compiled program" in invoke("grad loss.bin").error
    assert "takes 2 arguments" in invoke("run loss.bin --args ones ones ones").error
    assert (
        "argument 0 is f32[3], and the number 1 is given" in invoke("run loss.bin --args 1").error
    )
    data = Path("loss.bin").read_bytes()
    Path("loss.bin").write_bytes(data[: len(data) // 2])
    done = invoke("run loss.bin --args random:3")
    assert done.status == 2 and "damaged" in done.error


# -- plugins ----------------------------------------------------------------------------------------


def test_a_plugin_declares_a_primitive(folder: Path) -> None:
    Path("ma.py").write_text(MULTIPLY_ADD)
    Path("p.jaxpr").write_text(MULTIPLY_ADD_PROGRAM)
    # In processes of their own: another test's plugin may have declared the primitive in this one.
    assert "unknown primitive multiply_add" in process("check", "p.jaxpr").stderr
    done = process("run", "--plugin", "ma.py", "p.jaxpr", "--args", "[1,2]")
    assert (done.returncode, done.stdout, done.stderr) == (0, "f32[2] [2., 6.]\n", "")
    done = process("check", "--plugin", "ma", "p.jaxpr")
    assert (done.returncode, done.stdout) == (0, "(f32[2]) -> (f32[2])\n")
    done = process("jvp", "--plugin", "ma", "p.jaxpr")
    assert done.returncode == 2
    assert "p.jaxpr:1:26: error: multiply_add has no jvp rule" in done.stderr
    assert "jaxprtool.define(multiply_add, jvp=...)" in done.stderr


def test_a_plugin_that_says_no_types(folder: Path) -> None:
    Path("bare.py").write_text(
        "import jaxprtool as jt\n@jt.primitive\ndef bare_one(x):\n    'Nothing.'\n"
    )
    Path("p.jaxpr").write_text("{ lambda ; a:f32[2]. let b:f32[2] = bare_one a in (b,) }\n")
    done = process("check", "--plugin", "bare.py", "p.jaxpr")
    assert done.returncode == 1
    assert "p.jaxpr:1:26: error: bare_one has no abstract_eval rule [no-rule]" in done.stderr
    assert "jaxprtool.define(bare_one, abstract_eval=...)" in done.stderr
    assert "unknown primitive" in process("check", "p.jaxpr").stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing.py", None, "there is no such file"),
        ("missing_module", None, "there is no such module"),
        ("broken.py", "def f(:\n", "SyntaxError"),
        ("raises.py", "raise ValueError('on purpose')\n", "raised ValueError at"),
        ("exits.py", "import sys\nsys.exit(5)\n", "raised SystemExit"),
    ],
)
def test_bad_plugins(folder: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        Path(name).write_text(text)
    done = invoke(["check", "--plugin", name, "loss.jaxpr"])
    assert done.status == 2 and message in done.error and "Traceback" not in done.error


def test_a_callback_that_ends_the_process(folder: Path) -> None:
    """It is an error with a message; once the command ended with status 141 and without a
    message.
    """
    Path("ends.py").write_text(
        "import sys\nimport jax\ndef ends(y): sys.exit(4)\n"
        "def f(x): return jax.pure_callback(ends, jax.ShapeDtypeStruct((), 'float32'), x)\n"
    )
    done = process("run", "ends.py:f", "--shape", "f32[]", "--args", "1.0")
    assert done.returncode == 2 and "ended the process with sys.exit(4)" in done.stderr


# -- messages ----------------------------------------------------------------------------------------


def test_a_diagnostic_points_at_its_span() -> None:
    source = Source("first\n\tsecond line\n", "f.jaxpr")
    d = Diagnostic("wrong", "code", Span(source, 7, 13), help="do it right")
    assert report.render(d).splitlines() == [
        "f.jaxpr:2:2: error: wrong [code]",
        "  \tsecond line",
        "  \t^~~~~~",
        "  help: do it right",
    ]
    assert "\x1b[" in report.render(d, color=True) and "\x1b[" not in report.render(d)


def test_a_long_line_is_cut_around_the_caret() -> None:
    text = "x" * 5000 + "HERE" + "y" * 5000
    quoted, carets = report.render(
        Diagnostic("m", "c", Span(Source(text), 5000, 5004))
    ).splitlines()[1:]
    assert len(quoted) < 120 and quoted.startswith("  ...") and quoted.endswith("...")
    assert quoted[carets.index("^") :].startswith("HERE") and carets.endswith("^~~~")


def test_github_messages_are_escaped() -> None:
    d = Diagnostic("50% of\nit", "code", Span(Source("x", "a,b:c"), 0, 1))
    assert (
        report.render(d, "github")
        == "::error file=a%2Cb%3Ac,line=1,col=1,title=code::50%25 of%0Ait"
    )


def test_json_messages_are_one_object_a_line() -> None:
    done = invoke(
        "check --error-format=json", LOSS.replace("sin", "sinn").replace("mul c b", "mul c q")
    )
    assert done.status == 1
    assert [json.loads(x)["code"] for x in done.error.splitlines()] == [
        "unknown-primitive",
        "unbound-variable",
    ]
    usage = invoke("check --error-format json --nothing", LOSS)
    assert json.loads(usage.error)["code"] == "usage"


def test_no_colour_in_a_pipe_or_with_no_color(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert report.colored(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not report.colored(Terminal())
    Path("b.jaxpr").write_text(LOSS.replace("sin", "cos"))
    assert "\x1b[" not in invoke("diff loss.jaxpr b.jaxpr").output
    assert "\x1b[31m-" in invoke("diff --color always loss.jaxpr b.jaxpr").output


def test_a_fault_of_ours_is_reported_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("jaxprtool.driver.jvp.check_input", broken)
    done = invoke("jvp", LOSS)
    assert done.status == 3 and "internal error: KeyError at test_cli.py" in done.error
    assert "Traceback" not in done.error and "jaxprtool jvp" in done.error
    saved = done.error.partition("saved as ")[2].split()[0]
    assert Path(saved).read_text() == LOSS
    os.unlink(saved)


def test_an_ill_typed_result_is_a_fault_of_ours() -> None:
    program = parse(LOSS.replace("d:f32[3]", "d:f32[4]"))
    with pytest.raises(InternalError, match="the result of grad is ill-typed"):
        Session(verify=True).write("grad", program, "/dev/null")


def test_internal_errors_exit_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.report(InternalError("impossible"), Session(), ["fmt"]) == 3
    assert report.report(RecursionError(), Session(), ["fmt"]) == 2
    assert report.report(MemoryError(), Session(), ["fmt"]) == 2
    assert "impossible" in capsys.readouterr().err


def test_what_a_traced_function_prints_is_kept_out_of_the_jaxpr() -> None:
    functions = Path(__file__).parent / "cases" / "trace" / "functions.py"
    done = invoke(["trace", f"{functions}:prints", "--shape", "f32[2]"])
    assert (done.status, done.error) == (0, "tracing!\n")
    assert invoke("check", done.output).status == 0


def wait_until(true: Callable[[], object]) -> None:
    """Wait for what another thread does; ten seconds at most."""
    for _ in range(1000):
        if true():
            return
        time.sleep(0.01)


def test_long_work_is_announced_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[str] = []

    class Spinner:
        def stop(self) -> None:
            announced.append("stopped")

    def start(message: str) -> Spinner:
        announced.append(message)
        return Spinner()

    monkeypatch.setattr("jaxprtool.backends.terminal.start", start)
    monkeypatch.setattr(progress, "DELAY", 0.01)
    for terminal in (False, True):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        with progress.working("compiling"):
            wait_until(lambda: announced) if terminal else time.sleep(0.3)
    assert announced == ["compiling", "stopped"]


def test_interrupting_takes_away_what_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []
    stopped: list[str] = []

    class Spinner:
        def stop(self) -> None:
            stopped.append("stopped")

    def start(message: str) -> Spinner:
        started.append(message)
        return Spinner()

    monkeypatch.setattr("jaxprtool.backends.terminal.start", start)
    monkeypatch.setattr(progress, "DELAY", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.working("compiling"):
        wait_until(lambda: started)
        assert report.report(KeyboardInterrupt(), Session(), ["run"]) == 130
        assert stopped == ["stopped"]
    assert capsys.readouterr().err == "\r\x1b[Kinterrupted\n"
    assert report.report(KeyboardInterrupt(), Session(error_format="json"), ["run"]) == 130
    assert json.loads(capsys.readouterr().err)["code"] == "interrupted"
    kept = Session(rescue=lambda: "the smallest program so far is in small.jaxpr")
    report.report(KeyboardInterrupt(), kept, ["reduce"])
    said = "interrupted; the smallest program so far is in small.jaxpr\n"
    assert capsys.readouterr().err.endswith(said)


# -- processes ----------------------------------------------------------------------------------------


def nested(depth: int) -> str:
    text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    for _ in range(depth):
        text = f"{{ lambda ; a:f32[3]. let b:f32[3] = jit[name=f jaxpr={text}] a in (b,) }}"
    return text + "\n"


@pytest.mark.parametrize(
    "line",
    [
        "check",
        "fmt",
        "jvp",
        "vjp",
        "vmap --axis-size 2",
        "partial-eval --known 0",
        "lower",
        "run --args ones",
        "run --jit --args ones",
    ],
)
def test_thousandfold_nesting(line: str) -> None:
    done = process(*line.split(), stdin=nested(1000))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize(
    "text",
    ["[({" * 100_000, "{ lambda ; " * 3000, "\x00" * 1000, "x" * 1_000_000, LOSS[:40], LOSS + "}"],
    ids=["brackets", "lambdas", "zeros", "one word", "truncated", "too much"],
)
def test_garbled_files_are_refused_at_once(text: str) -> None:
    start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = process("check", stdin=text)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start
    assert done.returncode == 2 and "error: " in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr) < 5000 and seconds < 10


def test_the_reader_may_leave_early() -> None:
    words = [sys.executable, "-m", "jaxprtool", "fmt"]
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout and child.stdin and child.stderr
    child.stdout.close()
    child.stdin.write(nested(300).encode())
    child.stdin.close()
    assert child.wait() == 141 and child.stderr.read() == b""
    child.stderr.close()


# A command in the foreground: a shell that starts one in the background has SIGINT ignored, which is passed on.
FOREGROUND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from jaxprtool.cli.main import main
main(["check"])
"""


def interrupted_after(seconds: float) -> tuple[int, bytes]:
    """Status and message of a command that waits for its input and is interrupted."""
    words = [sys.executable, "-c", FOREGROUND]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(seconds)
    child.send_signal(signal.SIGINT)
    _, error = child.communicate()
    return child.returncode, error


@pytest.mark.parametrize("ignored", [False, True])
def test_interrupting_is_clean(ignored: bool) -> None:
    """The command is interrupted after it has started, which takes longer on a busy machine."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else None
    try:
        for seconds in (1, 3, 10):
            found = interrupted_after(seconds)
            if found == (130, b"interrupted\n"):
                return
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    raise AssertionError(found)


LOADING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, *_):
        if name == "jaxprtool.ir.jaxpr":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from jaxprtool.cli.entry import main
main()
"""


def test_interrupting_while_modules_are_loaded_is_clean() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted\n")


def test_a_full_disk_is_a_message() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-m", "jaxprtool", "fmt"]
        done = subprocess.run(
            words, input=LOSS.encode(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2 and b"no space left" in done.stderr
