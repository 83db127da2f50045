"""The files that `profile` writes, read strictly by the published schemas of their formats.

speedscope: `file-format-spec.ts` of jlfwong/speedscope. pprof: `profile.proto` of google/pprof. Chrome: the Trace Event Format.
"""

from __future__ import annotations

import gzip
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.profiling.files import profile_file
from tests.analyses.protobuf import fields, numbers

X = np.linspace(0.1, 1, 4).astype(np.float32)


def nested(x):
    def row(c, t):
        def col(d, u):
            return jax.lax.cond(u > 0.5, jnp.sin, jnp.cos, d) * t, d

        return jax.lax.scan(col, c, x)[0], c

    c, ys = jax.lax.scan(row, jnp.float32(0.3), x)
    return jax.lax.while_loop(lambda v: v < 3, lambda v: v * 1.5 + 0.1, c * c), ys


PROGRAMS = {
    "nested": (nested, (X,)),
    "no equation": (lambda x: x, (X,)),
    "complex": (lambda x: jnp.fft.fft(x), (X.astype(np.complex64),)),
    "called twice": (lambda x: jax.nn.silu(jax.nn.silu(x)), (X,)),
}


@pytest.fixture(
    scope="module", params=[(n, b) for n in PROGRAMS for b in ("numpy", "xla")], ids=str
)
def profiled(request, tmp_path_factory):
    name, backend = request.param
    f, args = PROGRAMS[name]
    output = tmp_path_factory.mktemp("profile") / "p.json"
    found = jt.profile(f, *args, backend=backend, output=str(output), seconds=0)
    return found, output.read_bytes()


def strict_json(data):
    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    return json.loads(data.decode("utf-8"), parse_constant=refuse)


# -- speedscope --------------------------------------------------------------------------------------

FRAME = {"name": str, "file": str, "line": int, "col": int}


def test_speedscope(profiled):
    document = strict_json(profile_file(profiled[0], "p.speedscope.json"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    allowed = {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert {"$schema", "shared", "profiles"} <= {*document} <= allowed
    assert {*document["shared"]} == {"frames"}
    frames = document["shared"]["frames"]
    for frame in frames:
        assert "name" in frame and {*frame} <= {*FRAME}
        assert all(type(v) is FRAME[k] for k, v in frame.items())
        assert frame.get("line", 1) >= 1 and frame.get("col", 1) >= 1
    assert document["profiles"]
    for p in document["profiles"]:
        assert {*p} == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert p["type"] == "sampled" and p["unit"] == "nanoseconds"
        assert len(p["samples"]) == len(p["weights"])
        assert all(0 <= i < len(frames) for way in p["samples"] for i in way)
        assert all(way for way in p["samples"])
        assert all(isinstance(w, int) and w >= 0 for w in p["weights"])
        assert p["endValue"] - p["startValue"] == sum(p["weights"])


# -- pprof -------------------------------------------------------------------------------------------

# message: field -> (name, what it is); `packed`: repeated numbers.
PROFILE = {
    1: ("sample_type", "message"),
    2: ("sample", "message"),
    3: ("mapping", "message"),
    4: ("location", "message"),
    5: ("function", "message"),
    6: ("string_table", "bytes"),
    7: ("drop_frames", "number"),
    8: ("keep_frames", "number"),
    9: ("time_nanos", "number"),
    10: ("duration_nanos", "number"),
    11: ("period_type", "message"),
    12: ("period", "number"),
    13: ("comment", "packed"),
    14: ("default_sample_type", "number"),
}
VALUE_TYPE = {1: ("type", "number"), 2: ("unit", "number")}
SAMPLE = {1: ("location_id", "packed"), 2: ("value", "packed"), 3: ("label", "message")}
LOCATION = {
    1: ("id", "number"),
    2: ("mapping_id", "number"),
    3: ("address", "number"),
    4: ("line", "message"),
    5: ("is_folded", "number"),
}
LINE = {1: ("function_id", "number"), 2: ("line", "number"), 3: ("column", "number")}
FUNCTION = {
    1: ("id", "number"),
    2: ("name", "number"),
    3: ("system_name", "number"),
    4: ("filename", "number"),
    5: ("start_line", "number"),
}


def message(data, schema):
    """The fields of a message: name -> values, each as often as it stands there."""
    found = {name: [] for name, _ in schema.values()}
    for number, value in fields(data):
        name, kind = schema[number]
        assert isinstance(value, int) == (kind == "number"), f"{name} has another wire type"
        found[name] += numbers(value) if kind == "packed" else [value]
    return found


def one(values):
    """A field that stands once at most; 0 by default."""
    assert len(values) <= 1
    return values[0] if values else 0


def test_pprof(profiled):
    data = profile_file(profiled[0], "p.pb.gz")
    assert data[:2] == b"\x1f\x8b"
    profile = message(gzip.decompress(data), PROFILE)
    strings = [s.decode("utf-8") for s in profile["string_table"]]
    assert strings[0] == "" and len({*strings}) == len(strings)
    kinds = [message(t, VALUE_TYPE) for t in profile["sample_type"]]
    words = [(strings[one(k["type"])], strings[one(k["unit"])]) for k in kinds]
    assert words == [("calls", "count"), ("time", "nanoseconds")]
    functions = [message(f, FUNCTION) for f in profile["function"]]
    ids = [one(f["id"]) for f in functions]
    assert 0 not in ids and len({*ids}) == len(ids)
    for f in functions:
        assert all(one(f[k]) < len(strings) for k in ("name", "system_name", "filename"))
        assert strings[one(f["name"])]
    locations = {one(x["id"]): x for x in (message(x, LOCATION) for x in profile["location"])}
    assert 0 not in locations and len(locations) == len(profile["location"])
    for x in locations.values():
        assert not one(x["mapping_id"])  # there is no mapping
        lines = [message(line, LINE) for line in x["line"]]
        assert lines and all(one(line["function_id"]) in ids for line in lines)
    spent = 0
    for s in (message(s, SAMPLE) for s in profile["sample"]):
        assert s["location_id"] and all(i in locations for i in s["location_id"])
        assert len(s["value"]) == len(kinds)
        spent += s["value"][1]
    assert one(profile["duration_nanos"]) == spent
    (period,) = profile["period_type"]
    assert message(period, VALUE_TYPE) == kinds[1]


# -- Chrome ------------------------------------------------------------------------------------------


def test_chrome(profiled):
    found, data = profiled
    document = strict_json(data)
    assert {*document} <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    named = set()
    for e in document["traceEvents"]:
        assert e["ph"] in ("M", "X") and type(e["name"]) is str
        assert type(e["pid"]) is int and type(e["tid"]) is int
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name") and type(e["args"]["name"]) is str
            named |= {e["tid"]} if e["name"] == "thread_name" else set()
            continue
        assert type(e["cat"]) is str and isinstance(e["args"], dict)
        for key in ("ts", "dur"):
            assert isinstance(e[key], (int, float)) and math.isfinite(e[key]) and e[key] >= 0
    slices = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert {e["tid"] for e in slices} <= named
    # what is inside of a slice of a thread ends before it does
    for tid in {e["tid"] for e in slices}:
        ends = []
        for e in sorted((e for e in slices if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= e["ts"] + 1e-3:
                ends.pop()
            end = e["ts"] + e["dur"]
            assert not ends or end <= ends[-1] + 2e-3
            ends.append(end)
    assert found.slices or not slices
