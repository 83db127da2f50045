"""Primitives that modules of this process declared to JAX but not to this package, for programs
that are read from text.
"""

from __future__ import annotations

from collections import Counter

from jaxprtool.backends.jax.foreign import give_rules
from jaxprtool.backends.jax.from_jax import aval_from_jax, from_jax
from jaxprtool.backends.jax.primitives import is_of_jax, live_primitive, primitives_of_process
from jaxprtool.core.primitive import declared_primitive, stand_in

__all__ = ["declare_primitives_of_process"]


def declare_primitives_of_process() -> None:
    """Let the names of these primitives mean JAX's objects, so that their rules are JAX's.

    A name that several of them have, or that this package or an installed plug-in declares, keeps
    its meaning.
    """
    found = [theirs for theirs in primitives_of_process() if not is_of_jax(theirs)]
    names = Counter(theirs.name for theirs in found)
    for theirs in found:
        name = theirs.name
        if names[name] == 1 and declared_primitive(name) is None:
            primitive = live_primitive(theirs)
            give_rules(primitive, from_jax, aval_from_jax)
            stand_in(primitive)
