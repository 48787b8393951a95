"""The faces of the server: serve, sign-in, mcp. The one place where a command loads it."""

from __future__ import annotations

import os

from postroom.cli import inputs
from postroom.cli.envelope import Outcome, success, write
from postroom.cli.peopling import server_url
from postroom.core.errors import InvalidInput, StorageFailure
from postroom.core.words import quoted
from postroom.store import is_elsewhere, open_store
from postroom.store.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.parsing import Arguments
    from postroom.cli.team import Team
    from postroom.server.serving import Ready


def serve(args: Arguments) -> Outcome:
    from postroom.server.settings import Settings, check

    if args.demo and args.db is not None:
        raise InvalidInput("the demonstration wants a store of its own", field="db", hint="Leave --db or --demo out.")
    team = _team() if args.demo else None
    place = team.place if team is not None else None
    store = inputs.store(args) if place is None else open_store(place, door="cli")
    if store.elsewhere:
        raise InvalidInput("that store has a server already", field="db", hint="Serve it on its own machine, with --db PATH.")
    given = inputs.given(args, "host", "port", "uds", "data", "person", "tls_cert", "tls_key", "rate")
    limits = {"most_listeners": "max_listeners", "most_waits": "max_waits", "most_sockets": "max_sockets"}
    given |= {key: _positive(flag, args.values[flag]) for key, flag in limits.items() if args.values[flag] is not None}
    if "rate" in given:
        _positive("rate", given["rate"])
    if not 0 <= given.get("port", 0) <= 65535:
        raise InvalidInput(f"port must be from 0 to 65535, not {given['port']}", field="port")
    if args.no_tcp:
        _nothing_about_tcp(given)
    flags = {"dev": args.dev, "behind_proxy": args.behind_proxy, "tcp": not args.no_tcp}
    settings = Settings(store.place, allow_hosts=tuple(args.allow_host), **flags, **given)
    check(settings)
    _need_server()
    from postroom.server.serving import serve as run

    def ready(told: Ready) -> None:
        write(1, success("serve", told.plain()) if args.json else _welcome(told, store.place, demo=team is not None))
        if team is not None:
            team.start()

    try:
        run(settings, store, ready)
    finally:
        if team is not None:
            team.stop()
    return Outcome(None)  # what there was to say was said when it was ready


def _nothing_about_tcp(given: dict[str, Any]) -> None:
    for flag in ("host", "port", "tls_cert", "tls_key"):
        if flag in given:
            field = flag.replace("_", "-")
            raise InvalidInput(f"{field} is about TCP, and no-tcp wants none", field=field, hint="Leave one of them out.")


def _positive(field: str, value: float) -> float:
    if not value > 0:
        raise InvalidInput(f"{field.replace('_', '-')} must be more than 0, not {value:g}", field=field.replace("_", "-"))
    return value


def _welcome(told: Ready, place: str, *, demo: bool) -> str:
    from postroom.cli.human import paint

    end = (
        "A team is at work on a store of its own. Ctrl-C ends it, and takes the store away." if demo else "Ctrl-C ends it. Nothing is lost."
    )
    socket = "" if told.uds is None else quoted(told.uds)
    local = f"  On this machine:      curl --unix-socket {socket} http://localhost/api/inbox/history\n" if socket else ""
    if told.url is None:
        return f"\n  {paint('bold', 'Postroom')} is open at {told.uds}\n\n{local}\n  {end}\n\n"
    return (
        f"\n  {paint('bold', 'Postroom')} is open at {told.url}\n\n"
        f"  Open your inbox:      {told.sign_in_url}\n"
        f"                        (works once; `inbox sign-in --db {quoted(place)}` makes another)\n"
        f"  For scripts:          curl -H 'Authorization: Bearer {told.token}' {told.url}/api/inbox/history\n"
        f"{local}"
        f"  Connect an agent:     inbox workspace add PATH --label TEXT --db {quoted(place)}\n"
        f"  Look around:          inbox entries --db {quoted(place)}\n\n"
        f"  {end}\n\n"
    )


def _team() -> Team:
    from postroom.cli.team import Team

    return Team()


def sign_in(args: Arguments) -> Outcome:
    from postroom.people.passes import issue_link

    store = inputs.store(args)
    server = server_url(store, args.url)
    token = issue_link(store, person="user" if args.person is None else args.person)
    url = f"{server}/sign-in?token={token}"
    return Outcome({"sign_in_url": url, "text": f"Open this, within the hour; it works once:\n  {url}\n"}, human="text")


def mcp(args: Arguments) -> Outcome:
    _need_server()
    from postroom.server.stdio import run

    workspace = args.workspace or os.environ.get("INBOX_WORKSPACE")
    if not workspace:
        raise InvalidInput("'workspace' is missing", field="workspace", hint="Name it with --workspace; `inbox workspace list` shows them.")
    place = find(args.db)
    if is_elsewhere(place):
        raise InvalidInput("that store is behind a server, which speaks MCP itself", field="db", hint=f"Connect to /mcp/{workspace} there.")
    run(place, workspace)
    return Outcome(None)  # standard output was the protocol's


def _need_server() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("mcp", "uvicorn", "starlette", "nh3", "orjson")):
        raise StorageFailure("the server needs more libraries", hint="Install them: pip install 'postroom[server]'")
