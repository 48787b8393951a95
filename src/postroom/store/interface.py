"""The interface of an engine. Rooms use only these protocols, and the folder of each engine implements them.

A verb opens one transaction, `with store.write() as tx` or `with store.read() as tx`, and runs statements of the
catalogue, `tx.sql.<name>`, with named binds. Nothing else reaches the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, TypeVar, overload

from postroom.core.errors import Refusal
from postroom.core.records.mail import (
    DeadLetterSize,
    DeliveryContents,
    DeliveryRow,
    KnownMessage,
    MailboxAlias,
    MailboxRow,
    MailId,
    StoredMessage,
    WaitingMessage,
)
from postroom.core.records.people import Ask, DeletedEntry, Entry, EntryPlace, Pass, PersonReply, Workspace
from postroom.core.records.tasks import JobRow, TaskRow
from postroom.core.records.watched_queues import WatchedQueue
from postroom.core.records.work import (
    Agent,
    Artifact,
    Candidate,
    Claim,
    Event,
    HeldThread,
    Lease,
    Message,
    OfferedThread,
    PageBounds,
    ReadMark,
    RunNumbers,
    Thread,
)
from postroom.store.tables import Query

T = TypeVar("T")

Row = tuple[Any, ...]


class Catalogue(Protocol):
    """Every statement of every room, by name. The `statements` module of each engine has all of them, and a test compares.

    A `Query` returns rows as records of its type. A plain `str` returns no rows, or tuples that only the store itself reads.
    """

    # threads
    thread_insert: str
    thread_find: Query[HeldThread]
    thread_parties: Query[tuple[Any, ...]]
    thread_move: str
    thread_prioritise: str
    threads_waiting: Query[Thread]
    threads_takeable: Query[OfferedThread]
    threads_assigned: Query[Thread]
    threads_created: Query[Thread]
    threads_created_assigned: Query[Thread]
    threads_any: Query[Thread]
    threads_of_run: Query[HeldThread]
    threads_of_run_chosen: Query[Thread]
    threads_of_task_chosen: Query[Thread]
    threads_unread: Query[Thread]
    threads_visited: Query[Thread]
    threads_unread_of_status: Query[Thread]
    run_open_count: Query[int]
    run_numbers: Query[RunNumbers]
    run_agents: Query[str]

    # messages and artifacts
    message_insert: str
    message_find: Query[Message]
    messages_page_before: Query[PageBounds]
    messages_page_after: Query[PageBounds]
    messages_between: Query[Message]
    message_after: Query[Message]
    questions_open_to: Query[Message]
    question_latest: Query[Message]
    question_unanswered_at: Query[Message]
    message_in_reply_to: Query[Message]
    question_settle: str
    questions_end: str
    artifact_insert: str
    artifacts_between: Query[Artifact]
    artifacts_of_message: Query[Artifact]
    artifacts_inserted: str

    # leases
    lease_grant: str
    lease_renew: str
    lease_release: str
    lease_wait: str
    lease_resume: str
    lease_prioritise: str
    leases_lapsed: Query[Candidate]
    leases_lapsed_of_status: Query[Candidate]
    leases_farthest: Query[Claim]
    lease_next_expiry: Query[str | None]
    leases_lapsed_since: Query[Claim]
    leases_of_agent: Query[Claim]
    leases_of_threads: Query[Lease]

    # events
    event_append: str
    event_latest: Query[int]
    events_after: Query[Event]
    events_newest: Query[Event]
    events_of_thread: Query[Event]
    events_settle: str

    # agents and what they have read
    agent_seen: str
    people_names: Query[str]
    agent_put: str
    agent_find: Query[Agent]
    agents_all: Query[Agent]
    read_owed: str
    read_guest: str
    read_upto: str
    reads_unread_count: Query[int]

    # mailboxes
    mailbox_lock: Query[MailboxRow]
    mailbox_lock_named: Query[MailboxRow]
    mailbox_open: str
    mailbox_find: Query[MailboxRow]
    mailbox_find_named: Query[MailboxRow]
    mailbox_count: str
    mailbox_put: str
    mailboxes_all: Query[MailboxRow]
    mailboxes_due: Query[str]

    # deliveries
    delivery_insert: str
    delivery_known: Query[KnownMessage]
    delivery_of_sender: Query[DeliveryRow]
    delivery_contents: Query[DeliveryContents]
    delivery_offer: Query[StoredMessage]
    delivery_offered: Query[int]
    delivery_move: str
    delivery_hold: str
    delivery_delete: str
    delivery_latest: Query[int]
    delivery_next_due: Query[int | None]
    pair_advance: str
    deliveries_due: Query[DeliveryRow]
    deliveries_named: Query[DeliveryRow]
    deliveries_of_id: Query[DeliveryRow]
    deliveries_waiting: Query[WaitingMessage]
    deliveries_misdated: Query[DeliveryRow]
    deliveries_purgeable: Query[DeliveryRow]
    deliveries_dead: Query[StoredMessage]
    deliveries_dead_sizes: Query[DeadLetterSize]
    deliveries_acked: Query[StoredMessage]
    deliveries_forgettable: Query[DeliveryRow]
    deliveries_expire: str
    mail_id_keep: str
    mail_ids_of: Query[MailId]
    mail_steps: Query[Event]
    mail_step_put: str
    events_of_subject: Query[Event]
    alias_put: str
    alias_find: Query[str]
    alias_of: Query[str]
    alias_delete: str
    aliases_all: Query[MailboxAlias]
    deliveries_settle: str

    # tasks, jobs and skills
    task_insert: str
    task_find: Query[TaskRow]
    task_move: str
    tasks_of_job: Query[TaskRow]
    tasks_waiting: Query[TaskRow]
    tasks_unrouted: Query[TaskRow]
    tasks_due: Query[TaskRow]
    tasks_any: Query[TaskRow]
    tasks_to: Query[TaskRow]
    tasks_from: Query[TaskRow]
    tasks_of_status: Query[TaskRow]
    tasks_to_of_status: Query[TaskRow]
    tasks_from_of_status: Query[TaskRow]
    tasks_from_to: Query[TaskRow]
    tasks_from_to_of_status: Query[TaskRow]
    tasks_answered: Query[TaskRow]
    job_insert: str
    job_find: Query[JobRow]
    jobs_lapsed: Query[JobRow]
    job_move: str
    jobs_any: Query[JobRow]
    jobs_of_agent: Query[JobRow]
    agent_card: str
    skill_insert: str
    skills_clear: str
    agents_of_skill: Query[Agent]

    # people: workspaces, entries, asks, replies, passes
    agent_lock: Query[Agent]
    workspace_insert: str
    workspace_find: Query[Workspace]
    workspace_of_agent: Query[Workspace]
    workspace_of_path: Query[Workspace]
    workspace_of_token: Query[Workspace]
    workspace_retoken: str
    workspace_set: str
    workspace_delete: str
    workspaces_all: Query[Workspace]
    entry_insert: str
    entry_find: Query[Entry]
    entry_lock: Query[int]
    entry_place: Query[EntryPlace]
    entry_of_message: Query[str]
    entries_page: Query[Entry]
    entries_page_unread: Query[Entry]
    entries_page_open: Query[Entry]
    entries_page_workspace: Query[Entry]
    entries_page_agent: Query[Entry]
    entries_after: Query[Entry]
    entries_search: Query[Entry]
    entry_read: str
    entry_offered: str
    entry_replied: str
    entry_close: str
    entries_unread: Query[int]
    entries_open: Query[int]
    text_insert: str
    text_find: Query[str]
    texts_delete: str
    entry_delete: str
    gone_insert: str
    gone_find: Query[EntryPlace]
    gone_after: Query[DeletedEntry]
    words_insert: str
    words_delete: str
    words_settle: str
    ask_find: Query[Ask]
    ask_insert: str
    ask_answer: str
    ask_escalate: str
    ask_collect: str
    ask_delete: str
    ask_next_due: Query[int | None]
    asks_due: Query[Entry]
    asks_closed_in_thread: Query[Entry]
    asks_uncollected: Query[Entry]
    reply_insert: str
    reply_find: Query[PersonReply]
    replies_of_entry: Query[PersonReply]
    replies_of_agent: Query[PersonReply]
    replies_forget: str
    pass_insert: str
    pass_find: Query[Pass]
    pass_delete: str
    pass_expire: str
    pass_use: str
    passes_of: Query[Pass]
    passes_of_person_delete: str
    passes_page: Query[Pass]
    passes_page_of: Query[Pass]
    cursor_find: Query[int]
    cursor_lock: Query[int]
    cursor_move: str
    messages_to_people: Query[Message]
    message_to_people_after: Query[int]
    questions_to: Query[Message]
    read_of_thread: Query[ReadMark]
    queue_insert: str
    queue_find: Query[WatchedQueue]
    queue_delete: str
    queues_all: Query[WatchedQueue]


class Transaction(Protocol):
    """One transaction: all of it or nothing."""

    door: str
    candidate_limit: int
    """How many candidates a caller that takes a thread reads, because others may be taking the first ones. 1 if writers run alone."""

    @property
    def sql(self) -> Catalogue: ...

    def lock_thread(self, thread_id: str, *, wait: bool = True) -> bool:
        """Keep other transactions from changing a thread until this one ends, and return True.

        Without `wait`, return False at once if another transaction holds the lock.
        """

    def now(self) -> int:
        """Return the time of this transaction in microseconds since 1970. It is the same at every call."""

    def new_id(self, prefix: str) -> str:
        """Return a new id that begins with `prefix`."""

    @overload
    def fetch_one(self, statement: Query[T], **binds: object) -> T | None: ...

    @overload
    def fetch_one(self, statement: str, **binds: object) -> Any:
        """Return the first row of a query as its record, or None. A plain `str`, which the store itself and tests use, gives a tuple."""

    @overload
    def fetch_all(self, statement: Query[T], **binds: object) -> list[T]: ...

    @overload
    def fetch_all(self, statement: str, **binds: object) -> list[Any]:
        """Return every row, as `fetch_one` does."""

    def execute(self, statement: str, **binds: object) -> None:
        """Run a write. A failure fails the transaction: at once, at a later statement, or at the end."""

    def execute_exactly_one(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        """Run a write that must change exactly one row. Otherwise the transaction fails with the refusal, at once or later."""

    def insert_event(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        """Insert into the event log and return the id of the event. Waiters that watch one of its topics wake after the COMMIT."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Watch(Protocol):
    """A wait for events. It may return without an event, or seconds late if a notification is lost. The caller reads the store again."""

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        """Return when something may have changed, when `seconds` are over, or when descriptor `wake` is readable."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Store(Protocol):
    """An open store. Threads may share one. A forked child may use it too, but not a transaction that began before the fork."""

    location: str
    is_remote: bool
    """Whether it is behind a server. Verbs then run on the server, and `read` and `write` refuse."""

    @property
    def replacements(self) -> int:
        """How often another database was found at the location since the store was opened. Cursors of events end with each."""

    @property
    def data_folder(self) -> str | None:
        """The folder of the files that are kept beside the store, or None."""

    def with_door(self, door: str) -> Store:
        """Return the same store with another `door` to record."""

    def batch(self, *, use_savepoints: bool = False, committed_topics: set[str] | None = None) -> AbstractContextManager[Store]:
        """Run many verbs in one transaction. Each verb is all or nothing, and all of them are on disk when the batch ends.

        The topics of the committed events are added to `committed_topics`.
        Raises `Contended`, with nothing kept, if a verb refused after it had written. Then run all of them again with `use_savepoints`,
        which costs more.
        """

    def read(self) -> Transaction: ...

    def write(self) -> Transaction: ...

    def watch(self, *topics: str) -> Watch:
        """Return a watch for events of any of these topics. Without topics, it watches for all events."""

    def close(self) -> None: ...
