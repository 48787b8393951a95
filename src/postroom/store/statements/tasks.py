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
    WHERE task_id = :task_id AND status = :seen_status AND attempt = :seen_attempt
      AND coalesce(lease_token, '') = :seen_token AND coalesce(target_job_id, '') = :seen_job AND coalesce(thread_id, '') = :seen_thread"""
tasks_of_job = Query(
    f"SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND target_job_id = :job_id ORDER BY urgency, event_id LIMIT :limit", TaskRow
)
tasks_waiting = Query(
    f"""
    SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND status = 'pending' AND target_agent = :agent
    ORDER BY urgency, event_id LIMIT :limit""",
    TaskRow,
)
tasks_unrouted = Query(
    f"""
    SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND target_job_id IS NULL AND target_agent = :agent
    ORDER BY event_id LIMIT :limit""",
    TaskRow,
)
tasks_due = Query(
    f"SELECT {TASKS.column_list} FROM tasks WHERE is_open = 1 AND due_at IS NOT NULL AND due_at <= :now ORDER BY due_at LIMIT :limit",
    TaskRow,
)
tasks_any = Query(f"SELECT {TASKS.column_list} FROM tasks ORDER BY event_id DESC LIMIT :limit", TaskRow)
tasks_of_agent = Query(f"SELECT {TASKS.column_list} FROM tasks WHERE target_agent = :agent ORDER BY event_id DESC LIMIT :limit", TaskRow)
tasks_of_status = Query(f"SELECT {TASKS.column_list} FROM tasks WHERE status = :status ORDER BY event_id DESC LIMIT :limit", TaskRow)
tasks_of_agent_status = Query(
    f"SELECT {TASKS.column_list} FROM tasks WHERE target_agent = :agent AND status = :status ORDER BY event_id DESC LIMIT :limit", TaskRow
)
# The filters of a caller that sees only its own tasks. One name uses its index, and the rest is compared row by row.
tasks_given = Query(
    f"""
    SELECT {TASKS.column_list} FROM tasks WHERE source_agent = :source
      AND (:target = '' OR target_agent = :target) AND (:status = '' OR status = :status) ORDER BY event_id DESC LIMIT :limit""",
    TaskRow,
)
tasks_answered = Query(
    f"""
    SELECT {TASKS.column_list_as("t")} FROM tasks t JOIN threads h ON h.thread_id = t.thread_id
    WHERE t.is_open = 1 AND t.thread_id IS NOT NULL AND h.status IN ('done', 'failed', 'cancelled') LIMIT :limit""",
    TaskRow,
)

job_insert = JOBS.insert_statement()
job_find = Query(f"SELECT {JOBS.column_list} FROM jobs WHERE job_id = :job_id", JobRow)
job_running = Query(
    f"SELECT {JOBS.column_list} FROM jobs WHERE status = 'running' AND agent = :agent ORDER BY event_id DESC LIMIT 1", JobRow
)
job_move = """
    UPDATE jobs SET status = :status, sheet = :sheet, version = version + 1, state_json = :state_json, updated_at = :now
    WHERE job_id = :job_id AND version = :seen"""
jobs_any = Query(f"SELECT {JOBS.column_list} FROM jobs ORDER BY event_id DESC LIMIT :limit", JobRow)
jobs_of_agent = Query(f"SELECT {JOBS.column_list} FROM jobs WHERE agent = :agent ORDER BY event_id DESC LIMIT :limit", JobRow)

skill_insert = SKILLS.insert_statement()
skills_clear = "DELETE FROM agent_skills WHERE agent = :agent"
