"""Equations, operations and bytes of a program, counted: `stats` and `cost`."""
