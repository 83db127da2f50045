"""`grammar/jaxpr.lark` is the language: Lark reads with it what the fast reader reads, and rejects what that rejects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.ir.dtypes import KEYS
from jaxprtool.syntax.oracle import language_parser
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from jaxprtool.syntax.tables import grammar_folder
from tests.fuzz.choice import digest
from tests.fuzz.targets.mutated_text import all_texts, mutations
from tests.syntax.lark_reader import read_with_lark
from tests.syntax.lark_tree import Rejected
from tests.syntax.programs import CASES, traced
from tests.syntax.two_readers import difference

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::jaxprtool.syntax.{category}")
    for category in ("infer.UntypedWarning", "building.draws.AmbiguousDrawsWarning")
]

FOLDER = Path(__file__).parent
GRAMMAR = (grammar_folder() / "jaxpr.lark").read_text(encoding="utf-8")
# Blocks of the comments that begin as a program does.
BLOCK = re.compile(
    r"(?m)^//     (?=\{ lambda|\(\{ lambda|let |\w+ = \{|# |\w+:f32\[3\] = ).*\n(?://(?:     .*)?\n)*"
)
MUTATED = 12  # times each text


def examples() -> list[str]:
    """The examples in the grammar's comments; a block ends at an empty line."""
    blocks = [b for m in BLOCK.finditer(GRAMMAR) for b in re.split(r"(?m)^//\n", m[0])]
    return [re.sub(r"(?m)^//     ", "", b) for b in blocks if b]


@pytest.mark.parametrize("text", examples())
def test_the_examples_of_the_specification(text):
    assert read_with_lark(text)
    assert difference(text) is None


def test_every_section_of_the_specification_has_an_example():
    sections = re.split(r"(?m)^// ==== ", GRAMMAR)[1:]
    assert len(sections) == 9
    assert all(BLOCK.search(section) for section in sections)


def test_it_loads_with_lark_as_it_says():
    (options,) = re.findall(r"lark\.Lark\(text, (.*), postlex=Layout", GRAMMAR)
    parser = language_parser()
    assert f'parser="{parser.options.parser}", lexer="{parser.options.lexer}"' in options
    assert f"start={parser.options.start}".replace("'", '"') in options


def test_texts_of_the_project():
    folders = FOLDER / "documentation", FOLDER / "formats"
    texts = all_texts() + [p.read_text() for f in folders for p in sorted(f.glob("*.jaxpr"))]
    assert len(texts) > 150
    assert [d for d in map(difference, texts) if d] == []


@pytest.mark.parametrize("name", CASES)
def test_what_jax_prints(name):
    jaxpr = traced(name)
    for text in (
        jaxpr.pretty_print(source_info=True),
        jaxpr.pretty_print(name_stack=True, print_effects=True),
        jaxpr.pretty_print(custom_pp_eqn_rules=False),
        jaxpr.pretty_print(use_color=True),
    ):
        assert difference(text) is None


def pieces(text: str) -> list[int]:
    """Where the words and the marks of a text begin."""
    return [m.start() for m in re.finditer(r"\w+|[^\w\s]", text)]


SHORT = [t for t in all_texts() if 150 < len(t) < 700 and digest(t) % 7 == 0]


@pytest.mark.parametrize("text", SHORT, ids=range(len(SHORT)))
def test_cut_at_every_token(text):
    assert [d for at in pieces(text) if (d := difference(text[:at]))] == []


@pytest.mark.parametrize("part", range(5))
def test_mutated(part):
    texts = [t for t in all_texts() if digest(t) % 5 == part]
    found = [(m, d) for t in texts for m in mutations(t, MUTATED) if (d := difference(m))]
    assert found == []


HEAD = "{ lambda ; a:f32[3] b:f32[]. let\n    "
BRANCHES = "let f = { lambda ; a:f32[3]. let in (a,) } in { lambda ; b:i32[] a:f32[3]. let\n    "


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("{ lambda ; a:f32[3]. let b:f32[3] = sin a\n  in (b }", "}"),
        ("{ lambda ; a:f32[3 4]. let in (a,) }", "4"),
        ("{ lambda ; a:f32[2,]. let in (a,) }", "]"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = sin(a) in (b,) }", "sin(a)"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = mul a, a in (b,) }", ", a in"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[]x in (b,) }", "x in"),
        ("{ lambda ; a:f32[3]. let b:f32[3]= sin a in (b,) }", "b:f32[3]="),
        ("{ lambda ; a:f32[3]. let b:f32[3] = sin[k=1]a in (b,) }", "a in"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = odd[] a in (b,) }", "] a"),
        ("{ lambda ; r:Ref{f32[3]}. let a:f32[] <- r[,1] in (a,) }", ",1"),
        ("{ lambda a:f32[2]; . let in (a,) }\nwhere a = [1.0 2.0]", "2.0]"),
        ("{ lambda ; a:f32[3]. let in (a,) } }", "}"),
        ("{ lambda a:f32[2]; . let in (a,) }\nwhere a = [1.0, 2.0\n      b = [3.0]", "b ="),
        ("{ lambda a:f32[]; . let in (a,) }\nwhere = 3", "where"),
        ("{ lambda ; a:f32[3]. let c\"d a in (a,) }", 'c"d'),
        ("{ lambda ; a:f32[3]. let b:f32[3] = odd[j={ lambda ; . let in () }k=5] a in (b,) }", "k=5"),
        ("{ lambda ; r:Ref{f32[3]} a:f32[]. let b:f32[], r[0] <- r[0],\n a in (b,) }", ",\n a"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[;i:3] in (b,) }", ";i:3"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = odd[k=1]# after\n in (b,) }", "#"),
        (";# first\n{ lambda ; a:f32[3]. let in (a,) }", ";#"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = #sin a\n in (b,) }", "b:f32[3] = #"),
        ("{ lambda ; a:f32[3]. let b = #sin a\n in (b,) }", "= #"),
        ("known = #sin a\nodd = 3", "odd"),
        (HEAD + "c:f32[3] d e\n      f = pack= mul a\n  in (c,) }", "c:f32[3] d e"),
        ("known =\n ; a:f32[3]. let in (a,) }", "known"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin (f:f32[0,4611686018427387904,4611686018427387904]\n in (b,) }", "(f"),
        ("{ lambda ; in:f32[]. let b:f32[] = sin in # }\n", ""),
        ("{ lambda ; a:f32[]. let in (a, [.\n  in .]:float0[3]]) }", "[."),
    ],
)  # fmt: skip
def test_where_lark_rejects(text, at):
    with pytest.raises(Rejected) as e:
        read_with_lark(text)
    rest = text[e.value.offset :].lstrip()
    assert rest.startswith(at) and bool(rest) == bool(at)
    assert difference(text) is None


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("{ lambda ; a:f32[3],b:f32[]. let in (a, b) }", "{ lambda ; a:f32[3] b:f32[]. let in (a, b) }"),
        (HEAD + "c:f32[3] = mul\n\n        a b\n  in (c,) }", HEAD + "c:f32[3] = mul a b\n  in (c,) }"),
        (HEAD + "c:f32[3] = mul a b\n            \n    d:f32[3] = sin c\n  in (d,) }", HEAD + "c:f32[3] = mul a b\n    d:f32[3] = sin c\n  in (d,) }"),
        (HEAD + "c\n       = mul a b\n  in (c,) }", HEAD + "c = mul a b\n  in (c,) }"),
        (HEAD + "c:f32[2,3] = mul a [...]:f32[2, 3]\n  in (c,) }", HEAD + "c:f32[2,3] = mul a [...]:f32[2,3]\n  in (c,) }"),
        (HEAD + "c:f32[3]   =   mul a b\n    d   =  sin c\n      =  odd c\n  in (c,) }", HEAD + "c:f32[3] = mul a b\n    d = sin c\n    = odd c\n  in (c,) }"),
        (HEAD + "c:f32[3] = mul a b;# after\n  in (c,) }", HEAD + "c:f32[3] = mul a b # after\n  in (c,) }"),
        (HEAD + "odd[axes = out = None] a\n  in (a,) }", HEAD + "odd[axes= out=None] a\n  in (a,) }"),
        (HEAD + "odd[\n      k=1\n      of=\n  <f with\n    ] a\n  in (a,) }", HEAD + "odd[\n      k=1\n      of=<f with\n    ] a\n  in (a,) }"),
        (HEAD + "odd[k=1 of=\n  f\n    g] a\n  in (a,) }", HEAD + "odd[k=1 of=f\n    g] a\n  in (a,) }"),
        (HEAD + "odd[j={ lambda ; . let in () } where=3] a\n  in (a,) }", HEAD + "odd[j={ lambda ; . let in () } where = 3] a\n  in (a,) }"),
        (HEAD + "odd[k=nan(1) l=P(inf=2)] a\n  in (a,) }", HEAD + "odd[k = nan(1) l = P(inf=2)] a\n  in (a,) }"),
        ("{ lambda ; r:Ref{ f32[8] }. let in () }", "{ lambda ; r:Ref{f32[8]}. let in () }"),
        (BRANCHES + "c:f32[3] = cond[branches=( f # x\n { lambda ; d:f32[3]. let in (d,) })] b a\n  in (c,) }", BRANCHES + "c:f32[3] = cond[branches=(f { lambda ; d:f32[3]. let in (d,) })] b a # x\n  in (c,) }"),
        ("{ lambda ; a:f32[3]. let\n  ;b:f32[3] = sin a\n    c:f32[3] = sin b\n  in (c,) }", "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = sin b in (c,) }"),
        ("{ lambda ; ; a.\n  let b = sin a in b }", "{ lambda ; ; a.\n  let b = sin a\n  in b }"),
        (HEAD + "c:f32[3]\n      d e:f32[] f\n      g = odd a\n  in (c, g) }", HEAD + "c:f32[3] d e:f32[] f g = odd a\n  in (c, g) }"),
        ("{ lambda a:f32[3] .\n  let  = odd [ k=1 ] a\n  in ( a ) }", "{ lambda a:f32[3] .\n  let odd[k=1] a\n  in ( a ) }"),
        ("{ lambda a:f32[2]; . let in (a,) } where a =  [1.0, 2.0]", "{ lambda a:f32[2]; . let in (a,) } where a = [1.0, 2.0]"),
    ],
)  # fmt: skip
def test_read_alike(text, same):
    assert difference(text) is None
    assert format_file(parse_file(text), lossless=True) == format_file(
        parse_file(same), lossless=True
    )


@pytest.mark.parametrize(
    "fmt", ["= {}", "== {}", "{ lambda ; a:f32[]. let in (a,) }= {}", "x\n    y: {}", "x[ {}"]
)
def test_a_format_is_any_text(fmt):
    params = f"fmt={fmt}\n      has_placeholders=True\n      in_tree=None\n      ordered=False"
    text = f"{HEAD}debug_print[\n      {params}\n    ] b\n  in () }}"
    assert difference(text) is None
    assert parse_file(text)[""].jaxpr.eqns[0].params["fmt"] == fmt


TYPES = (
    *(
        "f32{x}",
        "f99{x}",
        "f8_later{x}",
        "key<fry>{x}",
        "i32<>{x}",
        "f32{ lambda ; b:f32[]. let in (b,) }",
    ),
    *(
        "f32<a><b>[3]",
        "f32<host>",
        "f32",
        "f99",
        "f8_later",
        "f32[3]{}",
        "f32[3]{x y}",
        "f32[3]{V:}",
    ),
    *("key<mine>{x}", "Odd{f32[3]}", "Odd<a>[3]", "f32_later[3]", "f99[3]"),
    *("i32_c64", "i32_c64[3]", "uint8_t", "complex64_x[2]"),
)


@pytest.mark.parametrize("aval", TYPES)
def test_types_that_are_none_of_an_array(aval):
    assert difference(f"{{ lambda ; a:f32[]. let b:{aval} = odd a in (b,) }}") is None


@pytest.mark.parametrize("kind", [*KEYS, *(name for name, _ in KEYS.values())])
@pytest.mark.parametrize("rest", ["[]", "[2]", "[;i:2]", "[2;i:2,j:3]", "[;]", "[2;3]", "[2;i:2,]"])
def test_types_of_keys(kind, rest):
    """Named axes are those of releases up to 0.4.30."""
    text = f"{{ lambda ; a:key<{kind}>{rest}. let in (a,) }}"
    assert difference(text) is None
    try:
        read = parse_file(text)[""].in_avals[0].ndim
    except jt.JaxprParseError as e:
        read = e.diagnostics[0].code
    well_formed = rest in ("[]", "[2]", "[;i:2]", "[2;i:2,j:3]")
    assert read == (rest.count("[2") if well_formed else "bad-type")


KERNEL = """\
{ lambda ; c:MemRef<None>{float32[8,128]} d:MemRef<vmem>{float32[8,128]}. let
    e:i32[8,128] <- c[bitcast(int32[8,128])][:,:]
    f:f32[2,128] <- c[reshape(float32[4,2,128])][0,:,:]
    dma_start c[...] -> d[...]
    d[0,:] <- f
    d[reshape(float32[4,2,128])][0,:,:] += f
  in (e,) }
"""


def test_references_of_kernels_from_0_4_34_to_0_5_3():
    assert difference(KERNEL) is None
    (program,) = parse_file(KERNEL).values()
    assert str(program.jaxpr.in_binders[0].aval) == "Ref{f32[8,128]}"
    assert [str(e.params["index"]) for e in program.eqns][:2] != ["", ""]
    assert len(program.eqns[0].inputs) == 1  # words in a view are no variables


@pytest.mark.parametrize("blanks", [" ", "  ", "     "])
@pytest.mark.parametrize(
    "text",
    [
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a in(b,) }",
        "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n  in(b,\n    a) }",
        "{ lambda ; in:c64[]. let a:c64[] = mul in(1+2j):c64[] in(a, in) }",
        "{ lambda ; a:Ref{f32[8]}. let dma_wait a[...] a[...] in() }",
    ],
)
def test_blanks_before_the_results(text, blanks):
    """Columns are aligned by hand; JAX prints one."""
    spaced = text.replace("in(", f"in{blanks}(")
    assert difference(spaced) is None
    (read,), (plain,) = (
        parse_file(spaced).values(),
        parse_file(text.replace("in(", "in (")).values(),
    )
    assert str(read) == str(plain)
