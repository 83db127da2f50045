"""A second reader of the language: Lark's tree of `grammar/jaxpr.lark` made into programs.

It shares no scanning with the fast reader: types, literals, values of params, constants, references and comments are taken
from the tree. What a text means beyond its syntax (params that a print hides, spellings of earlier releases,
types that a text leaves out) is the same code for both.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from lark import Token, Tree

from jaxprtool.core.kinds.containers import Anything
from jaxprtool.core.kinds.functions import JAXPR, TEXT
from jaxprtool.core.kinds.numbers import ELEMENT_TYPE
from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.avals import (
    AbstractToken,
    AxisGroups,
    FutureType,
    OpaqueType,
    RefType,
    ShapedArray,
    SymbolicDim,
)
from jaxprtool.ir.diagnostics import JaxprTypeError
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Var, Written
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.references import Fragments, Operand
from jaxprtool.syntax.autodidax import from_autodidax
from jaxprtool.syntax.building.atoms import next_drop, undrop
from jaxprtool.syntax.building.drops import decide_reads
from jaxprtool.syntax.building.tuples import OF_TUPLES, has_tuples, take_tuples_apart
from jaxprtool.syntax.building.units import UNIT, take_units_out
from jaxprtool.syntax.building.unread import stand_in_for_unread
from jaxprtool.syntax.elided_params import recover_params
from jaxprtool.syntax.infer import infer_literals, untyped_literal
from jaxprtool.syntax.inference.open_programs import infer_types
from jaxprtool.syntax.releases.earlier import OLDER, declared_params, expanded, from_older, is_older
from jaxprtool.syntax.releases.earlier_equations import with_jaxpr
from jaxprtool.syntax.tokens import LITERAL
from jaxprtool.syntax.types import UNTYPED
from tests.syntax.lark_definitions import Mistaken, of_themselves
from tests.syntax.lark_interface import interface_of
from tests.syntax.lark_references import index_of
from tests.syntax.lark_tree import Comments, Meaningless, Rejected, tokens, tree_of, trees
from tests.syntax.lark_values import constant, reject_fault, scalar, value_of

__all__ = ["read_with_lark"]

_ANY = Anything()
_KEY_IN_NAME = re.compile(r"(?<=\s)\w+=(?!=)")
_LITERAL = re.compile(LITERAL)
_GROUP = re.compile(r"([VUR](?:_max|_min)?):\(?([^()\s]+?)\)?(?:, |\Z)")
_TYPES = ("array", "token", "ref", "future", "opaque")


class _Scope:
    def __init__(self, autodidax: bool = False):
        self.vars: dict[str, Var] = {}
        self.drops: list[Var] = []
        self.reads: dict[Var, int] = {}
        self.autodidax, self.lone, self.inputs = autodidax, False, []


def read_with_lark(text: str) -> dict[str, ClosedJaxpr]:
    """The programs of a text, by name; raises `Rejected` or `Meaningless`."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")
    tree = tree_of(text)
    words: frozenset[str] = frozenset()
    while True:
        try:
            return _File(text, None, False, Comments(tree, len(text)), words).file(tree)
        except Mistaken as e:
            words |= e.names


class _File:
    """One text, and what is known of it while it is read."""

    def __init__(
        self,
        text: str,
        outer: dict[str, ClosedJaxpr] | None = None,
        wide: bool = False,
        comments: Any = None,
        words: frozenset[str] = frozenset(),
    ):
        self.text, self.outer, self.wide, self.comments = text, outer or {}, wide, comments
        self.words = words  # names that are words in params of primitives that are not known
        self.guessed: set[str] = set()
        self.shells: dict[str, ClosedJaxpr] = dict(self.outer)
        self.dropped: dict[Jaxpr, tuple[list[int], _Scope]] = {}
        self.untyped_binders = self.untyped_literals = self.units = self.tuples = False
        self.scopes: list[_Scope] = []
        self.around: _File | None = (
            None  # what reads the program that a jaxpr inside a value stands in
        )

    def within(self, text: str, tree: Tree) -> _File:
        """What reads a jaxpr inside a value: it may use the shared jaxprs around it."""
        found = _File(text, self.shells, self.wide, Comments(tree, len(text)), self.words)
        found.around = self
        return found

    def file(self, tree: Tree) -> dict[str, ClosedJaxpr]:
        """All programs of the text."""
        found = self.programs(tree)
        self.comment(list(found.values())[-1], len(self.text), "end")
        return found

    def programs(self, tree: Tree) -> dict[str, ClosedJaxpr]:
        self.wide = any(True for _ in tree.find_data("autodidax_jaxpr"))
        if tree.data == "one_program":
            return {"": self.whole(trees(tree, "program", "interface"))}
        if tree.data == "named_programs":
            found: dict[str, ClosedJaxpr] = {}
            starts = [i for i, c in enumerate(tree.children) if is_name(c)]
            for start, end in itertools.pairwise([*starts, len(tree.children)]):
                name, *rest = tree.children[start:end]
                assert isinstance(name, Token)
                key = name.partition("=")[0].strip()
                if key in found:
                    raise Meaningless(f"{key} is defined twice")
                found[key] = self.whole([c for c in rest if isinstance(c, Tree)])
                self.comment(found[key], name.start_pos)
            return found
        return {"": self.lone(trees(tree, "lone_equation")[0])}

    def whole(self, parts: list[Tree]) -> ClosedJaxpr:
        """A program, and the interface after it if there is one."""
        closed = self.program(parts[0])
        for interface in parts[1:]:
            self.comment(closed, tokens(interface, "ARGS")[0].start_pos, "interface")
            found = interface_of(interface)
            if not found.fits(len(closed.jaxpr.in_binders), len(closed.jaxpr.outs)):
                raise Meaningless("the interface has another number of leaves")
            closed = closed.replace(interface=found)
        return closed

    def lone(self, tree: Tree) -> ClosedJaxpr:
        if (
            trees(tree, "loose_results")
            and declared_params(str(tokens(tree, "PRIMITIVE")[0])) is None
        ):
            raise Rejected(0)
        scope = _Scope()
        scope.lone = True
        self.scopes.append(scope)
        (eqn,) = self.equation(tree, scope)
        outs = [v for v in eqn.out_binders if not isinstance(v, DropVar)]
        jaxpr = Jaxpr(scope.inputs, [eqn], outs, written=Written({}, lone_equation=True))
        closed = ClosedJaxpr(jaxpr)
        self.infer(closed, [])
        return closed

    def program(self, tree: Tree) -> ClosedJaxpr:
        """A jaxpr with its definitions."""
        self.shells, own = dict(self.outer), trees(tree, "definition")
        names = [_name_of(d) for d in own]
        if len(set(names)) < len(names):
            raise Meaningless("a definition has the name of another")
        self.shells |= {name: ClosedJaxpr(Jaxpr([], [], [])) for name in names}
        for name, definition in zip(names, own, strict=True):
            found = self.jaxpr(trees(definition)[0])
            self.comment(found, tokens(definition, "LET")[0].start_pos)
            amend(self.shells[name], jaxpr=found.jaxpr, consts=found.consts)
        closed = self.jaxpr(trees(tree, "jaxpr", "autodidax_jaxpr")[0])
        of_own = of_themselves({name: self.shells[name] for name in names})
        if mistaken := of_own & self.guessed:
            raise Mistaken(mistaken)
        if own:
            definitions = {name: self.shells[name] for name in names}
            written = closed.jaxpr.written or Written({})
            amend(closed.jaxpr, written=written._replace(definitions=definitions))
        self.infer(closed, [self.shells[name] for name in names])
        return closed

    def infer(self, closed: ClosedJaxpr, definitions: list[ClosedJaxpr]) -> None:
        if self.around is not None:  # its types may follow from the program around it
            self.around.units |= self.units
            self.around.tuples |= self.tuples
            self.around.untyped_binders |= self.untyped_binders
            self.around.untyped_literals |= self.untyped_literals
            return
        if self.tuples and (wrong := take_tuples_apart([closed, *definitions])):
            raise Meaningless(wrong[0].message)
        if self.units:
            take_units_out([closed, *definitions])
        if self.untyped_binders:
            stand_in_for_unread(closed)
            infer_types(closed, definitions, self.wide)
        elif self.untyped_literals:
            infer_literals([closed, *definitions], self.wide)
        self.untyped_binders = self.untyped_literals = False

    # ---- jaxprs

    def jaxpr(self, tree: Tree) -> ClosedJaxpr:
        scope = _Scope(tree.data == "autodidax_jaxpr")
        self.scopes.append(scope)
        runs = [[self.bound(scope, b, True) for b in self.pairs(r)] for r in trees(tree, "binders")]
        if len(runs) == 3:
            runs = [runs[0] + runs[1], runs[2]]
        consts, ins = runs if len(runs) == 2 else ([], runs[0])
        for run in runs:
            _place(scope, run)
        eqns: list[JaxprEqn] = []
        for equation in trees(tree, "equation", "over_lines", "autodidax_equation"):
            eqns += self.equation(equation, scope)
        jaxpr = Jaxpr(ins, eqns, (), consts)
        old = trees(tree, "old_results")
        outs = (
            self.old_outs(old[0], scope)
            if old
            else self.outs(trees(tree, "results")[0], scope, jaxpr)
        )
        amend(jaxpr, outs=tuple(outs))
        for part in trees(tree, "results"):
            for token in tokens(part, "EFFECTS"):
                effects = " ".join(token.split()) if "\n" in token else str(token)
                amend(jaxpr, written=Written({}, effects=f" {effects}"))
        closed = ClosedJaxpr(jaxpr, [None] * len(consts))
        if self.comments is not None:
            ends = [
                *tokens(tree, "RESULTS", "RESULTS_BESIDE"),
                *(t for o in old for t in tokens(o, "OLD_IN")),
            ]
            results = ends[0].start_pos
            head = self.comments.above.get(tree.meta.start_pos, [])
            tail = self.comments.above.get(results, [])
            if head or tail:
                amend(jaxpr, comments={"head": head, "tail": tail})
        for where in trees(tree, "where"):
            self.where(where, scope, closed)
        self.scopes.pop()
        return closed

    def pairs(self, tree: Tree) -> list[tuple[str, Tree | None]]:
        """Names, and the types of those that have one."""
        found: list[tuple[str, Tree | None]] = []
        for child in tree.children:
            if isinstance(child, Tree) and child.data == "binder":
                found += self.pairs(child)
            elif isinstance(child, Tree):
                if child.data in _TYPES:
                    found[-1] = found[-1][0], child
            elif child.type == "UNPACKED":
                found += [(name, None) for name in child.strip("()").split()]
            elif child.type in ("NAME", "RESULT", "LOOSE_RESULT", "LOOSE_OVER", "GOT", "SWAPPED"):
                found.append((str(child), None))
        return found

    def bound(self, scope: _Scope, pair: tuple[str, Tree | None], head: bool = False) -> Var:
        name, kind = pair
        if kind is None:
            self.untyped_binders = True
        aval = UNTYPED if kind is None else self.type(kind)
        if name == "_":
            return DropVar(aval, "_")
        if name in scope.vars:
            if head and kind is None and len(self.scopes) > 1:
                return Var(aval, name)
            raise Meaningless(f"{name} is bound twice")
        scope.vars[name] = Var(aval, name)
        return scope.vars[name]

    def outs(self, tree: Tree, scope: _Scope, jaxpr: Jaxpr) -> list[Any]:
        outs: list[Any] = []
        dropped = []
        for i, atom in enumerate(trees(tree, "atom")):
            if str(atom.children[0]) == "_" and scope.drops and "_" not in scope.vars:
                dropped.append(i)
                outs.append(None)
            else:
                outs.append(self.atom(atom, scope))
        if dropped:
            self.dropped[jaxpr] = dropped, scope
            self.read_drops(jaxpr, outs, [None] * len(outs))
        return outs

    def old_outs(self, tree: Tree, scope: _Scope) -> list[Any]:
        """Results of a release to 0.1.60: one alone, none, several in a list; a unit is no result."""
        words = [_LITERAL.sub(r"\1", token) for token in tokens(tree, "OLD_RESULT")]
        return [
            self.atom(Tree("atom", [Token("NAME_READ", word)]), scope)
            for word in words
            if word != "*"
        ]

    def read_drops(self, jaxpr: Jaxpr, outs: list[Any], avals: list[Any]) -> None:
        """Each `_` among the results is the next `_` binder of its type, or the next of any."""
        positions, scope = self.dropped[jaxpr]
        free = list(range(len(scope.drops)))
        for i in positions:
            aval = avals[i] if i < len(avals) else None
            fits = [k for k in free if aval is not None and scope.drops[k].aval == aval]
            k = (fits or free or [0])[0]
            if k in free:
                free.remove(k)
            outs[i] = undrop(scope.drops[k])

    # ---- equations

    def equation(self, tree: Tree, scope: _Scope) -> list[JaxprEqn]:
        """An equation with its comments, after what has to come before it."""
        made = self.uncommented(tree, scope)
        if self.comments is not None:
            first = tree.children[1] if tree.data == "over_lines" else tree
            start = getattr(first, "start_pos", tree.meta.start_pos)
            above, after = self.comments.above.get(start, []), self.comments.after.get(start, "")
            if above or after:
                made[-1] = made[-1].replace(comments=(*above, after))
        return made

    def uncommented(self, tree: Tree, scope: _Scope) -> list[JaxprEqn]:
        for reference in trees(tree, "reference", "get", "swap", "set", "addupdate", "raw"):
            return [self.reference(reference, scope)]
        (name,) = [
            t
            for part in (tree, *trees(tree, "spaced"))
            for t in tokens(part, "PRIMITIVE", "ALONE", "TEXT_PRIMITIVE")
        ]
        primitive = find_primitive(str(name))
        lists = [
            found
            for part in (tree, *trees(tree, "spaced", "params", "text_params"))
            for found in trees(part, "param_list", "text_param_list")
        ]
        params = self.params(primitive, lists[0]) if lists else {}
        operands = [a for o in trees(tree, "operands") for a in trees(o, "atom")]
        inputs = self.operands(operands, scope)
        below = [self.jaxpr(j) for j in trees(tree, "jaxpr", "autodidax_jaxpr")]
        before, left = (
            None,
            [
                side
                for part in (tree, *trees(tree, "spaced"))
                for side in trees(part, "typed_results", "loose_results")
            ],
        )
        left += [tree] if tree.data == "over_lines" else []
        binders = [self.bound(scope, p) for side in left for p in self.pairs(side)]
        _place(scope, binders)
        if below and not scope.autodidax:
            bound = tokens(tree, "BOUND")
            words = re.findall(r"[^\s;\[\]]+", bound[0]) if bound else []
            first = [self.atom(Tree("atom", [Token("NAME_READ", w)]), scope) for w in words]
            inputs, params = [*first, *inputs], with_jaxpr(primitive, params, below[0])
        if scope.autodidax:
            primitive, inputs, params, before = from_autodidax(primitive, inputs, params, below)
        elif (primitive.name in OLDER or not primitive.known) and is_older(primitive, params):
            several = expanded(primitive, inputs, params, binders)
            if several is not None and not scope.lone:
                return several
            primitive, inputs, params = from_older(primitive, inputs, params)
        params = recover_params(primitive, params, binders)
        eqn = JaxprEqn(primitive, inputs, params, binders)
        self.tuples = self.tuples or (primitive.name in OF_TUPLES and has_tuples(eqn))
        for value in params.values():
            if isinstance(value, ClosedJaxpr) and value.jaxpr in self.dropped:
                outs = [*value.jaxpr.outs]
                self.read_drops(value.jaxpr, outs, [v.aval for v in binders])
                amend(value.jaxpr, outs=tuple(outs))
                del self.dropped[value.jaxpr]
        if len(scope.drops) > 1:
            decide_reads(eqn, scope, self.wide)
        return [eqn] if before is None else [before, eqn]

    def comment(self, closed: ClosedJaxpr, start: int | None, place: str = "head") -> None:
        """Give the comments before `start` to a jaxpr."""
        lines = self.comments.above.get(start) if self.comments else None
        if lines:
            comments = closed.jaxpr.comments or {}
            joined = {**comments, place: [*lines, *comments.get(place, [])]}
            amend(closed.jaxpr, comments=joined)

    def operands(self, atoms: list[Tree], scope: _Scope) -> list[Any]:
        """Operands; types decide which of several dropped results a `_` is."""
        found: list[Any] = []
        for atom in atoms:
            if str(atom.children[0]) == "_" and "_" not in scope.vars and scope.drops:
                found.append(next_drop(scope))
            else:
                found.append(self.atom(atom, scope))
        return found

    def atom(self, tree: Tree, scope: _Scope) -> Any:
        word = _LITERAL.sub(r"\1", str(tree.children[0]))
        for kind in trees(tree):
            aval = self.type(kind)
            if not isinstance(aval, ShapedArray):
                raise Meaningless(f"a literal of type {aval}")
            value = None if word == "[...]" else scalar(word, aval.dtype)
            weak = bool(tokens(tree, "WEAK_MARK"))
            return Lit(value, aval.update(weak_type=True) if weak else aval)
        if word in scope.vars:
            return scope.vars[word]
        if word == "*":
            self.units = True
            return UNIT
        if (literal := untyped_literal(word)) is not None:
            self.untyped_literals = True
            return literal
        if scope.lone:
            scope.vars[word] = Var(UNTYPED, word)
            scope.inputs.append(scope.vars[word])
            return scope.vars[word]
        raise Meaningless(f"{word} is not bound")

    def type(self, tree: Tree) -> Any:
        if tree.data == "token":
            return AbstractToken()
        if tree.data == "ref":
            memory = re.fullmatch(r"(?:Mem)?Ref(?:<(?:None|(\w+))>)?", str(tree.children[0]))
            return RefType(self.type(trees(tree)[0]), (memory and memory[1]) or "")
        if tree.data == "future":
            return FutureType(self.type(trees(tree)[0]))
        if tree.data == "opaque":
            self.units = self.units or str(tree.children[0]) == "*"
            return OpaqueType(str(tree.children[0]))
        (name,) = tokens(tree, "ELEMENT")
        dtype = find_dtype("float0" if name == "void" else str(name))
        if dtype is None and "_" in name:  # an element type of a later release
            return OpaqueType(self.text[tree.meta.start_pos : tree.meta.end_pos])
        if dtype is None:
            raise Meaningless(f"unknown element type {name}")
        dims = [(str(tokens(d, "DIM")[0]).strip(), tokens(d, "AXES")) for d in trees(tree, "dim")]
        shape = tuple([int(d) if d.isdecimal() else SymbolicDim(d) for d, _ in dims])
        spec = tuple([_axes_of(str(axes[0])) if axes else () for _, axes in dims])
        memory = "".join(tokens(tree, "MEMORY")).strip("<>")
        groups = _groups("".join(tokens(tree, "VARYING"))[1:-1])
        try:
            return ShapedArray(shape, dtype, False, spec if any(spec) else (), memory, groups)
        except JaxprTypeError as e:
            raise Meaningless(str(e)) from None

    def array_type(self, text: str) -> ShapedArray | None:
        """The type of arrays that a text spells, weakly typed after `~`; None for any other."""
        weak = text.startswith("~")
        try:
            tree = tree_of(f"{{ lambda ; a:{text[weak:]}. let in () }}")
            found = self.type(next(tree.find_data("array")))
        except (Rejected, Meaningless, StopIteration):
            return None
        return found.update(weak_type=True) if weak else found

    # ---- references

    def reference(self, tree: Tree, scope: _Scope) -> JaxprEqn:
        if tree.data == "reference":
            tree = trees(tree)[0]
        if tree.data == "raw":
            return self.raw(tree, scope)
        places = trees(tree, "place") or [tree]
        ref = str(tokens(places[-1], "REF", "STORED")[0])
        index, variables = index_of(trees(places[-1], "path"))
        if any(v in ("True", "False", "inf", "nan") and v not in scope.vars for v in variables):
            raise Rejected(tree.meta.start_pos)
        atoms = [self.atom(a, scope) for a in trees(tree, "atom")]
        inputs = [self.named(ref, scope), *atoms, *[self.named(v, scope) for v in variables]]
        params: dict[str, Any] = {"index": index}
        for flags in trees(tree, "flags"):
            inputs += [self.atom(a, scope) for a in trees(flags, "atom")]
            params |= {
                k: True for k, t in (("mask", "MASK"), ("other", "OTHER")) if tokens(flags, t)
            }
        name = "swap" if tree.data == "set" else str(tree.data)
        if name != "get" and hasattr(inputs[1], "kinds"):
            inputs[1] = inputs[1].typed(inputs[1].types([inputs[0].aval], self.wide)[0])
        binders: list[Var] = [self.bound(scope, p) for p in self.pairs(tree)]
        _place(scope, binders)
        if name == "swap" and not binders:
            aval = inputs[1].aval
            binders = [DropVar(aval.inner if isinstance(aval, RefType) else aval)]
        primitive = find_primitive(name)
        return JaxprEqn(primitive, inputs, {**primitive.defaults, **params}, binders)

    def named(self, word: str, scope: _Scope) -> Var:
        if word not in scope.vars and scope.lone:
            scope.vars[word] = Var(UNTYPED, word)
            scope.inputs.append(scope.vars[word])
        if word not in scope.vars:
            raise Meaningless(f"{word} is not bound")
        return scope.vars[word]

    def raw(self, tree: Tree, scope: _Scope) -> JaxprEqn:
        text = str(tree.children[0])
        m = re.match(r"[a-z_]+", text)
        assert m
        pieces: list[Any] = []
        variables: list[str] = []
        for piece in re.split(r"(?<![\w.])([^\W\d]\w*)", text[m.end() :]):
            if piece in scope.vars and piece not in variables:
                variables.append(piece)
            if piece:
                known = piece in scope.vars
                pieces.append(Operand(variables.index(piece)) if known else piece)
        primitive = find_primitive(m[0])
        params = {**primitive.defaults, "index": Fragments(*pieces)}
        return JaxprEqn(primitive, [scope.vars[v] for v in variables], params, [])

    # ---- params

    def params(self, primitive: Any, tree: Tree) -> dict[str, Any]:
        declared = declared_params(primitive.name) or primitive.params
        found: dict[str, Any] = {}
        for param in tree.children:
            if isinstance(param, Token) and param.type == "TEXT_PARAM":
                key, _, value = str(param).partition("=")
                beside = key.endswith("fmt") or not value.strip()
                found["fmt"] = TEXT.read_text(value if beside else value.lstrip(" \t"))
            if not isinstance(param, Tree):
                continue
            key = str(tokens(param, "KEY")[0]).rstrip("= \t\n")
            if key in found:
                raise Meaningless(f"{key} is given twice")
            kind = declared[key].kind if key in declared else _ANY
            found[key] = self.param(primitive, key, kind, param)
        return found

    def param(self, primitive: Any, key: str, kind: Kind, tree: Tree) -> Any:
        for jaxpr in trees(tree, "jaxpr", "autodidax_jaxpr"):
            return self.jaxpr(jaxpr)
        for several in trees(tree, "jaxprs"):
            return tuple([self.jaxpr_or_name(c) for c in several.children[1:-1] if _counts(c)])
        texts = trees(tree, "text")
        start, end = (texts[0].meta.start_pos, texts[0].meta.end_pos) if texts else (0, 0)
        if kind.spelling == "free" and texts:
            start = self.free_start(tokens(tree, "KEY")[0], start)
        text = self.text[start:end]
        declared = primitive.known or primitive.name in OLDER
        if kind.spelling == "name" and declared and text not in self.shells:
            reject_fault(_KEY_IN_NAME.sub("_", text), start)
        if kind.spelling == "type" and (aval := self.array_type(text)) is not None:
            return aval
        if kind.spelling == "free":
            return kind.read_text(text)
        if kind.spelling not in ("value", "type"):
            return text
        may_name = key != "name" and (not primitive.known or kind.holds_jaxprs)
        names = self.shells if may_name else {}
        if not primitive.known:
            names = {name: closed for name, closed in names.items() if name not in self.words}
            self.guessed.update(names)
        words = text[1:-1].split() if text[:1] == "(" and text[-1:] == ")" else []
        if text in names:
            return names[text]
        if words and all(w in names for w in words):
            return tuple([names[w] for w in words])
        if kind.parts[0] is JAXPR and text != "None":
            raise Meaningless(f"{text} is not defined")
        if ELEMENT_TYPE in kind.parts and (dtype := find_dtype(text)) is not None:
            return dtype
        value = kind.read(value_of(self, text, names))
        if isinstance(value, (Opaque, str)) and declared and not kind.shows_jaxprs:
            reject_fault(text, start)
        return value

    def free_start(self, key: Token, start: int) -> int:
        """Where free text begins whose first word is at `start`: blanks count beside a `key=` as JAX writes it."""
        beside = key.start_pos + len(key.rstrip(" \t\n"))
        glued = key.rstrip("= \t\n") + "="
        return (
            beside if key.startswith(glued) and not self.text[beside:start].strip(" \t") else start
        )

    def jaxpr_or_name(self, child: Any) -> ClosedJaxpr:
        if isinstance(child, Tree):
            return self.jaxpr(child)
        if str(child) not in self.shells:
            raise Meaningless(f"{child} is not defined")
        return self.shells[str(child)]

    # ---- values of constants

    def where(self, tree: Tree, scope: _Scope, closed: ClosedJaxpr) -> None:
        places = {v.name: i for i, v in enumerate(closed.jaxpr.const_binders)}
        for entry in trees(tree):
            if entry.data == "weak":
                for word in tokens(entry, "WEAK_NAME"):
                    var = self.named(word.strip(), scope)
                    if isinstance(var.aval, ShapedArray):
                        amend(var, aval=var.aval.update(weak_type=True))
                continue
            name = str(tokens(entry, "CONST")[0]).partition(" ")[0]
            if name not in places:
                raise Meaningless(f"{name} is no constant")
            aval = closed.jaxpr.const_binders[places[name]].aval
            consts = [*closed.consts]
            consts[places[name]] = constant(entry.children[1], aval)
            amend(closed, consts=tuple(consts))


def is_name(child: Any) -> bool:
    return isinstance(child, Token) and child.type == "PROGRAM_NAME"


def _name_of(definition: Tree) -> str:
    m = re.fullmatch(r"let (.*) = ", str(tokens(definition, "LET")[0]))
    assert m
    return m[1]


def _counts(child: Any) -> bool:
    return isinstance(child, Tree) or child.type == "JAXPR_NAME"


def _place(scope: _Scope, binders: list[Var]) -> None:
    scope.drops += [v for v in binders if isinstance(v, DropVar)]


def _axes_of(text: str) -> tuple[str, ...]:
    """The names in `x` or `(x,y)`."""
    return tuple(re.findall(r"[^\s(),]+", text))


def _groups(text: str) -> AxisGroups:
    """The axes between the braces after a type; without letters, those along which it varies."""
    if text and ":" not in text:
        return AxisGroups(text.split(","))
    axes = {letter[0]: names.split(",") for letter, names in _GROUP.findall(text)}
    kind = next((letter[2:] for letter, _ in _GROUP.findall(text) if letter[1:]), "")
    return AxisGroups(axes.get("V", ()), axes.get("U", ()), axes.get("R", ()), kind)
