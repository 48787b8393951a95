"""The files of the page. They are read once. Their address holds a hash of their content, so that browsers cache them for ever."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from postroom.server.http.responses import error_response

WEB_FOLDER = Path(__file__).parents[1] / "web"
CONTENT_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}
# The paths of the page. The router of the page reads the rest of a path.
PAGE_PATHS = (
    "/",
    "/inbox/{rest:path}",
    "/notices",
    "/notices/{rest:path}",
    "/threads",
    "/threads/{rest:path}",
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
        modules = [name for name in self.files if name.endswith(".js")]
        preloads = "\n".join(f'<link rel="modulepreload" href="/web/{self.version}/{name}">' for name in modules)
        page = self.files.pop("index.html").decode()
        self.page = page.replace("{version}", self.version).replace("<!-- modules -->", preloads).encode()


@cache
def web_folder() -> WebFolder:
    return WebFolder(WEB_FOLDER)


async def serve_page(request: Request) -> Response:
    """Serve the page. It needs no authentication: the page holds no data and requests them from the API."""
    return Response(web_folder().page, media_type="text/html")


async def serve_file(request: Request) -> Response:
    name, version = request.path_params["name"], request.path_params["version"]
    content = web_folder().files.get(name)
    if content is None or version != web_folder().version:
        return error_response("not_found", "there is no such file", "Load the page anew.", 404)
    return Response(content, media_type=CONTENT_TYPES[name[name.rfind(".") :]], headers=IMMUTABLE)
