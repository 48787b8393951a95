"""Handlers of `init`, `agent …`, `pass …`, `copy`, `skill`, `completion`, `version` and `help`."""

from __future__ import annotations

import os

import postroom
from postroom.cli.framework.output import Outcome, write_all
from postroom.cli.inbox import inputs
from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments

SKILL_PATH = os.path.join(os.path.dirname(postroom.__file__), "skill", "SKILL.md")


def handle_init(args: Arguments) -> Outcome:
    from postroom.store import init_store, stored_version
    from postroom.store.location import location_for_init, shown_location
    from postroom.store.tables import SCHEMA_VERSION

    location = location_for_init(args.db)
    version = stored_version(location)
    had_tables = not version and os.path.isfile(location) and os.path.getsize(location) > 0  # the document's, or the call refuses
    data = {"db": shown_location(location), "created": init_store(location, shared=args.shared)}
    if had_tables:
        data |= {"created": False, "adopted": True}
    if 0 < version < SCHEMA_VERSION:
        data |= {"upgraded_from": version, "upgraded_to": SCHEMA_VERSION}
    return Outcome(data, view="initialised", only_reads=False)


def handle_agent_add(args: Arguments) -> Outcome:
    from postroom.work.agents import add_agent

    store = inputs.open_store_for(args)
    added = add_agent(store, args.words[0], **inputs.given_options(args, "kind"))
    if added.is_person:
        from postroom.people.questions.question_sync import backfill_person

        backfill_person(store, added.name)  # add the questions that were asked before this person was known
    return Outcome({"agent": added.to_json()}, view="agent")


def handle_agent_token(args: Arguments) -> Outcome:
    from postroom.people.access.passes import issue_agent_token, revoke_agent_token

    store, name = inputs.open_store_for(args), args.words[0]
    if args.revoke:
        return Outcome({"name": name, "revoked": revoke_agent_token(store, name=name)}, view="people token revoked")
    return Outcome({"name": name, "token": issue_agent_token(store, name=name, **inputs.given_options(args, "scope"))}, view="people token")


def handle_pass_list(args: Arguments) -> Outcome:
    from postroom.people.access.passes import list_passes

    page = list_passes(inputs.open_store_for(args), **inputs.given_options(args, "person", "after", "limit"))
    by_name = sorted(page.passes, key=lambda listed: (listed.name, listed.created_at))
    return Outcome({**page.to_json(), "passes": [listed.to_json() for listed in by_name]}, view="people passes")


def handle_pass_revoke(args: Arguments) -> Outcome:
    from postroom.people.access.passes import revoke_passes

    chosen = {"pass_id": args.words[0] if args.words else None, "person": args.person, "everyone": args.all}
    revoked = revoke_passes(inputs.open_store_for(args), **chosen)
    return Outcome({"revoked": [listed.to_json() for listed in revoked]}, view="people passes revoked")


def handle_agent_list(args: Arguments) -> Outcome:
    from postroom.work.agents import list_agents

    return Outcome(list_agents(inputs.open_store_for(args), **inputs.given_options(args, "limit", "after")).to_json(), view="agents")


def handle_agent_show(args: Arguments) -> Outcome:
    from postroom.cli.inbox.harness.probing import probe_routes
    from postroom.work.agents import show_agent

    store = inputs.open_store_for(args)
    shown = show_agent(store, args.words[0]).to_json()
    return Outcome({**shown, "routes": probe_routes(store, args.words[0])}, view="agent")


def handle_copy(args: Arguments) -> Outcome:
    from postroom.store import init_store, is_server_url, open_store
    from postroom.store.copying import copy_store

    source, target = args.values["from"], args.to
    if not source or not target:
        raise InvalidInput("'from' and 'to' are needed", field="from", hint="For example: --from .agents/coord.db --to postgresql://…")
    if is_server_url(source) or is_server_url(target):
        raise InvalidInput(
            "a store behind a server cannot be copied from here",
            field="from",
            hint="Run the command on the server's machine, with the path of the store.",
        )
    source_store = open_store(source, door="cli")
    init_store(target)
    counts = copy_store(source_store, open_store(target, door="cli"), on_progress=_print_progress)
    rows = "".join(f"{count:8}  {table}\n" for table, count in counts.items() if count)
    return Outcome({"copied": counts, "text": f"{rows}Every count agrees.\n"}, view="text", only_reads=False)


def _print_progress(table: str, rows: int, total: int) -> None:
    write_all(2, f"{table}: {rows} of {total}\n")


def handle_skill(args: Arguments) -> Outcome:
    with open(SKILL_PATH, encoding="utf-8") as file:
        text = file.read()
    if args.install is None:
        return Outcome({"text": text}, view="text")
    path = _skill_path(args.install)
    _write_skill(path, text, replace=args.force)
    return Outcome({"text": f"Wrote {path}\n", "path": path}, view="text", only_reads=False)


def _skill_path(folder: str) -> str:
    """Return the path of SKILL.md in a folder named inbox, as agents expect it. Adds that folder if `folder` is another."""
    is_skill_folder = os.path.basename(os.path.normpath(folder)) == "inbox"
    return os.path.join(folder, "SKILL.md") if is_skill_folder else os.path.join(folder, "inbox", "SKILL.md")


def _write_skill(path: str, text: str, *, replace: bool) -> None:
    """Write the skill by renaming a finished file. Refuses to replace a different one without `replace`."""
    from postroom.store.files.private_files import write_private_file

    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and not replace:
            with open(path, encoding="utf-8", errors="replace") as file:
                installed_text = file.read()
            if installed_text != text:
                raise InvalidInput(f"{path} differs from this version's skill", field="install", hint="Pass --replace.")
        write_private_file(path, text, mode=0o644)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}", field="install", hint="Choose a folder that you can write."
        ) from None


def handle_completion(args: Arguments) -> Outcome:
    from postroom.cli.framework.completion import completion_script

    return Outcome({"text": completion_script(args.program, args.words[0])}, view="text")


def handle_version(args: Arguments) -> Outcome:
    return Outcome({"version": postroom.__version__, "text": f"postroom {postroom.__version__}\n"}, view="text")


def handle_help(args: Arguments) -> Outcome:
    from postroom.cli.framework.help import help_page

    return Outcome({"text": help_page(args.program, "help", args.words)}, view="text")
