"""inline: replace calls by the equations of their jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import all_eqns, count_eqns
from jaxprtool.makers.calls import CallImpl
from jaxprtool.passes.bodies import in_each_body
from jaxprtool.passes.names import warn_of_unknown
from jaxprtool.passes.own_rules import name_of, warn_of_lost_rules
from jaxprtool.passes.registry import define_pass

__all__ = ["called", "inline", "inlined"]


def called(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """Return the jaxpr that an equation applies to its operands to get its results; None where there is none."""
    rule = impl_rules.find(eqn.primitive)
    if not isinstance(rule, CallImpl):
        return None
    inner: ClosedJaxpr = eqn.params[rule.param]
    return inner if len(inner.jaxpr.in_binders) == len(eqn.inputs) else None


def _look_for_calls(program: ClosedJaxpr, name: str) -> None:
    """Warn if no call, at any depth, has a name."""
    known = [name_of(eqn) for eqn in all_eqns(program.jaxpr) if called(eqn) is not None]
    if name not in known:
        warn_of_unknown("call", name, known)


@define_pass("inline", "bits types linear-time", {"size": 0}, {"name": _look_for_calls})
@deep
def inline(program: ClosedJaxpr, *, name: str = "", size: int | None = None) -> ClosedJaxpr:
    """Put the equations of calls (`jit`, `remat2`, `custom_jvp_call`, ...) in their place: of all, or of those of a name or of at most size equations.

    Derivative rules of functions, of which a warning tells, and what says how a call is compiled, are lost; results are the
    same. Without options calls inside of calls are inlined too, and jaxprs in params of other equations stay as they are. A
    jaxpr that is called several times is there as often.
    """
    taken: list[JaxprEqn] = []
    found = inlined(program, name=name, size=size, taken=taken)
    warn_of_lost_rules("inline", taken)
    return found


@deep
def inlined(
    program: ClosedJaxpr,
    *,
    name: str = "",
    size: int | None = None,
    taken: list[JaxprEqn] | None = None,
) -> ClosedJaxpr:
    """As the pass `inline`, without its warnings; the calls that are replaced are appended to `taken`."""

    def takes(eqn: JaxprEqn, inner: ClosedJaxpr) -> bool:
        if name and name_of(eqn) != name:
            return False
        return size is None or count_eqns(inner.jaxpr) <= size

    def wanted(eqn: JaxprEqn) -> ClosedJaxpr | None:
        inner = called(eqn)
        if inner is None or not takes(eqn, inner):
            return None
        if taken is not None:
            taken.append(eqn)
        return inner

    if name or size is not None:
        return in_each_body(program, lambda closed: _inlined(closed, wanted))
    return _inlined(program, wanted)


def _inlined(program: ClosedJaxpr, wanted: Callable[[JaxprEqn], ClosedJaxpr | None]) -> ClosedJaxpr:
    """Return the program with the equations of the calls for which `wanted` gives a jaxpr."""
    if not any(wanted(eqn) for eqn in program.eqns):
        return program
    inlining = _Inlining(wanted)
    ins = [*program.jaxpr.in_binders]
    found = zip(inlining.run(program, ins), program.jaxpr.outs, strict=True)
    # Of a literal among the results of a call, only the call's binder says whether it is weakly typed.
    outs = [Lit(x.val, old.aval) if type(x) is Lit else x for x, old in found]
    binders = [v for v, _ in inlining.consts]
    jaxpr = Jaxpr(ins, inlining.eqns, outs, binders, program.jaxpr.span)
    return program.replace(jaxpr=jaxpr, consts=[c for _, c in inlining.consts])


class _Inlining:
    """The equations and the constants of the new program so far."""

    def __init__(self, wanted: Callable[[JaxprEqn], ClosedJaxpr | None]) -> None:
        self.wanted = wanted
        self.eqns: list[JaxprEqn] = []
        self.consts: list[tuple[Var, Any]] = []

    def run(self, program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """Add the equations of a program, applied to some atoms; return the atoms of its results."""
        jaxpr = program.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.in_binders, args, strict=True))
        for v, c in zip(jaxpr.const_binders, program.consts, strict=True):
            env[v] = Var(v.aval, v.name, v.place)
            self.consts.append((env[v], c))
        for eqn in jaxpr.eqns:
            ins = [x if type(x) is Lit else env[x] for x in eqn.inputs]
            inner = self.wanted(eqn)
            if inner is not None:
                outs = self.run(inner, ins)
            else:
                outs = [Var(v.aval, v.name, v.place) for v in eqn.out_binders]
                self.eqns.append(eqn.replace(inputs=ins, out_binders=outs))
            env.update(zip(eqn.out_binders, outs, strict=True))
        return [x if type(x) is Lit else env[x] for x in jaxpr.outs]
