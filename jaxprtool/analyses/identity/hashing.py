"""Hashes of programs: equal for programs that differ in names and layout alone, in every process and release.

What enters: the operations and their order, params (precision, shardings, donated arguments, ...), types with shardings, weak types of
the arguments, values of literals and constants, and what is in nested jaxprs. What does not: names of variables, arguments and functions, the
trees of arguments, lines of Python and scopes, comments, layout, and the release whose spelling a text has.
"""

from __future__ import annotations

import hashlib
from typing import Any

from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.core.kinds.functions import neutral_names
from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.settled import settled_programs

__all__ = ["program_hash"]

_VERSION = "jaxprtool 1"  # of what enters a hash; it changes when that does


class _Hashes(Signatures):
    """Signatures that are the same in every process: hexadecimal digits instead of numbers."""

    def number(self, key: Value) -> Any:
        return hashlib.sha256(repr((_VERSION, key)).encode("utf-8", "surrogatepass")).hexdigest()

    def shallow(self, eqn: JaxprEqn, *, nested: bool) -> Any:
        neutral = neutral_names(eqn)
        if neutral:
            eqn = eqn.replace(params={**eqn.params, **neutral})
        return super().shallow(eqn, nested=nested)


@deep
def program_hash(program: ClosedJaxpr) -> str:
    """Return the hash of a program: 64 hexadecimal digits, a SHA-256.

    Args:
      program: the program, with the values of its constants; a constant without one counts as
        unknown.
    """
    program = settled_programs(program)
    hashes, jaxpr = _Hashes(), program.jaxpr
    weak = [getattr(v.aval, "weak_type", False) for v in jaxpr.in_binders]
    return str(hashes.number((hashes.of(program), weak)))
