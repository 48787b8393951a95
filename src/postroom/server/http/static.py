"""The files of the page. They are read once. Their address holds a hash of their content, so that browsers cache them for ever."""

from __future__ import annotations

import asyncio
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from postroom.server.http.compression import gzip_body
from postroom.server.http.responses import error_response

WEB_FOLDER = Path(__file__).parents[1] / "web"
CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
VENDOR_FOLDER = "vendor/"
# The frame in which diagrams are drawn: its library writes styles into its pictures. It runs no script but its own, and loads nothing.
DIAGRAM_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; font-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
}
IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}
# The paths of the page. The router of the page reads the rest of a path.
PAGE_PATHS = (
    "/",
    "/inbox/{rest:path}",
    "/questions",
    "/questions/{rest:path}",
    "/notices",
    "/notices/{rest:path}",
    "/threads",
    "/threads/{rest:path}",
    "/tasks",
    "/tasks/{rest:path}",
    "/runs",
    "/runs/{rest:path}",
    "/mailboxes",
    "/mailboxes/{rest:path}",
    "/queues",
    "/agents",
    "/settings",
)


class WebFolder:
    """The files of the page, in memory. `version` is a hash of all files and a part of their address."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.suffix in CONTENT_TYPES)
        self.files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self.version = sha256(b"".join(name.encode() + data for name, data in self.files.items())).hexdigest()[:16]
        modules = [name for name in self.files if name.endswith(".js") and not name.startswith(VENDOR_FOLDER) and name != "sw.js"]
        preloads = "\n".join(f'<link rel="modulepreload" href="/web/{self.version}/{name}">' for name in modules)
        page = self.files.pop("index.html").decode()
        self.page = page.replace("{version}", self.version).replace("<!-- modules -->", preloads).encode()
        self._compressed: dict[str, bytes] = {}

    def compressed_file(self, name: str) -> bytes:
        """Return a file as gzip, compressed once."""
        if name not in self._compressed:
            self._compressed[name] = gzip_body(self.files[name], level=6)
        return self._compressed[name]

    def with_version(self, name: str) -> bytes:
        """Return a file in which `{version}` stands for the version of the page."""
        return self.files[name].replace(b"{version}", self.version.encode())


@cache
def web_folder() -> WebFolder:
    return WebFolder(WEB_FOLDER)


async def serve_page(request: Request) -> Response:
    """Serve the page. It needs no authentication: the page holds no data and requests them from the API."""
    return Response(web_folder().page, media_type="text/html")


async def serve_file(request: Request) -> Response:
    name, version = request.path_params["name"], request.path_params["version"]
    folder = web_folder()
    if name not in folder.files or version != folder.version:
        return error_response("not_found", "there is no such file", "Load the page anew.", 404)
    suffix = name[name.rfind(".") :]
    headers = IMMUTABLE | (DIAGRAM_HEADERS if name == f"{VENDOR_FOLDER}diagram.html" else {})
    if suffix in (".js", ".css") and "gzip" in request.headers.get("accept-encoding", ""):
        body = await asyncio.to_thread(folder.compressed_file, name)
        return Response(body, media_type=CONTENT_TYPES[suffix], headers={**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    return Response(folder.files[name], media_type=CONTENT_TYPES[suffix], headers=headers)


async def serve_service_worker(request: Request) -> Response:
    """Serve the script that makes the page installable. Its address stays the same, so that a browser finds its next version."""
    return Response(web_folder().with_version("sw.js"), media_type="text/javascript", headers={"Cache-Control": "no-cache"})


async def serve_manifest(request: Request) -> Response:
    return Response(
        web_folder().with_version("app.webmanifest"), media_type="application/manifest+json", headers={"Cache-Control": "no-cache"}
    )


def wants_page(request: Request) -> bool:
    """Return whether a person followed a link, and not a program an address of the API."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(("/api/", "/mcp/", "/web/"))


def message_page(title: str, text: str, status: int) -> HTMLResponse:
    """Return a page of a few words in the look of the page. `text` is HTML of ours."""
    return plain_page(title, f'<main class="empty"><h1>{title}</h1><p>{text}</p></main>', status)


def plain_page(title: str, body: str, status: int, headers: dict[str, str] | None = None) -> HTMLResponse:
    """Return a page without scripts in the look of the page. `title` and `body` are HTML."""
    return HTMLResponse(_PLAIN_PAGE.format(version=web_folder().version, title=title, body=body), status, headers)


def not_found_page() -> HTMLResponse:
    return message_page("There is nothing here", 'The address is not one of this page. <a href="/">Go to the inbox</a>.', 404)


_PLAIN_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} · Postroom</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="/web/{version}/favicon.svg" type="image/svg+xml"><link rel="stylesheet" href="/web/{version}/style/base.css">
<link rel="stylesheet" href="/web/{version}/style/answer.css"></head>
<body>{body}</body></html>"""
