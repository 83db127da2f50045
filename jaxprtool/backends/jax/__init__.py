"""The adapter to JAX: programs from it and to it, and tracing with it.

`private` has all names that JAX does not promise to keep, `vocabulary` the params that differ by
release.
"""

from jaxprtool.backends.installed import need

need("jax")
