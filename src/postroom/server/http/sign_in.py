"""Sign-in and sign-out. A link that works once is exchanged for a session.

Half of the session's token is a cookie, which scripts of the page cannot read. The other half, the page key, is kept by the page and sent
as a header. Pages on other ports of the host get the cookie, and cannot read the key.
"""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from postroom.core.errors import NotFound, Refusal
from postroom.people.access import passes
from postroom.server.http.auth import Caller, cookie_name, read_token, split_session_token
from postroom.server.http.responses import refusal_response
from postroom.server.http.state import AppState
from postroom.server.http.static import message_page


async def sign_in(request: Request) -> Response:
    """Redeem the token of a sign-in link, once, and begin the session of the person that it was made for.

    Only links that do not work count towards the rate limit, so that nobody can lock a person out.
    """
    state: AppState = request.app.state.app_state
    token = request.query_params.get("token", "")
    try:
        if await state.store_access.read(lambda tx: passes.find_person(tx, token, (passes.LINK,))) is None:
            state.anonymous_limiter.check_rate(f"sign-in {state.client_network(request)}")
        session = await state.store_access.write(partial(passes.redeem, token=token), "web")
    except NotFound as refusal:
        text = f"{str(refusal).capitalize()}. Make a new one with <code>inbox sign-in</code>."
        return message_page("This link does not work any more", text, 404)
    except Refusal as refusal:
        return refusal_response(refusal)
    cookie, page_key = split_session_token(session.token)
    response = RedirectResponse(f"/#key={page_key}", 303)  # a browser never sends a fragment anywhere, and the page removes it
    name, max_age = cookie_name(request.headers), int(passes.SESSION_SECONDS)
    response.set_cookie(name, cookie, max_age=max_age, path="/", secure=state.secure, httponly=True, samesite="strict")
    return response


async def sign_out(request: Request, state: AppState, caller: Caller) -> Response:
    """Revoke the session or the token that the request came with."""
    token = read_token(request.headers)
    if token is not None:
        await state.store_access.write(partial(passes.revoke, token=token[0]), caller.door)
    response = Response(status_code=204)
    response.delete_cookie(cookie_name(request.headers), path="/")
    return response
