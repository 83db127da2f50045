"""Passes and rewrite rules of a user's own, from Python and with --plugin."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.passes.rules import apply_rules
from tests.invoke import invoke

PLUGIN = '''
import jaxprtool as jt

@jt.rewrite_rule("log")
def log_of_exp(match):
    """log (exp x) is x, but for rounding."""
    inner = match.made(0, "exp")
    return inner and inner.inputs[0]

@jt.rewrite_rule("integer_pow")
def squares(match):
    """x ** 2 is x * x."""
    if match.params["y"] == 2:
        return match.new(lambda x: jt.lax.mul(x, x), match.inputs[0])

@jt.define_pass("no-results")
def no_results(program, *, keep: int = 0):
    """Return the first results alone."""
    return program.replace(jaxpr=program.jaxpr.replace(outs=program.jaxpr.outs[:keep]), interface=None)
'''
PROGRAM = "{ lambda ; a:f32[3]. let b:f32[3] = exp a; c:f32[3] = log b; d:f32[3] = integer_pow[y=2] c in (d,) }"


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "my_passes.py"
    path.write_text(PLUGIN)
    return path


def run(path, *words):
    command = [sys.executable, "-m", "jaxprtool", "opt", "--plugin", str(path), *words, "-"]
    return subprocess.run(command, input=PROGRAM, capture_output=True, text=True, check=False)


def test_rules_of_a_plugin(plugin):
    done = run(plugin, "--passes", "log-of-exp,squares,dce", "--verify-each")
    assert done.stdout == "{ lambda ; a:f32[3]. let b:f32[3] = mul a a in (b,) }\n", done.stderr


WRONG = """
import jaxprtool as jt

@jt.rewrite_rule("log")
def raises(match):
    return {}["no such key"]

@jt.rewrite_rule("log")
def uses_lax(match):
    return jt.lax.neg(match.inputs[0])

@jt.rewrite_rule("log")
def gives_an_equation(match):
    return match.eqn

@jt.define_pass("forgets")
def forgets(program):
    program.replace(consts=())

@jt.define_pass("unbound", laws="")
def unbound(program):
    return program.replace(jaxpr=program.jaxpr.replace(eqns=program.jaxpr.eqns[1:]))

@jt.lint_rule("of-another-kind", "log", mend="none")
def of_another_kind(at):
    return 5

@jt.lint_rule("fails", "log", mend="none")
def fails(at):
    return at.eqn.operands
"""


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("opt --passes raises", 2, "(raises): error: a plug-in raised KeyError: 'no such key'"),
        ("opt --passes uses-lax", 2, "(uses_lax): error: a plug-in raised TypeError"),
        ("opt --passes gives-an-equation", 2, "gives_an_equation returned JaxprEqn"),
        ("opt --passes forgets", 2, "the pass forgets returned NoneType"),
        ("opt --passes unbound", 1, "after unbound the program is ill-typed"),
        ("lint --select of-another-kind", 2, "of-another-kind returned int"),
        ("lint --select fails", 2, "(fails): error: a plug-in raised AttributeError"),
    ],
)
def test_faults_of_a_plugin_are_no_faults_of_ours(tmp_path, words, status, said):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    verb, *rest = words.split()
    command = [sys.executable, "-m", "jaxprtool", verb, "--plugin", str(path), *rest, "-"]
    done = subprocess.run(command, input=PROGRAM, capture_output=True, text=True, check=False)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


def test_a_pass_that_breaks_its_law_is_reported(plugin):
    done = run(plugin, "--passes", "no-results", "--verify-each")
    assert done.returncode == 1 and "after no-results the program has another type" in done.stderr
    assert run(plugin, "--passes", "no-results keep=1", "--verify-each").returncode == 0


def test_passes_of_a_plugin_are_listed(plugin):
    text = run(plugin, "--list").stdout
    assert "log-of-exp\n  log (exp x) is x, but for rounding." in text
    assert "no-results keep=0" in text


def test_opt_in_python():
    def f(x):
        return (x * 1.0 + jt.lax.neg(jt.lax.neg(x))) * 2.0

    made = jt.opt(f, np.ones(3))
    assert [e.primitive.name for e in made.eqns] == ["add", "mul"]


def test_wrong_laws_and_names_are_refused():
    with pytest.raises(ValueError, match="fast is no law of passes"):
        jt.define_pass("mine", "fast")
    with pytest.raises(ValueError, match="there is a pass cse already"):
        jt.define_pass("cse")(lambda program: program)


def test_what_a_rule_gives_has_to_have_the_type_of_the_result():
    """A rule that gives another type does not apply."""
    program = jt.parse(
        "{ lambda ; a:f32[]. let b:i32[] = convert_element_type[new_dtype=int32 weak_type=False] a in (b,) }"
    )
    rules = {"convert_element_type": [lambda match: match.inputs[0]]}
    assert apply_rules(program, rules) is program


def test_time_and_print_after_all_go_to_standard_error():
    done = invoke("opt --passes cse,dce --time --print-after-all -", PROGRAM)
    assert "cse: 3 equations, unchanged" in done.error and "# after dce" in done.error
    assert done.output.startswith("{ lambda ; a:f32[3]. let\n")


def test_origins_and_names_stay():
    text = (
        "{ lambda ; x:f32[3]. let\n"
        "    y:f32[3] = mul x 1.0:f32[] # loss.py:3:4 (loss)\n"
        "    z:f32[3] = sin y           # loss.py:4:4 (loss)\n"
        "  in (z,) }\nargs (x=*) -> *\n"
    )
    done = invoke("opt -", text)
    assert "# loss.py:4:4 (loss)" in done.output and "loss.py:3:4" not in done.output
    assert done.output.endswith("args (x=*) -> *\n")
