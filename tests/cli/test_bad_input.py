"""Bad input: each a refusal with its code and a message that names the thing; nothing is changed, and never a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.process import Finished, Inbox

SEND = ("send", "--from", "leader", "--to", "builder", "--subject", "x")
HUGE = "1" + "0" * 400


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which builder holds the thread `one`, and `two` has ended, to be copied."""
    inbox = Inbox(tmp_path_factory.mktemp("template"))
    inbox.found()
    inbox.send("One", "--thread", "one")
    inbox.send("Two", "--thread", "two")
    inbox.ok("claim", "--agent", "builder", "--thread", "one")
    inbox.ok("cancel", "--agent", "leader", "--thread", "two")
    return inbox.db.parent


@pytest.fixture
def held(template: Path, bare: Inbox) -> Inbox:
    shutil.copytree(template, bare.db.parent)
    return bare


@contextmanager
def _unchanged(inbox: Inbox) -> Iterator[None]:
    before = inbox.everything()
    yield
    assert inbox.everything() == before


def _refused(inbox: Inbox, *argv: str | bytes, stdin: bytes = b"") -> tuple[int, str, str]:
    """How both forms refuse, having changed nothing."""
    with _unchanged(inbox):
        return _both(inbox, *argv, stdin=stdin)


def _both(inbox: Inbox, *argv: str | bytes, stdin: bytes = b"") -> tuple[int, str, str]:
    """How both forms refuse."""
    spoken, written = inbox.run_each(argv, [*argv, "--json"], stdin=stdin)
    _compare(spoken, written)
    return written.error


def _compare(spoken: Finished, written: Finished) -> None:
    assert "Traceback" not in spoken.stderr + written.stderr
    assert (spoken.code, spoken.stdout) == (written.code, "")
    assert spoken.stderr.startswith(f"error: {written.error[2]}\n"), spoken
    assert "bug in Postroom" not in spoken.stderr


@pytest.mark.parametrize("payload", ["", "{", "nonsense", "{'a': 1}", '{"a": NaN}', '{"a": 1} x', "{" * 100_000, '{"a": "\n"}'])
def test_a_payload_that_is_no_json_is_refused(held: Inbox, payload: str) -> None:
    code, name, message = _refused(held, *SEND, "--payload-json", payload)
    assert (code, name) == (30, "invalid_input")
    assert message.startswith("payload-json is not JSON: ")


@pytest.mark.parametrize("payload", ["[]", "1", '"text"', "null", "true"])
def test_a_payload_that_is_no_object_is_refused(held: Inbox, payload: str) -> None:
    code, name, message = _refused(held, *SEND, "--payload-json", payload)
    assert (code, name) == (30, "invalid_input")
    assert message.startswith("payload-json must be a JSON object")


@pytest.mark.parametrize("command", ["update", "done", "fail", "cancel"])
def test_every_command_that_takes_a_payload_checks_it(held: Inbox, command: str) -> None:
    refused = _refused(held, command, "--agent", "builder", "--thread", "one", "--payload-json", "{")
    assert refused[:2] == (30, "invalid_input")
    assert "payload-json" in refused[2]


def test_a_reply_with_a_broken_payload_is_refused(held: Inbox) -> None:
    assert _refused(held, "reply", "--from", "leader", "--thread", "one", "--payload-json", "{")[:2] == (30, "invalid_input")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((*SEND, "--kind", "shout"), "kind cannot be 'shout'"),
        ((*SEND, "--kind", "Task"), "kind cannot be 'Task'"),
        ((*SEND, "--priority", "urgent"), "priority cannot be 'urgent'"),
        (("reply", "--from", "leader", "--thread", "one", "--kind", "task", "--summary", "x"), "kind cannot be 'task'"),
        (("update", "--agent", "builder", "--thread", "one", "--status", "claimed"), "status cannot be 'claimed'"),
        (("list", "--status", "open"), "status cannot be 'open'"),
        (("list", "--status", ""), "status cannot be ''"),
        (("list", "--status", "pending,"), "status cannot be ''"),
        (("fetch", "--agent", "builder", "--status", "open"), "status cannot be 'open'"),
        (("watch", "--status", "open"), "status cannot be 'open'"),
        (("wait-reply", "--thread", "one", "--kinds", "answer,shout"), "kinds cannot be 'shout'"),
        (("agent", "add", "maria", "--kind", "cat"), "kind cannot be 'cat'"),
    ],
)
def test_a_word_that_is_none_of_the_allowed_is_refused(held: Inbox, argv: tuple[str, ...], message: str) -> None:
    assert _refused(held, *argv) == (30, "invalid_input", message)


def test_a_body_and_a_body_file_exclude_each_other(held: Inbox) -> None:
    refused = _refused(held, *SEND, "--body", "x", "--body-file", "-")
    assert refused == (30, "invalid_input", "body and body-file exclude each other")


@pytest.mark.parametrize("command", ["update", "done", "fail"])
def test_a_body_file_that_is_not_there_is_refused(held: Inbox, command: str) -> None:
    refused = _refused(held, command, "--agent", "builder", "--thread", "one", "--body-file", "missing.md")
    assert refused == (30, "invalid_input", "missing.md cannot be read: No such file or directory")


def test_a_body_file_that_cannot_be_read_is_refused(held: Inbox) -> None:
    secret = held.folder / "secret.md"
    secret.write_text("secret")
    secret.chmod(0)
    finished = held.run(*SEND, "--body-file", "secret.md", "--json", unprivileged=True)
    assert finished.error == (30, "invalid_input", "secret.md cannot be read: Permission denied")


def test_a_folder_as_a_body_file_is_refused(held: Inbox) -> None:
    assert _refused(held, *SEND, "--body-file", ".") == (30, "invalid_input", ". cannot be read: Is a directory")


def test_an_empty_path_as_a_body_file_is_refused(held: Inbox) -> None:
    assert _refused(held, *SEND, "--body-file", "")[:2] == (30, "invalid_input")


def test_a_body_file_with_a_nul_is_refused(held: Inbox) -> None:
    (held.folder / "nul.txt").write_bytes(b"before\0after")
    assert _refused(held, *SEND, "--body-file", "nul.txt") == (30, "invalid_input", "body contains a NUL character")


def test_a_body_file_that_is_no_text_is_refused(held: Inbox) -> None:
    (held.folder / "image.png").write_bytes(b"\x89PNG\xff\xfe")
    assert _refused(held, *SEND, "--body-file", "image.png") == (30, "invalid_input", "image.png is not UTF-8 text")


def test_a_body_from_standard_input_that_is_no_text_is_refused(held: Inbox) -> None:
    code, name, message = _refused(held, *SEND, "--body-file", "-", stdin=b"\xff\xfe")
    assert (code, name) == (30, "invalid_input")
    assert message.endswith("is not UTF-8 text")


def test_a_closed_standard_input_is_refused(held: Inbox) -> None:
    closed = held.run("version")  # the command itself works
    assert closed.code == 0
    script = f'exec 0<&-; exec "$0" {" ".join(SEND)} --body-file - --json'
    finished = held.shell(script)
    assert finished.error[:2] == (30, "invalid_input"), finished


@pytest.mark.parametrize("flag", ["--subject", "--summary", "--body", "--run", "--task", "--to", "--artifact", "--payload-json"])
def test_an_argument_that_is_no_utf8_is_refused(held: Inbox, flag: str) -> None:
    words: list[str | bytes] = [word for pair in zip(SEND[1::2], SEND[2::2]) if pair[0] != flag for word in pair]
    code, name, message = _refused(held, "send", *words, flag, b"caf\xe9")
    assert (code, name) == (30, "invalid_input")
    assert flag[2:] in message


@pytest.mark.parametrize("argv", [("--agent", b"caf\xe9", "fetch"), (b"caf\xe9",), ("list", b"--caf\xe9"), ("list", b"caf\xe9")])
def test_bytes_that_are_no_utf8_are_refused_wherever_they_stand(held: Inbox, argv: tuple[str | bytes, ...]) -> None:
    assert _refused(held, *argv)[:2] == (30, "invalid_input")


def test_a_store_named_in_no_utf8_is_found_or_not_found(held: Inbox) -> None:
    spoken, written = held.run("list", "--db", b"caf\xe9.db"), held.run("list", "--json", "--db", b"caf\xe9.db")
    assert (spoken.code, written.code) == (40, 40), spoken
    assert "Traceback" not in spoken.stderr
    assert written.json["error"]["code"] == "no_store"


@pytest.mark.parametrize(
    "argv", [("claim", "--thread", "two"), ("take",), ("renew", "--thread", "one"), ("done", "--thread", "one", "--take-next")]
)
def test_a_lease_of_an_impossible_length_is_refused(held: Inbox, argv: tuple[str, ...]) -> None:
    with _unchanged(held):
        for seconds in ("-1", "-0.5", "0", "inf", "-inf", "1e300", "100000000", HUGE, "nan"):
            code, name, message = _both(held, *argv, "--agent", "builder", "--lease-seconds", seconds)
            assert (code, name) == (30, "invalid_input")
            assert message.startswith("lease-seconds must be from more than 0 to 31622400 seconds, not "), seconds


@pytest.mark.parametrize("argv", [("watch",), ("wait-reply", "--thread", "one"), ("take", "--agent", "nobody", "--wait")])
def test_a_wait_of_an_impossible_length_is_refused(held: Inbox, argv: tuple[str, ...]) -> None:
    with _unchanged(held):
        for seconds in ("-1", "-0.001", "inf", "1e300", HUGE, "nan"):
            code, name, message = _both(held, *argv, "--timeout-seconds", seconds)
            assert (code, name) == (30, "invalid_input")
            assert message.startswith("timeout-seconds must be from 0 to 31622400 seconds, not "), seconds


@pytest.mark.parametrize(
    "argv",
    [
        ("list", "--limit"),
        ("fetch", "--agent", "builder", "--limit"),
        ("watch", "--after-event"),
        ("wait-reply", "--thread", "one", "--after-event"),
    ],
)
def test_a_number_out_of_range_is_refused(held: Inbox, argv: tuple[str, ...]) -> None:
    with _unchanged(held):
        for number in ("-1", "x", "1.5", "", "99999999999999999999", "9" * 5000):
            code, name, message = _both(held, *argv, number)
            assert (code, name) == (30, "invalid_input")
            assert len(message) < 300, "a refusal does not echo pages"


@pytest.mark.parametrize(
    "argv",
    [
        ("claim", "--agent", "builder"),
        ("renew", "--agent", "builder"),
        ("update", "--agent", "builder", "--summary", "x"),
        ("reply", "--from", "leader", "--summary", "x"),
        ("done", "--agent", "builder"),
        ("fail", "--agent", "builder"),
        ("release", "--agent", "builder"),
        ("cancel", "--agent", "leader"),
        ("show",),
        ("show", "--agent", "builder", "--mark-read"),
        ("wait-reply",),
    ],
)
def test_a_thread_that_is_not_there_is_not_found(held: Inbox, argv: tuple[str, ...]) -> None:
    assert _refused(held, *argv, "--thread", "thr_gone") == (40, "not_found", "there is no thread thr_gone")


def test_a_message_of_another_thread_is_not_found(held: Inbox) -> None:
    other = held.ok("show", "--thread", "two")["messages"][0]["message_id"]
    refused = _refused(held, "wait-reply", "--thread", "one", "--after-message", other)
    assert refused == (40, "not_found", f"there is no message {other} in one")


def test_an_agent_that_was_never_seen_is_not_found(held: Inbox) -> None:
    assert _refused(held, "agent", "show", "ghost") == (40, "not_found", "nobody called ghost has been seen")


@pytest.mark.parametrize("name", ["two\nlines", "tab\there", " outer ", "\x1b[31mred", "x" * 201, "\u202eright", "  "])
def test_a_name_that_could_mislead_is_refused(held: Inbox, name: str) -> None:
    with _unchanged(held):
        for argv in (["fetch", "--agent", name], ["agent", "add", name], ["send", "--from", "leader", "--to", name, "--subject", "x"]):
            assert _both(held, *argv)[:2] == (30, "invalid_input")


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_an_artifact_needs_a_path(held: Inbox, text: str) -> None:
    assert _refused(held, *SEND, "--artifact", text)[:2] == (30, "invalid_input")


def test_facts_about_an_artifact_need_an_artifact(held: Inbox) -> None:
    assert _refused(held, *SEND, "--artifact-kind", "log")[:2] == (30, "invalid_input")
    assert _refused(held, *SEND, "--artifact", "a", "--artifact-metadata-json", "[]")[:2] == (30, "invalid_input")


@pytest.mark.parametrize("body", ["ünï¢ode ☃ 漢字 👩‍👩‍👧 \u202e", "\x01\x1b[2J\r\n\t\x7f", "a" * 1_048_576, "漢" * 300_000, "\n\n", " "])
def test_a_body_of_up_to_a_mebibyte_and_any_unicode_passes_through_whole(inbox: Inbox, tmp_path: Path, body: str) -> None:
    sent = inbox.ok(*SEND, "--body-file", "-", stdin=body.encode())
    (tmp_path / "body.md").write_bytes(body.encode())
    inbox.ok("reply", "--from", "leader", "--thread", sent["thread"]["thread_id"], "--summary", "x", "--body-file", "body.md")
    shown = inbox.ok("show", "--thread", sent["thread"]["thread_id"], "--after-event", "0", "--limit", "1")
    replied = inbox.ok("show", "--thread", sent["thread"]["thread_id"], "--limit", "1")
    assert [message["body"] for message in shown["messages"] + replied["messages"]] == [body, body]


def test_standard_input_is_not_read_beyond_the_bound(inbox: Inbox) -> None:
    ended = inbox.shell('ulimit -v 400000; yes | "$0" send --json --from leader --to builder --subject S --body-file -')
    assert ended.error == (30, "invalid_input", "body-file is larger than 1 MiB")


def test_a_large_payload_passes_through_as_it_was_written(inbox: Inbox) -> None:
    payload = '{"a":  [' + ", ".join(str(number) for number in range(20_000)) + '], "é": "☃\\u0000"}'
    assert inbox.ok(*SEND, "--payload-json", payload)["message"]["payload_json"] == payload
