"""Pages of the messages of `check`, and of all verbs that read a program: on texts, and on programs that are ill-typed."""

from __future__ import annotations

from jaxprtool.linter.messages.writing import table
from jaxprtool.linter.registry import Page

__all__ = ["CHECKING"]

# What is no program, and names that do not hang together.
_TEXT = """
syntax | The text is not a jaxpr: at this place something else is needed | write what the message expects there, as jaxprs are printed | An equation is `b:f32[3] = sin a` on a line of its own (or before a `;`), a jaxpr `{ lambda ; a:f32[3]. let ... in (b,) }`.
empty | The text is empty | give a file that holds a jaxpr; in a pipe, look what the command before says
truncated | The text ends before the jaxpr does | copy the whole text; a log may have cut it off
bad-type | What stands where a type has to be is none | write a type as jaxprs have it: f32[3], bf16[8,128], i32[], key<fry>[]
bad-literal | A literal is no number of its type | write a number that the type has: 2:i32[], 0.5:f32[], True:bool[]
bad-constant | The value of a constant does not have the type of its variable | write as many numbers as the type has elements, in its shape
not-a-constant | A value is given for a name that is no constant of the jaxpr | name a variable that stands before the semicolon after `lambda`
not-a-reference | What is read or written as a reference is a number | name a variable whose type is that of a reference, Ref{f32[3]}
ambiguous-result | An operand `_`, as JAX 0.5.3 to 0.10.0 print one, may be one of several results of its type, and the first that nothing reads yet is taken | give the result a name where it is bound and where it is read
ambiguous-draws | A text with keys is of a release before 0.7 (it has `pjit`, or numbers without types), and does not tell whether of one before 0.5.0, where keys drew other numbers (`jax_threefry_partitionable`): those of later releases are drawn. So it is of batches of `rbg` and `unsafe_rbg` keys, and releases before 0.4.26, where each key of a batch drew alone (where the text tells that it is of one, the draw becomes a `scan` over the keys), and of samples of `random_gamma` below a = 1 and releases before 0.4.14, which scaled them by a power of another uniform number. A text that the newest release prints alike has no warning; `upgrade --report` has a line for it | write `partitionable=False` among the params of `random_bits`, `random_split` and `random_gamma` for the numbers of earlier releases, `partitionable=True` for those of later ones; for batches of `rbg` keys of a release before 0.4.26 write a `scan` over the keys around the draw, and `complement=False` among the params of `random_gamma` for one before 0.4.14
bound-twice | Two equations, or arguments, bind one variable | give one of them another name, and change those that read it
unbound-variable | A variable is read that nothing before has bound | name a variable that is bound above; a jaxpr in a param does not see those around it, and gets them as operands
duplicate-name | Two programs of a file, or two constants, have one name | give one of them another name
duplicate-param | A param is given twice in one equation | leave one of them out
undefined-jaxpr | A param names a jaxpr that the text does not define | define it above, `let f = { lambda ... } in`, or write the jaxpr out
recursive-jaxpr | A jaxpr refers to itself | name another one: jaxprs have no recursion, loops are `while` and `scan`
interface-count | The trees below a program have another number of leaves than it has arguments or results | write a `*` for each of them
interface-name | Two arguments in the line below a program have one name, or one has none that Python could have | write the names of the function's parameters, each once
interface-depth | The trees below a program are nested more than a hundred deep | leave the line out: a program runs without it
format | The file has a version of the format that this release does not know | install a newer release of jaxprtool, or write the file again with this one
no-type | The text does not say the type of an argument | write it, `a:f32[3]`, or give it with --shape 'f32[3]' | Prints of early releases leave types out; they are inferred from those of the arguments.
array-limit | There is no array of such a type: it has too many bytes, or dimensions, or a negative one | write the shape that is meant | An array has fewer than 2^63 bytes and at most 64 dimensions.
more | There are more errors of this kind than are shown | mend the first ones: the others often follow from them
"""

_TYPES = """
unknown-primitive | Nobody has declared a primitive of this name | write the name that is meant, or load the module that declares it with --plugin (`check --allow-unknown` takes it at its word)
binder-type | An equation gives another type than its variable is declared with | declare the type that the operation gives, and look at those that read it
result-count | An equation binds more or fewer results than the operation has | bind each result, `_` where nobody reads it
operand-count | An operation has too many operands, or too few | give it those that the message lists
operand-types | The operands have types that do not go together | convert one of them, with convert_element_type
operand-dtype | An operation does not take operands of this element type | convert the operand, with convert_element_type
operand-shapes | The operands have shapes that do not go together | make the shapes equal with broadcast_in_dim: primitives do not broadcast
operand-rank | An operation needs an operand of more axes | reshape it to a matrix, or to a batch of matrices
operand-memories | The operands are in different memories | move one of them with device_put
missing-param | An operation lacks a param | write the param; the message shows the declaration
unknown-param | An operation has no param of this name | write the name that is meant; the message shows the declaration
bad-param | The value of a param is not of the kind that it has to be | write a value of the kind that the message names
param-value | The value of a param is of the right kind, and there is no such value | write one of the values that the message names
axis-range | An axis is named that the operand does not have | count axes from 0; jaxprs have no negative ones
axis-twice | An axis is named twice | name it once
empty-axis | The greatest or least element of nothing is asked for | leave out what has no elements
dimension-count | A param has more or fewer entries than the operand has axes | write an entry for each axis
broadcast-size | An axis is to be broadcast that has another size than 1 | broadcast axes of size 1, or new ones
reshape-size | A reshape changes the number of elements | write sizes whose product is that of the operand's
squeeze-size | An axis is squeezed that has another size than 1 | name axes of size 1, or reduce the axis
permutation | An order of axes does not name each of them once | write each axis of the operand once
negative-size | A size is negative | write a size of 0 or more
slice-range | A slice is not within the operand | write limits up to the size of the axis, and starts up to the limits
slice-stride | A slice has a stride that is not positive | write a stride of 1 or more; `rev` reverses
slice-sizes | The slices of a gather have other sizes than its dimension numbers say | write 1 along collapsed dimensions
dimension-numbers | Dimension numbers do not fit the operands | name axes of the operands, in the order that the message says
fill-value | The value for what is out of bounds is no number of the operand's | write a number of its type, or None
index-mode | There is no such mode for indices out of bounds | write CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS or ONE_HOT
split-sizes | The parts of a split do not add up to the axis | write sizes whose sum is that of the axis
dot-sizes | Contracted or batch axes differ in size | contract axes of one size; transpose an operand if others are meant
bad-permutation | The axes of an operand of a convolution are not named each once | write each axis once: batch, features, then space
group-count | The groups of a convolution do not divide its features or its batch | write a number of groups that divides them
bad-size | A window, a stride or a dilation is not positive | write sizes of 1 or more
fft-lengths | The lengths of an FFT are not those of the last axes | write the sizes of the operand's last axes
key-count | A sort has more keys than operands, or none | write a number from 1 to that of the operands
top-k-size | More elements are asked for than the axis has | write a number up to the size of the axis
recall-target | The part of the greatest elements to be found is not between 0 and 1 | write a number above 0, and 1 at most
size-override | The size that a reduction goes by is less than that of its axis | write -1, or the size of the axis before it was split
reducer-type | The jaxpr of a reduction is not a function of two elements that gives one | let it take two arguments of the element type, and give one
argument-count | A jaxpr in a param, or a whole program, takes another number of arguments than it is given | give an operand, or a value, for each argument
argument-type | A jaxpr in a param takes another type than that of the operand | give it an operand of the type of its argument
branch-type | The branches of a cond return different types | let each branch return the same types
cond-index | What chooses a branch is no index | choose by an i32[], or by a bool[] between two branches
carry-type | A loop returns another type than it takes from turn to turn | convert the result, or start from a value of the type that it returns
scan-length | A scanned array has another length than the scan | write the size of its first axis as the length
loop-condition | The condition of a while loop does not return a boolean | let it return one bool[]: compare the carry with something
"""

# Named axes, references, and rules of derivatives.
_PLACING = """
unbound-axis | A named axis is not in scope here | name an axis of the mesh, or of the map, around it
spec | An array cannot be split, or joined, as a spec says | name axes of the mesh, of sizes that divide those of the array
not-replicated | A result of a shard_map differs from device to device, and its spec says that it does not | reduce it with psum_invariant, or name the axis in the spec
not-varying | A collective acts along an axis along which its operand is the same on all devices | let it vary first, with pvary
varying | A value is to vary along an axis along which it varies already | leave the pvary out
axis-groups | The groups of a collective do not hold each member once, or differ in size | write each number below the size of the axis once, in groups of one size
axis-size | The size of an axis in a param is not that of the axis | write the number of its members
returned-reference | A jaxpr returns a reference, and cells do not outlive what made them | return what is in the cell
aliased-reference | A call takes a reference twice, so that one cell has two names inside | pass it once
dead-reference | A reference is used after it was frozen | read it before, or use what freeze gives
mask-type | A mask does not have the shape of what it masks | give it the shape of the indexed part, and element type bool
rule-type | The rule of a derivative is not a function between the types of the function's | let a jvp rule take the arguments and their tangents, and give the results and theirs
transpose-type | The transpose of a linear call does not return cotangents of its operands | let it return a value of the type of each linear operand
"""

CHECKING: list[Page] = [
    *table("check: the text", _TEXT, command="check"),
    *table("check: the types", _TYPES, command="check"),
    *table("check: the types", _PLACING, command="check"),
]
