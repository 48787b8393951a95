"""The page of a link that opens one question. GET shows it and changes nothing, so that a preview of the link cannot answer. POST answers.

No sign-in is needed: the token of the link is a pass for this question and its person. A program posts JSON and gets JSON.
"""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from postroom._fastpath import json_text as jsontext
from postroom.core.errors import InvalidInput, InvalidState, NotFound, Refusal
from postroom.core.records.people import OPEN, Ask, Entry
from postroom.people.channels import links
from postroom.people.channels.content import describe_silence
from postroom.server.http.endpoint import check_fields, json_object
from postroom.server.http.responses import JsonResponse, refusal_response
from postroom.server.http.state import AppState
from postroom.server.http.static import plain_page

# Without `no-referrer`, which makes a browser send `Origin: null` with a form. Nothing of this page goes to another site.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}
INBOX_LINK = '<a href="/">Open your inbox</a>.'


async def serve_link(request: Request) -> Response:
    """Answer the question of a link if the request is a POST, else show it."""
    return await (answer_question(request) if request.method == "POST" else show_question(request))


async def show_question(request: Request) -> Response:
    """Show the question of a link with its choices as buttons."""
    state: AppState = request.app.state.app_state
    token = request.query_params.get("token", "")
    try:
        entry = await _find_entry(request, state, token)
    except Refusal as refusal:
        return _refusal_page(refusal)
    return _question_page(entry, token)


async def answer_question(request: Request) -> Response:
    """Answer the question of a link, from the form of its page or as JSON: `{"answer": "yes"}` or `{"decision": {"type": "approve"}}`."""
    state: AppState = request.app.state.app_state
    is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
    try:
        return await (_answer_json(request, state) if is_json else _answer_form(request, state))
    except Refusal as refusal:
        return refusal_response(refusal) if is_json else _refusal_page(refusal)


async def _find_entry(request: Request, state: AppState, token: str) -> Entry:
    """Return the entry of a link. Only links that do not work count towards the rate limit, so that nobody can lock a person out."""
    try:
        return (await state.store_access.read_current(lambda tx: links.find_question(tx, token)))[1]
    except NotFound:
        state.anonymous_limiter.check_rate(f"link {state.client_network(request)}")
        raise


async def _answer_json(request: Request, state: AppState) -> Response:
    token = request.query_params.get("token", "")
    await _find_entry(request, state, token)
    fields = check_fields(await json_object(request), answer=str, decision=dict, comment=bool)
    given = {"body": fields.get("answer", ""), "decision": fields.get("decision"), "comment": fields.get("comment", False)}
    answer = partial(links.answer_question_link, token=token, **given)
    result = await state.store_access.write(answer, "http")
    return JsonResponse({"ok": True, "questionId": result.entry.question_id, "answer": result.reply.body, "from": result.reply.person})


async def _answer_form(request: Request, state: AppState) -> Response:
    fields = await _read_form(request)
    token = fields.get("token", "")
    entry = await _find_entry(request, state, token)
    assert entry.ask is not None  # a link opens questions only
    choice = fields.get("choice")
    if choice is not None and choice not in entry.ask.choices:
        raise InvalidInput("this is not one of the choices", field="choice", hint="Go back, and choose again.")
    if choice is not None and choice in entry.ask.terms.get("dangerous", ()) and fields.get("confirmed") != "yes":
        return _confirmation_page(entry, token, choice)
    decision = _read_decision(fields)
    body = choice if choice is not None else fields.get("text", "")
    answer = partial(links.answer_question_link, token=token, body="" if decision else body, decision=decision, comment=choice is None)
    result = await state.store_access.write(answer, "web")
    body_html = f'<p class="given">{escape(result.reply.body)}</p><p>{escape(entry.agent)} gets your answer. {INBOX_LINK}</p>'
    return _page("Answered", f"<h1>Answered</h1>{body_html}")


async def _read_form(request: Request) -> dict[str, str]:
    try:
        given = parse_qs((await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=10, errors="strict")
    except ValueError:
        raise InvalidInput("the form cannot be read", field="body", hint="Go back, and try again.") from None
    return {name: values[-1].replace("\r\n", "\n") for name, values in given.items()}


def _read_decision(fields: dict[str, str]) -> dict[str, Any] | None:
    kind = fields.get("decision")
    if kind is None:
        return None
    return {"type": kind, **({"reason": fields.get("text", "")} if kind == "reject" else {})}


def _question_page(entry: Entry, token: str) -> Response:
    ask = entry.ask
    assert ask is not None  # a link opens questions only
    title, asker = escape(entry.shown_title), escape(entry.agent or entry.workspace_label)
    head = f'<p class="asker">{asker} asks {escape(ask.addressee)}</p><h1>{title}</h1>'
    text = f'<div class="text">{escape(entry.comments)}</div>' if entry.comments.strip() != entry.shown_title else ""
    if ask.state != OPEN:
        answer = f'<p class="given">{escape(ask.answer)}</p>' if ask.answer else ""
        closed = f"<p>This question is not open any more: {escape(ask.state)}.</p>{answer}<p>{INBOX_LINK}</p>"
        return _page(entry.shown_title, f"{head}{text}{closed}")
    return _page(entry.shown_title, f"{head}{text}{_proposal_html(ask)}{_silence_html(ask)}{_forms_html(ask, token)}")


def _proposal_html(ask: Ask) -> str:
    proposal = ask.terms.get("proposal")
    if proposal is None:
        return ""
    shown = proposal["text"] if "text" in proposal else f"{proposal['action']}\n{jsontext.dumps(proposal['args'])}"
    return f'<h2>Proposal</h2><div class="text">{escape(shown)}</div>'


def _silence_html(ask: Ask) -> str:
    if ask.deadline is None or ask.escalated_at is not None:
        return ""
    until = ask.deadline[:16].replace("T", " ")
    return f'<p class="silence">Answer by {until} UTC. Without an answer, {escape(describe_silence(ask))}.</p>'


def _forms_html(ask: Ask, token: str) -> str:
    """Return the form with the buttons, and the form for an answer in words."""
    if ask.terms.get("proposal") is not None:
        buttons = '<button class="primary" name="decision" value="approve">Approve</button>'
        reject = _textarea_html("Reason", '<button class="danger" name="decision" value="reject">Reject</button>')
        return _form_html(token, f'<div class="actions">{buttons}</div>') + _form_html(token, reject)
    dangerous = ask.terms.get("dangerous", ())
    buttons = "".join(
        f'<button class="{"danger" if choice in dangerous else "primary"}" name="choice" value="{escape(choice)}">{escape(choice)}</button>'
        for choice in ask.choices
    )
    words = _textarea_html("Or in your own words" if buttons else "Your answer", "<button>Send</button>")
    return (_form_html(token, f'<div class="actions">{buttons}</div>') if buttons else "") + _form_html(token, words)


def _form_html(token: str, fields: str) -> str:
    return f'<form method="post" action="/answer"><input type="hidden" name="token" value="{escape(token)}">{fields}</form>'


def _textarea_html(label: str, button: str) -> str:
    return f'<label for="text">{label}</label><textarea id="text" name="text"></textarea><div class="actions">{button}</div>'


def _confirmation_page(entry: Entry, token: str, choice: str) -> Response:
    sure = f'<input type="hidden" name="confirmed" value="yes"><input type="hidden" name="choice" value="{escape(choice)}">'
    form = _form_html(token, f'{sure}<div class="actions"><button class="danger">Yes, {escape(choice)}</button></div>')
    back = f'<p><a href="/answer?token={escape(token)}">No, go back</a></p>'
    return _page("Are you sure?", f'<p class="asker">{escape(entry.shown_title)}</p><h1>{escape(choice)}: are you sure?</h1>{form}{back}')


def _refusal_page(refusal: Refusal) -> Response:
    status = refusal_response(refusal).status_code
    title = "This link does not work any more" if isinstance(refusal, NotFound) else "This did not work"
    if isinstance(refusal, InvalidState):
        title = "This question is not open any more"
    return _page(title, f"<h1>{title}</h1><p>{escape(str(refusal)[:1].upper() + str(refusal)[1:])}. {INBOX_LINK}</p>", status)


def _page(title: str, body: str, status: int = 200) -> Response:
    return plain_page(escape(title), f'<main class="question-link">{body}</main>', status, HEADERS)
