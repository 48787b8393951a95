"""The statements of the work room, and those of events and agents, which all rooms share. Binds are `:name` only."""

from __future__ import annotations

from postroom.core.records import Event
from postroom.core.records.work import (
    Agent,
    Artifact,
    Candidate,
    Claim,
    HeldThread,
    Lease,
    Message,
    PageBounds,
    ReadMark,
    RunNumbers,
    Thread,
)
from postroom.store.statements.events import *  # noqa: F403
from postroom.store.statements.events import EVENTS
from postroom.store.statements.taking import *  # noqa: F403
from postroom.store.statements.taking import THREAD_COLUMNS
from postroom.store.tables import Query, Table, row_values, single_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

THREADS = Table("threads", Thread.__fields__)
MESSAGES = Table("messages", Message.__fields__[:-1])  # artifacts have a table of their own
ARTIFACTS = Table("artifacts", Artifact.__fields__)
LEASES = Table("leases", (*Lease.__fields__, "priority", "waiting"))  # the thread's priority, and whether it waits for an answer
AGENTS = Table("agents", Agent.__fields__)
READS = Table("reads", ReadMark.__fields__, key_columns=2)
EVENT_TOPICS = Table("event_topics", ("topic", "block"), key_columns=2)  # see the migration 0007

LEASE_COLUMNS = f"l.{', l.'.join(Lease.__fields__)}"
THREAD_FIELD_COUNT = len(Thread.__fields__)


# The threads in which an agent takes part as a guest.
THREADS_VISITED = f"""
    SELECT {THREAD_COLUMNS} FROM reads r{{hint}} JOIN threads t ON t.thread_id = r.thread_id
    WHERE r.agent_id = :agent AND r.guest = 1 AND t.status = :status"""


def make_held_thread(*row: Any) -> HeldThread:
    lease = None if row[THREAD_FIELD_COUNT] is None else Lease(*row[THREAD_FIELD_COUNT:])
    return HeldThread(Thread(*row[:THREAD_FIELD_COUNT]), lease)


def make_marked_message(*row: Any) -> tuple[Message, bool]:
    """Return a message, and whether it has artifacts."""
    return Message(*row[:-1]), bool(row[-1])


def make_claim(*row: Any) -> Claim:
    return Claim(Thread(*row[:THREAD_FIELD_COUNT]), Lease(*row[THREAD_FIELD_COUNT:]))


def make_lapsed_candidate(*row: Any) -> Candidate:
    return Candidate(Thread(*row[:THREAD_FIELD_COUNT]), True, row[THREAD_FIELD_COUNT])


# threads

thread_insert = THREADS.insert_statement()

thread_find = Query(
    f"""
    SELECT {THREAD_COLUMNS}, {LEASE_COLUMNS} FROM threads t LEFT JOIN leases l ON l.thread_id = t.thread_id
    WHERE t.thread_id = :thread_id""",
    make_held_thread,
)

thread_parties = Query("SELECT created_by, assigned_to FROM threads WHERE thread_id = :thread_id", row_values)

# A guard beside a key is written with IS TRUE, which no index serves: for an empty table, PostgreSQL takes any index for the right one.
thread_move = """
    UPDATE threads SET status = :status, assigned_to = :assigned_to, latest_message_id = :latest_message_id, updated_at = :now
    WHERE thread_id = :thread_id AND (status = :seen) IS TRUE"""

thread_prioritise = "UPDATE threads SET priority = :priority WHERE thread_id = :thread_id"

threads_waiting = Query(
    f"""
    SELECT {THREAD_COLUMNS} FROM threads t WHERE t.status = 'pending' AND t.assigned_to = :agent AND t.priority = :priority
      AND (t.created_at, t.thread_id) > (:after_at, :after_id)
    ORDER BY t.created_at, t.thread_id LIMIT :limit""",
    Thread,
)

# The lists of threads: the condition of each. `select_threads` makes a statement of one.
THREADS_ASSIGNED = "t.status = :status AND t.assigned_to = :assigned_to"
THREADS_CREATED = "t.created_by = :created_by AND t.status = :status"
THREADS_CREATED_ASSIGNED = f"{THREADS_CREATED} AND t.assigned_to = :assigned_to"
THREADS_ANY = "t.status = :status"
_CHOSEN_NAMES = "(:created_by = '' OR t.created_by = :created_by) AND (:assigned_to = '' OR t.assigned_to = :assigned_to)"
THREADS_OF_RUN_CHOSEN = f"t.run_id = :run_id AND t.status = :status AND {_CHOSEN_NAMES}"
THREADS_OF_TASK_CHOSEN = f"""t.task_id = :task_id AND t.task_id <> '' AND t.status = :status AND {_CHOSEN_NAMES}
      AND (CAST(:run_id AS TEXT) IS NULL OR t.run_id = :run_id)"""


def select_threads(condition: str, thread_id: str) -> Query[Thread]:
    """Return the statement that lists threads, latest activity first, behind a cursor. `thread_id` is an expression that sorts by bytes."""
    return Query(
        f"""
    SELECT {THREAD_COLUMNS} FROM threads t WHERE {condition}
      AND t.updated_at <= :after_at AND (t.updated_at < :after_at OR {thread_id} < :after_id)
    ORDER BY t.updated_at DESC, {thread_id} DESC LIMIT :limit""",
        Thread,
    )


threads_of_run = Query(
    f"""
    SELECT {THREAD_COLUMNS}, {LEASE_COLUMNS} FROM threads t LEFT JOIN leases l ON l.thread_id = t.thread_id
    WHERE t.run_id = :run_id AND t.status = :status ORDER BY t.updated_at DESC LIMIT :limit""",
    make_held_thread,
)
run_open_count = Query(
    """
    SELECT count(*) FROM threads WHERE run_id = :run_id AND status IN ('pending', 'claimed', 'in_progress', 'blocked')""",
    single_value,
)
run_numbers = Query(
    """
    SELECT status, count(*) AS threads, min(created_at) AS first_at, max(updated_at) AS last_at FROM threads
    WHERE run_id = :run_id GROUP BY status""",
    RunNumbers,
)
run_agents = Query("SELECT DISTINCT assigned_to FROM threads WHERE run_id = :run_id", single_value)

threads_unread = Query(
    f"""
    SELECT {READS.column_list_as("r")} FROM reads r
    WHERE r.agent_id = :agent AND r.latest_event_id > r.read_event_id AND r.latest_event_id > :after
    ORDER BY r.latest_event_id LIMIT :limit""",
    ReadMark,
)
# An index of both, unread and status, would cost every write a page. Instead, a call looks at a bounded number of unread threads.
threads_unread_of_status = Query(
    f"""
    SELECT {READS.column_list_as("r")} FROM reads r CROSS JOIN threads t
    WHERE r.agent_id = :agent AND r.latest_event_id > r.read_event_id AND r.latest_event_id > :after AND r.latest_event_id <= :until
      AND t.thread_id = r.thread_id AND t.status = :status
    ORDER BY r.latest_event_id LIMIT :limit""",
    ReadMark,
)

# messages and artifacts

# With a :question, only the answer that settles it counts, and control messages to its asker, :agent. Without one, an answer counts unless
# it settles the question of another agent.
REPLY_CONDITION = """
      AND (kind <> 'answer' OR in_reply_to = :question OR (:question = '' AND (in_reply_to IS NULL OR :agent IN ('', to_agent))))
      AND (kind <> 'answer' OR from_agent <> :agent)
      AND (kind <> 'control' OR :question = '' OR to_agent = :agent)"""

message_insert = MESSAGES.insert_statement()

message_find = Query(f"SELECT {MESSAGES.column_list} FROM messages WHERE message_id = :message_id", Message)

message_first = Query(f"SELECT {MESSAGES.column_list} FROM messages WHERE thread_id = :thread_id ORDER BY event_id LIMIT 1", Message)

messages_newest = Query(
    f"""
    SELECT {MESSAGES.column_list}, EXISTS (SELECT 1 FROM artifacts a WHERE a.message_id = messages.message_id) AS has_artifacts
    FROM messages WHERE thread_id = :thread_id ORDER BY event_id DESC LIMIT :limit""",
    make_marked_message,
)

messages_between = Query(
    f"SELECT {MESSAGES.column_list} FROM messages WHERE thread_id = :thread_id AND event_id BETWEEN :first AND :last ORDER BY event_id",
    Message,
)

# questions of threads

# An empty :agent stands for any. A person may settle any question, an agent those that were put to it, and no asker its own.
questions_open_to = Query(
    f"""
    SELECT {MESSAGES.column_list} FROM messages
    WHERE thread_id = :thread_id AND is_open = 1 AND from_agent <> :sender AND (:asker = '' OR from_agent = :asker)
      AND (:is_person = 1 OR to_agent = :sender)
    ORDER BY event_id LIMIT :limit""",
    Message,
)

question_latest = Query(
    f"""
    SELECT {MESSAGES.column_list} FROM messages
    WHERE thread_id = :thread_id AND kind = 'question' AND (:agent = '' OR from_agent = :agent) ORDER BY event_id DESC LIMIT 1""",
    Message,
)

# The latest question between two events that is open, or that a message after :after settled.
question_unanswered_at = Query(
    f"""
    SELECT {MESSAGES.column_list_as("q")} FROM messages q
    WHERE q.thread_id = :thread_id AND q.kind = 'question' AND q.event_id BETWEEN :first AND :last
      AND (:agent = '' OR q.from_agent = :agent)
      AND (q.is_open = 1 OR EXISTS (SELECT 1 FROM messages a WHERE a.in_reply_to = q.message_id AND a.event_id > :after))
    ORDER BY q.event_id DESC LIMIT 1""",
    Message,
)

message_in_reply_to = Query(f"SELECT {MESSAGES.column_list} FROM messages WHERE in_reply_to = :message_id", Message)

question_settle = "UPDATE messages SET is_open = 0 WHERE message_id = :message_id AND (is_open = 1) IS TRUE"

questions_end = "UPDATE messages SET is_open = 0 WHERE thread_id = :thread_id AND is_open = 1 AND (:agent = '' OR from_agent = :agent)"

# The kinds of messages that the people room follows.
PEOPLE_KINDS = "('question', 'answer', 'result', 'control')"

messages_to_people = Query(
    f"""
    SELECT {MESSAGES.column_list} FROM messages
    WHERE kind IN {PEOPLE_KINDS} AND event_id > :after ORDER BY event_id LIMIT :limit""",
    Message,
)

questions_to = Query(
    f"""
    SELECT {MESSAGES.column_list_as("m")}
    FROM reads r JOIN messages m ON m.thread_id = r.thread_id
    WHERE r.agent_id = :agent AND m.is_open = 1 AND m.to_agent = :agent""",
    Message,
)

artifact_insert = ARTIFACTS.insert_statement()

# leases

# The guard repeats what the claimer read. A live lease stays, unless it is the one that the caller replaces.
lease_grant = """
    INSERT INTO leases (thread_id, agent_id, lease_token, claimed_at, expires_at, released_at, lease_seconds, priority, waiting)
    VALUES (:thread_id, :agent_id, :lease_token, :now, :expires_at, NULL, :lease_seconds, :priority, 0)
    ON CONFLICT (thread_id) DO UPDATE
    SET agent_id = excluded.agent_id, lease_token = excluded.lease_token, claimed_at = excluded.claimed_at,
        expires_at = excluded.expires_at, released_at = NULL, lease_seconds = excluded.lease_seconds,
        priority = excluded.priority, waiting = 0
    WHERE leases.released_at IS NOT NULL OR leases.expires_at <= :now OR leases.lease_token = :replaced_token"""

lease_renew = """
    UPDATE leases SET expires_at = :expires_at, lease_seconds = :lease_seconds
    WHERE thread_id = :thread_id AND lease_token = :lease_token AND released_at IS NULL"""

lease_release = """
    UPDATE leases SET released_at = :now
    WHERE thread_id = :thread_id AND lease_token = :lease_token AND released_at IS NULL"""

lease_wait = "UPDATE leases SET waiting = :waiting WHERE thread_id = :thread_id AND released_at IS NULL"

lease_resume = """
    UPDATE leases SET waiting = 0 WHERE thread_id = :thread_id AND released_at IS NULL AND (agent_id = :agent) IS TRUE
      AND (:is_control = 1 OR NOT EXISTS (
        SELECT 1 FROM messages q WHERE q.thread_id = :thread_id AND q.is_open = 1 AND q.from_agent = :agent))"""

lease_prioritise = "UPDATE leases SET priority = :priority WHERE thread_id = :thread_id AND released_at IS NULL"

leases_lapsed = Query(
    f"""
    SELECT {THREAD_COLUMNS}, l.agent_id FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at <= :now
    ORDER BY l.expires_at LIMIT :limit""",
    make_lapsed_candidate,
)

leases_lapsed_of_status = Query(
    f"""
    SELECT {THREAD_COLUMNS}, l.agent_id FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at <= :now
      AND t.status = :status
    ORDER BY l.expires_at LIMIT :limit""",
    make_lapsed_candidate,
)

# The leases that end last. After the clock was set back, those that it misdated are among them.
leases_farthest = Query(
    f"""
    SELECT {THREAD_COLUMNS}, {LEASE_COLUMNS} FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at > :now
    ORDER BY l.expires_at DESC LIMIT :limit""",
    make_claim,
)

lease_next_expiry = Query(
    """
    SELECT min(expires_at) FROM leases
    WHERE released_at IS NULL AND waiting = :waiting AND priority = :priority AND expires_at > :after""",
    single_value,
)

leases_lapsed_since = Query(
    f"""
    SELECT {THREAD_COLUMNS}, {LEASE_COLUMNS} FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at > :after AND l.expires_at <= :now
    ORDER BY l.expires_at LIMIT :limit""",
    make_claim,
)

leases_of_agent = Query(
    f"""
    SELECT {THREAD_COLUMNS}, {LEASE_COLUMNS} FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.agent_id = :agent AND l.released_at IS NULL ORDER BY l.expires_at LIMIT :limit""",
    make_claim,
)

# events

# The event at which a cursor starts: none with a lower id can appear after it.
event_latest = Query("SELECT coalesce(max(event_id), 0) FROM events", single_value)
event_newest = Query("SELECT coalesce(max(event_id), 0) FROM events", single_value)

events_after = Query(f"SELECT {EVENTS.column_list} FROM events WHERE event_id > :after ORDER BY event_id LIMIT :limit", Event)
events_newest = Query(f"SELECT {EVENTS.column_list} FROM events WHERE event_id < :before ORDER BY event_id DESC LIMIT :limit", Event)
events_of_thread = Query(
    f"""
    SELECT {EVENTS.column_list} FROM events
    WHERE thread_id = :thread_id AND thread_id <> '' AND event_id < :before ORDER BY event_id DESC LIMIT :limit""",
    Event,
)

events_in_block = Query(
    f"""
    SELECT {EVENTS.column_list} FROM events WHERE event_id > :after AND event_id <= :until
      AND (thread_id <> '' OR substr(event_type, 1, 12) = 'task.A2ATask') ORDER BY event_id""",
    Event,
)
event_block_of_topic = Query("SELECT block FROM event_topics WHERE topic = :topic AND block >= :first ORDER BY block LIMIT 1", single_value)
event_message = Query("SELECT event_id FROM messages WHERE message_id = :message_id", single_value)

# Each engine supplies the facts of the events: block, run_id, source, event_type, status, assigned_to, created_by and to_agent.
EVENT_TOPICS_INSERT = """
    INSERT INTO event_topics (topic, block)
    WITH facts AS ({facts}),
    steps AS (
      SELECT block, run_id, source, status, assigned_to, created_by, to_agent FROM facts
      UNION SELECT block, run_id, source, 'lapsed', assigned_to, created_by, to_agent FROM facts WHERE event_type = 'thread.lapsed'
      UNION SELECT block, run_id, source, 'claimed', assigned_to, created_by, to_agent FROM facts WHERE status = 'accepted'
      UNION SELECT block, run_id, source, 'done', assigned_to, created_by, to_agent FROM facts WHERE status = 'completed'),
    concerned AS (
      SELECT block, status, assigned_to AS agent FROM steps WHERE assigned_to <> source
      UNION SELECT block, status, created_by FROM steps WHERE created_by <> source
      UNION SELECT block, status, to_agent FROM steps WHERE to_agent <> source)
    SELECT 'any', block FROM facts
    UNION SELECT 'run:' || run_id, block FROM facts
    UNION SELECT 'agent:' || agent, block FROM concerned
    UNION SELECT 'status:' || status, block FROM steps WHERE status IS NOT NULL
    UNION SELECT 'status:' || status || ' run:' || run_id, block FROM steps WHERE status IS NOT NULL
    UNION SELECT 'status:' || status || ' agent:' || agent, block FROM concerned WHERE status IS NOT NULL"""

events_of_subject = Query(  # `types` is a pattern: ids that callers choose may be equal in two rooms
    f"""
    SELECT {EVENTS.column_list} FROM events
    WHERE thread_id = '' AND message_id = :message_id AND event_type LIKE :types ORDER BY event_id""",
    Event,
)

# agents and what they have read

agent_put = """
    INSERT INTO agents (name, kind, created_at) VALUES (:name, :kind, :now)
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind"""

# Waits for a transaction that adds the same name. The kind that this one gives it stays.
agent_open = "INSERT INTO agents (name, kind, created_at) VALUES (:name, 'agent', :now) ON CONFLICT (name) DO NOTHING"

agent_find = Query(f"SELECT {AGENTS.column_list} FROM agents WHERE name = :name", Agent)

agents_all = Query(f"SELECT {AGENTS.column_list} FROM agents WHERE name > :after ORDER BY name LIMIT :limit", Agent)

agent_card = "UPDATE agents SET card_json = :card_json WHERE name = :name"

agents_of_skill = Query(
    f"""
    SELECT {AGENTS.column_list_as("a")} FROM agent_skills s JOIN agents a ON a.name = s.agent
    WHERE s.skill = :skill AND s.agent > :after ORDER BY s.agent LIMIT :limit""",
    Agent,
)

read_owed = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id, guest) VALUES (:agent, :thread_id, 0, :event_id, :guest)
    ON CONFLICT (agent_id, thread_id) DO UPDATE SET latest_event_id = excluded.latest_event_id, guest = excluded.guest"""

read_guest = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id, guest) VALUES (:agent, :thread_id, 0, 0, :guest)
    ON CONFLICT (agent_id, thread_id) DO UPDATE SET guest = excluded.guest WHERE reads.guest <> excluded.guest"""

read_upto = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id, read_at, read_door)
    VALUES (:agent, :thread_id, :event_id, 0, :now, :door)
    ON CONFLICT (agent_id, thread_id) DO UPDATE
    SET read_event_id = excluded.read_event_id, read_at = excluded.read_at, read_door = excluded.read_door
    WHERE reads.read_event_id < excluded.read_event_id"""

reads_unread_count = Query("SELECT count(*) FROM reads WHERE agent_id = :agent AND latest_event_id > read_event_id", single_value)

read_of_thread = Query(f"SELECT {READS.column_list} FROM reads WHERE agent_id = :agent AND thread_id = :thread_id", ReadMark)

# pages of messages: these statements find messages without reading them

_MESSAGE_CHARS = """
    CAST(length(m.summary) + length(m.body) + length(m.payload_json) + coalesce(
      (SELECT sum(length(a.path) + length(a.metadata_json)) FROM artifacts a WHERE a.message_id = m.message_id), 0) AS bigint)"""


def _page_query(nearest: str, beyond: str, cursor: str) -> Query[PageBounds]:
    """Return the statement that finds the first and the last event of a page, and the first event of its thread.

    It takes one step for each message, from the cursor on, until the page is full. So the cost of a page does not depend on the length
    of the thread, and at most one message beyond the page is measured.
    """
    return Query(
        f"""
    WITH RECURSIVE page (event_id, taken, characters) AS (
      SELECT m.event_id, 1, {_MESSAGE_CHARS} FROM messages m
      WHERE m.thread_id = :thread_id AND m.event_id = (
        SELECT {nearest}(n.event_id) FROM messages n WHERE n.thread_id = :thread_id AND n.event_id {beyond} {cursor})
      UNION ALL
      SELECT m.event_id, page.taken + 1, page.characters + {_MESSAGE_CHARS} FROM page CROSS JOIN messages m
      WHERE page.taken < :limit AND page.characters < :characters AND m.thread_id = :thread_id AND m.event_id = (
        SELECT {nearest}(n.event_id) FROM messages n WHERE n.thread_id = :thread_id AND n.event_id {beyond} page.event_id))
    SELECT min(page.event_id) AS first_event_id, max(page.event_id) AS last_event_id,
      (SELECT min(n.event_id) FROM messages n WHERE n.thread_id = :thread_id) AS thread_first_event_id
    FROM page WHERE page.taken = 1 OR page.characters <= :characters""",
        PageBounds,
    )


messages_page_before = _page_query("max", "<", ":before")
messages_page_after = _page_query("min", ">", ":after")

message_to_people_after = Query(
    f"SELECT event_id FROM messages WHERE kind IN {PEOPLE_KINDS} AND event_id > :after ORDER BY event_id LIMIT 1", single_value
)

idempotency_find = Query("SELECT result FROM idempotency_keys WHERE key_hash = :key_hash AND created_at > :after", single_value)
# Also over a result that is too old and not dropped yet. Changes no row if another server has kept one meanwhile.
idempotency_keep = """
    INSERT INTO idempotency_keys (key_hash, result, created_at) VALUES (:key_hash, :result, :now)
    ON CONFLICT (key_hash) DO UPDATE SET result = excluded.result, created_at = excluded.created_at
    WHERE idempotency_keys.created_at <= :after"""
idempotency_oldest = Query("SELECT created_at FROM idempotency_keys ORDER BY created_at LIMIT 1", single_value)
idempotency_drop = """
    DELETE FROM idempotency_keys
    WHERE key_hash IN (SELECT key_hash FROM idempotency_keys WHERE created_at <= :before ORDER BY created_at LIMIT :limit)"""
