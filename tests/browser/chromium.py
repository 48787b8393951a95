"""Which browser there is, and how it is started: the machine's own, or the one that `make test` fetched."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

HOME = Path(sys.prefix) / "browser"
UNPACKED = HOME / "unpacked"
AXE = HOME / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome")
# As root there is no sandbox to be had; in a container /dev/shm is small; a proxy is for other hosts, and the page asks none: a request
# to another fails, which the console reports.
FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--lang=en-GB",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)


class BrowserMissing(Exception):
    """There is no browser in this environment, or not all that the tests need with it."""


def found() -> Path:
    if not AXE.exists():
        raise BrowserMissing("axe-core is not installed; `make test` fetches it")
    named = os.environ.get("POSTROOM_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), "")
    program = Path(named) if named else UNPACKED / "chromium"
    if not program.exists():
        raise BrowserMissing(f"there is no browser ({program}); `make test` fetches one")
    return program


def judge(name: str) -> Path:
    """A program that looks at the page's text."""
    program = HOME / "node_modules" / name
    if not program.exists():
        raise BrowserMissing(f"{name} is not installed; `make test` fetches it")
    return program


@contextmanager
def started(*flags: str) -> Iterator[Browser]:
    """A browser that keeps all it writes in a folder of its own: nobody's home is read or written."""
    program = found()
    with TemporaryDirectory(prefix="postroom-browser-") as home, sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {
            "PATH": "/usr/bin:/bin",
            "HOME": home,
            "TMPDIR": home,
            "LANG": "en_GB.UTF-8",
            "LANGUAGE": "en_GB",
            "TZ": "UTC",
        }
        if program.is_relative_to(UNPACKED):
            environment |= {"LD_LIBRARY_PATH": str(UNPACKED / "lib"), "FONTCONFIG_FILE": str(UNPACKED / "fonts.conf")}
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS, *flags], env=environment)
        yield browser
        browser.close()
