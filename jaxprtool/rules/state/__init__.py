"""Rows of references, atomic operations on them, and pinned buffers."""

from jaxprtool.rules.state import atomics as atomics
from jaxprtool.rules.state import buffers as buffers
from jaxprtool.rules.state import references as references
