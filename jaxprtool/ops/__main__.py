"""`python -m jaxprtool.ops`: write `families.py`, which says which family (module of this package)
declares which name.
"""

from importlib import import_module
from pathlib import Path

from jaxprtool.ops import find_families

__all__ = ["families_text", "main"]

FAMILIES_PATH = Path(__file__).with_name("families.py")

_HEAD = '''"""The names of binding functions, and of primitives, that each family declares: `python -m jaxprtool.ops` writes this."""

FAMILIES = {
'''


def families_text() -> str:
    """Return the text of `families.py`: a dict from each family to the names that it declares.

    Raises:
      ValueError: two families declare one name.
    """
    rows: list[str] = []
    homes: dict[str, str] = {}
    for family in find_families():
        module = import_module(f"jaxprtool.ops.{family}")
        names = dict.fromkeys(module.__all__)
        declared = [getattr(module, name) for name in names]
        names |= dict.fromkeys(op.primitive.name for op in declared if hasattr(op, "primitive"))
        for name in names:
            if homes.setdefault(name, family) != family:
                raise ValueError(f"{name} is declared by {homes[name]} and by {family}")
        rows.append(f'    "{family}": "{" ".join(names)}",\n')
    return f"{_HEAD}{''.join(rows)}}}\n"


def main() -> None:
    """Write `families.py`."""
    FAMILIES_PATH.write_text(families_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
