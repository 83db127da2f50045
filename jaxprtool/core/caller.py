"""The line of Python that applies an operation, recorded while this package traces a program."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType

from jaxprtool.core.bind import NO_EQN, state
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.origin import Frame, Origin

__all__ = ["CALLER", "caller_origin", "recording_callers"]

# As the origin of the current equation it stands for the line of Python that applies the operation.
CALLER = Origin()
_CALLED: JaxprEqn = NO_EQN.with_origin(CALLER)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OTHERS = (os.sep + "numpy" + os.sep, "<frozen ")
_known: dict[tuple[CodeType, int], Origin] = {}


@contextmanager
def recording_callers() -> Generator[None]:
    """Inside the block, staged equations record the line of Python that applies them as their origin.

    This origin is not printed.
    """
    outer, state.eqn = state.eqn, _CALLED
    try:
        yield
    finally:
        state.eqn = outer


def caller_origin() -> Origin | None:
    """Return the innermost running line of Python outside of this package and of NumPy."""
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if not file.startswith(_PACKAGE) and not any(o in file for o in _OTHERS):
            key = code, frame.f_lasti
            found = _known.get(key)
            if found is None:
                found = _known[key] = Origin(_frame(code, frame.f_lasti, frame.f_lineno), ())
            return found
        frame = frame.f_back
    return None


def _frame(code: CodeType, lasti: int, line: int) -> Frame:
    place = next(itertools.islice(code.co_positions(), lasti // 2, None), (line, None, None, None))
    return Frame(code.co_filename, place[0] or line, place[2], code.co_qualname)
