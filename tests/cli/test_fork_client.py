"""A command that is forked by a process which has imported it already is what it is as a new interpreter."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import fork_client, fork_server
from tests.cli.fork_client import wait_until_readable
from tests.cli.process import LIMIT, Finished, Inbox, eventually, installed, module
from tests.cli.transcript import PROGRAMS

# A command line that a command of ours runs reports on itself and on that command, which is $PPID, once a thread of it waits for us.
LOOK = """
until grep -q '^Threads:.2$' /proc/$PPID/status; do sleep 0.01; done
look() {
  grep -E '^(Umask|Threads|Sig...|Shd...|Cap...|NoNewPrivs|Seccomp):' $1/status; readlink $1/cwd $1/exe; sed 's/^/limit /' $1/limits
}
{ env | grep -vE '^(MAILBOX_|INBOX_WATCHDOG_FD=)'; pwd; umask; look /proc/$PPID; look /proc/$$; } | sort
for file in /proc/$PPID/fd/*; do readlink "$file"; done | sed -E 's/[0-9]+|[(]deleted[)]//g' | sort
"""
SILENT = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from tests.cli import fork_server
def state():
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    files = {file: os.readlink(f"/proc/self/fd/{file}") for file in (0, 1, 2)}, len(os.listdir("/proc/self/fd"))
    return dict(os.environ), os.getcwd(), handlers, masked, files, threading.enumerate(), sys.flags, sys.path[:], os.listdir()
before = state()
fork_server.import_all(*sys.argv[2:])
assert state() == before, (before, state())
assert len([name for name in sys.modules if name.startswith("postroom.")]) > 80
assert not {*sys.modules} & {*sys.argv[2:]}
"""


def _both(folder: Path, name: str, *argv: str | bytes, stdin: bytes = b"", as_module: bool = False) -> tuple[Finished, Finished]:
    """How a command ends that is forked, and how it ends as a new interpreter."""
    program, environment = (module if as_module else installed)(name), Inbox(folder).environment()
    one, other = (program.run(argv, folder=folder, environment=environment, stdin=stdin, cold=cold) for cold in (False, True))
    return one, other


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("argv", [("--help",), ("nonsense",), ("--json", "nonsense"), (b"caf\xe9", "ü"), ()], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_says_the_same_and_ends_alike(tmp_path: Path, name: str, argv: tuple[str | bytes, ...], as_module: bool) -> None:
    forked, new = _both(tmp_path, name, *argv, as_module=as_module)
    assert (forked.code, forked.raw, forked.stderr) == (new.code, new.raw, new.stderr)


@pytest.mark.parametrize("as_module", [False, True])
def test_it_is_a_process_like_any_other(inbox: Inbox, as_module: bool) -> None:
    """Its folder, environment, files, signals, masks, rights and limits, and those of what it starts."""
    seen = []
    for name in ("warm", "cold"):
        environment = inbox.environment(INBOX_EXTRA="ü", COLUMNS="60")
        program = module("mailbox") if as_module else installed("mailbox")
        sent = program.run(["enqueue", "--from", "a", "--to", "box", "--payload", "x"], folder=inbox.folder, environment=environment)
        assert sent.code == 0, sent
        look = ["deliver", "--session", "box", "--once", "--command", f"exec > {name}; {LOOK}"]
        looked = program.run(look, folder=inbox.folder, environment=environment, cold=name == "cold")
        assert looked.code == 0, looked
        seen.append((inbox.folder / name).read_text().replace(name, "warm"))
    assert seen[0] == seen[1]
    assert seen[0].count("\n") > 60


def test_it_reads_and_writes_more_than_a_pipe_holds(inbox: Inbox) -> None:
    thread, body = inbox.send(), b"x" * 1_000_000
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--body-file", "-", stdin=body)
    assert inbox.ok("show", "--thread", thread)["messages"][-1]["body"] == body.decode()


def test_what_it_does_not_read_is_no_failure(inbox: Inbox) -> None:
    assert inbox.run("list", stdin=b"x" * 1_000_000).code == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_refusals_and_pages_of_one_process_are_those_of_processes_of_their_own(tmp_path: Path, name: str) -> None:
    lines = [("--help",), ("nonsense",), ("--json", "nonsense"), (b"caf\xe9", "ü"), ()]
    program, environment = installed(name), Inbox(tmp_path).environment()
    alone = [program.run(line, folder=tmp_path, environment=environment, stdin=b"unread") for line in lines]
    together = program.run_each(lines, folder=tmp_path, environment=environment, stdin=b"unread")
    assert [vars(one) for one in together] == [vars(one) for one in alone]


def test_each_of_one_process_reads_the_same_from_the_beginning(inbox: Inbox) -> None:
    line = ("send", "--from", "leader", "--to", "", "--subject", "S", "--body-file", "-")
    assert len({(one.code, one.stderr) for one in inbox.run_each(line, line, stdin=b"x" * 100_000)}) == 1


def test_what_a_started_one_writes_is_read_once_it_has_ended(inbox: Inbox) -> None:
    waiting = inbox.start("watch", "--agent", "builder", "--timeout-seconds", "60", "--json").sleeping()
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.process.communicate(timeout=0.01)
    inbox.send()
    finished = waiting.finish()
    assert (finished.code, finished.json["ok"], finished.stderr) == (0, True, "")


def test_it_is_ended_when_it_takes_too_long(inbox: Inbox) -> None:
    argv = ["watch", "--after-event", "0"]
    with pytest.raises(subprocess.TimeoutExpired):
        fork_client.server(argv).run(("inbox", "inbox", ""), argv, cwd=inbox.folder, env=inbox.environment(), input=b"", timeout=0.2)
    eventually(lambda: str(inbox.folder) not in _folders())


def test_a_program_that_is_started_is_told_and_tells_what_any_other_is(tmp_path: Path) -> None:
    program = "import os, sys\nprint(sys.argv, os.getcwd(), sys.stdin.read(), __name__, sys.path[0] in ('', os.getcwd()))\nsys.exit(7)"
    said = []
    for cold in (False, True):
        (tmp_path / "given").write_text("some words")
        with (tmp_path / "given").open() as given, (tmp_path / "told").open("w") as told:
            started = (
                subprocess.Popen([sys.executable, "-c", program, "a", "ü"], stdin=given, stdout=told, cwd=tmp_path)
                if cold
                else fork_client.python(program, "a", "ü", cwd=tmp_path, stdin=given.fileno(), stdout=told.fileno())
            )
        said.append((started.wait(LIMIT), started.poll(), (tmp_path / "told").read_text()))
    assert said[0] == said[1]
    assert said[0][:2] == (7, 7)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_server_that_is_forked_runs_until_a_signal_ends_it(inbox: Inbox, number: signal.Signals, code: int) -> None:
    out, log = inbox.folder / "out", inbox.folder / "log"
    with out.open("wb") as stdout, log.open("wb") as stderr:
        streams = {"stdout": stdout.fileno(), "stderr": stderr.fileno()}
        server = installed("inbox").start(
            ["serve", "--port", "0", "--json"], folder=inbox.folder, environment=inbox.environment(), **streams
        )
    assert isinstance(server, fork_client.Forked)
    eventually(lambda: out.read_text().endswith("\n"))
    assert server.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0)
    server.send_signal(number)
    assert (server.wait(LIMIT), server.poll(), server.returncode, log.read_text()) == (code, code, code, "")
    server.kill()  # which has ended: nobody is killed


def _folders() -> set[str]:
    """Where each process of this machine stands."""
    found = set()
    for process in Path("/proc").glob("[0-9]*/cwd"):
        try:
            found.add(os.readlink(process))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


@pytest.mark.parametrize("without", [(), (fork_client.SERVER,), fork_client.HEAVY])
def test_what_it_is_forked_from_has_only_imported(tmp_path: Path, without: tuple[str, ...]) -> None:
    root = str(Path(fork_server.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SILENT, root, *without], cwd=tmp_path, env=fork_client.START, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["LC_ALL", "LC_CTYPE", "LANGUAGE", "TZ", "PYTHONPATH", "PYTHONUTF8", "LD_PRELOAD", "TMPDIR", "PGHOST"])
def test_what_an_interpreter_or_a_library_may_read_as_it_starts_is_started_cold(bare: Inbox, name: str) -> None:
    assert fork_client.suits(["list"], bare.environment(INBOX_AGENT="a", NO_COLOR="1"))
    assert not fork_client.suits(["list"], bare.environment(**{name: ""}))
    assert not fork_client.suits(["list"], bare.environment(LANG="C"))
    assert not fork_client.suits(["list", "x" * fork_client.LARGEST], bare.environment())


def test_a_file_with_a_high_number_can_be_waited_for() -> None:
    """`select` refuses descriptors above 1023."""
    read, write = os.pipe()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    high = fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, min(1500, limit - 1))
    os.write(write, b"x")
    with open(high, "rb", buffering=0) as file:
        assert wait_until_readable([file], 0) == [file]
        file.read(1)
        assert wait_until_readable([file], 0) == []
    os.close(read)
    os.close(write)
