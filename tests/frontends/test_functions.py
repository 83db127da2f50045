"""Functions in the place of programs: on the command line, and in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.trace import trace
from jaxprtool.driver.user_code.loading import is_function
from tests.invoke import VERBS, invoke

TRAIN = """
import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    pos: jax.Array
    vel: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Params:
    w: jax.Array
    b: jax.Array
    kind: str = dataclasses.field(metadata=dict(static=True), default="tanh")


class Unregistered:
    def __init__(self, w):
        self.w = w


class Refuses:
    def __init__(self, n):
        raise ValueError("on purpose")


def loss(params, x):
    return jnp.sum(getattr(jnp, params.kind)(x @ params.w + params.b))


def energy(state, scale=1.0):
    return scale * (jnp.sum(state.vel**2) + jnp.sum(state.pos))


def example_args():
    return Params(jnp.ones((3, 4)), jnp.zeros(4)), jnp.ones((5, 3))


params = Params(jnp.ones((3, 4)), jnp.zeros(4))
x = np.ones((5, 3), np.float32)


def draw(key, x):
    return x + jax.random.normal(key, x.shape)


def draw_args():
    return jax.random.key(0), jnp.ones(3)


def apply(f, x):
    return f(x)


apply_args = (jnp.sin, x)


def unregistered(u):
    return u.w


def fails():
    raise KeyError("on purpose")


def branches(x):
    return x if x > 0 else -x


def counts(x, n):
    return x * sum(range(n))


@partial(jax.jit, static_argnums=1)
def times(x, n):
    return x * n


def indexes(x, i):
    return [1, 2, 3][i] * x


def masks(x):
    return x[x > 0]


def to_numpy(x):
    return np.sin(np.asarray(x))


def linear(x, y):
    return 2 * y


def between(x, n, y):
    return y * (x if n > 3 else -x)


jitted = jax.jit(between, static_argnames="n")


class Model:
    @staticmethod
    def apply(x):
        return jnp.sin(x)

    def __call__(self, x):
        return jnp.cos(x)


model = Model()


def cell(x):
    return x * 2.0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


LIKE = "train.py:loss --like example_args"


# Verbs that take two programs or none, and those whose answer names the file.
NOT_ALONE = {
    "assert",
    "bench",
    "grep",
    "profile",
    "trace",
    "diff",
    "compare",
    "compile",
    "cost",
    "equiv",
    "explain",
    "fuzz",
    "git-setup",
    "hash",
    "precision",
    "reduce",
    "repro",
    "residuals",
    "retraces",
    "snapshot",
    "stats",
    "triage",
}


@pytest.mark.parametrize("verb", sorted(set(VERBS) - NOT_ALONE))
def test_every_verb_takes_a_function(folder: Path, verb: str) -> None:
    shapes = "train.py:linear --shape f32[3] --shape f32[3]"
    options = {
        "transpose": ("--linear 1", shapes),
        "partial-eval": ("--known 0", LIKE),
        "run": ("--args random:0", LIKE),
        "gradcheck": ("--args random:0", LIKE),
        "blame": ("--args random:0", LIKE),
        "vmap": ("--axis-size 2", LIKE),
    }
    own, how = options.get(verb, ("", LIKE))
    direct = invoke(f"{verb} {how} {own}")
    assert direct.status == 0 and not direct.error, direct.error
    assert direct.output == invoke(f"{verb} {own}", invoke(f"trace {how}").output).output


def test_an_archive_of_a_function(folder: Path) -> None:
    made = invoke(f"repro {LIKE} --args random:0 -o bug.zip -- run")
    assert made.status == 0 and "jaxprtool run program.jaxpr" in made.output, made.error
    assert invoke("repro bug.zip").output.startswith("still happens")


def test_diff_of_two_functions_and_of_a_function_and_a_file(folder: Path) -> None:
    assert invoke("diff train.py:loss train.py:loss --like example_args").status == 0
    (folder / "kept.jaxpr").write_text(invoke(f"trace {LIKE}").output)
    assert invoke("diff kept.jaxpr train.py:loss --like example_args").status == 0
    done = invoke("diff train.py:branches train.py:cell --shape f32[] --frontend jax")
    assert done.status == 2 and "TracerBoolConversionError" in done.error
    assert invoke("diff train.py:cell train.py:draw --like draw_args").status == 2


def test_compare_of_two_functions_and_of_a_function_and_a_file(folder: Path) -> None:
    both = "train.py:loss train.py:loss --like example_args --args random:0"
    assert invoke(f"compare {both}").status == 0
    (folder / "kept.jaxpr").write_text(invoke(f"trace {LIKE}").output)
    done = invoke("compare kept.jaxpr train.py:loss --like example_args --args random:0")
    assert done.status == 0, done.error


def test_what_traces_a_function_does_not_depend_on_what_was_loaded_before(folder: Path) -> None:
    """A function that names nothing of JAX's, in a module that does, twice in one process."""
    (folder / "plain.py").write_text("import jax.numpy as jnp\ndef matvec(m, x): return m @ x\n")
    (folder / "brings.py").write_text("import plain\ndef matvec(m, x): return m @ x\n")
    shapes = ["--shape", "f32[2,3]", "--shape", "f32[3]"]
    for pair in ("plain.py:matvec plain.py:matvec", "brings.py:matvec plain.py:matvec"):
        done = subprocess.run(
            [sys.executable, "-m", "jaxprtool", "diff", *pair.split(), *shapes],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done
    assert "preferred_element_type" in invoke(["trace", "plain.py:matvec", *shapes]).output


def test_a_file_of_the_same_spelling_wins(folder: Path) -> None:
    assert is_function("train.py:loss") and is_function("pkg.mod:f") and is_function("a/b.py:C.f")
    assert not any(map(is_function, ("-", "loss.jaxpr", "a.jaxpr#b", "train.py", "C:\\x.jaxpr")))
    (folder / "train.py:loss").write_text("{ lambda ; a:i32[7]. let in (a,) }")
    assert invoke("check train.py:loss").output == "(i32[7]) -> (i32[7])\n"


@pytest.mark.parametrize(
    ("line", "types"),
    [
        (
            "energy --shape 'State(pos=f32[3], vel=f32[3])'",
            "(state=State(pos=f32[3], vel=f32[3])) -> f32[]",
        ),
        (
            "energy --shape 'State(f32[3], f32[3],)'",
            "(state=State(pos=f32[3], vel=f32[3])) -> f32[]",
        ),
        (
            "loss --shape 'Params(f32[3,4], f32[4], kind=\"sin\")' --shape f32[5,3]",
            "(params=Params(w=f32[3,4], b=f32[4]), x=f32[5,3]) -> f32[]",
        ),
        (
            "loss --like params --like x",
            "(params=Params(w=f32[3,4], b=f32[4]), x=f32[5,3]) -> f32[]",
        ),
        (
            "loss --like train.py:params --shape f32[2,3]",
            "(params=Params(w=f32[3,4], b=f32[4]), x=f32[2,3]) -> f32[]",
        ),
        ("draw --like draw_args", "(key=key<fry>[], x=f32[3]) -> f32[3]"),
        ("apply --like apply_args", "(f=None, x=f32[5,3]) -> f32[5,3]"),
        ("counts --shape f32[] --static n=4", "(x=f32[]) -> f32[]"),
        ("cell --shape c64[]", "(x=c64[]) -> c64[]"),
        ("between --shape f32[] --shape f32[3] --static n=4", "(x=f32[], y=f32[3]) -> f32[3]"),
        ("jitted --shape f32[] --shape f32[3] --static n=4", "(x=f32[], y=f32[3]) -> f32[3]"),
        ("Model.apply --shape f32[2]", "(x=f32[2]) -> f32[2]"),
        ("model.apply --shape f32[2]", "(x=f32[2]) -> f32[2]"),
        ("model --shape f32[2]", "(x=f32[2]) -> f32[2]"),
    ],
)
def test_pytrees(folder: Path, line: str, types: str) -> None:
    done = invoke(f"check train.py:{line}")
    assert (done.output, done.error) == (types + "\n", "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("loss --like nothing", "train.py has no value nothing"),
        ("loss --like exmaple_args", "did you mean example_args"),
        ("loss --like fails", "--like fails raised KeyError"),
        ("loss --like other.py:args", "there is no file other.py"),
        ("between --shape f32[] --static n=4", "cannot take 1 argument"),
        ("between --shape f32[] --static m=4", "between(x, n, y) has no such parameter"),
        ("loss --like example_args --static param=1", "did you mean params?"),
        ("loss", "loss(params, x) cannot take 0 arguments"),
        ("loss --like params", "cannot take 1 argument: missing"),
        ("energy --shape 'Stat(pos=f32[3])'", "there is no class Stat"),
        ("energy --shape 'jnp.sin(f32[3])'", "there is no class jnp.sin"),
        ("energy --shape 'State(pos=f32[3])'", "State cannot be made"),
        ("energy --shape 'State(pos=f32[3], pos=f32[3])'", "the field pos occurs twice"),
        ("energy --shape 'State(pos=f32[3] vel=f32[3])'", "',' or ')' was expected"),
        ("energy --shape 'State(pos=f32[3]'", "the '(' after State is never closed"),
        ("energy --shape 'Refuses(n=3)'", "Refuses cannot be made: on purpose"),
        ("unregistered --shape 'Unregistered(w=f32[3])'", "holds arrays and is no pytree"),
        ("los --like example_args", "did you mean loss?"),
        ("draw --like draw_args --shape f64[] --no-x64", "64-bit types are off"),
        (
            "branches --shape f32[] --frontend jax",
            "--static name=value; a choice by a value is made with jax.lax",
        ),
        ("counts --shape f32[] --shape i32[] --frontend jax", "is given as --static name=value"),
        (
            "times --shape f32[] --shape i32[] --frontend jax",
            "is given as --static name=value, and",
        ),
        ("indexes --shape f32[] --shape i32[] --frontend jax", "an array is indexed by a value"),
        ("masks --shape f32[3] --frontend jax", "jax.numpy.where(mask, x, y)"),
        ("branches --shape f32[]", "--static name=value"),
        ("to_numpy --shape f32[3] --frontend jax", "jax.numpy takes the place of numpy"),
    ],
)
def test_refusals(folder: Path, line: str, message: str) -> None:
    done = invoke(f"check train.py:{line}")
    assert done.status == 2 and message in done.error, done.error
    assert "Traceback" not in done.error and "internal" not in done.error


def test_options_for_functions_are_refused_with_files(folder: Path) -> None:
    (folder / "p.jaxpr").write_text("{ lambda ; a:f32[]. let in (a,) }")
    done = invoke("check p.jaxpr --shape f32[]")
    assert done.status == 2 and "--shape is for a function, and p.jaxpr is a file" in done.error
    done = invoke("fmt -i train.py:cell --shape f32[]")
    assert done.status == 2 and "-i needs files" in done.error
    assert "did you mean train.py?" in invoke("trace trian:loss").error
    assert "did you mean train.py?" in invoke("trace trian.py:loss").error


def test_a_module_that_turns_64_bits_on_keeps_them(folder: Path) -> None:
    text = "import jax\njax.config.update('jax_enable_x64', True)\nimport jax.numpy as jnp\n"
    Path("wide.py").write_text(f"{text}f = lambda x: x * jnp.arange(3.0)\nargs = jnp.ones(3),\n")
    done = subprocess.run(
        [sys.executable, "-m", "jaxprtool", "check", "wide.py:f", "--like", "args"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
        check=False,
    )
    assert done.stdout.startswith("(x=f64[3]) -> f64[3]"), done.stderr


def names(*args: Any, **kwargs: Any) -> list[str]:
    interface = trace(*args, **kwargs).interface
    assert interface is not None
    return interface.names()


def test_names_stay_where_equal_jaxprs_become_one(folder: Path) -> None:
    Path("net.py").write_text(
        "import jax, jax.numpy as jnp\nparams = {'a': jnp.ones(3), 'b': jnp.ones(3)}\n"
        "def f(params): return jnp.sum(jax.nn.relu(jax.nn.relu(params['a']) * params['b']))\n"
    )
    assert names("net.py:f", (), like=["params"]) == ['params["a"]', 'params["b"]']
    assert invoke("grad net.py:f --like params --wrt params.b").status == 0
    done = invoke("run net.py:f --like params --args [1,2]")
    assert 'argument params["a"] is f32[3]' in done.error
    assert invoke("trace net.py:f --like params -o net.jaxpr").status == 0
    assert '(params["a"]:f32[3] params["b"]:f32[3])' in invoke("run net.jaxpr").error
    assert invoke("run net.py:f --like params").output == "f32[] 3.0\n"


def test_names_that_libraries_give(folder: Path) -> None:
    """Keys of dictionaries may hold anything: haiku's, say."""
    Path("hk.py").write_text(
        "import jax.numpy as jnp\nparams = {'mlp/~/linear_0': {'w': jnp.ones(3)}, 'b-1': jnp.ones(3)}\n"
        "def f(params): return jnp.sum(params['mlp/~/linear_0']['w'] * params['b-1'])\n"
    )
    line = "hk.py:f --like params"
    names = ["params.mlp/~/linear_0.w", "params.mlp/~/linear_0", "params.b-1", "params"]
    found = [invoke(f"grad {line} --wrt {name}") for name in names]
    assert [x.status for x in found] == [0, 0, 0, 0], found
    trees = ["*", '{"w": *}', "*", '{"b-1": *, "mlp/~/linear_0": {"w": *}}']
    assert [x.output.rpartition(" -> ")[2] for x in found] == [f"{tree}\n" for tree in trees]
    programs = [x.output.partition("args (")[0] for x in found]
    assert programs[0] == programs[1] != programs[2]
    done = invoke(f"run {line} --args params.b-1=[1,2,3] params.mlp/~/linear_0.w=[1,1,2]")
    assert done.output == "f32[] 9.0\n", done.error


def test_arguments_have_the_names_of_the_function(folder: Path) -> None:
    assert names("train.py:loss", (), like=["example_args"]) == ["params.w", "params.b", "x"]
    found = names(lambda state, x: state["a"][0] * x, ["{'a': [f32[]]}", "f32[]"])
    assert found == ['state["a"][0]', "x"]


def f(x, y):
    return jnp.sum(jnp.sin(x) * y)


X = np.ones(3, np.float32)
PROGRAM = jt.from_jax(jax.make_jaxpr(f)(X, X))


def test_python_functions_take_functions() -> None:
    assert str(jt.check(f, X, 2.0)) == "(x=f32[3], y=f32[]) -> f32[]"
    found, read = jt.check(f, X, jax.ShapeDtypeStruct((3,), "float32")), jt.check(PROGRAM)
    assert found[:2] == read[:2] and str(read) == "(f32[3], f32[3]) -> (f32[])"
    assert jt.diff(f, PROGRAM, X, X).equal and jt.diff(PROGRAM, PROGRAM).equal
    assert not jt.diff(f, lambda x, y: jnp.sum(jnp.cos(x) * y), X, X).equal
    assert str(jt.lower(f, X, X)) == str(jt.lower(PROGRAM))
    np.testing.assert_allclose(jt.compile(f, X, X)(X, X)[0], f(X, X), rtol=1e-6)
    assert jt.diff(jt.discharge(f, X, X), jt.trace(f, X, X)).equal
    assert str(jt.check(jax.make_jaxpr(f)(X, X))) == str(jt.check(PROGRAM.jaxpr))
    of_ours = jt.check(lambda x: jt.lax.sin(x), jt.ShapedArray((2,), "float32"))
    assert str(of_ours) == "(x=f32[2]) -> f32[2]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jt.check("text"), "neither a program nor a function"),
        (lambda: jt.lower(PROGRAM, X), "takes no arguments here"),
        (lambda: jt.compile(f, X), "missing a required argument"),
        (lambda: jt.diff(PROGRAM, PROGRAM, X), "both are programs"),
        (lambda: jt.trace(lambda x: x.nothing, X), "AttributeError"),
    ],
)
def test_python_refusals(call, message: str) -> None:
    with pytest.raises(jt.UsageError, match=message):
        call()


def test_repr_is_the_text() -> None:
    again = jt.from_jax(jax.make_jaxpr(f)(X, X))
    assert repr(PROGRAM) == repr(again) == str(PROGRAM) == repr(PROGRAM.jaxpr)
    assert repr(PROGRAM.eqns[1]) == "c:f32[3] = mul a b"
    assert repr(PROGRAM.jaxpr.in_binders[0]) == "_:f32[3]"


MESHED = """
import jax
from jax.sharding import AxisType, PartitionSpec


def f(x):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    split = PartitionSpec("i")
    mapped = lambda a: a * jax.lax.axis_index("i")
    return jax.shard_map(mapped, mesh=mesh, in_specs=split, out_specs=split)(x)
"""


@pytest.mark.parametrize("devices", [None, 1, 4])
def test_a_function_whose_mesh_has_several_devices(tmp_path, devices) -> None:
    path = tmp_path / "meshed.py"
    path.write_text(MESHED)
    words = [] if devices is None else ["--host-devices", str(devices)]
    command = [sys.executable, "-m", "jaxprtool", "run", f"{path}:f", "--shape", "f32[4]", *words]
    kept = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    ran = subprocess.run(
        [*command, "--args", "[1.0, 1.0, 1.0, 1.0]"], capture_output=True, text=True, env=kept
    )
    if devices == 4:
        assert (ran.returncode, ran.stdout) == (0, "f32[4] [0., 1., 2., 3.]\n")
    else:
        assert ran.returncode == 2 and "[user-exception]" in ran.stderr
        assert "help: --host-devices N gives JAX N devices" in ran.stderr


def test_host_devices_that_are_counted_already() -> None:
    counted = len(jax.devices("cpu"))
    with pytest.raises(jt.UsageError, match=f"host for {counted} devices? in this process already"):
        trace(lambda x: x, ["f32[]"], host_devices=counted + 1)
