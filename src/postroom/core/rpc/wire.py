"""The wire format of verbs: records and the values in them, as JSON objects with field names.

A tuple is a JSON list. Values that JSON cannot express are objects with the key "~", which names their type: a record with its fields, a
list, a dictionary whose keys are not all text, a number that is not finite. The remote store and the server call this module.

Field names allow a client and a server of different versions: the reader ignores an unknown field, and gives a missing field its default.
"""

from __future__ import annotations

from math import isfinite

from postroom.core.errors import InvalidInput, WrongVersion
from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Versions = tuple[str, str]  # of the packages of client and server, "" if unknown

WIRE_VERSION = 3  # raised when a verb, an argument or a field is removed or renamed, or when a verb returns another type
CONTENT_TYPE = f"application/vnd.postroom.v{WIRE_VERSION}+json"
VERB_PROTOCOL = f"postroom.verbs.v{WIRE_VERSION}"  # the subprotocol of the WebSocket
VERSION_HEADER = "Postroom-Version"  # carries the package version. It decides which side a refusal calls the older one

TYPE_KEY, ITEMS_KEY = "~", "items"
_JSON_TYPES = frozenset((str, int, bool, type(None)))  # need no encoding. Most values are of these types, so they are tested first
LIST, DICT, FLOAT = "list", "dict", "float"
CLIENT, SERVER = "client", "server"


class _ForeignType:
    """A type that is not a record. `fields_of` returns the fields of a value, `build` makes a value from fields."""

    __slots__ = ("build", "fields_of", "name")

    def __init__(self, name: str, fields_of: Callable[[Any], dict[str, Any]], build: Callable[[dict[str, Any]], Any]) -> None:
        self.name = name
        self.fields_of = fields_of
        self.build = build


_FOREIGN: dict[type, _ForeignType] = {}
_FOREIGN_BY_NAME: dict[str, _ForeignType] = {}
_RECORDS: dict[str, type[Record]] = {}


def register_type(kind: type, fields_of: Callable[[Any], dict[str, Any]], build: Callable[[dict[str, Any]], Any]) -> None:
    """Make a type that is not a record known to the wire format, by its class name. `build` must raise `KeyError` for a missing field."""
    foreign = _ForeignType(kind.__name__, fields_of, build)
    _FOREIGN[kind] = _FOREIGN_BY_NAME[kind.__name__] = foreign


def foreign_types() -> tuple[type, ...]:
    """Return the registered types that are not records."""
    return tuple(_FOREIGN)


def encode(value: Any, field: str = "named") -> Any:
    """Return a value in the form that JSON can express. Refuses other values with `InvalidInput`, in which `field` names the value."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {TYPE_KEY: FLOAT, ITEMS_KEY: [str(value)]}
    if isinstance(value, Record):
        return _encode_fields(type(value).__name__, value.__dict__, value.__fields__)
    if type(value) in _FOREIGN:
        foreign = _FOREIGN[type(value)]
        fields = foreign.fields_of(value)
        return _encode_fields(foreign.name, fields, fields)
    if hasattr(value, "keys"):
        return _encode_dict(value, field)
    if isinstance(value, list):
        return {TYPE_KEY: LIST, ITEMS_KEY: [encode(item, field) for item in value]}
    if isinstance(value, tuple):
        return [encode(item, field) for item in value]
    raise InvalidInput(
        f"{field} is a {type(value).__name__}, which cannot be sent", field=field, hint="Give text, numbers, lists and objects."
    )


def _encode_fields(kind: str, values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    encoded: dict[str, Any] = {TYPE_KEY: kind}
    for name in names:
        item = values[name]
        encoded[name] = item if type(item) in _JSON_TYPES else encode(item, name)
    return encoded


def _encode_dict(value: Any, field: str) -> dict[str, Any]:
    if TYPE_KEY in value or not all(isinstance(key, str) for key in value):
        return {TYPE_KEY: DICT, ITEMS_KEY: [[encode(key, field), encode(value[key], str(key))] for key in value]}
    return {key: encode(value[key], key) for key in value}


def encode_argument(value: Any, field: str) -> Any:
    """Return an argument of a verb in the form that JSON can express. Refuses with `InvalidInput` if that is not possible."""
    try:
        return encode(materialize_iterator(value), field)
    except RecursionError:
        raise InvalidInput(f"{field} is nested too deeply, or contains itself", field=field) from None


def materialize_iterator(value: Any) -> Any:
    """Turn an iterator into a tuple, so that a retry can send it again. Return other values unchanged."""
    if isinstance(value, (str, bytes, bytearray, tuple, list, Record)) or hasattr(value, "keys") or not hasattr(value, "__iter__"):
        return value
    return tuple(value)


class _DecodingError(Exception):
    """A type or a field that the two sides do not share. `is_unknown` is true for a type that the receiver does not know."""

    def __init__(self, message: str, *, is_unknown: bool, **facts: object) -> None:
        super().__init__(message)
        self.is_unknown = is_unknown
        self.facts = facts


def decode(value: Any, *, sender: str = SERVER, versions: Versions = ("", ""), only: tuple[str, ...] | None = None) -> Any:
    """Return the value that `encode` encoded. If the sender is not trusted, `only` lists the type names that it may contain.

    Refuses with `WrongVersion`, which names the older side by their `versions`, if a type is unknown or if a record lacks a field that
    has no default.
    Refuses with `InvalidInput` if the payload is malformed.
    """
    try:
        return _decode_value(value, only)
    except _DecodingError as error:
        likely = _other_side(sender) if error.is_unknown else sender
        raise wrong_version(f"the {sender} sent {error}", likely, versions, **error.facts) from None
    except RecursionError:
        raise _malformed_error() from None


def wrong_version(what: str, likely: str, versions: Versions, **facts: object) -> WrongVersion:
    """Return the refusal that names the older side: that of the lower package version, or `likely` if they are equal or unknown."""
    side, note = likely, ""
    client, server = versions
    if client and server and client != server:
        note = f" (server {_printable(server)}, client {_printable(client)})"
        if (client_numbers := _parse_version(client)) != (server_numbers := _parse_version(server)):
            side = CLIENT if client_numbers < server_numbers else SERVER
    return WrongVersion(f"{what}: the {side} is older{note}", hint=f"Upgrade the {side}.", status=400, **facts)


def _printable(version: str) -> str:
    return "".join(char for char in version[:40] if char.isprintable())


def _other_side(side: str) -> str:
    return CLIENT if side == SERVER else SERVER


def _parse_version(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, up to the first part that is none: (0, 2) for 0.2.dev1."""
    numbers: list[int] = []
    for part in version[:40].split("."):
        if not (part.isascii() and part.isdigit()):
            break
        numbers.append(int(part))
    return tuple(numbers)


def _decode_value(value: Any, only: tuple[str, ...] | None) -> Any:
    if isinstance(value, list):
        return tuple([_decode_value(item, only) for item in value])
    if not isinstance(value, dict):
        return value
    if TYPE_KEY not in value:
        return {key: item if type(item) in _JSON_TYPES else _decode_value(item, only) for key, item in value.items()}
    kind = value[TYPE_KEY]
    if not isinstance(kind, str):
        raise _malformed_error()
    if kind in (LIST, DICT, FLOAT):
        return _decode_items(kind, value.get(ITEMS_KEY), only)
    if only is not None and kind not in only:
        raise _malformed_error()
    fields = {name: _decode_value(item, only) for name, item in value.items() if name != TYPE_KEY}
    return _build_value(kind, fields)


def _decode_items(kind: str, encoded: Any, only: tuple[str, ...] | None) -> Any:
    if not isinstance(encoded, list):
        raise _malformed_error()
    items = [_decode_value(item, only) for item in encoded]
    if kind == LIST:
        return items
    try:
        if kind == FLOAT:
            return float(items[0])
        if all(isinstance(item, tuple) and len(item) == 2 for item in items):
            return dict(items)
    except (TypeError, ValueError, IndexError):
        pass
    raise _malformed_error()


def _build_value(kind: str, fields: dict[str, Any]) -> Any:
    foreign = _FOREIGN_BY_NAME.get(kind)
    if foreign is not None:
        return _build_foreign(foreign, fields)
    record = _RECORDS.get(kind) or _find_record(kind)
    if record is None:
        raise _DecodingError(f"a {kind[:80]}, which is unknown here", is_unknown=True)
    known_names = record.__fields__
    values = {name: item for name, item in fields.items() if name in known_names}
    for name in known_names:
        if name not in values and name not in vars(record):
            raise _missing_field_error(kind, name)
    return record(**values)


def _build_foreign(foreign: _ForeignType, fields: dict[str, Any]) -> Any:
    try:
        return foreign.build(fields)
    except KeyError as missing:
        raise _missing_field_error(foreign.name, str(missing.args[0])) from None
    except (TypeError, ValueError):
        raise _malformed_error() from None


def _find_record(kind: str) -> type[Record] | None:
    """Return the record class of this name, or None. Class names are unique, so the module name is not sent."""
    from postroom.core.records import mail, people, room_search, runs, tasks, watched_queues  # noqa: F401 - only loaded classes can be found

    _RECORDS.update((record.__name__, record) for record in record_classes())
    return _RECORDS.get(kind)


def record_classes() -> Iterator[type[Record]]:
    """Iterate over the record classes of all loaded modules of Postroom."""
    pending = [Record]
    while pending:
        for record in pending.pop().__subclasses__():
            pending.append(record)
            if record.__module__.startswith("postroom."):
                yield record


def _malformed_error() -> InvalidInput:
    return InvalidInput(
        "the payload is malformed", field="body", hint=f"Send values as version {WIRE_VERSION} of the wire format writes them."
    )


def _missing_field_error(kind: str, field: str) -> _DecodingError:
    return _DecodingError(f"a {kind} without '{field}'", is_unknown=False, field=field)
