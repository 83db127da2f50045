"""The page on the language of `assert` and `grep`, which `jaxprtool assert --help` prints."""

from __future__ import annotations

__all__ = ["PAGE"]

PAGE = """\
The language. `grammar/assert.lark` is its grammar; nothing in it is evaluated as Python, and each part takes time that is
linear in the program.

\b
  TEST     no PATTERN | some PATTERN           none or one matches
           all PATTERN where FILTER            the filter holds of each match
           PATTERN feeds PATTERN               a result of one match of the
           all PATTERN feed PATTERN            first, or of each, reaches a
                                               match of the second
           [first|last] PATTERN before [first|last] PATTERN
                                               all of the first end before
                                               all of the second begin
           NUMBER <= NUMBER                    == != < <= > >=, and chains
           TEST and TEST | TEST or TEST | not TEST | (TEST)
  NUMBER   2 | 1e9 | 2GiB | 500KB              + - * / and parentheses
           count(PATTERN) | top.count(PATTERN) top: not in nested jaxprs
           peak | flops | transcendentals | bytes | communication |
           equations | executed | depth | constants | arguments
           flops(PATTERN) | bytes(PATTERN)     of what matches
           residuals(POLICY).count(TYPE) | residuals(POLICY).bytes
           growth(NUMBER, S)                   the exponent over --sizes
           count(PATTERN, B) | peak(B)         of the program of --vs
  PATTERN  TYPE {FILTER}                       values of a type
           NAME[KEY=VALUE, ...] OPERANDS {FILTER}
           TYPED = NAME[...] OPERANDS {FILTER} with the types of results
           name=x                              for name[name=x]
  NAME     dot_general | sin|cos | reduce_* | callback | collective | _
           (any) | 'a name in quotes'
  OPERAND  _ | _:TYPE | x | x:TYPE | 2.0       in this order; others may
           params["w"] | params.w              stand between them
  TYPE     f32 | f32[2, _] | bf16[..., 128] | f32<host>[8] | _[8]
  FILTER   PROPERTY == VALUE                   != ~ !~ and < <= > >=
           FILTER and FILTER | FILTER or FILTER | not FILTER
  PROPERTY in.dtype | out.shape | out[0].rank  dtype shape rank size bytes
           any in.dtype                        memory type weak name; of each,
                                               or of one
           scope | source | primitive | inside | depth | axis | param.KEY

Equations in a jaxpr that is used several times count as often as it is used. Looked into is what runs, not rules of
derivatives and bodies of reductions. Values are results of equations, literals, and arguments and constants of the program.
What a traced function's arguments were called is a name of theirs, in parts too: params, params["w"], params.w or params/w.
A name that is none of a primitive but a word in the names of some means those: callback is pure_callback, io_callback,
debug_callback and debug_print. A name that a word of the language hides stands in quotes: 'not' before sin.

A property without in or out is that of the results, and has to be so of each of them; any asks for one. `inside == scan` holds
where one of the enclosing equations is a scan. `~` looks for a regular expression, which stands in quotes where it has
marks. In the value of a param `_` stands for any part: dimension_numbers=(((1,), _), _). Where a function is used in
several scopes, each use has its own. A figure that a loop of unknown length leaves open is an error; --trips says how often it
turns. Where branches differ, a figure is the largest that is possible. Policies are
those of `jaxprtool residuals`, names=a+b for several names.

With --stage the patterns are about operations of StableHLO (lowered) or of optimised HLO (compiled): all_gather,
all_reduce, fusion. `collective` means all that communicate; an asynchronous one counts once. Besides types they have axis
(of the mesh), dimension (that is gathered or scattered), groups and members (how many, and of how many devices each),
target (of a custom_call) and scope. bytes(all_gather) is the bytes of the results on each device. Of a compiled program
there are peak, flops, transcendentals and bytes, as XLA says.

\b
Examples:
  no callback and no f64
  count(transpose) <= 2 and top.count(cond) == 1
  all dot_general where out.dtype == bf16
  count(name[name=query_proj]) == 12
  no dot_general _:f32[_, 4096] {scope ~ "attn"}
  last all_gather before first dot_general
  f32 {name == params.w} feeds dot_general
  name=x feeds device_put {out.memory == pinned_host}
  peak <= 2GiB and flops(dot_general) >= 0.9 * flops
  residuals(dots).count(f32[2, 64, 64]) <= 1
  count(ppermute, A) < count(ppermute, B)
  growth(peak, S) <= 1.1
  no all_gather {dtype == f32, axis == model} and bytes(all_reduce) <= 1MiB
"""
