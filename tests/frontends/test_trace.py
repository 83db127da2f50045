"""Named Python functions to programs, and what goes wrong on the way."""

import subprocess
import sys
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxprtool as jt
from jaxprtool.driver.trace import choose_frontend, trace
from jaxprtool.driver.words.static import parse_static

FUNCTIONS = """
import jax
import jax.numpy as jnp
import numpy as np
from jaxprtool import lax

def with_jax(p, x, scale=1.0, flip=False):
    y = jnp.tanh(x @ p["w"] + p["b"]) * scale
    return {"out": -y if flip else y}

@jax.jit
def jitted(x): return x * 2

def calls_jax(x): return jitted(x) + 1

def with_lax(x): return lax.sin(x)

def with_numpy(x): return np.sum(np.sin(x) ** 2)

def looks(x):
    total = x.sum()
    if total > 0:
        return x
    return -x

def looks_with_jax(x):
    if jnp.sum(x) > 0:
        return x

def fails(x):
    y = x + 1
    return y.no_such_thing

def with_indices(x): return np.fft.fft(x)

class Model:
    @staticmethod
    def apply(x): return np.cos(x)

checkpointed = jax.checkpoint(lambda x: jnp.sin(x))

def leaves(x): raise SystemExit(3)

number = 3
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "user_functions.py").write_text(FUNCTIONS)
    return str(folder / "user_functions.py")


def names(program):
    return [e.primitive.name for e in program.eqns]


def test_jax_function_with_pytrees_and_static_arguments(target):
    program = trace(
        f"{target}:with_jax",
        ['{"w": f32[3,4], "b": f32[4]}', "f32[2,3]"],
        static={"scale": 2.0, "flip": True},
    )
    assert [str(a) for a in program.jaxpr.in_avals] == ["f32[4]", "f32[3,4]", "f32[2,3]"]
    assert names(program)[-3:] == ["tanh", "mul", "neg"]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("calls_jax", ["jit", "add"]),
        ("with_lax", ["sin"]),
        ("with_numpy", ["sin", "square", "reduce_sum"]),
        ("Model.apply", ["cos"]),
    ],
)
def test_front_end_is_chosen(target, name, want):
    assert names(trace(f"{target}:{name}", ["f32[3]"])) == want


@pytest.mark.parametrize("name", ["jitted", "checkpointed"])
def test_no_line_of_ours_is_the_origin_of_an_equation(target, name):
    """That of the call of a jitted function is ours; it differs from machine to machine, and says nothing to a user."""
    text = str(trace(f"{target}:{name}", ["f32[3]"], source_root="/"))
    assert "user_functions.py" in text and "backends" not in text


def test_a_function_that_ends_the_process(target):
    with pytest.raises(jt.UsageError, match="tracing leaves raised SystemExit: 3"):
        trace(f"{target}:leaves", ["f32[3]"])


def test_callable():
    assert names(trace(lambda x: x * x, [jt.ShapedArray((), "float64")])) == ["mul"]


@pytest.mark.parametrize(("x64", "want"), [(None, "f64[3]"), (True, "f64[3]")])
def test_64_bits(target, x64, want):
    program = trace(f"{target}:calls_jax", ["f64[3]"], x64=x64)
    assert str(program.out_avals[0]) == want


def test_64_bits_off(target):
    with pytest.raises(jt.UsageError, match="64-bit"):
        trace(f"{target}:calls_jax", ["f64[3]"], x64=False)


def test_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_module_of_today.py").write_text("def f(x): return x + x\n")
    monkeypatch.chdir(tmp_path)
    assert names(trace("my_module_of_today:f", ["i32[]"])) == ["add"]


def test_jax_is_not_imported_for_numpy(tmp_path):
    (tmp_path / "plain.py").write_text("import numpy as np\ndef f(x): return np.sin(x) @ x\n")
    code = (
        "import sys; from jaxprtool.driver.trace import trace;"
        "p = trace('plain.py:f', ['f32[3]']); assert len(p.eqns) == 2; assert 'jax' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "shapes", "code", "message"),
    [
        ("missing", [], "no-such-function", "has no function missing"),
        ("number", [], "not-a-function", "no function but a int"),
        ("with_lax", [], "argument-count", "cannot take 0 arguments"),
        ("with_lax", ["f32[3]", "f32[3]"], "argument-count", "cannot take 2 arguments"),
        ("with_lax", ["f32[3"], "bad-shape", "']' was expected"),
        ("with_indices", ["f32[3]"], "numpy-function", "numpy.fft.fft has no counterpart"),
    ],
)
def test_refuses(target, name, shapes, code, message):
    with pytest.raises(jt.JaxprToolError) as e:
        trace(f"{target}:{name}", shapes)
    diagnostic = e.value.diagnostics[0]
    assert (diagnostic.code, message in diagnostic.message) == (code, True), diagnostic


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("looks", 22, "depends on argument x of looks"),
        ("looks_with_jax", 27, "TracerBoolConversionError"),
        ("fails", 32, "AttributeError: 'JaxprTracer' object has no attribute 'no_such_thing'"),
    ],
)
def test_errors_in_the_function_have_its_line(target, name, line, message):
    frontend = "auto" if name.endswith("jax") else "numpy"
    with pytest.raises(jt.JaxprToolError) as e:
        trace(f"{target}:{name}", ["f32[3]"], frontend=frontend)
    diagnostic = e.value.diagnostics[0]
    assert message in diagnostic.message
    assert str(diagnostic.span).rsplit(":", 2)[1] == str(line)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("nowhere.py:f", "no-such-file"),
        ("no_such_module_at_all:f", "no-such-module"),
        ("no_such_package.module:f", "no-such-module"),
        ("numbers", "bad-target"),
        (":f", "bad-target"),
        ("math:", "bad-target"),
    ],
)
def test_missing_targets(target, code):
    with pytest.raises(jt.UsageError) as e:
        trace(target, [])
    assert e.value.diagnostics[0].code == code


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\ndef f(x:\n", 2, "SyntaxError"),
        ("import no_such_thing\n", 1, "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("raise SystemExit(3)\n", 1, "SystemExit: 3"),
    ],
)
def test_modules_that_fail(tmp_path, text, line, message):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(jt.UsageError) as e:
        trace(str(tmp_path / "broken.py") + ":f", [])
    diagnostic = e.value.diagnostics[0]
    assert message in diagnostic.message
    assert str(diagnostic.span).rsplit(":", 2)[1] == str(line)


def test_no_such_front_end():
    with pytest.raises(jt.UsageError, match="no front end 'torch'"):
        trace(lambda x: x, ["f32[]"], frontend="torch")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("n=3", ("n", 3)),
        ("a=1.5", ("a", 1.5)),
        ("flag=true", ("flag", True)),
        ("flag=False", ("flag", False)),
        ("axis=(0, 1)", ("axis", (0, 1))),
        ("mode='same'", ("mode", "same")),
        ("mode=same", ("mode", "same")),
        ("nothing=None", ("nothing", None)),
    ],
)
def test_static(text, want):
    assert parse_static(text) == want


@pytest.mark.parametrize("text", ["n", "=3", "1n=3"])
def test_static_refuses(text):
    with pytest.raises(jt.UsageError, match="name=value"):
        parse_static(text)


def smooth(x):
    import jax

    for _ in range(6):
        x = jax.nn.relu(jax.nn.silu(x)) + jax.scipy.special.logsumexp(x)
    return x


def test_equal_rules_are_written_once():
    once = jt.format_jaxpr(trace(smooth, ["f32[3]"], frontend="jax", verify=True), lossless=True)
    again = jt.parse(once)
    assert len({id(e.params["call_jaxpr"]) for e in again.eqns if "call_jaxpr" in e.params}) <= 2
    assert once.count("custom_jvp_call[") < 12


def test_rules_can_be_left_out():
    with_rules = trace(smooth, ["f32[3]"], frontend="jax")
    without = trace(smooth, ["f32[3]"], frontend="jax", rules=False)
    for program, kept in ((with_rules, True), (without, False)):
        calls = [e for e in program.eqns if e.primitive.name == "custom_jvp_call"]
        assert calls and all((e.params["jvp_jaxpr"] is not None) == kept for e in calls)
    sizes = [len(jt.format_jaxpr(p, lossless=True)) for p in (with_rules, without)]
    assert sizes[1] < sizes[0]


_lazy: Any = None


class _Unready:
    """What a library keeps in the place of an object that it makes later."""

    def __getattr__(self, name: str) -> None:
        raise RuntimeError(f"{name} is asked for too early")


class _Compiled:
    """What compilers of Python make: it says that it has code, and is no function of Python's."""

    __code__ = (lambda x: x).__code__
    __module__ = property(lambda self: "compiled")  # pyright: ignore


def test_a_module_whose_attributes_cannot_be_had(monkeypatch):
    """Modules that import when an attribute is read fail with any error; to say what a function uses, they are left out."""
    lazy = ModuleType("lazy")

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named 'networkx', which {name} takes")

    monkeypatch.setattr(lazy, "__getattr__", missing, raising=False)
    unready, compiled = _Unready(), _Compiled()

    monkeypatch.setitem(globals(), "_lazy", lazy)

    def f(x: Any) -> Any:
        return _lazy.graph(x, unready, compiled) if x.ndim > 3 else jnp.sin(x)

    assert [eqn.primitive.name for eqn in trace(f, ["f32[3]"]).eqns] == ["sin"]


def double(x):
    return x * 2


@pytest.mark.parametrize("name", ["grad", "vmap", "jit", "checkpoint"])
def test_the_front_end_of_a_transformed_function_is_the_library_that_transforms(name):
    """Although the function has the name and module of the user's."""
    for library, frontend in ((jt, "lax"), (jax, "jax")):
        made = getattr(library, name)(double)
        assert made.__module__ == __name__
        assert choose_frontend(made, about_jax=False) == frontend
    assert choose_frontend(double, about_jax=False) == "numpy"
