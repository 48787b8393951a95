"""The MCP tools. The calling agent is known from its workspace. No argument and no result names the agent or the workspace."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from postroom._fastpath import json_text as jsontext
from postroom.core import checks
from postroom.core.errors import InvalidInput, Refusal
from postroom.core.limits import MAX_PROMPT_CHARS
from postroom.core.records.handovers import Handover, ReceivedMessage
from postroom.core.records.people import OPEN, Answer, Entry, EntryPage, Workspace
from postroom.core.records.work import Artifact, Message, Thread
from postroom.core.states import WAITED_KINDS
from postroom.mail.waiting import DueMailWake
from postroom.people import entries
from postroom.people.agents import handovers, receiving
from postroom.people.questions import asking
from postroom.server.api.pushing import ask_person, push_entry
from postroom.server.http.auth import Caller, verify_token
from postroom.server.http.responses import refusal_json
from postroom.server.mcp.open_calls import DOOR, ToolCall
from postroom.server.mcp.task_tools import NO_WORK, TaskTools
from postroom.server.rpc.calls import make_call, verify_in_write
from postroom.server.runtime.store_access import MAX_WAIT_SECONDS, StoreAccess, agent_filter, entry_filter, thread_filter, work_filter
from postroom.store.interface import Transaction
from postroom.tasks import taking
from postroom.work import candidates, leases, messages, progress, questions, threads

DEFAULT_ASK_WAIT_SECONDS = 45.0
T = TypeVar("T")
Arguments = dict[str, Any]
JsonObject = dict[str, Any]


class ToolHandlers(TaskTools):
    """The tools of one workspace, for one call. Each public method but `call_tool` is a tool."""

    def __init__(self, store_access: StoreAccess, workspace: Workspace, call: ToolCall, token: str | None = None) -> None:
        self._store_access = store_access
        self._call = call
        self._workspace = workspace
        self._agent = workspace.agent
        self._caller = Caller(workspace.agent, DOOR, workspace, token=token)

    async def call_tool(self, name: str, arguments: Arguments) -> tuple[JsonObject, bool]:
        """Run a tool. Return its result, and whether that is a refusal."""
        tool: Callable[[Arguments], Awaitable[JsonObject]] = getattr(self, name)
        try:
            await self._call.confirm_earlier()
            return {"ok": True, **await tool(arguments)}, False
        except Refusal as refusal:
            return self._without_own_names(refusal_json(refusal)), True

    async def inbox_push(self, arguments: Arguments) -> JsonObject:
        entry = await push_entry(self._store_access, self._caller, **arguments)
        return {"entryId": entry.id, "ts": entry.ts}

    async def inbox_read(self, arguments: Arguments) -> JsonObject:
        limit = arguments.get("limit", 20)
        if arguments.get("old"):
            old = await self._run_read(receiving.old_messages, agent=self._agent, limit=limit, after=arguments.get("after"))
            received: tuple[ReceivedMessage, ...] = old.messages
            answer: JsonObject = {"messages": [message.to_json() for message in received], "more": old.more, "after": old.after}
        elif "after" in arguments:
            raise InvalidInput("after goes on with old messages", field="after", hint="Give `old` too.")
        else:
            received, more = await self._receive_messages(limit, arguments.get("waitSeconds", 0))
            answer = {"messages": [message.to_json() for message in received], "more": more}
        if not received and arguments.get("waitSeconds"):
            answer["next"] = "Nothing came. Call inbox_read again to go on waiting."
        if arguments.get("entries"):
            before = arguments.get("before")
            reading = self._verified(lambda tx: entries.page_of_agent(tx, self._agent, limit, before))
            own: EntryPage = await self._store_access.read_current_in_thread(reading)
            answer |= {"entries": [self._entry_json(entry) for entry in own.entries], "moreEntries": own.has_more}
        return answer

    async def _receive_messages(self, limit: int, seconds: float) -> tuple[tuple[ReceivedMessage, ...], bool]:
        """Return the messages that are handed over, and whether there are more."""

        async def take_messages() -> Handover | None:
            if not await self._store_access.read_current(self._verified(partial(receiving.has_messages, agent=self._agent))):
                return None
            client = self._call.client
            writing = self._run_write(handovers.hand_over_messages, agent=self._agent, limit=limit, client=client)
            handed: Handover = await self._call.hand_over(writing)
            return handed if handed.messages else None

        if seconds:
            due_mail = partial(DueMailWake.seconds_for_session, session=self._agent)
            handed = await self._store_access.wait(take_messages, agent_filter(self._agent), seconds, due_mail)
        else:
            handed = await take_messages()
        return ((), False) if handed is None else (handed.messages, handed.more)

    async def inbox_ask(self, arguments: Arguments) -> JsonObject:
        if "entryId" not in arguments and "question" not in arguments:
            raise InvalidInput("give a question, or the entryId of one that you asked", field="question", hint="One of the two.")
        entry_id = (await self._ask_person(arguments)).id if "question" in arguments else arguments["entryId"]
        seconds = arguments.get("waitSeconds", DEFAULT_ASK_WAIT_SECONDS)
        answer = await self._wait_for_answer(entry_id, seconds)
        result: JsonObject = {"entryId": entry_id, "state": answer.state}
        if answer.state == OPEN:
            result["resume"] = (
                "Nobody has answered yet. Call inbox_ask with this entryId to go on waiting; inbox_read brings the answer too."
            )
            return {**result, "deadline": answer.deadline}
        return {
            **result,
            "answer": answer.answer,
            "choice": answer.choice,
            "accepted": answer.accepted,
            "answeredBy": answer.answered_by,
            "answeredAt": answer.answered_at,
            "answerId": answer.answer_id,
            **({} if answer.decision is None else {"decision": answer.decision}),
            "verified": answer.verified,
            "door": answer.door,
        }

    async def _ask_person(self, arguments: Arguments) -> Entry:
        parameters = {"deadlineSeconds": "deadline_seconds", "onSilence": "on_silence", "escalateTo": "escalate_to", "entryId": "entry_id"}
        question = {parameters.get(key, key): value for key, value in arguments.items() if key != "waitSeconds"}
        return await ask_person(self._store_access, self._caller, **question)

    async def _wait_for_answer(self, entry_id: str, seconds: float) -> Answer:
        look = self._verified(lambda tx: asking.current_answer(tx, entry_id, agent=self._agent))

        async def find_final_answer() -> Answer | None:
            answer = await self._store_access.read_current(look)
            return None if answer.state == OPEN else answer

        if seconds:
            final = await self._store_access.wait(find_final_answer, entry_filter(entry_id), seconds)
        else:
            final = await find_final_answer()
        if final is None:
            return await self._store_access.read_current(look)
        handing = partial(handovers.hand_over_answer, answer=final, agent=self._agent, client=self._call.client)
        await self._call.hand_over(self._store_access.write(verify_in_write(self._caller, handing), DOOR))
        return final

    async def work_fetch(self, arguments: Arguments) -> JsonObject:
        if "threadId" in arguments:
            return await self._read_thread_page(arguments["threadId"], arguments.get("beforeEvent"))
        if "beforeEvent" in arguments:
            raise InvalidInput("beforeEvent needs the threadId of the thread to read", field="beforeEvent", hint="Give both.")

        async def list_work() -> JsonObject | None:
            after = arguments.get("after")
            page = await self._run_read(candidates.fetch, agent=self._agent, limit=arguments.get("limit", 20), after=after)
            rows = [{**self._thread_json(row.thread), "lapsed": row.lapsed} for row in page.candidates]
            tasks = await self.list_waiting_tasks(arguments.get("beforeTask"))
            found = {"threads": rows, "more": page.more, "after": page.after, **tasks}
            return found if rows or found["tasks"] or found["results"] else None

        seconds = arguments.get("waitSeconds", 0)
        lapse = partial(candidates.seconds_until_takeable, agent=self._agent)
        waiting = self._store_access.wait(list_work, work_filter(self._agent), seconds, lapse) if seconds else list_work()
        return await waiting or dict(NO_WORK)

    async def _read_thread_page(self, thread_id: str, before_event: int | None = None) -> JsonObject:
        """Return a thread, and a page of its messages that fits into a prompt, oldest first, and how to read the page before it."""
        page = await self._run_read(threads.show, thread_id=thread_id, before_event=before_event, max_characters=MAX_PROMPT_CHARS)
        if page.messages and before_event is None:
            await self._hand_over_page(thread_id, page.messages[-1].event_id)
        result: JsonObject = {"thread": self._thread_json(page.thread)}
        result |= {"messages": [self._message_json(message) for message in page.messages], "more": page.more}
        if page.first_message is not None:
            result["firstMessage"] = self._message_json(page.first_message)
        if page.note:
            result["note"] = page.note
        if page.next_before_event is not None:
            result["earlier"] = f"There are earlier messages. Call work_fetch with this threadId and beforeEvent {page.next_before_event}."
            result["nextBeforeEvent"] = page.next_before_event
        return result

    async def _hand_over_page(self, thread_id: str, event_id: int) -> None:
        """Record that the newest messages of a thread are handed to the agent, if some of them are addressed to it and unread."""
        mark = await self._store_access.read(lambda tx: tx.fetch_one(tx.sql.read_of_thread, agent=self._agent, thread_id=thread_id))
        if mark is not None and mark.read_event_id < mark.latest_event_id:
            await self._hand_over_thread(thread_id, event_id)

    async def _hand_over_thread(self, thread_id: str, event_id: int) -> None:
        handing = partial(handovers.hand_over_reply, thread_id=thread_id, event_id=event_id, agent=self._agent)
        handing = partial(handing, client=self._call.client)
        await self._call.hand_over(self._store_access.write(verify_in_write(self._caller, handing), DOOR))

    async def work_claim(self, arguments: Arguments) -> JsonObject:
        lease = {"lease_seconds": arguments.get("leaseSeconds", leases.DEFAULT_LEASE_SECONDS)}
        if "threadId" in arguments:
            takeover = arguments.get("takeover", False)
            claim = await self._run_write(leases.claim, thread_id=arguments["threadId"], agent=self._agent, takeover=takeover, **lease)
        elif "taskId" in arguments:
            claim = await self._run_write(taking.take_task, task_id=arguments["taskId"], agent=self._agent, **lease)
        else:
            taken = await self._run_write(taking.take, agent=self._agent, **lease)
            if taken is None:
                return {
                    "thread": None,
                    "messages": [],
                    "more": False,
                    "leaseToken": None,
                    "next": "There is no work. work_fetch can wait for some.",
                }
            claim = taken
        page = await self._read_thread_page(claim.thread.thread_id)
        return {**page, "thread": self._thread_json(claim.thread), "leaseToken": claim.lease.lease_token}

    async def work_update(self, arguments: Arguments) -> JsonObject:
        thread_id, after = arguments["threadId"], arguments.get("afterEvent")
        lease: Arguments = {"thread_id": thread_id, "agent": self._agent, "lease_token": arguments.get("leaseToken")}
        if after is None:
            payload = jsontext.dumps({"choices": arguments["choices"]}) if "choices" in arguments else "{}"
            content = {name: arguments[name] for name in ("status", "summary", "body", "to") if name in arguments}
            after = (await self._run_write(progress.update, payload_json=payload, **content, **lease)).next_event_id
        else:  # an agent that waits is alive, so its lease is renewed
            await self._run_write(leases.renew, **lease)
        reply = await self._wait_for_reply(thread_id, after, arguments.get("waitSeconds", 0))
        thread, _ = await self._look(lambda tx: messages.get_thread(tx, thread_id))
        answer: JsonObject = {"thread": self._thread_json(thread), "next_event_id": after if reply is None else reply.event_id}
        if reply is not None:
            return {**answer, "reply": self._message_json(reply)}
        if arguments.get("waitSeconds"):
            answer["resume"] = "No reply yet. Call work_update with threadId, afterEvent and waitSeconds to go on waiting."
        return answer

    async def _wait_for_reply(self, thread_id: str, after: int, seconds: float) -> Message | None:
        kinds = jsontext.dumps(list(WAITED_KINDS))

        if not seconds:
            return None
        span: Arguments = {"agent": self._agent, "after": after}
        question = await self._look(lambda tx: questions.find_waited_question(tx, thread_id, **span))

        async def find_reply() -> Message | None:
            return await self._look(lambda tx: questions.find_reply(tx, thread_id, kinds_json=kinds, question=question, **span))

        reply = await self._store_access.wait(find_reply, thread_filter(thread_id), min(seconds, MAX_WAIT_SECONDS))
        if reply is not None:
            await self._hand_over_thread(thread_id, reply.event_id)
        return reply

    async def work_done(self, arguments: Arguments) -> JsonObject:
        if ("threadId" in arguments) == ("taskId" in arguments):
            raise InvalidInput("name the thread that you end, or the result that you have read", field="threadId", hint="One of the two.")
        if "taskId" in arguments:
            return await self.acknowledge_result(arguments["taskId"])
        content = {"summary": arguments.get("summary", ""), "body": arguments.get("body", "")}
        lease = {"thread_id": arguments["threadId"], "agent": self._agent, "lease_token": arguments.get("leaseToken")}
        verbs: dict[str, Callable[..., Any]] = {"done": progress.done, "failed": progress.fail, "released": leases.release}
        if arguments["outcome"] == "released":
            content = {"reason": content["summary"] or content["body"]}
        posted = await self._run_write(verbs[arguments["outcome"]], **lease, **content)
        return {"thread": self._thread_json(posted.thread)}

    async def _run_write(self, verb: Callable[..., Any], **arguments: Any) -> Any:
        return await self._store_access.write(make_call(self._caller, verb, **arguments), DOOR)

    async def _run_read(self, verb: Callable[..., Any], **arguments: Any) -> Any:
        return await self._store_access.read_in_thread(make_call(self._caller, verb, **arguments))

    async def _look(self, look: Callable[[Transaction], T]) -> T:
        return await self._store_access.read(self._verified(look))

    def _verified(self, look: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        """Return a read that verifies the token first: it may have been revoked during a wait."""

        def verify_and_look(tx: Transaction) -> T:
            verify_token(tx, self._caller)
            return look(tx)

        return verify_and_look

    # The JSON that an agent receives

    def _visible_name(self, name: str | None) -> str | None:
        return "you" if name == self._agent else name

    def _thread_json(self, thread: Thread) -> JsonObject:
        return {
            "threadId": thread.thread_id,
            "subject": thread.subject,
            "status": thread.status,
            "priority": thread.priority,
            "from": self._visible_name(thread.created_by),
            "assignedTo": self._visible_name(thread.assigned_to),
            "run": thread.run_id,
            "task": thread.task_id,
            "createdAt": thread.created_at,
            "updatedAt": thread.updated_at,
        }

    def _message_json(self, message: Message) -> JsonObject:
        content: JsonObject = {name: getattr(message, name) for name in ("kind", "summary", "body")}
        if message.payload_json != "{}":
            content["payload"] = _parse_payload(message.payload_json)
        if message.artifacts:
            content["artifacts"] = [_artifact_json(artifact) for artifact in message.artifacts]
        names = {"from": self._visible_name(message.from_agent), "to": self._visible_name(message.to_agent)}
        ids: JsonObject = {"messageId": message.message_id, "eventId": message.event_id}
        if message.kind == "question":
            ids["open"] = bool(message.is_open)
        if message.in_reply_to is not None:
            ids["inReplyTo"] = message.in_reply_to
        return {**names, **content, "at": message.created_at, "verified": message.verified, "door": message.door, **ids}

    def _entry_json(self, entry: Entry) -> JsonObject:
        fields = entry.to_json()
        for name in ("workspaceId", "workspaceLabel", "from"):
            del fields[name]
        return {"entryId": fields.pop("id"), **fields}

    def _without_own_names(self, answer: JsonObject) -> JsonObject:
        """Return a refusal in which the names of the agent and of its workspace are replaced by "you"."""
        error = {"message": "", **answer["error"]}  # the reason first: some programs show only the beginning
        if error["code"] == InvalidInput.code:
            return {"error": error, "ok": False}  # it is about the arguments, which hold no such names
        own_names = re.compile(rf"(?<![\w-])(?:{re.escape(self._agent)}|{re.escape(self._workspace.workspace_id)})(?![\w-])")
        texts = {
            key: own_names.sub("you", value) for key, value in error.items() if isinstance(value, str) and key not in ("code", "field")
        }
        return {"error": {**error, **texts}, "ok": False}


def _artifact_json(artifact: Artifact) -> JsonObject:
    metadata = {} if artifact.metadata_json == "{}" else {"metadata": _parse_payload(artifact.metadata_json)}
    return {"path": artifact.path, "kind": artifact.kind, **metadata}


def _parse_payload(payload_json: str) -> Any:
    """Return the payload of a message, or its text if it is not JSON that every reader takes: an older version may have stored it."""
    try:
        return jsontext.loads(checks.json_object("payload", payload_json))
    except InvalidInput:
        return payload_json
