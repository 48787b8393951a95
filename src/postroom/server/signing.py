"""Signing in and out: a link that works once becomes a cookie that scripts of the page cannot read."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postroom.core.errors import NotFound, Refusal
from postroom.people import passes
from postroom.server.answers import Json, refused
from postroom.server.callers import COOKIE, Caller, token_of
from postroom.server.requests import Office

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Postroom</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>"""


async def sign_in(request: Request) -> Response:
    """Whoever has the link is the person that it was made for, once."""
    office: Office = request.app.state.office
    try:
        office.strangers.take(f"sign-in {office.address(request)}")
        session = await office.desk.write(partial(passes.redeem, token=request.query_params.get("token", "")), "web")
    except NotFound as refusal:
        text = f"{refusal}. Make a new one with <code>inbox sign-in</code>."
        return HTMLResponse(_PAGE.format(title="This link does not work any more", text=text), 404)
    except Refusal as refusal:
        return refused(refusal)
    response = RedirectResponse("/", 303)
    age = int(passes.SESSION_SECONDS)
    response.set_cookie(COOKIE, session.token, max_age=age, path="/", secure=office.secure, httponly=True, samesite="strict")
    return response


async def sign_out(request: Request, office: Office, caller: Caller) -> Response:
    """The session, or the token, is void from now on."""
    brought = token_of(request.headers)
    if brought is not None:
        await office.desk.write(partial(passes.revoke, token=brought[0]), caller.door)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/")
    return response


async def health(request: Request) -> Response:
    return Json({"ok": True})
