"""jaxprtool reduce."""

from __future__ import annotations

from typing import Any

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.options.reduce import (
    begun,
    or_document,
    reduce_options,
    reduced,
    verb_words,
)
from jaxprtool.cli.session import Session
from jaxprtool.driver import reduce as driver
from jaxprtool.driver.progress import rung
from jaxprtool.driver.reducing.small import small_text
from jaxprtool.driver.reducing.texts import ReducedText


@options.verb("reduce")
@options.file_argument
@options.args_option
@reduce_options
@options.output_option
@options.json_option
@options.max_bytes_option
@options.step_limit_option
def reduce(
    session: Session,
    file: str,
    args: tuple[str, ...],
    crash: str | None,
    test: dict[str, Any],
    output: str,
    as_json: bool,
    max_bytes: int,
    **how: Any,
) -> None:
    """Shrink FILE while it fails in the same way: the smallest program that still shows the fault.

    One option says what has to stay true. WITH --test, EXIT STATUS 0 OF THE COMMAND MEANS "STILL INTERESTING" (as in
    llvm-reduce): a script that looks for a bug ends with 0 where the bug is there. `{}` in the command stands for the
    file of the candidate, `{args}` for its arguments, which are beside it in FILE.args.npz; no shell is in between:
    --test 'sh -c "..."' asks for one.

    Equations, results, arguments and constants are removed; what is cut out is replaced by the value that it had when FILE
    was run. Calls are inlined, branches taken, loops cut to one step or fewer; shapes, values and params become simple.
    The failure stays the one it was: the equation where a NaN begins, the code and the message of an error. A text
    that is no program (names are unbound) gets shorter as a text, by --check-error, --test and --crash.

    -o writes SMALL, and its arguments to SMALL.args.npz: `run SMALL --args SMALL.args.npz` shows the failure. Without
    it the program is printed. Ctrl-C or SIGTERM leaves the smallest program so far in SMALL (none with --scrub).

    Exit status: 0 reduced, 1 FILE does not fail in this way, 2 it cannot be done.

    \b
    In JSON, {"schema", "failure": {"code", "message"}, "first": place or null,
      "before", "after": {"eqns", "elements", "args", "outs"},
      "ladder": [{"by", "eqns", "elements", "args", "outs"}],
      "tests", "seconds", "ended": "done" or "time", "flaky", "kept": [names],
      "file", "args"}; of a text that is no program sizes are {"lines",
      "tokens"}; with status 1 {"schema", "failure": null, "reason"}

    \b
    Example:
      jaxprtool reduce --nan loss.jaxpr --args random:0 -o small.jaxpr
      jaxprtool reduce --test './still_fails.sh {}' -j 4 loss.jaxpr \\
        --args random:0 -o small.jaxpr
      jaxprtool reduce --differs numpy,xla loss.jaxpr --args random:0
      jaxprtool reduce --crash 'grad --wrt 0' loss.jaxpr -o small.jaxpr
      jaxprtool reduce --check-error operand-types broken.jaxpr
    """
    words, needs_values = verb_words(crash, bool(args))
    test |= {"crash": words, "needs_values": needs_values}
    interest = driver.interest_of(**test, max_bytes=max_bytes)
    out = None if output == "-" else output
    settings = driver.How(out, max_bytes=max_bytes, show=rung, **how)
    given = or_document(session, as_json, begun, session, file, interest, settings)
    if isinstance(given, ReducedText):
        found, text = given, given.text
    else:
        found = or_document(session, as_json, reduced, session, given, args, interest, settings)
        text = small_text(found.program, found.args)
    if out is not None or as_json:
        session.answer(found, as_json=as_json)
        return
    session.write_text(text, output)
