"""The README of a bundle, for somebody who opens the archive and does not know this tool."""

from __future__ import annotations

from jaxprtool.driver.bundles.bundle import ARGS, PROGRAM, SCRIPT, Bundle

__all__ = ["readme_of"]

_MOST = 4000  # characters of an output


def readme_of(bundle: Bundle, command: str) -> str:
    """Return its text, for a bundle and its command."""
    status = "its time was up" if bundle.status is None else f"status {bundle.status}"
    versions = ", ".join(f"{k} {v}" for k, v in sorted(bundle.versions.items()))
    machine = ", ".join(v for v in bundle.platform.values() if v)
    parts = [
        f"# jaxprtool {bundle.verb}: what happens, to be seen again\n",
        f"`jaxprtool repro FILE.zip` runs this in a temporary folder and says whether it still happens:\n\n    {command}\n",
        f"It ended with {status}.",
        _quoted("It wrote", bundle.output),
        _quoted("Its messages were", bundle.messages),
    ]
    if bundle.expected:
        by = {"jax": "JAX gives", "given": "It should write"}.get(bundle.expected_by, "Expected")
        parts.append(_quoted(by, bundle.expected))
    files = [f"- `{PROGRAM}`: the program, a jaxpr"]
    if bundle.args:
        files.append(f"- `{ARGS}`: values of its arguments, by name")
    if bundle.script:
        files.append(
            f"- `{SCRIPT}`: the program in plain JAX; `python {SCRIPT}` prints its results"
        )
    parts.append("## Files\n\n" + "\n".join(files) + "\n")
    if not bundle.script:
        parts.append(f"There is no plain script of JAX: {bundle.why_no_script}.\n")
    if bundle.kept:
        parts.append(f"Values of the original are left in: {', '.join(bundle.kept)}.\n")
    parts.append(f"## Versions\n\n{versions}; {machine}\n")
    return "\n".join(filter(None, parts))


def _quoted(what: str, text: str) -> str:
    if not text.strip():
        return ""
    cut = text[:_MOST] + ("\n..." if len(text) > _MOST else "")
    lines = "\n".join(f"    {line}" for line in cut.splitlines())
    return f"{what}:\n\n{lines}\n"
