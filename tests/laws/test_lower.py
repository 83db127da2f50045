"""XLA computes what NumPy computes."""

from __future__ import annotations

from unittest import mock

import jaxprtool as jt
from jaxprtool.interpreters import lower
from jaxprtool.ir.jaxpr import Jaxpr, Var
from tests.laws.oracle import EXAMPLES, OneProgram, assert_close, called, inputs, law, on_xla, ours

COMPILED = OneProgram(EXAMPLES, called(ours), on_xla)


@law(EXAMPLES)
def test_xla_equals_numpy(example):
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    for x, y in zip(COMPILED[example], jt.eval_jaxpr(program, args), strict=True):
        assert_close(x, y, what="XLA against NumPy")


@law(EXAMPLES)
def test_a_template_writes_what_the_rule_writes(example):
    """Lower equations that occur several times with different operands, with templates and without:
    the text is the same.
    """
    program = jt.make_jaxpr(ours(example))(*inputs(example))
    program = _repeated(program, 4)
    text = str(jt.lower(program))
    with mock.patch.object(lower, "OFTEN", 1 << 30):
        assert text == str(jt.lower(program))


def _repeated(program, times):
    """The equations of a program several times, on arguments of their own; the last time two of one type are one."""
    jaxpr, binders, eqns, outs = program.jaxpr, [], [], []
    for turn in range(times):
        new, first = {}, {}
        for v in jaxpr.all_binders:
            own = Var(v.aval)
            if turn < times - 1 or v.aval not in first:
                binders.append(own)
            new[v] = first.setdefault(v.aval, own) if turn == times - 1 else own
        for eqn in jaxpr.eqns:
            made = [Var(v.aval) for v in eqn.out_binders]
            eqns.append(eqn.replace(inputs=[new.get(x, x) for x in eqn.inputs], out_binders=made))
            new.update(zip(eqn.out_binders, made, strict=True))
        outs += [new.get(x, x) for x in jaxpr.outs]
    return jt.ClosedJaxpr(Jaxpr(binders, eqns, outs))
