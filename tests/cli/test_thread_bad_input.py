"""Bad input to `thread`: each a refusal in both forms; nothing is changed, nothing is made elsewhere, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.queue_process import ALICE, WARDEN, QuietQueueCommands

HUGE = "1" + "0" * 400
BEYOND = ("4", "1000000", str(2**63 - 1))  # of a queue of three
SOURCE = ("--source", WARDEN)
MESSAGE = ("push", *SOURCE, "--type", "message")
CONTENT = ("--content", "x")
ZERO = ("--last-event-id", "0")
NO_NAMES = ["", " ", " outer ", "two\nlines", "tab\there", "\x1b[31mred", "\u202eright", "a\u2028b", "x" * 201, "x" * 10_000]
HARMFUL = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"} - {
    "\n"
}
LARGEST = 64 * 1024 * 1024

# Every command that needs a queue, with all that it needs.
EVERY: dict[str, tuple[str, ...]] = {
    "push": (*SOURCE, "--type", "message", *CONTENT),
    "pop": ("--consumer", "all"),
    "ack": ("--consumer", "all", *ZERO),
    "peek": ZERO,
    "follow": ("--timeout-seconds", "30", *ZERO),
    "subscribe": ("--consumer", "new", "--handler", "true"),
    "unsubscribe": ("--consumer", "all"),
    "dispatch": (),
    "info": (),
}
GOOD = {"source": WARDEN, "type": "message", "content": "good"}


@pytest.fixture
def bare(tmp_path: Path) -> QuietQueueCommands:
    return QuietQueueCommands(tmp_path)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuietQueueCommands]:
    """One for all: none of these tests changes anything."""
    with QuietQueueCommands(tmp_path_factory.mktemp("office")) as made:
        made.init()
        made.three()
        yield made


def _refused(commands: QuietQueueCommands, code: int, command: str, *flags: str | bytes, stdin: bytes = b"") -> str:
    """Return the message of a refusal that changed nothing and started no notifier."""
    _, told = commands.teller()
    with commands.unchanged():
        error = commands.refuses(code, "thread", command, "--thread", "queue", *flags, stdin=stdin, **told)
    assert len(error["error"]) < 1000, "a refusal does not echo pages"
    assert not HARMFUL & set(error["error"] + error["suggestion"]), error
    return error["error"] + " " + error["suggestion"]


# paths that are no queue


@pytest.mark.parametrize("command", EVERY)
def test_a_path_that_is_no_queue_is_refused_and_nothing_is_made(bare: QuietQueueCommands, command: str) -> None:
    (bare.folder / "empty").mkdir()
    (bare.folder / "notes.txt").write_text("mine")
    (bare.folder / "dangling").symlink_to("nowhere")
    before = bare.files()
    for place in ("missing", "missing/deeper", "empty", "notes.txt", "notes.txt/below", "dangling", "new\nline"):
        error = bare.refuses(1, "thread", command, "--thread", place, *EVERY[command])
        assert "thread init" in error["suggestion"]
    assert bare.files() == before


def test_a_batch_to_a_path_that_is_no_queue_is_refused_and_nothing_is_made(bare: QuietQueueCommands) -> None:
    bare.refuses(1, "thread", "push", "--thread", "missing", "--batch", stdin=json.dumps(GOOD).encode())
    assert bare.files() == {}


@pytest.mark.parametrize("place", ["notes.txt", "notes.txt/below", "x" * 300, "dangling/x/y"])
def test_init_where_no_folder_can_be_is_refused(bare: QuietQueueCommands, place: str) -> None:
    (bare.folder / "notes.txt").write_text("mine")
    (bare.folder / "dangling").symlink_to("notes.txt")
    before = bare.files()
    bare.refuses(1, "thread", "init", place)
    assert bare.files() == before


@pytest.mark.parametrize("argv", [("init",), ("init", ""), ("init", "a", "b"), ("init", "--thread", "a"), ("init", "-x")])
def test_init_needs_one_path(bare: QuietQueueCommands, argv: tuple[str, ...]) -> None:
    bare.refuses(2, "thread", *argv)
    assert bare.files() == {}


@pytest.mark.parametrize("argv", [("init", b"caf\xe9"), ("peek", *ZERO, "--thread", b"caf\xe9"), ("info", "--thread", "")])
def test_a_path_that_is_no_text_is_refused_and_not_made(bare: QuietQueueCommands, argv: tuple[str | bytes, ...]) -> None:
    finished = bare.thread(*argv)
    assert finished.code in (1, 2)
    assert (finished.stdout, finished.stderr.count("\n")) == ("", 1)
    assert bare.files() == {}


# flags


@pytest.mark.parametrize("command", EVERY)
def test_a_queue_has_to_be_named(commands: QuietQueueCommands, command: str) -> None:
    with commands.unchanged():
        error = commands.refuses(2, "thread", command, *EVERY[command])
    assert "--thread" in error["error"] + error["suggestion"]


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (("push", "--type", "message", *CONTENT), "source"),
        (("push", *SOURCE, *CONTENT), "type"),
        (MESSAGE, "content"),
        (("pop",), "consumer"),
        (("ack", *ZERO), "consumer"),
        (("ack", "--consumer", "all"), "last-event-id"),
        (("peek",), "last-event-id"),
        (("subscribe", "--handler", "true"), "consumer"),
        (("subscribe", "--consumer", "new"), "handler"),
        (("subscribe", "--consumer", "new", "--handler", ""), "handler"),
        (("subscribe", "--consumer", "new", "--handler", " "), "handler"),
        (("unsubscribe",), "consumer"),
    ],
)
def test_what_is_missing_is_named(commands: QuietQueueCommands, argv: tuple[str, ...], flag: str) -> None:
    assert flag in _refused(commands, 2, *argv).replace("_", "-")


@pytest.mark.parametrize(
    "argv",
    [
        (*MESSAGE, *CONTENT, "--content-file", "-"),
        (*MESSAGE, *CONTENT, "--type", "record"),
        (*MESSAGE, *CONTENT, "--zzz"),
        (*MESSAGE, *CONTENT, "surplus"),
        (*MESSAGE, *CONTENT, "--consumer", "all"),
        (*MESSAGE, "--content"),
        (*MESSAGE, *CONTENT, "--json=yes"),
        ("push", "--batch=yes"),
        ("pop", "--consumer", "all", "--consumer", "messages"),
        ("pop", "--consumer", "all", "--filter", "1"),
        ("peek", *ZERO, "--consumer", "all"),
        ("peek", *ZERO, "--last-event-id", "1"),
        ("info", "surplus"),
        ("info", "--limit", "1"),
        ("dispatch", "-x"),
        ("unsubscribe", "--consumer", "all", "--handler", "true"),
    ],
)
def test_a_command_line_that_contradicts_itself_or_says_too_much_is_refused(commands: QuietQueueCommands, argv: tuple[str, ...]) -> None:
    _refused(commands, 2, *argv)


@pytest.mark.parametrize(
    "argv",
    [
        (*MESSAGE, "--content", b"caf\xe9"),
        ("push", *SOURCE, "--type", b"caf\xe9", *CONTENT),
        ("push", "--source", b"internal:dm:default:caf\xe9", "--type", "message", *CONTENT),
        ("push", *SOURCE, "--type", "record", "--subtype", b"caf\xe9", *CONTENT),
        ("subscribe", "--consumer", b"caf\xe9", "--handler", "true"),
        ("subscribe", "--consumer", "new", "--handler", b"caf\xe9"),
        ("peek", "--last-event-id", b"\xff"),
        ("peek", b"--caf\xe9", "x"),
    ],
)
def test_an_argument_that_is_no_text_is_refused(commands: QuietQueueCommands, argv: tuple[str | bytes, ...]) -> None:
    command, *flags = argv
    assert isinstance(command, str)
    _refused(commands, 2, command, *flags)


# types, subtypes, sources


@pytest.mark.parametrize(
    "kind", ["", " ", "Message", "RECORD", "message ", "messages", "toolcall", "event", "x" * 10_000, "a\nb"], ids=range(10)
)
def test_a_type_that_is_neither_message_nor_record_is_refused(commands: QuietQueueCommands, kind: str) -> None:
    said = _refused(commands, 2, "push", *SOURCE, f"--type={kind}", *CONTENT)
    assert "message" in said
    assert "record" in said


def test_a_message_has_no_subtype(commands: QuietQueueCommands) -> None:
    assert "subtype" in _refused(commands, 2, *MESSAGE, *CONTENT, "--subtype", "toolcall")


@pytest.mark.parametrize("subtype", ["", "two\nlines", "\x1b[31m", "\u202ex", "x" * 201])
def test_a_subtype_is_one_printable_line(commands: QuietQueueCommands, subtype: str) -> None:
    assert "subtype" in _refused(commands, 2, "push", "--source", "self", "--type", "record", f"--subtype={subtype}", *CONTENT)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("external::tg-main:dm:alice:alice", "channel_type"),
        ("external:Telegram:tg-main:dm:alice:alice", "channel_type"),
        ("external:telegram:tg main:dm:alice:alice", "channel_id"),
        ("external:telegram:tg/main:dm:alice:alice", "channel_id"),
        ("external:telegram:tg-main:DM:alice:alice", "session_type"),
        ("external:telegram:tg-main:dm::alice", "session_id"),
        ("external:telegram:tg-main:dm:Alice:alice", "session_id"),
        ("external:telegram:tg-main:dm:alice:a/b", "peer_id"),
        ("external:telegram:tg-main:dm:alice:a\nb", "peer_id"),
        ("internal:d/m:default:warden", "session_type"),
        ("internal:dm:\x1b[2J:warden", "session_id"),
        ("internal:dm:default:Warden", "agent_id"),
        ("external:telegram:tg-main:dm:alice", "6"),
        ("internal:dm:default:warden:more", "4"),
        ("warden", "internal"),
        ("", "source"),
        ("self:x", "self"),
        ("internal:dm:default:" + "x" * 500, "500"),
        ("internal:dm:default:" + "x" * 100_000, "500"),
    ],
    ids=range(19),
)
def test_a_source_is_refused_by_the_part_that_is_wrong(commands: QuietQueueCommands, source: str, part: str) -> None:
    assert part in _refused(commands, 2, "push", f"--source={source}", "--type", "message", *CONTENT)


# contents


@pytest.mark.parametrize("content", [b"before\0after", b"\xff\xfe", b"\xed\xa0\x80"])
def test_a_content_that_is_no_text_is_refused(commands: QuietQueueCommands, content: bytes) -> None:
    assert "content" in _refused(commands, 2, *MESSAGE, "--content-file", "-", stdin=content)


def test_a_content_of_more_than_64_mebibytes_is_refused(commands: QuietQueueCommands) -> None:
    assert "content" in _refused(commands, 2, *MESSAGE, "--content-file", "-", stdin=b"x" * (LARGEST + 1))


@pytest.mark.parametrize("path", ["missing.txt", ".", "", "queue/events.db/x"])
def test_a_file_that_cannot_be_read_is_refused(commands: QuietQueueCommands, path: str) -> None:
    with commands.unchanged():
        finished = commands.on_queue(*MESSAGE, f"--content-file={path}")
    assert finished.code in (1, 2)
    assert (finished.stdout, finished.stderr.count("\n"), finished.stderr[:7]) == ("", 1, "Error: ")


# names


@pytest.mark.parametrize("name", NO_NAMES, ids=range(len(NO_NAMES)))
def test_a_name_that_could_mislead_is_refused(commands: QuietQueueCommands, name: str) -> None:
    assert "consumer" in _refused(commands, 2, "subscribe", f"--consumer={name}", "--handler", "true")
    with commands.unchanged():
        for command, more in (("pop", ()), ("ack", ZERO), ("unsubscribe", ())):
            finished = commands.on_queue(command, f"--consumer={name}", *more)
            assert finished.code in (1, 2)
            assert (finished.stdout, finished.stderr.count("\n")) == ("", 1)
            assert not HARMFUL & set(finished.stderr)


# numbers and cursors


@pytest.mark.parametrize(
    ("argv", "flag", "values"),
    [
        (("pop", "--consumer", "all"), "--last-event-id", ("-1", "1.5", "nan", HUGE)),
        (("ack", "--consumer", "all"), "--last-event-id", ("-1", HUGE)),
        (("peek",), "--last-event-id", ("-1", "1.5", "true", HUGE)),
        (("follow", "--timeout-seconds", "30"), "--last-event-id", ("-1",)),
        (("subscribe", "--consumer", "new", "--handler", "true"), "--last-event-id", ("-1",)),
        (("pop", "--consumer", "all"), "--limit", ("-1", "0", "10001", "1.5", HUGE)),
        (("peek", *ZERO), "--limit", ("-1", "0", "10001")),
        (("follow", "--timeout-seconds", "30", *ZERO), "--limit", ("-1", "0")),
        (("follow", *ZERO, "--limit", "1"), "--timeout-seconds", ("-1", "nan", "inf", HUGE)),
    ],
)
def test_a_number_out_of_range_is_refused(commands: QuietQueueCommands, argv: tuple[str, ...], flag: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert flag[2:] in _refused(commands, 2, *argv, f"{flag}={value}").replace("_", "-"), value


@pytest.mark.parametrize("command", ["pop", "ack"])
@pytest.mark.parametrize("cursor", BEYOND)
def test_a_cursor_beyond_the_newest_event_is_refused(commands: QuietQueueCommands, command: str, cursor: str) -> None:
    assert "3" in _refused(commands, 1, command, "--consumer", "all", "--last-event-id", cursor)


def test_a_subscription_cannot_start_beyond_the_newest_event(commands: QuietQueueCommands) -> None:
    """It would never see what comes next."""
    _refused(commands, 1, "subscribe", "--consumer", "new", "--handler", "true", "--last-event-id", BEYOND[0])


@pytest.mark.parametrize("command", ["pop", "ack"])
def test_a_cursor_beyond_an_empty_queue_is_refused(bare: QuietQueueCommands, command: str) -> None:
    bare.init()
    bare.subscribe("all")
    _refused(bare, 1, command, "--consumer", "all", "--last-event-id", "1")
    assert bare.on_queue(command, "--consumer", "all", *ZERO).code == 0


# batches


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"nonsense",
        b'{"content": "a"} x',
        b"{'content': 'a'}",
        b"[" * 100_000,
        b'{"content": ' + b"[" * 100_000,
        b"[]",
        b"7",
        b'"text"',
        b"null",
        b"true",
        b'{"content": "caf\xe9"}',
        b"\xff\xfe",
        b'{"content": "a", "priority": 1}',
        b'{"content": "a", "Source": "self"}',
        b'{"source": null, "content": "a"}',
        b'{"type": 7, "content": "a"}',
        b'{"subtype": 7, "content": "a"}',
        b'{"content": null}',
        b'{"content": 7}',
        b'{"content": {"a": 1}}',
        b'{"content": ["a"]}',
        b'{"content": NaN}',
        b'{"content": "\\u0000"}',
        b'{"content": "\\ud800"}',
        b'{"content": "a\x0bb"}',
        b"{}",
        b'{"type": "event", "content": "a"}',
        b'{"type": "message", "subtype": "toolcall", "content": "a"}',
        b'{"subtype": "two\\nlines", "content": "a"}',
        b'{"source": "warden", "content": "a"}',
        b'{"source": "external:telegram:tg-main:dm:alice:Alice", "content": "a"}',
    ],
    ids=range(32),
)
def test_a_batch_with_a_bad_line_is_refused_by_its_number_and_nothing_is_stored(commands: QuietQueueCommands, line: bytes) -> None:
    good = json.dumps(GOOD).encode()
    given = b"\n".join([good, b"", good, line, good, b""])
    assert "line 4" in _refused(commands, 2, "push", "--batch", "--source", "self", "--type", "record", stdin=given)


@pytest.mark.parametrize(("lacking", "flags"), [("source", ("--type", "message")), ("type", ("--source", ALICE)), ("content", CONTENT)])
def test_a_line_that_lacks_what_no_flag_gives_is_refused(commands: QuietQueueCommands, lacking: str, flags: tuple[str, ...]) -> None:
    line = {name: value for name, value in GOOD.items() if name != lacking}
    said = _refused(commands, 2, "push", "--batch", *flags, stdin=json.dumps(line).encode())
    assert "line 1" in said
    assert lacking in said


def test_a_default_that_is_wrong_is_refused(commands: QuietQueueCommands) -> None:
    given = json.dumps({"content": "a"}).encode()
    assert "type" in _refused(commands, 2, "push", "--batch", "--source", "self", "--type", "event", stdin=given)
    assert "agent_id" in _refused(commands, 2, "push", "--batch", "--source", "internal:dm:default:", "--type", "message", stdin=given)
