"""Types of options' values: positions and axes of arguments, sizes, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jaxprtool.driver.words.positions import parse_positions
from jaxprtool.driver.words.trees import WordTree, parse_value
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.syntax.patterns import pattern

__all__ = ["Axes", "Number", "Positions", "Size"]

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # before click 8.4 it is not generic
    ParamType = click.ParamType


class Positions(ParamType):
    """Arguments: positions, ranges of them and names: `0`, `0,2`, `0-3`, `w1,b1`, `params["w"]`."""

    name = "positions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        found = parse_positions(value)
        if found is None:
            message = f"{value!r} is not a list of arguments such as 0,2 or 0-3 or w1,b1"
            self.fail(message, param, ctx)
        return found


class Axes(ParamType):
    """Axes: `0`, `0,-,1`, where `-` means not mapped; by name, `b=0,w=-`; or as a pytree, `{"p":
    {"w": -}, "x": 0}`.
    """

    name = "axes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        text = value.strip()
        if not text.startswith(("{", "(", "[")):
            text = f"{{{text}}}" if _NAMED.match(text) else f"({text},)"
        try:
            return self._axes(parse_value(text, "axes"))
        except (ValueError, UsageError):
            self.fail(
                f"{value!r} is not a list of axes such as 0,- or b=0,w=- (- is not mapped)",
                param,
                ctx,
            )

    def _axes(self, value: WordTree) -> Any:
        """Return the tree with its words replaced by numbers and None; raise ValueError for other
        words.
        """
        if isinstance(value, dict):
            return {k: self._axes(v) for k, v in value.items()}
        if not isinstance(value, str):
            return tuple(map(self._axes, value))
        return None if value in ("-", "None", "none", "null") else int(value)


_NAMED = pattern(r"[^\W\d][^,]*=|[\"'][^,]*[\"']\s*[=:]|[^\W\d][^,]*:")


class Size(ParamType):
    """A number of bytes: `1000000`, `512M`, `2G`."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int):
            return value
        units = {"K": 10, "M": 20, "G": 30, "T": 40}
        text = value.strip().upper().removesuffix("B").removesuffix("I")
        shift = units.get(text[-1:], 0)
        try:
            found = int(float(text[: -1 if shift else None]) * (1 << shift))
        except (ValueError, OverflowError):
            found = -1
        if found < 0:
            self.fail(f"{value!r} is not a size such as 512M or 2G", param, ctx)
        return found


class Number(click.FloatRange):
    """A number in a range; NaN is in no range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found
