"""The functions, meshes and Python callbacks of a module, and the symbols that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.sharding import Mesh
from jaxprtool.stablehlo.embedded import functions_of

__all__ = ["Function", "Module", "Place", "identifier"]


class Place(NamedTuple):
    """The context of some code: the mesh whose devices run it, and the manual axes of the mesh."""

    mesh: Mesh | None = None
    manual: tuple[str, ...] = ()


class Function(NamedTuple):
    """A function of the module that has not been written yet.

    `eqn` is the first equation that calls it, for errors in its body.
    """

    closed: ClosedJaxpr
    symbol: str
    place: Place
    eqn: JaxprEqn


class Module:
    """The functions of a module, and those that have not been written yet.

    The keys of the tables contain ids of jaxprs; the tables hold the jaxprs so that no id is
    reused.

    Attributes:
      taken: the symbols in use, each with the number that is tried first for another symbol of that
        name.
      foreign: the functions of other modules, as text.
      templates: templates for the lines of equations, by all that the lines depend on besides
        names. An entry is a `Template`, or the number of equations written without one so far, or
        False where no template is possible.
      alive: the params whose ids are in the keys of `templates`.
    """

    def __init__(self) -> None:
        self.symbols: dict[Any, Function] = {}
        self.taken: dict[str, int] = {"main": 0}
        self.pending: list[Function] = []
        self.meshes: dict[Mesh, str] = {}
        self.callbacks: list[Callable[..., Any]] = []
        self.embedded: dict[str, str] = {}  # other modules -> the symbols of their main functions
        self.foreign: list[str] = []
        self.templates: dict[tuple[Any, ...], Any] = {}
        self.alive: list[Any] = []

    def function(self, closed: ClosedJaxpr, name: str, place: Place, eqn: JaxprEqn) -> str:
        """Return the symbol of a private function for a jaxpr object, which is written once for each place."""
        key = id(closed), place
        found = self.symbols.get(key)
        if found is None:
            found = self.symbols[key] = Function(closed, self.fresh(name), place, eqn)
            self.pending.append(found)
        return found.symbol

    def embed(self, text: str, name: str) -> str:
        """Return the symbol of a private function that is another module's `main`.

        Raises ValueError as `functions_of`.
        """
        if text not in self.embedded:
            written = functions_of(text)
            symbols = {f.symbol: self.fresh(f"{name}_{f.symbol}") for f in written}
            self.foreign += [f.renamed(symbols) for f in written]
            self.embedded[text] = symbols["main"]
        return self.embedded[text]

    def mesh_symbol(self, mesh: Mesh) -> str:
        """Return the symbol of a mesh.

        All meshes of a program must have the same number of devices.
        """
        mesh = mesh.grid
        if any(m.size != mesh.size for m in self.meshes):
            sizes = ", ".join(str(m.size) for m in (*self.meshes, mesh))
            fail(UnsupportedError, f"the program's meshes differ in size: {sizes}", "mesh-size")
        if mesh not in self.meshes:
            self.meshes[mesh] = f"mesh_{len(self.meshes)}" if self.meshes else "mesh"
        return self.meshes[mesh]

    @property
    def devices(self) -> int:
        """The number of devices."""
        return next((m.size for m in self.meshes), 1)

    def mesh_lines(self) -> list[str]:
        """The declarations of the meshes."""
        axes = {m: ", ".join(f'"{n}"={s}' for n, s in m.sizes.items()) for m in self.meshes}
        return [f"  sdy.mesh @{symbol} = <[{axes[m]}]>" for m, symbol in self.meshes.items()]

    def fresh(self, name: str) -> str:
        """Return a symbol that no function has."""
        base = symbol = identifier(name)
        n = self.taken.get(base, 0)
        while symbol in self.taken:
            symbol, n = f"{base}_{n}", n + 1
        self.taken[base] = n
        self.taken.setdefault(symbol, 0)
        return symbol


def identifier(name: str) -> str:
    """Return a name as an MLIR symbol: characters that symbols cannot have are replaced."""
    word = "".join(c if c.isascii() and (c.isalnum() or c in "_.$") else "_" for c in name)
    return word if word and not word[0].isdigit() else f"f_{word}"
