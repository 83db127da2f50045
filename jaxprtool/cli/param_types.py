"""Values of options: positions and axes of arguments, sizes."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Axes", "Positions", "Size"]


class Positions(click.ParamType):
    """Positions of arguments: `0` or `0,2`."""

    name = "positions"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(",") if part.strip())
        except ValueError:
            self.fail(f"{value!r} is not a list of positions such as 0,2", param, ctx)


class Axes(click.ParamType):
    """Axes: `0`, `0,-,1`; `-` stands for not mapped."""

    name = "axes"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in value.split(",")]
        try:
            return tuple(None if p in ("-", "None", "none") else int(p) for p in parts)
        except ValueError:
            self.fail(f"{value!r} is not a list of axes such as 0,- (- is not mapped)", param, ctx)


class Size(click.ParamType):
    """A number of bytes: `1000000`, `512M`, `2G`."""

    name = "bytes"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, int):
            return value
        units = {"K": 10, "M": 20, "G": 30, "T": 40}
        text = value.strip().upper().removesuffix("B").removesuffix("I")
        shift = units.get(text[-1:], 0)
        try:
            return int(float(text[: -1 if shift else None]) * (1 << shift))
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a size such as 512M or 2G", param, ctx)
