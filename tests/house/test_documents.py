"""If a document can be wrong, a test reads it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import postroom
from postroom import mail, queues, work
from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.cli.notifier.spec import NOTIFIER
from postroom.cli.thread.spec import THREAD
from tests.house.tree import ROOT, SOURCES, names

COMMANDS = INBOX.commands

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
SPECS = sorted((ROOT / "docs" / "spec").glob("*.md"))
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_architecture_is_one_sitting() -> None:
    lines = ARCHITECTURE.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 140] == []


def test_every_path_in_architecture_exists() -> None:
    named = set(re.findall(r"[\w/]+\.(?:py|md|sql)\b", ARCHITECTURE))
    known = [str(path.relative_to(ROOT)) for path in (*ROOT.rglob("*.py"), *ROOT.rglob("*.md")) if ".venv" not in path.parts]
    assert {name for name in named if not any(path.endswith(name) for path in known)} == set()


def test_every_name_in_architecture_exists() -> None:
    defined = {name for path in SOURCES for name in names(path)} | {path.stem for path in SOURCES} | set(work.__all__)
    spoken = {word for code in re.findall(r"`([A-Za-z_][\w.]*)`", ARCHITECTURE) for word in code.split(".")}
    tables = sorted((ROOT / "src/postroom/store/migrations/sqlite").glob("*.sql"))
    columns = {word for table in tables for word in table.read_text().replace("(", " ").split()}
    folders = {path.name for path in (ROOT / "src" / "postroom").iterdir()}
    later = {"people"}
    other = {"sys", "modules", "coord", "db", "events", "jsonl", "lock", "bell"}
    assert spoken - defined - columns - folders - later - other == set()


def test_every_name_in_where_to_look_is_in_the_file_that_it_stands_with() -> None:
    table = ARCHITECTURE.partition("## Where to look")[2].partition("\n## ")[0]
    named = [(file, name) for file, words in re.findall(r"([\w/]+\.py) \(([^)]*`[^)]*)\)", table) for name in re.findall(r"`(\w+)`", words)]
    assert len(named) > 12
    assert [(file, name) for file, name in named if name not in (ROOT / "src/postroom" / file).read_text()] == []


@pytest.mark.parametrize("page", SPECS, ids=lambda page: page.name)
def test_every_clause_is_tied_to_a_test_that_exists(page: Path) -> None:
    rows = re.findall(r"^\| ([MPQTW]\d+) \| .* \| (.+) \|$", page.read_text(), re.MULTILINE)
    assert len(rows) > 40
    assert len({row[0] for row in rows}) == len(rows)
    for clause, cited in rows:
        tests = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", cited)
        assert tests, f"{clause} names no test"
        for file, test in tests:
            path = ROOT / "tests" / file
            assert path.exists(), f"{clause}: {file}"
            assert not test or test in names(path), f"{clause}: {test} is not in {file}"


def test_every_difference_between_the_engines_is_tied_to_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "backends.md").read_text()
    rows = re.findall(r"^\| .* \| `([\w/]+\.py)::(\w+)` \|$", page, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| ", page, re.MULTILINE)) - 1  # the head of the table
    assert [test for file, test in rows if test not in names(ROOT / "tests" / file)] == []


def test_every_decision_has_its_context_decision_and_consequences_in_twelve_lines() -> None:
    entries = (ROOT / "docs" / "decisions.md").read_text().split("\n## ")[1:]
    parts = [re.findall(r"^- \*\*(\w+)\.\*\*", entry, re.MULTILINE) for entry in entries]
    assert [entries[at] for at, found in enumerate(parts) if found != ["Context", "Decision", "Consequences"]] == []
    assert [entry for entry in entries if len(entry.strip().splitlines()) > 12] == []


def test_decisions_are_dated_newest_first() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text()
    dates = re.findall(r"^## .* \((\d{4}-\d\d-\d\d)\)$", text, re.MULTILINE)
    assert len(dates) == text.count("\n## ")
    assert dates == sorted(dates, reverse=True)


def test_every_difference_in_the_statements_is_explained_where_it_stands() -> None:
    from postroom.store.catalogue import Catalogue
    from postroom.store.postgres import statements as postgres
    from postroom.store.sqlite import statements as sqlite

    folders = [ROOT / "src/postroom/store" / engine for engine in ("sqlite", "postgres")]
    both = "".join(path.read_text() for folder in folders for path in folder.glob("*_statements.py"))
    differing = [name for name in Catalogue.__annotations__ if getattr(postgres, name) != getattr(sqlite, name)]
    unexplained = [name for name in differing if not re.search(rf"# Differs from [^=]*\n(?:#[^\n]*\n)*{name} =", both)]
    assert unexplained == []


def test_the_reference_is_what_the_table_says() -> None:
    from docs.make_library_pages import front_door_manual_page, manual_page, python_api
    from docs.make_reference import FOLDER, MANUAL, PROGRAMS, asyncapi, openapi, permissions, reference, verbs

    assert (FOLDER / "verbs.md").read_text() == verbs(), "run `make reference`"
    assert (FOLDER.parent / "permissions.md").read_text() == permissions(), "run `make reference`"
    assert (FOLDER / "openapi.json").read_text() == openapi(), "run `make reference`"
    assert (FOLDER / "asyncapi.json").read_text() == asyncapi(), "run `make reference`"
    assert (FOLDER / "python.md").read_text() == python_api(), "run `make reference`"
    assert (MANUAL / "postroom.1").read_text() == front_door_manual_page(), "run `make reference`"
    for program in PROGRAMS:
        assert (FOLDER / f"{program.name}.md").read_text() == reference(program), "run `make reference`"
        assert (MANUAL / f"{program.name}.1").read_text() == manual_page(program), "run `make reference`"


def test_the_page_of_the_library_has_the_fields_of_all_that_verbs_return() -> None:
    from postroom.core.rpc import wire
    from postroom.server.rpc.dispatch import routing_table

    page = (ROOT / "docs/reference/python.md").read_text()
    records = {record.__name__: record for record in wire.record_classes()}
    returned = {word for verb in routing_table().values() for word in re.findall(r"\w+", str(verb.function.__annotations__["return"]))}
    assert len(returned & records.keys()) > 40
    for name in returned & records.keys():
        section = page.partition(f"### `{name}`\n")[2].partition("\n### ")[0]
        assert [field for field in records[name].__fields__ if f"\n{field}: " not in section] == [], name


def test_every_variable_that_the_source_reads_or_sets_is_on_the_page_of_variables() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src" / "postroom").rglob("*.py"))
    page = (ROOT / "docs" / "environment.md").read_text()
    metavars = {"THREAD_ID"}
    own = set(re.findall(r'"((?:INBOX|MAILBOX|THREAD|NOTIFIER|POSTROOM)_[A-Z_]+)"', source)) - metavars
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert own - listed == set()
    assert {name for name in listed if f'"{name}"' not in source} == set()
    others = set(re.findall(r'environ(?:\.get\(|\[)\s*"(\w+)"', source)) - own
    assert {name for name in others if f"`{name}`" not in page} == set()


def test_readme_says_what_a_thread_is_before_it_uses_the_word() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme.lower().index("thread") == readme.index("**thread** is one piece of work") + 2
    assert readme.index("It is for ") < readme.index("It is not for ") < readme.index("**thread**") < readme.index("(docs/choose.md)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_command_is_in_the_changelog_and_every_face_exists() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert postroom.__version__ in changes
    unsaid = [
        name
        for name in (*COMMANDS, *MAILBOX.commands, *THREAD.commands, *NOTIFIER.commands)
        if name.split()[0] not in changes and name not in ("version", "help")
    ]
    assert unsaid == []


def test_every_verb_is_documented() -> None:
    assert [name for room in (work, mail, queues) for name in room.__all__ if not getattr(room, name).__doc__] == []


def test_the_skill_is_found_by_agents() -> None:
    text = (ROOT / "src/postroom/skill/SKILL.md").read_text()
    _, front, body = text.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.splitlines() if ": " in line and not line.startswith(" "))
    assert fields["name"] == "inbox"
    assert len(fields["description"]) <= 1024
    assert set(re.findall(r"^(\w[\w-]*):", front, re.MULTILINE)) <= {"name", "description", "license", "compatibility", "metadata"}
    assert len(body.splitlines()) < 500


def test_every_command_in_the_skill_is_one_that_parses() -> None:
    from postroom.cli.framework.parser import parse

    text = (ROOT / "src/postroom/skill/SKILL.md").read_text()
    lines = [line.split("#")[0] for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    for line in lines:
        words = subprocess.run(["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True).stdout.splitlines()
        program = {"inbox": INBOX, "mailbox": MAILBOX, "thread": THREAD, "notifier": NOTIFIER}[words[0]]
        assert parse(program, words[1:]).command.name in program.commands


COMMAND_PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "examples" / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "guides").glob("*.md"),
]


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: page.name)
def test_every_command_and_flag_in_the_prose_of_a_guide_exists(page: Path) -> None:
    programs = {program.name: program for program in (INBOX, MAILBOX, THREAD, NOTIFIER)}
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for name, rest in re.findall(r"`(inbox|mailbox|thread|notifier) ([a-z][^`]*)`", prose):
        words, program = rest.split(), programs[name]
        command = program.commands.get(" ".join(words[:2])) or program.commands.get(words[0])
        assert command is not None or (words == [words[0]] and words[0] in program.groups), (name, rest)
        known = {flag.name for flag in (*program.flags, *(command.flags if command else ()))}
        assert set(re.findall(r"--[a-z][a-z-]+", rest.split(" --command")[0])) <= known | {"--help"}, (name, rest)


@pytest.mark.parametrize("page", [*COMMAND_PAGES, ROOT / "src/postroom/skill/SKILL.md"], ids=lambda page: page.name)
def test_no_page_shows_a_command_with_the_older_name_of_a_flag(page: Path) -> None:
    older = {
        flag.alias
        for program in (INBOX, MAILBOX, NOTIFIER)
        for command in program.commands.values()
        for flag in command.flags
        if flag.alias
    }
    shown = re.findall(r"\b(?:inbox|mailbox|thread|notifier) [a-z][^`\n]*", page.read_text()) + re.findall(
        r"`(--[a-z-]+)`", page.read_text()
    )
    assert [line for line in shown if older & set(re.findall(r"--[a-z][a-z-]+", line))] == []


def test_no_registry_and_no_machine_is_named() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    hosts = re.compile("py" + r"pi\.org|python" + r"hosted\.org|registry\.npm" + r"js|/(?:root|work|farm)" + "/")
    named = [name for name in tracked if name.endswith((".py", ".md", ".toml", ".txt", ".svg")) and (ROOT / name).exists()]
    assert [name for name in named if hosts.search((ROOT / name).read_text())] == []
