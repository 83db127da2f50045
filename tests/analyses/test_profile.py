"""Profiles: times that add up, calls that are counted, slow equations that are found, and files that other tools read."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import jaxprtool as jt
from jaxprtool.analyses.counting.tally import in_order, sites
from jaxprtool.analyses.profiling.compiled import attributed
from jaxprtool.analyses.profiling.files import ENDINGS, profile_file
from jaxprtool.backends.xla.hlo_shares import shares_of
from jaxprtool.backends.xla.profile import Piece, executed, innermost, shared_out
from jaxprtool.driver.compile import compile_located
from jaxprtool.driver.places import with_places
from jaxprtool.driver.words.values import arguments, open_binders
from tests.analyses.planting import REAL, real_program
from tests.analyses.protobuf import fields, numbers
from tests.invoke import invoke
from tests.random_programs.programs import programs

BACKENDS = ("numpy", "xla")


def profiled(program, args, **how):
    return jt.profile(program, *args, **{"seconds": 0, **how})


def whole(found):
    return sum(row.seconds for row in found.rows) + sum(seconds for _, seconds in found.others)


def same(xs, ys):
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REAL)
def test_real_programs(name, backend):
    """Times add up to the whole, every equation that is run has one row, and the results are those of a run."""
    program, args = real_program(name)
    found = profiled(program, args, backend=backend)
    assert whole(found) == pytest.approx(found.seconds)
    assert all(row.inclusive >= row.seconds * 0.999999 >= 0 for row in found.rows)
    outermost = sum(row.inclusive for row in found.rows if not row.place.path)
    others = sum(seconds for _, seconds in found.others)
    assert outermost + others == pytest.approx(found.seconds)
    placed = found.program
    run = [eqn for site in sites(in_order(placed.jaxpr), None) for eqn in site.jaxpr.eqns]
    assert Counter(row.place.eqn for row in found.rows) == Counter(dict.fromkeys(run, 1))
    same(found.outs, jt.run(program, *args, jit=backend == "xla"))


@pytest.mark.parametrize("name", REAL)
def test_what_has_a_name_leads_to_an_equation(name):
    """Every operation that lowering named, and that is left in the optimised HLO, is that of an equation of the program."""
    program = with_places(real_program(name)[0])
    said = shares_of(compile_located(program).as_text())
    names = {op for op_name, shares in said.values() for op in (op_name, *shares)} - {""}
    ran = {x: (op_name, shares) for x, (op_name, shares) in said.items() if shares}
    root, instructions, unknown = attributed(
        program,
        dict.fromkeys(ran, 100.0),
        dict.fromkeys(ran, 1),
        {x: shares for x, (_, shares) in ran.items()},
        1,
    )
    nameless = sum(100 * n / sum(s.values()) for _, s in ran.values() for op, n in s.items() if not op)  # fmt: skip
    assert names and unknown == pytest.approx(nameless)
    assert sum(node.own for node in root.walk()) + unknown == pytest.approx(100 * len(ran))
    assert len(instructions) == len(ran)


@settings(max_examples=12, derandomize=True, database=None, deadline=None)
@given(program=programs(max_eqns=10))
def test_random_programs_compiled(program):
    args = arguments(open_binders(program), ["random:0"])
    found = profiled(program, args, backend="xla")
    assert whole(found) == pytest.approx(found.seconds)
    assert all(row.seconds >= 0 for row in found.rows)
    same(found.outs, jt.run(program, *args, jit=True))


def counted(found, program):
    said = jt.stats(program).figures.executed
    calls = sum(row.calls for row in found.rows)
    assert said.low <= calls and (said.high is None or calls <= said.high)
    return calls


@pytest.mark.parametrize("name", REAL)
def test_calls_are_the_executed_equations(name):
    program, args = real_program(name)
    found = profiled(program, args)
    calls = counted(found, program)
    assert found.json()["total"]["equations"] == calls


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(program=programs())
def test_random_programs(program):
    args = arguments(open_binders(program), ["random:0"])
    found = profiled(program, args)
    counted(found, program)
    assert whole(found) == pytest.approx(found.seconds)
    same(found.outs, jt.run(program, *args))


def test_calls_with_turns_that_only_the_run_knows():
    text = """{ lambda ; a:i32[]. let
        b:i32[] = while[
          body_jaxpr={ lambda ; c:i32[]. let d:i32[] = add c 1:i32[]; e:i32[] = mul d 1:i32[] in (e,) }
          body_nconsts=0
          cond_jaxpr={ lambda ; f:i32[]. let g:bool[] = lt f 7:i32[] in (g,) }
          cond_nconsts=0
        ] a
      in (b,) }"""
    found = profiled(jt.parse(text), [np.int32(0)])
    calls = {row.place.eqn.primitive.name: row.calls for row in found.rows}
    assert calls == {"while": 1, "add": 7, "mul": 7, "lt": 8}


def test_a_deep_program():
    """A call of a call of a call: all times but the innermost one's are inclusive, from the outside in."""
    text, depth = "{ lambda ; a:f64[]. let b:f64[] = sin a in (b,) }", 600
    for _ in range(depth):
        text = f"{{ lambda ; a:f64[]. let b:f64[] = jit[name=f jaxpr={text}] a in (b,) }}"
    found = profiled(jt.parse(text), [np.float64(1)])
    rows = sorted(found.rows, key=lambda row: len(row.place.path))
    assert [len(row.place.path) for row in rows] == [*range(depth + 1)]
    inclusive = [row.inclusive for row in rows]
    assert inclusive == sorted(inclusive, reverse=True)
    assert found.lines() and len(profile_file(found, "p.folded").splitlines()) >= depth


SLEEP = 0.01


def slow(x):
    """An identity that takes its time."""

    def wait(value):
        time.sleep(SLEEP)
        return np.asarray(value)

    return jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@jax.custom_jvp
def with_rule(x):
    return slow(x) * 2


with_rule.defjvp(lambda xs, ts: (with_rule(*xs), ts[0] * 2))


def thrice(x):
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, slow(c[1])), (0, x))


def loop_in_loop(x):
    inner = jax.jit(lambda y: jax.lax.fori_loop(0, 2, lambda i, z: slow(z), y))
    return jax.lax.scan(lambda c, _: (inner(c), c), x, None, 2)


# A function, and how often it sleeps.
AROUND = {
    "top": (lambda x: slow(jnp.sin(x)), 1),
    "jit": (lambda x: jax.jit(slow)(x) + 1, 1),
    "twice": (lambda x: jax.jit(slow)(jax.jit(slow)(x)), 2),
    "scan": (lambda x: jax.lax.scan(lambda c, _: (slow(c), jnp.cos(c)), x, None, 3), 3),
    "while": (thrice, 3),
    "cond": (lambda x: jax.lax.cond(x.sum() < 1e9, slow, jnp.sin, x), 1),
    "switch": (lambda x: jax.lax.switch(1, [jnp.sin, slow, jnp.cos], x), 1),
    "checkpoint": (lambda x: jax.checkpoint(lambda y: slow(y) * y)(x), 1),
    "custom rule": (with_rule, 1),
    "loop in loop": (loop_in_loop, 4),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("around", AROUND)
def test_a_slow_equation_is_found(around, backend):
    """The time is where it passes, and for the equations around it it is a part of the inclusive one."""
    f, n = AROUND[around]
    found = profiled(f, [np.linspace(0.0, 1.0, 4, dtype=np.float32)], backend=backend)
    rows = {row.place.eqn: row for row in found.rows}
    slept = [row for row in found.rows if row.place.eqn.primitive.name == "pure_callback"]
    assert sum(row.calls for row in slept) == n
    assert n * SLEEP <= sum(row.seconds for row in slept) <= found.seconds
    outermost = {row.place.path[0].eqn for row in slept if row.place.path}
    if around == "twice":
        outermost = {eqn for eqn in rows if eqn.primitive.name == "jit"}
        assert len(outermost) == 2 and all(rows[eqn].inclusive >= SLEEP for eqn in outermost)
    inside = sum(row.seconds for row in slept if row.place.path)
    assert sum(rows[eqn].inclusive for eqn in outermost) >= inside * 0.999999


@pytest.mark.parametrize("by", ["source", "scope", "primitive"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_groups_add_up(by, backend):
    program, args = real_program("attention")
    found = profiled(program, args, by=by, backend=backend)
    assert sum(g.seconds for g in found.groups) == pytest.approx(sum(r.seconds for r in found.rows))
    assert sum(g.calls for g in found.groups) == sum(r.calls for r in found.rows)
    shown = found.json()
    assert shown["by"] == by and len(shown["groups"]) == len(found.groups)
    assert f"{by}\n" in str(found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_annotated_text_is_the_text(backend):
    program, args = real_program("kmeans")
    found = profiled(program, args, annotate=True, backend=backend)
    span = found.program.jaxpr.span
    assert span is not None
    text = span.source.text
    source = [line for line in text.splitlines() if not line.startswith("args ")]
    lines = [line.split(" | ", 1)[1] for line in str(found).splitlines() if " | " in line]
    assert lines == [*source, *(what for what, _ in found.others)]


def test_instructions_of_several_equations_share_their_time():
    text = """{ lambda ; a:f32[512,512] b:f32[512]. let
        c:f32[512,512] = sin a
        d:f32[512,512] = exp c
        e:f32[512] = reduce_sum[axes=(1,) out_sharding=None] d
        f:f32[512] = mul e b
      in (f,) }"""
    found = profiled(jt.parse(text), [np.ones((512, 512), np.float32), np.ones(512, np.float32)], backend="xla")  # fmt: skip
    several = [x for x in found.instructions if len(x.shares) > 1]
    assert several and "instructions of several equations" in str(found)
    for x in found.instructions:
        assert sum(share for _, share in x.shares) <= 1.000001
        shares = {place.eqn.primitive.name: share for place, share in x.shares}
        assert "exp" not in shares or shares["exp"] > shares.get("mul", 0)


HLO = """HloModule m

%fused (p.0: f32[8,4], p.1: f32[4]) -> f32[8] {
  %p.0 = f32[8,4]{1,0} parameter(0)
  %p.1 = f32[4]{0} parameter(1)
  %broadcast = f32[8,4]{1,0} broadcast(%p.1), dimensions={1}
  %add = f32[8,4]{1,0} add(%p.0, %broadcast), metadata={op_name="[a.jaxpr:2:5]/add"}
  ROOT %reduce = f32[8]{0} reduce(%add, %c), to_apply=%sum, metadata={op_name="[a.jaxpr:3:5]/reduce_sum"}
}

%body (t: (s32[], f32[8])) -> (s32[], f32[8]) {
  %t = (s32[], f32[8]{0}) parameter(0)
  ROOT %sin = f32[8]{0} sine(%t), metadata={op_name="[a.jaxpr:9:1]/scan/[a.jaxpr:4:5]/sin"}
}

ENTRY %main (a: f32[8,4], b: f32[4]) -> f32[8] {
  %a = f32[8,4]{1,0} parameter(0)
  %b = f32[4]{0} parameter(1)
  %copy.1 = f32[4]{0} copy(%b)
  %fusion = f32[8]{0} fusion(%a, %copy.1), kind=kLoop, calls=%fused, metadata={op_name="[a.jaxpr:3:5]/reduce_sum"}
  %while = (s32[], f32[8]{0}) while(%fusion), condition=%body, body=%body, metadata={op_name="[a.jaxpr:9:1]/scan"}, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %dot = f32[8,8]{1,0} dot(%a, %a), metadata={op_name="[a.jaxpr:7:5]/dot_general"}
}
"""


def test_what_went_into_an_instruction():
    found = shares_of(HLO)
    add, total = "[a.jaxpr:2:5]/add", "[a.jaxpr:3:5]/reduce_sum"
    # what XLA put in (the broadcast) works for the whole
    assert found["fusion"] == [total, {add: 32.0, total: 32.0 + 32.0}]
    assert found["copy.1"] == ["", {"": 4.0}]
    assert found["while"][1] == {"[a.jaxpr:9:1]/scan/[a.jaxpr:4:5]/sin": 5 * 9.0}
    assert found["dot"][1] == {"[a.jaxpr:7:5]/dot_general": (64 * 32 * 32) ** 0.5}


NAMES = ["plain.jaxpr", "é \"q\" \\x.jaxpr", "d[1:2].jaxpr", "k[a:1:2].jaxpr", "tab\t.jaxpr", "日本.jaxpr"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name(name, tmp_path, monkeypatch):
    """XLA escapes what is not ASCII, and a name may hold what places are written with."""
    monkeypatch.chdir(tmp_path)
    text = "{ lambda ; a:f32[4096]. let b:f32[4096] = sort[dimension=0 is_stable=True num_keys=1] a in (b,) }"  # fmt: skip
    (tmp_path / name).write_text(text)
    done = invoke(["profile", "--json", "--backend", "xla", "--seconds", "0", f"./{name}"])
    assert done.status == 0, done.error
    found = json.loads(done.output)
    assert found["equations"][0]["calls"] == 1 and found["equations"][0]["seconds"] > 0


def test_time_on_one_thread_is_that_of_the_innermost():
    pieces = [
        Piece("loop", 0, 0, 100),
        Piece("a", 0, 10, 30),
        Piece("b", 0, 30, 60),
        Piece("c", 0, 35, 45),
        Piece("d", 0, 120, 130),
    ]
    holders: set[str] = set()
    found = shared_out([*innermost(pieces, holders)])
    assert found == {"loop": 50, "a": 20, "b": 20, "c": 10, "d": 10}
    assert holders == {"loop", "b"}


def test_an_instruction_in_two_steps_is_executed_once():
    pieces = [Piece(x, 0, i, i + 1) for i, x in enumerate("ssaasbsss")]
    assert [*executed(pieces, [0, 7])] == [*"sasb", *"ss"]
    assert [*executed(pieces, [0])] == [*"sasbs"]


def test_time_on_several_threads_is_shared():
    found = shared_out([Piece("a", 0, 0, 10), Piece("b", 1, 5, 20), Piece("c", 2, 5, 10)])
    assert found == pytest.approx({"a": 5 + 5 / 3, "b": 5 / 3 + 10, "c": 5 / 3})


# -- files --------------------------------------------------------------------------------------------


def decoded(data):
    """The fields of a message of protocol buffers: number -> values, numbers and bytes."""
    found: dict[int, list] = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def read_pprof(data):
    """{way, the outermost first: (calls, nanoseconds)}, and the names of the values."""
    profile = decoded(gzip.decompress(data))
    strings = [s.decode() for s in profile[6]]
    assert strings[0] == ""
    kinds = [tuple(strings[decoded(t)[i][0]] for i in (1, 2)) for t in profile[1]]
    functions = {f[1][0]: strings[f[2][0]] for f in map(decoded, profile[5])}
    locations = {
        x[1][0]: functions[decoded(x[4][0])[1][0]] for x in map(decoded, profile.get(4, []))
    }
    samples = {}
    for s in map(decoded, profile[2]):
        way = tuple(locations[i] for i in reversed(numbers(s[1][0])))
        samples[way] = tuple(numbers(s[2][0]))
    return samples, kinds


@pytest.fixture(params=BACKENDS)
def files(request, tmp_path, monkeypatch):
    """A profile, and what it writes by the ending of the name."""
    monkeypatch.chdir(tmp_path)
    program, args = real_program("kmeans")
    found = profiled(program, args, backend=request.param, output="p.json", seconds=0.05)
    assert found.slices
    written = {".json": (tmp_path / "p.json").read_bytes()}
    for ending in ENDINGS:
        if ending != ".json":
            jt.profile(program, *args, backend=request.param, output=f"p{ending}", seconds=0)
            written[ending] = (tmp_path / f"p{ending}").read_bytes()
    return found, written


def total(document):
    return document["total"]["seconds"] * document["runs"] * 1e9


def test_pprof_and_the_others():
    """What is read back is what was measured, way by way, and the files agree."""
    program, args = real_program("kmeans")
    for backend in BACKENDS:
        found = profiled(program, args, backend=backend, seconds=0.02)
        samples, kinds = read_pprof(profile_file(found, "x.pb.gz"))
        assert kinds == [("calls", "count"), ("time", "nanoseconds")]
        assert sum(t for _, t in samples.values()) == pytest.approx(total(found.json()), rel=1e-3)
        folded = profile_file(found, "x.folded").decode().splitlines()
        assert {tuple(k.split(";")): int(v) for k, _, v in (x.rpartition(" ") for x in folded)} == {
            way: t for way, (_, t) in samples.items()
        }
        scope = json.loads(profile_file(found, "x.speedscope.json"))
        (table,), names = scope["profiles"], [f["name"] for f in scope["shared"]["frames"]]
        assert table["endValue"] == sum(table["weights"]) and table["unit"] == "nanoseconds"
        ways = [tuple(names[i] for i in way) for way in table["samples"]]
        assert dict(zip(ways, table["weights"], strict=True)) == {w: t for w, (_, t) in samples.items()}  # fmt: skip
        if backend == "numpy":
            calls = sum(n for n, _ in samples.values())
            assert calls == found.runs * sum(row.calls for row in found.rows)


def test_a_trace_shows_what_ran_when(files):
    """Slices of a thread are one inside of the other or apart, and there is one for each executed equation."""
    found, written = files
    events = [e for e in json.loads(written[".json"])["traceEvents"] if e["ph"] == "X"]
    threads: dict[int, list] = {}
    for e in events:
        threads.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    for slices in threads.values():
        open_: list[float] = []
        for start, end in sorted(slices, key=lambda s: (s[0], -s[1])):
            while open_ and open_[-1] <= start + 1e-3:
                open_.pop()
            assert not open_ or end <= open_[-1] + 2e-3
            open_.append(end)
    assert min(e["ts"] for e in events) == 0
    if found.backend == "numpy":
        assert len(events) == sum(row.calls for row in found.rows)
        assert {e["args"]["place"] for e in events} <= {f"{r.place.eqn.primitive.name} {r.place.eqn.span}" for r in found.rows}  # fmt: skip


def test_each_file_is_of_its_kind(files):
    _, written = files
    assert json.loads(written[".speedscope.json"])["exporter"] == "jaxprtool"
    assert read_pprof(written[".pb.gz"])[0]
    assert all(line.rpartition(" ")[2].isdigit() for line in written[".folded"].decode().splitlines())  # fmt: skip


# -- functions, options ------------------------------------------------------------------------------


def test_a_function_with_its_arguments():
    def loss(params, x):
        with jax.named_scope("layer"):
            return jnp.tanh(x @ params["w"]).sum()

    params, x = {"w": np.ones((3, 4), np.float32)}, np.ones((2, 3), np.float32)
    found = jt.profile(loss, params, x, by="scope", seconds=0)
    assert "layer" in {g.key for g in found.groups}
    assert found.rows[0].place.file == "loss"
    same(found.outs, jt.run(loss, params, x))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"backend": "jax"}, "numpy or xla"),
        ({"by": "type"}, "one of equation, source, scope, primitive"),
        ({"top": 0}, "at least one row"),
        ({"seconds": float("nan")}, "from 0 on"),
        ({"output": "p.txt"}, "speedscope"),
    ],
)
def test_in_python_wrong_options_are_refused(how, message):
    program = jt.parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    with pytest.raises(jt.UsageError, match=message):
        jt.profile(program, np.float32(1), **how)


def test_what_a_program_prints_stays_out_of_the_document(tmp_path):
    (tmp_path / "f.py").write_text(
        "import jax\ndef f(x):\n    jax.debug.print('x is {}', x)\n    return x + 1\n"
    )
    for backend in BACKENDS:
        done = invoke(f"profile --json --backend {backend} --seconds 0 {tmp_path}/f.py:f --shape f32[]")  # fmt: skip
        assert done.status == 0 and json.loads(done.output)["schema"] == 1
        assert done.error.count("x is ") == 2  # once before it is measured, and once then


def test_files_from_the_shell(tmp_path):
    program = "{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }"
    for ending in ENDINGS:
        path = tmp_path / f"out{ending}"
        done = invoke(f"profile --quiet --seconds 0 -o {path} -", program)
        assert (done.status, done.output) == (0, "") and path.stat().st_size
    done = invoke(f"profile --seconds 0 -o {tmp_path}/no/such/out.json -", program)
    assert done.status == 2 and "[unwritable-file]" in done.error


def test_the_program_is_not_written_over(tmp_path):
    path = tmp_path / "program.json"
    path.write_text("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }")
    done = invoke(f"profile --seconds 0 -o {path} {path}")
    assert done.status == 2 and "would be lost" in done.error
    assert path.read_text().startswith("{ lambda")
