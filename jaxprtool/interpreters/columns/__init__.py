"""Columns of the table of rules that are facts or short answers, and no interpreters: what other layers ask of an operation."""
