"""hash: a hash of what a program computes."""

from __future__ import annotations

from jaxprtool.analyses.identity.hashing import program_hash
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["hash_program"]


def hash_program(program: ClosedJaxpr) -> str:
    """Return the hash of a program, values of its constants included: 64 hexadecimal digits.

    Equal for programs that differ only in names, origins, comments, layout and dialect; see
    `analyses.identity.hashing`.

    Raises:
      UsageError: a file with constants cannot be read.
    """
    return program_hash(load_constants(program))
