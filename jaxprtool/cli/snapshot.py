"""jaxprtool snapshot."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import snapshot as driver
from jaxprtool.ir.diagnostics import Diagnostic


@verb("snapshot")
@click.argument("action", type=click.Choice(["record", "check", "update"]))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--project", default=".", metavar="DIR", help="Folder of the project. Default: this.")
@click.option("-q", "--quiet", is_flag=True, help="Say it by the exit status alone.")
@json_option
def snapshot(
    session: Session,
    action: str,
    names: tuple[str, ...],
    project: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Keep programs of a project as files, and say what has changed since.

    The pyproject.toml in this folder or the nearest one above names them:

    \b
      [tool.jaxprtool.snapshot]
      directory = "jaxprs"
      [tool.jaxprtool.snapshot.programs]
      loss = { function = "train.py:loss", like = "batch", verbs = ["grad"] }
      step = { function = "train.py:step", shapes = ["f32[8]"], passes = "dce" }

    A program may also have static, x64, frontend and rules, as the options below; wrt (of jvp, linearize, vjp, grad), in_axes and
    axis_size (of vmap). Its file is jaxprs/loss.jaxpr, that of what a verb makes of it jaxprs/loss.grad.jaxpr; passes run on
    each. Constants may change within rtol and atol, keys of the first table; by default, as much as rounding explains.

    record writes the programs that have no file yet. check traces all anew and says of each that differs how: printer only
    (names, layout, the release of JAX that printed it), equivalent (the same normal form, see equiv), constants within
    tolerance, or different, with the figures that changed and a diff. update writes what differs, and removes files of
    programs that there are no more. Status: 0 nothing changed but prints; 1 something did, or a file is missing or too many; 2 a
    program could not be made (the others are looked at all the same).

    JSON: {"schema", "clean", "programs": [{"name", "file", "kind", "note", "figures": {figure: {"before", "after"}},
    "lines"}], "failed": [{"name", "error"}], "missing", "extra"}, of update with "removed" in the place of "extra"; figures are
    equations, flops, bytes, peak, residuals, collectives and sent.

    \b
    Example:
      jaxprtool snapshot record
      jaxprtool snapshot check --error-format github
      jaxprtool snapshot update loss
    """
    run = {"record": driver.record, "check": driver.check, "update": driver.update}[action]
    found = run(project, names, verify=session.verify)
    session.exit_code = found.status
    session.tell(*[d for f in found.failures for d in f.diagnostics])
    if session.error_format != "text":
        for row in found.changed:
            message = f"{row.name}: {row.kind}; {row.describe()}".removesuffix("; ")
            session.tell(Diagnostic(message, "snapshot", row.span, where=row.file))
    if not quiet:
        session.answer(found, as_json=as_json)
