"""Text views of the answers of `channel …`."""

from __future__ import annotations

from postroom.cli.framework.terminal import colour_text, one_line, render_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]


def _render_added(data: Data) -> str:
    channel = data["channel"]
    secret = f"Its secret was written to {one_line(data['secret_file'])}. Give it to the receiver.\n" if data.get("secret_file") else ""
    return f"Added {_render_facts(channel)}{secret}Try it: inbox channel test {channel['channel_id']}\n"


def _render_list(data: Data) -> str:
    if not data["channels"]:
        return "No channels. Add one with `inbox channel add`.\n"
    rows = [(one["channel_id"], one["person"], one["kind"], one["sends"], one["quiet"] or "-", one["target"]) for one in data["channels"]]
    return render_table(("CHANNEL", "PERSON", "KIND", "SENDS", "QUIET", "TARGET"), rows)


def _render_channel(data: Data) -> str:
    return _render_facts(data["channel"])


def _render_facts(channel: Data) -> str:
    where = f"{channel['kind']} of {one_line(channel['person'])}: {one_line(channel['target'])}"
    head = f"{colour_text('bold', channel['channel_id'])}  {where}\n"
    quiet = f", quiet {channel['quiet']}" if channel["quiet"] else ""
    when = f", daily at {channel['digest_at']}" if channel["sends"] == "digest" else f", after {channel['delay_seconds']:g} s"
    zone = f" ({channel['time_zone']})" if quiet or channel["sends"] == "digest" else ""
    options = "".join(f"  {name}: {one_line(str(value))}\n" for name, value in channel["options"].items())
    link = f"  links to {channel['url']}\n" if channel["url"] else ""
    return f"{head}  sends {channel['sends']}{when}{quiet}{zone}\n  mailbox {channel['mailbox']}\n{link}{options}"


def _render_removed(data: Data) -> str:
    return f"Removed {data['channel']['channel_id']}. Links that it sent still work: `inbox pass list` shows them.\n"


def _render_tested(data: Data) -> str:
    return f"Sent {data['alert_id']} by {data['channel_id']}.\n"


def _render_sent(data: Data) -> str:
    return f"{data['acked']} done, {data['nacked']} not accepted, {data['lost']} taken by another sender.\n"


def _render_received(data: Data) -> str:
    if not data["answered"]:
        return f"Ignored: {data['reason']}.\n"
    return f"Answered {data['question_id']} as {one_line(data['person'])}: {one_line(data['answer'])}\n"


VIEWS: dict[str, Callable[[Data], str]] = {
    "channel added": _render_added,
    "channel list": _render_list,
    "channel shown": _render_channel,
    "channel removed": _render_removed,
    "channel tested": _render_tested,
    "channel sent": _render_sent,
    "channel received": _render_received,
}
