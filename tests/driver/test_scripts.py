"""Files of users, as they write their training scripts: handlers of signals, arguments of the command line, packages."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from jaxprtool.core.stack import run_deep, run_in_waiting_thread
from tests.invoke import invoke

HANDLER = """
import signal
signal.signal(signal.SIGTERM, lambda *_: None)
def f(x):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return x * 2
"""
ARGUMENTS = """
import argparse
def rate():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=2.0)
    return parser.parse_args().rate
RATE = rate()
def f(x):
    return x * RATE * rate()
def example():
    return 3.0 * rate()
"""
NEEDED = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.parse_args()
def f(x): return x
"""
LOOP = """
import asyncio
asyncio.get_event_loop()
def f(x): return x * 2
"""
FLAGS = """
from absl import flags
flags.DEFINE_float("rate", 2.0, "how fast")
def f(x): return x * flags.FLAGS.rate
"""
RECURSION = """
def without_end(n): return [without_end(n + 1)]
try:
    without_end(0)
except RecursionError:
    pass
def f(x): return x * 2
"""
SCRIPTS = {
    "handler": HANDLER,
    "arguments": ARGUMENTS,
    "loop": LOOP,
    "flags": FLAGS,
    "recursion": RECURSION,
}


def trace(path, *words, **options):
    command = [sys.executable, "-m", "jaxprtool", "trace", *words, f"{path}:f", "--shape", "f32[3]"]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("plugin", [False, True], ids=["function", "plugin"])
def test_a_script_is_traced(name, plugin, tmp_path):
    if name == "flags":
        pytest.importorskip("absl.flags")
    file = tmp_path / "script.py"
    file.write_text(SCRIPTS[name])
    done = trace(file, *(["--plugin", str(file)] if plugin else []))
    assert done.returncode == 0, done.stderr
    assert "mul" in done.stdout


def test_example_arguments_of_a_script(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(ARGUMENTS)
    done = invoke(["check", f"{file}:f", "--like", "example"])
    assert (done.status, done.output) == (0, "(x=f64[]) -> f64[]\n")


def test_needed_arguments_are_named(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(NEEDED)
    before = list(sys.argv)
    done = invoke(["check", f"{file}:f", "--shape", "f32[3]"])
    assert done.status == 2 and "[user-exception]" in done.error
    assert "script.py: error: the following arguments are required: data" in done.error
    assert "help: the code runs without arguments of a command line" in done.error
    assert sys.argv == before


def test_a_script_that_ends_the_process_for_its_own_reason(tmp_path):
    file = tmp_path / "script.py"
    file.write_text("import sys\nif not hasattr(sys, 'no_such_thing'):\n    sys.exit(3)\n")
    done = invoke(["check", f"{file}:f", "--shape", "f32[3]"])
    assert done.status == 2 and "raised SystemExit: 3" in done.error
    assert "command line" not in done.error
    assert "script.py:3:5: error" in done.error


@pytest.mark.parametrize("package", [True, False], ids=["package", "folders"])
@pytest.mark.parametrize("where", ["root", "elsewhere"])
def test_a_file_with_relative_imports(package, where, tmp_path, monkeypatch):
    name = f"models_{package}_{where}"
    inner = tmp_path / name / "layers"
    inner.mkdir(parents=True)
    (inner.parent / "scale.py").write_text("TWO = 2.0\n")
    (inner / "shift.py").write_text("ONE = 1.0\nRUNS = []\n")
    file = inner / "dense.py"
    file.write_text(
        "from ..scale import TWO\nfrom . import shift\nshift.RUNS.append(1)\n"
        "def f(x): return x * TWO + shift.ONE + len(shift.RUNS)\n"
    )
    if package:
        for folder in (inner, inner.parent):
            (folder / "__init__.py").touch()
    monkeypatch.chdir(tmp_path if where == "root" else inner)
    monkeypatch.setattr(sys, "path", list(sys.path))
    given = f"{file}:f" if package or where == "elsewhere" else f"{name}/layers/dense.py:f"
    done = invoke(["check", given, "--shape", "f32[3]"])
    if not package and where == "elsewhere":  # nothing says where the package begins
        assert done.status == 2 and "no known parent package" in done.error
        return
    assert (done.status, done.output) == (0, "(x=f32[3]) -> f32[3]\n"), done.error
    again = invoke(["run", f"{name}.layers.dense:f", "--shape", "f32[3]", "--args", "[0, 0, 0]"])
    assert "2" in again.output, again.error  # one module, which has run once


def test_what_a_deep_thread_asks_of_the_one_that_waits():
    def inside():
        here = threading.current_thread()
        there = run_in_waiting_thread(threading.current_thread)
        with pytest.raises(ZeroDivisionError):
            run_in_waiting_thread(lambda: 1 // 0)
        return here is there, there

    assert run_deep(inside) == (False, threading.current_thread())
    assert run_in_waiting_thread(threading.current_thread) is threading.current_thread()


def test_handlers_are_set_where_nothing_waits():
    before = signal.getsignal(signal.SIGUSR1)
    assert run_in_waiting_thread(signal.signal, signal.SIGUSR1, signal.SIG_IGN) == before
    signal.signal(signal.SIGUSR1, before)
