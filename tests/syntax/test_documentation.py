"""The jaxprs that JAX's documentation showed from 2021 to 2024, through every verb.

The texts in `documentation/` are what releases of those years print: literals without a type, `linear` of `cond` and
`scan`, `pjit`, `xla_call` and `xla_pmap`. Values and derivatives are those of the same functions in the installed JAX.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.driver.diff import diff
from tests.invoke import VERBS, invoke

FOLDER = Path(__file__).parent / "documentation"
F32, I32 = np.float32, np.int32
EIGHT, SIXTEEN = np.linspace(-1, 1, 8, dtype=F32), np.linspace(0, 2, 16, dtype=F32)


def total(first, second):
    return jnp.sum(first + jnp.sin(second) * 3.0)


def one_of_three(index, x):
    return lax.switch(index, [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x + 3.0], x)


def one_of_two(x):
    return lax.cond(x >= 0.0, lambda x: x + 3.0, lambda x: x - 3.0, x)


def with_a_constant(x, y, z):
    return lax.cond(x >= 0.0, lambda y, z: y, lambda y, z: jnp.array([1]) + z, y, z)


def counted(x, n):
    ones = jnp.ones(x.shape)
    return lax.fori_loop(0, n, lambda i, carry: carry + ones * 3.0 + x, x + ones)


def running(xs, extra):
    def step(carry, pair):
        return carry + pair[0] * pair[1] + extra, carry

    return lax.scan(step, 0.0, (xs, jnp.ones(xs.shape)))


def nested(x):
    @jax.jit
    def inner(y):
        return y + x * jnp.ones(1)

    return x + inner(x - 2.0)


def mapped(xs, extra):
    return jax.pmap(lambda x: (x + extra + jnp.ones(1)) / lax.psum(x, "rows"), "rows")(xs)


class Page(NamedTuple):
    """A text of the documentation: the same function, its arguments, and its constants."""

    function: Callable[..., Any]
    args: list[Any]
    consts: tuple[Any, ...] = ()
    same: bool = True  # whether the installed JAX traces the same equations


PAGES = {
    "sum": Page(total, [EIGHT, EIGHT * 2]),
    "switch": Page(one_of_three, [I32(1), F32(5.0)]),
    "cond": Page(one_of_two, [F32(-5.0)]),
    "cond_constant": Page(
        with_a_constant, [F32(-5.0), np.ones(1, F32), F32(2.0)], (np.ones(1, I32),), same=False
    ),
    "while": Page(counted, [SIXTEEN, I32(5)]),
    "scan": Page(running, [SIXTEEN, F32(5.0)]),
    "pjit": Page(nested, [F32(1.5)]),
    "xla_call": Page(nested, [F32(1.5)], same=False),
    "pmap": Page(mapped, [np.full((1, 3), 2.0, F32), F32(5.0)], same=False),
}
NOT_THESE = {
    "trace",
    "fuzz",
    "transpose",
    "snapshot",
    "git-setup",
    "explain",
}  # they take no file, or a linear program


@pytest.fixture(params=PAGES)
def page(request):
    """(page, path of its text, the program)."""
    path = FOLDER / f"{request.param}.jaxpr"
    return PAGES[request.param], path, jt.parse(path.read_text(), str(path))


def run(argv: str, stdin: str = "") -> str:
    done = invoke(argv, stdin)
    assert done.status == 0, done.error
    return done.output


def differentiable(args: list[Any]) -> list[int]:
    return [i for i, x in enumerate(args) if np.asarray(x).dtype == F32]


def values(text: str, args: list[Any], folder: Path, *options: str) -> list[np.ndarray]:
    """What `run --json` gives for a text."""
    np.savez(folder / "args.npz", *args)
    done = run(f"run --json {' '.join(options)} --args {folder / 'args.npz'}", text)
    dtypes = {"f32": F32, "i32": I32}
    return [
        np.array(o["data"], dtypes[o["dtype"]]).reshape(o["shape"])
        for o in json.loads(done)["outs"]
    ]


def close(got: Any, want: Any) -> None:
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert np.asarray(a).shape == np.asarray(b).shape
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def by_the_floats(page: Page) -> tuple[Callable[..., Any], list[Any]]:
    """The function of the floating arguments alone, and those."""
    places = differentiable(page.args)

    def function(*floats):
        args = list(page.args)
        for i, x in zip(places, floats, strict=True):
            args[i] = x
        return page.function(*args)

    return function, [page.args[i] for i in places]


def test_check_fmt_and_diff(page):
    _, path, _ = page
    assert " -> " in run(f"check {path}")
    text = run(f"fmt {path}")
    assert run("fmt --check -", text) == ""
    assert run(f"diff {path} -", text) == ""
    upgraded = run(f"upgrade {path}")
    for old in ("linear", "xla_call"):
        assert old not in upgraded


PROMPT = ">>> def f(x):\n...   return lax.cond(x)\n...\n>>> print(make_jaxpr(f)(5.))\n"


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def test_as_it_is_pasted_from_a_document(page):
    """Indented, with what was typed before, in a fenced block, with remarks."""
    _, path, program = page
    text = path.read_text()
    remarks = "".join(
        f"{line}  # line {i}\n"
        if " = " in line and "[" not in line.partition(" = ")[2]
        else line + "\n"
        for i, line in enumerate(text.splitlines())
    )
    for pasted in (
        *(indented(text, by) for by in (1, 4, 7)),
        text.replace("\n", "  \n"),
        PROMPT + text,
        indented(PROMPT + text, 2),
        f"```\n{text}```\n",
        f"```python\n{PROMPT}{text}```",
        remarks,
    ):
        read = jt.parse(pasted)
        assert same_program(read, program)
        assert same_program(jt.parse(jt.format_jaxpr(read, lossless=True)), program)
    assert "# >>> print(make_jaxpr(f)(5.))\n" in run("fmt -", PROMPT + text)


def without_types(text: str) -> str:
    """The text under `print_shapes=False`, but for the arguments of the program."""
    head, let, body = text.partition(". let")
    return head + let + re.sub(r"\b([a-z_]+):\w+\[[\d,]*\]", r"\1", body)


@pytest.mark.filterwarnings("ignore::jaxprtool.syntax.infer.UntypedWarning")
def test_without_the_types_of_binders(page):
    _, path, program = page
    text = without_types(path.read_text())
    assert ":" not in text.partition(". let")[2]
    assert same_program(jt.parse(text), program)


def test_values(page, tmp_path):
    case, path, _ = page
    want = case.function(*case.args)
    args = [*case.consts, *case.args]
    close(values(path.read_text(), args, tmp_path), want)
    close(values(path.read_text(), args, tmp_path, "--jit"), want)


@pytest.mark.parametrize("name", [n for n in PAGES if PAGES[n].same])
def test_the_same_function_traced_today(name):
    case, program = PAGES[name], jt.parse((FOLDER / f"{name}.jaxpr").read_text())
    args = [x if x.shape else x.item() for x in case.args]  # scalars of Python's, as in the page
    traced = jax.make_jaxpr(case.function)(*args)
    found = diff({"": program}, {"": jt.from_jax(traced)}, "page", "traced")
    assert found.equal, found


def test_jvp(page, tmp_path):
    case, path, _ = page
    function, floats = by_the_floats(case)
    wrt = ",".join(str(i) for i in differentiable(case.args))
    text = run(f"jvp --wrt {wrt} {path}")
    tangents = [np.full_like(x, 0.5) for x in floats]
    got = values(text, [*case.consts, *case.args, *tangents], tmp_path)
    close(got, jax.jvp(function, floats, tangents))


def test_linearize(page, tmp_path):
    case, path, _ = page
    function, floats = by_the_floats(case)
    wrt = ",".join(str(i) for i in differentiable(case.args))
    tangents = [np.full_like(x, 0.5) for x in floats]
    np.savez(tmp_path / "point.npz", *case.consts, *case.args)
    linear = run(f"linearize --wrt {wrt} {path} --args {tmp_path / 'point.npz'}")
    close(values(linear, tangents, tmp_path), jax.jvp(function, floats, tangents)[1])


def test_gradients(page, tmp_path):
    """`grad` where there is one result, a scalar; else `vjp` with cotangents of ones."""
    case, path, _ = page
    if path.stem == "while":
        assert "while" in invoke(f"vjp --wrt 0 {path}").error  # as in JAX: its length is not known
        return
    function, floats = by_the_floats(case)
    outs, pull = jax.vjp(function, *floats)
    cotangents = [np.ones_like(x) for x in jax.tree.leaves(outs)]
    wrt = ",".join(str(i) for i in differentiable(case.args))
    args, text = case.args, run(f"vjp --no-value --wrt {wrt} {path}")
    if jt.parse(text).jaxpr.const_binders:
        args = [*case.consts, *args]
    want = pull(jax.tree.unflatten(jax.tree.structure(outs), cotangents))
    close(values(text, [*args, *cotangents], tmp_path), want)
    if len(cotangents) == 1 and not cotangents[0].shape:
        close(values(run(f"grad --wrt {wrt} {path}"), args, tmp_path), want)


def test_vmap(page, tmp_path):
    case, path, _ = page
    if path.stem == "pmap":
        assert run(f"vmap --axis-size 2 {path}")
        return
    several = [np.stack([x, x * 2, x * 0 + 1]).astype(x.dtype) for x in map(np.asarray, case.args)]
    text = run(f"vmap --axis-size 3 {path}")
    close(values(text, [*case.consts, *several], tmp_path), jax.vmap(case.function)(*several))


def test_lower_and_compile(page, tmp_path):
    case, path, _ = page
    assert run(f"lower {path}").startswith("module")
    artifact = tmp_path / "program.bin"
    run(f"compile -q {path} -o {artifact}")
    np.savez(tmp_path / "args.npz", *case.consts, *case.args)
    assert run(f"run {artifact} --args {tmp_path / 'args.npz'}") == run(
        f"run --jit {path} --args {tmp_path / 'args.npz'}"
    )


@pytest.mark.parametrize("verb", sorted(set(VERBS) - NOT_THESE))
def test_no_verb_fails(verb, page, tmp_path):
    """A result, or a diagnostic at a place in the file."""
    _, path, _ = page
    argv = {
        "run": f"run {path} --args ones",
        "compile": f"compile -q {path} -o {tmp_path / 'out'}",
        "diff": f"diff {path} {path}",
        "triage": f"triage {path} {path}",
        "compare": f"compare {path} {path} --args ones",
        "equiv": f"equiv {path} {path}",
        "gradcheck": f"gradcheck {path} --args ones",
        "blame": f"blame {path} --args ones",
        "bench": f"bench --seconds 0 {path}",
        "profile": f"profile --seconds 0 {path}",
        "reduce": f"reduce --slow 0 {path} --args ones",
        "precision": f"precision {path} --args ones",
        "repro": f"repro {path} -- check",
        "partial-eval": f"partial-eval --known 0 {path}",
        "assert": f"assert {path} peak<=1TiB",
        "grep": f"grep _ {path}",
    }.get(verb, f"{verb} {path}")
    done = invoke(argv)
    assert done.status == 0 or (done.status in (1, 2) and done.error.startswith(f"{path}:"))
