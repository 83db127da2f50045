"""Write a candidate as files: its text, and the values of its arguments by name beside it."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.driver.storage.output import program_text, write_programs
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.syntax.parse import parse

__all__ = ["ARGS_MARK", "args_path", "as_read", "small_text", "write_small"]

ARGS_MARK = "{args}"  # in a command, the file of the arguments


def args_path(path: str) -> str:
    """Return the file of the arguments of a program in a file: `SMALL.args.npz` for `SMALL`."""
    return f"{path}.args.npz"


def as_read(c: Candidate) -> ClosedJaxpr:
    """Return the program of a candidate as read back from its text, so that each argument has a name of its own."""
    return parse(program_text({"": c.program}))


def small_text(program: ClosedJaxpr, args: Sequence[Value] | None) -> str:
    """Return the text of a program, below a comment with the values of its arguments for `--args`
    (except long ones).
    """
    text = program_text({"": program})
    if not args:
        return text
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    words = [
        f"{v.name}={text if len(text) <= _LONGEST else '...'}"
        for v, x in zip(program.jaxpr.in_binders, args, strict=True)
        for text in [arrays.word_of(x)]
    ]
    return f"# --args {' '.join(words)}\n{text}"


_LONGEST = 200  # characters of a value in a comment


def write_small(c: Candidate, path: str, comments: str = "") -> str:
    """Write a candidate to a file, and the values of its arguments beside it; return the name of the latter."""
    beside = args_path(path)
    if c.args is not None:
        from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

        names = [v.name or "" for v in as_read(c).jaxpr.in_binders]
        write_output(beside, arrays.pack(c.args, beside, names))
    write_programs({"": c.program}, path, comments=comments)
    return beside
