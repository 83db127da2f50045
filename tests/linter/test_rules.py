"""Every rule finds its example and nothing in the mended one, at any depth; nothing is found where nothing is to be found."""

from __future__ import annotations

from typing import Any

import pytest

import jaxprtool as jt
from jaxprtool.driver.fix import fixed
from jaxprtool.driver.lint import lint
from jaxprtool.generation.wrapping import _around, _eqn, _longer
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from jaxprtool.linter.registry import all_rules
from jaxprtool.ops.calls import jit_call
from jaxprtool.ops.control_flow import cond_call, scan_call
from jaxprtool.syntax.parse import parse_file

RULES = {rule.code: rule for rule in all_rules()}
# Rules of what a program takes and returns, and of its text, which are not applied inside.
OF_THE_WHOLE = {"weak-input", "weak-output", "unused-argument", "step-type", "large-constant"}
INSIDE = sorted({*RULES} - OF_THE_WHOLE)


def options(rule) -> Any:
    words = rule.page.example.bad.command.split()
    return {"carry": [words[words.index("--carry") + 1]]} if "--carry" in words else {}


def codes(program, **how):
    return [f.code for f in lint({"": program}, **how).findings]


@pytest.mark.parametrize("code", RULES)
def test_the_page_of_a_rule(code):
    """The example has it, the mended one has it no more, and nothing else that is wrong in its family."""
    rule = RULES[code]
    assert rule.page.title and rule.page.why and rule.page.mend
    how = {"select": ("all",), **options(rule)}
    assert code in codes(jt.parse(rule.page.example.bad.text), **how)
    assert code not in codes(jt.parse(rule.page.example.good.text), **how)
    quiet = codes(
        jt.parse(rule.page.example.good.text), ignore=("unused-argument",), **options(rule)
    )
    assert quiet == [], quiet


@pytest.mark.parametrize("code", RULES)
def test_what_a_rule_says_has_a_place(code):
    rule = RULES[code]
    found = lint(
        {"": jt.parse(rule.page.example.bad.text)}, "x.jaxpr", select=(code,), **options(rule)
    )
    for row in found.json()["findings"]:
        assert row["code"] == code and row["help"]
        assert isinstance(row["place"]["line"], int) or "result" in row["message"]
        assert (
            not row["message"].endswith(".")
            and row["message"][0] not in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        )


def in_jit(program):
    return _around(jit_call, program, [], program.out_avals, jaxpr=program, name="f")


def in_cond(program):
    index = Var(ShapedArray((), "int32"))
    return _around(cond_call, program, [index], program.out_avals, branches=(program, program))


def in_scan(program):
    """All arguments are scanned, and all results stacked."""
    ins = [Var(_longer(a, 3)) for a in program.in_avals]
    outs = [Var(_longer(a, 3)) for a in program.out_avals]
    counts = {"num_consts": 0, "num_carry": 0, "length": 3, "reverse": False, "unroll": 1}
    eqn = _eqn(scan_call, [*ins], {"jaxpr": program, **counts}, outs)
    return ClosedJaxpr(Jaxpr(ins, [eqn], [*outs], []), [])


def twice(program):
    """Called from two places with operands of their own, so that one jaxpr has two of them."""
    first, second = in_jit(program), in_jit(program)
    ins = [*first.jaxpr.in_binders, *second.jaxpr.in_binders]
    eqns = [*first.eqns, *second.eqns]
    return ClosedJaxpr(Jaxpr(ins, eqns, [*first.jaxpr.outs, *second.jaxpr.outs], []), [])


WRAPS = {
    "jit": in_jit,
    "cond": in_cond,
    "scan": in_scan,
    "twice": twice,
    "deep": lambda p: in_scan(in_cond(in_jit(p))),
}


# What a derivative keeps of one branch of several is known as a result of the whole.
UNKNOWN = {("wide-residual", "cond"), ("wide-residual", "deep")}


@pytest.mark.parametrize(
    ("code", "wrap"), [(c, w) for c in INSIDE for w in WRAPS if (c, w) not in UNKNOWN]
)
def test_a_rule_inside(code, wrap):
    """What is found in a program is found where it is called, a branch, or the body of a loop, and nothing in the mended one."""
    rule = RULES[code]
    bad, good = (
        WRAPS[wrap](jt.parse(x)) for x in (rule.page.example.bad.text, rule.page.example.good.text)
    )
    places = [f.found.place for f in lint({"": bad}, select=(code,)).findings]
    assert any(places), bad
    assert all(place.path for place in places if place)
    assert code not in codes(good, select=(code,)), good


@pytest.mark.parametrize("code", [c for c, rule in RULES.items() if rule.page.fix])
def test_what_a_pass_mends_is_mended(code):
    rule = RULES[code]
    for program in (
        jt.parse(rule.page.example.bad.text),
        in_jit(jt.parse(rule.page.example.bad.text)),
    ):
        found = lint({"": program}, select=(code,))
        done = fixed({"": program}, found)
        assert done.changed
        assert code not in codes(done.programs[""], select=(code,))
        assert done.programs[""].out_avals == program.out_avals


def ignoring(code):
    """The example of a rule, with a comment on each finding."""
    bad = RULES[code].page.example.bad.text
    lines = bad.splitlines()
    found = lint({"": jt.parse(bad)}, select=(code,)).findings
    for at in {f.found.place.json()["line"] for f in found if f.found.place}:
        lines[at - 1] += f"  # jaxpr: ignore={code}"
    return jt.parse("\n".join(lines))


@pytest.mark.parametrize("code", [c for c, rule in RULES.items() if rule.page.fix])
@pytest.mark.parametrize("wrap", ["", "jit", "scan", "cond"])
def test_what_is_ignored_is_not_mended(code, wrap):
    """Beside an example that is mended the same one with comments stays as it is."""
    around = WRAPS.get(wrap, in_jit)
    noted, plain = ignoring(code), jt.parse(RULES[code].page.example.bad.text)
    first, second = around(noted), around(plain)
    if not wrap:  # at the top, behind the one that is mended
        first = noted
    ins = [*first.jaxpr.in_binders, *second.jaxpr.in_binders]
    outs = [*first.jaxpr.outs, *second.jaxpr.outs]
    program = ClosedJaxpr(Jaxpr(ins, [*first.eqns, *second.eqns], outs, []), [])
    found = lint({"": program}, select=(code,))
    (before,) = found.programs
    assert before.ignored and before.findings
    (after,) = lint(fixed({"": program}, found).programs, select=(code,)).programs
    assert not after.findings
    assert len(after.ignored) == len(before.ignored)
    assert [f.found.message for f in after.ignored] == [f.found.message for f in before.ignored]


def test_a_file_that_is_ignored_is_not_mended():
    """Of one rule: what another one finds is mended."""
    text = """# jaxpr: ignore-file=dead-equation
    { lambda ; a:f32[3]. let
        b:f32[3] = sin a
        c:f32[3] = sin a
        d:f32[3] = cos a
        e:f32[3] = mul b c
      in (e,) }"""
    program = jt.parse(text)
    (made,) = fixed({"": program}, lint({"": program})).programs.values()
    assert [e.primitive.name for e in made.eqns] == ["sin", "cos", "mul"]
    assert "# jaxpr: ignore-file=dead-equation" in jt.format_jaxpr(made)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    """Rules fail on none; what is dead, or there twice, is so after printing and reading, and not after the passes that mend it."""
    program, _ = jt.random_program(seed, size=12)
    found = lint({"": program}, select=("all",))
    again = parse_file(jt.format_jaxpr(program, lossless=True), own=True)[""]
    assert sorted(f.code for f in found.findings) == sorted(codes(again, select=("all",)))
    done = fixed({"": program}, found)
    for f in lint(done.programs, select=("dead-equation", "repeated-computation")).findings:
        # an equation without results stays, and what is in it as it is
        path = f.found.place.path if f.found.place else ()
        assert any(not step.eqn.out_binders for step in path)
    for row in found.json()["findings"]:
        assert row["message"]


NOTHING = {
    "log of 1 + an integer": """{ lambda ; a:i32[3]. let
        b:f32[3] = convert_element_type[new_dtype=float32 weak_type=False] a
        c:f32[3] = add 1.0:f32[] b
        d:f32[3] = log c
      in (d,) }""",
    "a sum of few terms": "{ lambda ; a:bf16[64]. let b:bf16[] = reduce_sum[axes=(0,) out_sharding=None] a in (b,) }",
    "there and back, rounding": """{ lambda ; a:f32[3]. let
        b:bf16[3] = convert_element_type[new_dtype=bfloat16 weak_type=False] a
        c:f32[3] = convert_element_type[new_dtype=float32 weak_type=False] b
      in (c,) }""",
    "a softmax of bounded numbers": """{ lambda ; a:f32[8]. let
        b:f32[8] = tanh a
        c:f32[8] = exp b
        d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
        e:f32[8] = div c d
      in (e,) }""",
    "weights of a Gaussian kernel": """{ lambda ; a:f32[8]. let
        b:f32[8] = mul a a
        c:f32[8] = neg b
        d:f32[8] = exp c
        e:f32[] = reduce_sum[axes=(0,) out_sharding=None] d
        f:f32[8] = div d e
      in (f,) }""",
    "a norm that is only compared": """{ lambda ; a:f32[3]. let
        b:f32[3] = mul a a
        c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b
        d:f32[] = sqrt c
        e:bool[] = gt d 1.0:f32[]
      in (e,) }""",
    "a choice by another value": """{ lambda ; a:f32[3] b:f32[3]. let
        c:bool[3] = gt b 0.0:f32[]
        d:f32[3] = log a
        e:f32[3] = select_n c d b
      in (e,) }""",
    "a choice by another element": """{ lambda ; a:f32[2]. let
        b:f32[1] = slice[limit_indices=(1,) start_indices=(0,) strides=None] a
        c:f32[1] = slice[limit_indices=(2,) start_indices=(1,) strides=None] a
        d:bool[1] = gt b 0.0:f32[]
        e:f32[1] = log c
        f:f32[1] = select_n d b e
      in (f,) }""",
    "f64 in, f64 out": """{ lambda ; a:f64[3] n:i32[]. let
        b:f64[] = convert_element_type[new_dtype=float64 weak_type=False] n
        c:f64[3] = mul a b
      in (c,) }""",
    "indices that JAX computes twice": """{ lambda ; a:i32[] x:f32[9]. let
        b:bool[] = lt a 0:i32[]
        c:i32[] = add a 9:i32[]
        d:i32[] = select_n b a c
        e:bool[] = lt a 0:i32[]
        f:i32[] = add a 9:i32[]
        g:i32[] = select_n e a f
        h:i32[] = add d g
      in (h, x) }""",
    "a polynomial": "{ lambda ; a:f32[9]. let\n    b0:f32[9] = mul a 0.5:f32[]\n"
    + "".join(
        f"    c{i}:f32[9] = add b{i} {i}.5:f32[]\n    b{i + 1}:f32[9] = mul c{i} a\n"
        for i in range(30)
    )
    + "  in (b30,) }",
    "four equal layers": "{ lambda ; a:f32[9] w:f32[9]. let\n"
    + "".join(
        f"    b{i}:f32[9] = mul {f'd{i - 1}' if i else 'a'} w\n    c{i}:f32[9] = tanh b{i}\n    d{i}:f32[9] = add c{i} w\n"
        for i in range(4)
    )
    + "  in (d3,) }",
}


@pytest.mark.parametrize("what", NOTHING)
def test_no_false_alarm(what):
    assert codes(jt.parse(NOTHING[what])) == []


SOME = {
    "a value that is computed twice": (
        "exp-without-max",
        """{ lambda ; a:f32[8]. let
        b:f32[8] = exp a
        c:f32[8] = exp a
        d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
        e:f32[8] = div b d
      in (e,) }""",
    ),
    "a factor of a side": (
        "where-nan-gradient",
        """{ lambda ; a:f32[3] b:f32[3]. let
        c:bool[3] = gt a 0.0:f32[]
        d:f32[3] = div a b
        e:f32[3] = log d
        f:f32[3] = mul a e
        g:f32[3] = select_n c b f
      in (g,) }""",
    ),
    "a difference in another order": (
        "exp-minus-one",
        "{ lambda ; a:f32[3]. let b:f32[3] = exp a; c:f32[3] = add -1.0:f32[] b in (c,) }",
    ),
    "a root by pow": (
        "infinite-derivative",
        """{ lambda ; a:f32[3]. let
        b:f32[3] = integer_pow[y=2] a
        c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b
        d:f32[] = pow c 0.5:f32[]
      in (d,) }""",
    ),
    "through a conversion and a broadcast": (
        "log-of-one-plus",
        """{ lambda ; a:bf16[3]. let
        b:bf16[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,) sharding=None] 1.0:bf16[]
        c:bf16[3] = add a b
        d:f32[3] = convert_element_type[new_dtype=float32 weak_type=False] c
        e:f32[3] = log d
      in (e,) }""",
    ),
}


@pytest.mark.parametrize("what", SOME)
def test_other_forms(what):
    code, text = SOME[what]
    assert code in codes(jt.parse(text))


def split(k, a, b):
    return f"{a}{b}:key<fry>[2] = random_split[shape=(2,)] {k}; {element(a + b, 0, a)}; {element(a + b, 1, b)}"


def element(k, i, out):
    sliced = f"{out}0:key<fry>[1] = slice[limit_indices=({i + 1},) start_indices=({i},) strides=None] {k}"
    return f"{sliced}; {out}:key<fry>[] = squeeze[dimensions=(0,)] {out}0"


def bits(k, out, shape=""):
    return f"{out}:u32[{shape}3] = random_bits[bit_width=32 shape=(3,)] {k}"


def fold(k, number, out):
    return f"{out}:key<fry>[] = random_fold_in {k} {number}"


def drawing(carry=False):
    return f"{{ lambda ; q:key<fry>[]. let {bits('q', 'r')} in ({'q, ' * carry}r,) }}"


def scan(body, length, carry, consts, operands):
    counts = f"length={length} num_carry={carry} num_consts={consts} reverse=False unroll=1"
    return f"scan[jaxpr={body} {counts}] {operands}"


def remat(again):
    return f"remat2[differentiated={again} jaxpr={drawing()} policy=None prevent_cse=True]"


KEYS_OF_TURNS = "m:key<fry>[4] = random_split[shape=(4,)] k"
NO_DRAW = "{ lambda ; q:key<fry>[]. let in (0:u32[3],) }"
FOLDING = (
    "{ lambda ; q:key<fry>[] i:i32[]. let j:i32[] = add i 1:i32[]; "
    f"n:u32[] = convert_element_type[new_dtype=uint32 weak_type=False] i; {fold('q', 'n', 's')}; {bits('s', 'r')} in (j, r) }}"
)
CARRYING = f"{{ lambda ; q:key<fry>[]. let {split('q', 'u', 'w')}; {bits('w', 'r')} in (u, r) }}"
# How often a key k is used twice, and equations.
KEYS = {
    "split, and an element drawn from": (0, split("k", "c", "d"), bits("c", "e")),
    "two elements": (0, split("k", "c", "d"), bits("c", "e"), bits("d", "f")),
    "the same element twice": (
        1,
        split("k", "c", "d"),
        bits("c", "e"),
        element("cd", 0, "g"),
        bits("g", "h"),
    ),
    "an element and the whole": (1, split("k", "c", "d"), bits("c", "e"), bits("cd", "f", "2,")),
    "the whole and an element": (1, split("k", "c", "d"), bits("cd", "f", "2,"), bits("c", "e")),
    "after it was split": (1, split("k", "c", "d"), bits("k", "e")),
    "folded with two numbers": (
        0,
        fold("k", "1:u32[]", "b"),
        fold("k", "2:u32[]", "c"),
        bits("b", "d"),
        bits("c", "e"),
    ),
    "folded with the same number": (
        1,
        fold("k", "1:u32[]", "b"),
        fold("k", "1:u32[]", "c"),
        bits("b", "d"),
        bits("c", "e"),
    ),
    "unwrapped and wrapped": (
        1,
        "b:u32[2] = random_unwrap k; c:key<fry>[] = random_wrap[impl=fry] b",
        bits("c", "d"),
        bits("k", "e"),
    ),
    "two calls": (
        1,
        f"b:u32[3] = jit[name=f jaxpr={drawing()}] k; c:u32[3] = jit[name=g jaxpr={drawing()}] k",
    ),
    "two branches": (0, f"b:u32[3] = cond[branches=({drawing()} {drawing()})] 0:i32[] k"),
    "a branch, and after it": (
        1,
        f"b:u32[3] = cond[branches=({drawing()} {NO_DRAW})] 0:i32[] k",
        bits("k", "c"),
    ),
    "in each turn": (1, "b:u32[4,3] = " + scan(drawing(), 4, 0, 1, "k")),
    "in one turn": (0, "b:u32[1,3] = " + scan(drawing(), 1, 0, 1, "k")),
    "folded with the turn": (0, "b:i32[] c:u32[4,3] = " + scan(FOLDING, 4, 1, 1, "k 0:i32[]")),
    "a carried key": (0, "b:key<fry>[] c:u32[4,3] = " + scan(CARRYING, 4, 1, 0, "k")),
    "a key that is carried as it is": (
        1,
        "b:key<fry>[] c:u32[4,3] = " + scan(drawing(carry=True), 4, 1, 0, "k"),
    ),
    "scanned keys": (
        0,
        KEYS_OF_TURNS + "; c:u32[4,3] = " + scan(drawing(), 4, 0, 0, "m"),
    ),
    "scanned keys, and one of them": (
        1,
        KEYS_OF_TURNS + "; c:u32[4,3] = " + scan(drawing(), 4, 0, 0, "m"),
        element("m", 2, "d"),
        bits("d", "e"),
    ),
    "one of the keys, and all scanned": (
        1,
        KEYS_OF_TURNS + "; " + element("m", 2, "d"),
        bits("d", "e"),
        "c:u32[4,3] = " + scan(drawing(), 4, 0, 0, "m"),
    ),
    "scanned twice": (
        1,
        KEYS_OF_TURNS + "; c:u32[4,3] = " + scan(drawing(), 4, 0, 0, "m"),
        "d:u32[4,3] = " + scan(drawing(), 4, 0, 0, "m"),
    ),
    "drawn in a remat": (1, f"b:u32[3] = {remat(False)} k", bits("k", "c")),
    "drawn again by a derivative": (0, bits("k", "c"), f"b:u32[3] = {remat(True)} k"),
}


@pytest.mark.parametrize("what", KEYS)
def test_keys(what):
    n, *eqns = KEYS[what]
    program = jt.parse(f"{{ lambda ; k:key<fry>[]. let {'; '.join(eqns)} in () }}")
    jt.typecheck_jaxpr(program)
    assert codes(program, select=("key-reuse",)) == ["key-reuse"] * n
    assert codes(in_jit(program), select=("key-reuse",)) == ["key-reuse"] * n


def test_deep_and_shared_programs():
    """Jaxprs that use the last one twice, forty levels deep, cost forty steps."""
    text = jt.parse(
        "{ lambda ; k:key<fry>[] a:f32[3]. let b:f32[3] = exp a; c:f32[3] = sub b 1.0:f32[] in (k, c) }"
    )
    program = text
    for _ in range(40):
        program = twice_chained(program)
    assert codes(program) == ["exp-minus-one"]


def twice_chained(program):
    binders = [Var(a) for a in program.in_avals]
    middle, outs = ([Var(a) for a in program.out_avals] for _ in range(2))
    params = {"jaxpr": program, "name": "f"}
    eqns = [_eqn(jit_call, binders, params, middle), _eqn(jit_call, middle, params, outs)]
    return ClosedJaxpr(Jaxpr(binders, eqns, [*outs], []), [])


def test_a_nesting_that_python_cannot_recurse_into():
    program = jt.parse(
        "{ lambda ; k:key<fry>[]. let b:u32[3] = random_bits[bit_width=32 shape=(3,)] k in (b,) }"
    )
    for _ in range(3000):
        program = in_jit(program)
    assert codes(program, ignore=("unused",)) == []
