"""Bad input to `mailbox`: each a refusal that names the field; nothing is changed, nothing is written elsewhere, never a traceback."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.mailbox_process import LONG, PAYLOAD, SENDER, SESSION, Mailbox

FROM_TO = ("--from", SENDER, "--to", SESSION)
ENQUEUE = ("enqueue", *FROM_TO, "--payload", PAYLOAD)
HUGE = "1" + "0" * 400
NO_NAMES = ["", " ", " outer ", "two\nlines", "tab\there", "\x1b[31mred", "\u202eright", "x" * 201, "x" * 10_000]
ODD_NAMES = ["../x", "../../../../tmp/x", "/etc/passwd", "..", "a/b", "x'; DROP TABLE threads; --", "漢字 ☃", "-", "$(touch x)", "%s", "~"]


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Mailbox]:
    with Mailbox(tmp_path) as made:
        yield made


@pytest.fixture
def mailbox(bare: Mailbox) -> Mailbox:
    bare.found()
    return bare


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `one` in flight, `two` behind it, a dead letter, and an alias, to be copied."""
    mailbox = Mailbox(tmp_path_factory.mktemp("template"))
    mailbox.found()
    mailbox.dead()
    mailbox.set_policy(inflight_timeout_secs=LONG)
    mailbox.enqueue(PAYLOAD, "--msg-id", "one")
    mailbox.enqueue(PAYLOAD, "--msg-id", "two")
    mailbox.dequeue()
    mailbox.answers("alias", "boss", SESSION)
    return mailbox.db.parent


@pytest.fixture
def held(template: Path, bare: Mailbox) -> Mailbox:
    shutil.copytree(template, bare.db.parent)
    return bare


def _refused(mailbox: Mailbox, *argv: str | bytes, stdin: bytes = b"", **environment: str) -> dict[str, Any]:
    """A refusal that changed nothing."""
    with mailbox.unchanged():
        return mailbox.refusal(*argv, stdin=stdin, **environment)


def _invalid(error: dict[str, Any], field: str) -> None:
    """A malformed or missing value, named by its flag or by its field, and something to do about it."""
    assert (error["exit"], error["code"]) == (30, "invalid_input"), error
    assert error["field"].replace("-", "_") == field, error
    assert "hint" in error, error


# what is missing


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (("enqueue", "--to", SESSION, "--payload", "x"), "from"),
        (("enqueue", "--from", SENDER, "--payload", "x"), "to"),
        (("enqueue", *FROM_TO), "payload"),
        (("ack", "--session", SESSION), "msg_id"),
        (("nack", "--session", SESSION), "msg_id"),
        (("extend", "--session", SESSION), "msg_id"),
        (("show",), "msg_id"),
        (("deliver", "--session", SESSION, "--once"), "command"),
        (("deliver", "--session", SESSION, "--once", "--command", " "), "command"),
        (("deliver", "--command", "true", "--once"), "session"),
        (("alias", "--remove"), "name"),
    ],
)
def test_what_is_missing_is_named(held: Mailbox, argv: tuple[str, ...], field: str) -> None:
    error = _refused(held, *argv)
    _invalid(error, field)
    assert error["hint"]


@pytest.mark.parametrize(
    "argv",
    [
        ("dequeue",),
        ("wait", "--timeout-seconds", "0.05"),
        ("ack", "--msg-id", "one"),
        ("nack", "--msg-id", "one"),
        ("extend", "--msg-id", "one"),
        ("peek",),
        ("purge",),
        ("peek-dead-letter",),
        ("purge-dead-letter",),
        ("retry-dead-letter",),
        ("policy",),
    ],
    ids=lambda argv: argv[0],
)
def test_a_mailbox_has_to_be_named(held: Mailbox, argv: tuple[str, ...]) -> None:
    with held.unchanged():
        for error in (held.refusal(*argv), held.refusal(*argv, MAILBOX_SESSION="")):
            _invalid(error, "session")
            assert "--session" in error["hint"]


@pytest.mark.parametrize("verb", ["dequeue", "peek", "purge", "policy", "retry-dead-letter"])
def test_an_empty_name_is_refused_and_not_taken_for_the_default(held: Mailbox, verb: str) -> None:
    """As in `mailbox purge --session "$UNSET"`."""
    _invalid(_refused(held, verb, "--session", "", MAILBOX_SESSION=SESSION), "session")


# what contradicts itself


@pytest.mark.parametrize(
    "argv",
    [
        (*ENQUEUE, "--payload-file", "-"),
        (*ENQUEUE, "--message-file", "-"),
        ("enqueue", "--message-file", "-", "--from", SENDER),
        ("enqueue", "--message-file", "-", "--to", SESSION),
        ("enqueue", "--message-file", "-", "--msg-id", "three"),
        ("enqueue", "--message-file", "-", "--created-at", "5"),
        ("enqueue", "--message-file", "-", "--payload-file", "payload.txt"),
        ("deliver", "--session", SESSION, "--command", "true", "--once", "--until-empty"),
        ("alias", "chief", SESSION, "--remove"),
        ("dequeue", "--session", SESSION, "--session", "other"),
        ("ack", "--session", SESSION, "--msg-id", "one", "--msg-id", "two"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(held: Mailbox, argv: tuple[str, ...]) -> None:
    message = json.dumps({"msg_id": "three", "from": SENDER, "to": SESSION, "payload": "x"}).encode()
    error = _refused(held, *argv, stdin=message)
    assert (error["exit"], error["code"]) == (30, "invalid_input")


@pytest.mark.parametrize(
    "argv",
    [
        ("enqueue", "--zzz"),
        ("enqueue", *FROM_TO, "--payload"),
        ("enqueue", *FROM_TO, "--payload", "--msg-id", "three"),
        ("peek", "--session", SESSION, "surplus"),
        ("dequeue", "--session", SESSION, "--json=yes"),
        ("alias", "a", "b", "c"),
        ("deliver", "--session", SESSION, "--command", "true", "--once=1"),
        (b"caf\xe9",),
        ("peek", b"--caf\xe9"),
        ("peek", "--session", b"caf\xe9"),
        ("enqueue", *FROM_TO, "--payload", b"caf\xe9"),
        ("nack", "--session", SESSION, "--msg-id", "one", "--reason", b"caf\xe9"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_refused(held: Mailbox, argv: tuple[str | bytes, ...]) -> None:
    error = _refused(held, *argv)
    assert (error["exit"], error["code"]) == (30, "invalid_input")


# names


@pytest.mark.parametrize("name", NO_NAMES, ids=range(len(NO_NAMES)))
def test_a_name_that_could_mislead_is_refused(held: Mailbox, name: str) -> None:
    with held.unchanged():
        _invalid(held.refusal("enqueue", f"--from={name}", "--to", SESSION, "--payload", "x"), "from")
        _invalid(held.refusal("enqueue", "--from", SENDER, f"--to={name}", "--payload", "x"), "to")
        _invalid(held.refusal("peek", f"--session={name}"), "session")
        _invalid(held.refusal("dequeue", f"--session={name}"), "session")
        _invalid(held.refusal("policy", f"--session={name}", "--max-retries", "1"), "session")
        _invalid(held.refusal("deliver", f"--session={name}", "--command", "true", "--once"), "session")
        assert held.refusal("alias", name, SESSION)["exit"] == 30
        assert held.refusal("alias", "chief", name)["exit"] == 30


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_looks_like_a_path_or_a_statement_is_a_name(mailbox: Mailbox, name: str) -> None:
    before = mailbox.outside()
    identity = mailbox.enqueue("x", f"--msg-id={name}", sender=name, to=name)
    assert identity == name
    taken = mailbox.answers("dequeue", f"--session={name}", f"--receiver={name}")["message"]
    assert (taken["from"], taken["to"], taken["msg_id"]) == (name, name, name)
    mailbox.answers("nack", f"--session={name}", f"--msg-id={name}", f"--reason={name}")
    mailbox.answers("policy", f"--session={name}", "--max-retries", "1")
    assert [counts["session"] for counts in mailbox.answers("sessions")["sessions"]] == [name]
    mailbox.answers("deliver", f"--session={name}", "--command", "cat", "--once")
    mailbox.answers("purge", f"--session={name}")
    assert mailbox.outside() == before
    assert {file.name.split(".")[0] for file in mailbox.db.parent.iterdir()} == {"coord"}


@pytest.mark.parametrize("identity", ["", " ", "two\nlines", "\x1b[31m", "x" * 401, "\u202ex"])
def test_an_id_that_could_mislead_is_refused(held: Mailbox, identity: str) -> None:
    _invalid(_refused(held, *ENQUEUE, f"--msg-id={identity}"), "msg_id")


def test_an_alias_of_an_alias_or_of_itself_is_refused(held: Mailbox) -> None:
    with held.unchanged():
        for words in (("chief", "boss"), ("chief", "chief")):
            assert held.refusal("alias", *words)["exit"] == 30, words


def test_an_alias_of_an_alias_is_refused_from_the_other_end_too(held: Mailbox) -> None:
    assert _refused(held, "alias", SESSION, "other")["exit"] == 30, "boss would be an alias of an alias"


# numbers


@pytest.mark.parametrize("moment", ["-1", "1.5", "x", "", "nan", "true", str(2**64), HUGE])
def test_a_time_that_is_no_unix_second_is_refused(held: Mailbox, moment: str) -> None:
    _invalid(_refused(held, *ENQUEUE, f"--created-at={moment}"), "created_at")


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        ("base-backoff-secs", ("-1", "-0.001", "nan", "inf", "1e300", "100000000", HUGE)),
        ("max-retries", ("-1", "1.5", "1001", HUGE)),
        ("inflight-timeout-secs", ("-1", "0", "nan", "inf", "100000000", HUGE)),
        ("ttl-secs", ("-1", "-0.001", "nan", "inf", "100000000", HUGE)),
    ],
)
def test_a_policy_that_cannot_be_is_refused(held: Mailbox, flag: str, values: tuple[str, ...]) -> None:
    with held.unchanged():
        for value in values:
            _invalid(held.refusal("policy", "--session", SESSION, f"--{flag}={value}"), flag.replace("-", "_"))


def test_a_policy_is_changed_whole_or_not_at_all(held: Mailbox) -> None:
    _invalid(_refused(held, "policy", "--session", SESSION, "--base-backoff-secs", "1", "--max-retries", "-1"), "max_retries")


@pytest.mark.parametrize(
    ("argv", "flag", "values"),
    [
        (("wait", "--session", "nobody"), "timeout-seconds", ("-1", "nan", "inf", HUGE)),
        (("extend", "--session", SESSION, "--msg-id", "one"), "seconds", ("-1", "0", "nan", "inf", "100000000", HUGE)),
        (("peek", "--session", SESSION), "limit", ("-1", "0", "1.5", HUGE)),
        (("peek-dead-letter", "--session", SESSION), "limit", ("-1", "0", "x")),
        (("sessions",), "limit", ("-1", "0", "x")),
        (("sweep",), "keep-days", ("-1", "nan", "inf", HUGE)),
    ],
)
def test_a_number_out_of_range_is_refused(held: Mailbox, argv: tuple[str, ...], flag: str, values: tuple[str, ...]) -> None:
    with held.unchanged():
        for value in values:
            _invalid(held.refusal(*argv, f"--{flag}={value}"), flag.replace("-", "_"))


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (("policy", "--session", SESSION), "--base-backoff-secs"),
        (("policy", "--session", SESSION), "--max-retries"),
        (("policy", "--session", SESSION), "--inflight-timeout-secs"),
        (("policy", "--session", SESSION), "--ttl-secs"),
        (ENQUEUE, "--created-at"),
        (("wait", "--session", "nobody"), "--timeout-seconds"),
        (("extend", "--session", SESSION, "--msg-id", "one"), "--seconds"),
        (("peek", "--session", SESSION), "--limit"),
        (("sweep",), "--keep-days"),
    ],
)
def test_a_wrong_value_is_named_by_its_field_in_one_way(held: Mailbox, argv: tuple[str, ...], flag: str) -> None:
    fields = {held.refusal(*argv, f"{flag}={value}")["field"] for value in ("x", "-1")}
    assert len(fields) == 1, fields


# payloads and whole messages


def test_a_payload_over_ten_mebibytes_is_refused(held: Mailbox) -> None:
    big = b"x" * (10 * 1024 * 1024 + 1)
    _invalid(_refused(held, "enqueue", *FROM_TO, "--payload-file", "-", stdin=big), "payload_file")


def test_reading_stops_at_the_bound(held: Mailbox) -> None:
    endless = held.run("enqueue", *FROM_TO, "--payload-file", "/dev/zero")
    assert (endless.code, "10 MiB" in endless.stderr) == (30, True)


def test_a_word_without_a_flag_names_the_message(held: Mailbox) -> None:
    told = held.run("ack", "m1", "--session", "analyst", "--msg-id", "m2")
    assert (told.code, "--msg-id" in told.stderr) == (30, True)
    unknown = held.run("ack", "m1", "--session", "analyst")
    assert (unknown.code, "no message m1" in unknown.stderr) == (40, True)


def test_a_batch_of_nothing_and_a_byte_order_mark_are_taken_for_what_they_are(held: Mailbox) -> None:
    assert held.run("enqueue", "--batch", "-", stdin=b"\n").stdout == "The batch has no message; nothing was stored.\n"
    marked = b'\xef\xbb\xbf{"from": "a", "to": "marked", "payload": "x"}'
    assert held.run("enqueue", "--batch", "-", stdin=marked).stdout == "Stored 1 of 1.\n"
    assert held.run("enqueue", "--message-file", "-", stdin=marked).code == 0


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\xed\xa0\x80"])
def test_a_payload_that_is_no_text_is_refused(held: Mailbox, content: bytes) -> None:
    error = _refused(held, "enqueue", *FROM_TO, "--payload-file", "-", stdin=content)
    assert (error["exit"], error["code"]) == (30, "invalid_input")
    assert error["field"].replace("-", "_") in ("payload", "payload_file")


@pytest.mark.parametrize("flag", ["--payload-file", "--message-file"])
@pytest.mark.parametrize("path", ["missing.txt", ".", ""])
def test_a_file_that_cannot_be_read_is_refused(held: Mailbox, flag: str, path: str) -> None:
    argv = ("enqueue", f"{flag}={path}") if flag == "--message-file" else ("enqueue", *FROM_TO, f"{flag}={path}")
    error = _refused(held, *argv)
    assert (error["exit"], error["code"]) == (30, "invalid_input")
    assert error["field"].replace("-", "_") == flag[2:].replace("-", "_")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"nonsense", b"{'a': 1}", b'{"a": NaN}', b'{"a": 1} x', b"{" * 100_000, b"[" * 100_000, b'{"a": "\n"}', b"\xff\xfe"],
)
def test_a_message_that_is_no_json_is_refused(held: Mailbox, content: bytes) -> None:
    error = _refused(held, "enqueue", "--message-file", "-", stdin=content)
    assert (error["exit"], error["code"]) == (30, "invalid_input")
    assert error["field"].replace("-", "_") in ("message", "message_file")


@pytest.mark.parametrize("content", [b"[]", b"1", b'"text"', b"null", b"true", b'[{"from": "a", "to": "b", "payload": "c"}]'])
def test_a_message_that_is_no_object_is_refused(held: Mailbox, content: bytes) -> None:
    error = _refused(held, "enqueue", "--message-file", "-", stdin=content)
    assert (error["exit"], error["code"]) == (30, "invalid_input")
    assert error["field"].replace("-", "_") in ("message", "message_file")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"from": None}, "from"),
        ({"from": 7}, "from"),
        ({"from": ["a"]}, "from"),
        ({"to": None}, "to"),
        ({"to": {"a": 1}}, "to"),
        ({"to": "two\nlines"}, "to"),
        ({"payload": None}, "payload"),
        ({"payload": 1}, "payload"),
        ({"payload": {"a": 1}}, "payload"),
        ({"payload": ["a"]}, "payload"),
        ({"payload": "\ud800"}, "payload"),
        ({"msg_id": 7}, "msg_id"),
        ({"msg_id": ""}, "msg_id"),
        ({"msg_id": "a\nb"}, "msg_id"),
        ({"msgId": "other"}, "msg_id"),
        ({"createdAt": 6}, "created_at"),
        ({"protocol_version": "1.0", "protocolVersion": "2.0"}, "protocol_version"),
        ({"created_at": True}, "created_at"),
        ({"created_at": "5"}, "created_at"),
        ({"created_at": 1.5}, "created_at"),
        ({"created_at": -1}, "created_at"),
        ({"created_at": 1e300}, "created_at"),
        ({"created_at": 2**64}, "created_at"),
        ({"attempt": -1}, "attempt"),
        ({"attempt": "0"}, "attempt"),
        ({"attempt": 1.5}, "attempt"),
    ],
    ids=json.dumps,
)
def test_a_message_with_a_wrong_field_is_refused(held: Mailbox, wrong: dict[str, object], field: str) -> None:
    message = {"msg_id": "three", "from": SENDER, "to": SESSION, "payload": PAYLOAD, "created_at": 5, "attempt": 0, **wrong}
    error = _refused(held, "enqueue", "--message-file", "-", stdin=json.dumps(message).encode())
    _invalid(error, field)


@pytest.mark.parametrize("field", ["from", "to", "payload"])
def test_a_message_without_a_required_field_is_refused(held: Mailbox, field: str) -> None:
    message = {"from": SENDER, "to": SESSION, "payload": PAYLOAD}
    del message[field]
    _invalid(_refused(held, "enqueue", "--message-file", "-", stdin=json.dumps(message).encode()), field)


@pytest.mark.parametrize("spelling", ["protocol_version", "protocolVersion"])
def test_the_version_of_the_protocol_is_one_field_in_two_spellings(mailbox: Mailbox, spelling: str) -> None:
    message = {"from": SENDER, "to": SESSION, "payload": PAYLOAD, spelling: "1.0"}
    mailbox.answers("enqueue", "--message-file", "-", stdin=json.dumps(message).encode())
    assert mailbox.dequeue()["message"].get("protocol_version") == "1.0"


def test_unknown_fields_of_more_than_64_kib_are_refused(held: Mailbox) -> None:
    message = {"from": SENDER, "to": SESSION, "payload": PAYLOAD, "extra": "x" * 65_536}
    error = _refused(held, "enqueue", "--message-file", "-", stdin=json.dumps(message).encode())
    assert (error["exit"], error["code"]) == (30, "invalid_input")


# what is not there


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_an_id_that_nobody_saw_here_is_not_found(held: Mailbox, verb: str) -> None:
    with held.unchanged():
        for session, identity in ((SESSION, "never seen"), ("other", "one")):
            error = held.refusal(verb, "--session", session, "--msg-id", identity)
            assert (error["exit"], error["code"]) == (40, "not_found")
    assert held.answers(*ENQUEUE, "--msg-id", "never seen")["queued"] is True


def test_show_of_an_id_that_nobody_saw_is_not_found(held: Mailbox) -> None:
    error = _refused(held, "show", "--msg-id", "never seen")
    assert (error["exit"], error["code"]) == (40, "not_found")
    assert "never seen" in error["message"]


@pytest.mark.parametrize("verb", ["purge-dead-letter", "retry-dead-letter"])
def test_what_is_no_dead_letter_is_refused(held: Mailbox, verb: str) -> None:
    with held.unchanged():
        assert held.refusal(verb, "--session", SESSION, "--msg-id", "never seen")["exit"] == 40
        assert held.refusal(verb, "--session", SESSION, "--msg-id", "one")["exit"] == 30


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_only_what_is_in_flight_is_acked_nacked_or_extended(mailbox: Mailbox, verb: str) -> None:
    identity = mailbox.enqueue()
    flags = ("--session", SESSION, "--msg-id", identity)
    error = _refused(mailbox, verb, *flags)
    assert (error["exit"], error["code"], error["state"]) == (30, "invalid_state", "pending")
    mailbox.dequeue()
    mailbox.set_policy(base_backoff_secs=LONG)
    mailbox.answers("nack", *flags)
    error = _refused(mailbox, verb, *flags)
    assert (error["exit"], error["code"], error["state"]) == (30, "invalid_state", "nacked")
    mailbox.answers("purge", "--session", SESSION)
    error = _refused(mailbox, verb, *flags)
    assert (error["exit"], error["code"]) == (30, "invalid_state")


EVERY = [
    ENQUEUE,
    ("dequeue", "--session", SESSION),
    ("wait", "--session", SESSION, "--timeout-seconds", "0.05"),
    ("ack", "--session", SESSION, "--msg-id", "one"),
    ("peek", "--session", SESSION),
    ("peek-dead-letter", "--session", SESSION),
    ("purge", "--session", SESSION),
    ("show", "--msg-id", "one"),
    ("sessions",),
    ("policy", "--session", SESSION),
    ("alias",),
    ("sweep",),
    ("deliver", "--session", SESSION, "--command", "touch ran", "--once"),
]


@pytest.mark.parametrize("argv", EVERY, ids=lambda argv: argv[0])
def test_a_store_that_is_not_there_is_said_so_and_not_made(bare: Mailbox, argv: tuple[str, ...]) -> None:
    for where in ((), ("--db", "nowhere/coord.db")):
        error = bare.refusal(*argv, *where)
        assert (error["exit"], error["code"]) == (40, "no_store")
        assert "init" in error["hint"]
    assert list(bare.folder.iterdir()) == []


@pytest.mark.parametrize("argv", EVERY, ids=lambda argv: argv[0])
def test_a_file_that_is_no_store_is_refused_and_kept(bare: Mailbox, argv: tuple[str, ...]) -> None:
    place = bare.folder / "notes.txt"
    place.write_text("this is a text file, and long enough to be looked at. " * 40)
    before = place.read_bytes()
    error = bare.refusal(*argv, "--db", "notes.txt")
    assert (error["exit"], error["code"]) == (50, "not_a_store")
    assert error["hint"]
    assert place.read_bytes() == before
    assert [file.name for file in bare.folder.iterdir()] == ["notes.txt"]


def test_somebody_elses_database_is_refused_and_kept(bare: Mailbox) -> None:
    place = bare.folder / "theirs.db"
    theirs = sqlite3.connect(place)
    theirs.execute("CREATE TABLE threads (theirs)")
    theirs.close()
    before = place.read_bytes()
    for argv in (*EVERY, ("init",)):
        error = bare.refusal(*argv, "--db", "theirs.db")
        assert (error["exit"], error["code"]) == (50, "not_a_store")
    assert place.read_bytes() == before
