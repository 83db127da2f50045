"""Avoid repeated work: jaxprs that stay shared, equations that repeat others, rules that are replayed."""
