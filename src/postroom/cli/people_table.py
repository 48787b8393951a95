"""The commands of `inbox` that concern people: workspaces, entries, questions, and the server."""

from __future__ import annotations

from postroom.cli.grammar import INTEGER, NUMBER, Command, Flag

_PERSON = "With --agent: as that person; default: user."
_URL = Flag("--url", "URL", "where the server is; default: the one that runs, else http://127.0.0.1:8420")

PEOPLE = (
    Command(
        "serve",
        "Serve people and agents over HTTP and MCP.",
        "serving:serve",
        (
            Flag("--host", "ADDRESS", "default 127.0.0.1; anything else needs TLS"),
            Flag("--port", "N", "default 8420; 0 picks a free one", INTEGER),
            Flag("--data", "DIR", "where files are kept; default: data/ beside the store"),
            Flag("--dev", "", "let everybody on this machine in, and allow seeding; for whoever works on the page"),
            Flag("--person", "NAME", "who the printed link and token are for; default user"),
            Flag("--tls-cert", "FILE", "serve HTTPS with this certificate"),
            Flag("--tls-key", "FILE", "its key"),
            Flag("--behind-proxy", "", "a proxy in front speaks TLS"),
            Flag("--allow-host", "NAME", "another name that the server goes by; may be repeated", repeat=True),
            Flag("--rate", "N", "requests a second that each caller may make; default 500", NUMBER),
            Flag("--max-listeners", "N", "streams of events at once; default 2000", INTEGER),
            Flag("--max-waits", "N", "waiting calls at once; default 500", INTEGER),
            Flag("--demo", "", "on a store of its own, with a team at work"),
        ),
        details="With --json it prints one line when it is ready. SIGTERM or Ctrl-C ends it: who waits is told.",
        example="inbox serve --port 8420",
    ),
    Command(
        "sign-in",
        "Print a link that lets a person in, once.",
        "serving:sign_in",
        (Flag("--person", "NAME", "default user"), _URL),
        example="inbox sign-in",
    ),
    Command(
        "mcp",
        "Speak MCP over standard input and output, as a workspace's agent.",
        "serving:mcp",
        (Flag("--workspace", "ID", "which workspace"),),
        example="inbox mcp --workspace ws_123",
    ),
    Command(
        "workspace add",
        "Make a folder known as a workspace, and print how its agent connects.",
        "peopling:workspace_add",
        (
            Flag("--label", "TEXT", "what people call it"),
            Flag("--agent", "NAME", "its agent's name; default: the folder's"),
            _URL,
        ),
        words=("PATH",),
        details="The token is shown this once. Keep it in the environment, as INBOX_TOKEN; the .mcp.json names it there.",
        example='inbox workspace add ~/thesis --label "Macro thesis"',
    ),
    Command("workspace list", "List the workspaces.", "peopling:workspace_list", (), example="inbox workspace list"),
    Command(
        "workspace show", "Show one workspace.", "peopling:workspace_show", (_URL,), words=("ID",), example="inbox workspace show ws_123"
    ),
    Command(
        "workspace remove",
        "Forget a workspace. What it pushed stays.",
        "peopling:workspace_remove",
        (),
        words=("ID",),
        example="inbox workspace remove ws_123",
    ),
    Command(
        "workspace token",
        "Give a workspace a new token. The old one is void at once.",
        "peopling:workspace_token",
        (_URL,),
        words=("ID",),
        example="inbox workspace token ws_123",
    ),
    Command(
        "push",
        "Show a person documents of a workspace, a comment, or both.",
        "peopling:push",
        (
            Flag("--workspace", "ID", "which workspace; default: the one whose agent --agent is"),
            Flag("--doc", "PATH", "a file, relative to the workspace; may be repeated", repeat=True),
            Flag("--comments", "TEXT", "Markdown"),
            Flag("--comments-file", "PATH", "the same from a file; - for standard input"),
        ),
        example='inbox push --agent thesis --doc report.md --comments "Drafted. A take on the rates?"',
    ),
    Command(
        "notify",
        "Leave a message from automation that has no workspace, in a quieter section of its own.",
        "peopling:notify",
        (
            Flag("--from", "NAME", "who says it: the job's name; replies go to its mailbox"),
            Flag("--text", "TEXT", "what there is to say"),
            Flag("--text-file", "PATH", "the same from a file; - for standard input"),
        ),
        example='inbox notify --from backup --text "Nightly backup done: 12 GB"',
    ),
    Command(
        "ask",
        "Ask a person something, and sleep until they answer.",
        "peopling:ask",
        (
            Flag("--from", "AGENT", "who asks; default: --agent"),
            Flag("--to", "PERSON", "who is asked; default user"),
            Flag("--question", "TEXT", "what you need to know"),
            Flag("--question-file", "PATH", "the same from a file; - for standard input"),
            Flag("--choice", "TEXT", "an answer to choose; may be repeated", repeat=True),
            Flag("--deadline-seconds", "N", "after this long, silence counts", NUMBER),
            Flag("--on-silence", "wait|default|refuse|escalate", "what silence means; default wait"),
            Flag("--default", "TEXT", "the answer that silence stands for"),
            Flag("--escalate-to", "PERSON", "who is asked next"),
            Flag("--timeout-seconds", "N", "stop waiting after this long, with exit 10; 0 (the default) waits for ever", NUMBER),
            Flag("--no-wait", "", "only ask"),
            Flag("--entry", "ID", "go on waiting for a question that was asked before"),
        ),
        details="Exit 10 when the time is over and nobody has answered: go on with --entry.",
        example='inbox ask --from builder --question "Ship it?" --choice yes --choice no --deadline-seconds 3600 --on-silence refuse',
    ),
    Command(
        "entries",
        "List what people were shown and asked, newest first.",
        "peopling:entries",
        (
            Flag("--limit", "N", "at most this many; default 100", INTEGER),
            Flag("--before", "ID", "only older ones than this entry"),
            Flag("--workspace", "ID", "only of this workspace"),
            Flag("--unread", "", "only those that nobody has read"),
            Flag("--questions", "", "only questions that wait for an answer"),
            Flag("--notices", "", "the quieter section: what automation said"),
            Flag("--search", "WORDS", "only those that hold every word"),
        ),
        example="inbox entries --questions",
    ),
    Command(
        "entry show",
        "Show one entry, the replies to it, and every receipt.",
        "peopling:entry_show",
        (),
        words=("ID",),
        example="inbox entry show 5f0e…",
    ),
    Command(
        "entry reply",
        "Reply to an entry, as a person. The agent gets it.",
        "peopling:entry_reply",
        (Flag("--body", "TEXT", "what to say"), Flag("--body-file", "PATH", "the same from a file; - for standard input")),
        words=("ID",),
        details=f"{_PERSON} Over the command line nobody vouches for who speaks: it is shown as unverified.",
        example='inbox entry reply 5f0e… --body "Looks good, extend it"',
    ),
    Command(
        "entry read", "Mark an entry as read.", "peopling:entry_read", (), words=("ID",), details=_PERSON, example="inbox entry read 5f0e…"
    ),
    Command(
        "entry unread",
        "Mark an entry as unread.",
        "peopling:entry_unread",
        (),
        words=("ID",),
        details=_PERSON,
        example="inbox entry unread 5f0e…",
    ),
    Command(
        "entry delete",
        "Delete an entry for good.",
        "peopling:entry_delete",
        (),
        words=("ID",),
        details=_PERSON,
        example="inbox entry delete 5f0e…",
    ),
)
