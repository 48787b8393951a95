"""The catalogue of statements: every statement by its name, with the record of its rows. Each engine must have all of them."""

from __future__ import annotations

from typing import Any, Protocol

from postroom.core.records import Event
from postroom.core.records.agent_sessions import AgentConversation, WakeRoute
from postroom.core.records.channels import Alert, Channel
from postroom.core.records.handovers import HandedItem
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
from postroom.core.records.passes import Pass
from postroom.core.records.people import Ask, ChangedEntry, DeletedEntry, DocumentReading, Entry, EntryPlace, PersonReply, Workspace
from postroom.core.records.retention import AgedEvent, AgedRow, EndedThread, EventSize, PartKey, ReadKey, ThreadSize, TopicBlock
from postroom.core.records.room_search import FoundMail, FoundMessage
from postroom.core.records.tasks import JobRow, TaskRow
from postroom.core.records.watched_queues import WatchedQueue
from postroom.core.records.work import (
    Agent,
    Artifact,
    Candidate,
    Claim,
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
    thread_pending: Query[Thread]
    threads_assigned: Query[Thread]
    threads_created: Query[Thread]
    threads_created_assigned: Query[Thread]
    threads_any: Query[Thread]
    threads_of_run: Query[HeldThread]
    threads_of_run_chosen: Query[Thread]
    threads_of_task_chosen: Query[Thread]
    threads_unread: Query[ReadMark]
    threads_visited: Query[Thread]
    threads_unread_of_status: Query[ReadMark]
    unread_event_ids: Query[int]
    run_open_count: Query[int]
    run_numbers: Query[RunNumbers]
    run_agents: Query[str]

    # messages and artifacts
    message_insert: str
    message_find: Query[Message]
    message_first: Query[Message]
    messages_newest: Query[tuple[Message, bool]]
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
    lease_waiting: Query[int]
    lease_ready: Query[int]
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
    event_newest: Query[int]
    events_after: Query[Event]
    events_newest: Query[Event]
    events_of_thread: Query[Event]
    events_in_block: Query[Event]
    event_block_of_topic: Query[int]
    event_message: Query[int]
    event_topics_insert: str
    events_settle: str

    # results of calls with an idempotency key
    idempotency_find: Query[str]
    idempotency_keep: str
    idempotency_oldest: Query[int]
    idempotency_drop: str

    # agents and what they have read
    agent_seen: str
    people_names_unless_known: Query[str]
    agent_put: str
    agent_open: str
    agent_find: Query[Agent]
    agents_all: Query[Agent]
    read_owed: str
    read_guest: str
    read_upto: str
    read_ended: str
    reads_unread_count: Query[int]

    # mailboxes
    mailbox_lock: Query[MailboxRow]
    mailboxes_lock_all: str
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
    delivery_next_move: Query[int | None]
    delivery_next_expiry: Query[int | None]
    pair_advance: str
    deliveries_overdue: Query[DeliveryRow]
    deliveries_expired: Query[DeliveryRow]
    deliveries_named: Query[DeliveryRow]
    deliveries_of_id: Query[DeliveryRow]
    deliveries_waiting: Query[WaitingMessage]
    deliveries_of_pair: Query[StoredMessage]
    deliveries_misdated: Query[DeliveryRow]
    deliveries_purgeable: Query[DeliveryRow]
    deliveries_dead: Query[StoredMessage]
    deliveries_dead_sizes: Query[DeadLetterSize]
    deliveries_acked: Query[StoredMessage]
    deliveries_acked_summaries: Query[WaitingMessage]
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
    task_attempt: str
    tasks_of_job: Query[TaskRow]
    tasks_waiting: Query[TaskRow]
    tasks_waiting_after: Query[TaskRow]
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
    tasks_abandoned: Query[TaskRow]
    tasks_settling: str
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
    agent_job_hold: Query[int]
    workspace_insert: str
    workspace_find: Query[Workspace]
    workspace_of_agent: Query[Workspace]
    workspace_of_path: Query[Workspace]
    workspace_of_token: Query[Workspace]
    workspace_retoken: str
    workspace_set: str
    workspace_mute: str
    workspace_delete: str
    workspace_at: Query[str]
    workspaces_all: Query[Workspace]
    entry_insert: str
    entry_find: Query[Entry]
    entry_lock: Query[int]
    entry_place: Query[EntryPlace]
    entry_of_message: Query[str]
    entries_page: Query[Entry]
    entries_page_triage: Query[Entry]
    entries_page_unread: Query[Entry]
    entries_page_pinned: Query[Entry]
    entries_page_open: Query[Entry]
    entries_page_workspace: Query[Entry]
    entries_page_agent: Query[Entry]
    entries_urgent: Query[Entry]
    entries_parts: Query[Entry]
    entry_newest_part: Query[Entry]
    entries_changed: Query[ChangedEntry]
    entries_waking: Query[str]
    entries_filtered: Query[Entry]
    entry_next_waking: Query[int | None]
    entry_triage: str
    entry_wake: str
    entry_extend: str
    entry_settle: str
    entries_after: Query[Entry]
    entries_search: Query[Entry]
    entries_flagged: Query[Entry]
    entries_flagged_count: Query[int]
    words_of_messages: Query[FoundMessage]
    words_of_mail: Query[FoundMail]
    entry_read: str
    entry_offered: str
    entry_replied: str
    entry_close: str
    entries_unread: Query[int]
    text_insert: str
    text_find: Query[str]
    texts_delete: str
    text_seen_find: Query[DocumentReading]
    text_seen_put: str
    texts_seen_delete: str
    entry_delete: str
    gone_insert: str
    gone_find: Query[EntryPlace]
    gone_after: Query[DeletedEntry]
    words_insert: str
    words_delete: str
    words_small_pages: str
    words_settle: str
    ask_find: Query[Ask]
    ask_of_matter: Query[Ask]
    ask_of_thread: Query[str]
    asks_open: Query[int]
    ask_insert: str
    ask_answer: str
    ask_escalate: str
    ask_collect: str
    ask_delete: str
    ask_next_due: Query[int | None]
    asks_due: Query[Entry]
    asks_closed_in_thread: Query[Entry]
    asks_uncollected: Query[Entry]
    conversation_put: str
    conversation_find: Query[AgentConversation]
    conversation_delete: str
    conversations_of: Query[AgentConversation]
    route_put: str
    route_find: Query[WakeRoute]
    route_delete: str
    routes_forget: str
    routes_of: Query[WakeRoute]
    handover_put: str
    handover_end: str
    handovers_of: Query[HandedItem]
    handover_delete: str
    reply_insert: str
    reply_find: Query[PersonReply]
    replies_of_entry: Query[PersonReply]
    replies_of_agent: Query[PersonReply]
    reply_of_entry: Query[int]
    replies_forget: str
    pass_insert: str
    pass_find: Query[Pass]
    pass_delete: str
    pass_expire: str
    pass_use: str
    passes_of: Query[Pass]
    passes_page: Query[Pass]
    passes_page_of: Query[Pass]
    cursor_find: Query[int]
    cursor_lock: Query[int]
    cursor_move: str
    messages_to_people: Query[Message]
    message_to_people_after: Query[int]
    questions_to: Query[Message]
    read_of_thread: Query[ReadMark]

    # removal of old rows, and settings
    removed_find: Query[int]
    removed_keep: str
    setting_find: Query[str]
    setting_put: str
    setting_delete: str
    prune_event_newest: Query[int]
    prune_event_young: Query[int]
    prune_event_old: Query[AgedEvent]
    prune_events_settle: str
    prune_events: str
    prune_subject_events: str
    prune_subjects_long: Query[str]
    prune_subject_event_ids: Query[int]
    prune_topics_after: Query[TopicBlock]
    prune_topic: str
    prune_threads: Query[EndedThread]
    prune_threads_held: Query[str]
    prune_thread_sizes: Query[ThreadSize]
    prune_event_sizes: Query[EventSize]
    prune_thread_ids: str
    prune_thread_keys: str
    prune_thread_artifacts: str
    prune_thread_reads: str
    prune_thread_messages: str
    prune_thread_leases: str
    prune_thread_events: str
    prune_thread_rows: str
    prune_reads_after: Query[ReadKey]
    prune_read: str
    prune_tasks: Query[AgedRow]
    prune_task: str
    prune_jobs: Query[AgedRow]
    prune_job: str
    prune_entries: Query[AgedRow]
    prune_entry_parts: Query[PartKey]
    prune_replies: str

    # queues that the page shows
    queue_insert: str
    queue_find: Query[WatchedQueue]
    queue_delete: str
    queue_at: Query[str]
    queues_all: Query[WatchedQueue]
    channel_insert: str
    channel_find: Query[Channel]
    channel_secrets: Query[str]
    channel_delete: str
    channels_all: Query[Channel]
    channels_of: Query[Channel]
    channels_of_everything: Query[Channel]
    alert_insert: str
    alert_find: Query[Alert]
    alerts_of_entry: Query[Alert]
    alerts_due: Query[Alert]
    alert_next_due: Query[int | None]
    alert_postpone: str
    alert_queue: str
    alert_link: str
    alert_end: str
    alerts_forget: str
    alerts_delete_channel: str
    alerts_delete_entry: str
