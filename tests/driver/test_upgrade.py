"""What `upgrade` writes, and what its report says of texts of each release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.core.primitive import vocabulary
from jaxprtool.driver.fmt import fmt
from jaxprtool.driver.upgrade import Report, report, target
from jaxprtool.syntax.building.spelled import now_called
from jaxprtool.syntax.inference.open_programs import is_open
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.releases.dialects import RELEASES
from jaxprtool.syntax.releases.earlier import OLDER
from jaxprtool.syntax.releases.spellings import SPELLINGS
from tests.invoke import invoke

FOLDER = Path(__file__).parent.parent / "syntax" / "dialects"
TEXTS = sorted(FOLDER.glob("jax-*/*.jaxpr"))
TARGETS = ("jax-0.8.3", "jax-0.10.2", "jax-0.12")
GONE = {k: v for k, v in OLDER.items() if v.name and v.until and k not in vocabulary()}


def reported(text: str, dialect: str = "jax-0.12") -> Report:
    return report(text, "x", parse_file(text), target(dialect))


def numbers(dotted: str) -> tuple[int, ...]:
    return tuple(map(int, dotted.removeprefix("jax-").split(".")))


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_text_is_upgraded_once(path: Path) -> None:
    """It is what `fmt --dialect` writes, says the same, and there is nothing left to do.

    A text of a release to 0.2.21 has no types, and `upgrade` asks for them.
    """
    text, release = path.read_text(), numbers(path.parent.name)
    untyped = is_open(parse_file(text)[""].jaxpr)
    if untyped:
        done = invoke(["upgrade"], text)
        assert (done.status, done.output) == (1, "")
        assert "[no-type]" in done.error
    for dialect in () if untyped else TARGETS:
        done = invoke(["upgrade", "--dialect", dialect], text)
        assert (done.status, done.output) == (0, fmt(text, dialect=dialect).text), done.error
        assert same_programs(parse_file(text), parse_file(done.output))
        changes = reported(done.output, dialect).changes
        assert [c.message for c in changes if not c.lost] == []
    found = reported(text).releases
    assert found.since is None or found.since <= release
    assert found.before is None or release < found.before
    assert found.until is None or release <= found.until


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_text_whose_equations_do_not_change_has_no_report(path: Path) -> None:
    text = path.read_text()
    own = parse_file(text)[""].jaxpr.written
    assert own is not None
    assert [c for c in reported(text, own.dialect).changes if not c.lost] == []


@pytest.mark.parametrize("name", GONE)
def test_a_name_that_is_gone_tells_the_last_release(name: str) -> None:
    # with the params that came before the name went: without them an earlier release is told
    row = SPELLINGS.get(GONE[name].name, ())
    last = numbers(GONE[name].until)
    came = {k: v for s in row if s.since <= last and not s.born for k, v in s.added.items()}
    params = " ".join(f"{k}={v}" for k, v in {**came, "other": 1}.items())
    text = f"{{ lambda ; a:f32[3]. let b:f32[3] = {name}[{params}] a in (b,) }}"
    assert reported(text).releases.until == numbers(GONE[name].until)


def test_every_param_that_has_another_name_now_is_known_by_the_old_one() -> None:
    rows = {name: older.renamed for name, older in OLDER.items() if older.renamed}
    assert rows and all(now_called(name).items() >= names.items() for name, names in rows.items())


CALL = """\
{ lambda ; a:f32[3]. let
    b:f32[3] = xla_call[
      call_jaxpr={ lambda ; c:f32[3]. let d:f32[3] = mul c 2.0 in (d,) }
      name=f
    ] a
  in (b,) }
"""


def test_each_change_has_its_kind_and_its_place() -> None:
    found = reported(CALL)
    places = [(c.span and c.span.source.position(c.span.start), c.kind) for c in found.changes]
    assert places == [
        ((2, 5), "primitive"),
        ((2, 5), "param-renamed"),
        ((3, CALL.splitlines()[2].index("d:f32") + 1), "literal-typed"),
    ]
    assert str(found.releases) == "JAX 0.2.22 to 0.4.3"


def test_several_equations_in_the_place_of_one() -> None:
    text = (
        "{ lambda ; a:f32[]. let b:f32[] = for[\n"
        "      jaxpr={ lambda ; i:i32[] r:Ref{f32[]}. let r[] <- 2.0:f32[] in () }\n"
        "      nsteps=3\n      reverse=False\n      unroll=1\n      which_linear=(False,)\n    ] a in (b,) }"
    )
    (change, *_) = reported(text).changes
    assert change.message == "for is now new_ref, iota, scan and freeze"


def test_the_report_goes_beside_the_text_or_in_its_place(tmp_path: Path) -> None:
    new = tmp_path / "new.jaxpr"
    alone = invoke("upgrade --report --dialect jax-0.12", CALL)
    assert alone.status == 0 and "{ lambda" not in alone.output
    both = invoke(["upgrade", "--report", "--dialect", "jax-0.12", "-o", str(new)], CALL)
    assert both.output == alone.output and "= jit[" in new.read_text()
    only = invoke(["upgrade", "--dialect", "jax-0.12", "-o", str(new)], CALL)
    assert (only.status, only.output) == (0, "")
    document = json.loads(invoke("upgrade --json --dialect jax-0.12", CALL).output)
    assert document["schema"] == 1 and len(document["changes"]) == 3 and document["lost"] == []
    assert document["releases"] == {"since": "0.2.22", "before": None, "until": "0.4.3"}


def test_without_a_dialect_the_text_is_one_of_the_installed_jax() -> None:
    assert numbers(target()) in RELEASES
    done = invoke("upgrade", CALL)
    assert done.output == fmt(CALL, dialect=target()).text


def test_the_name_that_a_call_loses_is_no_function_that_is_lost() -> None:
    """Though it looks like one: partial evaluation gave each call of JAX 0.4 the name of what it called."""
    called = "{ lambda ; c:f32[3]. let d:f32[3] = mul c 2.0 in (d,) }"
    text = f"{{ lambda ; a:f32[3]. let b:f32[3] = closed_call[call_jaxpr={called} name=<unnamed wrapped function>] a in (b,) }}"
    assert [c.kind for c in reported(text).changes if c.lost] == []


CELLS = """{ lambda ; a:f32[3]. let
    b:Ref{float32[3]} = mutable_array a
    c:f32[3] <- b[:]
    b[:] <- c
    d:f32[] <- b[0]
  in (d,) }
"""


def test_types_and_indices_that_are_written_in_another_way():
    found = [line.split(": ", 2)[2] for line in _lines(CELLS) if "spelled]" in line]
    assert found == [
        "the type Ref{float32[3]} of b is now written Ref{f32[3]} [type-spelled]",
        "get: the index [:] is now [...] [index-spelled]",
        "swap: the index [:] is now [...] [index-spelled]",
    ]
    again = invoke("upgrade", CELLS).output
    assert not [line for line in _lines(again) if "spelled]" in line]


MASKED = """{{ lambda ; a:f32[4,8] b:f32[8]. let
    r:Ref{{f32[4,8]}} = new_ref[kind=None memory_space=None] a
    i:i32[8] = iota[dimension=0 dtype=int32 shape=(8,) sharding=None]{{}}
    m:bool[8] = gt i 2:i32[]
    j:i32[8] = broadcast_in_dim[broadcast_dimensions=() shape=(8,) sharding=None] 0:i32[]
    {write}
    c:f32[4,8] = freeze r
  in ({out}) }}
"""


@pytest.mark.parametrize(
    ("write", "out", "said"),
    [
        ("r[j,i] <- b", "c,", True),
        ("r[1,:] <- b", "c,", True),
        ("r[1,0:4] <- d", "c,", False),  # of another size
        ("r[j,i] <- b", "c, m", False),  # the booleans are read
        ("r[j,i] <- b mask=m", "c,", False),
        ("d:f32[8], r[j,i] <- r[j,i], b", "c, d", False),  # which shows a mask
    ],
)
def test_a_mask_that_is_not_printed(write, out, said):
    """JAX prints no mask of a write whose result nobody reads: the booleans of that size stand there for nothing."""
    text = MASKED.format(write=write, out=out).replace("{}", " ")
    part = "d:f32[4] = slice[limit_indices=(4,) start_indices=(0,) strides=None] b"
    text = text.replace("r[1,0:4]", f"{part}\n    r[1,0:4]")
    found = [line for line in _lines(text) if line.endswith("[mask]")]
    assert len(found) == said
    assert not said or ":6:5: lost: the write may have had a mask, as m:bool[8]" in found[0]


def _lines(text):
    return invoke("upgrade --report", text).output.splitlines()
