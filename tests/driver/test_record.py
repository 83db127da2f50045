"""run --print, --save-values and --digest: the values are those of the run, of the right steps, and compare reads them."""

from __future__ import annotations

import json
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.comparing.comparison import EXACT, Tolerance
from jaxprtool.analyses.places import Watch
from jaxprtool.analyses.recording import Recorder, Selection, selection_of
from jaxprtool.backends.digests import digest, hash_of
from jaxprtool.driver.comparing.in_step import Limits
from jaxprtool.driver.comparing.saved import compare_saved, compare_with_run, load_saved
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.driver.running.record import Recording, digest_lines, recorded, variable_names
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.evaluation.state_values import Token
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.precisions.double import in_double
from tests.analyses.exchanged import exchanges
from tests.invoke import invoke
from tests.programs.catalogue import EXAMPLES, PROGRAMS

FILES = [
    p
    for p in sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
    if p.stem != "multiply_add"  # needs a plug-in
]
X = np.linspace(0.1, 2.0, 5).astype(np.float32)


def save(program, args, folder, **how):
    """Save the values of a run; what was warned of."""
    warned = []
    what = Recording(folder=str(folder), **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with recorded(what, program, None, None, warned.append, "p") as observer:  # type: ignore[arg-type]
            run(program, args, observer=observer)
    return warned


class Counter(Watch):
    """Counts the results that are arrays."""

    def __init__(self):
        super().__init__()
        self.results = 0

    def see(self, eqn, ins, outs):
        self.results += sum(not isinstance(x, Token) for x in outs)


def loaded(path):
    program = jt.load(path)
    return program, arguments(open_binders(program), ["random:0"])


SMALL = [p for p in FILES if p.stem in ("attention", "gru", "kalman", "quantised", "beam_search")]


@pytest.mark.parametrize("path", SMALL, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_value_is_saved_and_compares_equal(path, tmp_path):
    program, args = loaded(path)
    save(program, args, tmp_path / "v", every=1)
    counter = Counter()
    run(program, args, observer=counter)
    saved = load_saved(str(tmp_path / "v"))
    assert len(saved.results) == counter.results
    found = compare_with_run(program, args, saved, EXACT, "p", Limits())
    assert found.equal and found.compared == counter.results and not found.notes


@pytest.mark.parametrize("path", SMALL, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_saved_values_name_the_exchanged_equation(path, tmp_path):
    program, args = loaded(path)
    save(program, args, tmp_path / "v", every=1)
    saved = load_saved(str(tmp_path / "v"))
    for made in exchanges(program, 3, seed=1):
        try:
            found = compare_with_run(
                made.program, args, saved, EXACT, "p", Limits(step_limit=20000), swap=True
            )
        except JaxprToolError:
            continue
        if not found.equal:
            line, column = made.eqn.span.source.position(made.eqn.span.start)
            first = found.json()["first"]
            assert (first["line"], first["column"]) == (line, column), made.how
            assert found.json()["first_b"]["line"] == line


def test_an_equation_that_reads_other_values_is_the_first(tmp_path):
    """Its operands differ from those of the other run, but not because of an earlier difference."""
    text = """{ lambda ; a:f32[5] b:f32[5]. let
        c:f32[5] = sin a
        d:f32[5] = jit[name=f jaxpr={ lambda ; e:f32[5] g:f32[5] h:f32[5]. let
            i:f32[5] = cos g
            j:f32[5] = sub e g
            k:f32[5] = mul j i
          in (k,) }] c b a
        l:f32[5] = add d c
      in (l,) }"""
    args, program = [X, X + 1], jt.parse(text, "p")
    for old, new, line in (
        ("sub e g", "sub g e", 5),
        ("sub e g", "sub i g", 5),
        ("add d c", "add d a", 8),
    ):
        other = jt.parse(text.replace(old, new), "q")
        save(program, args, tmp_path / f"{line}{new}", every=1)
        saved = load_saved(str(tmp_path / f"{line}{new}"))
        found = compare_with_run(other, args, saved, EXACT, "q", Limits(), swap=True)
        assert found.json()["first"]["line"] == line, (new, str(found))
    save(jt.parse(text, "p"), [X, X + 2], tmp_path / "other", every=1)
    saved = load_saved(str(tmp_path / "other"))
    found = compare_with_run(program, args, saved, EXACT, "p", Limits())
    assert found.first is None, "the arguments differ"


def steps_of(f, x, every=0, name="sin"):
    """The steps of the loops around an equation of which a record is kept."""
    program, kept = with_places(jt.trace(f, x), "f"), []

    def take(record):
        if record.place.eqn.primitive.name == name:
            kept.append(tuple(s.step for s in record.place.path if s.step is not None))

    run(program, [x], observer=Recorder(take, every=every))
    return kept


def scan_of(n, inner=None, reverse=False):
    def body(c, _):
        return (inner or jnp.sin)(c), None

    return lambda x: jax.lax.scan(body, x, None, length=n, reverse=reverse)[0]


def while_of(n, inner=None):
    def body(state):
        i, c = state
        return i + 1, (inner or jnp.sin)(c)

    return lambda x: jax.lax.while_loop(lambda s: s[0] < n, body, (0, x))[1]


@pytest.mark.parametrize("loop", [scan_of, while_of])
def test_loops_keep_the_first_the_last_and_every_nth_step(loop):
    assert steps_of(loop(10), X) == [(0,), (9,)]
    assert steps_of(loop(10), X, 4) == [(0,), (4,), (8,), (9,)]
    assert steps_of(loop(9), X, 4) == [(0,), (4,), (8,)]
    assert steps_of(loop(5), X, 1) == [(i,) for i in range(5)]
    assert steps_of(loop(1), X) == [(0,)]
    assert steps_of(loop(0), X) == []


@pytest.mark.parametrize("outer", [scan_of, while_of])
@pytest.mark.parametrize("inner", [scan_of, while_of])
def test_loops_in_loops(outer, inner):
    kept = steps_of(outer(4, inner(3)), X)
    assert kept == [(0, 0), (0, 2), (3, 0), (3, 2)]
    kept = steps_of(outer(5, inner(5)), X, 2)
    assert kept == [(i, j) for i in (0, 2, 4) for j in (0, 2, 4)]


def test_a_scan_from_the_end_keeps_the_steps_that_run_first_and_last():
    assert steps_of(scan_of(5, reverse=True), X) == [(4,), (0,)]


def test_selections():
    program = with_places(jt.trace(lambda x: jnp.exp(jax.named_scope("attn")(jnp.sin)(x)), X), "f")
    seen = []
    run(program, [X], observer=Recorder(seen.append))
    names = {r.place.eqn.primitive.name: r.place for r in seen}

    def taken(text):
        return [name for name, place in names.items() if selection_of(text).takes(place)]

    assert taken("") == ["sin", "exp"]
    assert taken("primitive=exp") == ["exp"]
    assert taken("primitive=exp,primitive=sin") == ["sin", "exp"]
    assert taken("name=attn") == ["sin"]
    assert taken("name=attn,primitive=exp") == []
    assert taken("line=2-9") == [] and taken("line=1") == ["sin", "exp"] == taken("line=7,line=1-2")
    assert taken("name=test_record.py") == ["sin", "exp"]
    assert taken("name=test_selections.<locals>") == ["sin", "exp"]
    assert selection_of("") == Selection()


def test_names_of_variables_are_those_of_the_text():
    f = scan_of(3, lambda c: jax.lax.cond(c[0] > 0, jnp.sin, jnp.cos, c))
    program = with_places(jt.trace(f, X), "f")
    lines, warnings = [], []
    names = variable_names(program)
    source = program.eqns[0].span.source.text
    inner = {n: v for v, n in names.items()}
    assert all(f"{n}:{v.aval}" in source for v, n in names.items())
    what = Recording(variables=tuple(inner), every=1)
    with recorded(what, program, None, lines.append, warnings.append) as observer:  # type: ignore[arg-type]
        run(program, [X], observer=observer)
    assert any("cond at" in line and "sin at" in line for line in lines), lines
    (other,) = (e for e in all_eqns(program.jaxpr) if e.primitive.name == "cos")
    assert [w.partition(":")[0] for w in warnings] == [names[other.out_binders[0]]]
    assert len([line for line in lines if "step 1" in line]) >= 3


def test_digests_tell_values_apart():
    assert hash_of(np.float32(0.0)) != hash_of(np.float32(-0.0))
    assert hash_of(np.float32(1.0)) != hash_of(np.float64(1.0))
    other = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert hash_of(np.array([np.nan], np.float32)) == hash_of(other)
    found = digest(np.array([3.0, -4.0, np.nan, np.inf], np.float32))
    assert (found["norm"], found["min"], found["max"]) == (5.0, -4.0, np.inf)
    assert (found["nans"], found["infs"], found["type"]) == (1, 1, "f32[4]")
    assert digest(np.zeros((0,), np.int32))["min"] is None
    huge = digest(np.array([1e300, 1e300]))
    assert np.isfinite(huge["norm"])


@pytest.mark.parametrize("name", sorted(PROGRAMS)[::4])
def test_digests_of_two_runs_are_the_same(name, tmp_path):
    f, args = PROGRAMS[name].make()
    program = with_places(jt.trace(f, *args), name)
    values = arguments(open_binders(program), ["random:1"])
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        lines, line_of = [], digest_lines()

        def take(record, lines=lines, line_of=line_of):
            lines.append(line_of(record))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(program, values, observer=Recorder(take))
        text = [json.dumps(line, allow_nan=False) for line in lines]
        path.write_text("\n".join(text) + "\n")
        assert len({line["key"] for line in lines}) == len(lines), "keys are unique"
    found = compare_saved(*(load_saved(str(p)) for p in paths), EXACT)
    assert found.equal and found.compared


def test_saved_values_of_another_precision(tmp_path):
    program = with_places(jt.trace(lambda x: jnp.exp(jnp.sin(x)), X), "f")
    save(program, [X], tmp_path / "a")
    save(in_double(program), [X.astype(np.float64)], tmp_path / "b")
    a, b = (load_saved(str(tmp_path / x)) for x in "ab")
    assert not compare_saved(a, b, EXACT).equal
    assert compare_saved(a, b, Tolerance(ulp=2)).equal
    assert compare_saved(a, a, Tolerance(ulp=0)).compared == 2


def first_of(a, b, tolerance):
    found = compare_saved(load_saved(str(a)), load_saved(str(b)), tolerance)
    first = None if found.first is None else found.first.a.json()
    notes = [note for note in found.notes if "not known" in note]
    return first and (first["primitive"], [p["step"] for p in first["path"]]), bool(notes)


def test_the_first_difference_of_saved_values_has_operands_that_agree(tmp_path):
    def looped(factor):
        def f(x):
            return jax.lax.scan(lambda c, _: (jnp.sin(c) * factor, c + 1), x, None, length=30)

        return with_places(jt.trace(f, np.float32(1)), "f")

    runs = {"a": (0.5, 1), "other": (0.5, 1.25), "changed": (0.5001, 1)}
    for name, (factor, x) in runs.items():
        save(looped(factor), [np.float32(x)], tmp_path / name, every=10)
    a, other, changed = (tmp_path / name for name in runs)
    # the arguments differ: no equation is the first, and within a tolerance nobody knows
    assert first_of(a, other, EXACT) == (None, False)
    assert first_of(a, other, Tolerance(rtol=1e-6)) == (("sin", [0]), True)
    assert first_of(a, changed, EXACT) == (("mul", [0]), False)
    # within the tolerance at the first step, and what comes before the tenth was not kept
    assert first_of(a, changed, Tolerance(rtol=3e-4)) == (("scan", []), False)


def test_keys_and_narrow_types_are_read_back(tmp_path):
    def f(key, x):
        return jax.random.split(key), x.astype(jnp.bfloat16) * 2, x > 1

    program = with_places(jt.trace(f, jax.random.key(1), X), "f")
    args = arguments(open_binders(program), ["random:0"])
    save(program, args, tmp_path / "v")
    found = compare_with_run(program, args, load_saved(str(tmp_path / "v")), EXACT, "p", Limits())
    assert found.equal and found.compared >= 4


def test_what_is_saved_is_bounded(tmp_path):
    program = with_places(jt.trace(lambda x: jnp.sin(jnp.cos(jnp.tan(x))), X), "f")
    (warned,) = save(program, [X], tmp_path / "v", max_bytes=400)
    assert "left out" in warned
    index = json.loads((tmp_path / "v" / "index.json").read_text())
    assert len(index["values"]) == 2 and index["left_out"] == 1
    files = [p.stat().st_size for p in (tmp_path / "v").glob("*.npy")]
    assert sum(files) <= 400
    save(program, [X], tmp_path / "v")  # the folder of an earlier run is written anew
    assert len(json.loads((tmp_path / "v" / "index.json").read_text())["values"]) == 3


FILE = str(EXAMPLES / "gru.jaxpr")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--print", "nothing"], "no equation of the program binds"),
        (["--select", "primitive=exp"], "none are asked for"),
        (["--every", "2"], "none are asked for"),
        (["--print", "a", "--select", "colour=red"], "selects nothing"),
        (["--print", "a", "--select", "line=x"], "selects nothing"),
        (["--digest", "--jit"], "runs on NumPy"),
        (["--digest", "--through", "jax"], "runs on NumPy"),
        (["--digest", "--every", "0"], "not in the range"),
        (["--save-values", str(EXAMPLES)], "other files"),
        (["--save-values", FILE], "exists"),
    ],
)
def test_wrong_usage(words, message):
    done = invoke(["run", FILE, "--args", "random:0", *words])
    assert done.status == 2 and message in done.error.replace("\n", " "), done


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "index.json"),
        ("{}", "index.json"),
        ("[1]", "index.json"),
        ("{", "a.jsonl"),
        ("3", "a.jsonl"),
    ],
)
def test_what_is_no_saved_run_is_refused(text, name, tmp_path):
    (tmp_path / name).write_text(text)
    path = tmp_path / name if name.endswith("l") else tmp_path
    with pytest.raises(jt.UsageError, match="not what a run has saved"):
        load_saved(str(path))


def test_files_outside_of_the_folder_are_not_read(tmp_path):
    program = with_places(jt.trace(jnp.sin, X), "f")
    save(program, [X], tmp_path / "v")
    index = tmp_path / "v" / "index.json"
    index.write_text(index.read_text().replace("000000.npy", "../000000.npy"))
    saved = load_saved(str(tmp_path / "v"))
    with pytest.raises(jt.UsageError, match="not what a run has saved"):
        compare_saved(saved, saved, EXACT)


def test_a_difference_between_the_steps_that_were_kept_is_told(tmp_path):
    """Of loops the first and the last step are kept: a difference that begins between them is that of the loop."""

    def of(k):
        def step(c, i):
            return jax.lax.cond(i == 2, lambda v: k * v, jnp.sin, c), None

        return jt.trace(lambda x: jax.lax.scan(step, x, jnp.arange(6))[0], np.float32(1))

    for every in (0, 1):
        for name, k in (("a", 2.0), ("b", 3.0)):
            path, lines, line_of = tmp_path / f"{name}.jsonl", [], digest_lines()
            recorder = Recorder(lambda r, lines=lines, of=line_of: lines.append(of(r)), every=every)
            run(with_places(of(k), name), [np.float32(1)], observer=recorder)
            path.write_text("\n".join(map(json.dumps, lines)) + "\n")
        found = compare_saved(*(load_saved(str(tmp_path / f"{x}.jsonl")) for x in "ab"), EXACT)
        told = "`--every 1` keeps those between too" in str(found)
        assert told == (every == 0) == (found.first.a.json()["primitive"] == "scan"), str(found)


NOTHING = {
    "--print ,": "error: --print ',' says nothing [bad-value]",
    "--digest --select ,": "error: --select ',' says nothing [bad-value]",
    "--digest --select line=40-10": "error: --select: 'line=40-10' selects nothing [bad-value]",
    "--digest --select primitive=expp": "error: --select 'primitive=expp': the program has no such equation [bad-value]\n  help: did you mean exp?",
    "--digest --select line=90,name=attn": "error: --select 'line=90,name=attn': the program has no such equation [bad-value]",
}


@pytest.mark.parametrize("options", NOTHING)
def test_a_selection_of_nothing_is_refused(options, tmp_path):
    file = tmp_path / "p.jaxpr"
    file.write_text("{ lambda ; a:f32[]. let b:f32[] = exp a in (b,) }")
    done = invoke(f"run {file} --args 1 {options}")
    assert done.status == 2 and done.error.startswith(NOTHING[options]), done.error


def test_a_selection_of_nothing_leaves_the_values_of_an_earlier_run(tmp_path):
    file, folder = tmp_path / "p.jaxpr", tmp_path / "values"
    file.write_text("{ lambda ; a:f32[]. let b:f32[] = exp a in (b,) }")
    assert invoke(f"run {file} --args 1 --save-values {folder}").status == 0
    held = sorted(folder.iterdir())
    done = invoke(f"run {file} --args 1 --save-values {folder} --select primitive=log")
    assert done.status == 2 and sorted(folder.iterdir()) == held and len(held) > 1


def test_digests_are_known_by_what_the_file_begins_with(tmp_path):
    file, digests = tmp_path / "p.jaxpr", tmp_path / "digests"
    file.write_text("{ lambda ; a:f32[]. let b:f32[] = exp a in (b,) }")
    digests.write_text(invoke(f"run {file} --args 1 --digest").output)
    assert invoke(f"compare {digests} {digests}").status == 0
    assert invoke(f"compare {digests} {file} --args 2").status == 1


LINES = """{ lambda ; a:f32[4]. let
    b:f32[4] = sin a
    c:f32[2] = slice[limit_indices=(2,) start_indices=(0,) strides=None] b
    d:f32[1,2] = reshape[dimensions=None new_sizes=(1,2) sharding=None] c
    e:f32[2] = reshape[dimensions=None new_sizes=(2,) sharding=None] d
    f:f32[2] = mul e 2.0:f32[]
  in (f,) }"""


@pytest.mark.parametrize("faulty", [False, True])
@pytest.mark.parametrize("how", ["--digest", "--save-values"])
def test_another_release_makes_other_operations_of_a_line(how, faulty, tmp_path):
    """Of equations without a line of Python, or of one line, those are compared that are the same operations."""
    shorter = [x for x in LINES.splitlines(keepends=True) if "reshape" not in x]
    text = "".join(shorter).replace("mul e", "mul c").replace("2.0", "3.0" if faulty else "2.0")
    names = []
    for name, program in (("a", LINES), ("b", text)):
        file = tmp_path / f"{name}.jaxpr"
        file.write_text(program)
        names.append(str(tmp_path / name))
        words = ["run", str(file), "--args", "ramp", how]
        done = invoke(words if how == "--digest" else [*words, names[-1]])
        assert done.status == 0, done.error
        if how == "--digest":
            (tmp_path / name).write_text(done.output)
    found = json.loads(invoke(["compare", *names, "--json"]).output)
    assert found["equal"] is not faulty and found["compared"] == 3, found
    assert not faulty or found["first"]["primitive"] == found["first_b"]["primitive"] == "mul"


@pytest.mark.parametrize("swapped", [False, True])
def test_what_stands_in_the_place_of_several_operations_is_the_first(swapped, tmp_path):
    """The operands of a pair differ, and are made of values that both have by an operation that one run alone has."""
    long = """{ lambda ; a:f32[4]. let
    b:f32[4] = tanh a
    c:f32[4] = mul b b
    d:f32[4] = cos c
    e:f32[4] = sin d
  in (e,) }"""
    short = long.replace("    c:f32[4] = mul b b\n", "").replace("cos c", "cos b")
    files = [tmp_path / "long.jsonl", tmp_path / "short.jsonl"]
    for file, text in zip(files, [long, short], strict=True):
        file.write_text(invoke("run - --args [1,2,3,4] --digest", text).output)
    if swapped:
        files.reverse()
    found = json.loads(invoke(f"compare {files[0]} {files[1]} --json").output)
    assert not found["equal"]
    assert found["first"]["primitive"] == found["first_b"]["primitive"] == "cos"


EDITED = """{ lambda ; a:f32[3]. let
    b:f32[3] = sin a # m.py:3:8 (f)
    c:f32[3] = exp b # m.py:4:8 (f)
    d:f32[3] e:f32[4,3] = scan[ # m.py:7:8 (f)
      jaxpr={ lambda ; g:f32[3]. let
          h:f32[3] = tanh g # m.py:5:12 (f.<locals>.step)
          i:f32[3] = mul h 2.0:f32[] # m.py:6:12 (f.<locals>.step)
        in (i, h) }
      length=4
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] c
    j:f32[3] = cos d # m.py:8:8 (f)
  in (j, e) }"""


def edited(by, old="", new=""):
    """The program after lines were added above it in its file."""
    lines = re.sub(r"m\.py:(\d+)", lambda m: f"m.py:{int(m[1]) + by}", EDITED)
    return lines.replace(old, new) if old else lines


@pytest.mark.parametrize("by", [1, 100])
@pytest.mark.parametrize("kind", ["values", "digests", "run"])
def test_runs_before_and_after_lines_were_added_are_compared(by, kind, tmp_path, monkeypatch):
    """By one line each equation has the key of another one, by many none has."""
    monkeypatch.chdir(tmp_path)

    def answer(text):
        (tmp_path / "a.jaxpr").write_text(EDITED)
        (tmp_path / "b.jaxpr").write_text(text)
        what = ["--save-values", "v{}"] if kind != "digests" else ["--digest"]
        for name in "ab":
            words = [w.format(name) for w in what]
            done = invoke(["run", f"{name}.jaxpr", "--args", "ones", *words])
            assert done.status == 0, done.error
            (tmp_path / f"{name}.jsonl").write_text(done.output)
        sides = {
            "values": ["va", "vb"],
            "digests": ["a.jsonl", "b.jsonl"],
            "run": ["va", "b.jaxpr", "--args", "ones"],
        }
        return invoke(["compare", *sides[kind], "--json"])

    done = answer(edited(by))
    assert done.status == 0 and json.loads(done.output)["equal"], done.error
    assert any("in their order" in note for note in json.loads(done.output)["notes"])
    done = answer(edited(by, "mul h 2.0", "mul h 3.0"))
    found = json.loads(done.output)
    assert done.status == 1 and found["first"]["primitive"] == "mul"
    assert found["first_b"]["source"]["line"] == found["first"]["source"]["line"] + by == 6 + by
    assert found["first"]["path"][0]["step"] == 0
