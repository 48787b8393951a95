"""Replies by e-mail: the words of the person are kept, and what their program added is not."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from postroom._fastpath import json_text as jsontext
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.people import Ask
from postroom.outbound.email_replies import parse_reply, strip_quotes, to_answer

TOKEN = "prq_" + "0123456789" * 4
TO = f"To: inbox+{TOKEN}@example.org\n"

QUOTED = {
    "gmail": "Yes\n\nOn Wed, 18 Nov 2026 at 04:12, <inbox@example.org> wrote:\n\n> Ship it?",
    "gmail, wrapped": "Yes\n\nOn Wed, 18 Nov 2026 at 04:12, a very long name\n<inbox@example.org> wrote:\n> Ship it?",
    "german": "Yes\r\n\r\nAm 18.11.2026 um 04:12 schrieb inbox@example.org:\r\n> Ship it?",
    "outlook": "Yes\n\n________________________________\nFrom: inbox@example.org\nSubject: Ship it?",
    "an original message": "Yes\n\n-----Original Message-----\nFrom: inbox@example.org",
    "a signature": "Yes\n-- \nMaria",
    "nothing": "Yes",
}


@pytest.mark.parametrize("program", QUOTED)
def test_what_is_quoted_is_no_part_of_the_answer(program: str) -> None:
    assert strip_quotes(QUOTED[program]) == "Yes"


MAILS = {
    "plain": TO + "\nYes\n",
    "in capitals, as some servers write addresses": TO.upper() + "\nYes\n",
    "by the message that it answers": f"In-Reply-To: <{TOKEN}.alr_1@example.org>\n\nYes\n",
    "html alone": TO + "Content-Type: text/html\n\n<style>p {}</style><p>Yes</p><blockquote>Ship it?</blockquote>",
    "both": TO + 'Content-Type: multipart/alternative; boundary="b"\n\n--b\nContent-Type: text/plain\n\nYes\n--b\n'
    "Content-Type: text/html\n\n<b>No</b>\n--b--\n",
    "an unknown character set": TO + "Content-Type: text/plain; charset=klingon\n\nYes\n",
}


@pytest.mark.parametrize("mail", MAILS)
def test_the_token_and_the_words_are_found(mail: str) -> None:
    reply = parse_reply(MAILS[mail].encode())
    assert (reply.token, reply.text, reply.ignored) == (TOKEN, "Yes", None)


@pytest.mark.parametrize("line", ["Auto-Submitted: auto-replied", "Precedence: bulk", "X-Autoreply: yes", "Return-Path: <>"])
def test_a_mail_that_no_person_wrote_is_ignored(line: str) -> None:
    assert parse_reply(f"{line}\n{TO}\nYes\n".encode()).ignored is not None


def test_a_mail_without_a_token_or_without_words_is_refused() -> None:
    with pytest.raises(NotFound):
        parse_reply(f"To: inbox@example.org\n\nYes {TOKEN}\n".encode())
    with pytest.raises(InvalidInput):
        parse_reply(f"{TO}\n> Ship it?\n".encode())
    with pytest.raises(NotFound):
        parse_reply(b"\xff\x00 no mail at all")


def question(*choices: str, proposal: bool = False) -> Ask:
    fields: dict[str, Any] = dict.fromkeys(Ask.__fields__)
    terms = {"proposal": {"text": "Dear all"}} if proposal else {}
    return Ask(**{**fields, "choices_json": jsontext.dumps(list(choices)), "terms_json": jsontext.dumps(terms)})


@pytest.mark.parametrize(
    ("text", "ask", "answer"),
    [
        ("YES!\nbecause", question("yes", "no"), {"body": "yes"}),
        ("2", question("yes", "no"), {"body": "no"}),
        ("later", question("yes", "no"), {"body": "later", "comment": True}),
        ("Approved.", question(proposal=True), {"decision": {"type": "approve"}}),
        ("Reject: too formal", question(proposal=True), {"decision": {"type": "reject", "reason": "Reject: too formal"}}),
        ("approve", question("yes", "no"), {"body": "approve", "comment": True}),
    ],
)
def test_words_become_a_choice_or_a_decision_or_stay_words(text: str, ask: Ask, answer: dict[str, Any]) -> None:
    assert to_answer(text, ask) == answer


PARTS = b'--x\r\nContent-Type: multipart/mixed; boundary="x"\r\n\r\n'
MADE_TO_BE_SLOW = {
    "many receivers": b"To: " + b"a," * 300_000 + b"\r\n" + TO.encode() + b"\r\nYes",
    "many parameters": TO.encode() + b"Content-Type: text/plain" + b"; a=b" * 100_000 + b"\r\n\r\nYes",
    "comments in comments": TO.encode() + b"Content-Type: " + b"(" * 100_000 + b"\r\n\r\nYes",
    "tags that never end": TO.encode() + b"Content-Type: text/html\r\n\r\n" + b"Yes<style " * 150_000,
    "parts in parts": TO.encode() + b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n' + PARTS * 50_000,
    "mails in mails": TO.encode() + b"Content-Type: message/rfc822\r\n\r\n" * 50_000,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("mail", MADE_TO_BE_SLOW)
def test_a_mail_that_was_made_to_be_slow_is_read_or_refused(mail: str) -> None:
    """Whoever knows the address can send one: the token is looked up later."""
    with suppress(InvalidInput):
        assert parse_reply(MADE_TO_BE_SLOW[mail]).token == TOKEN


def test_what_follows_the_beginning_of_a_large_mail_is_not_read() -> None:
    attached = b"--b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n" + b"QUJD\r\n" * 1_000_000 + b"--b--"
    head = TO.encode() + b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nYes\r\n'
    assert parse_reply(head + attached).text == "Yes"
    with pytest.raises(InvalidInput):  # never an answer of which the end is missing
        parse_reply(TO.encode() + b"\r\n" + b"Yes\r\n" * 500_000)
