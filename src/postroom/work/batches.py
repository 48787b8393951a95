"""Batches: open many threads in one transaction. `inbox send --batch` calls it."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, limits
from postroom.core.errors import InvalidInput, Refusal
from postroom.core.records.work import Attachment
from postroom.core.states import KINDS, PRIORITIES
from postroom.core.text import short_repr
from postroom.core.verbs import OWN_NAME, WRITE, verb
from postroom.store.retries import retry_on_contention
from postroom.work import messages, receivers, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from postroom.core.records.work import PostedMessage
    from postroom.store.interface import Store, Transaction
    from postroom.work.messages import Content

TEXT_FIELDS = ("to", "subject", "summary", "body", "run", "task", "kind", "priority")
FIELDS = (*TEXT_FIELDS, "payload", "artifacts")


@verb(caller="sender", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def send_all(store: Store, drafts: Sequence[Mapping[str, Any]], *, sender: str, strict: bool = False) -> tuple[PostedMessage, ...]:
    """Open a thread for each draft, all in one transaction, and return them in the same order.

    A draft is an object with `to`, `subject` or `summary`, and optionally `body`, `run`, `task`, `kind`, `priority`,
    `payload` (an object) and `artifacts` (paths). The first draft that cannot be sent refuses all of them, and the refusal
    names its line. `strict` refuses receivers that were never seen.
    """
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    if not isinstance(drafts, (list, tuple)) or not 1 <= len(drafts) <= limits.MAX_BATCH_ITEMS:
        raise InvalidInput(f"a batch holds 1 to {limits.MAX_BATCH_ITEMS} threads", field="batch", hint="Send it in parts.")
    contents = [_call_for_line(line, _check_draft, draft) for line, draft in enumerate(drafts, 1)]
    with store.write() as tx:
        check = receivers.ReceiverCheck(tx, strict=strict)
        ids = sorted(tx.new_id("thr") for _ in drafts)  # of threads that are equally old, `take` offers the one with the lowest id first
        return tuple(
            _call_for_line(line, _open_thread, tx, check, sender, draft, content, thread_id)
            for line, (draft, content, thread_id) in enumerate(zip(drafts, contents, ids), 1)
        )


def _call_for_line(line: int, function: Any, *arguments: Any) -> Any:
    """Call a function. A refusal of it names the line of the batch."""
    try:
        return function(*arguments)
    except Refusal as refusal:
        refusal.args = (f"line {line}: {refusal}",)
        refusal.facts["line"] = line
        raise


def _check_draft(draft: Mapping[str, Any]) -> Content:
    if not isinstance(draft, dict):
        hint = 'For example: {"to": "builder", "subject": "Add the login page"}'
        raise InvalidInput("a thread must be a JSON object", field="batch", hint=hint)
    for field in draft:
        if field not in FIELDS:
            raise InvalidInput(f"there is no field {short_repr(field)}", field="batch", hint=f"Known: {', '.join(FIELDS)}.")
    for field in TEXT_FIELDS:
        checks.text(field, draft.get(field, ""))
    for field in ("subject", "run", "task"):
        checks.line(field, draft.get(field, ""))
    checks.choice("kind", draft.get("kind", "task"), KINDS)
    checks.choice("priority", draft.get("priority", "normal"), PRIORITIES)
    artifacts = draft.get("artifacts", [])
    if not isinstance(artifacts, (list, tuple)) or not all(isinstance(path, str) for path in artifacts):
        raise InvalidInput("artifacts must be a list of paths", field="artifacts")
    payload_json = jsontext.dumps(draft.get("payload", {}))
    summary = draft.get("summary") or draft.get("subject", "")
    return messages.check_content(summary, draft.get("body", ""), payload_json, tuple(Attachment(path) for path in artifacts))


def _open_thread(
    tx: Transaction, check: receivers.ReceiverCheck, sender: str, draft: Mapping[str, Any], content: Content, thread_id: str
) -> PostedMessage:
    ids = {"run_id": draft.get("run"), "task_id": draft.get("task")}
    subject, kind = draft.get("subject", ""), draft.get("kind", "task")
    return threads.open_noted_thread(
        tx,
        check,
        content,
        sender=sender,
        to=draft.get("to"),
        subject=subject,
        kind=kind,
        priority=draft.get("priority"),
        thread_id=thread_id,
        **ids,
    )
