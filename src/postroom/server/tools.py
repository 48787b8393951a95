"""What the tools do. The agent that calls is known by its workspace; nothing it sends, and nothing it gets, names either."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from postroom.core import jsontext
from postroom.core.entries import OPEN, Answer, Entry, Received, Workspace
from postroom.core.errors import Forbidden, InvalidInput, Refusal
from postroom.core.records import Message, Thread
from postroom.core.states import PENDING, WAITED_KINDS
from postroom.mail.waiting import Tide
from postroom.people import asking, documents, entries, ledger, receiving
from postroom.server.answers import failure
from postroom.server.desk import LONGEST_WAIT, Desk, of_agent, of_entry, of_thread, of_work
from postroom.store.port import Transaction
from postroom.work import candidates, leases, messages, progress, threads

ASK_SECONDS = 45.0
DOOR = "mcp"
Arguments = dict[str, Any]
Answered = dict[str, Any]


class Tools:
    """The tools of one workspace, for one call."""

    def __init__(self, desk: Desk, workspace: Workspace, door: str = DOOR) -> None:
        self._desk = desk
        self._door = door
        self._workspace = workspace
        self._agent = workspace.agent

    async def call(self, name: str, given: Arguments) -> tuple[Answered, bool]:
        """The answer of a tool, and whether it is a refusal."""
        tool: Callable[[Arguments], Awaitable[Answered]] = getattr(self, name)
        try:
            return {"ok": True, **await tool(given)}, False
        except Refusal as refusal:
            return self._impersonal(failure(refusal)), True

    async def inbox_push(self, given: Arguments) -> Answered:
        paths, said = documents.named(given.get("docs", ())), ledger.text("comments", given.get("comments") or "")
        entries.something(paths, said)
        entry = await self._write(partial(entries.place, workspace=self._workspace, described=await self._described(paths), comments=said))
        return {"entryId": entry.id, "ts": entry.ts}

    async def _described(self, paths: list[str]) -> documents.Described:
        """Files are read before anything is locked."""
        return await asyncio.to_thread(documents.described, self._workspace.path, paths) if paths else documents.Described()

    async def inbox_read(self, given: Arguments) -> Answered:
        limit = given.get("limit", 20)
        if given.get("old"):
            found = await self._desk.ask(partial(receiving.old_messages, agent=self._agent, limit=limit))
        else:
            found = await self._received(limit, given.get("waitSeconds", 0))
        answer: Answered = {"messages": [message.plain() for message in found], "more": len(found) == limit}
        if not found and given.get("waitSeconds"):
            answer["next"] = "Nothing came. Call inbox_read again to go on waiting."
        if given.get("entries"):
            own = await self._desk.fresh(lambda tx: entries.page_of_agent(tx, self._agent, limit))
            answer["entries"] = [self._entry(entry) for entry in own]
        return answer

    async def _received(self, limit: int, seconds: float) -> tuple[Received, ...]:
        async def look() -> tuple[Received, ...] | None:
            if not await self._desk.fresh(partial(receiving.is_waiting, agent=self._agent)):
                return None
            return await self._write(partial(receiving.read_messages, agent=self._agent, limit=limit)) or None

        tide = partial(Tide.of, session=self._agent)
        found = await (self._desk.wait(look, of_agent(self._agent), seconds, tide) if seconds else look())
        return found or ()

    async def inbox_ask(self, given: Arguments) -> Answered:
        if ("entryId" in given) == ("question" in given):
            raise InvalidInput("give a question, or the entryId of one that you asked", field="question", hint="One of the two.")
        entry_id = given.get("entryId") or (await self._ask(given)).id
        seconds = given.get("waitSeconds", ASK_SECONDS)
        answer = await self._answer(entry_id, seconds)
        told: Answered = {"entryId": entry_id, "state": answer.state}
        if answer.state == OPEN:
            told["resume"] = "Nobody has answered yet. Call inbox_ask with this entryId to go on waiting; inbox_read brings the answer too."
            return {**told, "deadline": answer.deadline}
        return {
            **told,
            "answer": answer.answer,
            "choice": answer.choice,
            "answeredBy": answer.answered_by,
            "answeredAt": answer.answered_at,
        }

    async def _ask(self, given: Arguments) -> Entry:
        named = {"deadlineSeconds": "deadline_seconds", "onSilence": "on_silence", "escalateTo": "escalate_to"}
        said = {named.get(key, key): value for key, value in given.items() if key not in ("waitSeconds", "docs")}
        described = await self._described(documents.named(given.get("docs", ())))
        entry: Entry = await self._write(partial(asking.ask_described, workspace=self._workspace, described=described, **said))
        return entry

    async def _answer(self, entry_id: str, seconds: float) -> Answer:
        async def look() -> Answer | None:
            answer = await self._desk.fresh(lambda tx: asking.standing(tx, entry_id, agent=self._agent))
            return None if answer.state == OPEN else answer

        found = await (self._desk.wait(look, of_entry(entry_id), seconds) if seconds else look())
        if found is None:
            return await self._desk.fresh(lambda tx: asking.standing(tx, entry_id, agent=self._agent))
        answer: Answer = await self._write(partial(asking.collect, entry_id=entry_id, answer=found))
        return answer

    async def work_fetch(self, given: Arguments) -> Answered:
        async def look() -> list[Answered] | None:
            found = await self._desk.ask(partial(candidates.fetch, agent=self._agent, limit=given.get("limit", 20)))
            return [{**self._thread(one.thread), "lapsed": one.lapsed} for one in found] or None

        seconds = given.get("waitSeconds", 0)
        lapse = partial(candidates.next_lapse, agent=self._agent)
        listed = await (self._desk.wait(look, of_work(self._agent), seconds, lapse) if seconds else look())
        return {"threads": listed or []}

    async def work_claim(self, given: Arguments) -> Answered:
        lease = {"lease_seconds": given.get("leaseSeconds", leases.LEASE_SECONDS)}
        if "threadId" in given:
            await self._desk.read(lambda tx: self._may_claim(tx, given["threadId"]))
            takeover = given.get("takeover", False)
            claim = await self._write(partial(leases.claim, thread_id=given["threadId"], agent=self._agent, takeover=takeover, **lease))
        else:
            taken = await self._write(partial(candidates.take, agent=self._agent, **lease))
            if taken is None:
                return {"thread": None, "messages": [], "leaseToken": None, "next": "There is no work. work_fetch can wait for some."}
            claim = taken
        said = await self._desk.ask(partial(threads.show, thread_id=claim.thread.thread_id))
        return {
            "thread": self._thread(claim.thread),
            "messages": [self._message(message) for message in said.messages],
            "leaseToken": claim.lease.lease_token,
        }

    def _may_claim(self, tx: Transaction, thread_id: str) -> None:
        """Over the network, what waits for another is not anybody's; what a lost worker left is."""
        thread, lease = messages.found(tx, thread_id)
        if thread.status == PENDING and thread.assigned_to != self._agent and (lease is None or not lease.held):
            raise Forbidden("that thread is for another agent", hint="work_fetch lists what you can claim.")

    async def work_update(self, given: Arguments) -> Answered:
        thread_id, after = given["threadId"], given.get("afterEvent")
        key: Arguments = {"thread_id": thread_id, "agent": self._agent, "lease_token": given.get("leaseToken")}
        if after is None:
            payload = jsontext.dumps({"choices": given["choices"]}) if "choices" in given else "{}"
            said = {key: given[key] for key in ("status", "summary", "body", "to") if key in given}
            after = (await self._write(partial(progress.update, payload_json=payload, **said, **key))).next_event_id
        else:  # who waits lives: the lease is renewed
            await self._write(partial(leases.renew, **key))
        reply = await self._reply(thread_id, after, given.get("waitSeconds", 0))
        thread, _ = await self._desk.read(lambda tx: messages.found(tx, thread_id))
        answer: Answered = {"thread": self._thread(thread), "next_event_id": after if reply is None else reply.event_id}
        if reply is not None:
            return {**answer, "reply": self._message(reply)}
        if given.get("waitSeconds"):
            answer["resume"] = "No reply yet. Call work_update with threadId, afterEvent and waitSeconds to go on waiting."
        return answer

    async def _reply(self, thread_id: str, after: int, seconds: float) -> Message | None:
        kinds = jsontext.dumps(list(WAITED_KINDS))

        async def look() -> Message | None:
            row = await self._desk.read(lambda tx: tx.one(tx.sql.message_after, thread_id=thread_id, after=after, kinds=kinds))
            return None if row is None else Message(*row)

        if not seconds:
            return None
        found = await self._desk.wait(look, of_thread(thread_id), min(seconds, LONGEST_WAIT))
        if found is not None:
            await self._write(partial(threads.mark_read, thread_id=thread_id, agent=self._agent, event_id=found.event_id))
        return found

    async def work_done(self, given: Arguments) -> Answered:
        said = {"summary": given.get("summary", ""), "body": given.get("body", "")}
        key = {"thread_id": given["threadId"], "agent": self._agent, "lease_token": given.get("leaseToken")}
        verbs: dict[str, Callable[..., Any]] = {"done": progress.done, "failed": progress.fail, "released": leases.release}
        if given["outcome"] == "released":
            said = {"reason": said["summary"] or said["body"]}
        posted = await self._write(partial(verbs[given["outcome"]], **key, **said))
        return {"thread": self._thread(posted.thread)}

    async def _write(self, verb: Callable[..., Any]) -> Any:
        return await self._desk.write(verb, self._door)

    # What an agent gets to see

    def _name(self, name: str | None) -> str | None:
        return "you" if name == self._agent else name

    def _thread(self, thread: Thread) -> Answered:
        return {
            "threadId": thread.thread_id,
            "subject": thread.subject,
            "status": thread.status,
            "priority": thread.priority,
            "from": self._name(thread.created_by),
            "assignedTo": self._name(thread.assigned_to),
            "run": thread.run_id,
            "task": thread.task_id,
            "createdAt": thread.created_at,
            "updatedAt": thread.updated_at,
        }

    def _message(self, message: Message) -> Answered:
        shown: Answered = {name: getattr(message, name) for name in ("kind", "summary", "body")}
        if message.payload_json != "{}":
            shown["payload"] = jsontext.loads(message.payload_json)
        names = {"from": self._name(message.from_agent), "to": self._name(message.to_agent)}
        return {**names, **shown, "at": message.created_at, "verified": message.verified, "eventId": message.event_id}

    def _entry(self, entry: Entry) -> Answered:
        shown = entry.plain()
        for name in ("workspaceId", "workspaceLabel", "from"):
            del shown[name]
        return {"entryId": shown.pop("id"), **shown}

    def _impersonal(self, answer: Answered) -> Answered:
        """A refusal without the names that the agent is not to know."""
        error = answer["error"]
        if error["code"] == InvalidInput.code:
            return answer  # it speaks of what was given, and nobody gives names
        own = re.compile(rf"(?<![\w-])(?:{re.escape(self._agent)}|{re.escape(self._workspace.workspace_id)})(?![\w-])")
        said = {key: own.sub("you", value) for key, value in error.items() if isinstance(value, str) and key not in ("code", "field")}
        return {"ok": False, "error": {**error, **said}}
