"""The callbacks of the grammar for equations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jaxprtool.core.primitive import declared_primitive, find_primitive
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import (
    Aval,
    ClosedJaxpr,
    DropVar,
    JaxprEqn,
    Params,
    Primitive,
    Var,
    new_eqn,
)
from jaxprtool.ir.primitive import ReadParams
from jaxprtool.ir.spans import Span, new_span
from jaxprtool.syntax.autodidax import from_autodidax
from jaxprtool.syntax.building.atoms import Atoms, undrop
from jaxprtool.syntax.building.drops import Drops, decide_reads
from jaxprtool.syntax.building.params import GivenParam, ParamCallbacks
from jaxprtool.syntax.building.tuples import OF_TUPLES, has_tuples
from jaxprtool.syntax.elided_params import recover_params
from jaxprtool.syntax.errors import Errors
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.refs import read_reference
from jaxprtool.syntax.releases.earlier import (
    OLDER,
    expanded,
    from_older,
    has_leaves,
    is_earlier,
    is_older,
)
from jaxprtool.syntax.releases.earlier_equations import has_sizes, with_jaxpr
from jaxprtool.syntax.releases.spellings import EACH_LEAF, SIZES, TELLING, told_by
from jaxprtool.syntax.scanning.blocks import Block
from jaxprtool.syntax.scanning.comments import CommentScanner
from jaxprtool.syntax.scanning.hints import operand_hint, primitive_hint
from jaxprtool.syntax.scanning.lines import start_of
from jaxprtool.syntax.tokens import LITERAL, TRANSFORMED, Token

__all__ = ["EquationCallbacks"]

# An equation of the tutorial may be two of ours.
Equations: TypeAlias = JaxprEqn | list[JaxprEqn]

_LITERAL = pattern(LITERAL)
_TRANSFORMED = pattern(TRANSFORMED)
_NO_NAME = pattern(r"""[\](){}=,;'"]""")  # what stands in no name of a primitive


class _Found(NamedTuple):
    """What the name of a primitive stands for.

    Attributes:
      primitive: the primitive; None where the text is not a name.
      current: whether all releases, and this package, spell its equations in one way.
      bare: the params of an equation whose text has none; None where they depend on its binders.
    """

    primitive: Primitive | None
    current: bool
    bare: Params | None


class EquationCallbacks:
    """Builds equations.

    Attributes:
      places: equations by the offsets of their primitives' names, where the text has annotations.
      with_params: what names stand for in equations whose texts have params.
      without: the same in equations whose texts have none.
    """

    def __init__(
        self,
        errors: Errors,
        atoms: Atoms,
        drops: Drops,
        comments: CommentScanner,
        params: ParamCallbacks,
        annotated: bool,
    ):
        self.source, self.errors, self.atoms, self.drops = errors.source, errors, atoms, drops
        self.scopes = atoms.scopes
        self.comments, self.params, self.annotated = comments, params, annotated
        self.places: list[tuple[int, JaxprEqn]] = []
        self.with_params: dict[str, _Found] = {}
        self.without: dict[str, _Found] = {}

    def on_first_equation(self, eqn: Equations) -> list[JaxprEqn]:
        return eqn if isinstance(eqn, list) else [eqn]

    def on_more_equations(self, eqns: list[JaxprEqn], eqn: Equations) -> list[JaxprEqn]:
        if isinstance(eqn, list):
            eqns += eqn
        else:
            eqns.append(eqn)
        return eqns

    def on_several_equations(self, token: Token) -> list[JaxprEqn]:
        return self.on_more_equations_together([], token)

    def on_more_equations_together(self, eqns: list[JaxprEqn], token: Token) -> list[JaxprEqn]:
        for match, block, at, end in token[1]:
            eqn = self._equation(match, (), at, end, (), block)
            if isinstance(eqn, list):
                eqns += eqn
            else:
                eqns.append(eqn)
        return eqns

    def on_plain(self, token: Token, operands: Token) -> Equations:
        return self._equation(token[1], (), operands[2], operands[3])

    def on_with_params(
        self, token: Token, _: Token, params: list[GivenParam], close: Token, operands: Token
    ) -> Equations:
        del close
        return self._equation(token[1], params, operands[2], operands[3])

    def on_with_known_params(self, token: Token, block: Token, operands: Token) -> Equations:
        return self._equation(token[1], (), operands[2], operands[3], (), block[1])

    def on_plain_with_jaxprs(
        self, token: Token, operands: Token, jaxprs: list[ClosedJaxpr]
    ) -> Equations:
        return self._equation(token[1], (), operands[2], operands[3], jaxprs)

    def on_with_params_and_jaxprs(
        self,
        token: Token,
        _: Token,
        params: list[GivenParam],
        close: Token,
        operands: Token,
        jaxprs: list[ClosedJaxpr],
    ) -> Equations:
        del close
        return self._equation(token[1], params, operands[2], operands[3], jaxprs)

    def _equation(
        self,
        match: re.Match[str],
        params: Sequence[GivenParam],
        at: int,
        end: int,
        jaxprs: Sequence[ClosedJaxpr] = (),
        block: Block | None = None,
    ) -> Equations:
        """Build an equation, whose operands lie between two offsets."""
        _, binders, name = match.groups()
        scope, text = self.scopes[-1], self.source.text[at:end]
        found = self.with_params if params or block else self.without
        primitive, current, bare = found.get(name) or self._find(match, found)
        if primitive is None:
            text, primitive = "", find_primitive(name)
        if "Literal(" in text:
            text = _LITERAL.sub(r"\1", text)
        if "=" in text:
            text = self._one_equation(text, at)
        words = text.split()
        inputs: list[Any] = [*map(scope.vars.get, words)]
        if None in inputs:
            inputs = self.atoms.operands(words, text, scope, at, end)
        if block is not None and not block.repeatable:
            params, block = block.params, None
        if jaxprs or scope.autodidax or not (current or block):
            return self._of_any_release(primitive, match, params, inputs, jaxprs, end)
        start = match.start(2)
        if binders:
            outs = self.atoms.binders(scope, binders, start)
        else:
            outs, start = [], match.start(3)
        if block is not None:
            given = self.params.repeated(primitive, block, match.end(), outs)
        elif params:
            given = recover_params(primitive, self.params.read(primitive, params), outs)
        else:
            given = recover_params(primitive, {}, outs) if bare is None else bare
        return self._made(primitive, inputs, given, outs, match, start, end)

    def _made(
        self,
        primitive: Primitive,
        inputs: list[Any],
        given: Mapping[str, Any],
        binders: list[Var],
        match: re.Match[str],
        start: int,
        end: int,
    ) -> JaxprEqn:
        span = new_span((self.source, start, end, None))
        comments = self.comments.of_equation(start) if self.comments.present else None
        eqn = new_eqn(primitive, inputs, given, binders, span, comments)
        if self.annotated:
            self.places.append((match.start(3), eqn))
        if self.drops.found:
            # First: the types of the results of its jaxprs say which operands fit.
            self.drops.resolve(eqn)
        if self.atoms.doubtful:
            self.atoms.doubtful = False
            decide_reads(eqn, self.scopes[-1], self.atoms.wide)
        return eqn

    def _find(self, match: re.Match[str], table: dict[str, _Found]) -> _Found:
        """Look up what a name stands for in equations with params, or without; the result is cached in `table`."""
        name = match[3]
        primitive = find_primitive(name)
        if (
            not primitive.known
            and _NO_NAME.search(name)
            and not _TRANSFORMED.match(match.string, match.start(3))
        ):
            self._refuse_name(name, match.start(3))
            return _Found(None, False, None)
        if self.scopes[-1].autodidax:
            return _Found(primitive, False, None)
        if not primitive.known and name not in OLDER:
            primitive = declared_primitive(name) or primitive  # by an installed plug-in
        current, bare = primitive.known and name not in OF_TUPLES, None
        if table is self.with_params:
            current = current and name not in OLDER and name not in TELLING
        else:
            if name in TELLING:
                self.params.told.update(told_by(name, {}))
            current = current and not (name in OLDER and is_older(primitive, {}))
            if not primitive.recovered:
                bare = Params(recover_params(primitive, {}, []))
        table[name] = found = _Found(primitive, current, bare)
        return found

    def _of_any_release(
        self,
        primitive: Primitive,
        match: re.Match[str],
        params: Sequence[GivenParam],
        inputs: list[Any],
        jaxprs: Sequence[ClosedJaxpr],
        end: int,
    ) -> Equations:
        """Build an equation that other releases, or Autodidax, spell in another way."""
        scope, start = self.scopes[-1], start_of(match)
        given: dict[str, Any] = self.params.read(primitive, params) if params else {}
        if jaxprs and not scope.autodidax:
            inputs, given = self._called(primitive, inputs, given, jaxprs)
        binders = self.atoms.binders(scope, match[2], start) if match[2] else []
        before = None
        if scope.autodidax:
            primitive, inputs, given, before = from_autodidax(primitive, inputs, given, jaxprs)
        elif (primitive.name in OLDER or not primitive.known) and is_older(primitive, given):
            if has_leaves(primitive, inputs, binders):
                self.params.told.add(("before", EACH_LEAF))
            several = expanded(primitive, inputs, given, binders)
            if several is not None and has_sizes(given):
                self.params.told.add(("before", SIZES))
            if several is not None and not self.atoms.lone:
                return self._several(several, match, end)
            self.atoms.missing.earlier |= is_earlier(primitive)
            primitive, inputs, given = from_older(primitive, inputs, given)
        read = given
        given = recover_params(primitive, given, binders)
        if isinstance(read, ReadParams):
            given = ReadParams(given, read.was)
        eqn = self._made(primitive, inputs, given, binders, match, start, end)
        if primitive.name in OF_TUPLES and has_tuples(eqn):
            self.atoms.missing.tuples = True
        return eqn if before is None else [before, eqn]

    def _called(
        self,
        primitive: Primitive,
        inputs: list[Any],
        given: dict[str, Any],
        jaxprs: Sequence[ClosedJaxpr],
    ) -> tuple[list[Any], dict[str, Any]]:
        """Build a call whose jaxpr stands below it, to 0.1.57: its constants and free variables become operands."""
        closed, scope = jaxprs[0], self.scopes[-1]
        bound = self.params.bound.get(closed)
        first: list[Any] = []
        if bound is not None:
            words = bound[1].replace(";", " ").split()
            first = [self.atoms.atom(word, scope, bound[2], bound[3]) for word in words]
        return [*first, *inputs], with_jaxpr(primitive, given, closed)

    def _several(self, eqns: list[JaxprEqn], match: re.Match[str], end: int) -> Equations:
        """Build the equations that replace one equation of the text."""
        start = start_of(match)
        span = Span(self.source, start, end)
        comments = self.comments.of_equation(start) if self.comments.present else None
        placed = [eqn.replace(span=span) for eqn in eqns]
        placed[0] = placed[0].replace(comments=comments)
        if self.annotated:
            self.places += [(match.start(3), eqn) for eqn in placed]
        return placed

    def _refuse_name(self, name: str, start: int) -> None:
        help = primitive_hint(name)
        message = "an operation is no call" if help else f"{name} is no name of an operation"
        self.errors.add(message, "syntax", start, start + len(name), help)

    def _one_equation(self, text: str, start: int) -> str:
        """Return the operands before a second equation on the line, which is an error."""
        found = operand_hint(text, start)
        if found is None:
            return text
        self.errors.add(found.message, "syntax", found.start, found.end, found.help)
        self.atoms.presume(self.scopes[-1], text[found.start - start :], found.start)
        return text[: found.start - start]

    def on_reference(self, token: Token) -> JaxprEqn:
        atoms, scope, text = self.atoms, self.scopes[-1], token[1][1]
        start, end = token[2], token[3]
        reference = read_reference(text, scope.vars)
        if reference is None:
            self.errors.add("malformed equation on a reference", "syntax", start, end)
            return JaxprEqn(_NOTHING, [], {}, [])
        primitive = reference.primitive
        inputs = [atoms.atom(word, scope, start, end) for word in reference.operands]
        if inputs and not isinstance(inputs[0], Var):
            message = f"{reference.operands[0]} is a number, where a reference has to stand"
            self.errors.add(message, "not-a-reference", start, end)
            return JaxprEqn(_NOTHING, [], {}, [])
        atoms.type_stored(primitive, inputs)
        binders = atoms.binders(scope, reference.out, start) if reference.out else []
        if primitive.notation == "write" and not binders:
            binders = [DropVar(_held_by(inputs[1].aval))]
        elif primitive.notation == "write" and isinstance(binders[0], DropVar):
            binders = [undrop(binders[0])]  # JAX has a variable, or it would print the short form
        params = {**primitive.defaults, **reference.params}
        comments = self.comments.of_equation(start) if self.comments.present else None
        span = Span(self.source, start, end)
        eqn = JaxprEqn(primitive, inputs, params, binders, span, comments)
        if self.annotated:
            self.places.append((start, eqn))
        return eqn


_NOTHING = Primitive("", known=False)  # of an equation that is no equation


def _held_by(aval: Aval) -> Aval:
    return aval.inner if isinstance(aval, RefType) else aval
