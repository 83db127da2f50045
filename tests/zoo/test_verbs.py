"""Every program of examples/zoo through every verb; values are those of JAX for the same arguments."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.syntax.version import HEADER
from tests.invoke import VERBS, invoke
from tests.releases import IS_ORACLE, only_oracle
from tests.zoo.oracle import FOLDER, NAMES, Program, close, save


@pytest.fixture(scope="module", params=NAMES)
def program(request, tmp_path_factory, monkeypatch_module):
    found = Program(request.param)
    found.folder = tmp_path_factory.mktemp(request.param)
    found.values = save(found.folder / "args.npz", found.args)
    return found


@pytest.fixture(scope="module", autouse=True)
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(FOLDER.parent.parent)  # where the commands of the docstrings are run
        yield


def run(*argv) -> str:
    """What a command prints; it has to succeed."""
    done = invoke([str(word) for word in argv])
    assert done.status == 0, done.error
    return done.output


def results(program, source, *args, jit=False) -> list[np.ndarray]:
    """The results of `run`; values are written to a file where they are given as arrays."""
    words = [save(program.folder / "given.npz", a) if isinstance(a, list) else a for a in args]
    out = program.folder / "out.npz"
    run("run", *["--jit"] * jit, source, "-o", out, "--args", *words)
    with np.load(out) as held:
        return [held[key] for key in held.files]


def write(program, verb, *argv):
    """The file that a verb makes of the program."""
    out = program.folder / f"{verb}.jaxpr"
    run(verb, program.path, *argv, "-o", out)
    return out


@only_oracle
def test_trace_writes_the_file_that_is_kept(program):
    out = program.folder / "traced.jaxpr"
    verb, *words, option, kept = program.command
    assert (verb, option) == ("trace", "-o") and kept == str(
        program.path.relative_to(FOLDER.parent.parent)
    )
    jax.clear_caches()  # which nested jaxprs are one object, and are printed once, depends on them
    run("trace", *words, "-o", out)
    assert out.read_text() == program.path.read_text()
    assert run("diff", program.path, out) == ""


def test_check_and_fmt(program):
    assert "->" in run("check", program.path)
    assert run("fmt", "--check", program.path) == ""
    text = program.path.read_text()
    assert run("fmt", program.path) == text
    assert HEADER + jt.format_jaxpr(jt.parse(text), lossless=True) + "\n" == text


def test_run(program):
    close(results(program, program.path, program.values), program.outs)


def test_run_jit(program):
    close(results(program, program.path, program.values, jit=True), program.outs)


def test_lower_and_compile(program):
    assert "func.func public @main" in run("lower", program.path)
    artifact = program.folder / "program.xla"
    run("compile", "-q", program.path, "-o", artifact)
    close(results(program, artifact, program.values), program.outs)


def test_jvp(program):
    out = results(program, write(program, "jvp"), [*program.args, *program.tangents])
    n = len(program.outs)
    close(out[:n], program.outs)
    close(out[n:], program.tangents_out)


def test_vmap(program):
    batched = write(program, "vmap", "--in-axes", 0, "--axis-size", 2)
    close(results(program, batched, program.batch), program.batch_outs)


def test_linearize_and_transpose(program):
    parts = write(program, "linearize")
    out = results(program, f"{parts}#primal", program.values)
    n = len(program.outs)
    close(out[:n], program.outs)
    linear = f"{parts}#linear"
    close(results(program, linear, [*out[n:], *program.tangents]), program.tangents_out)
    residuals = len(out) - n
    positions = range(residuals, residuals + len(program.inexact))
    done = invoke(["transpose", "--linear", ",".join(map(str, positions)), linear])
    if program.only_forward:
        assert done.status == 2 and "reverse mode of a while loop" in done.error
        return
    assert done.status == 0, done.error
    (program.folder / "transposed.jaxpr").write_text(done.output)
    given = [*out[n:], *program.cotangents]
    close(results(program, program.folder / "transposed.jaxpr", given), program.cotangents_in)


def test_linearize_at_a_point(program):
    linear = write(program, "linearize", "--args", program.values)
    close(results(program, linear, program.tangents), program.tangents_out)


def test_partial_eval(program):
    known = range(0, len(program.args), 2)
    parts = write(program, "partial-eval", "--known", ",".join(map(str, known)))
    rest = [x for i, x in enumerate(program.args) if i not in known]
    first = results(program, f"{parts}#known", [program.args[i] for i in known])
    unknown = _depends(program, known)
    n = unknown.count(False)
    second = iter(results(program, f"{parts}#unknown", [*first[n:], *rest]))
    first = iter(first[:n])
    close([next(second if u else first) for u in unknown], program.outs)


def _depends(program, known):
    """Which results depend on arguments that are not known."""
    unknown = [i not in known for i in range(len(program.args))]
    return jt.partial_eval_jaxpr(program.ours, unknown)[2]


def test_vjp(program):
    if program.only_forward:
        done = invoke(["vjp", str(program.path)])
        assert done.status == 2 and "reverse mode of a while loop" in done.error
        return
    out = results(program, write(program, "vjp"), [*program.args, *program.cotangents])
    n = len(program.outs)
    close(out[:n], program.outs)
    close(out[n:], program.cotangents_in)


def test_grad(program):
    wrt = ",".join(map(str, program.inexact))
    if len(program.outs) == 1:
        out = write(program, "grad", "--wrt", wrt)
        gradient = results(program, out, program.values)
        scale = program.cotangents[0]
        close([g * scale for g in gradient], program.cotangents_in)
    else:
        done = invoke(["grad", str(program.path), "--wrt", wrt])
        assert done.status == 2 and "[grad-output]" in done.error


def test_discharge(program):
    """There are no references in it: it stays as it is."""
    assert run("diff", program.path, write(program, "discharge")) == ""


def test_upgrade(program):
    """It is the same program in another dialect, and has the same values."""
    made = write(program, "upgrade", "--dialect", "jax-0.12")
    assert run("diff", program.path, made) == ""
    close(results(program, made, program.values), results(program, program.path, program.values))


def test_compare(program):
    """The program in another dialect has the same values, equation by equation."""
    made = write(program, "upgrade", "--dialect", "jax-0.12")
    assert run("compare", program.path, made, "--args", program.values, "--first").endswith(
        "equal\n"
    )


def test_verbs_that_look_for_faults(program):
    """blame finds where the NaNs of a result begin, if there are any; a program is itself."""
    bad = any(np.isnan(x).any() or np.isinf(x).any() for x in program.outs if x.dtype.kind == "f")
    done = invoke(["blame", str(program.path), "--args", str(program.values)])
    assert done.status in (0, 1) and (done.status == 1 or not bad), done.error
    assert run("equiv", program.path, program.path, "--prove").startswith("proved")
    for verb in ("precision", "gradcheck"):
        found = invoke([verb, "--json", str(program.path), "--args", str(program.values)])
        assert found.status in (0, 1) or found.error.count("[") == 1, found.error
    small = program.folder / "small.jaxpr"
    run(
        "reduce", "--slow", "0", "--time", "20", program.path, "--args", program.values, "-o", small
    )
    assert run("check", small)
    archive = program.folder / "bug.zip"
    run("repro", program.path, "-o", archive, "--", "check")
    assert run("repro", archive).startswith("still happens")


def test_fuzz_draws_from_no_file():
    assert run("fuzz", "--seed", "1") == run("fuzz", "--seed", "1")


def test_opt(program):
    """What passes make computes the same, and other verbs take it; it has another hash."""
    made = write(program, "opt", "--passes", "inline,hoist,simplify,fold,cse,dce", "--until-fixed")
    assert run("check", made)
    assert run("hash", made).split()[0] != run("hash", program.path).split()[0]
    assert run("compare", program.path, made, "--args", program.values).endswith("equal\n")


def test_stats_and_cost(program):
    """With the turns of loops given everything is known; groups add up to the whole."""
    for by in ("primitive", "source", "scope", "shape", "dtype", "depth"):
        found = json.loads(run("stats", "--json", "--trips", 2, "--by", by, program.path))
        assert sum(g["equations"] for g in found["groups"]) == found["equations"]["written"]
    cost = json.loads(run("cost", "--json", "--trips", 2, "--device", "a100", program.path))
    assert None not in [cost["total"][k] for k in ("flops", "bytes", "peak_bytes", "seconds")]
    assert cost["total"]["flops"] <= sum(e["flops"] for e in cost["equations"])
    assert cost["total"]["reordered_peak_bytes"] <= cost["total"]["peak_bytes"]
    assert run("cost", program.path, "--by", "scope", "--chart")


def test_lint(program):
    """What passes can mend is mended, and the program computes the same."""
    made = program.folder / "mended.jaxpr"
    assert invoke(["lint", "--fix", "-o", str(made), str(program.path)]).status in (0, 1)
    found = json.loads(invoke(["lint", "--json", str(made)]).output)["findings"]
    assert not [row for row in found if row["fix"]]
    assert run("explain", *{row["code"] for row in found})
    assert run("compare", program.path, made, "--args", program.values).endswith("equal\n")


def test_residuals(program):
    """Nothing but arguments and constants is kept where all is computed again, which is written and checked."""
    out = program.folder / "again.jaxpr"
    found = json.loads(run("residuals", "--json", "--policy", "nothing", "-o", out, program.path))
    assert run("check", out)
    if not program.only_forward:
        assert found["total"]["computed_bytes"] == 0
    assert run("residuals", program.path, "--vs", "dots")


def test_assert_and_grep(program):
    """What is kept and counted is as `residuals` and `stats` have it."""
    kept = json.loads(run("residuals", "--json", "--policy", "dots", program.path))["total"]
    groups = json.loads(run("stats", "--json", program.path))["groups"]
    counts = [f"count({g['key']}) == {g['equations']}" for g in groups]
    kept = f"residuals(dots).bytes == {kept['bytes']}"
    assert run("assert", program.path, *counts, kept).endswith("are true\n")
    assert run("grep", "--count", groups[0]["key"], program.path) == f"{groups[0]['equations']}\n"


def test_snapshot(program):
    """What is traced now is what a project recorded, and what is kept here, which JAX 0.10 traced: others compute the same."""
    _, target, *words, _, _ = program.command
    options: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        options.setdefault({"--shape": "shapes"}.get(option, option[2:]), []).append(value)
    table = {"function": str(FOLDER.parent.parent / target), **options}
    said = "\n".join(f"{k} = {json.dumps(v)}" for k, v in table.items())
    head = f"[tool.jaxprtool.snapshot.programs.{program.name}]"
    project = ["--project", program.folder]
    (program.folder / "pyproject.toml").write_text(f"{head}\n{said}\n")
    run("snapshot", "update", *project)
    assert run("snapshot", "check", *project) == "1 unchanged\n"
    recorded = program.folder / "jaxprs" / f"{program.name}.jaxpr"
    found = run("compare", program.path, recorded, "--args", program.values)
    assert found.endswith("equal\n")
    if IS_ORACLE:
        shutil.copy(program.path, recorded)
        assert "1 printer only" in run("snapshot", "check", *project)


def test_bench_and_profile(program):
    """Compiled, too, every equation has a row, and the times of all rows add up to the whole."""
    for backend in ("numpy", "xla"):
        words = ["--backend", backend, "--seconds", 0, "--args", program.values]
        found = json.loads(run("profile", "--json", *words, program.path))
        written = json.loads(run("stats", "--json", program.path))["equations"]["written"]
        assert len(found["equations"]) <= written
        times = [row["seconds"] for row in (*found["equations"], *found["others"])]
        assert sum(times) == pytest.approx(found["total"]["seconds"])
    words = ["--seconds", 0, "--args", program.values]
    measured = json.loads(run("bench", "--json", *words, program.path))
    assert len(measured["programs"][0]["stages"]) == 6 and not measured["left_out"]


def test_a_jaxpr_is_a_log_of_no_cache_misses(program):
    assert run("retraces", program.path).startswith("no cache misses")


def test_triage_with_itself(program):
    assert run("triage", program.path, program.path).startswith("nothing changed\n")


def test_git_shows_it_as_it_is_laid_out(program):
    assert run("git-setup", "text", program.path) == run(
        "fmt", "--no-source", "--no-names", program.path
    )


def refused(status, code, *argv, stdin=""):
    """A command that has to end with a status and a message of this code."""
    done = invoke([str(word) for word in argv], stdin)
    assert done.status == status and f"[{code}]" in done.error, done.error


def test_what_is_refused(program):
    path, text = program.path, program.path.read_text()
    n = len(program.args)
    refused(2, "argument-count", "run", path, "--args", program.values, "1.0")
    refused(2, "argument-index", "jvp", path, "--wrt", n)
    refused(2, "not-linear", "transpose", "--linear", program.inexact[-1], path)
    main = text.index("{ lambda ;", text.rindex(" in\n{ lambda") if " in\n{ lambda" in text else 0)
    unbound = text[:main] + text[main:].replace(" in (", " in (nowhere, ", 1)
    refused(1, "unbound-variable", "check", "-", stdin=unbound)
    other = FOLDER / f"{NAMES[NAMES.index(program.name) - 1]}.jaxpr"
    assert invoke(["diff", str(path), str(other)]).status == 1


def test_these_are_all_the_verbs():
    here = Path(__file__).read_text()
    assert [verb for verb in VERBS if f'"{verb}"' not in here] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_has_a_command_for_each(name):
    text = (FOLDER / "README.md").read_text()
    assert re.findall(r"^\| `(\w+)`", text, re.MULTILINE) == NAMES
    (command,) = re.findall(
        rf"`jaxprtool (.* examples/zoo/{name}\.jaxpr.*)` \|$", text, re.MULTILINE
    )
    assert run(*shlex.split(command))
