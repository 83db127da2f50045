"""The shipped tables are those of the grammar, and our driver reads as Lark's does."""

from __future__ import annotations

import json

import pytest

from jaxprtool.ir.spans import Source
from jaxprtool.syntax.lalr import UnexpectedToken, load_tables, run_tables
from jaxprtool.syntax.scanning.scanner import scan
from jaxprtool.syntax.tables import TABLES_PATH, build_tables, lark_parser
from jaxprtool.syntax.tokens import LABELS
from tests.syntax.programs import CASES, traced


def test_tables_are_up_to_date():
    shipped = json.loads(TABLES_PATH.read_text(encoding="utf-8"))
    assert shipped == json.loads(json.dumps(build_tables())), (
        "run python -m jaxprtool.syntax.tables"
    )


def reductions(tokens):
    """(rule's callback, tokens it took) in the order of our driver's reductions."""
    done = []

    def callback(name):
        def reduce(*parts):
            done.append((name, [p[0] for p in parts if isinstance(p, tuple)]))

        return reduce

    tables = load_tables()
    run_tables(tables, tokens, {name: callback(name) for _, name, _ in tables.rules})
    return done


def lark_reductions(parser, tokens):
    """The same of Lark's tree, which holds them in post-order."""
    done, todo = [], [(parser.parse(tokens), False)]
    while todo:
        tree, visited = todo.pop()
        if visited:
            done.append((tree.data, [c.type for c in tree.children if not hasattr(c, "data")]))
            continue
        todo.append((tree, True))
        todo += [(c, False) for c in reversed(tree.children) if hasattr(c, "data")]
    return done


@pytest.fixture(scope="module")
def parser():
    return lark_parser()


EXTRA = [
    "{ lambda a:float64[3] .\n  let b:float64[] = cond True a\n        { lambda a:float64[] .\n          let \n"
    "          in ( a ) }\n  in ( b ) }",
    "a = { lambda b:f32[]; . let  in (b,) }\nwhere b = 1.0\nweak b\nc = { lambda ; . let  in () }",
    "b:f32[] = sin a",
]


@pytest.mark.parametrize("text", [*CASES, *EXTRA])
def test_reductions_are_lark_s(text, parser):
    tokens = scan(Source(str(traced(text)) if text in CASES else text)).tokens
    assert tokens[-1][0] == "$END"
    assert reductions(tokens) == lark_reductions(parser, tokens)


@pytest.mark.parametrize("cut", range(0, 300, 7))
def test_both_reject_what_is_cut_short(cut, parser):
    import lark

    tokens = scan(Source(str(traced("twice"))[:cut])).tokens
    with pytest.raises(UnexpectedToken):
        reductions(tokens)
    with pytest.raises(lark.exceptions.LarkError):
        lark_reductions(parser, tokens)


def test_every_token_that_can_be_expected_has_a_label():
    kinds = {kind for row in load_tables().actions for kind in row}
    without = {
        "HEAD",
        "RESULTS",
        "PAIRS",
        "REFERENCE",
        "PARAMS",
        "EQUATIONS",
        "LSQB",
        "LPAR",
        "NAME",
        "WHERE",
        "WEAK",
        "ARGS",
    }  # beside another that has one
    assert kinds == LABELS.keys() | without
