"""Options of passes: what makes no sense is refused, for every option of every pass, and never taken silently."""

from __future__ import annotations

import warnings

import pytest

import jaxprtool as jt
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.passes.names import UnknownNameWarning
from jaxprtool.passes.pipeline import pipeline
from jaxprtool.passes.registry import all_passes, define_pass

PROGRAM = jt.parse("""{ lambda ; a:u8[3] b:f16[] c:i32[n]. let
    d:u8[3] = add a 1:u8[]
    e:i32[n] = neg c
  in (d, b, e) }""")
OPTIONS = [(p, key) for p in all_passes() for key in p.options]
IDS = [f"{p.name}-{key}" for p, key in OPTIONS]


def refused(text):
    with pytest.raises(UsageError) as e:
        jt.opt(PROGRAM, passes=text)
    return str(e.value)


@pytest.mark.parametrize(("of", "key"), OPTIONS, ids=IDS)
def test_an_option_without_a_value_or_given_twice_is_refused(of, key):
    assert "has no value" in refused(f"{of.name} {key}=")
    value = {"policy": "dots", "types": "f32->bf16", "scope": "a", "name": "f"}.get(key, "5")
    value = "true" if key in of.flags else value
    assert "is given twice" in refused(f"{of.name} {key}={value} {key}={value}")


def _takes_numbers(of, key):
    default = of.options[key]
    return key not in of.flags and (default is None or isinstance(default, int))


NUMBERS = [(p, key) for p, key in OPTIONS if _takes_numbers(p, key)]


@pytest.mark.parametrize(("of", "key"), NUMBERS, ids=[f"{p.name}-{k}" for p, k in NUMBERS])
def test_limits_are_whole_numbers_that_are_not_below_the_least(of, key):
    least = of.least[key]
    for text in (str(least - 1), "-1000000", "2.5", "true", "nan", "x"):
        message = refused(f"{of.name} {key}={text}")
        assert f"{of.name}: {key}" in message
    (stage,) = pipeline(f"{of.name} {key}={least}")
    assert stage.options == {key: least}
    jt.opt(jt.parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"), passes=str(stage))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("specialise", "no value is given"),
        ("specialise a", "a has no value"),
        ("specialise a=1 a=2", "a is given twice"),
        ("specialise a=300", "300 is no value of type u8[3]"),
        ("specialise a=-1", "-1 is no value of type u8[3]"),
        ("specialise a=true", "True is no value of type u8[3]"),
        ("specialise c=99999999999", "99999999999 is no value of type i32[n]"),
        ("specialise n=-1", "n is a dimension, and -1 is no size"),
        ("specialise n=2.5", "n is a dimension, and 2.5 is no size"),
        ("specialise n=true", "n is a dimension, and True is no size"),
        ("specialise nothing=1", "no argument or dimension is called nothing"),
        ("cast f32->f32", "changes no type"),
        ("strip names names", "names is given twice"),
        ("strip names|names", "names is given twice"),
        ("dce 1", "there is no option 1"),
    ],
)
def test_values_that_make_no_sense_are_refused(text, message):
    assert message in refused(text)


NAMED = jt.parse("""{ lambda ; a:f32[3]. let
    b:f32[3] = name[name=kept] a
    c:f32[3] = jit[
      name=called
      jaxpr={ lambda ; d:f32[3]. let
          e:f32[3] = jit[
            name=inner
            jaxpr={ lambda ; f:f32[3]. let
                g:f32[3] = sin f  # x.py:3:4 (f)
                                  # [part]
              in (g,) }
          ] d
        in (e,) }
    ] b
  in (c,) }""")


@pytest.mark.parametrize(
    ("passes", "there"),
    [
        ("inline name={}", ["called", "inner"]),
        ("cast f32->bf16 scope={}", ["part"]),
        ("remat policy=names={}", ["kept"]),
        ("remat policy=offload={}", ["kept"]),
        ("remat names={}", ["kept"]),
        ("remat offload={}", ["kept"]),
    ],
)
def test_a_name_that_nothing_has_is_warned_of_once(passes, there):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for name in there:
            jt.opt(NAMED, passes=passes.format(name), until_fixed="inline" in passes)
    assert not [str(w.message) for w in found]
    with pytest.warns(UnknownNameWarning, match="is called nothing_like_it: there") as found:
        made = jt.opt(NAMED, passes=passes.format("nothing_like_it"))
    assert len(found) == 1 and ", ".join(there) in str(found[0].message)
    with pytest.warns(UnknownNameWarning, match=f"did you mean {there[0]}"):
        jt.opt(made, passes=passes.format(there[0] + "x"))


@pytest.mark.parametrize("policy", ["names=kept", "offload=kept", "dots"])
def test_the_word_policy_may_be_left_out(policy):
    short, full = (pipeline(f"remat {word}{policy}") for word in ("", "policy="))
    assert short == full and short[0].options == {"policy": policy}


def test_names_are_looked_for_in_policies_of_residuals_too():
    for how in ({"policy": "names=keptt"}, {"vs": "names=keptt"}):
        with pytest.warns(UnknownNameWarning, match="did you mean kept"):
            jt.residuals(NAMED, **how)


@pytest.mark.parametrize(
    ("options", "leaves"),
    [
        ("", ""),
        ("source=false", "source"),
        ("names=false", "names"),
        ("source=false names=false", "source names"),
        ("consts=false", ""),
        ("source=true", "names"),
        ("source", "names"),
        ("source=false consts", "source names"),
        ("consts", "source names"),
    ],
)
def test_what_strip_is_told_to_leave_stays(options, leaves):
    (eqn,) = jt.opt(SOURCED, passes=f"strip {options}").eqns
    origin = eqn.origin
    left = [] if origin is None or origin.frame is None else ["source"]
    left += [] if origin is None or not origin.names else ["names"]
    assert " ".join(left) == leaves


SOURCED = jt.parse(
    "{ lambda ; a:f32[]. let\n    b:f32[] = sin a  # x.py:3:4 (f)\n                     # [part]\n  in (b,) }"
)


def test_a_users_pass_may_take_any_number():
    @define_pass("test-any-number")
    def any_number(program, *, axis: int = 0, scale: float = 1.0, size: int | None = None):
        return program

    assert any_number
    (stage,) = pipeline("test-any-number axis=-1 scale=2.5 size=3")
    assert stage.options == {"axis": -1, "scale": 2.5, "size": 3}
