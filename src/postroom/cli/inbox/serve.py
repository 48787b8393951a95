"""Handlers of `serve`, `sign-in` and `mcp`. No other module of `cli` imports the server."""

from __future__ import annotations

import os

from postroom.cli.framework.output import Outcome, success_json, write_all
from postroom.cli.inbox import inputs
from postroom.cli.inbox.people.commands import known_server, server_url
from postroom.core.errors import InvalidInput, Missing
from postroom.core.text import shell_quote
from postroom.store import is_server_url, open_store
from postroom.store.location import find_location, shown_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.cli.inbox.demo.team import Team
    from postroom.server.config import Settings
    from postroom.server.main import Ready
    from postroom.store.interface import Store


def handle_serve(args: Arguments) -> Outcome:
    from postroom.server.config import check_settings

    if args.demo and args.db is not None:
        raise InvalidInput("the demonstration uses a store of its own", field="db", hint="Leave --db or --demo out.")
    team = _create_team() if args.demo else None
    store = inputs.open_store_for(args) if team is None else open_store(team.location, door="cli")
    if store.is_remote:
        raise InvalidInput("that store has a server already", field="db", hint="Serve it on its own machine, with --db PATH.")
    settings = _settings_from(args, store.location)
    check_settings(settings)
    _require_server_libraries()
    from postroom.server.main import serve

    def announce_ready(ready: Ready) -> None:
        show_token = os.isatty(1)  # otherwise it would stay in a log
        if args.json:
            hidden = () if show_token else ("token",)
            write_all(1, success_json("serve", {name: value for name, value in ready.items() if value is not None and name not in hidden}))
        else:
            token = ready.token if show_token else f"$(cat {shell_quote(ready.token_file)})"
            write_all(1, _ready_text(ready, token, shown_location(store.location), demo=team is not None))
        if team is not None:
            team.start()

    try:
        serve(settings, store, announce_ready)
    finally:
        if team is not None:
            team.stop()
    return Outcome(None)  # `announce_ready` has printed everything


def _settings_from(args: Arguments, location: str) -> Settings:
    """Return the settings that the flags describe. Refuses values out of range and flags that contradict --no-tcp."""
    from postroom.server.config import Settings

    options = inputs.given_options(args, "host", "port", "uds", "data", "person", "tls_cert", "tls_key", "log_format", "log_level")
    limits = inputs.given_options(args, "max_listeners", "max_waits", "max_sockets", "max_mib_per_minute", "rate")
    for field, value in limits.items():
        _require_positive(field.replace("_", "-"), value)
    if not 0 <= options.get("port", 0) <= 65535:
        raise InvalidInput(f"port must be from 0 to 65535, not {options['port']}", field="port")
    if args.no_tcp:
        _refuse_tcp_options(options)
    switches = {"dev": args.dev, "behind_proxy": args.behind_proxy, "tcp": not args.no_tcp}
    return Settings(location, allow_hosts=tuple(args.allow_host), **switches, **options, **limits)


def _refuse_tcp_options(options: dict[str, Any]) -> None:
    for flag in ("host", "port", "tls_cert", "tls_key"):
        if flag in options:
            field = flag.replace("_", "-")
            raise InvalidInput(f"{field} is a TCP option and cannot be combined with no-tcp", field=field, hint="Leave one of them out.")


def _require_positive(field: str, value: float) -> None:
    if not value > 0:
        raise InvalidInput(f"{field} must be more than 0, not {value:g}", field=field)


def _ready_text(ready: Ready, token: str, location: str, *, demo: bool) -> str:
    """Return the text for people: where the server listens, and how to sign in and connect. `token` is a shell's word for the token."""
    from postroom.cli.framework.terminal import colour_text

    end = "A team is at work on a store of its own. Ctrl-C ends it and deletes the store." if demo else "Ctrl-C ends it. Nothing is lost."
    socket = "" if ready.uds is None else shell_quote(ready.uds)
    local = f"  On this machine:      curl --unix-socket {socket} http://localhost/api/inbox/history\n" if socket else ""
    if ready.url is None:
        return f"\n  {colour_text('bold', 'Postroom')} is open at {ready.uds}\n\n{local}\n  {end}\n\n"
    return (
        f"\n  {colour_text('bold', 'Postroom')} is open at {ready.url}\n\n"
        f"  Open your inbox:      {ready.sign_in_url}\n"
        f"                        (works once; `inbox sign-in --db {shell_quote(location)}` makes another)\n"
        f'  For scripts:          curl -H "Authorization: Bearer {token}" {ready.url}/api/inbox/history\n'
        f"{local}"
        f"  Connect an agent:     inbox workspace add PATH --label TEXT --db {shell_quote(location)}\n"
        f"  Look around:          inbox entries --db {shell_quote(location)}\n\n"
        f"  {end}\n\n"
    )


def _create_team() -> Team:
    from postroom.cli.inbox.demo.team import Team

    return Team()


def handle_sign_in(args: Arguments) -> Outcome:
    from postroom.people.access.passes import issue_link

    store = inputs.open_store_for(args)
    server = server_url(store, args.url)
    token = issue_link(store, person="user" if args.person is None else args.person)
    url = f"{server}/sign-in?token={token}"
    warnings = _sign_in_warnings(store, args.url, server)
    notes = "".join(f"note: {warning}\n" for warning in warnings)
    data = {"sign_in_url": url, "text": f"Open this, within the hour; it works once:\n  {url}\n{notes}"}
    return Outcome({**data, "warnings": warnings} if warnings else data, view="text")


def _sign_in_warnings(store: Store, given: str | None, server: str) -> list[str]:
    """Return what to tell a person whose link leads to no server. A given address may be out of reach from here, and is not tried."""
    from postroom.store.remote.health import find_trouble

    if given is not None:
        return []
    if not known_server(store):
        return ["No server is known to run for this store. Start one with `inbox serve` before you open the link, or name it with --url."]
    trouble = find_trouble(server)
    return [f"No server answers there now: {trouble}."] if trouble else []


def handle_mcp(args: Arguments) -> Outcome:
    from postroom.server.mcp.stdio import serve_stdio

    workspace = args.workspace or os.environ.get("INBOX_WORKSPACE") or None
    try:
        location = find_location(args.db)
    except Missing:
        if workspace is not None:
            raise
        location = ""  # a program serves all folders of its user, also those without a store
    if is_server_url(location):
        raise InvalidInput("that store is behind a server that offers MCP itself", field="db", hint=f"Connect to /mcp/{workspace} there.")
    serve_stdio(location, workspace)
    return Outcome(None)  # standard output belonged to the MCP protocol


def _require_server_libraries() -> None:
    from importlib.util import find_spec

    from postroom.store.installation import missing_extra

    if any(find_spec(name) is None for name in ("mcp", "uvicorn", "starlette", "nh3", "orjson", "prometheus_client")):
        raise missing_extra("the server needs more libraries", "server")
