"""Artifacts: what `compile` writes, `load` gives back; damage and strangers are told apart."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import struct

import numpy as np
import pytest

from jaxprtool.backends.xla import compile as xla
from jaxprtool.driver.compile import compile as compile_program
from jaxprtool.driver.compile import from_bytes
from jaxprtool.driver.save import load
from jaxprtool.driver.storage.artifact import (
    Artifact,
    decode_artifact,
    encode_artifact,
    is_artifact,
)
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError
from jaxprtool.syntax.parse import parse
from tests.releases import IS_ORACLE

TEXT = "{ lambda ; a:f32[3] b:i64[]. let c:f32[3] = sin a in (c, b) }"
X = np.arange(3, dtype=np.float32)


@pytest.fixture(scope="module")
def compiled():
    return compile_program(parse(TEXT))


@pytest.fixture(scope="module")
def data(compiled):
    return compiled.to_bytes()


def assert_works(program):
    c, b = program(X, 5)
    np.testing.assert_allclose(c, np.sin(X), rtol=1e-6)
    assert int(b) == 5 and [str(a) for a in program.in_avals] == ["f32[3]", "i64[]"]


def sealed(body):
    """An artifact's bytes with a digest that fits."""
    return body + hashlib.sha256(body).digest()


def test_round_trip_through_a_file(compiled, tmp_path):
    path = str(tmp_path / "sine.xla")
    compiled.save(path)
    loaded = load(path)
    assert_works(loaded)
    assert str(loaded.stablehlo) == str(compiled.stablehlo)
    assert loaded.as_text() == compiled.as_text() and [p.name for p in tmp_path.iterdir()] == [
        "sine.xla"
    ]
    assert_works(from_bytes(loaded.to_bytes()))


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_pickles_and_copies_are_artifacts(compiled, copied, monkeypatch):
    monkeypatch.setattr(xla, "compile_stablehlo", None)
    assert_works(copied(compiled))


def test_loading_does_not_compile(data, monkeypatch):
    monkeypatch.setattr(xla, "compile_stablehlo", None)
    assert_works(from_bytes(data))


@pytest.mark.parametrize(
    "changes", [{"jaxlib": "0.0.1"}, {"machine": "pdp11"}, {"code": b"garbage"}]
)
def test_code_for_other_machines_is_compiled_again(data, changes):
    assert_works(from_bytes(encode_artifact(decode_artifact(data)._replace(**changes))))


# A result, and what is written in its place.
FATAL = {
    "1:i32[]": "%zero = stablehlo.constant dense<0> : tensor<i32>\n%r = stablehlo.divide %0, %zero : tensor<i32>",
    "1:u8[]": "%zero = stablehlo.constant dense<0> : tensor<ui8>\n%r = stablehlo.remainder %0, %zero : tensor<ui8>",
    "1:f6_e2m3fn[]": "%r = stablehlo.add %0, %0 : tensor<f6E2M3FN>",
}


@pytest.mark.parametrize("result", FATAL)
def test_a_text_on_which_xla_ends_the_process_is_refused(result):
    program = lower_jaxpr(parse(f"{{ lambda ; . let  in ({result},) }}"))
    program.text = program.text.replace("return %0", f"{FATAL[result]}\nreturn %r")
    assert "return %r" in program.text
    data = encode_artifact(Artifact(program, b"", "0.0.1", "pdp11"))
    if IS_ORACLE:
        with pytest.raises(UnsupportedError, match="XLA does not survive"):
            from_bytes(data)
        return
    try:  # other releases of XLA survive some of them
        from_bytes(data)
    except UnsupportedError as e:
        assert "XLA does not" in str(e)


@pytest.mark.parametrize(
    "content", [b"", b"{ lambda ; a:f32[]. let in (a,) }", b"JAXPRTOOL", b"\x80\x04."]
)
def test_other_files_are_no_artifacts(content):
    assert not is_artifact(content)
    with pytest.raises(UsageError, match="other is no compiled program"):
        from_bytes(content, "other")


@pytest.mark.parametrize("cut", [14, 20, 30, 60, 500, -33, -1])
def test_truncated_artifacts(data, cut):
    with pytest.raises(UsageError) as error:
        from_bytes(data[:cut])
    assert error.value.diagnostics[0].code == "artifact-damaged"


@pytest.mark.parametrize("place", [20, 40, 200, 900, -40, -1])
def test_damaged_artifacts(data, place):
    damaged = bytearray(data)
    damaged[place] ^= 0x40
    with pytest.raises(UsageError) as error:
        from_bytes(bytes(damaged))
    assert error.value.diagnostics[0].code == "artifact-damaged"


def test_other_versions(data):
    later = bytearray(data)
    later[14] = 9
    with pytest.raises(UsageError) as error:
        from_bytes(bytes(later))
    assert error.value.diagnostics[0].code == "artifact-version"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"float32", [3]', b'"float32",[-3]'),
        (b'"float32"', b'"fluat32"'),
        (b'"in"', b'"im"'),
        (b'{"jaxlib"', b'["jaxlib"'),
    ],
)
def test_headers_that_say_nothing_sensible(data, old, new):
    assert old in data
    body = data[:-32].replace(old, new.ljust(len(old)), 1)
    with pytest.raises(UsageError) as error:
        from_bytes(sealed(body))
    assert error.value.diagnostics[0].code == "artifact-damaged"


def test_files_that_cannot_be_read_or_written(compiled, tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        load(str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="cannot write"):
        compiled.save(str(tmp_path / "no" / "folder"))
    with pytest.raises(UsageError, match="cannot write"):
        compiled.save(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def with_header(data, change):
    """An artifact whose header says something else than its code."""
    fixed = struct.Struct("<14sIIII")
    magic, version, n, *lengths = fixed.unpack_from(data)
    rest = data[fixed.size + n : -32]
    header = json.dumps(change(json.loads(data[fixed.size : fixed.size + n]))).encode()
    return sealed(fixed.pack(magic, version, len(header), *lengths) + header + rest)


@pytest.mark.parametrize("machine", [{}, {"machine": "another"}])
@pytest.mark.parametrize("outs", [[], [["float32", [3]]] * 3])
def test_as_many_results_as_the_header_says(data, machine, outs):
    changed = with_header(data, lambda fields: {**fields, **machine, "out": outs})
    with pytest.raises(
        UsageError, match="the artifact's program has 2 results, and its header says"
    ):
        from_bytes(changed)


def test_no_memory_beyond_a_result_is_read(data):
    outs = [["bfloat16", [1 << 40]], ["int64", []]]
    program = from_bytes(with_header(data, lambda fields: {**fields, "out": outs}))
    with pytest.raises(UsageError, match=r"gives no bfloat16\[1099511627776\]"):
        np.asarray(program(X, 5)[0])


@pytest.mark.parametrize(
    "change",
    [
        {"devices": 0},
        {"devices": 1.5},
        {"devices": True},
        {"devices": float("inf")},
        {"jaxlib": 3},
        {"in": [["float32", "12"]]},
        {"in": [["float32", [1 << 62, 1 << 62]]]},
        {"in": [["float32", [1] * 65]]},
        {"out": 5},
    ],
)
def test_a_header_is_read_strictly(data, change):
    with pytest.raises(UsageError, match="cut short or damaged"):
        from_bytes(with_header(data, lambda fields: {**fields, **change}))


def test_a_header_that_is_no_object_or_nested_deep_is_damaged(data):
    for header in ([], 5, None):
        with pytest.raises(UsageError, match="cut short or damaged"):
            from_bytes(with_header(data, lambda _, header=header: header))
    deep = with_header(data, lambda fields: {**fields, "in": "@"}).replace(b'"@"', b"[[]]")
    with pytest.raises(UsageError, match="cut short or damaged"):
        from_bytes(deep)
