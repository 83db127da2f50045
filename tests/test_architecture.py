"""The shape of the code: layers, sizes, and where heavy packages may be imported."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jaxprtool.cli.main import VERBS
from jaxprtool.core.primitive import vocabulary

PACKAGE = Path(__file__).parent.parent / "jaxprtool"
FILES = sorted(PACKAGE.rglob("*.py"))
# What stands at the top of the repository, beside files whose names begin with a dot.
TOP = {
    *("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"),
    *("examples", "grammar", "jaxprtool", "tests"),
}
LARGEST = 4 << 20  # bytes of a file that is kept; a program of the zoo has half as many

# From the bottom up. A layer imports itself and what is below it.
LAYERS = (
    "ir",
    "core",
    "ops",
    "syntax",
    "stablehlo",
    "interpreters",
    "makers",
    "rules",
    "backends",
    "passes",
    "generation",
    "analyses",
    "linter",
    "driver",
    "cli",
)
# Modules that stand outside the layers: the public face, the entry point, and plug-ins, which use the public face.
PUBLIC = {
    *("__init__", "__main__", "autodidax", "lax", "names", "plugins"),
    "testing",
    "pytest_plugin",
}
# Layers that know primitives by what `ops` declares and `rules` define, and not by name.
NAMELESS = {"ir", "core", "syntax", "stablehlo", "interpreters", "makers", "analyses"}
BY_NAME = {
    "core/policies.py": "JAX's policies of remat2 name the primitives whose results they save",
    "makers/indexing.py": "`gather` and `scatter` are kinds of dimension numbers",
    "stablehlo/cost.py": "operations of StableHLO, some of which are called as primitives are",
    "syntax/autodidax.py": "the tutorial's dialect: its names for primitives, and ours",
    "syntax/releases/earlier.py": "earlier releases' spellings, many of names that are no primitives now",
    "syntax/releases/earlier_spellings.py": "the same of the releases whose literals have no types",
    "syntax/releases/last_spellings.py": "sets of params that only earlier releases print",
    "syntax/releases/old_operands.py": "equations with other operands in earlier releases",
    "syntax/releases/oldest_spellings.py": "the same of the releases before 0.4.14",
    "syntax/releases/spellings.py": "what each release of JAX prints, one row for a primitive",
    "syntax/building/tuples.py": "what the releases to 0.1.40 pack and take apart",
    "syntax/params.py": "`slice(...)` is a constructor in the value of a param",
}
# `name` is the name of a primitive and, much more often, that of a param.
PRIMITIVE_NAMES = {
    p.name
    for p in vocabulary().values()
    if p.stub and p.stub.__module__.startswith("jaxprtool.ops")
} - {"name"}
# Unstable APIs: a package, or the private part of one -> the one module that may use it.
OUTSIDE = {
    "jax._src": "backends/jax/private.py",
    "jax.extend": "backends/jax/private.py",
    "jax.interpreters": "backends/jax/private.py",
    "jax.core": "backends/jax/private.py",
    "jaxlib": "backends/xla/client.py",
}
HEAVY = {"numpy", "scipy", "jax", "jaxlib", "lark", "rich", "ml_dtypes"}
MAX_LINES, MAX_FUNCTION, MAX_VERB = 600, 60, 60
# Layers whose modules and packages are families of primitives, or of makers, which do not import each other.
FAMILIES = {"ops", "makers", "rules"}
# But all may import these,
SHARED = {
    "makers/axes": "axes and shapes",
    "rules/define": "what every row is given to",
}
# these are functions of NumPy and operators of Python, written with the primitives of every family,
WITH_ALL = {"ops/arrays", "ops/operators"}
# and these pairs have a reason.
SIDEWAYS = {
    ("makers/calls", "makers/call_types"): "rules of calls check them",
    ("makers/selection", "makers/indexing"): "a selection reads elements by their indices",
    ("ops/asynchronous", "ops/parallel"): "each is the start or the end of an operation there",
    ("rules/asynchronous", "rules/parallel"): "as in `ops`",
    ("rules/calls", "rules/jit"): "a call is compiled as jit compiles",
    ("rules/control_flow", "rules/wrappers"): "a branch is chosen by the platform",
    ("rules/cumulative", "rules/binary"): "the derivative of cummax is made of that of max",
    ("rules/custom_functions", "rules/jax_functions"): "rules that no text holds",
    ("rules/effects", "rules/formats"): "the format strings of debug_print",
    ("rules/jax_functions", "rules/linalg"): "the derivative of a pseudo-inverse",
    ("rules/linalg", "rules/control_flow"): "an update of a Cholesky factor is a fori_loop",
    ("rules/parallel", "rules/control_flow"): "shard_map splits lists as loops do",
}


# Layers in which values have fields: only `syntax` makes them of text.
STRUCTURED = {"ir", "interpreters", "makers", "rules", "stablehlo"}
# What takes a text apart: modules, and methods of strings (those of the second kind are others' methods too, so they
# count where their first argument is a literal, or missing).
OF_TEXT = {"re", "tokenize", "ast", "json"}
TAKES_APART = {
    *("rpartition", "rsplit", "splitlines", "startswith", "endswith", "removeprefix"),
    *("removesuffix", "isdigit", "isdecimal", "isidentifier"),
}
MAY_TAKE_APART = {"split", "partition"}
READS_TEXT = {
    "interpreters/functions/jax_functions.py": "modules of Python, in the frames of an exception",
    "interpreters/lowered_cost.py": "the name of an operation in a line of StableHLO that was just written",
    "ir/diagnostics.py": "messages: long words, plurals",
    "ir/interface.py": "paths that people write to name an argument: `params['w']`",
    "ir/params.py": "the last part of a dotted name",
    "ir/printable.py": "what is shown to people: characters that a terminal would obey",
    "ir/spans.py": "where the lines of a text begin",
    "ir/synonyms.py": "its tables, which are written as text",
    "rules/__main__.py": "docstrings and names of functions, for the table of rules",
    "rules/composite.py": "whether StableHLO takes a name",
    "rules/formats.py": "format strings, which are text to JAX too: the program prints with them",
    "stablehlo/attributes.py": "whether MLIR takes a name bare; names of NumPy's types",
    "stablehlo/embedded.py": "the functions of a module that JAX has written",
    "stablehlo/functions.py": "a name as a symbol of MLIR",
    "stablehlo/templates.py": "names of values in lines of StableHLO that were just written",
    "stablehlo/text.py": "Python's text of a float, which MLIR spells in another way",
}


def layer_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


@functools.cache
def parsed(source: str) -> ast.Module:
    """The tree of a file, which several tests look at."""
    return ast.parse(source)


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every import statement, and the module it names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module
            if node.module == "jaxprtool":
                yield from ((node, f"jaxprtool.{alias.name}") for alias in node.names)


def upward(path: Path, source: str) -> list[str]:
    """Imports of `path` that go up the list of layers."""
    own = layer_of(path)
    found = []
    for node, module in imports(parsed(source)):
        parts = module.split(".")
        if parts[0] != "jaxprtool" or own in PUBLIC:
            continue
        if len(parts) == 1 or parts[1] not in LAYERS:
            if parts == ["jaxprtool"]:
                continue
            found.append(f"{path.name}:{node.lineno} imports {module}, which is in no layer")
        elif LAYERS.index(parts[1]) > LAYERS.index(own):
            found.append(f"{path.name}:{node.lineno} ({own}) imports {module} from above")
    return found


def heavy_at_module_level(source: str) -> list[str]:
    return [
        module
        for node in parsed(source).body
        for _, module in imports(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and module.partition(".")[0] in HEAVY
    ]


def _dotted(node: ast.expr) -> str:
    """`a.b.c` for an expression that is written so, else nothing."""
    if isinstance(node, ast.Attribute):
        first = _dotted(node.value)
        return f"{first}.{node.attr}" if first else ""
    return node.id if isinstance(node, ast.Name) else ""


def beside_the_adapter(path: Path, source: str) -> list[str]:
    """Uses of `OUTSIDE` in other modules than the one of each: imports, attributes, names of modules as text."""
    tree = parsed(source)
    used = {(node.lineno, module) for node, module in imports(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:  # `from jax import core`
            used |= {(node.lineno, f"{node.module}.{alias.name}") for alias in node.names}
        elif isinstance(node, ast.Attribute):
            used.add((node.lineno, _dotted(node)))
        elif isinstance(node, ast.Constant) and re.fullmatch(r"[\w.]+\.[\w.]*", str(node.value)):
            used.add((node.lineno, str(node.value)))
    return sorted(
        f"{path.name}:{line} {module}"
        for line, module in used
        for prefix, home in OUTSIDE.items()
        if f"{module}.".startswith(f"{prefix}.") and name(path) != home
    )


# Ways around Python that need a reason, and the modules that give one.
AROUND = {"_exit": {"cli/main.py"}, "exec": set(), "ctypes": set(), "derived": {"ir/memo.py"}}


def around_python(path: Path, source: str) -> list[str]:
    """Uses of `AROUND` in other modules than those of each; `derived` is what only memos read and write."""
    tree = parsed(source)
    used = {(node.lineno, module.partition(".")[0]) for node, module in imports(tree)}
    used |= {(x.lineno, x.attr) for x in ast.walk(tree) if isinstance(x, ast.Attribute)}
    used |= {(x.lineno, x.id) for x in ast.walk(tree) if isinstance(x, ast.Name)}
    return sorted(
        f"{path.name}:{line} {word}"
        for line, word in used
        if name(path) not in AROUND.get(word, {name(path)})
    )


def own_inside_functions(path: Path, source: str) -> list[str]:
    """Function-level imports of our own modules that are no gateway to a backend."""
    found = []
    for function in ast.walk(parsed(source)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node, module in imports(function):
            if module.startswith("jaxprtool") and module.split(".")[1:2] not in ([], ["backends"]):
                found.append(f"{path.name}:{node.lineno} {module}")
    return found


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def too_long(source: str) -> list[str]:
    """The file, where it has too many lines, and its functions that have."""
    lines = len(source.splitlines())
    found = [f"{lines} lines"] if lines > MAX_LINES else []
    for f in ast.walk(parsed(source)):
        if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (f.end_lineno or 0) - f.lineno + 1
            if length > MAX_FUNCTION:
                found.append(f"{f.name}: {length} lines")
    return found


def _strings(node: ast.expr | None) -> set[str]:
    """A string, or the strings in a display, written out."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return {s for x in node.elts for s in _strings(x)}
    return set()


def _is_name(node: ast.expr) -> bool:
    """Whether an expression may stand for a primitive's name: `eqn.primitive.name`, `name`, `str(primitive)`."""
    if isinstance(node, ast.Call):
        return any(map(_is_name, node.args))
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return last in ("name", "primitive", "op")


def _is_primitive(node: ast.expr) -> bool:
    """Whether an expression is a certain primitive: `lax.sin.primitive`."""
    return isinstance(node, ast.Attribute) and (
        (node.attr == "primitive" and isinstance(node.value, ast.Attribute))
        and getattr(node.value.value, "id", "") in ("lax", "ops")
    )


def _knows_primitives(node: ast.AST) -> bool:
    """Whether an expression or a pattern decides something by which primitive it is."""
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
        named = any(_strings(x) & PRIMITIVE_NAMES for x in parts) and any(map(_is_name, parts))
        return named or any(map(_is_primitive, parts))
    if isinstance(node, ast.MatchValue):
        return bool(_strings(node.value) & PRIMITIVE_NAMES)
    if not isinstance(node, (ast.Set, ast.Dict)):
        return False
    keys = node.elts if isinstance(node, ast.Set) else [k for k in node.keys if k is not None]
    known = [k for k in keys if _strings(k) & PRIMITIVE_NAMES or _is_primitive(k)]
    return bool(known) and 2 * len(known) >= len(keys)


def by_name(path: Path, source: str) -> list[str]:
    """Places of a file that know single primitives, and tables of them at the level of the module."""
    if layer_of(path) not in NAMELESS:
        return []
    tree = parsed(source)
    lines = {x.lineno for x in ast.walk(tree) if _knows_primitives(x)}  # type: ignore[attr-defined]
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            kind = ast.unparse(node.annotation).lower()
            if kind.startswith(("set[primitive", "frozenset[primitive", "dict[primitive")):
                lines.add(node.lineno)
    return [f"{path.name}:{line}" for line in sorted(lines)]


def _is_own_text(receiver: ast.expr) -> bool:
    """Whether a text is a literal, a constant of the module, or a name that Python gives: `f.__module__`."""
    last = _dotted(receiver).rpartition(".")[2]
    return isinstance(receiver, ast.Constant) or last.isupper() or last.startswith("__")


def takes_text_apart(path: Path, source: str) -> list[str]:
    """Places of a file in `STRUCTURED` that look into texts, and its imports of what reads texts."""
    if layer_of(path) not in STRUCTURED:
        return []
    tree, found = parsed(source), []
    for node, module in imports(tree):
        reader = layer_of(path) in ("makers", "rules") and module.startswith("jaxprtool.syntax")
        if module.partition(".")[0] in OF_TEXT or reader:
            found.append(f"{path.name}:{node.lineno} {module}")
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        method, first = node.func.attr, node.args[0] if node.args else ast.Constant("")
        literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
        takes = method in TAKES_APART or (method in MAY_TAKE_APART and literal)
        if takes and not _is_own_text(node.func.value):
            found.append(f"{path.name}:{node.lineno} {method}")
    return found


def offenders(check: Callable[[Path, str], list[str]]) -> dict[str, list[str]]:
    """What a check finds, by file."""
    found = {name(path): check(path, path.read_text()) for path in FILES}
    return {path: faults for path, faults in found.items() if faults}


def test_imports_point_down() -> None:
    assert offenders(upward) == {}


def test_heavy_packages_are_imported_in_backends_only() -> None:
    assert (
        offenders(
            lambda path, source: (
                [] if layer_of(path) == "backends" else heavy_at_module_level(source)
            )
        )
        == {}
    )


def test_the_repository_keeps_what_was_agreed_and_nothing_large() -> None:
    root = PACKAGE.parent
    if not (root / ".git").exists():
        pytest.skip("this is no clone")
    run = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    kept = [name for name in run.stdout.decode().split("\0") if name]
    tops = {name.split("/")[0] for name in kept}
    assert {name for name in tops if not name.startswith(".")} == TOP
    there = [root / name for name in kept if (root / name).is_file()]
    assert [str(f) for f in there if f.stat().st_size > LARGEST] == []


def test_own_modules_are_imported_at_the_top() -> None:
    """Except in gateways, which import on first use, and in `backends`."""

    def inside(path: Path, source: str) -> list[str]:
        at_home = layer_of(path) in ("backends", "__init__")
        return [] if at_home else own_inside_functions(path, source)

    assert offenders(inside) == {}


def test_one_module_each_talks_to_what_jax_and_jaxlib_do_not_promise() -> None:
    """Other modules do not use unstable APIs of JAX and jaxlib; the check finds such uses in the
    modules of OUTSIDE.
    """
    assert offenders(beside_the_adapter) == {}
    for home in set(OUTSIDE.values()):
        source = (PACKAGE / home).read_text()
        assert beside_the_adapter(PACKAGE / "backends" / "x.py", source)


def test_ways_around_python_stay_where_their_reason_stands() -> None:
    assert offenders(around_python) == {}


def test_files_and_functions_are_short() -> None:
    assert offenders(lambda _, source: too_long(source)) == {}


def test_no_table_of_single_primitives_outside_of_their_rows() -> None:
    """Only the files of BY_NAME, which gives the reasons, have such tables; each of them still has
    one.
    """
    assert offenders(by_name).keys() == BY_NAME.keys()


def test_text_becomes_structure_where_it_is_read() -> None:
    """Only the files of READS_TEXT, which gives the reasons, look into texts; each of them still
    does.
    """
    assert offenders(takes_text_apart).keys() == READS_TEXT.keys()


def test_click_stays_in_the_command_line() -> None:
    def stray(path: Path, source: str) -> list[str]:
        if layer_of(path) == "cli":
            return []
        modules = [module for _, module in imports(parsed(source))]
        return [m for m in modules if m.partition(".")[0] == "click"]

    assert offenders(stray) == {}


def without_help(source: str) -> int:
    """The lines of a verb's file, without the text that `--help` shows."""
    lines = len(source.splitlines())
    for f in parsed(source).body:
        if isinstance(f, ast.FunctionDef) and ast.get_docstring(f):
            lines -= (f.body[0].end_lineno or 0) - f.body[0].lineno + 1
    return lines


def test_verbs_are_thin() -> None:
    """A verb's file has its options, one call and what is done with the result; what is longer is shared."""
    homes = {where.partition(":")[0].removeprefix("jaxprtool.cli.") for where, _ in VERBS.values()}
    sizes = {verb: without_help((PACKAGE / "cli" / f"{verb}.py").read_text()) for verb in homes}
    assert {verb: n for verb, n in sizes.items() if n > MAX_VERB} == {}


def family(path: Path) -> tuple[str, str]:
    """The layer of a module, and its family: the module, or the package in the layer that it is in."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0], parts[1]


def sideways(path: Path, source: str) -> set[str]:
    """The families of its own layer that a module of another family imports."""
    layer, own = family(path) if layer_of(path) in FAMILIES else ("", "")
    if own in ("", "__init__", "__main__") or f"{layer}/{own}" in WITH_ALL:
        return set()
    found = set()
    for node, module in imports(parsed(source)):
        parts = module.split(".")
        if parts == ["jaxprtool", layer] and isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif parts[:2] == ["jaxprtool", layer] and len(parts) > 2:
            found.add(parts[2])
    return {f"{layer}/{other}" for other in found - {own}}


def test_families_do_not_import_each_other() -> None:
    """Only the families of SHARED, and the pairs of SIDEWAYS, are imported; each of them still
    is.
    """
    found = {
        ("/".join(family(path)), other)
        for path in FILES
        for other in sideways(path, path.read_text())
    }
    assert {other for _, other in found} >= SHARED.keys()
    assert {pair for pair in found if pair[1] not in SHARED} == SIDEWAYS.keys()


def undocumented(source: str) -> list[str]:
    """Return the public functions and classes of a module, and the module itself, that have no
    docstring.

    Overloads need none.
    """
    tree = parsed(source)
    found = [] if ast.get_docstring(tree) or not tree.body else ["the module"]
    for node in tree.body:
        named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if not named or node.name.startswith("_") or ast.get_docstring(node):
            continue
        if "overload" not in [_dotted(d) for d in node.decorator_list]:
            found.append(node.name)
    return found


def test_what_is_public_is_documented() -> None:
    assert offenders(lambda _, source: undocumented(source)) == {}


def test_the_checks_can_fail() -> None:
    assert without_help('def f():\n    """One.\n\n    Two.\n    """\n    g()\n') == 2
    family_path = PACKAGE / "rules" / "linalg" / "x.py"
    assert sideways(family_path, "from jaxprtool.rules.scatter import f") == {"rules/scatter"}
    assert sideways(family_path, "from jaxprtool.rules import scatter") == {"rules/scatter"}
    assert not sideways(family_path, "from jaxprtool.rules.linalg.y import f")
    assert not sideways(family_path, "from jaxprtool.makers.axes import f")
    assert undocumented('"""m"""\ndef f(): pass\nclass C: pass\ndef _g(): pass') == ["f", "C"]
    assert undocumented('"""m"""\n@overload\ndef f(): ...\n@other\ndef f(): pass') == ["f"]
    assert undocumented("x = 1") == ["the module"] and not undocumented("")
    path = PACKAGE / "core" / "x.py"
    assert upward(path, "from jaxprtool.cli.main import main")
    assert upward(path, "from jaxprtool import rules")
    assert upward(path, "import jaxprtool.nowhere")
    assert not upward(path, "from jaxprtool.ir.jaxpr import Var")
    assert heavy_at_module_level("import numpy as np") == ["numpy"]
    assert not heavy_at_module_level("def f():\n    import numpy")
    assert own_inside_functions(path, "def f():\n    from jaxprtool.ir import jaxpr")
    assert not own_inside_functions(
        path, "def f():\n    from jaxprtool.backends.xla import compile as xla"
    )
    for line in (
        "import jaxlib",
        "from jaxlib import xla_client",
        "def f():\n    from jaxlib.mlir import ir",
        "from jax._src import core",
        "from jax import _src",
        "from jax.extend.core import Jaxpr",
        "import jax\nx = jax._src.core.Var",
        "importlib.import_module('jaxlib.mlir')",
    ):
        assert beside_the_adapter(path, line), line
    for line in ("import ctypes", "exec('1')", "os._exit(0)", "x = program.derived"):
        assert around_python(path, line), line
    assert not around_python(PACKAGE / "cli" / "main.py", "os._exit(0)")
    assert not beside_the_adapter(path, "import jax\nx = jax.numpy.ones(jaxlib_version)")
    for line in (
        "if eqn.primitive.name == 'sin': pass",
        "if name in ('sin', 'cos'): pass",
        "if str(eqn.primitive) == 'sin': pass",
        "if primitive is lax.sin.primitive: pass",
        "TABLE = {lax.sin.primitive, lax.cos.primitive}",
        "TABLE = frozenset({'sin', 'cos'})",
        "TABLE = {'sin': f, 'cosine': g}",
        "TABLE: set[Primitive] = set()",
        "TABLE: dict[Primitive, int] = {}",
        "match name:\n    case 'sin': pass",
    ):
        assert by_name(path, line), line
        assert not by_name(PACKAGE / "rules" / "x.py", line)
    for line in (
        "if key == 'name': pass",
        "if eqn.primitive.notation == 'read': pass",
        "rules: dict[str, int] = {'one': 1, 'sine': 2}",
        "op = lax.sin.primitive",
        "def f():\n    seen: set[Primitive] = set()",
    ):
        assert not by_name(path, line), line
    rule = PACKAGE / "rules" / "x.py"
    for line in (
        "import re",
        "from jaxprtool.syntax.types import read_type",
        "mode = str(params['mode']).rpartition('.')[2]",
        "start, stop = text.split(':')",
        "words = index.split()",
        "if eqn.params['effect'].startswith('Ordered'): pass",
        "name = value.text.partition('(')[0]",
    ):
        assert takes_text_apart(rule, line), line
        assert not takes_text_apart(PACKAGE / "syntax" / "x.py", line)
    for line in (
        "known, unknown = both.split(wanted)",
        "x = lax.split(y, sizes=sizes, axis=0)",
        "TERMS = [float(c) for c in _TERMS.split()]",
        "if f.__module__.startswith('numpy'): pass",
        "from jaxprtool.stablehlo.text import mlir_type",
    ):
        assert not takes_text_apart(rule, line), line
    assert too_long("x = 1\n" * (MAX_LINES + 1)) == [f"{MAX_LINES + 1} lines"]
    assert too_long("def f():\n" + "    x = 1\n" * MAX_FUNCTION) == [f"f: {MAX_FUNCTION + 1} lines"]
