"""Where an event came from: `external:…`, `internal:…` or `self`, taken apart and checked."""

from __future__ import annotations

from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.words import shown

LONGEST = 500
FORMS = {
    "external": ("channel_type", "channel_id", "session_type", "session_id", "peer_id"),
    "internal": ("session_type", "session_id", "agent_id"),
    "self": (),
}
_HINT = "Write " + " or ".join(":".join((kind, *(f"<{name}>" for name in names))) for kind, names in FORMS.items()) + "."

_checked: set[str] = set()  # the same few come again and again
_REMEMBERED = 1000


class Address(Record):
    """`peer` is who sent it: a peer outside, or an agent of ours."""

    kind: str
    channel_type: str | None = None
    channel_id: str | None = None
    session_type: str | None = None
    session_id: str | None = None
    peer: str | None = None

    def __str__(self) -> str:
        parts = (self.channel_type, self.channel_id, self.session_type, self.session_id, self.peer)
        return ":".join((self.kind, *(part for part in parts if part is not None)))


def parse(text: str) -> Address:
    """The parts of an address, or a refusal that says which one is wrong."""
    kind, *parts = check(text).split(":")
    named = {"peer" if name in ("peer_id", "agent_id") else name: part for name, part in zip(FORMS[kind], parts)}
    return Address(kind, **named)


def check(text: str) -> str:
    """The address itself, if it is one."""
    if text in _checked:
        return text
    if not isinstance(text, str) or not text:
        raise InvalidInput("source is missing", field="source", hint=_HINT)
    if len(text) > LONGEST:
        raise InvalidInput(f"source is longer than {LONGEST} characters", field="source", hint="Shorten its parts.")
    kind, *parts = text.split(":")
    if kind not in FORMS:
        raise InvalidInput(f"source begins with {shown(kind)}", field="source", hint=_HINT)
    names = FORMS[kind]
    if len(parts) != len(names):
        said = f"source {shown(text)} has {1 + len(parts)} parts; {kind} addresses have {1 + len(names)}"
        raise InvalidInput(said, field="source", hint="Write " + ":".join((kind, *(f"<{name}>" for name in names))) + ".")
    for name, part in zip(names, parts):
        _check_part(name, part)
    if len(_checked) < _REMEMBERED:
        _checked.add(text)
    return text


def _check_part(name: str, part: str) -> None:
    wrong = ""
    if not part:
        wrong, hint = "is empty", "Write default where there is no value."
    elif part != part.lower():
        wrong, hint = f"{shown(part)} is not in lower case", f"Write {shown(part.lower())}."
    elif "/" in part and name != "session_id":
        wrong, hint = f"{shown(part)} holds a slash", "Only session_id may hold one, before a sub-session."
    elif not part.isprintable() or any(letter.isspace() for letter in part):
        wrong, hint = f"{shown(part)} holds a space or a control character", "Use - in their place."
    if wrong:
        raise InvalidInput(f"source: {name} {wrong}", field="source", hint=hint)
