"""Operations that came with a later release, written with those that an earlier one had."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.fmt import fmt
from jaxprtool.interpreters.columns.earlier import earlier_rules
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.earlier import in_earlier_words
from jaxprtool.syntax.releases.dialects import RELEASES, dialect_in, unsayable
from tests.laws.oracle import EXAMPLES, assert_close, by_primitive, inputs, ours

# Releases before which something came that others are written for.
TARGETS = [
    r for r in RELEASES if (r[:2] in ((0, 1), (0, 2)) and r[2] % 5 == 0) or r[2] in (7, 13, 30, 35)
] + [(0, 6, 2), (0, 8, 3), (0, 10, 0), (0, 11, 2)]
GROUPS = {
    p.name: [e for e in found if e.of is None and e.args]
    for p, found in by_primitive(EXAMPLES).items()
    if p.known
}
# Written with others by what takes their place where they are evaluated, not by a rule.
COMPOSED = {
    *("Frexp", "Ldexp", "Nonzero", "SearchSorted", "philox2x32", "philox4x32", "polynomial"),
    *("scaled_dot", "symmetric_product", "threefry4x32"),
}


def replaced(name: str) -> Any:
    """Yield (program, arguments, program of an earlier release, dialect) of the examples of a primitive."""
    for example in GROUPS[name]:
        program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
        seen = set[str]()
        for release in TARGETS:
            dialect = dialect_in(release)
            if not any(unsayable(eqn, dialect) for eqn in all_eqns(program.jaxpr)):
                continue
            written, notes = in_earlier_words(program, dialect)
            if notes and str(written) not in seen:
                seen.add(str(written))
                yield program, inputs(example), written, dialect


def with_rule() -> list[str]:
    found = [p.name for p in by_primitive(EXAMPLES) if p in earlier_rules]
    return sorted({*found, *COMPOSED} & {name for name, e in GROUPS.items() if e})


@pytest.mark.parametrize("name", with_rule())
def test_an_operation_is_written_with_earlier_ones(name: str):
    """Well typed, of the same values, and read back from the text of that release."""
    count = 0
    for program, args, written, dialect in itertools.islice(replaced(name), 8):
        count += 1
        jt.typecheck_jaxpr(written.jaxpr)
        if not any(unsayable(eqn, dialect) for eqn in all_eqns(written.jaxpr)):
            text = jt.format_jaxpr(written, lossless=True, dialect=dialect.name)
            assert jt.diff(jt.parse(text), written).equal, text
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = jt.eval_jaxpr(program, args)
            for have, want in zip(jt.eval_jaxpr(written, args), wanted, strict=True):
                assert_close(have, want, scale=4, what=f"{dialect.name}: {written}")
    assert count


TEXT = """\
# of sums
{ lambda ; a:f32[4]. let
    # one
    b:f32[4] = square a  # two
    c:f32[8] = tile[reps=(2,)] b
    d:f32[3] e:f32[5] = split[axis=0 sizes=(3, 5)] c
    f:f32[] g:f32[3] = scan[
      _split_transpose=False
      jaxpr={ lambda ; h:f32[] i:f32[]. let
          j:f32[] = square i
          k:f32[] = add h j
        in (k, k) }
      length=3
      linear=(False, False)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] 0.0 d
  in (f, g, e) }
"""


def test_fmt_writes_for_an_earlier_release_at_any_depth():
    done = fmt(TEXT, dialect="jax-0.4.30")
    assert [d.message.split(" is ")[0] for d in done.notes] == [
        *("for jax-0.4.30: square", "for jax-0.4.30: tile", "for jax-0.4.30: split"),
    ]
    assert done.notes[0].message.endswith("integer_pow; and 1 more equation")
    assert "# of sums\n" in done.text and "# one\n    b:f32[4] = integer_pow[y=2] a  # two" in (
        done.text
    )
    assert " square " not in done.text and done.text.count("slice[") == 2
    x = np.float32([1, 2, 3, 4])
    for have, want in zip(
        jt.eval_jaxpr(jt.parse(done.text), [x]), jt.eval_jaxpr(jt.parse(TEXT), [x]), strict=True
    ):
        assert np.array_equal(have, want)
    assert fmt(done.text).text == fmt(done.text, dialect="jax-0.4.30").text == done.text


def test_the_api_writes_what_fmt_writes(tmp_path):
    program, x = jt.parse(TEXT), np.float32([1, 2, 3, 4])
    text = fmt(TEXT, dialect="jax-0.4.30").text
    own = jt.format_jaxpr(program, lossless=True, dialect="jax-0.4.30")
    assert jt.diff(jt.parse(own), jt.parse(text)).equal
    path = tmp_path / "old.jaxpr"
    jt.save(program, path, dialect="jax-0.4.30")
    assert jt.compare(jt.load(path), program, x).equal and "square" not in path.read_text()
    assert fmt(path.read_text()).text == path.read_text()
    with pytest.raises(jt.UsageError, match="no dialect"):
        jt.save(program, path, dialect="jax-7")
    with pytest.raises(jt.UsageError, match="is no text"):
        jt.save(jt.compile(program), path, dialect="jax-0.4.30")


def test_fmt_keeps_what_a_release_has():
    for dialect in ("jax-0.4.38", "jax-0.12"):
        done = fmt(TEXT, dialect=dialect)
        assert "square" in done.text and "split" in done.text
        assert [d.message for d in done.notes if "square" in d.message] == []
    assert fmt(TEXT).notes == []


def test_what_has_no_counterpart_is_refused():
    """The message names the operation, and the release that it came with."""
    text = "{ lambda ; a:f32[4]. let b:f32[4] = square a; c:f32[4] = zeta b b in (c,) }"
    with pytest.raises(jt.UnsupportedError) as e:
        fmt(text, dialect="jax-0.4.1")
    (found,) = e.value.diagnostics
    assert found.message == (
        "jax-0.4.1 cannot say this: zeta is no primitive there; it came with JAX 0.4.14"
    )


def test_an_ill_typed_program_is_left_as_it_is():
    text = "{ lambda ; a:f32[4]. let b:f32[5] = square a in (b,) }"
    with pytest.raises(jt.UnsupportedError, match="square is no primitive there"):
        fmt(text, dialect="jax-0.4.1")
