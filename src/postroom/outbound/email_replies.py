"""Read a reply by e-mail: the token of the question that it answers, and the words of the person, without what is quoted. Pure."""

from __future__ import annotations

import re
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import TYPE_CHECKING

from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records import Record
from postroom.core.records.people import APPROVE, REJECT

if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.people import Ask

EMAIL_DOOR = "email"
# The headers in which the token comes back: the address that was replied to, and the id of the message that was answered.
TOKEN_HEADERS = ("Delivered-To", "X-Original-To", "To", "Cc", "In-Reply-To", "References")
_TOKEN = re.compile(r"prq_[0-9a-f]{40}(?![0-9a-f])", re.IGNORECASE)
_QUOTE_INTRODUCTIONS = (
    re.compile(r"^(on|am|le|el|il|op)\b.{5,200}\b(wrote|schrieb|écrit|escribió|scritto|schreef)\b.{0,20}:\s*$", re.IGNORECASE),
    re.compile(r"^-{2,}\s*(original|forwarded|ursprüngliche)\b", re.IGNORECASE),
    re.compile(r"^_{10,}\s*$"),
    re.compile(r"^(from|von|de):\s.*@", re.IGNORECASE),
)
_SIGNATURE = re.compile(r"^-- ?$")


class MailReply(Record):
    """A reply by e-mail. `ignored` is why it is no answer, such as a message of a vacation program."""

    token: str
    text: str
    ignored: str | None = None


def parse_reply(data: bytes) -> MailReply:
    """Return the token and the text of a mail. Refuses with `NotFound` a mail without a token, and with `InvalidInput` an empty answer."""
    message = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(data)
    ignored = _find_automatic(message)
    if ignored is not None:
        return MailReply("", "", ignored)
    token = _find_token(message)
    if token is None:
        raise NotFound("this mail replies to no question", hint="Reply to the message itself, and keep its address.")
    text = strip_quotes(_plain_text(message))
    if not text:
        raise InvalidInput("the answer is empty", field="mail", hint="Write the answer above what is quoted.")
    return MailReply(token, text)


def strip_quotes(text: str) -> str:
    """Return the lines above the quoted message and the signature."""
    kept: list[str] = []
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        joined = f"{line.strip()} {lines[number + 1].strip()}" if number + 1 < len(lines) else line.strip()
        is_introduction = any(pattern.match(line.strip()) or pattern.match(joined) for pattern in _QUOTE_INTRODUCTIONS)
        if line.startswith(">") or _SIGNATURE.match(line) or is_introduction:
            break
        kept.append(line)
    return "\n".join(kept).strip()


def to_answer(text: str, ask: Ask) -> dict[str, Any]:
    """Return the arguments of the answer that a text gives: a choice, by its words or its number, a decision, or the person's own words."""
    first = text.partition("\n")[0].strip().rstrip(".!").casefold()
    if ask.terms.get("proposal") is not None and first in ("approve", "approved"):
        return {"decision": {"type": APPROVE}}
    if ask.terms.get("proposal") is not None and first.startswith("reject"):
        return {"decision": {"type": REJECT, "reason": text}}
    for number, choice in enumerate(ask.choices, 1):
        if first in (choice.casefold(), choice.rstrip(".!").casefold(), str(number)):
            return {"body": choice}
    return {"body": text, "comment": True}


def _find_automatic(message: EmailMessage) -> str | None:
    """Return why a mail is not written by a person, or None."""
    submitted = str(message.get("Auto-Submitted", "no")).partition(";")[0].strip().lower()
    precedence = str(message.get("Precedence", "")).strip().lower()
    if submitted != "no" or precedence in ("bulk", "auto_reply", "junk", "list") or "X-Autoreply" in message:
        return "an automatic reply"
    if message.get_content_type() == "multipart/report" or str(message.get("Return-Path", "")).strip() == "<>":
        return "a report of a mail server"
    return None


def _find_token(message: EmailMessage) -> str | None:
    for name in TOKEN_HEADERS:
        for value in message.get_all(name, []):
            found = _TOKEN.search(str(value))
            if found is not None:
                return found.group().lower()
    return None


def _plain_text(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        content = part.get_content()
    except (LookupError, ValueError):  # a character set that is unknown or wrong
        payload = part.get_payload(decode=True)
        content = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    text = str(content)
    return _strip_tags(text) if part.get_content_subtype() == "html" else text


def _strip_tags(html: str) -> str:
    """Return the words of an HTML mail, without its quoted part."""
    from html import unescape

    own = re.split(r"<blockquote|class=\"?gmail_quote|id=\"?divRplyFwdMsg", html, maxsplit=1, flags=re.IGNORECASE)[0]
    own = re.sub(r"(?is)<(style|script|head)\b.*?</\1>", "", own)
    own = re.sub(r"(?i)<br\s*/?>|</(p|div|li|tr)>", "\n", own)
    return unescape(re.sub(r"<[^>]*>?", "", own))
