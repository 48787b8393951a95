"""How this copy of Postroom was installed, for hints about an extra that is missing."""

from __future__ import annotations

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
        hint = f"Install its extra: pip install {shell_quote(requirement(record, extra))}"
    return StorageFailure(problem, hint=hint)


def requirement(direct_url: str, extra: str) -> str:
    """Return what pip installs for an extra of a copy whose direct_url.json is given: a folder, a wheel, or an address."""
    from json import loads
    from urllib.parse import unquote

    record = loads(direct_url)
    url: str = record["url"]
    if url.startswith("file://"):
        return f"{unquote(url.removeprefix('file://'))}[{extra}]"
    vcs = record.get("vcs_info", {}).get("vcs")
    return f"postroom[{extra}] @ {f'{vcs}+' if vcs else ''}{url}"
