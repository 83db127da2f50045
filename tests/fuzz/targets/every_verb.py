"""Every verb, on the text of a program, answers or says at a place of the text why it does not: also of one that `check` refuses.

The programs have what few programs have as well: references, tokens, keys and sizes that are no numbers as arguments.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jaxprtool as jt
from jaxprtool.core.primitive import primitive_of
from jaxprtool.driver.words.values import open_binders
from jaxprtool.generation.changes import copied, draw_program
from jaxprtool.generation.wrapping import WRAPS, wrapped
from jaxprtool.ir.avals import AbstractToken, RefType, ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Var
from jaxprtool.ops.state import get
from jaxprtool.passes.registry import all_passes
from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.checked_programs import is_small
from tests.fuzz.targets.mutated_text import mutate, texts
from tests.invoke import VERBS, command, invoke

FILE, MADE = "program.jaxpr", "made.jaxpr"
NO_PROGRAM = frozenset(("explain", "fuzz", "git-setup", "retraces", "snapshot", "trace"))
LIMITS = {"--max-bytes": "4M", "--step-limit": "500"}
AFTER: dict[str, list[str]] = {  # what a verb needs, or what lets it end soon
    **{verb: [FILE] for verb in ("compare", "diff", "equiv", "triage")},
    "assert": [
        "peak<=1TiB",
        "all add where out.dtype == f32",
        "_ feeds mul",
        "residuals(dots).bytes < 1KB",
        "count(mul) < 3",
        "flops <= 1e9",
    ],
    "bench": ["--seconds", "0"],
    "partial-eval": ["--known", "0"],
    "profile": ["--seconds", "0"],
    "reduce": ["--nan", "--time", "2s"],
    "repro": ["--", "check"],
}
OFTEN: dict[str, list[list[str]]] = {  # options which change what a verb does, some of the time
    "assert": [["--stage", "lowered"], ["--stage", "compiled"], ["--trips", "2"], ["--json"]],
    "blame": [["--jit"], ["--denormal"], ["--above", "1"]],
    "compare": [["--first"], ["--backends", "numpy,xla"], ["--shadow", "f64"]],
    "cost": [["--reorder"], ["--chart"], ["--by", "scope"]],
    "diff": [["--side-by-side"], ["--json"], ["--ignore", "order"]],
    "equiv": [["--prove"]],
    "fmt": [["--style", "autodidax"], ["--style", "jax"], ["--dialect", "jax-0.8"], ["--dialect", "jax-0.12"]],
    "gradcheck": [["--order", "2"], ["--modes", "fwd"]],
    "opt": [["--passes", p.name] for p in all_passes()],
    "residuals": [["--policy", "nothing"], ["--best", "1K"], ["--vs", "dots"]],
    "run": [["--jit"], ["--digest"], ["--check-nans"], ["--through", "jax"]],
    "stats": [["--by", "dtype"], ["--json"]],
    "vmap": [["--axis-size", "2"], ["--in-axes", "-1"]],
}  # fmt: skip
ENDLESS = re.compile(
    r"\b(while|custom_root|CustomRoot)\["
)  # what may never end where nothing counts its steps
RUN = frozenset(
    ("bench", "blame", "compare", "equiv", "gradcheck", "precision", "profile", "reduce", "run")
)
PARTS = ("", "#primal", "#linear", "#known", "#unknown")  # of what a verb writes


class Case(NamedTuple):
    text: str
    seed: int


def draw(rng: random.Random) -> Case:
    """A text, and what chooses the verbs: one of the project with a change or none, or that of a drawn program."""
    if rng.random() < 0.4:
        text = choose(rng, texts())
        return Case(rng.choice((text, mutate(text, rng, text))), rng.randrange(1 << 30))
    text = _drawn(rng)
    return Case(_symbolic(rng, text) if rng.random() < 0.15 else text, rng.randrange(1 << 30))


def _drawn(rng: random.Random) -> str:
    """The text of a drawn program, with the arguments that it has or with others."""
    change = rng.choice((None, None, _references, _tokens, _without_values))
    for _ in range(20):
        program = draw_program(rng)
        if rng.random() < 0.3:
            program = wrapped(rng, program)
        with contextlib.suppress(JaxprToolError):
            program = change(rng, program) if change else program
            if _accepted(program):
                break
    return _text(program)


def _accepted(program: ClosedJaxpr) -> bool:
    try:
        jt.typecheck_jaxpr(program)
    except Exception:  # whose fault it is, another target says
        return False
    return all(
        is_small(v.aval) or not isinstance(v.aval, ShapedArray) for v in open_binders(program)
    )


def _references(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    """Some of the arguments come by reference, and are read at the start."""
    jaxpr, op = copied(program.jaxpr), primitive_of(get)
    ins, reads = [], []
    for v in jaxpr.in_binders:
        if rng.random() < 0.5 and isinstance(v.aval, ShapedArray):
            ins.append(Var(RefType(v.aval)))
            reads.append(JaxprEqn(op, [ins[-1]], dict(op.defaults), [v]))
        else:
            ins.append(v)
    return ClosedJaxpr(jaxpr.replace(in_binders=ins, eqns=[*reads, *jaxpr.eqns]), program.consts)


def _tokens(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    """One more argument, a token, that is a result as well."""
    jaxpr, token = program.jaxpr, Var(AbstractToken())
    ins, outs = [*jaxpr.in_binders], [*jaxpr.outs]
    ins.insert(rng.randint(0, len(ins)), token)
    outs.insert(rng.randint(0, len(outs)), token)
    return ClosedJaxpr(jaxpr.replace(in_binders=ins, outs=outs), program.consts)


def _without_values(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    """Some of the arguments are constants without a value, of the program or of a jaxpr in it."""
    jaxpr = program.jaxpr
    given = {v: rng.random() < 0.5 for v in jaxpr.in_binders}
    ins = [v for v in jaxpr.in_binders if given[v]]
    consts = [*jaxpr.const_binders, *(v for v in jaxpr.in_binders if not given[v])]
    values = [*program.consts, *[None] * (len(consts) - len(program.consts))]
    changed = ClosedJaxpr(jaxpr.replace(in_binders=ins, const_binders=consts), values)
    return rng.choice([*WRAPS.values()])(rng, changed) if rng.random() < 0.7 else changed


def _symbolic(rng: random.Random, text: str) -> str:
    """One size of the types is called `n`."""
    size = re.compile(rf"\b{rng.choice('1234')}\b")
    return re.sub(r"(?<=[a-z0-9>])\[[0-9,]+\]", lambda m: size.sub("n", m[0]), text)


def _text(program: ClosedJaxpr) -> str:
    try:
        return jt.format_jaxpr(program, lossless=True)
    except Exception:  # as above
        return "{ lambda ; . let in () }"


def _words(rng: random.Random, verb: str, file: str) -> list[str]:
    """A command with the file, most often as one writes it who wants an answer."""
    takes = {o for p in command(verb).params for o in p.opts}
    endless = verb in RUN and ENDLESS.search(Path(file.partition("#")[0]).read_text())
    if endless and "--step-limit" not in takes:
        verb, takes = "check", set()
    words = [verb]
    for option, value in LIMITS.items():
        words += [option, value] * (option in takes)
    if verb in OFTEN and not endless and rng.random() < 0.6:
        words += rng.choice(OFTEN[verb])
    if "--wrt" in takes and rng.random() < 0.5:
        words += ["--wrt", rng.choice(("0", "1", "0,1", "0-1"))]
    if verb in ("repro", "grep"):
        return [*words, *(["_", file] if verb == "grep" else [file, *AFTER[verb]])]
    words += [file, *(file if w == FILE else w for w in AFTER.get(verb, []))]
    if "--args" in takes and verb != "linearize":
        words += ["--args", rng.choice(("ones", "random:0", "random:0", "zeros", "ramp"))]
    return words


def check(case: Case) -> None:
    rng = random.Random(case.seed)
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(FILE).write_text(case.text)
        accepted = invoke(["check", FILE]).status == 0
        verbs = sorted(VERBS.keys() - NO_PROGRAM)
        for verb in rng.sample(verbs, 4):
            _tried(_words(rng, verb, FILE))
        if accepted:
            _chained(rng)


def _chained(rng: random.Random) -> None:
    """What a verb writes, another one takes."""
    writes = [v for v in WRITE if v in VERBS]
    words = _words(rng, rng.choice(writes), FILE)
    done = _tried(words)
    if done.status or not done.output:
        return
    Path(MADE).write_text(done.output)
    readers = sorted(VERBS.keys() - NO_PROGRAM - {"fmt"})
    for part in PARTS:
        if not part or f"\n{part[1:]} = " in f"\n{done.output}":
            _tried(_words(rng, rng.choice(readers), MADE + part), of=" ".join(words))


WRITE = (
    "discharge",
    "fmt",
    "grad",
    "jvp",
    "linearize",
    "opt",
    "partial-eval",
    "transpose",
    "upgrade",
    "vjp",
    "vmap",
)


def _tried(words: list[str], of: str = "") -> Any:
    """The command: a status of the table, something said where it is an error, and nothing written that is not asked for."""
    before = {*os.listdir(".")}
    done = invoke(words)
    asked = f"{' '.join(words)}{' of ' + of if of else ''}"
    if done.status not in (0, 1, 2) or "Traceback" in done.error:
        raise Failure(f"{asked}: status {done.status}: {done.error}")
    if done.status == 2 and ": error: " not in done.error and "rror: " not in done.error:
        raise Failure(f"{asked}: nothing is said")
    if words[0] != "repro" and (more := {*os.listdir(".")} - before):
        raise Failure(f"{asked}: it writes {sorted(more)}")
    return done


def show(case: Case) -> str:
    return case.text


TARGET: Target = Target("every-verb", draw, check, show)
