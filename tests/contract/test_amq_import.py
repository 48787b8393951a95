"""Folders of AMQ, made by hand as its documentation describes them, become mail: each message once, and no bad file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from postroom import mail
from postroom.core.errors import InvalidInput
from postroom.core.records.mail import MailMessage
from postroom.maintenance.amq_import import import_amq
from postroom.store.interface import Store

HEADER = {
    "schema": 1,
    "from": "claude",
    "to": ["codex"],
    "thread": "p2p/claude__codex",
    "subject": "Review needed",
    "created": "2026-01-05T10:00:00.123456789Z",
    "refs": ["m0"],
    "priority": "urgent",
    "kind": "review_request",
    "labels": ["parser"],
    "context": {"paths": ["send.go"]},
}


def deliver(root: Path, message_id: str, *, to: str = "codex", folder: str = "new", body: str = "Please look.\n", **fields: Any) -> Path:
    """Put a message into the inbox of an agent, as AMQ does."""
    inbox = root / "agents" / to / "inbox"
    for name in ("tmp", "new", "cur"):
        (inbox / name).mkdir(parents=True, exist_ok=True)
    header = {**HEADER, "id": message_id, "to": [to], **fields}
    path = inbox / folder / f"{message_id}.md"
    path.write_text(f"---json\n{json.dumps(header, indent=2)}\n---\n{body}")
    return path


def received(store: Store, session: str) -> MailMessage:
    delivery = mail.dequeue(store, session)
    assert delivery is not None
    return delivery.message


def test_an_unread_message_becomes_mail_with_everything_that_it_says(store: Store, tmp_path: Path) -> None:
    deliver(tmp_path, "m1", body="First line\n---\nafter a rule\n")
    result = import_amq(store, str(tmp_path))
    assert (result.messages, result.known, result.read) == (1, 0, 0)
    message = received(store, "codex")
    assert (message.msg_id, message.sender, message.to) == ("m1", "claude", "codex")
    assert message.payload == "First line\n---\nafter a rule\n"
    assert message.created_at == 1_767_607_200
    kept = json.loads(message.extra_json)
    assert kept == {name: HEADER[name] for name in ("thread", "subject", "refs", "priority", "kind", "labels", "context")}


def test_an_import_can_be_repeated_also_after_the_message_was_acked(store: Store, tmp_path: Path) -> None:
    deliver(tmp_path, "m1")
    import_amq(store, str(tmp_path))
    delivery = mail.dequeue(store, "codex")
    assert delivery is not None
    mail.ack(store, "codex", "m1", delivery_token=delivery.delivery_token)
    deliver(tmp_path, "m2")
    result = import_amq(store, str(tmp_path))
    assert (result.messages, result.known) == (1, 1)
    assert received(store, "codex").msg_id == "m2"


def test_read_messages_and_unfinished_files_are_left_out_unless_asked_for(store: Store, tmp_path: Path) -> None:
    deliver(tmp_path, "m1", folder="cur")
    deliver(tmp_path, "m2")
    deliver(tmp_path, "m3", folder="tmp")
    first = import_amq(store, str(tmp_path))
    assert (first.messages, first.read) == (1, 1)
    second = import_amq(store, str(tmp_path), include_read=True)
    assert (second.messages, second.known, second.read) == (1, 1, 0)
    assert mail.peek(store, "codex").total == 2


def test_a_message_to_several_agents_is_delivered_to_each(store: Store, tmp_path: Path) -> None:
    for agent in ("codex", "grok"):
        deliver(tmp_path, "m1", to=agent).write_text(f"---json\n{json.dumps({**HEADER, 'id': 'm1', 'to': ['codex', 'grok']})}\n---\nAll")
    assert import_amq(store, str(tmp_path)).messages == 2
    assert import_amq(store, str(tmp_path)).known == 2
    for agent in ("codex", "grok"):
        message = received(store, agent)
        assert (message.msg_id, message.payload) == (f"m1:{agent}", "All")
        assert json.loads(message.extra_json)["recipients"] == ["codex", "grok"]


def test_a_federated_message_of_schema_two_is_known(store: Store, tmp_path: Path) -> None:
    origin = {"project": "my-api", "session": "collab", "agent": "claude", "reply_to": "claude@my-api:collab"}
    deliver(tmp_path, "m1", schema=2, origin=origin, delivery={"scope": "cross-session"})
    assert import_amq(store, str(tmp_path)).messages == 1
    assert json.loads(received(store, "codex").extra_json)["origin"] == origin


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no header",
        "---json\n{}\n",
        "---json\n{}\n---\nbody",
        "---json\n[]\n---\nbody",
        "---json\n{broken\n---\nbody",
        f"---json\n{json.dumps({**HEADER, 'id': 'bad', 'schema': 3})}\n---\nbody",
        f"---json\n{json.dumps({**HEADER, 'id': 'other'})}\n---\nbody",
        f"---json\n{json.dumps({**HEADER, 'id': 'bad', 'from': 7})}\n---\nbody",
        f"---json\n{json.dumps({**HEADER, 'id': 'bad', 'from': ''})}\n---\nbody",
        f"---json\n{json.dumps({**HEADER, 'id': 'bad', 'to': 'codex'})}\n---\nbody",
        f"---json\n{json.dumps({**HEADER, 'id': 'bad', 'created': 'yesterday'})}\n---\nbody",
    ],
)
def test_a_file_that_is_no_message_is_refused_by_name_and_nothing_is_stored(store: Store, tmp_path: Path, content: str) -> None:
    deliver(tmp_path, "a-good-one")
    deliver(tmp_path, "bad").write_text(content)
    with pytest.raises(InvalidInput, match=r"codex/inbox/new/bad\.md is not a message of AMQ"):
        import_amq(store, str(tmp_path))
    assert mail.peek(store, "codex").total == 0


def test_a_file_that_is_not_text_or_a_link_is_refused(store: Store, tmp_path: Path) -> None:
    elsewhere = deliver(tmp_path, "bad", folder="tmp")
    bad = deliver(tmp_path, "bad")
    bad.write_bytes(b"---json\n\xff\n---\n")
    with pytest.raises(InvalidInput, match=r"bad\.md"):
        import_amq(store, str(tmp_path))
    bad.unlink()
    bad.symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match=r"bad\.md"):
        import_amq(store, str(tmp_path))


def test_another_text_under_a_known_id_is_refused_and_the_first_stays(store: Store, tmp_path: Path) -> None:
    path = deliver(tmp_path, "m1")
    import_amq(store, str(tmp_path))
    deliver(tmp_path, "m1", body="Something else")
    with pytest.raises(InvalidInput, match=r"m1\.md was not imported"):
        import_amq(store, str(tmp_path))
    assert path.exists()
    assert received(store, "codex").payload == "Please look.\n"


def test_a_folder_without_agents_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="agents cannot be read"):
        import_amq(store, str(tmp_path))
