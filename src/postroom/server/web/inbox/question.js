// The question of an entry: its choices as buttons, or a proposal to approve, edit or reject; the time that is left, and its outcome.

import { h } from "../lib/dom.js";
import { draft, dropDraft, keepDraft, keptReplyTo } from "../lib/settings.js";
import { clock, everySecond, full, left, when } from "../lib/time.js";
import { confirm } from "../parts/dialog.js";

const ENDED = {
  default: (question) => `Nobody answered in time, so “${question.answer ?? question.default}” holds.`,
  refused: () => "Nobody answered in time: it counts as refused.",
  ended: () => "It is not asked any more.",
};
export const NAMES = { approve: "Approve", edit: "Approve with changes", reject: "Reject" };
const DECIDED = { approve: "Approved", edit: "Approved with changes", reject: "Rejected" };

/** Ask for a confirmation if the agent marked a choice as dangerous. Return whether to go on. */
export const mayChoose = (question, choice) =>
  !question.dangerous?.includes(choice) ||
  confirm("Are you sure?", `The agent marked “${choice}” as dangerous.`, choice, { no: "Cancel", safe: true });

/** `act`: {answer(choice), decide(decision), edited()}. `pending` is the answer that can still be taken back. */
export function questionOf({ question }, act, { person, pending }) {
  if (question.state !== "open")
    return h("section.question", { "data-state": question.state, "aria-label": "Question" }, h("p", {}, ended(question)));
  const kept = keptReplyTo(question.entryId);
  const choices = question.choices.map((choice, at) => choiceButton(question, choice, at, act));
  const asked = question.to === person ? "A question for you" : `A question for ${question.to}. You may answer it, too`;
  return h(
    "section.question",
    { "data-state": "open", "data-of": question.entryId, "aria-label": "Question" },
    h("p.asked", {}, asked, question.escalatedAt && ", because nobody else answered"),
    choices.length ? h("div.choices", { role: "group", "aria-label": "Choices" }, choices) : null,
    question.proposal && proposalOf(question, act),
    pending ? pendingNote(pending) : kept && h("p.waits", {}, keptNote(kept.body)),
    question.deadline && countdown(question),
  );
}

/** The line below a question whose answer waits until the server is back. */
export const keptNote = ({ body, decision }) => `“${short(body ?? NAMES[decision.type])}” is sent when the server is back.`;

/** The line below a question whose answer can still be taken back. */
export function pendingNote(words) {
  const keys = h("span.keys", {}, h("kbd", {}, "Enter"), " sends it now, ", h("kbd", {}, "z"), " takes it back.");
  return h("p.waits", {}, `“${short(words)}” goes out in a moment. `, keys);
}

function choiceButton(question, choice, at, act) {
  const dangerous = question.dangerous?.includes(choice);
  const attributes = { type: "button", "data-number": at < 9 ? String(at + 1) : null, onclick: () => act.answer(choice) };
  return h(dangerous ? "button.danger" : "button", attributes, choice);
}

const draftOf = (entryId) => `proposal:${entryId}`;
const written = (entryId) => JSON.parse(draft(draftOf(entryId)).text || "{}");
const NOTHING_WRITTEN = { text: null, reason: "" };

/** Keep what a person wrote about a proposal: its `text` (null if it is unchanged), or the `reason` to reject it. */
function keepWritten(entryId, changes) {
  const { text, reason } = { ...NOTHING_WRITTEN, ...written(entryId), ...changes };
  keepDraft(draftOf(entryId), { text: text !== null || reason ? JSON.stringify({ text, reason }) : "" });
}

/** Whether a person changed a proposal and has not sent that. */
const isEdited = ({ entryId }) => (written(entryId).text ?? null) !== null;

/** The decision to approve a proposal as it is, or as the person changed it. Throws a SyntaxError if changed arguments are not JSON. */
export function approvalOf(question) {
  if (!isEdited(question)) return { type: "approve" };
  const { proposal, entryId } = question;
  const { text } = written(entryId);
  return { type: "edit", proposal: "text" in proposal ? { text } : { action: proposal.action, args: JSON.parse(text) } };
}

/** Ask for the reason of a rejection, which is kept until it was sent. Return the decision, or null. */
export async function askToReject({ proposal, entryId }) {
  const reason = reasonField(entryId, { autofocus: true });
  const answer = await confirm("Reject this proposal?", short(proposed(proposal)), "Reject", { reason, no: "Cancel" });
  return answer && { type: "reject", reason: answer.reason };
}

/** A proposal on one line: its text, or the action with its arguments. */
export const proposed = ({ text, action, args }) => text ?? `${action} ${JSON.stringify(args)}`;

function reasonField(entryId, attributes = {}) {
  const field = h("input", { type: "text", "aria-label": "Reason", placeholder: "Reason to reject (optional)", ...attributes });
  field.value = written(entryId).reason ?? "";
  field.addEventListener("input", () => keepWritten(entryId, { reason: field.value }));
  return field;
}

/** Forget what a person wrote into a proposal: the server has it. */
export const forgetProposal = (entryId) => dropDraft(draftOf(entryId));

/** What the button to approve a proposal says. */
export const approveName = (question) => (isEdited(question) ? NAMES.edit : NAMES.approve);

/** A text or the arguments of an action, which can be edited in place. What is written is kept until it was sent. */
function proposalOf(question, act) {
  const { proposal, entryId } = question;
  const text = proposal.text ?? JSON.stringify(proposal.args, null, 2);
  const rows = String(Math.min(16, text.split("\n").length + 1));
  const field = h("textarea.proposal", { "aria-label": "Proposal", rows, dir: "auto" });
  field.value = written(entryId).text ?? text;
  const wrong = h("p.wrong-text", { role: "alert", hidden: true });
  const approve = h("button.primary", { type: "button", "data-number": "1", onclick: () => send() });
  approve.textContent = approveName(question);
  const reason = reasonField(entryId);
  field.addEventListener("input", () => {
    keepWritten(entryId, { text: field.value === text ? null : field.value });
    if (approve.textContent === approveName(question)) return;
    approve.textContent = approveName(question);
    act.edited();
  });
  const send = (decide = act.decide) => {
    try {
      decide(approvalOf(question));
      wrong.hidden = true;
    } catch (error) {
      wrong.hidden = false;
      wrong.textContent = `The arguments are not JSON: ${error.message}`;
    }
  };
  send(() => {}); // say what is wrong with arguments that were written before
  const reject = () => act.decide({ type: "reject", reason: reason.value.trim() });
  return h(
    "div.deciding",
    {},
    proposal.action && h("p", {}, "Proposed action: ", h("code", {}, proposal.action)),
    field,
    wrong,
    h("div.actions", {}, approve, h("button.danger", { type: "button", "data-number": "2", onclick: reject }, "Reject"), reason),
  );
}

function ended(question) {
  if (question.state !== "answered") return (ENDED[question.state] ?? (() => question.state))(question);
  const at = when(question.answeredAt);
  const outcome = question.decision ? DECIDED[question.decision.type] : (question.choice ?? short(question.answer ?? "Answered"));
  return [
    h("strong", {}, outcome),
    ` by ${question.answeredBy}`,
    h("span.soft", { title: full(at) }, ` · ${clock(at)}`),
    question.decision?.reason && h("span", {}, ` · ${question.decision.reason}`),
  ];
}

const short = (text) => (text.length > 120 ? `${text.slice(0, 119)}…` : text);

function silence({ onSilence, default: answer, escalateTo, escalatedAt }) {
  if (escalatedAt) return "";
  return {
    wait: "it stays open after that",
    default: `then “${answer}” holds`,
    refuse: "then it counts as refused",
    escalate: `then ${escalateTo} is asked`,
  }[onSilence];
}

function countdown(question) {
  const deadline = when(question.deadline);
  const time = h("strong");
  const element = h("p.deadline", { "data-countdown": "", title: full(deadline) }, time, " ", h("span.soft", {}, silence(question)));
  return everySecond(element, () => {
    const span = deadline - Date.now();
    element.toggleAttribute("data-soon", span < 60_000);
    time.textContent = span > 0 ? `${left(span)} left` : "The time is over";
  });
}
