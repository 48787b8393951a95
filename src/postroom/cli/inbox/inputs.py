"""Functions that the handlers share: opening the store, requiring flags, and reading the files that flags name."""

from __future__ import annotations

import os

from postroom._fastpath.imports import import_in_order
from postroom.cli import MAIL_STATEMENTS, SQLITE_MODULES, WORK_STATEMENTS
from postroom.core import checks, limits
from postroom.core.errors import InvalidInput
from postroom.store import is_path, open_store
from postroom.store.location import find_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store

NAME_YOURSELF = "Name yourself with --agent, or set INBOX_AGENT."


def open_store_for(args: Arguments, *, owns_process: bool = False) -> Store:
    """Open the store of `--db`, or the default one. `owns_process` is for commands that wait: they may use signals."""
    location = find_location(args.db)
    if is_path(location):
        if args.program.name == "mailbox":
            import_in_order(*SQLITE_MODULES, *MAIL_STATEMENTS, archive="mail-store")
        else:
            import_in_order(*SQLITE_MODULES, *WORK_STATEMENTS, archive="work-store")
    return open_store(location, door="cli", owns_process=owns_process)


def require_agent(args: Arguments) -> str:
    """Return the name in `--agent` or `INBOX_AGENT`."""
    if not args.agent:
        raise InvalidInput("'agent' is missing", field="agent", hint=NAME_YOURSELF)
    return args.agent


def require_sender(args: Arguments, *, more_hint: str = "") -> str:
    """Return the name in `--from`, `--agent` or `INBOX_AGENT`."""
    name = args.agent if args.values.get("from") is None else args.values["from"]
    if not name:
        raise InvalidInput("'from' is missing", field="from", hint=f"Name yourself with --from, --agent or INBOX_AGENT.{more_hint}")
    return str(name)


def known_humans(store: Store) -> list[str]:
    """Return the names of all people. Views mark their messages as unverified if no server checked the sender."""
    from postroom.work.agents import list_agents

    return [agent.name for agent in list_agents(store, limit=limits.MAX_ITEMS).agents if agent.is_person]


def require_thread(args: Arguments) -> str:
    """Return the thread id that stands after the command, or in `--thread` or `INBOX_THREAD`."""
    named = args.words[0] if args.words else args.thread
    if args.thread not in (None, named):
        raise InvalidInput(f"two threads are named: {named} and {args.thread}", field="thread", hint="Leave one of them out.")
    thread = named if named is not None else os.environ.get("INBOX_THREAD")
    if not thread:
        raise InvalidInput("'thread' is missing", field="thread", hint=f"For example: {args.command.example}. `inbox list` shows the ids.")
    return str(thread)


def lease_token(args: Arguments) -> str | None:
    """Return `--lease-token`, or `INBOX_LEASE_TOKEN` if the thread and the agent are those that `inbox work` started us for."""
    if args.lease_token is not None:
        return str(args.lease_token)
    if os.environ.get("INBOX_THREAD") != require_thread(args) or os.environ.get("INBOX_AGENT") != args.agent:
        return None
    return os.environ.get("INBOX_LEASE_TOKEN") or None


def given_options(args: Arguments, *keys: str) -> dict[str, Any]:
    """Return the flags that were given. Defaults are thus defined only by the verb."""
    return {key: args.values[key] for key in keys if args.values[key] is not None}


def text_options(args: Arguments) -> dict[str, Any]:
    """Return the keyword arguments of a verb that writes a message: summary, payload, body and artifacts."""
    options = {**given_options(args, "summary", "payload_json"), **artifact_options(args)}
    if args.body is not None and args.body_file is not None:
        raise InvalidInput("body and body-file exclude each other", field="body", hint="Leave one of them out.")
    if args.body is not None:
        options["body"] = args.body
    elif args.body_file is not None:
        options["body"] = read_file_text(args.body_file, field="body-file", hint="Attach it with --artifact instead.")
    return options


def artifact_options(args: Arguments) -> dict[str, Any]:
    """Return the attachments that the `--artifact` flags describe, as a keyword argument."""
    given = {name: args.values[f"artifact_{name}"] for name in ("kind", "metadata_json")}
    description = {name: value for name, value in given.items() if value is not None}
    if description and not args.artifact:
        raise InvalidInput("artifact-kind and artifact-metadata-json describe an artifact, and none was given", field="artifact")
    from postroom.core.records.work import Attachment

    return {"artifacts": tuple(Attachment(path, **description) for path in args.artifact)}


def read_file_text(path: str, *, field: str, hint: str, max_bytes: int = limits.MAX_BODY_BYTES) -> str:
    """Return the UTF-8 text of the file at `path`, which `read_file_bytes` reads. `field` and `hint` are for the refusal."""
    try:
        return read_file_bytes(path, field=field, max_bytes=max_bytes).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", field=field, hint=hint) from None


def read_file_bytes(path: str, *, field: str, max_bytes: int) -> bytes:
    """Return the content of the file at `path`. `-` is standard input. Refuses more than `max_bytes`, and reads no further than that."""
    try:
        if path == "-":
            data = _read_standard_input(max_bytes + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{path} cannot be read: {reason}", field=field, hint="Check the path and its permissions.") from None
    if len(data) > max_bytes:
        raise InvalidInput(f"{field} is larger than {checks.size_text(max_bytes)}", field=field, hint="Send less, or the path of a file.")
    return data


def _read_standard_input(max_bytes: int) -> bytes:
    """Read standard input to its end, or `max_bytes` of it."""
    data = bytearray()
    while len(data) < max_bytes and (part := os.read(0, min(max_bytes - len(data), limits.MIB))):
        data += part
    return bytes(data)
