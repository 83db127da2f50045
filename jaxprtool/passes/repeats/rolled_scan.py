"""The scan that replaces a loop that was written out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Atom, Aval, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import count_eqns, sub_jaxprs
from jaxprtool.passes.repeats.turns import Carried, Each, Inner, Loop, Same, Sliced, Source, Turns

__all__ = ["RolledScan", "Unfit", "Uses"]


class Unfit(Exception):
    """A loop cannot become a scan: a value is of a type that cannot be carried or stacked."""


class Uses:
    """Where the variables of a jaxpr are read.

    Attributes:
      eqns: the equations of the jaxpr.
      of: for each variable the indices of the equations that read it, in order; for a result of the
        jaxpr also the number of equations.
    """

    def __init__(self, jaxpr: Jaxpr):
        self.eqns = jaxpr.eqns
        self.of: dict[Any, list[int]] = {}
        for i, eqn in enumerate(jaxpr.eqns):
            for x in eqn.inputs:
                if type(x) is not Lit:
                    self.of.setdefault(x, []).append(i)
        for x in jaxpr.outs:
            if type(x) is not Lit:
                self.of.setdefault(x, []).append(len(jaxpr.eqns))

    def after(self, v: Var, stop: int) -> list[int]:
        """Return the indices, from `stop` on, where a variable is read."""
        found = self.of.get(v, [])
        return [i for i in found if i >= stop] if found and found[-1] >= stop else []

    def stack(self, rows: Sequence[Var], stop: int) -> list[int]:
        """Return the indices of the equations that stack variables along a new first axis, that of the stack last. Empty for none."""
        for first in self.after(rows[0], stop):
            if self._is_stack(first, rows):
                return [first]
            end = self._joined(first)
            if end is None or len(self.eqns[end].inputs) != len(rows):
                continue
            makers: dict[Any, int] = {
                self.eqns[i].out_binders[0]: i
                for v in rows
                for i in self.after(v, stop)
                if self._joined(i) == end
            }
            found = [makers.get(x) for x in self.eqns[end].inputs]
            if all(
                i is not None and self.eqns[i].inputs[0] is v
                for i, v in zip(found, rows, strict=True)
            ):
                return [*(i for i in found if i is not None), end]
        return []

    def _is_stack(self, i: int, rows: Sequence[Var]) -> bool:
        eqn = self.eqns[i] if i < len(self.eqns) else None
        if eqn is None or eqn.primitive is not lax.stack.primitive or eqn.params["axis"] != 0:
            return False
        return len(eqn.inputs) == len(rows) and all(map(operator.is_, eqn.inputs, rows))

    def _joined(self, i: int) -> int | None:
        """Return the index of the concatenation that alone reads an equation which adds a first axis; None where there is none."""
        if i >= len(self.eqns):
            return None
        eqn = self.eqns[i]
        if eqn.primitive not in _EXPANDING:
            return None
        aval, (v,) = eqn.inputs[0].aval, eqn.out_binders
        dims = eqn.params.get("broadcast_dimensions")
        if v.aval.shape != (1, *aval.shape) or (
            dims is not None and tuple(dims) != tuple(range(1, v.aval.ndim))
        ):
            return None
        readers = self.of.get(v, [])
        if len(readers) != 1 or readers[0] >= len(self.eqns):
            return None
        end = self.eqns[readers[0]]
        joins = end.primitive is lax.concatenate.primitive and end.params["dimension"] == 0
        return readers[0] if joins else None


_EXPANDING = frozenset(
    {lax.broadcast_in_dim.primitive, lax.expand_dims.primitive, lax.reshape.primitive}
)


def size_of(eqns: Sequence[JaxprEqn]) -> int:
    """Return the number of equations, with those inside, each as often as it is used."""
    return len(eqns) + sum(count_eqns(c.jaxpr) for e in eqns for c in sub_jaxprs(e))


def _is_plain(aval: Aval) -> bool:
    """Whether values of a type are arrays of numbers, of a known shape, without an annotation of where they are."""
    return (
        isinstance(aval, ShapedArray)
        and not aval.annotated
        and aval.dtype.kind in "biufc"
        and all(isinstance(n, int) for n in aval.shape)
    )


class RolledScan:
    """The equations of a scan that does what a loop does.

    Attributes:
      of, loop, uses: the equations of the jaxpr, the loop, and where variables are read.
      turn: the equations of the first iteration.
      eqns: the equations: those that stack operands, the scan, and those that take rows of its
        results.
      consts: binders and values of new constants.
      gone: the indices of equations after the loop that go as well, since the scan stacks its
        results itself.
      rows: equations, these or others, that take a row of an array; they may go when nobody reads
        it any more.
      reads: the indices of equations whose results are stacked.
      inside: the variables in the body for the results of each equation of an iteration.
      same: the constants of the scan, with their variables in the body.
      carry: the initial carry, with the variables in the body.
      after: the variables in the body that are the carry for the next iteration.
      chains: for each result that is carried, its chains, with their positions in the carry.
      xs: what is scanned, with the variables of the slices in the body.
      saved: how many equations are saved.
    """

    def __init__(
        self, of: Turns, loop: Loop, uses: Uses, improve: Callable[[ClosedJaxpr], ClosedJaxpr]
    ):
        """Make the equations. Raises Unfit, and JaxprToolError for types that no scan has.

        improve: is applied to the body.
        """
        self.of, self.loop, self.uses = of, loop, uses
        self.eqns: list[JaxprEqn] = []
        self.consts: list[tuple[Var, Any]] = []
        self.gone: list[int] = []
        self.rows: list[JaxprEqn] = []
        self.reads: list[int] = []
        self.turn = of.eqns[loop.start : loop.start + loop.period]
        # The variables of the body: results of its equations, constants, carry and slices, with the atoms outside.
        self.inside = [[Var(v.aval.strong) for v in e.out_binders] for e in self.turn]
        self.same: dict[Atom, Var] = {}
        self.carry: list[tuple[Atom, Var]] = []
        self.after: list[Var] = []  # the carry after an iteration
        self.chains: dict[tuple[int, int], list[tuple[Carried, int]]] = {}
        self.xs: dict[Any, tuple[Var, Var]] = {}
        sources = [x for some in loop.sources if not isinstance(some, Sliced) for x in some]
        carried = [x for x in dict.fromkeys(sources) if isinstance(x, Carried)]
        for source in sorted(carried, key=lambda x: -x.depth):
            self._carried(source)
        body = [eqn for j in range(loop.period) if (eqn := self._body_equation(j)) is not None]
        self._scan(body, improve)
        old = of.eqns[loop.start : loop.stop]
        self.saved = size_of(old) + len(self.gone) - size_of(self.eqns)

    def _emit(self, op: Any, inputs: Sequence[Atom], **params: Any) -> Var:
        """Add an equation before the scan; return its result."""
        primitive, like = op.primitive, self.turn[0]
        params = {**primitive.defaults, **params}
        (aval,) = abstract_eval(primitive, [x.aval.strong for x in inputs], params)
        v = Var(aval)
        self.eqns.append(JaxprEqn(primitive, inputs, params, [v], like.span, None, like.origin))
        return v

    # -- operands ----------------------------------------------------------------------------

    def _body_equation(self, j: int) -> JaxprEqn | None:
        """Return an equation of the body; None for a slice, which is scanned."""
        eqn, sources = self.turn[j], self.loop.sources[j]
        if isinstance(sources, Sliced):
            key = (*sources, eqn.params["start_indices"], eqn.out_binders[0].aval)
            if key in self.xs:
                self.inside[j] = [self.xs[key][1]]
            else:
                self.xs[key] = self._slices(eqn, sources), self.inside[j][0]
            return None
        return eqn.replace(inputs=map(self._operand, sources), out_binders=self.inside[j])

    def _operand(self, source: Source) -> Atom:
        if isinstance(source, Inner):
            return self.inside[source.at][source.result]
        if isinstance(source, Carried):
            return self._carried(source)
        if isinstance(source, Same):
            x = source.atom
            return x if type(x) is Lit else self.same.setdefault(x, Var(x.aval.strong))
        if source.atoms not in self.xs:
            stacked = self._stack(source)
            aval = source.atoms[0].aval.strong
            self.xs[source.atoms] = stacked, Var(aval)
        return self.xs[source.atoms][1]

    def _carried(self, source: Carried) -> Var:
        """Return the carry's variable for a value of `depth` iterations before; those in between have the later values."""
        depth, chains = source.depth, self.chains.get((source.at, source.result), ())
        known = [first for c, first in chains if c.begin[-depth:] == source.begin]
        first = known[0] if known else self._chain(source)
        return self.carry[first + depth - 1][1]

    def _chain(self, source: Carried) -> int:
        """Carry a value over several iterations; return the position of the value of the last iteration."""
        first = len(self.carry)
        self.chains.setdefault((source.at, source.result), []).append((source, first))
        value = self.inside[source.at][source.result]
        for begin in reversed(source.begin):
            self._carry(begin, value)
            value = self.carry[-1][1]
        return first

    def _carry(self, begin: Atom, after: Var) -> None:
        if begin.aval.strong != after.aval:
            raise Unfit
        self.carry.append((begin, Var(after.aval)))
        self.after.append(after)

    def _stack(self, each: Each) -> Var:
        """Stack atoms along a new first axis."""
        aval, of = each.atoms[0].aval.strong, self.of.made
        if not _is_plain(aval):
            raise Unfit
        if all(type(x) is Lit for x in each.atoms):
            xp = numpy_namespace()
            v = Var(aval.update(shape=(len(each.atoms), *aval.shape)))
            self.consts.append((v, xp.stack([xp.asarray(xp.value(x)) for x in each.atoms])))
            return v
        made = [of.get(x) for x in each.atoms]
        self.reads += [place[0] for place in made if place is not None]
        axes = tuple(range(1, 1 + len(aval.shape)))
        parts = [
            self._emit(lax.broadcast_in_dim, xs, shape=(1, *aval.shape), broadcast_dimensions=axes)
            if row is None or len(xs) == 1
            else self._rows_of(*row, xs)
            for row, xs in self._stretches(each.atoms)
        ]
        return parts[0] if len(parts) == 1 else self._emit(lax.concatenate, parts, dimension=0)

    def _stretches(self, atoms: Sequence[Any]) -> list[tuple[tuple[Any, int] | None, list[Any]]]:
        """Split atoms into consecutive rows of an array, forwards or backwards, each with the array and the first row, and single ones."""
        found: list[tuple[tuple[Any, int] | None, list[Any]]] = []
        step = 0
        before: tuple[Any, int] | None = None
        for x in atoms:
            row = self._row(x)
            follows = (
                row is not None
                and before is not None
                and row[0] is before[0]
                and (row[1] - before[1] == step or (not step and abs(row[1] - before[1]) == 1))
            )
            if follows and row is not None and before is not None:
                step = row[1] - before[1]
                found[-1][1].append(x)
            else:
                step = 0
                found.append((row, [x]))
            before = row
        return found

    def _rows_of(self, of: Any, start: int, atoms: Sequence[Any]) -> Var:
        """Return an array of the rows that atoms are; `start` is the first of them."""
        self.rows += [e for x in atoms for e in self._makers(x)]
        forward = self._row(atoms[1]) == (of, start + 1)
        n, shape = len(atoms), of.aval.shape
        low = start if forward else start - n + 1
        if n != shape[0]:
            zeros = (0,) * (len(shape) - 1)
            ends = (low + n, *shape[1:])
            of = self._emit(lax.slice, [of], start_indices=(low, *zeros), limit_indices=ends)
        return of if forward else self._emit(lax.rev, [of], dimensions=(0,))

    def _makers(self, x: Any) -> list[JaxprEqn]:
        """Return the unstack, or the slice and the squeeze, that make a row; empty for anything else."""
        found: list[JaxprEqn] = []
        i, _ = self.of.made.get(x, (-1, 0))
        if i >= 0 and self.of.eqns[i].primitive is lax.unstack.primitive:
            return [self.of.eqns[i]]
        for op in (lax.squeeze.primitive, lax.slice.primitive):
            i, _ = self.of.made.get(x, (-1, 0))
            if i < 0 or self.of.eqns[i].primitive is not op:
                return []
            found.insert(0, self.of.eqns[i])
            x = found[0].inputs[0]
        return found

    def _row(self, x: Any) -> tuple[Any, int] | None:
        """Return the array that an atom is a row of, and the index; None where it is no row."""
        makers = self._makers(x)
        if len(makers) == 1 and makers[0].params["axis"] == 0:
            (of,) = makers[0].inputs
            return (of, self.of.made[x][1]) if _is_plain(of.aval) else None
        if len(makers) < 2 or tuple(makers[1].params["dimensions"]) != (0,):
            return None
        cut, (of,) = makers[0].params, makers[0].inputs
        k, *others = cut["start_indices"]
        ends = cut["limit_indices"]
        whole = not any(others) and tuple(ends[1:]) == of.aval.shape[1:] and ends[0] == k + 1
        plain = whole and _is_plain(of.aval) and not any(s != 1 for s in cut["strides"] or ())
        return (of, k) if plain else None

    def _slices(self, eqn: JaxprEqn, sliced: Sliced) -> Var:
        """Stack the slices of all iterations along a new first axis."""
        (v,), axis, n = eqn.out_binders, sliced.axis, self.loop.turns
        x = sliced.of
        if x.aval.annotated:
            raise Unfit
        size, step = v.aval.shape[axis], abs(sliced.step)
        starts = [*eqn.params["start_indices"]]
        starts[axis] = min(starts[axis], starts[axis] + (n - 1) * sliced.step)
        ends = [s + d for s, d in zip(starts, v.aval.shape, strict=True)]
        ends[axis] = starts[axis] + (n - 1) * step + size
        strides = None
        if step != size:
            strides = tuple([step if i == axis else 1 for i in range(len(starts))])
        if strides or any(starts) or tuple(ends) != x.aval.shape:
            x = self._emit(
                lax.slice,
                [x],
                start_indices=tuple(starts),
                limit_indices=tuple(ends),
                strides=strides,
            )
        shape = v.aval.shape
        if axis == 0 or n == 1:
            x = self._emit(lax.reshape, [x], new_sizes=(n, *shape))
        else:
            x = self._emit(lax.reshape, [x], new_sizes=(*shape[:axis], n, *shape[axis:]))
            order = (axis, *[i for i in range(len(shape) + 1) if i != axis])
            x = self._emit(lax.transpose, [x], permutation=order)
        return self._emit(lax.rev, [x], dimensions=(0,)) if sliced.step < 0 else x

    # -- the scan, and results ---------------------------------------------------------------

    def _scan(
        self, body: Sequence[JaxprEqn], improve: Callable[[ClosedJaxpr], ClosedJaxpr]
    ) -> None:
        finals, rows, stacks, again = self._results()
        operands = [*self.same, *[x for x, _ in self.carry], *[x for x, _ in self.xs.values()]]
        binders = [v for _, v in (*self.carry, *self.xs.values())]
        outs = [*self.after, *[self.inside[j][r] for j, r in rows]]
        jaxpr = Jaxpr([*self.same.values(), *binders], body, outs)
        scan, like, n = lax.scan_call.primitive, self.turn[0], len(self.carry)
        params = {
            **scan.defaults,
            "jaxpr": improve(ClosedJaxpr(jaxpr)),
            "length": self.loop.turns,
            "num_carry": n,
            "num_consts": len(self.same),
        }
        avals = abstract_eval(scan, [x.aval.strong for x in operands], params)
        results: list[Var] = [finals.get(i) or DropVar(a) for i, a in enumerate(avals[:n])]
        results += [stacks.get(of) or Var(a) for of, a in zip(rows, avals[n:], strict=True)]
        if any(v.aval.strong != a.strong for v, a in zip(results, avals, strict=True)):
            raise Unfit
        made = JaxprEqn(scan, operands, params, results, like.span, None, like.origin)
        self.eqns.append(made)
        for (of, turns), v in zip(rows.items(), results[n:], strict=True):
            for k in turns:
                self._take_row(v, k, self._value(k, *of))
        self.eqns += again

    def _value(self, k: int, j: int, r: int) -> Var:
        """Return result r of equation j of iteration k."""
        return self.of.eqns[self.loop.start + k * self.loop.period + j].out_binders[r]

    def _results(
        self,
    ) -> tuple[
        dict[int, Var],
        dict[tuple[int, int], list[int]],
        Mapping[tuple[int, int], Var],
        list[JaxprEqn],
    ]:
        """Return what is read after the loop.

        Returns:
          For positions in the final carry, the variables that these values are; the results of
          equations (equation, result) that are stacked, with the iterations whose values are read
          one by one; for those whose stack is read, the variable of the stack; and slices, which
          are taken again.
        """
        finals: dict[int, Var] = {}
        rows: dict[tuple[int, int], list[int]] = {}
        stacks: dict[tuple[int, int], Var] = {}
        again: list[JaxprEqn] = []
        n, stop = self.loop.turns, self.loop.stop
        held = {
            (*of, n - m): first + m - 1
            for of, chains in self.chains.items()
            for c, first in chains
            for m in range(1, min(c.depth, n) + 1)
        }
        for j, eqn in enumerate(self.turn):
            for r in range(len(eqn.out_binders)):
                values = [self._value(k, j, r) for k in range(n)]
                if isinstance(self.loop.sources[j], Sliced):
                    read = [k for k, v in enumerate(values) if self.uses.after(v, stop)]
                    again += [
                        self.of.eqns[self.loop.start + k * self.loop.period + j] for k in read
                    ]
                    continue
                gone = self.uses.stack(values, stop)
                if gone:
                    stacks[j, r] = self.uses.eqns[gone[-1]].out_binders[0]
                    self.gone += gone
                left = {*gone}
                read = [k for k, v in enumerate(values) if {*self.uses.after(v, stop)} - left]
                finals.update({held[j, r, k]: values[k] for k in read if (j, r, k) in held})
                read = [k for k in read if (j, r, k) not in held]
                aval = values[0].aval.strong
                if read == [n - 1] and not gone and _is_plain(aval):
                    finals[len(self.carry)] = values[-1]
                    self._carry(self._zeros(aval), self.inside[j][r])
                elif read or gone:
                    rows[j, r] = read
        return finals, rows, stacks, again

    def _zeros(self, aval: Any) -> Atom:
        """Return an initial carry where only the final one counts."""
        kind = {"b": False, "f": 0.0, "c": 0j}.get(aval.dtype.kind, 0)
        zero = Lit(kind, aval.update(shape=()))
        if not aval.shape:
            return zero
        return self._emit(lax.broadcast_in_dim, [zero], shape=aval.shape, broadcast_dimensions=())

    def _take_row(self, ys: Var, k: int, v: Var) -> None:
        """Add the equations of v = ys[k]."""
        shape = ys.aval.shape
        zeros = (0,) * (len(shape) - 1)
        row = self._emit(
            lax.slice, [ys], start_indices=(k, *zeros), limit_indices=(k + 1, *shape[1:])
        )
        self._emit(lax.squeeze, [row], dimensions=(0,))
        self.eqns[-1] = self.eqns[-1].replace(out_binders=[v])
        self.rows += self.eqns[-2:]
