"""The MCP tool `work_send`, and tasks in the other tools of work. `handlers.ToolHandlers` inherits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from postroom.core.errors import InvalidInput
from postroom.core.records.tasks import ListedTask
from postroom.core.records.work import PostedMessage, Thread
from postroom.core.states import RESULT
from postroom.server.http.auth import Caller
from postroom.server.rpc.calls import make_task_call
from postroom.server.runtime.store_access import StoreAccess
from postroom.tasks import listing, skills
from postroom.work import threads

MAX_WAITING = 20  # tasks and results in one answer, which goes into a prompt
MAX_DESCRIPTION_CHARS = 2000  # of one task in that answer
JsonObject = dict[str, Any]
NO_TASKS: JsonObject = {"tasks": [], "results": [], "moreTasks": False, "nextBeforeTask": None}
NO_WORK: JsonObject = {"threads": [], "more": False, "after": None, **NO_TASKS}  # of work_fetch
RECIPIENTS = ("to", "skill", "threadId")


class TaskTools:
    """Give work to other agents, and see the tasks and results that wait."""

    _store_access: StoreAccess
    _agent: str
    _caller: Caller
    _run_write: Callable[..., Any]
    _run_read: Callable[..., Any]
    _thread_json: Callable[[Thread], JsonObject]
    _visible_name: Callable[[str | None], str | None]

    async def work_send(self, arguments: JsonObject) -> JsonObject:
        if sum(name in arguments for name in RECIPIENTS) != 1:
            raise InvalidInput("name one recipient: an agent (to), a skill, or a threadId", field="to", hint="One of the three.")
        summary, body = arguments.get("summary", ""), arguments.get("body", "")
        if not (summary.strip() or body.strip()):
            raise InvalidInput("there is nothing to send", field="summary", hint="Give a summary, a body, or both.")
        if "threadId" in arguments:
            return await self._speak(arguments, summary, body)
        target = arguments.get("to") or await self._run_read(skills.choose_agent, skill=arguments["skill"], without=self._agent)
        if arguments.get("kind") == "task":
            return await self._give_task(arguments, target, "\n\n".join(filter(None, (summary, body))))
        title = summary or body.strip().split("\n", 1)[0][:200]
        posted = await self._run_write(
            threads.send, sender=self._agent, to=target, subject=title, body=body, priority=arguments.get("priority"), strict=True
        )
        return self._posted_json(posted)

    async def _speak(self, arguments: JsonObject, summary: str, body: str) -> JsonObject:
        question = arguments.get("question")
        posted = await self._run_write(
            threads.reply, thread_id=arguments["threadId"], sender=self._agent, summary=summary, body=body, question=question
        )
        return self._posted_json(posted)

    def _posted_json(self, posted: PostedMessage) -> JsonObject:
        note = {"note": posted.note} if posted.note else {}
        return {"thread": self._thread_json(posted.thread), "messageId": posted.message.message_id, **note}

    async def _give_task(self, arguments: JsonObject, target: str, description: str) -> JsonObject:
        options = {
            name: arguments[key] for key, name in (("priority", "priority"), ("deadlineSeconds", "deadline_seconds")) if key in arguments
        }
        given = {"source_agent": self._agent, "target_agent": target, "description": description, **options}
        call = make_task_call(self._caller, "submit", **given)
        task = await self._store_access.write(call, call.door)
        shown = await self._run_read(listing.show_task, task_id=task.task_id)
        return {"task": self._task_json(shown.task), "next": "Its result comes in `results` of work_fetch."}

    async def acknowledge_result(self, task_id: str) -> JsonObject:
        """Mark the result of a task as read. Refuses a task, which is answered through its thread."""
        shown = await self._run_read(listing.show_task, task_id=task_id)
        if shown.task.kind != RESULT:
            raise InvalidInput("this is a task, not a result", field="taskId", hint="Claim it with work_claim, then end its thread.")
        call = make_task_call(self._caller, "acknowledge", task_id=task_id, agent=self._agent)
        await self._store_access.write(call, call.door)
        shown = await self._run_read(listing.show_task, task_id=task_id)
        return {"task": self._task_json(shown.task)}

    async def list_waiting_tasks(self, before_event: int | None) -> JsonObject:
        """Return the tasks that the agent could claim, and the results that it has not read. `before_event` continues a list."""
        given = {"agent": self._agent, "status": "pending", "limit": MAX_WAITING, "before_event": before_event}
        page = await self._run_read(listing.list_tasks, **given)
        rows = [self._task_json(task) for task in page.tasks]
        return {
            "tasks": [row for row in rows if row["kind"] != RESULT],
            "results": [row for row in rows if row["kind"] == RESULT],
            "moreTasks": page.next_before_event is not None,
            "nextBeforeTask": page.next_before_event,
        }

    def _task_json(self, task: ListedTask) -> JsonObject:
        fields = task.to_json()
        names = {"from": self._visible_name(task.source_agent), "to": self._visible_name(task.target_agent)}
        kept = {
            name: fields[name] for name in ("kind", "status", "priority", "reason", "outcome", "answers", "deadline", "verified", "door")
        }
        description = task.description[:MAX_DESCRIPTION_CHARS]
        if len(description) < len(task.description):
            description += f" [… {len(task.description) - len(description)} characters more: claim it to read them]"
        content = {"description": description, "artifacts": fields["artifacts"], "createdAt": task.created_at}
        return {"taskId": task.task_id, **names, **kept, **content}
