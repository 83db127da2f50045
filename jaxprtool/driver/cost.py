"""cost: operations, bytes, communication and memory of a program, compared with a budget."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from jaxprtool.analyses.counting.cost import Estimate
from jaxprtool.analyses.counting.cost_answer import SORTS, CostReport, Limit
from jaxprtool.analyses.counting.devices import DEVICES, Device
from jaxprtool.analyses.counting.stats import KEYS
from jaxprtool.core.stack import deep
from jaxprtool.driver.places import with_places
from jaxprtool.driver.verify import check_input
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.synonyms import close_names

__all__ = ["cost", "device_of"]


@deep
def cost(
    program: ClosedJaxpr,
    *,
    by: str | None = None,
    sort: str = "flops",
    top: int = 20,
    trips: int | None = None,
    device: str | None = None,
    peak_flops: float | None = None,
    bandwidth: float | None = None,
    budget: str | None = None,
    chart: bool = False,
    reorder: bool = False,
) -> CostReport:
    """Return the cost of a program.

    Args:
      program: the program.
      by: the key of groups: source, scope, primitive, shape, dtype or depth; None: a row for each
        equation.
      sort: the figure by which rows are sorted, largest first: flops, transcendentals, bytes,
        intensity or seconds.
      top: the number of rows that are shown.
      trips: the number of iterations of loops for which it is not known; None: unknown.
      device: the name of a device, for which times are estimated; or None.
      peak_flops, bandwidth: operations and bytes a second, instead of those of the device.
      budget: limits, such as `peak=2GiB,flops=1e12`; or None.
      chart: whether the lifetimes of values are shown.
      reorder: whether to look for a better order of the equations also in a program of more than
        2,000.

    Raises:
      JaxprTypeError: the program is ill-typed.
      MissingRuleError: a primitive has no `cost` rule.
      UsageError: an invalid option; a limit on a figure that is not known.
    """
    if by is not None and by not in KEYS:
        fail(UsageError, f"by {by!r}: it is one of {', '.join(KEYS)}", "option")
    if sort not in SORTS:
        fail(UsageError, f"sort {sort!r}: it is one of {', '.join(SORTS)}", "option")
    if top < 1:
        fail(UsageError, f"--top {top}: at least one row is shown", "option")
    if trips is not None and trips < 0:
        fail(UsageError, f"--trips {trips}: a loop turns 0 times or more", "option")
    limits = _limits(budget)
    chosen = device_of(device, peak_flops, bandwidth)
    program = check_input(with_places(program))
    found = Estimate(program, by, trips, chosen)
    checked = [Limit(k, limit, _value(found, k)) for k, limit in limits.items()]
    return CostReport(program, found, by, sort, top, chart, reorder, checked)


def device_of(name: str | None, peak: float | None, bandwidth: float | None) -> Device | None:
    """Return the device of a name, with other figures where they are given; None where nothing is.

    Raises UsageError.
    """
    if name is None and peak is None and bandwidth is None:
        return None
    found = None if name is None else DEVICES.get(name.lower().replace(" ", "-"))
    if name is not None and found is None:
        near = close_names(name.lower(), DEVICES)
        hint = f", did you mean {near[0]}?" if near else ""
        message = f"there is no device {name} in the table{hint}"
        help = f"it has {', '.join(DEVICES)}; of others give --peak-flops and --bandwidth"
        fail(UsageError, message, "option", help=help)
    if found is None and (peak is None or bandwidth is None):
        message = (
            "a roofline takes both the operations and the bytes that a device does in a second"
        )
        fail(UsageError, message, "option", help="--peak-flops 989e12 --bandwidth 3.35e12")
    for what, x in (("--peak-flops", peak), ("--bandwidth", bandwidth)):
        if x is not None and not (x > 0 and math.isfinite(x)):
            fail(UsageError, f"{what} {x}: it is more than 0", "option")
    flops = {64: peak} if peak is not None else found.flops if found else {}
    moved = bandwidth if bandwidth is not None else found.bandwidth if found else 0.0
    return Device(flops, moved)


_LIMITED = ("flops", "transcendentals", "bytes", "peak", "communication", "seconds", "equations")
_AMOUNT = re.compile(r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(?:([kmgt])(i?)b?|b)?", re.IGNORECASE)


def _limits(text: str | None) -> dict[str, float]:
    """The limits in `peak=2GiB,flops=1e12`. Raises UsageError."""
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, (text or "").split(","))):
        figure, _, amount = (x.strip() for x in part.partition("="))
        read = _AMOUNT.fullmatch(amount)
        if figure not in _LIMITED:
            near = close_names(figure, _LIMITED)
            help = f"did you mean {near[0]}?" if near else f"limited are {', '.join(_LIMITED)}"
            fail(UsageError, f"--budget: there is no figure {figure!r}", "option", help=help)
        if read is None:
            message = f"--budget {part}: an amount such as 1e12 or 2GiB is expected"
            fail(UsageError, message, "option", help="--budget 'peak=2GiB,flops=1e12'")
        if figure in found:
            fail(UsageError, f"--budget: {figure} has two limits", "option", help="give one")
        number, unit, binary = read.groups()
        power = " kmgt".index(unit.lower()) if unit else 0
        found[figure] = float(number) * float(1024 if binary else 1000) ** power
    if text is not None and not found:
        fail(UsageError, "--budget: no limit is given", "option", help="--budget 'peak=2GiB'")
    return found


def _value(found: Estimate, figure: str) -> float:
    """Return a figure of a program. Raises UsageError where it is not known."""
    total = found.total
    values: dict[str, Callable[[], float | None]] = {
        "flops": lambda: total.flops.high,
        "transcendentals": lambda: total.transcendentals.high,
        "bytes": lambda: total.nbytes.high,
        "peak": lambda: found.memory.nbytes,
        "communication": lambda: _all_sent(found),
        "seconds": lambda: found.seconds,
        "equations": lambda: found.written,
    }
    value = values[figure]()
    if value is not None:
        return value
    if figure == "seconds" and not found.unknown:
        fail(UsageError, "seconds are of a device", "option", help="name one with --device")
    at = found.unknown[0].eqn.span if found.unknown else None
    message = f"--budget: {figure} is not known, since a loop turns as often as it likes"
    fail(UsageError, message, "unknown-trips", span=at, help="say how often with --trips N")


def _all_sent(found: Estimate) -> int | None:
    highs = [sent.high for sent in found.sent.values()]
    return None if None in highs else sum(h or 0 for h in highs)
