"""A primitive has the same rules whatever else is loaded: the rows of its own family bring all of them."""

from __future__ import annotations

import json
import subprocess
import sys

from jaxprtool.core.primitive import vocabulary
from jaxprtool.ops.families import FAMILIES
from jaxprtool.rules.define import COLUMNS, FACTS, FEW, is_ours

# In a process of its own, a child for each family loads the rows of that family alone and prints which columns they have.
_ALONE = """
import json, os, sys
import jaxprtool
from jaxprtool.core.primitive import declared_by
from jaxprtool.rules.define import COLUMNS, FACTS, FEW
from jaxprtool.rules import load_rows
from importlib import import_module

tables = {c: t.rules for c, t in (COLUMNS | FEW).items()} | {c: t.stated for c, t in FACTS.items()}
for family in sys.argv[1:]:
    module = f"jaxprtool.ops.{family}"
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    import_module(module)
    load_rows(module)
    found = {p.name: [c for c, t in tables.items() if p in t] for p in declared_by(module)}
    print(json.dumps(found), flush=True)
    os._exit(0)
"""


def test_each_family_has_all_its_rules_where_it_is_loaded_alone():
    command = [sys.executable, "-c", _ALONE, *FAMILIES]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    alone = {}
    for line in run.stdout.splitlines():
        alone |= json.loads(line)
    ours = {name: p for name, p in vocabulary().items() if is_ours(p)}
    assert len(alone) > 200 and {*alone} == {*ours}, run.stderr
    for primitive in ours.values():
        COLUMNS["impl"].find(primitive)  # loads its rows
    rules = {c: t.rules for c, t in (COLUMNS | FEW).items()}
    tables = rules | {c: t.stated for c, t in FACTS.items()}
    everything = {n: {c for c, t in tables.items() if p in t} for n, p in ours.items()}
    missing = {n: everything[n] - {*alone[n]} for n in ours}
    assert {n: columns for n, columns in missing.items() if columns} == {}
