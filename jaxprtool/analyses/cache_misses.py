"""Read JAX's explanations of why it traced a function again from a log (`jax_explain_cache_misses`).

Releases up to 0.8 say "TRACING CACHE MISS at SITE costing 1.2 ms because:", and below it every
previous key that is closest; later ones "TRACING CACHE MISS at SITE:" and one key. Each line of a
message may have the prefix of a logger.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["HELP", "Miss", "misses"]

HELP = {
    "first trace": "each function is traced once",
    "made anew": "the function is defined, or wrapped in partial or jit, again for each call; do so once, outside",
    "shape": "pad arguments to a few sizes, or make the loop that changes them a scan",
    "dtype": "convert the argument to one type before the call",
    "weak type": "give an array of a type, jnp.float32(x), in the place of a number of Python's, in all calls",
    "sharding": "place the argument as the first call had it: jax.device_put(x, sharding)",
    "types": "give arguments of the same types in all calls",
    "pytree": "give the same arguments, by position or by name in the same way, with the same keys",
    "static argument": "an argument that changes from call to call is traced rather than static; an object needs __eq__ and __hash__",
    "configuration": "set options of jax.config once, before the first call, and contexts around all calls",
    "not explained": "JAX does not say why; the values of static arguments, perhaps",
    "persistent cache": "the compiled program was not on the disk: another program, options, release or device",
}


class Miss(NamedTuple):
    """A message about a cache miss.

    Attributes:
      site: the call, `file:line:column (function)`; "" for the persistent cache.
      function: the name of the function that was traced, or of the module.
      defined: where the function is defined, `file:line`, or "".
      reason: one of the keys of `HELP`.
      details: what differs, for people.
      milliseconds: what it cost, or None.
    """

    site: str
    function: str
    defined: str
    reason: str
    details: Sequence[str] = ()
    milliseconds: float | None = None


_FIRST = re.compile(r"TRACING CACHE MISS at (.*?)(?: costing ([\d.]+) ms because)?:\s*$")
_PERSISTENT = re.compile(r"PERSISTENT COMPILATION CACHE MISS for '([^']*)' with key")
_NEVER = re.compile(r"(\S.*?) id=\d+(?: defined at (.*))?$")
_FUNCTION = re.compile(r"for (\S.*?)(?: defined at (.*))?$")
_NOW = re.compile(r"(?:\bat (?P<path>.*?), )?\bnow (?P<now>.*?) and before (?P<before>.*)$")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_LINK = re.compile(r"https://\S+$")
_SO = re.compile(r", so the [\w ]+ match(?=$|,)")
_STATIC = re.compile(
    r"<class '[\w.]*\.Static'> with pytree metadata Static\(val=(.*?)\)(?= and before|$)"
)
_KEYS = re.compile(r", with the symmetric difference of key sets: \{(.*)\}$")
_KEY = re.compile(r"'[^']*'|[^\s,']+")
_TYPE = re.compile(r"(?P<dtype>[\w<>]+)\[(?P<shape>[^\]]*)\](?P<rest>.*)")


def misses(text: str) -> Iterator[Miss]:
    """Yield the messages of a log, in its order."""
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        first = _FIRST.search(lines[i])
        persistent = _PERSISTENT.search(lines[i])
        i += 1
        if first is not None:
            prefix = lines[i - 1][: first.start()]
            body: list[str] = []
            while i < len(lines) and (line := _continued(lines[i], prefix)) is not None:
                body.append(line)
                i += 1
            yield _miss(first[1], first[2], body)
        elif persistent is not None:
            yield Miss("", persistent[1], "", "persistent cache")


def _continued(line: str, prefix: str) -> str | None:
    """Return a line of a message without the prefix of a logger; None for one that belongs to no message.

    Args:
      line: the line.
      prefix: what stands before the message on its first line. The line begins with the same,
        numbers aside.
    """
    if _FIRST.search(line):
        return None
    pairs = zip(line, prefix, strict=False)
    same = itertools.takewhile(lambda p: p[0] == p[1] or (p[0] + p[1]).isdigit(), pairs)
    rest = line[sum(1 for _ in same) :]
    indented = next((x for x in (rest, line) if x.startswith("  ")), None)
    return None if indented is None else indented.strip()


def _miss(site: str, cost: str | None, body: Sequence[str]) -> Miss:
    milliseconds = None if cost is None else float(cost)
    text = "\n".join(body)
    if text.startswith("never seen function"):
        found = _NEVER.search(body[1]) if len(body) > 1 else None
        reason = "made anew" if "on the same line" in text else "first trace"
        name, defined = (found[1], found[2] or "") if found else ("", "")
        return Miss(site, name, defined, reason, (), milliseconds)
    found = _FUNCTION.match(body[0]) if body else None
    name, defined = (found[1], found[2] or "") if found else ("", "")
    said = [line for line in body if _NOW.search(line)]
    reason = _reason(text, said)
    details = [_plain(line) for line in said]
    return Miss(site, name, defined, reason, [*dict.fromkeys(details)], milliseconds)


def _plain(line: str) -> str:
    """Return what differs, without what changes from run to run, and what follows from the rest."""
    line = _ADDRESS.sub("0x...", _LINK.sub("", line)).removeprefix("* ").removeprefix("at ")
    line = _STATIC.sub(r"\1 (static)", _SO.sub("", line))
    return _KEYS.sub(lambda m: f"; keys of one: {', '.join(sorted(_KEY.findall(m[1])))}", line)


def _reason(text: str, said: Sequence[str]) -> str:
    """Return the reason of a message, by the first key that it compares with."""
    lowered = text.lower()
    if "tracing context" in lowered:
        return "configuration"
    at = {
        "static argument": _first_of(lowered, "static args", "static kwargs", "static_argnums"),
        "pytree": _first_of(lowered, "different input pytree"),
        "types": _first_of(lowered, "different input types"),
    }
    reason = min(at, key=lambda k: at[k])
    if at[reason] == len(lowered):
        return "not explained"
    if reason == "pytree" and said and "metadata" in said[0]:
        return "static argument"
    return _kind_of_type(said[0]) if reason == "types" and said else reason


def _first_of(text: str, *words: str) -> int:
    """Return the position of the first of some words in a text; the end of the text where none is in it."""
    return min((i for w in words if (i := text.find(w)) >= 0), default=len(text))


def _kind_of_type(line: str) -> str:
    """Return which part of a type differs."""
    found = _NOW.search(line)
    both = [_TYPE.match(found[key]) if found else None for key in ("now", "before")]
    now, before = both
    if now is None or before is None:
        return "types"
    if now["dtype"] != before["dtype"]:
        return "dtype"
    if now["shape"] != before["shape"]:
        return "shape"
    rest = now["rest"], _LINK.sub("", before["rest"])
    return "weak type" if "weak_type" in rest[0] and rest[0] != rest[1] else "sharding"
