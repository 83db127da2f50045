"""Pages of the messages on texts: what is no program, or names that do not hang together."""

from __future__ import annotations

from jaxprtool.linter.messages.writing import program, read
from jaxprtool.linter.registry import Page

__all__ = ["READING"]

_SIN = program("b:f32[3] = sin a")
_CONSTANT = "{ lambda a:f32[2] ; b:f32[2]. let c:f32[2] = add a b in (c,) }"

READING: list[Page] = [
    read(
        "syntax",
        "The text is not a jaxpr: at this place something else is needed",
        "write what the message expects there, as jaxprs are printed",
        program("b:f32[3] sin a"),
        _SIN,
        "An equation is `b:f32[3] = sin a` on a line of its own (or before a `;`), a jaxpr `{ lambda ; a:f32[3]. let ... in (b,) }`.",
    ),
    read(
        "empty",
        "The text is empty",
        "give a file that holds a jaxpr; in a pipe, look what the command before says",
        "\n",
        _SIN,
    ),
    read(
        "truncated",
        "The text ends before the jaxpr does",
        "copy the whole text; a log may have cut it off",
        "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin",
        _SIN,
    ),
    read(
        "bad-type",
        "What stands where a type has to be is none",
        "write a type as jaxprs have it: f32[3], bf16[8,128], i32[], key<fry>[]",
        program("b:float[3] = sin a"),
        _SIN,
    ),
    read(
        "bad-literal",
        "A literal is no number of its type",
        "write a number that the type has: 2:i32[], 0.5:f32[], True:bool[]",
        program("b:i32[] = neg 1.5:i32[]"),
        program("b:i32[] = neg 1:i32[]"),
    ),
    read(
        "bad-constant",
        "The value of a constant does not have the type of its variable",
        "write as many numbers as the type has elements, in its shape",
        f"{_CONSTANT}\nwhere a = [1.0, 2.0, 3.0]\n",
        f"{_CONSTANT}\nwhere a = [1.0, 2.0]\n",
    ),
    read(
        "not-a-constant",
        "A value is given for a name that is no constant of the jaxpr",
        "name a variable that stands before the semicolon after `lambda`",
        f"{_CONSTANT}\nwhere b = [1.0, 2.0]\n",
        f"{_CONSTANT}\nwhere a = [1.0, 2.0]\n",
    ),
    read(
        "not-a-reference",
        "What is read or written as a reference is a number",
        "name a variable whose type is that of a reference, Ref{f32[3]}",
        program("b:f32[] <- inf[0]", args="a:Ref{f32[3]}"),
        program("b:f32[] <- a[0]", args="a:Ref{f32[3]}"),
    ),
    read(
        "bound-twice",
        "Two equations, or arguments, bind one variable",
        "give one of them another name, and change those that read it",
        program("b:f32[3] = sin a", "b:f32[3] = cos a"),
        program("b:f32[3] = sin a", "c:f32[3] = cos b", outs="c,"),
    ),
    read(
        "unbound-variable",
        "A variable is read that nothing before has bound",
        "name a variable that is bound above; a jaxpr in a param does not see those around it, and gets them as operands",
        program("b:f32[3] = sin c"),
        _SIN,
    ),
    read(
        "duplicate-name",
        "Two programs of a file, or two constants, have one name",
        "give one of them another name",
        "one = { lambda ; . let in () }\none = { lambda ; . let in () }\n",
        "one = { lambda ; . let in () }\ntwo = { lambda ; . let in () }\n",
    ),
    read(
        "duplicate-param",
        "A param is given twice in one equation",
        "leave one of them out",
        program("b:f32[3] = cumsum[axis=0 axis=0] a"),
        program("b:f32[3] = cumsum[axis=0 reverse=False] a"),
    ),
    read(
        "undefined-jaxpr",
        "A param names a jaxpr that the text does not define",
        "define it above, `let f = { lambda ... } in`, or write the jaxpr out",
        program("b:f32[3] = jit[name=f jaxpr=f] a"),
        f"let f = {_SIN} in\n{program('b:f32[3] = jit[name=f jaxpr=f] a')}",
    ),
    read(
        "recursive-jaxpr",
        "A jaxpr refers to itself",
        "name another one: jaxprs have no recursion, loops are `while` and `scan`",
        f"let f = {program('b:f32[3] = jit[name=f jaxpr=f] a')} in\n{program('b:f32[3] = jit[name=f jaxpr=f] a')}",
        f"let f = {_SIN} in\n{program('b:f32[3] = jit[name=f jaxpr=f] a')}",
    ),
    read(
        "interface-count",
        "The trees below a program have another number of leaves than it has arguments or results",
        "write a `*` for each of them",
        f"{_SIN}\nargs (x=*, y=*) -> *\n",
        f"{_SIN}\nargs (x=*) -> *\n",
    ),
    read(
        "interface-name",
        "Two arguments in the line below a program have one name, or one has none that Python could have",
        "write the names of the function's parameters, each once",
        f"{program('b:f32[3] = add a c', args='a:f32[3] c:f32[3]')}\nargs (x=*, x=*) -> *\n",
        f"{program('b:f32[3] = add a c', args='a:f32[3] c:f32[3]')}\nargs (x=*, y=*) -> *\n",
    ),
    read(
        "interface-depth",
        "The trees below a program are nested more than a hundred deep",
        "leave the line out: a program runs without it",
        f"{_SIN}\nargs (x={'(' * 101}*{',)' * 101}) -> *\n",
        f"{_SIN}\nargs (x=*) -> *\n",
    ),
    read(
        "format",
        "The file has a version of the format that this release does not know",
        "install a newer release of jaxprtool, or write the file again with this one",
        f"# jaxprtool format 99\n{_SIN}",
        f"# jaxprtool format 1\n{_SIN}",
    ),
    read(
        "no-type",
        "The text does not say the type of an argument",
        "write it, `a:f32[3]`, or give it with --shape 'f32[3]'",
        "{ lambda ; a. let b:f32[3] = sin a in (b,) }",
        _SIN,
        "Prints of early releases leave types out; they are inferred from those of the arguments.",
    ),
    read(
        "array-limit",
        "There is no array of such a type: it has too many bytes, or dimensions, or a negative one",
        "write the shape that is meant",
        program("b:f32[3] = sin a", args="a:f32[3] c:f32[99999999999,99999999999]"),
        _SIN,
        "An array has fewer than 2^63 bytes and at most 64 dimensions.",
    ),
    read(
        "more",
        "There are more errors of this kind than are shown",
        "mend the first ones: the others often follow from them",
        program(*(f"b{i}:f32[3] = sin z{i}" for i in range(202)), outs=""),
        _SIN,
    ),
]
