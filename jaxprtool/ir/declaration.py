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
      kind: what values it takes.
      default: the value when it is not given, or `REQUIRED`.
      hidden: when the printer leaves it out.
      doc: the line that the stub's docstring has on it.
      optional: whether an equation may be without it, as some texts are; rules then take the default.
      first: whether it is printed before the others, which are sorted.
      recover: (value, types of the results) -> the value, where the text may lack it (the value is then the default, or
        `REQUIRED`) or spell it in another way.
      names_jaxprs: of a param `name`, whether definitions of the equation's jaxprs are called so.
      met_first: whether its jaxprs are met before those of the other params where definitions are put in order.
      acts_along: whether it holds the named axes that the operation acts along.
      named_by_call: whether the variables of its jaxpr take the names of the equation's operands and results.
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
