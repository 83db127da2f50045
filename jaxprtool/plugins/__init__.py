"""Plug-ins that come with the package: the primitives of libraries built on JAX, whose texts are met most.

They are plug-ins like those of others: they use what `import jaxprtool` offers, and are imported when a program holds a
primitive of theirs (`driver.user_code.entry_points`).
"""

__all__: list[str] = []
