"""What `run` evaluates: a program, or an artifact of `compile -o`, which only `run` takes.

It is a module of its own because the artifact's modules take long to import.
"""

from __future__ import annotations

from jaxprtool.cli.session import Session
from jaxprtool.driver.compile import Compiled, from_bytes
from jaxprtool.driver.storage.artifact import is_artifact
from jaxprtool.driver.storage.files import decode, split_selector, the_one
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["runnable"]


def runnable(session: Session, path: str, devices: int | None = None) -> ClosedJaxpr | Compiled:
    """Return the program of a file or function, or the compiled program of an artifact.

    `devices` is the number of devices on which the artifact is loaded.
    """
    if is_function(path):
        return session.traced(path)
    file, selector = split_selector(path)
    data, name = session.open(file)
    if is_artifact(data):
        return from_bytes(data, name, devices)
    return the_one(session.load(*session.keep(decode(data, name), name), selector), name)
