"""lint: comments, choices of rules, carries, documents, mending, plug-ins, and real programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.linter.registry import all_rules
from tests.invoke import invoke
from tests.timing import assert_growth

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted([*(ROOT / "examples").glob("*.jaxpr"), *(ROOT / "examples/zoo").glob("*.jaxpr")])
EXP = (
    "{ lambda ; a:f32[3]. let\n    b:f32[3] = exp a\n    c:f32[3] = sub b 1.0:f32[]\n  in (c,) }\n"
)


def document(*words, text=None, status=(0, 1)):
    done = invoke(["lint", "--json", *map(str, words)], text or "")
    assert done.status in status, done.error
    return json.loads(done.output)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_real_programs(path, tmp_path):
    """The finding's line holds its primitive; --fix leaves a program that computes the same, and nothing that it mends."""
    found = document(path)
    lines = path.read_text().splitlines()
    for row in found["findings"]:
        place = row["place"]
        assert place["primitive"] is None or place["primitive"] in lines[place["line"] - 1]
    made = tmp_path / "made.jaxpr"
    done = invoke(["lint", "--fix", "-o", str(made), str(path)])
    assert done.status in (0, 1), done.error
    left = {row["code"] for row in document(made)["findings"]}
    assert not left & {r.code for r in all_rules() if r.page.fix}
    assert jt.parse(made.read_text()).in_avals == jt.parse(path.read_text()).in_avals


def test_comments_keep_rules_quiet():
    def quiet(text):
        found = document("-", text=text)
        return [r["code"] for r in found["findings"]], found["ignored"]

    assert quiet(EXP) == (["exp-minus-one"], 0)
    line = "sub b 1.0:f32[]"
    for comment in ("ignore", "ignore=exp-minus-one", "ignore=dead-equation, exp-minus-one"):
        assert quiet(EXP.replace(line, f"{line}  # jaxpr: {comment}")) == ([], 1)
        assert quiet(EXP.replace("    c:", f"    # jaxpr: {comment}\n    c:")) == ([], 1)
    assert quiet(EXP.replace(line, f"{line}  # jaxpr: ignore=dead-equation"))[1] == 0
    assert quiet(EXP.replace("exp a", "exp a  # jaxpr: ignore"))[1] == 0
    assert quiet(f"# jaxpr: ignore-file=exp-minus-one\n{EXP}") == ([], 1)
    assert quiet(f"# jaxpr: ignore=exp-minus-one\n{EXP}")[1] == 0
    unused = "{ lambda ; a:f32[3]. let in () }"
    assert quiet(unused)[0] == ["unused-argument"]
    assert quiet(f"# jaxpr: ignore=unused-argument\n{unused}") == ([], 1)


def test_a_comment_survives_fmt():
    text = EXP.replace("1.0:f32[]", "1.0:f32[]  # jaxpr: ignore=exp-minus-one")
    assert document("-", text=invoke("fmt -", text).output)["ignored"] == 1


def test_which_rules():
    text = EXP.replace("a:f32[3]", "a:f32[3] z:i32[]")
    both = ["unused-argument", "exp-minus-one"]
    for words, expected in {
        (): both,
        ("--select", "numerics"): both[1:],
        ("--select", "unused, exp-minus-one"): both,
        ("--ignore", "numerics"): both[:1],
        ("--select", "all", "--ignore", "unused"): both[1:],
        ("--ignore", "all"): [],
    }.items():
        assert [r["code"] for r in document(*words, "-", text=text)["findings"]] == expected
    done = invoke("lint --select exp-minus-on -", text)
    assert done.status == 2 and "did you mean exp-minus-one?" in done.error


def test_constants():
    text = "{ lambda w:f32[300]; a:f32[3]. let b:f32[300] = sin w in (b, a) }"
    assert document("-", text=text)["findings"] == []
    (row,) = document("--max-const", "1K", "-", text=text)["findings"]
    assert row["code"] == "large-constant" and row["place"]["column"] == 10


def test_one_array_that_two_jaxprs_hold_is_told_once():
    table = jnp.arange(600_000.0)

    def inner(x):
        return x + table[0] + jnp.sum(table)

    found = jt.lint(
        lambda x: jax.lax.scan(lambda c, _: (inner(c), None), x, None, 3)[0] + inner(x), 1.0
    )
    assert [f.code for f in found.findings].count("large-constant") == 1


STEP = """{ lambda ; a:f32[3] n:i32[] d:f32[3]. let
    b:f32[3] = mul a d
    c:f32[] = convert_element_type[new_dtype=float32 weak_type=False] n
  in (b, c) }
args (state={"n": *, "w": *}, x=*) -> {"n": *, "w": *}
"""


def test_carries():
    step = STEP.replace("a:f32[3] n:i32[]", "n:i32[] a:f32[3]").replace("in (b, c)", "in (c, b)")

    def carried(word, text=step):
        return [r["message"] for r in document("--carry", word, "-", text=text)["findings"]]

    assert carried("1:1") == []
    told = 'result["n"] is f32[], and argument state["n"] is i32[]: another element type'
    assert (
        carried("0:0")
        == carried("0-1:state")
        == carried("*:state")
        == carried("n:state.n")
        == [told]
    )
    weak = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }\nwhere weak b"
    assert any("weak type" in m for m in carried("0:0", weak))
    for word, why in {
        "0": "no pair",
        "7:0": "no result 7",
        "0:9": "no argument 9",
        "0-1:0": "2 results for 1 argument",
        "0:nobody": "no argument nobody",
        "nobody:0": "no result nobody",
    }.items():
        done = invoke(["lint", "--carry", word, "-"], step)
        assert done.status == 2 and why in done.error, done.error


LOW_SUMS = {
    "sum": ("f:bf16[] = add d e", "(f,)", True),
    "product": ("f:bf16[] = mul e d", "(f,)", True),
    "sum of squares": ("g:bf16[] = mul e e\n f:bf16[] = add d g", "(f,)", True),
    "maximum": ("f:bf16[] = max d e", "(f,)", False),
    "choice": ("g:bool[] = lt d e\n f:bf16[] = select_n g d e", "(f,)", False),
    "the last one": ("", "(e,)", False),
}


@pytest.mark.parametrize("what", LOW_SUMS)
@pytest.mark.parametrize(("terms", "enough"), [(1000, True), (255, False)])
def test_general_reductions_are_sums_where_their_jaxprs_add(what, terms, enough):
    eqns, outs, found = LOW_SUMS[what]
    reducer = f"jaxpr={{ lambda ; d:bf16[] e:bf16[]. let {eqns} in {outs} }}"
    whole = f"reduce[dimensions=(0,) {reducer}]"
    windows = (
        f"reduce_window[base_dilation=(1,) {reducer} padding=((0, 0),) window_dilation=(1,) "
        f"window_dimensions=({terms},) window_strides=(1,)]"
    )
    for op, shape in ((whole, ""), (windows, 1)):
        text = f"{{ lambda ; a:bf16[{terms}]. let b:bf16[{shape}] = {op} a 0.0:bf16[] in (b,) }}"
        says = [row["code"] for row in document("--select", "sums", text=text)["findings"]]
        assert says == ["low-precision-sum"] * (found and enough), op


def test_each_array_of_a_general_reduction_is_looked_at():
    text = """{ lambda ; a:f32[999] b:bf16[999]. let
        c:f32[] d:bf16[] = reduce[dimensions=(0,) jaxpr={ lambda ; e:f32[] f:bf16[] g:f32[] h:bf16[]. let
            i:f32[] = add e g
            j:bf16[] = %s f h
          in (i, j) }] a b 0.0:f32[] 0.0:bf16[]
      in (c, d) }"""
    counts = [
        len(document("--select", "sums", text=text % op)["findings"]) for op in ("add", "max")
    ]
    assert counts == [1, 0]


UNTAKEN = {
    "a root": (lambda x: jnp.where(x >= 0, jnp.sqrt(x), 0.0), True),
    "the other way around": (lambda x: jnp.where(x < 0, 0.0, 2 * jnp.sqrt(x) + 1), True),
    "a power": (lambda x: jnp.where(x >= 0, x**1.5, 0.0), True),
    "an arcsine": (lambda x: jnp.where(x <= 1, jnp.arcsin(x), 0.0), True),
    "an inverse cosh": (lambda x: jnp.where(x >= 1, jnp.arccosh(x), 0.0), True),
    "a logarithm, whose derivative is finite": (
        lambda x: jnp.where(x >= 0, jnp.log(x), 0.0),
        False,
    ),
    "a guard": (lambda x: jnp.where(x >= 0, jnp.sqrt(jnp.where(x >= 0, x, 1.0)), 0.0), False),
    "an even power": (lambda x: jnp.where(x >= 0, x**2.0, 0.0), False),
    "what is not negative": (lambda x: jnp.where(x * x + 1 > -1, jnp.sqrt(x * x + 1), 0.0), False),
    "another side": (lambda x: jnp.where(x <= 3, jnp.sqrt(x), 0.0), False),
}


@pytest.mark.parametrize("what", UNTAKEN)
def test_where_an_operation_has_no_value_its_derivative_is_nan(what):
    """The rule says so where the function has a value, and its derivative by JAX is NaN."""
    function, found = UNTAKEN[what]
    points = jnp.array([-3.0, -1.0, -0.5, 0.25, 0.5, 2.0])
    slopes = jax.vmap(jax.grad(function))(points)
    assert bool((jnp.isnan(slopes) & ~jnp.isnan(function(points))).any()) == found
    codes = [row["code"] for row in jt.lint(function, np.ones(3, np.float32)).json()["findings"]]
    assert ("where-nan-gradient" in codes) == found


def test_a_case_of_a_choice_may_have_no_operands():
    found = jt.lint(lambda x: jnp.where(x >= 0, jnp.arange(3.0), x), np.ones(3, np.float32))
    assert found.is_clean, str(found)


def test_functions_of_jax():
    def loss(x):
        return jnp.log(jax.nn.softmax(x))[0]

    found = jt.lint(loss, jnp.ones(3))
    assert [f.code for f in found.findings] == ["log-of-softmax"]
    (finding,) = found.findings
    assert finding.found.place and "test_lint.py" in str(finding.found.place.source)
    assert not found.is_clean
    assert jt.lint(lambda x: jax.nn.log_softmax(x)[0], jnp.ones(3)).is_clean
    assert jt.lint(lambda x: jax.nn.softmax(x), jnp.ones(3)).is_clean
    assert jt.lint(jax.grad(lambda x: jax.nn.logsumexp(x)), jnp.ones(3)).is_clean
    assert "nothing found" in str(jt.lint(jnp.sin, np.float32(1)))


def test_a_dead_equation_in_a_loop_is_mended():
    """Also where the loop reads all that it carries."""
    going = "{ lambda ; a:f32[]. let b:bool[] = lt a 3.0:f32[] in (b,) }"
    body = "{ lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[]; c:f32[] = sin a in (b,) }"
    loop = f"while[body_jaxpr={body} body_nconsts=0 cond_jaxpr={going} cond_nconsts=0] a"
    program = jt.parse(f"{{ lambda ; a:f32[]. let b:f32[] = {loop} in (b,) }}")
    assert [f.code for f in jt.lint(program).findings] == ["dead-equation"]
    assert jt.lint(jt.opt(program, passes="dce")).is_clean


# Functions of libraries and idioms of users, written as they recommend it: nothing is to be found in them.
CLEAN = {
    "softplus": (jax.nn.softplus, jnp.ones(3)),
    "gelu": (jax.nn.gelu, jnp.ones(3)),
    "log_sigmoid": (jax.nn.log_sigmoid, jnp.ones(3)),
    "logsumexp": (jax.nn.logsumexp, jnp.ones(3)),
    "logaddexp": (jnp.logaddexp, jnp.ones(3), jnp.ones(3)),
    "bf16 sum": (lambda x: jnp.sum(x), jnp.ones(5000, jnp.bfloat16)),
    "bf16 mean": (lambda x: jnp.mean(x), jnp.ones(5000, jnp.bfloat16)),
    "normal": (lambda k: jax.random.normal(k, (3,)), jax.random.key(0)),
    "permutation": (lambda k: jax.random.permutation(k, 8), jax.random.key(0)),
    "categorical": (lambda k, x: jax.random.categorical(k, x), jax.random.key(0), jnp.ones(3)),
    "split": (lambda k: [jax.random.normal(s) for s in jax.random.split(k, 3)], jax.random.key(0)),
    "truncated": (lambda k: jax.random.truncated_normal(k, -1.0, 1.0), jax.random.key(0)),
    "gamma": (lambda k: jax.random.gamma(k, 2.0), jax.random.key(0)),
    "choice": (lambda k: jax.random.choice(k, 5, (3,), replace=False), jax.random.key(0)),
    "dirichlet": (lambda k: jax.random.dirichlet(k, jnp.ones(3)), jax.random.key(0)),
    "scan of keys": (
        lambda k: jax.lax.scan(lambda c, k: (c, jax.random.normal(k)), 0, jax.random.split(k, 4))[1],
        jax.random.key(0),
    ),
    "fold_in": (
        lambda k: jax.lax.map(lambda i: jax.random.normal(jax.random.fold_in(k, i)), jnp.arange(4)),
        jax.random.key(0),
    ),
    "raw keys": (lambda k: [jax.random.normal(s) for s in jax.random.split(k)], jax.random.PRNGKey(0)),
    "eigh": (jnp.linalg.eigh, jnp.eye(3)),
    "guarded": (
        lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0),
        jnp.ones(3),
    ),
    "std with eps": (lambda x: x / jnp.sqrt(jnp.var(x) + 1e-5), jnp.ones(3)),
}  # fmt: skip


@pytest.mark.parametrize("what", CLEAN)
def test_idioms_are_clean(what):
    f, *args = CLEAN[what]
    found = jt.lint(f, *args)
    assert [x.code for x in found.findings if x.code not in INDIFFERENT] == [], str(found)


# What JAX's own functions have, which are as they are: equations that nobody reads, or that are there twice.
INDIFFERENT = {"dead-equation", "repeated-computation"}


def test_keys_of_functions():
    def reused(key):
        return jax.random.normal(key, (3,)) + jax.random.uniform(key, (3,))

    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        assert [f.code for f in jt.lint(reused, key).findings] == ["key-reuse"]


def test_sarif():
    done = invoke("lint --sarif -", EXP)
    assert done.status == 1
    (run,) = json.loads(done.output)["runs"]
    (result,) = run["results"]
    rules = run["tool"]["driver"]["rules"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "exp-minus-one"
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (3, 5)


def test_annotations():
    done = invoke("lint --error-format github -", EXP)
    assert done.output.startswith("::warning file=<stdin>,line=3,col=5,title=exp-minus-one::")


def test_annotations_of_a_traced_function_stand_in_its_file(tmp_path):
    path = tmp_path / "step.py"
    path.write_text("import jax.numpy as jnp\n\n\ndef step(x):\n    return 2 * (jnp.exp(x) - 1)\n")
    words = [f"{path}:step", "--shape", "f32[3]", "--select", "numerics"]
    done = invoke(["lint", "--error-format", "github", *words])
    assert done.output.startswith(f"::warning file={path},line=5,col=17,title=exp-minus-one::")
    assert f"({path}:step:3:5)%0Ahelp: " in done.output


TWICE = """# above
{ lambda ; a:f32[3]. let
    b:f32[3] = sin a  # first
    c:f32[3] = sin a
    d:f32[3] = mul b c  # last
  in (d,) }
"""


def test_fix_in_place(tmp_path):
    path = tmp_path / "p.jaxpr"
    path.write_text(TWICE)
    done = invoke(["lint", "--fix", str(path)])
    assert (done.status, done.output) == (0, "nothing found; mended 1 repeated-computation\n")
    text = path.read_text()
    assert text.count("sin") == 1 and "# above" in text and "# first" in text and "# last" in text
    before = path.stat().st_mtime_ns
    assert invoke(["lint", "--fix", str(path)]).status == 0
    assert path.stat().st_mtime_ns == before


def test_fix_of_a_file_with_several_programs(tmp_path):
    path = tmp_path / "p.jaxpr"
    path.write_text(f"one = {TWICE.split(chr(10), 1)[1]}two = {EXP}")
    found = json.loads(invoke(["lint", "--fix", "--json", str(path)]).output)
    assert found["fixed"] == {"repeated-computation": 1} and found["counts"] == {"exp-minus-one": 1}
    assert found["findings"][0]["program"].endswith("p.jaxpr#two")
    assert invoke(["lint", f"{path}#one"]).status == 0


@pytest.mark.parametrize(
    "words",
    [
        "--fix -",
        "--fix p.jaxpr#one",
        "-o x.jaxpr p.jaxpr",
        "--json --sarif p.jaxpr",
        "--fix -o x p.jaxpr p.jaxpr",
        "--fix f.py:g",
    ],
)
def test_wrong_usage(words):
    done = invoke(f"lint {words}", EXP)
    assert done.status == 2 and done.error.startswith("error: ")


def test_several_files(tmp_path):
    """All are looked at, also after one that cannot be read."""
    good, bad = tmp_path / "good.jaxpr", tmp_path / "bad.jaxpr"
    good.write_text(EXP)
    bad.write_text("{ lambda ; a:f32[3]. let b:f64[3] = sin a in (b,) }")
    done = invoke(["lint", str(bad), str(good), str(tmp_path / "none.jaxpr")])
    assert done.status == 2 and "exp-minus-one" in done.output
    assert "binder-type" in done.error and "none.jaxpr" in done.error


PLUGIN = '''
import jaxprtool as jt

@jt.lint_rule("sine-of-cosine", "sin", mend="do not", bad="", good="")
def sine_of_cosine(at):
    """A sine of a cosine.

    Nobody needs that.
    """
    return "sin of cos" if at.made(0, "cos") else None

@jt.lint_rule("large-jaxpr", family="sizes", kind="jaxpr", mend="write less", default=False)
def large_jaxpr(frame):
    """A jaxpr of more than one equation."""
    if len(frame.jaxpr.eqns) > 1:
        yield jt.Found("it is large", frame.place(frame.jaxpr.eqns[-1]))
'''


def test_rules_of_a_plugin(tmp_path):
    path = tmp_path / "my_rules.py"
    path.write_text(PLUGIN)
    text = "{ lambda ; a:f32[3]. let b:f32[3] = cos a; c:f32[3] = sin b in (c,) }"

    def run(*words):
        command = [sys.executable, "-m", "jaxprtool", *words[:1], "--plugin", str(path), *words[1:]]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    done = run("lint", "-")
    assert done.returncode == 1 and "warning: sin of cos [sine-of-cosine]" in done.stdout, done
    assert "large-jaxpr" not in done.stdout
    assert "it is large [large-jaxpr]" in run("lint", "--select", "large-jaxpr", "-").stdout
    assert "Nobody needs that." in run("explain", "sine-of-cosine").stdout


def test_a_rule_that_cannot_be_defined():
    with pytest.raises(ValueError, match="already"):
        jt.lint_rule("key-reuse", "sin", mend="x")(lambda at: None)
    with pytest.raises(ValueError, match="names primitives"):
        jt.lint_rule("no-primitive", mend="x")


def test_lint_takes_time_in_proportion():
    """Twice the equations take twice the time, give or take; so do wide groups of slices of one array."""

    def text(n):
        eqns = "".join(
            f"    b{i}:f32[1] = slice[limit_indices=({i + 1},) start_indices=({i},) strides=None] a\n"
            f"    c{i}:f32[1] = mul b{i} {f'c{i - 1}' if i else 'b0'}\n"
            for i in range(n)
        )
        return f"{{ lambda ; a:f32[{n}]. let\n{eqns}  in (c{n - 1},) }}"

    assert_growth(lambda n: jt.parse(text(n)), jt.lint, 1000, 8000, 16)
