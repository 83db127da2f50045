"""The rows of the table of rules: one `define` call for each primitive, in one module for each family.

The rows of the primitives that `ops/x.py` declares are in `rules/x.py`. A module of rows is
imported when a table is first asked about one of its primitives, so a program only pays for the
families that it uses.
"""

from importlib import import_module

from jaxprtool.core.primitive import declared_by
from jaxprtool.ir.frozen import set_field
from jaxprtool.rules.define import PLACES, rows_of

__all__ = ["load_rows"]


def load_rows(declared_in: str) -> None:
    """Import the rows of the primitives that a module of `ops` declares.

    Args:
      declared_in: the name of that module, `jaxprtool.ops.binary`.

    Raises:
      TypeError: a primitive of that module has no row.
    """
    import_module(rows_of(declared_in))
    declared = declared_by(declared_in)
    missing = [p.name for p in declared if p not in PLACES]
    if missing:
        raise TypeError(f"these primitives have no row: {', '.join(missing)}")
    for primitive in declared:
        set_field(primitive, "pending", "")
