"""The families of `ops` are imported when one of their names is asked for, and only then."""

import re
import subprocess
import sys

import pytest

from jaxprtool import ops
from jaxprtool.core.primitive import find_primitive, known_primitive, vocabulary
from jaxprtool.ops.__main__ import FAMILIES_PATH, families_text
from jaxprtool.ops.families import FAMILIES

LOADED = "[m[14:] for m in sys.modules if m.startswith('jaxprtool.ops.') and m != 'jaxprtool.ops.families']"


def loaded_after(code: str) -> set[str]:
    """The families that a new process has imported after some statements."""
    script = f"import sys, jaxprtool\nfrom jaxprtool import ops\n{code}\nprint(*{LOADED})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {*done.stdout.split()}


def test_the_table_is_what_the_families_declare() -> None:
    assert FAMILIES_PATH.read_text(encoding="utf-8") == families_text(), (
        "run python -m jaxprtool.ops"
    )


@pytest.mark.parametrize(
    ("code", "families"),
    [
        ("pass", set()),
        ("ops.sin", {"trigonometric"}),
        ("ops.qr", {"linalg", "linalg.qr"}),
        ("from jaxprtool.core.primitive import find_primitive; find_primitive('and')", {"bitwise"}),
        (
            "from jaxprtool.syntax.parse import parse; parse('{ lambda ; a:f32[]. let b:f32[] = exp a in (b,) }')",
            {"exponential"},
        ),
    ],
)
def test_a_name_costs_its_family(code: str, families: set[str]) -> None:
    others = {"parallel"}  # which reading a program needs
    assert loaded_after(code) - others == families - others


@pytest.mark.parametrize("order", ["from jaxprtool.ops.fft import fft", "import jaxprtool.ops.fft"])
def test_a_family_does_not_hide_its_function(order: str) -> None:
    """The family `fft` and the binding function in it have one name in the package: that of the function."""
    code = (
        f"{order}\nassert ops.fft.primitive.name == 'fft'\nfrom jaxprtool.ops import fft as again"
    )
    assert "fft" in loaded_after(code + "\nassert again is ops.fft")


def test_a_family_without_such_a_function_is_a_module() -> None:
    assert ops.trigonometric.__name__ == "jaxprtool.ops.trigonometric"


def test_names_that_no_family_has() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sine'"):
        ops.sine  # type: ignore[attr-defined]
    assert known_primitive("sine") is None
    assert not find_primitive("sine").known
    assert "sine" not in vocabulary()


def test_the_vocabulary_has_every_primitive_of_the_table() -> None:
    printed = {n for names in FAMILIES.values() for n in names.split()}
    ours = {n for n, p in vocabulary().items() if p.stub.__module__.startswith("jaxprtool.ops.")}
    assert ours <= printed
    assert len(ours) > 250


def test_a_name_of_a_family_that_is_not_loaded_is_taken() -> None:
    code = (
        "try:\n    jaxprtool.primitive(lambda x: None, name='qr')\n"
        "except ValueError as e:\n    assert 'declared already' in str(e)\n"
        "else:\n    raise SystemExit('declared twice')"
    )
    assert "linalg.qr" in loaded_after(code)


def test_threads_find_the_whole_vocabulary() -> None:
    """A thread that asks while another one imports the families waits for them."""
    code = (
        "import threading; from jaxprtool.core.primitive import known_primitive, vocabulary\n"
        "found, start = [], threading.Barrier(8)\n"
        "def ask(i):\n"
        "    start.wait()\n"
        "    if i % 2: known_primitive('none_such')\n"
        "    found.append(len([*vocabulary()]))\n"
        "threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "assert found == [len(vocabulary())] * 8, found"
    )
    assert "unary" in loaded_after(code)


@pytest.mark.parametrize("find", ["find_primitive", "declared_primitive", "known_primitive"])
def test_a_plug_in_that_nobody_named_does_not_hide_a_family(find: str) -> None:
    """Also where the family is not loaded yet."""
    code = (
        f"from jaxprtool.core.primitive import {find}, loading_plugin\n"
        "from jaxprtool.core.primitive import primitive\n"
        "with loading_plugin(): primitive(lambda x: None, name='qr')\n"
        f"assert {find}('qr').stub.__module__ == 'jaxprtool.ops.linalg.qr'"
    )
    assert "linalg.qr" in loaded_after(code)


def test_type_checkers_see_every_family() -> None:
    """They read imports that do not run."""
    text = (FAMILIES_PATH.parent / "__init__.py").read_text(encoding="utf-8")
    seen = re.findall(r"^    from jaxprtool\.ops\.([\w.]+) import \*$", text, re.MULTILINE)
    assert seen == [*FAMILIES]


def test_a_family_that_a_plug_in_needs_is_no_part_of_it() -> None:
    code = (
        "from jaxprtool.core.primitive import known_primitive, loading_plugin\n"
        "with loading_plugin(): ops.qr\n"
        "qr = known_primitive('qr')\n"
        "assert qr is ops.qr.primitive and qr.library == ''"
    )
    assert "linalg.qr" in loaded_after(code)
