"""Pages of the messages that other verbs give: on how they are called, on files, and on what they cannot do."""

from __future__ import annotations

from jaxprtool.linter.messages.writing import table
from jaxprtool.linter.registry import Page

__all__ = ["USAGE"]

_CALLING = """
usage | A verb is called with options, or in a number of files, that it does not take | look at `jaxprtool VERB --help`
option | The value of an option makes no sense, or two options do not go together | write a value that the message names
bad-usage | What two options or files say does not go together | give one of them
bad-value | The value of an option cannot be read | write it as `--help` shows; a list with blanks needs quotes around it
argument-index | There is no argument, or result, of this name or position | write a position from 0, or a name that `check` shows
argument-name | An argument is given by a name that the program does not have, or twice | write a name that `check` shows, once
argument-tree | An argument is no tree of the structure that the program's is | give a container of the structure that the message shows
ambiguous-name | A name is that of an argument of the function and that of another variable of the program | give the position of the argument that is meant
repeated-option | An option that takes one value is given several times, and the last counts | give it once, with commas between several names
output-count | Results are to be written to a file that holds another number of arrays | write them to an .npz file
output-kind | Results are to be written to a file of an unknown kind | end its name in .npz or .npy
left-out | Values that were asked for are not saved or printed | raise the limit that the message names, or keep more steps of loops (`--every`)
axes-count | Axes are given for another number of arguments, or of results, than there are | write an axis for each, or - for what is not mapped
in-axes | No argument is mapped, or one cannot be | give an axis for one argument at least
out-axes | A result depends on the batch, and no axis is given for it | give an axis for each result that depends on the batch
no-mapped-axis | A vmap maps no argument | map one argument at least, or give the size of the axis
not-differentiable | A derivative is taken by an argument that has none | name arguments of a floating-point type with --wrt
grad-input | A gradient is taken by an argument that has none, such as an integer | name real or complex floating arguments with --wrt
grad-output | A gradient is taken of what is no real floating scalar | let the program return one scalar, or use vjp
not-linear | What is to be transposed is not linear in the arguments that are named | name the arguments in which it is, or linearize first
backend | There is no such backend | write a name that the message lists
devices | There are fewer devices than the program needs, or another number | run it with --devices N, or on more devices
platform | A platform is asked for that is not there | install JAX for it, or choose another with --platform
x64 | A program has 64-bit types, and JAX is told not to have them | give --x64, or set JAX_ENABLE_X64=1
no-jax | JAX or jaxlib is needed, and cannot be imported | pip install jax
frontend | There is no such front end for tracing | write one that the message lists
bad-static | The value of --static is not of the form name=value | write --static name=value
bad-shape | A shape cannot be read | write it as f32[3,4], or as a tree of these: {'w': f32[3]}
bad-target | What is to be traced is no name of a function | write file.py:function, or module:function
no-such-file | There is no such file | write the path of one that exists
no-such-module | There is no such module | write its name as `import` has it, or the path of its file
no-such-function | A module has no such function | write the name of one of its functions
no-such-value | A module has no such value | write the name of one of its values
not-a-function | What is to be traced is no function | name a function
user-exception | A function of the user's raised an exception while it was traced, or its module while it was imported | mend the function, at the line that the message names
not-a-pytree | An argument is of a class that JAX does not know as a container | register the class with jax.tree_util
not-a-program | What is given is neither a program nor a function | give what jt.parse or jax.make_jaxpr returns, or a function with its arguments
no-pass | There is no such pass | `jaxprtool opt --list` shows the passes
pass | A pass made a program that is ill-typed, or of another type than it promises | report it with the program, or mend the pass where it is your own
no-argument | A pass is to fix an argument, or a dimension, that the program does not have | write the name of one that it has
no-lint-rule | There is no such rule of lint, and no such family | `jaxprtool explain` lists the rules
no-such-code | There is no such code | `jaxprtool explain` lists all codes
no-dialect | There is no such dialect | write one that the message lists
not-in-dialect | A dialect cannot say what the program does | choose a later dialect, or none
earlier-words | An operation came with a later release than the text is written for, which computed the same with others | nothing has to be done
bad-style | There is no such style of print | write jax or autodidax
not-in-style | A style has no place for all that a file holds | keep the file, and write the other style to another one
no-variable | No equation binds a variable of this name | write the name of one that the program binds
no-jaxpr | A folder, or a log, holds no jaxpr | look at what JAX was told to write there
bad-domain | A domain of arguments cannot be read | write `x in (0, inf)` or `n in {1, 2, 4}`
not-interesting | There is nothing to reduce: the program does not fail as it has to | look at the command of --test with the whole program
bad-bench | A file is no measurement of `bench --json`, or one of another schema | measure again: `jaxprtool bench PROG --json > before.json`
bench-mismatch | Two measurements are of other programs, or of arguments of other types | compare measurements of one program on arguments of one type
nothing-common | Two runs have no equation in common that could be compared | compare runs of the same program
unknown-trips | A figure depends on how often a loop turns, which is not known | say it with --trips N
no-plugin | The module of --plugin is not there | write the name of a module, or the path of a file
plugin-failed | A plug-in raised an exception, or gave what no rule or pass may give | mend it, at the line that the message names
"""

_FILES = """
io | A file cannot be read or written | look at the reason that the message gives
no-input | No file is given, and standard input is a terminal | name a file, or pipe one in
unreadable-file | A file is not there, or cannot be read | name a file that can
unwritable-file | A file cannot be written | name another place
folder | A folder for values holds other files | name a new folder
several-jaxprs | A file holds several jaxprs, and one is needed | name it: FILE#NAME
several-programs | A text holds several programs, and one is needed | use jt.parse_file, or name it: FILE#NAME
no-such-jaxpr | A file holds no jaxpr of this name | write a name that the message lists
not-a-jaxpr | What is read is no jaxpr, but something else that JAX writes | give the jaxpr
compressed | A file is compressed in a way that cannot be read here | decompress it first
npz-path | A file of constants is not below the folder of the program | allow the folder with --allow-path, or move the file
no-such-constant | No constant without a value has this name | write a name that the message lists
no-such-array | An .npz file holds no array of this name | write a name that the message lists
missing-constant | The value of a constant, or of a literal, is not in the text | give it with --consts values.npz, or trace the function anew
constant-count | A program holds another number of values than it has constants | give jt.ClosedJaxpr a value, or None, for each constant
constant-type | The value of a constant is not of the type of its variable | give it an array of that type
bad-settings | The settings of the project cannot be read | mend [tool.jaxprtool] in pyproject.toml
not-an-artifact | A file is no compiled program | give one that `compile -o` wrote
artifact-damaged | A compiled program is cut short or damaged | compile it again
artifact-version | A compiled program was written by another release | compile it again
artifact-types | The header of a compiled program does not agree with it | compile it again
callback-artifact | A program that calls Python cannot be written as a compiled one | compile it in the process that runs it
bad-bundle | A file is no archive of `repro` | give one that `repro -o` wrote
bundle-command | An archive holds a command that is not run from archives | run the command yourself, if you trust it
"""

_LIMITS = """
no-rule | A primitive has no rule for what is asked | the message says why; a rule can be added with jaxprtool.define in a plug-in
no-derivative | A program, or an operation in this form, has no derivative | write it with operations that have one
no-forward-derivative | A function has a rule for reverse mode alone, or an operation none forward | take vjp or grad, or give it a jvp rule
no-jvp-rule | A reduction has no derivative by its initial values | start it from a constant
no-transpose | An operation cannot be transposed in this form | state that indices are unique, where they are
no-transpose-rule | An operation cannot be transposed in this form | write it with operations that can
no-batch-rule | An operation cannot be mapped in this form | map a program without batched initial values
no-known-value | A result has no value before its tangents have | ask for the result alone, without linearize
no-zeros | There are no zeros of a type that is no array | discharge references first
custom-rule | The rule of a custom derivative is not in the text, or could not be traced, so the function itself is differentiated, or has the rule that JAX gives its own function of that name and body (`jax.nn.relu`) | trace the function again with `jaxprtool trace`, which keeps rules; where a rule cannot be traced alone, take the derivative before
lost-rule | A function that has a rule of its own for derivatives or for vmap was inlined or split, and the rule is lost | take derivatives before, or inline other calls alone: `inline name=f`
nan | An equation gives a NaN | `blame` says how it came about
step-limit | A loop has taken as many steps as are allowed | raise --step-limit
time-limit | A loop has taken as long as is allowed | raise the limit, or lower the number of turns
out-of-memory | There is not enough memory | lower --max-bytes, or take smaller arguments
too-large | The program needs more memory than the limit | raise --max-bytes, or take smaller arguments
too-deep | The program is nested too deeply | inline some of it with `opt --passes inline`
symbolic-dimensions | A transformation, or a count of operations and bytes, needs sizes that are numbers | fix them with `opt --passes 'specialise n=8'`
symbolic-shape | XLA compiles fixed shapes only | fix the sizes with `opt --passes 'specialise n=8'`
unsupported-type | A verb does not take values of this type | the message names the type; references go with `discharge`
reference-argument | An argument is a reference, and transformations are of values | `discharge` makes the program pure
opaque-param | The value of a param is text that cannot be read back | trace the function again, or leave the equation out
opaque-type | A type is text that JAX cannot be told | trace the function again
no-constant | A literal has no value in the text | trace the function again, or write the value
no-callback | The Python function of a callback is not in the text | run the program in the process that traced it
callback-failed | The Python function of a callback raised an exception | mend the function
callback-result | The Python function of a callback gave other results than were announced | return values of the announced types
check-failed | A check of checkify has failed | look at the values that it checks
batching-rule | The batching rule of a user's function failed, or is not in the text and is not that of what the function consists of | mend the rule, or batch the function before it is traced (jax.vmap)
remat-policy | There is no such policy of remat, or it failed | write nothing, everything, dots, dots_no_batch, names=NAMES or offload=NAMES
outside | An operation runs outside of programs only | take it out of the program
ordered-effect | Ordered output in a program on several devices | take `ordered=True` away, or run it on one device
several-devices | An operation is laid out over several devices in a way that is not read | run it on one device
sharding | XLA lays an array out in a way that is not known here | run it with other shardings
mesh-size | The meshes of a program differ in size | use one mesh
coordinator | A process does not reach the others | look at the address, and whether all of them run
processes-differ | Processes have different programs or arguments | give all of them the same
dot-algorithm | A precision of dot_general does not exist on a CPU | choose one that the message names
no-cpu-algorithm | A library on a CPU does not have this algorithm | choose another, or leave the param out
no-lapack-type | LAPACK has no routine for this element type | convert to f32 or f64
no-numpy-type | NumPy cannot hold values of this type | convert them first
no-wider-type | There is no wider type to compare with | choose another with --shadow
no-stablehlo-type | StableHLO has no such element type | convert to one that it has
no-cost | The cost of an operation is not known | give its row a cost rule
no-profiler | XLA's profiler does not start: it runs already, or this jaxlib has none | end the other session, or profile on NumPy
no-kernel | An operation of a kernel stands outside of one | move it into the kernel
no-index-map | The index map of a block of a kernel is not in the text | trace the function again
grid-mapping | The record of a kernel's grid cannot be read | trace the function again
unsupported-block | A kernel has blocks of an unknown kind | use blocks of fixed sizes
unsupported-kernel | A kernel does something that cannot be lowered here | run it on NumPy
unsupported-index | An index of a reference cannot be read | index with integers and slices
xla-compile | XLA does not compile the program | the message has XLA's reason; `run` without --jit uses NumPy
xla-run | XLA could not run the program | the message has XLA's reason
jax-refuses | JAX does not take an equation | `check` says whether it is well-typed; JAX may be older than the text
jax-release | The JAX that is installed lacks something | install another release
jax-run | JAX does not run, or differentiate, the program | the message has its reason
jax-script | A plain script of JAX cannot say what the program does | use jt.load and jt.to_jax in the script
misfit | Operands and params of an operation do not fit together | look at its declaration, which the message shows
type-rule | The type rule of a plug-in's primitive failed, or gives no type | mend the rule
split-type | The two parts of a split program do not fit together | report it, with the program
reducer-constants | The constants of a reduction's jaxpr are not those of its params | leave the jaxpr without constants
result-types | The jaxprs of a linear solve do not return values of the types of b | let each return what it takes
operand-type | The rows of a ragged exchange are of another type than its output | convert one of them
rank | An operand has another number of axes than is needed | reshape it
nonbatchable | Equinox refuses to map this value | map it outside, or leave out `nonbatchable`
nontraceable | Equinox refuses to transform this value | leave out `nontraceable`
linear-solve | A linear solve of Lineax cannot be read from its print | trace the function with `jaxprtool trace`
warning | Something that a caller may not expect | the message says what
interrupted | The command was interrupted | run it again
internal | A fault of jaxprtool | report it, with the command and the input that was saved
"""

_PYTHON = """
scan-step | A step of a scan returns no pair | return (carry, y), with None where there is no y
no-aux | A function with has_aux returns no pair | return (value, aux)
static-argument | A static argument of jit is not there, or is not hashable | write a position or a name that the function has, and give a hashable value
argnums | An argument of a derivative is out of range | write positions from 0
assignment | A value that is traced cannot be changed in place | write x = x.at[i].set(y)
autodidax | The front end of the Autodidax tutorial is used in a way that it does not have | write it as the tutorial does
axes-tree | The axes of a vmap are no prefix of the tree of its arguments | give an axis for each argument, or one for each leaf
axis | An axis is out of range | count from 0, or from -1 backwards
bounds | An integer of Python's is out of the bounds of a type | give it a type that holds it
broadcast | Shapes do not broadcast to each other | reshape one of them
concatenate | Nothing is to be joined | give one array at least
concretization | The value of what is traced is asked for | use cond, where, scan or while_loop
contraction | Axes of different sizes are to be summed over together | transpose an operand
cotangent-tree | Cotangents are no tree of the structure of the results | give one for each result
dtype | There is no such element type | write a name such as float32
einsum | An einsum is called in a way that it does not have here | write letters, and sizes that agree
index | An index is of a type that is not possible | index with integers, arrays of them, slices, None and Ellipsis
jax-function | A function of JAX closes over a value that is transformed | give it as an argument
key-impl | There is no such kind of keys | write fry, rbg, urbg, fry4, phx2 or phx4
key-shape | The data of a key have another number of words than its kind | give 2 words for fry, 4 for rbg
traced-value | A value that is traced is given to a function that computes with values | call jt.jaxpr_as_fun(program), or jt.eval_jaxpr, in what is transformed
leaked-tracer | A tracer was used after its transformation had finished | return it from the function instead of storing it
matmul | A matrix product is not for scalars | multiply with *
norm | There is no such norm | write an order that the axes have
numpy-function | A function of NumPy has no counterpart for what is traced | write it with jaxprtool.lax
operand | An operand is no array and no number | give arrays or numbers
pad | There is no such mode of pad | pad with one constant
power | An integer is taken to a negative integer power | convert it to a float
reshape | Elements do not fit a shape | write sizes whose product is their number
roll | The shifts of a roll are not as many as its axes | give one shift, or one for each axis
repeat | An array says how often each element is repeated | give one number, or take elements at positions
round | Integers are rounded to tens, or hundreds | convert them to floats, or divide first
integer | An axis, a size or another count is no integer | write an integer
empty-reduction | The maximum or minimum of what may be nothing is asked | give initial=
result-type | What a rewrite puts in the place of an equation has another type | give a value of the result's type
specs-tree | Specs of a shard_map are no prefix of the tree of its values | give a spec for each argument, or one for each leaf
split | An array does not split into equal parts | give a number that divides the size, or the positions
squeeze | An axis of another size than 1 is squeezed | name axes of size 1
tangent-tree | Tangents are no tree of the structure of the primals | give one for each argument
tangent-type | A tangent is not of the type of its primal's tangents | give an array of that type
diagonal | A diagonal is asked of an array without two axes, or along one axis twice | give a matrix, and two axes of it
triangle | A triangle is asked of an array without two axes | give a matrix
"""

_GUARDS = """
assertion | An expression is given for what it cannot be asked of | name a program, and the second one with --vs
expression | An expression cannot be read, or asks for what a program does not have | write it as the page of assert --help says
git | Git cannot be asked, or refuses | run it in a repository of git
no-outputs | A folder holds no outputs of an installation | name a folder that JAX has dumped its programs to
no-such-program | The settings of a project name no program so | write one of the names in pyproject.toml
snapshot | The settings of a project's snapshots are none | write them as snapshot --help shows
unknown-name | A name in an expression, in the option of a pass or in a policy is that of nothing in the program | write the name that the message suggests
"""

USAGE: list[Page] = [
    *table("calls", _CALLING),
    *table("files", _FILES),
    *table("limits", _LIMITS),
    *table("functions of Python", _PYTHON),
    *table("guards", _GUARDS),
]
