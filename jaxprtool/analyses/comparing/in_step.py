"""Run an evaluation on NumPy as a sequence of events that is produced on demand.

`Stepped` runs the evaluation in a thread of its own, which waits while the caller runs. Events are
handed over in parcels, since to switch threads for each equation would cost more than most
equations do. A parcel is bounded in number and in bytes, so that two evaluations that are compared
need little more memory than both need alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.places import Step, Watch
from jaxprtool.interpreters.evaluation.limits import Loop, Turns, limited_turns
from jaxprtool.interpreters.evaluation.observe import Observer
from jaxprtool.interpreters.evaluation.separate import separate
from jaxprtool.interpreters.evaluation.state_values import Cell, snapshot
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn

__all__ = ["Alternating", "Enter", "Event", "Leave", "See", "Stepped"]

_PARCEL = 512  # events in a parcel, at most
_PARCEL_BYTES = 16 << 20  # of the results in it, at most, unless a single one is larger


class Enter(NamedTuple):
    """A jaxpr begins; `step` is the equation that holds it, None for the program itself."""

    jaxpr: Jaxpr
    step: Step | None


class See(NamedTuple):
    """An equation has run.

    Attributes:
      eqn: the equation.
      ins: the values of its operands.
      outs: its results, and after them the cells among its operands. Cells hold what they held
        then.
    """

    eqn: JaxprEqn
    ins: Sequence[Any]
    outs: Sequence[Any]


class Leave(NamedTuple):
    """A jaxpr ends, with its results."""

    outs: Sequence[Any]


Event = Enter | See | Leave


class _Closed(BaseException):
    """Ends the thread of an evaluation whose remaining events nobody asks for."""


class Stepped:
    """An evaluation and its events.

    Attributes:
      results: what the evaluation returned; None until it has ended.
      turns: counts the iterations of its loops whose length is not known.
      bound: called each time before the evaluation goes on; returns how many such iterations it may
        take in all, None for any number.
    """

    def __init__(self, evaluate: Callable[[Observer], Any]):
        """Begin `evaluate(observer)`, which does not run before the first event is asked for."""
        self.results: Any = None
        self.turns = Turns()
        self.bound: Callable[[], int | None] = lambda: None
        self._evaluate = evaluate
        self._events: deque[Event] = deque()
        self._go, self._ready = threading.Semaphore(0), threading.Semaphore(0)
        self._ended = self._closing = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=separate(self._work), daemon=True)
        self._thread.start()

    @property
    def complete(self) -> bool:
        """Whether the evaluation has run to its end without an error."""
        return self._ended and self._error is None

    def peek(self) -> Event | None:
        """Return the next event without taking it; None at the end. Raises what the evaluation raises."""
        if self._events:
            return self._events[0]
        while not self._events and not self._ended:
            self._run_on()
        if self._events:
            return self._events[0]
        if self._error is not None:
            raise self._error
        return None

    def next(self) -> Event | None:
        """Take the next event; None at the end."""
        if self._events or self.peek() is not None:
            return self._events.popleft()
        return None

    def close(self) -> None:
        """Give up the rest of the evaluation, and end its thread."""
        self._closing = True
        while not self._ended:
            self._run_on()
        self._events.clear()

    def _run_on(self) -> None:
        """Let the evaluation go on until it has a parcel of events, or ends."""
        self.turns.limit = self.bound()
        self._go.release()
        self._ready.acquire()

    def _work(self) -> None:
        self._go.acquire()
        try:
            if not self._closing:
                with limited_turns(self.turns):
                    self.results = self._evaluate(_Telling(self))
        except _Closed:
            pass
        except BaseException as e:  # raised again where the events are asked for
            self._error = e
        self._ended = True
        self._ready.release()

    def hand_over(self) -> None:
        """Wait, in the thread of the evaluation, until more events are asked for."""
        self._ready.release()
        self._go.acquire()
        if self._closing:
            raise _Closed

    def tell(self, event: Event) -> int:
        """Add an event to the parcel; return how many it has."""
        self._events.append(event)
        return len(self._events)


class Alternating(Stepped):
    """An evaluation without an observer that runs until its loops have taken a given number of iterations, waits, and may go on.

    Attributes:
      ended: whether it has come to its end, or was stopped.
      stopped: the error that stopped it where its loops would have taken more iterations than
        allowed, or None.
      last: whether it is stopped, instead of waiting, at the next bound.
    """

    def __init__(self, evaluate: Callable[[], Any]):
        super().__init__(lambda _: evaluate())
        self.stopped: UsageError | None = None
        self.turns = _Waiting(self)
        self.last = False

    @property
    def ended(self) -> bool:
        return self._ended

    def go_on(self, turns: int, *, last: bool) -> None:
        """Go on until loops of unknown length have taken `turns` iterations in all; then wait, or, if `last`, stop.

        Raises:
          JaxprToolError: what the evaluation raises.
        """
        if self._ended:
            return
        self.bound, self.last = lambda: turns, last
        self._run_on()
        error = self._error
        if isinstance(error, UsageError) and self.turns.over:
            self.stopped = error
        elif error is not None:
            raise error


class _Waiting(Turns):
    """Counts iterations, and lets the evaluation wait when it has taken as many as it may so far."""

    __slots__ = ("run",)

    def __init__(self, run: Alternating):
        super().__init__()
        self.run = run

    def count(self, loop: Loop) -> None:
        while self.limit is not None and self.taken >= self.limit and not self.run.last:
            self.run.hand_over()
        super().count(loop)


class _Telling(Watch):
    """An observer that makes events of what it sees."""

    def __init__(self, run: Stepped):
        super().__init__()
        self.run, self.bytes = run, 0

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        followed = super().enter(jaxpr, args)
        if followed:
            self.run.tell(Enter(jaxpr, self.levels[-1].step))
        return followed

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        for x in outs:
            self.bytes += getattr(x, "nbytes", 0)
        event = See(eqn, ins, outs)
        if Cell in map(type, ins) or Cell in map(type, outs):
            ins, outs = [*map(snapshot, ins)], [*map(snapshot, outs)]
            event = See(eqn, ins, [*outs, *(x for x in ins if type(x) is Cell)])
        if self.run.tell(event) >= _PARCEL or self.bytes >= _PARCEL_BYTES:
            self.bytes = 0
            self.run.hand_over()

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        super().leave(jaxpr, outs)
        if self.run.tell(Leave(outs)) >= _PARCEL:  # a loop may have no equations
            self.bytes = 0
            self.run.hand_over()
