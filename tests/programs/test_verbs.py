"""The programs of examples/, as JAX traces them, through every verb of the command line."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax.expansion import expanded
from tests.invoke import VERBS, invoke
from tests.programs.catalogue import EXAMPLES, GRADIENTS, PROGRAMS, case_of
from tests.releases import IS_ORACLE


@pytest.fixture(scope="module", params=[*PROGRAMS, *GRADIENTS])
def program(request, tmp_path_factory):
    """(case, path of its jaxpr)."""
    case = case_of(request.param)
    path = tmp_path_factory.mktemp(request.param) / "program.jaxpr"
    path.write_text(jt.format_jaxpr(expanded(case.program), lossless=True) + "\n")
    return case, path


DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


def run(argv: str, stdin: str = "") -> str:
    done = invoke(argv, stdin)
    assert done.status == 0, done.error
    return done.output


def results(path: Path, argv: str, args, stdin: str = "") -> list[np.ndarray]:
    """What `run --json` gives for these arguments."""
    npz = path.parent / "args.npz"
    np.savez(npz, *args)
    outs = json.loads(run(f"run --json {argv} --args {npz}", stdin))["outs"]
    return [np.array(o["data"], DTYPES[o["dtype"]]).reshape(o["shape"]) for o in outs]


def test_check_fmt_diff(program):
    _, path = program
    assert "->" in run(f"check {path}")
    assert run(f"fmt --check {path}") == ""
    assert run(f"diff {path} -", run(f"fmt {path}")) == ""
    made = run(f"fmt --style autodidax {path}")
    assert made.startswith(("{ lambda", "let ")) and "->" in run("check -", made)


def test_discharge(program):
    """There are no references in it: it stays as it is."""
    _, path = program
    assert run(f"diff {path} -", run(f"discharge {path}")) == ""


def test_upgrade(program):
    """It is the same program in any dialect, and there is nothing left to upgrade."""
    _, path = program
    for dialect in ("jax-0.10.2", "jax-0.12"):
        made = run(f"upgrade --dialect {dialect} {path}")
        assert run(f"diff {path} -", made) == ""
        assert run(f"upgrade --dialect {dialect} -", made) == made


def test_compare(program):
    """What `fmt` writes has the same values, equation by equation."""
    case, path = program
    (path.parent / "made.jaxpr").write_text(run(f"fmt {path}"))
    np.savez(path.parent / "args.npz", *case.args)
    made, args = path.parent / "made.jaxpr", path.parent / "args.npz"
    assert run(f"compare {path} {made} --args {args} --first").endswith("equal\n")


def test_run(program):
    """On NumPy; test_lower_and_compile runs it compiled."""
    case, path = program
    case.close(results(path, str(path), case.args), case.want)


def test_jvp_and_linearize(program):
    case, path = program
    given = [*case.args, *case.floats(case.tangents)]
    both = results(path, "-", given, run(f"jvp {path}"))
    case.close(both, [*case.want, *case.want_tangents])
    np.savez(path.parent / "point.npz", *case.args)
    linear = run(f"linearize {path} --args {path.parent / 'point.npz'}")
    tangents = case.floats(case.tangents)
    case.close(results(path, "-", tangents, linear), case.want_tangents, 10)
    if case.reverse:
        transposed = run(f"transpose --linear {','.join(map(str, range(len(tangents))))} -", linear)
        case.close(results(path, "-", case.cotangents, transposed), case.want_cotangents, 10)


def test_vjp_and_grad(program):
    case, path = program
    if not case.reverse:
        assert "no transpose rule for while" in invoke(f"vjp {path}").error
        return
    got = results(path, "-", [*case.args, *case.cotangents], run(f"vjp {path}"))
    case.close(got, [*case.want, *case.want_cotangents], 10)
    done = invoke(f"grad {path} --wrt {case.inexact[-1]}")
    if case.scalar:
        (got,) = results(path, "--jit -", case.args, done.output)
        case.close([got * case.cotangents[0]], case.want_cotangents[-1:], 10)
    else:
        assert done.status == 2 and "[grad-output]" in done.error


def test_vmap_and_partial_eval(program):
    case, path = program
    batched = run(f"vmap --in-axes 0 --axis-size 3 {path}")
    case.close(results(path, "-", case.batch, batched), case.want_batch)
    parts = run(f"partial-eval --known 0 {path}")
    assert run("check -", parts).count("->") == 2


def test_lower_and_compile(program):
    case, path = program
    artifact = path.parent / "program.xla"
    assert "func.func public @main" in run(f"lower {path}")
    run(f"compile {path} -o {artifact}")
    case.close(results(path, str(artifact), case.args), case.want)


def test_compile_prints_what_xla_made():
    assert "ENTRY" in run(f"compile {EXAMPLES / 'mlp.jaxpr'}")


def commands() -> dict[str, str]:
    """The command lines in the docstrings of examples/, by file and place."""
    found = {}
    for path in sorted(EXAMPLES.glob("*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text())) or ""
        lines = re.findall(r"^jaxprtool .*(?:\n[ ]+.*)*", doc, re.MULTILINE)
        found |= {f"{path.stem}-{i}": line for i, line in enumerate(lines)}
    return found


COMMANDS = commands()


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_commands_in_the_docstrings(line, monkeypatch, tmp_path):
    """Pipes run; a file that one writes is the one in examples/, which JAX 0.10 traced, or computes the same."""
    monkeypatch.chdir(EXAMPLES.parent)
    pipe, _, file = re.sub(r"\\\n", "", line).partition(" > ")
    output = ""
    for stage in pipe.split(" | "):
        output = run(stage.removeprefix("jaxprtool "), output)
    assert output
    if file and IS_ORACLE:
        assert output == Path(file).read_text()
    elif file:
        made = tmp_path / "made.jaxpr"
        made.write_text(output)
        run(f"check {made}")
        assert run(f"compare {file} {made} --args random:0").endswith("equal\n")


def test_every_file_has_a_command_that_makes_it():
    """That of the primitive of one's own and the smallest one are written by hand."""
    made = {line.partition(" > ")[2] for line in COMMANDS.values()}
    kept = {f"examples/{path.name}" for path in EXAMPLES.glob("*.jaxpr")}
    assert kept - made == {"examples/multiply_add.jaxpr", "examples/square.jaxpr"}


def test_a_file_is_plugin_and_source_of_a_function(monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)
    file = "examples/multiply_add.py"
    traced = run(f"trace {file}:square_add --shape f32[] --shape f32[] --plugin {file}")
    assert "multiply_add a a b" in traced


def test_verbs_that_look_for_faults(program):
    """The examples have no NaN, are themselves, and lose few digits; a fault that is always there leaves nothing."""
    case, path = program
    np.savez(path.parent / "args.npz", *case.args)
    given = f"{path} --args {path.parent / 'args.npz'}"
    assert run(f"blame --nan {given}") == "no bad value\n"
    assert run(f"equiv {path} {path} --prove").startswith("proved")
    done = invoke(f"precision --json {given}")
    if done.status == 0:
        assert all(o["max_rel"] < 1e-2 for o in json.loads(done.output)["outputs"])
    else:  # one in f64 alone
        assert "[no-wider-type]" in done.error
    small = path.parent / "small.jaxpr"
    run(f"reduce --slow 0 --time 20 {given} -o {small}")
    assert len(jt.load(small).eqns) <= len(case.program.eqns)
    run(f"run {small} --args {small}.args.npz")
    archive = path.parent / "bug.zip"
    run(f"repro {given} -o {archive} -- blame --nan")
    assert run(f"repro {archive}").startswith("still happens")


def test_random_programs_run(tmp_path):
    run(f"fuzz -n 3 -o {tmp_path}")
    for seed in range(3):
        run(f"check {tmp_path}/fuzz-{seed}.jaxpr")


def test_stats_and_cost(program):
    """Executed equations and operations are known where no loop is a while loop, or its turns are given."""
    _, path = program
    counted, cost = (
        json.loads(run(f"{verb} --json --trips 3 {path}")) for verb in ("stats", "cost")
    )
    executed = counted["equations"]["executed"]
    assert counted["equations"]["written"] == cost["total"]["equations"]
    assert executed["high"] == cost["total"]["executed"] >= executed["low"]
    assert run(f"stats {path} --vs {path}").endswith("nothing changed, by primitive\n")
    assert run(f"cost {path} --budget equations=1e9 --chart --device h100")
    done = invoke(f"cost {path} --trips 3 --budget peak=0")
    assert done.status == 1 and "over budget: peak" in done.output


def test_lint(program):
    """What passes can mend is mended."""
    _, path = program
    found = json.loads(invoke(f"lint --json {path}").output)
    assert found["schema"] == 1 and sum(found["counts"].values()) == len(found["findings"])
    made = path.parent / "mended.jaxpr"
    assert invoke(f"lint --fix -o {made} {path}").status in (0, 1)
    left = json.loads(invoke(f"lint --json {made}").output)["findings"]
    assert not [row for row in left if row["fix"]]
    assert json.loads(run("explain --json key-reuse"))["codes"][0]["family"] == "keys"


def test_residuals(program):
    """Less is kept under a limit, of a program of the same gradient; a while loop has no reverse pass."""
    case, path = program
    found = json.loads(run(f"residuals --json {path}"))
    kept = found["total"]["computed_bytes"]
    assert kept == sum(s["bytes"] for s in found["scopes"])
    small = path.parent / "small.jaxpr"
    less = json.loads(run(f"residuals --json --best {kept // 2} -o {small} {path}"))["total"]
    assert less["computed_bytes"] <= kept // 2
    if case.reverse:
        given = [*case.args, *case.cotangents]
        got = results(path, "-", given, run(f"vjp {small}"))
        case.close(got, [*case.want, *case.want_cotangents], 10)


@pytest.mark.parametrize("name", ["mlp", "attention", "deep_scan"])
def test_gradcheck(name, tmp_path):
    np.savez(tmp_path / "args.npz", *case_of(name).args)
    (tmp_path / "p.jaxpr").write_text(jt.format_jaxpr(case_of(name).program, lossless=True))
    found = json.loads(
        run(f"gradcheck --json {tmp_path / 'p.jaxpr'} --args {tmp_path / 'args.npz'}")
    )
    assert found["passed"]


def test_passes_and_hashes(program):
    """What passes make computes the same; a hash is that of the program, whatever the layout of its file."""
    case, path = program
    np.savez(path.parent / "args.npz", *case.args)
    made = path.parent / "made.jaxpr"
    run(f"opt --verify-each {path} -o {made}")
    assert run(f"compare {path} {made} --args {path.parent / 'args.npz'}").endswith("equal\n")
    digest = run(f"hash {path}").split()[0]
    assert run("hash -", run(f"fmt --no-source {path}")).split()[0] == digest


def test_assert_and_grep(program):
    """A pattern finds as many equations as there are; a figure is that of cost."""
    _, path = program
    cost = json.loads(run(f"cost --json --trips 3 {path}"))["total"]
    found = json.loads(run(f"grep --json _ {path}"))
    assert found["count"] == cost["equations"] == int(run(f"grep -c _ {path}"))
    words = [f"flops == {cost['flops']}", f"peak == {cost['peak_bytes']}", "some _ and not no _"]
    done = invoke(["assert", "--trips", "3", str(path), *words, f"count(_) == {found['count']}"])
    assert done.status == 0 and done.output.endswith("4 assertions are true\n"), done.output


def test_snapshot(tmp_path):
    """What is kept of an example has not changed where it is traced again, whichever release of JAX printed it."""
    table = f'function = "{EXAMPLES}/mlp.py:loss", like = "example_args", wrt = "params"'
    verbs = '"jvp", "linearize", "vjp", "grad"'
    text = f"[tool.jaxprtool.snapshot.programs]\nmlp = {{ {table}, verbs = [{verbs}] }}\n"
    (tmp_path / "pyproject.toml").write_text(text)
    run(f"snapshot record --project {tmp_path}")
    assert run(f"snapshot check --project {tmp_path}") == "5 unchanged\n"
    for kept in (tmp_path / "jaxprs").glob("*.jaxpr"):
        kept.write_text(run(f"fmt --dialect jax-0.8.3 {kept}"))
    found = json.loads(run(f"snapshot check --json --project {tmp_path}"))
    assert {p["kind"] for p in found["programs"]} <= {"printer only", "unchanged"}


def test_bench_and_profile(program):
    """Every equation has a row, and the times of all rows add up to the whole."""
    _, path = program
    found = json.loads(run(f"profile --json --seconds 0 {path}"))
    groups = json.loads(run(f"stats --json {path}"))["equations"]["executed"]
    assert groups["low"] <= found["total"]["equations"] <= (groups["high"] or 10**9)
    times = [row["seconds"] for row in (*found["equations"], *found["others"])]
    assert abs(sum(times) - found["total"]["seconds"]) < 1e-6 * found["total"]["seconds"]
    measured = json.loads(run(f"bench --json --seconds 0 --backends numpy {path}"))
    assert [s["stage"] for s in measured["programs"][0]["stages"]] == ["first", "steady"]


def test_a_jaxpr_is_a_log_of_no_cache_misses(program):
    _, path = program
    assert run(f"retraces {path}").startswith("no cache misses")


def test_triage_with_another_layout(program):
    _, path = program
    (path.parent / "other.jaxpr").write_text(run(f"fmt --no-source {path}"))
    assert run(f"triage {path} {path.parent / 'other.jaxpr'}").startswith("nothing changed\n")


def test_git_shows_it_as_it_is_laid_out(program):
    _, path = program
    assert run(f"git-setup text {path}") == run(f"fmt --no-source --no-names {path}")


def test_these_are_all_the_verbs():
    here = Path(__file__).read_text() + "".join(f'"{line}"' for line in COMMANDS.values())
    here = here.replace("jaxprtool ", "")
    assert [v for v in VERBS if f'"{v} ' not in here and f'"{v}"' not in here] == []
