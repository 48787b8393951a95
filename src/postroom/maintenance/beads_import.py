"""Import of the issues of beads, whose file `.beads/issues.jsonl` has one issue in each line, as threads."""

from __future__ import annotations

import json

from postroom import work
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.retention import BeadsResult
from postroom.core.states import PRIORITIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from postroom.store.interface import Store

SENDER = "beads"
_ENDED = frozenset(("closed", "tombstone"))
# Priorities of beads are 0 (critical) to 4 (backlog).
_PRIORITY = {0: PRIORITIES[0], 1: PRIORITIES[0], 2: PRIORITIES[1], 3: PRIORITIES[2], 4: PRIORITIES[2]}
_TEXTS = ("description", "design", "acceptance_criteria", "notes")


def import_beads(store: Store, lines: Iterable[str], *, to: str) -> BeadsResult:
    """Open a thread for each issue that has not ended, with the issue's id, for its assignee, or else for `to`.

    Ids that the store knows, or has removed, are left out, so that an import can be repeated. Refuses a line that is not an issue, with
    its number. The threads before it stay. Dependencies and comments are kept in the payload, and have no effect.
    """
    threads = ended = known = 0
    for number, line in enumerate(lines, start=1):
        issue = _parse_issue(number, line)
        if issue is None:
            continue
        if issue.get("status") in _ENDED:
            ended += 1
        elif _open_thread(store, issue, to):
            threads += 1
        else:
            known += 1
    return BeadsResult(threads, ended, known)


def _parse_issue(number: int, line: str) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        issue = json.loads(line)
        if not all(isinstance(issue[name], str) and issue[name] for name in ("id", "title")):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"line {number} is not an issue of beads", field="file", hint="An issue has at least id and title.") from None
    return dict(issue)


def _open_thread(store: Store, issue: dict[str, Any], to: str) -> bool:
    with store.read() as tx:
        if tx.fetch_one(tx.sql.thread_find, thread_id=issue["id"]) is not None:
            return False
    texts = [issue[name] for name in _TEXTS if isinstance(issue.get(name), str) and issue[name]]
    try:
        work.send(
            store,
            sender=SENDER,
            to=issue.get("assignee") or to,
            thread_id=issue["id"],
            subject=" ".join(issue["title"].split()),
            body="\n\n".join(texts),
            payload_json=json.dumps(issue, ensure_ascii=False),
            priority=_PRIORITY.get(issue.get("priority", 2), PRIORITIES[1]),
        )
    except InvalidState:  # it was removed before
        return False
    return True
