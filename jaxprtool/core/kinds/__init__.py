"""Kinds of params, by family, and the names by which stubs declare them.

A name such as `Axes` is a type to a type checker and a kind to `@primitive`: `Annotated[tuple[int, ...], AXES]`. Types of
Python's own mean the plain kinds, so that `int`, `tuple[int, ...]`, `DType | None` and `Any` declare params too.
"""
