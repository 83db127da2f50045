"""The results of `lint`: as text, as JSON, and as SARIF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.answer import Answer
from jaxprtool.analyses.places import Place
from jaxprtool.ir.diagnostics import Diagnostic, counted
from jaxprtool.ir.spans import Span
from jaxprtool.linter.engine import Finding
from jaxprtool.linter.registry import Rule

__all__ = ["Lint", "Linted", "diagnostic_of"]


class Linted(NamedTuple):
    """What was found in one program.

    Attributes:
      name: the name of the program: its file, and its name in the file.
      findings: the findings, in the order of the text.
      ignored: findings that comments in the text tell lint to ignore.
    """

    name: str
    findings: Sequence[Finding]
    ignored: Sequence[Finding]


class Lint(Answer):
    """What lint found in programs.

    Attributes:
      programs: the programs.
      fixed: code -> the number of findings that passes have mended; None without `--fix`.
    """

    def __init__(self, programs: Sequence[Linted], fixed: Counter[str] | None = None):
        self.programs, self.fixed = programs, fixed

    @property
    def findings(self) -> list[Finding]:
        """The findings of all programs."""
        return [f for program in self.programs for f in program.findings]

    @property
    def counts(self) -> Counter[str]:
        """How many findings there are, by code."""
        return Counter(f.code for f in self.findings)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not any(program.findings for program in self.programs)

    def lines(self) -> Sequence[str]:
        """Return each finding with its place and its help, then a summary."""
        found = [line for f in self.findings for line in self.lines_of(f)]
        return [*found, self.summary()]

    def lines_of(self, finding: Finding) -> list[str]:
        """Return a finding as lines of text."""
        return [*str(diagnostic_of(finding)).splitlines(), *way_lines(finding)]

    def summary(self) -> str:
        """Return a line like `3 findings in 2 programs: 2 dead-equation, 1 key-reuse; 1
        ignored`.
        """
        n = len(self.findings)
        kinds = ", ".join(f"{k} {code}" for code, k in self.counts.most_common())
        text = f"{counted(n, 'finding')}: {kinds}" if n else "nothing found"
        if len(self.programs) > 1:
            text = text.replace(":", f" in {counted(len(self.programs), 'program')}:", 1)
        ignored = sum(len(p.ignored) for p in self.programs)
        parts = [text, f"{ignored:,} ignored" if ignored else ""]
        if self.fixed:
            mended = ", ".join(f"{k} {code}" for code, k in self.fixed.most_common())
            parts.append(f"mended {mended}")
        return "; ".join(filter(None, parts))

    def json(self) -> dict[str, Any]:
        """Return the JSON document that `jaxprtool lint --help` describes."""
        rows = [_row(p.name, f) for p in self.programs for f in p.findings]
        return {
            "schema": 1,
            "findings": rows,
            "counts": dict(sorted(self.counts.items())),
            "ignored": sum(len(p.ignored) for p in self.programs),
            "fixed": None if self.fixed is None else dict(sorted(self.fixed.items())),
        }

    def sarif(self, version: str) -> dict[str, Any]:
        """Return the findings in the Static Analysis Results Interchange Format 2.1.0."""
        rules = {f.code: f.rule for f in self.findings}
        order = [*rules]
        driver = {
            "name": "jaxprtool",
            "version": version,
            "rules": [_sarif_rule(rules[code]) for code in order],
        }
        results = [_sarif_result(f, order.index(f.code)) for f in self.findings]
        return {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [
                {"tool": {"driver": driver}, "results": results, "columnKind": "utf16CodeUnits"}
            ],
        }


def diagnostic_of(finding: Finding) -> Diagnostic:
    """Return a finding as a warning with its place."""
    found = finding.found
    span, where = found.span, ""
    if span is None:
        where = (found.place.located() if found.place is not None else "") or found.label
    return Diagnostic(
        found.message, finding.code, span=span, help=finding.help, severity="warning", where=where
    )


def way_lines(finding: Finding) -> Iterator[str]:
    """Yield lines for the path to a finding through nested jaxprs, its line of Python, and its
    scopes.
    """
    place = finding.found.place
    if place is None:
        return
    if place.path:
        yield f"  way: {place}"
    source, names = place.source, place.names
    if source:
        yield f"  from: {source}{f' in {names}' if names else ''}"
    elif names:
        yield f"  in: {names}"


def _row(name: str, finding: Finding) -> dict[str, Any]:
    found = finding.found
    return {
        "code": finding.code,
        "family": finding.rule.page.family,
        "message": found.message,
        "help": finding.help,
        "program": name,
        "place": _place(found.place, found.span),
        "related": [place.json() for place in found.related],
        "fix": finding.fix or None,
    }


def _place(place: Place | None, span: Span | None) -> dict[str, Any]:
    """Return a place as JSON, with the keys that all verbs use.

    For an argument, a result or a constant there is no primitive.
    """
    if place is not None:
        return place.json()
    line, column = (None, None) if span is None else span.source.position(span.start)
    file = None if span is None else span.source.name
    nothing = {"primitive": None, "path": [], "source": None, "names": None}
    return {"file": file, "line": line, "column": column, **nothing}


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    page = rule.page
    return {
        "id": rule.code,
        "shortDescription": {"text": page.title},
        "fullDescription": {"text": page.why or page.title},
        "help": {"text": page.mend},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": [page.family]},
    }


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    found = finding.found
    related = [place.eqn.span for place in found.related]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "warning",
        "message": {"text": f"{found.message}; {finding.help}"},
        "locations": [_location(found.span)] if found.span else [],
    }
    if any(related):
        result["relatedLocations"] = [_location(span) for span in related if span]
    return result


def _location(span: Span) -> dict[str, Any]:
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    region = {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": span.source.name}, "region": region}}
