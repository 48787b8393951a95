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
    from postroom.people.access.passes import issue_agent_token as issue_agent_token
    from postroom.people.access.passes import issue_bearer as issue_bearer
    from postroom.people.access.passes import issue_link as issue_link
    from postroom.people.access.passes import list_passes as list_passes
    from postroom.people.access.passes import person_of as person_of
    from postroom.people.access.passes import record_use as record_use
    from postroom.people.access.passes import redeem as redeem
    from postroom.people.access.passes import revoke as revoke
    from postroom.people.access.passes import revoke_agent_token as revoke_agent_token
    from postroom.people.access.passes import revoke_passes as revoke_passes
    from postroom.people.access.workspaces import add_workspace as add_workspace
    from postroom.people.access.workspaces import list_workspaces as list_workspaces
    from postroom.people.access.workspaces import remove_workspace as remove_workspace
    from postroom.people.access.workspaces import rotate_token as rotate_token
    from postroom.people.access.workspaces import set_workspace as set_workspace
    from postroom.people.access.workspaces import show_workspace as show_workspace
    from postroom.people.access.workspaces import workspace_for as workspace_for
    from postroom.people.access.workspaces import workspace_of as workspace_of
    from postroom.people.agents.conversations import end_conversation as end_conversation
    from postroom.people.agents.conversations import find_conversation as find_conversation
    from postroom.people.agents.conversations import keep_conversation as keep_conversation
    from postroom.people.agents.conversations import list_conversations as list_conversations
    from postroom.people.agents.handovers import confirm_handover as confirm_handover
    from postroom.people.agents.handovers import hand_over_messages as hand_over_messages
    from postroom.people.agents.handovers import return_handover as return_handover
    from postroom.people.agents.receiving import old_messages as old_messages
    from postroom.people.agents.receiving import read_messages as read_messages
    from postroom.people.agents.waiting import list_waiting as list_waiting
    from postroom.people.agents.waiting import wait_messages as wait_messages
    from postroom.people.agents.wake_routes import begin_ring as begin_ring
    from postroom.people.agents.wake_routes import end_ring as end_ring
    from postroom.people.agents.wake_routes import list_routes as list_routes
    from postroom.people.agents.wake_routes import note_injected as note_injected
    from postroom.people.agents.wake_routes import register_route as register_route
    from postroom.people.agents.wake_routes import remove_route as remove_route
    from postroom.people.channels.links import answer_question_link as answer_question_link
    from postroom.people.channels.links import open_question_link as open_question_link
    from postroom.people.channels.verbs import add_channel as add_channel
    from postroom.people.channels.verbs import list_channels as list_channels
    from postroom.people.channels.verbs import remove_channel as remove_channel
    from postroom.people.channels.verbs import send_test_alert as send_test_alert
    from postroom.people.channels.verbs import show_channel as show_channel
    from postroom.people.documents import Document as Document
    from postroom.people.entries import delete_entry as delete_entry
    from postroom.people.entries import find_entry as find_entry
    from postroom.people.entries import history as history
    from postroom.people.entries import mark_read as mark_read
    from postroom.people.entries import mark_unread as mark_unread
    from postroom.people.entries import note_offered as note_offered
    from postroom.people.entries import notify as notify
    from postroom.people.entries import open_questions as open_questions
    from postroom.people.entries import own_entries as own_entries
    from postroom.people.entries import push as push
    from postroom.people.entries import seed as seed
    from postroom.people.entries_mirror import EntriesMirror as EntriesMirror
    from postroom.people.focusing import focus as focus
    from postroom.people.questions.asking import answer_of as answer_of
    from postroom.people.questions.asking import ask as ask
    from postroom.people.questions.asking import wait_answer as wait_answer
    from postroom.people.questions.due_questions import sync as sync
    from postroom.people.questions.question_sync import backfill_person as backfill_person
    from postroom.people.questions.question_sync import sync_questions as sync_questions
    from postroom.people.receipts import show_entry as show_entry
    from postroom.people.replying import reply as reply
    from postroom.people.room_search import search_rooms as search_rooms
    from postroom.people.searching import search as search
    from postroom.people.triage import mark_all_read as mark_all_read
    from postroom.people.triage import mute_workspace as mute_workspace
    from postroom.people.triage import pin_entry as pin_entry
    from postroom.people.triage import set_state as set_state
    from postroom.people.watched_queues import add_queue as add_queue
    from postroom.people.watched_queues import list_queues as list_queues
    from postroom.people.watched_queues import remove_queue as remove_queue
    from postroom.people.watched_queues import report as report

_MODULE_OF_VERB = {
    "answer_question_link": "channels.links",
    "open_question_link": "channels.links",
    "add_channel": "channels.verbs",
    "list_channels": "channels.verbs",
    "remove_channel": "channels.verbs",
    "send_test_alert": "channels.verbs",
    "show_channel": "channels.verbs",
    "answer_of": "questions.asking",
    "workspace_for": "access.workspaces",
    "find_entry": "entries",
    "ask": "questions.asking",
    "wait_answer": "questions.asking",
    "Document": "documents",
    "delete_entry": "entries",
    "history": "entries",
    "mark_read": "entries",
    "mark_unread": "entries",
    "note_offered": "entries",
    "notify": "entries",
    "own_entries": "entries",
    "push": "entries",
    "open_questions": "entries",
    "search": "searching",
    "search_rooms": "room_search",
    "mark_all_read": "triage",
    "mute_workspace": "triage",
    "pin_entry": "triage",
    "set_state": "triage",
    "seed": "entries",
    "focus": "focusing",
    "end_conversation": "agents.conversations",
    "find_conversation": "agents.conversations",
    "keep_conversation": "agents.conversations",
    "list_conversations": "agents.conversations",
    "confirm_handover": "agents.handovers",
    "hand_over_messages": "agents.handovers",
    "return_handover": "agents.handovers",
    "sync": "questions.due_questions",
    "sync_questions": "questions.question_sync",
    "backfill_person": "questions.question_sync",
    "issue_agent_token": "access.passes",
    "issue_bearer": "access.passes",
    "issue_link": "access.passes",
    "list_passes": "access.passes",
    "person_of": "access.passes",
    "record_use": "access.passes",
    "redeem": "access.passes",
    "revoke": "access.passes",
    "revoke_agent_token": "access.passes",
    "revoke_passes": "access.passes",
    "show_entry": "receipts",
    "old_messages": "agents.receiving",
    "read_messages": "agents.receiving",
    "reply": "replying",
    "EntriesMirror": "entries_mirror",
    "list_waiting": "agents.waiting",
    "wait_messages": "agents.waiting",
    "begin_ring": "agents.wake_routes",
    "end_ring": "agents.wake_routes",
    "list_routes": "agents.wake_routes",
    "note_injected": "agents.wake_routes",
    "register_route": "agents.wake_routes",
    "remove_route": "agents.wake_routes",
    "add_queue": "watched_queues",
    "list_queues": "watched_queues",
    "remove_queue": "watched_queues",
    "report": "watched_queues",
    "add_workspace": "access.workspaces",
    "list_workspaces": "access.workspaces",
    "remove_workspace": "access.workspaces",
    "rotate_token": "access.workspaces",
    "set_workspace": "access.workspaces",
    "show_workspace": "access.workspaces",
    "workspace_of": "access.workspaces",
}
__all__ = sorted(_MODULE_OF_VERB)  # noqa: PLE0605
__getattr__, __dir__ = import_on_first_use(globals(), _MODULE_OF_VERB)
