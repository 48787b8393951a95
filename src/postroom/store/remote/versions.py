"""Recognition of a server of another version, and the refusal that names the side to upgrade. The transports and the engine call it."""

from __future__ import annotations

from postroom import __version__
from postroom.core.errors import WrongVersion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def server_is_older(location: str, version: str = "") -> WrongVersion:
    """Return the refusal for a server that does not know this version of the wire format. The server did nothing."""
    server_version = f", version {version}" if version else ""
    return WrongVersion(
        f"the server at {location}{server_version} is older than this client, version {__version__}: nothing was done",
        hint="Upgrade the server.",
        status=400,
    )


def is_old_refusal(status: int, error: Any, version: str) -> bool:
    """Return whether a server from before version 2 refused the content type. Such a server sends no version."""
    return not version and status == 400 and error.get("code") == "invalid_input" and error.get("field") == "body"
