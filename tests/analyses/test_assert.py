"""Expressions of `assert`: counts, order and flow against programs written out, figures, two programs, sizes."""

from __future__ import annotations

import json
import random
import re
import time

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.ad_checkpoint import checkpoint_name

import jaxprtool as jt
from jaxprtool.analyses.asking.items import param_text
from jaxprtool.analyses.asking.subject import Program
from jaxprtool.cli.asking_page import PAGE
from jaxprtool.core.primitive import vocabulary
from jaxprtool.driver.places import with_places
from jaxprtool.syntax.assertions.linear_regex import LinearRegex, RegexFault
from jaxprtool.syntax.assertions.read import read_claim, read_pattern
from jaxprtool.syntax.print import format_jaxpr
from jaxprtool.syntax.tables import grammar_folder
from tests.analyses.planting import REAL, real_program
from tests.analyses.written_out import flows, matching, written_out
from tests.fuzz.expressions import pattern
from tests.invoke import invoke
from tests.laws.oracle import EXAMPLES, ours
from tests.random_programs.programs import programs
from tests.timing import assert_growth

LAW = settings(max_examples=60, derandomize=True, database=None, deadline=None)


def drawn(seed, program):
    """A pattern about a program, without params."""
    rng = random.Random(seed)
    while True:
        text = pattern(rng, program)
        if "[" not in text.split(" ")[0] or read_pattern(text).value is not None:
            return text


# -- counts, order and flow, against programs that are written out ------------------------------------


@LAW
@given(program=programs(), seed=st.integers(0, 1 << 30))
def test_counts_are_those_of_the_program_written_out(program, seed):
    program = with_places(program)
    text = drawn(seed, program)
    found = read_pattern(text)
    n, top = (len(matching(program, found, top)) for top in (False, True))
    assert jt.holds(program, f"count({text}) == {n}", f"top.count({text}) == {top}")
    verdict = jt.holds(program, f"no {text}").verdicts[0]
    assert (verdict.holds, verdict.count) == (n == 0, n)
    assert len(jt.grep(text, program).matches) <= n


@pytest.mark.parametrize("name", REAL)
def test_counts_in_real_programs(name):
    program = with_places(real_program(name)[0])  # variables have the names of the text
    for seed in range(10):
        text = drawn(seed, program)
        assert jt.holds(program, f"count({text}) == {len(matching(program, read_pattern(text)))}")


@LAW
@given(program=programs(), seed=st.integers(0, 1 << 30), data=st.data())
def test_order_is_that_of_the_program_written_out(program, seed, data):
    names = sorted({at.eqn.primitive.name for at in written_out(program)})
    a, b = (data.draw(st.sampled_from(names)) for _ in range(2))
    ways = [data.draw(st.sampled_from(("", "first ", "last "))) for _ in range(2)]
    ends = [at for at in written_out(program) if at.eqn.primitive.name == a]
    starts = [at.begin for at in written_out(program) if at.eqn.primitive.name == b]
    end = (
        min(ends, key=lambda at: at.begin).end if ways[0] == "first " else max(x.end for x in ends)
    )
    start = max(starts) if ways[1] == "last " else min(starts)
    text = f"{ways[0]}'{a}' before {ways[1]}'{b}'"
    assert jt.holds(program, text).holds == (end <= start)


@LAW
@given(program=programs(), data=st.data())
def test_flow_is_that_of_marks(program, data):
    """As far as it is data that flows: the marks of a loop's condition are those of its results."""
    names = sorted({at.eqn.primitive.name for at in written_out(program)})
    a, b = (data.draw(st.sampled_from(names)) for _ in range(2))
    every = written_out(program)
    sinks = {id(at.eqn) for at in every if at.eqn.primitive.name == b}
    sources = [at for at in every if at.eqn.primitive.name == a]
    fed = [flows(program, at, sinks) for at in sources]
    assert jt.holds(program, f"'{a}' feeds '{b}'").holds == any(fed)
    by_eqn = {}
    for at, reached in zip(sources, fed, strict=True):
        by_eqn[id(at.eqn)] = by_eqn.get(id(at.eqn), False) or reached
    assert jt.holds(program, f"all '{a}' feed '{b}'").holds == all(by_eqn.values())


SHARED = """let f = {{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }} in
{lets}{{ lambda ; x:f32[]. let y:f32[] = jit[name={last} jaxpr={last}] x in (y,) }}
"""


def doubling(levels):
    """A program of so many jaxprs, each of which uses the one before twice."""
    lets, last = "", "f"
    for i in range(levels):
        two = (
            f"b:f32[] = jit[name={last} jaxpr={last}] a; c:f32[] = jit[name={last} jaxpr={last}] b"
        )
        lets += f"let g{i} = {{ lambda ; a:f32[]. let {two} in (c,) }} in\n"
        last = f"g{i}"
    return jt.parse(SHARED.format(lets=lets, last=last))


def test_shared_jaxprs_are_looked_at_once():
    """n levels that use the last one twice cost n; counts are those of the program written out."""
    assert jt.holds(doubling(10), "count(sin) == 1024", "count(jit) == 2047", "sin feeds sin")
    deep = doubling(2000)
    start = time.process_time()
    found = jt.holds(
        deep, "count(sin) > 1e300", "first sin before last sin", "sin feeds sin", "no f64"
    )
    assert found and time.process_time() - start < 10
    assert "more than 2^2000" in str(jt.holds(deep, "no sin"))
    assert json.dumps(jt.holds(deep, "no sin").json())
    done = jt.grep("sin", deep)
    assert json.dumps(done.json()) and "more than 2^2000 times" in str(done)


@pytest.mark.parametrize(
    "text",
    [
        "no f64 and no callback",
        "count(mul {scope ~ '(a|b)*c'}) >= 0",
        "all mul feed add or mul feeds sin",
        "mul before add",
        "count(mul _:f32[8]) >= 0 and flops(mul) >= 0 and peak >= 0",
    ],
)
def test_time_is_linear_in_the_program(text):
    def program(n):
        eqns = "\n".join(f"v{i + 1}:f32[8] = {('mul', 'add')[i % 2]} v{i} v{i}" for i in range(n))
        return jt.parse(f"{{ lambda ; v0:f32[8]. let\n{eqns}\n in (v{n},) }}")

    assert_growth(program, lambda p: jt.holds(p, text), 1_000, 16_000, 40)


def params_of_examples():
    """Of the examples of all primitives each equation, with the text that JAX prints for each param."""
    for example in EXAMPLES:
        program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
        for eqn in program.eqns:
            for key in eqn.params:
                text = param_text(eqn, key)
                if text:
                    yield program, eqn, key, text


def test_the_text_of_a_param_matches_it():
    """In quotes, and without them where it is made of words, numbers and brackets; another text does not."""
    seen, tried = set(), 0
    for program, eqn, key, text in params_of_examples():
        name = eqn.primitive.name
        if (name, key, text) in seen:
            continue
        seen.add((name, key, text))
        quoted = text.replace('"', "'")
        forms = [f"'{name}'[{key}=\"{quoted}\"]"]
        if re.fullmatch(r"[\w.]+|\w*\([\w., ()]*\)|\w+\[[\w, ]*\]", text) and ") " not in text:
            forms.append(f"'{name}'[{key}={text}]")
            tried += 1
        for form in forms:
            found = Program(program).find(read_pattern(form))
            assert any(item.eqn is eqn for item in found), form
            other = Program(program).find(read_pattern(form.replace("=", "!=", 1)))
            assert not any(item.eqn is eqn for item in other), form
    assert tried > 300 and len(seen) > 500


GRAMMAR = (grammar_folder() / "assert.lark").read_text()
EXAMPLES_OF_THE_PAGE = [line.strip() for line in PAGE.partition("Examples:\n")[2].splitlines()]
EXAMPLES_OF_THE_GRAMMAR = re.findall(r"^//     (?!lark)(.*)$", GRAMMAR, re.MULTILINE)


@pytest.mark.parametrize("text", [*EXAMPLES_OF_THE_PAGE, *EXAMPLES_OF_THE_GRAMMAR])
def test_examples_are_read(text):
    """Those of the page are tests; the grammar has tests, numbers, patterns and filters."""
    if text in EXAMPLES_OF_THE_PAGE:
        read_claim(text)
        return
    forms = (text, f"{text} == 1", f"no {text}", f"no _ {text}", f"all _ {text}")
    read = []
    for form in forms:
        try:
            read.append(read_claim(form))
        except jt.UsageError:
            continue
    assert read


# -- the parts of the language ------------------------------------------------------------------------


def layers(x, w, n=3):
    for i in range(n):
        with jax.named_scope(f"layer{i}"), jax.named_scope("attn" if i % 2 else "mlp"):
            x = checkpoint_name(jnp.tanh(x @ w), f"h{i}")
    return jnp.sum(x.astype(jnp.bfloat16).astype(jnp.float32))


X, W = jax.ShapeDtypeStruct((4, 8), "float32"), jax.ShapeDtypeStruct((8, 8), "float32")


@pytest.mark.parametrize(
    "text",
    [
        "no callback and no f64 and some tanh",
        "count(dot_general {scope ~ 'layer\\d/attn'}) == 1",
        "count(dot_general {scope ~ 'mlp'}) == 2 and count(name[name=h1]) == 1",
        "name=h0 feeds reduce_sum and all tanh|name feed reduce_sum",
        "count(bf16) == 1 and count(bf16[_, 8]) == 1 and no bf16[8, _]",
        "count(f32[8, 8]) == 1 and count(_[...]) == count(_) + 2",
        "all dot_general where out.dtype == f32 and in[1].shape == [8, 8] and not any in.bytes > 1KiB",
        "all _ where source ~ 'test_assert.py:'",
        "count(dot_general[dimension_numbers=(((1,), (0,)), _)]) == 3",
        "count(dot_general[preferred_element_type=f32]) == 3",
        "count(dot_general[preferred_element_type=float32] _:f32[4, _] _:f32[8, _]) == 3",
        "no dot_general _:f32[8, _] _:f32[4, _]",
        "some _:bf16[4, 8] = convert_element_type {param.new_dtype == bf16}",
        "count(reduce_*) == 1 and count('*_s*m') == 1",
        "count(tanh|reduce_sum) == 4 and 1 < count(tanh) <= 3 and 2 * count(tanh) == 6",
        "dot_general before reduce_sum and not reduce_sum before dot_general",
        "equations == count(_) and peak <= 1MiB and peak >= arguments and depth == 1",
        "flops(dot_general) + 3 * (4 * 8) >= 3 * 2 * 4 * 8 * 8 and flops(tanh) == 0",
        "residuals(nothing).bytes <= residuals(everything).bytes",
        "residuals(names=h0+h1).count(f32[4, 8]) >= 2 and residuals('names=h0,h1').bytes > 0",
    ],
)
def test_what_is_true(text):
    assert jt.holds(layers, text, args=(X, W)), text
    assert not jt.holds(layers, f"not ({text})", args=(X, W))


def test_scopes_of_a_jaxpr_that_is_shared():
    """Each use of a function is in the scope of its call."""

    @jax.jit
    def block(x):
        return jnp.sin(x) * 2

    def f(x):
        for i in range(3):
            with jax.named_scope(f"layer{i}"):
                x = block(block(x))
        return x

    assert jt.holds(f, "count(sin) == 6", "count(sin {scope ~ layer1}) == 2", args=(X,))
    assert jt.holds(f, "all sin where inside == jit", "no sin {depth == 1}", args=(X,))


def test_figures_are_those_of_cost():
    for name in ("attention", "deep_scan", "mlp"):
        program, _ = real_program(name)
        total = jt.cost(program).json()["total"]
        assert jt.holds(
            program,
            f"flops == {total['flops']} and bytes == {total['bytes']} and peak == {total['peak_bytes']}",
            f"transcendentals == {total['transcendentals']}",
            f"executed == {total['executed']} and equations == {total['equations']}",
        )


def test_an_unknown_number_of_turns_is_an_error():
    loop = jt.make_jaxpr(lambda x: jt.while_loop(lambda c: c < 3.0, lambda c: jt.lax.mul(c, c), x))
    program = loop(jt.ShapedArray((), "f32"))
    with pytest.raises(jt.UsageError, match="not known"):
        jt.holds(program, "flops <= 3")
    assert jt.holds(program, "flops <= 1000", trips=5)
    assert jt.holds(program, "count(mul) == 1")  # equations are those that are written


def test_two_programs():
    def longer(x, w):
        return jnp.sin(layers(x, w))

    found = jt.holds(
        longer, "count(sin, B) < count(sin)", "peak(B) <= peak(A)", args=(X, W), vs=layers
    )
    assert found
    assert found.verdicts[0].values == [("count(sin, B)", 0), ("count(sin)", 1)]


# -- sizes --------------------------------------------------------------------------------------------

SIZES = """
import jax.numpy as jnp
def f(x, n=1):
    for _ in range(n):
        x = jnp.tanh(x @ x.T)
    return x
def args(n, m=4):
    return (jnp.zeros((n, m)),)
"""


def test_growth_of_a_function_and_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.py").write_text(SIZES)
    shape = "assert f.py:f --shape f32[S,S] --sizes S=64,256,128"
    assert invoke(f"{shape} '1.9 <= growth(peak, S) <= 2.1' 'growth(flops, S) >= 2.8'").status == 0
    done = invoke(f"{shape} 'growth(peak, S) <= 1.1' 'peak <= 100KiB' --json")
    assert done.status == 1
    first, second = json.loads(done.output)["assertions"]
    assert round(first["values"][0]["value"], 1) == 2.0
    assert [s.split(":")[0] for s in second["says"]] == ["at S = 128", "at S = 256"]
    both = f"{shape} --vs f.py:f 'growth(peak(B), S) == growth(peak, S)' 'flops(A) == flops(B)'"
    assert invoke(both).status == 0
    static = "assert f.py:f --shape f32[4,4] --static n=S --sizes S=2,4,8"
    assert invoke(f"{static} 'growth(count(tanh), S) == 1' 'growth(peak, S) <= 0.1'").status == 0
    like = "assert f.py:f --like 'args(S,16)' --sizes S=64,256"
    assert invoke(f"{like} '0.9 <= growth(arguments, S) <= 1.1' 'some f32[_, 16]'").status == 0
    for n in (8, 16):
        text = f"{{ lambda ; a:f32[{n}]. let b:f32[{n}] = sin a in (b,) }}"
        (tmp_path / f"a_{n}.jaxpr").write_text(text)
    assert (
        invoke("assert a_{n}.jaxpr --sizes n=8,16 'growth(bytes, n) == 1' 'count(sin) == 1'").status
        == 0
    )
    (tmp_path / "s.jaxpr").write_text("{ lambda ; a:f32[b,2]. let c:f32[b,2] = sin a in (c,) }")
    assert (
        invoke("assert s.jaxpr --sizes b=8,16 'growth(bytes, b) == 1' 'no f32[b, 2]'").status == 0
    )
    for words in ("n=8", "n=8,8", "n", "8,16", "n=0,2", "m=8,16"):
        done = invoke(f"assert a_8.jaxpr --sizes {words} 'growth(bytes, n) == 1'")
        assert done.status == 2 and "--sizes" in done.error, words


# -- names that nothing has ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(vocabulary()))
def test_every_primitive_is_known(name):
    program = jt.parse("{ lambda ; . let in () }")
    found = jt.holds(program, f"no {name}" if name.isidentifier() else f"no '{name}'")
    assert found and not found.verdicts[0].warnings


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("pjit", "jit"),
        ("dot_generl", "dot_general"),
        ("matmul", "dot_general"),
        ("remat", "remat2"),
        ("f46", ""),
        ("zz*", ""),
    ],
)
def test_a_name_that_nothing_has_is_a_warning(name, help):
    (verdict,) = jt.holds(jt.parse("{ lambda ; . let in () }"), f"count({name}) == 0").verdicts
    assert verdict and help in verdict.warnings[0].help and name in verdict.warnings[0].message


def test_a_warning_on_a_name_in_quotes_is_at_its_place():
    program = jt.parse("{ lambda ; . let in () }")
    (verdict,) = jt.holds(program, "no sin and no 'zz _:f32[2]'").verdicts
    assert verdict.warnings[0].at == (15, 17)


def test_a_primitive_of_the_program_is_known_and_looked_into():
    inner = "{ lambda ; x:f64[]. let y:f64[] = sin x in (y,) }"
    program = jt.parse(f"{{ lambda ; a:f32[]. let b:f32[] = mystery[body={inner}] a in (b,) }}")
    (verdict, second) = jt.holds(program, "count(mystery) == 1", "no f64").verdicts
    assert verdict and not verdict.warnings
    assert not second and second.matches[0].place.path[0].eqn.primitive.name == "mystery"


# -- every text ends in a verdict or a diagnostic -----------------------------------------------------


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(
    text=st.text(max_size=60)
    | st.lists(st.sampled_from(list("()[]{}=~<>_.,|'\"ab 1*+-/\\^$?")), max_size=40).map("".join)
)
def test_any_text_is_read_or_refused_at_a_place(text):
    for read in (read_claim, read_pattern):
        try:
            read(text)
        except jt.UsageError as e:
            (d,) = e.diagnostics
            assert d.message and d.span is not None and d.span.start <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "no sin" + ")" * 5000,
        "not " * 4000 + "no sin",
        "no sin" + " and no sin" * 1500,
        "count(sin)" + " + 1" * 4000 + " <= 1",
        "-" * 9000 + "1 < 2",
        "no sin {" + "not " * 3000 + "depth == 1}",
        "no " + "sin|" * 4000 + "cos",
        "x" * 30_000,
    ],
)
def test_long_expressions_end(text):
    start = time.process_time()
    try:
        jt.holds(jt.parse("{ lambda ; . let in () }"), text)
    except jt.UsageError as e:
        assert e.diagnostics[0].span is not None
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("count(sin) <= ", 15, "was expected, not the end"),
        ("no sin {scop ~ x}", 9, "there is no property scop"),
        ("sin", 1, "neither true nor false"),
        ("no sin and cnt(sin) <= 3", 12, "there is no function cnt"),
        ("counts (sin) <= 3", 1, "there is no function counts"),
        ("count(sin)", 1, "neither true nor false"),
        ("(no sin) + 1 < 2", 2, "is no number"),
        ("no f32[2, q*]", 12, "was expected"),
        ("all sin where in.dtype == f46", 15, "is no element type"),
        ("no sin {scope ~ '(a'}", 9, "is not closed"),
        ("count(sin, C) < 1", 12, "there is no program C"),
        ("no sin and no 'f32[2, q-]'", 24, "was expected"),
        ("no 'sin {scop ~ x}'", 10, "there is no property scop"),
        ("'f32[_]' before cos and no 'x y'", 2, "equations have an order"),
        ("all name=x|sin feed cos", 11, "was expected"),
        ("peak(sin) < 1", 1, "of a whole program"),
        ("residuals(dots).count(sin) < 1", 23, "is no type"),
        ("count(sin) / 0 < 1", 1, "division by zero"),
        ("growth(peak, S) < 1", 1, "none are given"),
        ("count(sin, B) < 1", 1, "there is no program B"),
    ],
)
def test_faults_have_their_place(text, column, message):
    with pytest.raises(jt.UsageError) as e:
        jt.holds(jt.parse("{ lambda ; a:f32[2]. let b:f32[2] = cos a in (b,) }"), text)
    (d,) = e.value.diagnostics
    assert message in d.message and d.span.start + 1 == column


# -- regular expressions ------------------------------------------------------------------------------

REGEX = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\w", "\\D", "^", "$", "\\.", "[a-c1]", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda t: f"(?:{t[0]}|{t[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda t: f"(?:{t[0]}){t[1]}"),
    ),
    max_leaves=8,
)


@settings(max_examples=400, derandomize=True, database=None, deadline=None)
@given(text=REGEX, words=st.lists(st.text("abc1.\n", max_size=8), min_size=1, max_size=5))
def test_regular_expressions_are_python_s(text, words):
    found = LinearRegex(text.replace("(?:", "("))
    # `.` of ours takes a line break, and `$` is the end of the text alone
    theirs = re.compile(text.replace("$", "\\Z"), re.DOTALL)
    for word in words:
        assert found.search(word) == (theirs.search(word) is not None)


def test_regular_expressions_take_linear_time():
    start = time.process_time()
    assert not LinearRegex("(a+)+(a*)*(a|a)*$$b").search("a" * 3000)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("number", ["_", "1_", "1__0", "_1"])
def test_underscores_stand_between_digits(number):
    program = jt.parse("{ lambda ; a:f32[2]. let b:f32[2] = cos a in (b,) }")
    with pytest.raises(jt.UsageError, match="no number"):
        jt.holds(program, f"count(cos{{in[0].bytes >= {number}}}) == 0")
    assert jt.holds(program, "count(cos{in[0].bytes < 1_000}) == 1")


@pytest.mark.parametrize("text", ["(", "a)", "*", "[", "[a", "\\", "a|*", "(?:a)"])
def test_texts_that_are_no_regular_expressions(text):
    with pytest.raises(RegexFault):
        LinearRegex(text)


# -- functions of Python ------------------------------------------------------------------------------


def test_what_python_gets():
    found = jt.holds(layers, "count(tanh) == 2", "no f64", args=(X, W))
    assert not found and [v.holds for v in found.verdicts] == [False, True]
    (failed,) = found.failed
    assert failed.count == 3 and failed.values == [("count(tanh)", 3)]
    assert {m.place.eqn.primitive.name for m in failed.matches} == {"tanh"}
    assert "count(tanh) is 3" in str(failed) and "test_assert.py" in failed.matches[0].place.source
    with pytest.raises(AssertionError, match="count\\(tanh\\) is 3"):
        jt.assert_that(layers, "count(tanh) == 2", args=(X, W))
    once = jt.Assertion("no f64")
    assert jt.assert_that(layers, once, args=(X, W)) and jt.assert_that(layers, once, args=(X, W))
    assert jt.grep("tanh", layers, X, W).count == 3 and not jt.grep("sin", layers, X, W)


def test_grep_prints_places(tmp_path):
    path = tmp_path / "p.jaxpr"
    path.write_text(jt.format_jaxpr(real_program("deep_scan")[0], lossless=True))
    lines = invoke(f"grep dot_general {path}").output.splitlines()
    places = {tuple(map(int, line.removeprefix(f"{path}:").split(":")[:2])) for line in lines}
    text = path.read_text().splitlines()
    assert lines and all(" = dot_general" in text[line - 1] for line, _ in places)
    assert all(text[line - 1][column - 1] != " " for line, column in places)
    assert all("in scan at" in line for line in lines)
    assert invoke(f"grep dot_general {path} --top 1").output.count("\n") == 1
    both = invoke(f"grep -c dot_general {path} {path}").output
    assert both == f"{path}:{len(lines)}\n" * 2


# -- names of arguments -------------------------------------------------------------------------------


def _tree_program():
    def loss(params, x, scale):
        hidden = jnp.tanh(x @ params["w"][0] + params["w"][1])
        return jax.jit(lambda h: h @ params["out"]["v"])(hidden).sum() * scale

    f32 = jnp.float32
    params = {"w": (jnp.ones((3, 4), f32), jnp.ones(4, f32)), "out": {"v": jnp.ones((4, 2), f32)}}
    return jt.trace(loss, params, jnp.ones((5, 3), f32), jnp.float32(2))


@pytest.mark.parametrize(
    "text",
    [
        'count(dot_general _ params["w"][0]) == 1',
        "count(dot_general _ params['w'][0]) == 1",
        "count(dot_general _ params.w) == 1",
        "count(dot_general x params/w) == 1",
        "count(dot_general x:f32[5,3] params:f32[3,4]) == 1",
        "count(dot_general params x) == 0",
        'count(dot_general _ params["out"]["v"]) == 0',  # inside of the call it has the name of its variable
        'count(jit params["out"]["v"]) == 1 and count(jit params.out.v) == 1',
        'count(jit {any in.name == params["out"]["v"]}) == 1',
        'count(jit {any in.name == \'params["out"]["v"]\'}) == 1',
        'count(_ {any in.name ~ "params.*v"}) == 1',
        "count(mul {any in.name == scale}) == 1",
        "count(mul {any in.name != scale}) == 1",
        "count(mul {in.name != scale}) == 0",
        'f32 {name == params["w"]} feeds tanh',
        "f32 {name == params.out.v} feeds dot_general",
        "not (f32 {name == params.out.v} feeds tanh)",
        "f32 {name == scale} feeds mul and not (f32 {name == scale} feeds reduce_sum)",
        "count(f32 {name == params}) == 3 and count(f32 {name ~ 'w'}) == 2",
    ],
)
def test_arguments_have_the_names_of_the_function(text):
    jt.assert_that(_tree_program(), text)
    again = jt.parse(format_jaxpr(_tree_program(), lossless=True))
    jt.assert_that(again, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count(dot_general f32[2]) == 1", "`f32[2]` is a type, and an operand is expected"),
        ('count(dot_general params["w) == 1', "expected"),
        ("count(dot_general params.) == 1", "expected"),
    ],
)
def test_what_is_no_name_of_an_argument(text, message):
    with pytest.raises(jt.UsageError, match=re.escape(message)):
        jt.assert_that(_tree_program(), text)


NAMED = jt.parse("""{ lambda ; a:f32[3]. let
    b:f32[3] = sin a
    c:f32[3] = jit[name=f jaxpr={ lambda ; d:f32[3]. let e:f32[3] = mul d d in (e,) }] b
  in (c,) }""")


@pytest.mark.parametrize(
    "expression",
    [
        "no mul {}",
        "count(mul _ {}) == 0",
        "no mul {{in[0].name == {}}}",
        "no _ {{depth > 0 and not name == {}}}",
        "all mul where any in.name == {}",
        "f32 {{name == {}}} feeds mul",
        "sin feeds _ {{out.name == {}}}",
        "sin before mul {}",
    ],
)
def test_a_name_that_no_value_has_is_warned_of_wherever_it_stands(expression):
    for name in ("a", "b", "d", "e"):
        (found,) = jt.holds(NAMED, expression.format(name)).verdicts
        assert not found.warnings
    (found,) = jt.holds(NAMED, expression.format("nothing")).verdicts
    (warning,) = found.warnings
    assert "no value is called nothing" in warning.message
    at = slice(*warning.at)
    assert "nothing" in expression.format("nothing")[at]


@pytest.mark.parametrize("field", ["inside", "primitive"])
def test_a_primitive_that_a_filter_names_has_to_be_one(field):
    (found,) = jt.holds(NAMED, f"no _ {{{field} == pjit}}").verdicts
    assert [w.help for w in found.warnings] == ["did you mean jit?"]
    (found,) = jt.holds(NAMED, f"no _ {{{field} == scan}}").verdicts
    assert not found.warnings
