"""Handler of `agent run`."""

from __future__ import annotations

import fcntl
import os

from postroom.cli.framework.output import OK, Outcome, write_all
from postroom.cli.inbox import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.cli.inbox.residents.session_plan import ServerCommand
    from postroom.core.records.people import Workspace
    from postroom.store.interface import Store
    from postroom.work.worker import Worker

FAILED = 1
DEFAULT_TURNS = 50
DEFAULT_TIMEOUT_SECONDS = 3600.0
MAX_TURNS = 10_000


def handle_agent_run(args: Arguments) -> Outcome:
    from postroom.cli.inbox.residents import program_factory
    from postroom.core import checks
    from postroom.core.errors import InvalidInput

    agent, name = args.words[0], args.values["with"]
    if not name or not name.strip():
        hint = f"One of {', '.join(program_factory.NAMES)}, acp:'COMMAND', or a shell command."
        raise InvalidInput("'with' is missing", field="with", hint=hint)
    if args.turns is not None and not 1 <= args.turns <= MAX_TURNS:
        raise InvalidInput(f"turns must be from 1 to {MAX_TURNS}, not {args.turns}", field="turns")
    store = inputs.open_store_for(args)
    lock = _lock_agent(store.location, checks.name("name", agent))
    try:
        if not program_factory.has_sessions(name):
            return _run_command(args, store, agent, name)
        if store.is_remote:
            hint = "Run it beside the store, or give a plain command, which reads threads and mail on its standard input."
            raise InvalidInput("that store is behind a server", field="db", hint=hint)
        return _run_worker(args, _make_resident(args, store, agent, name))
    finally:
        os.close(lock)


def _make_resident(args: Arguments, store: Store, agent: str, name: str) -> Worker:
    from postroom.cli.inbox.residents.program_factory import make_environment, make_program
    from postroom.cli.inbox.residents.resident import ResidentWorker
    from postroom.cli.inbox.worker import print_progress
    from postroom.tasks import taking

    workspace = _find_workspace(store, agent)
    environment, server = make_environment(store.location, agent), _make_server(store, workspace)
    program = make_program(name, environment=environment, folder=workspace.path, server=server, approve=bool(args.approve))
    return ResidentWorker(
        store,
        program,
        agent=agent,
        max_turns=args.turns or DEFAULT_TURNS,
        open_store=lambda: inputs.open_store_for(args),
        adopt=_may_adopt(store),
        report_step=None if args.json else print_progress,
        report_mail=None if args.json else _print_mail,
        source=taking,
        **_worker_options(args),
    )


def _may_adopt(store: Store) -> bool:
    """Return whether no other resident of an agent can run: the lock of an agent holds on one machine, as a store in a file does."""
    return "://" not in store.location


def _worker_options(args: Arguments) -> dict[str, Any]:
    options = inputs.given_options(args, "jobs", "lease_seconds", "retries", "backoff_seconds", "timeout_seconds")
    options.setdefault("timeout_seconds", DEFAULT_TIMEOUT_SECONDS)
    return options


def _run_worker(args: Arguments, worker: Worker) -> Outcome:
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: worker.stop())
    totals = worker.run(until_empty=args.until_empty)
    return Outcome(totals.to_json(), view="worked", exit_code=FAILED if totals.failed else OK)


def _run_command(args: Arguments, store: Store, agent: str, command: str) -> Outcome:
    """Run a plain command: `inbox work` for its threads, and beside it `mailbox deliver` for its mail, with the same command."""
    from threading import Thread

    from postroom.cli.inbox.residents.adopting import CommandWorker
    from postroom.cli.inbox.worker import print_progress
    from postroom.core.errors import InvalidInput
    from postroom.mail.deliver import Deliverer
    from postroom.tasks import taking

    options = _worker_options(args)
    tell = None if args.json else print_progress
    worker = CommandWorker(store, agent=agent, command=command, adopt=_may_adopt(store), report_step=tell, source=taking, **options)
    mail_store = inputs.open_store_for(args)
    seconds = options["timeout_seconds"] or None
    deliverer = Deliverer(mail_store, [agent], command=command, receiver=agent, timeout_seconds=seconds)
    refusals: list[InvalidInput] = []

    def deliver_mail() -> None:
        try:
            deliverer.run(until_empty=args.until_empty)
        except InvalidInput as refusal:  # the command cannot be run: raised in the main thread
            refusals.append(refusal)
            worker.stop()

    mail = Thread(target=deliver_mail)
    mail.start()
    try:
        outcome = _run_worker(args, worker)
    finally:
        deliverer.stop()
        mail.join()
        mail_store.close()
    if refusals:
        raise refusals[0]
    return outcome


def _print_mail(step: str, text: str) -> None:
    from postroom.cli.framework.terminal import colour_text, one_line

    write_all(1, f"{colour_text('bold', f'{step:8}')} mail  {one_line(text)}\n")


def _find_workspace(store: Store, agent: str) -> Workspace:
    """Return the workspace of an agent. This folder becomes it if there is none."""
    from postroom.people.access import workspaces

    found = workspaces.find_by_agent(store, agent)
    if found is not None:
        return found
    label = os.path.basename(os.path.realpath(os.getcwd()))
    return workspaces.add_workspace(store, os.getcwd(), label=label, agent=agent).workspace


def _make_server(store: Store, workspace: Workspace) -> ServerCommand:
    """Return the MCP server that each session of the program gets."""
    from postroom.cli.inbox.harness.connect import find_command
    from postroom.cli.inbox.residents.session_plan import ServerCommand
    from postroom.processes.interpreter import store_environment

    return ServerCommand(find_command(), ["mcp", "--workspace", workspace.workspace_id], store_environment(store.location))


def _lock_agent(location: str, agent: str) -> int:
    """Return a descriptor with the lock of an agent: one resident of it runs at a time. The lock ends with the process."""
    from postroom.cli.inbox.harness.sessions import state_root
    from postroom.core.errors import Conflict
    from postroom.core.text import sha1_hex
    from postroom.store.files.private_files import make_private_folder

    folder = os.path.join(state_root(), "residents")
    make_private_folder(folder)
    place = location if "://" in location else os.path.realpath(location)
    path = os.path.join(folder, sha1_hex(f"{place}\0{agent}")[:20])
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Conflict(f"{agent} runs already on this machine", hint="Stop that `inbox agent run` first, or choose another name.") from None
    return descriptor
