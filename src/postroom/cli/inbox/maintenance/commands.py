"""Handlers of the commands `inbox store …`."""

from __future__ import annotations

import os

from postroom.cli.framework.output import Outcome, write_all
from postroom.cli.inbox import inputs
from postroom.core.durations import parse_duration
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr
from postroom.store import is_server_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store

DEFAULT_AGE = "90d"


def handle_prune(args: Arguments) -> Outcome:
    from postroom.maintenance import policy
    from postroom.maintenance.pruning import prune

    store = open_own_store(args)
    if args.by_policy:
        if args.older_than is not None or args.keep_runs is not None or args.dry_run:
            raise InvalidInput("by-policy excludes the other flags", field="by-policy", hint="See `inbox store policy`.")
        result = policy.prune_by_policy(store)
    else:
        age = parse_duration("older-than", DEFAULT_AGE if args.older_than is None else args.older_than)
        result = prune(store, older_than_seconds=age, keep_runs=args.keep_runs or (), dry_run=args.dry_run)
    return Outcome({"pruned": result.to_json()}, view="store pruned", only_reads=args.dry_run)


def handle_policy(args: Arguments) -> Outcome:
    from postroom.maintenance import policy

    store = open_own_store(args)
    if args.off:
        if args.older_than is not None or args.keep_runs is not None:
            raise InvalidInput("off excludes the other flags", field="off", hint="Leave them out.")
        policy.clear_policy(store)
        return Outcome({"policy": None, "timer": None, "timer_removed": policy.remove_timer(store)}, view="store policy", only_reads=False)
    if args.older_than is None:
        if args.keep_runs is not None:
            raise InvalidInput("'older-than' is missing", field="older-than", hint="For example: --older-than 90d")
        shown = policy.read_policy(store)
        return Outcome({"policy": None if shown is None else shown.to_json()}, view="store policy", only_reads=True)
    chosen = policy.set_policy(store, older_than_seconds=parse_duration("older-than", args.older_than), keep_runs=args.keep_runs or ())
    timer = None if args.no_timer or "://" in store.location else policy.add_timer(store)
    return Outcome({"policy": chosen.to_json(), "timer": timer}, view="store policy", only_reads=False)


def handle_compact(args: Arguments) -> Outcome:
    from postroom.store.maintenance.space import compact

    before, after = compact(open_own_store(args))
    return Outcome({"bytes_before": before, "bytes_after": after}, view="store compacted", only_reads=False)


def handle_erase(args: Arguments) -> Outcome:
    from postroom.maintenance.erasing import erase

    chosen = {"thread_id": args.thread, "entry_id": args.entry, "msg_id": args.msg_id}
    named = {name: value for name, value in chosen.items() if value is not None}
    if len(named) != 1:
        hint = "Name one of --thread, --entry and --msg-id."
        raise InvalidInput("exactly one thing can be erased at a time", field="thread", hint=hint)
    result = erase(open_own_store(args), **named)
    return Outcome({"erased": {**named, **result.to_json()}}, view="store erased", only_reads=False)


def handle_backup(args: Arguments) -> Outcome:
    from postroom.maintenance.backups import back_up

    result = back_up(open_own_store(args), args.words[0], with_queues=args.with_queues)
    return Outcome({"backup": result.to_json()}, view="store backup", only_reads=False)


def handle_restore(args: Arguments) -> Outcome:
    from postroom.maintenance.backups import restore
    from postroom.store.location import location_for_init

    location = location_for_init(args.db)
    _refuse_server(location)
    result = restore(args.words[0], location, replace=args.replace, queues_into=args.with_queues)
    return Outcome({"restored": result.to_json()}, view="store restored", only_reads=False)


def handle_export(args: Arguments) -> Outcome:
    from postroom.store.maintenance.exporting import export_lines

    store = open_own_store(args)
    if args.to_file is None:
        for line in export_lines(store):
            write_all(1, line)
        return Outcome(None)
    try:
        file = os.open(args.to_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = "Choose another name."
        raise InvalidInput(f"{args.to_file} cannot be created: {error.strerror}", field="to-file", hint=hint) from None
    with open(file, "w", encoding="utf-8") as output:
        lines = 0
        for line in export_lines(store):
            output.write(line)
            lines += 1
    return Outcome({"file": args.to_file, "rows": lines - 1}, view="store exported", only_reads=False)


def handle_import(args: Arguments) -> Outcome:
    from postroom.maintenance.amq_import import import_amq
    from postroom.maintenance.beads_import import import_beads
    from postroom.store.maintenance.exporting import import_lines

    form = "postroom" if args.format is None else args.format
    if form not in ("postroom", "beads", "amq"):
        raise InvalidInput(f"format cannot be {short_repr(form)}", field="format", hint="Choose postroom, beads or amq.")
    if args.include_read and form != "amq":
        raise InvalidInput("include-read is for the format amq", field="include-read", hint="Leave it out.")
    store = open_own_store(args)
    if form == "amq":
        amq = import_amq(store, args.words[0], include_read=args.include_read)
        return Outcome({"imported": amq.to_json()}, view="store imported", only_reads=False)
    try:
        with open(args.words[0], encoding="utf-8") as lines:
            if form == "beads":
                result = import_beads(store, lines, to="user" if args.to is None else args.to)
                return Outcome({"imported": result.to_json()}, view="store imported", only_reads=False)
            counts = import_lines(store, lines)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{args.words[0]} cannot be read: {reason}", field="file", hint="Check the path.") from None
    return Outcome({"imported": {"rows": sum(counts.values()), "tables": counts}}, view="store imported", only_reads=False)


def open_own_store(args: Arguments) -> Store:
    """Open the store of `--db`. Refuses one behind a server: whoever maintains a store works on its machine."""
    from postroom.store.location import find_location

    _refuse_server(find_location(args.db))
    return inputs.open_store_for(args)


def _refuse_server(location: str) -> None:
    if is_server_url(location):
        hint = "Run the command on the server's machine, with the path or the database of the store."
        raise InvalidInput("a store behind a server is maintained on its own machine", field="db", hint=hint)
