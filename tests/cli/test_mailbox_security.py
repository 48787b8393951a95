"""Text is data: what was enqueued, or said about it, cannot steer a terminal, forge a line, or leave its field."""

from __future__ import annotations

import json

import pytest

from tests.cli.mailbox_process import SENDER, SESSION, Mailbox

FORGED = "acked     2026-11-16T09:00:30.000000Z  by boss"
ATTACK = (
    "\x1b[2J\x1b[1;31mred\x1b]0;title\x07 \x9b31m"  # clears the screen, colours, names the window
    f" ok\n{FORGED}\n\n{FORGED}\r\n"  # another line
    "harmless\rerror: everything is lost"  # over the line
    " safe\x08\x08\x08\x08evil\x7f\x0b\x0c\x85"
    " abc \u202etxt.exe\u202c \u2066x\u2069 end"  # reversed
)
SEPARATORS = f"one\u2028{FORGED}\u2029{FORGED}\x85{FORGED}\x0c{FORGED}"
HARMFUL = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"}
HARMFUL.discard("\n")
BOX = ("--session", SESSION)


def _harmless(text: str) -> bool:
    return not HARMFUL & set(text)


def _attacked(mailbox: Mailbox, text: str) -> None:
    """Every text that anybody may choose is the attack: `dead` is a dead letter, `retried` was nacked once and is pending again."""
    mailbox.set_policy(base_backoff_secs=0, max_retries=0)
    for identity in ("dead", "retried"):
        message = {"msg_id": identity, "from": SENDER, "to": SESSION, "payload": text, "extra": text, text: {text: [text]}}
        mailbox.answers("enqueue", "--message-file", "-", stdin=json.dumps(message).encode())
        assert mailbox.dequeue()["message"]["payload"] == text
        mailbox.answers("nack", *BOX, "--msg-id", identity, f"--reason={text}")
        mailbox.set_policy(max_retries=1)


@pytest.mark.parametrize(
    "argv",
    [
        ("dequeue", *BOX),
        ("wait", *BOX),
        ("peek", *BOX),
        ("show", "--msg-id", "retried"),
        ("show", "--msg-id", "dead"),
        ("peek-dead-letter", *BOX),
        ("purge-dead-letter", *BOX),
        ("retry-dead-letter", *BOX),
        ("sessions",),
        ("purge", *BOX),
        ("deliver", *BOX, "--once", "--command", "cat >&2; exit 1"),
        ("deliver", *BOX, "--once", "--command", "cat"),
    ],
    ids=lambda argv: argv[0],
)
@pytest.mark.parametrize("text", [ATTACK, SEPARATORS], ids=["attack", "separators"])
def test_no_command_lets_a_text_steer_the_terminal_or_forge_a_line(mailbox: Mailbox, argv: tuple[str, ...], text: str) -> None:
    _attacked(mailbox, text)
    said = mailbox.says(*argv)
    assert said.strip()
    assert _harmless(said), said
    assert FORGED not in said.splitlines()


def test_a_text_in_a_table_stays_on_its_own_line(mailbox: Mailbox) -> None:
    calm, attacked = Mailbox(mailbox.folder / "calm"), mailbox
    calm.folder.mkdir()
    calm.ok("init")
    _attacked(calm, "calm")
    _attacked(attacked, ATTACK)
    for argv in (("peek", *BOX), ("sessions",), ("sweep",), ("policy", *BOX)):
        assert len(attacked.says(*argv).splitlines()) == len(calm.says(*argv).splitlines())


@pytest.mark.parametrize(
    "argv", [("dequeue", *BOX), ("peek-dead-letter", *BOX), ("show", "--msg-id", "dead"), ("show", "--msg-id", "retried")]
)
def test_json_carries_a_text_exactly_and_on_one_line(mailbox: Mailbox, argv: tuple[str, ...]) -> None:
    _attacked(mailbox, ATTACK)
    answer = mailbox.answers(*argv)  # which looks at the lines
    message = answer["entries"][0] if "entries" in answer else answer["message"]
    assert (message["payload"], message["extra"], message[ATTACK]) == (ATTACK, ATTACK, {ATTACK: [ATTACK]})
    if "steps" in answer:
        assert [step["reason"] for step in answer["steps"] if step["step"] == "nacked"] == [ATTACK]


def test_what_a_command_said_is_kept_as_text(mailbox: Mailbox) -> None:
    """The tail of its standard error: bytes that are none of our making."""
    identity = mailbox.enqueue()
    command = r"printf 'a\000b\377c\033[2Jd' >&2; exit 1"
    assert mailbox.answers("deliver", *BOX, "--once", "--command", command)["nacked"] == 1
    (reason,) = mailbox.reasons(identity)
    assert reason.startswith("exit 1: a")
    assert reason.endswith("d")
    assert _harmless(mailbox.says("show", "--msg-id", identity))


@pytest.mark.parametrize("field", ["from", "to", "msg_id"])
@pytest.mark.parametrize("bad", ["\x1b[31mred", "two\nlines", "\u202eleft", "a\u2028b", "a\x85b", "a\x7f"])
def test_a_name_that_steers_the_terminal_never_comes_in(mailbox: Mailbox, field: str, bad: str) -> None:
    message = {"msg_id": "m1", "from": SENDER, "to": SESSION, "payload": "x", field: bad}
    refused = mailbox.refusal("enqueue", "--message-file", "-", stdin=json.dumps(message).encode())
    assert (refused["exit"], refused["field"]) == (30, field)
    assert mailbox.answers("sessions")["sessions"] == []


def test_a_receiver_is_refused_or_shown_without_harm(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    finished = mailbox.run("dequeue", *BOX, f"--receiver={ATTACK}")
    assert finished.code in (0, 30)
    assert _harmless(finished.stdout + finished.stderr)
    assert _harmless(mailbox.says("show", "--msg-id", identity))
    assert mailbox.state(identity) == ("in_flight" if finished.code == 0 else "pending")


@pytest.mark.parametrize("bad", ["\x1b[31mred", "two\nlines", "\u202eleft"])
def test_a_refusal_repeats_nothing_that_steers_the_terminal(mailbox: Mailbox, bad: str) -> None:
    lines = [(bad,), ("peek", f"--{bad}"), ("peek", bad), ("peek", f"--session={bad}"), ("show", f"--msg-id={bad}")]
    lines += [("sessions", "--db", bad), ("sessions", "--limit", bad), ("help", bad), ("completion", bad)]
    lines += [("enqueue", "--from", SENDER, "--to", SESSION, "--payload-file", bad), ("enqueue", "--message-file", bad)]
    lines += [("ack", *BOX, f"--msg-id={bad}"), ("alias", bad), ("alias", bad, SESSION), ("retry-dead-letter", *BOX, f"--msg-id={bad}")]
    for argv in lines:
        refused = mailbox.run(*argv)
        assert refused.code in (30, 40), (argv, refused)
        assert _harmless(refused.stderr), (argv, refused.stderr)
        assert all(line.startswith(("error: ", "hint: ")) for line in refused.stderr.splitlines()), refused.stderr


def test_a_hint_can_be_pasted_into_a_shell_without_harm(mailbox: Mailbox) -> None:
    """Names are quoted where a hint is a command line."""
    name = "a; rm -rf ~"
    identity = mailbox.enqueue("x", f"--msg-id={name}", to=name)
    hints = [mailbox.refusal(verb, "--session", name, "--msg-id", identity)["hint"] for verb in ("ack", "nack", "extend")]
    for hint in hints:
        assert name not in hint.replace(f"'{name}'", ""), hint


def test_the_token_of_a_delivery_is_shown_to_nobody_but_its_receiver(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    token = mailbox.dequeue()["delivery_token"]
    seen = [("show", "--msg-id", identity), ("peek", *BOX), ("sessions",), ("policy", *BOX)]
    for argv in seen:
        for form in ((), ("--json",)):
            assert token not in mailbox.run(*argv, *form).stdout, argv
    refused = mailbox.run("ack", *BOX, "--msg-id", identity, "--delivery-token", "guessed", "--json")
    assert refused.code == 20
    assert token not in refused.stdout


def test_a_payload_is_no_program_and_no_option_to_the_command_that_gets_it(mailbox: Mailbox) -> None:
    mailbox.enqueue("$(touch ran); `touch ran`; touch ran; --help\n", "--msg-id", "$(touch ran)", sender="`touch ran`")
    assert mailbox.answers("deliver", *BOX, "--once", "--command", "cat > got")["acked"] == 1
    assert (mailbox.folder / "got").read_text() == "$(touch ran); `touch ran`; touch ran; --help\n"
    assert not (mailbox.folder / "ran").exists()
