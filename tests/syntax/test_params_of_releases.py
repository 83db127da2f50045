"""Every param that a release of JAX has printed is known: `dialects/params_of_releases.txt`, read off the texts of 107 releases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jaxprtool.syntax.releases.earlier import OLDER, declared_params

TABLE = Path(__file__).parent / "dialects" / "params_of_releases.txt"

# Primitives that nobody declares: their equations are read and printed as they are.
UNDECLARED = {
    "dma_start": "a copy inside of a kernel on a TPU",
    "dma_wait": "a copy inside of a kernel on a TPU",
    "set": "a write to a reference, which is told by its arrow",
}  # fmt: skip
UNREADABLE = {
    "while": "`opaque_params` to 0.1.20: the jaxprs are not in the text",
}
# What the conversion of an equation looks into before anything else does (see `OLDER`).
CONVERTED = {
    name for name, older in OLDER.items() if older.convert or older.arrange or older.expand
}


def rows() -> list[tuple[str, tuple[str, ...], str]]:
    """The primitives, their params, and the releases that print these."""
    found, name = [], ""
    for line in TABLE.read_text().split("\n"):
        if re.fullmatch(r"[^\s=:]+", line):
            name = line
        elif m := re.fullmatch(r" +\[([^\]]*)\] +(\S.*)", line):
            found.append((name, tuple(m[1].split()), m[2]))
    return found


ROWS = rows()


def test_the_table_is_read():
    assert len(ROWS) > 400
    assert any(name == "scatter-add" and "out_sharding" in keys for name, keys, _ in ROWS)


@pytest.mark.parametrize(("name", "keys", "releases"), ROWS)
def test_params_are_declared(name, keys, releases):
    declared = declared_params(name)
    if declared is None:
        custom = set(keys) == {"in_tree", "jaxpr", "num_consts", "out_tree"}
        assert custom or name in UNDECLARED, f"{name}, of {releases}, is not known"
        return
    assert name not in UNDECLARED, "it is declared now"
    missing = {k for k in keys if k not in declared}
    assert not missing or name in CONVERTED | UNREADABLE.keys(), (
        f"{name} of {releases} has {missing}"
    )
