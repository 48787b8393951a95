"""Every refusal that Postroom raises, as one tree. All packages raise them. The command line and the server map them to their own codes.

    Refusal
    ├── Conflict                 another caller was first
    │   ├── LeaseHeld            another agent holds a live lease
    │   ├── LeaseLost            the caller's lease was replaced
    │   ├── DeliveryLost         the caller's delivery timed out, or the message was delivered again
    │   ├── IdConflict           the sender used the id for another message
    │   ├── Taken                the name or the folder belongs to another owner
    │   ├── AmbiguousQuestion    several open questions could be meant by an answer
    │   └── QuestionClosed       the question was answered or ended before
    ├── Invalid                  the request cannot be carried out as it is
    │   ├── InvalidInput         a value is malformed, missing or out of range
    │   ├── InvalidState         the state of the thread or message does not allow the request
    │   ├── CursorExpired        events after the cursor were removed
    │   ├── FilterFailed         an accepted filter fails on an event, or takes too long
    │   └── UntrustedStore       another user owns or can change the store or queue
    ├── Denied                   the server refuses to do this for the caller
    │   ├── Unauthenticated      the caller is not identified
    │   ├── Forbidden            the caller is identified and lacks the permission
    │   ├── TooLarge             the request exceeds the size limit
    │   └── TooMany              a rate or concurrency limit is reached. A later attempt may succeed
    ├── Missing                  the named object does not exist
    │   ├── NotFound
    │   └── NoStore
    ├── StoreTrouble             the store failed
    │   ├── StoreBusy
    │   │   └── Contended        another transaction was in conflict. Verbs retry on their own
    │   ├── StoreUnreachable
    │   ├── StoreReadOnly
    │   ├── StoreFull
    │   ├── NotAStore
    │   ├── WrongVersion
    │   ├── UnsafePlace
    │   └── StorageFailure
    └── Interrupted              a signal ended a wait
        └── ClientLeft           the client of the server has disconnected

`str(refusal)` describes what happened. `hint` names the next step, and is a note of the exception, so that a traceback shows it.
`facts` holds the values that belong to it. `code` is part of the API and does not change.
"""

from __future__ import annotations


class Refusal(Exception):
    """An error that Postroom raises on purpose, with a message, a hint and facts."""

    code = "refused"
    command: str | None = None  # the name of the refused command, if the command line got that far

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        if hint:
            self.add_note(f"Hint: {hint}")  # for tracebacks
        self.hint = hint
        self.facts = facts


class Conflict(Refusal):
    """Another caller was first."""

    code = "conflict"


class LeaseHeld(Conflict):
    """Another agent holds a live lease on the thread."""

    code = "lease_conflict"


class LeaseLost(Conflict):
    """The caller's lease was replaced by another lease."""

    code = "lease_lost"


class DeliveryLost(Conflict):
    """The caller's delivery timed out, or the message was delivered again."""

    code = "delivery_lost"


class IdConflict(Conflict):
    """The sender used the id for another message."""

    code = "id_conflict"


class Taken(Conflict):
    """The name or the folder belongs to another owner."""

    code = "taken"


class AmbiguousQuestion(Conflict):
    """Several open questions could be meant by an answer. `questions` lists them."""

    code = "ambiguous_question"


class QuestionClosed(Conflict):
    """The question was answered or ended before."""

    code = "question_closed"


class Invalid(Refusal):
    """The request cannot be carried out as it is."""

    code = "invalid"


class InvalidInput(Invalid):
    """A value is malformed, missing or out of range."""

    code = "invalid_input"


class InvalidState(Invalid):
    """The state of the thread or message does not allow the request."""

    code = "invalid_state"


class CursorExpired(Invalid):
    """Events after the cursor were removed. `next_event_id` is where to go on."""

    code = "cursor_expired"


class FilterFailed(Invalid):
    """An accepted filter fails on an event, or takes too long."""

    code = "filter_failed"


class UntrustedStore(Invalid):
    """Another user owns or can change the store that was found, or the queue whose handlers were to run."""

    code = "untrusted_store"


class Denied(Refusal):
    """The server refuses to do this for the caller."""

    code = "denied"


class Unauthenticated(Denied):
    """The caller is not identified."""

    code = "unauthenticated"


class Forbidden(Denied):
    """The caller is identified and lacks the permission."""

    code = "forbidden"


class TooLarge(Denied):
    """The request exceeds the size limit."""

    code = "too_large"


class TooMany(Denied):
    """A rate or concurrency limit is reached. A later attempt may succeed."""

    code = "too_many"


class Missing(Refusal):
    """The named object does not exist."""

    code = "missing"


class NotFound(Missing):
    """The named thread, message, agent or other record does not exist."""

    code = "not_found"


class NoStore(Missing):
    """There is no store at that place."""

    code = "no_store"


class StoreTrouble(Refusal):
    """The store failed. Nothing was changed, unless the hint states that the outcome is unknown."""

    code = "storage_trouble"


class StoreBusy(StoreTrouble):
    """Another writer held the store for too long."""

    code = "store_busy"


class Contended(StoreBusy):
    """Another transaction was in conflict, and this one was rolled back."""

    code = "contended"


class StoreUnreachable(StoreTrouble):
    """The database or the server cannot be reached."""

    code = "store_away"


class StoreReadOnly(StoreTrouble):
    """The store or its folder is not writable."""

    code = "store_read_only"


class StoreFull(StoreTrouble):
    """The disk is full."""

    code = "store_full"


class NotAStore(StoreTrouble):
    """The file is not a Postroom store."""

    code = "not_a_store"


class WrongVersion(StoreTrouble):
    """The schema of the store, or the other side of a connection, is newer or older than this program."""

    code = "wrong_version"


class UnsafePlace(StoreTrouble):
    """The folder is on a network file system, on which a SQLite store is not safe."""

    code = "unsafe_place"


class StorageFailure(StoreTrouble):
    """The engine failed in a way that no other refusal describes."""

    code = "storage_error"


class Interrupted(Refusal):
    """A signal ended a wait."""

    code = "interrupted"


class ClientLeft(Interrupted):
    """The client of the server has disconnected, so its work was not begun."""

    code = "client_left"
