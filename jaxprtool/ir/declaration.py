"""The declaration of a param of a primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from jaxprtool.ir.kinds import Kind

__all__ = ["REQUIRED", "Hidden", "Param", "Recover"]


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


# (value as it was read, types of the results) -> the value of the param.
Recover = Callable[[Any, Sequence[Any]], Any]
# When the printer leaves a param out: never; where it equals its default; also where all its entries are None or False;
# always in JAX's form, and in the lossless one where it equals its default; always, as the results' types imply it.
Hidden = Literal["never", "default", "blank", "always", "implied"]


class Param(NamedTuple):
    """The declaration of one param of a primitive.

    Attributes:
      name: its name.
      kind: the values that it takes.
      default: the value when it is not given, or `REQUIRED`.
      hidden: when the printer leaves it out (see `Hidden`).
      doc: the line about it in the stub's docstring.
      optional: whether an equation may lack it, as in some texts; rules then take the default.
      first: whether it is printed before the other params, which are sorted by name.
      recover: (value, types of the results) -> the value, for a param that the text may lack or
        spell in another way. For a missing param, `value` is the default or `REQUIRED`.
      names_jaxprs: for a param `name`: whether the printer names the definitions of the equation's
        jaxprs after its value.
      met_first: whether the printer visits its jaxprs before those of the other params when it puts
        definitions in order.
      acts_along: whether it holds the named axes that the operation acts along.
      named_by_call: whether the variables of its jaxpr take the names of the equation's operands
        and results.
    """

    name: str
    kind: Kind
    default: Any
    hidden: Hidden = "default"
    doc: str = ""
    optional: bool = False
    first: bool = False
    recover: Recover | None = None
    names_jaxprs: bool = True
    met_first: bool = False
    acts_along: bool = False
    named_by_call: bool = False
