"""Recognition of a server of another version, and the refusal that names the side to upgrade. The transports and the engine call it."""

from __future__ import annotations

from postroom import __version__
from postroom.core.errors import WrongVersion
from postroom.core.rpc import wire
from postroom.core.verbs import VERBS

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


def check_result_type(verb: str, result: Any, version: str) -> None:
    """Refuse a result whose type is not the declared one: the verb returns another type in the server's version."""
    declared = VERBS[verb].result_type if verb in VERBS else ""
    if declared and not _has_type(result, declared):
        found = "nothing" if result is None else f"a {type(result).__name__}"
        message = f"the server returned {found} for {verb}, and this client expects {declared}"
        raise wire.wrong_version(message, wire.SERVER, (__version__, version))


def _has_type(result: Any, declared: str) -> bool:
    """Compare a result with an annotation, which is text: `Claim | None`, `tuple[Card, ...]`. Types are compared by name."""
    name = "None" if result is None else type(result).__name__
    kinds = [kind.partition("[")[0] for kind in declared.split(" | ")]
    if name not in kinds:
        return name == "int" and "float" in kinds
    if name != "tuple" or not result or not declared.endswith(", ...]"):
        return True
    return type(result[0]).__name__ == declared[len("tuple[") : -len(", ...]")]
