"""Every param that a release of JAX has printed is known: `dialects/params_of_releases.txt`, read off the texts of 107 releases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.core.primitive import declared_primitive, find_primitive
from jaxprtool.generation.seeds import seeds
from jaxprtool.ir.diagnostics import UnsupportedError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.syntax.elided_params import params_in_form, printed_params
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from jaxprtool.syntax.releases.dialects import (
    RELEASES,
    Dialect,
    find_dialect,
    refuse_unsayable,
)
from jaxprtool.syntax.releases.earlier import OLDER, declared_params

TABLE = Path(__file__).parent / "dialects" / "params_of_releases.txt"

# Primitives that nobody declares: their equations are read and printed as they are.
UNDECLARED = {
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
_GIVEN = re.compile(r"(?<=[\[ \n])[a-z_]+=(?:\([^()]*\)|\[[^\[\]]*\]|[^\s\[\]{}(),]+)(?=[ \n\]])")


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


# ---- in the dialects

VERSIONS = next(
    line.split()[1:] for line in TABLE.read_text().split("\n") if line.startswith("Versions: ")
)


def versions_of(releases: str) -> list[str]:
    """`0.6.0 0.7.0..0.8.0` as a list."""
    found: list[str] = []
    for span in releases.split():
        first, _, last = span.partition("..")
        i, j = VERSIONS.index(first), VERSIONS.index(last or first)
        found += VERSIONS[i : j + 1]
    return found


def with_a_dialect() -> list[tuple[str, str, tuple[str, ...]]]:
    """What each release with a dialect prints: the release, a primitive, and its params."""
    found = {(v, name, keys) for name, keys, spans in ROWS for v in versions_of(spans)}
    numbers = {v: tuple(map(int, v.split(".")[:3])) for v in VERSIONS}
    return sorted(row for row in found if numbers[row[0]] >= RELEASES[0])


@pytest.mark.parametrize("version", dict.fromkeys(v for v, _, _ in with_a_dialect()))
def test_a_dialect_has_the_names_and_params_of_its_release(version):
    """Each name is one of a primitive there, and each param is one that it has there.

    To 0.4.34 each attribute of an `ffi_call` was a param of its own.
    """
    dialect = find_dialect("jax-" + ".".join(version.split(".")[:3]))
    ours = {form.name: name for name, form in dialect.forms.items()}
    wrong = []
    for release, name, keys in with_a_dialect():
        primitive = declared_primitive(ours.get(name, name))
        if release != version or primitive is None:
            continue
        form = dialect.forms.get(primitive.name)
        if form is None:
            can = {*primitive.params}
        else:
            kept = {form.names.get(key, key) for key in primitive.params if key not in form.lacks}
            can = kept | form.more.keys()
            always = {key for key, value in form.more.items() if not callable(value)}
            wrong += [f"{name} has no {key}" for key in always.difference(keys)]
            wrong += [] if form.has else [f"{name} is none"]
        if form is None or "attributes" in keys or name != "ffi_call":
            wrong += [f"{name} has {key}" for key in {*keys} - can]
    assert wrong == []


def is_refused(eqn: JaxprEqn, dialect: Dialect) -> bool:
    """Whether a dialect cannot express an equation."""
    outs = [*eqn.out_binders]
    binders = [x for x in dict.fromkeys(eqn.inputs) if isinstance(x, Var)]
    try:
        refuse_unsayable(ClosedJaxpr(Jaxpr(binders, [eqn], outs)), dialect)
    except UnsupportedError:
        return True
    return False


# The release printed something else in the place of it.
NO_WORDS = {("custom_jvp_call", "jvp"): "the address of a function, to 0.6.0"}


@pytest.mark.parametrize("version", dict.fromkeys(v for v, _, _ in with_a_dialect()))
def test_a_dialect_has_no_params_that_its_release_did_not_print(version):
    """What an example prints in the dialect is what the release prints; but for params that say something, which stay.

    To 0.4.34 each attribute of an `ffi_call` was a param of its own.
    """
    dialect = find_dialect("jax-" + ".".join(version.split(".")[:3]))
    printed = dict[str, set[str]]()
    for release, name, keys in with_a_dialect():
        if release == version:
            printed.setdefault(name, set()).update(keys)
    wrong = set()
    for name, programs in seeds().items():
        form = dialect.forms.get(name)
        there = printed.get(name if form is None else form.name)
        if there is None or name == "ffi_call" or find_primitive(name).notation:
            continue
        for eqn in (e for p in programs for e in p.jaxpr.eqns if e.primitive.name == name):
            if is_refused(eqn, dialect):
                continue
            declared = eqn.primitive.params
            found = (
                printed_params(eqn.primitive, eqn.params, lossless=False)
                if form is None
                else params_in_form(eqn, form, lossless=False)
            )
            wrong |= {
                (name, key)
                for key, value in found
                if key not in there and (key not in declared or value == declared[key].default)
            }
    assert not wrong - NO_WORDS.keys(), sorted(wrong)


@pytest.mark.parametrize(
    "name", [name for name in OLDER if declared_primitive(name) is not None and name in seeds()]
)
def test_a_param_that_no_release_knows_does_not_tell_the_release(name):
    """What is printed of such a text, with as many of the other params as it has, is printed alike when it is read again."""
    text = jt.format_jaxpr(seeds()[name][0])
    places = [m.span() for m in _GIVEN.finditer(text)][:8]
    for start, end in places:
        for left, right in [(end, end), *(p for p in places if p[0] >= end)]:
            mutated = f"{text[:start]}foo=1{text[end:left]}{text[right:]}"
            try:
                printed = format_file(parse_file(mutated))
            except jt.JaxprToolError:
                continue
            assert format_file(parse_file(printed)) == printed, mutated
