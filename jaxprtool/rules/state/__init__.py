"""Rows of references."""

from jaxprtool.rules.state import references as references
