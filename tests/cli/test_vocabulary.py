"""One vocabulary: a meaning has one flag in all four programs. An older name is an alias that help does not show."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator

from postroom.cli.framework.parser import parse
from postroom.cli.framework.spec import NUMBER, Flag
from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.cli.notifier.spec import NOTIFIER
from postroom.cli.thread.spec import THREAD

PROGRAMS = (INBOX, MAILBOX, THREAD, NOTIFIER)

# Every flag, by what its value is. A new flag is added to the meaning that it has, and then the test names the flag that is there already.
MEANINGS = {
    "the store": "--db",
    "who the caller is": "--agent",
    "who sends, if it may be another one than the caller": "--from",
    "who receives": "--to",
    "a person": "--person",
    "a person who is asked next": "--escalate-to",
    "who created a thread": "--created-by",
    "who is assigned to a thread": "--assigned-to",
    "an address of an event": "--source",
    "a mailbox": "--session",
    "a reader of a queue": "--consumer",
    "a skill": "--skill",
    "a thread, or the queue of the command `thread`": "--thread",
    "a task": "--task",
    "a task above": "--parent",
    "a command of the notifier": "--task-id",
    "a timer": "--timer-id",
    "a run": "--run",
    "runs to keep": "--keep-runs",
    "a job": "--job",
    "a sheet": "--sheet",
    "a message": "--msg-id",
    "an entry": "--entry",
    "an entry that gets a part": "--add-to",
    "an entry that ends a page": "--before",
    "a message that ends what was read": "--after-message",
    "an event of the store, exclusive": "--after-event",
    "an event of the store that ends a page": "--before-event",
    "the newest event of a queue that is done": "--last-event-id",
    "an event of a queue": "--event-id",
    "a page, by its cursor": "--after",
    "a workspace": "--workspace",
    "a process": "--owner",
    "a program of agents": "--harness",
    "the exit code that wakes an agent": "--wake-status",
    "the question: its text, or its id": "--question",
    "makes a retry safe": "--key",
    "a lease, by its token": "--lease-token",
    "a delivery, by its token": "--delivery-token",
    "in one line": "--summary",
    "what it is about": "--subject",
    "the heading of an entry": "--title",
    "the name that people see": "--label",
    "the whole text": "--body",
    "the text of a document's entry (document 002)": "--comments",
    "the text of an event (document 001)": "--content",
    "the text of a mail (document 004)": "--payload",
    "the text of a task or a card (document 003)": "--description",
    "why": "--reason",
    "the answers of a sheet": "--answers",
    "data for programs": "--payload-json",
    "the data of a task's result (document 003)": "--artifacts-json",
    "the data of a task (document 003)": "--context-json",
    "a file as a reference": "--artifact",
    "the kind of artifacts": "--artifact-kind",
    "the data of artifacts": "--artifact-metadata-json",
    "a file of a workspace": "--doc",
    "a whole message": "--message-file",
    "many at once": "--batch",
    "the output of `pop`": "--events",
    "the kind": "--kind",
    "kinds to wait for": "--kinds",
    "the type of an event (document 001)": "--type",
    "the subtype of an event": "--subtype",
    "the state": "--status",
    "the urgency": "--priority",
    "an offered answer": "--choice",
    "an offered answer that needs a confirmation": "--dangerous",
    "the answer that silence gives": "--default",
    "what silence means": "--on-silence",
    "the answer that exits with 0": "--expect",
    "what is printed": "--print",
    "a text to approve": "--propose",
    "an action to approve": "--propose-json",
    "the shell command": "--command",
    "the shell command of a consumer (document 001)": "--handler",
    "the shell command of a session": "--focus",
    "without that command": "--no-focus",
    "what does it": "--with",
    "a condition on events": "--filter",
    "words to look for": "--search",
    "a time table": "--cron",
    "a time zone": "--time-zone",
    "hours without messages": "--quiet",
    "the time of the digest": "--digest-at",
    "an instant": "--until",
    "the Unix time of a mail (document 004)": "--created-at",
    "how many rows": "--limit",
    "how many at the same time": "--jobs",
    "how many turns": "--turns",
    "how many tries again": "--retries",
    "how many runs until an event is set aside, 0 for any number": "--max-tries",
    "how many characters": "--budget",
    "how many requests": "--max-requests-per-second",
    "how many MiB": "--max-mib-per-minute",
    "how many event streams": "--max-listeners",
    "how many sockets": "--max-sockets",
    "how many waiting calls": "--max-waits",
    "when to give up": "--timeout-seconds",
    "how long a lease lasts": "--lease-seconds",
    "how long from now": "--for-seconds",
    "the pause before a retry": "--backoff-seconds",
    "the pause before a retry of mail (document 004)": "--base-backoff-seconds",
    "how long a delivery is in flight": "--inflight-timeout-seconds",
    "how long a mail lives": "--ttl-seconds",
    "when silence counts": "--deadline-seconds",
    "how long an alert waits": "--delay-seconds",
    "how long before a deadline": "--remind-seconds",
    "how long ago something ended": "--older-than",
    "how long the texts of ended mail stay": "--keep-days",
    "as the policy of the store says": "--by-policy",
    "a group of the system": "--shared",
    "a variable that is passed on": "--env",
    "a variable with the secret": "--secret-env",
    "a file with the secret": "--secret-file",
    "what a token may see": "--scope",
    "what a channel sends": "--sends",
    "a mail server": "--smtp",
    "where replies go": "--reply-to",
    "the address of the server": "--url",
    "a host to listen on": "--host",
    "a host name that is accepted": "--allow-host",
    "a port": "--port",
    "a socket": "--uds",
    "no TCP": "--no-tcp",
    "a certificate": "--tls-cert",
    "a key of a certificate": "--tls-key",
    "TLS ends at a proxy": "--behind-proxy",
    "without TLS": "--allow-plain",
    "the folder of the server's files": "--data",
    "the folder of a skill": "--install",
    "a file to write": "--to-file",
    "the form of a file": "--format",
    "the form of a log": "--log-format",
    "how much is logged": "--log-level",
}
# Switches: what they do.
SWITCHES = {
    "JSON": "--json",
    "help": "--help",
    "help with examples": "--verbose",
    "all of them": "--all",
    "one is enough": "--any",
    "only one": "--once",
    "only unread ones": "--unread",
    "also read ones": "--include-read",
    "record as read": "--mark-read",
    "only done ones": "--done",
    "only acked ones": "--acked",
    "only snoozed ones": "--snoozed",
    "only pinned ones": "--pinned",
    "only questions": "--questions",
    "only notices": "--notices",
    "questions by their deadline": "--urgent",
    "approve": "--approve",
    "reject": "--reject",
    "in other words": "--comment",
    "sleep until there is one": "--wait",
    "do not wait": "--no-wait",
    "live in the terminal": "--watch",
    "end when nothing is left": "--until-empty",
    "take the next one, too": "--take-next",
    "take a lease of one's own": "--takeover",
    "refuse an unknown receiver": "--strict",
    "show what would happen, and change nothing": "--dry-run",
    "replace what is there": "--replace",
    "take it back": "--undo",
    "revoke": "--revoke",
    "remove a name": "--remove",
    "stop a policy": "--off",
    "without a timer": "--no-timer",
    "prove each part": "--check",
    "repair": "--fix",
    "send and measure": "--roundtrip",
    "keep a turn open": "--hold",
    "settings of the user": "--user",
    "settings of the folder": "--project",
    "with the queues": "--with-queues",
    "a demo": "--demo",
    "for work on the page": "--dev",
}
# The names that are still accepted, and where they come from: a document, or the release 0.1.0.
ALIASES = {
    "--author": "document 001",
    "--base-backoff-secs": "0.1.0",
    "--inflight-timeout-secs": "0.1.0",
    "--ttl-secs": "0.1.0",
    "--max-retries": "0.1.0",
    "--receiver": "0.1.0",
    "--seconds": "0.1.0",
    "--timezone": "0.1.0",
    "--rate": "0.1.0",
    "--force": "0.1.0",
    "--text": "0.1.0",
    "--text-file": "0.1.0",
    "--plan": "the task of `harness connect`",
}
UNITS = re.compile(r"\b(seconds|minutes|hours|days|MiB)\b")
WITH_UNIT = re.compile(r"-(seconds|minutes|hours|days|per-second|per-minute)$")


def _flags() -> Iterator[tuple[str, Flag]]:
    """Yield each flag of each command of each program."""
    for program in PROGRAMS:
        yield from ((program.name, flag) for flag in program.flags)
        yield from ((f"{program.name} {name}", flag) for name, command in program.commands.items() for flag in command.flags)


SHELL_WORDS = {"|", "<", ">", ">>", "&", "&&", ";", "||"}


def test_every_flag_is_in_the_vocabulary_and_no_word_of_it_is_unused() -> None:
    known = {*MEANINGS.values(), *SWITCHES.values()}
    files = {"--context-file": "--context-json"}  # `--X-file` gives X from a file
    used = {name if name in known else files.get(name, name.removesuffix("-file")) for name in {flag.name for _, flag in _flags()}}
    assert used - known == set(), "use a flag of the vocabulary, or add what is really new"
    assert known - used == set()


def test_a_meaning_has_one_flag() -> None:
    flags = [*MEANINGS.values(), *SWITCHES.values()]
    assert len(flags) == len(set(flags)), "one flag stands for two meanings"
    by_help: defaultdict[str, set[str]] = defaultdict(set)
    for _, flag in _flags():
        if not flag.help.startswith("the same"):
            by_help[flag.help].add(flag.name)
    said_alike = {text: names for text, names in by_help.items() if len(names) > 1}
    assert said_alike == {}, "two flags have the same description"


def test_no_two_flags_differ_only_in_hyphens_or_a_unit() -> None:
    spelled: defaultdict[str, set[str]] = defaultdict(set)
    for _, flag in _flags():
        spelled[WITH_UNIT.sub("", flag.name).replace("-", "")].add(flag.name)
    assert {word: names for word, names in spelled.items() if len(names) > 1} == {}


def test_every_duration_has_its_unit_in_its_name() -> None:
    unnamed = {
        f"{command} {flag.name}"
        for command, flag in _flags()
        if flag.metavar and (flag.kind == NUMBER or UNITS.search(flag.help)) and not WITH_UNIT.search(flag.name)
    }
    # Their values have a unit (`90d`), are times of a day or since 1970, or are counts.
    allowed = {"--older-than", "--cron", "--quiet", "--created-at", "--max-tries", "--retries", "--time-zone"}
    assert {name for name in unnamed if name.split()[-1] not in allowed} == set()
    assert {flag.metavar for _, flag in _flags() if flag.kind == NUMBER} == {"N"}


def test_each_example_is_understood() -> None:
    for program in PROGRAMS:
        for name, command in program.commands.items():
            words = shlex.split(command.example)
            own = words[words.index(program.name) + 1 :] if program.name in words else [*name.split(), "--help"]
            end = next((at for at, word in enumerate(own) if word in SHELL_WORDS), len(own))
            assert parse(program, own[:end]).command.name, command.example


def test_a_flag_means_the_same_under_its_older_name() -> None:
    for program in PROGRAMS:
        for name, command in program.commands.items():
            for flag in (flag for flag in command.flags if flag.alias):
                given = ["1"] if flag.metavar else []
                words = [word for word in command.words if not word.startswith("[")]
                new, old = (parse(program, [*name.split(), *words, each, *given]).values for each in (flag.name, flag.alias))
                assert new == old
                assert new[flag.key]


def test_every_example_of_a_help_page_is_one_that_parses_and_names_its_subject_by_a_word() -> None:
    for program in PROGRAMS:
        for name, command in program.commands.items():
            line = re.sub(r'^eval "\$\((.*)\)"$', r"\1", command.example).partition(" < ")[0]
            words = shlex.split(line)
            assert words[0] == program.name
            args = parse(program, words[1:])
            assert args.command.name == name
            subject = command.subject or next((flag for flag in command.flags if command.words == (f"[{flag.metavar}]",)), None)
            assert subject is None or subject.name not in words


def test_an_older_name_is_accepted_only_where_somebody_has_it() -> None:
    assert {flag.alias for _, flag in _flags() if flag.alias} == set(ALIASES)
    shown = {flag.name for _, flag in _flags()}
    assert shown & set(ALIASES) == set()
