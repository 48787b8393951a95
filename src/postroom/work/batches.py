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

    CheckedDraft = tuple[Mapping[str, Any], Content, str | None]

TEXT_FIELDS = ("to", "subject", "summary", "body", "run", "task", "kind", "priority")
FIELDS = (*TEXT_FIELDS, "payload", "artifacts", "key")
ALIASES = {"run_id": "run", "task_id": "task"}  # the names that threads have in our JSON


@verb(caller="sender", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def send_all(
    store: Store, drafts: Sequence[Mapping[str, Any]], *, sender: str, key: str | None = None, strict: bool = False
) -> tuple[PostedMessage, ...]:
    """Open a thread for each draft, all in one transaction, and return them in the same order.

    A draft is an object with `to`, `subject` or `summary`, and optionally `body`, `run` or `run_id`, `task` or `task_id`, `kind`,
    `priority`, `payload` (an object), `artifacts` (paths) and `key`. The first draft that cannot be sent refuses all of them, and the
    refusal names its line. `strict` refuses receivers that were never seen.

    A draft's `key` makes retries safe, as that of `send` does: a draft that was sent with the same key is not sent again, and its
    thread is returned. `key` gives each draft without one the key `KEY:LINE`.
    """
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    if not isinstance(drafts, (list, tuple)) or not 1 <= len(drafts) <= limits.MAX_BATCH_ITEMS:
        raise InvalidInput(f"a batch holds 1 to {limits.MAX_BATCH_ITEMS} threads", field="batch", hint="Send it in parts.")
    if key is not None:
        checks.name("key", key)
    checked = [_call_for_line(line, _check_draft, draft, key, line, sender) for line, draft in enumerate(drafts, 1)]
    with store.write() as tx:
        check = receivers.ReceiverCheck(tx, strict=strict)
        ids = sorted(tx.new_id("thr") for _ in drafts)  # of threads that are equally old, `take` offers the one with the lowest id first
        return tuple(
            _call_for_line(line, _send_draft, tx, check, sender, draft, thread_id)
            for line, (draft, thread_id) in enumerate(zip(checked, ids), 1)
        )


def _call_for_line(line: int, function: Any, *arguments: Any) -> Any:
    """Call a function. A refusal of it names the line of the batch."""
    try:
        return function(*arguments)
    except Refusal as refusal:
        refusal.args = (f"line {line}: {refusal}",)
        refusal.facts["line"] = line
        raise


def _check_draft(draft: Mapping[str, Any], prefix: str | None, line: int, sender: str) -> CheckedDraft:
    """Return the fields of a draft by their first names, its content, and the id of its message if it has a key."""
    if not isinstance(draft, dict):
        hint = 'For example: {"to": "builder", "subject": "Add the login page"}'
        raise InvalidInput("a thread must be a JSON object", field="batch", hint=hint)
    fields = _resolve_aliases(draft)
    for field in fields:
        if field not in FIELDS:
            raise InvalidInput(f"there is no field {short_repr(field)}", field="batch", hint=f"Known: {', '.join((*FIELDS, *ALIASES))}.")
    for field in TEXT_FIELDS:
        checks.text(field, fields.get(field, ""))
    checks.line("subject", fields.get("subject", ""))
    for field in ("run", "task"):
        checks.indexed(field, fields.get(field, ""))
    checks.choice("kind", fields.get("kind", "task"), KINDS)
    checks.choice("priority", fields.get("priority", "normal"), PRIORITIES)
    artifacts = fields.get("artifacts", [])
    if not isinstance(artifacts, (list, tuple)) or not all(isinstance(path, str) for path in artifacts):
        raise InvalidInput("artifacts must be a list of paths", field="artifacts")
    payload_json = jsontext.dumps(fields.get("payload", {}))
    summary = fields.get("summary") or fields.get("subject", "")
    content = messages.check_content(summary, fields.get("body", ""), payload_json, tuple(Attachment(path) for path in artifacts))
    key = fields.get("key", None if prefix is None else f"{prefix}:{line}")
    return fields, content, None if key is None else threads.message_id_for_send(sender, key)


def _resolve_aliases(draft: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a draft by their first names. Refuses with `InvalidInput` two names of a field with different values."""
    fields = {field: value for field, value in draft.items() if field not in ALIASES}
    for alias, field in ALIASES.items():
        if alias in draft and fields.setdefault(field, draft[alias]) != draft[alias]:
            raise InvalidInput(f"{field} and {alias} differ", field=field, hint="They are one field: leave one of them out.")
    return fields


def _send_draft(tx: Transaction, check: receivers.ReceiverCheck, sender: str, draft: CheckedDraft, thread_id: str) -> PostedMessage:
    """Return the thread that was sent with the key of a draft, or open one with this id."""
    fields, content, message_id = draft
    kind = fields.get("kind", "task")
    before = threads.find_repeated_send(tx, message_id, content, to=fields.get("to"), kind=kind)
    if before is not None:
        return before
    return threads.open_noted_thread(
        tx,
        check,
        content,
        sender=sender,
        to=fields.get("to"),
        subject=fields.get("subject", ""),
        kind=kind,
        priority=fields.get("priority"),
        thread_id=thread_id,
        run_id=fields.get("run"),
        task_id=fields.get("task"),
        message_id=message_id,
    )
