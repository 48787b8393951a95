"""Sign-in and sign-out. A link that works once is exchanged for a session cookie that scripts of the page cannot read."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postroom.core.errors import NotFound, Refusal
from postroom.people import passes
from postroom.server.http.auth import SESSION_COOKIE, Caller, read_token
from postroom.server.http.responses import JsonResponse, refusal_response
from postroom.server.http.state import AppState

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Postroom</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>"""


async def sign_in(request: Request) -> Response:
    """Redeem the token of a sign-in link, once, and set the session cookie of the person that it was made for."""
    state: AppState = request.app.state.app_state
    try:
        state.anonymous_limiter.check_rate(f"sign-in {state.client_address(request)}")
        session = await state.store_access.write(partial(passes.redeem, token=request.query_params.get("token", "")), "web")
    except NotFound as refusal:
        text = f"{refusal}. Make a new one with <code>inbox sign-in</code>."
        return HTMLResponse(_PAGE.format(title="This link does not work any more", text=text), 404)
    except Refusal as refusal:
        return refusal_response(refusal)
    response = RedirectResponse("/", 303)
    max_age = int(passes.SESSION_SECONDS)
    response.set_cookie(SESSION_COOKIE, session.token, max_age=max_age, path="/", secure=state.secure, httponly=True, samesite="strict")
    return response


async def sign_out(request: Request, state: AppState, caller: Caller) -> Response:
    """Revoke the session or the token that the request came with."""
    token = read_token(request.headers)
    if token is not None:
        await state.store_access.write(partial(passes.revoke, token=token[0]), caller.door)
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


async def serve_health(request: Request) -> Response:
    return JsonResponse({"ok": True})
