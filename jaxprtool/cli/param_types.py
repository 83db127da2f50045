"""Values of options: positions and axes of arguments, sizes."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import click

__all__ = ["Axes", "Positions", "Size"]


_RANGE = re.compile(r"(\d+)-(\d+)")
_NAME = re.compile(r"[A-Za-z_][^,=\s]*")
_MOST = 100_000  # arguments that a range may mean


class Positions(click.ParamType):
    """Arguments: positions, ranges of them and names: `0`, `0,2`, `0-3`, `w1,b1`."""

    name = "positions"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, tuple):
            return value
        words: list[int | str] = []
        for part in filter(None, map(str.strip, value.split(","))):
            found = _RANGE.fullmatch(part)
            if found and int(found[1]) <= int(found[2]) < _MOST:
                words += range(int(found[1]), int(found[2]) + 1)
            elif _NAME.fullmatch(part):
                words.append(part)
            else:
                try:
                    words.append(int(part))
                except ValueError:
                    self.fail(
                        f"{value!r} is not a list of arguments such as 0,2 or 0-3 or w1,b1",
                        param,
                        ctx,
                    )
        return tuple(words)


class Axes(click.ParamType):
    """Axes: `0`, `0,-,1`; `-` stands for not mapped. Or by name, a dict: `b=0,w=-`, `{"b": 0}`."""

    name = "axes"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, (tuple, dict)):
            return value
        text = value.strip()
        if text.startswith("{") and text.endswith("}"):
            text = text[1:-1]
        parts = [_NAMED_AXIS.fullmatch(part.strip()) for part in text.split(",")]
        if not all(parts):
            self._refuse(value, param, ctx)
        pairs = [(m["name"] or "", self._axis(m["axis"])) for m in parts if m is not None]
        if not any(name for name, _ in pairs):
            return tuple(axis for _, axis in pairs)
        if not all(name for name, _ in pairs) or len(dict(pairs)) < len(pairs):
            self._refuse(value, param, ctx)
        return dict(pairs)

    def _axis(self, text: str) -> int | None:
        return None if text in ("-", "None", "none") else int(text)

    def _refuse(self, value: str, param: Any, ctx: Any) -> NoReturn:
        self.fail(
            f"{value!r} is not a list of axes such as 0,- or b=0,w=- (- is not mapped)", param, ctx
        )


_NAMED_AXIS = re.compile(
    r"(?:(?P<quote>[\"']?)(?P<name>[A-Za-z_][^,=:\s\"']*)(?P=quote)\s*[=:]\s*)?(?P<axis>-|None|none|[+-]?\d+)"
)


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
