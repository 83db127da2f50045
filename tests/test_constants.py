"""Constants apart from the text: `.npz` files, base64, and values that are given; what a hostile file may not do."""

from __future__ import annotations

import base64
import io
import os
import random
import resource
import struct
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import jaxprtool as jt
from jaxprtool.backends.jax import script
from tests.invoke import Done, invoke

A = np.arange(3, dtype=np.float32)
TEXT = "{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = add a b in (c,) }\nwhere a = %s\n"
FROM_NPZ = TEXT % 'npz("w.npz", "a")'


def npy(array: np.ndarray, version=None) -> bytes:
    """The bytes of a `.npy` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def with_header(header: str, data: bytes = A.tobytes()) -> bytes:
    """The bytes of a `.npy` file whose type is spelt so."""
    raw = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + data


def write_npz(path: Path, *members: tuple[str, bytes], compression=zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(path, "w", compression) as z:
        for name, data in members:
            z.writestr(name, data)
    return path.read_bytes()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program and the `.npz` file that it names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jaxpr").write_text(FROM_NPZ)
    write_npz(tmp_path / "w.npz", ("a.npy", npy(A)))
    return tmp_path


def run(path: str = "p.jaxpr", *options: str, stdin: str = "") -> Done:
    return invoke(["run", path, "--args", "zeros", *options], stdin)


def refused(done: Done, code: str, message: str = "") -> None:
    assert done.status == 2, done.error
    assert f"[{code}]" in done.error and message in done.error


SUM = "f32[3] [0., 1., 2.]\n"


# ---- where a file may be


def test_a_file_beside_the_program(folder, monkeypatch):
    assert run().output == SUM
    monkeypatch.chdir("/")
    assert run(str(folder / "p.jaxpr")).output == SUM


def test_standard_input_is_in_the_current_folder(folder, monkeypatch):
    assert run("-", stdin=FROM_NPZ).output == SUM
    (folder / "below").mkdir()
    monkeypatch.chdir("below")
    refused(run("-", stdin=FROM_NPZ), "unreadable-file", "standard input is the current one")


@pytest.mark.parametrize("kind", ["dots", "absolute", "link", "linked folder"])
def test_files_elsewhere_need_to_be_allowed(folder, kind):
    inside = folder / "inside"
    inside.mkdir()
    name = {"dots": "../w.npz", "absolute": str(folder / "w.npz"), "link": "l.npz"}
    name = name.get(kind, "out/w.npz")
    (inside / "l.npz").symlink_to(folder / "w.npz")
    (inside / "out").symlink_to(folder)
    (inside / "p.jaxpr").write_text(TEXT % f'npz("{name}", "a")')
    refused(run("inside/p.jaxpr"), "npz-path", f"--allow-path {folder}")
    assert run("inside/p.jaxpr", "--allow-path", str(folder)).output == SUM
    assert invoke("fmt inside/p.jaxpr").status == 0  # it reads no file


def test_an_absolute_name_below_the_folder(folder):
    (folder / "p.jaxpr").write_text(TEXT % f'npz("{folder}/w.npz", "a")')
    assert run().output == SUM


@pytest.mark.parametrize("name", ["", ".", "nothing.npz", "pipe", "x" * 300, "a\0b"])
def test_what_is_no_file(folder, name):
    os.mkfifo(folder / "pipe")
    (folder / "p.jaxpr").write_text(TEXT % f'npz("{name}", "a")')
    refused(run(), "npz-path" if "\0" in name else "unreadable-file")


# ---- what a file may hold


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_layouts(folder, compression, version, order, dtype):
    array = np.arange(6, dtype=dtype).reshape(2, 3, order="C")
    member = ("a.npy", npy(np.asarray(array, order=order), version))
    write_npz(folder / "w.npz", member, compression=compression)
    (folder / "p.jaxpr").write_text(FROM_NPZ.replace("[3]", "[2,3]"))
    assert run().output == "f32[2,3] [[0., 1., 2.],\n          [3., 4., 5.]]\n"


@pytest.mark.parametrize(
    "array",
    [
        A.astype("f8"),
        A[:2],
        A.astype("i4"),
        np.array(["a", "b", "c"]),
        np.zeros(3, [("a", "f4")]),
        np.zeros(3, "M8[s]"),
    ],
    ids=lambda a: str(a.dtype),
)
def test_other_types(folder, array):
    write_npz(folder / "w.npz", ("a.npy", npy(array)))
    refused(run(), "argument-type", "the constant (a) is f32[3], and ")


def test_pickles_are_not_read(folder):
    np.savez(folder / "w.npz", a=np.array([1, "a", None], object), allow_pickle=True)
    refused(run(), "unreadable-file", "Python objects")


def test_an_array_that_is_not_there(folder):
    write_npz(folder / "w.npz", *[(f"m{i}.npy", b"") for i in range(20)])
    refused(run(), "no-such-array", "it holds m0, m1, ")
    assert "m11, ..." in run().error and "m12" not in run().error


@pytest.mark.parametrize(
    "header",
    [
        *[
            f"{{'descr': '<f4', 'fortran_order': False, 'shape': {s}, }}"
            for s in (
                "3",
                "(3.0,)",
                "(-3,)",
                "(10**30,)",
                "(0, 2**62, 2**62)",
                "(" * 999 + ")" * 999,
            )
        ],
        *[
            f"{{'descr': {d}, 'fortran_order': False, 'shape': (3,), }}"
            for d in ("'O'", "'<U999999999'", "None", "'(999999999,9999999)<f4'", "'|V0'", "'<f3'")
        ],
        "__import__('os')",
        "",
    ],
)
def test_headers(folder, header):
    write_npz(folder / "w.npz", ("a.npy", with_header(header)))
    refused(run(), "unreadable-file")


def test_members_that_cannot_be_read(folder):
    raw = bytearray((folder / "w.npz").read_bytes())
    raw[raw.find(b"PK\x01\x02") + 8] |= 1
    (folder / "w.npz").write_bytes(raw)
    refused(run(), "unreadable-file", "a.npy is encrypted")
    write_npz(folder / "w.npz", ("a.npy", npy(A)), compression=zipfile.ZIP_LZMA)
    refused(run(), "unreadable-file", "compressed in a way")


def test_of_two_members_of_one_name_the_last_is_taken(folder):
    with pytest.warns(UserWarning, match="Duplicate name"):
        write_npz(folder / "w.npz", ("a.npy", npy(A)), ("a.npy", npy(A + 1)))
    assert run().output == "f32[3] [1., 2., 3.]\n"


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("kind", ["more data", "longer header"])
def test_nothing_is_inflated_beyond_its_type(folder, kind):
    """A compressed file of 400 KB with 400 MB of data is not inflated beyond the type of the
    constant.
    """
    head = npy(A) if kind == "more data" else b"\x93NUMPY\x02\x00" + struct.pack("<I", 400 << 20)
    with (
        zipfile.ZipFile(folder / "w.npz", "w", zipfile.ZIP_DEFLATED) as z,
        z.open("a.npy", "w") as f,
    ):
        f.write(head)
        for _ in range(100):
            f.write(b" " * (4 << 20))
    before = peak()
    refused(run(), "unreadable-file")
    assert peak() - before < 100 << 20


def test_members_that_the_program_does_not_name_are_not_read(folder):
    write_npz(folder / "w.npz", ("a.npy", npy(A)), *[(f"m{i}.npy", b"x") for i in range(20_000)])
    assert run().output == SUM


@pytest.mark.parametrize("seed", range(300))
def test_damaged_files(folder, seed):
    """A file with any bytes is read, or refused with a message."""
    rng = random.Random(seed)
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    raw = bytearray(write_npz(folder / "w.npz", ("a.npy", npy(A)), compression=method))
    for _ in range(rng.randint(1, 4)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    if rng.random() < 0.2:
        del raw[rng.randrange(len(raw)) :]
    (folder / "w.npz").write_bytes(raw)
    done = run()
    assert done.status == 0 or (done.status == 2 and f"{folder}/w.npz" in done.error), done.error


# ---- values in the text


def spelt(array: np.ndarray, kind: str) -> str:
    return f'base64("{kind}", "{base64.b64encode(array.tobytes()).decode()}")'


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        (spelt(A[:2], "f32[3]"), "f32[3] has 12 bytes, and the base64 text does not"),
        (spelt(A[:2], "f32[2]"), "the values are f32[2], and have to be f32[3]"),
        (spelt(A, "f64[3]"), "the values are f64[3], and have to be f32[3]"),
        ('base64("f32[3]", "AAAAAAAAgD8!!ABA")', "malformed base64"),
        ('base64("f32[3]", "AAAAAAAA gD8AABA")', "malformed base64"),
        ('base64("f32[3]")', 'malformed base64: it is written base64("f32[2]", "AAAAAAAAgD8=")'),
        ("base64('f32[3]', 'AAAA')", "malformed base64: it is written"),
        ('npz("a")', 'malformed npz: it is written npz("FILE.npz", "NAME")'),
        ("[1, 2]", "the values do not have the shape of f32[3]"),
        ("[1, 2, x]", "x is not a value of type f32"),
    ],
)
def test_malformed_constants(folder, spelling, message):
    (folder / "p.jaxpr").write_text(TEXT % spelling)
    refused(run(), "bad-constant", message)
    at = 11 + spelling.index("x]") if "x]" in spelling else 11  # that of the element, or of all
    assert run().error.startswith(f"p.jaxpr:2:{at}: error: ")


NAN_BITS = {
    "float16": [0x7E01, 0xFE00, 0x7C01, 0x7E00, 0x8000],
    "bfloat16": [0x7FC1, 0xFFC0, 0x7F81, 0x7FC0, 0x8000],
    "float32": [0x7FC00001, 0xFFC00000, 0x7F800001, 0x7FC00000, 0x80000000],
    "float64": [(0x7FF8 << 48) + 1, 0xFFF8 << 48, (0x7FF0 << 48) + 1, 1 << 63],
    "complex64": [0x7FC00001_FFC00000, 0x80000000_7FC00000],
}


@pytest.mark.parametrize("shape", ["array", "scalar"])
@pytest.mark.parametrize("name", NAN_BITS)
def test_bits_of_nans_reach_every_backend(folder, name, shape):
    """Through the file, on NumPy, and with XLA: payloads, signs and zeros."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    words = np.dtype(f"u{dtype.itemsize}")
    array = np.array(NAN_BITS[name], words).view(dtype)
    array = np.asarray(array if shape == "array" else array[0])
    with jax.enable_x64(True):
        jt.save(jt.from_jax(jax.make_jaxpr(lambda: jnp.asarray(array))()), "nan.jaxpr")
    for how in ([], ["--jit"]):
        done = invoke(["run", *how, "nan.jaxpr", "-o", "out.npy"])
        assert done.status == 0, done.error
        assert np.load("out.npy").tobytes() == array.tobytes()


# ---- where constants are written

BIG = np.arange(400, dtype=np.float32)
MODULE = """
import jax, jax.numpy as jnp, numpy as np
BIG = np.arange(400, dtype=np.float32)
def f(x):
    return jax.jit(lambda y: y + jnp.asarray(BIG))(x) * jnp.asarray(BIG)
"""


@pytest.fixture
def module(folder: Path) -> Path:
    (folder / "m.py").write_text(MODULE)
    return folder


def trace(*options: str) -> Done:
    return invoke(["trace", "m.py:f", "--shape", "f32[400]", *options])


def test_large_constants_go_beside_the_file(module):
    (module / "w.npz").unlink()
    assert trace("-o", "q.jaxpr").status == 0
    (npz,) = module.glob("*.npz")
    assert npz.name.startswith("q-") and f'npz("{npz.name}", "c0")' in Path("q.jaxpr").read_text()
    with np.load(npz) as held:
        assert list(held) == ["c0"]  # the same array twice
    before = npz.stat().st_mtime_ns
    assert trace("-o", "q.jaxpr").status == 0
    assert [p.name for p in module.glob("*.npz")] == [npz.name] and npz.stat().st_mtime_ns >= before


def test_consts_says_where(module):
    assert trace("-o", "q.jaxpr", "--consts", "consts.npz").status == 0
    assert 'npz("consts.npz", "c0")' in Path("q.jaxpr").read_text()
    assert trace("-o", "r.jaxpr", "--consts", "inline").status == 0
    assert 'base64("f32[400]", "' in Path("r.jaxpr").read_text()
    assert invoke("diff q.jaxpr r.jaxpr").status == 0
    refused(trace("-o", "q.jaxpr", "--consts", "consts.txt"), "option", ".npz file, or inline")


def test_in_a_pipe_they_are_base64(module):
    assert 'base64("f32[400]", "' in trace().output


@pytest.mark.parametrize("name", ['a"b.jaxpr', "a b.jaxpr", "a#b.jaxpr", "a\nb.jaxpr", "ä.jaxpr"])
def test_names_of_files_that_stand_in_texts(module, name):
    assert trace("-o", name).status == 0
    assert invoke(["run", name, "--args", "zeros"]).status == 0
    assert invoke(["fmt", "--check", name]).status == 0


def test_a_name_that_no_text_can_hold(module):
    refused(trace("-o", "q.jaxpr", "--consts", 'a"b.npz'), "npz-path", "cannot refer to a file")
    assert not Path("q.jaxpr").exists()


def test_a_transformation_leaves_them_where_they_are(module):
    trace("-o", "q.jaxpr", "--consts", "consts.npz")
    (module / "sub").mkdir()
    assert invoke("jvp q.jaxpr -o j.jaxpr").status == 0
    assert 'npz("consts.npz", "c0")' in Path("j.jaxpr").read_text()
    assert invoke("jvp q.jaxpr -o sub/j.jaxpr").status == 0
    assert invoke("run sub/j.jaxpr --args ones").output == invoke("run j.jaxpr --args ones").output


@pytest.mark.parametrize("output", ["sub/q.jaxpr", "q2.jaxpr", "../q.jaxpr"])
def test_fmt_takes_references_along(module, monkeypatch, output):
    (module / "here").mkdir()
    (module / "here" / "sub").mkdir()
    monkeypatch.chdir("here")
    assert invoke("trace ../m.py:f --shape f32[400] -o q.jaxpr --consts c.npz").status == 0
    assert invoke(["fmt", "q.jaxpr", "-o", output]).status == 0
    assert invoke(["diff", "q.jaxpr", output]).status == 0
    assert Path(output).read_text().startswith("# jaxprtool format 1\n")
    assert ('npz("c.npz"' in Path(output).read_text()) == (output == "q2.jaxpr")


def test_fmt_of_a_reference_elsewhere(module):
    (module / "inside").mkdir()
    text = TEXT % 'npz("../w.npz", "a")'
    Path("inside/p.jaxpr").write_text(text)
    refused(invoke("fmt inside/p.jaxpr -o q.jaxpr"), "npz-path")
    assert invoke("fmt inside/p.jaxpr -o q.jaxpr --allow-path .").status == 0
    assert 'npz("w.npz", "a")' in Path("q.jaxpr").read_text()


def test_nothing_is_written_where_a_file_cannot_be_read(module):
    trace("-o", "q.jaxpr", "--consts", "consts.npz")
    (module / "consts.npz").unlink()
    (module / "sub").mkdir()
    refused(invoke("fmt q.jaxpr -o sub/q.jaxpr"), "unreadable-file")
    refused(invoke("jvp q.jaxpr -o sub/q.jaxpr"), "unreadable-file")
    assert list((module / "sub").iterdir()) == []


# ---- values that are given

LOG = """{ lambda a:f32[3]; b:f32[3]. let
    c:f32[3] = jit[name=f jaxpr={ lambda d:f32[3] e:i32[]; b:f32[3]. let
        g:f32[3] = mul b d
        h:f32[] = convert_element_type[new_dtype=float32 weak_type=False] e
        i:f32[3] = mul g h
      in (i,) }] b
    j:f32[3] = add c a
  in (j,) }
"""
GIVEN = {"a": A, "d": A * 10, "e": np.int32(2)}


def test_consts_are_named_as_they_are_printed(folder):
    (folder / "p.jaxpr").write_text(LOG)
    np.savez("given.npz", **GIVEN, other=np.zeros(3))
    for how in ([], ["--jit"]):
        done = invoke(["run", *how, "p.jaxpr", "--consts", "given.npz", "--args", "ones"])
        assert done.output == "f32[3] [ 0., 21., 42.]\n", done.error
    assert invoke("grad p.jaxpr --consts given.npz").status == 2  # three results
    done = invoke("jvp p.jaxpr --consts given.npz -o j.jaxpr")
    assert done.status == 0 and invoke("run j.jaxpr --args ones").output.startswith(
        "f32[3] [ 0., 21"
    )


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"z": A}, "no-such-constant", "those without a value are a, d, e"),
        ({"a": A[:2]}, "argument-type", "the constant (a) is f32[3], and f32[2]"),
        ({"e": np.int64(2)}, "argument-type", "the constant (e) is i32[], and i64[]"),
    ],
)
def test_values_that_do_not_fit(folder, given, code, message):
    (folder / "p.jaxpr").write_text(LOG)
    np.savez("given.npz", **given)
    refused(run("p.jaxpr", "--consts", "given.npz"), code, message)


def test_in_python():
    program = jt.with_consts(jt.parse(LOG), {**GIVEN, "e": 2, "a": [0.0, 1.0, 2.0]})
    (out,) = jt.jaxpr_as_fun(program)(np.ones(3, np.float32))
    np.testing.assert_array_equal(out, [0, 21, 42])
    for values, match in [
        ({"z": 1.0}, "no constant without a value is called z"),
        ({"a": 1.0}, "the number 1.0 is given"),
        ({"a": A.astype(np.float64)}, r"f64\[3\] from what is given"),
    ]:
        with pytest.raises(jt.UsageError, match=match):
            jt.with_consts(jt.parse(LOG), values)


def test_the_constants_of_jax_are_given_in_order():
    table, scale = jnp.arange(3.0), jnp.float32(2)
    made = jax.make_jaxpr(lambda x: x * table + scale)(1.0)
    read = jt.parse(str(made))
    assert len(made.consts) == 2
    (out,) = jt.jaxpr_as_fun(jt.with_consts(read, made.consts))(np.float32(3))
    np.testing.assert_array_equal(out, [2, 5, 8])
    for values, match in [
        (made.consts[:1], "1 value for 2 constants"),
        (3, "a mapping, a sequence or the path of a file is needed, not int"),
        (made.consts[::-1], r"the constant \(a\) is f32\[3\]"),
    ]:
        with pytest.raises(jt.UsageError, match=match):
            jt.with_consts(read, values)


def test_keys_of_jax_are_given():
    text = "{ lambda a:key<fry>[]; . let b:u32[2] = random_unwrap a in (b,) }"
    program = jt.with_consts(jt.parse(text), {"a": jax.random.key(7)})
    (out,) = jt.jaxpr_as_fun(program)()
    np.testing.assert_array_equal(out, jax.random.key_data(jax.random.key(7)))
    for other in (jax.random.key(7, impl="rbg"), jax.random.split(jax.random.key(7)), A):
        with pytest.raises(jt.UsageError, match=r"the constant \(a\) is "):
            jt.with_consts(jt.parse(text), {"a": other})


# What people write for the elements of a constant: every sign, and numbers that repr spells otherwise.
_REAL = [
    "nan",
    "-nan",
    "nan(0x7ff8000020000000)",
    "nan(0xfff8123440000000)",
    "nan(0xfff8000000000000)",
    "inf",
    "-inf",
    "0",
    "-0",
    "0.0",
    "-0.0",
    "1",
    "-2.50",
    "1e-50",
    "1E+3",
    "007",
    ".5",
]
_ELEMENTS = {
    "f32": _REAL,
    "f64": _REAL,
    "bf16": _REAL,
    "f8_e4m3fn": ["nan", "-nan", "0.5", "-0.0"],
    "c64": [
        *_REAL,
        "complex(nan(0x7ff8000020000000),-nan)",
        "complex(1.0,nan(0xfff8000020000000))",
        "-nan+1j",
        "(nan-nanj)",
        "(1-nanj)",
        "-infj",
        "-0.0-0j",
        "(-nan-infj)",
    ],
    "c128": [*_REAL, "-nan+1j", "(inf+nanj)"],
    "i32": ["0", "-0", "-7", "+3"],
    "u8": ["0", "255"],
    "bool": ["True", "False"],
}


@given(st.data())
def test_written_constants_are_stable_and_keep_their_bits(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(sorted(_ELEMENTS)))
    words = data.draw(st.lists(st.sampled_from(_ELEMENTS[dtype]), min_size=1, max_size=4))
    text = f"{{ lambda a:{dtype}[{len(words)}] ; . let in (a,) }}\nwhere a = [{', '.join(words)}]\n"
    try:
        program = jt.parse(text)
    except jt.JaxprParseError:  # a spelling that no number has
        assume(False)
    once = jt.format_jaxpr(program, lossless=True)
    again = jt.parse(once)
    assert jt.format_jaxpr(again, lossless=True) == once
    (before,), (after,) = (jt.eval_jaxpr(p, []) for p in (program, again))
    assert before.tobytes() == after.tobytes()


# -- constants without elements, whose text does not say their later axes ------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 7), (3, 0), (2, 0, 3)])
@pytest.mark.parametrize(
    "dtype", ["float32", "int8", "bool", "bfloat16", "complex64", "key", "float0"]
)
def test_a_constant_without_elements_keeps_its_shape(shape, dtype):
    if dtype == "key":
        held = jax.random.split(jax.random.key(0), shape)
    else:
        held = np.zeros(
            shape, {"float0": jt.float0, "bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
        )
    program = jt.trace(lambda x: (x, held), jnp.float32(1))
    again = jt.parse(jt.format_jaxpr(program, lossless=True))
    x = np.float32(1)
    for results in (jt.run(again, x), jt.run(again, x, jit=True), jt.run(again, x, through="jax")):
        assert results[1].shape == shape
    assert jt.to_jax_function(again)(x)[1].shape == shape


def test_a_script_has_the_shape_of_an_array_without_elements():
    for shape in ((0,), (0, 7), (2, 0, 3)):
        text = script._array(np.zeros(shape, np.float32))
        assert eval(text, {"np": np, "jnp": jnp}).shape == shape


@pytest.mark.parametrize("kind", ["i32[0]", "f32[0,3]", "bf16[2,0]", "key<fry>[0]"])
def test_a_constant_without_elements_needs_no_value(kind):
    call = f"""c:f32[3] = jit[name=f jaxpr={{ lambda d:{kind}; e:f32[3]. let
        f:f32[3] = add e 1.0:f32[] in (f,) }}] b"""
    x = np.arange(3, dtype=np.float32)
    outer = jt.parse(f"{{ lambda a:{kind}; b:f32[3]. let {call}\n in (c, a) }}")
    got, empty = jt.eval_jaxpr(outer, [x])
    np.testing.assert_array_equal(got, x + 1)
    assert empty.shape == outer.jaxpr.const_binders[0].aval.shape
    inner = jt.parse(f"{{ lambda ; b:f32[3]. let {call}\n in (c,) }}")
    for f in (jt.jaxpr_as_fun(inner), jt.compile(inner), jt.to_jax_function(inner)):
        np.testing.assert_array_equal(f(x)[0], x + 1)


RESULTS = {
    "jvp": lambda f, x: jt.jvp(f, [x], [x])[0],
    "vjp": lambda f, x: jt.vjp(f, x)[0],
    "linearize": lambda f, x: jt.linearize(f, x)[0],
    "vmap": lambda f, x: jt.vmap(f, in_axes=0)(x[None]),
}


@pytest.mark.parametrize("how", RESULTS)
def test_a_constant_among_results_is_an_array(how):
    """It is no internal object that holds the text of a file, in any transformation that calls the
    program.
    """
    key = jax.random.key(3)
    f = lambda x: (2 * x, jnp.asarray(np.arange(600.0, dtype=np.float32)), key, np.arange(3))
    program = jt.from_jax(jax.make_jaxpr(f)(np.float32(1)))
    text = f"{jt.format_jaxpr(program, lossless=True)}\n"
    results = RESULTS[how](jt.jaxpr_as_fun(jt.parse(text)), np.float32(1))
    assert all(isinstance(y, (np.ndarray, np.generic, jt.KeyArray)) for y in results)
