"""People who are away: a real server sends to a real web server and a real mail server, and what comes back is an answer."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.cli.process import eventually
from tests.server.receivers import MailServer, WebReceiver, mail_server, web_receiver
from tests.server.running_server import RunningServer

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
CHOICES = ("--choice", "yes", "--choice", "no")


@pytest.fixture
def receiver() -> Iterator[WebReceiver]:
    with web_receiver() as made:
        yield made


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with mail_server() as made:
        yield made


@pytest.fixture
def office(own_server: RunningServer) -> Iterator[RunningServer]:
    """A server whose channels are removed after each test."""
    yield own_server
    for channel in own_server.inbox.ok("channel", "list")["channels"]:
        own_server.inbox.ok("channel", "remove", channel["channel_id"])


def add_webhook(office: RunningServer, receiver: WebReceiver, *more: str) -> str:
    secret = office.folder / "hook.secret"
    secret.write_text(SECRET)
    added = office.inbox.ok(
        "channel", "add", "webhook", f"{receiver.url}/in?x=1", "--secret-file", str(secret), "--delay-seconds", "0", *more
    )
    identity: str = added["channel"]["channel_id"]
    return identity


def add_email(office: RunningServer, mails: MailServer) -> str:
    options = ("--smtp", mails.url, "--from", "inbox@example.org", "--reply-to", "inbox@example.org", "--delay-seconds", "0")
    identity: str = office.inbox.ok("channel", "add", "email", "maria@example.org", *options)["channel"]["channel_id"]
    return identity


def asked_by_webhook(office: RunningServer, receiver: WebReceiver, *more: str, question: str = "Ship it?") -> tuple[str, str]:
    """A question that was sent by a webhook: its entry, and its link."""
    add_webhook(office, receiver)
    entry = office.ask("builder", question, *(more or CHOICES))
    return entry, receiver.wait_for(1)[0].json["data"]["question"]["url"]


def question_of(office: RunningServer, entry: str) -> dict[str, Any]:
    found: dict[str, Any] = office.entry(entry)["question"]
    return found


def test_a_webhook_is_signed_and_its_answer_url_answers_as_that_person(office: RunningServer, receiver: WebReceiver) -> None:
    add_webhook(office, receiver)
    entry = office.ask("builder", "Ship it?", *CHOICES)
    (posted,) = receiver.wait_for(1)
    verified = Webhook(SECRET).verify(posted.body, posted.headers)
    assert (verified["type"], verified["data"]["title"], verified["data"]["person"]) == ("question.asked", "Ship it?", "user")
    assert verified["data"]["question"]["choices"] == ["yes", "no"]
    assert posted.path == "/in?x=1"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(posted.body.replace(b"yes", b"no!"), posted.headers)
    url = verified["data"]["question"]["answerUrl"]
    answer = httpx.post(url, json={"answer": "yes"}, trust_env=False)
    assert answer.json() == {"ok": True, "questionId": entry, "answer": "yes", "from": "user"}
    asked = office.inbox.ok("ask", "--entry", entry)["answer"]
    assert (asked["choice"], asked["answered_by"], asked["door"], asked["verified"]) == ("yes", "user", "http", True)
    again = httpx.post(url, json={"answer": "no"}, trust_env=False)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")
    eventually(lambda: "alert_sent" in office.steps(entry))


def test_a_failed_webhook_is_sent_again_with_the_same_id_and_redirects_are_not_followed(
    office: RunningServer, receiver: WebReceiver
) -> None:
    channel = add_webhook(office, receiver)
    office.mailbox.ok("policy", "--session", f"channel:{channel}", "--base-backoff-secs", "0")
    receiver.statuses = [500, 302, 204]
    entry = office.ask("builder", "Ship it?")
    posted = receiver.wait_for(3)
    eventually(lambda: "alert_sent" in office.steps(entry))
    assert len({one.id for one in posted}) == 1
    assert {one.path for one in posted} == {"/in?x=1"}
    assert {one.body for one in posted} == {posted[0].body}
    assert len(receiver.posted) == 3


def test_an_alert_that_nobody_accepts_becomes_a_dead_letter_which_can_be_retried(office: RunningServer, receiver: WebReceiver) -> None:
    channel = add_webhook(office, receiver)
    office.mailbox.ok("policy", "--session", f"channel:{channel}", "--base-backoff-secs", "0", "--max-retries", "1")
    receiver.statuses = [500, 500]
    entry = office.ask("builder", "Ship it?")
    eventually(lambda: "alert_failed" in office.steps(entry))
    (letter,) = office.mailbox.ok("peek-dead-letter", "--session", f"channel:{channel}")["entries"]
    assert "answered 500" in letter["reason"]
    office.mailbox.ok("retry-dead-letter", "--session", f"channel:{channel}")
    eventually(lambda: "alert_sent" in office.steps(entry))
    assert len({one.id for one in receiver.posted}) == 1


def test_a_reply_to_the_mail_is_the_answer(office: RunningServer, mails: MailServer) -> None:
    add_email(office, mails)
    entry = office.ask("builder", "Ship it?\nSubject: forged", *CHOICES)
    (mail,) = mails.wait_for(1)
    assert mails.receivers == [["maria@example.org"]]
    assert (mail["Subject"], mail["To"], mail["Auto-Submitted"]) == ("Ship it? (builder)", "maria@example.org", "auto-generated")
    assert "| Subject: forged" in mail.get_content()
    reply = EmailMessage()
    reply["From"], reply["To"], reply["In-Reply-To"] = "maria@example.org", mail["Reply-To"], mail["Message-ID"]
    reply.set_content(f"Yes!\n\nMaria\n-- \nSent from my phone\n\nOn Wed, 18 Nov 2026, inbox@example.org wrote:\n> {mail.get_content()}")
    received = office.inbox.ok("channel", "receive", stdin=bytes(reply))
    assert (received["answered"], received["person"], received["door"], received["answer"]) == (True, "user", "email", "yes")
    answer = office.inbox.ok("ask", "--entry", entry)["answer"]
    assert (answer["choice"], answer["door"], answer["verified"]) == ("yes", "email", True)
    assert office.inbox.run("channel", "receive", "--json", stdin=bytes(reply)).error[:2] == (40, "not_found")


def test_a_reply_is_found_by_the_message_that_it_answers_if_the_address_was_lost(office: RunningServer, mails: MailServer) -> None:
    add_email(office, mails)
    entry = office.ask("builder", "What colour?")
    (mail,) = mails.wait_for(1)
    vacation = f"To: inbox@example.org\nIn-Reply-To: {mail['Message-ID']}\nAuto-Submitted: auto-replied\n\nI am away.\n".encode()
    assert office.inbox.ok("channel", "receive", stdin=vacation)["answered"] is False
    assert question_of(office, entry)["state"] == "open"
    reply = f"To: inbox@example.org\nIn-Reply-To: {mail['Message-ID']}\n\nBlue, I think\n\n> What colour?\n".encode()
    assert office.inbox.ok("channel", "receive", stdin=reply)["answer"] == "Blue, I think"


def test_a_topic_of_ntfy_gets_buttons_that_answer(office: RunningServer, receiver: WebReceiver) -> None:
    token = office.folder / "ntfy.token"
    token.write_text("tk_secret\n")
    office.inbox.ok("channel", "add", "ntfy", f"{receiver.url}/my-topic", "--secret-file", str(token), "--delay-seconds", "0")
    entry = office.ask("builder", "Ship it?", *CHOICES)
    (posted,) = receiver.wait_for(1)
    assert (posted.path, posted.headers["authorization"]) == ("/", "Bearer tk_secret")
    assert (posted.json["topic"], posted.json["title"]) == ("my-topic", "Ship it? (builder)")
    button = posted.json["actions"][1]
    httpx.request(button["method"], button["url"], headers=button["headers"], content=button["body"], trust_env=False)
    assert question_of(office, entry)["answer"] == "no"


def test_a_command_gets_the_message_and_a_short_environment(found: Any, tmp_path: Path) -> None:
    office: RunningServer = found().open()
    office.inbox.ok("channel", "add", "command", f"cat > {tmp_path}/told; env > {tmp_path}/env; mv {tmp_path}/told {tmp_path}/told.json",
                    "--delay-seconds", "0")  # fmt: skip
    office.ask("builder", "Ship it?", *CHOICES)
    eventually((tmp_path / "told.json").exists)
    assert '"type": "question.asked"' in (tmp_path / "told.json").read_text()
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert {"INBOX_ALERT_ID", "INBOX_ALERT_LINK", "PATH"} <= names
    assert not names & {"INBOX_DB", "MAILBOX_DELIVERY_TOKEN", "MAILBOX_SESSION"}
    office.close()


def test_a_secret_may_be_a_variable_of_the_server(found: Any, receiver: WebReceiver) -> None:
    office: RunningServer = found()
    added = office.inbox.ok("channel", "add", "webhook", receiver.url, "--secret-env", "HOOK_SECRET", "--delay-seconds", "0")
    session = added["channel"]["mailbox"]
    office.mailbox.ok("policy", "--session", session, "--max-retries", "0")
    office.ask("builder", "Ship it?")
    office.inbox.ok("channel", "run", "--until-empty")
    assert "HOOK_SECRET" in office.mailbox.ok("peek-dead-letter", "--session", session)["entries"][0]["reason"]
    office.mailbox.ok("retry-dead-letter", "--session", session)
    office.inbox.ok("channel", "run", "--until-empty", HOOK_SECRET=SECRET)
    (posted,) = receiver.posted
    Webhook(SECRET).verify(posted.body, posted.headers)
    assert SECRET not in str(office.inbox.everything())


# The page of a link


def form(office: RunningServer, token: str, **fields: str) -> httpx.Response:
    headers = {"Origin": office.url, "Sec-Fetch-Site": "same-origin"}
    return office.stranger.post("/answer", data={"token": token, **fields}, headers=headers)


def test_looking_at_a_link_answers_nothing_and_marks_nothing_as_read(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver, question="Ship it?\n<script>alert(1)</script>")
    from_webmail = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for method, headers in (("HEAD", {}), ("GET", {}), ("GET", from_webmail)):
        seen = office.stranger.request(method, link, headers=headers)
        assert seen.status_code == 200
    assert question_of(office, entry)["state"] == "open"
    assert office.entry(entry)["readAt"] is None
    assert "script" not in seen.headers["content-security-policy"]
    assert (seen.headers["cache-control"], seen.headers["referrer-policy"]) == ("no-store", "same-origin")
    assert "<script" not in seen.text
    assert "&lt;script&gt;alert(1)" in seen.text
    assert re.findall(r'name="choice" value="(\w+)"', seen.text) == ["yes", "no"]


def test_a_button_of_the_page_answers_once(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver)
    token = link.partition("token=")[2]
    assert form(office, token, choice="maybe").status_code == 400
    answered = form(office, token, choice="yes")
    assert (answered.status_code, "Answered" in answered.text) == (200, True)
    question = question_of(office, entry)
    assert (question["choice"], question["answeredBy"]) == ("yes", "user")
    assert office.inbox.ok("ask", "--entry", entry)["answer"]["door"] == "web"
    for again in (office.stranger.get(link), form(office, token, choice="no")):
        assert again.status_code == 404
        assert "This link does not work any more" in again.text
        assert "style/base.css" in again.text
    assert question_of(office, entry)["answer"] == "yes"


def test_own_words_answer_as_a_comment_only(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver)
    refused = httpx.post(link, json={"answer": "perhaps"}, trust_env=False)
    assert (refused.status_code, question_of(office, entry)["state"]) == (400, "open")
    assert form(office, link.partition("token=")[2], text="Ask\r\nMaria").status_code == 200
    question = question_of(office, entry)
    assert (question["answer"], question["choice"]) == ("Ask\nMaria", None)


def test_a_page_of_another_site_cannot_answer(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver)
    for headers in ({"Origin": "https://evil.example.org"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        sent = office.stranger.post("/answer", data={"token": link.partition("token=")[2], "choice": "yes"}, headers=headers)
        assert sent.status_code == 403
    assert question_of(office, entry)["state"] == "open"


def test_a_dangerous_choice_is_asked_for_again(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver, *CHOICES, "--dangerous", "yes")
    token = link.partition("token=")[2]
    sure = form(office, token, choice="yes")
    assert "are you sure?" in sure.text
    assert question_of(office, entry)["state"] == "open"
    form(office, token, choice="yes", confirmed="yes")
    assert question_of(office, entry)["answer"] == "yes"


def test_a_proposal_is_rejected_with_a_reason(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver, "--propose", "Dear <all>")
    assert "Dear &lt;all&gt;" in html.unescape(office.stranger.get(link).text.replace("&lt;", "&amp;lt;").replace("&gt;", "&amp;gt;"))
    form(office, link.partition("token=")[2], decision="reject", text="Too formal")
    decision = question_of(office, entry)["decision"]
    assert (decision["type"], decision["reason"]) == ("reject", "Too formal")


def test_a_link_that_was_revoked_or_came_too_late_is_refused_with_a_page(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver)
    office.reply(entry, "no")
    late = form(office, link.partition("token=")[2], choice="yes")
    assert (late.status_code, "This question is not open any more" in late.text) == (409, True)
    assert "not open any more" in office.stranger.get(link).text
    (listed,) = [known for known in office.inbox.ok("pass", "list")["passes"] if known["scope"] == entry]
    office.inbox.ok("pass", "revoke", listed["pass_id"])
    gone = office.stranger.get(link)
    assert (gone.status_code, "This link does not work any more" in gone.text) == (404, True)


def test_a_link_is_no_token_of_the_api(office: RunningServer, receiver: WebReceiver) -> None:
    entry, link = asked_by_webhook(office, receiver)
    thief = office.client(link.partition("token=")[2])
    assert thief.get(f"/api/inbox/{entry}").status_code == 401
    assert thief.post("/api/verbs/people.history", json={}).status_code == 401
