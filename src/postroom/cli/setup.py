"""The faces of setting up: init, agent, skill, completion, version, help."""

from __future__ import annotations

import os

from postroom.cli import inputs
from postroom.cli.envelope import Outcome, write
from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments

SKILL = os.path.join(os.path.dirname(os.path.dirname(__file__)), "skill", "SKILL.md")


def init(args: Arguments) -> Outcome:
    from postroom.store import init_store
    from postroom.store.location import for_init

    place = for_init(args.db)
    created = init_store(place)
    return Outcome({"db": os.path.realpath(place), "created": created}, human="initialised")


def agent_add(args: Arguments) -> Outcome:
    from postroom.work.agents import add_agent

    store = inputs.store(args)
    added = add_agent(store, args.words[0], **inputs.given(args, "kind"))
    if added.kind == "human":
        from postroom.people.folding import welcome

        welcome(store, added.name)  # what was asked of them before anybody knew who they are
    return Outcome({"agent": added.plain()}, human="agent")


def agent_token(args: Arguments) -> Outcome:
    from postroom.people.passes import issue_agent_token, revoke_agent_token

    store, name = inputs.store(args), args.words[0]
    if args.revoke:
        return Outcome({"name": name, "revoked": revoke_agent_token(store, name=name)}, human="people token revoked")
    return Outcome({"name": name, "token": issue_agent_token(store, name=name)}, human="people token")


def agent_list(args: Arguments) -> Outcome:
    from postroom.work.agents import list_agents

    return Outcome({"agents": [agent.plain() for agent in list_agents(inputs.store(args))]}, human="agents")


def agent_show(args: Arguments) -> Outcome:
    from postroom.work.agents import show_agent

    return Outcome(show_agent(inputs.store(args), args.words[0]).plain(), human="agent")


def copy(args: Arguments) -> Outcome:
    from postroom.store import init_store, is_elsewhere, open_store
    from postroom.store.copying import copy as verb

    source, target = args.values["from"], args.to
    if not source or not target:
        raise InvalidInput("'from' and 'to' are needed", field="from", hint="For example: --from .agents/coord.db --to postgresql://…")
    if is_elsewhere(source) or is_elsewhere(target):
        raise InvalidInput("a whole store is copied where it is", field="from", hint="Run it on the server's machine, with its path.")
    opened = open_store(source, door="cli")
    init_store(target)
    counts = verb(opened, open_store(target, door="cli"), tell=_progress)
    rows = "".join(f"{count:8}  {table}\n" for table, count in counts.items())
    return Outcome({"copied": counts, "text": f"{rows}Every count agrees.\n"}, human="text")


def _progress(table: str, rows: int, total: int) -> None:
    write(2, f"{table}: {rows} of {total}\n")


def skill(args: Arguments) -> Outcome:
    with open(SKILL, encoding="utf-8") as file:
        text = file.read()
    if args.install is None:
        return Outcome({"text": text}, human="text")
    place = _skill_place(args.install)
    _write_skill(place, text, force=args.force)
    return Outcome({"text": f"Wrote {place}\n", "path": place}, human="text")


def _skill_place(folder: str) -> str:
    """A skill lives in a folder of its own name."""
    own = os.path.basename(os.path.normpath(folder)) == "inbox"
    return os.path.join(folder, "SKILL.md") if own else os.path.join(folder, "inbox", "SKILL.md")


def _write_skill(place: str, text: str, *, force: bool) -> None:
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.exists(place) and not force:
            with open(place, encoding="utf-8", errors="replace") as file:
                found = file.read()
            if found != text:
                raise InvalidInput(f"{place} differs from this version's skill", field="install", hint="Pass --force to replace it.")
        with open(place + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(place + ".new", place)
    except OSError as error:
        raise InvalidInput(
            f"{place} cannot be written: {error.strerror}", field="install", hint="Choose a folder that you can write."
        ) from None


def completion(args: Arguments) -> Outcome:
    from postroom.cli.completion import script

    return Outcome({"text": script(args.program, args.words[0])}, human="text")


def version(args: Arguments) -> Outcome:
    from postroom import __version__

    return Outcome({"version": __version__, "text": f"postroom {__version__}\n"}, human="text")


def help_(args: Arguments) -> Outcome:
    from postroom.cli.manual import page

    return Outcome({"text": page(args.program, "help", args.words)}, human="text")
