"""The adapter to JAX: its jaxprs, objects and rules as ours, and back.

`private` holds all that JAX does not promise to keep; the other modules use it and JAX's public modules.
"""
