"""The source address of a queue event: `external:…`, `internal:…` or `self`. The room `queues` checks and parses it here."""

from __future__ import annotations

from postroom.core.errors import InvalidInput
from postroom.core.limits import MAX_ADDRESS_CHARS
from postroom.core.records import Record
from postroom.core.text import short_repr

ADDRESS_PARTS = {
    "external": ("channel_type", "channel_id", "session_type", "session_id", "peer_id"),
    "internal": ("session_type", "session_id", "agent_id"),
    "self": (),
}
_HINT = "Write " + " or ".join(":".join((kind, *(f"<{name}>" for name in names))) for kind, names in ADDRESS_PARTS.items()) + "."

_MAX_CACHED_ADDRESSES = 1000
_valid_addresses: set[str] = set()  # a cache: a queue has few sources, and they repeat


class Address(Record):
    """A parsed address. `peer` is the sender: the `peer_id` of an external address, or the `agent_id` of an internal one."""

    kind: str
    channel_type: str | None = None
    channel_id: str | None = None
    session_type: str | None = None
    session_id: str | None = None
    peer: str | None = None

    def __str__(self) -> str:
        parts = (self.channel_type, self.channel_id, self.session_type, self.session_id, self.peer)
        return ":".join((self.kind, *(part for part in parts if part is not None)))


def parse_address(text: str) -> Address:
    """Return the parts of an address. Refuses with `InvalidInput`, which names the wrong part."""
    kind, *parts = check_address(text).split(":")
    fields = {"peer" if name in ("peer_id", "agent_id") else name: part for name, part in zip(ADDRESS_PARTS[kind], parts)}
    return Address(kind, **fields)


def check_address(text: str) -> str:
    """Return the address unchanged. Refuses with `InvalidInput` if it is malformed."""
    if text in _valid_addresses:
        return text
    if not isinstance(text, str) or not text:
        raise InvalidInput("source is missing", field="source", hint=_HINT)
    if len(text) > MAX_ADDRESS_CHARS:
        raise InvalidInput(f"source is longer than {MAX_ADDRESS_CHARS} characters", field="source", hint="Shorten its parts.")
    kind, *parts = text.split(":")
    if kind not in ADDRESS_PARTS:
        raise InvalidInput(f"source begins with {short_repr(kind)}", field="source", hint=_HINT)
    names = ADDRESS_PARTS[kind]
    if len(parts) != len(names):
        message = f"source {short_repr(text)} has {1 + len(parts)} parts; {kind} addresses have {1 + len(names)}"
        raise InvalidInput(message, field="source", hint="Write " + ":".join((kind, *(f"<{name}>" for name in names))) + ".")
    for name, part in zip(names, parts):
        _check_part(name, part)
    if len(_valid_addresses) < _MAX_CACHED_ADDRESSES:
        _valid_addresses.add(text)
    return text


def _check_part(name: str, part: str) -> None:
    fault = ""
    if not part:
        fault, hint = "is empty", "Write default where there is no value."
    elif part != part.lower():
        fault, hint = f"{short_repr(part)} is not in lower case", f"Write {short_repr(part.lower())}."
    elif "/" in part and name != "session_id":
        fault, hint = f"{short_repr(part)} holds a slash", "Only session_id may hold one, before a sub-session."
    elif not part.isprintable() or any(char.isspace() for char in part):
        fault, hint = f"{short_repr(part)} holds a space or a control character", "Use - in their place."
    if fault:
        raise InvalidInput(f"source: {name} {fault}", field="source", hint=hint)
