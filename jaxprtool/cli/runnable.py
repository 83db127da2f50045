"""What `run` runs: a program, or a compiled one, which no other verb takes (and which takes long to import)."""

from __future__ import annotations

from jaxprtool.cli.session import Session
from jaxprtool.driver.compile import Compiled, from_bytes
from jaxprtool.driver.storage.artifact import is_artifact
from jaxprtool.driver.storage.files import decode, split_selector, the_one
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["runnable"]


def runnable(session: Session, path: str, devices: int | None = None) -> ClosedJaxpr | Compiled:
    """The one program that is meant, or the compiled program that `compile -o` wrote, on as many devices as are asked for."""
    if is_function(path):
        return session.traced(path)
    file, selector = split_selector(path)
    data, name = session.open(file)
    if is_artifact(data):
        return from_bytes(data, name, devices)
    return the_one(session.load(*session.keep(decode(data, name), name), selector), name)
