"""Derivatives against finite differences, and the equation whose rule is wrong."""
