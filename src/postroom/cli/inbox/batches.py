"""Handler of `inbox send --batch`."""

from __future__ import annotations

from postroom.cli.framework.output import Outcome
from postroom.cli.inbox import inputs
from postroom.core import limits
from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments

DEFAULTS = ("to", "subject", "summary", "body", "run", "task", "kind", "priority")
EXCLUDED = ("thread", "body_file", "payload_json", "artifact_kind", "artifact_metadata_json")


def handle_send_batch(args: Arguments) -> Outcome:
    from postroom.work.batches import send_all

    for name in (*inputs.given_options(args, *EXCLUDED), *(("artifact",) if args.artifact else ())):
        flag = name.replace("_", "-")
        raise InvalidInput(f"{flag} cannot be given beside batch", field=flag, hint="Leave one of them out.")
    hint = "A line is JSON, and JSON is UTF-8."
    text = inputs.read_file_text(args.batch, field="batch", hint=hint, max_bytes=limits.MAX_BATCH_BYTES)
    drafts = _parse_lines(text, inputs.given_options(args, *DEFAULTS))
    sent = send_all(inputs.open_store_for(args), drafts, sender=inputs.require_sender(args), key=args.key, strict=args.strict)
    data = {
        "sent": len(sent),
        "threads": [posted.thread.to_json() for posted in sent],
        "next_event_id": max(posted.next_event_id for posted in sent),
        "notes": list(dict.fromkeys(posted.note for posted in sent if posted.note)),
    }
    return Outcome(data, view="sent batch")


def _parse_lines(text: str, defaults: dict[str, Any]) -> list[Any]:
    """Return the object of each line, over the defaults. Refuses with the number of the line."""
    from postroom._fastpath import json_text as jsontext

    if not text.strip():
        raise InvalidInput("the batch is empty", field="batch", hint="Write a JSON object on each line.")
    drafts = []
    for number, line in enumerate(text.removeprefix("\ufeff").rstrip().split("\n"), 1):
        try:
            draft = jsontext.loads(line)
        except ValueError as error:
            hint = 'For example: {"to": "builder", "subject": "Add the login page"}'
            raise InvalidInput(f"line {number} is not JSON: {error}", field="batch", hint=hint, line=number) from None
        drafts.append(_add_defaults(draft, defaults) if isinstance(draft, dict) else draft)
    return drafts


def _add_defaults(draft: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return a draft over the defaults. A `run_id` or `task_id` of the draft replaces the default of `run` or `task`."""
    return {**{name: value for name, value in defaults.items() if f"{name}_id" not in draft}, **draft}
