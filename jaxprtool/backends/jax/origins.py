"""Convert the origins of JAX's equations to ours."""

from __future__ import annotations

import functools
from typing import Any

from jaxprtool.backends.jax.private import user_frame
from jaxprtool.ir.origin import Frame, Names, Origin, names_of

__all__ = ["origin_of"]


def origin_of(info: Any) -> Origin | None:
    """Return the origin of an equation from its `source_info`, not printed; None where JAX has recorded none.

    The frames of the traceback are read when `Origin.frame` is first read.
    """
    names, traceback = _names(info.name_stack), info.traceback
    if traceback is None and not names:
        return None
    return Origin(None, names, 0, functools.partial(_frame, traceback))


@functools.lru_cache(maxsize=1 << 12)
def _names(stack: Any) -> Names:
    return names_of(str(stack))


def _frame(traceback: Any) -> Frame | None:
    found = user_frame(traceback)
    if found is None:
        return None
    return Frame(found.file_name, found.start_line, found.start_column, found.function_name)
