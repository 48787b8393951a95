// Start something: work for an agent as a thread or a task, or a message into its mailbox. @name addresses an agent or a person. A person
// reads no mailbox, and is told by a notice.

import { get, post } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { address, go } from "../lib/router.js";
import { draft, dropDraft, keepDraft, keyFor } from "../lib/settings.js";
import { dialog } from "./dialog.js";
import { failed, toast } from "./toast.js";

const MOST_ATTACHED_BYTES = { thread: 200_000, message: 200_000, task: 90_000 }; // of a text that goes into the message itself
const OF = "compose";

export async function compose() {
  if (document.querySelector("dialog[open]")) return;
  const { agents } = await get("/api/agents").catch(() => ({ agents: [] }));
  const kept = JSON.parse(draft(OF).text || "{}");
  const to = h("input", {
    name: "to",
    type: "text",
    required: true,
    list: "names",
    placeholder: "@agent",
    autocomplete: "off",
    autofocus: true,
  });
  const kind = h(
    "select",
    { name: "kind", "aria-label": "Kind" },
    h("option", { value: "thread" }, "Work: a thread to claim and end"),
    h("option", { value: "task" }, "Task: to accept and complete"),
    h("option", { value: "message" }, "Message: into its mailbox"),
  );
  const subject = h("input", { name: "subject", type: "text", placeholder: "What is it about?", dir: "auto" });
  const body = h("textarea", { name: "body", rows: "6", placeholder: "What should they do or know? @name tells others.", dir: "auto" });
  [to.value, kind.value, subject.value, body.value] = [kept.to ?? "", kept.kind ?? "thread", kept.subject ?? "", kept.body ?? ""];
  const [file, fileLine] = fileField(kind);
  const names = h(
    "datalist",
    { id: "names" },
    agents.map(({ name }) => h("option", { value: `@${name}` })),
  );
  const labelled = (text, field) => h("label", {}, h("span", {}, text), field);
  const form = h(
    "form.compose-form",
    {},
    labelled("To", to),
    labelled("Kind", kind),
    labelled("Subject", subject),
    labelled("Text", body),
    labelled("File", fileLine),
    names,
    h("div.actions", {}, h("button.primary", { type: "submit" }, "Send")),
  );
  const read = () => ({ to: to.value.trim().replace(/^@/, ""), kind: kind.value, subject: subject.value.trim(), body: body.value });
  form.addEventListener("input", () => keepDraft(OF, { text: JSON.stringify(read()) }));
  form.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const written = read();
    if (!written.subject && !written.body.trim()) return subject.focus();
    const known = new Map(agents.map(({ name, kind }) => [name, kind === "human"]));
    if (await send(written, file.files[0], known)) element.close();
  });
  const element = dialog("New message", form);
}

/** Send to the addressee, and tell those who are mentioned. `known`: name → whether it is a person. Return whether it was sent. */
async function send(written, file, known) {
  try {
    const body = await withFile(written, file);
    const key = keyFor(OF, JSON.stringify({ ...written, body }));
    const sent = await deliver({ ...written, body }, key, known.get(written.to));
    const mentioned = [...body.matchAll(/(?<![\p{L}\p{N}])@([\p{L}\p{N}._-]+)/gu)].map(([, name]) => name);
    const others = [...new Set(mentioned)].filter((name) => known.has(name) && name !== written.to);
    const told = sent ? `${body}\n\n[The ${written.kind}](${location.origin}${sent})` : body;
    for (const name of others)
      await deliver({ ...written, body: known.get(name) ? told : body, to: name, kind: "message" }, `${key}-${name}`, known.get(name));
    if (sent && known.get(written.to)) await deliver({ ...written, body: told, kind: "message" }, key, true);
    dropDraft(OF);
    toast(others.length ? `Sent to ${written.to}, and told ${others.join(", ")}` : `Sent to ${written.to}`);
    if (sent) go(sent);
    return true;
  } catch (error) {
    failed("It was not sent.", error, { kept: true });
    return false;
  }
}

/** A field for a file. What cannot go with a message of the chosen kind is said at once. Return the field, and the line around it. */
function fileField(kind) {
  const field = h("input", { name: "file", type: "file", "aria-label": "Attach a text file" });
  const limit = h("p.soft.small");
  const wrong = h("p.wrong-text.small", { role: "alert", hidden: true });
  const check = async () => {
    limit.textContent = `A text of at most ${mostAttached(kind.value)}`;
    wrong.hidden = true;
    const chosen = field.files[0];
    await textOf(chosen, kind.value).catch((error) => {
      wrong.hidden = field.files[0] !== chosen;
      wrong.textContent = error.message;
    });
  };
  for (const each of [field, kind]) each.addEventListener("change", check);
  check();
  return [field, h("div", {}, field, limit, wrong)];
}

const mostAttached = (kind) => `${MOST_ATTACHED_BYTES[kind] / 1000} KB`;

/** The text of a file. Refuses one that a message of this kind cannot carry. */
async function textOf(file, kind) {
  if (!file) return "";
  const refuse = (why) => {
    const limit = `A ${kind === "task" ? "task" : "message"} carries texts of at most ${mostAttached(kind)}.`;
    throw new Error(`${file.name} ${why}. ${limit} Put it into the folder of the agent, and write its path.`);
  };
  if (file.size > MOST_ATTACHED_BYTES[kind]) refuse("is larger");
  const text = await file.text();
  return text.includes("\0") || text.includes("\ufffd") ? refuse("is not a text") : text;
}

/** The text of a message, with an attached text in a fence that is longer than those in it. */
async function withFile({ body, kind }, file) {
  if (!file) return body;
  const text = await textOf(file, kind);
  const longest = Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${body}\n\n\`${file.name}\`:\n\n${fence}\n${text}\n${fence}`;
}

/** Send one message. Return the address of the thread or the task that it began, if it did. */
async function deliver({ to, kind, subject, body }, key, isPerson = false) {
  const whole = [subject, body].filter((part) => part.trim()).join("\n\n");
  if (kind === "message" && isPerson) {
    await post("/api/notices", { text: `@${to}: ${whole}` });
    return null;
  }
  if (kind === "message") {
    await post("/api/mailbox", { msg_id: key, to, payload: whole });
    return null;
  }
  if (kind === "task") {
    const { task } = await post("/api/tasks", { to, description: whole });
    return address("tasks", task.task_id);
  }
  const { thread } = await post(
    "/api/threads",
    { to, subject: subject || body.trim().split("\n")[0].slice(0, 200), body },
    { "Idempotency-Key": key },
  );
  return address("threads", thread.thread_id);
}
