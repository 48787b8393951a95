// The first five minutes: the exact commands that connect an agent, and that sign a person in.

import { h } from "../lib/dom.js";
import { commandWords } from "./state.js";

function command(caption, text) {
  const copy = h("button", { type: "button", onclick: () => copied(copy, text) }, "Copy");
  return h("figure", {}, h("figcaption", {}, caption), h("div.command", {}, h("pre", { tabindex: "0" }, commandWords(text)), copy));
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling); // not allowed: then it is chosen, and can be copied by hand
    button.textContent = "Press Ctrl-C";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

export function commands() {
  const origin = location.origin;
  return h(
    "div.commands",
    {},
    command("1. Make the folder that your agent works in a workspace", 'inbox workspace add . --label "My project"'),
    command(
      "2. Connect the agent, with the id and the token that this printed",
      `export INBOX_TOKEN=prw_…\nclaude mcp add --transport http inbox ${origin}/mcp/ws_… \\\n  --header "Authorization: Bearer $INBOX_TOKEN"`,
    ),
    command(
      "Or try it without one: this asks you, here, and waits for your answer",
      'inbox ask --from me --question "Shall we?" --choice Yes --choice No',
    ),
  );
}

/** The first steps, shown while there is no entry. */
export function firstRun() {
  return h(
    "div.empty.wide",
    {},
    h("h2", {}, "Connect an agent"),
    h("p", {}, "Nothing has arrived yet. What your agents push and ask appears here, as it happens."),
    commands(),
  );
}

export function signedOut() {
  return h(
    "div.empty.wide",
    {},
    h("h2", {}, "Sign in"),
    h("p", {}, "This page is for people that the server knows. A link that works once lets you in:"),
    h("div.commands", {}, command("On the machine that the server runs on", "inbox sign-in")),
  );
}
