"""The page: a folder of files that a browser runs as they are. Read once, named by what is in them, and kept by browsers for good."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from postroom.server.answers import said

FOLDER = Path(__file__).parent / "web"
KINDS = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}
# Where the page is shown; what follows is for its own router.
PLACES = (
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


class Folder:
    """The files, in memory. Their version is in their address: another version is another address."""

    def __init__(self, folder: Path) -> None:
        names = sorted(path for path in folder.rglob("*") if path.suffix in KINDS)
        self.files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in names}
        self.version = sha256(b"".join(name.encode() + data for name, data in self.files.items())).hexdigest()[:16]
        modules = [name for name in self.files if name.endswith(".js")]
        early = "\n".join(f'<link rel="modulepreload" href="/web/{self.version}/{name}">' for name in modules)
        page = self.files.pop("index.html").decode()
        self.page = page.replace("{version}", self.version).replace("<!-- modules -->", early).encode()


@cache
def folder() -> Folder:
    return Folder(FOLDER)


async def page(request: Request) -> Response:
    """The same page at each of its places, whoever asks: what it shows, it has to ask for."""
    return Response(folder().page, media_type="text/html")


async def file(request: Request) -> Response:
    name, version = request.path_params["name"], request.path_params["version"]
    found = folder().files.get(name)
    if found is None or version != folder().version:
        return said("not_found", "there is no such file", "Load the page anew.", 404)
    return Response(found, media_type=KINDS[name[name.rfind(".") :]], headers=FOR_GOOD)
