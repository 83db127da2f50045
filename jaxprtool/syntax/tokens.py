"""The tokens of the grammar: their names in messages, and the patterns they are made of.

A token is a tuple `(kind, value, start, end)`: its name in the grammar, the value that the builder
needs, and the character offsets where it begins and ends.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ATOMS",
    "BINDER",
    "COMMENT",
    "IDENT",
    "LABELS",
    "LAMBDA",
    "LITERAL",
    "LOOSE_BINDER",
    "NUMBER_WORDS",
    "PLAIN_VALUE",
    "STORED",
    "TRANSFORMED",
    "TYPE",
    "WEAK",
    "WHERE",
    "Token",
]

Token = tuple[str, Any, int, int]

LABELS = {
    "NAMED": "`name = ` and a jaxpr",
    "LET": "a shared definition (`let f = {`)",
    "IN": "`in` after the definition",
    "LAMBDA": "a jaxpr (`{ lambda`)",
    "BINDERS": "binders (`a:f32[3] b:f32[]`)",
    "SEMICOLON": "`;` after the constants",
    "DOT": "`. let`",
    "OUTS": "the results (`in (a, b) }`)",
    "EFFECTS": "effects (`: { ... }`)",
    "RBRACE": "`}`",
    "EQUATION": "an equation (`a:f32[3] = add b c`)",
    "OPERANDS": "operands",
    "BOUND": "`[ constants ; variables ]`",
    "RSQB": "`]` after the params",
    "KEY": "a param (`key=value`)",
    "VALUE": "a value",
    "RPAR": "`)` after the jaxprs",
    "DATA": "a value (`[0.0, 1.0]`)",
    "CONST": "a constant (`a = [0.0, 1.0]`)",
    "LEAF": "`*` for an array",
    "NONE": "`None`",
    "OPEN": "`(`",
    "CLOSE": "`)`",
    "LIST_OPEN": "`[`",
    "LIST_CLOSE": "`]`",
    "DICT_OPEN": "`{`",
    "DICT_CLOSE": "`}` of a dict",
    "COMMA": "`,`",
    "COLON": "`:`",
    "TREE_KEY": "a key",
    "FIELD": "`name=`",
    "CLASS": "a class",
    "GIVES": "`->` and the results",
    "$END": "the end of the text",
}

COMMENT = r"(?<![^\s}\[=,;])#[^\n]*+"  # not directly after a word
NUMBER_WORDS = frozenset({"inf", "nan", "True", "False"})  # literals where a type follows
WEAK = "~"  # marks a weakly typed literal after its type; JAX's print has no such mark

IDENT = r"[^\W\d]\w*+"
TYPE = (  # `*` is the unit type
    r"(?:[^\W\d]\w*+(?:<[\w.]*+>)*+(?:\[[^\[\]{}=\n]*+\])?+"
    r"(?:\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*+\))*+\))*+\))?+"  # of a library's own: `Quantised(bits=8)`
    r"(?:\{[^{}\n]*+(?:\{[^{}\n]*+\}[^{}\n]*+)*+\})?+|\*)"
)
BINDER = rf"{IDENT}:{TYPE}"
LAMBDA = r"\{\s*+lambda\b"  # the beginning of a jaxpr
DEFINED = (
    r"let (?!\s|= )((?:(?! = )[^\n]){1,200}?) = "  # the beginning of a definition, before its jaxpr
)
WHERE = r"\s*+where(?=\s)(?![ \t]*+=(?!=))"  # the beginning of the section with values of constants
# The name that a function under `custom_transforms` (to 0.1.62) has from functions that made it.
TRANSFORMED = r"(?:\w+\((?:[^()\[\]{};\n]|\((?:[^()\[\]{};\n]|\([^()\[\]{};\n]*+\))*+\))*+\)|<[\w ]++>)(?=\[ in_tree=)"
LOOSE_BINDER = rf"{IDENT}(?::{TYPE})?+"  # print_shapes=False leaves out types of some binders
PARENTHESES = r"\((?:[^()\n]++|\([^()\n]*+\))*+\)"  # with others inside, one level deep
STORED = r"(?:[^\s;,\[]|\[[^\[\]\n]*+\])++"  # an operand that goes into a cell: a comma ends it
# The text of a param's value without brackets in it but parentheses around the whole.
PLAIN_VALUE = r"(?:[^\s\[\](){}'\"<=#]++(?<![,;])|\([^()\[\]{}'\"<=#]*+\))"
LITERAL = r"Literal\(val=([^(),\s]+)(?:, hashable=\w+)?\)"  # as 0.1.30 to 0.1.36 print numbers
# A blank and an operand, many times. `in (` ends the run if its parenthesis closes right before ` }` or ` :`, or holds a
# comma (`in` may be a variable before a complex literal); a comment, a jaxpr and a separator end it too, and results that
# lack their parentheses.
ATOMS = (
    r"(?:[ ]++(?![#{;]|in ++(?:\((?:[^()]|\([^()]*+\))*+(?:\)(?:\s*+\}|\s++:|\s*+\Z)|\Z)|\([^(),\s]*+,"
    r"|(?:(?!#)[^\s(){}=;]{1,40}+ *+){0,20}+\}))[^\s;]++)*+"  # bounded, since `in` may occur often
)
