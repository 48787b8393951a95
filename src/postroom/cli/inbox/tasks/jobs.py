"""Handlers of `job …` and `sheet …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.cli.framework.output import NOTHING, Outcome
from postroom.cli.inbox import inputs
from postroom.cli.inbox.tasks.commands import open_conductor, require_option, task_json

if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments


def handle_job_start(args: Arguments) -> Outcome:
    job = open_conductor(args).start_job(inputs.require_agent(args), job_id=args.job, **inputs.given_options(args, "lease_seconds"))
    return Outcome({"job": job.model_dump(mode="json")}, view="task job started")


def handle_job_list(args: Arguments) -> Outcome:
    jobs = open_conductor(args).jobs(args.agent, **inputs.given_options(args, "limit"))
    return Outcome({"jobs": [job.model_dump(mode="json", exclude={"lease_token", "resumed"}) for job in jobs]}, view="task jobs")


def handle_job_show(args: Arguments) -> Outcome:
    conductor, job_id = open_conductor(args), require_option(args, "job")
    loaded = conductor.show_job(job_id)
    data = {"job": loaded.job.model_dump(mode="json", exclude={"lease_token", "resumed"}), "more": loaded.left_out}
    return Outcome({**data, "tasks": [task_json(task) for task in loaded.tasks]}, view="task job")


def handle_job_renew(args: Arguments) -> Outcome:
    job = open_conductor(args).renew_job(require_option(args, "job"), **inputs.given_options(args, "lease_seconds", "lease_token"))
    return Outcome({"job": job.model_dump(mode="json", exclude={"lease_token", "resumed"})}, view="task job renewed")


def handle_job_end(args: Arguments) -> Outcome:
    job = open_conductor(args).end_job(require_option(args, "job"), **inputs.given_options(args, "lease_token"))
    return Outcome({"job": job.model_dump(mode="json", exclude={"lease_token", "resumed"})}, view="task job ended")


def handle_sheet_begin(args: Arguments) -> Outcome:
    options = inputs.given_options(args, "lease_seconds", "budget", "lease_token")
    sheet = open_conductor(args).begin_sheet(require_option(args, "job"), **options)
    data = {"sheet": sheet.token, "text": sheet.text, "tasks": [task_json(task) for task in sheet.tasks]}
    return Outcome(data, view="text", exit_code=0 if sheet.tasks else NOTHING)


def handle_sheet_end(args: Arguments) -> Outcome:
    job = open_conductor(args).end_sheet(require_option(args, "job"), args.sheet)
    return Outcome({"job": job.model_dump(mode="json", exclude={"lease_token", "resumed"})}, view="task sheet ended")
