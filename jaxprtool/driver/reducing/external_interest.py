"""Tests of candidates that run other processes: a user's command, or a verb that crashes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.driver.bundles.commands import ARGS_VERBS
from jaxprtool.driver.reducing.forks import Forks, ServerEnded, can_fork
from jaxprtool.driver.reducing.interest import Failure, Interest, names_in, normalised
from jaxprtool.driver.reducing.small import ARGS_MARK, write_small
from jaxprtool.driver.running.children import end, ended, started
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.driver.user_code.plugins import loaded_plugins
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["Command", "Crash", "External", "crash_words"]

_GRACE = 10.0  # a test may take ten times what it took on the whole program, and this many seconds
_FILE = "{}"
# Of the folder of candidates; the number of the process follows.
_PREFIX = "jaxprtool-reduce-"
_STALE = 3600.0  # seconds after which a folder may be one that a killed process has left
_FAULT = 3  # the exit status of a verb for a fault of ours


def _remove_stale() -> None:
    """Remove the folders of candidates left behind by killed processes of this user.

    A process that does not exist here may run in another container that shares the folder. So only
    old folders are removed, in which nothing was written for long.
    """
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            found = re.fullmatch(rf"{_PREFIX}(\d+)-\w+", entry.name)
            if found is None or not entry.is_dir(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError):
                known = entry.stat(follow_symlinks=False)
                if known.st_uid == os.getuid() and not _runs(int(found[1])):
                    below = [os.lstat(x.path).st_mtime for x in os.scandir(entry.path)]
                    if time.time() - max([known.st_mtime, *below]) > _STALE:
                        shutil.rmtree(entry.path, ignore_errors=True)


def _runs(process: int) -> bool:
    """Whether a process with this number exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class Done(NamedTuple):
    """How a process ended: its exit status (negative for a signal; None past the time limit), and its output."""

    status: int | None
    output: str


class External(Interest):
    """A test that writes a candidate to a file, its arguments beside it, and runs a command on it.

    Args:
      words: the command; `{}` stands for the file and `{args}` for that of the arguments.
      fail_regex: a pattern that the output has to match, in addition.
    """

    external = True

    def __init__(self, words: Sequence[str], fail_regex: str | None):
        self.words = words
        self.regex = None if fail_regex is None else _compiled(fail_regex)
        self.limit: float | None = None
        self._folders = threading.local()
        self._root: str | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._running: set[subprocess.Popen[bytes]] = set()

    @abstractmethod
    def failure(self, c: Candidate | str) -> Failure | None:
        """Do as `Interest.failure`, also for a text that is no program."""

    @abstractmethod
    def __call__(self, c: Candidate | str) -> bool:
        """Do as `Interest.__call__`, also for a text."""

    @abstractmethod
    def why_not(self, c: Candidate | str) -> str:
        """Do as `Interest.why_not`, also for a text."""

    def stop(self) -> None:
        for process in [*self._running]:
            end(process)

    def close(self) -> None:
        """End the running tests, and remove the files of all candidates; no test begins after this."""
        with self._lock:
            self._closed = True
            self.stop()
            if self._root is not None:
                shutil.rmtree(self._root, ignore_errors=True)

    def _written(self, c: Candidate | str) -> tuple[str, str, str]:
        """Write a candidate; return the folder of this thread, the file in it, and that of the
        arguments ("" for a text).
        """
        with self._lock:
            if self._closed:
                fail(UsageError, "the tests have ended", "interrupted")
            if self._root is None:
                _remove_stale()
                self._root = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
            folder = getattr(self._folders, "path", None)
            if folder is None:
                folder = self._folders.path = tempfile.mkdtemp(dir=self._root)
            file = os.path.join(folder, "small.jaxpr")
            if isinstance(c, str):
                write_output(file, c)
                return folder, file, ""
            return folder, file, write_small(c, file)

    def run(self, c: Candidate | str) -> Done:
        """Run the command on a candidate, or on a text that is no program, in a folder of this thread's own."""
        folder, file, args = self._written(c)
        given = self._words_for_text() if isinstance(c, str) else self.words
        words = [w.replace(ARGS_MARK, args).replace(_FILE, file) for w in given]
        begin = time.monotonic()
        limits = [x for x in (self.limit, self.deadline and self.deadline - begin) if x is not None]
        done = self._ended(words, max(min(limits), 0) if limits else None, folder)
        if self.limit is None:
            self.limit = 10 * (time.monotonic() - begin) + _GRACE
        return done

    def _words_for_text(self) -> Sequence[str]:
        """Return the command without the arguments of a program."""
        pairs = zip(self.words, [*self.words[1:], ""], strict=True)
        return [w for w, after in pairs if w != ARGS_MARK and (w, after) != ("--args", ARGS_MARK)]

    def _ended(self, words: Sequence[str], limit: float | None, folder: str) -> Done:
        """Run a command until it ends, or is killed past the limit."""
        try:
            process = started(words, {**os.environ, "TMPDIR": folder}, merged=True)
        except OSError as e:
            reason = (e.strerror or str(e)).lower()
            fail(UsageError, f"cannot run {words[0]}: {reason}", "unreadable-file")
        self._running.add(process)
        try:
            found = ended(process, limit)
            return Done(found.status, found.output.decode(errors="replace"))
        finally:
            self._running.discard(process)

    def matches(self, done: Done) -> bool:
        """Whether the output matches the required pattern."""
        return self.regex is None or self.regex.search(done.output) is not None


def _compiled(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.MULTILINE)
    except re.error as e:
        fail(UsageError, f"--fail-regex {regex!r} is no regular expression: {e}", "option")


class Command(External):
    """A command of the user's: EXIT STATUS 0 MEANS THAT THE CANDIDATE IS STILL INTERESTING, as in llvm-reduce."""

    def __init__(self, command: str, fail_regex: str | None):
        try:
            words = shlex.split(command)
        except ValueError as e:
            fail(UsageError, f"--test {command!r}: {str(e).lower()}", "option")
        if not words:
            fail(
                UsageError, "--test needs a command", "option", help="--test './still_fails.sh {}'"
            )
        if not any(_FILE in w for w in words):
            words.append(_FILE)
        super().__init__(words, fail_regex)
        self.command = command

    def failure(self, c: Candidate | str) -> Failure | None:
        return Failure("test", f"`{self.command}` ends with status 0") if self(c) else None

    def __call__(self, c: Candidate | str) -> bool:
        done = self.run(c)
        return done.status == 0 and self.matches(done)

    def why_not(self, c: Candidate | str) -> str:
        done = self.run(c)
        if done.status == 0 and self.matches(done):
            return (
                f"`{self.command}` is interested in the whole program at times only: run it again"
            )
        if done.status == 0:
            return (
                f"`{self.command}` ends with status 0, but its output does not match --fail-regex"
            )
        return (
            f"`{self.command}` ends with status {done.status} on the whole program, and status 0 means "
            "interesting"
        )


def crash_words(crash: Sequence[str] | str) -> list[str]:
    """Return the words of a verb with its options, with the file in them, and the arguments where the verb takes some.

    Args:
      crash: the words, or all of them in one. Without `{}` the file comes first, and without
        `{args}` the arguments last.

    Raises:
      UsageError: there are none, or a quote is not closed.
    """
    try:
        words = shlex.split(crash) if isinstance(crash, str) else [*crash]
    except ValueError as e:
        fail(UsageError, f"--crash {crash!r}: {str(e).lower()}", "option")
    if not words:
        fail(UsageError, f"--crash {crash!r}: no verb", "option", help="--crash compile")
    if not any(_FILE in word for word in words):
        words.insert(1, _FILE)
    if words[0] in ARGS_VERBS and not any(ARGS_MARK in word for word in words):
        words += ["--args", ARGS_MARK]
    return words


class Crash(External):
    """A verb fails on a candidate as it fails on the program: by the same signal, or with the same code and message.

    Plug-ins that are loaded here are loaded there too. The whole program and the result are tested
    in processes of their own, candidates in copies of one that has modules loaded (Note [Forks]).

    Args:
      words: the verb with its options; `{}` stands for the file, `{args}` for that of the
        arguments.
      fail_regex: a pattern that its output has to match, instead of the same message.
    """

    def __init__(self, words: Sequence[str], fail_regex: str | None, needs_values: bool):
        python = [sys.executable, "-m", "jaxprtool"]
        plugins = [word for name in loaded_plugins() for word in ("--plugin", name)]
        self._n_python = len(python)
        super().__init__([*python, *words, *plugins, "--error-format", "json"], fail_regex)
        self.verb, self.needs_values = words[0], needs_values
        self.recorded: tuple[Any, ...] | None = None
        self._forks: list[Forks] = []  # all servers, and those that run no command
        self._idle: list[Forks] = []
        self._forking = False

    def failure(self, c: Candidate | str) -> Failure | None:
        found = self._failed(c)
        if found is None:
            return None
        self.recorded, message = found
        status, code, _ = self.recorded
        if code == "usage":  # wrong usage fails for every candidate
            help = "the verb and its options are one word: --crash 'vmap --in-axes 0'"
            fail(UsageError, f"--crash {self.verb}: {message}", "usage", help=help)
        self._forking = can_fork()
        how = f"ends by signal {-status}" if status < 0 else f"ends with status {status}"
        return Failure(code, f"{self.verb} {how}" + (f": {message}" if message else ""))

    def __call__(self, c: Candidate | str) -> bool:
        found = self._failed(c)
        return found is not None and found[0] == self.recorded

    def confirmed(self, c: Candidate) -> bool:
        forking, self._forking = self._forking, False
        try:
            return self(c)
        finally:
            self._forking = forking

    def stop(self) -> None:
        super().stop()
        for forks in [*self._forks]:
            forks.close()

    def close(self) -> None:
        super().close()
        for forks in [*self._forks]:
            forks.ended()

    def _ended(self, words: Sequence[str], limit: float | None, folder: str) -> Done:
        """Do as `External._ended`, in a copy of a process that has modules loaded."""
        if not self._forking:
            return super()._ended(words, limit, folder)
        output = f"{folder}.output"
        forks = self._server()
        try:
            status = forks.run(words[self._n_python :], folder, output, limit)
            with open(output, encoding="utf-8", errors="replace") as f:
                done = Done(status, f.read())
        except (OSError, ServerEnded):
            forks.ended()
            return Done(None, "") if self._closed else super()._ended(words, limit, folder)
        if status is None:
            forks.ended()
        else:
            self._idle.append(forks)
        return done

    def _server(self) -> Forks:
        """Return a server that runs no command."""
        try:
            return self._idle.pop()
        except IndexError:
            forks = Forks()
            self._forks.append(forks)
            return forks

    def _failed(self, c: Candidate | str) -> tuple[tuple[int, str, str], str] | None:
        """Return status, code and normalised message, and the message; None where the verb
        succeeds, or takes too long.
        """
        done = self.run(c)
        if not done.status or not self.matches(done):
            return None
        if done.status < 0:
            return (done.status, "signal", ""), ""
        code, message = _first_error(done.output)
        if done.status != _FAULT and not code:
            return None
        kept = (
            ""
            if self.regex is not None
            else normalised(message, () if isinstance(c, str) else names_in(c.jaxpr))
        )
        return (done.status, code, kept), message

    def why_not(self, c: Candidate | str) -> str:
        del c
        return f"{self.verb} does not fail on the program"


def _first_error(output: str) -> tuple[str, str]:
    """Return code and message of the first error among lines of JSON; empty where there is none."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("severity") == "error":  # type: ignore[reportUnknownMemberType]
                return str(found.get("code", "")), str(found.get("message", ""))  # type: ignore[reportUnknownMemberType]
    return "", ""
