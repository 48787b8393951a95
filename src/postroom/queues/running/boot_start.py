"""Start the runner with the machine: a systemd unit of the user, or a line in the crontab where there is no systemd.

`notifier install` and `notifier uninstall` call it. Without it, timers and unread events wait after a reboot for the next command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from postroom.core.errors import InvalidInput, InvalidState, NotFound, StorageFailure
from postroom.core.text import shell_quote
from postroom.store.files.private_files import write_private_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEMD, CRON = "systemd", "cron"
UNIT_NAME = "postroom-notifier.service"
CRON_MARK = "# postroom-notifier"
_PASSED_NAMES = ("NOTIFIER_HOME", "XDG_STATE_HOME", "NOTIFIER_IDLE_SECONDS", "THREAD_BACKOFF_SECONDS", "INBOX_LIMITS", "INBOX_SAFE")
_TIMEOUT_SECONDS = 30.0


def install(method: str | None = None) -> tuple[str, str]:
    """Start a runner with the machine from now on. Return the method, and where it was written: the path of the unit, or the line.

    `method` is `systemd` or `cron`. Without it, the one that this machine has. Refuses with `InvalidState` if it has none.
    """
    if method not in (None, SYSTEMD, CRON):
        raise InvalidInput(f"with cannot be {method!r}", field="with", hint="Choose systemd or cron.")
    method = method or _find_method()
    if method == SYSTEMD:
        _link_unit(write_unit(unit_path(), format_unit(os.environ)))
        _call_systemctl("daemon-reload", "restart")
        return method, unit_path()
    line = format_cron_line(os.environ)
    _write_crontab([*_read_other_lines(), line])
    return method, line


def uninstall() -> tuple[str, ...]:
    """Undo `install`, with both methods, and return what was removed. Refuses with `NotFound` if nothing was installed."""
    removed = []
    if os.path.lexists(unit_path()):
        _call_systemctl("stop")
        for path in (_link_path(), unit_path()):
            if os.path.lexists(path):
                os.unlink(path)
        _call_systemctl("daemon-reload")
        removed.append(unit_path())
    if shutil.which("crontab"):
        lines = _call_crontab("-l", "").splitlines()
        ours = [line for line in lines if line.endswith(CRON_MARK)]
        if ours:
            _write_crontab([line for line in lines if line not in ours])
            removed += ours
    if not removed:
        raise NotFound("the notifier is not installed", hint="There is nothing to undo; `notifier install` installs it.")
    return tuple(removed)


def unit_path() -> str:
    """Return the path of the unit of this user."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "systemd", "user", UNIT_NAME)


def format_unit(environment: Mapping[str, str]) -> str:
    """Return the text of the unit."""
    variables = [f"{name}={environment[name]}" for name in ("PATH", *_PASSED_NAMES) if environment.get(name)]
    return "\n".join(
        (
            "[Unit]",
            "Description=Postroom notifier: timers, and the handlers of event queues",
            "",
            "[Service]",
            f"ExecStart={' '.join(map(_quote_for_unit, (*program(), 'run')))}",
            *(f"Environment={_quote_for_unit(variable)}" for variable in variables),
            "KillMode=process",  # the handlers of a runner that is killed go on, and the next one finds them
            "Restart=on-failure",
            "RestartSec=5",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        )
    )


def format_cron_line(environment: Mapping[str, str]) -> str:
    """Return the line of the crontab. A % would end the command there, so it is escaped."""
    variables = [f"{name}={shell_quote(environment[name])}" for name in _PASSED_NAMES if environment.get(name)]
    command = " ".join([*variables, *map(shell_quote, program()), "start"])
    return f"@reboot {command.replace('%', chr(92) + '%')} > /dev/null {CRON_MARK}"


def program() -> tuple[str, ...]:
    """Return how to start this `notifier`, by absolute paths."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script) == "notifier" and os.access(script, os.X_OK):
        return (script,)
    return sys.executable, "-P", "-m", "postroom.cli.notifier"


def write_unit(path: str, text: str) -> str:
    try:
        write_private_file(path, text)
    except OSError as error:
        raise StorageFailure(f"{path} cannot be written: {error.strerror}", hint="Check the folder, or set XDG_CONFIG_HOME.") from None
    return path


def _link_path() -> str:
    return os.path.join(os.path.dirname(unit_path()), "default.target.wants", UNIT_NAME)


def _link_unit(path: str) -> None:
    """Do what `systemctl --user enable` does, which needs no running systemd this way."""
    link = _link_path()
    os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
    if not os.path.lexists(link):
        os.symlink(path, link)


def _find_method() -> str:
    if os.path.isdir("/run/systemd/system") and shutil.which("systemctl"):
        return SYSTEMD
    if shutil.which("crontab"):
        return CRON
    hint = "Let something else run `notifier start` when the machine starts, or write the unit anyway: --with systemd."
    raise InvalidState("this machine has neither a running systemd nor a crontab", hint=hint)


def _call_systemctl(*verbs: str) -> None:
    """Call systemctl for the unit, if there is one. Failures are ignored: without a session bus, the unit is read at the next login.

    It does not wait until the runner has ended: the runner waits for its handlers.
    """
    if shutil.which("systemctl"):
        for verb in verbs:
            words = ["systemctl", "--user", verb, *([] if verb == "daemon-reload" else ["--no-block", UNIT_NAME])]
            subprocess.run(words, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)  # noqa: S603


def _read_other_lines() -> list[str]:
    return [line for line in _call_crontab("-l", "").splitlines() if not line.endswith(CRON_MARK)]


def _write_crontab(lines: list[str]) -> None:
    _call_crontab("-", "".join(f"{line}\n" for line in lines))


def _call_crontab(argument: str, text: str) -> str:
    try:
        done = subprocess.run(["crontab", argument], input=text, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)  # noqa: S603, S607
    except OSError as error:
        raise InvalidState(f"crontab cannot be run: {error.strerror}", hint="Choose --with systemd.") from None
    if done.returncode and argument != "-l":  # -l fails if the user has no crontab yet
        raise StorageFailure(f"crontab failed: {done.stderr.strip()}", hint="Check whether you may use it: /etc/cron.allow.")
    return done.stdout


def _quote_for_unit(word: str) -> str:
    """Return a word in quotation marks. A $ has no meaning in the path of a program, nor in Environment=, where `$$` would stay two."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
