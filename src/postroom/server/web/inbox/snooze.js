// When a snoozed entry comes back.

import { h } from "../lib/dom.js";
import { clock } from "../lib/time.js";
import { dialog } from "../parts/dialog.js";

function at(days, hour) {
  const date = new Date();
  date.setDate(date.getDate() + days);
  return date.setHours(hour, 0, 0, 0);
}

const untilMonday = () => (8 - new Date().getDay()) % 7 || 7;

/** Ask until when. Return {until, text}, with until null for "until something new arrives", or null if the person thought better of it. */
export function askWhen() {
  const now = Date.now();
  const times = [
    ["In an hour", now + 60 * 60_000],
    ["This evening", at(0, 18)],
    ["Tomorrow", at(1, 9)],
    ["Next week", at(untilMonday(), 9)],
  ].filter(([, until]) => until > now);
  return new Promise((done) => {
    let chosen = null;
    const take = (until) => {
      chosen = { until, text: until ? `Snoozed until ${clock(until)}` : "Snoozed until something new arrives" };
      element.close();
    };
    const button = ([name, until], number) =>
      h(
        "button.when",
        { type: "button", autofocus: number === 0, onclick: () => take(until) },
        h("span", {}, name),
        h("span.soft", {}, until ? clock(until) : ""),
      );
    const own = h("input", { type: "datetime-local", "aria-label": "Until" });
    const form = h(
      "form.snooze",
      {},
      [...times, ["Until something new arrives", null]].map(button),
      h("div.actions", {}, own, h("button", { type: "submit" }, "Snooze")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const until = own.valueAsNumber ? new Date(own.value).getTime() : NaN;
      if (until > Date.now()) take(until);
      else own.focus();
    });
    const element = dialog("Snooze", form);
    element.addEventListener("close", () => done(chosen));
  });
}
