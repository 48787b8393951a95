"""What an engine offers. Rooms are written against this page; each engine's folder satisfies it.

A verb opens one transaction, `with store.write() as tx` or `with store.read() as tx`, and runs statements of the
catalogue, `tx.sql.<name>`, with named binds. Nothing else reaches the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from postroom.core.errors import Refusal

Row = tuple[Any, ...]


class Catalogue(Protocol):
    """Every statement of the house, by name. Each engine's `statements` module has them all (a test compares)."""

    # threads
    thread_insert: str
    thread_find: str
    thread_move: str
    thread_prioritise: str
    threads_waiting: str
    threads_takeable: str
    threads_assigned: str
    threads_created: str
    threads_created_assigned: str
    threads_any: str
    threads_of_run: str
    threads_of_run_chosen: str
    threads_unread: str

    # messages and artifacts
    message_insert: str
    message_find: str
    messages_of_thread: str
    message_after: str
    question_latest: str
    artifact_insert: str
    artifacts_of_thread: str
    artifacts_of_message: str

    # leases
    lease_grant: str
    lease_renew: str
    lease_release: str
    lease_wait: str
    lease_prioritise: str
    leases_lapsed: str
    leases_lapsed_of_status: str
    lease_next_expiry: str
    leases_of_agent: str

    # events
    event_append: str
    event_latest: str
    events_after: str
    events_newest: str
    events_of_thread: str
    events_settle: str

    # agents and what they have read
    agent_seen: str
    agent_put: str
    agent_find: str
    agents_all: str
    read_owed: str
    read_upto: str
    reads_unread_count: str

    # mailboxes
    mailbox_lock: str
    mailbox_open: str
    mailbox_find: str
    mailbox_put: str
    mailboxes_all: str
    mailboxes_due: str

    # deliveries
    delivery_insert: str
    delivery_known: str
    delivery_find: str
    delivery_contents: str
    delivery_offer: str
    delivery_offered: str
    delivery_move: str
    delivery_delete: str
    delivery_latest: str
    delivery_next_due: str
    pair_advance: str
    deliveries_due: str
    deliveries_waiting: str
    deliveries_purgeable: str
    deliveries_dead: str
    deliveries_dead_sizes: str
    deliveries_acked: str
    deliveries_forgettable: str
    deliveries_expire: str
    mail_id_keep: str
    mail_id_find: str
    events_of_subject: str
    alias_put: str
    alias_find: str
    alias_of: str
    alias_delete: str
    aliases_all: str
    deliveries_settle: str

    # tasks, jobs and skills
    task_insert: str
    task_find: str
    task_move: str
    tasks_of_job: str
    tasks_waiting: str
    tasks_unrouted: str
    tasks_due: str
    tasks_any: str
    tasks_of_agent: str
    tasks_of_status: str
    tasks_of_agent_status: str
    tasks_answered: str
    job_insert: str
    job_find: str
    job_running: str
    job_move: str
    jobs_any: str
    jobs_of_agent: str
    agent_card: str
    skill_insert: str
    skills_clear: str
    agents_of_skill: str

    # people: workspaces, entries, asks, replies, passes
    agent_lock: str
    workspace_insert: str
    workspace_find: str
    workspace_of_agent: str
    workspace_of_path: str
    workspace_of_token: str
    workspace_retoken: str
    workspace_set: str
    workspace_delete: str
    workspaces_all: str
    entry_insert: str
    entry_find: str
    entry_lock: str
    entry_place: str
    entry_of_message: str
    entries_page: str
    entries_page_unread: str
    entries_page_open: str
    entries_page_workspace: str
    entries_page_agent: str
    entries_after: str
    entries_search: str
    entry_read: str
    entry_offered: str
    entry_replied: str
    entry_close: str
    entries_unread: str
    entries_open: str
    text_insert: str
    text_find: str
    texts_delete: str
    entry_delete: str
    gone_insert: str
    gone_find: str
    gone_after: str
    words_insert: str
    words_delete: str
    words_settle: str
    ask_find: str
    ask_insert: str
    ask_answer: str
    ask_escalate: str
    ask_collect: str
    ask_delete: str
    ask_next_due: str
    asks_due: str
    asks_of_thread: str
    asks_uncollected: str
    reply_insert: str
    reply_find: str
    replies_of_entry: str
    replies_of_agent: str
    replies_delete: str
    pass_insert: str
    pass_find: str
    pass_delete: str
    pass_expire: str
    passes_of: str
    cursor_find: str
    cursor_lock: str
    cursor_move: str
    messages_to_people: str
    questions_to: str
    read_of_thread: str
    queue_insert: str
    queue_find: str
    queue_delete: str
    queues_all: str


class Transaction(Protocol):
    """One transaction: all of it or nothing."""

    door: str
    rivals: int
    """How many candidates a taker looks at, because others may be taking the first ones: 1 where writers are alone."""

    @property
    def sql(self) -> Catalogue: ...

    def hold(self, thread_id: str, *, wait: bool = True) -> bool:
        """Keep others from changing a thread until the transaction ends; without `wait`, only if nobody does already."""

    def now(self) -> int:
        """This transaction's instant, the same however often it is asked."""

    def fresh(self, prefix: str) -> str:
        """A new id."""

    def one(self, statement: str, **binds: object) -> Row | None: ...

    def all(self, statement: str, **binds: object) -> list[Row]: ...

    def run(self, statement: str, **binds: object) -> None:
        """Run a write. If it fails, the transaction does, now or at a later statement, or at its end."""

    def must(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        """Run a write that changes exactly one row; else the transaction fails with the refusal, now or later as above."""

    def append(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        """Insert into the event log; the new event's id. Once it is on disk, whoever watches one of its topics is woken."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Watch(Protocol):
    """A bell to wait for. It may ring for nothing, and may be late by a second: always look again."""

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        """Return when something may have changed, when `seconds` are over, or when descriptor `wake` is readable."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Store(Protocol):
    """An open store. Threads may share one; a forked child opens its own."""

    place: str
    elsewhere: bool
    """Whether it is behind a server: then verbs are said there, and it has no transactions to offer."""

    @property
    def data(self) -> str | None:
        """The folder of files that are kept beside the store, if it has one."""

    def through(self, door: str) -> Store:
        """The same store, for what comes in by another door."""

    def together(self, *, careful: bool = False) -> AbstractContextManager[Store]:
        """Many verbs in one transaction: each of them all or nothing, and all of them on disk when it ends.

        Raises `Contended`, with nothing kept, if a verb refused after it had written: then run them all again, `careful`, which costs more.
        """

    def read(self) -> Transaction: ...

    def write(self) -> Transaction: ...

    def watch(self, *topics: str) -> Watch:
        """Watch for events of any of these topics; without any, for all events."""

    def close(self) -> None: ...
