"""Handlers of `job …` and `sheet …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.cli.framework.output import NOTHING, Outcome
from postroom.cli.inbox import inputs
from postroom.cli.inbox.tasks import kept_tokens
from postroom.cli.inbox.tasks.commands import open_conductor, require_option, task_json

if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments


def handle_job_start(args: Arguments) -> Outcome:
    job = open_conductor(args).start_job(inputs.require_agent(args), job_id=args.job, **inputs.given_options(args, "lease_seconds"))
    kept_tokens.keep_token(args, (_job_subject(job.job_id),), job.lease_token or "")
    return Outcome({"job": job.model_dump(mode="json")}, view="task job started")


def _job_subject(job_id: str) -> str:
    return f"job {job_id}"


def _job_and_token(args: Arguments) -> tuple[str, str | None]:
    job_id = require_option(args, "job")
    return job_id, kept_tokens.lease_token(args, _job_subject(job_id))


def handle_job_list(args: Arguments) -> Outcome:
    page = open_conductor(args).jobs(args.agent, **inputs.given_options(args, "limit", "after"))
    jobs = [job.model_dump(mode="json", exclude={"lease_token", "resumed"}) for job in page.jobs]
    return Outcome({"jobs": jobs, "more": page.more, "after": page.after}, view="task jobs")


def handle_job_show(args: Arguments) -> Outcome:
    conductor, job_id = open_conductor(args), require_option(args, "job")
    loaded = conductor.show_job(job_id)
    data = {"job": loaded.job.model_dump(mode="json", exclude={"lease_token", "resumed"}), "more": loaded.left_out}
    return Outcome({**data, "tasks": [task_json(task) for task in loaded.tasks]}, view="task job")


def handle_job_renew(args: Arguments) -> Outcome:
    job_id, token = _job_and_token(args)
    job = open_conductor(args).renew_job(job_id, lease_token=token, **inputs.given_options(args, "lease_seconds"))
    return Outcome({"job": job.model_dump(mode="json", exclude={"lease_token", "resumed"})}, view="task job renewed")


def handle_job_end(args: Arguments) -> Outcome:
    job_id, token = _job_and_token(args)
    job = open_conductor(args).end_job(job_id, lease_token=token)
    kept_tokens.forget_token(args, _job_subject(job_id))
    return Outcome({"job": job.model_dump(mode="json", exclude={"lease_token", "resumed"})}, view="task job ended")


def handle_sheet_begin(args: Arguments) -> Outcome:
    job_id, token = _job_and_token(args)
    sheet = open_conductor(args).begin_sheet(job_id, lease_token=token, **inputs.given_options(args, "lease_seconds", "budget"))
    kept_tokens.keep_token(args, (task.task_id for task in sheet.tasks), sheet.token)
    data = {"sheet": sheet.token, "text": sheet.text, "tasks": [task_json(task) for task in sheet.tasks]}
    return Outcome(data, view="text", exit_code=0 if sheet.tasks else NOTHING)


def handle_sheet_end(args: Arguments) -> Outcome:
    conductor, (job_id, token) = open_conductor(args), _job_and_token(args)
    if args.answers is None:
        job = conductor.end_sheet(job_id, args.sheet)
        return Outcome({"job": job.model_dump(mode="json", exclude={"lease_token", "resumed"})}, view="task sheet ended")
    text = inputs.read_file_text(args.answers, field="answers", hint="Pass the text that the agent wrote, or - for standard input.")
    done = conductor.answer_sheet(job_id, text, args.sheet, lease_token=token)
    lists = {name: [task_json(task) for task in getattr(done, name)] for name in ("completed", "failed", "delegated")}
    not_applied = [one.model_dump(mode="json") for one in done.not_applied]
    data = {"job": done.job.model_dump(mode="json", exclude={"lease_token", "resumed"}), **lists, "not_applied": not_applied}
    return Outcome(data, view="task sheet answered")
