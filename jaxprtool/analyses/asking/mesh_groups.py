"""Read groups of devices from the text of lowered programs, and find the axes of a mesh that they are along."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

from jaxprtool.syntax.patterns import pattern

__all__ = ["Groups", "axes_of_groups", "axes_of_pairs", "read_groups", "read_meshes"]

Groups = list[list[int]]
Mesh = Mapping[str, int]

_MOST = 1 << 20  # devices, at most
_IOTA = pattern(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LIST = pattern(r"[\[{]([\d,\s]*)[\]}]")
_DENSE = pattern(r"dense<(.*?)>(?:\s*:\s*tensor<([\dx]*)x?i\d+>)?", re.DOTALL)
_NAMED = pattern(r"mesh\[([^\]]*)\]([^{]*)\{([^}]*)\}")
_SIZE = pattern(r"'([^']*)'=(\d+)")
_PART = pattern(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_DEVICES = pattern(r"device_ids=\(([^()]*(?:\([^()]*\))?[^()]*)\)")
_MESH = pattern(r"sdy\.mesh @[\w.\"]+ = <\[(.*?)\]")
_AXIS = pattern(r'"([^"]+)"=(\d+)')


def read_groups(text: str) -> Groups | None:
    """Return the groups in a text; None for any other text.

    They are spelled `{{0,1},{2,3}}`, `[2,2]<=[4]T(0)`, `mesh['x'=2,'y'=4] {'y'}` (where `'y':(2)2`
    is a part of an axis), or `dense<[[0, 1]]> : tensor<1x2xi64>`. No groups, `{}`, are one group of
    all devices: an empty list.
    """
    named = _NAMED.match(text)
    if named is not None:
        return _of_mesh(*named.groups())
    iota = _IOTA.search(text)
    if iota is not None:
        return _iota(*[[int(n) for n in (part or "").split(",") if n] for part in iota.groups()])
    dense = _DENSE.search(text)
    if dense is not None:
        return _of_dense(dense[1], dense[2] or "")
    if not text.strip().startswith(("{", "[")):
        return None
    return [_numbers(m) for m in _LIST.findall(text) if m.strip()]


def _of_mesh(sizes: str, order: str, parts: str) -> Groups | None:
    """Return the groups of devices along axes, or parts of axes, of a mesh."""
    whole = {name: int(n) for name, n in _SIZE.findall(sizes)}
    mesh: dict[str, int] = {}
    split = {name: (int(before), int(n)) for name, before, n in _PART.findall(parts) if before}
    for name, n in whole.items():
        before, size = split.get(name, (1, n))
        if before * size == 0 or n % (before * size):
            return None
        mesh |= {f"{name} before": before, name: size, f"{name} behind": n // (before * size)}
    total = math.prod(whole.values())
    chosen = [name for name, *_ in _PART.findall(parts)]
    if not 0 < total <= _MOST or not all(name in whole for name in chosen):
        return None
    devices = _devices(order, total)
    if devices is None:
        return None
    return [[devices[d] for d in sorted(group)] for group in _groups_along(mesh, chosen)]


def _devices(text: str, n: int) -> Sequence[int] | None:
    """Return the devices of a mesh in its order; None where the text is not understood."""
    given = _DEVICES.search(text)
    if given is None:
        return range(n)
    iota = _IOTA.search(given[1]) or _IOTA.fullmatch(f"[{n}]<={given[1].strip()}")
    if iota is not None:
        groups = _iota(*[[int(x) for x in (part or "").split(",") if x] for part in iota.groups()])
        found = None if groups is None else [d for group in groups for d in group]
    else:
        found = [int(x) for x in re.findall(r"\d+", given[1])]
    return found if found is not None and sorted(found) == [*range(n)] else None


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.replace(",", " ").split()]


def _of_dense(text: str, shape: str) -> Groups | None:
    """Return the rows of a dense array; a single number fills the shape."""
    if text.strip().isdecimal():
        dims = [int(n) for n in shape.split("x") if n]
        rows, width = [*dims, 1, 1][:2]
        return [[int(text)] * width] * rows if rows * width <= _MOST else None
    if not text.strip().startswith("["):
        return None
    return [_numbers(m) for m in _LIST.findall(text) if m.strip()]


def _iota(shape: Sequence[int], dims: Sequence[int], order: Sequence[int]) -> Groups | None:
    """Return the numbers from 0 on in an array of shape `dims`, with its axes permuted by `order`, as an array of shape `shape`."""
    n = math.prod(dims)
    order = order or range(len(dims))
    if sorted(order) != [*range(len(dims))] or math.prod(shape) != n or not 0 < n <= _MOST:
        return None
    strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    flat = [0]
    for axis in order:
        flat = [a + strides[axis] * i for a in flat for i in range(dims[axis])]
    width = shape[-1] if shape else 1
    return [flat[i : i + width] for i in range(0, n, width)]


def read_meshes(text: str) -> list[dict[str, int]]:
    """Return the meshes that a StableHLO text declares: the size of each axis."""
    return [{name: int(n) for name, n in _AXIS.findall(m)} for m in _MESH.findall(text)]


def axes_of_groups(groups: Groups, meshes: Sequence[Mesh]) -> list[str]:
    """Return the axes along which the devices of each group lie; [] where no mesh has such groups."""
    wanted = {frozenset(g) for g in groups}
    for mesh in meshes:
        names, n = [*mesh], math.prod(mesh.values())
        if not 0 < n <= _MOST or len(names) > 8:
            continue
        if not wanted:
            return [x for x in names if mesh[x] > 1]
        if sum(map(len, groups)) != n:
            continue
        varied = [x for x in names if mesh[x] > 1]
        for k in range(1, len(varied) + 1):
            for chosen in itertools.combinations(varied, k):
                if _groups_along(mesh, chosen) == wanted:
                    return [*chosen]
    return []


def _groups_along(mesh: Mesh, chosen: Sequence[str]) -> set[frozenset[int]]:
    """Return the groups of devices that differ only along the chosen axes."""
    found: dict[tuple[int, ...], list[int]] = {}
    sizes = [range(n) for n in mesh.values()]
    kept = [i for i, name in enumerate(mesh) if name not in chosen]
    for device, at in enumerate(itertools.product(*sizes)):
        found.setdefault(tuple([at[i] for i in kept]), []).append(device)
    return {frozenset(g) for g in found.values()}


def axes_of_pairs(pairs: Groups, meshes: Sequence[Mesh]) -> list[str]:
    """Return the axes along which the two devices of some pair differ."""
    devices = {d for pair in pairs for d in pair}
    for mesh in meshes:
        if max(devices, default=0) < math.prod(mesh.values()):
            differing: set[str] = set()
            for pair in pairs:
                places = [_coordinates(mesh, d) for d in pair]
                differing |= {x for x, *at in zip(mesh, *places, strict=True) if len({*at}) > 1}
            return [x for x in mesh if x in differing]
    return []


def _coordinates(mesh: Mesh, device: int) -> list[int]:
    found: list[int] = []
    for n in reversed(mesh.values()):  # type: ignore[call-overload]
        device, at = divmod(device, n)
        found.append(at)
    return found[::-1]
