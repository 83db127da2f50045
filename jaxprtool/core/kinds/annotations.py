"""The kind that an annotation of a stub stands for."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from typing import Any

from jaxprtool.core.kinds.containers import NOTHING, Anything, either, tuple_of, tuple_of_length
from jaxprtool.core.kinds.functions import JAXPR, NAME
from jaxprtool.core.kinds.numbers import BOOLEAN, ELEMENT_TYPE, INTEGER, NUMBER
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.kinds import Kind

__all__ = ["kind_of"]

_UNIONS = (typing.Union, types.UnionType)
_BUILTIN = {t.__name__: t for t in (bool, int, float, str)}
_PLAIN: dict[Any, Kind] = {
    bool: BOOLEAN,
    int: INTEGER,
    float: NUMBER,
    str: NAME,
    DType: ELEMENT_TYPE,
    ClosedJaxpr: JAXPR,
    None: NOTHING,
    type(None): NOTHING,
}


def kind_of(annotation: Any, names: dict[str, Any]) -> Kind:
    """Return the kind that an annotation stands for; an annotation that says nothing of values allows every value.

    Args:
      annotation: an object, or its source in a module that postpones annotations.
      names: the global names of that module.
    """
    if not isinstance(annotation, str):
        return _kind_or_anything(annotation)
    known = names.get(annotation, _BUILTIN.get(annotation))
    # Python code of the module that declares the stub, which runs anyway: never text of a program. The stubs in `ops` do
    # not postpone their annotations, so only those of users' modules come here.
    try:
        return _kind_or_anything(eval(annotation, names) if known is None else known)
    except NameError:  # a name that the module imports for type checkers alone
        return Anything(annotation)


def _kind_or_anything(annotation: Any) -> Kind:
    try:
        return _kind(annotation)
    except TypeError:  # an object without a hash
        return Anything(inspect.formatannotation(annotation))


@functools.cache
def _kind(annotation: Any) -> Kind:
    if isinstance(annotation, Kind):
        return annotation
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    for marked in getattr(annotation, "__metadata__", ()):
        if isinstance(marked, Kind):
            return marked
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(args[0])
    if origin in _UNIONS:
        return either(*map(_kind, args))
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return tuple_of(_kind(args[0]))
    if origin is tuple and args and len(set(args)) == 1:
        return tuple_of_length(_kind(args[0]), len(args))
    return Anything(inspect.formatannotation(annotation).replace("typing.", ""))
