"""Indices of references: their fields, their texts, and those of a running JAX."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import ds

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.references import (
    Bitcast,
    Fragments,
    Indexer,
    Item,
    Operand,
    RefIndex,
    Reshape,
    Slice,
    Transpose,
)
from jaxprtool.ir.source import NAMES, python_source
from tests.releases import SERIES
from tests.syntax.two_readers import difference

I, J = Operand(0), Operand(1)


def at(*items: Item) -> RefIndex:
    return RefIndex(Indexer(items))


# Texts as JAX prints them, with strides; `i`, `j` and `n` are variables.
USUAL = {
    "[...]": RefIndex(),
    "[]": at(),
    "[:,0]": at(Slice(), 0),
    "[-1,2:,:4,1:4]": at(-1, Slice(2), Slice(0, 4), Slice(1, 3)),
    "[i,j]": at(I, J),
    "[i,i]": at(I, J),
    "[i:i+4,j]": at(Slice(I, 4), J),
    "[i:i+n]": at(Slice(I, J)),
    "[:n]": at(Slice(0, I)),
    "[3:3+n]": at(Slice(3, I)),
    "[:7:2,::3,i:i+7:2]": at(Slice(0, 4, 2), Slice(0, None, 3), Slice(I, 4, 2)),
    "[2:1]": at(Slice(2, -1)),
    "[i,:][:0]": RefIndex(Indexer((I, Slice())), Indexer((Slice(0, 0),))),
    "{reshape([4, 2, 4])}[0,:,:]": RefIndex(Reshape((4, 2, 4)), Indexer((0, Slice(), Slice()))),
    "{transpose([1, 0])}": RefIndex(Transpose((1, 0))),
    "{bitcast(float32)}": RefIndex(Bitcast(FLOAT32)),
    "{n - 1}": RefIndex(Opaque("{n - 1}")),
    "[i+1,0:3:0]": at(Fragments(I, "+1"), Fragments("0:3:0")),
    "[$0,00]": at(Fragments("$0"), Fragments("00")),
}
# Other texts of the same, which stay as they are.
UNUSUAL = {
    "[0:4,007]": at(Slice(0, 4), 7),
    "[:8:2, i ]": at(Slice(0, 4, 2), I),
    "[3:3+4]": at(Slice(3, 4)),
    "{reshape(2,4)}[...]": RefIndex(Reshape((2, 4))),
    "{reshape(float32[4, 2])}[0,:]": RefIndex(Reshape((4, 2)), Indexer((0, Slice()))),
    "{bitcast(float32[8, 128]])}[i]": RefIndex(Bitcast(FLOAT32), Indexer((I,))),
}


def written(path: str) -> str:
    return f"""\
{{ lambda ; a:Ref{{f32[8,8]}} i:i32[] j:i32[] n:i32[] b:f32[]. let
    c:f32[] <- a{path}
    a{path} <- b
    d:f32[], a{path} <- a{path}, b
    a{path} += b
  in (c, d) }}"""


@pytest.mark.parametrize("path, index", [*USUAL.items(), *UNUSUAL.items()])
def test_texts_are_read_to_fields_and_written_back(path, index):
    text = written(path)
    program = jt.parse(text)
    assert str(program) == text
    for eqn in program.eqns:
        found = eqn.params["index"]
        assert found == index and hash(found) == hash(index)
        assert (found.spelled != "") == (path in UNUSUAL)
    assert len(program.eqns[0].inputs) == 1 + len(list(index.operands()))


@pytest.mark.parametrize("index", [*USUAL.values(), *UNUSUAL.values()], ids=str)
def test_values_are_written_as_python_and_pickled(index):
    assert eval(python_source(index), dict(NAMES)) == index
    assert pickle.loads(pickle.dumps(index)) == index


def test_what_differs_is_not_equal():
    """A number is no operand, and a shape no permutation."""
    found = [at(0), at(I), at(Slice(0, 1)), RefIndex(), RefIndex(Reshape((0,)))]
    found += [RefIndex(Transpose((0,))), at(Fragments(I)), at(), at(Slice(0, None, 2))]
    assert len(set(found)) == len(found)


def _live(x, i, k):
    r = jax.new_ref(x)
    a = r[i, i]
    r[i, 1:3] = x[0, 1:3]
    r[:, :] = x
    b = r[::2, 1], r[k, k], r[-1, ds(i, 2)], r[1:3, :2], r[ds(i, 2), ds(i, 2, 2)]
    r[k, k] += 2.0
    s = jax.new_ref(x[0, 0])
    s[...] = s[()]
    return a, b, r[...], jax.freeze(r)


def test_live_programs_are_what_their_files_say():
    closed = jax.make_jaxpr(_live)(jnp.ones((4, 5)), 1, jnp.array([1, 2]))
    live = jt.from_jax(closed)
    read = jt.parse(jt.format_jaxpr(live))
    assert same_programs({"": live}, {"": read})
    for ours, theirs in zip(live.eqns, read.eqns, strict=True):
        assert ours.params == theirs.params
        assert [x.aval.strong for x in ours.inputs] == [x.aval.strong for x in theirs.inputs]
    for program in (live, read):
        jt.typecheck_jaxpr(program)
        back = jt.to_jax(program)
        assert str(back) == str(closed)
        for ours, theirs in zip(back.jaxpr.eqns, closed.jaxpr.eqns, strict=True):
            assert ours.params.get("tree") == theirs.params.get("tree")
            assert len(ours.invars) == len(theirs.invars)


def test_an_operand_that_is_given_twice():
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    text = """{ lambda ; a:f32[4,4] i:i32[]. let
    b:Ref{f32[4,4]} = new_ref[kind=None memory_space=None] a
    c:f32[] <- b[i,i]
  in (c,) }"""
    program = jt.parse(text)
    for p in (program, jt.discharge(program)):
        assert jt.eval_jaxpr(p, [x, np.int32(2)])[0] == 10


@pytest.mark.parametrize(
    "index, message",
    [
        (at(I, I), "has the index [$0,$0], with $0, $0, and 1 operand for it"),
        (at(0, 1), "has the index [0,1], with no operands, and 1 operand for it"),
        (at(J, 0), "has the index [$1,0], with $1, and 1 operand for it"),
    ],
)
def test_operands_are_counted_in_the_order_of_the_index(index, message):
    program = jt.parse("{ lambda ; a:Ref{f32[4,4]} i:i32[]. let b:f32[] <- a[i,0] in (b,) }")
    (eqn,) = program.eqns
    changed = eqn.replace(params={**eqn.params, "index": index})
    with pytest.raises(jt.JaxprTypeError) as e:
        jt.typecheck_jaxpr(program.jaxpr.replace(eqns=[changed]))
    assert message in str(e.value)


READS = {
    "an element": "e:f32[] <- c[d]",
    "a slice": "e:f32[2] <- c[d:d+2]",
    "every other one": "e:f32[2] <- c[d:d+3:2]",
    "exchanged": "e:f32[], c[d] <- c[d], 3.0:f32[]",
    "added to": "c[d] += 2.0:f32[]\n e:f32[4] <- c[...]",
}


@pytest.mark.parametrize("at", [0, 3, -1, 7, -9])
@pytest.mark.parametrize("form", READS)
def test_a_literal_in_an_index_is_read_back_as_the_number_that_it_selects(form, at):
    program = jt.parse(
        f"{{ lambda ; b:f32[4] d:i32[]. let c:Ref{{f32[4]}} = new_ref b\n {READS[form]} in (e,) }}"
    )
    fixed = jt.opt(program, passes=f"specialise d={at}")
    read = jt.parse(jt.format_jaxpr(fixed, lossless=True))
    x = np.arange(4, dtype=np.float32)
    (expected,) = jt.run(program, x, np.int32(at))
    for other in (fixed, read):
        np.testing.assert_array_equal(jt.run(other, x)[0], expected)
    assert jt.diff(fixed, read).equal and jt.hash_program(fixed) == jt.hash_program(read)


def _in_all_ways(x, i):
    r = jax.new_ref(x)
    v = r[i]
    r[1] = v * 2
    r[...] = r[...] + 1
    r[1:3] = r[0:2]
    r[i, 0] = 3.0
    r[jnp.array([0, 1]), i] = jnp.ones(2)
    r[::2] = r[::2] * 2
    r[ds(i, 2)] = r[ds(0, 2)]
    jax.ref.addupdate(r, (i,), v)
    return r[...], r[:, 1], r[jnp.array([0, 1])]


def _in_views(x):
    r = jax.new_ref(x)
    return r[...], r.reshape(4, 4)[...], r.transpose((1, 0))[...], r.bitcast(jnp.int32)[...]


X = np.arange(16, dtype=np.float32)
VIEWS = jax.jit(_in_views)


@pytest.mark.parametrize(
    ("f", "args"),
    [(_in_all_ways, (X.reshape(4, 4), np.int32(1))), (VIEWS, (X.reshape(2, 8),))],
)
def test_indices_where_all_params_are_printed(f, args):
    """The tree of an index says all that the notation does, and the strides too."""
    if f is VIEWS and SERIES < (0, 9):
        pytest.xfail("JAX 0.8 prints views otherwise than from then on, and the reader keeps both")
    live = jax.make_jaxpr(f)(*args)
    read = jt.parse(live.pretty_print(custom_pp_eqn_rules=False))
    read = read.replace(consts=[np.asarray(c) for c in live.consts])
    assert same_programs({"": jt.from_jax(live)}, {"": read})
    wanted = jt.eval_jaxpr(jt.from_jax(live), args)
    for found, value in zip(jt.eval_jaxpr(read, args), wanted, strict=True):
        np.testing.assert_array_equal(found, value)


def shown_type(operands: str, shown: str = "") -> str:
    return (
        "f32[4,4]"
        if operands == "r"
        else "f32[2,2]"
        if "," in shown and shown.count(":") == 2
        else "f32[4]"
    )


def get_by(tree: str, operands: str = "r", shown: str = "") -> str:
    text = "{{ lambda ; r:Ref{{f32[4,4]}} i:i32[] j:i32[2]. let a:{} = get[tree=PyTreeDef({})] {} in (a,) }}"
    return text.format(shown_type(operands, shown), tree, operands)


ROWS = "CustomNode(NDIndexer[(PyTreeDef((*, CustomNode(Slice[(0, 4, 1)], [None, None]))), (4, 4), ())], [*])"
# Slices of the releases to 0.4.28 have no stride.
OLD_ROWS = "CustomNode(NDIndexer[(PyTreeDef((*, CustomNode(Slice[(0, 4)], []))), (4, 4), ())], [*])"
OLD_PAIR = (
    "CustomNode(NDIndexer[(PyTreeDef((CustomNode(Slice[(2,)], [*]), CustomNode(Slice[(1, 2)], []))), "
    "(4, 4), ())], [*])"
)
SEEN = [
    ("()", "r", "[...]"),
    (f"({ROWS},)", "r i", "[i,:]"),
    (f"({ROWS},)", "r 2", "[2,:]"),
    (f"({ROWS},)", "r 2:i32[]", "[2,:]"),
    (f"({OLD_ROWS},)", "r i", "[i,:]"),
    (f"({OLD_PAIR},)", "r i", "[i:i+2,1:3]"),
    ("(CustomNode(RefTransposer[((1, 0),)], []),)", "r", "{transpose([1, 0])}"),
    ("(CustomNode(RefReshaper[(dtype('float32'), (4, 4))], []),)", "r", "{reshape([4, 4])}"),
]


@pytest.mark.parametrize(("tree", "operands", "shown"), SEEN)
def test_trees_of_indices(tree, operands, shown):
    text = get_by(tree, operands, shown)
    program = jt.parse(text)
    assert f"a:{shown_type(operands, shown)} <- r{shown}" in str(program)
    jt.check(program)
    assert difference(text) is None


@pytest.mark.parametrize(
    ("tree", "operands"),
    [
        (f"({ROWS},)", "r"),  # fewer operands
        (f"({ROWS},)", "r i i"),  # more
        ("(CustomNode(Other[(1,)], []),)", "r"),
        ("(CustomNode(NDIndexer[(1, 2)], []),)", "r"),
        ("(CustomNode(BitcastTransform[(dtype('float33'),)], []),)", "r"),
        ("(*, *)", "r"),
        ("None", "r"),
        ("(" * 200 + ")" * 200, "r"),
    ],
)
def test_trees_that_are_no_index(tree, operands):
    with pytest.raises(jt.JaxprToolError, match="get"):
        jt.check(jt.parse(get_by(tree, operands)))


@pytest.mark.parametrize("line", ["a[...] <- b", "_:f32[3], a[...] <- a[...], b"])
@pytest.mark.parametrize("dialect", ["", "jax-0.9.2", "jax-0.12"])
def test_a_store_stays_in_its_form(line, dialect):
    """JAX prints the longer one where a variable has the old value that nobody reads, as after partial evaluation."""
    text = f"{{ lambda ; a:Ref{{f32[3]}} b:f32[3]. let {line} in () }}"
    program = jt.parse(text)
    for lossless in (False, True):
        shown = jt.format_jaxpr(program, dialect=dialect, lossless=lossless)
        assert shown == text
        assert jt.format_jaxpr(jt.parse(shown), lossless=lossless) == shown


LOOP = """\
{ lambda ; a:f32[4,3,2]. let
    b:f32[4,3,2] = for[
      jaxpr={ lambda ; c:i32[] d:Ref{float32[4,3,2]}. let
          READ
          f:f32[3] = sin e
          WRITE
          ADD
        in () }
      nsteps=4
      reverse=False
      unroll=1
      which_linear=(False,)
    ] a
  in (b,) }"""
NOTATION = {
    "READ": "e:f32[3] <- d[c,:,1]",
    "WRITE": "g:f32[3], d[c,:,0] <- d[c,:,0], f",
    "ADD": "d[c,:,1] += f",
}
# As JAX printed all params of them to 0.4.14.
INDEXED_DIMS = {
    "READ": "e:f32[3] = get[indexed_dims=(True, False, True)] d c 1",
    "WRITE": "g:f32[3] = swap[indexed_dims=(True, False, True)] d f c 0",
    "ADD": "addupdate[indexed_dims=(True, False, True)] d f c 1",
}


def test_dimensions_that_have_an_index():
    def program(lines: dict[str, str]) -> jt.ClosedJaxpr:
        text = LOOP
        for mark, line in lines.items():
            text = text.replace(mark, line)
        return jt.parse(text)

    ours, theirs = program(NOTATION), program(INDEXED_DIMS)
    jt.typecheck_jaxpr(theirs)
    shown = [jt.format_jaxpr(p, dialect="jax-0.12") for p in (ours, theirs)]
    assert shown[0] == shown[1]
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    np.testing.assert_allclose(jt.jaxpr_as_fun(theirs)(x)[0], jt.jaxpr_as_fun(ours)(x)[0])


@pytest.mark.parametrize("dims", ["(True,)", "(True, True, True)", "(True, False)"])
def test_other_numbers_of_dimensions_than_of_indices_are_left_alone(dims):
    line = INDEXED_DIMS["READ"].replace("(True, False, True)", dims)
    program = jt.parse(LOOP.replace("READ", line).replace("WRITE", "").replace("ADD", ""))
    assert f"indexed_dims={dims}" in str(program)
