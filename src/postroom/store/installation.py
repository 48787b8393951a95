"""How this copy of Postroom was installed, for hints about an extra that is missing."""

from __future__ import annotations

import sys

from postroom.core.errors import StorageFailure
from postroom.core.text import shell_quote


def missing_extra(problem: str, extra: str) -> StorageFailure:
    """Return the refusal of a feature whose libraries are not installed.

    Its hint names the source of this copy. The bare name would make pip install whatever package of that name an index has.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        record = distribution("postroom").read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    if record is None:
        hint = f"Install Postroom again with its extra [{extra}], from the source that this copy came from."
    else:
        installer, extras = find_installer(sys.prefix)
        hint = f"Install its extra: {installer} {shell_quote(requirement(record, ','.join((*extras, extra))))}"
    return StorageFailure(problem, hint=hint)


def find_installer(prefix: str) -> tuple[str, tuple[str, ...]]:
    """Return the command that adds an extra to an environment, and the extras that must be named again.

    pipx and uv keep a note of what they installed, and they install it anew: with the named extras only.
    """
    from json import loads
    from pathlib import Path
    from tomllib import loads as loads_toml

    pipx_note, uv_note = Path(prefix, "pipx_metadata.json"), Path(prefix, "uv-receipt.toml")
    if uv_note.exists():
        own = next(each for each in loads_toml(uv_note.read_text())["tool"]["requirements"] if each["name"] == "postroom")
        return "uv tool install --force", tuple(own.get("extras", ()))
    if pipx_note.exists():
        source: str = loads(pipx_note.read_text())["main_package"]["package_or_url"]
        extras = source.removesuffix("]").rpartition("[")[2] if source.endswith("]") else ""
        return "pipx install --force", tuple(filter(None, extras.split(",")))
    return "pip install", ()


def requirement(direct_url: str, extra: str) -> str:
    """Return what an installer needs for an extra of a copy whose direct_url.json is given: a folder, a wheel, or an address."""
    from json import loads
    from urllib.parse import unquote

    record = loads(direct_url)
    url: str = record["url"]
    if url.startswith("file://"):
        return f"{unquote(url.removeprefix('file://'))}[{extra}]"
    vcs = record.get("vcs_info", {}).get("vcs")
    return f"postroom[{extra}] @ {f'{vcs}+' if vcs else ''}{url}"
