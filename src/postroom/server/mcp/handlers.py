"""The MCP tools. The calling agent is known from its workspace. No argument and no result names the agent or the workspace."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from postroom._fastpath import json_text as jsontext
from postroom.core import checks
from postroom.core.errors import InvalidInput, Refusal
from postroom.core.records.people import OPEN, Answer, Entry, ReceivedMessage, Workspace
from postroom.core.records.work import Message, Thread
from postroom.core.states import WAITED_KINDS
from postroom.mail.waiting import DueMailWake
from postroom.people import asking, documents, entries, receiving
from postroom.server.http.auth import Caller
from postroom.server.http.responses import refusal_json
from postroom.server.rpc.calls import make_call
from postroom.server.runtime.pushing import describe_documents, push_entry
from postroom.server.runtime.store_access import MAX_WAIT_SECONDS, StoreAccess, agent_filter, entry_filter, thread_filter, work_filter
from postroom.work import candidates, leases, messages, progress, questions, threads

DEFAULT_ASK_WAIT_SECONDS = 45.0
MAX_PROMPT_CHARS = 32 * 1024  # of the messages in one result, which goes into a prompt
DOOR = "mcp"
Arguments = dict[str, Any]
JsonObject = dict[str, Any]


class ToolHandlers:
    """The tools of one workspace, for one call. Each public method but `call_tool` is a tool."""

    def __init__(self, store_access: StoreAccess, workspace: Workspace, token: str | None = None) -> None:
        self._store_access = store_access
        self._workspace = workspace
        self._agent = workspace.agent
        self._caller = Caller(workspace.agent, DOOR, workspace, token=token)

    async def call_tool(self, name: str, arguments: Arguments) -> tuple[JsonObject, bool]:
        """Run a tool. Return its result, and whether that is a refusal."""
        tool: Callable[[Arguments], Awaitable[JsonObject]] = getattr(self, name)
        try:
            return {"ok": True, **await tool(arguments)}, False
        except Refusal as refusal:
            return self._without_own_names(refusal_json(refusal)), True

    async def inbox_push(self, arguments: Arguments) -> JsonObject:
        entry = await push_entry(self._store_access, self._workspace, DOOR, **arguments)
        return {"entryId": entry.id, "ts": entry.ts}

    async def inbox_read(self, arguments: Arguments) -> JsonObject:
        limit = arguments.get("limit", 20)
        if arguments.get("old"):
            received = await self._run_read(receiving.old_messages, agent=self._agent, limit=limit)
        else:
            received = await self._receive_messages(limit, arguments.get("waitSeconds", 0))
        more = len(received) == limit
        if received and not more and not arguments.get("old"):  # fewer, because they are large
            more = await self._store_access.read(partial(receiving.has_messages, agent=self._agent))
        answer: JsonObject = {"messages": [message.to_json() for message in received], "more": more}
        if not received and arguments.get("waitSeconds"):
            answer["next"] = "Nothing came. Call inbox_read again to go on waiting."
        if arguments.get("entries"):
            own = await self._store_access.read_current_in_thread(lambda tx: entries.page_of_agent(tx, self._agent, limit))
            answer["entries"] = [self._entry_json(entry) for entry in own]
        return answer

    async def _receive_messages(self, limit: int, seconds: float) -> tuple[ReceivedMessage, ...]:
        async def take_messages() -> tuple[ReceivedMessage, ...] | None:
            if not await self._store_access.read_current(partial(receiving.has_messages, agent=self._agent)):
                return None
            return await self._run_write(receiving.read_messages, agent=self._agent, limit=limit) or None

        if not seconds:
            return await take_messages() or ()
        due_mail = partial(DueMailWake.seconds_for_session, session=self._agent)
        return await self._store_access.wait(take_messages, agent_filter(self._agent), seconds, due_mail) or ()

    async def inbox_ask(self, arguments: Arguments) -> JsonObject:
        if ("entryId" in arguments) == ("question" in arguments):
            raise InvalidInput("give a question, or the entryId of one that you asked", field="question", hint="One of the two.")
        entry_id = arguments.get("entryId") or (await self._ask_person(arguments)).id
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
            "answeredBy": answer.answered_by,
            "answeredAt": answer.answered_at,
            "answerId": answer.answer_id,
        }

    async def _ask_person(self, arguments: Arguments) -> Entry:
        parameters = {"deadlineSeconds": "deadline_seconds", "onSilence": "on_silence", "escalateTo": "escalate_to"}
        question = {parameters.get(key, key): value for key, value in arguments.items() if key not in ("waitSeconds", "docs")}
        described = await describe_documents(self._store_access, self._workspace, documents.check_doc_paths(arguments.get("docs", ())))
        entry: Entry = await self._store_access.write(
            partial(asking.ask_described, workspace=self._workspace, described=described, **question), DOOR
        )
        return entry

    async def _wait_for_answer(self, entry_id: str, seconds: float) -> Answer:
        async def find_final_answer() -> Answer | None:
            answer = await self._store_access.read_current(lambda tx: asking.current_answer(tx, entry_id, agent=self._agent))
            return None if answer.state == OPEN else answer

        if seconds:
            final = await self._store_access.wait(find_final_answer, entry_filter(entry_id), seconds)
        else:
            final = await find_final_answer()
        if final is None:
            return await self._store_access.read_current(lambda tx: asking.current_answer(tx, entry_id, agent=self._agent))
        return await self._store_access.write(partial(asking.mark_collected, entry_id=entry_id, answer=final), DOOR)

    async def work_fetch(self, arguments: Arguments) -> JsonObject:
        if "threadId" in arguments:
            return await self._read_thread_page(arguments["threadId"], arguments.get("beforeEvent"))
        if "beforeEvent" in arguments:
            raise InvalidInput("beforeEvent needs the threadId of the thread to read", field="beforeEvent", hint="Give both.")

        async def list_candidates() -> list[JsonObject] | None:
            rows = await self._run_read(candidates.fetch, agent=self._agent, limit=arguments.get("limit", 20))
            return [{**self._thread_json(row.thread), "lapsed": row.lapsed} for row in rows] or None

        seconds = arguments.get("waitSeconds", 0)
        if not seconds:
            return {"threads": await list_candidates() or []}
        lapse = partial(candidates.seconds_until_takeable, agent=self._agent)
        return {"threads": await self._store_access.wait(list_candidates, work_filter(self._agent), seconds, lapse) or []}

    async def _read_thread_page(self, thread_id: str, before_event: int | None = None) -> JsonObject:
        """Return a thread, and a page of its messages that fits into a prompt, oldest first, and how to read the page before it."""
        page = await self._run_read(threads.show, thread_id=thread_id, before_event=before_event, max_characters=MAX_PROMPT_CHARS)
        result: JsonObject = {"thread": self._thread_json(page.thread)}
        result |= {"messages": [self._message_json(message) for message in page.messages], "more": page.more}
        if page.first_message is not None:
            result["firstMessage"] = self._message_json(page.first_message)
        if page.next_before_event is not None:
            result["earlier"] = f"There are earlier messages. Call work_fetch with this threadId and beforeEvent {page.next_before_event}."
            result["nextBeforeEvent"] = page.next_before_event
        return result

    async def work_claim(self, arguments: Arguments) -> JsonObject:
        lease = {"lease_seconds": arguments.get("leaseSeconds", leases.DEFAULT_LEASE_SECONDS)}
        if "threadId" in arguments:
            takeover = arguments.get("takeover", False)
            claim = await self._run_write(leases.claim, thread_id=arguments["threadId"], agent=self._agent, takeover=takeover, **lease)
        else:
            taken = await self._run_write(candidates.take, agent=self._agent, **lease)
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
        thread, _ = await self._store_access.read(lambda tx: messages.get_thread(tx, thread_id))
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
        question = await self._store_access.read(lambda tx: questions.find_waited_question(tx, thread_id, **span))

        async def find_reply() -> Message | None:
            return await self._store_access.read(
                lambda tx: questions.find_reply(tx, thread_id, kinds_json=kinds, question=question, **span)
            )

        reply = await self._store_access.wait(find_reply, thread_filter(thread_id), min(seconds, MAX_WAIT_SECONDS))
        if reply is not None:
            await self._run_write(threads.mark_read, thread_id=thread_id, agent=self._agent, event_id=reply.event_id)
        return reply

    async def work_done(self, arguments: Arguments) -> JsonObject:
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
        names = {"from": self._visible_name(message.from_agent), "to": self._visible_name(message.to_agent)}
        ids: JsonObject = {"messageId": message.message_id, "eventId": message.event_id}
        if message.kind == "question":
            ids["open"] = bool(message.is_open)
        if message.in_reply_to is not None:
            ids["inReplyTo"] = message.in_reply_to
        return {**names, **content, "at": message.created_at, "verified": message.verified, **ids}

    def _entry_json(self, entry: Entry) -> JsonObject:
        fields = entry.to_json()
        for name in ("workspaceId", "workspaceLabel", "from"):
            del fields[name]
        return {"entryId": fields.pop("id"), **fields}

    def _without_own_names(self, answer: JsonObject) -> JsonObject:
        """Return a refusal in which the names of the agent and of its workspace are replaced by "you"."""
        error = answer["error"]
        if error["code"] == InvalidInput.code:
            return answer  # it is about the arguments, which hold no such names
        own_names = re.compile(rf"(?<![\w-])(?:{re.escape(self._agent)}|{re.escape(self._workspace.workspace_id)})(?![\w-])")
        texts = {
            key: own_names.sub("you", value) for key, value in error.items() if isinstance(value, str) and key not in ("code", "field")
        }
        return {"ok": False, "error": {**error, **texts}}


def _parse_payload(payload_json: str) -> Any:
    """Return the payload of a message, or its text if it is not JSON that every reader takes: an older version may have stored it."""
    try:
        return jsontext.loads(checks.json_object("payload", payload_json))
    except InvalidInput:
        return payload_json
