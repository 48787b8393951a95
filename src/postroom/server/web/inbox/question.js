// The question of an entry: its choices as buttons, the time that is left, and its outcome.

import { h } from "../lib/dom.js";
import { clock, everySecond, full, left, when } from "../lib/time.js";

const ENDED = {
  default: (question) => `Nobody answered in time, so “${question.answer ?? question.default}” holds.`,
  refused: () => "Nobody answered in time: it counts as refused.",
  ended: () => "It is not asked any more.",
};

export function questionOf({ question }, answer) {
  if (question.state !== "open")
    return h("section.question", { "data-state": question.state, "aria-label": "Question" }, h("p", {}, ended(question)));
  const choices = question.choices.map((choice, at) =>
    h("button", { type: "button", "data-number": at < 9 ? String(at + 1) : null, onclick: () => answer(choice) }, choice),
  );
  return h(
    "section.question",
    { "data-state": "open", "aria-label": "Question" },
    h("p.asked", {}, `A question for ${question.to}`, question.escalatedAt && ", who was asked because nobody else answered"),
    choices.length ? h("div.choices", { role: "group", "aria-label": "Choices" }, choices) : null,
    question.deadline && countdown(question),
  );
}

function ended(question) {
  if (question.state !== "answered") return (ENDED[question.state] ?? (() => question.state))(question);
  const at = when(question.answeredAt);
  return [
    h("strong", {}, question.choice ?? short(question.answer ?? "Answered")),
    ` by ${question.answeredBy}`,
    h("span.soft", { title: full(at) }, ` · ${clock(at)}`),
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
