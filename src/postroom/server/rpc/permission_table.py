"""The table of docs/permissions.md: what each kind of caller may do by each rule. `docs/make_reference.py` writes the page.

`permissions` enforces the rules. A test calls every verb as every kind of caller, and compares what happens with this table.
"""

from __future__ import annotations

from typing import NamedTuple

from postroom.core import verbs
from postroom.core.verbs import LEADERS, PEOPLE, SERVER_MACHINE
from postroom.server.rpc.dispatch import routing_table

YES, FORBIDDEN, HIDDEN = "yes", "403", "404"


class Outcomes(NamedTuple):
    """The outcomes of a call: by an agent on its own thing, another party of that thing, a stranger, a leader, and a person."""

    own: str
    party: str
    stranger: str
    leader: str
    person: str = YES


TABLE: dict[str, Outcomes] = {
    verbs.OWN_NAME: Outcomes(YES, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    verbs.OWN_VIEW: Outcomes(YES, FORBIDDEN, FORBIDDEN, YES),
    verbs.OWN_ENTRIES: Outcomes(YES, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    verbs.DIRECTORY: Outcomes(YES, YES, YES, YES),
    verbs.THREAD_SEEN: Outcomes(YES, YES, HIDDEN, YES),
    verbs.THREAD_PART: Outcomes(YES, YES, HIDDEN, FORBIDDEN),
    verbs.THREAD_SPEAK: Outcomes(YES, YES, HIDDEN, FORBIDDEN),
    verbs.THREAD_TAKE: Outcomes(YES, FORBIDDEN, HIDDEN, FORBIDDEN),
    verbs.THREAD_CONTROL: Outcomes(YES, FORBIDDEN, HIDDEN, YES),
    verbs.THREADS_SEEN: Outcomes(YES, YES, YES, YES),
    verbs.TASK_PARTY: Outcomes(YES, YES, HIDDEN, YES),
    verbs.TASK_RECEIVER: Outcomes(YES, FORBIDDEN, HIDDEN, FORBIDDEN),
    verbs.TASK_GIVER: Outcomes(YES, FORBIDDEN, HIDDEN, FORBIDDEN),
    verbs.TASK_SUBMIT: Outcomes(YES, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    verbs.TASKS_SEEN: Outcomes(YES, YES, YES, YES),
    verbs.JOB_SEEN: Outcomes(YES, HIDDEN, HIDDEN, YES),
    verbs.JOB_OWNER: Outcomes(YES, HIDDEN, HIDDEN, FORBIDDEN),
    verbs.MESSAGE_PARTY: Outcomes(YES, YES, HIDDEN, YES),
    LEADERS: Outcomes(FORBIDDEN, FORBIDDEN, FORBIDDEN, YES),
    PEOPLE: Outcomes(FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN),
    SERVER_MACHINE: Outcomes(FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN),
}

PAGE = """\
# Permissions

Made by `make reference` from the declarations of the verbs; do not edit. A test calls every verb as every kind of caller and compares.

A process that can write the files of a store can do anything to it: they are for their owner only, and that is the boundary on one machine. Over the
network (verbs over HTTP, WebSocket and the Unix socket, the other HTTP routes, MCP tools, the mailbox socket) one table holds for every door:

| caller | known by | sees | may |
|---|---|---|---|
| person | sign-in link, session, bearer token | everything | act as themselves, or in the name of an agent but not of another person; such a message is not verified |
| agent | the token of its name (`inbox agent token NAME`) | threads that it created, is assigned, holds, or was addressed or spoke in, and lapsed ones; tasks that it gave or got; its own mailbox and what became of what it sent; its own entries; the names and cards of all agents | claim what is pending for it or lapsed; report on and end what it holds; speak where it takes part; cancel, reassign and retry what it created or holds |
| workspace | its token (`inbox workspace add`) | as its agent | as its agent, and push documents |
| leader | an agent's token with `--scope all` | as a person, but entries only its own | as an agent, and cancel, reassign and retry any thread |
| link of one question | its token, in an alert of a channel | this question | answer it once, as the person to whom the link was sent |
| the owner's Unix socket | the permissions of its file | as the local files | as the local files, except for the verbs of the server's machine |
| anybody else | | nothing | sign in |

- The token and the permission are checked inside the first transaction of a verb and in each that writes. On SQLite, nothing changes between the check and
  the write. On PostgreSQL, where a write may wait for a lock after its check, the token is looked up again with
  the COMMIT, so nothing is stored for one that was revoked meanwhile. A wait is checked again before each turn.
- Something that the caller may not see is refused with 404 `not_found`, in the words for something that does not exist. 403 `forbidden` is for a deed
  that the caller may not do on something that it sees, and for a call in the name of another agent.
- Lists contain what the caller sees. `work.list_threads` shows the threads in which an agent takes part; `work.fetch` shows the lapsed ones.
- A lease token is shown to the holder of the lease. Other callers get the record with an empty token.
- Only the creator or the holder of a thread, a leader, or a person may change its priority or send a `control` message in it.
- One thing is not hidden: an id of the caller's choice is refused if it is used: of a thread (`work.send`), of a job (`tasks.start_job`) or of a task
  (`tasks.save_checkpoint`).

## Rules

"own": an agent on its own thing. "party": the other side of the same thread, task or message. "stranger": any other agent or workspace. "yes" means that
the verb itself decides, for instance by who holds the lease. People and the Unix socket may call everything but the verbs of the server's machine.

| rule | own | party | stranger | leader | person |
|---|---|---|---|---|---|
"""  # noqa: E501 - rows of a table


def permissions_page() -> str:
    """Return docs/permissions.md: the callers, the rules with the outcome for each kind of caller, and the verbs of each rule."""
    rows = "".join(f"| {rule} | {' | '.join(outcomes)} |\n" for rule, outcomes in TABLE.items())
    verbs_by_rule: dict[str, list[str]] = {rule: [] for rule in TABLE}
    for name, verb in sorted(routing_table().items()):
        verbs_by_rule[rule_of(verb)].append(f"`{name}`")
    lists = "".join(f"| {rule} | {', '.join(names) or 'none yet'} |\n" for rule, names in verbs_by_rule.items())
    return f"{PAGE}{rows}\n## Verbs\n\n| rule | verbs |\n|---|---|\n{lists}"


def rule_of(verb: verbs.Verb) -> str:
    """Return the rule that holds for a verb: a key of `TABLE`."""
    return verb.caller if verb.access is None else verb.access
