"""Lowering to StableHLO, as text.

The module is written as text, which needs no import, and which XLA's client compiles as it is.

Contract of a `lower` rule:

    rule(ctx, *operands, **params) -> HloValue          (a list of them for multiple_results)

Operands are `HloValue`s: an SSA name (`%3`, `%arg0`) with its aval; PRNG keys are words, u32[...,
n]. `ctx.in_avals` and `ctx.out_avals` are the types of the equation. The rule writes operations
with the methods of `LoweringContext`, and returns values of the types `ctx.out_avals`.

Makers: `hlo` for elementwise operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.bind import NO_EQN, interpreted, interpreting, state
from jaxprtool.core.rule_table import RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.check import check_constants
from jaxprtool.interpreters.columns.ordering import is_ordered
from jaxprtool.interpreters.discharge import pure
from jaxprtool.interpreters.evaluation.donated import aliased_results
from jaxprtool.interpreters.evaluation.missing_values import check_literal, present_constants
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.interpreters.reuse.sharing import multiplies
from jaxprtool.ir.avals import AbstractToken, ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.walk import nesting
from jaxprtool.stablehlo.builder import (
    ELEMENTWISE,
    Builder,
    HloValue,
    new_value,
    result_types,
    types_of,
)
from jaxprtool.stablehlo.functions import Function, Module, Place, identifier
from jaxprtool.stablehlo.module import StableHLO
from jaxprtool.stablehlo.templates import OFTEN, Template
from jaxprtool.stablehlo.text import mlir_type

__all__ = ["LoweringContext", "HloValue", "hlo", "lower_jaxpr", "lowering_rules"]

lowering_rules = RuleTable("lower")

# Branches nested deeper than this become functions, so that nesting never uses up the Python stack.
_MAX_REGION_DEPTH = 24

# Calls nested deeper than this are written in place: XLA uses up its stack on a few hundred.
_MAX_CALL_DEPTH = 64


def _row_major(aval: Aval) -> str:
    """Return the layout of an array whose last axis varies fastest."""
    if aval is not _TOKEN and not isinstance(aval, ShapedArray):
        message = f"a Python function cannot be given a value of type {aval} by XLA"
        fail(UnsupportedError, message, "unsupported-type")
    n = 0 if aval is _TOKEN else len(aval.shape)
    order = ", ".join(map(str, range(n - 1, -1, -1)))
    return f"dense<[{order}]> : tensor<{n}xindex>" if n else "dense<> : tensor<0xindex>"


class _Splice(NamedTuple):
    """A placeholder among the lines of a function for the body of a jaxpr, which is written when
    the function is finished.
    """

    closed: ClosedJaxpr
    operands: Sequence[HloValue]
    results: list[HloValue]
    place: Place
    tokens: tuple[HloValue, HloValue] | None = None


class LoweringContext(Builder):
    """Writes the body of one function. Lowering rules get it as their first argument.

    Attributes:
      eqn: the equation that is being lowered.
      mesh: the mesh on whose devices the current code runs, one shard each; None outside of
        shard_map.
      manual: the axes of the mesh that it runs along.

    An operation with an ordered effect takes a token and returns the next one. Branches, loops and
    functions with such operations inside pass the token on.
    """

    def __init__(self, module: Module, place: Place | None = None, token: HloValue | None = None):
        super().__init__()
        self._token = token
        self.module = module
        self.mesh, self.manual = place or Place()
        self.eqn: JaxprEqn = NO_EQN
        self.has_splices = False

    @property
    def in_avals(self) -> list[Aval]:
        """The types of the equation's operands."""
        return [x.aval for x in self.eqn.inputs]

    @property
    def out_avals(self) -> list[Aval]:
        """The types of the equation's results."""
        return [v.aval for v in self.eqn.out_binders]

    @property
    def out_aval(self) -> Aval:
        """The type of the equation's single result."""
        return self.eqn.out_binders[0].aval

    def literal(self, x: Lit) -> HloValue:
        """Write a literal operand."""
        if type(x.val) in (bool, int, float, complex):
            return self.constant(x.val, x.aval)
        check_literal(x)
        return self.constant(False, x.aval) if x.val is None else self.array(x.val, x.aval)

    def call(
        self, closed: ClosedJaxpr, operands: Sequence[HloValue], name: str = "f"
    ) -> list[HloValue]:
        """Call a jaxpr as a function of the module, which is written once for each jaxpr object."""
        deep = self.depth == 0 and nesting(closed.jaxpr) > _MAX_CALL_DEPTH
        if deep and not multiplies(closed):
            return self._splice(closed, operands)
        symbol = self.function(closed, name)
        outs = [a.physical for a in closed.out_avals]
        ordered = is_ordered(closed)
        if ordered:
            operands, outs = [self.token, *operands], [_TOKEN, *outs]
        names = ", ".join([x.name for x in operands])
        text = f"func.call @{symbol}({names}) : ({types_of(operands)}) -> {result_types(outs)}"
        return self._after(self.write_many(text, outs), ordered)

    def call_module(self, text: str, operands: Sequence[HloValue], name: str) -> list[HloValue]:
        """Call the `main` of another module as a function of this one. Raises ValueError as `Module.embed`."""
        symbol, outs = self.module.embed(text, name), [a.physical for a in self.out_avals]
        names = ", ".join([x.name for x in operands])
        text = f"func.call @{symbol}({names}) : ({types_of(operands)}) -> {result_types(outs)}"
        return self.write_many(text, outs)

    def function(self, closed: ClosedJaxpr, name: str) -> str:
        """Return the symbol of a private function of the module, which is written once for each jaxpr object."""
        return self.module.function(closed, name, Place(self.mesh, self.manual), self.eqn)

    def _splice(self, closed: ClosedJaxpr, operands: Sequence[HloValue]) -> list[HloValue]:
        results = [HloValue(self.fresh_name(), a.physical) for a in closed.out_avals]
        place, tokens = Place(self.mesh, self.manual), None
        if is_ordered(closed):
            tokens = self.token, HloValue(self.fresh_name(), _TOKEN)
            self._token = tokens[1]
        self.lines.append(_Splice(closed, operands, results, place, tokens))
        self.has_splices = True
        return results

    def _write_splices(self) -> None:
        """Write the bodies in the place of their placeholders. Not recursive."""
        done: list[str] = []
        stack = [iter(self.lines)]
        while stack:
            line = next(stack[-1], None)
            if line is None:
                stack.pop()
            elif type(line) is str:
                done.append(line)
            else:
                self.lines, self.constants = [], {}
                self.mesh, self.manual = line.place
                self._token = line.tokens[0] if line.tokens else None
                outs = self.written(line.closed, line.operands)
                if line.tokens:
                    text = f"stablehlo.after_all {self.token.name} : {mlir_type(_TOKEN)}"
                    self.lines.append(f"{self.indent}{line.tokens[1].name} = {text}")
                for result, out in zip(line.results, outs, strict=True):
                    types = f"({mlir_type(out.aval)}) -> {mlir_type(result.aval)}"
                    text = f"{result.name} = stablehlo.reshape {out.name} : {types}"
                    self.lines.append(f"{self.indent}{text}")
                stack.append(iter(self.lines))
        self.lines = done

    def inline(self, closed: ClosedJaxpr, operands: Sequence[HloValue]) -> list[HloValue]:
        """Write a jaxpr's equations in place, or a call (Note [In place or called])."""
        return (self.call if multiplies(closed) else self.written)(closed, operands)

    def written(self, closed: ClosedJaxpr, operands: Sequence[HloValue]) -> list[HloValue]:
        """Write a jaxpr's equations in place, however many they are."""
        consts = self.known_constants(closed)
        return self.body(closed.jaxpr, [*consts, *operands])

    def case(
        self, index: HloValue, branches: Sequence[ClosedJaxpr], operands: Sequence[HloValue]
    ) -> list[HloValue]:
        """Write branches[index](*operands); an index out of range selects the last branch."""
        write = self.call if self.depth >= _MAX_REGION_DEPTH else self.inline
        outs = [a.physical for a in branches[0].out_avals]
        index = self.convert(index, INT32)
        if not any(map(is_ordered, branches)):
            regions = [self.region((), lambda b=b: write(b, operands)) for b in branches]
            return self.op("case", index, out=outs, regions=regions)
        before = self.token

        def branch(b: ClosedJaxpr) -> list[HloValue]:
            self._token = before
            results = write(b, operands)
            return [self.token, *results]

        regions = [self.region((), lambda b=b: branch(b)) for b in branches]
        return self._after(self.op("case", index, out=[_TOKEN, *outs], regions=regions), True)

    def loop(
        self,
        state: Sequence[HloValue],
        holds: Callable[..., list[HloValue]],
        step: Callable[..., list[HloValue]],
        cond: ClosedJaxpr | None,
        body: ClosedJaxpr,
    ) -> list[HloValue]:
        """Write a stablehlo.while over `state`.

        A predicate with ordered effects is computed at the end of each iteration, as a part of the
        state, because the condition of a stablehlo.while cannot return a token.

        Args:
          state: the values of the loop at the start.
          holds: writes the predicate of a state, and returns it in a list.
          step: writes the next state.
          cond: the jaxpr that `holds` writes; None for a predicate without effects.
          body: the jaxpr that `step` writes.
        """
        avals = [x.aval for x in state]
        ahead = cond is not None and is_ordered(cond)
        if not ahead and not is_ordered(body):
            regions = [self.region(avals, holds), self.region(avals, step)]
            return self.op("while", *state, out=avals, regions=regions)
        first = holds(*state) if ahead else []
        carry = [self.token, *first, *state]
        avals = [x.aval for x in carry]

        def goes_on(token: HloValue, *xs: HloValue) -> list[HloValue]:
            return [xs[0]] if ahead else holds(*xs)

        def turn(token: HloValue, *xs: HloValue) -> list[HloValue]:
            self._token = token
            new = step(*xs[len(first) :])
            again = holds(*new) if ahead else []
            return [self.token, *again, *new]

        regions = [self.region(avals, goes_on), self.region(avals, turn)]
        return self._after(self.op("while", *carry, out=avals, regions=regions), True)[len(first) :]

    @property
    def token(self) -> HloValue:
        """The token that the last operation with an ordered effect returned."""
        if self._token is None:
            self._token = self.op("create_token", out=_TOKEN)
        return self._token

    def _after(self, results: list[HloValue], ordered: bool) -> list[HloValue]:
        """Drop the token, which is the first result of an ordered operation, from the results; it
        becomes the current token.
        """
        if not ordered:
            return results
        self._token = results[0]
        return results[1:]

    def python(
        self,
        function: Callable[..., Sequence[Value]],
        operands: Sequence[HloValue],
        *,
        pure: bool = False,
        ordered: bool = False,
    ) -> list[HloValue]:
        """Call a Python function of NumPy arrays, whose results have the types `out_avals`.

        A pure function may be left out, or called twice. Ordered calls happen in the order of the
        program.
        """
        outs = self.out_avals
        if ordered:
            operands, outs = [self.token, *operands], [_TOKEN, *outs]
            function = _passing_token(function)
        self.module.callbacks.append(function)
        index = len(self.module.callbacks) - 1
        effect = "" if pure else "has_side_effect = true, "
        layouts = ", ".join(
            f"{kind}_layouts = [{', '.join(map(_row_major, values))}]"
            for kind, values in (
                ("operand", [x.aval for x in operands]),
                ("result", outs),
            )
        )
        names = ", ".join(x.name for x in operands)
        text = (
            f"stablehlo.custom_call @xla_ffi_python_cpu_callback({names}) "
            f"{{api_version = 4 : i32, {effect}backend_config = {{index = {index} : ui64}}, "
            f"{layouts}}} : ({types_of(operands)}) -> {result_types(outs)}"
        )
        return self._after(self.write_many(text, outs), ordered)

    def known_constants(self, closed: ClosedJaxpr) -> list[HloValue]:
        """Return the constants of a jaxpr as values; raises UsageError for one that is not in the file."""
        return [self.constant_of(v, c) for v, c in present_constants(closed)]

    def constant_of(self, v: Value, value: Value) -> HloValue:
        """Return the value of a constant of type `v.aval`."""
        if type(value) in (bool, int, float, complex):
            return self.constant(value, v.aval)
        return self.array(value, v.aval)

    def body(self, jaxpr: Jaxpr, args: Sequence[HloValue]) -> list[HloValue]:
        """Write the equations of a jaxpr, given its constants and arguments; returns its results."""
        env: dict[Any, HloValue] = dict(zip(jaxpr.all_binders, args, strict=True))
        outer, rules, literal = self.eqn, lowering_rules.rules, self.literal
        templates, by_rule = self.module.templates, self.mesh is not None
        with interpreting():
            for eqn in interpreted(jaxpr.eqns):
                self.eqn = eqn
                primitive, binders, params = eqn.primitive, eqn.out_binders, eqn.params
                ins = [env[x] if type(x) is not Lit else literal(x) for x in eqn.inputs]
                several = primitive.multiple_results
                if several or by_rule:  # in a mesh lines depend on more than the key of a template
                    rule = rules.get(primitive) or lowering_rules[primitive]
                    out = rule(self, *ins, **params)
                    if several:
                        env.update(zip(binders, out, strict=True))
                    else:
                        env[binders[0]] = out
                    continue
                names, types = zip(*ins, strict=True) if ins else ((), ())
                key = primitive, id(params), self.indent, binders[0].aval, types
                found = templates.get(key)
                out = found.write(self, names) if type(found) is Template else None
                if out is None:
                    out = self._written_by_rule(key, found, ins)
                env[binders[0]] = out
        self.eqn = outer
        return [env[x] if type(x) is not Lit else literal(x) for x in jaxpr.outs]

    def _written_by_rule(
        self, key: tuple[Any, ...], found: Any, ins: Sequence[HloValue]
    ) -> HloValue:
        """Write the current equation by its rule; make a template of it where enough similar ones were written.

        Args:
          key: what the lines depend on besides names, including the `id` of the params.
          found: the entry of `Module.templates` for the key: None, or the number of times it was
            written so far.
          ins: the operands.
        """
        module, params = self.module, self.eqn.params
        rule = lowering_rules[self.eqn.primitive]
        if found is None:
            module.templates[key] = found = 0
            module.alive.append(params)
        if type(found) is not int:
            return rule(self, *ins, **params)
        if found < OFTEN:
            module.templates[key] = found + 1
            return rule(self, *ins, **params)
        start, first = len(self.lines), self.counter
        before = len(self.constants), self._token, len(module.callbacks)
        out = rule(self, *ins, **params)
        if before == (len(self.constants), self._token, len(module.callbacks)):
            module.templates[key] = Template.of(self, self.lines[start:], first, ins, out)
        return out

    def finish(
        self,
        symbol: str,
        visibility: str,
        args: list[HloValue],
        outs: list[HloValue],
        aliases: Mapping[str, int] | None = None,
    ) -> str:
        """Return the text of the function.

        `aliases` maps the name of an argument to the position of the result that takes its memory.
        """
        self.write_return("return", outs)
        if self.has_splices:
            self._write_splices()
        notes = {x: f" {{tf.aliasing_output = {i} : i32}}" for x, i in (aliases or {}).items()}
        header = ", ".join([f"{x.name}: {mlir_type(x.aval)}{notes.get(x.name, '')}" for x in args])
        results = f"({types_of(outs)})" if len(outs) != 1 else mlir_type(outs[0].aval)
        first = f"  func.func {visibility} @{symbol}({header}) -> {results} {{"
        return "\n".join([first, *self.lines, "  }"])


_TOKEN = AbstractToken()


def _passing_token(function: Callable[..., Sequence[Value]]) -> Callable[..., Sequence[Value]]:
    return lambda token, *values: (token, *function(*values))


@deep
def lower_jaxpr(
    closed: ClosedJaxpr,
    name: str = "main",
    context: type[LoweringContext] = LoweringContext,
    *,
    donate: bool = False,
) -> StableHLO:
    """Lower a program to a StableHLO module whose function is `main`.

    Args:
      closed: the program. Constants without a value become its first arguments, others are part of
        the text.
      name: the module is called `jit_<name>`.
      context: the class that writes the functions.
      donate: whether results take the memory of arguments that the program's call donates; the
        caller loses these.

    Raises:
      MissingRuleError: a primitive has no `lower` rule; the diagnostic has the equation's position.
      UnsupportedError: a type that StableHLO does not have.
    """
    check_constants(closed)
    closed = pure(closed)
    module = Module()
    ctx = context(module)
    jaxpr = closed.jaxpr
    consts = closed.consts or [None] * len(jaxpr.const_binders)
    missing = [v for v, c in zip(jaxpr.const_binders, consts, strict=True) if c is None]
    binders = [*missing, *jaxpr.in_binders]
    args = {v: HloValue(f"%arg{i}", v.aval.physical) for i, v in enumerate(binders)}
    values = [
        args[v] if c is None else ctx.constant_of(v, c)
        for v, c in zip(jaxpr.const_binders, consts, strict=True)
    ]
    outs = ctx.body(jaxpr, [*values, *(args[v] for v in jaxpr.in_binders)])
    aliases = {args[v].name: i for v, i in aliased_results(closed).items()} if donate else {}
    functions = [ctx.finish("main", "public", list(args.values()), outs, aliases)]
    while module.pending:  # a worklist: calls nested to any depth do not nest here
        functions.append(_lower_function(module, module.pending.pop(), context))
    n = module.devices
    if n > 1 and is_ordered(closed):
        fail(
            UnsupportedError,
            f"ordered output or callbacks in a program that runs on {n} devices",
            "ordered-effect",
            help="leave out ordered=True, or run the program on NumPy",
        )
    attributes = f"{{mhlo.num_partitions = {n} : i32, mhlo.num_replicas = 1 : i32}}"
    head = f"module @jit_{identifier(name)} attributes {attributes} {{"
    text = "\n".join([head, *module.mesh_lines(), *functions, *module.foreign, "}", ""])
    out_avals = [x.aval for x in jaxpr.outs]
    in_avals = [v.aval for v in binders]
    return StableHLO(text, in_avals, out_avals, module.callbacks, n, of_open(closed))


def _lower_function(module: Module, function: Function, context: type[LoweringContext]) -> str:
    token = HloValue("%token", _TOKEN) if is_ordered(function.closed) else None
    ctx = context(module, function.place, token)
    avals = function.closed.in_avals
    args = [new_value((f"%arg{i}", a.physical)) for i, a in enumerate(avals)]
    with interpreting():
        state.eqn = function.eqn
        outs = ctx.written(function.closed, args)
    if token is not None:
        args, outs = [token, *args], [ctx.token, *outs]
    return ctx.finish(function.symbol, "private", args, outs)


# -- makers ------------------------------------------------------------------------------------


def hlo(name: str) -> Callable[..., HloValue]:
    """Return the lowering rule of an elementwise operation, by its name in StableHLO or CHLO (`chlo.erf`).

    Operands of rank 0, or with dimensions of size 1, are broadcast to the shape of the result;
    params are ignored.
    """

    is_short, start = name in ELEMENTWISE, f"stablehlo.{name} "

    def rule(ctx: LoweringContext, *operands: HloValue, **_: ParamValue) -> HloValue:
        out = ctx.eqn.out_binders[0].aval
        if is_short:
            for x in operands:
                if x.aval is not out:
                    break
            else:
                text = f"{start}{', '.join([x.name for x in operands])} : {mlir_type(out)}"
                return ctx.write(text, out)
        shape = out.shape
        for x in operands:
            if x.aval.shape != shape:
                operands = tuple([ctx.fill(x, shape) for x in operands])
                break
        return ctx.op(name, *operands, out=out)

    return rule
