"""What it takes to add a primitive and a verb, shown by adding them to a copy of the package and running its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PRIMITIVE = {
    "jaxprtool/ops/unary.py": '''

@primitive
def ndtr(x):
    """The probability that a standard normal number is less than x, elementwise."""
''',
    "jaxprtool/rules/unary.py": """

def _ndtr(in_avals, x):
    return lax.mul(0.5, lax.add(1.0, lax.erf(lax.mul(x, 0.5**0.5))))


define(
    lax.ndtr,
    **elementwise("f"),
    **decomposed(_ndtr),
    jvp=derivative(
        lambda x, y, **_: lax.mul(0.3989422804014327, lax.exp(lax.mul(-0.5, lax.square(x))))
    ),
    transpose=NONLINEAR,
    masks="inf",
)
""",
    "tests/rules/examples_unary.py": """

def _jax_ndtr(x):
    return 0.5 * (1 + jax.lax.erf(jax.lax.mul(x, x.dtype.type(0.5**0.5))))


EXAMPLES += [Example(lax.ndtr, (arg(t),), jax=_jax_ndtr) for t in ("f32[3]", "f64[2,3]", "bf16[4]")]
""",
}
# Names that a file has to have before: a line and the place before which it goes.
NAMES = {
    "jaxprtool/ops/unary.py": ('    "neg",\n', '    "ndtr",\n'),
    "jaxprtool/rules/unary.py": (
        "from jaxprtool.makers.elementwise",
        "from jaxprtool.makers.decomposed import decomposed\n",
    ),
    "tests/rules/examples_unary.py": ("from jax.extend", "import jax\n"),
}

VERB = {
    "jaxprtool/driver/count.py": '''"""count: how many equations a program has."""

from __future__ import annotations

from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import count_eqns

__all__ = ["count"]


def count(program: ClosedJaxpr) -> int:
    """The number of equations, those in jaxprs inside of equations among them."""
    return count_eqns(program.jaxpr)
''',
    "jaxprtool/cli/count.py": '''"""jaxprtool count."""

from __future__ import annotations

from jaxprtool.cli.options.shared import file_argument, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import count as driver


@verb("count")
@file_argument
def count(session: Session, file: str) -> None:
    """Count the equations of FILE.

    \\b
    Example:
      jaxprtool count loss.jaxpr
    """
    session.echo_lines([str(driver.count(session.program(file)))])
''',
    "jaxprtool/cli/main.py": '    "count": ("jaxprtool.cli.count:count", "Count equations."),\n',
    "tests/cases/count/one.jaxpr": """# run: count
{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
# ---- output
1
""",
    "tests/cases/count/unbound.jaxpr": """# run: count
{ lambda ; . let  in (a,) }
""",
    "README.md": "| `count` | the number of equations |\n",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its tests."""
    for name in ("jaxprtool", "tests", "grammar", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run_tests(copy: Path, *words: str) -> tuple[int, str]:
    """Run tests of the copy: exit status, and what they print."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *words],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout[-6000:]


def written(path: Path, text: str) -> int:
    """Add a text at the end of a file; the number of its lines that are not empty."""
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + text)
    return sum(bool(line) for line in text.splitlines())


def put_before(path: Path, mark: str, text: str) -> int:
    """Put a text before the first place of a mark; the number of its lines."""
    whole = path.read_text()
    assert mark in whole
    path.write_text(whole.replace(mark, text + mark, 1))
    return len(text.splitlines())


@pytest.mark.slow
def test_an_elementwise_primitive_takes_three_files_and_24_lines(copy: Path) -> None:
    lines = 0
    for file, text in PRIMITIVE.items():
        lines += written(copy / file, text) + put_before(copy / file, *NAMES[file])
    assert (len(PRIMITIVE), lines) <= (3, 24)
    code, printed = run_tests(copy, "tests/laws", "-k", "ndtr", "-rA")
    assert code == 0, printed
    laws = set(re.findall(r"PASSED tests/laws/test_(\w+)\.py", printed))
    assert laws >= {
        "abstract_eval",
        "batch",
        "cost",
        "impl",
        "jvp",
        "lower",
        "partial_eval",
        "transpose",
    }


@pytest.mark.slow
def test_a_verb_takes_six_files_and_45_lines(copy: Path) -> None:
    lines = 0
    for file, text in VERB.items():
        if file == "README.md":
            lines += put_before(copy / file, "| `discharge`", text)
        elif file.endswith("main.py"):
            lines += put_before(copy / file, '    "discharge"', text)
        else:
            lines += written(copy / file, text)
    assert (len(VERB), lines) <= (6, 45)
    case = copy / "tests/cases/count/unbound.jaxpr"
    code, printed = run_tests(copy, "tests/test_cases.py", "-k", "count/unbound", "--update-cases")
    assert code == 0, printed
    assert "# ---- error 1\n" in case.read_text()
    told = "count/ or verb or test_architecture"  # cases of the other verbs are as they were
    code, printed = run_tests(copy, "tests/test_cases.py", "tests/test_architecture.py", "-k", told)
    assert code == 0, printed
    code, printed = run_tests(
        copy, "tests/test_cli.py", "tests/test_readme.py", "-k", "verb or documented or help"
    )
    assert code == 0, printed
