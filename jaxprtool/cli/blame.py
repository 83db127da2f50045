"""jaxprtool blame."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.session import Session
from jaxprtool.driver import blame as driver
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.interfaces import of_open


@options.verb("blame")
@options.file_argument
@options.args_option
@click.option("--nan", is_flag=True, help="NaN is bad.")
@click.option("--inf", is_flag=True, help="Infinities are bad.")
@click.option("--denormal", is_flag=True, help="Denormal numbers are bad.")
@click.option(
    "--above", type=float, metavar="X", help="Numbers x with |x| > X are bad; no integers are."
)
@click.option("--jit", is_flag=True, help="Where NumPy shows none, look for one in XLA's results.")
@options.json_option
@options.max_bytes_option
@options.step_limit_option
def blame(session: Session, file: str, args: tuple[str, ...], as_json: bool, **how: Any) -> None:
    """Find the equation of FILE that first makes a NaN or an infinity, and what the value reaches.

    FILE runs once, on NumPy, and its effects happen once. Shown are the first equation whose result has a bad value while its
    operands have none (or which takes one from an argument, a constant or a literal, which is named), what its operands
    range over, and where the bad elements are; the equations through which the value goes on; and of each result of FILE
    whether it is reaching (it holds a bad value), deciding (it is good, and a decision that depends on a bad value has computed
    it: a comparison, a branch, the end of a loop, an index), masked (it is good, and depends on one in no other way), or not
    reached. A bad literal that FILE only moves and then drops is no fault, and is listed at the end. In a derivative, the equation
    from which the first one was derived is named, and the `where` whose input needs a guard.

    Of --nan, --inf, --denormal and --above X, those that are given say what is bad; by default NaN and infinities.
    With --jit, where NumPy shows nothing, FILE is compiled with XLA, unless it has effects, and the smallest compiled prefix
    that shows a bad value is looked for. Exit status: 0 there is none, 1 there is one.

    \b
    With --json, one document:
      found         whether there is a bad value
      kind          of the first one: nan, inf, denormal, above, or null
      first         the place of its equation, or null
      from          where it is from: {"kind": argument | constant | literal,
                    "index", "name"}, or null for one that the equation makes
      result        of that equation: {"index", "type", "count", "indices",
                    "values"}: how many elements are bad, and the first ones
      operands      of each: {"type", "min", "max", "nan", "inf", "values"};
                    min and max are of finite values, values those at indices
      chain         places from there to the first result it reaches, if any
      outputs       of each result: {"index", "reached", "chain"}; reached is
                    "reaching", "masked", "deciding" or null
      masked_by     places that drop a bad operand altogether
      deciding      places that decide something by it
      appearances   all places where bad values begin, the first one first:
                    {"place", "kind", "from", "times", "result", "operands"}
      original      what the first is derived from, with "certain", or null
      unguarded     the place of the `where` to guard, or null
      dropped       bad literals that are moved and dropped, likewise
      stopped       why the run did not come to its end, or null
      only_compiled {"kind", "place", "equations", "total", "type"}, or null
      notes         what else there is to say
      schema        1
    A place is {"file", "line", "column", "primitive", "path", "source",
    "names"}: line and column of the innermost equation; path the enclosing
    ones, outermost first: {"line", "primitive", "param", "step", "branch"};
    source its line of Python: {"file", "line", "column", "function"}. In a
    map over a mesh, result has "devices", that of each index: {axis: number};
    a place has "device", where one device alone has run it.

    \b
    Example:
      jaxprtool blame loss.jaxpr --args random:0
      jaxprtool blame --nan grads.jaxpr --args inputs.npz
      jaxprtool blame --above 1e4 --json step.jaxpr --args random:0
      jaxprtool blame --jit train.py:loss --like example_args
    """
    program = session.placed(file)
    limit: int | None = how["max_bytes"]
    words = arguments(open_binders(program), args, interface=of_open(program), max_bytes=limit)
    found = driver.blame(program, words, **how)
    session.answer(found, as_json=as_json)
    session.exit_code = int(found.found)
