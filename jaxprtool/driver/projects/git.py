"""git: how a repository shows differences of `.jaxpr` files, and merges them.

A driver for `git diff` compares the programs of a file; `git log -p` and `git show` compare its
texts, laid out anew. A driver for merges compares programs too: what only one side has changed is
taken from that side, regardless of names.
"""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence

from jaxprtool.driver.check import check
from jaxprtool.driver.diff import diff
from jaxprtool.driver.fmt import fmt
from jaxprtool.driver.storage.files import decode, load, read_bytes
from jaxprtool.driver.storage.output import program_text
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.version import HEADER

__all__ = ["difference", "laid_out", "merge", "set_up", "take_back"]

Programs = dict[str, ClosedJaxpr]
Version = ClosedJaxpr | None  # None: the file has no such program

ATTRIBUTES = "*.jaxpr diff=jaxpr merge=jaxpr"
_FILE = ".gitattributes"
_SECTIONS = ("diff.jaxpr", "merge.jaxpr")
_NOTHING = "/dev/null"  # what git calls the side of a file that is not there


# -- the settings of a repository ---------------------------------------------------------------------


def _settings() -> dict[str, str]:
    """Return the names and values of the settings for git."""
    ours = f"{shlex.quote(sys.executable)} -m jaxprtool git-setup"
    return {
        "diff.jaxpr.command": f"{ours} diff",
        "diff.jaxpr.textconv": f"{ours} text",
        "merge.jaxpr.name": "programs, by what each side has changed",
        "merge.jaxpr.driver": f"{ours} merge %O %A %B %P",
    }


def set_up(folder: str = ".") -> list[str]:
    """Configure the repository of a folder for comparing and merging `.jaxpr` files.

    Returns:
      What was done, in lines.

    Raises:
      UsageError: it is no repository, git is not installed, or a file cannot be written.
    """
    top, found = _top(folder), list[str]()
    for key, value in _settings().items():
        _git(["config", "--local", key, value], top)
        found.append(f"git config {key} {shlex.quote(value)}")
    path = os.path.join(top, _FILE)
    lines = _lines(path)
    if ATTRIBUTES not in lines:
        write_output(path, "".join(f"{line}\n" for line in [*lines, ATTRIBUTES]))
        found.append(f"{os.path.relpath(path)}: {ATTRIBUTES}")
    return found


def take_back(folder: str = ".") -> list[str]:
    """Undo `set_up`. Returns what was done, in lines; raises as it does."""
    top, found = _top(folder), list[str]()
    for section in _SECTIONS:
        if _git(["config", "--local", "--get-regexp", rf"^{section}\."], top, failing=True):
            _git(["config", "--local", "--remove-section", section], top)
            found.append(f"git config --remove-section {section}")
    path = os.path.join(top, _FILE)
    lines = _lines(path)
    if ATTRIBUTES in lines:
        lines = [line for line in lines if line != ATTRIBUTES]
        if lines:
            write_output(path, "".join(f"{line}\n" for line in lines))
        else:
            os.unlink(path)
        found.append(f"{os.path.relpath(path)}: without {ATTRIBUTES}")
    return found


def _top(folder: str) -> str:
    return _git(["rev-parse", "--show-toplevel"], folder).rstrip("\n")


def _lines(path: str) -> list[str]:
    return decode(*read_bytes(path)).splitlines() if os.path.exists(path) else []


def _git(words: Sequence[str], folder: str, *, failing: bool = False) -> str:
    """Return the output of git.

    Raises UsageError when git is not installed, or fails; "" where it may fail.
    """
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        fail(UsageError, f"cannot run git in {folder}: {reason}", "git")
    if done.returncode and not failing:
        said = (done.stderr.strip() or "it fails").removeprefix("fatal: ")
        fail(UsageError, f"git {words[0]}: {said}", "git", help="run this inside of a repository")
    return "" if done.returncode else done.stdout


# -- what git runs ------------------------------------------------------------------------------------


def difference(path: str, old: str, new: str) -> list[str]:
    """Return what `git diff` shows for a file.

    Args:
      path: its name in the repository, below whose folder its constants are.
      old, new: the files that hold both sides, or `/dev/null`.

    Returns:
      A diff by structure; for a file that is new, gone or no jaxpr, a diff of the lines.
    """
    head = [f"diff --jaxpr a/{path} b/{path}"]
    texts = [_text(file) for file in (old, new)]
    a, b = (f"{side}/{path}" if x != _NOTHING else x for side, x in (("a", old), ("b", new)))
    if _NOTHING not in (old, new):
        try:
            found = diff(load(texts[0], path), load(texts[1], path), a, b)
        except JaxprToolError:
            found = None
        if found is not None and found.equal:
            return [*head, "the same program; names, layout or origins differ"]
        if found is not None:
            return [*head, *found.lines]
    before, after = (text.splitlines() for text in texts)
    return [*head, *difflib.unified_diff(before, after, a, b, lineterm="")]


def _text(file: str) -> str:
    return "" if file == _NOTHING else decode(*read_bytes(file))


def laid_out(file: str) -> str:
    """The text of a file as `fmt` lays it out, for diffs of lines; one that is no jaxpr as it is."""
    text = _text(file)
    try:
        return fmt(text, source=False, names=False).text
    except JaxprToolError:
        return text


def merge(base: str, ours: str, theirs: str, path: str) -> bool:
    """Merge two versions of a file into `ours`.

    For each program in it the version of the side that has changed it is taken. Where both have,
    their lines are merged, and the result is taken if it is well-typed.

    Args:
      base, ours, theirs: files with the common ancestor and both versions.
      path: the name of the file in the repository.

    Returns:
      Whether it succeeded; if not, `ours` has marks where both sides changed something.
    """
    texts = [_text(x) for x in (base, ours, theirs)]
    found = _chosen(texts, path)
    if found is None:
        command = ["git", "merge-file", "-p", "-L", "ours", "-L", "base", "-L", "theirs"]
        done = subprocess.run([*command, ours, base, theirs], capture_output=True, text=True)
        write_output(ours, done.stdout)
        return done.returncode == 0 and _is_typed(done.stdout, path)
    if found != texts[1]:
        write_output(ours, found)
    return True


def _is_typed(text: str, path: str) -> bool:
    try:
        check(lambda: load(text, path))
    except JaxprToolError:
        return False
    return True


def _chosen(texts: Sequence[str], path: str) -> str | None:
    """Return the text of the programs, each of the side that has changed it; None where both have
    changed one, or one is no jaxpr.
    """
    try:
        base, ours, theirs = (load(text, path) if text.strip() else {} for text in texts)
        picked: Programs = {}
        sides: set[int] = set()
        for name in dict.fromkeys([*ours, *theirs]):
            versions = [side.get(name) for side in (base, ours, theirs)]
            side = _side(*versions)
            if side is None:
                return None
            program = versions[side or 1]
            if program is not None:
                picked[name] = program
            sides.add(side)
        if sides <= {0, 1}:
            return texts[1]
        return texts[2] if sides <= {0, 2} else HEADER + program_text(picked)
    except JaxprToolError:
        return None


def _side(base: Version, ours: Version, theirs: Version) -> int | None:
    """Return which version of a program a merge takes: 1 (ours), 2 (theirs), 0 for either; None
    where both have changed it.
    """
    if _same(ours, theirs):
        return 0
    if _same(base, ours):
        return 2
    return 1 if _same(base, theirs) else None


def _same(a: Version, b: Version) -> bool:
    if a is None or b is None:
        return a is b
    return diff({"": a}, {"": b}).equal
