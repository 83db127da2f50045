"""The verbs as functions of Python: each takes a program, or a function and arguments to trace it on."""
