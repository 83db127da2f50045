"""The common part of the answers of `reduce`, for a program and for a text that is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.answer import Answer
from jaxprtool.driver.reducing.interest import Failure

__all__ = ["Smaller"]

_ENDS = {"time": "the time is up", "interrupted": "interrupted"}


class Smaller(Answer):
    """A small program or text that fails as a large one does.

    Attributes:
      failure: the failure that was kept.
      before, after: the sizes of the two: named tuples that read as text.
      ladder: the sizes on the way, each with what was removed.
      tests: the number of candidates that were tested.
      seconds: the time it took.
      ended: "done", "time" where the time was up, "interrupted".
    """

    failure: Failure
    before: Any
    after: Any
    ladder: Sequence[tuple[str, Any]]
    tests: int
    seconds: float
    ended: str

    def summary(self, written: Sequence[str], smallest: str) -> list[str]:
        """Return lines for people.

        Args:
          written: the files that hold it.
          smallest: the superlative that may not apply, where the search was cut short.
        """
        found = [f"failure: {self.failure}", f"before:  {self.before}", f"after:   {self.after}"]
        if written:
            found.append(f"written: {', '.join(written)}")
        if self.ended != "done":
            found.append(f"ended:   {_ENDS[self.ended]}, so it may not be the {smallest}")
        return found

    def document(self, first: Any, flaky: bool, kept: Sequence[str], *files: Any) -> dict[str, Any]:
        """The JSON document; `files` are the names of the result and of its arguments, None for none."""
        file, args = files
        return {
            "schema": 1,
            "failure": {"code": self.failure.code, "message": self.failure.message},
            "first": first,
            "before": self.before._asdict(),
            "after": self.after._asdict(),
            "ladder": [{"by": by, **size._asdict()} for by, size in self.ladder],
            "tests": self.tests,
            "seconds": round(self.seconds, 3),
            "ended": self.ended,
            "flaky": flaky,
            "kept": [*kept],
            "file": file,
            "args": args,
        }
