"""The room of people: entries and questions that agents send to people, replies that go back, workspaces, and tokens.

The CLI, the server and the RPC dispatcher call these verbs. This package knows nothing of HTTP, MCP or terminals.

    from postroom import people
    registered = people.add_workspace(store, "~/thesis", label="Macro thesis")
    people.push(store, registered.workspace.workspace_id, docs=["report.md"], comments="Drafted. Want a take on the rates?")

Each name is imported on first use, so that a command loads only the modules that it needs.
"""

from __future__ import annotations

from postroom.core.lazy_names import import_on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.people.asking import answer_of as answer_of
    from postroom.people.asking import ask as ask
    from postroom.people.asking import wait_answer as wait_answer
    from postroom.people.documents import Document as Document
    from postroom.people.entries import delete_entry as delete_entry
    from postroom.people.entries import find_entry as find_entry
    from postroom.people.entries import history as history
    from postroom.people.entries import mark_read as mark_read
    from postroom.people.entries import mark_unread as mark_unread
    from postroom.people.entries import note_offered as note_offered
    from postroom.people.entries import notify as notify
    from postroom.people.entries import own_entries as own_entries
    from postroom.people.entries import push as push
    from postroom.people.entries import search as search
    from postroom.people.entries import seed as seed
    from postroom.people.entries_mirror import EntriesMirror as EntriesMirror
    from postroom.people.focusing import focus as focus
    from postroom.people.passes import issue_agent_token as issue_agent_token
    from postroom.people.passes import issue_bearer as issue_bearer
    from postroom.people.passes import issue_link as issue_link
    from postroom.people.passes import list_passes as list_passes
    from postroom.people.passes import person_of as person_of
    from postroom.people.passes import record_use as record_use
    from postroom.people.passes import redeem as redeem
    from postroom.people.passes import revoke as revoke
    from postroom.people.passes import revoke_agent_token as revoke_agent_token
    from postroom.people.passes import revoke_passes as revoke_passes
    from postroom.people.question_sync import backfill_person as backfill_person
    from postroom.people.question_sync import sync as sync
    from postroom.people.question_sync import sync_questions as sync_questions
    from postroom.people.receipts import show_entry as show_entry
    from postroom.people.receiving import old_messages as old_messages
    from postroom.people.receiving import read_messages as read_messages
    from postroom.people.replying import reply as reply
    from postroom.people.watched_queues import add_queue as add_queue
    from postroom.people.watched_queues import list_queues as list_queues
    from postroom.people.watched_queues import remove_queue as remove_queue
    from postroom.people.watched_queues import report as report
    from postroom.people.workspaces import add_workspace as add_workspace
    from postroom.people.workspaces import list_workspaces as list_workspaces
    from postroom.people.workspaces import remove_workspace as remove_workspace
    from postroom.people.workspaces import rotate_token as rotate_token
    from postroom.people.workspaces import set_workspace as set_workspace
    from postroom.people.workspaces import show_workspace as show_workspace
    from postroom.people.workspaces import workspace_for as workspace_for
    from postroom.people.workspaces import workspace_of as workspace_of

_WHERE = {
    "answer_of": "asking",
    "workspace_for": "workspaces",
    "find_entry": "entries",
    "ask": "asking",
    "wait_answer": "asking",
    "Document": "documents",
    "delete_entry": "entries",
    "history": "entries",
    "mark_read": "entries",
    "mark_unread": "entries",
    "note_offered": "entries",
    "notify": "entries",
    "own_entries": "entries",
    "push": "entries",
    "search": "entries",
    "seed": "entries",
    "focus": "focusing",
    "sync": "question_sync",
    "sync_questions": "question_sync",
    "backfill_person": "question_sync",
    "issue_agent_token": "passes",
    "issue_bearer": "passes",
    "issue_link": "passes",
    "list_passes": "passes",
    "person_of": "passes",
    "record_use": "passes",
    "redeem": "passes",
    "revoke": "passes",
    "revoke_agent_token": "passes",
    "revoke_passes": "passes",
    "show_entry": "receipts",
    "old_messages": "receiving",
    "read_messages": "receiving",
    "reply": "replying",
    "EntriesMirror": "entries_mirror",
    "add_queue": "watched_queues",
    "list_queues": "watched_queues",
    "remove_queue": "watched_queues",
    "report": "watched_queues",
    "add_workspace": "workspaces",
    "list_workspaces": "workspaces",
    "remove_workspace": "workspaces",
    "rotate_token": "workspaces",
    "set_workspace": "workspaces",
    "show_workspace": "workspaces",
    "workspace_of": "workspaces",
}
__all__ = sorted(_WHERE)  # noqa: PLE0605
__getattr__, __dir__ = import_on_first_use(globals(), _WHERE)
