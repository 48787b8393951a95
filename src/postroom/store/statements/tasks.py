"""The statements of the tasks room. They are the same on every engine."""

from __future__ import annotations

from postroom.core.records.tasks import JobRow, TaskRow
from postroom.store.tables import Query, Table

JOBS = Table("jobs", JobRow.__fields__)
TASKS = Table("tasks", TaskRow.__fields__)
SKILLS = Table("agent_skills", ("skill", "agent"), key_columns=2)

task_insert = TASKS.insert_statement()
task_find = Query(f"SELECT {TASKS.column_list} FROM tasks WHERE task_id = :task_id", TaskRow)
# The guard repeats everything that the writer read: status, attempt, lease, job and thread.
task_move = """
    UPDATE tasks SET status = :status, is_open = :is_open, target_job_id = :target_job_id, attempt = :attempt,
      artifacts_json = :artifacts_json, reason = :reason, reason_code = :reason_code, thread_id = :thread_id,
      accepted_at = :accepted_at, ended_at = :ended_at, lease_token = :lease_token, lease_expires_at = :lease_expires_at, due_at = :due_at
    WHERE task_id = :task_id AND (status = :seen_status) IS TRUE AND attempt = :seen_attempt
      AND coalesce(lease_token, '') = :seen_token AND coalesce(target_job_id, '') = :seen_job AND coalesce(thread_id, '') = :seen_thread"""
task_attempt = """
    UPDATE tasks SET attempt = attempt + 1
    WHERE task_id = :task_id AND thread_id = :thread_id AND (is_open = 1) IS TRUE AND attempt = :seen_attempt"""
tasks_of_job = Query(
    f"""
    SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND target_job_id = :job_id AND status = :status
      AND (urgency, event_id) > (:urgency, :after) ORDER BY urgency, event_id LIMIT :limit""",
    TaskRow,
)
tasks_waiting = Query(
    f"""
    SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND status = 'pending' AND target_agent = :agent AND kind = :kind
    ORDER BY urgency, event_id LIMIT :limit""",
    TaskRow,
)
_IS_LESS_URGENT = "(urgency, event_id) > (:urgency, :after)"
tasks_waiting_after = Query(
    f"""
    SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND status = 'pending' AND target_agent = :agent AND kind = :kind
      AND {_IS_LESS_URGENT} ORDER BY urgency, event_id LIMIT :limit""",
    TaskRow,
)
tasks_unrouted = Query(
    f"""
    SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND status = 'pending' AND target_agent = :agent AND target_job_id IS NULL
      AND {_IS_LESS_URGENT} ORDER BY urgency, event_id LIMIT :limit""",
    TaskRow,
)
_CAN_BE_DUE = "is_open = 1 AND due_at IS NOT NULL"
_IS_DUE = f"{_CAN_BE_DUE} AND due_at <= :now"
tasks_due = Query(f"SELECT {TASKS.column_list} FROM tasks WHERE {_IS_DUE} ORDER BY due_at LIMIT :limit", TaskRow)


def _listing(*columns: str) -> Query[TaskRow]:
    """Return the statement that lists the tasks with these columns, newest first. An index serves each of them."""
    where = " AND ".join((*(f"{column} = :{column}" for column in columns), "event_id < :before"))
    return Query(f"SELECT {TASKS.column_list} FROM tasks WHERE {where} ORDER BY event_id DESC LIMIT :limit", TaskRow)


tasks_any = _listing()
tasks_to = _listing("target_agent")
tasks_from = _listing("source_agent")
tasks_of_status = _listing("status")
tasks_to_of_status = _listing("target_agent", "status")
tasks_from_of_status = _listing("source_agent", "status")
tasks_from_to = _listing("source_agent", "target_agent")
tasks_from_to_of_status = _listing("source_agent", "target_agent", "status")
_ANSWERED = """
    FROM tasks t JOIN threads h ON h.thread_id = t.thread_id
    WHERE t.is_open = 1 AND t.thread_id IS NOT NULL AND h.status IN ('done', 'failed', 'cancelled')"""
tasks_answered = Query(f"SELECT {TASKS.column_list_as('t')} {_ANSWERED} LIMIT :limit", TaskRow)
# A thread that was opened and never taken has no lease: it waits for its first worker. `waiting` leases belong to unanswered questions.
tasks_abandoned = Query(
    f"""
    SELECT {TASKS.column_list_as("t")} FROM tasks t
      JOIN threads h ON h.thread_id = t.thread_id JOIN leases l ON l.thread_id = t.thread_id
    WHERE t.target_agent = :agent AND t.status = 'accepted' AND t.is_open = 1 AND t.thread_id IS NOT NULL
      AND ((h.status = 'pending' AND h.assigned_to = :agent AND l.released_at IS NOT NULL)
        OR (l.released_at IS NULL AND l.waiting = 0 AND l.expires_at <= :now))
    LIMIT :limit""",
    TaskRow,
)

job_insert = JOBS.insert_statement()
job_find = Query(f"SELECT {JOBS.column_list} FROM jobs WHERE job_id = :job_id", JobRow)
job_move = """
    UPDATE jobs SET status = :status, sheet = :sheet, version = version + 1, state_json = :state_json, updated_at = :updated_at,
      lease_token = :lease_token, lease_seconds = :lease_seconds, lease_expires_at = :lease_expires_at
    WHERE job_id = :job_id AND version = :seen"""
_CAN_LAPSE = "status IN ('running', 'ending')"
_IS_LAPSED = f"{_CAN_LAPSE} AND lease_expires_at <= :now"
jobs_lapsed = Query(f"SELECT {JOBS.column_list} FROM jobs WHERE {_IS_LAPSED} ORDER BY lease_expires_at LIMIT :limit", JobRow)
# Whether `tasks_due`, `tasks_answered` or `jobs_lapsed` has a row. Every verb asks first. It looks at the first task and the first job, as
# `_NO_LAPSED_LEASE` does.
tasks_settling = f"""
    SELECT 1 WHERE (SELECT due_at FROM tasks WHERE {_CAN_BE_DUE} ORDER BY due_at LIMIT 1) <= :now
      OR EXISTS (SELECT 1 {_ANSWERED})
      OR (SELECT lease_expires_at FROM jobs WHERE {_CAN_LAPSE} ORDER BY lease_expires_at LIMIT 1) <= :now"""
jobs_any = Query(f"SELECT {JOBS.column_list} FROM jobs WHERE event_id < :before ORDER BY event_id DESC LIMIT :limit", JobRow)
jobs_of_agent = Query(
    f"SELECT {JOBS.column_list} FROM jobs WHERE agent = :agent AND event_id < :before ORDER BY event_id DESC LIMIT :limit", JobRow
)

skill_insert = SKILLS.insert_statement()
skills_clear = "DELETE FROM agent_skills WHERE agent = :agent"
