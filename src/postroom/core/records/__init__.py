"""The records that verbs take and return, one module for each room.

The store builds them from rows, the rooms return them, and the command line and the server write them as JSON. A record does not
read or write anything.

`Record`, the base class of all records: immutable values with named fields, in the order of the columns.

It does what a frozen dataclass does. Importing `dataclasses` takes longer than a whole command.

`Event`, the row of the event log that all rooms share, so that writing one loads no room.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Record:
    """An immutable value. The annotations of its class are its fields."""

    __fields__: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls.__fields__ = cls.__fields__ + tuple(cls.__annotations__)

    if not TYPE_CHECKING:  # type checkers read the fields instead

        def __init__(self, *values: object, **named: object) -> None:
            fields = self.__fields__
            given = self.__dict__
            given.update(zip(fields, values), **named)
            if len(given) != len(fields) or len(values) > len(fields):
                self._fill_defaults(len(values))

        def _fill_defaults(self, values: int) -> None:
            defaults = vars(type(self))
            for field in self.__fields__:
                if field in defaults:
                    self.__dict__.setdefault(field, defaults[field])
            if len(self.__dict__) != len(self.__fields__) or values > len(self.__fields__):
                raise TypeError(f"{type(self).__name__} takes {', '.join(self.__fields__)}")

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def items(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the names and values of the fields, in order."""
        return iter((name, self.__dict__[name]) for name in self.__fields__)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        if len(copy.__dict__) != len(self.__fields__):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self.__fields__)}")
        return copy

    def to_json(self) -> dict[str, Any]:
        """Return the record as a dictionary that JSON can express."""
        return {name: _to_json_value(value) for name, value in self.items()}


class NotedRecord(Record):
    """A record with a `note` to the caller, which is left out of the JSON if it is empty."""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_json().items() if name != "note" or value}


class ListPage:
    """Base of the pages of lists. They can be iterated, counted and indexed like the tuple in their first field.

    If there are `more`, pass `after` to get the next page.
    """

    __fields__: tuple[str, ...]

    def _listed(self) -> tuple[Any, ...]:
        listed: tuple[Any, ...] = getattr(self, self.__fields__[0])
        return listed

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def __getitem__(self, index: int) -> Any:
        return self._listed()[index]


def _to_json_value(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json_value(item) for item in value]
    return value


def parse_payload(payload_json: str) -> dict[str, Any]:
    """Return a payload as a dict. Another program may have stored a text that is not a JSON object: its dict is empty."""
    if payload_json == "{}":
        return {}
    from postroom._fastpath import json_text as jsontext

    try:
        payload = jsontext.loads(payload_json)
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}


class Event(Record):
    """One row of the event log, which wakes waiters. `source` is the agent that acted."""

    event_id: int
    run_id: str
    task_id: str
    thread_id: str
    source: str
    event_type: str
    message_id: str | None
    summary: str
    payload_json: str
    created_at: str

    @property
    def payload(self) -> dict[str, Any]:
        """The facts of the event, as a dict."""
        return parse_payload(self.payload_json)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "payload": self.payload}
