"""jaxprtool fuzz."""

from __future__ import annotations

from typing import Any

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.options.fuzz import fuzz_options
from jaxprtool.cli.session import Session
from jaxprtool.driver import fuzz as driver
from jaxprtool.driver.fuzzing.generate import Recipe, generated, names_of, write_many
from jaxprtool.driver.progress import rung
from jaxprtool.driver.reducing.small import small_text


@options.verb("fuzz", reads=False)
@fuzz_options
@options.json_option
def fuzz(
    session: Session,
    seed: int,
    recipe: dict[str, Any],
    count: int | None,
    columns: str | None,
    checking: dict[str, Any],
    output: str | None,
    as_json: bool,
) -> None:
    """Draw random well-typed programs with arguments, and look for implementations that disagree on them.

    The program of a seed is always the same one, byte for byte; COUNT programs are those of SEED, SEED + 1 and so on.
    With -o each is written to DIR/fuzz-SEED.jaxpr, and its arguments to DIR/fuzz-SEED.args.npz, as `run --args` takes them.
    Without it they are printed, one after another as a file of several.

    --check runs each through columns, which have to agree up to what rounding explains: `numpy` (NumPy, twice), `xla` and
    `jax` (NumPy against our lowering compiled by XLA, and against live JAX), `jvp` and `vjp` (ours against JAX's),
    `vmap` (against a loop). A program that makes a column fail is reduced and kept in DIR, as fuzz-SEED-COLUMN.jaxpr with
    its arguments, and the program that was drawn beside it. A verb that ends without a message is a `crash`.
    Equations that a column refuses (those without a derivative, say) are left out of what it compares, and their results
    become arguments; the last line says which share of all equations each column compared.

    Exit status: 0 nothing differs, 1 something does.

    \b
    In JSON, of --check {"schema", "found", "programs", "compared": {column: n},
      "refused": {column: n}, "drawn": equations,
      "equations": {column: n}, "alike", "seconds",
      "findings": [{"seed", "column", "kind": "differs" or "crash",
        "message", "primitives", "file", "args",
        "original", "original_args"}]};
    else {"schema", "programs": [{"seed", "file", "args", "eqns"}]}.

    \b
    Example:
      jaxprtool fuzz --seed 7
      jaxprtool fuzz --size 20 --primitives add,mul,sin -n 100 -o programs
      jaxprtool fuzz --check numpy,xla,jax,jvp,vjp,vmap --seconds 60
    """
    kind = Recipe(recipe["size"], names_of(recipe["primitives"] or ""))
    if columns is not None:
        fuzzer = driver.fuzzer(columns, kind, output, show=rung, **checking)
        found = driver.fuzz(fuzzer, seed, count, checking["seconds"])
        session.exit_code = int(bool(found.findings))
        session.answer(found, as_json=as_json)
        return
    driver.refuse_without_check(**checking, as_json=as_json and output is None)
    many = [generated(seed + i, kind) for i in range(count or 1)]
    if output is not None:
        session.answer(write_many(many, output), as_json=as_json)
    elif len(many) == 1:
        session.write_text(small_text(many[0].program, many[0].args), "-")
    else:
        session.write("fuzz", {g.name.replace("-", "_"): g.program for g in many}, "-")
