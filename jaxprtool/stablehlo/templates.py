"""Templates of StableHLO lines: equations of one operation, params and types write the same lines but for names."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

from jaxprtool.stablehlo.builder import Builder, HloValue, new_value

__all__ = ["OFTEN", "Template"]

OFTEN = 1  # equations to write in full before a template is made

_NAME = re.compile(r"(%\w+(?:#\d+)?)")
_STRING = re.compile(r'"([^"]*)"')


class Template:
    """The lines that an equation wrote, with the names of values left open.

    Attributes:
      text: the lines, as a format for Python's `%`.
      pick: selects the names for `text`, in order, from the names of the operands, then the
        constants, then those that the lines bind.
      constants: the keys of the constants that the lines use besides the operands of the equation.
      bound: the number of names that the lines bind.
      result: the position of the result's name among those that the lines bind.
      aval: the type of the result.
    """

    __slots__ = ("aval", "bound", "constants", "pick", "result", "text")

    def __init__(
        self,
        text: str,
        places: Sequence[int],
        constants: Sequence[Any],
        bound: int,
        result: int,
        aval: Any,
    ):
        self.text, self.pick = text, operator.itemgetter(*places)
        self.constants, self.bound = constants, bound
        self.result, self.aval = result, aval

    @classmethod
    def of(
        cls, builder: Builder, lines: Sequence[Any], first: int, ins: Sequence[HloValue], out: Any
    ) -> Template | bool:
        """Make the template of lines that a builder wrote; False where other equations may write different lines.

        Args:
          lines: the lines.
          first: the number of the first name that the lines bind.
          ins: the operands.
          out: the result.
        """
        names, bound = [x.name for x in ins], builder.counter - first
        own = {f"%{first + i}": i for i in range(bound)}
        known = {name: i for i, name in enumerate(names)}
        if out.name not in own or len(known) < len(names):
            return False
        if not all(type(line) is str for line in lines):
            return False
        whole = "\n".join(lines)
        if '"' in whole and any("%" in s for s in _STRING.findall(whole)):
            return False  # a `%` in a string is not a name
        parts = _NAME.split(whole)
        found = parts[1::2]
        if whole.count("%") > len(found):
            parts = [part.replace("%", "%%") for part in parts]
        constants: list[Any] = []
        if others := [x for x in dict.fromkeys(found) if x not in known and x not in own]:
            keys = {x.name: key for key, x in builder.constants.items()}
            if not keys.keys() >= {*others}:
                return False
            constants = [keys[name] for name in others]
            known |= {name: i for i, name in enumerate(others, len(known))}
        known |= {name: i for i, name in enumerate(own, len(known))}
        parts[1::2] = ["%%%s" if name in own else "%s" for name in found]
        places = [known[name] for name in found]
        return cls("".join(parts), places, constants, bound, own[out.name], out.aval)

    def write(self, builder: Builder, names: tuple[str, ...]) -> HloValue | None:
        """Write the lines for operands of other names.

        Returns None, and writes nothing, where one of the constants has not been written yet.
        """
        for key in self.constants:
            constant = builder.constants.get(key)
            if constant is None:
                return None
            names = (*names, constant.name)
        first, bound = builder.counter, self.bound
        builder.counter = end = first + bound
        made = (*names, first) if bound == 1 else (*names, *range(first, end))
        builder.lines.append(self.text % self.pick(made))
        return new_value((f"%{first + self.result}", self.aval))
