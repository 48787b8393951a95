"""Text views of the answers of `inbox store …`."""

from __future__ import annotations

from postroom.cli.framework.terminal import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]

_COUNTED = {"threads": "thread", "mail": "message", "tasks": "task", "jobs": "job", "entries": "entr", "queue_events": "queue event"}


def _render_pruned(data: Data) -> str:
    pruned = data["pruned"]
    counted = [_count(pruned[name], word) for name, word in _COUNTED.items() if pruned[name]]
    text = f"{'Would remove' if pruned['dry_run'] else 'Removed'} {', '.join(counted) or 'nothing'}.\n"
    if pruned["returned_bytes"]:
        text += f"{_format_bytes(pruned['returned_bytes'])} were returned to the file system.\n"
    return text + (f"note: {one_line(pruned['note'])}\n" if pruned["note"] else "")


def _count(number: int, word: str) -> str:
    one, many = ("y", "ies") if word == "entr" else ("", "s")
    return f"{number} {word}{one if number == 1 else many}"


def _render_policy(data: Data) -> str:
    policy = data["policy"]
    if policy is None:
        return "Nothing is pruned by itself.\n"
    kept = f", except the threads of {', '.join(map(one_line, policy['keep_runs']))}" if policy["keep_runs"] else ""
    timer = f"The notifier does it every day, by its timer {data['timer']}.\n" if data.get("timer") else ""
    return f"What ended more than {policy['older_than']} ago is removed{kept}.\n{timer}"


def _render_compacted(data: Data) -> str:
    return f"Rewritten: {_format_bytes(data['bytes_before'])} before, {_format_bytes(data['bytes_after'])} now.\n"


def _render_erased(data: Data) -> str:
    erased = data["erased"]
    return f"Erased {_count(erased['rows'], 'row')}, and rewrote the store.\nnote: {erased['note']}\n"


def _render_backup(data: Data) -> str:
    backup = data["backup"]
    queues = f"Copied {_count(len(backup['queues']), 'queue')} into {one_line(backup['file'])}.queues\n" if backup["queues"] else ""
    return f"Wrote and verified {one_line(backup['file'])}, {_format_bytes(backup['size'])}.\n{queues}"


def _render_restored(data: Data) -> str:
    restored = data["restored"]
    kept = f"What it had before is in {one_line(restored['previous'])}\n" if restored["previous"] else ""
    queues = "".join([f"Restored {one_line(folder)}\n" for folder in restored["queues"]])
    return f"Restored {one_line(restored['db'])}\n{queues}{kept}"


def _render_imported(data: Data) -> str:
    imported = data["imported"]
    if "rows" in imported:
        return f"Imported {_count(imported['rows'], 'row')}.\n"
    if "messages" in imported:
        return f"Imported {_count(imported['messages'], 'message')}. Left out: {imported['known']} known, {imported['read']} read.\n"
    return f"Imported {_count(imported['threads'], 'thread')}. Left out: {imported['ended']} closed, {imported['known']} known.\n"


def _format_bytes(number: int) -> str:
    return f"{number / (1 << 20):.1f} MiB"


VIEWS: dict[str, Callable[[Data], str]] = {
    "store pruned": _render_pruned,
    "store policy": _render_policy,
    "store compacted": _render_compacted,
    "store erased": _render_erased,
    "store backup": _render_backup,
    "store restored": _render_restored,
    "store exported": lambda data: f"Wrote {_count(data['rows'], 'row')} to {one_line(data['file'])}\n",
    "store imported": _render_imported,
}
