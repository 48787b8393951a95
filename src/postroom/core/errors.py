"""Every refusal of the house, in one tree.

    Refusal
    ├── Conflict                 somebody else was first
    │   ├── LeaseHeld            a live lease stands in the way
    │   ├── LeaseLost            the caller's lease was replaced
    │   ├── DeliveryLost         the caller's delivery timed out, or was followed by another
    │   └── Taken                the name, or the folder, is another's
    ├── Invalid                  the request cannot be carried out as it stands
    │   ├── InvalidInput         a value is malformed or missing
    │   ├── InvalidState         the thread or message is not in a state that allows it
    │   └── FilterFailed         a filter cannot be applied to the events that are there
    ├── Denied                   the server does not do this for the caller
    │   ├── Unauthenticated      nobody knows who asks
    │   ├── Forbidden            it is known, and may not
    │   ├── TooLarge             more than one request may bring
    │   └── TooMany              more than is taken at once; later it may work
    ├── Missing                  what was named is not there
    │   ├── NotFound
    │   └── NoStore
    ├── StoreTrouble             the store could not do it
    │   ├── StoreBusy
    │   │   └── Contended        another transaction was in the way; verbs try again by themselves
    │   ├── StoreAway
    │   ├── StoreReadOnly
    │   ├── StoreFull
    │   ├── NotAStore
    │   ├── WrongVersion
    │   ├── UnsafePlace
    │   └── StorageFailure
    └── Interrupted              a signal ended a wait

A refusal says what happened (`str(refusal)`), what to do next (`hint`), and carries its facts. Its `code` is API.
"""

from __future__ import annotations


class Refusal(Exception):
    """An error that we raise on purpose."""

    code = "refused"
    command: str | None = None  # of a command line that could not be read whole: the part that could

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.hint = hint
        self.facts = facts


class Conflict(Refusal):
    """Somebody else was first."""

    code = "conflict"


class LeaseHeld(Conflict):
    """A live lease stands in the way."""

    code = "lease_conflict"


class LeaseLost(Conflict):
    """The caller's lease was replaced by another."""

    code = "lease_lost"


class DeliveryLost(Conflict):
    """The caller's delivery of a message timed out, or was followed by another."""

    code = "delivery_lost"


class Taken(Conflict):
    """The name, or the folder, is another's."""

    code = "taken"


class Invalid(Refusal):
    """The request cannot be carried out as it stands."""

    code = "invalid"


class InvalidInput(Invalid):
    """A value is malformed, missing or out of range."""

    code = "invalid_input"


class InvalidState(Invalid):
    """The thread, or the message, is not in a state that allows this."""

    code = "invalid_state"


class FilterFailed(Invalid):
    """A filter that was let in cannot be applied: it fails on an event, or takes too long."""

    code = "filter_failed"


class Denied(Refusal):
    """The server does not do this for the caller."""

    code = "denied"


class Unauthenticated(Denied):
    """Nobody knows who asks."""

    code = "unauthenticated"


class Forbidden(Denied):
    """Whoever asks is known, and may not."""

    code = "forbidden"


class TooLarge(Denied):
    """More than one request may bring."""

    code = "too_large"


class TooMany(Denied):
    """More than is taken at once; later it may work."""

    code = "too_many"


class Missing(Refusal):
    """What was named is not there."""

    code = "missing"


class NotFound(Missing):
    """No such thread, message or agent."""

    code = "not_found"


class NoStore(Missing):
    """There is no store at that place."""

    code = "no_store"


class StoreTrouble(Refusal):
    """The store could not do it; nothing was changed."""

    code = "storage_trouble"


class StoreBusy(StoreTrouble):
    """Another writer kept the store for too long."""

    code = "store_busy"


class Contended(StoreBusy):
    """Another transaction was in the way, and this one was undone."""

    code = "contended"


class StoreAway(StoreTrouble):
    """The server cannot be reached."""

    code = "store_away"


class StoreReadOnly(StoreTrouble):
    """The store, or its folder, cannot be written."""

    code = "store_read_only"


class StoreFull(StoreTrouble):
    """The disk is full."""

    code = "store_full"


class NotAStore(StoreTrouble):
    """The file is not a Postroom store."""

    code = "not_a_store"


class WrongVersion(StoreTrouble):
    """The store's schema is newer or older than this program."""

    code = "wrong_version"


class UnsafePlace(StoreTrouble):
    """The folder is on a file system that cannot keep the promises."""

    code = "unsafe_place"


class StorageFailure(StoreTrouble):
    """The engine failed in a way that has no name of its own."""

    code = "storage_error"


class Interrupted(Refusal):
    """A signal ended a wait."""

    code = "interrupted"
