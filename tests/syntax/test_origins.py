"""Lines of Python and names beside equations: JAX's annotations, and what transformations make of them."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxprtool as jt
from jaxprtool.core.bind import NO_EQN, state
from jaxprtool.driver.grad import grad
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.trace import trace
from jaxprtool.driver.vmap import vmap
from jaxprtool.interpreters.origins import map_origins, show_origins, without_origins
from jaxprtool.ir.origin import NAMES, SOURCE, Frame, Origin, names_of, stack_of
from jaxprtool.ir.walk import all_eqns, map_programs, with_eqns
from jaxprtool.syntax.parse import parse, parse_file
from jaxprtool.syntax.print import format_file, format_jaxpr
from tests.invoke import invoke
from tests.syntax.programs import CASES, traced

OPTIONS = {
    "source": {"source_info": True},
    "names": {"name_stack": True},
    "both": {"source_info": True, "name_stack": True},
}


def layer(x):
    with jax.named_scope("attn"):
        return jnp.sin(x) * 2.0


def loss(x):
    with jax.named_scope("layer1"):
        y = layer(x)
    z, _ = jax.lax.scan(lambda c, row: (jnp.tanh(c * row), c), y[0], y)
    return jax.lax.cond(z > 0, lambda y: jnp.sum(y), lambda y: -jnp.sum(y * y), y)


X = jnp.ones(3)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_what_jax_prints_is_read_and_printed_byte_for_byte(name, option):
    text = traced(name).pretty_print(use_color=False, **OPTIONS[option])
    assert str(parse(text)) == text


@pytest.mark.parametrize("option", OPTIONS)
def test_lossless_text_is_a_fixed_point(option):
    text = jax.make_jaxpr(jax.grad(loss))(X).pretty_print(use_color=False, **OPTIONS[option])
    printed = format_jaxpr(parse(text), lossless=True)
    assert format_jaxpr(parse(printed), lossless=True) == printed
    assert origins(parse(printed)) == origins(parse(text))


def origins(program):
    return [(e.primitive.name, e.origin.frame, e.origin.names) for e in all_eqns(program.jaxpr)]


def test_str_of_a_live_program_has_no_origins_and_its_equations_have():
    live = jax.make_jaxpr(loss)(X)
    program = jt.from_jax(live)
    assert str(program) == str(live)
    first = program.eqns[0].origin
    assert first.frame.function == "layer" and first.frame.file == __file__
    assert stack_of(first.names) == "layer1/attn"


TRANSFORMED = {
    "grad": (grad, jax.grad(loss)),
    "jvp": (jvp, lambda x: jax.jvp(loss, (x,), (x,))),
    "vmap": (lambda p: vmap(p, axis_size=2), jax.vmap(loss)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("how", ["live", "file"])
def test_transformed_equations_keep_origins_as_jax_s_do(name, how):
    transform, theirs = TRANSFORMED[name]
    program = jt.from_jax(jax.make_jaxpr(loss)(X))
    if how == "file":
        program = parse(format_jaxpr(show_origins(program, "/"), lossless=True))
    ours = transform(program)
    x = jnp.ones((2, 3)) if name == "vmap" else X
    wanted = jt.from_jax(jax.make_jaxpr(theirs)(x))

    def found(p):
        """For each line the names of what comes from it, in the outermost jaxpr."""
        return {
            (e.origin.frame.line, stack_of(e.origin.names))
            for e in p.eqns
            if e.origin is not None and e.origin.frame is not None
        }

    assert found(ours) == found(wanted)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_every_equation_that_is_made_of_another_has_its_origin(name):
    program = jt.from_jax(jax.make_jaxpr(loss)(X))
    lines = {e.origin.frame.line for e in all_eqns(program.jaxpr)}
    for eqn in all_eqns(TRANSFORMED[name][0](program).jaxpr):
        assert eqn.origin is None or eqn.origin.frame.line in lines, eqn


def test_programs_without_origins_have_none_afterwards():
    program = parse(
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[] = reduce_sum[axes=(0,)] b in (c,) }"
    )
    assert all(e.origin is None for e in grad(program).eqns)


def test_our_own_front_ends_record_lines():
    def f(x):
        y = jt.lax.sin(x)
        return jt.lax.mul(y, np.cos(x))

    program = trace(f, [jt.ShapedArray((3,), "float32")], frontend="lax")
    line = f.__code__.co_firstlineno
    assert [e.origin.frame.line - line for e in program.eqns] == [1, 2, 2]
    assert {e.origin.frame.function for e in program.eqns} == {f.__qualname__}


COMMENTS = """\
{ lambda ; a:f32[3]. let
    # [not a name]
    b:f32[3] = sin a  # the angle
    # [nor this]
    c:f32[3] = cos b  # [x]
  in (c,) }"""


def test_comments_that_look_like_names_stay_comments():
    program = parse(COMMENTS)
    assert all(e.origin is None for e in program.eqns)
    assert format_jaxpr(program) == COMMENTS


def test_annotations_of_a_text_that_was_changed_are_read_in_any_column():
    text = """\
{ lambda ; a:f32[3]. let
    b:f32[3] = sin a # my file.py:3:4 (f.<locals>.g)
    c:f32[3] = cos b  # as before # other.py:5 (h)
  in (c,) }"""
    first, second = parse(text).eqns
    assert first.origin.frame == Frame("my file.py", 3, 4, "f.<locals>.g")
    assert second.origin.frame == Frame("other.py", 5, None, "h")
    assert second.comments == ("# as before",)
    printed = format_jaxpr(parse(text))
    assert format_jaxpr(parse(printed)) == printed


@pytest.mark.parametrize(
    ("stack", "names"),
    [("", ()), ("a/b", ("a", "b")), ("jvp(a/b)/c", ("jvp(a/b)", "c")), ("jvp()", ("jvp()",))],
)
def test_names(stack, names):
    assert names_of(stack) == names and stack_of(names) == stack


def test_definitions_keep_their_names_without_origins():
    plain = """\
let twice = { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) } in
{ lambda ; c:f32[]. let d:f32[] = jit[name=twice jaxpr=twice] c in (d,) }"""
    first, second = plain.split("\n")
    text = f"{first} # f.py:1:2 (f)\n{second}  # f.py:3:4 (g)"
    assert format_jaxpr(parse(text)) == text
    assert format_jaxpr(without_origins(parse(text))) == plain


def test_an_equation_that_fails_leaves_no_origin_behind():
    text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a # f.py:1:2 (f)\n  c:f32[3] = frobnicate b # f.py:2:2 (f)\n  in (c,) }"
    f = jt.jaxpr_as_fun(parse(text))
    attempts = [
        lambda: jt.grad(lambda x: f(x)[0].sum())(np.ones(3, np.float32)),
        lambda: jt.jvp(lambda x: f(x)[0], (np.ones(3, np.float32),), (np.ones(3, np.float32),)),
        lambda: jt.vmap(lambda x: f(x)[0])(np.ones((2, 3), np.float32)),
        lambda: jt.make_jaxpr(lambda x: f(x)[0])(np.ones(3, np.float32)),
        lambda: jt.jvp_jaxpr(parse(text)),
        lambda: jt.vmap_jaxpr(parse(text), 2, [0]),
    ]
    for attempt in attempts:
        with pytest.raises(jt.JaxprToolError):
            attempt()
        assert state.eqn is NO_EQN


_FRAMES = [None, Frame("a.py", 3, 4, "f"), Frame("dir/b.py", 12, None, "C.f.<locals>.g")]
_NAMES_OF = [(), ("jvp()",), ("transpose(jvp(layer))", "attn")]


@given(st.data())
def test_whatever_origins_are_shown_are_read_back(data):
    """Of several programs in a file, some of them on one line, where every equation may show a line, names, both or neither."""

    def drawn(origin):
        frame, names = data.draw(st.sampled_from(_FRAMES)), data.draw(st.sampled_from(_NAMES_OF))
        return Origin(frame, names, SOURCE * (frame is not None) | NAMES * bool(names))

    texts = st.sampled_from(PROGRAMS_TO_ANNOTATE)
    names = data.draw(
        st.lists(st.sampled_from(["", "primal", "x"]), min_size=1, max_size=2, unique=True)
    )
    if len(names) > 1:
        names = [n or "linear" for n in names]
    programs = {n: map_origins(with_empty_origins(parse(data.draw(texts))), drawn) for n in names}
    text = format_file(programs, lossless=True)
    again = parse_file(text)
    assert format_file(again, lossless=True) == text

    def shown(programs):
        return [
            (e.origin.frame, e.origin.names) if e.origin and e.origin.shown else (None, ())
            for p in programs.values()
            for e in all_eqns(p.jaxpr)
        ]

    if sum(
        any(e.origin.frame for e in p.eqns) for p in programs.values()
    ):  # else names may be comments
        assert shown(again) == shown(programs)


PROGRAMS_TO_ANNOTATE = [
    "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }",
    "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b a in (c, b) }",
    "{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a; d:f32[] = mul b c; e:f32[] = exp d; g:f32[] = add a d in (c, e, g) }",
    "{ lambda ; a:f32[]. let b:f32[] = jit[name=g jaxpr={ lambda ; a:f32[]. let b:f32[] = cos a; c:f32[] = neg b in (c,) }] a in (b,) }",
    "{ lambda a:f32[9]; b:f32[]. let c:f32[9] = mul b a in (c,) }\nwhere a = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n      weak b",
    "{ lambda ; a:f32[]. let b:f32[9] = jit[name=g jaxpr={ lambda c:f32[9]; a:f32[]. let b:f32[9] = mul a c in (b,) } where c = [1, 2, 3, 4, 5, 6, 7, 8, 9]] a in (b,) }",
    "# a comment that is longer than every line of the program by far, and stands above it: of the file\n{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }",
    "{ lambda ; a:f32[]. let\n  # a comment that is longer than every line of the program by far, above an equation\n b:f32[] = sin a  # beside\n  c:f32[] = cos b  # a long one, beside another equation\n in (c,) }",
    """let f = { lambda ; a:f32[]. let b:f32[] = cos a in (b,) } in
{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f] a; c:f32[] = jit[name=f jaxpr=f] b in (c,) }""",
]


@pytest.mark.parametrize("program", [p for p in PROGRAMS_TO_ANNOTATE if "where" in p])
def test_values_of_constants_do_not_move_annotations(program):
    """The column of annotations follows the longest line of the program; a value may be megabytes long."""

    def columns(text):
        shown = map_origins(
            with_empty_origins(parse(text)), lambda _: Origin(_FRAMES[1], (), SOURCE)
        )
        lines = format_file({"": shown}, lossless=True).split("\n")
        return [line.rfind(" # ") for line in lines if "where" not in line]

    longer = program.replace("1, 2, 3", "1.2345678e-05, 2.3456789e-05, 3.4567891e-05")
    assert columns(program) == columns(longer)


def with_empty_origins(program):
    """The program, each of whose equations has an origin that says nothing."""

    def body(closed):
        return with_eqns(closed, [e.with_origin(Origin()) for e in closed.eqns])

    return map_programs(program, body)


def test_annotations_on_lines_that_look_like_an_interface():
    text = "{ lambda ; a:f32[3]\nargs (3]. let\n    b:f32[3] = sin a     # [jvp()]\n  in (b,) }\n"
    with pytest.raises(jt.JaxprToolError):
        parse(text)


@pytest.mark.parametrize("end", ["", " ", "  # more"])
@pytest.mark.parametrize("gap", ["", " ", "  ", "   ", "     "])
@pytest.mark.parametrize("note", ["# f.py:1:2 (g)", "# f.py:1 (g)", "# []", "# [jvp(layer)]", "# "])
@pytest.mark.parametrize("call", ["sin a", "iota[dimension=0]", "mul a 2.0:f32[]", "foo"])
@pytest.mark.parametrize("lines", [1, 2])
def test_a_comment_in_the_form_of_an_annotation_is_stable(call, note, gap, end, lines):
    """Wherever it stands, what is printed reads back as the same, comments and origins."""
    more = "\n    c:f32[3] = mul b b                # k.py:3:4 (h)" * (lines - 1)
    text = f"{{ lambda ; a:f32[3]. let\n    b:f32[3] = {call}{gap}{note}{end}{more}\n  in (b,) }}"
    try:
        shown = str(jt.parse(text))
    except jt.JaxprToolError:
        return  # a comment that touches a word is none
    assert str(jt.parse(shown)) == shown


@pytest.mark.parametrize("gap", ["  ", "     ", "                  "])
@pytest.mark.parametrize("note", ["# f.py:1:2 (g)", "# []", "# [jvp(layer)]", "# more", "# "])
@pytest.mark.parametrize("name", ["iota", "foo"])
def test_comments_among_params_are_no_annotations_later(name, note, gap):
    """Several that are joined beside the equation stay comments, and none becomes part of a value."""
    text = (
        f"{{ lambda ; . let\n    b:f32[3] = {name}[   # first\n{gap}{note}\n"
        f"      dtype=float32   # of\n      dimension=0\n      shape=(3,){gap}{note}\n"
        "      sharding=None\n    ]     # k.py:3:4 (h)\n  in (b,) }"
    )
    program = jt.parse(text)
    shown = format_jaxpr(program, lossless=True)
    again = jt.parse(shown)
    assert format_jaxpr(again, lossless=True) == shown
    assert all("#" not in str(value) for value in program.eqns[0].params.values())
    assert [str(e.origin) for e in again.eqns] == [str(e.origin) for e in program.eqns]


def test_an_equation_in_a_comment_is_none():
    """Names alone are told from comments by their column and the number of equations."""
    text = (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = iota[                   # [jvp(f)]\n"
        "      dimension=0\n"
        "      dtype=float32\n"
        "      shape=(3,)\n"
        "      sharding=None\n"
        "    ]  # c:f32[3] = mul b b\n"
        "  in (b,) }"
    )
    program = jt.parse(text)
    assert str(program.eqns[0].origin) == "[jvp(f)]"
    shown = format_jaxpr(program, lossless=True)
    assert str(jt.parse(shown).eqns[0].origin) == "[jvp(f)]"
    assert format_jaxpr(jt.parse(shown), lossless=True) == shown


BESIDE = Path(__file__).parent / "dialects" / "annotations-jax-0.9.0.txt"


def test_annotations_beside_each_other():
    """From 0.6.1 to 0.10.0 names stand behind the line of Python, and those of further equations of a line behind both."""
    text = BESIDE.read_text().rstrip("\n")
    program = jt.parse(text)
    assert format_jaxpr(program) == text
    assert [str(e.origin) for e in all_eqns(program.jaxpr)] == [
        "/models/gate.py:3:8 (f)",
        *["/models/gate.py:3:26 (f.<locals>.<lambda>)"] * 2,
        *(f"/models/gate.py:5:{column} (f) [layer]" for column in (28, 15, 15)),
        "/models/gate.py:5:15 (f)",
    ]
    below = format_jaxpr(program, dialect="jax-0.10.2")
    assert [str(e.origin) for e in all_eqns(jt.parse(below).jaxpr)] == [
        str(e.origin) for e in all_eqns(program.jaxpr)
    ]


SOLVER = """
import jax
from jax import lax
def f(x):
    return lax.custom_linear_solve(lambda v: v * x, x, lambda _, b: jax.nn.relu(b) / x, symmetric=True)
"""


def test_jaxprs_inside_values_have_no_lines_of_python(tmp_path):
    """What JAX prints of a value by `str` has none, and none could be told from the text of the value."""
    file = tmp_path / "solver.py"
    file.write_text(SOLVER)
    traced = jt.parse(invoke(["trace", f"{file}:f", "--shape", "f32[3]"]).output)
    text = jt.format_jaxpr(traced)
    assert "jaxprs=_LinearSolveTuple(matvec={ lambda" in text and "# " in text
    assert jt.format_jaxpr(jt.parse(text)) == text


def test_an_empty_comment_before_a_name_stack_is_kept_in_its_place():
    """It stands where the first of two annotations beside each other would."""
    line = "    c:f32[3] = neg b"
    column = 2 * len(line) + 5
    lines = [
        ("    b:f32[3] = sin a", "f.py:1:2 (f)"),
        ("", "[]"),
        (f"{line}  #", "[]"),
        ("    d:f32[3] = mul b c", "f.py:2:2 (f)"),
        ("", "[g]"),
    ]
    noted = "\n".join(f"{code:{column}} # {note}" for code, note in lines)
    long = "    e:f32[3] = my[" + "k" * (column - 22) + "=1] d"
    text = f"{{ lambda ; a:f32[3]. let\n{noted}\n{long}\n  in (e,) }}"
    printed = jt.format_jaxpr(jt.parse(text), lossless=True)
    assert jt.format_jaxpr(jt.parse(printed), lossless=True) == printed
    assert [eqn.comments for eqn in jt.parse(printed).eqns][1] is not None


@pytest.mark.parametrize("option", OPTIONS)
def test_columns_are_counted_in_bytes(option):
    """As JAX counts them: a name in letters beyond ASCII is longer than it looks."""

    def größe_ähnlich_süß(x):
        return jnp.sin(x) * 2.0

    live = jax.make_jaxpr(lambda x: jax.jit(größe_ähnlich_süß)(x) + 1.0)(X)
    text = live.pretty_print(use_color=False, **OPTIONS[option])
    program = parse(text)
    assert format_jaxpr(program) == text
    assert all(eqn.comments is None for eqn in all_eqns(program.jaxpr))


def test_an_annotation_after_words_beyond_ascii_is_in_the_column_of_the_others():
    commented = "    c:f32[3] = neg b  # süß"
    column = len(commented.encode())
    lines = [("    b:f32[3] = sin a", "f.py:1:2 (f)"), ("", "[]")]
    noted = "\n".join(f"{code:{column}} # {note}" for code, note in lines)
    text = f"{{ lambda ; a:f32[3]. let\n{noted}\n{commented} # []\n  in (c,) }}"
    program = parse(text)
    assert [eqn.comments for eqn in program.eqns] == [None, ("# süß",)]
    assert format_jaxpr(program, lossless=True) == text
