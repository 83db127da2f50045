"""Evaluation on NumPy: the base trace, and a fast loop for whole jaxprs.

Contract of an `impl` rule:

    rule(xp, *values, **params) -> value           (a list where the primitive has multiple_results)

`xp` is the NumPy namespace with a few additions (`backends/numpy_eval.py` lists them); rules never import NumPy.
Values are NumPy arrays or NumPy scalars of exactly the operands' shapes and dtypes; a rank-0 operand
of an elementwise primitive may meet operands of any shape. The result has exactly the shape and
dtype that `abstract_eval` gives. Operands are not changed in place.

A rule may have a method `prepare(xp, in_avals, out_avals, params)` that returns a function of the values
alone; then whatever depends on types and params only is computed once for each equation.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

from jaxprtool.core.bind import base_trace, in_place, interpreted, interpreting, state
from jaxprtool.core.env import Env
from jaxprtool.core.gateways import gateways
from jaxprtool.core.rule_table import RuleTable
from jaxprtool.core.stack import deep, run_deep
from jaxprtool.core.trace import Trace, Tracer, fail_leaked, get_aval
from jaxprtool.interpreters.check import abstract_eval, check_constants, typecheck_jaxpr
from jaxprtool.interpreters.discharge import pure
from jaxprtool.interpreters.evaluation.limits import check_room, limited_bytes, limited_steps
from jaxprtool.interpreters.evaluation.missing_values import present_constants
from jaxprtool.interpreters.evaluation.observe import Observer, functions, observe, observer
from jaxprtool.interpreters.evaluation.streamed import Streamed, is_streamed
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.interface import argument_label, check_count
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Primitive, Value, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.walk import jaxprs_in, nesting
from jaxprtool.syntax.consts import ArrayBytes, ArrayText
from jaxprtool.syntax.inference.open_programs import is_open, typed
from jaxprtool.syntax.types import UNTYPED

__all__ = [
    "EvalTrace",
    "as_value",
    "eval_jaxpr",
    "impl_rules",
    "jaxpr_as_fun",
    "numpy_namespace",
    "prepare_impl",
    "runner",
]

impl_rules = RuleTable("impl")


@functools.cache
def numpy_namespace() -> Value:
    """The namespace handed to impl rules; it is loaded when the first value is computed."""
    return gateways.load_numpy()


class EvalTrace(Trace):
    """Evaluates operations on values; the outermost trace, which has no parent."""

    __slots__ = ()

    def __init__(self) -> None:
        self.parent = None

    def pure(self, value: Value) -> Value:
        return numpy_namespace().value(value)

    def literal(self, lit: Lit) -> Value:
        return numpy_namespace().value(lit)

    def lift(self, tracer: Tracer) -> Value:
        return fail_leaked(tracer)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Value], params: dict[str, ParamValue]
    ) -> Value:
        values = self.values(args)
        if primitive.known:
            abstract_eval(primitive, [get_aval(v) for v in values], params)
        return self.apply(primitive, values, params)

    def process_typed(
        self,
        primitive: Primitive,
        args: Sequence[Value],
        params: dict[str, ParamValue],
        out_avals: Sequence[Aval],
    ) -> list[Value]:
        """Apply an operation without checking it.

        It fits by construction, but a check could fail: values have no memory space, where the
        jaxprs in the params have one.
        """
        return self.apply(primitive, self.values(args), params)

    def values(self, args: Sequence[Value]) -> list[Value]:
        """Return the values of operands."""
        xp = numpy_namespace()
        for x in args:
            if isinstance(x, Tracer):
                fail_leaked(x)
        return [xp.value(x) for x in args]

    def apply(
        self, primitive: Primitive, values: Sequence[Value], params: dict[str, ParamValue]
    ) -> Value:
        """Run the impl rule of a primitive."""
        xp = numpy_namespace()
        rule = impl_rules.rules.get(primitive) or impl_rules[primitive]
        with xp.errstate(all="ignore"):
            if primitive.multiple_results and _is_deep(params):
                return run_deep(rule, xp, *values, **params)
            try:
                return rule(xp, *values, **params)
            except MemoryError:
                _no_room(primitive, ())


def _is_deep(params: dict[str, ParamValue]) -> bool:
    """Whether a jaxpr in params is nested too deep for the stack of the caller."""
    return any(nesting(c.jaxpr) > _SHALLOW for c in jaxprs_in(params))


def prepare_impl(
    xp: Any, primitive: Primitive, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
) -> Callable[..., Value]:
    """Return the impl rule of a primitive as a function of the values alone."""
    rule = impl_rules.rules.get(primitive) or impl_rules[primitive]
    prepare = getattr(rule, "prepare", None)
    if prepare is not None:
        return prepare(xp, in_avals, out_avals, params)
    return functools.partial(rule, xp, **params)


class _Program:
    """A jaxpr prepared for evaluation: a list of functions, and slots of a flat environment for values.

    Attributes:
      template: the environment at the start, with literals in place.
      n_in: the number of slots of the arguments, which are the first ones.
      code: for each equation (function, getter of its inputs from the slots, output slot or slots,
        slots to free after it).
      outs: the slots of the results.
      peak: an upper bound on the bytes of intermediate results alive at one time.
      eqns: the equations, for messages.
    """

    __slots__ = ("code", "eqns", "n_in", "outs", "peak", "template")

    def __init__(self, jaxpr: Jaxpr, xp: Any):
        self.template: list[Any] = []
        slots: dict[Any, int] = {}

        def slot(x: Value) -> int:
            key = x if type(x) is not Lit else id(x)
            found = slots.get(key)
            if found is None:
                found = slots[key] = len(self.template)
                self.template.append(xp.value(x) if type(x) is Lit else None)
            return found

        for v in jaxpr.all_binders:
            slot(v)
        self.n_in = len(self.template)
        last_use = _last_uses(jaxpr)
        self.code: list[tuple[Any, Callable[..., Sequence[Value]], Any, tuple[int, ...]]] = []
        self.peak = alive = 0
        given = functions()
        with interpreting():
            for i, eqn in enumerate(interpreted(jaxpr.eqns)):
                out_avals = [v.aval for v in eqn.out_binders]
                in_avals = [x.aval for x in eqn.inputs]
                f = (
                    prepare_impl(xp, eqn.primitive, in_avals, out_avals, eqn.params)
                    if given is None
                    else given.of(eqn)
                )
                alive += sum(getattr(a, "nbytes", 0) for a in out_avals)
                self.peak = max(self.peak, alive)
                ins = [slot(x) for x in eqn.inputs]
                outs = [slot(v) for v in eqn.out_binders]
                dead = last_use.get(i, ())
                alive -= sum(getattr(v.aval, "nbytes", 0) for v in dead if slots[v] >= self.n_in)
                out = outs if eqn.primitive.multiple_results else outs[0]
                self.code.append((f, _picker(ins), out, tuple(slots[v] for v in dead)))
        self.outs = [slot(x) for x in jaxpr.outs]
        self.eqns = jaxpr.eqns

    def run(self, args: Sequence[Value]) -> list[Value]:
        env = self.template.copy()
        env[: self.n_in] = args
        out: Any = None
        try:
            for f, ins, out, dead in self.code:
                result = f(*ins(env))
                if type(out) is int:
                    env[out] = result
                else:
                    for i, value in zip(out, result, strict=True):
                        env[i] = value
                for i in dead:
                    env[i] = None
        except MemoryError:
            env.clear()
            eqn = self._equation(out)
            _no_room(eqn.primitive, eqn.out_binders, eqn.span)
        except JaxprToolError as e:
            e.placed_at(self._equation(out))
            raise
        return [env[i] for i in self.outs]

    def _equation(self, out: Value) -> JaxprEqn:
        """Return the equation whose entry in `code` has `out` as its output slots."""
        return next(
            eqn for eqn, (_, _, found, _) in zip(self.eqns, self.code, strict=True) if found is out
        )


class _Observed(_Program):
    """A program that reports each equation to the observer (`interpreters.evaluation.observe`).

    Attributes:
      lines: the entries of `code`, each preceded by its equation and whether that holds jaxprs.
    """

    __slots__ = ("jaxpr", "lines")

    def __init__(self, jaxpr: Jaxpr, xp: Any):
        super().__init__(jaxpr, xp)
        self.jaxpr = jaxpr
        pairs = zip(jaxpr.eqns, self.code, strict=True)
        self.lines = [(eqn, eqn.primitive.holds_jaxprs, *line) for eqn, line in pairs]

    def run(self, args: Sequence[Value]) -> list[Value]:
        watching = observer()
        if watching is None:
            return super().run(args)
        how = watching.enter(self.jaxpr, args)
        if how is False:
            observe(None)
            try:
                return super().run(args)
            finally:
                observe(watching)
        env = self.template.copy()
        env[: self.n_in] = args
        if how is True:
            self._seen(env, watching)
        else:
            self._noted(env, watching, how)
        outs = [env[i] for i in self.outs]
        watching.leave(self.jaxpr, outs)
        return outs

    def _seen(self, env: list[Any], watching: Observer) -> None:
        """Run all equations; call the observer after each."""
        see, begin = watching.see, watching.begin
        for eqn, holds, f, pick, out, dead in self.lines:
            ins = pick(env)
            if holds:
                begin(eqn, ins)
            result = self._apply(f, ins, eqn)
            if type(out) is int:
                env[out] = result
                see(eqn, ins, (result,))
            else:
                for i, value in zip(out, result, strict=True):
                    env[i] = value
                see(eqn, ins, result)
            for i in dead:
                env[i] = None

    def _noted(self, env: list[Any], watching: Observer, log: list[Any]) -> None:
        """Run all equations; append the result of each to the log."""
        begin, note = watching.begin, log.append
        out: Any = None
        try:
            for eqn, holds, f, pick, out, dead in self.lines:
                if holds:
                    begin(eqn, ins := pick(env))
                    result = f(*ins)
                else:
                    result = f(*pick(env))
                note(result)
                if type(out) is int:
                    env[out] = result
                else:
                    for i, value in zip(out, result, strict=True):
                        env[i] = value
                for i in dead:
                    env[i] = None
        except MemoryError:
            eqn = self._equation(out)
            _no_room(eqn.primitive, eqn.out_binders, eqn.span)
        except JaxprToolError as e:
            e.placed_at(self._equation(out))
            raise

    @staticmethod
    def _apply(f: Callable[..., Value], ins: Sequence[Value], eqn: JaxprEqn) -> Value:
        try:
            return f(*ins)
        except MemoryError:
            _no_room(eqn.primitive, eqn.out_binders, eqn.span)
        except JaxprToolError as e:
            e.placed_at(eqn)
            raise


def _picker(slots: Sequence[int]) -> Callable[..., Sequence[Value]]:
    """Return a function that gets the values in some slots from a list."""
    if len(slots) > 1:
        return operator.itemgetter(*slots)
    first = slots[0] if slots else 0
    return operator.itemgetter(slice(first, first + len(slots)))


def _no_room(primitive: Primitive, outs: Sequence[Value], span: Any = None) -> NoReturn:
    """Raise UsageError: memory ran out where a primitive computed `outs`."""
    types = " ".join(str(v.aval) for v in outs)
    gives = f", which gives {types}" if types else ""
    message = f"there is not enough memory for {primitive.name}{gives}"
    fail(UsageError, message, "out-of-memory", span=span)


def _last_uses(jaxpr: Jaxpr) -> dict[int, list[Any]]:
    """Return which variables are last read by which equation (results never are)."""
    seen = {x for x in jaxpr.outs if type(x) is not Lit}
    dies: dict[int, list[Any]] = {}
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[i]
        for v in (*eqn.out_binders, *eqn.inputs):
            if type(v) is not Lit and v not in seen:
                seen.add(v)
                dies.setdefault(i, []).append(v)
    return dies


@deep
def prepared(jaxpr: Jaxpr) -> _Program:
    """Return the prepared program of a jaxpr, made once and kept with it."""
    memo, make = (_PREPARED, _Program) if observer() is None else (_OBSERVED, _Observed)
    given = functions()
    if given is not None:
        program = given.programs.get((jaxpr, make))
        if program is None:
            program = given.programs[jaxpr, make] = make(jaxpr, numpy_namespace())
        return program
    program = memo.find(jaxpr)
    if program is None:
        program = memo.keep(jaxpr, make(jaxpr, numpy_namespace()))
    return program


_PREPARED, _OBSERVED = Memo[_Program]("prepared"), Memo[_Program]("prepared for observation")
_STREAMED = Memo[Streamed]("what dies where")


def _stream(jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """Run a jaxpr without preparing it."""
    xp, given = numpy_namespace(), functions()

    def function(eqn: JaxprEqn) -> Callable[..., Value]:
        if given is not None:
            return given.of(eqn)
        avals, outs = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
        return prepare_impl(xp, eqn.primitive, avals, outs, eqn.params)

    return _STREAMED.of(jaxpr, lambda: Streamed(jaxpr, xp.value)).run(args, function)


def run_closed(closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    """Run a jaxpr of a param on values that are known to be right (impl rules of calls use it)."""
    if closed.consts:
        args = [*_known_consts(closed), *args]
    return _run(closed.jaxpr, args)


def _run(jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """Run a jaxpr; a deeply nested one on a deep stack (Note [Deep programs])."""
    if nesting(jaxpr) > _SHALLOW:
        return run_deep(lambda: _with_room(jaxpr).run(args))
    return _with_room(jaxpr).run(args)


def _with_room(jaxpr: Jaxpr) -> _Program:
    """Return the prepared program of a jaxpr; raises UsageError where it needs more bytes at one
    time than are allowed.

    A jaxpr that a rule has made, for all devices of a mesh say, may need more than those in the
    file.
    """
    program = prepared(jaxpr)
    check_room(program.peak, "a jaxpr inside of the program")
    return program


_SHALLOW = 40  # levels of nesting that always fit on the stack


def runner(closed: ClosedJaxpr) -> Callable[[Sequence[Value]], list[Value]]:
    """Return a function that runs a jaxpr of a param on a list of arguments, for loops."""
    program = _with_room(closed.jaxpr)
    if not closed.consts:
        return program.run
    consts = _known_consts(closed)
    return lambda args: program.run([*consts, *args])


def _known_consts(closed: ClosedJaxpr) -> list[Value]:
    """Return the values of the constants.

    Raises UsageError where one has none, JaxprTypeError where one is of another type.
    """
    check_constants(closed)
    values = []
    for v, c in present_constants(closed):
        values.append(numpy_namespace().value(c, v.aval))
    return values


def eval_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr, args: Sequence[Value], *, max_bytes: int | None = None
) -> list[Value]:
    """Evaluate a jaxpr on NumPy.

    Args:
      jaxpr: the program; for an open one, `args` start with the values of its constants.
      args: arrays or scalars of the shapes and dtypes of the binders. With tracers among them, the
        program becomes part of the function that is transformed, as with `jaxpr_as_fun`.
      max_bytes: refuse to start when intermediate results may take more than this at one time.

    Returns:
      The results as NumPy arrays. Values are freed after their last use.

    Raises:
      UsageError: wrong number, shape or dtype of arguments, a missing constant, too large.
    """
    if any(isinstance(x, Tracer) for x in args):
        return jaxpr_as_fun(_without_consts(jaxpr))(*args)
    xp = numpy_namespace()
    if isinstance(jaxpr, ClosedJaxpr):
        interface, consts, jaxpr = jaxpr.interface, _known_consts(jaxpr), jaxpr.jaxpr
        binders = jaxpr.in_binders
    else:
        interface, consts, binders = None, [], jaxpr.all_binders
    check_count(len(binders), len(args), interface)
    if is_open(jaxpr):
        jaxpr = _typed_by(jaxpr, [*consts, *args])
        binders = jaxpr.all_binders[len(consts) :]
    pairs = zip(args, binders, strict=True)
    values = [
        *consts,
        *[xp.argument(x, v.aval, i, v.name, interface) for i, (x, v) in enumerate(pairs)],
    ]
    if is_streamed(jaxpr):
        with xp.errstate(all="ignore"), limited_steps():
            return [xp.result(x) for x in _stream(jaxpr, values)]
    program = run_deep(prepared, jaxpr) if nesting(jaxpr) > _SHALLOW else prepared(jaxpr)
    if max_bytes is not None and program.peak > max_bytes:
        biggest = max(
            jaxpr.eqns, key=lambda e: sum(getattr(v.aval, "nbytes", 0) for v in e.out_binders)
        )
        fail(
            UsageError,
            f"the program needs about {program.peak:,} bytes at one time, more than the "
            f"limit of {max_bytes:,} (largest: {biggest.primitive} gives {biggest.out_binders[0].aval})",
            "too-large",
            span=biggest.span,
            help="raise the limit with --max-bytes",
        )
    limits = nullcontext() if max_bytes is None else limited_bytes(max_bytes)
    with xp.errstate(all="ignore"), limits, limited_steps():
        return [xp.result(x) for x in _run(jaxpr, values)]


def _without_consts(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    """Return a program in which the constants of an open jaxpr are its first arguments."""
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr
    return ClosedJaxpr(jaxpr.replace(in_binders=jaxpr.all_binders, const_binders=()))


def _typed_by(jaxpr: Jaxpr, args: Sequence[Any]) -> Jaxpr:
    """Return a jaxpr whose missing types are inferred from the values of its arguments.

    Raises:
      JaxprTypeError: operations do not fit them, or some types cannot be inferred.
    """
    return _checked(jaxpr, [get_aval(numpy_namespace().value(x)) for x in args])


def _checked(jaxpr: Jaxpr, avals: Sequence[Any]) -> Jaxpr:
    found = typed(jaxpr, avals)
    if is_open(found):
        typecheck_jaxpr(found, allow_unknown=True)
    return found


def bind_eqn(eqn: JaxprEqn, args: Sequence[Value]) -> list[Value]:
    """Apply an equation to other operands, in the current trace; always a list."""
    out = state.trace.process_primitive(eqn.primitive, args, eqn.params)
    return out if eqn.primitive.multiple_results else [out]


def apply_eqns(closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    """Apply a jaxpr's equations one by one in the current trace, whatever that is."""
    jaxpr = closed.jaxpr
    env = Env(zip(jaxpr.all_binders, [*closed.const_operands, *args], strict=True))
    with interpreting():
        for eqn in interpreted(in_place(jaxpr).eqns):
            ins = env.read(eqn.inputs)
            env.write(eqn.out_binders, bind_eqn(eqn, ins))
    return env.read(jaxpr.outs)


def as_value(x: Value) -> Value:
    """Convert a result for the user: literals become NumPy scalars, and constants as a file holds
    them become arrays.
    """
    return numpy_namespace().value(x) if type(x) in _NO_VALUES else x


_NO_VALUES = frozenset({Lit, ArrayText, ArrayBytes})


def jaxpr_as_fun(program: ClosedJaxpr) -> Callable[..., list[Value]]:
    """Return a Python function that runs the program: on NumPy, or in whatever transformation it is called.

    It takes arrays, numbers or tracers, and returns a list of arrays or tracers.

    Raises (the function):
      UsageError: wrong number, shape or dtype of arguments.
      JaxprTypeError: the program is ill-typed and the arguments are traced, since a trace records
        equations without checking them.
    """

    def fun(*args: Value) -> list[Value]:
        if state.trace is base_trace() and not any(isinstance(x, Tracer) for x in args):
            return eval_jaxpr(program, args)
        check_count(len(program.jaxpr.in_binders), len(args), program.interface)
        found, args = program, _taken(program, args)
        if is_open(program.jaxpr):
            avals = map(get_aval, (*_known_consts(program), *args))
            found = program.replace(jaxpr=_checked(program.jaxpr, [*avals]))
        elif not _WELL_TYPED.find(program):
            typecheck_jaxpr(program, allow_unknown=True)
            _WELL_TYPED.keep(program, True)
        return [as_value(x) for x in apply_eqns(pure(found), args)]

    fun.program = program  # type: ignore[attr-defined]
    return fun


def _taken(program: ClosedJaxpr, args: Sequence[Value]) -> tuple[Value, ...]:
    """Return the arguments for a trace: tracers as they are, other values as arrays of the binders' types.

    Raises:
      UsageError: one has another shape or dtype than its binder.
    """

    def taken(position: int, x: Value, v: Var) -> Value:
        if v.aval is UNTYPED:
            return x
        if not isinstance(x, Tracer):
            return numpy_namespace().argument(x, v.aval, position, v.name, program.interface)
        aval = get_aval(x)
        if not isinstance(v.aval, ShapedArray) or not isinstance(aval, ShapedArray):
            return x
        if aval.shape != v.aval.shape or aval.dtype is not v.aval.dtype:
            label = argument_label(position, v.name, program.interface)
            message = f"{label} has type {aval}, and {v.aval} is needed"
            fail(UsageError, message, "argument-type")
        return x

    binders = program.jaxpr.in_binders
    return tuple(taken(i, x, v) for i, (x, v) in enumerate(zip(args, binders, strict=True)))


_WELL_TYPED = Memo[bool]("well-typed")
