"""The permission table: whether a caller may call a verb with its arguments. The only module that reads `Verb.caller` and `Verb.access`.

A person sees everything, and may act in the name of an agent but not of another person. An agent acts in its own name, on what concerns
it. A leader sees what a person sees, but for entries. The Unix socket of the owner allows what the files of the store allow.

`check_caller` needs no store. `authorise` reads the thread or the task of the call, in the transaction of the verb. A refusal must not tell
whether something exists that the caller may not see: it is `NotFound` then, with the text for something that does not exist.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from postroom.core import checks
from postroom.core.clock import format_stamp
from postroom.core.errors import Forbidden, NotFound
from postroom.core.records.runs import RunHistory
from postroom.core.records.tasks import TaskRow
from postroom.core.records.work import AgentPresence, Conversation, Lease, PresencePage, Thread
from postroom.core.states import PENDING, RELAY_DOOR
from postroom.core.text import short_repr
from postroom.core.verbs import (
    ANY_AGENT,
    JOB_OWNER,
    JOB_SEEN,
    LEADERS,
    MESSAGE_PARTY,
    MESSAGE_SENDER,
    OWN_VIEW,
    PEOPLE,
    SERVER_MACHINE,
    TASK_GIVER,
    TASK_PARTY,
    TASK_RECEIVER,
    TASK_SUBMIT,
    TASKS_SEEN,
    THREAD_CONTROL,
    THREAD_PART,
    THREAD_SEEN,
    THREAD_SPEAK,
    THREAD_TAKE,
    THREADS_SEEN,
    Verb,
)
from postroom.mail.identity import resolve_session
from postroom.server.http.auth import Caller
from postroom.store.agents import is_person
from postroom.store.interface import Transaction
from postroom.tasks import jobs, repository
from postroom.work import messages, participation

Arguments = dict[str, Any]
ACTING_ARGUMENTS = ("sender", "agent", "source_agent")  # as values of `Verb.caller`: the verb writes in this name
RECEIVER = "receiver"  # defaults to the caller
MAILBOX = "session"  # as a value of `Verb.caller`: the argument names a mailbox, by its session or an alias
VISIBLE_TO = "visible_to"  # set to the caller, unless it sees everything
FILTERED_RULES = (THREADS_SEEN, TASKS_SEEN, MESSAGE_PARTY)  # the verb leaves out what `visible_to` may not see


def complete_arguments(caller: Caller, verb: Verb, optional: frozenset[str], arguments: Arguments) -> None:
    """Set the arguments that name the caller to its name where they are left out."""
    names = [RECEIVER]
    if caller.agent and not (caller.is_leader and verb.access == OWN_VIEW):
        names.append(verb.caller)
    if caller.agent and not caller.is_leader and verb.access in FILTERED_RULES:
        names.append(VISIBLE_TO)
    for name in names:
        if name in optional and arguments.get(name) is None:
            arguments[name] = caller.name


def check_caller(caller: Caller, verb: Verb, arguments: Arguments) -> None:
    """Refuse with `Forbidden` a verb that is not for this kind of caller, and an agent that uses another name."""
    if verb.caller == SERVER_MACHINE:
        hint = "Run the command there, with --db PATH."
        raise Forbidden(f"only programs on the server's machine may call {verb.name}", hint=hint, verb=verb.name)
    if not caller.agent:
        return
    if verb.caller == PEOPLE:
        raise Forbidden(f"agents may not call {verb.name}", hint="Ask a person.", verb=verb.name)
    if verb.caller == LEADERS:
        if not caller.is_leader:
            hint = "Ask a person, or use a token with the scope `all`."
            raise Forbidden(f"agents may not call {verb.name}", hint=hint, verb=verb.name)
        return
    if arguments.get(RECEIVER, caller.name) != caller.name:
        raise Forbidden(
            "an agent cannot receive on behalf of another receiver", hint=f"Leave the receiver out, or name yourself {caller.name}."
        )
    if caller.is_leader and verb.access in (OWN_VIEW, *FILTERED_RULES):
        return
    own = caller.workspace and caller.workspace.workspace_id if verb.caller == "workspace_id" else caller.name
    if any(name != own for name in _named_callers(verb, arguments)):
        raise Forbidden(f"this token belongs to {caller.name}", hint=f"Name yourself {caller.name}, or use the other agent's token.")


def _named_callers(verb: Verb, arguments: Arguments) -> list[Any]:
    """Return the values of the arguments that must name the caller if it is an agent."""
    if verb.access in FILTERED_RULES:
        return [arguments.get(VISIBLE_TO)]
    if verb.caller == ANY_AGENT:
        return []
    if verb.caller == MAILBOX and _is_name(arguments.get(MAILBOX)):
        return []  # it may be an alias of the caller's mailbox: `authorise` looks
    return _message_senders(arguments) if verb.caller == MESSAGE_SENDER else [arguments.get(verb.caller)]


def door_of(caller: Caller, verb: Verb, arguments: Arguments) -> str:
    """Return the door that a write is recorded with: a person who acts in the name of an agent is not that agent."""
    return RELAY_DOOR if not caller.agent and _other_names(caller, verb, arguments) else caller.door


def prefetch(tx: Transaction, caller: Caller, verb: Verb, arguments: Arguments) -> None:
    """Announce what `authorise` reads first for most calls of agents, so that it comes with the answer about the token."""
    if caller.is_local or not caller.agent:
        return
    mailbox, thread_id = arguments.get(MAILBOX), arguments.get("thread_id")
    if _is_of_mailbox(caller, verb):
        if _is_name(mailbox):
            tx.prefetch(tx.sql.alias_find, name=mailbox)
    elif verb.access in (THREAD_SEEN, THREAD_PART, THREAD_SPEAK) and _is_name(thread_id):
        tx.prefetch(tx.sql.thread_parties, thread_id=thread_id)


def authorise(tx: Transaction, caller: Caller, verb: Verb, arguments: Arguments) -> None:
    """Refuse with `Forbidden` or `NotFound` a call on something that the caller may not touch. Called in the verb's own transaction."""
    if caller.is_local:
        return
    if caller.agent:
        if _is_of_mailbox(caller, verb):
            _check_mailbox(tx, caller, arguments)
        check = _CHECKS.get(verb.access or "")
        if check is not None:
            check(tx, caller, arguments)
        return
    for name in filter(_is_storable, _other_names(caller, verb, arguments)):
        if is_person(tx, name):
            raise Forbidden(f"{short_repr(name)} is another person", hint="Act in your own name.")


def _is_of_mailbox(caller: Caller, verb: Verb) -> bool:
    """Return whether the mailbox that an agent names must be its own."""
    return verb.caller == MAILBOX and not (caller.is_leader and verb.access == OWN_VIEW)


def _check_mailbox(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    """Refuse a mailbox of another name. The session behind an alias decides, also if the caller's own name became an alias."""
    if resolve_session(tx, arguments[MAILBOX]) != caller.name:
        raise Forbidden(f"this token belongs to {caller.name}", hint=f"Name yourself {caller.name}, or use the other agent's token.")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def restrict_result(caller: Caller, result: Any) -> Any:
    """Return a result without the lease tokens of other holders."""
    if caller.is_local:
        return result
    if isinstance(result, Conversation):
        return result.replace(lease=_hide_token(result.lease, caller.name))
    if isinstance(result, AgentPresence):
        return _hide_tokens(result, caller.name)
    if isinstance(result, RunHistory):
        rows = tuple(row.replace(lease=_hide_token(row.lease, caller.name)) for row in result.threads)
        return result.replace(threads=rows)
    if isinstance(result, PresencePage):
        return result.replace(presences=tuple(_hide_tokens(presence, caller.name) for presence in result.presences))
    return result


def _hide_tokens(presence: AgentPresence, reader: str) -> AgentPresence:
    return presence.replace(holds=tuple(claim.replace(lease=_hide_token(claim.lease, reader)) for claim in presence.holds))


def _hide_token(lease: Lease | None, reader: str) -> Lease | None:
    return lease if lease is None or lease.agent_id == reader else lease.replace(lease_token="")


def describe_caller(verb: Verb) -> str:
    """Return which callers may call a verb over the network, for the reference page."""
    if verb.caller in (PEOPLE, LEADERS, SERVER_MACHINE):
        return verb.caller
    if verb.caller == ANY_AGENT:
        return f"people; an agent {verb.access}"
    name = "the sender of each message" if verb.caller == MESSAGE_SENDER else f"`{verb.caller}`"
    return f"people; an agent, named by {name}, {verb.access}"


# The rules of agents: each has the caller and the arguments, and refuses or returns


class _FoundThread(NamedTuple):
    """A thread that the caller sees. `takes_part` is false if the caller only sees it: as a leader, or because it has lapsed."""

    thread: Thread
    lease: Lease | None
    takes_part: bool


def _find_thread(tx: Transaction, caller: Caller, arguments: Arguments) -> _FoundThread | None:
    """Return the thread of a call, or None if there is none. Refuses a thread that the caller may not see with `NotFound`."""
    thread_id = checks.name("thread", arguments.get("thread_id"))
    found = tx.fetch_one(tx.sql.thread_find, thread_id=thread_id)
    if found is None:
        return None
    takes_part = participation.takes_part(tx, found.thread, found.lease, caller.name)
    if takes_part or caller.is_leader or participation.is_lapsed(found.thread, found.lease, format_stamp(tx.now())):
        return _FoundThread(found.thread, found.lease, takes_part)
    raise messages.thread_not_found_error(thread_id)


def _is_party(tx: Transaction, caller: Caller, arguments: Arguments) -> bool:
    """Return whether the caller created the thread or is assigned to it. Most callers are: they need no further look."""
    parties = tx.fetch_one(tx.sql.thread_parties, thread_id=checks.name("thread", arguments.get("thread_id")))
    return parties is not None and caller.name in parties


def _check_thread_seen(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    if not _is_party(tx, caller, arguments):
        _find_thread(tx, caller, arguments)


def _check_thread_part(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    if not _is_party(tx, caller, arguments):
        _find_as_participant(tx, caller, arguments)


def _find_as_participant(tx: Transaction, caller: Caller, arguments: Arguments) -> _FoundThread | None:
    found = _find_thread(tx, caller, arguments)
    if found is not None and not found.takes_part:
        raise Forbidden(f"you take no part in {found.thread.thread_id}", hint="Claim it if it is for you, or ask a person.")
    return found


def _check_thread_take(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    found = _find_thread(tx, caller, arguments)
    if found is not None and found.thread.status == PENDING and found.thread.assigned_to != caller.name:
        raise Forbidden("that thread is for another agent", hint="`inbox fetch`, or work_fetch, lists what you can claim.")


def _check_thread_control(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    found = _find_thread(tx, caller, arguments)
    if found is not None and not caller.is_leader:
        _require_control(caller, found, "do this")


def _check_thread_speak(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    if arguments.get("thread_id") is None:
        return  # it opens a thread
    if arguments.get("kind") != "control" and arguments.get("priority") is None:
        _check_thread_part(tx, caller, arguments)
        return
    found = _find_as_participant(tx, caller, arguments)
    if found is None or caller.is_leader:
        return
    if arguments.get("kind") == "control":
        _require_control(caller, found, "send a control message")
    if arguments.get("priority") not in (None, found.thread.priority):
        _require_control(caller, found, "change its priority")


def _require_control(caller: Caller, found: _FoundThread, deed: str) -> None:
    if found.thread.created_by != caller.name and not participation.is_holder(found.lease, caller.name):
        thread_id = found.thread.thread_id
        raise Forbidden(f"you neither created nor hold {thread_id}", hint=f"Its creator, its holder or a person may {deed}.")


def _find_task(tx: Transaction, caller: Caller, task_id: Any) -> TaskRow:
    row = repository.find_task(tx, checks.name("task_id", task_id))
    if not caller.is_leader and caller.name not in (row.source_agent, row.target_agent):
        raise repository.task_not_found_error(task_id)
    return row


def _check_task_party(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    for task_id in arguments["task_ids"] if "task_ids" in arguments else (arguments.get("task_id"),):
        _find_task(tx, caller, task_id)


def _check_task_receiver(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    row = _find_task(tx, caller, arguments.get("task_id"))
    if row.target_agent != caller.name:
        raise Forbidden(f"task {row.task_id} is for another agent", hint="`inbox task list` shows the tasks that you gave and got.")


def _check_task_giver(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    row = _find_task(tx, caller, arguments.get("task_id"))
    if row.source_agent != caller.name:
        raise Forbidden(f"task {row.task_id} was given by another agent", hint="Only the agent that gave it can do this.")


def _check_task_submit(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    if arguments.get("parent") is not None:
        _find_task(tx, caller, arguments["parent"])
    job_id = arguments.get("source_job_id")
    job = None if job_id is None else tx.fetch_one(tx.sql.job_find, job_id=checks.name("source_job_id", job_id))
    if job is not None and job.agent != caller.name:
        raise NotFound(f"you have no job {job_id}", hint="Name a job of your own, or leave it out.", job_id=job_id)


def _check_job_seen(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    job = tx.fetch_one(tx.sql.job_find, job_id=checks.name("job_id", arguments.get("job_id")))
    if job is not None and job.agent != caller.name and not caller.is_leader:
        raise jobs.job_not_found_error(job.job_id)


def _check_job_owner(tx: Transaction, caller: Caller, arguments: Arguments) -> None:
    _check_job_seen(tx, caller, arguments)
    job = tx.fetch_one(tx.sql.job_find, job_id=arguments["job_id"])
    if job is not None and job.agent != caller.name:
        raise Forbidden(f"job {job.job_id} belongs to another agent", hint="Only its own agent, or a person, can do this.")
    for task in arguments.get("changed") or ():  # of a checkpoint: a new one must not name another agent as its giver
        if task.source_agent != caller.name and tx.fetch_one(tx.sql.task_find, task_id=task.task_id) is None:
            raise Forbidden(f"this token belongs to {caller.name}", hint="Submit a task of another agent with that agent's token.")


_CHECKS = {
    THREAD_SEEN: _check_thread_seen,
    THREAD_PART: _check_thread_part,
    THREAD_TAKE: _check_thread_take,
    THREAD_SPEAK: _check_thread_speak,
    THREAD_CONTROL: _check_thread_control,
    TASK_PARTY: _check_task_party,
    TASK_RECEIVER: _check_task_receiver,
    TASK_GIVER: _check_task_giver,
    TASK_SUBMIT: _check_task_submit,
    JOB_SEEN: _check_job_seen,
    JOB_OWNER: _check_job_owner,
}


def _other_names(caller: Caller, verb: Verb, arguments: Arguments) -> set[str]:
    """Return the names other than the caller's in which a call acts. Values that are not text are rejected later, by the verb."""
    if verb.caller == MESSAGE_SENDER:
        named = _message_senders(arguments)
    elif verb.caller in (PEOPLE, LEADERS):
        named = [arguments.get("person")]
    else:
        named = [arguments.get(verb.caller)] if verb.caller in ACTING_ARGUMENTS and verb.access != OWN_VIEW else []
    return {name for name in named if isinstance(name, str)} - {caller.name}


def _is_storable(name: str) -> bool:
    """Return whether a name can be looked up: PostgreSQL rejects NUL, and lone surrogates have no UTF-8."""
    return "\0" not in name and not any("\ud800" <= char <= "\udfff" for char in name)


def _message_senders(arguments: Arguments) -> list[Any]:
    given = (arguments.get("message"),) if "message" in arguments else arguments.get("messages")
    sent = given if isinstance(given, (tuple, list)) else ()
    return [message.get("from") if isinstance(message, dict) else None for message in sent]
