"""Bundles: an archive of a program, its arguments, a command and the output of the command.

A bundle is a `.zip` file of members with fixed names. It may come from anybody, so reading one
trusts nothing: other names, links, members that are encrypted or too large, and invalid entries of
the manifest are refused.
"""

from __future__ import annotations

import io
import json
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from jaxprtool.driver.bundles.commands import checked_command
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail

__all__ = [
    "ARGS",
    "MANIFEST",
    "MOST_BYTES",
    "PROGRAM",
    "README",
    "SCRIPT",
    "Bundle",
    "bundle_bytes",
    "is_bundle",
    "read_bundle",
]

MANIFEST, PROGRAM, ARGS, README, SCRIPT = (
    "manifest.json",
    "program.jaxpr",
    "args.npz",
    "README.md",
    "script.py",
)
_NAMES = (README, MANIFEST, PROGRAM, ARGS, SCRIPT)
_NEEDED = (MANIFEST, PROGRAM)
_FORMAT = "jaxprtool repro"
MOST_BYTES = 1 << 30
_MOST_MANIFEST = 1 << 24
_MOST_MEMBERS = 64
_ENCRYPTED = 0x1
_DATE = (1980, 1, 1, 0, 0, 0)  # the date of all members, so that equal contents give equal bytes
_FAULTS = (
    *(ValueError, OSError, EOFError, RuntimeError, NotImplementedError),
    *(RecursionError, OverflowError, zipfile.BadZipFile, zlib.error, LookupError),
)


@dataclass(frozen=True)
class Bundle:
    """The contents of a bundle.

    Attributes:
      verb: the verb of the command.
      options: the words of each of its options: `["--jit"]`, `["--wrt=0"]`.
      program: the text of the program.
      args: the bytes of the file of its arguments; empty where the verb takes none.
      versions: those of jaxprtool, Python, and the packages that compute.
      platform: the machine.
      status: the exit status of the command, negative for a signal; None where it ran out of time.
      output: what it wrote to standard output.
      messages: what it wrote to standard error.
      expected: the correct output; "" where it is not known.
      expected_by: who states it: "", `given`, or `jax`.
      readme, script: files for people.
      why_no_script: why there is no script; "" where there is one.
      kept: names of arguments that still hold values of the original, although they were to be
        scrubbed.
    """

    verb: str
    options: Sequence[Sequence[str]]
    program: str
    args: bytes
    versions: Mapping[str, str]
    platform: Mapping[str, str]
    status: int | None
    output: str
    messages: str
    expected: str = ""
    expected_by: str = ""
    readme: str = ""
    script: str = ""
    why_no_script: str = ""
    kept: Sequence[str] = ()

    def manifest(self) -> dict[str, Any]:
        """Return the entries of the manifest: all but the program and its arguments."""
        return {
            "format": _FORMAT,
            "schema": 1,
            "verb": self.verb,
            "options": [[*words] for words in self.options],
            "versions": dict(self.versions),
            "platform": dict(self.platform),
            "result": {"status": self.status, "output": self.output, "messages": self.messages},
            "expected": {"output": self.expected, "by": self.expected_by},
        }

    def members(self) -> dict[str, bytes]:
        """The members of the archive, in order."""
        text = json.dumps(self.manifest(), indent=1, sort_keys=True) + "\n"
        texts = {
            README: self.readme,
            MANIFEST: text,
            PROGRAM: self.program,
            ARGS: None,
            SCRIPT: self.script,
        }
        found = {k: self.args if x is None else x.encode() for k, x in texts.items()}
        return {k: x for k, x in found.items() if x}


def is_bundle(data: bytes) -> bool:
    """Whether a file's first bytes are those of a `.zip` archive."""
    return data.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def bundle_bytes(bundle: Bundle) -> bytes:
    """Return the archive; the same bundle gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in bundle.members().items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


def read_bundle(data: bytes, name: str, most: int = MOST_BYTES) -> Bundle:
    """Read a bundle from an untrusted source.

    Args:
      data: the archive.
      name: its name.
      most: the bytes that it may take when it is unpacked.

    Raises:
      UsageError: it is damaged, hostile, or contains a command that a bundle may not contain.
    """
    if not is_bundle(data):
        help = "a program comes with a command: jaxprtool repro FILE -o bug.zip -- run"
        fail(UsageError, f"{name} is no archive of `repro`", "bad-bundle", help=help)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = _checked_members(archive, name, most)
            members = {key: _read(archive, info, name) for key, info in infos.items()}
        return _of_members(members, name)
    except JaxprToolError:
        raise  # its message is clear already
    except _FAULTS as e:
        _refuse(name, f"it is damaged: {e}")


def _refuse(name: str, why: str) -> NoReturn:
    fail(UsageError, f"{name} is no archive of `repro`: {why}", "bad-bundle")


def _checked_members(archive: zipfile.ZipFile, name: str, most: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name, after a check of the archive's directory."""
    infos, found = archive.infolist(), dict[str, zipfile.ZipInfo]()
    if len(infos) > _MOST_MEMBERS:
        _refuse(name, f"it has {len(infos)} members")
    for info in infos:
        key, mode = info.filename, info.external_attr >> 16
        if key not in _NAMES:
            outside = key.startswith(("/", "\\")) or ".." in key or ":" in key
            _refuse(
                name,
                f"it holds {key!r}, {'a path outside of it' if outside else 'which is not of a bundle'}",
            )
        if key in found:
            _refuse(name, f"it holds {key} twice")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            _refuse(name, f"{key} is no plain file")
        if info.flag_bits & _ENCRYPTED:
            _refuse(name, f"{key} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            _refuse(name, f"{key} is compressed in an unusual way")
        found[key] = info
    total = sum(info.file_size for info in found.values())
    if total > most or (MANIFEST in found and found[MANIFEST].file_size > _MOST_MANIFEST):
        _refuse(name, f"it takes {total:,} bytes when it is unpacked, and {most:,} are allowed")
    for key in _NEEDED:
        if key not in found:
            _refuse(name, f"it has no {key}")
    return found


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> bytes:
    """Return a member; no more of it is unpacked than the size it declares."""
    with archive.open(info) as f:
        data = f.read(info.file_size)
        if len(data) != info.file_size or f.read(1):
            _refuse(name, f"{info.filename} has another size than it says")
    return data


def _of_members(members: Mapping[str, bytes], name: str) -> Bundle:
    manifest = json.loads(members[MANIFEST])
    form = _Form(name)
    top = form.table(manifest, "the manifest")
    if top.get("format") != _FORMAT or top.get("schema") != 1:
        _refuse(name, "its manifest is of another format")
    result, expected = (form.table(top.get(k), k) for k in ("result", "expected"))
    options = [
        [form.text(w, "an option") for w in form.items(words, "an option")]
        for words in form.items(top.get("options"), "options")
    ]
    verb = form.text(top.get("verb"), "the verb")
    checked_command(verb, options, name)
    status = result.get("status")
    if status is not None and type(status) is not int:
        _refuse(name, "the status in its manifest is no integer")
    return Bundle(
        verb,
        options,
        members[PROGRAM].decode(),
        members.get(ARGS, b""),
        form.texts(top.get("versions"), "versions"),
        form.texts(top.get("platform"), "platform"),
        status,
        form.text(result.get("output"), "the output"),
        form.text(result.get("messages"), "the messages"),
        form.text(expected.get("output"), "what is expected"),
        form.text(expected.get("by"), "what is expected"),
        members.get(README, b"").decode(),
        members.get(SCRIPT, b"").decode(),
    )


class _Form:
    """The required form of a manifest."""

    def __init__(self, name: str):
        self.name = name

    def table(self, x: Any, what: str) -> dict[str, Any]:
        if not isinstance(x, dict):
            _refuse(self.name, f"{what} in its manifest is no table")
        return cast(dict[str, Any], x)

    def items(self, x: Any, what: str) -> list[Any]:
        if not isinstance(x, list):
            _refuse(self.name, f"{what} in its manifest is no list")
        return cast(list[Any], x)

    def text(self, x: Any, what: str) -> str:
        if not isinstance(x, str):
            _refuse(self.name, f"{what} in its manifest is no text")
        return x

    def texts(self, x: Any, what: str) -> dict[str, str]:
        return {k: self.text(v, what) for k, v in self.table(x, what).items()}
