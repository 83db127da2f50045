"""The commands that a bundle may contain: built-in verbs with options that do not run, import or
read anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["ARGS_VERBS", "OUT", "PAIR_VERBS", "checked_command", "command_words", "measures"]

OUT = "{out}"  # in a command, a file in the temporary folder

# Verbs that evaluate a program take the arguments of the bundle; those of two programs are given it twice.
ARGS_VERBS = (
    "blame",
    "run",
    "equiv",
    "gradcheck",
    "precision",
    "compare",
    "reduce",
    "bench",
    "profile",
)
_MEASURING_VERBS = ("bench", "profile")
_MEASURING_OPTIONS = {"opt": "--time"}
PAIR_VERBS = ("diff", "equiv", "triage")
_PLAIN_VERBS = (
    *("check", "fmt", "upgrade", "jvp", "vmap", "partial-eval", "linearize", "transpose"),
    *("vjp", "grad", "discharge", "lower", "compile", "diff", "opt", "hash", "stats", "cost"),
    *("residuals", "assert", "grep", "triage", "lint"),
)
# Options that choose what is computed and how it is shown. What is not here is refused: commands, plug-ins, modules, other
# files, the network.
_ALLOWED = """
--above --allow-unknown --annotate --arbiter --atol --axis-size --backend --backends --bandwidth --best --budget --by --carry --chart
--check --check-error --check-nans --color --count --denormal --device --devices --dialect --differs --digest --domain
--eps --error-format --every --expression --fail-regex --fast-math --first --from-dialect --ignore --in-axes --inf --jit --json --known --linear
--list --max-bytes --max-const --mode --modes --names --nan --no-value --order --out-axes --passes --peak-flops
--policy --print --print-after-all --prove --quiet --reorder --report --residuals --rtol --samples --sarif --scrub
--seconds --seed --select --shadow --side-by-side --sizes --slow --sort --stage --stat --step-limit --style --through --time
--tolerance --top --trees --tries --trips --ulp --unified --until-fixed
--value --verify --verify-each --wrt
"""
_OPTIONS = frozenset(_ALLOWED.split())
_OUTPUTS = ("--output", "--save-values", "--keep-good")  # their value has to be OUT


def measures(verb: str, options: Sequence[Sequence[str]]) -> bool:
    """Whether a command prints how long something took, which differs from run to run."""
    option = _MEASURING_OPTIONS.get(verb)
    return verb in _MEASURING_VERBS or any(words[:1] == [option] for words in map(list, options))


def checked_command(verb: str, options: Sequence[Sequence[str]], name: str) -> None:
    """Raise UsageError for a command that a bundle may not contain.

    Args:
      verb: the verb.
      options: the words of each option, the value after `=` in the first or in the words after it.
      name: the name of the bundle.
    """

    def refuse(why: str) -> NoReturn:
        help = "a bundle runs built-in verbs on its own program and arguments, and nothing else"
        fail(UsageError, f"{name}: {why}", "bundle-command", help=help)

    if verb not in (*ARGS_VERBS, *_PLAIN_VERBS):
        refuse(f"a bundle cannot run {verb!r}")
    for words in options:
        if len(words) not in (1, 2) or not words[0].startswith("--"):
            refuse(f"{' '.join(words)!r} is no option")
        option, value = words[0], words[1] if len(words) > 1 else ""
        if option in _OUTPUTS:
            if value.partition(".")[0] != OUT or "/" in value or ".." in value:
                refuse(f"{option} writes to {value or 'a file'}, which has to be {OUT}")
        elif option not in _OPTIONS:
            refuse(f"{option} is not allowed in a bundle")


def command_words(
    verb: str, options: Sequence[Sequence[str]], file: str, args: str | None
) -> list[str]:
    """Return the words of a command line.

    Args:
      verb, options: a command that `checked_command` accepts.
      file: the file of the program.
      args: the file of the arguments; None where there are none.
    """
    words = [verb, file, *([file] if verb in PAIR_VERBS else [])]
    for option in options:
        words.append("=".join(option).replace(OUT, "out"))
    if args is not None and verb in ARGS_VERBS:
        words += ["--args", args]
    return words
