"""Read a reply by e-mail: the token of the question that it answers, and the words of the person, without what is quoted. Pure."""

from __future__ import annotations

import re
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import EmailPolicy
from typing import TYPE_CHECKING, cast

from postroom.core import checks
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.limits import MAX_COMMENT_BYTES, MIB
from postroom.core.records import Record
from postroom.core.records.people import APPROVE, REJECT

if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.people import Ask

EMAIL_DOOR = "email"
# Anybody may send a mail, and the parsers of Python take minutes for some of a few KiB. The words of a reply are at its beginning: four
# times as many bytes as an answer may have hold it in every encoding, and attachments follow.
MAX_READ_BYTES = MIB
MAX_HEADER_CHARS = 2000
MAX_PARTS = 50
# The headers in which the token comes back: the address that was replied to, and the id of the message that was answered.
TOKEN_HEADERS = ("Delivered-To", "X-Original-To", "To", "Cc", "In-Reply-To", "References")
_TOKEN = re.compile(r"prq_[0-9a-f]{40}(?![0-9a-f])", re.IGNORECASE)
_QUOTE_INTRODUCTIONS = (
    re.compile(r"^(on|am|le|el|il|op)\b.{5,200}\b(wrote|schrieb|écrit|escribió|scritto|schreef)\b.{0,20}:\s*$", re.IGNORECASE),
    re.compile(r"^-{2,}\s*(original|forwarded|ursprüngliche)\b", re.IGNORECASE),
    re.compile(r"^_{10,}\s*$"),
    re.compile(r"^(from|von|de):\s.*@", re.IGNORECASE),
)
_HIDDEN_ELEMENT = re.compile(r"<(style|script|head)\b", re.IGNORECASE)
_HIDDEN_ELEMENT_ENDS = {name: re.compile(f"</{name}>", re.IGNORECASE) for name in ("style", "script", "head")}
_SIGNATURE = re.compile(r"^-- ?$")


class MailReply(Record):
    """A reply by e-mail. `ignored` is why it is no answer, such as a message of a vacation program."""

    token: str
    text: str
    ignored: str | None = None


class _BoundedPolicy(EmailPolicy):
    """The default policy, which parses only the beginning of a long header."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value[:MAX_HEADER_CHARS])


def parse_reply(data: bytes) -> MailReply:
    """Return the token and the text of a mail. Refuses with `NotFound` a mail without a token, and with `InvalidInput` an empty answer.

    Reads the beginning of a large mail. Refuses with `InvalidInput` a mail that cannot be read, and an answer that is too long.
    """
    beginning = data[:MAX_READ_BYTES]
    if beginning.lower().count(b"boundary=") + beginning.lower().count(b"message/rfc822") > MAX_PARTS:
        raise _unreadable_error()
    try:
        return _parse(beginning)
    except RecursionError:  # of Python's parser of headers
        raise _unreadable_error() from None


def _unreadable_error() -> InvalidInput:
    return InvalidInput("this mail cannot be read", field="mail", hint="Answer with a plain reply, or open your inbox.")


def _parse(data: bytes) -> MailReply:
    parser = BytesParser(_class=EmailMessage, policy=_BoundedPolicy())
    message = cast("EmailMessage", parser.parsebytes(data))
    ignored = _find_automatic(message)
    if ignored is not None:
        return MailReply("", "", ignored)
    token = _find_token(message)
    if token is None:
        raise NotFound("this mail replies to no question", hint="Reply to the message itself, and keep its address.")
    text = strip_quotes(_plain_text(message))
    if not text:
        raise InvalidInput("the answer is empty", field="mail", hint="Write the answer above what is quoted.")
    return MailReply(token, checks.text("mail", text, max_bytes=MAX_COMMENT_BYTES, hint="Answer in fewer words, or open your inbox."))


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
    headers = [(name.lower(), str(value)) for name, value in message.raw_items()]
    for wanted in TOKEN_HEADERS:
        for value in (value for name, value in headers if name == wanted.lower()):
            found = _TOKEN.search(value)
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
    own = _without_hidden_elements(own)
    own = re.sub(r"(?i)<br\s*/?>|</(p|div|li|tr)>", "\n", own)
    return unescape(re.sub(r"<[^>]*>?", "", own))


def _without_hidden_elements(html: str) -> str:
    """Return HTML without the elements whose content is not shown. One that does not end is left: its end is looked for once."""
    kept, position, endless = [], 0, set[str]()
    for start in _HIDDEN_ELEMENT.finditer(html):
        name = start[1].lower()
        if start.start() < position or name in endless:
            continue
        end = _HIDDEN_ELEMENT_ENDS[name].search(html, start.end())
        if end is None:
            endless.add(name)
            continue
        kept.append(html[position : start.start()])
        position = end.end()
    return "".join((*kept, html[position:]))
