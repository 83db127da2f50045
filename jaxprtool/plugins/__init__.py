"""Plug-ins that come with the package: the primitives of the libraries built on JAX that are used
most.

They work like plug-ins of other packages: they are imported when a program has one of their
primitives (`driver.user_code.entry_points`).
"""

__all__: list[str] = []
