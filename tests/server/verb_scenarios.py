"""One scenario for each verb that can travel: a function that prepares a store and returns realistic arguments for the verb.

A new verb needs a row here. `tests/server/test_verbs_over_wires.py` calls each verb over each wire and compares the result with the
same call on a local store.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from postroom import mail, people, work
from postroom.core.records.work import Attachment
from postroom.store.interface import Store
from postroom.tasks import A2AInbox, Conductor
from tests.contract import mail_data, people_data, task_data, thread_data
from tests.contract.mail_data import BOX
from tests.contract.people_data import AGENT, USER
from tests.contract.task_data import ANN, BOB

Arguments = dict[str, Any]
Scenario = Callable[[Store], Arguments]

PATCH = Attachment("login.patch", "patch", '{"lines": 12}')
TEXTS: Arguments = {"summary": "Half done – ½", "body": "Line one\nLine two", "payload_json": '{"commit": "abc"}', "artifacts": (PATCH,)}
TIMEOUT_SECONDS = 20.0  # of waits that end at once, because what they wait for is there


def thread_with_lease(store: Store) -> Arguments:
    """The arguments of a verb that the holder of a thread calls."""
    claim = thread_data.held(store)
    return {"thread_id": claim.thread.thread_id, "agent": "builder", "lease_token": claim.lease.lease_token}


def answered_question(store: Store) -> Arguments:
    """A thread whose holder has an answer waiting."""
    posted = thread_data.asking(store)
    work.reply(store, posted.thread.thread_id, sender="leader", body="Blue")
    return {"thread_id": posted.thread.thread_id, "after_event": posted.message.event_id}


def delivery(store: Store) -> Arguments:
    """The arguments of a verb that the receiver of a message calls."""
    held = mail_data.held(store)
    return {"session": BOX, "msg_id": held.msg_id, "delivery_token": held.token}


def dead_letter(store: Store) -> Arguments:
    """A mailbox whose one message was nacked once too often."""
    mail.set_policy(store, BOX, max_retries=0)
    held = mail_data.held(store)
    mail.nack(store, BOX, held.msg_id, "No such file", delivery_token=held.token)
    return {"session": BOX, "msg_id": held.msg_id}


def channel(store: Store) -> str:
    """A command that is told of questions."""
    options: Arguments = {"person": USER, "kind": "command", "target": "cat > /dev/null"}
    return people.add_channel(store, **options).channel_id


def only(arguments: Arguments, *names: str) -> Arguments:
    return {name: arguments[name] for name in names}


def alias(store: Store) -> str:
    return mail.set_alias(store, "front-desk", BOX).name


def accepted_task(store: Store) -> Arguments:
    """The arguments of a verb that the agent of an accepted task calls."""
    held = task_data.held(task_data.conductor_with_agents(store), context={"files": ["a.py"], "depth": 2})
    return {"task_id": held.task_id, "agent": BOB, "lease_token": held.token}


def asked_task(store: Store) -> str:
    return task_data.asked(task_data.conductor_with_agents(store), priority="high", context={"files": ["a.py"]}).task_id


def ended_task(store: Store) -> str:
    """The id of a task that was completed."""
    arguments = accepted_task(store)
    Conductor(store).complete(**arguments, artifacts={"review": "fine"})
    return str(arguments["task_id"])


def running_job(store: Store) -> str:
    """The id of a job of an agent that has been given a task."""
    asked_task(store)
    return Conductor(store).start_job(BOB, job_id="job-1", state={"step": 1}).job_id


def begun_sheet(store: Store) -> Arguments:
    job_id = running_job(store)
    return {"job_id": job_id, "token": Conductor(store).begin_sheet(job_id).token}


def changed_checkpoint(store: Store) -> Arguments:
    """A job's state, one step on, with a task in its inbox completed."""
    loaded = Conductor(store).load_checkpoint(running_job(store))
    inbox = A2AInbox(loaded.job.job_id, BOB)
    for task in loaded.tasks:
        inbox.put_task(task)
        inbox.complete_task(task.task_id, {"review": "fine"})
    changed = tuple(inbox.tasks.values())
    return {"job_id": loaded.job.job_id, "version": loaded.version, "state": {"step": 2}, "seen": loaded.tasks, "changed": changed}


def workspace(store: Store) -> str:
    """The id of a workspace with a report in it and a command that brings its session to the front."""
    folder = Path(store.location).parent.parent / "workspace"
    folder.mkdir(exist_ok=True)
    (folder / "report.md").write_text("# Rates\n")
    added = people.add_workspace(store, str(folder), label="The macro desk", agent=AGENT).workspace
    people.set_workspace(store, added.workspace_id, focus="echo here")
    return added.workspace_id


def entry(store: Store) -> str:
    """The id of an entry with a document."""
    return people_data.pushed(store, workspace(store), docs=("report.md",))


def question(store: Store) -> str:
    return people_data.asked(store, choices=("yes", "no"))


def answered_entry(store: Store) -> Arguments:
    """A question of an agent that a person has answered."""
    entry_id = question(store)
    people.reply(store, entry_id, person=USER, body="yes")
    return {"entry_id": entry_id, "agent": AGENT}


def unread_reply(store: Store) -> str:
    """The name of an agent to which a person wrote."""
    people.reply(store, entry(store), person=USER, body="Thank you")
    return AGENT


def handed_reply(store: Store) -> str:
    return people.hand_over_messages(store, agent=unread_reply(store), client="wire").handover_id


def conversation(store: Store) -> dict[str, Any]:
    known: dict[str, Any] = {"thread_id": thread_data.sent(store), "agent": AGENT}
    people.keep_conversation(store, **known, program="gemini", session="s-1", turns=1)
    return known


ROUTE = {"agent": AGENT, "route": "queue", "session": "s-1"}


def registered_route(store: Store) -> str:
    return people.register_route(store, agent=AGENT, route="queue", session="s-1", program="codex").agent


def read_reply(store: Store) -> str:
    people.read_messages(store, agent=unread_reply(store))
    return AGENT


def read_entry(store: Store) -> str:
    entry_id = entry(store)
    people.mark_read(store, entry_id, person=USER)
    return entry_id


def question_before_person(store: Store) -> str:
    """The name of a person who was asked something while nobody knew that they are one."""
    people_data.blocked(store, to="ada")
    people.history(store)
    work.add_agent(store, "ada", kind="human")
    return "ada"


def thread_in_run(store: Store) -> str:
    """The id of a run with a finished thread."""
    posted = work.send(store, sender="leader", to="builder", subject="Add the login page", run_id="run-7", task_id="t-1")
    work.claim(store, posted.thread.thread_id, agent="builder")
    work.done(store, posted.thread.thread_id, agent="builder", **TEXTS)
    return "run-7"


WORK: dict[str, Scenario] = {
    "add_agent": lambda s: {"name": "tester", "kind": "agent"},
    "list_agents": lambda s: {"limit": 10} if thread_data.held(s) else {},
    "show_agent": lambda s: {"name": thread_data.held(s).lease.agent_id},
    "list_presences": lambda s: {"limit": 10} if thread_data.held(s) else {},
    "claim": lambda s: {"thread_id": thread_data.sent(s), "agent": "builder", "lease_seconds": 60.5},
    "renew": lambda s: {**thread_with_lease(s), "lease_seconds": 30},
    "release": lambda s: {**thread_with_lease(s), "reason": "Not mine", "to": "other"},
    "reassign": lambda s: {"thread_id": thread_data.sent(s), "agent": "leader", "to": "other", "reason": "Not there"},
    "retry_thread": lambda s: {"thread_id": thread_data.ended(s, "failed"), "agent": "leader", "reason": "Once more"},
    "revoke_lease": lambda s: {"thread_id": thread_data.held(s).thread.thread_id, "person": USER, "reason": "Stopped"},
    "holds_lease": thread_with_lease,
    "update": lambda s: {**thread_with_lease(s), **TEXTS},
    "done": lambda s: {**thread_with_lease(s), **TEXTS},
    "fail": lambda s: {**thread_with_lease(s), **TEXTS},
    "cancel": lambda s: {"thread_id": thread_data.sent(s), "agent": "leader", "reason": "Not wanted"},
    "fetch": lambda s: {"agent": "builder", "statuses": ("pending",), "unread": True} if thread_data.sent(s) else {},
    "take": lambda s: {"agent": "builder", "lease_seconds": 60} if thread_data.sent(s) else {},
    "next_available": lambda s: {"agent": thread_data.held(s, lease_seconds=60).lease.agent_id},
    "send": lambda s: {
        "sender": "leader",
        "to": "builder",
        "subject": "Add the login page",
        "run_id": "run-7",
        "priority": "high",
        **TEXTS,
    },
    "send_all": lambda s: {
        "sender": "leader",
        "drafts": [{"to": "builder", "subject": "One – ½"}, {"to": "other", "summary": "Two", "payload": {"n": 1.5}, "artifacts": ["a"]}],
    },
    "reply": lambda s: {"thread_id": thread_data.asking(s).thread.thread_id, "sender": "leader", "key": "k-1", **TEXTS},
    "show": lambda s: {"thread_id": answered_question(s)["thread_id"]},
    "is_answered": answered_question,
    "mark_read": lambda s: {"thread_id": thread_data.sent(s), "agent": "builder", "event_id": thread_data.latest(s)},
    "list_threads": lambda s: {"created_by": "leader", "statuses": ("claimed",), "limit": 5} if thread_data.held(s) else {},
    "list_runs": lambda s: {"limit": 5} if thread_in_run(s) else {},
    "show_run": lambda s: {"run_id": thread_in_run(s)},
    "summarize_run": lambda s: {"run_id": thread_in_run(s)},
    "wait_run": lambda s: {"run_id": thread_in_run(s), "timeout_seconds": TIMEOUT_SECONDS},
    "activity_histogram": lambda s: {"hours": 3} if thread_in_run(s) else {},
    "wait_reply": lambda s: {**answered_question(s), "agent": "builder", "timeout_seconds": TIMEOUT_SECONDS},
    "watch": lambda s: {"agent": "builder", "after_event": 0, "timeout_seconds": TIMEOUT_SECONDS} if thread_data.sent(s) else {},
    "wait_take": lambda s: {"agent": "builder", "lease_seconds": 60, "timeout_seconds": TIMEOUT_SECONDS} if thread_data.sent(s) else {},
}

MAIL: dict[str, Scenario] = {
    "enqueue": lambda s: {"message": mail_data.message("hello – ½", priority="high")},
    "enqueue_all": lambda s: {"messages": [mail_data.message("one"), mail_data.message("two")]},
    "dequeue": lambda s: {"session": BOX, "receiver": "reader"} if mail_data.post(s) else {},
    "ack": delivery,
    "ack_and_dequeue": lambda s: {**delivery(s), "receiver": "reader"} if mail_data.post(s, sender="bob", to=BOX) else {},
    "nack": lambda s: {**delivery(s), "reason": "No such file"},
    "extend": lambda s: {**delivery(s), "seconds": 90.5},
    "release": delivery,
    "policy": lambda s: {"session": mail.set_policy(s, BOX, max_retries=2).session},
    "set_policy": lambda s: {"session": BOX, "base_backoff_secs": 1.5, "max_retries": 2, "ttl_secs": 600},
    "set_alias": lambda s: {"name": "front-desk", "session": BOX},
    "find_alias": lambda s: {"name": alias(s)},
    "remove_alias": lambda s: {"name": alias(s)},
    "aliases": lambda s: {} if alias(s) else {"name": ""},
    "wait": lambda s: {"session": BOX, "receiver": "reader", "timeout_seconds": TIMEOUT_SECONDS} if mail_data.post(s) else {},
    "next_available": lambda s: only(delivery(s), "session"),
    "sweep": lambda s: {"keep_days": 1} if dead_letter(s) else {},
    "purge": lambda s: {"session": BOX} if mail_data.post(s) else {},
    "peek": lambda s: {"session": BOX, "limit": 5} if mail_data.post(s) else {},
    "sessions": lambda s: {"limit": 5} if dead_letter(s) else {},
    "show": lambda s: {"msg_id": dead_letter(s)["msg_id"]},
    "delivery_state": delivery,
    "peek_dead_letter": lambda s: {**only(dead_letter(s), "session"), "limit": 5},
    "purge_dead_letter": dead_letter,
    "retry_dead_letter": dead_letter,
}

PEOPLE: dict[str, Scenario] = {
    "list_workspaces": lambda s: {} if workspace(s) else {"store": None},
    "workspace_for": lambda s: {"agent": AGENT} if workspace(s) else {},
    "show_workspace": lambda s: {"workspace_id": workspace(s)},
    "remove_workspace": lambda s: {"workspace_id": workspace(s)},
    "ask": lambda s: {"question": "Ship it?", "agent": AGENT, "choices": ("yes", "no"), "deadline_seconds": 60, "on_silence": "refuse"},
    "wait_answer": lambda s: {**answered_entry(s), "timeout_seconds": TIMEOUT_SECONDS},
    "answer_of": answered_entry,
    "list_passes": lambda s: {"person": USER, "limit": 5} if people.issue_bearer(s, person=USER) else {},
    "revoke_passes": lambda s: {"person": USER} if people.issue_bearer(s, person=USER) else {},
    "backfill_person": lambda s: {"name": question_before_person(s)},
    "list_queues": lambda s: {},
    "list_channels": lambda s: {"person": USER} if channel(s) else {},
    "show_channel": lambda s: {"channel_id": channel(s)},
    "remove_channel": lambda s: {"channel_id": channel(s)},
    "push": lambda s: {"workspace_id": workspace(s), "docs": ("report.md",), "comments": "Drafted – ½"},
    "notify": lambda s: {"sender": "cron", "text": "The build is green"},
    "history": lambda s: {"limit": 5, "unread": True} if entry(s) else {},
    "own_entries": lambda s: {"agent": AGENT, "limit": 5} if entry(s) else {},
    "find_entry": lambda s: {"entry_id": entry(s), "agent": AGENT},
    "search": lambda s: {"q": "drafted", "limit": 5} if entry(s) else {},
    "search_rooms": lambda s: {"q": "drafted", "limit": 5},
    "open_questions": lambda s: {"limit": 5} if question(s) else {},
    "set_state": lambda s: {"entry_id": entry(s), "person": USER, "state": "snoozed"},
    "pin_entry": lambda s: {"entry_id": entry(s), "person": USER, "pinned": True},
    "mark_all_read": lambda s: {"person": USER} if entry(s) else {},
    "mute_workspace": lambda s: {"workspace_id": workspace(s), "muted": True},
    "mark_read": lambda s: {"entry_id": entry(s), "person": USER},
    "mark_unread": lambda s: {"entry_id": read_entry(s), "person": USER},
    "delete_entry": lambda s: {"entry_id": entry(s), "person": USER},
    "focus": lambda s: {"workspace_id": workspace(s)},
    "read_messages": lambda s: {"agent": unread_reply(s), "limit": 5},
    "hand_over_messages": lambda s: {"agent": unread_reply(s), "limit": 5, "client": "wire"},
    "confirm_handover": lambda s: {"agent": AGENT, "client": "wire"} if handed_reply(s) else {},
    "return_handover": lambda s: {"handover_id": handed_reply(s), "agent": AGENT},
    "keep_conversation": lambda s: {**conversation(s), "program": "gemini", "session": "s-1", "turns": 1, "prompted_event_id": 3},
    "find_conversation": conversation,
    "list_conversations": lambda s: {"agent": conversation(s)["agent"], "limit": 5},
    "end_conversation": conversation,
    "register_route": lambda s: {**ROUTE, "program": "codex", "host": "here", "pid": 7},
    "list_routes": lambda s: {"agent": registered_route(s), "limit": 5},
    "begin_ring": lambda s: {**ROUTE, "items": ("rep_1",)} if registered_route(s) else {},
    "end_ring": lambda s: {**ROUTE, "failure": "no daemon"} if registered_route(s) else {},
    "note_injected": lambda s: {**ROUTE, "items": ("rep_1",)} if registered_route(s) else {},
    "remove_route": lambda s: ROUTE if registered_route(s) else {},
    "list_waiting": lambda s: {"agent": unread_reply(s), "after": 0, "limit": 5},
    "wait_messages": lambda s: {"agent": unread_reply(s), "after": 0, "timeout_seconds": 1},
    "old_messages": lambda s: {"agent": read_reply(s), "limit": 5},
    "reply": lambda s: {"entry_id": question(s), "person": USER, "body": "yes", "key": "k-1"},
    "show_entry": lambda s: {"entry_id": answered_entry(s)["entry_id"]},
}

TASKS: dict[str, Scenario] = {
    "register": lambda s: {"name": ANN, "description": "Writes – ½", "skills": ("review", "write")},
    "card": lambda s: {"name": ANN} if task_data.conductor_with_agents(s) else {},
    "find": lambda s: {"skill": Conductor(s).register(ANN, skills=("review",)).skills[0], "limit": 5},
    "start_job": lambda s: {"agent": BOB, "job_id": "job-1", "state": {"step": 1}} if asked_task(s) else {},
    "renew_job": lambda s: {"job_id": running_job(s), "lease_seconds": 60},
    "end_job": lambda s: {"job_id": running_job(s)},
    "show_job": lambda s: {"job_id": running_job(s)},
    "load_checkpoint": lambda s: {"job_id": running_job(s)},
    "save_checkpoint": changed_checkpoint,
    "jobs": lambda s: {"agent": BOB, "limit": 5} if running_job(s) else {},
    "submit": lambda s: (
        {"source_agent": ANN, "target_agent": BOB, "description": "Review it", "context": {"files": ["a.py"], "n": 1.5}}
        if task_data.conductor_with_agents(s)
        else {}
    ),
    "get": lambda s: {"task_id": ended_task(s)},
    "pending": lambda s: {"job_id": running_job(s)},
    "waiting": lambda s: {"agent": BOB, "limit": 5} if asked_task(s) else {},
    "tasks": lambda s: {"agent": BOB, "status": "pending", "source": ANN, "limit": 5} if asked_task(s) else {},
    "list_tasks": lambda s: {"agent": BOB, "status": "pending", "source": ANN, "limit": 5, "before_event": 10_000} if asked_task(s) else {},
    "show_task": lambda s: {"task_id": ended_task(s)},
    "choose_agent": lambda s: {"skill": Conductor(s).register(ANN, skills=("review",)).skills[0], "without": BOB},
    "take": lambda s: {"agent": BOB, "lease_seconds": 60} if asked_task(s) else {},
    "take_task": lambda s: {"task_id": asked_task(s), "agent": BOB, "lease_seconds": 60},
    "done_and_take": lambda s: {**thread_with_lease(s), **TEXTS, "lease_seconds": 60} if thread_data.sent(s, "Then the logout") else {},
    "next_available": lambda s: {"agent": BOB} if asked_task(s) else {},
    "wait_take": lambda s: {"agent": BOB, "lease_seconds": 60, "timeout_seconds": TIMEOUT_SECONDS} if asked_task(s) else {},
    "accept": lambda s: {"task_id": asked_task(s), "agent": BOB, "lease_seconds": 60},
    "accept_next": lambda s: {"agent": BOB, "lease_seconds": 60} if asked_task(s) else {},
    "wait_accept": lambda s: {"agent": BOB, "lease_seconds": 60, "timeout_seconds": TIMEOUT_SECONDS} if asked_task(s) else {},
    "renew": lambda s: {**accepted_task(s), "lease_seconds": 60},
    "complete": lambda s: {**accepted_task(s), "artifacts": {"review": ["fine", 1, None]}},
    "fail": lambda s: {**accepted_task(s), "reason": "It broke", "reason_code": "broken"},
    "cancel": lambda s: {"task_id": asked_task(s), "agent": ANN, "reason": "Not wanted"},
    "acknowledge": lambda s: {"task_id": task_data.answered(task_data.conductor_with_agents(s)).task_id, "agent": ANN},
    "acknowledge_all": lambda s: {"agent": ANN} if task_data.answered(task_data.conductor_with_agents(s)) else {},
    "begin_sheet": lambda s: {"job_id": running_job(s), "lease_seconds": 60, "budget": 5000},
    "end_sheet": begun_sheet,
    "answer_sheet": lambda s: {**begun_sheet(s), "answers": "@delegate cid: Look\n@complete nope: Fine"},
    "render": lambda s: {"agent": BOB, "budget": 5000} if asked_task(s) else {},
    "wait": lambda s: {"task_id": ended_task(s), "timeout_seconds": TIMEOUT_SECONDS},
    "wait_any": lambda s: {"task_ids": (ended_task(s),), "timeout_seconds": TIMEOUT_SECONDS},
    "settle": lambda s: {} if asked_task(s) else {"task_id": ""},
    "open_thread": lambda s: {"task_id": asked_task(s), "agent": BOB},
}

SCENARIOS: dict[str, Scenario] = {
    f"{room}.{name}": scenario
    for room, scenarios in {"work": WORK, "mail": MAIL, "people": PEOPLE, "tasks": TASKS}.items()
    for name, scenario in scenarios.items()
}

# The rows that show the change of a verb that returns nothing, or little.
CHANGES: dict[str, Callable[[Store], object]] = {
    "work.mark_read": lambda s: work.fetch(s, agent="builder", unread=True),
    "people.delete_entry": people.history,
    "mail.purge": lambda s: mail.peek(s, BOX),
    "mail.purge_dead_letter": lambda s: mail.peek_dead_letter(s, BOX),
    "mail.retry_dead_letter": lambda s: mail.peek(s, BOX),
    "tasks.settle": lambda s: Conductor(s).tasks(),
    "people.backfill_person": people.history,
}
