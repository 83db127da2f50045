"""Keys of a text draw what they drew in the release that printed it: Threefry counts in two ways, and each release has one."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.upgrade import report
from jaxprtool.syntax.building.draws import AmbiguousDrawsWarning
from jaxprtool.syntax.version import HEADER

KEY = np.array([0, 1], np.uint32)

# jax.random.uniform(key, (3,)) and jax.random.split(key), as each release prints them, and the numbers that they gave.
UNIFORM = """\
{ lambda ; a:u32[2]. let
    b:key<fry>[] = random_wrap[impl=fry] a
    c:f32[3] = pjit[
      name=_uniform
      jaxpr={ lambda ; %(key)s:key<fry>[] e:f32[] f:f32[]. let
          g:f32[1] = broadcast_in_dim[
            broadcast_dimensions=()
            shape=(1,)%(sharding)s
          ] e
          h:f32[1] = broadcast_in_dim[
            broadcast_dimensions=()
            shape=(1,)%(sharding)s
          ] f
          i:u32[3] = random_bits[bit_width=32 shape=(3,)] %(key)s
          j:u32[3] = shift_right_logical i 9
          k:u32[3] = or j 1065353216
          l:f32[3] = bitcast_convert_type[new_dtype=float32] k
          m:f32[3] = sub l 1.0
          n:f32[1] = sub h g
          o:f32[3] = mul m n
          p:f32[3] = add o g
          q:f32[3] = max g p
        in (q,) }
    ] b 0.0 1.0
    r:key<fry>[2] = random_split[shape=(2,)] b
    s:u32[2,2] = random_unwrap r
  in (c, s) }
"""
SHARDED = "\n            sharding=None"
BEFORE_0_4_36 = UNIFORM % {"key": "d", "sharding": ""}
FROM_0_4_36_TO_0_5_2 = UNIFORM % {"key": "d", "sharding": SHARDED}
FROM_0_5_3 = UNIFORM % {"key": "b", "sharding": SHARDED}
OLD_UNIFORM = [0.5685524940490723, 0.2586038112640381, 0.8893296718597412]
NEW_UNIFORM = [0.4386324882507324, 0.5337529182434082, 0.44591832160949707]
OLD_SPLIT = [[2441914641, 1384938218], [3819641963, 2025898573]]
NEW_SPLIT = [[507451445, 1853169794], [1948878966, 4237131848]]


def _parsed(text):
    """The program, and the messages of warnings of draws."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program = jt.parse(text)
    return program, [w for w in found if w.category is AmbiguousDrawsWarning]


@pytest.mark.parametrize(
    "text, uniform, split, warned",
    [
        (BEFORE_0_4_36, OLD_UNIFORM, OLD_SPLIT, 0),
        (FROM_0_4_36_TO_0_5_2, NEW_UNIFORM, NEW_SPLIT, 1),
        (FROM_0_5_3, NEW_UNIFORM, NEW_SPLIT, 0),
    ],
)
def test_keys_draw_the_numbers_of_the_release(text, uniform, split, warned):
    program, warnings = _parsed(text)
    assert len(warnings) == warned
    for jit in (False, True):
        numbers, words = jt.run(program, KEY, jit=jit)
        np.testing.assert_allclose(np.asarray(numbers), uniform, rtol=1e-6)
        assert np.asarray(words).tolist() == split


def test_the_release_that_is_named_decides_where_the_text_does_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text, dialect, drawn in (
            (FROM_0_4_36_TO_0_5_2, "jax-0.4.38", OLD_UNIFORM),
            (FROM_0_4_36_TO_0_5_2, "jax-0.5.0", NEW_UNIFORM),
            (FROM_0_5_3, "jax-0.5.3", NEW_UNIFORM),
        ):
            program = jt.parse(text, dialect=dialect)
            np.testing.assert_allclose(jt.eval_jaxpr(program.jaxpr, [KEY])[0], drawn)
    assert _parsed(FROM_0_4_36_TO_0_5_2)[1], "a text after it is read as it tells itself"
    with pytest.raises(jt.UsageError, match=r"no dialect '0\.4' to read"):
        jt.parse(BEFORE_0_4_36, dialect="0.4")


def test_the_numbers_are_those_of_jax():
    jax = pytest.importorskip("jax")
    key = jax.random.wrap_key_data(KEY, impl="threefry2x32")
    for partitionable, uniform, split in (
        (False, OLD_UNIFORM, OLD_SPLIT),
        (True, NEW_UNIFORM, NEW_SPLIT),
    ):
        with jax.threefry_partitionable(partitionable):
            np.testing.assert_allclose(jax.random.uniform(key, (3,)), uniform, rtol=1e-6)
            assert jax.random.key_data(jax.random.split(key)).tolist() == split


def test_an_upgraded_text_keeps_the_numbers():
    program, _ = _parsed(BEFORE_0_4_36)
    text = jt.format_jaxpr(program, lossless=True)
    assert text.count("partitionable=False") == 2
    again, warned = _parsed(text)
    assert not warned
    np.testing.assert_allclose(np.asarray(jt.run(again, KEY)[0]), OLD_UNIFORM, rtol=1e-6)
    # JAX does not print it
    assert "partitionable" not in jt.format_jaxpr(program)


def test_a_param_that_stands_in_the_text_decides():
    bits = "random_bits[bit_width=32 shape=(3,)]"
    said = "random_bits[bit_width=32 partitionable=False shape=(3,)]"
    program, _ = _parsed(FROM_0_5_3.replace(bits, said))
    np.testing.assert_allclose(np.asarray(jt.run(program, KEY)[0]), OLD_UNIFORM, rtol=1e-6)
    said = said.replace("False", "True")
    for text in (BEFORE_0_4_36, FROM_0_4_36_TO_0_5_2):
        split = "random_split[partitionable=True shape=(2,)]"
        program, warned = _parsed(
            text.replace(bits, said).replace("random_split[shape=(2,)]", split)
        )
        assert not warned
        np.testing.assert_allclose(np.asarray(jt.run(program, KEY)[0]), NEW_UNIFORM, rtol=1e-6)


def test_definitions_and_jaxprs_in_values_count_as_their_text():
    """A definition that stays in the text, beside a jaxpr that is written out, is what `to_jax` takes."""
    definition = """\
let f = { lambda ; a:key<fry>[]. let b:u32[3] = random_bits[bit_width=32 shape=(3,)] a in (b,) } in
{ lambda ; c:u32[2]. let
    d:key<fry>[] = random_wrap[impl=fry] c
    e:u32[3] = pjit[name=f jaxpr=f] d
    g:i32[2] = iota[dimension=0 dtype=int32 shape=(2,)]
    h:u32[3] = pjit[
      name=f
      jaxpr={ lambda ; a:key<fry>[]. let b:u32[3] = random_bits[bit_width=32 shape=(3,)] a in (b,) }
    ] d
  in (e, g, h) }
"""
    program, _ = _parsed(definition)
    first, _, second = map(np.asarray, jt.run(program, KEY))
    assert (first == second).all()
    through = jt.run(program, KEY, through="jax")
    assert (np.asarray(through[0]) == first).all()
    assert (np.asarray(through[2]) == first).all()


def test_an_upgrade_says_where_a_text_may_draw_other_numbers():
    programs = {"": _parsed(FROM_0_4_36_TO_0_5_2)[0]}
    with pytest.warns(AmbiguousDrawsWarning):
        found = report(FROM_0_4_36_TO_0_5_2, "old", programs, "jax-0.12")
    assert [c.primitive for c in found.changes if c.kind == "numbers"] == [
        "random_bits",
        "random_split",
    ]
    for text in (BEFORE_0_4_36, FROM_0_5_3):
        found = report(text, "old", {"": _parsed(text)[0]}, "jax-0.12")
        assert not [c for c in found.changes if c.kind == "numbers"]


def test_an_upgrade_says_it_where_no_release_is_told():
    """Releases from 0.4.18 to 0.12 print this byte for byte, and before 0.5.0 the key gave `OLD_SPLIT`: a warning would be wrong for a text of today."""
    text = """\
{ lambda ; a:u32[2]. let
    b:key<fry>[] = random_wrap[impl=fry] a
    c:key<fry>[2] = random_split[shape=(2,)] b
    d:u32[2,2] = random_unwrap c
  in (d,) }
"""
    program, warned = _parsed(text)
    assert not warned
    assert np.asarray(jt.run(program, KEY)[0]).tolist() == NEW_SPLIT
    found = report(text, "old", {"": program}, "jax-0.12")
    assert [(c.kind, c.primitive) for c in found.changes] == [("numbers", "random_split")]
    assert not report(HEADER + text, "ours", {"": program}, "jax-0.12").changes
    said = text.replace("random_split[", "random_split[partitionable=True ")
    assert not [
        c for c in report(said, "new", {"": _parsed(said)[0]}, "jax-0.12").changes if c.lost
    ]


def test_a_text_written_by_hand_is_of_no_earlier_release():
    """JAX prints params in the order of their names, all of them; who leaves `sharding` out may know nothing of releases."""
    text = """\
{ lambda ; a:u32[2]. let
    b:key<fry>[] = random_wrap[impl=fry] a
    c:u32[3] = random_bits[bit_width=32 shape=(3,)] b
    d:u32[3] = broadcast_in_dim[shape=(3,) broadcast_dimensions=()] 2:u32[]
    e:u32[3] = mul c d
  in (e,) }
"""
    program, warned = _parsed(text)
    assert program.eqns[1].params["partitionable"] is True and not warned


# The same with keys of XLA's generator in a batch, as 0.4.13 prints it (`count=`), and as releases from 0.4.18 on do.
BATCHES = """\
{ lambda ; a:u32[]. let
    b:key<%(tag)s>[] = random_seed[impl=%(tag)s] a
    c:key<%(tag)s>[6] = random_split[%(count)s] b
    d:key<%(tag)s>[2,3] = reshape[dimensions=None new_sizes=(2, 3)%(sharding)s] c
    e:u32[2,3,2] = random_bits[bit_width=32 shape=(2,)] d
    f:i32[6] = iota[dimension=0 dtype=int32 shape=(6,)%(sharding)s]
    g:key<%(tag)s>[6] = random_fold_in c f
    h:u32[6,4] = random_unwrap g
  in (e, h) }
"""


@pytest.mark.parametrize(("tag", "impl"), [("rbg", "rbg"), ("urbg", "unsafe_rbg")])
def test_each_key_of_a_batch_drew_alone_before_0_4_26(tag, impl):
    jax = pytest.importorskip("jax")
    text = BATCHES % {"tag": tag, "count": "count=6", "sharding": ""}
    program, warned = _parsed(text)
    jt.check(program)
    with jax.threefry_partitionable(False):
        keys = jax.random.split(jax.random.key(7, impl=impl), 6)
        bits = [jax.random.bits(k, (2,)) for k in keys]
        folded = [jax.random.key_data(jax.random.fold_in(k, i)) for i, k in enumerate(keys)]
    assert not warned
    loops = 2 if tag == "rbg" else 3  # one for each axis; `random_fold_in` of rbg keys hashes
    assert str(program).count("scan[") == loops
    for jit in (False, True):
        got = jt.run(program, np.uint32(7), jit=jit)
        np.testing.assert_array_equal(np.reshape(got[0], (6, 2)), bits)
        np.testing.assert_array_equal(got[1], folded)
    again, _ = _parsed(jt.format_jaxpr(program, lossless=True))
    np.testing.assert_array_equal(np.asarray(jt.run(again, np.uint32(7))[1]), folded)


def test_a_batch_of_which_the_text_tells_no_release_is_warned_about():
    """Of 0.4.18 to 0.4.35, and each prints it alike; from 0.4.36 on the text tells it."""
    text = BATCHES % {"tag": "rbg", "count": "shape=(6,)", "sharding": ""}
    program, warned = _parsed(text)
    assert ["0.4.26" in str(w.message) for w in warned] == [True]
    with pytest.warns(AmbiguousDrawsWarning):
        found = report(text, "old", {"": program}, "jax-0.12")
    assert "random_bits draws other numbers than releases before 0.4.26 did" in str(found.lines())
    later = BATCHES % {"tag": "rbg", "count": "shape=(6,)", "sharding": " sharding=None"}
    assert not [w for w in _parsed(later)[1] if "0.4.26" in str(w.message)]
    said = text.replace("random_bits[", "random_bits[partitionable=True ")
    assert not [w for w in _parsed(said)[1] if "0.4.26" in str(w.message)]


@pytest.mark.parametrize("tag, warned", [("fry", True), ("rbg", False)])
def test_bits_of_rbg_keys_are_those_of_all_releases(tag, warned):
    """XLA's generator draws them, and not Threefry, which counts in two ways."""
    text = f"""{{ lambda ; a:key<{tag}>[]. let
    b:u32[4] = random_bits[bit_width=32 shape=(4,)] a
    c:u32[4] = pjit[name=f jaxpr={{ lambda ; d:u32[4]. let e:u32[4] = mul d 2 in (e,) }}] b
  in (c,) }}"""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        jt.parse(text)
    assert [w.category for w in found] == [AmbiguousDrawsWarning] * warned


# jax.random.gamma(key, [.3, .5, 2.]) and its loggamma in JAX 0.4.13, of key 1; `random_split[count=]` is of 0.4.13 at the latest.
GAMMA = """\
{ lambda ; a:u32[2] b:f32[3]. let
    c:key<fry>[] = random_wrap[impl=fry] a
    d:f32[3] = random_gamma[log_space=%s] c b
    e:key<fry>[2] = random_split[%s] c
    f:u32[2,2] = random_unwrap e
  in (d, f) }
"""
SHAPES = np.array([0.3, 0.5, 2.0], np.float32)
OLD_GAMMA = [0.173994779586792, 0.0001161670807050541, 2.368283748626709]
OLD_LOG_GAMMA = [-1.748729944229126, -9.060481071472168, 0.8621655702590942]


@pytest.mark.parametrize("log_space, wanted", [(False, OLD_GAMMA), (True, OLD_LOG_GAMMA)])
def test_gammas_below_one_are_those_of_the_release(log_space, wanted):
    program, warned = _parsed(GAMMA % (log_space, "count=2"))
    assert not warned
    np.testing.assert_allclose(jt.eval_jaxpr(program, [KEY, SHAPES])[0], wanted, rtol=1e-5)
    again = jt.parse(jt.format_jaxpr(program, lossless=True))
    np.testing.assert_allclose(jt.eval_jaxpr(again, [KEY, SHAPES])[0], wanted, rtol=1e-5)
    with pytest.raises(jt.UnsupportedError, match="complement"):
        jt.to_jax(program)


@pytest.mark.filterwarnings("ignore")
def test_gammas_of_the_release_that_is_named():
    untold = GAMMA % (False, "shape=(2,)")
    later = jt.parse(untold, dialect="jax-0.4.14")
    assert [e.params["complement"] for e in later.jaxpr.eqns[1:2]] == [True]
    earlier = jt.parse(untold, dialect="jax-0.4.13")
    np.testing.assert_allclose(jt.eval_jaxpr(earlier, [KEY, SHAPES])[0], OLD_GAMMA, rtol=1e-5)


def test_what_we_wrote_draws_as_it_says():
    """Nothing is asked of files and copies of ours, whatever releases print the same text."""
    program = _parsed(FROM_0_4_36_TO_0_5_2)[0]
    assert _parsed(FROM_0_4_36_TO_0_5_2)[1]
    _, warned = _parsed(HEADER + FROM_0_4_36_TO_0_5_2)
    assert not warned
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.loads(pickle.dumps(program))


def test_a_draw_of_nothing():
    """An equation without its operands is told by its primitive, and read all the same."""
    program, _ = _parsed("{ lambda ; . let a:f32[] = random_gamma[log_space=True]  in (a,) }")
    with pytest.raises(jt.JaxprTypeError, match="random_gamma"):
        jt.typecheck_jaxpr(program)


@pytest.mark.parametrize("dialect", ["jax-0.4.14", "jax-0.4.30", "jax-0.5.3"])
def test_what_is_written_in_an_earlier_dialect_draws_as_before(dialect):
    """Such a text may be of a release whose keys draw otherwise, if it does not say how."""
    program = jt.parse("""{ lambda ; a:u32[2]. let
        b:key<fry>[] = random_wrap[impl=fry] a
        c:u32[3] = random_bits[bit_width=32 shape=(3,)] b
        d:u32[3] = iota[dimension=0 dtype=uint32 shape=(3,) sharding=None]
        e:u32[3] = add c d
        f:u32[3] = mul e 3:u32[]
      in (f,) }""")
    assert "partitionable" not in jt.format_jaxpr(program, dialect=dialect)
    text = jt.format_jaxpr(program, dialect=dialect, lossless=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = jt.parse(text)
    assert jt.diff(again, program).equal
    assert " mul e 3\n" in text
