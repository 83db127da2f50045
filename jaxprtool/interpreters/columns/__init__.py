"""Columns of the table of rules that are no interpreters: facts about operations that other layers ask for."""
