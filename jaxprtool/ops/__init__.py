"""All primitives, each declared by a stub: a function with operands, params and a docstring, but no
body. Rules import this package as `lax`: `from jaxprtool import ops as lax`.

Each name in this package is a binding function: called on values, it binds its primitive, which is
its attribute `primitive`. A family is a module that declares some primitives. It is imported when
one of its names or primitives is first used; `families.py` says which family declares which name. A
name that is not in `families.py` is looked for in all families, so that a new stub works before
`families.py` is written again.
"""

import os
import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jaxprtool.ops.families import FAMILIES

if TYPE_CHECKING:
    from jaxprtool.ops.accelerators import *
    from jaxprtool.ops.annotated_calls import *
    from jaxprtool.ops.asynchronous import *
    from jaxprtool.ops.binary import *
    from jaxprtool.ops.bits import *
    from jaxprtool.ops.bitwise import *
    from jaxprtool.ops.boxes import *
    from jaxprtool.ops.calls import *
    from jaxprtool.ops.comparison import *
    from jaxprtool.ops.composite import *
    from jaxprtool.ops.control_flow import *
    from jaxprtool.ops.convert import *
    from jaxprtool.ops.convolution import *
    from jaxprtool.ops.cumulative import *
    from jaxprtool.ops.custom_functions import *
    from jaxprtool.ops.custom_vmap import *
    from jaxprtool.ops.device_steps import *
    from jaxprtool.ops.dot_general import *
    from jaxprtool.ops.effects import *
    from jaxprtool.ops.exponential import *
    from jaxprtool.ops.exponents import *
    from jaxprtool.ops.fft import *
    from jaxprtool.ops.gather import *
    from jaxprtool.ops.joining import *
    from jaxprtool.ops.linalg.cholesky import *
    from jaxprtool.ops.linalg.eigen import *
    from jaxprtool.ops.linalg.hessenberg import *
    from jaxprtool.ops.linalg.lu import *
    from jaxprtool.ops.linalg.qr import *
    from jaxprtool.ops.linalg.svd import *
    from jaxprtool.ops.linalg.triangular import *
    from jaxprtool.ops.linalg.tridiagonal import *
    from jaxprtool.ops.linear_solve import *
    from jaxprtool.ops.outside import *
    from jaxprtool.ops.pallas import *
    from jaxprtool.ops.parallel import *
    from jaxprtool.ops.placement import *
    from jaxprtool.ops.polynomials import *
    from jaxprtool.ops.precision import *
    from jaxprtool.ops.ragged import *
    from jaxprtool.ops.random import *
    from jaxprtool.ops.reduction import *
    from jaxprtool.ops.remat import *
    from jaxprtool.ops.roots import *
    from jaxprtool.ops.scaled_dot import *
    from jaxprtool.ops.scatter import *
    from jaxprtool.ops.searching import *
    from jaxprtool.ops.select import *
    from jaxprtool.ops.shape import *
    from jaxprtool.ops.slicing import *
    from jaxprtool.ops.sorting import *
    from jaxprtool.ops.special import *
    from jaxprtool.ops.state import *
    from jaxprtool.ops.trigonometric import *
    from jaxprtool.ops.unary import *
    from jaxprtool.ops.window import *
    from jaxprtool.ops.wrappers import *

_family_of = {name: family for family, names in FAMILIES.items() for name in names.split()}
_all_loaded = False
_lock = threading.RLock()


def load_family(name: str) -> None:
    """Import the family that declares a binding function or a primitive of this name.

    Where `families.py` does not have the name, all families are imported, once.
    """
    if name in _family_of:
        _import(_family_of[name])
    elif not _all_loaded:
        load_families()


def load_families() -> None:
    """Import all families: first those of `families.py` in its order, then those that it lacks."""
    global _all_loaded
    with _lock:  # other threads wait until all families are imported
        if not _all_loaded:
            for family in dict.fromkeys([*FAMILIES, *find_families()]):
                _import(family)
            _all_loaded = True


def find_families(package: str = "") -> list[str]:
    """Return the names of the families whose files are in this folder, such as `linalg.qr`."""
    from pkgutil import iter_modules  # noqa: PLC0415 (slow to import, and almost never needed)

    found: list[str] = []
    for m in iter_modules([os.path.join(os.path.dirname(__file__), *package.split("."))]):
        if m.name in ("__main__", "arrays", "families", "operators"):
            continue
        found += find_families(f"{package}{m.name}.") if m.ispkg else [package + m.name]
    return sorted(found)


def _import(family: str) -> None:
    module = import_module(f"{__name__}.{family}")
    globals().update({name: getattr(module, name) for name in module.__all__})


def __getattr__(name: str) -> Any:
    """Return the binding function of this name; for `__all__` the names of all binding functions;
    for the name of a family that no binding function has, its module.
    """
    if name in FAMILIES and name not in _family_of:
        return import_module(f"{__name__}.{name}")
    if name == "__all__":
        load_families()
        return [n for f in FAMILIES for n in import_module(f"{__name__}.{f}").__all__]
    if not name.startswith("__"):
        load_family(name)
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Vocabulary(ModuleType):
    """The class of this package. Importing the family `fft` does not set the attribute `fft`, which
    is the binding function of that name.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _family_of):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Vocabulary
