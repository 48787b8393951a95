"""Import of the messages in the folders of AMQ (agent-message-queue) as mail.

Its documentation describes them so: each agent has ROOT/agents/AGENT/inbox with the folders tmp, new (unread) and cur (read). A message
is a file ID.md: a line `---json`, a JSON object with `schema`, `id`, `from`, `to`, `thread`, `subject`, `created`, `priority` and more,
a line `---`, and the body in Markdown.
"""

from __future__ import annotations

import json
import os
from datetime import datetime

from postroom import mail
from postroom.core import checks, limits
from postroom.core.errors import Conflict, InvalidInput, Refusal
from postroom.core.records.retention import AmqResult
from postroom.core.text import short_repr
from postroom.mail.drafts import parse_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from postroom.store.interface import Store

SCHEMAS = (1, 2)
SUFFIX = ".md"
HEADER_START, HEADER_END = "---json\n", "\n---\n"
MAX_FILE_BYTES = limits.MAX_MAIL_PAYLOAD_BYTES + limits.MAX_METADATA_JSON_BYTES
_USED_FIELDS = frozenset(("schema", "id", "from", "to", "created"))


def import_amq(store: Store, root: str, *, include_read: bool = False) -> AmqResult:
    """Enqueue the unread messages of every agent below `root`, with `include_read` also those in `cur`, and return how many.

    A message keeps its id, sender, body and time. All other fields of its header, such as subject, thread and priority, are kept as they
    are. Ids that the store knows are left out, so that an import can be repeated. A file that is not a message is refused with its name
    before anything is stored. A file whose id stands for another message is refused, and the messages before it stay.
    """
    agents = _list_agents(os.path.abspath(checks.path("folder", root)))
    unread = [path for folder in agents for path in _list_messages(folder, "new")]
    read = [path for folder in agents for path in _list_messages(folder, "cur")]
    chosen = [*read, *unread] if include_read else unread
    messages = [(path, _read_message(path)) for path in chosen]
    stored = sum(_enqueue(store, path, message) for path, message in messages)
    return AmqResult(stored, len(messages) - stored, 0 if include_read else len(read))


def _list_agents(root: str) -> list[str]:
    """Return the folder of each agent."""
    folder = os.path.join(root, "agents")
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError as error:
        hint = "Name the folder of a session that has `agents`, such as .agent-mail/collab."
        raise InvalidInput(f"{folder} cannot be read: {error.strerror}", field="folder", hint=hint) from None


def _list_messages(agent_folder: str, name: str) -> Iterator[str]:
    """Yield the files of messages in `new` or `cur` of an agent, in the order of their ids, which begin with the time."""
    folder = os.path.join(agent_folder, "inbox", name)
    if os.path.isdir(folder):
        for file in sorted(os.listdir(folder)):
            if file.endswith(SUFFIX) and not file.startswith("."):
                yield os.path.join(folder, file)


def _read_message(path: str) -> dict[str, Any]:
    """Return a file as a message of `mail`. Refuses with `InvalidInput` and the name of the file."""
    try:
        header, body = _split_file(_read_text(path))
        recipient = os.path.basename(os.path.dirname(os.path.dirname(os.path.dirname(path))))
        message = _make_message(header, body, recipient)
        if header["id"] != os.path.basename(path).removesuffix(SUFFIX):
            raise ValueError("its name is not its id")
        parse_message(message)
    except (OSError, ValueError, Refusal) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{path} is not a message of AMQ: {why}", field="file", hint="Repair it, or move it away.") from None
    return message


def _read_text(path: str) -> str:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as opened:
        data = opened.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {checks.size_text(MAX_FILE_BYTES)}")
    return data.decode()


def _split_file(text: str) -> tuple[dict[str, Any], str]:
    """Return the header and the body of a file."""
    head, end, body = text.partition(HEADER_END)
    if not head.startswith(HEADER_START) or not end:
        raise ValueError("it does not begin with a header in JSON between ---json and ---")
    header = json.loads(head.removeprefix(HEADER_START))
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    if header.get("schema") not in SCHEMAS:
        raise ValueError(f"its schema is {short_repr(header.get('schema'))}, and 1 and 2 are known")
    return header, body


def _make_message(header: dict[str, Any], body: str, recipient: str) -> dict[str, Any]:
    to = header.get("to")
    if not isinstance(to, list) or not to or not all(isinstance(name, str) for name in to):
        raise ValueError("'to' is not a list of names")
    if not all(isinstance(header.get(name), str) for name in ("id", "from")):
        raise ValueError("'id' or 'from' is missing")
    kept = {name: value for name, value in header.items() if name not in _USED_FIELDS}
    kept |= {"recipients": to} if len(to) > 1 else {}
    # An id stands for one delivery. AMQ puts a message to several agents into the folder of each, under one id.
    msg_id = header["id"] if len(to) == 1 else f"{header['id']}:{recipient}"
    return {**kept, "msg_id": msg_id, "from": header["from"], "to": recipient, "payload": body, "created_at": _parse_created(header)}


def _parse_created(header: dict[str, Any]) -> int:
    """Return the time at which a message was sent, in Unix seconds."""
    try:
        created = datetime.fromisoformat(header["created"])
    except (KeyError, TypeError, ValueError):
        raise ValueError("'created' is not a time") from None
    if created.tzinfo is None:
        raise ValueError("'created' has no time zone")
    return int(created.timestamp())


def _enqueue(store: Store, path: str, message: dict[str, Any]) -> bool:
    """Store a message, and return whether it was new."""
    try:
        return mail.enqueue(store, message).queued
    except Conflict as refusal:
        hint = "The store has another message of this sender with this id. Move the file away."
        raise InvalidInput(f"{path} was not imported: {refusal}", field="file", hint=hint) from None
