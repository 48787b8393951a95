"""What the faces share: opening the store, and reading the texts that flags name."""

from __future__ import annotations

import os

from postroom.core.errors import InvalidInput
from postroom.core.records import Attachment
from postroom.store import open_store
from postroom.store.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.parsing import Arguments
    from postroom.store.port import Store

NAME_YOURSELF = "Name yourself with --agent, or set INBOX_AGENT."


def store(args: Arguments, *, solitary: bool = False) -> Store:
    return open_store(find(args.db), door="cli", solitary=solitary)


def agent(args: Arguments) -> str:
    if not args.agent:
        raise InvalidInput("'agent' is missing", field="agent", hint=NAME_YOURSELF)
    return args.agent


def sender(args: Arguments) -> str:
    name = args.agent if args.values.get("from") is None else args.values["from"]
    if not name:
        raise InvalidInput("'from' is missing", field="from", hint="Name yourself with --from, --agent or INBOX_AGENT.")
    return str(name)


def humans(store: Store) -> list[str]:
    """Whose word is worth a doubt when nobody vouched for it."""
    from postroom.work.agents import list_agents

    return [agent.name for agent in list_agents(store, limit=10_000) if agent.kind == "human"]


def thread(args: Arguments) -> str:
    named = args.thread if args.thread is not None else os.environ.get("INBOX_THREAD")
    if not named:
        raise InvalidInput("'thread' is missing", field="thread", hint="Name it with --thread; `inbox list` shows them.")
    return str(named)


def lease_token(args: Arguments) -> str | None:
    """The token given, or that of the thread that this process was started for."""
    if args.lease_token is not None:
        return str(args.lease_token)
    ours = os.environ.get("INBOX_THREAD") == thread(args) and os.environ.get("INBOX_AGENT") == args.agent
    return os.environ.get("INBOX_LEASE_TOKEN") or None if ours else None


def given(args: Arguments, *keys: str) -> dict[str, Any]:
    """Those flags that were given, so that each default has one home: the verb's."""
    return {key: args.values[key] for key in keys if args.values[key] is not None}


def texts(args: Arguments) -> dict[str, Any]:
    """The keywords of a verb that says something."""
    said = {**given(args, "summary", "payload_json"), **artifacts(args)}
    if args.body is not None and args.body_file is not None:
        raise InvalidInput("body and body-file exclude each other", field="body", hint="Leave one of them out.")
    if args.body is not None:
        said["body"] = args.body
    elif args.body_file is not None:
        said["body"] = file_text(args.body_file, field="body-file", hint="Attach it with --artifact instead.")
    return said


def artifacts(args: Arguments) -> dict[str, Any]:
    about = {name: args.values[f"artifact_{name}"] for name in ("kind", "metadata_json") if args.values[f"artifact_{name}"] is not None}
    if about and not args.artifact:
        raise InvalidInput("artifact-kind and artifact-metadata-json describe an artifact, and none was given", field="artifact")
    return {"artifacts": tuple(Attachment(path, **about) for path in args.artifact)}


def file_text(path: str, *, field: str, hint: str) -> str:
    """What a file that a flag names holds, as text; `-` is standard input."""
    try:
        if path == "-":
            data = standard_input()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{path} cannot be read: {reason}", field=field, hint="Check the path and its permissions.") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", field=field, hint=hint) from None


def standard_input() -> bytes:
    parts = []
    while part := os.read(0, 1 << 20):
        parts.append(part)
    return b"".join(parts)
